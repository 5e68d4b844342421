#![no_main]

#[path = "../../crates/proto/tests/invariants/text.rs"]
mod invariants;

use std::sync::{Arc, LazyLock};

use holdfast_proto::Messages;
use holdfast_schema::types::TypeId;

static MESSAGES: LazyLock<(Messages, Vec<TypeId>)> = LazyLock::new(|| {
    let types = Arc::new(holdfast_kind_tables::types().unwrap());
    let ids = types.iter().map(|(id, _)| id).collect();
    (Messages::new(types), ids)
});

// The first two bytes choose the type.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (messages, ids) = &*MESSAGES;
    if let [first, second, text @ ..] = bytes {
        let id = ids[usize::from(u16::from_be_bytes([*first, *second])) % ids.len()];
        invariants::text(messages, id, text);
    }
});
