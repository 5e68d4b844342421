//! Types that the libraries of Kubernetes add to the language, without their functions.

pub(crate) mod authorizer;
pub(crate) mod cidr;
pub(crate) mod format;
pub(crate) mod semver;

/// Types of the libraries: the word in signatures, and the name that users see.
pub(crate) const NAMED_TYPES: [(&str, &str); 12] = [
    ("url", "kubernetes.URL"),
    ("ip", "net.IP"),
    ("cidr", "net.CIDR"),
    ("quantity", "kubernetes.Quantity"),
    ("semver", "kubernetes.Semver"),
    ("format", "kubernetes.NamedFormat"),
    ("authorizer", authorizer::AUTHORIZER),
    ("path_check", authorizer::PATH_CHECK),
    ("group_check", authorizer::GROUP_CHECK),
    ("resource_check", authorizer::RESOURCE_CHECK),
    ("decision", authorizer::DECISION),
    ("variables", "kubernetes.variables"),
];
