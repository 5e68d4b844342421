use std::fmt::Write as _;

use holdfast_cel::limits::{PER_CALL, PER_REQUEST};
use holdfast_schema::{FieldPath, Findings};
use holdfast_value::{Limits, Value, json};

use super::{CompileContext, RuleBudget, Rules};
use crate::node::Node;

fn value(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
}

fn run_within(schema: &str, object: &str, old: Option<&str>, budget: &mut RuleBudget) -> Findings {
    let node = Node::read(&value(schema));
    let rules = Rules::new(&node, true, &CompileContext::default()).unwrap();
    let old = old.map(value);
    let root = FieldPath::default();
    rules.validate(&node, &value(object), old.as_ref(), true, &root, budget)
}

fn run(schema: &str, object: &str, old: Option<&str>) -> Findings {
    run_within(schema, object, old, &mut RuleBudget::default())
}

fn errors(schema: &str, object: &str, old: Option<&str>) -> Vec<String> {
    let found = run(schema, object, old);
    found.errors.iter().map(ToString::to_string).collect()
}

/// Returns the schema of an object with these properties.
fn schema_of(properties: &str) -> String {
    format!(r#"{{"type":"object","properties":{{{properties}}}}}"#)
}

/// Returns a property with these rules.
fn field(name: &str, schema: &str, rules: &str) -> String {
    format!(r#""{name}":{{{schema},"x-kubernetes-validations":[{rules}]}}"#)
}

#[test]
fn a_schema_without_rules_has_none_to_run() {
    let node = Node::read(&value(r#"{"type":"object","properties":{"a":{"type":"string"}}}"#));
    assert!(Rules::new(&node, true, &CompileContext::default()).is_none());
}

#[test]
fn rules_run_at_every_depth_and_name_where_they_do_not_hold() {
    let rule = r#"{"rule":"self > 0"}"#;
    let schema = schema_of(&[
        field("n", r#""type":"integer""#, rule),
        format!(r#""list":{{"type":"array","items":{{"type":"integer","x-kubernetes-validations":[{rule}]}}}}"#),
        format!(r#""map":{{"type":"object","additionalProperties":{{"type":"integer","x-kubernetes-validations":[{rule}]}}}}"#),
        format!(r#""$odd":{{"type":"object","properties":{{"x":{{"type":"integer","x-kubernetes-validations":[{rule}]}}}}}}"#),
    ]
    .join(","));
    assert_eq!(
        errors(&schema, r#"{"n":0,"list":[1,0],"map":{"a.b":0},"$odd":{"x":0}}"#, None),
        [
            "$odd.x: Invalid value: 0: failed rule: self > 0",
            "list[1]: Invalid value: 0: failed rule: self > 0",
            "map[a.b]: Invalid value: 0: failed rule: self > 0",
            "n: Invalid value: 0: failed rule: self > 0",
        ]
    );
    assert!(errors(&schema, r#"{"n":1,"list":[1],"map":{"a":1},"$odd":{"x":1}}"#, None).is_empty());
}

#[test]
fn objects_of_their_own_have_a_kind_and_a_name() {
    let rules = r#"{"rule":"self.kind == 'Pod' && self.metadata.name.startsWith('p')"}"#;
    let schema = schema_of(&field(
        "pod",
        r#""type":"object","x-kubernetes-embedded-resource":true,"properties":{"a":{"type":"string"}}"#,
        rules,
    ));
    let pod = |name: &str| format!(r#"{{"pod":{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}}}}}}"#);
    assert!(errors(&schema, &pod("p"), None).is_empty());
    assert_eq!(
        errors(&schema, &pod("x"), None),
        ["pod: Invalid value: failed rule: self.kind == 'Pod' && self.metadata.name.startsWith('p')"]
    );
    let root = r#"{"type":"object","x-kubernetes-validations":[{"rule":"self.metadata.name != 'no'"}]}"#;
    assert_eq!(
        errors(root, r#"{"metadata":{"name":"no"}}"#, None),
        ["<nil>: Invalid value: failed rule: self.metadata.name != 'no'"]
    );
}

#[test]
fn null_has_no_rules() {
    let schema = schema_of(&field(
        "a",
        r#""type":"string","nullable":true"#,
        r#"{"rule":"self == 'x'"}"#,
    ));
    assert!(errors(&schema, r#"{"a":null}"#, None).is_empty());
}

#[test]
fn message_reason_and_field_say_what_is_reported() {
    let on = |rule: &str| {
        schema_of(&field(
            "o",
            r#""type":"object","properties":{"n":{"type":"integer"}}"#,
            rule,
        ))
    };
    for (rule, message) in [
        (r#"{"rule":"self.n > 0"}"#, "o: Invalid value: failed rule: self.n > 0"),
        (r#"{"rule":"self.n > 0","message":" odd "}"#, "o: Invalid value: odd"),
        (
            r#"{"rule":"self.n > 0","message":"odd","fieldPath":".n"}"#,
            "o.n: Invalid value: odd",
        ),
        (
            r#"{"rule":"self.n > 0","message":"odd","reason":"FieldValueForbidden"}"#,
            "o: Forbidden: odd",
        ),
        (
            r#"{"rule":"self.n > 0","message":"odd","reason":"FieldValueRequired"}"#,
            "o: Required value: odd",
        ),
        (
            r#"{"rule":"self.n > 0","message":"odd","reason":"FieldValueDuplicate"}"#,
            "o: Duplicate value",
        ),
        (
            r#"{"rule":"self.n > 0","message":"odd","messageExpression":"'n is ' + string(self.n)"}"#,
            "o: Invalid value: n is 0",
        ),
        // An expression that fails, or returns an empty text or more than a line, is not reported.
        (
            r#"{"rule":"self.n > 0","message":"odd","messageExpression":"string(1 / self.n)"}"#,
            "o: Invalid value: odd",
        ),
        (
            r#"{"rule":"self.n > 0","message":"odd","messageExpression":"'  '"}"#,
            "o: Invalid value: odd",
        ),
        (
            r#"{"rule":"self.n > 0","message":"odd","messageExpression":"'a\\nb'"}"#,
            "o: Invalid value: odd",
        ),
        (
            r#"{"rule":"self.n > 0","messageExpression":"'  '"}"#,
            "o: Invalid value: failed rule: self.n > 0",
        ),
    ] {
        assert_eq!(errors(&on(rule), r#"{"o":{"n":0}}"#, None), [message], "{rule}");
    }
    let scalar = schema_of(&field(
        "n",
        r#""type":"integer""#,
        r#"{"rule":"self > 0","reason":"FieldValueDuplicate"}"#,
    ));
    assert_eq!(errors(&scalar, r#"{"n":0}"#, None), ["n: Duplicate value: 0"]);
}

#[test]
fn rule_evaluation_error_is_reported() {
    for (schema, rule, object, message) in [
        (
            r#""type":"integer""#,
            "10 / self > 1",
            "0",
            r#"a: Invalid value: "integer": division by zero evaluating rule: 10 / self > 1"#,
        ),
        (
            r#""type":"array","maxItems":3,"items":{"type":"integer"}"#,
            "self[2] > 0",
            "[1]",
            r#"a: Invalid value: "array": index out of bounds: 2 evaluating rule: self[2] > 0"#,
        ),
        (
            r#""x-kubernetes-int-or-string":true"#,
            "self < 5",
            r#""x""#,
            r#"a: Invalid value: "": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self < 5"#,
        ),
        (
            r#""type":"integer""#,
            "nonsense",
            "0",
            "a: Invalid value: \"integer\": rule compile error: compilation failed: ERROR: <input>:1:1: undeclared reference to 'nonsense' (in container '')\n | nonsense\n | ^",
        ),
    ] {
        let schema = schema_of(&field("a", schema, &format!(r#"{{"rule":"{rule}"}}"#)));
        assert_eq!(errors(&schema, &format!(r#"{{"a":{object}}}"#), None), [message]);
    }
}

#[test]
fn rules_about_changes_run_where_there_was_a_value() {
    let schema = schema_of(&field("a", r#""type":"integer""#, r#"{"rule":"self >= oldSelf"}"#));
    assert!(errors(&schema, r#"{"a":1}"#, None).is_empty());
    assert!(errors(&schema, r#"{"a":1}"#, Some("{}")).is_empty());
    assert!(errors(&schema, r#"{"a":2}"#, Some(r#"{"a":1}"#)).is_empty());
    assert_eq!(
        errors(&schema, r#"{"a":0}"#, Some(r#"{"a":1}"#)),
        ["a: Invalid value: 0: failed rule: self >= oldSelf"]
    );
    // An old value that does not fit the current schema only affects rules that use it.
    assert_eq!(
        errors(&schema, r#"{"a":0}"#, Some(r#"{"a":"x"}"#)),
        [r#"a: Invalid value: "integer": invalid data, expected int, got string evaluating rule: self >= oldSelf"#]
    );
}

#[test]
fn items_by_key_are_compared_with_those_of_the_same_key() {
    let items = r#"{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"integer","x-kubernetes-validations":[
        {"rule":"self >= oldSelf","message":"shrinks"}]}}}"#;
    let by_key = schema_of(&format!(
        r#""l":{{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{items}}}"#
    ));
    let old = Some(r#"{"l":[{"k":"x","v":5},{"k":"y","v":1}]}"#);
    assert!(
        errors(
            &by_key,
            r#"{"l":[{"k":"z","v":0},{"k":"y","v":1},{"k":"x","v":6}]}"#,
            old
        )
        .is_empty()
    );
    assert_eq!(
        errors(&by_key, r#"{"l":[{"k":"y","v":0},{"k":"x","v":5}]}"#, old),
        ["l[0].v: Invalid value: 0: shrinks"]
    );
    // Without keys, items cannot be matched with old ones.
    let atomic = schema_of(&format!(r#""l":{{"type":"array","items":{items}}}"#));
    assert!(errors(&atomic, r#"{"l":[{"k":"x","v":0}]}"#, old).is_empty());
    let map = schema_of(
        r#""m":{"type":"object","additionalProperties":{"type":"integer","x-kubernetes-validations":[{"rule":"self >= oldSelf"}]}}"#,
    );
    assert_eq!(
        errors(&map, r#"{"m":{"a":0,"b":0}}"#, Some(r#"{"m":{"a":1}}"#)),
        ["m[a]: Invalid value: 0: failed rule: self >= oldSelf"]
    );
}

#[test]
fn optional_old_self_lets_a_rule_run_where_there_was_nothing() {
    let rule = r#"{"rule":"oldSelf.hasValue() ? self >= oldSelf.value() : self == 0","optionalOldSelf":true}"#;
    let schema = schema_of(&field("a", r#""type":"integer""#, rule));
    assert!(errors(&schema, r#"{"a":0}"#, None).is_empty());
    assert_eq!(errors(&schema, r#"{"a":1}"#, None).len(), 1);
    assert!(errors(&schema, r#"{"a":5}"#, Some(r#"{"a":4}"#)).is_empty());
    assert_eq!(errors(&schema, r#"{"a":3}"#, Some(r#"{"a":4}"#)).len(), 1);
}

#[test]
fn failed_rule_of_unchanged_value_is_a_warning() {
    let schema = schema_of(
        &[
            field("a", r#""type":"string""#, r#"{"rule":"self != 'bad'","message":"a is bad"}"#),
            r#""l":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object",
                "properties":{"k":{"type":"string"},"v":{"type":"integer"}},"x-kubernetes-validations":[{"rule":"self.v > 0",
                "message":"v is bad"}]}}"#
                .to_owned(),
            r#""atom":{"type":"array","items":{"type":"integer","x-kubernetes-validations":[{"rule":"self > 0"}]}}"#.to_owned(),
            r#""b":{"type":"string"}"#.to_owned(),
        ]
        .join(","),
    );
    let old = r#"{"a":"bad","l":[{"k":"x","v":0},{"k":"y","v":1}],"atom":[0,1]}"#;
    let found = |object: &str| {
        let found = run(&schema, object, Some(old));
        let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        (errors, found.warnings)
    };
    let (wrong, warned) = found(r#"{"a":"bad","b":"1","l":[{"k":"y","v":1},{"k":"x","v":0}],"atom":[0,1]}"#);
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(
        warned,
        [
            r#"a: Invalid value: "bad": a is bad"#,
            "atom[0]: Invalid value: 0: failed rule: self > 0",
            "l[1]: Invalid value: v is bad",
        ]
    );
    // A changed item is reported, and in a list without keys the whole list has changed.
    let (wrong, warned) = found(r#"{"a":"bad","l":[{"k":"x","v":-1}],"atom":[0]}"#);
    assert_eq!(
        wrong,
        [
            "atom[0]: Invalid value: 0: failed rule: self > 0",
            "l[0]: Invalid value: v is bad",
        ]
    );
    assert_eq!(warned, [r#"a: Invalid value: "bad": a is bad"#]);
}

#[test]
fn kind_and_version_are_never_as_they_were() {
    let schema = schema_of(&field("kind", r#""type":"string""#, r#"{"rule":"self != 'Widget'"}"#));
    let widget = r#"{"kind":"Widget"}"#;
    let found = run(&schema, widget, Some(widget));
    assert_eq!((found.errors.len(), found.warnings.len()), (1, 0));
}

#[test]
fn rules_that_cost_too_much_end_the_walk() {
    let list = r#""type":"array","items":{"type":"integer"}"#;
    let quadratic = r#"{"rule":"self.all(x, self.all(y, x + y >= 0))"},{"rule":"false"}"#;
    let schema = schema_of(&field("l", list, quadratic));
    let mut items = String::new();
    for at in 0..2000 {
        let _ = write!(items, "{}{at}", if at > 0 { "," } else { "" });
    }
    let object = format!(r#"{{"l":[{items}]}}"#);
    assert_eq!(
        errors(&schema, &object, None),
        [
            "l: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.all(x, self.all(y, x + y >= 0))"
        ]
    );
    // All rules of an object share one budget.
    let each = schema_of(
        r#""l":{"type":"array","items":{"type":"integer","x-kubernetes-validations":[{"rule":"self >= 0"}]}}"#,
    );
    let found = run_within(&each, &object, None, &mut RuleBudget::new(PER_CALL, 30));
    let texts: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            r#"l[15]: Invalid value: "integer": validation failed due to running out of cost budget, no further validation rules will be run"#
        ]
    );
    assert!(
        run_within(&each, &object, None, &mut RuleBudget::new(PER_CALL, PER_REQUEST))
            .errors
            .is_empty()
    );
}

#[test]
fn there_is_an_end_to_errors() {
    let schema = schema_of(
        r#""l":{"type":"array","items":{"type":"integer","x-kubernetes-validations":[{"rule":"self > 0"}]}}"#,
    );
    let zeros = vec!["0"; 5000].join(",");
    assert_eq!(errors(&schema, &format!(r#"{{"l":[{zeros}]}}"#), None).len(), 1000);
}
