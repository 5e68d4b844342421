//! Annotations with a meaning for Pods: AppArmor and seccomp profiles from before the fields, tolerations, the deletion
//! cost, and the annotation of mirror Pods.

use holdfast_kind_tables::features::{Feature, Features};
use holdfast_schema::Field;
use holdfast_value::{Map, Value};

use super::containers::visit_containers;
use super::scheduling::validate_tolerations;
use super::security::validate_app_armor;
use crate::validation::paths::descending;
use crate::validation::{Errors, read_json};

/// Annotation of mirror Pods, which represent static Pods of a node.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
pub(super) const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub(super) const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub(super) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const LOCALHOST: &str = "localhost/";

/// Validates the annotations of a Pod.
///
/// upstream: pkg/apis/core/validation#ValidatePodSpecificAnnotations
pub(crate) fn validate_pod_annotations(
    annotations: &Field<'_, '_>,
    spec: &Field<'_, '_>,
    features: Features,
    errors: &mut Errors,
) {
    let mirror = annotations.entry(MIRROR);
    if mirror.is_set() && spec.child("nodeName").text().is_empty() {
        errors.push(mirror.invalid("must set spec.nodeName if mirror pod annotation is set"));
    }
    let tolerations = annotations.entry(TOLERATIONS);
    if !tolerations.text().is_empty() {
        validate_tolerations_text(annotations, tolerations.text(), errors);
    }
    let cost = annotations.entry(DELETION_COST);
    if features.has(Feature::PodDeletionCost) && cost.is_set() && !is_cost(cost.text()) {
        errors.push(cost.invalid("must be a 32bit integer"));
    }
    validate_seccomp_annotations(annotations, errors);
    for (key, profile) in annotations.entries() {
        let Some(name) = key.strip_prefix(APP_ARMOR) else {
            continue;
        };
        let mut found = false;
        visit_containers(spec, &mut |container| found |= container.child("name").text() == name);
        if !found {
            errors.push(profile.invalid_as(name, "container not found"));
        }
        let text = profile.text();
        if !matches!(text, "" | "runtime/default" | "unconfined") && !text.starts_with(LOCALHOST) {
            errors.push(profile.invalid(format!("invalid AppArmor profile name: {text:?}")));
        }
    }
}

/// Validates tolerations in JSON like those of the specification.
///
/// upstream: pkg/apis/core/validation#ValidateTolerationsInPodAnnotations
fn validate_tolerations_text(annotations: &Field<'_, '_>, text: &str, errors: &mut Errors) {
    match read_json(text) {
        Err(message) => errors.push(annotations.invalid_as(TOLERATIONS, message)),
        Ok(list) => {
            let place = annotations.path().child(TOLERATIONS);
            validate_tolerations(&Field::placed(Some(&list), place.as_str()), false, errors);
        }
    }
}

/// Returns true if a text is a 32-bit integer in canonical form.
fn is_cost(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let first = digits.bytes().next();
    (text == "0" || first.is_some_and(|digit| (b'1'..=b'9').contains(&digit))) && text.parse::<i32>().is_ok()
}

/// Validates the seccomp annotations of a Pod.
///
/// upstream: pkg/apis/core/validation#ValidateSeccompPodAnnotations
fn validate_seccomp_annotations(annotations: &Field<'_, '_>, errors: &mut Errors) {
    let field = annotations.entry(SECCOMP);
    let own = field.is_set().then_some((SECCOMP, field));
    let of_containers = annotations
        .entries()
        .filter(|(key, _)| key.starts_with(SECCOMP_OF_CONTAINER));
    for (key, profile) in own.into_iter().chain(of_containers) {
        let place = annotations.path().child(key);
        let text = profile.text();
        if matches!(text, "runtime/default" | "docker/default" | "unconfined") {
            continue;
        }
        match text.strip_prefix(LOCALHOST) {
            Some(path) => descending(&Field::placed(Some(&path.into()), place.as_str()), errors),
            None => errors
                .push(Field::placed(profile.value(), place.as_str()).invalid_text("must be a valid seccomp profile")),
        }
    }
}

/// Validates that an annotation and the field that replaces it agree if both are set.
///
/// upstream: pkg/apis/core/validation#validateSeccompAnnotationsAndFields
/// upstream: pkg/apis/core/validation#validateAppArmorAnnotationsAndFieldsMatchOnCreate
pub(crate) fn validate_profile_annotations(annotations: &Field<'_, '_>, spec: &Field<'_, '_>, errors: &mut Errors) {
    if annotations.is_empty() {
        return;
    }
    let context = spec.child("securityContext");
    match_profile(
        "seccomp",
        &annotations.entry(SECCOMP),
        &context.child("seccompProfile"),
        errors,
    );
    visit_containers(spec, &mut |container| {
        let key = format!("{SECCOMP_OF_CONTAINER}{}", container.child("name").text());
        let context = container.child("securityContext");
        match_profile(
            "seccomp",
            &annotations.entry(&key),
            &context.child("seccompProfile"),
            errors,
        );
    });
    if is_windows(spec.value()) {
        return;
    }
    let of_pod = context.child("appArmorProfile");
    visit_containers(spec, &mut |container| {
        let key = format!("{APP_ARMOR}{}", container.child("name").text());
        let context = container.child("securityContext");
        let own = context.child("appArmorProfile");
        let profile = own.in_place(own.value().or(of_pod.value()));
        match_profile("apparmor", &annotations.entry(&key), &profile, errors);
    });
}

fn match_profile(what: &str, annotation: &Field<'_, '_>, profile: &Field<'_, '_>, errors: &mut Errors) {
    if !annotation.is_set() || !profile.is_set() {
        return;
    }
    let text = annotation.text();
    let alike = match profile.child("type").text() {
        "Unconfined" => text == "unconfined",
        "RuntimeDefault" => text == "runtime/default" || what == "seccomp" && text == "docker/default",
        "Localhost" => match text.strip_prefix(LOCALHOST) {
            None => false,
            Some(path) => {
                let local = profile.child("localhostProfile");
                if !local.is_set() || local.text() != path {
                    errors.push(local.forbidden(format!("{what} profile in annotation and field must match")));
                }
                true
            }
        },
        _ => true,
    };
    if !alike {
        let type_field = profile.child("type");
        errors.push(type_field.forbidden(format!("{what} type in annotation and field must match")));
    }
}

fn is_windows(spec: Option<&Value>) -> bool {
    spec.is_some_and(|spec| spec.str_at(&["os", "name"]) == Some("windows"))
}

/// Reports changes of immutable annotations of a Pod.
///
/// upstream: pkg/apis/core/validation#ValidatePodSpecificAnnotationUpdates
pub(crate) fn validate_annotation_changes(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let mut report = |key: &str, annotation: Field<'_, '_>, done: &str| {
        if key.starts_with(APP_ARMOR) {
            errors.push(annotation.forbidden(format!("may not {done} AppArmor annotations")));
        }
        if key == MIRROR {
            errors.push(annotation.forbidden(format!("may not {done} mirror pod annotation")));
        }
    };
    for (key, before) in old.entries() {
        if new.entry(key).value() != before.value() {
            report(key, new.entry(key), "remove or update");
        }
    }
    for (key, _) in new.entries().filter(|(key, _)| !old.entry(key).is_set()) {
        report(key, new.entry(key), "add");
    }
}

/// Sets fields from the AppArmor annotations of a new Pod. Returns the warnings.
///
/// upstream: pkg/registry/core/pod#applyAppArmorVersionSkew
pub(crate) fn app_armor_fields(pod: &mut Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if is_windows(pod.get("spec")) {
        return warnings;
    }
    let of_pod = pod.at(&["spec", "securityContext", "appArmorProfile"]).cloned();
    for list in super::CONTAINERS {
        let count = pod
            .at(&["spec", list])
            .and_then(Value::as_list)
            .map_or(0, |list| list.len());
        for at in 0..count {
            app_armor_of_container(pod, list, at, of_pod.as_ref(), &mut warnings);
        }
    }
    warnings
}

fn app_armor_of_container(pod: &mut Value, list: &str, at: usize, of_pod: Option<&Value>, warnings: &mut Vec<String>) {
    const FIELD: [&str; 2] = ["securityContext", "appArmorProfile"];
    let containers = pod.at(&["spec", list]).and_then(Value::as_list);
    let Some(container) = containers.and_then(|containers| containers.get(at)) else {
        return;
    };
    let name = container.str_at(&["name"]).unwrap_or_default();
    let own = container.at(&FIELD).filter(|own| !own.is_null());
    let key = format!("{APP_ARMOR}{name}");
    match (pod.str_at(&["metadata", "annotations", &key]), own) {
        (None, _) | (Some(_), Some(_)) => {}
        (Some(text), None) => {
            let profile = app_armor_field(text);
            if profile.is_none() || profile.as_ref() != of_pod {
                warnings.push(format!(
                    "metadata.annotations[{key}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
                ));
            }
            if let Some(profile) = profile.filter(|profile| Some(profile) != of_pod)
                && let Some(Value::List(containers)) = pod.at_mut(&["spec", list])
                && let Some(container) = containers.make_mut().get_mut(at)
            {
                container.set_at(&FIELD, profile);
            }
        }
    }
}

/// Returns the profile field equivalent to an annotation, if the annotation is valid.
pub(super) fn app_armor_field(annotation: &str) -> Option<Value> {
    let mut profile = Map::new();
    match annotation {
        "unconfined" => profile.insert("type", "Unconfined"),
        "runtime/default" => profile.insert("type", "RuntimeDefault"),
        local => {
            let path = local.strip_prefix(LOCALHOST).filter(|path| !path.is_empty())?;
            profile.insert("localhostProfile", path);
            profile.insert("type", "Localhost")
        }
    };
    let profile = Value::from(profile);
    let mut errors = Errors::new();
    validate_app_armor(&Field::root(&profile), &mut errors);
    errors.is_empty().then_some(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_deletion_is_written_in_one_way() {
        for good in ["0", "7", "-7", "2147483647"] {
            assert!(is_cost(good), "{good}");
        }
        for bad in ["", "+1", "01", "-0", "2147483648", "x"] {
            assert!(!is_cost(bad), "{bad}");
        }
    }
}
