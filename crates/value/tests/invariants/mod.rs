//! Invariants of the readers for any input bytes, shared by the fuzz targets and the test with seeded mutations.

#![allow(dead_code, unreachable_pub)] // Each target uses a part.
#![allow(clippy::expect_used, clippy::panic)] // A broken invariant is to be seen.

use holdfast_value::json_patch::{Bounds, Patch};
use holdfast_value::{Limits, Value, json, merge_patch, yaml};

const LIMITS: Limits = Limits {
    max_bytes: 1 << 20,
    max_depth: 64,
    max_nodes: 10_000,
};

/// Checks that any value read from JSON survives a round trip through JSON and YAML, and that repeated keys change
/// nothing.
pub fn json(bytes: &[u8]) {
    let Ok(value) = json::parse(bytes, &LIMITS) else { return };
    assert!(value.depth() <= LIMITS.max_depth);
    let text = json::to_vec(&value);
    let again = json::parse(&text, &Limits::TRUSTED).expect("own JSON is read");
    assert_eq!(again, value);
    // A first round trip may change text: the float `-0` is read as an integer. A second one does not.
    let text = json::to_vec(&again);
    assert_eq!(
        json::to_vec(&json::parse(&text, &Limits::TRUSTED).expect("own JSON is read")),
        text
    );
    let mut pretty = Vec::new();
    json::write_pretty(&value, "  ", &mut pretty);
    assert_eq!(
        json::parse(&pretty, &Limits::TRUSTED).expect("own pretty JSON is read"),
        value
    );
    let parsed = json::parse_with_findings(bytes, &LIMITS).expect("findings are no errors");
    assert_eq!(parsed.value, value);
    reads_back_from_yaml(&value);
}

/// Checks that any value read from YAML survives a round trip through YAML and JSON.
pub fn yaml(bytes: &[u8]) {
    let Ok(value) = yaml::parse(bytes, &LIMITS) else { return };
    assert!(value.depth() <= LIMITS.max_depth);
    assert_eq!(
        json::parse(&json::to_vec(&value), &Limits::TRUSTED).expect("own JSON is read"),
        value
    );
    reads_back_from_yaml(&value);
}

/// Treats the bytes up to the first line break as a document and the rest as a patch: neither may do harm, and patching
/// leaves the original document unchanged.
pub fn json_patch(bytes: &[u8]) {
    let cut = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (document, patch) = bytes.split_at(cut);
    let Ok(document) = json::parse(document, &LIMITS) else {
        return;
    };
    let before = json::to_vec(&document);
    let bounds = Bounds {
        max_copied_bytes: 1 << 16,
        max_depth: LIMITS.max_depth,
    };
    if let Ok((patch, _)) = Patch::parse(patch, &LIMITS)
        && let Ok(after) = patch.apply(&document, &bounds)
    {
        assert!(after.depth() <= LIMITS.max_depth);
    }
    if let Ok(patch) = json::parse(patch, &LIMITS)
        && let Ok(after) = merge_patch::apply(&document, &patch)
    {
        assert!(after.depth() <= LIMITS.max_depth);
        assert_eq!(
            merge_patch::apply(&after, &patch).expect("a patch applies again"),
            after
        );
    }
    assert_eq!(json::to_vec(&document), before);
}

fn reads_back_from_yaml(value: &Value) {
    let text = yaml::to_string(value);
    match yaml::parse(text.as_bytes(), &Limits::TRUSTED) {
        Ok(again) => assert_eq!(&again, value, "{text}"),
        Err(error) => panic!("own YAML is read: {error}\n{text}"),
    }
}
