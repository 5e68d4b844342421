use super::*;

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::default()).unwrap()
}

fn patched(document: &str, patch: &str) -> Result<String, Error> {
    let (patch, _) = Patch::parse(patch.as_bytes(), &Limits::default())?;
    patch
        .apply(&parse(document), &Bounds::default())
        .map(|value| value.to_string())
}

fn result(document: &str, patch: &str) -> String {
    patched(document, patch).unwrap()
}

fn fails(document: &str, patch: &str) -> String {
    match patched(document, patch) {
        Err(error @ Error::PatchOperation { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn operations_follow_rfc() {
    let document = r#"{"data":{"k":"1","l":"2"},"list":["a","b"],"x/y":{"~":1}}"#;
    let cases = [
        (
            r#"[{"op":"replace","path":"","value":{"a":1}},{"op":"add","path":"/b","value":2}]"#,
            r#"{"a":1,"b":2}"#,
        ),
        (r#"[{"op":"replace","path":"","value":[1]}]"#, "[1]"),
        (
            r#"[{"op":"add","path":"/data/m","value":"3"}]"#,
            r#"{"data":{"k":"1","l":"2","m":"3"},"list":["a","b"],"x/y":{"~":1}}"#,
        ),
        (
            r#"[{"op":"remove","path":"/data/l"}]"#,
            r#"{"data":{"k":"1"},"list":["a","b"],"x/y":{"~":1}}"#,
        ),
        (
            r#"[{"op":"replace","path":"/data","value":{}}]"#,
            r#"{"data":{},"list":["a","b"],"x/y":{"~":1}}"#,
        ),
        (
            r#"[{"op":"move","from":"/data","path":"/d"}]"#,
            r#"{"d":{"k":"1","l":"2"},"list":["a","b"],"x/y":{"~":1}}"#,
        ),
        (
            r#"[{"op":"copy","from":"/list","path":"/data"}]"#,
            r#"{"data":["a","b"],"list":["a","b"],"x/y":{"~":1}}"#,
        ),
        (
            r#"[{"op":"remove","path":"/x~1y/~0"}]"#,
            r#"{"data":{"k":"1","l":"2"},"list":["a","b"],"x/y":{}}"#,
        ),
        (
            r#"[{"op":"add","path":"/list/0","value":"first"},{"op":"add","path":"/list/-","value":"last"}]"#,
            r#"{"data":{"k":"1","l":"2"},"list":["first","a","b","last"],"x/y":{"~":1}}"#,
        ),
        (
            r#"[{"op":"test","path":"/data","value":{"l":"2","k":"1"}},{"op":"remove","path":"/data"}]"#,
            r#"{"list":["a","b"],"x/y":{"~":1}}"#,
        ),
        ("[]", document),
        ("null", document),
    ];
    for (patch, expected) in cases {
        assert_eq!(result(document, patch), expected, "{patch}");
    }
}

#[test]
fn missing_keys_are_null_to_replace_test_and_copy() {
    assert_eq!(
        result("{}", r#"[{"op":"replace","path":"/none","value":"1"}]"#),
        r#"{"none":"1"}"#
    );
    assert_eq!(result("{}", r#"[{"op":"test","path":"/none","value":null}]"#), "{}");
    assert_eq!(result("{}", r#"[{"op":"test","path":"/none"}]"#), "{}");
    assert_eq!(
        result("{}", r#"[{"op":"copy","from":"/none","path":"/x"}]"#),
        r#"{"x":null}"#
    );
    assert_eq!(result("{}", r#"[{"op":"add","path":"/x"}]"#), r#"{"x":null}"#);
}

#[test]
fn indices_may_have_signs_and_zeros_in_front() {
    let document = r#"{"l":[0,1,2]}"#;
    assert_eq!(
        result(document, r#"[{"op":"remove","path":"/l/-1"}]"#),
        r#"{"l":[0,1]}"#
    );
    assert_eq!(
        result(document, r#"[{"op":"replace","path":"/l/01","value":9}]"#),
        r#"{"l":[0,9,2]}"#
    );
    assert_eq!(
        result(document, r#"[{"op":"add","path":"/l/-1","value":9}]"#),
        r#"{"l":[0,1,2,9]}"#
    );
    assert_eq!(
        result(document, r#"[{"op":"add","path":"/l/+1","value":9}]"#),
        r#"{"l":[0,9,1,2]}"#
    );
    for index in ["3", "-4", "x", "", "1.0"] {
        fails(document, &format!(r#"[{{"op":"remove","path":"/l/{index}"}}]"#));
    }
    fails(document, r#"[{"op":"add","path":"/l/4","value":9}]"#);
}

#[test]
fn path_text_before_first_slash_is_ignored() {
    assert_eq!(
        result(r#"{"data":{}}"#, r#"[{"op":"add","path":"data/k","value":"1"}]"#),
        r#"{"data":{},"k":"1"}"#
    );
}

#[test]
fn operations_that_cannot_be_done_fail() {
    let document = r#"{"data":{"k":"1"},"n":null,"i":1,"l":[]}"#;
    for patch in [
        r#"[{"op":"test","path":"/data/k","value":"2"}]"#,
        r#"[{"op":"test","path":"/i","value":1.0}]"#,
        r#"[{"op":"remove","path":"/data/none"}]"#,
        r#"[{"op":"add","path":"/none/x","value":"1"}]"#,
        r#"[{"op":"add","path":"/n/x","value":"1"}]"#,
        r#"[{"op":"add","path":"/i/x","value":"1"}]"#,
        r#"[{"op":"move","from":"/data/missing","path":"/data/x"}]"#,
        r#"[{"op":"move","from":"/data","path":"/data/x"}]"#,
        r#"[{"op":"copy","from":"/nothing/here","path":"/data/x"}]"#,
        r#"[{"op":"twist","path":"/data/k","value":"1"}]"#,
        r#"[{"path":"/data/k","value":"1"}]"#,
        r#"[{"op":"add","value":"1"}]"#,
        r#"[{"op":"add","path":"","value":{}}]"#,
        r#"[{}]"#,
        r#"[null]"#,
    ] {
        fails(document, patch);
    }
    for (operation, words) in [
        (
            r#"{"op":"remove","path":"/x"}"#,
            "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
        ),
        (
            r#"{"op":"test","path":"/data/k","value":"2"}"#,
            "testing value /data/k failed: test failed",
        ),
        (
            r#"{"op":"add","path":"/none/x","value":1}"#,
            "add operation does not apply: doc is missing path: \"/none/x\": missing value",
        ),
        (
            r#"{"op":"replace","path":"","value":"x"}"#,
            "replace operation value must be object or array: %!w(<nil>)",
        ),
        (
            r#"{"op":"replace","path":"/none/x","value":1}"#,
            "replace operation does not apply: doc is missing path: /none/x: missing value",
        ),
        (
            r#"{"op":"replace","path":"/l/7","value":1}"#,
            "replace operation does not apply: doc is missing key: /l/7: missing value",
        ),
        (
            r#"{"op":"add","path":"/l/7","value":1}"#,
            "error in add for path: '/l/7': Unable to access invalid index: 7: invalid index referenced",
        ),
        (
            r#"{"op":"copy","from":"/none/x","path":"/x"}"#,
            "copy operation does not apply: doc is missing from path: /none/x: missing value",
        ),
        (
            r#"{"op":"move","from":"/i","path":"/none/x"}"#,
            "move operation does not apply: doc is missing destination path: /none/x: missing value",
        ),
        (
            r#"{"op":"add","value":1}"#,
            "add operation failed to decode path: missing value",
        ),
    ] {
        assert_eq!(
            patched(
                document,
                &format!(r#"[{{"op":"test","path":"/i","value":1}},{operation}]"#)
            ),
            Err(Error::PatchOperation {
                index: 1,
                message: words.to_owned()
            })
        );
    }
}

#[test]
fn invalid_json_patch_gives_reference_error() {
    let cases = [
        (
            r#"{"data":{}}"#,
            "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            "[1]",
            "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
        ),
        (
            r#"[{"op":1}]"#,
            "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
        ("text", "invalid character 'e' in literal true (expecting 'r')"),
    ];
    for (patch, expected) in cases {
        assert_eq!(patched("{}", patch).unwrap_err().to_string(), expected);
    }
}

#[test]
fn members_of_the_wrong_type_are_none_to_a_library() {
    let untyped = |text: &str| Patch::parse_untyped(text.as_bytes(), &Limits::default());
    for (patch, expected) in [
        (
            "{}",
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        ),
        (
            "[1]",
            "json: cannot unmarshal number into Go value of type jsonpatch.Operation",
        ),
    ] {
        assert_eq!(untyped(patch).unwrap_err().to_string(), expected);
    }
    let document = json::parse(br#"{"a":1}"#, &Limits::default()).unwrap();
    let patched = |text: &str| untyped(text).unwrap().apply(&document, &Bounds::default());
    assert!(patched(r#"[{"op":"remove","path":"/a","from":[1]}]"#).is_ok());
    assert!(patched(r#"[{"op":"remove","path":5}]"#).is_err());
    assert!(patched(r#"[{"op":5,"path":"/a"}]"#).is_err());
}

#[test]
fn repeated_and_unknown_fields_are_reported() {
    let text = br#"[{"op":"add","op":"add","path":"/data/m","value":"1","more":2}]"#;
    let (_, findings) = Patch::parse(text, &Limits::default()).unwrap();
    let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings, [r#"duplicate field "[0].op""#, r#"unknown field "[0].more""#]);
}

#[test]
fn operations_are_bounded_in_number() {
    let patch = |count: usize| format!("[{}]", vec!["{}"; count].join(","));
    assert_eq!(
        patched("{}", &patch(10_001)).unwrap_err().to_string(),
        "The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
    fails("{}", &patch(10_000));
}

#[test]
fn copies_are_bounded_in_size() {
    let document = format!(r#"{{"a":"{}"}}"#, "x".repeat(900_000));
    let copy = |to: usize| format!(r#"{{"op":"copy","from":"/a","path":"/b{to}"}}"#);
    let patch = |count: usize| format!("[{}]", (0..count).map(copy).collect::<Vec<_>>().join(","));
    assert!(patched(&document, &patch(3)).is_ok());
    assert!(matches!(
        patched(&document, &patch(4)),
        Err(Error::CopiesTooLarge { size: 3_600_008, .. })
    ));
}

#[test]
fn a_document_cannot_be_nested_without_end() {
    let copy = r#"{"op":"copy","from":"/a","path":"/a/a"}"#;
    let patch = format!("[{}]", vec![copy; 600].join(","));
    assert_eq!(patched(r#"{"a":{}}"#, &patch), Err(Error::PatchTooDeep { limit: 512 }));
}

#[test]
fn many_copies_to_deeper_places_are_no_nesting() {
    let copies = (0..2000).map(|to| format!(r#"{{"op":"copy","from":"/a","path":"/b/c/k{to}"}}"#));
    let patch = format!("[{}]", copies.collect::<Vec<_>>().join(","));
    assert!(patched(r#"{"a":{"x":1},"b":{"c":{}}}"#, &patch).is_ok());
}

#[test]
fn untouched_subtree_stays_shared() {
    let document = parse(r#"{"a":{"x":1},"b":{"y":1}}"#);
    let (patch, _) = Patch::parse(br#"[{"op":"add","path":"/a/z","value":2}]"#, &Limits::default()).unwrap();
    let after = patch.apply(&document, &Bounds::default()).unwrap();
    let map = |value: &Value, key| value.get(key).unwrap().as_map().unwrap().clone();
    assert!(map(&document, "b").same(&map(&after, "b")));
    assert_eq!(document.to_string(), r#"{"a":{"x":1},"b":{"y":1}}"#);
}

#[test]
fn open_list_of_many_runs_equals_plain_list() {
    let mut plain: Vec<i64> = (0..3000).collect();
    let document = parse(&format!("{{\"l\":{plain:?}}}"));
    let mut operations = Vec::new();
    for step in 0..2000_usize {
        let at = step * 7919 % (plain.len() + 1);
        match step % 3 {
            0 if at < plain.len() => {
                plain.remove(at);
                operations.push(format!(r#"{{"op":"remove","path":"/l/{at}"}}"#));
            }
            1 if at < plain.len() => {
                plain[at] = -1;
                operations.push(format!(r#"{{"op":"replace","path":"/l/{at}","value":-1}}"#));
            }
            _ => {
                plain.insert(at, step as i64);
                operations.push(format!(r#"{{"op":"add","path":"/l/{at}","value":{step}}}"#));
            }
        }
    }
    operations.push(format!(r#"{{"op":"test","path":"/l","value":{plain:?}}}"#));
    operations.push(r#"{"op":"copy","from":"/l","path":"/copy"}"#.to_owned());
    let patched = result(&document.to_string(), &format!("[{}]", operations.join(",")));
    let list = format!("{plain:?}").replace(' ', "");
    assert_eq!(patched, format!(r#"{{"copy":{list},"l":{list}}}"#));
}
