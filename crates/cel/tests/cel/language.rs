//! The language: operators, macros, conversions, optional values.

use crate::support::{all_true, evaluate, evaluate_on, fields};
use holdfast_cel::{DeclType, ListType};

#[test]
fn operators_follow_precedence_and_types() {
    all_true(&[
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "7 / 2 == 3 && 7 % 2 == 1 && -7 / 2 == -3",
        "7.0 / 2.0 == 3.5",
        "!false && !!true",
        "- -1 == 1",
        "true ? 1 == 1 : 1 / 0 == 1",
        "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab'",
        "[1] + [2, 3] == [1, 2, 3]",
        "{'a': 1}['a'] == 1 && {'a': 1}.a == 1",
        "[1, 2][1] == 2",
        "1 in [1, 2] && !(3 in [1, 2]) && 'a' in {'a': 1}",
        "1 < 2 && 1 < 1.5 && 2u > 1 && 1.0 <= 1u",
        "'a' < 'b' && b'a' < b'b' && false < true",
        "dyn(1) == 1.0 && dyn(1u) == 1 && dyn('1') != 1",
        "!(9223372036854775807 < 9223372036854775808.0) && dyn(9223372036854775807) == 9223372036854775808.0",
        "null == null && type(null) == null_type",
        "0x1F == 31 && 1e3 == 1000.0 && .5 == 0.5",
        "r'\\d' == '\\\\d' && '''it's''' == \"it's\"",
        "'\\u00e4'.size() == 1 && b'\\xff'.size() == 1",
    ]);
}

#[test]
fn an_error_on_one_side_of_and_or_or_is_outweighed_by_the_other() {
    all_true(&[
        "true || 1 / 0 == 1",
        "1 / 0 == 1 || true",
        "!(false && 1 / 0 == 1)",
        "!(1 / 0 == 1 && false)",
        "[1, 0].exists(x, 1 / x == 1)",
        "![2, 0].all(x, 1 / x > 5)",
    ]);
    assert_eq!(
        evaluate("1 / 0 == 1 && true").err().as_deref(),
        Some("division by zero")
    );
    assert_eq!(
        evaluate("[0, 1].all(x, 1 / x == 1)").err().as_deref(),
        Some("division by zero")
    );
}

#[test]
fn macros_walk_lists_and_maps() {
    all_true(&[
        "[1, 2].all(x, x > 0) && ![1, 2].all(x, x > 1)",
        "[].all(x, false) && ![].exists(x, true)",
        "[1, 2].exists(x, x == 2) && [1, 2].exists_one(x, x == 2) && ![1, 1].existsOne(i, x, x == 1)",
        "[1, 2].map(x, x * 2) == [2, 4] && [1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
        "[1, 2, 3].filter(x, x > 1) == [2, 3]",
        "{'a': 1, 'b': 2}.all(k, k in ['a', 'b']) && {'a': 1}.map(k, k) == ['a']",
        "[1, 2].all(i, v, i < v) && [4, 5].exists(i, v, i == 1 && v == 5)",
        "{'a': 1}.all(k, v, k == 'a' && v == 1) && [1, 1].exists_one(i, v, i == v)",
        "[1, 2].transformList(i, v, i + v) == [1, 3] && [1, 2].transformList(i, v, i > 0, v) == [2]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v) == {'b': 2}",
        "{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}",
        "[3, 1, 2].sortBy(x, -x) == [3, 2, 1]",
        "[[1, 2], [3]].map(l, l.map(x, x + 1)) == [[2, 3], [4]]",
        "[1].all(x, [2].all(y, x < y && [3].exists(x, x > y)))",
        "has({'a': 1}.a) && !has({'a': 1}.b)",
    ]);
    let twice = evaluate("{'a': 1, 'b': 1}.transformMapEntry(k, v, {v: k})");
    assert_eq!(twice.err().as_deref(), Some("insert failed: key 1 already exists"));
}

#[test]
fn values_convert_where_they_can() {
    all_true(&[
        "int('5') == 5 && int(5.9) == 5 && int(5u) == 5 && int(timestamp('1970-01-01T00:00:05Z')) == 5",
        "uint('5') == 5u && uint(5) == 5u && double('1.5') == 1.5 && double(2) == 2.0",
        "string(1) == '1' && string(1.5) == '1.5' && string(true) == 'true' && string(b'abc') == 'abc'",
        "string(duration('90s')) == '90s' && string(timestamp(0)) == '1970-01-01T00:00:00Z'",
        "bytes('abc') == b'abc' && bool('true') && !bool('f')",
        "duration('1h') + duration('30m') == duration('90m')",
        "timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')",
        "timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')",
        "timestamp('2024-03-01T05:06:07.089Z').getMonth() == 2",
        "timestamp('2024-03-01T05:06:07.089Z').getDate() == 1 && timestamp('2024-03-01T05:06:07Z').getDayOfMonth() == 0",
        "timestamp('2024-03-01T05:06:07.089Z').getMilliseconds() == 89",
        "timestamp('2024-07-01T12:00:00Z').getHours('America/New_York') == 8",
        "timestamp('2024-01-01T12:00:00Z').getMinutes('Asia/Kolkata') == 30",
        "timestamp('2024-03-01T05:06:07Z').getHours('+02:00') == 7 && duration('90m').getMinutes() == 90",
        "type(1) == int && type('a') == string && type([]) == list && type(type(1)) == type",
        "type(duration('1s')) == google.protobuf.Duration",
        "size('äö') == 2 && size([1]) == 1 && {'a': 1}.size() == 1 && b'äö'.size() == 4",
    ]);
}

#[test]
fn errors_match_cel_go_messages() {
    let cases = [
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("[1][5]", "index out of bounds: 5"),
        ("{'a': 1}['b']", "no such key: b"),
        ("{'a': 1}.b", "no such key: b"),
        ("int('x' + '')", "type conversion error from 'string' to 'int'"),
        (
            "int('x')",
            "program instantiation failed: type conversion error from 'string' to 'int'",
        ),
        (
            "bool(dyn(1))",
            "program instantiation failed: no such overload: bool(int)",
        ),
        (
            "'a'.matches(dyn('['))",
            "program instantiation failed: error parsing regexp: missing closing ]: `[`",
        ),
        (
            "'a'.findAll(')', 1) == []",
            "program instantiation failed: error parsing regexp: unexpected ): `)`",
        ),
        (
            "{1: 1}[dyn(b'')]",
            "program instantiation failed: invalid qualifier type: types.Bytes",
        ),
        ("[1][dyn('a')]", "unsupported index type 'string' in list"),
        (
            "timestamp('2024-01-01T00:00:00Z').getHours('asia/kolkata')",
            "unknown time zone asia/kolkata",
        ),
        ("dyn(null) < dyn(1)", "no such overload: _<_"),
        ("-dyn(1u)", "no such overload: -_"),
        ("double('NaN') < 1.0", "NaN values cannot be ordered"),
        ("dyn(quantity('1')) == dyn(1)", "no such overload"),
        (
            "timestamp('x' + '')",
            "type conversion error from 'string' to 'google.protobuf.Timestamp'",
        ),
        (
            "duration('x' + '')",
            "type conversion error from 'string' to 'google.protobuf.Duration'",
        ),
        ("dyn(1) + dyn('a')", "no such overload"),
        ("dyn('a').size() + dyn(1).size()", "no such overload: size"),
        ("optional.none().value()", "optional.none() dereference"),
        ("int(1e19 + 0.0)", "integer overflow"),
        (
            "timestamp('9999-12-31T23:59:59Z') + duration('1s')",
            "timestamp overflow",
        ),
    ];
    for (expression, message) in cases {
        assert_eq!(evaluate(expression).err().as_deref(), Some(message), "{expression}");
    }
}

#[test]
fn optional_values_carry_what_may_be_missing() {
    all_true(&[
        "optional.of(1).value() == 1 && optional.of(1).hasValue() && !optional.none().hasValue()",
        "{'a': 1}.?a == optional.of(1) && {'a': 1}.?b == optional.none()",
        "{'a': {'b': 2}}.?a.b.value() == 2 && !{'a': {'b': 2}}.?x.b.hasValue()",
        "{'a': 1}[?'a'].orValue(0) == 1 && [1][?5].orValue(7) == 7",
        "{'a': [1]}.?a[0] == optional.of(1)",
        "optional.none().or(optional.of(2)).value() == 2",
        "optional.of(2).optMap(x, x * 2).value() == 4 && optional.none().optMap(x, 1) == optional.none()",
        "optional.of(2).optFlatMap(x, optional.of(x)).value() == 2",
        "[1, ?optional.none(), ?optional.of(2)] == [1, 2]",
        "{'a': 1, ?'b': optional.none()} == {'a': 1}",
        "optional.ofNonZeroValue('') == optional.none() && optional.ofNonZeroValue(1).hasValue()",
        "[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && [].first() == optional.none()",
        "optional.unwrap([optional.of(1), optional.none()]) == [1]",
        "[optional.of(1)].unwrapOpt() == [1]",
    ]);
}

#[test]
fn object_values_follow_schema() {
    let schema = fields([
        ("n", DeclType::double()),
        ("at", DeclType::date_time()),
        ("day", DeclType::date()),
        ("span", DeclType::duration()),
        ("raw", DeclType::bytes(None)),
        ("port", DeclType::int_or_string(None)),
        ("x-y", DeclType::int()),
        ("namespace", DeclType::string(None)),
        ("labels", DeclType::map(DeclType::string(None), None)),
        ("maybe", DeclType::string(None).nullable()),
        ("inner", fields([("a", DeclType::int())])),
    ]);
    let object = r#"{"n": 1, "at": "2024-01-01T00:00:00Z", "day": "2024-01-01", "span": "30m", "raw": "YWI=", "port": "5%",
        "x-y": 3, "namespace": "ns", "labels": {"a/b": "c"}, "maybe": null, "inner": {"a": 1}}"#;
    for expression in [
        "self.n < 1.5 && type(self.n) == double",
        "self.at > timestamp('2020-01-01T00:00:00Z') && self.day == self.at",
        "self.span < duration('1h')",
        "self.raw.size() == 2 && self.raw == b'ab'",
        "type(self.port) == string && self.port.endsWith('%')",
        "self.x__dash__y == 3 && self.__namespace__ == 'ns' && self.namespace == 'ns'",
        "self.labels['a/b'] == 'c' && self.labels.all(k, self.labels[k] == 'c')",
        "has(self.inner.a) && self.inner.a == 1 && self == self",
    ] {
        let outcome = evaluate_on(&schema, object, expression);
        assert_eq!(outcome.map(|value| value.as_bool()), Ok(Some(true)), "{expression}");
    }
    let outcome = evaluate_on(&schema, "{}", "self.inner.a > 0");
    assert_eq!(outcome.err().as_deref(), Some("no such key: inner"));
    assert_eq!(
        evaluate_on(&schema, "{}", "has(self.inner)").map(|value| value.as_bool()),
        Ok(Some(false))
    );
    // A field that is null counts as missing.
    assert_eq!(
        evaluate_on(&schema, r#"{"maybe":null}"#, "has(self.maybe)").map(|value| value.as_bool()),
        Ok(Some(false))
    );
    let outcome = evaluate_on(&schema, r#"{"maybe":null}"#, "self.maybe != 'x'");
    assert_eq!(outcome.err().as_deref(), Some("no such key: maybe"));
}

#[test]
fn lists_compare_and_add_by_their_list_type() {
    let schema = fields([
        ("set", DeclType::list(DeclType::int(), None, ListType::Set)),
        (
            "map",
            DeclType::list(
                fields([("k", DeclType::string(None)), ("v", DeclType::int())]),
                None,
                ListType::Map(vec!["k".into()]),
            ),
        ),
        ("atomic", DeclType::list(DeclType::int(), None, ListType::Atomic)),
    ]);
    let object = r#"{"set": [1, 2], "map": [{"k": "a", "v": 1}, {"k": "b", "v": 2}], "atomic": [1, 2]}"#;
    for (expression, expected) in [
        ("self.set == [2, 1]", true),
        ("self.set + [2, 3] == [3, 2, 1]", true),
        ("(self.set + [2, 3]).size() == 3", true),
        ("self.atomic == [2, 1]", false),
        ("(self.atomic + [2, 3]).size() == 4", true),
        ("self.map == self.map + self.map", true),
        ("(self.map + self.map).size() == 2", true),
        ("self.map.exists(e, e.k == 'b' && e.v == 2)", true),
    ] {
        let outcome = evaluate_on(&schema, object, expression);
        assert_eq!(outcome.map(|value| value.as_bool()), Ok(Some(expected)), "{expression}");
    }
}

#[test]
fn keys_of_maps_are_text_numbers_or_flags() {
    for key in ["'a'", "1", "1u", "true"] {
        assert!(evaluate(&format!("{{{key}: 1}}.size() == 1")).is_ok(), "{key}");
    }
    for (key, kind) in [("1.5", "double"), ("[1]", "list")] {
        let why = evaluate(&format!("{{{key}: 1}}.size() == 1")).unwrap_err();
        assert!(why.contains(&format!("unsupported key type: {kind}")), "{why}");
    }
}
