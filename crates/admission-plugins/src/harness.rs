//! Test harness of the plugins: the harness of the kinds, with calls of a plugin for a write.

#![allow(clippy::unwrap_used)]

use futures_util::FutureExt as _;
use holdfast_admission::AdmissionPlugin;
use holdfast_kind_tables::features::FeatureGates;
use holdfast_kinds::harness::{self, named};
use holdfast_resource::{Operation, Rejection};
use holdfast_value::Value;

pub(crate) use holdfast_kinds::harness::at;

use crate::plugins::all_plugins;
pub(crate) use crate::settings::PluginSettings;

/// Plugins with their settings, and the kinds and objects that a write sees.
pub(crate) struct Harness {
    kinds: harness::Harness,
    settings: PluginSettings,
}

impl Harness {
    pub(crate) fn new() -> Self {
        Self {
            kinds: harness::Harness::new(),
            settings: PluginSettings::default(),
        }
    }

    /// Returns a harness with this value of `--feature-gates`.
    pub(crate) fn with_gates(gates: &str) -> Self {
        Self::serving("", gates)
    }

    /// Returns a harness with these values of `--runtime-config` and `--feature-gates`.
    pub(crate) fn serving(apis: &str, gates: &str) -> Self {
        let features = FeatureGates::set(&[gates.to_owned()]).unwrap().features();
        Self {
            kinds: harness::Harness::serving(apis, gates),
            settings: PluginSettings {
                features,
                ..PluginSettings::default()
            },
        }
    }

    /// Sets the only permissions of the user, each `verb resource/subresource`.
    pub(crate) fn allowing(self, rights: &[&str]) -> Self {
        self.change_kinds(|kinds| kinds.allowing(rights))
    }

    /// Sets the user who writes.
    pub(crate) fn written_by(self, name: &str, groups: &[&str]) -> Self {
        self.change_kinds(|kinds| kinds.written_by(name, groups))
    }

    /// Sets the namespace in which objects are written.
    pub(crate) fn in_namespace(self, namespace: &str) -> Self {
        self.change_kinds(|kinds| kinds.in_namespace(namespace))
    }

    /// Stores an object.
    pub(crate) fn with(self, text: &str) -> Self {
        self.change_kinds(|kinds| kinds.with(text))
    }

    /// Sets the settings of the plugins.
    pub(crate) fn with_plugins(self, settings: PluginSettings) -> Self {
        Self { settings, ..self }
    }

    fn change_kinds(self, change: impl FnOnce(harness::Harness) -> harness::Harness) -> Self {
        Self {
            kinds: change(self.kinds),
            ..self
        }
    }

    /// Returns the object before any step of a write.
    pub(crate) fn read(&self, text: &str) -> Value {
        self.kinds.read(text)
    }

    fn plugin(&self, name: &str) -> Box<dyn AdmissionPlugin> {
        let mut plugins = all_plugins(&self.settings).into_iter();
        plugins.find(|plugin| plugin.name() == name).unwrap()
    }

    /// Runs an admission plugin on a create. Returns the resulting object, or the reason for the rejection.
    pub(crate) fn admit(&self, plugin: &str, text: &str) -> Result<Value, String> {
        let plugin = self.plugin(plugin);
        let mut object = self.read(text);
        let shown = object.clone();
        let result = self.kinds.call(&shown, None, None, |_, context| {
            if !plugin.concerns(context) {
                return Ok(());
            }
            plugin.mutate(context, Some(&mut object), None)?;
            plugin.validate(context, Some(&object), None)
        });
        match result {
            Ok(()) => Ok(object),
            Err(Rejection::Forbidden { message, .. }) => Err(message),
            Err(rejection) => Err(format!("{rejection:?}")),
        }
    }

    /// Runs an admission plugin on an update as the client sent it. Returns the rejection with the reasons of its
    /// causes.
    pub(crate) fn admit_update(
        &self,
        plugin: &str,
        subresource: Option<&str>,
        old: &str,
        text: &str,
    ) -> Result<(), String> {
        let plugin = self.plugin(plugin);
        let (old, object) = (self.read(old), self.read(text));
        let result = self.kinds.call(&object, Some(&old), subresource, |_, context| {
            assert!(plugin.concerns(context));
            plugin.validate(context, Some(&object), Some(&old))
        });
        result.map_err(|rejection| match rejection {
            Rejection::Forbidden { message, causes } => causes
                .iter()
                .fold(message, |message, (reason, ..)| format!("{message} ({reason})")),
            rejection => format!("{rejection:?}"),
        })
    }

    /// Runs an admission plugin on an update before validation. Returns the reason for a rejection.
    pub(crate) fn admit_change(
        &self,
        plugin: &str,
        subresource: Option<&str>,
        old: &str,
        text: &str,
    ) -> Result<(), String> {
        let plugin = self.plugin(plugin);
        let (old, mut object) = (self.read(old), self.read(text));
        let shown = object.clone();
        let changed = self.kinds.call(&shown, Some(&old), subresource, |_, context| {
            plugin.mutate(context, Some(&mut object), Some(&old))
        });
        changed.map_err(said)
    }

    /// Runs an admission plugin on the deletion of an object. Returns the reason for a rejection.
    pub(crate) fn admit_deletion(&self, plugin: &str, text: &str) -> Result<(), String> {
        let plugin = self.plugin(plugin);
        let old = self.read(text);
        let deleted = self.kinds.run_as(Operation::Delete, &old, None, |_, context| {
            plugin.mutate(context, None, Some(&old))?;
            plugin.validate(context, None, Some(&old))
        });
        deleted.map_err(said)
    }

    /// Runs an admission plugin on a POST of `body` to a subresource of `name`. Returns the reason for a rejection.
    pub(crate) fn admit_subresource(
        &self,
        plugin: &str,
        plural: &str,
        subresource: &str,
        name: &str,
        body: &str,
    ) -> Result<(), String> {
        let plugin = self.plugin(plugin);
        let mut body = self.read(body);
        let named = named(self.kinds.core_resource(plural), name);
        let admitted = self.kinds.call(&named, None, Some(subresource), |_, context| {
            plugin.mutate(context, Some(&mut body), None)
        });
        admitted.map_err(said)
    }

    /// Runs one admission plugin on several new objects in sequence. Returns the message of each rejection.
    pub(crate) fn admit_in_turn(&self, plugin: &str, texts: &[&str]) -> Vec<Option<String>> {
        let plugin = self.plugin(plugin);
        let admit = |text: &&str| {
            let object = self.read(text);
            let admitted = self
                .kinds
                .call(&object, None, None, |_, context| match plugin.concerns(context) {
                    true => plugin.validate(context, Some(&object), None),
                    false => Ok(()),
                });
            match admitted {
                Ok(()) => None,
                Err(Rejection::TooManyRequests { message, .. }) => Some(message),
                Err(rejection) => Some(said(rejection)),
            }
        };
        texts.iter().map(admit).collect()
    }

    /// Runs the asynchronous part of one admission plugin on several new objects. Returns the message of each
    /// rejection.
    pub(crate) fn ask_in_turn(&self, plugin: &str, texts: &[&str]) -> Vec<Option<String>> {
        let plugin = self.plugin(plugin);
        let ask = |text: &&str| {
            let object = self.read(text);
            let asked = self.kinds.call(&object, None, None, |_, context| {
                assert!(plugin.asks_others() && plugin.concerns(context));
                plugin.consult(context, Some(&object)).now_or_never()
            });
            asked.unwrap().err().map(said)
        };
        texts.iter().map(ask).collect()
    }

    /// Runs an admission plugin on the update of `old` to `text`. Returns the resulting object, or the rejection.
    pub(crate) fn change(&self, plugin: &str, old: &str, text: &str) -> Result<Value, Rejection> {
        let plugin = self.plugin(plugin);
        let (old, mut object) = (self.read(old), self.read(text));
        let shown = object.clone();
        let changed = self.kinds.call(&shown, Some(&old), None, |_, context| {
            assert!(plugin.concerns(context));
            plugin.mutate(context, Some(&mut object), Some(&old))
        });
        changed.map(|()| object)
    }

    /// Returns the warnings of an admission plugin for a create.
    pub(crate) fn admission_warnings(&self, plugin: &str, text: &str) -> Vec<String> {
        let object = self.read(text);
        self.answers_of(plugin, &object, None)
    }

    /// Returns the warnings of an admission plugin for the update of `old` to `text`.
    pub(crate) fn update_admission_warnings(&self, plugin: &str, old: &str, text: &str) -> Vec<String> {
        let (old, object) = (self.read(old), self.read(text));
        self.answers_of(plugin, &object, Some(&old))
    }

    /// Returns the usage of quotas after an admission plugin admitted a create, or the update of `old`; or the reason
    /// for the rejection.
    pub(crate) fn reserved(&self, plugin: &str, text: &str, old: Option<&str>) -> Result<Vec<String>, String> {
        let plugin = self.plugin(plugin);
        let (object, old) = (self.read(text), old.map(|old| self.read(old)));
        let read = old.clone().map(|old| move || old.clone());
        let reserved = self.kinds.call(&object, old.as_ref(), None, |_, context| {
            let old = read.as_ref().map(|read| read as &dyn Fn() -> Value);
            plugin.reserve(context, &object, old)
        });
        match reserved {
            Ok(reservations) => Ok(reservations
                .iter()
                .map(|reserve| at(&reserve.object, "status.used"))
                .collect()),
            Err(Rejection::Forbidden { message, .. }) => Err(message),
            Err(rejection) => Err(format!("{rejection:?}")),
        }
    }

    fn answers_of(&self, plugin: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
        let plugin = self.plugin(plugin);
        self.kinds.call(object, old, None, |_, context| {
            if plugin.concerns(context) {
                plugin.validate(context, Some(object), old).unwrap();
            }
            std::mem::take(&mut context.beside.lock().warnings)
        })
    }
}

/// Returns the message of a plugin that rejects a write.
fn said(rejection: Rejection) -> String {
    match rejection {
        Rejection::Forbidden { message, .. } => message,
        rejection => format!("{rejection:?}"),
    }
}
