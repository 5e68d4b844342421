//! Holds the kinds against what the reference answered to writes: the traces of `kinds` and `ssa`, without a server.
//!
//! Each trace is replayed against a map of objects. Writes whose meaning is the business of other crates (server-side apply
//! to an object that is there, strategic merge, selectors) are passed over. Of an answer the object is compared without
//! what the server's write path adds to metadata, a refusal by its causes. What does not agree yet is printed
//! (`SHOW=400`, `FILTER=pods`); the tests ask that no fewer writes agree than did.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::panic)]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::SystemTime;

use holdfast_admission::AdmissionPlugin;
use holdfast_authorization::User;
use holdfast_kinds::{Config, admission, registry, tables};
use holdfast_resource::access::Access;
use holdfast_resource::metadata::{validate_metadata, validate_metadata_update};
use holdfast_resource::schema::{TypeTable, decode, with_defaults};
use holdfast_resource::{
    FieldError, GroupResource, GroupVersion, GroupVersionKind, Lookup, Operation, Refusal, Registry, Resource,
    WriteContext,
};
use holdfast_value::{Growth, Limits, Value, json, merge_patch};
use test_support::{needs, shared};

const UID: &str = "11111111-2222-4333-8444-555555555555";

type Key = (String, String, String, String);

#[derive(Default)]
struct Objects(Mutex<BTreeMap<Key, Value>>);

impl Lookup for Objects {
    fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Value> {
        if resource.resource == "namespaces" && !name.ends_with("-none") {
            return Some(Value::empty_map());
        }
        let key = (
            resource.group.to_string(),
            resource.resource.to_string(),
            namespace.to_owned(),
            name.to_owned(),
        );
        self.0.lock().unwrap().get(&key).cloned()
    }

    fn list(&self, resource: &GroupResource, namespace: &str, visit: &mut dyn FnMut(&Value) -> ControlFlow<()>) {
        for ((group, plural, of, _), object) in self.0.lock().unwrap().iter() {
            let found = resource.group == group.as_str() && resource.resource == plural.as_str();
            if found && (namespace.is_empty() || namespace == of) && visit(object).is_break() {
                return;
            }
        }
    }
}

struct World {
    registry: Registry,
    types: TypeTable,
    plugins: Vec<Box<dyn AdmissionPlugin>>,
    objects: Objects,
}

/// What a write came to.
enum Answer {
    Object(Value),
    Refused(u16, Vec<(String, String)>),
    PassedOver,
}

struct Target {
    resource: Arc<Resource>,
    version: String,
    namespace: String,
    name: String,
    subresource: Option<String>,
}

impl World {
    fn new() -> Self {
        Self {
            registry: registry(&Config::default()).unwrap(),
            types: tables::types().unwrap(),
            plugins: admission::plugins(),
            objects: Objects::default(),
        }
    }

    fn target(&self, path: &str) -> Option<Target> {
        let path = path.split('?').next()?;
        let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version) = match parts.first().copied()? {
            "api" => ("", *parts.get(1)?),
            "apis" => (*parts.get(1)?, *parts.get(2)?),
            _ => return None,
        };
        parts.drain(..if group.is_empty() { 2 } else { 3 });
        let mut namespace = "";
        if parts.len() >= 3 && parts[0] == "namespaces" && !matches!(parts[2], "status" | "finalize") {
            namespace = parts[1];
            parts.drain(..2);
        }
        let served = self.registry.served(group, version, parts.first()?)?;
        Some(Target {
            resource: Arc::clone(&served.resource),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            name: (*parts.get(1).unwrap_or(&"")).to_owned(),
            subresource: parts.get(2).map(|part| (*part).to_owned()),
        })
    }

    /// The object in the form that its type has in `api_version`, with its defaults.
    fn typed_as(&self, target: &Target, api_version: &str, object: &Value) -> Option<Value> {
        let kind = GroupVersionKind {
            group_version: GroupVersion::parse(api_version)?,
            kind: target.resource.kind.clone(),
        };
        let version = kind.group_version.version.clone();
        let id = self.types.id_of_kind(&kind)?;
        let mut object = decode(&self.types, id, object).ok()?.value;
        object.set_at(&["apiVersion"], api_version.into());
        object.set_at(&["kind"], target.resource.kind.clone().into());
        let filled = with_defaults(&self.types, id, &object, &mut Growth::default()).unwrap();
        let mut object = filled.unwrap_or(object);
        target.resource.strategy.default_fields(&version, &mut object);
        Some(object)
    }

    fn typed(&self, target: &Target, object: &Value) -> Option<Value> {
        self.typed_as(target, &target.resource.version(&target.version)?.api_version, object)
    }

    /// The object in the version that it is stored in.
    fn stored(&self, target: &Target, object: Value) -> Value {
        let api_version = &target.resource.storage.as_ref().unwrap().api_version;
        match object.str_at(&["apiVersion"]) == Some(api_version.as_str()) {
            true => object,
            false => {
                let stored = target.resource.convert(object, api_version).unwrap();
                self.typed_as(target, api_version, &stored).unwrap()
            }
        }
    }

    fn key(target: &Target, name: &str) -> Key {
        (
            target.resource.group.to_string(),
            target.resource.plural.to_string(),
            target.namespace.clone(),
            name.to_owned(),
        )
    }

    fn write(&self, method: &str, media: &str, target: &Target, body: &Value) -> Answer {
        if target.resource.storage.is_none() {
            return Answer::PassedOver;
        }
        let live = self
            .objects
            .0
            .lock()
            .unwrap()
            .get(&Self::key(target, &target.name))
            .cloned();
        let live = live.map(|live| self.shown(target, live));
        let object = match (method, &live) {
            ("POST", _) if target.subresource.is_none() => body.clone(),
            ("PUT", Some(_)) => body.clone(),
            ("PATCH", None) if media.contains("apply") => body.clone(),
            ("PATCH", Some(live)) if media.contains("merge-patch") && !media.contains("strategic") => {
                match merge_patch::apply(live, body) {
                    Ok(object) => object,
                    Err(_) => return Answer::PassedOver,
                }
            }
            _ => return Answer::PassedOver,
        };
        let Some(mut object) = self.typed(target, &object) else {
            return Answer::PassedOver;
        };
        if !target.namespace.is_empty() {
            object.set_at(&["metadata", "namespace"], target.namespace.as_str().into());
        }
        let name = object.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
        let object = self.stored(target, object);
        let old = live.map(|live| self.stored(target, live));
        let context = WriteContext {
            operation: if old.is_some() {
                Operation::Update
            } else {
                Operation::Create
            },
            subresource: target.subresource.as_deref(),
            namespace: &target.namespace,
            name: &name,
            user: &User::server(),
            access: Access::UNCHECKED,
            dry_run: false,
            now: SystemTime::UNIX_EPOCH,
            types: &self.types,
            lookup: &self.objects,
            outcome: Default::default(),
            beside: Default::default(),
        };
        let result = self.run(target, &context, object, old.as_ref());
        let stored = result.is_ok();
        for call in context.outcome.into_inner() {
            call(stored);
        }
        match result {
            Ok(object) => {
                if let Some(kind) = &target.resource.capabilities.followed {
                    kind.observe(old.as_ref(), Some(&object));
                }
                self.objects
                    .0
                    .lock()
                    .unwrap()
                    .insert(Self::key(target, &name), object.clone());
                Answer::Object(self.shown(target, object))
            }
            Err(refusal) => refused(refusal),
        }
    }

    /// The object in the version of the request.
    fn shown(&self, target: &Target, object: Value) -> Value {
        let version = target.resource.version(&target.version).unwrap();
        match object.str_at(&["apiVersion"]) == Some(version.api_version.as_str()) {
            true => object,
            false => {
                let shown = target.resource.convert(object, &version.api_version).unwrap();
                self.typed(target, &shown).unwrap()
            }
        }
    }

    fn run(
        &self,
        target: &Target,
        context: &WriteContext<'_>,
        mut object: Value,
        old: Option<&Value>,
    ) -> Result<Value, Refusal> {
        let resource = &target.resource;
        for plugin in self.plugins.iter().filter(|plugin| plugin.concerns(context, resource)) {
            plugin.mutate(context, resource, Some(&mut object), old)?;
        }
        let version = resource.version(&target.version).unwrap();
        let reset = match &target.subresource {
            None => version.reset_fields.clone(),
            Some(name) => version
                .subresource(name)
                .map(|sub| sub.reset_fields.clone())
                .unwrap_or_default(),
        };
        for path in reset.iter().filter(|_| old.is_some()) {
            let path: Vec<&str> = path.iter().map(|part| part.as_str()).collect();
            match old.and_then(|old| old.at(&path)) {
                Some(value) => object.set_at(&path, value.clone()),
                None => {
                    object.remove_at(&path);
                }
            }
        }
        match old {
            None => {
                if let Some(status) = &resource.rules.initial_status {
                    object.set_at(&["status"], status.clone());
                }
                object.set_at(&["metadata", "uid"], UID.into());
                resource.strategy.prepare_for_create(context, &mut object)?;
                let mut errors = validate_metadata(resource, &object);
                errors.extend(resource.strategy.validate(context, &object));
                invalid(errors)?;
            }
            Some(old) => {
                object.set_at(&["metadata", "uid"], UID.into());
                resource.strategy.prepare_for_update(context, &mut object, old)?;
                let checks = &resource.rules.metadata_checks;
                let subresource = context.subresource.unwrap_or_default();
                let mut errors = validate_metadata_update(checks, subresource, &object, old);
                errors.extend(resource.strategy.validate_update(context, &object, old));
                invalid(errors)?;
            }
        }
        for plugin in self.plugins.iter().filter(|plugin| plugin.concerns(context, resource)) {
            plugin.validate(context, resource, Some(&object), old)?;
        }
        let api_version = resource.storage.as_ref().unwrap().api_version.clone();
        // As a client reads it back.
        Ok(self.typed_as(target, &api_version, &object).unwrap())
    }
}

fn invalid(errors: Vec<FieldError>) -> Result<(), Refusal> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Refusal::Invalid(errors))
    }
}

fn refused(refusal: Refusal) -> Answer {
    match refusal {
        Refusal::Invalid(errors) => {
            let cause = |error: &FieldError| (error.field.to_string(), error.message());
            Answer::Refused(422, errors.iter().map(cause).collect())
        }
        Refusal::InvalidAs { errors, .. } => refused(Refusal::Invalid(errors)),
        Refusal::Forbidden { message, .. } | Refusal::ForbiddenOn { message, .. } => {
            Answer::Refused(403, vec![(String::new(), message)])
        }
        Refusal::NotFound { .. } => Answer::Refused(404, Vec::new()),
        Refusal::Conflict(_) | Refusal::ConflictOn { .. } => Answer::Refused(409, Vec::new()),
        Refusal::BadRequest(_) => Answer::Refused(400, Vec::new()),
        Refusal::TooManyRequests { .. } => Answer::Refused(429, Vec::new()),
        Refusal::Unavailable(_) => Answer::Refused(503, Vec::new()),
        Refusal::Internal(_) | Refusal::Failed(_) => Answer::Refused(500, Vec::new()),
    }
}

/// Replaces what differs between any two servers.
fn masked(value: &Value) -> Value {
    match value {
        Value::String(text) => {
            let time = text.len() == 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T';
            let uid = text.starts_with("<uid") || text == UID;
            if time {
                "<time>".into()
            } else if uid {
                "<uid>".into()
            } else if text.starts_with("10.0.0.") {
                "<ip>".into()
            } else {
                value.clone()
            }
        }
        Value::Int(port) if (30000..=32767).contains(port) => "<port>".into(),
        Value::List(list) => Value::List(list.iter().map(masked).collect()),
        Value::Map(map) => Value::Map(map.iter().map(|(key, value)| (key.clone(), masked(value))).collect()),
        other => other.clone(),
    }
}

/// The object without what the write path adds.
fn compared(object: &Value) -> Value {
    let mut object = object.clone();
    for part in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
        "selfLink",
    ] {
        object.remove_at(&["metadata", part]);
    }
    masked(&object)
}

/// The object of the reference as one to build on.
fn adopted(object: &Value) -> Value {
    fn unmasked(value: &Value) -> Value {
        match value {
            Value::String(text) if text == "<uid>" => UID.into(),
            Value::String(text) if text == "<time>" => "1970-01-01T00:00:00Z".into(),
            Value::String(text) if text == "<ip>" => "10.0.0.77".into(),
            Value::List(list) => Value::List(list.iter().map(unmasked).collect()),
            Value::Map(map) => Value::Map(map.iter().map(|(key, value)| (key.clone(), unmasked(value))).collect()),
            other => other.clone(),
        }
    }
    let mut object = unmasked(&compared(object));
    object.set_at(&["metadata", "uid"], UID.into());
    object
}

fn differences(want: &Value, got: &Value, path: &str, found: &mut Vec<String>) {
    match (want, got) {
        (Value::Map(a), Value::Map(b)) => {
            for (key, value) in a {
                match b.get(key) {
                    Some(other) => differences(value, other, &format!("{path}.{key}"), found),
                    None => found.push(format!("{path}.{key}: missing, want {}", json::to_string(value))),
                }
            }
            for (key, value) in b {
                if !a.contains_key(key) {
                    found.push(format!("{path}.{key}: too much: {}", json::to_string(value)));
                }
            }
        }
        (Value::List(a), Value::List(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                differences(a, b, &format!("{path}[{at}]"), found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(format!(
            "{path}: want {}, got {}",
            json::to_string(a),
            json::to_string(b)
        )),
    }
}

fn check(world: &World, step: &Value) -> Option<Result<(), Vec<String>>> {
    let text = |path: &[&str]| step.str_at(path).unwrap_or_default();
    let method = text(&["request", "method"]);
    let path = text(&["request", "path"]);
    let target = world.target(path)?;
    let status = step.at(&["response", "status"]).and_then(Value::as_i64)? as u16;
    if method == "DELETE" && status < 300 {
        let old = world
            .objects
            .0
            .lock()
            .unwrap()
            .remove(&World::key(&target, &target.name));
        if let Some(kind) = &target.resource.capabilities.followed {
            kind.observe(old.as_ref(), None);
        }
        return None;
    }
    if !matches!(method, "POST" | "PUT" | "PATCH") || path.contains("dryRun") {
        return None;
    }
    let body = step.at(&["request", "body"])?;
    let media = text(&["request", "headers", "Content-Type"]);
    // Other refusals are made elsewhere, and other forms of answers.
    let other_form = step.at(&["request", "headers", "Accept"]).is_some();
    let scale = target.subresource.as_deref() == Some("scale");
    let first = step
        .at(&["response", "body", "details", "causes"])
        .and_then(Value::as_list)
        .and_then(|list| list.first());
    let of_request = first.and_then(|cause| cause.str_at(&["field"])).is_some_and(|field| {
        matches!(
            field,
            "metadata.resourceVersion" | "fieldManager" | "force" | "fieldValidation"
        )
    });
    if status >= 300 && !matches!(status, 403 | 422) || other_form || scale || of_request {
        return None;
    }
    let before = world.objects.0.lock().unwrap().clone();
    let answer = world.write(method, media, &target, body);
    let want = step.at(&["response", "body"]);
    let shows_body = step.get("only").is_none();
    let outcome = match answer {
        Answer::PassedOver => {
            // Later steps build on what the reference holds now.
            if status < 300
                && let Some(object) = want.filter(|want| want.str_at(&["metadata", "name"]).is_some())
                && target.subresource.as_deref().is_none_or(|part| part == "status")
                && let Some(object) = world.typed(&target, &adopted(object))
            {
                let object = world.stored(&target, object);
                let name = object.str_at(&["metadata", "name"])?.to_owned();
                world
                    .objects
                    .0
                    .lock()
                    .unwrap()
                    .insert(World::key(&target, &name), object);
            }
            return None;
        }
        Answer::Object(object) if status < 300 => {
            let mut found = Vec::new();
            if let Some(want) = want.filter(|want| shows_body && want.get("metadata").is_some()) {
                differences(&compared(want), &compared(&object), "", &mut found);
            }
            found
        }
        Answer::Object(_) => vec![format!("accepted, want {status}: {}", json::to_string(&want?.clone()))],
        Answer::Refused(got, causes) if got != status => vec![format!("refused with {got} {causes:?}, want {status}")],
        Answer::Refused(422, causes) => {
            let causes = Value::from(
                causes
                    .iter()
                    .map(|(field, message)| cause(field, message))
                    .collect::<Vec<_>>(),
            );
            let listed = want.and_then(|want| want.at(&["details", "causes"]));
            let wanted: Vec<Value> = listed
                .and_then(Value::as_list)
                .map_or(&[][..], |list| list)
                .iter()
                .map(|one| {
                    let message = one.str_at(&["message"]).unwrap_or_default();
                    let message = message.split("\n@@").next().unwrap_or_default();
                    cause(one.str_at(&["field"]).unwrap_or_default(), message)
                })
                .collect();
            let mut found = Vec::new();
            let hidden = wanted.iter().any(|cause| cause.str_at(&["message"]) == Some(""));
            let strip = |list: &Value| match hidden {
                true => Value::from(
                    list.as_list()
                        .unwrap()
                        .iter()
                        .map(|one| cause(one.str_at(&["field"]).unwrap_or_default(), ""))
                        .collect::<Vec<_>>(),
                ),
                false => list.clone(),
            };
            if listed.is_some() {
                differences(&Value::from(wanted), &strip(&causes), "causes", &mut found);
            }
            found
        }
        Answer::Refused(403, causes) => {
            let message = want.and_then(|want| want.str_at(&["message"])).unwrap_or_default();
            let same = message.ends_with(&causes[0].1) || message.is_empty();
            if same {
                Vec::new()
            } else {
                vec![format!("want {message}, got {}", causes[0].1)]
            }
        }
        Answer::Refused(..) => Vec::new(),
    };
    if status >= 300 {
        *world.objects.0.lock().unwrap() = before;
    }
    Some(if outcome.is_empty() { Ok(()) } else { Err(outcome) })
}

/// Uids within messages.
fn masked_message(message: &str) -> String {
    let mut out = String::new();
    let text = message.replace(UID, "<uid>");
    let mut rest = text.as_str();
    while let Some(at) = rest.find("<uid:") {
        out.push_str(&rest[..at]);
        out.push_str("<uid>");
        rest = rest[at..].split_once('>').map_or("", |(_, rest)| rest);
    }
    out.push_str(rest);
    out
}

fn cause(field: &str, message: &str) -> Value {
    let mut cause = Value::empty_map();
    cause.set_at(&["field"], field.into());
    cause.set_at(&["message"], masked_message(message).into());
    cause
}

/// How many steps agreed, and how many were compared.
fn replay(folder: &Path, filter: &str, show: usize) -> (usize, usize) {
    let (mut passed, mut all, mut shown) = (0, 0, 0);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for file in files.iter().filter(|file| file.to_string_lossy().contains(filter)) {
        if file.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(file)
            .unwrap()
            .replace("${ns}", "ns")
            .replace("${uniq}", "u");
        let trace = json::parse(text.as_bytes(), &Limits::default()).unwrap();
        let world = World::new();
        for (at, step) in trace.get("steps").and_then(Value::as_list).unwrap().iter().enumerate() {
            match check(&world, step) {
                None => {}
                Some(Ok(())) => {
                    passed += 1;
                    all += 1;
                }
                Some(Err(found)) => {
                    all += 1;
                    if shown < show {
                        shown += 1;
                        println!("{} step {at}:", file.file_stem().unwrap().to_string_lossy());
                        for line in found.iter().take(6) {
                            println!("    {}", line.chars().take(400).collect::<String>());
                        }
                    }
                }
            }
        }
    }
    (passed, all)
}

fn shown() -> usize {
    std::env::var("SHOW")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(5)
}

#[needs(shared)]
#[test]
fn writes_of_server_side_apply_are_answered_as_the_reference_does() {
    let filter = std::env::var("FILTER").unwrap_or_default();
    let (passed, all) = replay(&shared("traces/ssa"), &filter, shown());
    println!("ssa: {passed} of {all} writes");
    assert!(!filter.is_empty() || passed >= 207, "{passed} of {all}");
}

#[needs(shared)]
#[test]
fn writes_of_each_kind_are_answered_as_the_reference_does() {
    let filter = std::env::var("FILTER").unwrap_or_default();
    let (passed, all) = replay(&shared("traces/kinds"), &filter, shown());
    println!("kinds: {passed} of {all} writes");
    assert!(!filter.is_empty() || passed >= 760, "{passed} of {all}");
}

/// Calls `visit` with copies of `value` in which one node each is replaced.
fn mutations(value: &Value, visit: &mut dyn FnMut(Value)) {
    let odd = [
        Value::Null,
        Value::Bool(true),
        Value::Int(-1),
        Value::from("\u{fc}"),
        Value::from(""),
        Value::from(vec![Value::Null, Value::Int(1)]),
        Value::empty_map(),
    ];
    for replacement in odd {
        visit(replacement);
    }
    match value {
        Value::Map(map) => {
            for (key, inner) in map {
                mutations(inner, &mut |changed| {
                    let mut map = map.clone();
                    map.insert(key.clone(), changed);
                    visit(map.into());
                });
            }
        }
        Value::List(list) => {
            for (at, inner) in list.iter().enumerate() {
                mutations(inner, &mut |changed| {
                    let mut items = list.to_vec();
                    items[at] = changed;
                    visit(items.into());
                });
            }
        }
        _ => {}
    }
}

/// Does with an object what a write does, whatever comes of it.
fn exercise(world: &World, target: &Target, object: &Value, old: &Value) {
    let strategy = &target.resource.strategy;
    for subresource in [None, Some("status")] {
        let context = WriteContext {
            operation: Operation::Update,
            subresource,
            namespace: "ns",
            name: "a",
            user: &User::server(),
            access: Access::UNCHECKED,
            dry_run: true,
            now: SystemTime::UNIX_EPOCH,
            types: &world.types,
            lookup: &world.objects,
            outcome: Default::default(),
            beside: Default::default(),
        };
        let mut changed = object.clone();
        strategy.default_fields("v1", &mut changed);
        let plugins = world.plugins.iter();
        for plugin in plugins.filter(|plugin| plugin.concerns(&context, &target.resource)) {
            let _ = plugin.mutate(&context, &target.resource, Some(&mut changed), Some(old));
        }
        let _ = strategy.prepare_for_update(&context, &mut changed, old);
        let _ = strategy.validate_update(&context, &changed, old);
        let _ = strategy.validate_update(&context, old, &changed);
        let _ = strategy.warnings(&context, &changed, Some(old));
        let _ = target.resource.capabilities.deletion.grace_period(&changed, None);
        let mut created = object.clone();
        let _ = strategy.prepare_for_create(&context, &mut created);
        let _ = strategy.validate(&context, &created);
        let _ = strategy.warnings(&context, &created, None);
        for version in &target.resource.versions {
            let _ = target.resource.convert(object.clone(), &version.api_version);
        }
        for call in context.outcome.into_inner() {
            call(false);
        }
    }
}

#[needs(shared)]
#[test]
fn no_object_however_odd_brings_a_kind_down() {
    let world = World::new();
    // All of them take minutes; a sample of them is tried unless all are asked for.
    let step = if std::env::var_os("ALL").is_some() { 1 } else { 31 };
    let mut kinds = 0;
    for entry in std::fs::read_dir(shared("facts/roundtrip")).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read(&file).unwrap();
        let object = json::parse(&text, &Limits::default()).unwrap();
        let Some(api_version) = object.str_at(&["apiVersion"]).and_then(GroupVersion::parse) else {
            continue;
        };
        let kind = object.str_at(&["kind"]).unwrap_or_default();
        let served = world
            .registry
            .served_in(&api_version)
            .find(|served| served.resource.kind == kind);
        let Some(served) = served else { continue };
        let target = Target {
            resource: Arc::clone(&served.resource),
            version: api_version.version.to_string(),
            namespace: "ns".to_owned(),
            name: "a".to_owned(),
            subresource: None,
        };
        let Some(object) = world.typed(&target, &object) else {
            continue;
        };
        kinds += 1;
        exercise(&world, &target, &object, &object);
        let mut count = 0;
        mutations(&object, &mut |changed| {
            count += 1;
            if count % step == 0 {
                exercise(&world, &target, &changed, &object);
            }
        });
    }
    println!("{kinds} kinds");
    assert!(kinds > 50);
}
