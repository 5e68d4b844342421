//! Functions of CEL and of the libraries of Kubernetes 1.36, one file per library.

pub(crate) mod authorizer;
pub(crate) mod format;
pub(crate) mod ip;
pub(crate) mod jsonpatch;
pub(crate) mod lists;
mod netip;
pub(crate) mod optional;
pub(crate) mod quantity;
pub(crate) mod regex;
pub(crate) mod semver;
pub(crate) mod sets;
pub(crate) mod standard;
pub(crate) mod strings;
pub(crate) mod template;
pub(crate) mod times;
pub(crate) mod url;

use crate::functions::Function;

/// Tables of all libraries that are in every environment.
pub(crate) const TABLES: [&[Function]; 13] = [
    standard::FUNCTIONS,
    strings::FUNCTIONS,
    times::FUNCTIONS,
    lists::FUNCTIONS,
    sets::FUNCTIONS,
    optional::FUNCTIONS,
    regex::FUNCTIONS,
    url::FUNCTIONS,
    ip::FUNCTIONS,
    quantity::FUNCTIONS,
    semver::FUNCTIONS,
    format::FUNCTIONS,
    authorizer::FUNCTIONS,
];

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
