#![no_main]

use std::sync::LazyLock;

use holdfast_schema::types::{TypeId, TypeTable};
use holdfast_schema::{GroupVersion, GroupVersionKind, TablePatchType, consumed_patch, strategic_merge};
use holdfast_value::{Limits, json};

static TYPES: LazyLock<(TypeTable, TypeId)> = LazyLock::new(|| {
    let types = holdfast_kind_tables::types().unwrap();
    let pod = types.id_of_kind(&GroupVersionKind {
        group_version: GroupVersion::parse("v1").unwrap(),
        kind: "Pod".into(),
    });
    (types, pod.unwrap())
});

const LIMITS: Limits = Limits {
    max_bytes: 1 << 16,
    max_depth: 32,
    max_nodes: 5_000,
};

// The first line is a Pod, the second a patch. Merging changes neither, has the same result each time, and makes nothing deeper than both.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let cut = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (pod, patch) = bytes.split_at(cut);
    let (Ok(pod), Ok(patch)) = (json::parse(pod, &LIMITS), json::parse(patch, &LIMITS)) else {
        return;
    };
    let before = (json::to_vec(&pod), json::to_vec(&patch));
    let patch_type = TablePatchType::new(&TYPES.0, TYPES.1);
    let merged = strategic_merge(pod.clone(), &patch, &patch_type);
    if let Ok(merged) = &merged {
        assert!(merged.depth() <= pod.depth() + patch.depth());
        assert_eq!(strategic_merge(pod.clone(), &patch, &patch_type).as_ref().ok(), Some(merged));
    }
    let _ = consumed_patch(&patch, &pod, &patch_type);
    assert_eq!((json::to_vec(&pod), json::to_vec(&patch)), before);
});
