//! PersistentVolumeClaims: <https://kubernetes.io/docs/concepts/storage/persistent-volumes/>.

use std::collections::BTreeSet;

use holdfast_gotext::quantity::Quantity;
use holdfast_kind_tables::Kind;
use holdfast_kind_tables::features::{Feature, Features};
use holdfast_resource::table::NamedCell;
use holdfast_resource::{Old, Rejection, Strategy, WriteContext};
use holdfast_schema::metadata::formats::qualified_name;
use holdfast_schema::{Field, FieldError};
use holdfast_value::{Value, json};

use super::persistentvolume::{BETA_CLASS, deprecated_annotations};
use crate::cells::{access_modes, phase_or_terminating, storage_class};
use crate::claim_spec::ClaimRules;
use crate::config::Config;
use crate::defaults::{is_zero, put_at, set_missing_at};
use crate::kind::kind;
use crate::quota;
use crate::validation::resources::{fractional_claim, is_native, quantity};
use crate::validation::{Errors, immutable, same};

/// Returns a claim in its stored form: the phase of a new claim comes from the defaults that each read applies.
pub(super) fn to_rest(mut object: Value, old: Old<'_>) -> Value {
    if old.is_none() && object.str_at(&["status", "phase"]) == Some("Pending") {
        object.remove_at(&["status", "phase"]);
    }
    object
}

/// Rules of PersistentVolumeClaims only.
pub(crate) struct PersistentVolumeClaim {
    /// Features that are enabled.
    pub(crate) features: Features,
}

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(PersistentVolumeClaim {
        features: config.features,
    })
    .kept_by(to_rest)
    .cells(CELLS)
    .counted_by_plural()
    .takes_of_quotas(quota::Claims)
    .done()
}

impl Strategy for PersistentVolumeClaim {
    /// upstream: pkg/registry/core/persistentvolumeclaim#persistentvolumeclaimStrategy.PrepareForCreate
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        let mut status = Value::empty_map();
        status.set_at(&["phase"], "Pending".into());
        object.set_at(&["status"], status);
        self.drop_disabled(object, None);
        drop_unfit_source(object);
        normalize_source(object);
        Ok(())
    }

    /// upstream: pkg/registry/core/persistentvolumeclaim#persistentvolumeclaimStrategy.PrepareForUpdate
    /// upstream: pkg/registry/core/persistentvolumeclaim#persistentvolumeclaimStatusStrategy.PrepareForUpdate
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Rejection> {
        if context.subresource.is_none() {
            self.drop_disabled(object, Some(old));
            if source(old, "dataSource").is_none() && source(old, "dataSourceRef").is_none() {
                drop_unfit_source(object);
            }
            normalize_source(object);
        }
        Ok(())
    }

    /// upstream: pkg/registry/core/persistentvolumeclaim#persistentvolumeclaimStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        context.check(object, &ClaimRules)
    }

    /// upstream: pkg/registry/core/persistentvolumeclaim#persistentvolumeclaimStrategy.ValidateUpdate
    /// upstream: pkg/registry/core/persistentvolumeclaim#persistentvolumeclaimStatusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        if context.subresource == Some("status") {
            return validate_status(&Field::root(object));
        }
        let mut errors = self.validate(context, object);
        // If the old source had an invalid group, any group is allowed (`allowInvalidAPIGroupInDataSourceOrRef`).
        let names_group = |part| {
            source(old, part)
                .and_then(|source| source.get("apiGroup"))
                .is_some_and(|group| !group.is_null())
        };
        if names_group("dataSource") || names_group("dataSourceRef") {
            errors.retain(|error| !GROUPS.contains(&error.field.as_str()));
        }
        validate_change(&Field::root(object), &Field::root(old), &mut errors);
        errors
    }

    /// upstream: pkg/registry/core/persistentvolumeclaim#persistentvolumeclaimStrategy.WarningsOnCreate
    /// upstream: pkg/registry/core/persistentvolumeclaim#persistentvolumeclaimStrategy.WarningsOnUpdate
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if context.subresource.is_none() {
            let root = Field::root(object);
            let (metadata, spec) = (root.child("metadata"), root.child("spec"));
            deprecated_annotations(&metadata.child("annotations"), &[BETA_CLASS], &mut warnings);
            fractional_claim(&spec, &mut warnings);
        }
        warnings
    }
}

impl PersistentVolumeClaim {
    /// Drops a source in another namespace if the feature is disabled, unless `old` has a source.
    ///
    /// upstream: pkg/api/persistentvolumeclaim#DropDisabledFields
    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        let elsewhere = source(object, "dataSourceRef").and_then(|source| source.str_at(&["namespace"]));
        if elsewhere.is_none_or(str::is_empty) || self.features.has(Feature::CrossNamespaceVolumeDataSource) {
            return;
        }
        if old.is_none_or(|old| source(old, "dataSourceRef").is_none()) {
            object.remove_at(&["spec", "dataSourceRef"]);
        }
    }
}

/// Paths of the groups of a claim's sources.
const GROUPS: [&str; 2] = ["spec.dataSource.apiGroup", "spec.dataSourceRef.apiGroup"];

fn source<'v>(object: &'v Value, part: &str) -> Option<&'v Value> {
    object.at(&["spec", part]).filter(|source| !source.is_null())
}

/// Drops a source of a kind that claims cannot be filled from, as releases before volume populators did.
///
/// upstream: pkg/api/persistentvolumeclaim#EnforceDataSourceBackwardsCompatibility
fn drop_unfit_source(object: &mut Value) {
    let Some(named) = source(object, "dataSource").filter(|_| source(object, "dataSourceRef").is_none()) else {
        return;
    };
    let text = |part: &str| named.str_at(&[part]).unwrap_or_default();
    let fits = matches!(
        (text("apiGroup"), text("kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    );
    if !fits {
        object.remove_at(&["spec", "dataSource"]);
    }
}

/// Keeps `dataSource` and `dataSourceRef` equal.
///
/// upstream: pkg/api/persistentvolumeclaim#NormalizeDataSources
fn normalize_source(object: &mut Value) {
    let named = source(object, "dataSource").cloned();
    let reference = source(object, "dataSourceRef").cloned();
    match (named, reference) {
        (Some(named), None) => object.set_at(&["spec", "dataSourceRef"], named),
        (None, Some(mut reference)) => {
            if !is_zero(reference.get("namespace")) {
                return;
            }
            reference.remove_at(&["namespace"]);
            object.set_at(&["spec", "dataSource"], reference);
        }
        _ => {}
    }
    for part in ["dataSource", "dataSourceRef"] {
        set_missing_at(object, &["spec", part], "apiGroup", || Value::Null);
    }
}

const IMMUTABLE: &str =
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// Writes the differences at `path` and below, one line for each old and each new value.
fn write_differences(path: &str, before: Option<&Value>, after: Option<&Value>, text: &mut String) {
    if same(before, after) {
        return;
    }
    if let (Some(old), Some(new)) = (before.and_then(Value::as_map), after.and_then(Value::as_map)) {
        let names: BTreeSet<&str> = old.iter().chain(new.iter()).map(|(name, _)| name.as_str()).collect();
        for name in names {
            let path = match path {
                "" => name.to_owned(),
                path => format!("{path}.{name}"),
            };
            write_differences(&path, old.get(name), new.get(name), text);
        }
        return;
    }
    for (sign, value) in [('-', before), ('+', after)] {
        if let Some(value) = value {
            text.push_str(&format!("\n{sign} {path}: {}", json::to_string(value)));
        }
    }
}

/// Reports changes of immutable parts of a claim.
///
/// upstream: pkg/apis/core/validation#ValidatePersistentVolumeClaimUpdate
fn validate_change(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (spec, old_spec) = (new.child("spec"), old.child("spec"));
    let mut left = spec.value().cloned().unwrap_or_default();
    let bound = old.child("status").child("phase").text() == "Bound";
    let take_over = |left: &mut Value, part: &[&str]| {
        let before = part.iter().try_fold(old_spec.value(), |node, key| Some(node?.get(key)));
        put_at(left, part, before.flatten().cloned());
    };
    if old_spec.child("volumeName").text().is_empty() {
        take_over(&mut left, &["volumeName"]);
    }
    if !old_spec.child("storageClassName").is_set() {
        take_over(&mut left, &["storageClassName"]);
    }
    if bound {
        if left
            .at(&["resources", "requests"])
            .is_some_and(|requests| !is_zero(Some(requests)))
        {
            take_over(&mut left, &["resources", "requests", "storage"]);
        }
        take_over(&mut left, &["volumeAttributesClassName"]);
    }
    // An empty selector differs from a missing one.
    let selects = |spec: &Field<'_, '_>| spec.child("selector").is_set();
    if selects(&spec) != selects(&old_spec) || !same(Some(&left), old_spec.value()) {
        let mut text = IMMUTABLE.to_owned();
        write_differences("", old_spec.value(), Some(&left), &mut text);
        errors.push(spec.forbidden(text));
    }
    validate_growth(new, old, errors);
    validate_kept_class(new, old, errors);
    // The reference reports this field without its parent.
    let mode = spec.child("volumeMode");
    immutable(
        &Field::placed(mode.value(), "volumeMode"),
        &old_spec.child("volumeMode"),
        errors,
    );
}

/// Validates that a claim keeps a class once its volume has the attributes of one.
///
/// upstream: pkg/apis/core/validation#ValidatePersistentVolumeClaimUpdate
fn validate_kept_class(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (spec, old_spec, status) = (new.child("spec"), old.child("spec"), old.child("status"));
    let (class, before) = (
        spec.child("volumeAttributesClassName"),
        old_spec.child("volumeAttributesClassName"),
    );
    let current = status.child("currentVolumeAttributesClassName");
    if !current.is_set() || !class.text().is_empty() || class.value() == before.value() {
        return;
    }
    let to = if class.is_set() { "empty string" } else { "nil" };
    errors.push(class.forbidden(format!(
        "update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil"
    )));
}

/// Reports a request that shrinks, unless it stays above the capacity. A missing amount is zero.
///
/// upstream: pkg/apis/core/validation#ValidatePersistentVolumeClaimUpdate
fn validate_growth(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let amount = |object: &Field<'_, '_>, path: &[&str]| {
        let value = object.value().and_then(|object| object.at(path));
        quantity(&Field::placed(value, "")).unwrap_or(Quantity::from_units(0))
    };
    const REQUEST: [&str; 4] = ["spec", "resources", "requests", "storage"];
    let (now, before) = (amount(new, &REQUEST), amount(old, &REQUEST));
    let capacity = amount(old, &["status", "capacity", "storage"]);
    if now < before && now <= capacity {
        let place = holdfast_schema::FieldPath::new("spec.resources.requests.storage");
        errors.push(FieldError::forbidden(
            &place,
            "field can not be less than status.capacity",
        ));
    }
}

/// States of the resize of a claim, as messages list them.
const GROWTH: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// Validates the status of a claim.
///
/// upstream: pkg/apis/core/validation#ValidatePersistentVolumeClaimStatusUpdate
fn validate_status(claim: &Field<'_, '_>) -> Errors {
    let mut errors = Errors::new();
    let status = claim.child("status");
    for (_, amount) in status.child("capacity").entries() {
        validate_size(&amount, &mut errors);
    }
    let states = status.child("allocatedResourceStatuses");
    for (name, state) in states.entries() {
        validate_own_name(name, &states, &mut errors);
        if !GROWTH.contains(&state.text()) {
            errors.push(FieldError::not_supported(&states.path(), name, &GROWTH));
        }
    }
    let allocated = status.child("allocatedResources");
    for (name, amount) in allocated.entries() {
        validate_own_name(name, &allocated, &mut errors);
        validate_size(&amount, &mut errors);
    }
    errors
}

/// Reports a resource name that claims do not have, at the list that contains it.
///
/// upstream: pkg/apis/core/validation#validatePersistentVolumeClaimResourceKey
fn validate_own_name(name: &str, list: &Field<'_, '_>, errors: &mut Errors) {
    let details = qualified_name(name);
    if details.is_empty() && is_native(name) && name != "storage" {
        errors.push(FieldError::not_supported(&list.path(), name, &["storage"]));
    }
    errors.extend(details.into_iter().map(|detail| list.invalid_as(name, detail)));
}

/// Validates that an amount is not negative.
///
/// upstream: pkg/apis/core/validation#validateBasicResource
fn validate_size(amount: &Field<'_, '_>, errors: &mut Errors) {
    if let Some(size) = quantity(amount).filter(|size| size.is_negative()) {
        errors.push(amount.invalid_as(size.units(), "must be a valid resource quantity"));
    }
}

/// Table cells that show more than the value at one path.
pub(super) const CELLS: &[NamedCell] = &[
    ("claim-access-modes", |object, _| match bound(object) {
        true => access_modes(object, &["status", "accessModes"]),
        false => "".into(),
    }),
    ("claim-capacity", |object, _| match bound(object) {
        true => object.str_at(&["status", "capacity", "storage"]).unwrap_or("0").into(),
        false => "".into(),
    }),
    ("phase-or-terminating", phase_or_terminating),
    ("storage-class", storage_class),
];

fn bound(claim: &Value) -> bool {
    !claim.str_at(&["spec", "volumeName"]).unwrap_or_default().is_empty()
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    fn claim(spec: &str) -> String {
        format!("{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: c}}, spec: {{{spec}}}}}")
    }

    const ONE: &str = "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}";

    #[test]
    fn a_claim_asks_for_storage_and_a_way_to_mount_it() {
        let harness = Harness::new();
        assert!(harness.errors(&claim(ONE)).is_empty());
        assert_eq!(
            harness.errors(&claim("")),
            [
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
            ]
        );
    }

    #[test]
    fn both_names_of_a_source_are_kept_alike() {
        let created = Harness::new().create(&claim(&format!(
            "{ONE}, dataSource: {{kind: PersistentVolumeClaim, name: s}}"
        )));
        assert_eq!(at(&created, "spec.dataSourceRef"), at(&created, "spec.dataSource"));
        assert_eq!(at(&created, "status"), r#"{"phase":"Pending"}"#);
    }

    #[test]
    fn the_group_of_a_source_is_any_where_it_named_one_before() {
        let harness = Harness::new();
        let claim_with = |source: &str| claim(&format!("{ONE}, dataSourceRef: {{{source}, name: s}}"));
        let wrong = claim_with("apiGroup: a/b, kind: X");
        let warnings_of = |old: &str| {
            let errors = harness.update_errors(old, &wrong);
            errors
                .iter()
                .filter(|error| error.starts_with("spec.dataSourceRef.apiGroup"))
                .count()
        };
        assert_eq!(warnings_of(&claim_with("apiGroup: x.io, kind: X")), 0);
        assert_eq!(warnings_of(&claim_with("kind: PersistentVolumeClaim")), 1);
    }

    #[test]
    fn sources_agree_and_unfit_ones_are_dropped() {
        let harness = Harness::new();
        let created = harness.create(&claim(&format!(
            "{ONE}, dataSource: {{apiGroup: x.io, kind: X, name: s}}"
        )));
        assert_eq!(at(&created, "spec.dataSource"), "nothing");
        let snapshot = "apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: s";
        let created = harness.create(&claim(&format!("{ONE}, dataSourceRef: {{{snapshot}, namespace: ''}}")));
        assert_eq!(at(&created, "spec.dataSource.namespace"), "nothing");
        assert_eq!(
            harness.errors(&claim(&format!(
                "{ONE}, dataSource: {{kind: PersistentVolumeClaim, name: s}}, dataSourceRef: {{{snapshot}}}"
            ))),
            ["spec: Invalid value: {}: must match dataSourceRef"]
        );
        let elsewhere = claim(&format!(
            "{ONE}, dataSource: {{{snapshot}}}, dataSourceRef: {{{snapshot}, namespace: a.b}}"
        ));
        assert_eq!(harness.errors(&elsewhere), Vec::<String>::new());
        let gated = Harness::with_gates("CrossNamespaceVolumeDataSource=true");
        assert_eq!(
            gated.errors(&elsewhere),
            [
                r#"spec.dataSourceRef.namespace: Invalid value: "a.b": must not contain dots"#,
                "spec: Invalid value: {}: may not be specified when dataSourceRef.namespace is specified",
            ]
        );
    }

    #[test]
    fn a_status_names_storage_alone_among_what_kubernetes_has() {
        let messages = |status: &str| {
            let with = claim(ONE).replace(
                "kind: PersistentVolumeClaim,",
                &format!("kind: PersistentVolumeClaim, status: {status},"),
            );
            Harness::new().subresource_errors(Some("status"), &claim(ONE), &with)
        };
        assert_eq!(
            messages("{allocatedResources: {cpu: 1, storage: -1, example.com/x: 1}}"),
            [
                r#"status.allocatedResources: Unsupported value: "cpu": supported values: "storage""#,
                "status.allocatedResources[storage]: Invalid value: -1: must be a valid resource quantity",
            ]
        );
        assert_eq!(
            messages("{allocatedResourceStatuses: {storage: Odd, x: NodeResizePending}}"),
            [
                "status.allocatedResourceStatuses: Unsupported value: \"storage\": supported values: \
                 \"ControllerResizeInProgress\", \"ControllerResizeInfeasible\", \"NodeResizeInProgress\", \
                 \"NodeResizeInfeasible\", \"NodeResizePending\"",
                r#"status.allocatedResourceStatuses: Unsupported value: "x": supported values: "storage""#,
            ]
        );
    }

    #[test]
    fn a_claim_that_is_not_bound_keeps_its_size() {
        let bigger = ONE.replace("1Gi", "2Gi");
        let errors = Harness::new().update_errors(&claim(ONE), &claim(&bigger));
        assert_eq!(
            errors,
            [
                "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName \
              for bound claims\n- resources.requests.storage: \"1Gi\"\n+ resources.requests.storage: \"2Gi\""
            ]
        );
    }

    #[test]
    fn an_annotation_for_the_class_is_deprecated() {
        let annotated = claim(ONE).replace(
            "{name: c}",
            "{name: c, annotations: {volume.beta.kubernetes.io/storage-class: x}}",
        );
        let text = "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \
                    \"storageClassName\" attribute instead";
        assert_eq!(Harness::new().warnings(&annotated), [text]);
        assert_eq!(Harness::new().update_warnings(&annotated, &annotated), [text]);
    }
}
