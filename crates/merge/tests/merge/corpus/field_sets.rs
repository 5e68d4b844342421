//! Test vectors of path elements, paths and sets.

use std::cmp::Ordering;

use holdfast_merge::{Managers, Path, PathElement, PathElementError, Set};
use holdfast_value::Value;

use crate::corpus::vectors::{Schemas, Vector, Verdict, element, filter, managers, same, set};

pub(crate) fn check(vector: &Vector) -> Verdict {
    Some(match vector.op() {
        "union" => result_set(vector, |a, b| a.union(b)),
        "intersection" => result_set(vector, |a, b| a.intersection(b)),
        "difference" => result_set(vector, |a, b| a.difference(b)),
        "recursiveDifference" => result_set(vector, |a, b| a.recursive_difference(b)),
        "equalSets" => same("equality", &(vector.set("a") == vector.set("b")), &result(vector)),
        "leaves" => same("set", &vector.set("a").leaves(), &out_set(vector)),
        "has" => same(
            "membership",
            &vector.set("a").has(&path(vector.value("path"))),
            &result(vector),
        ),
        "withPrefix" => {
            let below = vector.set("a").with_prefix(&element(vector.value("element")));
            same("set", &below, &out_set(vector))
        }
        "filter" => {
            let kept = filter(vector.value("filter")).apply(&vector.set("a"));
            same("set", &kept, &out_set(vector))
        }
        "setFromValue" => same("set", &Set::from_value(vector.value("value")), &out_set(vector)),
        "setString" => same("text", &vector.set("a").to_string(), &out_text(vector, "text")),
        "roundTrip" => round_trip(vector),
        "pathElement" => path_element(vector),
        "pathString" => same(
            "text",
            &path(vector.value("path")).to_string(),
            &out_text(vector, "text"),
        ),
        "comparePathElement" => compare(vector, |value| match value {
            Value::Null => None,
            value => Some(element(value)),
        }),
        "comparePath" => compare(vector, path),
        "managersEquals" => {
            let (a, b) = two_managers(vector);
            same("equality", &(a == b), &result(vector))
        }
        "managersDifference" => {
            let (a, b) = two_managers(vector);
            same(
                "managers",
                &a.difference(&b),
                &managers(vector.out("managers").unwrap()),
            )
        }
        "ensureNamedFieldsAreMembers" => return None,
        other => Err(format!("unknown operation {other}")),
    })
}

pub(crate) fn check_with_schema(schemas: &mut Schemas, vector: &Vector) -> Verdict {
    if vector.op() != "ensureNamedFieldsAreMembers" {
        return None;
    }
    let (schema, type_ref) = schemas.type_of(vector, "schema", "type");
    let named = vector.set("a").ensure_named_fields_are_members(&schema, type_ref);
    Some(same("set", &named, &out_set(vector)))
}

fn result_set(vector: &Vector, operation: impl Fn(&Set, &Set) -> Set) -> Result<(), String> {
    let (a, b) = (vector.set("a"), vector.set("b"));
    let got = operation(&a, &b);
    same("set", &got, &out_set(vector))?;
    // The text reveals differences that equality could hide.
    same("text", &got.to_fields_v1(), &out_set(vector).to_fields_v1())?;
    same("subset", &got.is_subset(&a.union(&b)), &true)?;
    same("subset", &a.is_subset(&b), &a.difference(&b).is_empty())
}

fn round_trip(vector: &Vector) -> Result<(), String> {
    let read = Set::from_fields_v1(vector.text("input").as_bytes());
    match (read, vector.out("error")) {
        (Err(_), Some(_)) => Ok(()),
        (Ok(set), Some(error)) => Err(format!("read as {set:?}, recorded is {error:?}")),
        (Err(error), None) => Err(format!("failed: {error}")),
        (Ok(set), None) => {
            same("text", &set.to_fields_v1(), &out_text(vector, "output"))?;
            same(
                "size",
                &set.size(),
                &(vector.out("size").unwrap().as_i64().unwrap() as usize),
            )?;
            same(
                "emptiness",
                &set.is_empty(),
                &vector.out("empty").unwrap().as_bool().unwrap(),
            )?;
            same(
                "tree",
                &Set::from_fields_v1_value(&set.to_fields_v1_value()).unwrap(),
                &set,
            )
        }
    }
}

fn path_element(vector: &Vector) -> Result<(), String> {
    let read = PathElement::parse(vector.text("input"));
    match (read, vector.out("error")) {
        (Err(error), Some(_)) => {
            let unknown = vector.out("unknown").and_then(Value::as_bool).unwrap();
            same("unknown", &(error == PathElementError::UnknownType), &unknown)
        }
        (Ok(element), Some(error)) => Err(format!("read as {element:?}, recorded is {error:?}")),
        (Err(error), None) => Err(format!("failed: {error}")),
        (Ok(element), None) => {
            same("text", &element.to_text(), &out_text(vector, "output"))?;
            match vector.out("text") {
                Some(Value::String(text)) => same("printed form", &element.to_string(), &text.to_string()),
                _ => Ok(()),
            }
        }
    }
}

fn compare<T: Ord>(vector: &Vector, read: impl Fn(&Value) -> T) -> Result<(), String> {
    let (a, b) = (read(vector.value("a")), read(vector.value("b")));
    let recorded = match vector.out("result").unwrap().as_i64().unwrap() {
        ..0 => Ordering::Less,
        0 => Ordering::Equal,
        1.. => Ordering::Greater,
    };
    same("order", &a.cmp(&b), &recorded)?;
    same("equality", &(a == b), &vector.out("equal").unwrap().as_bool().unwrap())
}

fn two_managers(vector: &Vector) -> (Managers, Managers) {
    (managers(vector.value("a")), managers(vector.value("b")))
}

fn path(value: &Value) -> Path {
    value.as_list().unwrap().iter().map(element).collect()
}

fn result(vector: &Vector) -> bool {
    vector.out("result").unwrap().as_bool().unwrap()
}

fn out_set(vector: &Vector) -> Set {
    set(vector.out("set").unwrap())
}

fn out_text(vector: &Vector, name: &str) -> String {
    vector.out(name).unwrap().as_str().unwrap().to_owned()
}
