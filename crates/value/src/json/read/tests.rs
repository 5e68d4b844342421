use super::*;
use crate::json;

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::default()).unwrap()
}

fn error(text: &str) -> String {
    json::parse(text.as_bytes(), &Limits::default())
        .unwrap_err()
        .to_string()
}

fn findings(text: &str) -> Vec<String> {
    let parsed = json::parse_with_findings(text.as_bytes(), &Limits::default()).unwrap();
    parsed.findings.iter().map(ToString::to_string).collect()
}

#[test]
fn integers_are_exact_and_larger_numbers_become_floats() {
    assert!(matches!(parse("-9223372036854775808"), Value::Int(i64::MIN)));
    assert!(matches!(parse("9223372036854775807"), Value::Int(i64::MAX)));
    assert!(matches!(
        parse("9223372036854775808"),
        Value::UInt(0x8000_0000_0000_0000)
    ));
    assert!(matches!(parse("18446744073709551615"), Value::UInt(u64::MAX)));
    assert!(matches!(parse("18446744073709551616"), Value::Float(n) if n == 18446744073709551616.0));
    assert!(matches!(parse("-9223372036854775809"), Value::Float(n) if n == -9223372036854775808.0));
    assert!(matches!(parse("1.0"), Value::Float(1.0)));
    assert!(matches!(parse("1e3"), Value::Float(1000.0)));
    assert!(matches!(parse("-0"), Value::Int(0)));
    assert!(matches!(parse("-1e-400"), Value::Float(0.0)));
}

#[test]
fn a_number_beyond_every_float_is_an_error() {
    assert_eq!(
        error("[1e999]"),
        "json: cannot unmarshal number 1e999 into Go value of type float64"
    );
}

#[test]
fn escapes_are_read() {
    assert_eq!(
        parse(r#""\"\\\/\b\f\n\r\tA\u00e9\ud83d\ude80""#).as_str(),
        Some("\"\\/\u{8}\u{c}\n\r\tAé🚀")
    );
}

#[test]
fn invalid_characters_become_replacement_characters() {
    assert_eq!(parse(r#""\ud83d""#).as_str(), Some("\u{fffd}"));
    assert_eq!(parse(r#""\ude80x""#).as_str(), Some("\u{fffd}x"));
    assert_eq!(parse(r#""\ud83d\ud83d\ude80""#).as_str(), Some("\u{fffd}🚀"));
    assert_eq!(parse(r#""\ud83d\u0041""#).as_str(), Some("\u{fffd}A"));
    let value = json::parse(b"\"a\xe2\x82b\xff\"", &Limits::default()).unwrap();
    assert_eq!(value.as_str(), Some("a\u{fffd}\u{fffd}b\u{fffd}"));
}

#[test]
fn maps_are_sorted_and_the_last_of_a_repeated_key_wins() {
    let value = parse(r#"{"b":1,"a":2,"c":3,"b":4,"b":5}"#);
    assert_eq!(json::to_string(&value), r#"{"a":2,"b":5,"c":3}"#);
}

#[test]
fn keys_are_case_sensitive() {
    assert_eq!(json::to_string(&parse(r#"{"a":1,"A":2}"#)), r#"{"A":2,"a":1}"#);
    assert!(findings(r#"{"a":1,"A":2}"#).is_empty());
}

#[test]
fn repeated_keys_are_reported_once_in_text_order() {
    assert_eq!(
        findings(r#"{"kind":"a","data":{"k":"v","k":"w","k":"x"},"data":{"l":"x"},"kind":"b"}"#),
        [
            r#"duplicate field "data.k""#,
            r#"duplicate field "data""#,
            r#"duplicate field "kind""#
        ],
    );
    assert_eq!(
        findings(r#"{"a":1,"a":2,"b":{"c":1,"c":2}}"#),
        [r#"duplicate field "a""#, r#"duplicate field "b.c""#]
    );
}

#[test]
fn paths_of_repeated_keys_have_dots_and_indices() {
    let text = r#"{"spec":{"x":[0],"containers":[{"name":"a"},{"env":[[],[1,{"name":"b","name":"c"}]],"z":[1,2]}]}}"#;
    assert_eq!(
        findings(text),
        [r#"duplicate field "spec.containers[1].env[1][1].name""#]
    );
    assert_eq!(findings(r#"[{"op":1,"op":2}]"#), [r#"duplicate field "[0].op""#]);
}

#[test]
fn no_more_than_a_hundred_findings_are_kept() {
    let members: Vec<String> = (0..150).map(|n| format!(r#""k{n}":1,"k{n}":2"#)).collect();
    assert_eq!(findings(&format!("{{{}}}", members.join(","))).len(), 100);
}

#[test]
fn repeated_maps_are_merged_on_request() {
    let text = br#"{"data":{"k":"v","m":{"a":1}},"x":1,"data":{"l":"x","m":{"b":2}},"x":[2]}"#;
    let parsed = json::parse_with(text, &Limits::default(), Duplicates::Merge).unwrap();
    assert_eq!(
        json::to_string(&parsed.value),
        r#"{"data":{"k":"v","l":"x","m":{"a":1,"b":2}},"x":[2]}"#
    );
    assert_eq!(parsed.findings.len(), 2);
    let text = br#"{"a":{"x":1},"a":null,"a":{"y":{"p":1}},"a":{"y":{"q":2},"z":3},"a":{"z":[]}}"#;
    let parsed = json::parse_with(text, &Limits::default(), Duplicates::Merge).unwrap();
    assert_eq!(parsed.value.to_string(), r#"{"a":{"y":{"p":1,"q":2},"z":[]}}"#);
}

#[test]
fn merging_many_repetitions_takes_no_long_time() {
    let members: Vec<String> = (0..100_000).map(|n| format!(r#""{n}":0"#)).collect();
    let repetitions: String = (0..100_000).map(|n| format!(r#","a":{{"x{n}":1}}"#)).collect();
    let text = format!(r#"{{"a":{{{}}}{repetitions}}}"#, members.join(","));
    let limits = Limits {
        max_bytes: usize::MAX,
        ..Limits::REQUEST
    };
    let parsed = json::parse_with(text.as_bytes(), &limits, Duplicates::Merge).unwrap();
    assert_eq!(parsed.value.get("a").unwrap().as_map().unwrap().len(), 200_000);
}

#[test]
fn errors_are_in_the_words_of_the_reference() {
    let cases = [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        (r#"{"a":[1,"#, "unexpected end of JSON input"),
        (r#""abc"#, "unexpected end of JSON input"),
        ("text", "invalid character 'e' in literal true (expecting 'r')"),
        ("a: b", "invalid character 'a' looking for beginning of value"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        (r#"{"a":1} trailing"#, "invalid character 't' after top-level value"),
        (
            r#"{"a":1,}"#,
            "invalid character '}' looking for beginning of object key string",
        ),
        (
            "{not json",
            "invalid character 'n' looking for beginning of object key string",
        ),
        (r#"{"a" 1}"#, "invalid character '1' after object key"),
        (r#"{"a":1]"#, "invalid character ']' after object key:value pair"),
        ("[1}", "invalid character '}' after array element"),
        ("[01]", "invalid character '1' after array element"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1e+x", "invalid character 'x' in exponent of numeric literal"),
        ("\"a\tb\"", r"invalid character '\t' in string literal"),
        (r#""\q""#, "invalid character 'q' in string escape code"),
        (
            r#""\u12x4""#,
            r"invalid character 'x' in \u hexadecimal character escape",
        ),
        ("'a'", r"invalid character '\'' looking for beginning of value"),
        ("\u{feff}{}", "invalid character 'ï' looking for beginning of value"),
    ];
    for (text, expected) in cases {
        assert_eq!(error(text), expected, "{text}");
    }
}

#[test]
fn errors_say_line_and_column() {
    let error = json::parse("{\n  \"é\": 1,\n  \"é\" x}".as_bytes(), &Limits::default()).unwrap_err();
    assert_eq!(error.position(), Some(Position { line: 3, column: 7 }));
}

#[test]
fn depth_size_and_count_are_bounded() {
    let limits = Limits {
        max_bytes: 40,
        max_depth: 3,
        max_nodes: 5,
    };
    let parse = |text: &str| json::parse(text.as_bytes(), &limits);
    assert!(parse("[[[1]]]").is_ok());
    assert!(matches!(
        parse("[[[[]]]]"),
        Err(Error::TooDeep {
            limit: 3,
            position: Position { line: 1, column: 4 },
            ..
        })
    ));
    assert!(parse(r#"[{"a":{}}]"#).is_ok());
    assert!(parse("[1,2,3,4]").is_ok());
    assert!(matches!(
        parse("[1,2,3,4,5]"),
        Err(Error::TooManyNodes { limit: 5, .. })
    ));
    assert!(matches!(
        parse(&" ".repeat(41)),
        Err(Error::TooLarge { size: 41, limit: 40 })
    ));
}

#[test]
fn deepest_tree_fits_small_stack() {
    let depth = Limits::TRUSTED.max_depth;
    let text = "[{\"a\":".repeat(depth / 2) + "1" + &"}]".repeat(depth / 2);
    let thread = std::thread::Builder::new().stack_size(1 << 20);
    let round_trip = move || json::to_string(&json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()) == text;
    let handle = thread.spawn(round_trip).unwrap();
    assert!(handle.join().unwrap());
    assert!(error(&"[".repeat(3_000_000)).contains("exceeded max depth"));
}

#[test]
fn runs_of_plain_bytes_end_at_the_first_special_one() {
    for special in [b'"', b'\\', b'\n', 0, 0x1f] {
        for length in 0..40 {
            let mut bytes = vec![b'x'; length];
            bytes.extend([special, b'"', 0x80, 0xff, b'\\', b' ', b'!']);
            bytes.extend([b'y'; 20]);
            assert_eq!(plain_run(&bytes), length);
        }
    }
    assert_eq!(plain_run("é 🚀 ~ ! # [ ]".as_bytes()), "é 🚀 ~ ! # [ ]".len());
}

#[test]
fn invalid_bytes_are_named_in_errors() {
    let message = |bytes: &[u8]| json::parse(bytes, &Limits::REQUEST).unwrap_err().to_string();
    let ff = "invalid character '\u{ff}' looking for beginning of value";
    assert_eq!(message(b"\xff\xfe{"), ff);
    assert_eq!(message(b"[\"\xfe\",\n \xff]"), ff);
    assert_eq!(
        message("[\u{fffd}]".as_bytes()),
        "invalid character '\u{ef}' looking for beginning of value"
    );
    assert_eq!(
        message("[".repeat(600).as_bytes()),
        "invalid character '[' exceeded max depth"
    );
}

/// Map represented by its text.
struct AsText(String);

impl crate::tree::Source for AsText {
    fn entries(&self) -> Vec<Entry> {
        match parse(&self.0) {
            Value::Map(map) => map.into_entries(),
            _ => Vec::new(),
        }
    }

    fn length(&self) -> usize {
        self.0.len()
    }

    fn json(&self) -> Option<&[u8]> {
        Some(self.0.as_bytes())
    }

    fn same(&self, _other: &dyn crate::tree::Source) -> Option<bool> {
        None
    }
}

#[test]
fn only_maps_at_path_stay_text() {
    let deferred = Deferred {
        path: &["a", "b", "c"],
        make: |text| {
            (text != "{}")
                .then(|| std::sync::Arc::new(AsText(text.to_owned())) as std::sync::Arc<dyn crate::tree::Source>)
        },
    };
    let read = |text: &str| json::parse_deferring(text.as_bytes(), &Limits::default(), deferred);
    let left = |value: &Value, at: &[&str]| value.at(at).and_then(Value::as_map).unwrap().source().is_some();
    let text = r#"{"a":{"b":{"c":{"x":{"c":{}},"y":"}\""}},"c":{"z":1}},"b":{"c":{"d":1}},"c":{"e":[{"c":{"f":1}}]}}"#;
    let value = read(text).unwrap();
    assert!(left(&value, &["a", "b", "c"]));
    for at in [&["a", "c"][..], &["b", "c"], &["c"]] {
        assert!(!left(&value, at), "{at:?}");
    }
    assert_eq!(json::to_string(&value), text);
    assert_eq!(value, parse(text));
    // Items of lists have no name, so a list of lists has no path, nor have the contents of the map itself.
    let items = read(r#"{"a":[{"b":[{"c":{"d":1}}]},{"b":{"c":[{"x":{}}]}}]}"#).unwrap();
    let list = |value: &Value, at: usize| value.as_list().unwrap()[at].clone();
    let first = list(items.get("a").unwrap(), 0);
    assert!(left(&list(first.get("b").unwrap(), 0), &["c"]));
    let second = list(items.get("a").unwrap(), 1);
    assert!(
        list(second.at(&["b", "c"]).unwrap(), 0)
            .as_map()
            .unwrap()
            .source()
            .is_none()
    );
    assert!(!left(&read(r#"{"a":{"b":{"c":{}}}}"#).unwrap(), &["a", "b", "c"]));
    assert!(read(r#"{"a":{"b":{"c":{"x":1}}"#).is_err());
}
