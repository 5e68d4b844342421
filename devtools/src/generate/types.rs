//! Assembles the type table.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use holdfast_schema::types::{Field, Omission, Shape, TypeTable, TypeTableBuilder};
use holdfast_schema::{GroupVersion, GroupVersionKind};
use holdfast_value::{Limits, SmolStr, json};
use serde_json::Value;

use super::facts::{Facts, texts};
use super::messages::{MessageField, Messages, definition_name};
use super::openapi;
use super::reference_crates::Orders;
use super::type_table::write_table;

/// Kinds that clients and the server exchange and that no OpenAPI document contains, with the definition of each.
const UNPUBLISHED_KINDS: [(&str, &str); 11] = [
    ("admission.k8s.io/v1", "io.k8s.api.admission.v1.AdmissionReview"),
    (
        "apiextensions.k8s.io/v1",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ConversionReview",
    ),
    ("apidiscovery.k8s.io/v2", "io.k8s.api.apidiscovery.v2.APIGroupDiscovery"),
    (
        "apidiscovery.k8s.io/v2",
        "io.k8s.api.apidiscovery.v2.APIGroupDiscoveryList",
    ),
    ("v1", "io.k8s.api.core.v1.RangeAllocation"),
    ("meta.k8s.io/v1", "io.k8s.apimachinery.pkg.apis.meta.v1.CreateOptions"),
    ("meta.k8s.io/v1", "io.k8s.apimachinery.pkg.apis.meta.v1.UpdateOptions"),
    ("meta.k8s.io/v1", "io.k8s.apimachinery.pkg.apis.meta.v1.PatchOptions"),
    (
        "meta.k8s.io/v1",
        "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata",
    ),
    (
        "meta.k8s.io/v1",
        "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList",
    ),
    ("v1", "io.k8s.apimachinery.pkg.apis.meta.v1.List"),
];

/// Fields whose struct gets no defaults: a CronJob does not default the spec of its Jobs, only their Pods, and an
/// inline volume of an attachment is not a PersistentVolume.
const UNDEFAULTED: [(&str, &str); 3] = [
    ("io.k8s.api.apps.v1.StatefulSetSpec", "updateStrategy"),
    ("io.k8s.api.batch.v1.JobTemplateSpec", "spec"),
    ("io.k8s.api.storage.v1.VolumeAttachmentSource", "inlineVolumeSpec"),
];

/// The fields whose default comes with that of others, which is up to the strategy of their kind.
const DEFAULTED_WITH_OTHERS: [(&str, &str); 1] = [("io.k8s.api.apps.v1.StatefulSetUpdateStrategy", "type")];

/// Fields of every object that protobuf stores outside of its message.
const TYPE_META: [&str; 2] = ["apiVersion", "kind"];

/// Returns the table of all types.
pub(super) fn table(facts: &Facts, disagreements: &mut Vec<String>) -> anyhow::Result<TypeTable> {
    let mut assembly = Assembly {
        facts,
        messages: Messages::new(&facts.proto),
        orders: Orders::read()?,
        builder: TypeTable::builder(),
        disagreements,
    };
    let definitions = facts.openapi["definitions"].as_object().context("no definitions")?;
    let kinds: BTreeMap<&str, &str> = UNPUBLISHED_KINDS
        .map(|(group_version, name)| (name, group_version))
        .into();
    let unpublished = assembly.unpublished(definitions.keys().map(String::as_str).collect());
    let mut names: BTreeSet<&str> = definitions.keys().map(String::as_str).collect();
    names.extend(unpublished.iter().map(String::as_str));
    for name in names.iter().copied() {
        assembly.builder.reference(name);
    }
    for name in names {
        match definitions.get(name) {
            Some(definition) => assembly.published_type(name, definition),
            None => assembly.unpublished_type(name, kinds.get(name).copied()),
        }
        .with_context(|| name.to_owned())?;
    }
    assembly.check_merge_facts();
    Ok(assembly.builder.build()?)
}

/// Returns the text of the table, with a short name for each package that has one.
pub(super) fn text(table: &TypeTable) -> String {
    let mut packages: BTreeMap<String, String> = BTreeMap::new();
    for (_, of) in table.iter() {
        let Some((package, _)) = of.name.rsplit_once('.') else {
            continue;
        };
        let parts: Vec<&str> = package.rsplit('.').take(2).collect();
        let short = match parts[..] {
            [version, group] if version.starts_with('v') => format!("{group}.{version}"),
            [last, ..] => last.to_owned(),
            [] => continue,
        };
        packages.insert(package.to_owned(), short);
    }
    let packages: Vec<(&str, &str)> = packages
        .iter()
        .map(|(long, short)| (short.as_str(), long.as_str()))
        .collect();
    write_table(table, &packages)
}

/// Returns the types of `text` in packages that `known` lacks, by package: `resource.v1beta1` and the like. Both are TOML as written by
/// [`text`].
pub(super) fn beyond(known: &str, text: &str) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let packages = text
        .split("\n\n")
        .find_map(|block| block.trim_start().strip_prefix("[packages]\n"));
    for line in packages.unwrap_or_default().lines() {
        if !known.lines().any(|other| other == line) {
            let short = line.split('"').nth(1).unwrap_or_default();
            found.insert(short.to_owned(), format!("\n[packages]\n{line}\n"));
        }
    }
    let mut beside = Vec::new();
    for block in text.split("\n\n").filter(|block| block.starts_with("[\"")) {
        let head = block.lines().next().unwrap_or_default();
        let name = head.trim_matches(['[', ']', '"']);
        let short = name.rsplit_once('.').map_or("", |(short, _)| short);
        if let Some(of_package) = found.get_mut(short) {
            of_package.extend(["\n", block.trim_end(), "\n"]);
        } else if !known.lines().any(|line| line == head) {
            beside.push((name, block));
        }
    }
    // Types of known packages that no other version needs go into the same file as those that do.
    for (name, block) in beside {
        let uses = ["", "[]", "{}"].map(|shape| format!("type = \"{shape}{name}\""));
        let of_package = found
            .values_mut()
            .find(|text| uses.iter().any(|used| text.contains(used)));
        if let Some(of_package) = of_package {
            of_package.extend(["\n", block.trim_end(), "\n"]);
        }
    }
    found
}

/// Returns the name of a type in the stable version of its group; the name itself if it has no other version.
fn stable(name: &str) -> String {
    let is_version = |part: &str| part.starts_with('v') && (part.contains("alpha") || part.contains("beta"));
    let parts = name.split('.').map(|part| if is_version(part) { "v1" } else { part });
    parts.collect::<Vec<_>>().join(".")
}

struct Assembly<'f, 'd> {
    facts: &'f Facts,
    messages: Messages<'f>,
    orders: Orders,
    builder: TypeTableBuilder,
    disagreements: &'d mut Vec<String>,
}

impl Assembly<'_, '_> {
    /// Returns the definitions that the unpublished kinds need and `known` lacks.
    fn unpublished(&self, known: BTreeSet<&str>) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut open: Vec<String> = UNPUBLISHED_KINDS.iter().map(|(_, name)| (*name).to_owned()).collect();
        while let Some(name) = open.pop() {
            if known.contains(name.as_str()) || !found.insert(name.clone()) {
                continue;
            }
            for field in self
                .messages
                .fields(&name)
                .into_iter()
                .flatten()
                .map(|(_, field)| field)
            {
                let named = [&field.fact["type"], &field.fact["map"][1]]
                    .into_iter()
                    .filter_map(Value::as_str)
                    .filter(|name| name.contains('.'));
                open.extend(named.map(definition_name));
            }
        }
        found
    }

    fn published_type(&mut self, name: &str, definition: &Value) -> anyhow::Result<()> {
        if let Some(scalar) = openapi::scalar(name) {
            self.builder.add_scalar(name, scalar)?;
            return Ok(());
        }
        let mut fields = openapi::fields(definition, &mut self.builder)?;
        let messages = self.messages.fields(name);
        if messages.is_none() {
            self.disagreements.push(format!(
                "{name}: no protobuf message; its JSON rules are taken from required"
            ));
        }
        for field in &mut fields {
            self.complete(name, field, messages.as_ref())
                .with_context(|| field.name.to_string())?;
        }
        for json_name in messages.iter().flat_map(BTreeMap::keys) {
            if !fields.iter().any(|field| field.name == *json_name) {
                self.disagreements
                    .push(format!("{name}.{json_name}: in protobuf and not in OpenAPI"));
            }
        }
        self.sort_as_written(messages.as_ref(), &mut fields);
        let ty = self.builder.add_struct(name, fields)?;
        ty.map_type = openapi::map_type(definition)?;
        ty.kinds = openapi::kinds(definition);
        ty.unions = openapi::unions(definition);
        Ok(())
    }

    /// Sorts fields into the order in which the reference writes them: kind and version first, the others in the order
    /// of its sources. Fields of no message come last, sorted by name.
    fn sort_as_written(&self, messages: Option<&BTreeMap<&str, MessageField<'_>>>, fields: &mut [Field]) {
        let places = |field: &Field| -> Vec<usize> {
            let message = messages.and_then(|messages| messages.get(field.name.as_str()));
            let path = message.map(|message| message.holders.iter().zip(&message.numbers));
            let place = |(holder, number): (&String, &u16)| {
                let known = self.orders.place(holder, *number);
                known.unwrap_or(usize::MAX / 2 + usize::from(*number))
            };
            path.map_or_else(|| vec![usize::MAX], |path| path.map(place).collect())
        };
        fields.sort_by_cached_key(|field| {
            // A field with a protobuf number is not the kind or version of the object itself.
            let numbered = messages.is_some_and(|messages| messages.contains_key(field.name.as_str()));
            let of_type_meta = ["kind", "apiVersion"]
                .iter()
                .position(|name| !numbered && *name == field.name);
            (of_type_meta.unwrap_or(2), places(field), field.name.clone())
        });
    }

    fn complete(
        &mut self,
        of: &str,
        field: &mut Field,
        messages: Option<&BTreeMap<&str, MessageField<'_>>>,
    ) -> anyhow::Result<()> {
        match messages.map(|messages| messages.get(field.name.as_str())) {
            Some(Some(message)) => {
                message.complete(field)?;
                let shape = self.messages.shape(message.fact, &self.builder);
                if !same_shape(shape.as_ref(), &field.shape) {
                    self.disagreements.push(format!(
                        "{of}.{}: protobuf has {shape:?}, OpenAPI {:?}",
                        field.name, field.shape
                    ));
                }
            }
            Some(None) if TYPE_META.contains(&field.name.as_str()) => {}
            Some(None) => self
                .disagreements
                .push(format!("{of}.{}: in OpenAPI and not in protobuf", field.name)),
            None if field.required => field.omission = Omission::Never,
            None => {}
        }
        let fact = &self.facts.merge["types"][of]["fields"][field.name.as_str()];
        for key in &mut field.keys {
            let default = &fact["keyDefaults"][key.name.as_str()];
            key.default = (!default.is_null()).then(|| value_of(default)).transpose()?;
        }
        let defaults = &self.facts.defaults["unconditional"];
        let mut default = &defaults[of][field.name.as_str()];
        if default.is_null() && self.facts.takes_published_defaults {
            default = &defaults[stable(of).as_str()][field.name.as_str()];
        }
        let alone = !default.is_null() && !DEFAULTED_WITH_OTHERS.contains(&(of, field.name.as_str()));
        field.default = alone.then(|| value_of(default)).transpose()?;
        field.undefaulted = UNDEFAULTED.contains(&(of, field.name.as_str()));
        self.note_published_default(of, field)
    }

    /// Records a default that the source tags. The v3 documents contain it, and also the zero value of a field that JSON
    /// never omits, which is ignored.
    fn note_published_default(&mut self, of: &str, field: &mut Field) -> anyhow::Result<()> {
        let schema = self.facts.schemas.get(of).unwrap_or(&Value::Null);
        let published = &schema["properties"][field.name.as_str()]["default"];
        let never_absent = !field.pointer && field.omission == Omission::Never;
        let is_zero = [Value::Null, "".into(), 0.into(), false.into()].contains(published);
        if published.is_null() || published.is_object() || (is_zero && never_absent) {
            return Ok(());
        }
        field.default_published = true;
        if field.default.is_none() && !is_zero && self.facts.takes_published_defaults && stable(of) != of {
            field.default = Some(value_of(published)?);
        }
        if field.default != Some(value_of(published)?) && !is_zero {
            let (name, known) = (&field.name, &field.default);
            self.disagreements
                .push(format!("{of}.{name}: published default {published}, known {known:?}"));
        }
        Ok(())
    }

    fn unpublished_type(&mut self, name: &str, group_version: Option<&str>) -> anyhow::Result<()> {
        if let Some(scalar) = openapi::scalar(name) {
            self.builder.add_scalar(name, scalar)?.published = false;
            return Ok(());
        }
        let mut fields = Vec::new();
        for (json_name, message) in self.messages.fields(name).context("no message")? {
            let shape = self
                .messages
                .shape(message.fact, &self.builder)
                .context("an unknown message")?;
            let mut field = Field::new(json_name, shape);
            // A few messages of the facts have no JSON rules; each of their fields is omitted when empty.
            if message.fact["jsonOmit"].is_null() {
                field.proto = holdfast_schema::types::ProtoPath::new(&message.numbers).unwrap_or_default();
            } else {
                message.complete(&mut field)?;
            }
            fields.push(field);
        }
        if group_version.is_some() {
            fields.extend(TYPE_META.map(|name| Field::new(name, Shape::String)));
        }
        self.sort_as_written(self.messages.fields(name).as_ref(), &mut fields);
        let ty = self.builder.add_struct(name, fields)?;
        ty.published = false;
        ty.kinds = group_version
            .and_then(GroupVersion::parse)
            .map(|group_version| GroupVersionKind {
                group_version,
                kind: SmolStr::new(name.rsplit('.').next().unwrap_or_default()),
            })
            .into_iter()
            .collect();
        Ok(())
    }

    /// Compares the markers of the OpenAPI document with those of the facts, which were extracted from it and from the
    /// source.
    fn check_merge_facts(&mut self) {
        for (name, fact) in self.facts.merge["types"].as_object().into_iter().flatten() {
            let definition = &self.facts.openapi["definitions"][name];
            let mut differ = |what: &str| {
                self.disagreements
                    .push(format!("{name}: {what} differs from merge.json"))
            };
            if definition.is_null() {
                differ("presence");
            }
            if texts(&definition["required"]).iter().collect::<BTreeSet<_>>()
                != texts(&fact["required"]).iter().collect::<BTreeSet<_>>()
            {
                differ("required");
            }
            for (field, fact) in fact["fields"].as_object().into_iter().flatten() {
                let property = &definition["properties"][field];
                let pairs = [
                    ("x-kubernetes-list-type", "listType"),
                    ("x-kubernetes-list-map-keys", "keys"),
                    ("x-kubernetes-map-type", "mapType"),
                    ("x-kubernetes-patch-merge-key", "patchMergeKey"),
                    ("enum", "enum"),
                ];
                for (published, known) in pairs {
                    if property[published] != fact[known] {
                        differ(&format!("{field}.{known}"));
                    }
                }
            }
        }
    }
}

/// Returns true if the shapes are equal. A list of strings within a map, and a few others, are messages of their own in
/// protobuf; they have no shape.
fn same_shape(message: Option<&Shape>, published: &Shape) -> bool {
    match (message, published) {
        (Some(message), _) => message == published,
        (None, Shape::Map(value)) => **value == Shape::List(Box::new(Shape::String)),
        (None, _) => *published == Shape::List(Box::new(Shape::String)),
    }
}

fn value_of(value: &Value) -> anyhow::Result<holdfast_value::Value> {
    Ok(json::parse(value.to_string().as_bytes(), &Limits::TRUSTED)?)
}

#[cfg(test)]
mod tests {
    use super::beyond;

    #[test]
    fn types_beyond_are_grouped_by_package() {
        let known = "\n[packages]\n\"a.v1\" = \"io.a.v1\"\n\n[\"a.v1.Port\"]\n";
        let text = "\n[packages]\n\"a.v1\" = \"io.a.v1\"\n\"a.v1beta1\" = \"io.a.v1beta1\"\n\n[\"a.v1.Mode\"]\nscalar = \"time\"\n\n\
            [\"a.v1.Port\"]\n\n[\"a.v1.Unused\"]\n\n[\"a.v1beta1.Port\"]\nfields = [\n    { name = \"m\", type = \"[]a.v1.Mode\" },\n]\n";
        let found = beyond(known, text);
        let expected = "\n[packages]\n\"a.v1beta1\" = \"io.a.v1beta1\"\n\n[\"a.v1beta1.Port\"]\nfields = [\n    \
            { name = \"m\", type = \"[]a.v1.Mode\" },\n]\n\n[\"a.v1.Mode\"]\nscalar = \"time\"\n";
        assert_eq!(Vec::from_iter(found), [("a.v1beta1".to_owned(), expected.to_owned())]);
    }
}
