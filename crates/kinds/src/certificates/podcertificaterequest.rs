//! PodCertificateRequests: certificates for Pods, which kubelets request
//! (<https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#pod-certificate-requests>).

use std::time::{Duration, SystemTime};

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P521_SHA256_ASN1, ED25519, RSA_PSS_2048_8192_SHA256,
    UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_kind_tables::Kind;
use holdfast_resource::table::{NamedCell, items, parse_time};
use holdfast_resource::{Rejection, Strategy, WriteContext};
use holdfast_schema::metadata::conditions::validate_conditions;
use holdfast_schema::metadata::formats::{dns_subdomain, domain_prefixed_path};
use holdfast_schema::{Field, FieldError, FieldPath, NoRules};
use holdfast_value::Value;
use x509_parser::prelude::{FromDer, SubjectPublicKeyInfo, X509Certificate, X509CertificationRequest};
use x509_parser::public_key::PublicKey;

use super::armor::{Block, blocks};
use super::signers::may_use_signer;
use crate::kind::kind;
use crate::validation::signers::validate_signer_name;
use crate::validation::{Errors, report, same};

/// Strategy of PodCertificateRequests.
pub(crate) struct PodCertificateRequest;

/// Maximum length of an identifier in bytes.
const UID: usize = 128;
/// Maximum size of a key, signature and request in bytes.
const KEY: usize = 10 * 1024;
const CHAIN: usize = 100 * 1024;
/// Minimum and maximum lifetimes of certificates in seconds. The maximum is lower for Kubernetes' own signers.
const SHORTEST: i64 = 60 * 60;
const LONGEST_OF_KUBERNETES: i64 = 24 * 60 * 60;
const LONGEST: i64 = 91 * 24 * 60 * 60;
const ANNOTATIONS: usize = 256 * 1024;
/// Maximum distance of `notBefore` from now, and minimum distance of the refresh time from `notBefore` and `notAfter`.
const SKEW: Duration = Duration::from_secs(5 * 60);
const MARGIN: Duration = Duration::from_secs(10 * 60);
const OUTCOMES: [&str; 3] = ["Issued", "Denied", "Failed"];

/// Table cells.
pub(super) const CELLS: &[NamedCell] = &[("pod-certificate-state", |object, _| state(object))];

fn state(request: &Value) -> Value {
    let types = items(request, &["status", "conditions"]).iter();
    let mut outcomes = types.filter_map(|condition| condition.str_at(&["type"]));
    let last = outcomes.rfind(|type_name| OUTCOMES.contains(type_name));
    last.unwrap_or("Pending").into()
}

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(PodCertificateRequest).cells(CELLS).empty_status().done()
}

impl Strategy for PodCertificateRequest {
    /// upstream: pkg/registry/certificates/podcertificaterequest#Strategy.PrepareForUpdate
    /// upstream: pkg/registry/certificates/podcertificaterequest#StatusStrategy.PrepareForUpdate
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Rejection> {
        if context.subresource.is_none() {
            let status = old.get("status").cloned().unwrap_or_else(Value::empty_map);
            object.set_at(&["status"], status);
        }
        Ok(())
    }

    /// upstream: pkg/registry/certificates/podcertificaterequest#Strategy.Validate
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validate_spec(&Field::root(object).child("spec"), &mut errors);
        errors
    }

    /// upstream: pkg/registry/certificates/podcertificaterequest#Strategy.ValidateUpdate
    /// upstream: pkg/registry/certificates/podcertificaterequest#StatusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        if context.subresource.is_none() {
            return context.check_changes(object, old, &NoRules);
        }
        let (root, old_root) = (Field::root(object), Field::root(old));
        let mut errors = Errors::new();
        validate_status(context, &root, &old_root, &mut errors);
        let signer = old.str_at(&["spec", "signerName"]).unwrap_or_default();
        let changes = !same(object.get("status"), old.get("status"));
        if errors.is_empty() && changes && !may_use_signer(context, "sign", signer) {
            let why = format!(
                "User {:?} is not permitted to \"sign\" for signer {signer:?}",
                context.user.name
            );
            errors.push(root.child("spec").child("signerName").forbidden(why));
        }
        errors
    }
}

/// upstream: pkg/apis/certificates/validation#ValidatePodCertificateRequestCreate
fn validate_spec(spec: &Field<'_, '_>, errors: &mut Errors) {
    validate_signer_name(&spec.child("signerName"), errors);
    validate_annotations(&spec.child("unverifiedUserAnnotations"), errors);
    for (name, uid) in [
        ("podName", "podUID"),
        ("serviceAccountName", "serviceAccountUID"),
        ("nodeName", "nodeUID"),
    ] {
        let (name, uid) = (spec.child(name), spec.child(uid));
        report(&name, dns_subdomain(name.text()), errors);
        if uid.text().is_empty() {
            errors.push(uid.invalid_text("must not be empty"));
        }
        if uid.text().len() > UID {
            errors.push(uid.too_long(UID));
        }
    }
    let life = spec.child("maxExpirationSeconds");
    let Some(seconds) = life.number() else {
        errors.push(life.required("must be set"));
        return;
    };
    let longest = match is_of_kubernetes(spec.child("signerName").text()) {
        true => LONGEST_OF_KUBERNETES,
        false => LONGEST,
    };
    if !(SHORTEST..=longest).contains(&seconds) {
        errors.push(life.invalid(format!("must be in the range [{SHORTEST}, {longest}]")));
    }
    let [request, key, proof] =
        ["stubPKCS10Request", "pkixPublicKey", "proofOfPossession"].map(|name| !spec.child(name).text().is_empty());
    match (request, key, proof) {
        (true, false, false) => validate_request(&spec.child("stubPKCS10Request"), errors),
        (false, true, true) => validate_key(spec, errors),
        _ => errors.push(omitted(
            spec,
            "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set",
        )),
    }
}

/// upstream: pkg/apis/core/validation#IsKubernetesSignerName
fn is_of_kubernetes(signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")
}

/// upstream: pkg/apis/core/validation#ValidateUserAnnotations
fn validate_annotations(annotations: &Field<'_, '_>, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in annotations.entries() {
        errors.extend(domain_prefixed_path(&annotations.path(), &key.to_lowercase()));
        size += key.len() + value.text().len();
    }
    if size > ANNOTATIONS {
        errors.push(annotations.too_long(ANNOTATIONS));
    }
}

/// Returns an error that does not show the invalid value.
fn omitted(field: &Field<'_, '_>, why: &str) -> FieldError {
    FieldError::invalid_text(&field.path(), why.to_owned(), "")
}

fn bytes_of(field: &Field<'_, '_>) -> Vec<u8> {
    STANDARD.decode(field.text()).unwrap_or_default()
}

/// Type of the key.
enum Key {
    Supported(&'static dyn VerificationAlgorithm),
    Curve,
    Rsa(usize),
    Unknown,
}

impl Key {
    fn from_info(info: &SubjectPublicKeyInfo<'_>) -> Self {
        const CURVES: [(&str, &dyn VerificationAlgorithm); 3] = [
            ("1.2.840.10045.3.1.7", &ECDSA_P256_SHA256_ASN1),
            ("1.3.132.0.34", &ECDSA_P384_SHA256_ASN1),
            ("1.3.132.0.35", &ECDSA_P521_SHA256_ASN1),
        ];
        const ED25519_OID: &str = "1.3.101.112";
        if info.algorithm.algorithm.to_id_string() == ED25519_OID {
            return Self::Supported(&ED25519);
        }
        match info.parsed() {
            Ok(PublicKey::RSA(key)) if [3072, 4096].contains(&key.key_size()) => {
                Self::Supported(&RSA_PSS_2048_8192_SHA256)
            }
            Ok(PublicKey::RSA(key)) => Self::Rsa(key.key_size()),
            Ok(PublicKey::EC(_)) => {
                let curve = info
                    .algorithm
                    .parameters
                    .as_ref()
                    .and_then(|any| any.as_oid().ok())
                    .map(|oid| oid.to_id_string())
                    .unwrap_or_default();
                let known = CURVES.iter().find(|(oid, _)| *oid == curve);
                known.map_or(Self::Curve, |(_, algorithm)| Self::Supported(*algorithm))
            }
            _ => Self::Unknown,
        }
    }

    /// Returns the signature algorithm of the key. Reports an invalid key at `field`.
    ///
    /// upstream: pkg/apis/certificates/validation#validateDeprecatedPKIXPublicKey
    /// upstream: pkg/apis/certificates/validation#validateStubPKCS10Request
    fn check(
        info: &SubjectPublicKeyInfo<'_>,
        field: &Field<'_, '_>,
        curves: &str,
        errors: &mut Errors,
    ) -> Option<&'static dyn VerificationAlgorithm> {
        let rejection = match Self::from_info(info) {
            Self::Supported(algorithm) => return Some(algorithm),
            Self::Curve => field.invalid_as("curve", format!("elliptic public keys must use curve {curves}")),
            Self::Rsa(bits) => field.invalid_as(
                format!("{bits}-bit modulus"),
                "RSA keys must have modulus size 3072 or 4096",
            ),
            Self::Unknown => field.invalid("unknown public key type; supported types are Ed25519, ECDSA, and RSA"),
        };
        errors.push(rejection);
        None
    }
}

/// upstream: pkg/apis/certificates/validation#validateStubPKCS10Request
fn validate_request(request: &Field<'_, '_>, errors: &mut Errors) {
    let der = bytes_of(request);
    if der.len() > KEY {
        errors.push(request.too_long(KEY));
        return;
    }
    let Ok((_, read)) = X509CertificationRequest::from_der(&der) else {
        errors.push(omitted(request, "must be a valid PKCS#10 CSR"));
        return;
    };
    let info = &read.certification_request_info.subject_pki;
    if Key::check(info, request, "P256, P384, or P521", errors).is_some() && read.verify_signature().is_err() {
        errors.push(omitted(request, "invalid signature"));
    }
}

/// Checks that the signature proves that the requester owns the private key.
///
/// upstream: pkg/apis/certificates/validation#validateDeprecatedPKIXPublicKey
fn validate_key(spec: &Field<'_, '_>, errors: &mut Errors) {
    let (key, proof) = (spec.child("pkixPublicKey"), spec.child("proofOfPossession"));
    let (der, signature) = (bytes_of(&key), bytes_of(&proof));
    for (field, bytes) in [(&key, &der), (&proof, &signature)] {
        if bytes.len() > KEY {
            errors.push(field.too_long(KEY));
            return;
        }
    }
    let Ok((_, info)) = SubjectPublicKeyInfo::from_der(&der) else {
        errors.push(key.invalid("must be a valid PKIX-serialized public key"));
        return;
    };
    let Some(algorithm) = Key::check(&info, &key, "P256 or P384", errors) else {
        return;
    };
    let key = UnparsedPublicKey::new(algorithm, &info.subject_public_key.data);
    if key.verify(spec.child("podUID").text().as_bytes(), &signature).is_err() {
        errors.push(omitted(&proof, "could not verify proof-of-possession signature"));
    }
}

fn is(request: &Field<'_, '_>, outcome: &str) -> bool {
    let status = request.child("status");
    let conditions = status.child("conditions");
    conditions
        .items()
        .any(|condition| condition.child("type").text() == outcome && condition.child("status").text() == "True")
}

/// upstream: pkg/apis/certificates/validation#ValidatePodCertificateRequestStatusUpdate
fn validate_status(context: &WriteContext<'_>, new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (status, before) = (new.child("status"), old.child("status"));
    let conditions = status.child("conditions");
    validate_outcomes(&conditions, errors);
    validate_conditions(&conditions, errors);
    if !errors.is_empty() {
        return;
    }
    let is_decided = OUTCOMES.iter().any(|outcome| is(old, outcome));
    if is_decided {
        if !same(status.value(), before.value()) {
            errors.push(omitted(
                &status,
                "immutable after PodCertificateRequest is issued, denied, or failed",
            ));
        }
    } else if is(new, "Denied") || is(new, "Failed") {
        let others = status.entries().any(|(name, _)| name != "conditions");
        if others {
            let why = "non-condition status fields must be empty when denying or failing the PodCertificateRequest";
            errors.push(omitted(&status, why));
        }
    } else if is(new, "Issued") {
        validate_issued(context, &status, old, errors);
    } else if !same(status.value(), before.value()) {
        errors.push(omitted(
            &status,
            r#"status is immutable unless transitioning to "Issued", "Denied", or "Failed""#,
        ));
    }
}

/// Validates that there is at most one outcome and that its status is true. The error paths have brackets where other
/// kinds have none.
///
/// upstream: pkg/apis/certificates/validation#ValidatePodCertificateRequestStatusUpdate
fn validate_outcomes(conditions: &Field<'_, '_>, errors: &mut Errors) {
    let mut known = 0;
    for (at, condition) in conditions.slice().iter().enumerate() {
        let path = FieldPath::new(&format!("status.conditions.[{at}]"));
        let (type_name, state) = (
            condition.str_at(&["type"]).unwrap_or_default(),
            condition.str_at(&["status"]).unwrap_or_default(),
        );
        if !OUTCOMES.contains(&type_name) {
            errors.push(FieldError::not_supported(&path.child("type"), type_name, &OUTCOMES));
            continue;
        }
        known += 1;
        if known > 1 {
            let why = r#"There may be at most one condition with type "Issued", "Denied", or "Failed""#;
            errors.push(FieldError::invalid(&path.child("type"), type_name, why));
        }
        if state != "True" {
            errors.push(FieldError::not_supported(&path.child("status"), state, &["True"]));
        }
    }
}

/// Returns the PEM blocks of a certificate chain, with `Err` for a block that is not a certificate.
fn certificates(chain: &str) -> Vec<Result<Block, ()>> {
    let of_type = |block: Block| {
        if block.label == "CERTIFICATE" {
            Ok(block)
        } else {
            Err(())
        }
    };
    blocks(chain.as_bytes()).map(of_type).collect()
}

/// Validates an issued certificate: it is for the requested key, and its times match those in the status.
///
/// upstream: pkg/apis/certificates/validation#ValidatePodCertificateRequestStatusUpdate
fn validate_issued(context: &WriteContext<'_>, status: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let chain = status.child("certificateChain");
    if chain.text().len() > CHAIN {
        errors.push(chain.too_long(CHAIN));
        return;
    }
    let blocks = certificates(chain.text());
    let leaf = match blocks.first() {
        None => {
            errors.push(chain.invalid_text("issued certificate chain must contain at least one certificate"));
            return;
        }
        Some(Err(())) => {
            errors.push(chain.invalid_text("issued certificate chain must consist entirely of CERTIFICATE PEM blocks"));
            return;
        }
        Some(Ok(leaf)) => leaf,
    };
    let Ok((_, leaf)) = X509Certificate::from_der(&leaf.contents) else {
        errors.push(chain.invalid_text("leaf certificate does not parse as valid X.509"));
        return;
    };
    if requested_key(&old.child("spec")).as_deref() != Some(leaf.public_key().raw) {
        errors.push(chain.invalid_text("leaf certificate was not issued to the requested public key"));
        return;
    }
    validate_times(context, status, old, &leaf, errors);
    if !errors.is_empty() {
        return;
    }
    for block in blocks.iter().skip(1) {
        let why = match block {
            Err(()) => "issued certificate chain must consist entirely of CERTFICATE PEM blocks",
            Ok(block) if X509Certificate::from_der(&block.contents).is_err() => {
                "intermediate certificate does not parse as valid X.509"
            }
            Ok(_) => continue,
        };
        errors.push(chain.invalid_text(why));
        return;
    }
}

/// Returns the key of a requested certificate as DER.
fn requested_key(spec: &Field<'_, '_>) -> Option<Vec<u8>> {
    let request = bytes_of(&spec.child("stubPKCS10Request"));
    if request.is_empty() {
        return Some(bytes_of(&spec.child("pkixPublicKey")));
    }
    let (_, request) = X509CertificationRequest::from_der(&request).ok()?;
    Some(request.certification_request_info.subject_pki.raw.to_vec())
}

/// upstream: pkg/apis/certificates/validation#ValidatePodCertificateRequestStatusUpdate
fn validate_times(
    context: &WriteContext<'_>,
    status: &Field<'_, '_>,
    old: &Field<'_, '_>,
    leaf: &X509Certificate<'_>,
    errors: &mut Errors,
) {
    let (begin, end, refresh) = (
        status.child("notBefore"),
        status.child("notAfter"),
        status.child("beginRefreshAt"),
    );
    let [begins, ends, refreshes] = [&begin, &end, &refresh].map(|field| parse_time(field.text()));
    for (time, field, why) in [
        (
            begins,
            &begin,
            "must be present and consistent with the issued certificate",
        ),
        (ends, &end, "must be present and consistent with the issued certificate"),
        (
            refreshes,
            &refresh,
            "must be present and in the range [notbefore+10min, notafter-10min]",
        ),
    ] {
        if time.is_none() {
            errors.push(field.required(why));
        }
    }
    let (Some(begins), Some(ends), Some(refreshes)) = (begins, ends, refreshes) else {
        return;
    };
    let at = |seconds: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    let (first, last) = (
        at(leaf.validity().not_before.timestamp()),
        at(leaf.validity().not_after.timestamp()),
    );
    let life = last.duration_since(first).unwrap_or_default();
    let apart = begins
        .duration_since(context.now())
        .or_else(|earlier| Ok::<_, ()>(earlier.duration()));
    let spec = old.child("spec");
    let longest = spec.child("maxExpirationSeconds").number().unwrap_or_default();
    let shown = holdfast_gotext::duration::text(life);
    let chain = status.child("certificateChain").path();
    let of_life = |why: &str| FieldError::invalid_text(&chain, shown.clone(), why);
    let rejection = if begins != first {
        begin.invalid("must be set to the NotBefore time encoded in the leaf certificate")
    } else if apart.is_ok_and(|apart| apart >= SKEW) {
        begin.invalid("must be set to within 5 minutes of kube-apiserver's current time")
    } else if ends != last {
        end.invalid("must be set to the NotAfter time encoded in the leaf certificate")
    } else if life < Duration::from_secs(3600) {
        of_life("leaf certificate lifetime must be >= 1 hour")
    } else if life > Duration::from_secs(u64::try_from(longest).unwrap_or_default()) {
        of_life(&format!(
            "leaf certificate lifetime must be <= spec.maxExpirationSeconds ({longest})"
        ))
    } else if refreshes < begins + MARGIN {
        refresh.invalid("must be at least 10 minutes after status.notBefore")
    } else if refreshes > ends - MARGIN {
        refresh.invalid("must be at least 10 minutes before status.notAfter")
    } else {
        return;
    };
    errors.push(rejection);
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn request(more: &str) -> String {
        format!(
            "{{apiVersion: certificates.k8s.io/v1beta1, kind: PodCertificateRequest, metadata: {{name: a, namespace: b}}, spec: \
             {{signerName: a.io/b, podName: pod, podUID: one, serviceAccountName: account, serviceAccountUID: two, nodeName: node, nodeUID: three, \
             {more}}}}}"
        )
    }

    #[test]
    fn a_request_has_a_key_and_shows_that_it_is_the_askers() {
        let harness = Harness::serving("api/beta=true", "PodCertificateRequest=true");
        let neither =
            "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
        assert_eq!(harness.errors(&request("")), [neither]);
        let odd = harness.errors(&request("stubPKCS10Request: AAAA, maxExpirationSeconds: 1"));
        assert_eq!(odd.len(), 2, "{odd:?}");
        assert!(odd[0].contains("must be in the range [3600, 7862400]"), "{odd:?}");
        assert!(odd[1].contains("must be a valid PKCS#10 CSR"), "{odd:?}");
        // The example key of RFC 8410. Its owner did not sign the identifier.
        let key = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";
        let unproven = harness.errors(&request(&format!("pkixPublicKey: {key}, proofOfPossession: AAAA")));
        assert_eq!(unproven.len(), 1, "{unproven:?}");
        assert!(
            unproven[0].contains("could not verify proof-of-possession"),
            "{unproven:?}"
        );
    }
}
