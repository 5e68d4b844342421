use super::*;

fn read(text: &str) -> String {
    parse(text.as_bytes(), &Limits::default()).unwrap().to_string()
}

fn error(text: &str) -> String {
    parse(text.as_bytes(), &Limits::default()).unwrap_err().to_string()
}

fn findings(text: &str) -> Vec<String> {
    let parsed = parse_with_findings(text.as_bytes(), &Limits::default()).unwrap();
    parsed.findings.iter().map(ToString::to_string).collect()
}

#[test]
fn anchors_merges_blocks_and_quotes_are_read() {
    let text = r##"
labels: &common
  app: web
  tier: "1"
annotations:
  <<: *common
  extra: 'it''s'
script.sh: |
  #!/bin/sh
  echo hi
folded: >-
  one
  two
keep: |+
  x

double: "a\tb\x41\u00e9\
  c"
plain: a b  # comment
anchored: &v same
alias: *v
? complex-key
: "yes"
"##;
    let expected = concat!(
        r##"{"alias":"same","anchored":"same","annotations":{"app":"web","extra":"it's","tier":"1"},"##,
        r##""complex-key":"yes","double":"a\tbAéc","folded":"one two","keep":"x\n\n","labels":{"app":"web","tier":"1"},"##,
        r##""plain":"a b","script.sh":"#!/bin/sh\necho hi\n"}"##,
    );
    assert_eq!(read(text), expected);
}

#[test]
fn scalars_are_typed_and_keys_become_text() {
    assert_eq!(
        read("{a: yes, b: n, c: 1, d: 1.5, e: ~, f: 2024-01-02, g: 'yes', h: 0x1F, i: 1.0, j: }"),
        r#"{"a":true,"b":false,"c":1,"d":1.5,"e":null,"f":"2024-01-02","g":"yes","h":31,"i":1,"j":null}"#
    );
    assert_eq!(read("on: x\n1: why\n1.5: z\n"), r#"{"1":"why","1.5":"z","true":"x"}"#);
    assert_eq!(
        read("a: !!str 1\nb: !!int '2'\nc: !custom 3\nd: ! 4\n"),
        r#"{"a":"1","b":2,"c":"3","d":4}"#
    );
}

#[test]
fn whole_floats_are_integers() {
    assert!(matches!(parse(b"1e3", &Limits::default()), Ok(Value::Int(1000))));
    assert!(matches!(
        parse(b"[1.0]", &Limits::default()).unwrap().as_list().unwrap()[0],
        Value::Int(1)
    ));
}

#[test]
fn only_the_first_document_is_read() {
    assert_eq!(read("# comment\n---\na: 1\n---\nnot: [closed\n"), r#"{"a":1}"#);
    assert_eq!(read("---\na: 1\n...\n"), r#"{"a":1}"#);
    assert_eq!(read("---\n---\na: 1\n"), "null");
    assert_eq!(read(""), "null");
    assert_eq!(read("# nothing\n"), "null");
    assert_eq!(read("\u{feff}a: 1\n"), r#"{"a":1}"#);
}

#[test]
fn second_document_is_rejected_if_one_is_expected() {
    let single = |text: &str| parse_with(text.as_bytes(), &Limits::default(), Documents::Single);
    assert_eq!(single("---\na: 1\n...\n").unwrap().value.to_string(), r#"{"a":1}"#);
    let error = single("a: 1\n---\nb: 2\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "yaml: expected a single document in the stream but found another document"
    );
    assert_eq!(error.position(), Some(Position { line: 2, column: 1 }));
}

#[test]
fn errors_are_in_the_words_of_the_reference() {
    let cases = [
        (
            "apiVersion: v1\nkind: [ConfigMap\n",
            "yaml: line 2: did not find expected ',' or ']'",
        ),
        (
            "apiVersion: v1\n kind: ConfigMap\n",
            "yaml: line 2: mapping values are not allowed in this context",
        ),
        (
            "apiVersion: v1\n\tkind: ConfigMap\n",
            "yaml: line 2: found a tab character that violates indentation",
        ),
        (
            "a: v1\nb: c\nmetadata:\n\tname: c\n",
            "yaml: line 4: found character that cannot start any token",
        ),
        ("a: b: c\n", "yaml: mapping values are not allowed in this context"),
        ("a: [", "yaml: line 1: did not find expected node content"),
        ("data: {a: *unknown}\n", "yaml: unknown anchor 'unknown' referenced"),
        (r#"{"a":"http:\/\/x"}"#, "yaml: found unknown escape character"),
        (
            r#"{"a":"\ud83d\ude00"}"#,
            "yaml: found invalid Unicode character escape code",
        ),
        ("a: .inf", "json: unsupported value: +Inf"),
        (
            "~: a",
            "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"a\"",
        ),
        ("&a [*a]", "yaml: anchor 'a' value contains itself"),
        (
            "a: 1\n<<: 2\n",
            "yaml: map merge requires map or sequence of maps as the value",
        ),
        ("a: \u{1}", "yaml: control characters are not allowed"),
    ];
    for (text, expected) in cases {
        assert_eq!(error(text), expected, "{text:?}");
    }
    assert!(parse(b"a: \xff", &Limits::default()).is_err());
}

#[test]
fn errors_say_line_and_column() {
    let error = parse(b"a: 1\nb: c: d\n", &Limits::default()).unwrap_err();
    assert_eq!(error.position().map(|position| position.line), Some(2));
}

#[test]
fn tabs_do_not_indent() {
    for text in [
        "a:\n\tb: 1",
        "a:\n  - x\n\t- y",
        "-\tx",
        "a: b\n\t# c\nd: e",
        "a: 'b'\n\t# c\nd: e",
        "a:\n \tb: 1",
        "?\ta",
    ] {
        assert!(parse(text.as_bytes(), &Limits::default()).is_err(), "{text:?}");
    }
    for text in [
        "a:\tb",
        "a: b\t# c",
        "[\n\t1,\n\t2]",
        "a: |\n  x\n  \ty\n",
        "a: \"b\n  \tc\"",
        "a: b\n  \tc",
    ] {
        assert_eq!(
            parse(text.as_bytes(), &Limits::default()).map(|_| ()),
            Ok(()),
            "{text:?}"
        );
    }
}

#[test]
fn json_is_read_with_what_yaml_allows_besides() {
    assert_eq!(
        read(r#"{"a":"tab\there \u00e9 \"q\" back\\slash","b":1e3}"#),
        r#"{"a":"tab\there é \"q\" back\\slash","b":1000}"#
    );
    assert_eq!(read(r#"{"a":"1",},"#.trim_end_matches(',')), r#"{"a":"1"}"#);
    assert_eq!(read("{\"a\":1,\n\t\"b\":{\"c\":2}}\n"), r#"{"a":1,"b":{"c":2}}"#);
    assert_eq!(read(r#"{"a":"😀 raw"}"#), r#"{"a":"😀 raw"}"#);
    assert_eq!(read("{\"a\": 1}\n---\n{\"b\": 2}\n"), r#"{"a":1}"#);
}

#[test]
fn repeated_keys_are_reported_with_the_line_of_the_value() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata:\n  a: '1'\n  a: '2'\n";
    assert_eq!(findings(text), [r#"line 6: key "a" already set in map"#]);
    assert_eq!(
        findings(r#"{"data":{"b":"1"},"data":{"c":"2"}}"#),
        [r#"line 1: key "data" already set in map"#]
    );
    assert_eq!(findings("1: a\n1: b\n'1': c\n"), ["line 2: key 1 already set in map"]);
    let many: String = (0..40).map(|n| format!("k{n}: {n}\n")).collect();
    assert_eq!(
        findings(&format!("{many}k3: x\nk30: y\nk3: z\n")),
        [
            r#"line 41: key "k3" already set in map"#,
            r#"line 42: key "k30" already set in map"#,
            r#"line 43: key "k3" already set in map"#,
        ]
    );
    assert_eq!(read("a: 1\na: 2\n"), r#"{"a":2}"#);
}

#[test]
fn merged_keys_appear_at_merge_key() {
    assert_eq!(
        read("v: &v {a: 1, b: 2}\nw: {a: 0, <<: *v, b: 3}\n"),
        r#"{"v":{"a":1,"b":2},"w":{"a":1,"b":3}}"#
    );
    assert_eq!(read("w: {<<: [{a: 1}, {a: 2, b: 3}]}\n"), r#"{"w":{"a":1,"b":3}}"#);
    assert_eq!(read("w: {'<<': {a: 1}}\n"), r#"{"w":{"\u003c\u003c":{"a":1}}}"#);
}

#[test]
fn aliases_are_bounded_by_what_they_come_to() {
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..10 {
        let items = vec![format!("*a{}", level - 1); 10].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    assert!(parse(bomb.as_bytes(), &Limits::default()).is_err());
    let quadratic = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 50].join(","));
    assert!(matches!(
        parse(quadratic.as_bytes(), &Limits::default()),
        Err(Error::TooLarge { .. })
    ));
    let lines: String = (0..360).map(|n| format!("  k{n:03}: *x\n")).collect();
    let large = format!("data:\n  k: &x {}\n{lines}", "x".repeat(3000));
    assert!(parse(large.as_bytes(), &Limits::default()).is_ok());
}

#[test]
fn depth_and_count_are_bounded() {
    let limits = Limits {
        max_bytes: 1000,
        max_depth: 3,
        max_nodes: 5,
    };
    let parse = |text: &str| parse(text.as_bytes(), &limits);
    assert!(parse("- - - a").is_ok());
    assert!(matches!(parse("- - - - a"), Err(Error::TooDeep { limit: 3, .. })));
    assert!(matches!(parse("[[[[a]]]]"), Err(Error::TooDeep { limit: 3, .. })));
    assert!(matches!(
        parse("[a, b, c, d, e]"),
        Err(Error::TooManyNodes { limit: 5, .. })
    ));
    for text in ["[", "- ", "{a: "] {
        assert!(super::parse(text.repeat(100_000).as_bytes(), &Limits::default()).is_err());
    }
}

#[test]
fn json_like_yaml_has_yaml_escapes() {
    let value = parse(br#"{"a":"it\'s","b":"\x41\e\U0001F600\_\0 \N"}"#, &Limits::default()).unwrap();
    assert_eq!(value.str_at(&["a"]), Some("it's"));
    assert_eq!(value.str_at(&["b"]), Some("A\u{1b}\u{1F600}\u{a0}\0 \u{85}"));
    assert!(parse(br#"{"a":"it\'s","b":"\q"}"#, &Limits::default()).is_err());
}

#[test]
fn invalid_yaml_gives_libyaml_error() {
    let message = |bytes: &[u8]| super::parse(bytes, &Limits::REQUEST).unwrap_err().to_string();
    let cases: &[(&[u8], &str)] = &[
        (b"a: \xe9", "yaml: incomplete UTF-8 octet sequence"),
        (b"a: \xe9bb", "yaml: invalid trailing UTF-8 octet"),
        (b"a: \xff", "yaml: invalid leading UTF-8 octet"),
        (b"a: \xc0\x80", "yaml: invalid length of a UTF-8 sequence"),
        (b"a: \xed\xa0\x80", "yaml: invalid Unicode character"),
        (b"a: \xf4\x90\x80\x80", "yaml: invalid Unicode character"),
        (b"%YAML 1.2\n---\na: b\n", "yaml: found incompatible YAML document"),
        (b"%FOO\n", "yaml: found unknown directive name"),
        (b"{\"a\" \"b\"}", "yaml: did not find expected ',' or '}'"),
        (b"{,\"a\":1}", "yaml: did not find expected node content"),
        (b"{\"a\":1,,\"b\":2}", "yaml: did not find expected node content"),
        (b"[,]", "yaml: did not find expected node content"),
        (
            b"{\"a\":1}  \n\t",
            "yaml: line 2: found character that cannot start any token",
        ),
        (b"a: \"v\nb: c\n", "yaml: line 3: found unexpected end of stream"),
        (b"{[a]: x}", "yaml: invalid map key: []interface {}{\"a\"}"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(message(bytes), *expected, "{}", bytes.escape_ascii());
    }
    let deep = [b"{\"a\":".as_slice(), &[b'['; 600]].concat();
    assert_eq!(message(&deep), "yaml: exceeded max depth of 10000");
}

#[test]
fn yaml_valid_for_libyaml_is_read() {
    let read = |bytes: &[u8]| super::parse(bytes, &Limits::REQUEST).map(|value| value.to_string());
    let cases: &[(&[u8], &str)] = &[
        (b"{\"a\":1}}", r#"{"a":1}"#),
        (b"{\"a\":1}\t \n ", r#"{"a":1}"#),
        (b"a: !!binary aGk=\n", r#"{"a":"hi"}"#),
        (b"a: !binary aGk=\n", r#"{"a":"aGk="}"#),
        (b"%YAML 1.1\n---\na: b\n", r#"{"a":"b"}"#),
        (b"\xff\xfe{\0\"\0a\0\"\0:\0\x31\0}\0", r#"{"a":1}"#),
        (b"{\"a\":,\"b\"}", r#"{"a":null,"b":null}"#),
    ];
    for (bytes, expected) in cases {
        assert_eq!(read(bytes).as_deref(), Ok(*expected), "{}", bytes.escape_ascii());
    }
}

#[test]
fn escapes_in_double_quotes_are_those_of_the_reference() {
    for (text, value) in [
        (r#"a: "it\'s""#, "it's"),
        (r#"a: "\'\"\\\'\\""#, r#"'"\'\"#),
        (
            r#"a: "\0\a\b\t\n\v\f\r\e\ \N\_\L\P""#,
            "\0\u{7}\u{8}\t\n\u{b}\u{c}\r\u{1b} \u{85}\u{a0}\u{2028}\u{2029}",
        ),
        (r#"a: "\x41\u00e9\U0001F600""#, "A\u{e9}\u{1f600}"),
        ("a: \"b\\\n  c\"", "bc"),
        // Other styles have no escapes.
        (r"a: 'it\'", r"it\"),
        (r"a: it\'s", r"it\'s"),
        ("a: |-\n  it\\'s", r"it\'s"),
    ] {
        let read = parse(text.as_bytes(), &Limits::default()).unwrap();
        assert_eq!(read.str_at(&["a"]), Some(value), "{text}");
    }
    for (text, why) in [
        (r#"a: "\'\q""#, "yaml: found unknown escape character"),
        (r#"a: "\/""#, "yaml: found unknown escape character"),
        ("b: 1\na: \"\\'\\/\"", "yaml: line 2: found unknown escape character"),
        (
            r#"a: "\ud83d\ude00""#,
            "yaml: found invalid Unicode character escape code",
        ),
        (r#"a: "\xZZ""#, "yaml: did not find expected hexdecimal number"),
        (r#"a: "\'"#, "yaml: found unexpected end of stream"),
    ] {
        let error = parse(text.as_bytes(), &Limits::default()).unwrap_err();
        assert_eq!(error.to_string(), why, "{text}");
    }
}

#[test]
fn many_escaped_apostrophes_do_not_take_long() {
    let line = "- \"\\'\"\n";
    assert!(parse(line.repeat(100).as_bytes(), &Limits::default()).is_ok());
    // Each scalar is parsed again; beyond some megabytes in total they are rejected.
    assert!(parse(line.repeat(20_000).as_bytes(), &Limits::default()).is_err());
}
