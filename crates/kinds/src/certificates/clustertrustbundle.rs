//! ClusterTrustBundles: <https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#cluster-trust-bundles>.

use std::collections::BTreeMap;

use holdfast_kind_tables::Kind;
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::metadata::formats::{Messages, dns_subdomain};
use holdfast_schema::{Field, FieldError, NoRules};
use holdfast_value::Value;

use super::pem::{Anchor, anchors};
use crate::config::Config;
use crate::kind::kind;
use crate::validation::Errors;
use crate::validation::signers::validate_signer_name;
use crate::versions::Versions;

/// Strategy of ClusterTrustBundles.
pub(crate) struct ClusterTrustBundle;

/// Maximum size of a bundle in bytes.
const BUNDLE: usize = 1 << 20;

/// Placeholder for the value of an invalid bundle in errors.
const OMITTED: &str = "<value omitted>";

/// API versions of ClusterTrustBundles.
const BUNDLES: Versions = Versions::alike(&["certificates.k8s.io/v1beta1", "certificates.k8s.io/v1alpha1"]);

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(ClusterTrustBundle)
        .named_by(name_errors)
        .converts_by(config, "certificates.k8s.io", BUNDLES)
        .done()
}

impl Strategy for ClusterTrustBundle {
    /// upstream: pkg/registry/certificates/clustertrustbundle#strategy.Validate
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        validate(&Field::root(object), true)
    }

    /// upstream: pkg/registry/certificates/clustertrustbundle#strategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old_root) = (Field::root(object), Field::root(old));
        let (spec, old_spec) = (root.child("spec"), old_root.child("spec"));
        let is_other = spec.child("trustBundle").text() != old_spec.child("trustBundle").text();
        let mut errors = validate(&root, is_other);
        errors.extend(context.check_changes(object, old, &NoRules));
        errors
    }
}

/// Checks that the name begins with the signer's name if the bundle has a signer.
///
/// upstream: pkg/apis/core/validation#ValidateClusterTrustBundleName
pub(super) fn name_errors(object: &Value, name: &str) -> Messages {
    let signer = object.str_at(&["spec", "signerName"]).unwrap_or_default();
    if signer.is_empty() {
        return match name.contains(':') {
            true => vec!["ClusterTrustBundle without signer name must not have \":\" in its name".into()],
            false => dns_subdomain(name),
        };
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&prefix) {
        Some(rest) => dns_subdomain(rest),
        None => {
            let why = format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}");
            vec![why.into()]
        }
    }
}

/// upstream: pkg/apis/certificates/validation#ValidateClusterTrustBundle
fn validate(root: &Field<'_, '_>, reads_bundle: bool) -> Errors {
    let mut errors = Errors::new();
    let spec = root.child("spec");
    let signer = spec.child("signerName");
    if !signer.text().is_empty() {
        validate_signer_name(&signer, &mut errors);
    }
    if reads_bundle {
        validate_bundle(&spec.child("trustBundle"), &mut errors);
    }
    errors
}

/// Checks that the bundle contains distinct CA certificates.
///
/// upstream: pkg/apis/certificates/validation#validateTrustBundle
fn validate_bundle(bundle: &Field<'_, '_>, errors: &mut Errors) {
    if bundle.text().len() > BUNDLE {
        errors.push(bundle.too_long(BUNDLE));
        return;
    }
    let before = errors.len();
    let mut refuse = |why: String| errors.push(bundle.invalid_as(OMITTED, why));
    let mut places: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    for (at, anchor) in anchors(bundle.text()).into_iter().enumerate() {
        match anchor {
            Anchor::Authority(der) => places.entry(der).or_default().push(at),
            Anchor::OtherType(label) => refuse(format!("entry {at} has bad block type: {label}")),
            Anchor::WithHeaders => refuse(format!("entry {at} has PEM block headers")),
            Anchor::Unreadable => refuse(format!("entry {at} does not parse as X.509")),
            Anchor::NoAuthority => refuse(format!("entry {at} does not have the CA bit set")),
        }
    }
    if errors.len() > before {
        return;
    }
    if places.is_empty() {
        errors.push(bundle.invalid_as(OMITTED, "at least one trust anchor must be provided"));
    }
    for at in places.values().filter(|at| at.len() > 1) {
        let at: Vec<String> = at.iter().map(usize::to_string).collect();
        let why = format!("duplicate trust anchor (indices [{}])", at.join(" "));
        errors.push(bundle.invalid_as(OMITTED, why));
    }
}
