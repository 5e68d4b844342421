//! StatefulSets: <https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/>.

use std::collections::BTreeSet;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::features::{Feature, Features};
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::metadata::labels::{LabelSelector, invalid_selector};
use holdfast_schema::{Changes, Check, Field, FieldError, NoRules, Part, Rules};
use holdfast_value::Value;

use crate::claim_spec::ClaimRules;
use crate::config::{Config, PodSettings};
use crate::defaults::{change_items, set_missing_at};
use crate::kind::kind;
use crate::pod_spec::{validate_restarting, validate_selected, validate_template, validate_template_metadata};
use crate::rules::{StatefulSetChange, StatefulSetRule};
use crate::validation::resources::fractional_claim;
use crate::validation::{Errors, numbers, same};
use crate::workload::{
    TemplateWarnings, at_most_count, collisions_only_grow, is_status_write, validate_selector, workload_warnings,
};

/// Strategy of StatefulSets.
pub(crate) struct StatefulSet {
    pub(crate) config: Config,
}

/// Mutable fields of the spec.
const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(StatefulSet { config: config.clone() })
        .read_by(super::at_rest::with_selector)
        .pod_template(&["spec", "template"], TemplateWarnings::Own)
        .empty_status()
        .metadata_checks(of_core(0, 1))
        .done()
}

impl Strategy for StatefulSet {
    /// upstream: pkg/apis/apps/v1#SetDefaults_StatefulSet
    fn default_fields(&self, _version: &str, object: &mut Value) {
        default_strategy(self.config.features, object);
        if let Some(spec) = object.as_map_mut().and_then(|object| object.get_mut("spec")) {
            // The reference overwrites the kind and `apiVersion` of each claim template.
            const STATED: [(&str, &str); 2] = [("kind", "PersistentVolumeClaim"), ("apiVersion", "v1")];
            let misstated = |claim: &Value| STATED.iter().any(|(name, is)| claim.str_at(&[name]) != Some(is));
            change_items(spec, "volumeClaimTemplates", misstated, |claim| {
                for (name, is) in STATED {
                    claim.set_at(&[name], is.into());
                }
            });
        }
    }

    /// upstream: pkg/registry/apps/statefulset#statefulSetStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        context.check(object, &self.rules(true))
    }

    /// upstream: pkg/registry/apps/statefulset#statefulSetStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = context.check_update(object, old, &self.rules(false));
        // The field is immutable, and may have been stored before this check existed.
        errors.retain(|error| error.field.as_str() != "spec.serviceName");
        errors
    }

    /// upstream: pkg/registry/apps/statefulset#statefulSetStrategy.WarningsOnCreate
    /// upstream: pkg/registry/apps/statefulset#statefulSetStrategy.WarningsOnUpdate
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        if is_status_write(context) {
            return Vec::new();
        }
        let mut warnings = workload_warnings(context, object, old, &["spec", "template"], false);
        let root = Field::root(object);
        let spec = root.child("spec");
        for claim in spec.child("volumeClaimTemplates").items() {
            // The reference reports this field by two other names.
            let claim_path = claim.path();
            let field_path = if old.is_none() {
                claim_path
            } else {
                claim_path.child("Spec")
            };
            let place = field_path.to_string();
            fractional_claim(&Field::placed(claim.child("spec").value(), &place), &mut warnings);
        }
        if spec
            .child("revisionHistoryLimit")
            .number()
            .is_some_and(|limit| limit < 0)
        {
            warnings.push(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                    .to_owned(),
            );
        }
        warnings
    }
}

/// Sets the defaults of the update strategy. An empty rolling update is added only together with the type.
///
/// upstream: pkg/apis/apps/v1#SetDefaults_StatefulSet
fn default_strategy(features: Features, object: &mut Value) {
    const STRATEGY: [&str; 2] = ["spec", "updateStrategy"];
    let lacks_type = |strategy: &Value| strategy.str_at(&["type"]).unwrap_or_default().is_empty();
    if object.at(&STRATEGY).is_some_and(lacks_type) {
        set_missing_at(object, &STRATEGY, "type", || "RollingUpdate".into());
        set_missing_at(object, &STRATEGY, "rollingUpdate", Value::empty_map);
    }
    let rolling = ["spec", "updateStrategy", "rollingUpdate"];
    set_missing_at(object, &rolling, "partition", || 0.into());
    if features.has(Feature::MaxUnavailableStatefulSet) {
        set_missing_at(object, &rolling, "maxUnavailable", || 1.into());
    }
}

/// Returns true if two maps are equal except for the given members.
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
    fn rules(&self, is_new: bool) -> SpecRules {
        let settings = self.config.pods();
        SpecRules { settings, is_new }
    }
}

/// Hand-written checks of `ValidateStatefulSetSpec`. Claims are validated only if `is_new`.
struct SpecRules {
    settings: PodSettings,
    is_new: bool,
}

impl<'v> Rules<'v> for SpecRules {
    type Rule = StatefulSetRule;

    fn rule(&self, rule: StatefulSetRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            StatefulSetRule::Management => validate_management(&part.child("podManagementPolicy"), &mut check.errors),
            StatefulSetRule::Strategy => validate_strategy(part, check),
            StatefulSetRule::Claims if self.is_new => validate_claims(part, check),
            StatefulSetRule::Claims => {}
            StatefulSetRule::SelectorAndTemplate => self.validate_selector_and_template(part, check),
            StatefulSetRule::Bounds => validate_bounds(part, &mut check.errors),
        }
    }
}

impl<'v> Changes<'v> for SpecRules {
    type Change = StatefulSetChange;

    /// upstream: pkg/apis/apps/validation#ValidateStatefulSetUpdate
    fn change(&self, change: StatefulSetChange, part: &Part<'v, '_>, old: &Part<'v, '_>, check: &mut Check<'_>) {
        match change {
            StatefulSetChange::Mutable if same_but_for(part, old, &MUTABLE) => {}
            StatefulSetChange::Mutable => check.errors.push(part.forbidden(
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            )),
            StatefulSetChange::Collisions => collisions_only_grow(part, old, &mut check.errors),
        }
    }
}

impl SpecRules {
    /// upstream: pkg/apis/apps/validation#ValidateStatefulSetSpec
    fn validate_selector_and_template(&self, spec: &Part<'_, '_>, check: &mut Check<'_>) {
        let selector = spec.child("selector");
        let Some(template) = check.child(spec, "template") else {
            return;
        };
        validate_selector(
            &selector,
            "empty selector is invalid for statefulset",
            &mut check.errors,
        );
        match LabelSelector::read(&selector) {
            Some(read) => self.validate_template(spec, &template, &read, check),
            None => check.errors.push(invalid_selector(&selector, "")),
        }
        validate_restarting(&template, "StatefulSet", &mut check.errors);
    }

    /// Validates the pod template. Labels and annotations are validated once more than for other kinds.
    ///
    /// upstream: pkg/apis/apps/validation#ValidatePodTemplateSpecForStatefulSet
    fn validate_template(
        &self,
        spec: &Field<'_, '_>,
        template: &Part<'_, '_>,
        selector: &LabelSelector<'_>,
        check: &mut Check<'_>,
    ) {
        validate_selected(template, selector, &mut check.errors);
        let differs = |spec: &&Value| {
            let mut of_pods = ["subdomain", "hostname"]
                .iter()
                .map(|name| spec.at(&["template", "spec", name]));
            spec.get("volumeClaimTemplates").is_some() || of_pods.any(|name| name.is_some())
        };
        let whole = spec.value().filter(differs).map(as_of_pods);
        let place = template.path();
        match &whole {
            Some(whole) => {
                let whole = template.shown_at(Field::placed(Some(whole), place.as_str()));
                validate_template(&whole, self.settings, check);
            }
            None => validate_template(template, self.settings, check),
        }
        validate_template_metadata(template, self.settings.features, &mut check.errors);
    }
}

/// upstream: pkg/apis/apps/validation#ValidateStatefulSetSpec
fn validate_management(management: &Field<'_, '_>, errors: &mut Errors) {
    match management.text() {
        "" => errors.push(management.required("")),
        "OrderedReady" | "Parallel" => {}
        _ => errors.push(management.invalid("must be 'OrderedReady' or 'Parallel'")),
    }
}

/// Validates the volume claim templates. The reference validates only their specs.
///
/// upstream: pkg/apis/apps/validation#ValidateStatefulSetSpec
fn validate_claims(spec: &Part<'_, '_>, check: &mut Check<'_>) {
    let claims = spec.child("volumeClaimTemplates");
    for claim in check.items(spec, "volumeClaimTemplates", &claims) {
        check.field(&claim, "spec", &ClaimRules);
    }
}

/// Returns the Pod template without subdomain and hostname, which the controller sets, and with the claims' volumes.
fn as_of_pods(spec: &Value) -> Value {
    let mut template = match spec.get("volumeClaimTemplates") {
        Some(_) => with_claims(spec),
        None => spec.get("template").cloned().unwrap_or_default(),
    };
    for name in ["subdomain", "hostname"] {
        template.remove_at(&["spec", name]);
    }
    template
}

/// Returns the Pod template with a volume for each claim, as in the Pods. The template's own volumes follow, without
/// those that share a name with a claim.
fn with_claims(spec: &Value) -> Value {
    let list = |path: &[&str]| {
        spec.at(path)
            .and_then(Value::as_list)
            .into_iter()
            .flat_map(|list| list.iter())
    };
    let name = |claim: &Value| claim.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
    let mut names: Vec<String> = list(&["volumeClaimTemplates"]).map(name).collect();
    // Claims of the same name are one volume.
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let volume = |name: &String| {
        let mut volume = Value::empty_map();
        volume.set_at(&["name"], name.as_str().into());
        volume.set_at(&["persistentVolumeClaim", "claimName"], name.as_str().into());
        volume
    };
    let taken: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let free = |volume: &&Value| !taken.contains(volume.str_at(&["name"]).unwrap_or_default());
    let own = list(&["template", "spec", "volumes"]).filter(free).cloned();
    let volumes: Vec<Value> = names.iter().map(volume).chain(own).collect();
    let mut whole = spec.get("template").cloned().unwrap_or_default();
    whole.set_at(&["spec", "volumes"], volumes.into());
    whole
}

/// upstream: pkg/apis/apps/validation#ValidateStatefulSetSpec
fn validate_strategy(spec: &Part<'_, '_>, check: &mut Check<'_>) {
    let Some(strategy) = check.child(spec, "updateStrategy") else {
        return;
    };
    let rolling = strategy.child("rollingUpdate");
    match strategy.child("type").text() {
        "" => check.errors.push(strategy.required("")),
        "OnDelete" => {
            if rolling.is_set() {
                let error = rolling.invalid("only allowed for updateStrategy 'RollingUpdate'");
                check.errors.push(error);
            }
        }
        "RollingUpdate" => {
            check.field(&strategy, "rollingUpdate", &NoRules);
            validate_unavailable(&rolling.child("maxUnavailable"), &mut check.errors);
        }
        // The reference reports the strategy instead of its type.
        _ => {
            let error = strategy.invalid("must be 'RollingUpdate' or 'OnDelete'");
            check.errors.push(error);
        }
    }
}

/// upstream: pkg/apis/apps/validation#validateRollingUpdateStatefulSet
fn validate_unavailable(unavailable: &Field<'_, '_>, errors: &mut Errors) {
    if !unavailable.is_set() {
        return;
    }
    numbers::number_or_percent(unavailable, errors);
    if numbers::count(unavailable) == 0 {
        errors.push(unavailable.invalid("cannot be 0"));
    }
    numbers::at_most_all(unavailable, errors);
}

/// upstream: pkg/apis/apps/validation#ValidateStatefulSetStatus
fn validate_bounds(status: &Field<'_, '_>, errors: &mut Errors) {
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
        let claim = DB
            .split_once("volumeClaimTemplates:\n")
            .map(|(_, claim)| claim)
            .unwrap_or_default();
        assert!(harness.errors(&format!("{DB}{claim}")).is_empty());
    }

    #[test]
    fn negative_history_limit_warns_on_every_write() {
        let negative = DB.replace(
            "spec:\n  serviceName",
            "spec:\n  revisionHistoryLimit: -1\n  serviceName",
        );
        let warning =
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
        let harness = Harness::new();
        assert_eq!(harness.warnings(&negative), [warning]);
        assert_eq!(harness.update_warnings(&negative, &negative), [warning]);
        assert_eq!(harness.update_warnings(DB, &negative), [warning]);
        assert!(harness.update_warnings(&negative, DB).is_empty());
        assert!(harness.subresource_warnings("status", &negative).is_empty());
        assert_eq!(harness.subresource_warnings("scale", &negative), [warning]);
    }

    #[test]
    fn a_rolling_update_is_made_up_along_with_its_type() {
        let harness = Harness::new();
        let strategy = |text: &str| {
            let set = DB.replace(
                "spec:\n  serviceName",
                &format!("spec:\n  updateStrategy: {{{text}}}\n  serviceName"),
            );
            at(&harness.create(&set), "spec.updateStrategy")
        };
        assert_eq!(strategy("type: RollingUpdate"), r#"{"type":"RollingUpdate"}"#);
        assert_eq!(strategy("type: OnDelete"), r#"{"type":"OnDelete"}"#);
        assert_eq!(
            strategy("rollingUpdate: {maxUnavailable: 2}"),
            r#"{"rollingUpdate":{"partition":0},"type":"RollingUpdate"}"#,
            "it is not known yet how many are unavailable"
        );
    }

    #[test]
    fn claims_are_volumes_of_the_template() {
        let harness = Harness::new();
        assert_eq!(
            harness.errors(&DB.replace("metadata: {name: data}", "metadata: {}")),
            [
                "spec.template.spec.volumes[0].persistentVolumeClaim.claimName: Required value",
                "spec.template.spec.volumes[0].name: Required value",
            ]
        );
        let mounted = DB.replace(
            "image: db:1",
            "image: db:1, volumeMounts: [{name: data, mountPath: /d}]",
        );
        assert!(harness.errors(&mounted).is_empty());
        assert_eq!(
            harness.errors(&mounted.replace("name: data, mountPath", "name: other, mountPath")),
            [r#"spec.template.spec.containers[0].volumeMounts[0].name: Not found: "other""#]
        );
    }

    #[test]
    fn template_labels_are_reported_twice_and_selectors_in_order() {
        let harness = Harness::new();
        let errors = harness.errors(&DB.replace("labels: {app: db}", "labels: {app: db, x/: v}"));
        assert_eq!(errors.len(), 4, "{errors:?}");
        let odd = "{matchLabels: {app: db}, matchExpressions: [{key: a, operator: Odd}]}";
        assert_eq!(
            harness.errors(&DB.replace("{matchLabels: {app: db}}", odd))[1],
            "spec.selector: Invalid value: \
             {\"matchLabels\":{\"app\":\"db\"},\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Odd\"}]}"
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

    #[test]
    fn fields_set_by_the_controller_are_not_validated() {
        let harness = Harness::new();
        let named = DB.replace(
            "    spec:\n      containers",
            "    spec:\n      subdomain: Bad_Name\n      containers",
        );
        assert!(harness.errors(&named).is_empty());
        let misstated = DB.replace(
            "  - metadata: {name: data}",
            "  - apiVersion: v9\n    metadata: {name: data}",
        );
        let created = harness.create(&misstated);
        assert_eq!(at(&created, "spec.volumeClaimTemplates.0.apiVersion"), r#""v1""#);
        let service = DB.replace("serviceName: db", "serviceName: a.b");
        assert_eq!(harness.errors(&service).len(), 1);
        let changed = harness.update_errors(DB, &service);
        assert!(
            changed[0].starts_with("spec: Forbidden: updates to statefulset spec"),
            "{changed:?}"
        );
    }

    #[test]
    fn labels_that_are_given_as_none_are_shown() {
        let errors =
            Harness::new().errors(&DB.replace("    metadata: {labels: {app: db}}", "    metadata: {labels: {}}"));
        assert_eq!(
            errors[0],
            "spec.template.metadata.labels: Invalid value: {}: `selector` does not match template `labels`"
        );
    }
}
