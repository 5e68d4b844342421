//! Runs the vectors recorded from structured-merge-diff v6.4.2: `corpus/smd` in the shared folder.

mod field_sets;
mod operations;
mod typed;
mod vectors;

use test_support::needs;

#[needs(shared)]
#[test]
fn every_field_set_vector_gives_the_recorded_result() {
    vectors::run(&["fieldpath.jsonl", "fieldpath-extra.jsonl"], |_, vector| {
        field_sets::check(vector)
    });
}

#[needs(shared)]
#[test]
fn every_ensure_named_fields_vector_gives_the_recorded_result() {
    vectors::run(&["fieldpath.jsonl", "fieldpath-extra.jsonl"], |schemas, vector| {
        field_sets::check_with_schema(schemas, vector)
    });
}

#[needs(shared)]
#[test]
fn every_typed_vector_gives_the_recorded_result() {
    vectors::run(&["typed.jsonl", "typed-random.jsonl"], typed::check);
}

#[needs(shared)]
#[test]
fn every_apply_and_update_vector_gives_the_recorded_result() {
    vectors::run(
        &["merge.jsonl", "merge-edge.jsonl", "merge-random.jsonl"],
        operations::check,
    );
}
