//! Levels and stages of audit events.

/// Level of detail of an event. Each level includes the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No events.
    None,
    /// User, verb, object and outcome.
    Metadata,
    /// In addition, the body of the request.
    Request,
    /// In addition, the response.
    RequestResponse,
}

impl Level {
    /// All levels in order.
    pub const ALL: [Self; 4] = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    /// Returns the level's name in policies and events.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }

    /// Returns the level with that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// Stage of a request at which an event is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The user is known.
    RequestReceived,
    /// The head of a long-running response is sent.
    ResponseStarted,
    /// The response is complete.
    ResponseComplete,
    /// The server panicked.
    Panic,
}

impl Stage {
    /// All stages in order.
    pub const ALL: [Self; 4] = [
        Self::RequestReceived,
        Self::ResponseStarted,
        Self::ResponseComplete,
        Self::Panic,
    ];

    /// Returns the stage's name in policies and events.
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }

    /// Returns the stage with that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

/// Set of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages(u8);

impl Stages {
    /// True if the set contains `stage`.
    pub fn contains(self, stage: Stage) -> bool {
        self.0 & Self::from(stage).0 != 0
    }

    /// Returns the stages of either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl From<Stage> for Stages {
    fn from(stage: Stage) -> Self {
        Self(1 << stage as u8)
    }
}

impl FromIterator<Stage> for Stages {
    fn from_iter<I: IntoIterator<Item = Stage>>(stages: I) -> Self {
        let stages = stages.into_iter().map(Self::from);
        stages.fold(Self::default(), Self::union)
    }
}
