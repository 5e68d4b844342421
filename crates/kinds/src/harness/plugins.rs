//! Admission plugins, called for a write.

use futures_util::FutureExt as _;
use holdfast_admission::AdmissionPlugin;
use holdfast_resource::{Operation, Refusal};
use holdfast_value::Value;

use super::{Harness, at, named, said};
use crate::admission;

impl Harness {
    fn plugin(&self, name: &str) -> Box<dyn AdmissionPlugin> {
        let mut plugins = admission::all_plugins(&self.settings).into_iter();
        plugins.find(|plugin| plugin.name() == name).unwrap()
    }

    /// What the plugin of that name makes of a create, or why it refuses it.
    pub(crate) fn admit(&self, plugin: &str, text: &str) -> Result<Value, String> {
        let plugin = self.plugin(plugin);
        let mut object = self.read(text);
        let shown = object.clone();
        let result = self.call(&shown, None, None, |_, context| {
            if !plugin.concerns(context) {
                return Ok(());
            }
            plugin.mutate(context, Some(&mut object), None)?;
            plugin.validate(context, Some(&object), None)
        });
        match result {
            Ok(()) => Ok(object),
            Err(Refusal::Forbidden { message, .. }) => Err(message),
            Err(refusal) => Err(format!("{refusal:?}")),
        }
    }

    /// Has the plugin of that name look at an update as it was sent; why it refuses it, with the reasons of the causes.
    pub(crate) fn admit_update(
        &self,
        plugin: &str,
        subresource: Option<&str>,
        old: &str,
        text: &str,
    ) -> Result<(), String> {
        let plugin = self.plugin(plugin);
        let (old, object) = (self.read(old), self.read(text));
        let result = self.call(&object, Some(&old), subresource, |_, context| {
            assert!(plugin.concerns(context));
            plugin.validate(context, Some(&object), Some(&old))
        });
        result.map_err(|refusal| match refusal {
            Refusal::Forbidden { message, causes } => causes
                .iter()
                .fold(message, |message, (reason, ..)| format!("{message} ({reason})")),
            refusal => format!("{refusal:?}"),
        })
    }

    /// Has the plugin of that name look at an update before it is checked; why it refuses it.
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
        let changed = self.call(&shown, Some(&old), subresource, |_, context| {
            plugin.mutate(context, Some(&mut object), Some(&old))
        });
        changed.map_err(said)
    }

    /// Has the plugin of that name look at the deletion of an object; why it refuses it.
    pub(crate) fn admit_deletion(&self, plugin: &str, text: &str) -> Result<(), String> {
        let plugin = self.plugin(plugin);
        let old = self.read(text);
        let deleted = self.run_as(Operation::Delete, &old, None, |_, context| {
            plugin.mutate(context, None, Some(&old))?;
            plugin.validate(context, None, Some(&old))
        });
        deleted.map_err(said)
    }

    /// Has the plugin of that name look at a POST of `body` to a subresource of the object `name`; why it refuses it.
    pub(crate) fn admit_subresource(
        &self,
        plugin: &str,
        (plural, subresource): (&str, &str),
        name: &str,
        body: &str,
    ) -> Result<(), String> {
        let plugin = self.plugin(plugin);
        let mut body = self.read(body);
        let named = named(self.core_resource(plural), name);
        let admitted = self.call(&named, None, Some(subresource), |_, context| {
            plugin.mutate(context, Some(&mut body), None)
        });
        admitted.map_err(said)
    }

    /// Has one plugin look at several new objects in turn; what it says of each that it refuses.
    pub(crate) fn admit_in_turn(&self, plugin: &str, texts: &[&str]) -> Vec<Option<String>> {
        let plugin = self.plugin(plugin);
        let admit = |text: &&str| {
            let object = self.read(text);
            let admitted = self.call(&object, None, None, |_, context| match plugin.concerns(context) {
                true => plugin.validate(context, Some(&object), None),
                false => Ok(()),
            });
            match admitted {
                Ok(()) => None,
                Err(Refusal::TooManyRequests { message, .. }) => Some(message),
                Err(refusal) => Some(said(refusal)),
            }
        };
        texts.iter().map(admit).collect()
    }

    /// Has one plugin ask others about several new objects in turn; what it says of each that it refuses.
    pub(crate) fn ask_in_turn(&self, plugin: &str, texts: &[&str]) -> Vec<Option<String>> {
        let plugin = self.plugin(plugin);
        let ask = |text: &&str| {
            let object = self.read(text);
            let asked = self.call(&object, None, None, |_, context| {
                assert!(plugin.asks_others() && plugin.concerns(context));
                plugin.consult(context, Some(&object)).now_or_never()
            });
            asked.unwrap().err().map(said)
        };
        texts.iter().map(ask).collect()
    }

    /// What the plugin of that name makes of the object of `text` that takes the place of that of `old`, or why it refuses it.
    pub(crate) fn change(&self, plugin: &str, old: &str, text: &str) -> Result<Value, Refusal> {
        let plugin = self.plugin(plugin);
        let (old, mut object) = (self.read(old), self.read(text));
        let shown = object.clone();
        let changed = self.call(&shown, Some(&old), None, |_, context| {
            assert!(plugin.concerns(context));
            plugin.mutate(context, Some(&mut object), Some(&old))
        });
        changed.map(|()| object)
    }

    /// What the plugin of that name warns of when an object is made.
    pub(crate) fn admission_warnings(&self, plugin: &str, text: &str) -> Vec<String> {
        let object = self.read(text);
        self.answers_of(plugin, &object, None)
    }

    /// What the plugin of that name warns of when the object of `text` takes the place of that of `old`.
    pub(crate) fn update_admission_warnings(&self, plugin: &str, old: &str, text: &str) -> Vec<String> {
        let (old, object) = (self.read(old), self.read(text));
        self.answers_of(plugin, &object, Some(&old))
    }

    /// The usage that quotas have after the plugin of that name let an object be made, or take the place of that of `old`;
    /// or why it refuses that.
    pub(crate) fn reserved(&self, plugin: &str, text: &str, old: Option<&str>) -> Result<Vec<String>, String> {
        let plugin = self.plugin(plugin);
        let (object, old) = (self.read(text), old.map(|old| self.read(old)));
        let read = old.clone().map(|old| move || old.clone());
        let reserved = self.call(&object, old.as_ref(), None, |_, context| {
            let old = read.as_ref().map(|read| read as &dyn Fn() -> Value);
            plugin.reserve(context, &object, old)
        });
        match reserved {
            Ok(reservations) => Ok(reservations
                .iter()
                .map(|reserve| at(&reserve.object, "status.used"))
                .collect()),
            Err(Refusal::Forbidden { message, .. }) => Err(message),
            Err(refusal) => Err(format!("{refusal:?}")),
        }
    }

    fn answers_of(&self, plugin: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
        let plugin = self.plugin(plugin);
        self.call(object, old, None, |_, context| {
            if plugin.concerns(context) {
                plugin.validate(context, Some(object), old).unwrap();
            }
            std::mem::take(&mut context.beside.lock().warnings)
        })
    }
}
