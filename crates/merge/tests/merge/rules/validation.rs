//! Validation of values, and the error messages.

use holdfast_merge::{Duplicates, Typed, ValidationErrors};
use holdfast_value::{Map, Value};

use crate::rules::scenario::{schema, thing, value};

fn errors(text: &str) -> String {
    thing(text)
        .validate(Duplicates::Rejected)
        .map_or_else(|errors| errors.to_string(), |()| "valid".to_owned())
}

#[test]
fn errors_are_worded_as_the_reference_words_them() {
    for (object, message) in [
        ("{extra: 1}", ".extra: field not declared in schema"),
        (
            "{text: 1}",
            ".text: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            "{text: 1.5}",
            ".text: expected string, got &value.valueUnstructured{Value:1.5}",
        ),
        (
            "{text: true}",
            ".text: expected string, got &value.valueUnstructured{Value:true}",
        ),
        (
            "{text: [x, {a: null}]}",
            r#".text: expected string, got &value.valueUnstructured{Value:[]interface {}{"x", map[string]interface {}{"a":interface {}(nil)}}}"#,
        ),
        ("{number: a}", ".number: expected numeric (int or float), got string"),
        (
            "{number: [1]}",
            ".number: expected numeric (int or float), got []interface {}",
        ),
        ("{flag: 1}", ".flag: expected boolean, got &{1}"),
        ("{any: {a: b}}", ".any: expected any scalar, got &{map[a:b]}"),
        ("{labels: [x]}", ".labels: expected map, got &{[x]}"),
        ("{tags: a}", ".tags: expected list, got &{a}"),
        (
            "{inner: {text: 1}}",
            ".inner.text: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            "{args: [a, 1]}",
            ".args[1]: expected string, got &value.valueUnstructured{Value:1}",
        ),
        ("{tags: [a, a]}", r#".tags: duplicate entries for key [="a"]"#),
        (
            "{tags: [a, null]}",
            ".tags: element 1: associative list without keys has an element that's an explicit null",
        ),
        (
            "{tags: [[a]]}",
            ".tags: element 0: not supported: associative list with lists as elements",
        ),
        (
            "{tags: [{}]}",
            ".tags: element 0: associative list without keys has an element that's a map type",
        ),
        (
            "{ports: [{port: 53}, {port: 53, protocol: TCP}]}",
            r#".ports: duplicate entries for key [port=53,protocol="TCP"]"#,
        ),
        (
            "{items: [null]}",
            ".items: element 0: associative list with keys may not have a null element",
        ),
        (
            "{items: [a]}",
            ".items: element 0: associative list with keys may not have non-map elements",
        ),
        (
            "{items: [{value: 1}]}",
            r#".items: element 0: associative list with keys has an element that omits all key fields ["name"] (and doesn't have default values for any key fields)"#,
        ),
        (
            "{items: [{name: a, value: x}]}",
            r#".items[name="a"].value: expected numeric (int or float), got string"#,
        ),
        (
            "{items: [{name: a, value: x}, {name: a, value: w}, {name: b, value: z}]}",
            "errors:\n  .items[name=\"a\"].value: expected numeric (int or float), got string\n  \
             .items: duplicate entries for key [name=\"a\"]\n  \
             .items[name=\"a\"].value: expected numeric (int or float), got string\n  \
             .items[name=\"b\"].value: expected numeric (int or float), got string",
        ),
        (
            "{number: a, text: 1}",
            "errors:\n  .number: expected numeric (int or float), got string\n  \
             .text: expected string, got &value.valueUnstructured{Value:1}",
        ),
    ] {
        assert_eq!(errors(object), message, "of {object}");
    }
}

#[test]
fn null_is_valid_everywhere_but_as_an_item() {
    assert_eq!(
        errors("{text: null, labels: null, tags: null, items: null, inner: null, free: null}"),
        "valid"
    );
    assert_eq!(errors("null"), "valid");
}

#[test]
fn stored_objects_may_have_duplicates() {
    assert!(thing("{tags: [a, a]}").validate(Duplicates::Allowed).is_ok());
    assert!(thing("{tags: [a, a]}").validate(Duplicates::Rejected).is_err());
}

#[test]
fn deduced_type_accepts_any_value() {
    assert_eq!(errors("{free: {a: [1, {b: null}], c: {d: x}}}"), "valid");
    let deduced = Typed::deduced(value("{a: {b: 1}, c: [1, 2]}"));
    let set = deduced.to_field_set().unwrap();
    assert_eq!(set.to_fields_v1(), r#"{"f:a":{".":{},"f:b":{}},"f:c":{}}"#);
}

#[test]
fn a_type_that_does_not_exist_is_an_error() {
    let schema = schema(
        "types: [{name: Thing, map: {fields: [{name: a, type: {namedType: Missing}}, {name: b, type: {scalar: string, \
         elementRelationship: atomic}}]}}]",
    );
    let typed = |text: &str| Typed::unchecked(value(text), schema.clone(), schema.named("Thing").unwrap());
    let said = |result: Result<(), ValidationErrors>| result.unwrap_err().to_string();
    let missing = typed("{a: 1}").validate(Duplicates::Rejected);
    assert_eq!(said(missing), ".a: schema error: no type found matching: Missing");
    let overridden = typed("{b: x}").validate(Duplicates::Rejected);
    assert_eq!(
        said(overridden),
        ".b: schema error: no type found matching: inlined type"
    );
    assert!(typed("{}").merge(&typed("{a: 1}")).is_err());
    assert!(typed("{}").compare(&typed("{a: 1}")).is_err());
    assert!(typed("{a: 1}").to_field_set().is_err());
}

#[test]
fn nesting_is_bounded() {
    let mut deep = Value::from("x");
    for _ in 0..5000 {
        deep = Value::Map(Map::from_sorted(vec![("inner".into(), deep)]));
    }
    let typed = thing("null");
    let too_deep = Typed::new(
        deep.clone(),
        typed.schema().clone(),
        typed.type_ref(),
        Duplicates::Rejected,
    );
    assert!(too_deep.unwrap_err().to_string().ends_with("nested too deeply"));
    // Dismantled step by step, because the tree is deeper than any reader allows.
    while let Value::Map(map) = deep {
        deep = map.into_entries().pop().map(|(_, below)| below).unwrap_or_default();
    }
}
