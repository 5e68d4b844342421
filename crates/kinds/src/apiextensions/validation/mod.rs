//! Validation of CustomResourceDefinitions, with the errors in the order and wording of the reference.
//!
//! The reference stores fields that all versions share in the spec, and error paths name them there: the schema of a
//! CRD with one version is at `spec.validation`, although the client wrote `spec.versions[0]`.

mod rules;
mod schema;
mod stored;
mod structural;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests;
mod version;

use std::collections::HashSet;

use holdfast_admission::webhooks::authorities_error;
use holdfast_gotext::quote::is_printable;
use holdfast_schema::metadata::formats::{Messages, dns_label_1035, dns_subdomain};
use holdfast_schema::types::TypeTable;
use holdfast_schema::{Field, FieldError, FieldPath};
use holdfast_structural::{Node, RuleTimings};
use holdfast_value::Value;

use super::define::condition;
use crate::admissionregistration::client_config;
use crate::validation::Errors;
use schema::Strictness;
use stored::Replaced;
pub(super) use stored::{is_published, schema_violation};

/// Maximum number of selectable fields of a version.
const MAX_SELECTABLE: usize = 8;

/// Annotation in which Kubernetes community groups record the API review.
const APPROVAL: &str = "api-approved.kubernetes.io";

/// Validates a CRD on creation, or as the replacement of `old`.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#ValidateCustomResourceDefinition
/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#ValidateCustomResourceDefinitionUpdate
pub(super) fn validate(types: &TypeTable, timings: &RuleTimings, crd: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let null = Value::Null;
    let spec = crd.get("spec").unwrap_or(&null);
    let known = SchemaContext::new(types, timings, old);
    validate_spec(spec, &known, &mut errors);
    if let Some(old) = old {
        immutable(crd, old, &mut errors);
        authorities(spec, old, &mut errors);
    }
    validate_status(crd, &mut errors);
    stored_versions(crd, &mut errors);
    approval(crd, old, &mut errors);
    if is_true(spec, "preserveUnknownFields") && !known.replaced.preserves_unknown() {
        let field = FieldPath::new("spec.preserveUnknownFields");
        let why =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid(&field, true, why));
    }
    errors
}

/// Validates the status of a CRD.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#ValidateCustomResourceDefinitionStatus
pub(super) fn validate_status(crd: &Value, errors: &mut Errors) {
    if let Some(accepted) = crd.at(&["status", "acceptedNames"]) {
        names(accepted, &FieldPath::new("status.acceptedNames"), errors);
    }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.str_at(&[name]).unwrap_or_default()
}

fn items<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_list).map_or(&[], |list| list)
}

fn is_true(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool) == Some(true)
}

/// Validates the name of a CRD, which must be `PLURAL.GROUP`.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#ValidateCustomResourceDefinition
pub(super) fn name_errors(crd: &Value, name: &str) -> Messages {
    let part = |path: &[&str]| crd.str_at(path).unwrap_or_default();
    let wanted = format!("{}.{}", part(&["spec", "names", "plural"]), part(&["spec", "group"]));
    let mut messages = dns_subdomain(name);
    if name != wanted {
        messages.push("must be spec.names.plural+\".\"+spec.group".into());
    }
    messages
}

fn joined(messages: &Messages) -> String {
    messages.join(",")
}

/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#validateCustomResourceDefinitionSpec
fn validate_spec(spec: &Value, known: &SchemaContext<'_>, errors: &mut Errors) {
    let root = FieldPath::new("spec");
    let (group, field) = (text(spec, "group"), root.child("group"));
    let messages = dns_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required(&field, ""));
    } else if !messages.is_empty() {
        errors.push(FieldError::invalid(&field, group, joined(&messages)));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(
            &field,
            group,
            "should be a domain with at least one dot",
        ));
    }
    let field = root.child("scope");
    match text(spec, "scope") {
        "" => errors.push(FieldError::required(&field, "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported(&field, other, &["Cluster", "Namespaced"])),
    }
    let mut schemas = items(spec, "versions")
        .iter()
        .filter_map(|version| version.at(&["schema", "openAPIV3Schema"]));
    if is_true(spec, "preserveUnknownFields") && schemas.any(schema::has_defaults) {
        let why = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid(&root.child("preserveUnknownFields"), true, why));
    }
    let shared = Shared::new(items(spec, "versions"));
    let known = &SchemaContext {
        structural: !known.replaced.allows_unstructured(spec),
        ..*known
    };
    versions(spec, &root, &shared, known, errors);
    for required in ["plural", "singular", "kind", "listKind"] {
        if spec.str_at(&["names", required]).unwrap_or_default().is_empty() {
            errors.push(FieldError::required(&root.child("names").child(required), ""));
        }
    }
    if let Some(found) = spec.get("names") {
        names(found, &root.child("names"), errors);
    }
    if let Some(first) = items(spec, "versions").first() {
        shared.validate_above(first, &root, known, errors);
    }
    conversion(spec, &root.child("conversion"), known.replaced, errors);
}

/// Fields that all versions share. Their errors name the field of the spec.
struct Shared {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable: bool,
}

impl Shared {
    #[expect(clippy::indexing_slicing, reason = "windows of two")]
    fn new(versions: &[Value]) -> Self {
        let same = |name: &str| versions.windows(2).all(|pair| pair[0].get(name) == pair[1].get(name));
        Self {
            schema: same("schema"),
            subresources: same("subresources"),
            columns: same("additionalPrinterColumns"),
            selectable: same("selectableFields"),
        }
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#validateCustomResourceDefinitionSpec
    fn validate_above(&self, version: &Value, root: &FieldPath, known: &SchemaContext<'_>, errors: &mut Errors) {
        if self.schema {
            validation(version, &root.child("validation"), known, errors);
        }
        self.validate_parts(version, root, known, true, errors);
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#validateCustomResourceDefinitionVersion
    fn validate_within(&self, version: &Value, root: &FieldPath, known: &SchemaContext<'_>, errors: &mut Errors) {
        if !self.schema {
            validation(version, &root.child("schema"), known, errors);
        }
        self.validate_parts(version, root, known, false, errors);
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#validateCustomResourceDefinitionSpec
    fn validate_parts(
        &self,
        version: &Value,
        root: &FieldPath,
        known: &SchemaContext<'_>,
        above: bool,
        errors: &mut Errors,
    ) {
        if self.subresources == above {
            version::subresources(version, &root.child("subresources"), errors);
        }
        if self.columns == above {
            version::columns(version, &root.child("additionalPrinterColumns"), errors);
        }
        if self.selectable == above {
            let schema = version
                .at(&["schema", "openAPIV3Schema"])
                .filter(|schema| !schema.is_null());
            let refused = match above {
                // Selectable fields that all versions share are in the spec, so their schema must be shared too.
                true if !self.schema => Some("may only be set when validations.schema is included"),
                true => schema
                    .is_none()
                    .then_some("may only be set when validations.schema is included"),
                false => schema
                    .is_none()
                    .then_some("may only be set when `version.schema.openAPIV3Schema` is not included"),
            };
            let limit = match known.replaced.allows_selectable_fields(version, above) {
                true => usize::MAX,
                false => MAX_SELECTABLE,
            };
            let field = root.child("selectableFields");
            version::selectable_fields(version, refused, limit, &field, errors);
        }
    }
}

/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#validateCustomResourceDefinitionSpec
fn versions(spec: &Value, root: &FieldPath, shared: &Shared, known: &SchemaContext<'_>, errors: &mut Errors) {
    let field = root.child("versions");
    let versions = items(spec, "versions");
    let (is_demanded, why): (&dyn Fn(&Value) -> bool, &str) = match known.replaced.allows_no_schema() {
        false => (&|_| true, ""),
        true if is_true(spec, "preserveUnknownFields") => (&|_| false, ""),
        true => (
            &|version| is_true(version, "served"),
            "because otherwise all fields are pruned",
        ),
    };
    for (at, version) in versions.iter().enumerate() {
        if is_demanded(version) && version.at(&["schema", "openAPIV3Schema"]).is_none_or(Value::is_null) {
            let field = field.index(at).child("schema").child("openAPIV3Schema");
            errors.push(FieldError::required(&field, why));
        }
    }
    let (mut stored, mut names, mut unique) = (0, HashSet::new(), true);
    for (at, version) in versions.iter().enumerate() {
        let (field, name) = (field.index(at), text(version, "name"));
        stored += usize::from(is_true(version, "storage"));
        unique &= names.insert(name);
        let messages = dns_label_1035(name);
        if !messages.is_empty() {
            errors.push(FieldError::invalid(&field.child("name"), name, joined(&messages)));
        }
        deprecation(version, &field.child("deprecationWarning"), errors);
        shared.validate_within(version, &field, known, errors);
    }
    let found = || spec.get("versions").cloned().unwrap_or_default();
    if !unique {
        errors.push(FieldError::invalid(
            &field,
            found(),
            "must contain unique version names",
        ));
    }
    if stored != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(&field, found(), why));
    }
    // The reference also stores the name of the first version in the spec.
    let first = versions.first().map(|version| text(version, "name"));
    if let Some(name) = first.filter(|name| !name.is_empty()) {
        let messages = dns_label_1035(name);
        if !messages.is_empty() {
            errors.push(FieldError::invalid(&root.child("version"), name, joined(&messages)));
        }
    }
}

/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#validateDeprecationWarning
fn deprecation(version: &Value, field: &FieldPath, errors: &mut Errors) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let mut invalid = |why: String| errors.push(FieldError::invalid_pointer(field, warning, &why));
    if !is_true(version, "deprecated") {
        invalid("can only be set for deprecated versions".to_owned());
        return;
    }
    if warning.is_empty() {
        invalid("must not be an empty string".to_owned());
    }
    if warning.len() > 256 {
        invalid("must be <= 256 characters long".to_owned());
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, character)| !is_printable(*character)) {
        invalid(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
}

/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#ValidateCustomResourceDefinitionNames
fn names(names: &Value, root: &FieldPath, errors: &mut Errors) {
    let mut label = |field: FieldPath, name: &str| {
        let messages = dns_label_1035(name);
        if !name.is_empty() && !messages.is_empty() {
            errors.push(FieldError::invalid(&field, name, joined(&messages)));
        }
    };
    for name in ["plural", "singular"] {
        label(root.child(name), text(names, name));
    }
    for name in ["kind", "listKind"] {
        let found = text(names, name);
        let messages = dns_label_1035(&found.to_lowercase());
        if !found.is_empty() && !messages.is_empty() {
            let why = format!("may have mixed case, but should otherwise match: {}", joined(&messages));
            errors.push(FieldError::invalid(&root.child(name), found, why));
        }
    }
    let labels = |list: &str, errors: &mut Errors| {
        for (at, name) in items(names, list).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            let messages = dns_label_1035(name);
            if !messages.is_empty() {
                errors.push(FieldError::invalid(
                    &root.child(list).index(at),
                    name,
                    joined(&messages),
                ));
            }
        }
    };
    labels("shortNames", errors);
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let why = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(&root.child("listKind"), list_kind, why));
    }
    labels("categories", errors);
}

/// Context for the validation of schemas.
struct SchemaContext<'v> {
    /// Types of the built-in kinds, for the validation of metadata.
    types: &'v TypeTable,
    /// Metric of the compilation time of rules.
    timings: &'v RuleTimings,
    /// Versions of the old CRD, to find unchanged schemas.
    before: &'v [Value],
    /// Spec of the old CRD.
    replaced: Replaced<'v>,
    /// True if the schemas must be structural.
    structural: bool,
}

impl<'v> SchemaContext<'v> {
    fn new(types: &'v TypeTable, timings: &'v RuleTimings, old: Option<&'v Value>) -> Self {
        let spec = old.and_then(|old| old.get("spec"));
        Self {
            types,
            timings,
            before: spec.map_or(&[], |spec| items(spec, "versions")),
            replaced: Replaced(spec),
            structural: true,
        }
    }

    /// Returns true if the old version of the same name had the same schema.
    fn has(&self, version: &Value) -> bool {
        let before = self
            .before
            .iter()
            .find(|before| text(before, "name") == text(version, "name"));
        before.is_some_and(|before| before.get("schema") == version.get("schema"))
    }
}

/// Validates the schema of a version.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#validateCustomResourceDefinitionValidation
fn validation(version: &Value, root: &FieldPath, known: &SchemaContext<'_>, errors: &mut Errors) {
    let Some(schema) = version
        .at(&["schema", "openAPIV3Schema"])
        .filter(|schema| !schema.is_null())
    else {
        return;
    };
    let (field, before) = (root.child("openAPIV3Schema"), errors.len());
    if version.at(&["subresources", "status"]).is_some() {
        schema::beside_status(schema, &field, errors);
    }
    if is_true(schema, "nullable") {
        let field = root.child("openAPIV3Schema.nullable");
        errors.push(FieldError::forbidden(&field, "nullable cannot be true at the root"));
    }
    let node = Node::read(schema);
    let unreadable = structural::unreadable(schema).filter(|_| known.structural);
    let found = match unreadable {
        None if known.structural => structure(known, schema, &node, &field),
        _ => Errors::new(),
    };
    let mut wrong = schema::validate(schema, &field, Strictness::ALL);
    if !wrong.is_empty() {
        // Only invalid schemas need the comparison with the old ones.
        wrong = schema::validate(schema, &field, known.replaced.strictness());
    }
    rules::words(schema, &node, &field, &mut wrong);
    let expressions = if found.is_empty() && unreadable.is_none() && known.structural {
        rules::expressions(&node, &field, &wrong, known.has(version), known.timings)
    } else {
        Errors::new()
    };
    for more in [found, wrong, expressions] {
        errors.extend(more);
    }
    // The checks of the keywords report most schemas that cannot be parsed.
    if let Some(why) = unreadable.filter(|_| errors.len() == before) {
        errors.push(FieldError::invalid(&field, "", why));
    }
}

/// Validates that the schema is structural and that its defaults are valid.
fn structure(known: &SchemaContext<'_>, schema: &Value, node: &Node, field: &FieldPath) -> Errors {
    let mut found = structural::validate(schema, field);
    if !found.is_empty() {
        return found;
    }
    node.validate_defaults(known.types, field, true, &mut found);
    if !found.is_empty() && known.replaced.allows_unpruned_defaults(known.types) {
        found.clear();
        node.validate_defaults(known.types, field, false, &mut found);
    }
    found
}

/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#validateCustomResourceConversion
#[expect(clippy::indexing_slicing, reason = "the place of one of the versions")]
fn conversion(spec: &Value, root: &FieldPath, replaced: Replaced<'_>, errors: &mut Errors) {
    let Some(conversion) = spec.get("conversion").filter(|conversion| !conversion.is_null()) else {
        return;
    };
    let field = root.child("strategy");
    let strategy = text(conversion, "strategy");
    match strategy {
        "" => errors.push(FieldError::required(&field, "")),
        "None" | "Webhook" => {}
        other => errors.push(FieldError::not_supported(&field, other, &["None", "Webhook"])),
    }
    if strategy == "Webhook" && is_true(spec, "preserveUnknownFields") {
        let why = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid(&field, strategy, why));
    }
    // The reference stores both members of `webhook` next to the strategy.
    let (client_field, versions_field) = (
        root.child("webhookClientConfig"),
        root.child("conversionReviewVersions"),
    );
    let set = |name: &str| conversion.at(&["webhook", name]).filter(|value| !value.is_null());
    let (client, versions) = (set("clientConfig"), set("conversionReviewVersions"));
    let versions: &[Value] = versions.and_then(Value::as_list).map_or(&[], |list| list);
    if strategy != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            errors.push(FieldError::forbidden(&client_field, why));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(&versions_field, why));
        }
        return;
    }
    match client {
        None => errors.push(FieldError::required(
            &client_field,
            "required when strategy is set to Webhook",
        )),
        Some(client) => client_config::validate(&Field::placed(Some(client), client_field.as_str()), errors),
    }
    if versions.is_empty() {
        errors.push(FieldError::required(&versions_field, ""));
        return;
    }
    for (at, version) in versions.iter().enumerate() {
        let (field, name) = (versions_field.index(at), version.as_str().unwrap_or_default());
        if versions[..at].contains(version) {
            errors.push(FieldError::invalid(&field, name, "duplicate version"));
            continue;
        }
        let messages = dns_label_1035(name);
        errors.extend(messages.into_iter().map(|why| FieldError::invalid(&field, name, why)));
    }
    if !has_recognized_review_version(versions) && !replaced.allows_unrecognized_reviews() {
        let why = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(&versions_field, versions.to_vec(), why));
    }
}

/// Returns true if one of the versions of conversion reviews is known.
fn has_recognized_review_version(versions: &[Value]) -> bool {
    let is_known = |version: &Value| matches!(version.as_str(), Some("v1" | "v1beta1"));
    versions.iter().any(is_known)
}

/// Rejects an invalid CA bundle of the conversion webhook if the CRD is established and the old bundle was valid. A CRD
/// that is not established becomes so only with a valid bundle.
fn authorities(spec: &Value, old: &Value, errors: &mut Errors) {
    const BUNDLE: [&str; 4] = ["conversion", "webhook", "clientConfig", "caBundle"];
    let before = old
        .at(&["spec"])
        .and_then(|spec| spec.str_at(&BUNDLE))
        .unwrap_or_default();
    if !condition(old, "Established") || authorities_error(before).is_some() {
        return;
    }
    let bundle = spec.str_at(&BUNDLE).unwrap_or_default();
    if let Some(why) = authorities_error(bundle) {
        let field = FieldPath::new("spec.conversion.webhookClientConfig.caBundle");
        errors.push(FieldError::invalid(&field, bundle, why));
    }
}

/// Validates immutable fields: group and plural always, since they form the name; scope and kind once objects may
/// exist.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#validateCustomResourceDefinitionSpecUpdate
fn immutable(crd: &Value, old: &Value, errors: &mut Errors) {
    let established = condition(old, "Established");
    for (path, always) in [
        (&["spec", "scope"][..], false),
        (&["spec", "names", "kind"], false),
        (&["spec", "group"], true),
        (&["spec", "names", "plural"], true),
    ] {
        let (now, before) = (crd.at(path), old.at(path));
        if (always || established) && now != before {
            let field = FieldPath::new(&path.join("."));
            let value = now.cloned().unwrap_or_default();
            errors.push(FieldError::invalid(&field, value, "field is immutable"));
        }
    }
}

/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#ValidateCustomResourceDefinitionStoredVersions
fn stored_versions(crd: &Value, errors: &mut Errors) {
    let root = FieldPath::new("status.storedVersions");
    let null = Value::Null;
    let stored = items(crd.get("status").unwrap_or(&null), "storedVersions");
    if stored.is_empty() {
        errors.push(FieldError::invalid(
            &root,
            Value::Null,
            "must have at least one stored version",
        ));
        return;
    }
    let versions = items(crd.get("spec").unwrap_or(&null), "versions");
    let mut left: HashSet<&str> = stored.iter().filter_map(Value::as_str).collect();
    for version in versions {
        let name = text(version, "name");
        // A second version of the same name is no longer in `left`.
        if !left.remove(name) && is_true(version, "storage") {
            let why = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(&root, stored.to_vec(), why));
        }
    }
    let known: HashSet<&str> = versions.iter().map(|version| text(version, "name")).collect();
    for (at, name) in stored.iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if !known.contains(name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(&root.index(at), name, why));
        }
    }
}

/// API review status in the annotation of a Kubernetes community group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Approval {
    Missing,
    Invalid,
    Approved,
    Bypassed,
}

fn approval_of(crd: &Value) -> Approval {
    let text = crd.str_at(&["metadata", "annotations", APPROVAL]).unwrap_or_default();
    let host = text.split_once("://").map(|(_, rest)| rest).unwrap_or_default();
    match text {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Bypassed,
        _ if !host.is_empty() => Approval::Approved,
        _ => Approval::Invalid,
    }
}

/// upstream: k8s.io/apiextensions-apiserver/pkg/apihelpers#GetAPIApprovalState
fn approval(crd: &Value, old: Option<&Value>, errors: &mut Errors) {
    let group = crd.str_at(&["spec", "group"]).unwrap_or_default();
    let protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        let rest = group.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    let now = approval_of(crd);
    // An update need not add the annotation to a CRD without it.
    if !protected || old.is_some_and(|old| approval_of(old) == now) {
        return;
    }
    let field = FieldPath::new("metadata.annotations").key(APPROVAL);
    let link = "see https://github.com/kubernetes/enhancements/pull/1111";
    match now {
        Approval::Missing => {
            let why = format!("protected groups must have approval annotation {APPROVAL:?}, {link}");
            errors.push(FieldError::required(&field, why));
        }
        Approval::Invalid => {
            let text = crd.str_at(&["metadata", "annotations", APPROVAL]).unwrap_or_default();
            let why = format!(
                "protected groups must have approval annotation {APPROVAL:?} with either a URL or a reason starting with \"unapproved\", {link}"
            );
            errors.push(FieldError::invalid(&field, text, why));
        }
        Approval::Approved | Approval::Bypassed => {}
    }
}
