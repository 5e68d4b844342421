use holdfast_value::{Limits, json};

use super::*;
use crate::rule_names::{RuleId, RuleNames, RuleSet};

const TYPES: &str = r#"
type a.Thing struct kind(a/v1/Thing)
  apiVersion string -
  kind string -
  spec a.Spec 1
  status a.Status 2

type a.Spec struct +rules(Spec) +order(@first,sources,mode,count,name,codes,limits,selector,@last) +changes(name,@grown,count)
  mode string 1 +required +enum(On,Off)
  name string 2 +optional +format(k8s-short-name) +immutable
  count int32 3 pointer +minimum(1,"must be greater than 0") +maximum(9) +immutable(stays)
  codes []int32 4 +maxItems(2) +each:range(0,5)
  limits {}string 5 +keys:format(k8s-short-name) +each:maxLength(3)
  sources []a.Source 6 +required("a source") +unique(name)
  selector a.LabelSelector 7 pointer +format(label-selector)

type a.LabelSelector struct
  matchLabels {}string 1

type a.Source struct +union("kind of source")
  name string 1 +required
  file a.File 2 pointer +unionMember
  text a.Text 3 pointer +unionMember
  inner []a.Source 4 +maxItems(2,shortCircuit) +distinct(name)

type a.File struct
  path string 1 +required

type a.Text struct
  text string 1

type a.Status struct
  ready int32 1 +minimum(0)
"#;

const RULES: RuleNames = RuleNames {
    values: &[("Spec", "first"), ("Spec", "last")],
    changes: &[("Spec", "grown")],
};

#[derive(Clone, Copy)]
enum SpecRule {
    First,
    Last,
}

impl RuleSet for SpecRule {
    fn from_id(id: RuleId) -> Option<Self> {
        [Self::First, Self::Last].get(usize::from(id.number())).copied()
    }
}

#[derive(Clone, Copy)]
struct Grown;

impl RuleSet for Grown {
    fn from_id(id: RuleId) -> Option<Self> {
        (id.number() == 2).then_some(Self)
    }
}

struct FirstAndLast;

impl<'v> Rules<'v> for FirstAndLast {
    type Rule = SpecRule;

    fn rule(&self, rule: SpecRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        check.errors.push(part.required(match rule {
            SpecRule::First => "first",
            SpecRule::Last => "last",
        }));
    }
}

impl<'v> Changes<'v> for FirstAndLast {
    type Change = Grown;

    fn change(&self, _change: Grown, part: &Part<'v, '_>, old: &Part<'v, '_>, check: &mut Check<'_>) {
        if part.child("codes").len() < old.child("codes").len() {
            check.errors.push(part.child("codes").forbidden("only grows"));
        }
    }
}

fn read(spec: &str) -> Value {
    let text = format!(r#"{{"apiVersion":"a/v1","kind":"Thing","spec":{{{spec}}},"status":{{"ready":-1}}}}"#);
    json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
}

fn texts(check: Check<'_>) -> Vec<String> {
    check.errors.iter().map(ToString::to_string).collect()
}

fn errors_between(spec: &str) -> Vec<String> {
    let types = TypeTable::parse_with_rules(TYPES, &RULES).unwrap();
    let mut check = Check::new(&types);
    check.object(&read(spec), None, &FirstAndLast);
    let mut found = texts(check);
    assert_eq!(found.remove(0), "spec: Required value: first");
    assert_eq!(found.pop().unwrap(), "spec: Required value: last");
    found
}

#[test]
fn errors_come_in_the_order_of_the_type() {
    assert_eq!(
        errors_between(r#""count":0,"codes":[1,7],"limits":{"A":"long"},"name":"B""#),
        [
            "spec.sources: Required value: a source",
            "spec.mode: Required value",
            "spec.count: Invalid value: 0: must be greater than 0",
            "spec.name: Invalid value: \"B\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
             or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
             validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            "spec.codes[1]: Invalid value: 7: must be between 0 and 5, inclusive",
            "spec.limits: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric \
             characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex \
             used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            "spec.limits[A]: Too long: may not be more than 3 bytes",
        ]
    );
}

#[test]
fn valid_or_optional_value_is_not_reported() {
    let spec = r#""mode":"On","count":1,"codes":[0,5],"sources":[{"name":"a","text":{}}]"#;
    assert!(errors_between(spec).is_empty());
    let odd = spec
        .replace("On", "on")
        .replace(":1,", ":10,")
        .replace("[0,5]", "[0,5,1]");
    assert_eq!(
        errors_between(&odd),
        [
            "spec.mode: Unsupported value: \"on\": supported values: \"On\", \"Off\"",
            "spec.count: Invalid value: 10: must be less than or equal to 9",
            "spec.codes: Too many: 3: must have at most 2 items",
        ]
    );
}

#[test]
fn one_member_of_a_union_is_looked_at() {
    let sources = r#"{"name":"a","file":{}},{"name":"a","text":{},"file":{"path":"p"},"inner":[{}]},{"name":"b"}"#;
    assert_eq!(
        errors_between(&format!(r#""mode":"On","sources":[{sources}]"#)),
        [
            "spec.sources[1].name: Duplicate value: \"a\"",
            "spec.sources[0].file.path: Required value",
            "spec.sources[1].text: Forbidden: may not specify more than 1 kind of source",
            "spec.sources[1].inner[0].name: Required value",
            "spec.sources[1].inner[0]: Required value: must specify a kind of source",
            "spec.sources[2]: Required value: must specify a kind of source",
        ]
    );
}

#[test]
fn items_differ_unless_there_are_too_many() {
    let inner = |items: &str| {
        errors_between(&format!(
            r#""mode":"On","sources":[{{"name":"a","text":{{}},"inner":[{items}]}}]"#
        ))
    };
    let one = r#"{"name":"i","text":{}}"#;
    assert!(inner(one).is_empty());
    assert_eq!(
        inner(&format!("{one},{}", one.replace("{}", "{},\"file\":{}"))),
        [
            "spec.sources[0].inner[1].file.path: Required value",
            "spec.sources[0].inner[1].text: Forbidden: may not specify more than 1 kind of source",
            "spec.sources[0].inner[1]: Duplicate value: \"i\"",
        ]
    );
    assert_eq!(
        inner(&format!("{one},{one},{{}}")),
        ["spec.sources[0].inner: Too many: 3: must have at most 2 items"]
    );
}

#[test]
fn status_is_validated_only_in_status_writes() {
    let types = TypeTable::parse_with_rules(TYPES, &RULES).unwrap();
    let mut check = Check::new(&types);
    check.object(&read(""), Some("status"), &NoRules);
    assert_eq!(
        texts(check),
        ["status.ready: Invalid value: -1: must be greater than or equal to 0"]
    );
}

#[test]
fn changes_have_an_order_of_their_own() {
    let types = TypeTable::parse_with_rules(TYPES, &RULES).unwrap();
    let changes = |new: &str, old: &str, subresource| {
        let mut check = Check::new(&types);
        let (new, old) = (read(new), read(old));
        check.object_changes(&new, &old, subresource, &FirstAndLast);
        texts(check)
    };
    let (new, old) = (r#""count":2"#, r#""name":"a","codes":[1]"#);
    assert_eq!(
        changes(new, old, None),
        [
            "spec.name: Invalid value: \"\": field is immutable",
            "spec.codes: Forbidden: only grows",
            "spec.count: Invalid value: 2: stays",
        ]
    );
    assert!(changes(new, old, Some("status")).is_empty());
    assert!(changes(r#""codes":[]"#, "", None).is_empty());
}

#[test]
fn rules_of_another_set_are_an_error() {
    let types = TypeTable::parse_with_rules(TYPES, &RULES).unwrap();
    let mut check = Check::new(&types);
    check.object(
        &read(r#""mode":"On","sources":[{"name":"a","text":{}}]"#),
        None,
        &NoRules,
    );
    let error = "spec: Internal error: the rules of a.Spec are of another set";
    assert_eq!(texts(check), [error, error]);
}
