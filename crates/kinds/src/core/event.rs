//! Events, which two groups serve: <https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/>.
//!
//! They are stored in the form of the core group. The group `events.k8s.io` renames some fields and has stricter rules.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{at_creation, in_order, of_apimachinery, of_core};
use holdfast_resource::table::NamedCell;
use holdfast_resource::{ConversionError, Converts, RowRules, Strategy, WriteContext};
use holdfast_schema::metadata::formats::qualified_name;
use holdfast_schema::metadata::validate_metadata;
use holdfast_schema::{Changes, Check, CreationChecks, Field, FieldError, Part, Rules, UpdateOrder};
use holdfast_value::Value;

use crate::defaults::{is_zero, set_missing};
use crate::kind::kind;
use crate::rules::{EventChange, EventRule};
use crate::validation::{Errors, immutable_text, report, same};

/// Rules of Events only.
pub(crate) struct Event {
    /// True for the events of the group `events.k8s.io`.
    pub(crate) of_own_group: bool,
}

/// Returns the kind Event of the group `events.k8s.io` or of the core group. Tables of both show the cells of the core
/// group.
pub(crate) fn events(of_own_group: bool) -> Kind {
    kind(Event { of_own_group })
        .converts()
        .cells(CELLS)
        .read_by(from_rest)
        .rows(RowRules {
            of_stored_version: true,
            ..RowRules::default()
        })
        .exempt_from_quotas()
        .metadata_checks(if of_own_group {
            in_order(
                UpdateOrder::ObjectFirst,
                at_creation(of_core(0, 1), CreationChecks::Own),
            )
        } else {
            at_creation(of_apimachinery(0, 0), CreationChecks::Last)
        })
        .done()
}

const CORE: &str = "v1";
const OWN: &str = "events.k8s.io/v1";

/// Field names that differ: the name in the core group, then the name in `events.k8s.io`.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Fields that the core group serves even if they are empty; `events.k8s.io` omits them then.
const ALWAYS_SHOWN: [&str; 2] = ["reportingComponent", "reportingInstance"];

impl Strategy for Event {
    /// upstream: pkg/registry/core/event#eventStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = context.check(object, &self.rules(context));
        if self.of_own_group {
            errors.extend(validate_metadata(&context.resource.metadata_rules(), object));
            validate_series(context, &root, &mut errors);
            validate_new(context, &root, &mut errors);
        }
        errors
    }

    /// upstream: pkg/registry/core/event#eventStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, before: &Value) -> Vec<FieldError> {
        let (root, old) = (Field::root(object), Field::root(before));
        let rules = self.rules(context);
        let mut errors = context.check(object, &rules);
        if !self.of_own_group {
            return errors;
        }
        errors.extend(context.rest_of_metadata(object, before));
        if !same(root.child("series").value(), old.child("series").value()) {
            validate_series(context, &root, &mut errors);
        }
        errors.extend(context.check_changes(object, before, &rules));
        errors
    }
}

impl Event {
    fn rules<'c>(&self, context: &WriteContext<'c>) -> EventRules<'c> {
        EventRules {
            of_own_group: self.of_own_group,
            namespace: context.namespace,
        }
    }
}

/// Rules for the events of both groups, for creates and updates (`legacyValidateEvent`).
struct EventRules<'c> {
    of_own_group: bool,
    /// Namespace of the request path.
    namespace: &'c str,
}

impl<'v> Rules<'v> for EventRules<'_> {
    type Rule = EventRule;

    fn rule(&self, rule: EventRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        let timed = check.is_given(&part.child("eventTime"));
        match rule {
            EventRule::Place => validate_place(part, self.namespace, timed, &mut check.errors),
            // The reporter's fields are only validated for events with `eventTime`.
            EventRule::Report if timed => {
                self.validate_reporter(part, &mut check.errors);
                for field in ["reportingInstance", "action", "reason", "message"] {
                    check.field(part, field, self);
                }
            }
            EventRule::Report => {}
        }
    }
}

impl<'v> Changes<'v> for EventRules<'_> {
    type Change = EventChange;

    fn change(&self, change: EventChange, part: &Part<'v, '_>, old: &Part<'v, '_>, check: &mut Check<'_>) {
        match change {
            EventChange::ReportingComponent => {
                // Errors of `events.k8s.io` use that group's own name of this one field.
                let reporter = part.child("reportingComponent");
                let shown = Field::placed(reporter.value(), "reportingController");
                immutable_text(&shown, &old.child("reportingComponent"), &mut check.errors);
            }
        }
    }
}

/// Converts an event that was stored in a version of `events.k8s.io`.
fn from_rest(object: Value) -> Value {
    match object.str_at(&["apiVersion"]) {
        Some(CORE) => object,
        _ => renamed(object, false),
    }
}

impl Converts for Event {
    fn convert(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        let from = object.str_at(&["apiVersion"]).unwrap_or_default().to_owned();
        let to_own = match (from.as_str(), to_api_version) {
            (from, to) if from == to => return Ok(object),
            (CORE, OWN) => true,
            (OWN, CORE) => false,
            (_, to) => {
                let to = to.to_owned();
                return Err(ConversionError::Unknown { from, to });
            }
        };
        let mut object = renamed(object, to_own);
        object.set_at(&["apiVersion"], to_api_version.into());
        Ok(object)
    }
}

/// Returns an event with the field names of `events.k8s.io` or of the core group.
fn renamed(mut object: Value, to_own: bool) -> Value {
    for (core, own) in RENAMED {
        let (old, new) = if to_own { (core, own) } else { (own, core) };
        if let Some(value) = object.remove_at(&[old]) {
            object.set_at(&[new], value);
        }
    }
    if to_own {
        for field in ["reportingController", "reportingInstance"] {
            if is_zero(object.get(field)) {
                object.remove_at(&[field]);
            }
        }
    } else {
        for field in ALWAYS_SHOWN {
            set_missing(&mut object, field, || "".into());
        }
    }
    object
}

/// Validates the count and the last time of a series.
///
/// upstream: pkg/apis/core/validation#validateV1EventSeries
fn validate_series(context: &WriteContext<'_>, event: &Field<'_, '_>, errors: &mut Errors) {
    let series = event.child("series");
    if !series.is_set() {
        return;
    }
    let (count, last) = (series.child("count"), series.child("lastObservedTime"));
    if count.number().unwrap_or_default() < 2 {
        errors.push(count.invalid_as("", "should be at least 2"));
    }
    if is_zero(last.value()) && !context.gives_empty_in(last.path().as_str()) {
        errors.push(last.required(""));
    }
}

/// Validates the fields that new events of `events.k8s.io` must have, and those that only the core group allows.
///
/// upstream: pkg/apis/core/validation#ValidateEventCreate
fn validate_new(context: &WriteContext<'_>, event: &Field<'_, '_>, errors: &mut Errors) {
    let time = event.child("eventTime");
    if is_zero(time.value()) && !context.gives_empty_in("eventTime") {
        errors.push(time.required(""));
    }
    let type_field = event.child("type");
    if !matches!(type_field.text(), "Normal" | "Warning") {
        errors.push(type_field.invalid_as("", format!("has invalid value: {}", type_field.text())));
    }
    for part in ["firstTimestamp", "lastTimestamp", "count"] {
        let field = event.child(part);
        let own = RENAMED.iter().find(|(core, _)| *core == part).map(|(_, own)| *own);
        if !is_zero(field.value()) || own.is_some_and(|own| context.gives_empty_in(own)) {
            errors.push(field.invalid_as("", "needs to be unset"));
        }
    }
    let source = event.child("source");
    if ["component", "host"]
        .iter()
        .any(|part| !source.child(part).text().is_empty())
    {
        errors.push(source.invalid_as("", "needs to be unset"));
    }
}

impl EventRules<'_> {
    /// upstream: pkg/apis/core/validation#ValidateEventCreate
    fn validate_reporter(&self, event: &Field<'_, '_>, errors: &mut Errors) {
        // Errors of `events.k8s.io` use that group's own name of the field.
        let shown = if self.of_own_group {
            "reportingController"
        } else {
            "reportingComponent"
        };
        let given = event.child("reportingComponent");
        let reporter = Field::placed(given.value(), shown);
        if reporter.text().is_empty() {
            errors.push(reporter.required(""));
        }
        report(&reporter, qualified_name(reporter.text()), errors);
    }
}

/// Validates the namespace of an event. An event without `eventTime` lives in the namespace of the involved object, or
/// in `default` if that is cluster-scoped. With `eventTime`, it lives in any namespace, or in `default` or
/// `kube-system` if the object is cluster-scoped.
///
/// upstream: pkg/apis/core/validation#legacyValidateEvent
fn validate_place(event: &Field<'_, '_>, namespace: &str, timed: bool, errors: &mut Errors) {
    let about = event.child("involvedObject");
    let place = about.child("namespace");
    let fits = match (place.text(), timed) {
        ("", false) => matches!(namespace, "" | "default"),
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (other, false) => other == namespace,
        (_, true) => true,
    };
    if !fits {
        errors.push(place.invalid_text("does not match event.namespace"));
    }
}

/// Table cells that show more than the value at one path.
const CELLS: &[NamedCell] = &[
    ("event-count", |object, _| event_count(object)),
    ("event-message", |object, _| {
        object.str_at(&["message"]).unwrap_or_default().trim().into()
    }),
    ("event-object", |object, _| event_object(object)),
    ("event-source", |object, _| event_source(object)),
];

fn event_count(event: &Value) -> Value {
    let count = event
        .at(&["series", "count"])
        .or_else(|| event.get("count"))
        .or_else(|| event.get("deprecatedCount"));
    Value::Int(count.and_then(Value::as_i64).filter(|count| *count > 0).unwrap_or(1))
}

fn event_object(event: &Value) -> Value {
    let object = event
        .get("involvedObject")
        .or_else(|| event.get("regarding"))
        .unwrap_or(&Value::Null);
    let kind = object.str_at(&["kind"]).unwrap_or_default().to_lowercase();
    match object.str_at(&["name"]).unwrap_or_default() {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

fn event_source(event: &Value) -> Value {
    let first = |paths: [&[&str]; 3]| -> String {
        let texts = paths.iter().filter_map(|path| event.str_at(path));
        texts
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
            .next()
            .unwrap_or_default()
    };
    let component = first([
        &["source", "component"],
        &["reportingComponent"],
        &["reportingController"],
    ]);
    let host = first([
        &["source", "host"],
        &["reportingInstance"],
        &["deprecatedSource", "host"],
    ]);
    if host.is_empty() {
        component.into()
    } else {
        format!("{component}, {host}").into()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::harness::Harness;

    #[test]
    fn fields_change_their_names_between_the_groups() {
        let mut core = Value::empty_map();
        core.set_at(&["apiVersion"], CORE.into());
        core.set_at(&["involvedObject", "name"], "a".into());
        core.set_at(&["message"], "m".into());
        core.set_at(&["reason"], "r".into());
        let strategy = Event { of_own_group: true };
        let own = strategy.convert(core.clone(), OWN).unwrap();
        assert_eq!(own.str_at(&["regarding", "name"]), Some("a"));
        assert_eq!((own.str_at(&["note"]), own.str_at(&["reason"])), (Some("m"), Some("r")));
        assert!(strategy.convert(core.clone(), "v2").is_err());
        for shown in ALWAYS_SHOWN {
            core.set_at(&[shown], "".into());
        }
        assert_eq!(strategy.convert(own, CORE).unwrap(), core);
    }

    #[test]
    fn empty_reporter_is_served_only_in_core_group() {
        let strategy = Event { of_own_group: false };
        let mut core = Value::empty_map();
        core.set_at(&["apiVersion"], CORE.into());
        core.set_at(&["reportingComponent"], "".into());
        core.set_at(&["reportingInstance"], "".into());
        let own = strategy.convert(core.clone(), OWN).unwrap();
        assert!(own.get("reportingController").is_none() && own.get("reportingInstance").is_none());
        assert_eq!(strategy.convert(own, CORE).unwrap(), core);
    }

    #[test]
    fn reporter_fields_are_limited_for_events_with_event_time() {
        let event = |time: &str, action: &str, message: &str| {
            format!(
                "{{apiVersion: v1, kind: Event, metadata: {{name: e}}, involvedObject: {{namespace: default}}, {time} \
                 reportingComponent: a.io/b, reportingInstance: i, reason: r, action: '{action}', message: '{message}'}}"
            )
        };
        let errors = |time, action: &str, message: &str| Harness::new().errors(&event(time, action, message));
        let (time, long) = ("eventTime: '2024-01-01T00:00:00.000000Z',", "x".repeat(1025));
        assert_eq!(
            errors("", "", &long),
            [""; 0],
            "without a time it need not say anything"
        );
        assert_eq!(errors(time, &long[..128], &long[..1024]), [""; 0]);
        assert_eq!(
            errors(time, &long[..129], &long),
            [
                "action: Invalid value: \"\": can have at most 128 characters",
                "message: Invalid value: \"\": can have at most 1024 characters"
            ]
        );
        assert_eq!(errors(time, "", ""), ["action: Required value"]);
    }

    #[test]
    fn a_zero_time_that_is_given_is_a_time_to_the_rules() {
        let time = "eventTime: '0001-01-01T00:00:00.000000Z'";
        let core = format!(
            "{{apiVersion: v1, kind: Event, metadata: {{name: e}}, involvedObject: {{namespace: default}}, {time}}}"
        );
        let errors = Harness::new().errors(&core);
        assert!(errors.contains(&"action: Required value".to_owned()), "{errors:?}");
    }

    #[test]
    fn event_about_cluster_scoped_object_needs_system_namespace() {
        let error_text = |namespace: &str, about: &str, timed: bool| {
            let mut event = Value::empty_map();
            event.set_at(&["involvedObject", "namespace"], about.into());
            let (root, mut errors) = (Field::root(&event), Errors::new());
            validate_place(&root, namespace, timed, &mut errors);
            errors.is_empty()
        };
        for (namespace, about, untimed, timed) in [
            ("default", "", true, true),
            ("kube-system", "", false, true),
            ("a", "", false, false),
            ("a", "a", true, true),
            ("a", "b", false, true),
        ] {
            let fits = [error_text(namespace, about, false), error_text(namespace, about, true)];
            assert_eq!(fits, [untimed, timed], "{namespace} {about}");
        }
    }
}
