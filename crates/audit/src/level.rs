//! How much of a request is audited, and when.

/// How much of a request its events contain; each level contains all of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing: there are no events.
    None,
    /// User, verb, object and outcome.
    Metadata,
    /// The body of the request as well.
    Request,
    /// The answer as well.
    RequestResponse,
}

impl Level {
    /// All levels, in their order.
    pub const ALL: [Self; 4] = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    /// The level as policies and events name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }

    /// The level of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// When an event is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// As soon as the user is known.
    RequestReceived,
    /// When the head of an answer that lasts is sent.
    ResponseStarted,
    /// When the answer is complete.
    ResponseComplete,
    /// When the server failed over the request.
    Panic,
}

impl Stage {
    /// All stages, in their order.
    pub const ALL: [Self; 4] = [
        Self::RequestReceived,
        Self::ResponseStarted,
        Self::ResponseComplete,
        Self::Panic,
    ];

    /// The stage as policies and events name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }

    /// The stage of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

/// A set of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages(u8);

impl Stages {
    /// Whether `stage` is one of them.
    pub fn contains(self, stage: Stage) -> bool {
        self.0 & Self::from(stage).0 != 0
    }

    /// The stages of either set.
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
