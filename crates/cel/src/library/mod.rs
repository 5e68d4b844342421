//! Functions of CEL and of the libraries of Kubernetes 1.36, one file per library.

pub(crate) mod authorizer;
pub(crate) mod format;
pub(crate) mod ip;
pub(crate) mod jsonpatch;
pub(crate) mod lists;
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

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::functions::{Declared, Function, overload};

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

/// Returns the function of this name.
pub(crate) fn declared(name: &str) -> Option<&'static Declared> {
    static DECLARED: LazyLock<HashMap<&'static str, Declared>> = LazyLock::new(|| {
        let read = |(function, mutation): (&Function, bool)| {
            let overloads = function
                .signatures
                .iter()
                .filter_map(|signature| overload(signature))
                .collect();
            let declared = Declared {
                name: function.name,
                call: function.call,
                cost: function.cost,
                overloads,
                mutation,
            };
            (function.name, declared)
        };
        let tables = TABLES
            .iter()
            .flat_map(|table| table.iter())
            .map(|function| (function, false));
        let mutation = jsonpatch::FUNCTIONS.iter().map(|function| (function, true));
        tables.chain(mutation).map(read).collect()
    });
    DECLARED.get(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_can_be_read() {
        let functions = TABLES.iter().flat_map(|table| table.iter());
        for function in functions.chain(jsonpatch::FUNCTIONS) {
            assert!(!function.signatures.is_empty(), "{}", function.name);
            for signature in function.signatures {
                assert!(overload(signature).is_some(), "{}: {signature}", function.name);
            }
        }
    }
}
