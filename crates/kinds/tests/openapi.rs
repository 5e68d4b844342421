//! The OpenAPI documents of the built-in kinds, against those of the reference where they are there.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeSet;

use holdfast_kinds::{Config, Descriptions, registry, tables};
use holdfast_resource::openapi::{NoDescriptions, Publication};
use holdfast_value::{Limits, Value, json};
use test_support::{needs, shared};

/// Every leaf of a document with its place, but for descriptions; lists whose order means nothing are sorted.
fn leaves(value: &Value, place: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Map(map) if !map.is_empty() => {
            for (key, value) in map {
                // A property may be called description; its schema is a map.
                if key == "description" && value.as_str().is_some() {
                    continue;
                }
                leaves(value, &format!("{place} {key}"), found);
            }
        }
        Value::List(list) if !list.is_empty() => {
            let unordered = ["required", "x-kubernetes-group-version-kind", "consumes", "produces"];
            let unordered = unordered.iter().any(|name| place.ends_with(name));
            for (at, value) in list.iter().enumerate() {
                let named = value.str_at(&["name"]).filter(|_| place.ends_with("parameters"));
                let place = match named {
                    Some(name) => format!("{place} {name}"),
                    None if unordered => format!("{place} {}", json::to_string(value)),
                    None => format!("{place} {at}"),
                };
                leaves(value, &place, found);
            }
        }
        leaf => {
            found.insert(format!("{place} = {leaf}"));
        }
    }
}

/// Compares two documents leaf by leaf; answers with those that differ.
fn compare(ours: &Value, theirs: &Value) -> Vec<String> {
    let (mut of_ours, mut of_theirs) = (BTreeSet::new(), BTreeSet::new());
    leaves(ours, "", &mut of_ours);
    leaves(theirs, "", &mut of_theirs);
    assert!(of_theirs.len() > 1, "there is nothing to compare with");
    let missing = of_theirs.difference(&of_ours).map(|leaf| format!("-{leaf}"));
    let more = of_ours.difference(&of_theirs).map(|leaf| format!("+{leaf}"));
    missing.chain(more).collect()
}

/// Holds the leaves that differ against `openapi.txt`, which lists those of the document of that name and gives the reasons.
fn check(document: &str, differences: Vec<String>) {
    let listed = include_str!("openapi.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let listed: BTreeSet<&str> = listed
        .filter_map(|line| line.strip_prefix(document)?.strip_prefix(": "))
        .collect();
    let differences: BTreeSet<&str> = differences.iter().map(String::as_str).collect();
    let lines = |leaves: Vec<&&str>| {
        leaves
            .iter()
            .map(|leaf| format!("{document}: {leaf}\n"))
            .collect::<String>()
    };
    let new = lines(differences.difference(&listed).collect());
    let gone = lines(listed.difference(&differences).collect());
    assert!(new.is_empty(), "these differ and are not listed:\n{new}");
    assert!(gone.is_empty(), "these are listed and differ no longer:\n{gone}");
}

#[needs(shared)]
#[test]
fn v3_documents_are_those_of_the_reference() {
    let folder = shared("facts/openapi/v3");
    let (registry, types) = (registry(&Config::default()).unwrap(), tables::types().unwrap());
    let descriptions = Descriptions::read().unwrap();
    let publication = Publication::new(&registry, &types, &descriptions, "1.36");
    let mut differences = Vec::new();
    for name in Publication::v3_names(&registry) {
        let file = format!("{}.json", name.trim_start_matches('.').replace('/', "-"));
        let text = std::fs::read(folder.join(file)).unwrap();
        let theirs = json::parse(&text, &Limits::TRUSTED).unwrap();
        let differ = compare(&publication.v3(&name).unwrap(), &theirs);
        differences.extend(differ.into_iter().map(|leaf| format!("{name} {leaf}")));
    }
    check("v3", differences);
}

#[needs(shared)]
#[test]
fn the_v2_document_is_that_of_the_reference() {
    let file = shared("facts/openapi/v2.json");
    let mut theirs = json::parse(&std::fs::read(file).unwrap(), &Limits::TRUSTED).unwrap();
    let parameters = theirs.remove_at(&["parameters"]).unwrap();
    resolve(&mut theirs, &parameters);
    let (registry, types) = (registry(&Config::default()).unwrap(), tables::types().unwrap());
    let descriptions = Descriptions::read().unwrap();
    let publication = Publication::new(&registry, &types, &descriptions, "1.36");
    let mut ours = Value::empty_map();
    publication.v2(&mut |member, part| match part {
        Value::Map(entries) => {
            for (name, entry) in &entries {
                ours.set_at(&[member, name.as_str()], entry.clone());
            }
        }
        part => ours.set_at(&[member], part),
    });
    check("v2", compare(&ours, &theirs));
}

/// Puts the parameters that the reference refers to in the place of the references.
fn resolve(value: &mut Value, parameters: &Value) {
    let name = value
        .str_at(&["$ref"])
        .and_then(|name| name.strip_prefix("#/parameters/"));
    if let Some(parameter) = name.and_then(|name| parameters.get(name)) {
        *value = parameter.clone();
        return;
    }
    match value {
        Value::Map(map) => map.values_mut().for_each(|(_, value)| resolve(value, parameters)),
        Value::List(list) => list.make_mut().iter_mut().for_each(|value| resolve(value, parameters)),
        _ => {}
    }
}

#[test]
fn clients_find_that_a_patch_may_be_a_dry_run_and_strict() {
    let (registry, types) = (registry(&Config::default()).unwrap(), tables::types().unwrap());
    let publication = Publication::new(&registry, &types, &NoDescriptions, "1.36");
    let document = publication.v3("apis/apps/v1").unwrap();
    let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    let patch = document.at(&["paths", path, "patch"]).unwrap();
    assert_eq!(
        patch.str_at(&["x-kubernetes-group-version-kind", "kind"]),
        Some("Deployment")
    );
    let parameters = patch.get("parameters").and_then(Value::as_list).unwrap();
    let names: Vec<_> = parameters
        .iter()
        .filter_map(|parameter| parameter.str_at(&["name"]))
        .collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    assert!(publication.v3("apis/apps/v2").is_none());
}
