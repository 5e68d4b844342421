//! Comparison of the OpenAPI documents of the built-in kinds with those of the reference, if these are available.
//!
//! `openapi.txt` lists the leaves that differ. Descriptions are counted by document and class in
//! `openapi_descriptions.txt`.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_kind_tables::Descriptions;
use holdfast_kinds::{Config, registry};
use holdfast_openapi::{NoDescriptions, Publication};
use holdfast_value::{Limits, Value, json};
use test_support::{needs, shared};

/// Collects every leaf of a document with its path, except descriptions. Lists whose order means nothing are sorted.
fn leaves(value: &Value, place: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Map(map) if !map.is_empty() => {
            for (key, value) in map {
                // A property may have the name description; its schema is a map.
                if key == "description" && value.as_str().is_some() {
                    continue;
                }
                leaves(value, &format!("{place} {key}"), found);
            }
        }
        Value::List(list) if !list.is_empty() => {
            let parts = ["required", "x-kubernetes-group-version-kind", "consumes", "produces"];
            let unordered = parts.iter().any(|name| place.ends_with(name));
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

/// Compares two documents leaf by leaf and returns those that differ.
fn compare(ours: &Value, theirs: &Value) -> Vec<String> {
    let (mut of_ours, mut of_theirs) = (BTreeSet::new(), BTreeSet::new());
    leaves(ours, "", &mut of_ours);
    leaves(theirs, "", &mut of_theirs);
    assert!(of_theirs.len() > 1, "there is nothing to compare with");
    let missing = of_theirs.difference(&of_ours).map(|leaf| format!("-{leaf}"));
    let more = of_ours.difference(&of_theirs).map(|leaf| format!("+{leaf}"));
    missing.chain(more).collect()
}

/// Compares the leaves that differ with `openapi.txt`, which lists those of the document of that name with the reasons.
fn check(document: &str, differences: Vec<String>) {
    let listed: BTreeSet<&str> = include_str!("openapi.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
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

/// Class of a description by its place in a document.
fn description_class(place: &[String]) -> &'static str {
    let has = |name: &str| place.iter().any(|part| part == name);
    match place.first().map(String::as_str) {
        Some("paths") if has("parameters") => "parameter",
        Some("paths") => "operation",
        _ if has("properties") => "field",
        _ => "type",
    }
}

/// Collects every description with its place.
fn descriptions(value: &Value, place: &mut Vec<String>, found: &mut BTreeMap<Vec<String>, String>) {
    match value {
        Value::Map(map) => {
            for (key, value) in map {
                place.push(key.to_string());
                match value.as_str().filter(|_| key == "description") {
                    Some(text) => {
                        found.insert(place.clone(), text.to_owned());
                    }
                    None => descriptions(value, place, found),
                }
                place.pop();
            }
        }
        Value::List(list) => {
            for (at, value) in list.iter().enumerate() {
                place.push(value.str_at(&["name"]).map_or_else(|| at.to_string(), str::to_owned));
                descriptions(value, place, found);
                place.pop();
            }
        }
        _ => {}
    }
}

/// Counts of descriptions that differ, by document, class and difference.
type DescriptionCounts = BTreeMap<String, usize>;

/// Adds the descriptions of `document` that differ to `counts`.
fn count_descriptions(document: &str, ours: &Value, theirs: &Value, counts: &mut DescriptionCounts) {
    let (mut of_ours, mut of_theirs) = (BTreeMap::new(), BTreeMap::new());
    descriptions(ours, &mut Vec::new(), &mut of_ours);
    descriptions(theirs, &mut Vec::new(), &mut of_theirs);
    assert!(!of_theirs.is_empty(), "{document} has no descriptions to compare with");
    let places: BTreeSet<&Vec<String>> = of_ours.keys().chain(of_theirs.keys()).collect();
    for place in places {
        let difference = match (of_ours.get(place), of_theirs.get(place)) {
            (Some(one), Some(other)) if one == other => continue,
            (Some(one), Some(other)) if values(one) != values(other) => "values",
            (Some(_), Some(_)) => "text",
            (Some(_), None) => "more",
            _ => "missing",
        };
        let class = description_class(place);
        *counts.entry(format!("{document} {class} {difference}")).or_default() += 1;
    }
}

/// Returns the possible values that a description lists.
fn values(description: &str) -> Vec<&str> {
    let listed = description
        .split_once("Possible enum values:")
        .map_or("", |(_, listed)| listed);
    let lines = listed.lines().filter_map(|line| line.strip_prefix(" - `"));
    lines.filter_map(|line| line.split('`').next()).collect()
}

/// Compares the counts of a form with `openapi_descriptions.txt`.
fn check_counts(form: &str, counts: &DescriptionCounts) {
    let listed: Vec<&str> = include_str!("openapi_descriptions.txt")
        .lines()
        .filter(|line| line.starts_with(form))
        .collect();
    let counted: Vec<String> = counts.iter().map(|(class, count)| format!("{class} {count}")).collect();
    assert_eq!(
        counted,
        listed,
        "counts of descriptions that differ from the reference:\n{}\n",
        counted.join("\n")
    );
}

#[needs(shared)]
#[test]
fn v3_documents_are_those_of_the_reference() {
    let folder = shared("facts/openapi/v3");
    let (registry, types) = (
        registry(&Config::default()).unwrap(),
        holdfast_kind_tables::types().unwrap(),
    );
    let descriptions = Descriptions::read().unwrap();
    let publication = Publication::new(&registry, &types, &descriptions, "1.36");
    let (mut differences, mut counts) = (Vec::new(), DescriptionCounts::new());
    for name in Publication::v3_names(&registry) {
        let file = format!("{}.json", name.trim_start_matches('.').replace('/', "-"));
        let text = std::fs::read(folder.join(file)).unwrap();
        let theirs = json::parse(&text, &Limits::TRUSTED).unwrap();
        let ours = publication.v3(&name).unwrap();
        count_descriptions(&format!("v3/{name}"), &ours, &theirs, &mut counts);
        let differ = compare(&ours, &theirs);
        differences.extend(differ.into_iter().map(|leaf| format!("{name} {leaf}")));
    }
    check("v3", differences);
    check_counts("v3", &counts);
}

#[needs(shared)]
#[test]
fn the_v2_document_is_that_of_the_reference() {
    let file = shared("facts/openapi/v2.json");
    let mut theirs = json::parse(&std::fs::read(file).unwrap(), &Limits::TRUSTED).unwrap();
    let parameters = theirs.remove_at(&["parameters"]).unwrap();
    resolve(&mut theirs, &parameters);
    let (registry, types) = (
        registry(&Config::default()).unwrap(),
        holdfast_kind_tables::types().unwrap(),
    );
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
    let mut counts = DescriptionCounts::new();
    count_descriptions("v2", &ours, &theirs, &mut counts);
    check_counts("v2", &counts);
}

/// Replaces references to parameters with the parameters.
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
    let (registry, types) = (
        registry(&Config::default()).unwrap(),
        holdfast_kind_tables::types().unwrap(),
    );
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

#[test]
fn fields_with_fixed_values_list_them_in_descriptions() {
    let (registry, types) = (
        registry(&Config::default()).unwrap(),
        holdfast_kind_tables::types().unwrap(),
    );
    let descriptions = Descriptions::read().unwrap();
    let publication = Publication::new(&registry, &types, &descriptions, "1.36");
    let description = |publication: &Publication<'_>, field: &str| {
        let document = publication.v3("api/v1").unwrap();
        let place = [
            "components",
            "schemas",
            "io.k8s.api.core.v1.Container",
            "properties",
            field,
            "description",
        ];
        document.str_at(&place).unwrap().to_owned()
    };
    let policy = description(&publication, "imagePullPolicy");
    assert!(
        policy.ends_with("\n\nPossible enum values:\n - `\"Always\"`\n - `\"IfNotPresent\"`\n - `\"Never\"`"),
        "{policy}"
    );
    assert!(!description(&publication, "image").contains("Possible enum values"));
    let without = publication.listing_values(false);
    assert!(!description(&without, "imagePullPolicy").contains("Possible enum values"));
}
