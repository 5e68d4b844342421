//! Roles and bindings of a new cluster, from the data of the reference's own tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use holdfast_value::{Limits, json, yaml};
use serde_json::Value;

/// Folder with the documents, inside the module `k8s.io/kubernetes`.
const FOLDER: &str = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata";

/// Rules, labels and subjects of each role and binding, as `KIND NAMESPACE/NAME`.
pub(super) type Roles = BTreeMap<String, BTreeSet<String>>;

/// Reads the roles of a release. A release without the documents has none.
///
/// # Errors
/// If a document cannot be read.
pub(super) fn read(kubernetes: &Path) -> Result<Roles> {
    let mut roles = Roles::new();
    let Ok(entries) = fs::read_dir(kubernetes.join(FOLDER)) else {
        return Ok(roles);
    };
    let mut paths: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    paths.sort();
    for path in paths {
        // This document repeats the roles with all gates enabled.
        let with_gates = path.ends_with("cluster-roles-featuregates.yaml");
        let document = yaml::parse(&fs::read(&path)?, &Limits::REQUEST).with_context(|| path.display().to_string())?;
        let list: Value = serde_json::from_str(&json::to_string(&document))?;
        for object in list["items"].as_array().into_iter().flatten() {
            let (name, facts) = facts(object);
            let name = match with_gates {
                true => format!("{name} (with feature gates)"),
                false => name,
            };
            roles.entry(name).or_default().extend(facts);
        }
    }
    Ok(roles)
}

/// Returns the name of a role or binding, and what it consists of.
fn facts(object: &Value) -> (String, BTreeSet<String>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().map(|name| format!("{name}/"));
    let name = format!(
        "{} {}{}",
        text(&object["kind"]),
        namespace.unwrap_or_default(),
        text(&metadata["name"])
    );
    let mut facts = BTreeSet::new();
    for rule in object["rules"].as_array().into_iter().flatten() {
        facts.extend(permissions(rule));
    }
    for (label, value) in metadata["labels"].as_object().into_iter().flatten() {
        facts.insert(format!("label {label}={}", text(value)));
    }
    for selector in object["aggregationRule"]["clusterRoleSelectors"]
        .as_array()
        .into_iter()
        .flatten()
    {
        facts.insert(format!("aggregates {}", selector["matchLabels"]));
    }
    for subject in object["subjects"].as_array().into_iter().flatten() {
        let namespace = subject["namespace"].as_str().map(|name| format!("{name}/"));
        facts.insert(format!(
            "subject {} {}{}",
            text(&subject["kind"]),
            namespace.unwrap_or_default(),
            text(&subject["name"])
        ));
    }
    if let Some(role) = object["roleRef"]["name"].as_str() {
        facts.insert(format!("role {role}"));
    }
    (name, facts)
}

/// Returns the permissions of a rule: one for each resource or URL, with its verbs.
fn permissions(rule: &Value) -> Vec<String> {
    let texts = |key: &str| -> Vec<String> {
        let list = rule[key].as_array().into_iter().flatten();
        list.map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
    };
    let mut verbs = texts("verbs");
    verbs.sort();
    let verbs = verbs.join(",");
    let mut found: Vec<String> = texts("nonResourceURLs")
        .into_iter()
        .map(|url| format!("{verbs} {url}"))
        .collect();
    let names = texts("resourceNames").join(",");
    let only = match names.is_empty() {
        true => String::new(),
        false => format!(" named {names}"),
    };
    for group in texts("apiGroups") {
        for resource in texts("resources") {
            let resource = match group.is_empty() {
                true => resource,
                false => format!("{resource}.{group}"),
            };
            found.push(format!("{verbs} {resource}{only}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_split_by_resource() {
        let rule = json!({
            "apiGroups": ["", "apps"], "resources": ["pods"], "verbs": ["list", "get"], "resourceNames": ["a"],
        });
        let found = permissions(&rule);
        assert_eq!(found, ["get,list pods named a", "get,list pods.apps named a"]);
        let urls = json!({"nonResourceURLs": ["/healthz"], "verbs": ["get"]});
        assert_eq!(permissions(&urls), ["get /healthz"]);
    }

    #[test]
    fn bindings_have_their_role_and_subjects() {
        let binding = json!({
            "kind": "RoleBinding", "metadata": {"name": "b", "namespace": "n"}, "roleRef": {"name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "k"}],
        });
        let (name, facts) = facts(&binding);
        assert_eq!(name, "RoleBinding n/b");
        assert_eq!(
            facts.into_iter().collect::<Vec<_>>(),
            ["role r", "subject ServiceAccount k/s"]
        );
    }
}
