//! The functions of CEL and of the libraries that Kubernetes 1.36 adds, a file for each.

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

/// The tables of all libraries that every environment has.
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

/// The types of the libraries: the word that signatures use, and the name that users see.
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
