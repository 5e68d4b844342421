//! No malformed object makes a kind panic: all steps of a write run with mutations of each kind's example.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::ops::ControlFlow;

use futures_util::FutureExt as _;
use holdfast_admission::AdmissionChain;
use holdfast_admission_plugins::plugins;
use holdfast_kind_tables::apis::Apis;
use holdfast_kind_tables::features::FeatureGates;
use holdfast_kinds::{Config, registry};
use holdfast_resource::access::Access;
use holdfast_resource::{Lookup, Served};
use holdfast_schema::{GroupResource, GroupVersion};
use holdfast_value::{Limits, Value, json};
use holdfast_writes::testing::World;
use holdfast_writes::{Change, DeleteOptions, Stage, StoredObject};
use test_support::{needs, shared};

struct Kinds(World);

impl Kinds {
    fn new() -> Self {
        let on = |text: &str| [text.to_owned()];
        let everything = Config {
            apis: Apis::set(&on("api/all=true")).unwrap(),
            features: FeatureGates::set(&on("AllAlpha=true,AllBeta=true")).unwrap().features(),
            ..Config::default()
        };
        let mut world = World::new(registry(&everything).unwrap());
        world.plugins = AdmissionChain::new(plugins());
        Self(world)
    }

    /// Runs all steps of a write with an object and ignores the results.
    fn exercise(&self, served: &Served, object: &Value, old: &Value) {
        let (resource, version) = (&served.resource, served.version());
        let Ok(typed) = version.kind_type.decode(object) else {
            return;
        };
        let Ok(object) = version.kind_type.fill_in(typed.object) else {
            return;
        };
        for subresource in ["", "status"] {
            let environment = self.0.environment(&Namespaces, Access::UNCHECKED);
            let target = self.0.target(resource, old, subresource);
            let stage = Stage::new(environment, &target);
            let _ = stage.create(object.clone()).now_or_never().unwrap();
            for (new, old) in [(&object, old), (old, &object)] {
                let existing = StoredObject::unproven(old.clone());
                let change = Change::Replace {
                    object: new.clone(),
                    warnings: Vec::new(),
                };
                let _ = stage.update(&change, Some(&existing)).now_or_never().unwrap();
                let _ = stage
                    .delete(&DeleteOptions::default(), &existing)
                    .now_or_never()
                    .unwrap();
            }
        }
        for version in &resource.versions {
            let _ = resource.convert(object.clone(), &version.api_version);
        }
    }
}

/// Lookup in which every namespace exists and nothing else.
struct Namespaces;

impl Lookup for Namespaces {
    fn get(&self, resource: &GroupResource, _: &str, _: &str) -> Option<Value> {
        (resource.resource == "namespaces").then(Value::empty_map)
    }

    fn list(&self, _: &GroupResource, _: &str, _: &mut dyn FnMut(&Value) -> ControlFlow<()>) {}
}

/// Calls `visit` with copies of `value` in each of which one node is replaced.
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

#[needs(shared)]
#[test]
fn no_object_however_odd_brings_a_kind_down() {
    let all = Kinds::new();
    // All mutations run for minutes, so a sample runs unless all are requested.
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
        let served = all
            .0
            .registry
            .served_in(&api_version)
            .find(|served| served.resource.kind == kind && served.resource.storage.is_some());
        let Some(served) = served else { continue };
        let kind_type = &served.version().kind_type;
        let Some(object) = kind_type
            .decode(&object)
            .ok()
            .and_then(|typed| kind_type.fill_in(typed.object).ok())
        else {
            continue;
        };
        kinds += 1;
        all.exercise(&served, &object, &object);
        let mut count = 0;
        mutations(&object, &mut |changed| {
            count += 1;
            if count % step == 0 {
                all.exercise(&served, &changed, &object);
            }
        });
    }
    println!("{kinds} kinds");
    assert!(kinds > 50);
}
