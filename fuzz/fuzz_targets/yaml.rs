#![no_main]

#[path = "../../crates/value/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| invariants::yaml(bytes));
