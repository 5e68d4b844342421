#![no_main]

#[path = "../../crates/gotext/tests/invariants/mod.rs"]
mod invariants;

use holdfast_resource::jsonpath::JsonPath;

libfuzzer_sys::fuzz_target!(|text: &str| {
    invariants::text(text);
    let _ = JsonPath::parse(text);
});
