//! Rate limits for events.

use std::time::SystemTime;

use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_limits::{KeyHash, KeyHasher, LruMap, TokenBucket};
use holdfast_resource::table::items;
use holdfast_resource::{Operation, Rejection, SharedState, WriteContext};
use holdfast_schema::Field;
use holdfast_value::Value;

use holdfast_kinds::validation::Errors;

/// Plugin that rejects events above the configured rate limits:
/// <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#eventratelimit>.
pub(super) struct EventRateLimit {
    limits: Vec<(EventLimit, SharedState<Buckets>)>,
}

/// Limit of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLimit {
    kind: LimitKind,
    per_second: i32,
    burst: i32,
    /// Maximum number of buckets.
    most: usize,
}

/// Set of events that share a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitKind {
    Server,
    Namespace,
    User,
    SourceAndObject,
}

const KINDS: [(&str, LimitKind); 4] = [
    ("Namespace", LimitKind::Namespace),
    ("Server", LimitKind::Server),
    ("SourceAndObject", LimitKind::SourceAndObject),
    ("User", LimitKind::User),
];

/// Default number of buckets.
const USUAL: usize = 4096;

impl EventLimit {
    /// Returns the limits of the configuration of the plugin.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn from_configuration(configuration: &Value) -> Result<Vec<Self>, String> {
        let limits = items(configuration, &["limits"]);
        let root = Field::root(configuration);
        if limits.is_empty() {
            return Err("limits: Invalid value: null: must not be empty".to_owned());
        }
        let mut errors = Errors::new();
        let limits = root
            .child("limits")
            .items()
            .filter_map(|limit| Self::read(&limit, &mut errors))
            .collect();
        match errors.as_slice() {
            [] => Ok(limits),
            [error] => Err(error.to_string()),
            errors => {
                let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
                Err(format!("[{}]", said.join(", ")))
            }
        }
    }

    /// upstream: plugin/pkg/admission/eventratelimit/apis/eventratelimit/validation#ValidateConfiguration
    fn read(limit: &Field<'_, '_>, errors: &mut Errors) -> Option<Self> {
        let kind = limit.child("type");
        let found = KINDS
            .iter()
            .find(|(name, _)| *name == kind.text())
            .map(|(_, kind)| *kind);
        if found.is_none() {
            errors.push(kind.not_supported(&KINDS.map(|(name, _)| name)));
        }
        let mut number = |name: &str, least: i64, why: &str| {
            let field = limit.child(name);
            let stated = if field.is_set() { field.number() } else { Some(0) };
            let number = stated
                .filter(|number| *number >= least)
                .and_then(|number| i32::try_from(number).ok());
            if number.is_none() {
                errors.push(field.invalid_number(why));
            }
            number
        };
        let burst = number("burst", 1, "must be positive");
        let per_second = number("qps", 1, "must be positive");
        let most = match found {
            Some(LimitKind::Server) => Some(0),
            _ => number("cacheSize", 0, "must not be negative"),
        };
        Some(Self {
            kind: found?,
            per_second: per_second?,
            burst: burst?,
            most: match usize::try_from(most?).ok()? {
                0 => USUAL,
                most => most,
            },
        })
    }
}

impl EventRateLimit {
    pub(super) fn new(limits: &[EventLimit]) -> Self {
        let limits = limits
            .iter()
            .map(|limit| (limit.clone(), SharedState::new(Buckets::new(limit))));
        Self {
            limits: limits.collect(),
        }
    }
}

impl AdmissionPlugin for EventRateLimit {
    fn name(&self) -> &'static str {
        "EventRateLimit"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Create, Operation::Update])
    }

    fn on_by_default(&self) -> bool {
        false
    }

    /// Returns the events of the core group. Like in the reference, no limit counts those of `events.k8s.io`.
    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_written("", "events")] }
    }

    /// upstream: plugin/pkg/admission/eventratelimit#Plugin.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        if context.dry_run {
            return Ok(());
        }
        let mut reached = Vec::new();
        for (limit, buckets) in &self.limits {
            let (name, key) = key_of(limit.kind, context, object);
            if !buckets.in_run(context.run).take(&key, context.now()) {
                let said = format!("limit reached on type {name} for key {key}");
                if !reached.contains(&said) {
                    reached.push(said);
                }
            }
        }
        let said = match reached.as_slice() {
            [] => return Ok(()),
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        Err(Rejection::TooManyRequests {
            message: format!("Too many requests: {said}"),
            retry_after_seconds: 0,
            causes: Vec::new(),
        })
    }
}

/// Returns the name of the kind of limit, and the key of the bucket that the event belongs to.
fn key_of(kind: LimitKind, context: &WriteContext<'_>, event: Option<&Value>) -> (&'static str, String) {
    match kind {
        LimitKind::Server => ("Server", String::new()),
        LimitKind::Namespace => ("Namespace", context.namespace.to_owned()),
        LimitKind::User => ("User", context.user.name.to_string()),
        LimitKind::SourceAndObject => {
            let text =
                |part: &str, field: &str| event.and_then(|event| event.str_at(&[part, field])).unwrap_or_default();
            let source = ["component", "host"].map(|field| text("source", field));
            let object = ["kind", "namespace", "name", "uid", "apiVersion"].map(|field| text("involvedObject", field));
            ("SourceAndObject", source.concat() + &object.concat())
        }
    }
}

/// Buckets of one limit, by the hash of their key.
struct Buckets {
    per_second: f64,
    burst: u32,
    hasher: KeyHasher,
    buckets: LruMap<KeyHash, TokenBucket<SystemTime>>,
}

impl Buckets {
    fn new(limit: &EventLimit) -> Self {
        Self {
            per_second: f64::from(limit.per_second),
            burst: u32::try_from(limit.burst).unwrap_or_default(),
            hasher: KeyHasher::default(),
            buckets: LruMap::new(limit.most),
        }
    }

    /// Removes a token from the bucket of `key`. Returns false if the bucket is empty.
    fn take(&mut self, key: &str, now: SystemTime) -> bool {
        let bucket = || TokenBucket::new(self.per_second, self.burst, now);
        self.buckets
            .get_or_insert_with(self.hasher.hash(key), bucket)
            .spend(now)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::{Duration, SystemTime};

    use holdfast_value::{Limits, yaml};

    use super::{Buckets, EventLimit};
    use crate::harness::Harness;
    use crate::harness::PluginSettings;

    fn limits(text: &str) -> Result<Vec<EventLimit>, String> {
        EventLimit::from_configuration(&yaml::parse(text.as_bytes(), &Limits::default()).unwrap())
    }

    #[test]
    fn buckets_are_filled_as_time_passes_and_the_oldest_goes() {
        let limit = limits("{limits: [{type: User, qps: 2, burst: 2, cacheSize: 2}]}")
            .unwrap()
            .remove(0);
        let mut buckets = Buckets::new(&limit);
        let start = SystemTime::UNIX_EPOCH;
        let mut take = |key: &str, millis: u64| buckets.take(key, start + Duration::from_millis(millis));
        assert_eq!(
            [take("a", 0), take("a", 0), take("a", 499), take("a", 500)],
            [true, true, false, true]
        );
        assert!(take("b", 500) && take("b", 500) && !take("b", 500));
        assert!(!take("a", 500));
        assert!(take("c", 500), "b goes, as a was used after it");
        assert!(take("b", 500) && take("b", 500), "it is new, and a goes");
        assert!(take("a", 500));
    }

    #[test]
    fn event_above_limits_is_rejected_with_all_reached_limits() {
        let settings = PluginSettings {
            event_limits: limits(
                "{limits: [{type: Server, qps: 1, burst: 1}, {type: Namespace, qps: 1, burst: 1}, {type: SourceAndObject, qps: 1, \
                 burst: 2}]}",
            )
            .unwrap(),
            ..PluginSettings::default()
        };
        let harness = Harness::new().with_plugins(settings);
        let event = "{apiVersion: v1, kind: Event, metadata: {name: e, namespace: default}, source: {component: c, host: h}, \
                     involvedObject: {kind: Pod, name: p, namespace: default, uid: u, apiVersion: v1}}";
        let other = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}";
        let said = harness.admit_in_turn("EventRateLimit", &[event, event, event, other]);
        let two = "[limit reached on type Server for key , limit reached on type Namespace for key default]";
        let three = two.replace(
            "default]",
            "default, limit reached on type SourceAndObject for key chPoddefaultpuv1]",
        );
        let rejected = |said: &str| Some(format!("Too many requests: {said}"));
        assert_eq!(said, [None, rejected(two), rejected(&three), None]);
    }

    #[test]
    fn configurations_are_checked() {
        assert_eq!(
            limits("{}").unwrap_err(),
            "limits: Invalid value: null: must not be empty"
        );
        assert_eq!(
            limits("{limits: [{type: Sometimes, qps: 0, burst: 1, cacheSize: -1}]}").unwrap_err(),
            "[limits[0].type: Unsupported value: \"Sometimes\": supported values: \"Namespace\", \"Server\", \
             \"SourceAndObject\", \"User\", limits[0].qps: Invalid value: 0: must be positive, limits[0].cacheSize: Invalid value: \
             -1: must not be negative]"
        );
    }
}
