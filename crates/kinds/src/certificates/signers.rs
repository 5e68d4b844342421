//! Permissions for signers
//! (<https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#authorization>).

use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget};
use holdfast_resource::WriteContext;

/// Returns true if the user of a request has the permission `verb` for `signer`, or for all signers of its domain.
pub fn may_use_signer(context: &WriteContext<'_>, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    let may = |name: &str| {
        let target = AccessTarget::Resource(ResourceTarget {
            group: "certificates.k8s.io",
            version: "*",
            resource: "signers",
            name,
            ..ResourceTarget::default()
        });
        let authorizer = context.access.authorizer;
        authorizer
            .authorize(context.user, &Attributes { verb, target })
            .allows()
    };
    may(signer) || may(&format!("{domain}/*"))
}
