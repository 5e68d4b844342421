//! Runs the vectors of the structured-merge reference, and reads and writes the round-trip files of the API.

use std::fs;

use holdfast_value::{Limits, Value, json, yaml};
use test_support::{needs, shared};

/// Converts numbers as the reference holds them in managed fields.
fn with_floats(value: Value) -> Value {
    match value {
        Value::Int(number) => Value::Float(number as f64),
        Value::UInt(number) => Value::Float(number as f64),
        Value::List(items) => items
            .into_items()
            .into_iter()
            .map(with_floats)
            .collect::<Vec<_>>()
            .into(),
        Value::Map(entries) => {
            let entries = entries
                .into_entries()
                .into_iter()
                .map(|(key, value)| (key, with_floats(value)));
            Value::Map(entries.collect())
        }
        other => other,
    }
}

#[needs(shared)]
#[test]
fn vectors_of_values_pass() {
    for file in ["value.jsonl", "value-extra.jsonl"] {
        let path = shared("corpus/smd").join(file);
        let text = fs::read_to_string(path).unwrap();
        let mut count = 0;
        for line in text.lines() {
            let vector = json::parse(line.as_bytes(), &Limits::TRUSTED).unwrap();
            let field = |name: &str| vector.get(name).unwrap_or(&Value::Null);
            let out = |name: &str| vector.at(&["out", name]).cloned();
            match field("op").as_str().unwrap() {
                "compareValues" => {
                    let order = field("a").compare(field("b")) as i64;
                    assert_eq!(Some(Value::from(order)), out("result"), "{line}");
                }
                "equalValues" => assert_eq!(Some(Value::from(field("a") == field("b"))), out("result"), "{line}"),
                "toJSON" => assert_eq!(Some(Value::from(json::to_string(field("a")))), out("text"), "{line}"),
                "toString" => assert_eq!(Some(Value::from(field("a").to_printed())), out("text"), "{line}"),
                "fromJSON" => {
                    let read = json::parse(field("input").as_str().unwrap().as_bytes(), &Limits::default());
                    match out("value") {
                        Some(value) => assert_eq!(with_floats(read.unwrap()), value, "{line}"),
                        None => assert!(read.is_err(), "{line}"),
                    }
                }
                other => panic!("unknown operation {other}"),
            }
            count += 1;
        }
        assert!(count > 300, "{file} has {count} vectors");
    }
}

#[needs(shared)]
#[test]
fn objects_of_the_api_round_trip_through_json_and_yaml() {
    let folder = shared("facts/roundtrip");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let yaml_text = fs::read_to_string(&path).unwrap();
        let json_text = fs::read(path.with_extension("json")).unwrap();
        let from_json = json::parse(&json_text, &Limits::default()).unwrap();
        assert_eq!(
            from_json,
            yaml::parse(yaml_text.as_bytes(), &Limits::default()).unwrap(),
            "{path:?}"
        );
        assert_eq!(yaml::to_string(&from_json), yaml_text, "{path:?}");
        assert_eq!(
            from_json,
            json::parse(&json::to_vec(&from_json), &Limits::default()).unwrap(),
            "{path:?}"
        );
        count += 1;
    }
    assert!(count > 100);
}

#[needs(shared)]
#[test]
fn yaml_and_json_forms_of_test_objects_agree() {
    let folder = shared("corpus/smd/testdata");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let json_path = path.with_extension("json");
        if path.extension().is_none_or(|extension| extension != "yaml") || !json_path.exists() {
            continue;
        }
        let from_yaml = yaml::parse(&fs::read(&path).unwrap(), &Limits::default()).unwrap();
        let from_json = json::parse(&fs::read(json_path).unwrap(), &Limits::default()).unwrap();
        assert_eq!(from_yaml, from_json, "{path:?}");
        assert_eq!(
            yaml::parse(yaml::to_string(&from_json).as_bytes(), &Limits::default()).unwrap(),
            from_json
        );
        count += 1;
    }
    assert!(count > 3);
}

/// YAML responses contain folded texts and quoted keys as the reference writes them.
#[needs(shared)]
#[test]
fn answers_in_yaml_are_written_as_the_reference_writes_them() {
    let path = shared("traces/concepts/yaml/responses.json");
    let trace = json::parse(&fs::read(path).unwrap(), &Limits::TRUSTED).unwrap();
    let steps = trace.get("steps").and_then(Value::as_list).unwrap();
    let mut count = 0;
    for step in steps.iter() {
        let Some(body) = step.at(&["response", "body"]).and_then(Value::as_str) else {
            continue;
        };
        // Placeholders of the trace replace values of other types.
        if body.contains("<") {
            continue;
        }
        let value = yaml::parse(body.as_bytes(), &Limits::default()).unwrap();
        assert_eq!(yaml::to_string(&value), body);
        count += 1;
    }
    assert!(count > 1);
}

/// Checks bodies of requests with YAML media types: input that the reference could read is read, and input that it
/// rejected is rejected with the same message.
#[needs(shared)]
#[test]
fn yaml_body_is_read_or_rejected_like_reference() {
    let root = shared("traces");
    let mut files = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(extension) if extension == "json" => files.push(path),
                _ => {}
            }
        }
    }
    let (mut read, mut rejected) = (0, 0);
    for file in files {
        let trace = json::parse(&fs::read(&file).unwrap(), &Limits::TRUSTED).unwrap();
        for step in trace.get("steps").and_then(Value::as_list).unwrap().iter() {
            let media_type = step.str_at(&["request", "headers", "Content-Type"]).unwrap_or_default();
            let Some(body) = step.at(&["request", "body"]) else {
                continue;
            };
            if !media_type.contains("yaml") {
                continue;
            }
            let text = body.as_str().map_or_else(|| json::to_string(body), str::to_owned);
            let message = step.str_at(&["response", "body", "message"]).unwrap_or_default();
            match yaml::parse_with_findings(text.as_bytes(), &Limits::default()) {
                Ok(parsed) => {
                    let is_strict = message.contains("already set in map");
                    assert!(is_strict || !message.contains("yaml: "), "{file:?} {message}");
                    let findings: Vec<String> = parsed.findings.iter().map(ToString::to_string).collect();
                    assert!(
                        !is_strict || findings.iter().all(|finding| message.contains(finding)),
                        "{file:?} {findings:?}"
                    );
                    read += 1;
                }
                Err(error) => {
                    assert!(message.contains(&error.to_string()), "{file:?}: {error} but {message}");
                    rejected += 1;
                }
            }
        }
    }
    assert!(read > 300 && rejected > 5, "{read} read, {rejected} refused");
}
