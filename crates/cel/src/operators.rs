//! Operators and their overloads.

use std::sync::LazyLock;

use crate::functions::{Overload, overload};

/// Operator as the parser represents it.
pub(crate) struct Operator {
    pub(crate) name: &'static str,
    pub(crate) overloads: Vec<Overload>,
}

const COMPARISON: &[&str] = &[
    "(bool, bool) bool",
    "(int, int) bool",
    "(int, double) bool",
    "(int, uint) bool",
    "(uint, uint) bool",
    "(uint, double) bool",
    "(uint, int) bool",
    "(double, double) bool",
    "(double, int) bool",
    "(double, uint) bool",
    "(string, string) bool",
    "(bytes, bytes) bool",
    "(timestamp, timestamp) bool",
    "(duration, duration) bool",
];

const SIGNATURES: [(&str, &[&str]); 19] = [
    ("_?_:_", &["(bool, A, A) A"]),
    ("_&&_", &["(bool, bool) bool"]),
    ("_||_", &["(bool, bool) bool"]),
    ("!_", &["(bool) bool"]),
    ("-_", &["(double) double", "(int) int"]),
    ("_==_", &["(A, A) bool"]),
    ("_!=_", &["(A, A) bool"]),
    ("_<_", COMPARISON),
    ("_<=_", COMPARISON),
    ("_>_", COMPARISON),
    ("_>=_", COMPARISON),
    (
        "_+_",
        &[
            "(bytes, bytes) bytes",
            "(double, double) double",
            "(duration, duration) duration",
            "(duration, timestamp) timestamp",
            "(timestamp, duration) timestamp",
            "(int, int) int",
            "(list(A), list(A)) list(A)",
            "(string, string) string",
            "(uint, uint) uint",
        ],
    ),
    (
        "_-_",
        &[
            "(double, double) double",
            "(duration, duration) duration",
            "(int, int) int",
            "(timestamp, duration) timestamp",
            "(timestamp, timestamp) duration",
            "(uint, uint) uint",
        ],
    ),
    (
        "_*_",
        &["(double, double) double", "(int, int) int", "(uint, uint) uint"],
    ),
    (
        "_/_",
        &["(double, double) double", "(int, int) int", "(uint, uint) uint"],
    ),
    ("_%_", &["(int, int) int", "(uint, uint) uint"]),
    ("@in", &["(A, list(A)) bool", "(A, map(A, B)) bool"]),
    (
        "_[_]",
        &[
            "(list(A), int) A",
            "(map(A, B), A) B",
            "(optional(list(A)), int) optional(A)",
            "(optional(map(A, B)), A) optional(B)",
        ],
    ),
    (
        "_[?_]",
        &[
            "(list(A), int) optional(A)",
            "(map(A, B), A) optional(B)",
            "(optional(list(A)), int) optional(A)",
            "(optional(map(A, B)), A) optional(B)",
        ],
    ),
];

/// Returns the operator called `name`.
pub(crate) fn operator(name: &str) -> Option<&'static Operator> {
    static OPERATORS: LazyLock<Vec<Operator>> = LazyLock::new(|| {
        let read = |(name, signatures): &(&'static str, &[&str])| Operator {
            name,
            overloads: signatures.iter().filter_map(|signature| overload(signature)).collect(),
        };
        SIGNATURES.iter().map(read).collect()
    });
    OPERATORS.iter().find(|operator| operator.name == name)
}
