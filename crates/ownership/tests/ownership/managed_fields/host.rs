//! Server of one object: a test kind `Widget` with two versions, a status and a Scale.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_merge::{
    FieldSpec, ListSpec, MapSpec, Path, Reference, Relationship, Scalar, Schema, SchemaBuilder, Set, TypeRef,
};
use holdfast_ownership::{ApplyError, ApplyOptions, FieldManager, OneVersion, Versions, keep_times};
use holdfast_value::{Limits, SmolStr, Value, yaml};

/// Parses YAML.
#[track_caller]
pub(crate) fn object(text: &str) -> Value {
    yaml::parse(text.as_bytes(), &Limits::default()).unwrap()
}

/// Returns the types of Widget in both versions, of ConfigMap and of Scale.
fn schema() -> Schema {
    let text = || MapSpec::new(Scalar::String);
    let metadata = MapSpec::from_fields([
        FieldSpec::new("name", Scalar::String),
        FieldSpec::new("namespace", Scalar::String),
        FieldSpec::new("generateName", Scalar::String),
        FieldSpec::new("uid", Scalar::String),
        FieldSpec::new("selfLink", Scalar::String),
        FieldSpec::new("resourceVersion", Scalar::String),
        FieldSpec::new("generation", Scalar::Numeric),
        FieldSpec::new("creationTimestamp", Scalar::Untyped),
        FieldSpec::new("deletionTimestamp", Scalar::Untyped),
        FieldSpec::new("labels", text()),
        FieldSpec::new("annotations", text()),
        FieldSpec::new("finalizers", ListSpec::set(Scalar::String)),
        FieldSpec::new("ownerReferences", ListSpec::keyed(Reference::named("Owner"), ["uid"])),
        FieldSpec::new("managedFields", ListSpec::atomic(MapSpec::new(Scalar::Untyped))),
    ]);
    let owner = MapSpec::from_fields([
        FieldSpec::new("apiVersion", Scalar::String),
        FieldSpec::new("kind", Scalar::String),
        FieldSpec::new("name", Scalar::String),
        FieldSpec::new("uid", Scalar::String),
        FieldSpec::new("controller", Scalar::Boolean),
    ])
    .atomic();
    let part = MapSpec::from_fields([
        FieldSpec::new("name", Scalar::String),
        FieldSpec::new("port", Scalar::Numeric),
        FieldSpec::new("protocol", Scalar::String).with_default("TCP"),
        FieldSpec::new("image", Scalar::String),
        FieldSpec::new("args", ListSpec::atomic(Scalar::String)),
    ]);
    let spec = |size: &'static str| {
        MapSpec::from_fields([
            FieldSpec::new(size, Scalar::Numeric),
            FieldSpec::new("color", Scalar::String),
            FieldSpec::new("parts", ListSpec::keyed(Reference::named("Part"), ["name"])),
            FieldSpec::new("ports", ListSpec::keyed(Reference::named("Part"), ["port", "protocol"])),
            FieldSpec::new("tags", ListSpec::set(Scalar::String)),
            FieldSpec::new(
                "selector",
                Reference::from(text()).with_relationship(Relationship::Atomic),
            ),
        ])
    };
    let status = MapSpec::from_fields([
        FieldSpec::new("ready", Scalar::Numeric),
        FieldSpec::new("phase", Scalar::String),
    ]);
    let top = |fields: Vec<FieldSpec>| {
        let mut all = vec![
            FieldSpec::new("apiVersion", Scalar::String),
            FieldSpec::new("kind", Scalar::String),
            FieldSpec::new("metadata", Reference::named("Metadata")),
        ];
        all.extend(fields);
        MapSpec::from_fields(all)
    };
    let widget = |size| {
        top(vec![
            FieldSpec::new("data", text()),
            FieldSpec::new("spec", spec(size)),
            FieldSpec::new("status", Reference::named("Status")),
        ])
    };
    SchemaBuilder::new()
        .define("Metadata", metadata)
        .define("Owner", owner)
        .define("Part", part)
        .define("Status", status)
        .define("WidgetV1", widget("size"))
        .define("WidgetV2", widget("amount"))
        .define("ConfigMap", top(vec![FieldSpec::new("data", text())]))
        .define(
            "Scale",
            top(vec![
                FieldSpec::new(
                    "spec",
                    MapSpec::from_fields([FieldSpec::new("replicas", Scalar::Numeric)]),
                ),
                FieldSpec::new(
                    "status",
                    MapSpec::from_fields([FieldSpec::new("replicas", Scalar::Numeric)]),
                ),
            ]),
        )
        .build()
}

/// Versions of Widget: `spec.size` of v1 is `spec.amount` of v2; v0 no longer exists.
struct WidgetVersions(Arc<Schema>);

impl Versions for WidgetVersions {
    fn merge_type(&self, api_version: &str) -> Option<(Arc<Schema>, TypeRef)> {
        let name = match api_version {
            "example.com/v1" => "WidgetV1",
            "example.com/v2" => "WidgetV2",
            _ => return None,
        };
        Some((Arc::clone(&self.0), self.0.named(name)?))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let (from, to) = match api_version {
            "example.com/v2" => ("size", "amount"),
            _ => ("amount", "size"),
        };
        let mut object = object.clone();
        if let Some(size) = object.remove_at(&["spec", from]) {
            object.set_at(&["spec", to], size);
        }
        object.set_at(&["apiVersion"], Value::from(api_version));
        Ok(object)
    }
}

/// Target of a write.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Address {
    V1,
    V2,
    Status,
    ConfigMap,
}

/// Returns the field manager of a target.
pub(crate) fn field_manager(address: Address) -> FieldManager {
    let schema = Arc::new(schema());
    let fields = |name: &str| Set::from_iter([Path::from_fields([name])]);
    if address == Address::ConfigMap {
        let merge_type = schema.named("ConfigMap").unwrap();
        let versions = Arc::new(OneVersion::new("v1", schema, merge_type));
        return FieldManager::builder("v1", "ConfigMap", versions).build();
    }
    let versions = Arc::new(WidgetVersions(schema));
    let version = match address {
        Address::V2 => "example.com/v2",
        _ => "example.com/v1",
    };
    let builder = FieldManager::builder(version, "Widget", versions);
    let all_versions = |set: Set| ["example.com/v1", "example.com/v2"].map(|version| (version.into(), set.clone()));
    match address {
        Address::Status => builder
            .subresource("status")
            .reset_fields(all_versions(
                fields("spec").union(&fields("metadata")).union(&fields("data")),
            ))
            .build(),
        _ => builder.reset_fields(all_versions(fields("status"))).build(),
    }
}

/// Returns the field manager of the Scale of a Widget.
pub(crate) fn scale_manager() -> FieldManager {
    let schema = Arc::new(schema());
    let merge_type = schema.named("Scale").unwrap();
    let versions = Arc::new(OneVersion::new("autoscaling/v1", schema, merge_type));
    FieldManager::builder("autoscaling/v1", "Scale", versions)
        .subresource("scale")
        .empty_object(object("{metadata: {}, spec: {}, status: {replicas: 0}}"))
        .build()
}

/// One object and the writes to it. The clock is at second 1 for the first write and advances by a second with each.
pub(crate) struct Host {
    pub(crate) existing: Option<Value>,
    seconds: u64,
    address: Address,
}

impl Host {
    pub(crate) fn widget() -> Self {
        Self {
            existing: None,
            seconds: 0,
            address: Address::V1,
        }
    }

    pub(crate) fn config_map() -> Self {
        Self {
            address: Address::ConfigMap,
            ..Self::widget()
        }
    }

    /// Directs the next writes to another target.
    pub(crate) fn at(&mut self, address: Address) -> &mut Self {
        self.address = address;
        self
    }

    fn now(&mut self) -> SystemTime {
        self.seconds += 1;
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.seconds)
    }

    pub(crate) fn identified(&self, text: &str) -> Value {
        let mut object = object(text);
        let (version, kind) = match self.address {
            Address::V1 | Address::Status => ("example.com/v1", "Widget"),
            Address::V2 => ("example.com/v2", "Widget"),
            Address::ConfigMap => ("v1", "ConfigMap"),
        };
        object.set_at(&["apiVersion"], version.into());
        object.set_at(&["kind"], kind.into());
        object.set_at(&["metadata", "name"], "one".into());
        object
    }

    /// Returns the existing object in the version of the target.
    fn versioned(&self) -> Option<Value> {
        let existing = self.existing.clone()?;
        let version = self.identified("{}").get("apiVersion").cloned()?;
        if existing.get("apiVersion") == Some(&version) {
            return Some(existing);
        }
        let converted = WidgetVersions(Arc::new(schema())).convert(&existing, version.as_str()?);
        Some(converted.unwrap())
    }

    /// Applies; returns true if anything changed.
    pub(crate) fn apply(&mut self, manager: &str, text: &str) -> Result<bool, ApplyError> {
        self.apply_value(manager, self.identified(text), false)
    }

    /// Applies with force.
    #[track_caller]
    pub(crate) fn force(&mut self, manager: &str, text: &str) {
        self.apply_value(manager, self.identified(text), true).unwrap();
    }

    pub(crate) fn apply_value(&mut self, manager: &str, config: Value, force: bool) -> Result<bool, ApplyError> {
        self.apply_with(manager, config, &ApplyOptions::from_force(force))
    }

    /// Applies with options.
    pub(crate) fn apply_with(
        &mut self,
        manager: &str,
        config: Value,
        options: &ApplyOptions,
    ) -> Result<bool, ApplyError> {
        let now = self.now();
        let applied =
            field_manager(self.address).apply_with(self.versioned().as_ref(), &config, manager, options, now)?;
        self.store(applied.object);
        Ok(applied.changed)
    }

    /// Replaces or creates the object.
    pub(crate) fn update(&mut self, manager: &str, text: &str) {
        let new = self.identified(text);
        self.update_value(manager, new);
    }

    /// Changes the existing object with a JSON merge patch.
    pub(crate) fn patch(&mut self, manager: &str, text: &str) {
        let new = merge_patch(self.versioned().unwrap(), &object(text));
        self.update_value(manager, new);
    }

    pub(crate) fn update_value(&mut self, manager: &str, mut new: Value) {
        let existing = self.versioned();
        if let Some(uid) = existing.as_ref().and_then(|existing| existing.at(&["metadata", "uid"])) {
            new.set_at(&["metadata", "uid"], uid.clone());
        }
        let now = self.now();
        let new = field_manager(self.address).update(existing.as_ref(), new, manager, now);
        self.store(new);
    }

    fn store(&mut self, mut new: Value) {
        new.set_at(&["metadata", "uid"], "1".into());
        if let Some(existing) = self.versioned() {
            keep_times(&mut new, &existing, |a, b| a == b);
        }
        self.existing = Some(new);
    }

    /// Returns the entries in order as `manager operation version[/subresource] @second: paths`.
    pub(crate) fn entries(&self) -> Vec<String> {
        entries_of(self.existing.as_ref().unwrap())
    }

    #[track_caller]
    pub(crate) fn has_entries(&self, expected: &[&str]) {
        assert_eq!(self.entries(), expected);
    }

    /// Asserts the content of the existing object without metadata.
    #[track_caller]
    pub(crate) fn holds(&self, text: &str) {
        let mut existing = self.existing.clone().unwrap();
        for member in ["apiVersion", "kind", "metadata"] {
            existing.remove_at(&[member]);
        }
        assert_eq!(existing, object(text));
    }
}

/// Returns the entries of an object, see [`Host::entries`].
pub(crate) fn entries_of(object: &Value) -> Vec<String> {
    let Some(list) = object.at(&["metadata", "managedFields"]) else {
        return Vec::new();
    };
    let text = |entry: &Value, name: &str| entry.str_at(&[name]).unwrap_or_default().to_owned();
    list.as_list()
        .unwrap()
        .iter()
        .map(|entry| {
            assert_eq!(entry.str_at(&["fieldsType"]), Some("FieldsV1"));
            let version = text(entry, "apiVersion").replace("example.com/", "");
            let subresource = match text(entry, "subresource") {
                none if none.is_empty() => none,
                name => format!("/{name}"),
            };
            let time = match text(entry, "time") {
                none if none.is_empty() => "-".to_owned(),
                time => time
                    .trim_start_matches("1970-01-01T00:00:")
                    .trim_end_matches('Z')
                    .trim_start_matches('0')
                    .to_owned(),
            };
            let set = Set::from_fields_v1_value(entry.get("fieldsV1").unwrap()).unwrap();
            let paths: Vec<String> = set.paths().map(|path| path.to_string()).collect();
            let (manager, operation) = (text(entry, "manager"), text(entry, "operation"));
            format!(
                "{manager} {operation} {version}{subresource} @{time}: {}",
                paths.join(" ")
            )
        })
        .collect()
}

/// Applies a merge patch (RFC 7396).
pub(crate) fn merge_patch(target: Value, patch: &Value) -> Value {
    let Value::Map(patch) = patch else {
        return patch.clone();
    };
    let mut target = match target {
        Value::Map(map) => map,
        _ => holdfast_value::Map::new(),
    };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            let before = target.remove(key).unwrap_or_default();
            target.insert(SmolStr::clone(key), merge_patch(before, value));
        }
    }
    Value::Map(target)
}

/// Returns the message of a rejected apply.
#[track_caller]
pub(crate) fn message<T: std::fmt::Debug>(result: Result<T, ApplyError>) -> String {
    result.unwrap_err().to_string()
}
