//! Tests over the table of the built-in types, against the corpus and the facts where they are there.

use std::path::PathBuf;

use holdfast_merge::SchemaBuilder;
use holdfast_value::{Limits, Value, yaml};

use super::*;

/// The table of the built-in types.
pub(crate) fn builtin() -> TypeTable {
    TypeTable::parse(include_str!("../../../kinds/src/tables/types.txt")).unwrap()
}

/// A file or folder below the shared folder; `None`, with a word about it, where there is none.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let shared = std::env::var_os("HOLDFAST_SHARED").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let found = Some(shared.join(path)).filter(|found| found.exists());
    if found.is_none() {
        println!("passed over: no {path} in the shared folder");
    }
    found
}

#[test]
fn the_merge_schema_is_that_of_the_reference() {
    let Some(path) = shared("corpus/smd/schemas/e100f5ba30.yaml") else {
        return;
    };
    let text = std::fs::read(path).unwrap();
    let document = yaml::parse(&text, &Limits::TRUSTED).unwrap();
    let table = builtin();
    for known in document.get("types").unwrap().as_list().unwrap() {
        let name = known.str_at(&["name"]).unwrap();
        let Some(id) = table.id(name) else {
            assert!(name.starts_with("__untyped_"), "{name}");
            continue;
        };
        let mut alone = Value::empty_map();
        alone.set_at(&["types"], Value::from(vec![known.clone()]));
        let known = SchemaBuilder::read(&alone).unwrap();
        let mut ours = SchemaBuilder::new();
        ours.define(name, merge::type_spec(&table, table.get(id)));
        assert_eq!(format!("{ours:#?}"), format!("{known:#?}"));
    }
}
