use holdfast_value::{Limits, json};

use super::*;

fn value(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
}

/// Returns the errors of an object whose field `a` is of this schema.
fn errors_of(schema: &str, of: &str) -> Vec<String> {
    let schema = Node::read(&value(&format!(r#"{{"type":"object","properties":{{"a":{schema}}}}}"#)));
    let errors = schema.validate(&value(&format!(r#"{{"a":{of}}}"#)), None, &FieldPath::default());
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn of_alternatives_that_are_as_right_the_first_is_reported() {
    let schema = r#"{"type":"object","anyOf":[{"properties":{"t":{"enum":["x"]}}},
        {"properties":{"t":{"enum":["y"]}},"required":["v"]}]}"#;
    let reported = [
        r#"<nil>: Invalid value: "": "a" must validate at least one schema (anyOf)"#,
        r#"a.t: Unsupported value: "y": supported values: "x""#,
    ];
    assert_eq!(errors_of(schema, r#"{"t":"y"}"#), reported);
}

#[test]
fn same_error_of_two_schemas_is_reported_once() {
    let schema = r#"{"type":"string","minLength":2,"allOf":[{"minLength":2},{"minLength":2}]}"#;
    let reported = [
        r#"a: Invalid value: "x": a in body should be at least 2 chars long"#,
        r#"<nil>: Invalid value: "": "a" must validate all the schemas (allOf). None validated"#,
    ];
    assert_eq!(errors_of(schema, r#""x""#), reported);
}

#[test]
fn text_of_invalid_pattern_is_rejected_with_syntax_error() {
    let syntax = "error parsing regexp: missing closing ]: `[`";
    let reported = format!(r#"a: Invalid value: "v": a in body should match '([, but pattern is invalid: {syntax}'"#);
    assert_eq!(errors_of(r#"{"type":"string","pattern":"(["}"#, r#""v""#), [reported]);
}

#[test]
fn each_keyword_rejects_what_it_is_to_reject() {
    for (schema, good, bad, reported) in [
        (
            r#"{"type":"string"}"#,
            r#""x""#,
            "1",
            r#"a: Invalid value: "integer": a in body must be of type string: "integer""#,
        ),
        (
            r#"{"type":"integer"}"#,
            "2.0",
            r#""x""#,
            r#"a: Invalid value: "string": a in body must be of type integer: "string""#,
        ),
        (
            r#"{"type":"number"}"#,
            "1",
            "true",
            r#"a: Invalid value: "boolean": a in body must be of type number: "boolean""#,
        ),
        (
            r#"{"type":"boolean"}"#,
            "true",
            "0",
            r#"a: Invalid value: "integer": a in body must be of type boolean: "integer""#,
        ),
        (
            r#"{"type":"object"}"#,
            "{}",
            "[]",
            r#"a: Invalid value: "array": a in body must be of type object: "array""#,
        ),
        (
            r#"{"type":"array","items":{"type":"integer"}}"#,
            "[1]",
            r#"["x"]"#,
            r#"a[0]: Invalid value: "string": a[0] in body must be of type integer: "string""#,
        ),
        (
            r#"{"type":"string"}"#,
            r#""""#,
            "null",
            r#"a: Invalid value: "null": a in body must be of type string: "null""#,
        ),
        (
            r#"{"x-kubernetes-int-or-string":true}"#,
            r#""x""#,
            "1.5",
            r#"a: Invalid value: "number": a in body must be of type integer,string: "number""#,
        ),
        (
            r#"{"type":"integer","minimum":1}"#,
            "1",
            "0",
            "a: Invalid value: 0: a in body should be greater than or equal to 1",
        ),
        (
            r#"{"type":"integer","maximum":9}"#,
            "9",
            "10",
            "a: Invalid value: 10: a in body should be less than or equal to 9",
        ),
        (
            r#"{"type":"number","minimum":0,"exclusiveMinimum":true}"#,
            "0.1",
            "0",
            "a: Invalid value: 0: a in body should be greater than 0",
        ),
        (
            r#"{"type":"number","maximum":1.5,"exclusiveMaximum":true}"#,
            "1.4",
            "1.5",
            "a: Invalid value: 1.5: a in body should be less than 1.5",
        ),
        (
            r#"{"type":"number","maximum":1.5,"exclusiveMaximum":true}"#,
            "0",
            "1",
            "a: Invalid value: 1: a in body should be less than 1",
        ),
        (
            r#"{"type":"integer","multipleOf":5}"#,
            "10",
            "7",
            "a: Invalid value: 7: a in body should be a multiple of 5",
        ),
        (
            r#"{"type":"number","multipleOf":0.5}"#,
            "2.5",
            "0.7",
            "a: Invalid value: 0.7: a in body should be a multiple of 0.5",
        ),
        (
            r#"{"type":"number","format":"float"}"#,
            "3.4e38",
            "-3.5e38",
            r#"<nil>: Invalid value: "": Checked value must be of type number with format float in a"#,
        ),
        (
            r#"{"enum":[{"a":1},2]}"#,
            "2.5",
            r#"{"a":1.0}"#,
            r#"a: Unsupported value: {"a":1}: supported values: "{\"a\":1}", "2""#,
        ),
        (
            r#"{"enum":["a",null],"nullable":true}"#,
            r#""a""#,
            "null",
            r#"a: Unsupported value: null: supported values: "a", "null""#,
        ),
        (
            r#"{"type":"number","multipleOf":0.1}"#,
            "0.5",
            "1",
            "a: Invalid value: 0: factor MultipleOf declared for a must be positive: 0",
        ),
        (
            r#"{"type":"number","minimum":-1e10}"#,
            "1.5",
            "-100000000000.0",
            "a: Invalid value: -1e+11: a in body should be greater than or equal to -1e+10",
        ),
        (
            r#"{"type":"integer","format":"int32"}"#,
            "1",
            "2147483648",
            r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in a"#,
        ),
        (
            r#"{"type":"string","minLength":2}"#,
            r#""äö""#,
            r#""x""#,
            r#"a: Invalid value: "x": a in body should be at least 2 chars long"#,
        ),
        (
            r#"{"type":"string","maxLength":4}"#,
            r#""äöüß""#,
            r#""xxxxx""#,
            "a: Too long: may not be more than 4 bytes",
        ),
        (
            r#"{"type":"string","pattern":"^[a-z]+$"}"#,
            r#""a""#,
            r#""A""#,
            r#"a: Invalid value: "A": a in body should match '^[a-z]+$'"#,
        ),
        (
            r#"{"type":"array","uniqueItems":true}"#,
            r#"[1,"1",1.5,true,null,[1],[1.0],{"b":1},{"b":1.0}]"#,
            r#"[{"a":[1,null],"b":-0.0},0,{"b":0.0,"a":[1,null]}]"#,
            r#"a: Invalid value: "": a in body shouldn't contain duplicates"#,
        ),
        (
            r#"{"type":"string","format":"date"}"#,
            r#""2020-01-01""#,
            r#""x""#,
            r#"a: Invalid value: "x": a in body must be of type date: "x""#,
        ),
        (
            r#"{"enum":[1,"one"]}"#,
            "1",
            r#""two""#,
            r#"a: Unsupported value: "two": supported values: "1", "one""#,
        ),
        (
            r#"{"type":"array","minItems":1}"#,
            "[1]",
            "[]",
            "a: Invalid value: 0: a in body should have at least 1 items",
        ),
        (
            r#"{"type":"array","maxItems":2}"#,
            "[1]",
            "[1,2,3]",
            "a: Too many: 3: must have at most 2 items",
        ),
        (
            r#"{"type":"object","minProperties":1}"#,
            r#"{"x":1}"#,
            "{}",
            "a: Invalid value: 0: a in body should have at least 1 properties",
        ),
        (
            r#"{"type":"object","maxProperties":1}"#,
            "{}",
            r#"{"x":1,"y":2}"#,
            "a: Too many: 2: must have at most 1 item",
        ),
        (
            r#"{"type":"object","required":["b"]}"#,
            r#"{"b":null}"#,
            "{}",
            "a.b: Required value",
        ),
        (
            r#"{"type":"object","additionalProperties":{"type":"integer"}}"#,
            r#"{"k":1}"#,
            r#"{"k":"x"}"#,
            r#"a.k: Invalid value: "string": a.k in body must be of type integer: "string""#,
        ),
        (
            r#"{"type":"object","additionalProperties":false}"#,
            "{}",
            r#"{"k":1}"#,
            r#"a: Invalid value: "k": a.k in body is a forbidden property"#,
        ),
    ] {
        assert!(
            errors_of(schema, good).is_empty(),
            "{schema} {good}: {:?}",
            errors_of(schema, good)
        );
        assert_eq!(errors_of(schema, bad), [reported], "{schema} {bad}");
    }
    let many = r#"{"type":"object","maxProperties":1,"additionalProperties":{"enum":["z"]}}"#;
    assert_eq!(
        errors_of(many, r#"{"x":"z","y":"a"}"#),
        [
            "a: Too many: 2: must have at most 1 item",
            r#"a.y: Unsupported value: "a": supported values: "z""#
        ],
        "what a map holds is looked at however much it is"
    );
}

#[test]
fn junctors_report_the_failure_that_fits_best() {
    let either = r#"{"anyOf":[{"required":["x"]},{"required":["y"]}]}"#;
    assert_eq!(
        errors_of(either, "{}"),
        [
            r#"<nil>: Invalid value: "": "a" must validate at least one schema (anyOf)"#,
            "a.x: Required value"
        ]
    );
    let one = r#"{"oneOf":[{"required":["x"]},{"required":["y"]}]}"#;
    assert_eq!(
        errors_of(one, r#"{"x":1,"y":2}"#),
        [r#"<nil>: Invalid value: "": "a" must validate one and only one schema (oneOf). Found 2 valid alternatives"#]
    );
    let all = r#"{"allOf":[{"minimum":3},{"maximum":5}]}"#;
    assert_eq!(
        errors_of(all, "6"),
        [
            "a: Invalid value: 6: a in body should be less than or equal to 5",
            r#"<nil>: Invalid value: "": "a" must validate all the schemas (allOf)"#
        ]
    );
    assert_eq!(
        errors_of(r#"{"not":{"required":["d"]}}"#, r#"{"d":1}"#),
        [r#"<nil>: Invalid value: "": "a" must not validate the schema (not)"#]
    );
}

#[test]
fn ratchet_ignores_old_errors_and_reports_new_ones() {
    let node = Node::read(&value(
        r#"{"properties":{"a":{"type":"integer","minimum":5},"l":{"type":"array","x-kubernetes-list-type":"map",
            "x-kubernetes-list-map-keys":["k"],"items":{"properties":{"k":{},"v":{"maximum":3}}}}}}"#,
    ));
    let old = value(r#"{"a":1,"l":[{"k":"x","v":9}]}"#);
    let errors = |new: &str| {
        let errors = node.validate(&value(new), Some(Ratchet(&old)), &FieldPath::default());
        errors.iter().map(|error| error.field.to_string()).collect::<Vec<_>>()
    };
    assert!(errors(r#"{"a":1,"l":[{"k":"y","v":1},{"k":"x","v":9}]}"#).is_empty());
    assert_eq!(errors(r#"{"a":2,"l":[{"k":"y","v":9}]}"#), ["a", "l[0].v"]);
}
