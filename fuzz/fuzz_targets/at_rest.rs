#![no_main]

#[path = "../../crates/at-rest/tests/invariants/mod.rs"]
mod invariants;

use std::sync::{Arc, LazyLock};

use holdfast_at_rest::{StorageCodec, OlderKind};
use holdfast_kinds::Config;

static KEPT: LazyLock<StorageCodec> = LazyLock::new(|| {
    let older = holdfast_kind_tables::older_kinds().map(|(api_version, kind, like)| OlderKind {
        api_version,
        kind,
        like,
    });
    let config = Config::default();
    let types = Arc::new(holdfast_kind_tables::types_at_rest(&config.apis).unwrap());
    StorageCodec::new(holdfast_kinds::registry(&config).unwrap(), types, older)
});

// The first line is the key.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    if let (Some(key), Some(stored)) = (parts.next(), parts.next()) {
        invariants::entry(&KEPT, key, stored);
    }
});
