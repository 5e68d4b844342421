//! PersistentVolumeClaims: <https://kubernetes.io/docs/concepts/storage/persistent-volumes/>.

use std::collections::BTreeSet;

use holdfast_resource::metadata::formats::{dns_subdomain, qualified_name};
use holdfast_resource::metadata::labels::{validate_label_selector, validate_labels};
use holdfast_resource::{Field, FieldError, Refusal, Strategy, WriteContext};
use holdfast_value::{Value, json};

use super::persistentvolume::{BETA_CLASS, deprecated_annotations};
use crate::defaults::{is_zero, set_missing_at};
use crate::validation::resources::{fractional_bytes, quantity};
use crate::validation::{Errors, immutable, one_of, report, same};

/// The ways in which a volume may be mounted, as messages list them.
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// What only PersistentVolumeClaims do.
pub(crate) struct PersistentVolumeClaim;

impl Strategy for PersistentVolumeClaim {
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Refusal> {
        let mut status = Value::empty_map();
        status.set_at(&["phase"], "Pending".into());
        object.set_at(&["status"], status);
        normalize_source(object);
        Ok(())
    }

    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, _old: &Value) -> Result<(), Refusal> {
        if context.subresource.is_none() {
            normalize_source(object);
        }
        Ok(())
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validate_claim_spec(&Field::root(object).child("spec"), &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        if context.subresource == Some("status") {
            return validate_status(&Field::root(object));
        }
        let mut errors = self.validate(context, object);
        validate_change(&Field::root(object), &Field::root(old), &mut errors);
        errors
    }

    fn warnings(&self, context: &WriteContext<'_>, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if context.subresource.is_none() {
            let root = Field::root(object);
            let (metadata, spec) = (root.child("metadata"), root.child("spec"));
            deprecated_annotations(&metadata.child("annotations"), &[BETA_CLASS], &mut warnings);
            let resources = spec.child("resources");
            for list in ["requests", "limits"] {
                fractional_bytes(&resources.child(list), &mut warnings);
            }
        }
        warnings
    }
}

/// Keeps `dataSource` and `dataSourceRef` alike, and drops sources of kinds that claims cannot be filled from.
fn normalize_source(object: &mut Value) {
    let source = object
        .at(&["spec", "dataSource"])
        .filter(|source| !source.is_null())
        .cloned();
    let reference = object
        .at(&["spec", "dataSourceRef"])
        .filter(|source| !source.is_null())
        .cloned();
    if reference
        .as_ref()
        .is_some_and(|reference| !is_zero(reference.get("namespace")))
    {
        return;
    }
    match (source, reference) {
        (Some(source), None) => {
            let group = source.str_at(&["apiGroup"]).unwrap_or_default();
            let kind = source.str_at(&["kind"]).unwrap_or_default();
            let claim = group.is_empty() && kind == "PersistentVolumeClaim";
            if !claim && group.is_empty() && !kind.is_empty() {
                object.remove_at(&["spec", "dataSource"]);
                return;
            }
            object.set_at(&["spec", "dataSourceRef"], source);
        }
        (None, Some(reference)) => object.set_at(&["spec", "dataSource"], reference),
        _ => {}
    }
    for part in ["dataSource", "dataSourceRef"] {
        set_missing_at(object, &["spec", part], "apiGroup", || Value::Null);
    }
}

/// Checks a claim within a workload.
pub(crate) fn validate_claim_template(claim: &Field<'_, '_>, errors: &mut Errors) {
    let metadata = claim.child("metadata");
    validate_labels(&metadata.child("labels"), errors);
    validate_claim_spec(&claim.child("spec"), errors);
}

/// Checks what a claim asks for.
pub(crate) fn validate_claim_spec(spec: &Field<'_, '_>, errors: &mut Errors) {
    let modes = spec.child("accessModes");
    if modes.is_empty() {
        errors.push(modes.required("at least 1 access mode is required"));
    }
    validate_label_selector(&spec.child("selector"), errors);
    validate_access_modes(&modes, errors);
    let resources = spec.child("resources");
    // The reference shows the list of requests under the name of the resources.
    let requests = resources.child("requests");
    let shown = resources.path();
    let shown = Field::placed(requests.value(), shown.as_str());
    let storage = shown.entry("storage");
    match quantity(&storage) {
        None => errors.push(storage.required("")),
        Some(amount) if !amount.is_positive() => errors.push(storage.invalid("must be greater than zero")),
        Some(_) => {}
    }
    for part in ["storageClassName", "volumeAttributesClassName"] {
        let class = spec.child(part);
        if !class.text().is_empty() {
            report(&class, dns_subdomain(class.text()), errors);
        }
    }
    let mode = spec.child("volumeMode");
    if mode.is_set() {
        one_of(&mode, &["Block", "Filesystem"], errors);
    }
    validate_source(&spec.child("dataSource"), errors);
    validate_source(&spec.child("dataSourceRef"), errors);
    let (source, reference) = (spec.child("dataSource"), spec.child("dataSourceRef"));
    if source.is_set() && reference.is_set() && reference.child("namespace").text().is_empty() {
        let alike = ["apiGroup", "kind", "name"]
            .iter()
            .all(|part| source.child(part).text() == reference.child(part).text());
        if !alike {
            errors.push(spec.invalid("must match dataSourceRef"));
        }
    }
}

/// Checks ways of mounting: known ones, and the one that excludes all others alone.
pub(crate) fn validate_access_modes(modes: &Field<'_, '_>, errors: &mut Errors) {
    let mut alone = false;
    for mode in modes.items() {
        if !ACCESS_MODES.contains(&mode.text()) {
            errors.push(FieldError::not_supported(&modes.path(), mode.text(), &ACCESS_MODES));
        }
        alone |= mode.text() == "ReadWriteOncePod";
    }
    if alone && modes.len() > 1 {
        errors.push(modes.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

fn validate_source(source: &Field<'_, '_>, errors: &mut Errors) {
    if !source.is_set() {
        return;
    }
    for part in ["name", "kind"] {
        let field = source.child(part);
        if field.text().is_empty() {
            errors.push(field.required(""));
        }
    }
    let (group, kind) = (source.child("apiGroup").text(), source.child("kind").text());
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        errors.push(source.invalid_as(
            kind,
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        ));
    }
    if !group.is_empty() {
        let faults = dns_subdomain(group);
        errors.extend(faults.into_iter().map(|fault| source.child("apiGroup").invalid(fault)));
    }
}

const IMMUTABLE: &str =
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// Tells what differs at `path` and below, a line for each value that was and each that is to be.
fn tell_differences(path: &str, before: Option<&Value>, after: Option<&Value>, text: &mut String) {
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
            tell_differences(&path, old.get(name), new.get(name), text);
        }
        return;
    }
    for (sign, value) in [('-', before), ('+', after)] {
        if let Some(value) = value {
            text.push_str(&format!("\n{sign} {path}: {}", json::to_string(value)));
        }
    }
}

/// Reports changes of what a claim keeps once it is there.
fn validate_change(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (spec, old_spec) = (new.child("spec"), old.child("spec"));
    let mut left = spec.value().cloned().unwrap_or_default();
    let bound = old.child("status").child("phase").text() == "Bound";
    let take_over = |left: &mut Value, part: &[&str]| {
        let before = part.iter().try_fold(old_spec.value(), |node, key| Some(node?.get(key)));
        match before.flatten() {
            Some(before) => left.set_at(part, before.clone()),
            None => {
                left.remove_at(part);
            }
        }
    };
    if old_spec.child("volumeName").text().is_empty() {
        take_over(&mut left, &["volumeName"]);
    }
    if !old_spec.child("storageClassName").is_set() {
        take_over(&mut left, &["storageClassName"]);
    }
    if bound {
        take_over(&mut left, &["resources", "requests", "storage"]);
        take_over(&mut left, &["volumeAttributesClassName"]);
    }
    // A selector that says nothing is not the same as none.
    let selects = |spec: &Field<'_, '_>| spec.child("selector").is_set();
    if selects(&spec) != selects(&old_spec) || !same(Some(&left), old_spec.value()) {
        let mut text = IMMUTABLE.to_owned();
        tell_differences("", old_spec.value(), Some(&left), &mut text);
        errors.push(spec.forbidden(text));
    }
    validate_growth(new, old, errors);
    // The reference reports this field without what it stands in.
    let mode = spec.child("volumeMode");
    immutable(
        &Field::placed(mode.value(), "volumeMode"),
        &old_spec.child("volumeMode"),
        errors,
    );
}

/// Reports a request for less than before that does not leave more than there is; an amount that is missing is zero.
fn validate_growth(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let amount = |object: &Field<'_, '_>, path: &[&str]| {
        let value = object.value().and_then(|object| object.at(path));
        quantity(&Field::placed(value, "")).filter(|amount| !amount.is_zero())
    };
    const REQUEST: [&str; 4] = ["spec", "resources", "requests", "storage"];
    let (now, before) = (amount(new, &REQUEST), amount(old, &REQUEST));
    let capacity = amount(old, &["status", "capacity", "storage"]);
    // What is missing is less than all that is there, as zero is: amounts here are not negative.
    if now < before && now <= capacity {
        let place = holdfast_resource::FieldPath::new("spec.resources.requests.storage");
        errors.push(FieldError::forbidden(
            &place,
            "field can not be less than status.capacity",
        ));
    }
}

fn validate_status(claim: &Field<'_, '_>) -> Errors {
    let mut errors = Errors::new();
    let status = claim.child("status");
    for list in ["capacity", "allocatedResources"] {
        for (name, amount) in status.child(list).entries() {
            crate::validation::resources::validate_amount(name, &amount, &mut errors);
        }
    }
    for (name, state) in status.child("allocatedResourceStatuses").entries() {
        errors.extend(
            qualified_name(name)
                .into_iter()
                .map(|fault| state.invalid_as(name, fault)),
        );
    }
    errors
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
