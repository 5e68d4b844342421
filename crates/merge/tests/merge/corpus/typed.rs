//! Test vectors of typed values.

use holdfast_merge::{Comparison, Duplicates, KeyFields, Typed};
use holdfast_value::Value;

use crate::corpus::vectors::{Schemas, Vector, Verdict, filter, same, same_object, set, sharing};

pub(crate) fn check(schemas: &mut Schemas, vector: &Vector) -> Verdict {
    if matches!(vector.op(), "filterFields" | "excludeFields" | "comparisonString") {
        return Some(check_comparison(vector));
    }
    Some(check_as_given(schemas, vector).and_then(|()| check_validated(schemas, vector)))
}

/// Runs a vector on values that are not validated.
fn check_as_given(schemas: &mut Schemas, vector: &Vector) -> Result<(), String> {
    operate(vector, |name, schema, type_name| {
        let (schema, type_ref) = schemas.type_of(vector, schema, type_name);
        Typed::unchecked(vector.value(name).clone(), schema, type_ref)
    })
}

/// Runs a vector again on validated values, as far as they are valid, that share their common parts: the result must be
/// the same.
fn check_validated(schemas: &mut Schemas, vector: &Vector) -> Result<(), String> {
    operate(vector, |name, schema, type_name| {
        let (schema, type_ref) = schemas.type_of(vector, schema, type_name);
        let value = match name {
            "rhs" => sharing(vector.value(name), vector.value("lhs")),
            _ => vector.value(name).clone(),
        };
        validated(&value, &schema, type_ref)
    })
    .map_err(|reason| format!("with validated values, {reason}"))
}

pub(crate) fn validated(
    value: &Value,
    schema: &std::sync::Arc<holdfast_merge::Schema>,
    type_ref: holdfast_merge::TypeRef,
) -> Typed {
    let with = |duplicates| Typed::new(value.clone(), schema.clone(), type_ref, duplicates);
    with(Duplicates::Rejected)
        .or_else(|_| with(Duplicates::Allowed))
        .unwrap_or_else(|_| Typed::unchecked(value.clone(), schema.clone(), type_ref))
}

fn operate(vector: &Vector, mut typed: impl FnMut(&str, &str, &str) -> Typed) -> Result<(), String> {
    let rhs_schema = if vector.get("rhsSchema").is_some() {
        "rhsSchema"
    } else {
        "schema"
    };
    let rhs_type = if vector.get("rhsType").is_some() {
        "rhsType"
    } else {
        "type"
    };
    match vector.op() {
        "validate" => {
            let duplicates = match vector.flag("allowDuplicates") {
                true => Duplicates::Allowed,
                false => Duplicates::Rejected,
            };
            let result = typed("object", "schema", "type").validate(duplicates);
            same(
                "validity",
                &result.is_ok(),
                &vector.out("valid").unwrap().as_bool().unwrap(),
            )?;
            match (result, vector.out("error")) {
                (Err(errors), Some(Value::String(recorded))) => same_errors(&errors.to_string(), recorded),
                _ => Ok(()),
            }
        }
        "merge" => {
            let merged = typed("lhs", "schema", "type").merge(&typed("rhs", rhs_schema, rhs_type));
            expect(vector, merged, |merged| object(vector, merged.value()))
        }
        "compare" => {
            let compared = typed("lhs", "schema", "type").compare(&typed("rhs", rhs_schema, rhs_type));
            expect(vector, compared, |compared| comparison(vector, &compared))
        }
        "toFieldSet" => expect(vector, typed("object", "schema", "type").to_field_set(), |got| {
            same("set", &got, &set(vector.out("set").unwrap()))
        }),
        "removeItems" => {
            let left = typed("object", "schema", "type").remove_items(&vector.set("set"));
            object(vector, left.value())
        }
        "extractItems" => {
            let key_fields = match vector.flag("appendKeyFields") {
                true => KeyFields::Appended,
                false => KeyFields::AsNamed,
            };
            let kept = typed("object", "schema", "type").extract_items(&vector.set("set"), key_fields);
            object(vector, kept.value())
        }
        "reconcile" => {
            let reconciled = typed("object", "schema", "type").reconcile_field_set_with_schema(&vector.set("set"));
            expect(vector, reconciled, |reconciled| {
                let recorded = vector.out("set").filter(|set| !set.is_null()).map(set);
                same("set", &reconciled, &recorded)
            })
        }
        other => Err(format!("unknown operation {other}")),
    }
}

fn check_comparison(vector: &Vector) -> Result<(), String> {
    let input = Comparison {
        added: vector.set("added"),
        modified: vector.set("modified"),
        removed: vector.set("removed"),
    };
    match vector.op() {
        "filterFields" => comparison(vector, &input.filter_fields(&filter(vector.value("filter")))),
        "excludeFields" => comparison(vector, &input.exclude_fields(&vector.set("set"))),
        _ => {
            let recorded = vector.out("text").unwrap().as_str().unwrap();
            same("text", &input.to_string().as_str(), &recorded)
        }
    }
}

/// Checks a result, or that it is an error if one is recorded.
fn expect<T: std::fmt::Debug, E: std::fmt::Display>(
    vector: &Vector,
    result: Result<T, E>,
    check: impl FnOnce(T) -> Result<(), String>,
) -> Result<(), String> {
    match (result, vector.out("error")) {
        (Err(error), Some(Value::String(recorded))) => same_errors(&error.to_string(), recorded),
        (Ok(got), Some(recorded)) => Err(format!("got {got:?}, recorded is the error {recorded:?}")),
        (Err(error), _) => Err(format!("failed: {error}")),
        (Ok(got), None) => check(got),
    }
}

/// Compares messages if the reference gives them in a fixed order, and in words that do not depend on its YAML reader.
fn same_errors(got: &str, recorded: &str) -> Result<(), String> {
    if recorded.starts_with("errors:") || recorded.contains("interface {}]") || recorded.contains("got <") {
        return Ok(());
    }
    match got == recorded || got.starts_with(recorded) || got.contains(&format!("\n  {recorded}")) {
        true => Ok(()),
        false => Err(format!("error is {got:?}, recorded is {recorded:?}")),
    }
}

fn object(vector: &Vector, got: &Value) -> Result<(), String> {
    same_object("object", got, vector.out("object").unwrap())
}

fn comparison(vector: &Vector, got: &Comparison) -> Result<(), String> {
    same("added", &got.added, &set(vector.out("added").unwrap()))?;
    same("modified", &got.modified, &set(vector.out("modified").unwrap()))?;
    same("removed", &got.removed, &set(vector.out("removed").unwrap()))
}
