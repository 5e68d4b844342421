//! The layers below the kinds are independent of them: no text in their code names a kind.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use holdfast_admission::{AdmissionChain, DynamicPlugin};
use holdfast_kind_tables::apis::Apis;
use holdfast_kind_tables::features::{Claim, Feature, FeatureGates};
use holdfast_kinds::{Config, registry};
use holdfast_openapi::{NoDescriptions, Publication};
use holdfast_value::Value;

/// Texts of the crates of types and descriptors that are also names of kinds, each with the reason for it.
const IN_DESCRIPTORS: [(&str, &str); 3] = [
    (
        "namespace",
        "objects of any kind have one in their metadata and in their path",
    ),
    ("namespaces", "paths of objects within a namespace begin so"),
    (
        "Event",
        "apimachinery lets no event own anything, of whatever kind that is",
    ),
];

/// Texts of the request path that are also names of kinds, each with the reason for it.
const ON_THE_WAY: [(&str, &str); 14] = [
    ("namespace", "objects of any kind have one in their metadata"),
    ("namespaces", "paths of objects within a namespace begin so"),
    ("Namespace", "expressions see a type of their own of the namespace"),
    ("service", "the address of a webhook may name one"),
    ("binding", "metrics and messages name the binding of a policy"),
    ("MutatingAdmissionPolicy", "an admission plugin is named so"),
    ("ValidatingAdmissionPolicy", "an admission plugin is named so"),
    ("events", "events alone expire, and a group is named so"),
    ("DaemonSet", MOVED),
    ("Deployment", MOVED),
    ("Event", MOVED),
    ("Ingress", MOVED),
    ("NetworkPolicy", MOVED),
    ("ReplicaSet", MOVED),
];

const MOVED: &str = "messages name the group where the reference keeps a kind that moved";

#[test]
fn types_and_descriptors_name_no_kind() {
    let folders = ["schema/src", "structural/src", "resource/src", "openapi/src"];
    assert_names_no_kind(&folders, &IN_DESCRIPTORS);
}

#[test]
fn the_way_of_a_request_names_no_kind() {
    let folders = [
        "admission/src",
        "writes/src",
        "server/src/http",
        "server/src/objects",
        "server/src/representation",
        "server/src/read",
        "server/src/write",
        "server/src/api",
    ];
    assert_names_no_kind(&folders, &ON_THE_WAY);
}

/// Panics if a source below `folders` names a kind that is not `allowed`, or does not name one that is.
fn assert_names_no_kind(folders: &[&str], allowed: &[(&str, &str)]) {
    let mut names = BTreeSet::new();
    for resource in registry(&Config::default()).unwrap().resources() {
        names.extend([&resource.kind, &resource.plural, &resource.singular].map(ToString::to_string));
    }
    assert!(names.contains("Pod") && names.contains("deployments"));
    let (mut found, mut used) = (Vec::new(), BTreeSet::new());
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    for path in folders.iter().flat_map(|folder| sources(&crates.join(folder))) {
        let text = fs::read_to_string(&path).unwrap();
        for literal in literals(code_of(&text)).iter().filter(|literal| !literal.contains(' ')) {
            let words = literal.split(|letter: char| !letter.is_ascii_alphanumeric());
            for word in words.filter(|word| names.contains(*word)) {
                match allowed.iter().find(|(allowed, _)| *allowed == word) {
                    Some((allowed, _)) => drop(used.insert(*allowed)),
                    None => found.push(format!("{}: {literal:?}", path.display())),
                }
            }
        }
    }
    assert_eq!(found, Vec::<String>::new());
    let unused: Vec<_> = allowed.iter().filter(|(allowed, _)| !used.contains(allowed)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

/// Checks that the lists of the groups, such as `"pods" => …`, and the tables name the same kinds.
#[test]
fn each_listed_kind_has_one_table_row() {
    let gates = FeatureGates::set(&["AllAlpha=true,AllBeta=true".to_owned()]).unwrap();
    let everything = Config {
        features: gates.features(),
        apis: Apis::set(&["api/all=true".to_owned()]).unwrap(),
        ..Config::default()
    };
    let registry = registry(&everything).unwrap();
    let served: BTreeSet<&str> = registry.resources().map(|resource| resource.plural.as_str()).collect();
    let mut listed = 0;
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap() {
        let Ok(text) = fs::read_to_string(entry.unwrap().path().join("mod.rs")) else {
            continue;
        };
        let Some((_, list)) = text.split_once("fn kind_of(") else {
            continue;
        };
        let mut names = BTreeSet::new();
        let arms = list
            .lines()
            .map_while(|line| (!line.starts_with('}')).then_some(line))
            .filter_map(|line| line.strip_prefix("        \"")?.split_once("\" =>"));
        for (name, _) in arms {
            assert!(served.contains(name), "{name} is in no table");
            assert!(names.insert(name), "{name} stands there twice");
        }
        listed += names.len();
    }
    assert!(listed > 50, "{listed}");
}

/// Returns the crates of this workspace in `[dependencies]` of a manifest, without the prefix `holdfast-`.
fn dependencies(manifest: &str) -> BTreeSet<&str> {
    let section = manifest
        .split("\n[")
        .find(|section| section.starts_with("dependencies]"));
    let lines = section.unwrap_or_default().lines();
    lines
        .filter_map(|line| line.strip_prefix("holdfast-")?.split(['.', ' ']).next())
        .collect()
}

/// Pairs of a crate and a crate above it that it must not use.
const APART: [(&str, &str); 8] = [
    ("server", "kind-tables"),
    ("server", "kinds"),
    ("server", "admission-plugins"),
    ("controllers", "kind-tables"),
    ("controllers", "kinds"),
    ("controllers", "admission-plugins"),
    ("controllers", "store"),
    ("simulation", "holdfast"),
];

#[test]
fn crates_use_only_crates_above_them() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let map = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let rows = map
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let order: Vec<&str> = rows.map(|(name, _)| name).collect();
    let mut crates = BTreeSet::new();
    let mut upwards = Vec::new();
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let path = entry.unwrap().path();
        let Ok(manifest) = fs::read_to_string(path.join("Cargo.toml")) else {
            continue;
        };
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let above: Vec<&str> = order.iter().copied().take_while(|row| *row != name).collect();
        let may_not = |used: &str| !above.contains(&used) || APART.contains(&(name.as_str(), used));
        let used = dependencies(&manifest).into_iter().filter(|used| may_not(used));
        upwards.extend(used.map(|used| format!("{name} uses {used}")));
        crates.insert(name);
    }
    assert_eq!(upwards, Vec::<String>::new());
    assert_eq!(crates, order.iter().map(ToString::to_string).collect());
}

#[test]
fn dependencies_are_distinguished_from_those_of_tests() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\nholdfast-value.workspace = true\nholdfast-cel = { workspace = \
                    true }\nhttp = \"1\"\n\n[dev-dependencies]\nholdfast-kinds.workspace = true\n";
    assert_eq!(dependencies(manifest), BTreeSet::from(["value", "cel"]));
}

/// Returns the query parameters of requests for `path`, by the OpenAPI document of the core group.
fn options_of(paths: &Value, path: &str) -> BTreeSet<String> {
    let item = paths.get(path).unwrap();
    let operations = item
        .as_map()
        .unwrap()
        .iter()
        .filter_map(|(_, operation)| operation.get("parameters"));
    let lists = operations.chain(item.get("parameters")).filter_map(Value::as_list);
    let in_query = lists
        .flat_map(|list| list.iter())
        .filter(|parameter| parameter.str_at(&["in"]) == Some("query"));
    in_query
        .filter_map(|parameter| Some(parameter.str_at(&["name"])?.to_owned()))
        .collect()
}

#[test]
fn the_options_of_verbs_are_read_in_one_file() {
    let registry = registry(&Config::default()).unwrap();
    let types = holdfast_kind_tables::types().unwrap();
    let document = Publication::new(&registry, &types, &NoDescriptions, "1.36")
        .v3("api/v1")
        .unwrap();
    let paths = document.get("paths").unwrap();
    let mut options = options_of(paths, "/api/v1/namespaces/{namespace}/configmaps");
    options.extend(options_of(paths, "/api/v1/namespaces/{namespace}/configmaps/{name}"));
    // It belongs to content negotiation.
    assert!(options.remove("pretty") && options.contains("limit") && options.contains("force"));
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../server/src/http/options.rs");
    let read = literals(code_of(&fs::read_to_string(file).unwrap()));
    let unread: Vec<_> = options.iter().filter(|option| !read.contains(option)).collect();
    assert!(unread.is_empty(), "no line reads {unread:?}");
}

#[test]
fn literals_are_distinguished_from_comments_and_tests() {
    let text = "/// \"a\"\nfn f(x: &'static str) -> char { g(\"b\\\"c\", 'd', '\"'); h(r#\"e\"#) } // \"i\"\n#[cfg(test)]\nmod tests { \"j\" }\n";
    assert_eq!(literals(code_of(text)), ["b\\\"c", "e"]);
}

/// Returns the source files below a folder, without those of tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path
            .file_name()
            .is_some_and(|name| name != "tests.rs" && name != "testing.rs")
        {
            found.push(path);
        }
    }
    found
}

/// Returns the part of a file before its tests.
fn code_of(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or_default()
}

/// Returns the string literals, as they are written.
fn literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (_, here) = rest.split_at(at);
        rest = if here.starts_with("//") {
            here.split_once('\n').map_or("", |(_, behind)| behind)
        } else if let Some(behind) = here.strip_prefix("'\"'") {
            behind
        } else if let Some(text) = here.strip_prefix('"') {
            let mut escaped = false;
            let end = text.find(|letter| {
                let ends = letter == '"' && !escaped;
                escaped = letter == '\\' && !escaped;
                ends
            });
            let (literal, behind) = text.split_at(end.unwrap_or(text.len()));
            found.push(literal.to_owned());
            behind.strip_prefix('"').unwrap_or_default()
        } else {
            here.get(1..).unwrap_or_default()
        };
    }
    found
}

/// Returns the code of all crates, without tests, except the list of features itself.
fn code_that_may_read_gates() -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files = sources(&crates).into_iter().filter(|path| {
        let path = path.to_string_lossy();
        path.contains("/src/") && path.ends_with(".rs") && !path.ends_with("kind-tables/src/features.rs")
    });
    files
        .map(|path| code_of(&fs::read_to_string(path).unwrap()).to_owned())
        .collect()
}

#[test]
fn claims_about_gates_agree_with_the_code() {
    let code = code_that_may_read_gates();
    let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kind-tables/tables");
    let tags = ["tags.toml", "more_tags.toml", "more_resources.toml"]
        .map(|name| fs::read_to_string(tables.join(name)).unwrap())
        .concat();
    let contains_word = |text: &str, word: &str| {
        text.match_indices(word).any(|(at, _)| {
            let next = text.get(at + word.len()..).and_then(|rest| rest.chars().next());
            !next.is_some_and(|next| next.is_ascii_alphanumeric())
        })
    };
    // The other plugins name their gates as features.
    let dynamic = AdmissionChain::new(Vec::new());
    let plugin_gates = DynamicPlugin::ALL.map(|plugin| dynamic.gate(plugin.name()));
    let gates = FeatureGates::default();
    for gate in gates.iter().filter(|gate| !gate.is_of_stage()) {
        let name = gate.name;
        let is_read = contains_word(&code, &format!("Feature::{name}"))
            || contains_word(&tags, &format!("gate = \"{name}"))
            || contains_word(&tags, &format!("feature = \"{name}"))
            || plugin_gates.contains(&Some(name));
        let is_feature = Feature::named(name).is_some();
        assert_eq!(is_feature, is_read, "{name}: listed as a feature, read by the code");
        match gate.claim() {
            Some(Claim::Lacks(_)) => assert!(is_feature, "{name} lacks a part of nothing"),
            Some(Claim::Always(_)) => assert!(!is_feature && gate.on && gate.is_locked(), "{name} may be off"),
            Some(Claim::Absent(_) | Claim::NoEffect(_)) => assert!(!is_feature, "{name} is read by the code"),
            None => assert!(is_feature == gate.components().is_empty(), "{name} has no claim"),
        }
    }
}
