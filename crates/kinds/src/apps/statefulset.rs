//! StatefulSets: <https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/>.

use std::collections::BTreeSet;

use holdfast_resource::metadata::formats::dns_label;
use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::config::Config;
use crate::core::persistentvolumeclaim;
use crate::core::pod_spec::{Template, default_template};
use crate::defaults::{change_items, set_missing, set_missing_at};
use crate::validation::{Errors, numbers, optional_text, same};
use crate::workload::{
    SelectorRules, at_most_count, collisions_only_grow, validate_counts, validate_selector_and_template,
    workload_warnings,
};

/// What only StatefulSets do.
pub(crate) struct StatefulSet {
    pub(crate) config: Config,
}

/// The fields of the specification that may change.
const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

impl Strategy for StatefulSet {
    fn default_fields(&self, _version: &str, object: &mut Value) {
        default_template(object, &["spec", "template"]);
        let strategy = ["spec", "updateStrategy"];
        if object
            .str_at(&["spec", "updateStrategy", "type"])
            .unwrap_or_default()
            .is_empty()
        {
            object.set_at(&["spec", "updateStrategy", "type"], "RollingUpdate".into());
            set_missing_at(object, &strategy, "rollingUpdate", Value::empty_map);
        }
        // Who names the strategy alone gets no more.
        let is_rolling = object.str_at(&["spec", "updateStrategy", "type"]) == Some("RollingUpdate");
        if is_rolling
            && object
                .at(&["spec", "updateStrategy", "rollingUpdate"])
                .is_some_and(|rolling| !rolling.is_null())
        {
            set_missing_at(
                object,
                &["spec", "updateStrategy", "rollingUpdate"],
                "partition",
                || 0.into(),
            );
        }
        if let Some(spec) = object.as_map_mut().and_then(|object| object.get_mut("spec")) {
            let lacks_kind = |claim: &Value| claim.get("kind").is_none() || claim.get("apiVersion").is_none();
            change_items(spec, "volumeClaimTemplates", lacks_kind, |claim| {
                set_missing(claim, "kind", || "PersistentVolumeClaim".into());
                set_missing(claim, "apiVersion", || "v1".into());
            });
        }
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        self.validate_spec(&Field::root(object).child("spec"), true, &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (object, old) = (Field::root(object), Field::root(old));
        let mut errors = Errors::new();
        if context.subresource == Some("status") {
            validate_status(&object.child("status"), &old.child("status"), &mut errors);
            return errors;
        }
        let (spec, old_spec) = (object.child("spec"), old.child("spec"));
        self.validate_spec(&spec, false, &mut errors);
        if !same_but_for(&spec, &old_spec, &MUTABLE) {
            errors.push(spec.forbidden(
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            ));
        }
        errors
    }

    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = workload_warnings(context, object, old, &["spec", "template"], false);
        let limit = object.at(&["spec", "revisionHistoryLimit"]).and_then(Value::as_i64);
        let before = old
            .and_then(|old| old.at(&["spec", "revisionHistoryLimit"]))
            .and_then(Value::as_i64);
        if limit.is_some_and(|limit| limit < 0) && (old.is_none() || limit != before) {
            warnings.push(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                    .to_owned(),
            );
        }
        warnings
    }
}

/// Whether two maps hold the same but for the members named.
fn same_but_for(new: &Field<'_, '_>, old: &Field<'_, '_>, names: &[&str]) -> bool {
    let counts = |key: &str| !names.contains(&key);
    let within = |one: &Field<'_, '_>, other: &Field<'_, '_>| {
        one.entries()
            .filter(|(key, _)| counts(key))
            .all(|(key, value)| same(value.value(), other.entry(key).value()))
    };
    within(new, old) && within(old, new)
}

impl StatefulSet {
    /// Checks a specification; the claims of one only where it is new.
    fn validate_spec(&self, spec: &Field<'_, '_>, is_new: bool, errors: &mut Errors) {
        let management = spec.child("podManagementPolicy");
        match management.text() {
            "" => errors.push(management.required("")),
            "OrderedReady" | "Parallel" => {}
            _ => errors.push(management.invalid("must be 'OrderedReady' or 'Parallel'")),
        }
        validate_strategy(&spec.child("updateStrategy"), errors);
        validate_retention(&spec.child("persistentVolumeClaimRetentionPolicy"), errors);
        numbers::not_negative(&spec.child("replicas"), errors);
        numbers::not_negative(&spec.child("minReadySeconds"), errors);
        numbers::not_negative(&spec.child("ordinals").child("start"), errors);
        optional_text(&spec.child("serviceName"), dns_label, errors);
        let rules = SelectorRules {
            required: true,
            empty: "empty selector is invalid for statefulset",
            malformed: "",
            template: Template {
                workload: "StatefulSet",
                allow_privileged: self.config.allow_privileged,
            },
        };
        let claims = spec.child("volumeClaimTemplates");
        if is_new {
            for claim in claims.items() {
                persistentvolumeclaim::validate_claim_template(&claim, errors);
            }
        }
        match spec.value().filter(|_| !claims.is_empty()).map(with_claims) {
            Some(whole) => {
                let path = spec.path();
                validate_selector_and_template(&Field::placed(Some(&whole), path.as_str()), &rules, errors);
            }
            None => validate_selector_and_template(spec, &rules, errors),
        }
    }
}

/// The specification with a volume in its template for each claim, as the Pods will have it, before those volumes that no
/// claim takes the name of.
fn with_claims(spec: &Value) -> Value {
    let of = |path: &[&str]| {
        spec.at(path)
            .and_then(Value::as_list)
            .into_iter()
            .flat_map(|list| list.iter())
    };
    let name = |claim: &Value| claim.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
    let names: Vec<String> = of(&["volumeClaimTemplates"]).map(name).collect();
    let volume = |name: &String| {
        let mut volume = Value::empty_map();
        volume.set_at(&["name"], name.as_str().into());
        volume.set_at(&["persistentVolumeClaim", "claimName"], name.as_str().into());
        volume
    };
    let taken: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let free = |volume: &&Value| !taken.contains(volume.str_at(&["name"]).unwrap_or_default());
    let own = of(&["template", "spec", "volumes"]).filter(free).cloned();
    let volumes: Vec<Value> = names.iter().map(volume).chain(own).collect();
    let mut whole = spec.clone();
    whole.set_at(&["template", "spec", "volumes"], volumes.into());
    whole
}

fn validate_strategy(strategy: &Field<'_, '_>, errors: &mut Errors) {
    let rolling = strategy.child("rollingUpdate");
    match strategy.child("type").text() {
        "" => errors.push(strategy.required("")),
        "OnDelete" => {
            if rolling.is_set() {
                errors.push(rolling.invalid("only allowed for updateStrategy 'RollingUpdate'"));
            }
        }
        "RollingUpdate" => {
            numbers::not_negative(&rolling.child("partition"), errors);
            let unavailable = rolling.child("maxUnavailable");
            if unavailable.is_set() {
                numbers::number_or_percent(&unavailable, errors);
                if numbers::count(&unavailable) == 0 {
                    errors.push(unavailable.invalid("cannot be 0"));
                }
                numbers::at_most_all(&unavailable, errors);
            }
        }
        // The reference reports the strategy rather than its type.
        _ => errors.push(strategy.invalid("must be 'RollingUpdate' or 'OnDelete'")),
    }
}

fn validate_retention(policy: &Field<'_, '_>, errors: &mut Errors) {
    if !policy.is_set() {
        return;
    }
    for part in ["whenDeleted", "whenScaled"] {
        let field = policy.child(part);
        if !matches!(field.text(), "Retain" | "Delete") {
            errors.push(field.not_supported(&["Retain", "Delete"]));
        }
    }
}

const COUNTS: [&str; 7] = [
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "observedGeneration",
    "collisionCount",
];

fn validate_status(status: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    validate_counts(status, &COUNTS, errors);
    let of_all = [
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ];
    at_most_count(status, &of_all, "replicas", "status.replicas", errors);
    at_most_count(
        status,
        &["availableReplicas"],
        "readyReplicas",
        "status.readyReplicas",
        errors,
    );
    collisions_only_grow(status, old, errors);
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    const DB: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: main, image: db:1}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";

    #[test]
    fn claims_are_objects_of_their_kind() {
        let created = Harness::new().create(DB);
        assert_eq!(
            at(&created, "spec.volumeClaimTemplates.0.kind"),
            r#""PersistentVolumeClaim""#
        );
        assert_eq!(
            at(&created, "spec.volumeClaimTemplates.0.status"),
            r#"{"phase":"Pending"}"#
        );
        assert_eq!(
            at(&created, "spec.updateStrategy"),
            r#"{"rollingUpdate":{"partition":0},"type":"RollingUpdate"}"#
        );
    }

    #[test]
    fn claims_count_as_volumes_and_are_checked_when_they_are_new() {
        let harness = Harness::new();
        let mounted = DB.replace(
            "image: db:1}",
            "image: db:1, volumeMounts: [{name: data, mountPath: /d}]}",
        );
        assert_eq!(at(&harness.create(&mounted), "spec.replicas"), "1");
        let nameless = DB
            .replace("metadata: {name: data}", "metadata: {}")
            .replace("accessModes: [ReadWriteOnce], ", "");
        let without = [
            "spec.template.spec.volumes[0].persistentVolumeClaim.claimName: Required value",
            "spec.template.spec.volumes[0].name: Required value",
        ];
        let errors = harness.errors(&nameless);
        assert_eq!(
            errors[0],
            "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required"
        );
        assert_eq!(errors[1..], without);
        assert_eq!(harness.update_errors(DB, &nameless)[..2], without);
    }

    #[test]
    fn a_strategy_that_is_named_gets_nothing_more() {
        let named = DB.replace(
            "serviceName: db\n",
            "serviceName: db\n  updateStrategy: {type: RollingUpdate}\n",
        );
        assert_eq!(
            at(&Harness::new().create(&named), "spec.updateStrategy"),
            r#"{"type":"RollingUpdate"}"#
        );
        let begun = named.replace("{type: RollingUpdate}", "{type: RollingUpdate, rollingUpdate: {}}");
        assert_eq!(
            at(&Harness::new().create(&begun), "spec.updateStrategy"),
            r#"{"rollingUpdate":{"partition":0},"type":"RollingUpdate"}"#
        );
    }

    #[test]
    fn only_some_fields_may_change() {
        let harness = Harness::new();
        assert!(harness.update_errors(DB, &DB.replace("db:1", "db:2")).is_empty());
        assert_eq!(
            harness.update_errors(DB, &DB.replace("serviceName: db", "serviceName: other")),
            [
                "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
              'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are \
              forbidden"
            ]
        );
    }
}
