//! Field sets: their text, their algebra and their filters.

use holdfast_merge::{Filter, Matcher, MemberMatcher, Path, PathElement, Set, fields_v1_source, fields_v1_text};
use holdfast_value::{Limits, Map, Value, json};
use proptest::prelude::*;

use crate::rules::scenario::fields;

fn set(text: &str) -> Set {
    Set::from_fields_v1(text.as_bytes()).unwrap()
}

#[test]
fn text_is_written_in_the_order_of_elements() {
    let text =
        r#"{"i:1":{},"v:true":{},"v:\"a\"":{},"v:2":{},"k:{\"b\":1,\"a\":2}":{},"f:b":{},"f:a":{"f:c":{},".":{}}}"#;
    assert_eq!(
        set(text).to_fields_v1(),
        r#"{"f:a":{".":{},"f:c":{}},"f:b":{},"k:{\"a\":2,\"b\":1}":{},"v:2":{},"v:\"a\"":{},"v:true":{},"i:1":{}}"#
    );
}

#[test]
fn values_are_escaped_for_html_and_names_are_not() {
    let text = r#"{"f:<a>":{},"k:{\"<n>\":\"\\u003c\\u0026\\u003e\\u2028\"}":{},"v:\"say \\\"hi\\\"\\n\"":{}}"#;
    assert_eq!(set(text).to_fields_v1(), text);
    let unescaped = r#"{"f:<a>":{},"k:{\"<n>\":\"<&>\\u2028\"}":{},"v:\"say \\\"hi\\\"\\n\"":{}}"#;
    assert_eq!(set(unescaped).to_fields_v1(), text);
}

#[test]
fn unknown_element_is_dropped_and_malformed_one_rejected() {
    assert_eq!(set(r#"{"f:a":{"x:new":{"f:b":{}}}}"#).to_fields_v1(), r#"{"f:a":{}}"#);
    for malformed in [
        r#"{"a":{}}"#,
        r#"{"f:a":1}"#,
        r#"{"k:[]":{}}"#,
        r#"{"v:x":{}}"#,
        r#"{"i:x":{}}"#,
        "{} {}",
        "",
        "{",
    ] {
        assert!(Set::from_fields_v1(malformed.as_bytes()).is_err(), "{malformed}");
    }
}

#[test]
fn repeated_key_keeps_membership_and_later_children() {
    let read = set(r#"{"f:a":{".":{},"f:b":{}},"f:a":{"f:c":{}}}"#);
    assert_eq!(read.to_fields_v1(), r#"{"f:a":{".":{},"f:c":{}}}"#);
}

#[test]
fn tree_and_text_are_one_form() {
    let text = r#"{"f:a":{".":{},"k:{\"name\":\"x\"}":{".":{},"f:b":{}}},"v:1":{},"i:0":{}}"#;
    let tree = holdfast_value::json::parse(text.as_bytes(), &holdfast_value::Limits::default()).unwrap();
    assert_eq!(set(text).to_fields_v1_value(), tree);
    assert_eq!(Set::from_fields_v1_value(&tree).unwrap(), set(text));
    assert!(Set::from_fields_v1_value(&Value::from(1)).is_err());
}

#[test]
fn texts_with_other_escapes_than_of_quotes_are_read_at_once() {
    assert!(fields_v1_source(r#"{"k:{\"name\":\"x\"}":{}}"#).is_some());
    for text in ["{}", r#"{"f:\u0001":{}}"#, r#"{"f:\\\"":{}}"#, "{\"f:a\\"] {
        assert!(fields_v1_source(text).is_none(), "{text}");
    }
    let wrong = Value::Map(Map::made_of(fields_v1_source(r#"{"f:a":1}"#).unwrap()));
    assert!(Set::from_fields_v1_value(&wrong).is_err());
}

#[test]
fn too_deep_set_is_rejected() {
    for depth in [600, 100_000] {
        let text = format!("{}{}", r#"{"f:a":"#.repeat(depth), "{}".to_owned() + &"}".repeat(depth));
        assert!(Set::from_fields_v1(text.as_bytes()).is_err());
        let value = format!("v:{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(PathElement::parse(&value).is_err());
    }
}

#[test]
fn paths_are_printed_and_listed_level_by_level() {
    let set = set(r#"{"f:a":{"f:x":{},"k:{\"n\":\"é\",\"p\":80}":{}},"f:b":{},"v:1000000":{},"i:3":{}}"#);
    assert_eq!(set.to_string(), ".b\n[=1e+06]\n[3]\n.a.x\n.a[n=\"é\",p=80]");
    assert_eq!(set.size(), 5);
    assert_eq!(set.members().count(), 3);
    assert_eq!(set.children().count(), 1);
}

#[test]
fn inserted_paths_are_members_and_their_parents_are_not() {
    let mut set = Set::new();
    set.insert(&Path::from_fields(["a", "b"]));
    set.insert(&Path::from_fields(["a", "c", "d"]));
    set.insert(&Path::from_fields(["a", "b"]));
    set.insert(&[]);
    assert_eq!(set, fields("{'f:a': {'f:b': {}, 'f:c': {'f:d': {}}}}"));
    assert!(set.has(&Path::from_fields(["a", "b"])) && !set.has(&Path::from_fields(["a"])) && !set.has(&[]));
    assert_eq!(
        set.with_prefix(&PathElement::field("a")),
        fields("{'f:b': {}, 'f:c': {'f:d': {}}}")
    );
    assert_eq!(set.leaves(), set);
}

#[test]
fn differences_go_path_by_path_or_with_all_below() {
    let whole = fields("{'f:a': {'.': {}, 'f:b': {}}, 'f:c': {}}");
    let top = fields("{'f:a': {}}");
    assert_eq!(whole.difference(&top), fields("{'f:a': {'f:b': {}}, 'f:c': {}}"));
    assert_eq!(whole.recursive_difference(&top), fields("{'f:c': {}}"));
    assert_eq!(whole.leaves(), fields("{'f:a': {'f:b': {}}, 'f:c': {}}"));
}

#[test]
fn wildcard_wins_then_first_matching_pattern() {
    let all = fields("{'f:a': {'f:x': {}, 'f:y': {}}, 'f:b': {'f:x': {}}}");
    let below = |name: &str| Matcher::path(&[PathElement::field(name)]);
    let member = |element: Option<&str>, below| MemberMatcher {
        element: element.map(PathElement::field),
        below,
    };
    let filter = Filter::include([Matcher::members([
        member(Some("a"), Matcher::everything()),
        member(None, below("x")),
    ])]);
    assert_eq!(filter.apply(&all), fields("{'f:a': {'f:x': {}}, 'f:b': {'f:x': {}}}"));
    let merged = Filter::include([
        Matcher::members([member(Some("a"), below("x"))]),
        Matcher::members([member(Some("a"), below("y"))]),
    ]);
    assert_eq!(merged.apply(&all), fields("{'f:a': {'f:x': {}, 'f:y': {}}}"));
    assert_eq!(Filter::include([]).apply(&all), all);
    assert_eq!(
        Filter::exclude(fields("{'f:a': {}}")).apply(&all),
        fields("{'f:b': {'f:x': {}}}")
    );
}

fn any_scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..3_i64).prop_map(Value::from),
        (-2.0..2.0_f64).prop_map(Value::Float),
        "[a-c<é\"\\\\\u{1}\u{2028}]{0,3}".prop_map(Value::from),
    ]
}

fn any_element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        4 => "[a-c<é\"\\\\]{0,2}".prop_map(PathElement::field),
        2 => prop::collection::vec(("[ab]", any_scalar()), 1..3).prop_map(PathElement::key),
        1 => any_scalar().prop_map(PathElement::value),
        1 => (0..3_i64).prop_map(PathElement::Index),
    ]
}

fn any_paths() -> impl Strategy<Value = Vec<Path>> {
    prop::collection::vec(prop::collection::vec(any_element(), 1..4).prop_map(Path::from), 0..12)
}

fn any_set() -> impl Strategy<Value = Set> {
    any_paths().prop_map(|paths| paths.into_iter().collect())
}

proptest! {
    #[test]
    fn sets_are_read_back_as_they_were_written(set in any_set()) {
        prop_assert_eq!(&Set::from_fields_v1(set.to_fields_v1().as_bytes()).unwrap(), &set);
        prop_assert_eq!(&Set::from_fields_v1_value(&set.to_fields_v1_value()).unwrap(), &set);
    }

    #[test]
    fn stored_text_equals_its_set(set in any_set(), other in any_set()) {
        let (made, others) = (set.to_fields_v1_value(), other.to_fields_v1_value());
        let text = fields_v1_text(&made).map(|text| std::str::from_utf8(text).unwrap());
        if let Some(source) = text.and_then(fields_v1_source) {
            let kept = Value::Map(Map::made_of(source));
            prop_assert_eq!(fields_v1_text(&kept), fields_v1_text(&made));
            prop_assert_eq!(json::length(&kept), json::length(&made));
            prop_assert_eq!(&kept, &made);
            prop_assert_eq!(&made, &kept);
            prop_assert_eq!(kept == others, set == other);
            prop_assert_eq!(others == kept, set == other);
            prop_assert_eq!(json::to_string(&kept), json::to_string(&made));
            prop_assert_eq!(&Set::from_fields_v1_value(&kept).unwrap(), &set);
            let tree = json::parse(json::to_string(&kept).as_bytes(), &Limits::default()).unwrap();
            prop_assert_eq!(&tree, &kept);
        }
    }

    #[test]
    fn collecting_paths_is_inserting_them_one_by_one(paths in any_paths()) {
        let mut inserted = Set::new();
        paths.iter().for_each(|path| inserted.insert(path));
        let collected: Set = paths.iter().cloned().collect();
        prop_assert_eq!(&collected, &inserted);
        prop_assert!(paths.iter().all(|path| collected.has(path)));
        prop_assert_eq!(collected.paths().collect::<Set>(), inserted.clone());
        prop_assert_eq!(collected.paths().count(), collected.size());
    }

    #[test]
    fn sets_obey_the_laws_of_sets(a in any_set(), b in any_set(), c in any_set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.intersection(&b.union(&c)), a.intersection(&b).union(&a.intersection(&c)));
        prop_assert_eq!(a.difference(&b), a.difference(&a.intersection(&b)));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert!(a.is_subset(&a.union(&b)) && a.intersection(&b).is_subset(&b));
        prop_assert_eq!(a.is_subset(&b), a.difference(&b).is_empty());
        prop_assert_eq!(a.union(&a), a.clone());
        prop_assert_eq!(a.size() + b.size(), a.union(&b).size() + a.intersection(&b).size());
    }

    #[test]
    fn membership_decides_every_operation(a in any_set(), b in any_set(), path in prop::collection::vec(any_element(), 1..4)) {
        let (in_a, in_b) = (a.has(&path), b.has(&path));
        prop_assert_eq!(a.union(&b).has(&path), in_a || in_b);
        prop_assert_eq!(a.intersection(&b).has(&path), in_a && in_b);
        prop_assert_eq!(a.difference(&b).has(&path), in_a && !in_b);
        let covered = (1..=path.len()).any(|length| b.has(&path[..length]));
        prop_assert_eq!(a.recursive_difference(&b).has(&path), in_a && !covered);
        prop_assert_eq!(a.with_prefix(&path[0]).has(&path[1..]), path.len() > 1 && in_a);
    }

    #[test]
    fn no_text_breaks_the_reader(text in "[{}\\[\\]\":,.fkvi\\\\u0-9e+ \\-atrue]{0,40}") {
        if let Ok(set) = Set::from_fields_v1(text.as_bytes()) {
            prop_assert_eq!(&Set::from_fields_v1(set.to_fields_v1().as_bytes()).unwrap(), &set);
        }
        let _ = PathElement::parse(&text);
    }
}
