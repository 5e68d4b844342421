//! The table of resources: discovery information of each, and its behaviour in the generic verbs.

use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::facts::{Facts, texts};
use super::toml;

/// Resources whose status storage lets an apply create objects: all others reject that.
const STATUS_APPLY_CREATES: [&str; 1] = ["admissionregistration.k8s.io/validatingadmissionpolicies"];

/// Name formats of objects of a resource, if that is not a DNS subdomain.
const NAME_RULES: [(&str, &str); 15] = [
    ("/namespaces", "label"),
    ("/services", "label"),
    ("apps/statefulsets", "label"),
    ("/events", "path-segment"),
    ("/replicationcontrollers", "long-name"),
    ("apiextensions.k8s.io/customresourcedefinitions", "own"),
    ("apiregistration.k8s.io/apiservices", "own"),
    ("certificates.k8s.io/certificatesigningrequests", "path-segment"),
    ("networking.k8s.io/ipaddresses", "own"),
    ("resource.k8s.io/deviceclasses", "long-name"),
    ("policy/poddisruptionbudgets", "path-segment"),
    ("rbac.authorization.k8s.io/roles", "own"),
    ("rbac.authorization.k8s.io/rolebindings", "own"),
    ("rbac.authorization.k8s.io/clusterroles", "own"),
    ("rbac.authorization.k8s.io/clusterrolebindings", "own"),
];

/// Conditions under which `metadata.generation` grows: the words of the facts, and the value in the table.
const GENERATIONS: [(&str, &str); 11] = [
    (
        "not managed: a value sent by the client at creation is kept, updates keep the stored value",
        r#""unmanaged""#,
    ),
    (
        "1 at creation; +1 when spec changes on an update of the main resource",
        r#"{ start = "one", fields = ["spec"] }"#,
    ),
    (
        "1 at creation; +1 when webhooks change",
        r#"{ start = "one", fields = ["webhooks"] }"#,
    ),
    (
        "1 at creation; +1 when spec changes through the main resource, ephemeralcontainers or resize; binding does not change it",
        r#"{ start = "one", fields = ["spec"], subresources = ["ephemeralcontainers", "resize"] }"#,
    ),
    (
        "1 at creation; +1 when template changes",
        r#"{ start = "one", fields = ["template"] }"#,
    ),
    (
        "1 at creation; +1 when spec.template changes (then the internal templateGeneration, kept in annotation deprecated.daemonset.template.generation, grows by 1 too), else +1 when another part of spec changes",
        r#"{ start = "one", fields = ["spec"] }"#,
    ),
    (
        "1 at creation; +1 when spec or metadata.annotations change",
        r#"{ start = "one", fields = ["spec", "metadata.annotations"] }"#,
    ),
    (
        "not set at creation; +1 when spec changes on update (first change makes it 1)",
        r#"{ start = "none", fields = ["spec"] }"#,
    ),
    ("1 at creation; updates never change it", r#"{ start = "one" }"#),
    (
        "1 at creation; +1 when anything but metadata changes or metadata.labels change",
        r#"{ start = "one", fields = ["*", "metadata.labels"] }"#,
    ),
    ("", r#""unmanaged""#),
];

/// Returns the text of the table: resources in the order of discovery, those of one group together.
pub(super) fn text(facts: &Facts) -> anyhow::Result<String> {
    let kinds = facts.kinds["kinds"].as_array().context("no kinds")?;
    let mut out = String::new();
    let groups = facts.discovery["apis"]["groups"].as_array().context("no groups")?;
    let core = serde_json::json!({"name": "", "versions": [{"version": "v1"}]});
    for group in std::iter::once(&core).chain(groups) {
        let name = group["name"].as_str().context("a group without name")?;
        let versions: Vec<&str> = group["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|version| version["version"].as_str())
            .collect();
        let name_of_core = if name.is_empty() { "core" } else { name };
        let _ = writeln!(out, "\n[[groups]]\nname = {}", toml::text(name_of_core));
        let _ = writeln!(out, "versions = {}", toml::list(&versions));
        let mut plurals: Vec<&str> = kinds
            .iter()
            .filter(|kind| kind["group"] == name)
            .filter_map(|kind| kind["resource"].as_str())
            .collect();
        plurals.sort_unstable();
        plurals.dedup();
        for plural in plurals {
            let served: Vec<&Value> = versions
                .iter()
                .filter_map(|version| {
                    kinds
                        .iter()
                        .find(|kind| kind["group"] == name && kind["resource"] == plural && kind["version"] == *version)
                })
                .collect();
            resource(facts, name, plural, &served, &mut out).with_context(|| format!("{name}/{plural}"))?;
        }
    }
    Ok(out)
}

fn resource(facts: &Facts, group: &str, plural: &str, served: &[&Value], out: &mut String) -> anyhow::Result<()> {
    let fact = served.first().context("not served")?;
    let scope = if fact["namespaced"] == true {
        "namespaced"
    } else {
        "cluster"
    };
    let (kind, singular) = (fact["kind"].as_str(), fact["singular"].as_str());
    let (kind, singular) = (kind.context("no kind")?, singular.context("no singular")?);
    out.push_str("\n[[groups.resources]]\n");
    for (key, value) in [
        ("name", plural),
        ("singular", singular),
        ("kind", kind),
        ("scope", scope),
    ] {
        let _ = writeln!(out, "{key} = {}", toml::text(value));
    }
    list(out, "short-names", &texts(&fact["shortNames"]));
    list(out, "categories", &texts(&fact["categories"]));
    if let Some(prefix) = fact["storage"]["keyPrefix"].as_str() {
        let prefix = prefix.trim_end_matches("{name}").trim_end_matches("{namespace}/");
        let encoding = fact["storage"]["encoding"].as_str().context("no encoding")?;
        let version = fact["storage"]["apiVersion"].as_str().context("no storage version")?;
        let (prefix, version, encoding) = (toml::text(prefix), toml::text(version), toml::text(encoding));
        let _ = writeln!(
            out,
            "storage = {{ prefix = {prefix}, version = {version}, encoding = {encoding} }}"
        );
    }
    let path = format!("{group}/{plural}");
    let name_rule = NAME_RULES.iter().find(|(known, _)| *known == path);
    let names = name_rule.map_or("subdomain", |(_, rule)| rule);
    let _ = writeln!(out, "names = {}", toml::text(names));
    let flags = [
        ("createOnUpdate", "create-on-update"),
        ("unconditionalUpdate", "unconditional-update"),
        ("gracefulDeletion", "graceful-deletion"),
        ("deleteReturnsObject", "delete-returns-object"),
        ("metadataNamespaceSelector", "namespace-selector"),
    ];
    let mut set: Vec<&str> = flags
        .iter()
        .filter(|(flag, _)| fact[*flag] == true)
        .map(|(_, word)| *word)
        .collect();
    // The recorded facts lack the selectors of computed resources, which have the default ones of every kind.
    if fact["storage"].is_null() && texts(&fact["verbs"]).contains(&"list") {
        set.push("namespace-selector");
    }
    if STATUS_APPLY_CREATES.contains(&path.as_str()) {
        set.push("status-apply-creates");
    }
    list(out, "rules", &set);
    let collection = fact["defaultGarbageCollection"].as_str().unwrap_or("background");
    let _ = writeln!(out, "garbage-collection = {}", toml::text(collection));
    let words = fact["generation"].as_str().unwrap_or_default();
    let generation = GENERATIONS.iter().find(|(known, _)| *known == words);
    let (_, value) = generation.context("unknown rule of generation")?;
    let _ = writeln!(out, "generation = {value}");
    list(out, "field-selectors", &texts(&fact["fieldSelectors"]));
    for fact in served {
        version(facts, group, plural, fact, out)?;
    }
    Ok(())
}

fn version(facts: &Facts, group: &str, plural: &str, fact: &Value, out: &mut String) -> anyhow::Result<()> {
    let name = fact["version"].as_str().context("no version")?;
    let document_name = match group {
        "" => format!("api-{name}"),
        group => format!("apis-{group}-{name}"),
    };
    let document = facts.discovery.get(&document_name).context("no discovery document")?;
    let listed = document["resources"]
        .as_array()
        .into_iter()
        .flatten()
        .into_iter()
        .find(|resource| resource["name"] == plural)
        .context("not in discovery")?;
    for (known, shown) in [
        ("kind", "kind"),
        ("namespaced", "namespaced"),
        ("singular", "singularName"),
        ("verbs", "verbs"),
    ] {
        anyhow::ensure!(fact[known] == listed[shown], "discovery has another {known}");
    }
    let _ = writeln!(out, "\n[[groups.resources.versions]]\nname = {}", toml::text(name));
    list(out, "verbs", &texts(&fact["verbs"]));
    if let Some(hash) = listed["storageVersionHash"].as_str() {
        let _ = writeln!(out, "hash = {}", toml::text(hash));
    }
    list(out, "reset", &reset(&fact["resetFields"]["main"])?);
    let subresources = fact["subresources"].as_array().into_iter().flatten();
    let lines = subresources
        .map(|sub| subresource(fact, sub))
        .collect::<anyhow::Result<Vec<String>>>()?;
    if !lines.is_empty() {
        let _ = writeln!(out, "subresources = [\n{}]", lines.concat());
    }
    Ok(())
}

/// Returns the line of a subresource.
fn subresource(fact: &Value, sub: &Value) -> anyhow::Result<String> {
    let text = |key: &str| {
        sub[key]
            .as_str()
            .with_context(|| format!("a subresource without {key}"))
    };
    let group_version = match text("group")? {
        "" => text("version")?.to_owned(),
        group => format!("{group}/{}", text("version")?),
    };
    let mut line = format!(
        "    {{ name = {}, kind = {}, verbs = {}",
        toml::text(text("name")?),
        toml::text(&format!("{group_version}/{}", text("kind")?)),
        toml::list(&texts(&sub["verbs"]))
    );
    let paths = reset(&fact["resetFields"][text("name")?])?;
    if !paths.is_empty() {
        let _ = write!(line, ", reset = {}", toml::list(&paths));
    }
    line.push_str(" },\n");
    Ok(line)
}

/// Adds a key whose value is a list, unless that is empty.
fn list<T: AsRef<str>>(out: &mut String, key: &str, words: &[T]) {
    if !words.is_empty() {
        let _ = writeln!(out, "{key} = {}", toml::list(words));
    }
}

/// Returns the paths of the fields of a FieldsV1 set: `a`, `b.c`.
fn reset(fields: &Value) -> anyhow::Result<Vec<String>> {
    let mut paths = Vec::new();
    gather(fields, "", &mut paths)?;
    Ok(paths)
}

fn gather(fields: &Value, above: &str, paths: &mut Vec<String>) -> anyhow::Result<()> {
    for (key, below) in fields.as_object().into_iter().flatten() {
        let Some(name) = key.strip_prefix("f:") else {
            bail!("{key} is no field")
        };
        let path = if above.is_empty() {
            name.to_owned()
        } else {
            format!("{above}.{name}")
        };
        match below.as_object().is_some_and(serde_json::Map::is_empty) {
            true => paths.push(path),
            false => gather(below, &path, paths)?,
        }
    }
    Ok(())
}
