//! CertificateSigningRequests: <https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/>.

use std::collections::HashSet;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, in_order, with_status};
use holdfast_resource::table::{NamedCell, condition, duration};
use holdfast_resource::{Rejection, Strategy, WriteContext};
use holdfast_schema::{Check, Field, FieldError, Part, Rules, UpdateOrder};
use holdfast_value::{SmolStr, Value};

use super::pem::{certificate_error, lifetime_seconds, request_error};
use crate::config::Config;
use crate::counters::Counters;
use crate::defaults::is_zero;
use crate::kind::kind;
use crate::rules::CertificateSigningRequestRule;
use crate::time::time_text;
use crate::validation::Errors;
use crate::validation::signers::validate_signer_name;

/// Strategy of CertificateSigningRequests.
pub(crate) struct CertificateSigningRequest {
    pub(crate) counters: Counters,
}

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";
const EXCLUSIVE: &str = "Approved and Denied conditions are mutually exclusive";
/// Fields about the requester that only the server sets.
const OF_USER: [&str; 4] = ["username", "uid", "groups", "extra"];

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(CertificateSigningRequest {
        counters: config.counters.clone(),
    })
    .keeps_reset_fields_at_creation()
    .cells(CELLS)
    .unowned_fields(&[("status", "status.conditions")])
    .empty_status()
    .metadata_checks(in_order(UpdateOrder::ObjectFirst, with_status(COMMON_CHECKS, 1, 1)))
    .done()
}

impl Strategy for CertificateSigningRequest {
    /// upstream: pkg/registry/certificates/certificates#csrStrategy.PrepareForCreate
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        for field in OF_USER {
            object.remove_at(&["spec", field]);
        }
        let user = context.user;
        let texts = |texts: &[SmolStr]| Value::from(texts.iter().cloned().map(Value::String).collect::<Vec<_>>());
        object.set_at(&["spec", "username"], user.name.clone().into());
        if !user.uid.is_empty() {
            object.set_at(&["spec", "uid"], user.uid.clone().into());
        }
        if !user.groups.is_empty() {
            object.set_at(&["spec", "groups"], texts(&user.groups));
        }
        for (key, values) in &user.extra {
            object.set_at(&["spec", "extra", key.as_str()], texts(values));
        }
        Ok(())
    }

    /// upstream: pkg/registry/certificates/certificates#csrStrategy.PrepareForUpdate
    /// upstream: pkg/registry/certificates/certificates#csrApprovalStrategy.PrepareForUpdate
    /// upstream: pkg/registry/certificates/certificates#csrStatusStrategy.PrepareForUpdate
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Rejection> {
        if context.subresource == Some("status") {
            for type_name in [APPROVED, DENIED] {
                keep_conditions(object, old, type_name);
            }
            self.count_duration(context, object, old);
        }
        if context.subresource.is_some() {
            fill_in_times(context, object, old);
        }
        Ok(())
    }

    /// upstream: pkg/registry/certificates/certificates#csrStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut check = context.new_check();
        if let Some(root) = check.root(object) {
            // Every subresource update validates the whole object.
            check.field(&root, "spec", self);
            validate_status(&root.child("status"), &mut check.errors);
        }
        check.errors
    }

    /// upstream: pkg/registry/certificates/certificates#csrStrategy.ValidateUpdate
    /// upstream: pkg/registry/certificates/certificates#csrApprovalStrategy.ValidateUpdate
    /// upstream: pkg/registry/certificates/certificates#csrStatusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old_root) = (Field::root(object), Field::root(old));
        let (status, old_status) = (root.child("status"), old_root.child("status"));
        let mut errors = self.validate(context, object);
        errors.extend(context.rest_of_metadata(object, old));
        let (conditions, before) = (status.child("conditions"), old_status.child("conditions"));
        for type_name in [APPROVED, DENIED, FAILED] {
            if of_type(&conditions, type_name).len() < of_type(&before, type_name).len() {
                let why = format!("updates may not remove a condition of type {type_name:?}");
                errors.push(conditions.forbidden(why));
            }
        }
        if context.subresource != Some("approval") {
            for type_name in [APPROVED, DENIED] {
                let (now, then) = (of_type(&conditions, type_name), of_type(&before, type_name));
                let done = match now.len().cmp(&then.len()) {
                    std::cmp::Ordering::Less => continue,
                    std::cmp::Ordering::Greater => "add",
                    std::cmp::Ordering::Equal if now == then => continue,
                    std::cmp::Ordering::Equal => "modify",
                };
                let why = format!("updates may not {done} a condition of type {type_name:?}");
                errors.push(conditions.forbidden(why));
            }
        }
        let (certificate, issued) = (status.child("certificate"), old_status.child("certificate"));
        if certificate.text() != issued.text() {
            if context.subresource != Some("status") {
                errors.push(certificate.forbidden("updates may not set certificate content"));
            } else if !issued.text().is_empty() {
                errors.push(certificate.forbidden("updates may not modify existing certificate content"));
            }
        }
        errors
    }
}

/// Restores the old conditions of type `type_name`, unless their number changed, which validation reports.
fn keep_conditions(object: &mut Value, old: &Value, type_name: &str) {
    let list = |object: &Value| object.at(&["status", "conditions"]).and_then(Value::as_list).cloned();
    let is_of_type = |condition: &&Value| condition.str_at(&["type"]) == Some(type_name);
    let (now, before) = (list(object).unwrap_or_default(), list(old).unwrap_or_default());
    let kept: Vec<Value> = before.iter().filter(is_of_type).cloned().collect();
    if kept.is_empty() || kept.len() != now.iter().filter(is_of_type).count() {
        return;
    }
    let mut kept = kept.into_iter();
    let mixed: Vec<Value> = now
        .iter()
        .map(|condition| match is_of_type(&condition) {
            true => kept.next().unwrap_or_default(),
            false => condition.clone(),
        })
        .collect();
    object.set_at(&["status", "conditions"], mixed.into());
}

/// Fills in the update and transition times of conditions.
fn fill_in_times(context: &WriteContext<'_>, object: &mut Value, old: &Value) {
    let conditions = |object: &Value| -> Vec<Value> {
        let list = object.at(&["status", "conditions"]).and_then(Value::as_list);
        list.into_iter().flat_map(|list| list.iter()).cloned().collect()
    };
    let (mut now, before) = (conditions(object), conditions(old));
    if now.is_empty() {
        return;
    }
    for condition in &mut now {
        if is_zero(condition.get("lastUpdateTime")) {
            condition.set_at(&["lastUpdateTime"], time_text(context.now()));
        }
        if is_zero(condition.get("lastTransitionTime")) {
            let same = |known: &&Value| {
                ["type", "status"]
                    .iter()
                    .all(|part| known.get(part) == condition.get(part))
            };
            let since = before
                .iter()
                .find(same)
                .and_then(|known| known.get("lastTransitionTime"))
                .filter(|since| !is_zero(Some(since)))
                .cloned();
            condition.set_at(
                &["lastTransitionTime"],
                since.unwrap_or_else(|| time_text(context.now())),
            );
        }
    }
    object.set_at(&["status", "conditions"], now.into());
}

fn of_type<'v>(conditions: &Field<'v, '_>, type_name: &str) -> Vec<&'v Value> {
    let list = conditions.slice().iter();
    list.filter(|condition| condition.str_at(&["type"]) == Some(type_name))
        .collect()
}

impl CertificateSigningRequest {
    /// Counts a certificate that is issued to a request for a duration, once it is stored.
    ///
    /// upstream: pkg/registry/certificates/certificates/storage#countCSRDurationMetric
    fn count_duration(&self, context: &WriteContext<'_>, object: &Value, old: &Value) {
        let certificate = |object: &Value| {
            let encoded = object.str_at(&["status", "certificate"]).unwrap_or_default();
            encoded.to_owned()
        };
        let wanted = old.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
        let (Some(wanted), issued) = (wanted, certificate(object)) else {
            return;
        };
        if context.dry_run || issued.is_empty() || !certificate(old).is_empty() {
            return;
        }
        let signer_name = old.str_at(&["spec", "signerName"]).unwrap_or_default();
        let signer = match signer_name.starts_with("kubernetes.io/") {
            true => SmolStr::new(signer_name),
            false => SmolStr::new_static("other"),
        };
        let counters = self.counters.clone();
        context.on_outcome(move |stored| {
            if !stored {
                return;
            }
            counters.csr_requested_durations.increment(&[&signer]);
            if lifetime_seconds(&issued).is_some_and(|lifetime| is_honored(wanted, lifetime)) {
                counters.csr_honored_durations.increment(&[&signer]);
            }
        });
    }
}

/// Returns true if a lifetime differs from the requested one by less than five minutes plus a twentieth of the request.
fn is_honored(wanted: i64, lifetime: i64) -> bool {
    let difference = (i128::from(wanted) - i128::from(lifetime)).abs();
    20 * difference < 20 * 300 + i128::from(wanted)
}

impl<'v> Rules<'v> for CertificateSigningRequest {
    type Rule = CertificateSigningRequestRule;

    fn rule(&self, rule: CertificateSigningRequestRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            CertificateSigningRequestRule::Request => {
                let request = part.child("request");
                if let Some(message) = request_error(request.text()) {
                    check.errors.push(request.invalid(message));
                }
            }
            CertificateSigningRequestRule::Signer => validate_signer(&part.child("signerName"), &mut check.errors),
        }
    }
}

/// upstream: pkg/apis/certificates/validation#validateCertificateSigningRequest
fn validate_signer(signer: &Field<'_, '_>, errors: &mut Errors) {
    if signer.text() == LEGACY_SIGNER {
        errors.push(signer.invalid("the legacy signerName is not allowed via this API version"));
    } else {
        validate_signer_name(signer, errors);
    }
}

/// upstream: pkg/apis/certificates/validation#validateCertificateSigningRequest
fn validate_status(status: &Field<'_, '_>, errors: &mut Errors) {
    validate_conditions(&status.child("conditions"), errors);
    let certificate = status.child("certificate");
    if !certificate.text().is_empty()
        && let Some(message) = certificate_error(certificate.text())
    {
        errors.push(certificate.invalid_as("<certificate data>", message));
    }
}

/// upstream: pkg/apis/certificates/validation#validateConditions
fn validate_conditions(conditions: &Field<'_, '_>, errors: &mut Errors) {
    let (mut seen, mut decided) = (HashSet::new(), HashSet::new());
    for condition in conditions.items() {
        let (type_field, status) = (condition.child("type"), condition.child("status"));
        if type_field.text().is_empty() {
            errors.push(type_field.required(""));
        }
        let allowed: &[&str] = if [APPROVED, DENIED, FAILED].contains(&type_field.text()) {
            &["True"]
        } else {
            &["False", "True", "Unknown"]
        };
        if status.text().is_empty() {
            errors.push(status.required(""));
        } else if !allowed.contains(&status.text()) {
            errors.push(status.not_supported(allowed));
        }
        if [APPROVED, DENIED].contains(&type_field.text()) {
            decided.insert(type_field.text());
            if decided.len() > 1 {
                errors.push(FieldError::invalid(&conditions.path(), type_field.text(), EXCLUSIVE));
            }
        }
        if !seen.insert(type_field.text()) {
            errors.push(type_field.duplicate());
        }
    }
}

/// Table cells that are not just the value at a path.
pub(super) const CELLS: &[NamedCell] = &[
    ("requested-duration", |object, _| requested_duration(object)),
    ("signing-condition", |object, _| signing_condition(object)),
];

fn requested_duration(request: &Value) -> Value {
    let seconds = request.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
    match seconds.and_then(|seconds| u64::try_from(seconds).ok()) {
        Some(seconds) => duration(std::time::Duration::from_secs(seconds)).into(),
        None => "<none>".into(),
    }
}

fn signing_condition(request: &Value) -> Value {
    let has = |of: &str| condition(request, of).is_some();
    let mut text = match () {
        () if has("Denied") => "Denied",
        () if has("Approved") => "Approved",
        () => "Pending",
    }
    .to_owned();
    if has("Failed") {
        text.push_str(",Failed");
    }
    if request
        .str_at(&["status", "certificate"])
        .is_some_and(|bytes| !bytes.is_empty())
    {
        text.push_str(",Issued");
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::harness::{Harness, at};

    fn request() -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let request = rcgen::CertificateParams::default().serialize_request(&key).unwrap();
        STANDARD.encode(request.pem().unwrap())
    }

    fn object(request: &str, spec: &str, status: &str) -> String {
        format!(
            "{{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {{name: a}}, spec: {{request: \
             {request}, {spec}}}, status: {{{status}}}}}"
        )
    }

    const SPEC: &str = "signerName: example.com/signer, usages: [client auth]";

    #[test]
    fn the_server_says_who_asks() {
        let sent = object(&request(), &format!("{SPEC}, username: somebody, groups: [x]"), "");
        let made = Harness::new().create(&sent);
        assert_eq!(at(&made, "spec.username"), r#""tester""#);
        assert_ne!(at(&made, "spec.groups"), r#"["x"]"#);
        assert_eq!(at(&made, "spec.usages"), r#"["client auth"]"#);
    }

    #[test]
    fn a_request_is_one_for_a_signer() {
        let errors = |request: &str, spec: &str| Harness::new().errors(&object(request, spec, ""));
        assert_eq!(errors(&request(), SPEC), Vec::<String>::new());
        assert_eq!(
            errors("bm90IGEgcmVxdWVzdA==", "signerName: nodomain, usages: []"),
            [
                "spec.request: Invalid value: \"bm90IGEgcmVxdWVzdA==\": PEM block type must be CERTIFICATE REQUEST",
                "spec.usages: Required value",
                "spec.signerName: Invalid value: \"nodomain\": must be a fully qualified domain and path of the form \
                 'example.com/signer-name'",
            ]
        );
    }

    #[test]
    fn approval_is_given_once_and_by_its_own_subresource() {
        let request = request();
        let with = |types: &[&str]| {
            let conditions: Vec<String> = types
                .iter()
                .map(|type_name| format!("{{type: {type_name}, status: 'True'}}"))
                .collect();
            object(&request, SPEC, &format!("conditions: [{}]", conditions.join(", ")))
        };
        let errors = |subresource, old: &[&str], new: &[&str]| {
            let harness = Harness::new();
            let old = harness.read(&with(old));
            let new = harness.read(&with(new));
            harness.check_update(subresource, &old, &new)
        };
        assert_eq!(errors(Some("approval"), &[], &["Approved"]), Vec::<String>::new());
        assert_eq!(
            errors(Some("approval"), &["Approved"], &[]),
            [r#"status.conditions: Forbidden: updates may not remove a condition of type "Approved""#]
        );
        assert_eq!(
            errors(Some("approval"), &["Denied"], &["Approved", "Denied"]),
            [r#"status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive"#]
        );
        assert_eq!(
            errors(Some("status"), &[], &["Approved"]),
            [r#"status.conditions: Forbidden: updates may not add a condition of type "Approved""#]
        );
    }

    #[test]
    fn certificates_are_pem_of_certificates() {
        let message = certificate_error("bm90IHBlbQ==");
        assert_eq!(
            message.as_deref(),
            Some("must contain at least one CERTIFICATE PEM block")
        );
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
        assert_eq!(certificate_error(&STANDARD.encode(certificate.pem())), None);
        let key = STANDARD.encode(key.serialize_pem());
        assert!(
            certificate_error(&key)
                .unwrap()
                .starts_with("only CERTIFICATE PEM blocks are allowed")
        );
    }

    #[test]
    fn duration_is_honored_within_its_tolerance() {
        // The limit is five minutes plus a twentieth of the requested duration, exclusive.
        for (wanted, lifetime, honored) in [
            (600, 600, true),
            (600, 929, true),
            (600, 930, false),
            (600, 271, true),
            (600, 270, false),
            (i64::MAX, i64::MIN, false),
        ] {
            assert_eq!(is_honored(wanted, lifetime), honored, "{wanted} {lifetime}");
        }
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 1, 2);
        let certificate = STANDARD.encode(params.self_signed(&key).unwrap().pem());
        assert_eq!(lifetime_seconds(&certificate), Some(86_400));
        assert_eq!(lifetime_seconds("!"), None);
    }
}
