//! Recorded responses of the reference: requests on ConfigMaps are replayed through a field manager.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use holdfast_ownership::{FieldManager, keep_times, manager_name};
use holdfast_value::{Limits, Value, json};
use test_support::{needs, shared};

use super::host::{Address, entries_of, field_manager, merge_patch, message};

/// Traces that test more than ownership, have bodies other than JSON, or refer to earlier responses.
const PASSED_OVER: &[&str] = &[
    "kind-namespace",
    "yaml-",
    "duplicate-keys",
    "json-body",
    "content-types",
    "ownerreferences",
];

#[needs(shared)]
#[test]
fn recorded_writes_to_config_maps_leave_the_recorded_entries() {
    let files = std::fs::read_dir(shared("traces/ssa")).unwrap();
    let mut compared = 0;
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if file.extension().is_none_or(|extension| extension != "json")
            || PASSED_OVER.iter().any(|prefix| name.starts_with(prefix))
        {
            continue;
        }
        let trace = json::parse(&std::fs::read(&file).unwrap(), &Limits::default()).unwrap();
        compared += play(&name, &trace);
    }
    assert!(compared > 200, "only {compared} answers compared");
}

/// Replays the supported steps of one trace; returns the number of compared responses.
fn play(name: &str, trace: &Value) -> usize {
    let manager = field_manager(Address::ConfigMap);
    let mut objects: BTreeMap<String, Value> = BTreeMap::new();
    let mut compared = 0;
    for (at, step) in trace.get("steps").and_then(Value::as_list).unwrap().iter().enumerate() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + 2 * at as u64);
        let Some(request) = step.get("request") else {
            continue;
        };
        let path = request.str_at(&["path"]).unwrap_or_default();
        let is_config_map = path.contains("/configmaps") && !path.contains("dryRun");
        let method = request.str_at(&["method"]).unwrap_or_default();
        let (address, _) = path.split_once('?').unwrap_or((path, ""));
        let path_name = match method {
            "POST" => request.str_at(&["body", "metadata", "name"]),
            _ => address.rsplit('/').next(),
        };
        let object_name = path_name.unwrap_or_default().to_owned();
        if method == "DELETE" {
            objects.remove(&object_name);
        }
        if !is_config_map || !matches!(method, "POST" | "PUT" | "PATCH") {
            continue;
        }
        let existing = objects.get(&object_name);
        let status = step
            .at(&["response", "status"])
            .and_then(Value::as_i64)
            .unwrap_or_default();
        match written(&manager, existing, request, path, now) {
            None => return compared,
            Some(Ok(_)) if status >= 400 => return compared,
            Some(Ok(mut object)) => {
                let body = step.at(&["response", "body"]).unwrap();
                if body.str_at(&["kind"]) != Some("ConfigMap") {
                    return compared;
                }
                object.set_at(&["metadata", "uid"], "1".into());
                if let Some(existing) = existing {
                    keep_times(&mut object, existing, |a, b| a == b);
                }
                assert_eq!(summary(&object), summary(body), "{name}, step {at}");
                compared += 1;
                objects.insert(object_name, object);
            }
            Some(Err(error)) => {
                let expected = step.str_at(&["response", "body", "message"]).unwrap_or_default();
                assert_eq!(error, expected, "{name}, step {at}");
                compared += 1;
            }
        }
    }
    compared
}

/// Returns the object after a request, or its rejection. `None` if the request is not supported here.
fn written(
    manager: &FieldManager,
    existing: Option<&Value>,
    request: &Value,
    path: &str,
    now: SystemTime,
) -> Option<Result<Value, String>> {
    let body = request.get("body").filter(|body| body.as_map().is_some())?;
    let header = |name: &str| request.str_at(&["headers", name]);
    let parameter = |name: &str| {
        let (_, query) = path.split_once('?')?;
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    };
    let field_manager = parameter("fieldManager").unwrap_or_default();
    if field_manager.contains('%') || field_manager.len() > 128 {
        return None;
    }
    let updater = manager_name(field_manager, header("User-Agent").unwrap_or("traces"));
    let replaced = |mut new: Value| {
        if let Some(uid) = existing.and_then(|existing| existing.at(&["metadata", "uid"])) {
            new.set_at(&["metadata", "uid"], uid.clone());
        }
        // A ConfigMap omits empty maps, and null counts as missing.
        for member in [
            &["data"][..],
            &["metadata", "labels"],
            &["metadata", "annotations"],
            &["metadata", "finalizers"],
        ] {
            let empty = match new.at(member) {
                Some(Value::Map(map)) => map.is_empty(),
                Some(Value::List(list)) => list.is_empty(),
                Some(Value::Null) => true,
                _ => false,
            };
            if empty {
                new.remove_at(member);
            }
        }
        new
    };
    match (request.str_at(&["method"])?, header("Content-Type").unwrap_or_default()) {
        ("POST", "") => Some(Ok(manager.update(None, replaced(body.clone()), &updater, now))),
        ("PUT", "") => Some(Ok(manager.update(
            Some(existing?),
            replaced(body.clone()),
            &updater,
            now,
        ))),
        ("PATCH", "application/merge-patch+json" | "application/strategic-merge-patch+json") => {
            let new = replaced(merge_patch(existing?.clone(), body));
            Some(Ok(manager.update(Some(existing?), new, &updater, now)))
        }
        ("PATCH", "application/apply-patch+yaml") if !field_manager.is_empty() => {
            let force = parameter("force").is_some_and(|force| !matches!(force, "false" | "0"));
            match manager.apply(existing, body, field_manager, force, now) {
                Ok(applied) => Some(Ok(replaced(applied.object))),
                rejected => Some(Err(message(rejected))),
            }
        }
        _ => None,
    }
}

/// Returns the sorted entries without the seconds of their times, as in recorded responses.
fn summary(object: &Value) -> Vec<String> {
    let mut entries: Vec<String> = entries_of(object)
        .into_iter()
        .map(|entry| match entry.split_once(" @") {
            Some((head, tail)) if !tail.starts_with('-') => {
                format!("{head} @time{}", &tail[tail.find(": ").unwrap_or_default()..])
            }
            _ => entry,
        })
        .collect();
    entries.sort();
    entries
}
