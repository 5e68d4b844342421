#![no_main]

use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use holdfast_merge::{DEDUCED, SchemaBuilder, Set};
use holdfast_ownership::{FieldManager, OneVersion, blame, check_managed_fields, keep_times};
use holdfast_value::{Limits, Value, json};

static MANAGER: LazyLock<FieldManager> = LazyLock::new(|| {
    let schema = Arc::new(SchemaBuilder::new().define_deduced().build());
    let merge_type = schema.named(DEDUCED).unwrap();
    FieldManager::builder("v1", "Thing", Arc::new(OneVersion::new("v1", schema, merge_type))).build()
});

const LIMITS: Limits = Limits {
    max_bytes: 1 << 16,
    max_depth: 32,
    max_nodes: 5_000,
};

// The first line is an object, possibly with managed fields; the second a configuration.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
    let (first, second) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let sets = [first, second].map(|line| Set::from_fields_v1(line).ok());
    for set in sets.iter().flatten() {
        reads_back(set);
    }
    if let [Some(one), Some(other)] = &sets {
        let (common, rest) = (one.intersection(other), one.difference(other));
        assert_eq!(&common.union(&rest), one);
        assert_eq!(common, other.intersection(one));
        assert!(rest.intersection(other).is_empty());
    }
    let objects = [first, second].map(|line| json::parse(line, &LIMITS).ok());
    if let [Some(existing), Some(config)] = objects {
        applies(existing, config);
    }
});

fn reads_back(set: &Set) {
    let text = set.to_fields_v1();
    assert_eq!(&Set::from_fields_v1(text.as_bytes()).unwrap(), set);
    assert_eq!(&Set::from_fields_v1_value(&set.to_fields_v1_value()).unwrap(), set);
}

/// An update succeeds whatever managed fields an object has. An apply that succeeds changes nothing when it is repeated.
fn applies(mut existing: Value, mut config: Value) {
    if existing.as_map().is_none() || config.as_map().is_none() {
        return;
    }
    for object in [&mut existing, &mut config] {
        object.set_at(&["apiVersion"], "v1".into());
        object.set_at(&["kind"], "Thing".into());
    }
    existing.set_at(&["metadata", "uid"], "u".into());
    let _ = check_managed_fields(&existing);
    let _ = blame(&existing);
    let now = SystemTime::UNIX_EPOCH;
    let mut updated = MANAGER.update(Some(&existing), config.clone(), "updater", now);
    assert!(check_managed_fields(&updated).is_ok(), "{updated}");
    keep_times(&mut updated, &existing, |a, b| a == b);
    let Ok(applied) = MANAGER.apply(Some(&existing), &config, "applier", true, now) else {
        return;
    };
    let again = MANAGER.apply(Some(&applied.object), &config, "applier", false, now).expect("what was applied can be applied again");
    assert!(!again.changed, "{}\n{}", applied.object, again.object);
}
