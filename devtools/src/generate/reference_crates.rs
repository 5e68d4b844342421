//! Compares the table with the sources of the crates `k8s-pb` (protobuf numbers) and `k8s-openapi` (JSON names).
//!
//! Neither crate is compiled for this: `syn` parses their sources in cargo's registry folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use holdfast_schema::types::{Type, TypeKind, TypeTable};

use super::facts::Facts;
use super::messages::Messages;

/// The order in which the reference writes the fields of its types: that of their messages, which follow its sources.
pub(super) struct Orders {
    /// Folded definition name to the numbers of the message's fields.
    numbers: BTreeMap<String, Vec<u16>>,
}

impl Orders {
    /// Reads them from the sources of `k8s-pb`.
    pub(super) fn read() -> anyhow::Result<Self> {
        let messages = protobuf_messages(&sources()?["k8s-pb"])?;
        let numbers = messages
            .into_iter()
            .map(|(name, fields)| (name, fields.into_iter().map(|(_, number)| number).collect()));
        Ok(Self {
            numbers: numbers.collect(),
        })
    }

    /// Returns the place of the field `number` in the message of that definition.
    pub(super) fn place(&self, definition: &str, number: u16) -> Option<usize> {
        let numbers = self.numbers.get(&folded(definition))?;
        numbers.iter().position(|known| *known == number)
    }
}

/// Adds the differences between the crates and the table to `disagreements`.
pub(super) fn check(table: &TypeTable, facts: &Facts, disagreements: &mut Vec<String>) -> anyhow::Result<()> {
    let sources = sources()?;
    let messages = protobuf_messages(&sources["k8s-pb"])?;
    let json_names = json_names(&sources["k8s-openapi"])?;
    let inlined = Messages::new(&facts.proto);
    for (_, of) in table
        .iter()
        .filter(|(_, of)| of.published && matches!(of.kind, TypeKind::Struct(_)))
    {
        check_numbers(of, &messages, &inlined, disagreements);
        check_names(of, &json_names, disagreements);
    }
    Ok(())
}

/// Returns the source folders of the crates, by name.
fn sources() -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--all-features"])
        .output()
        .context("cargo metadata")?;
    let metadata: serde_json::Value = serde_json::from_slice(&out.stdout).context("cargo metadata")?;
    let mut found = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let (name, manifest) = (package["name"].as_str(), package["manifest_path"].as_str());
        if let (Some(name @ ("k8s-pb" | "k8s-openapi")), Some(manifest)) = (name, manifest) {
            let folder = Path::new(manifest).parent().context("a manifest without folder")?;
            found.insert(name.to_owned(), folder.join("src"));
        }
    }
    anyhow::ensure!(
        found.len() == 2,
        "k8s-pb and k8s-openapi are not among the dependencies"
    );
    Ok(found)
}

/// Folded definition name to the message's fields in their order: their folded names and their numbers.
type NumbersByName = BTreeMap<String, Vec<(String, u16)>>;

fn protobuf_messages(source: &Path) -> anyhow::Result<NumbersByName> {
    let mut found = BTreeMap::new();
    for path in rust_files(source)? {
        let package: Vec<String> = path
            .strip_prefix(source)?
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().replace('_', "-"))
            .filter(|part| part != "mod")
            .collect();
        let file = syn::parse_file(&fs::read_to_string(&path)?).with_context(|| path.display().to_string())?;
        for item in file.items {
            let syn::Item::Struct(item) = item else { continue };
            let fields = item
                .fields
                .iter()
                .filter_map(|field| Some((folded(&field.ident.as_ref()?.to_string()), tag(field)?)))
                .collect();
            let name = format!("io.k8s.{}.{}", package.join("."), item.ident);
            found.insert(folded(&name), fields);
        }
    }
    Ok(found)
}

/// Returns the number in `#[prost(int64, optional, tag = "3")]`.
fn tag(field: &syn::Field) -> Option<u16> {
    let prost = field
        .attrs
        .iter()
        .find(|attribute| attribute.path().is_ident("prost"))?;
    let mut number = None;
    // The first words of the attribute are not pairs; words that do not parse are skipped.
    let _ = prost.parse_nested_meta(|meta| {
        if let Ok(value) = meta.value() {
            let text: syn::LitStr = value.parse()?;
            if meta.path.is_ident("tag") {
                number = text.value().parse().ok();
            }
        }
        Ok(())
    });
    number
}

/// Returns the JSON names of the fields of each definition, from the serializers of `k8s-openapi`.
fn json_names(source: &Path) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut found = BTreeMap::new();
    for path in rust_files(&source.join("v1_36"))? {
        let text = fs::read_to_string(&path)?;
        let definition = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("// Generated from definition "));
        let Some(definition) = definition else { continue };
        let names = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" => Field::Key_"))
            .map(|(name, _)| name.to_owned())
            .collect();
        found.insert(definition.trim().to_owned(), names);
    }
    Ok(found)
}

fn rust_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn check_numbers(of: &Type, known: &NumbersByName, inlined: &Messages<'_>, disagreements: &mut Vec<String>) {
    let Some(numbers) = known.get(&folded(&of.name)) else {
        disagreements.push(format!("{}: not in k8s-pb", of.name));
        return;
    };
    for (name, field) in inlined.fields(&of.name).into_iter().flatten() {
        // A field of an inlined message is checked in the type of that message.
        let [number] = field.numbers[..] else { continue };
        let declared = field.fact["name"].as_str().unwrap_or(name);
        let proto_name = folded(declared);
        match numbers
            .iter()
            .find(|(known, _)| *known == proto_name)
            .map(|(_, number)| number)
        {
            Some(known) if *known == number => {}
            Some(known) => disagreements.push(format!("{}.{name}: number {number}, in k8s-pb {known}", of.name)),
            None => disagreements.push(format!("{}.{name}: not in k8s-pb", of.name)),
        }
    }
}

/// Returns the name in lower case without underscores: prost has other names (`clusterIPs` is `cluster_i_ps` there).
fn folded(name: &str) -> String {
    name.trim_start_matches("r#").replace('_', "").to_lowercase()
}

fn check_names(of: &Type, known: &BTreeMap<String, BTreeSet<String>>, disagreements: &mut Vec<String>) {
    // The crate `k8s-openapi` has one generic type for all lists.
    let is_list = of.name.ends_with("List") && of.field("items").is_some();
    let Some(names) = known.get(of.name.as_str()) else {
        if is_list {
            return;
        }
        disagreements.push(format!("{}: not in k8s-openapi", of.name));
        return;
    };
    let type_meta = |name: &str| ["apiVersion", "kind"].contains(&name);
    for field in of.fields().iter().filter(|field| !type_meta(&field.name)) {
        if !names.contains(field.name.as_str()) {
            disagreements.push(format!("{}.{}: not in k8s-openapi", of.name, field.name));
        }
    }
    for name in names.iter().filter(|name| !type_meta(name) && of.field(name).is_none()) {
        disagreements.push(format!("{}.{name}: in k8s-openapi alone", of.name));
    }
}
