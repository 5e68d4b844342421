//! Webhooks of admission, ready to be matched
//! (<https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/>).
//!
//! [`Webhooks`] watches the stored configurations through [`Followed`](holdfast_resource::Followed): each is compiled
//! once when it changes, and a write gets the current ones with one atomic load. [`matching`] selects the webhooks of a
//! write, [`review`] encodes requests, and [`answer`] decodes responses. The server makes the calls.

pub mod answer;
mod client_config;
pub mod matching;
pub mod review;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use holdfast_cel::PatternMemory;
use holdfast_resource::selector::LabelSelector;
use holdfast_schema::Field;
use holdfast_value::{SmolStr, Value};

use crate::Origin;
use crate::policies::conditions::Gate;
pub use client_config::{Address, Authorities, ClientConfig, authorities_error};
pub use matching::Rule;
pub use review::ReviewVersion;

/// Type of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WebhookType {
    /// Webhooks that may change the object.
    Mutating,
    /// Webhooks that may reject the write.
    Validating,
}

/// Webhooks of all configurations.
#[derive(Default)]
pub struct Webhooks {
    hooks: ArcSwap<Hooks>,
    patterns: PatternMemory,
}

/// Webhooks at one time.
#[derive(Clone, Default)]
pub struct Hooks {
    /// Webhooks that may change objects, in the order in which they are called: the order of the names of their
    /// configurations.
    pub mutating: Vec<Arc<Webhook>>,
    /// Webhooks that may reject writes.
    pub validating: Vec<Arc<Webhook>>,
    configurations: Configurations,
    changes: u64,
}

/// Webhooks of the time at which a run needs them.
pub type CurrentHooks = arc_swap::Guard<Arc<Hooks>>;

/// Webhooks of each configuration.
type Configurations = BTreeMap<(WebhookType, Origin, SmolStr), Vec<Arc<Webhook>>>;

/// A webhook of a configuration.
#[derive(Debug)]
pub struct Webhook {
    /// Name, which rejections include.
    pub name: SmolStr,
    /// Name of its configuration.
    pub configuration: SmolStr,
    /// Source of that configuration.
    pub origin: Origin,
    /// Client configuration for calls.
    pub client: ClientConfig,
    /// Writes that it is called for.
    pub rules: Vec<Rule>,
    /// True if its rules match writes in equivalent versions too (`matchPolicy: Equivalent`).
    pub equivalent: bool,
    /// Namespaces of objects that it is called for.
    pub namespaces: LabelSelector,
    /// Objects that it is called for.
    pub objects: LabelSelector,
    /// True if a write continues when the webhook cannot be called (`failurePolicy: Ignore`).
    pub fails_open: bool,
    /// Timeout of a call.
    pub timeout: Duration,
    /// True if it is called again when the object changed after its call.
    pub reinvoked: bool,
    /// Version of the reviews that it accepts.
    pub review_version: ReviewVersion,
    /// Match conditions, which restrict the rules.
    pub gate: Gate,
}

impl Webhooks {
    /// Creates an empty set; the regular expressions of conditions are compiled into `patterns`.
    pub fn new(patterns: PatternMemory) -> Self {
        Self {
            hooks: ArcSwap::default(),
            patterns,
        }
    }

    /// Returns the current webhooks.
    pub fn now(&self) -> CurrentHooks {
        self.hooks.load()
    }

    /// Returns the number of configuration changes that were applied so far.
    pub fn changes(&self) -> u64 {
        self.hooks.load().changes
    }

    /// Applies the current state of a configuration; `None` if it is deleted.
    pub fn set(&self, webhook_type: WebhookType, name: &str, configuration: Option<&Value>) {
        let compiled = configuration.map(|configuration| compile(configuration, Origin::Api, &self.patterns));
        self.hooks.rcu(|hooks| {
            let mut configurations = hooks.configurations.clone();
            let key = (webhook_type, Origin::Api, SmolStr::new(name));
            match &compiled {
                Some(webhooks) => configurations.insert(key, webhooks.clone()),
                None => configurations.remove(&key),
            };
            Hooks::new(configurations, hooks.changes + 1)
        });
    }

    /// Replaces all configurations from files with these.
    pub fn set_files(&self, webhook_type: WebhookType, configurations: &[Value]) {
        let compiled: Vec<_> = configurations
            .iter()
            .map(|configuration| {
                let name = configuration.str_at(&["metadata", "name"]).unwrap_or_default();
                let key = (webhook_type, Origin::File, SmolStr::new(name));
                (key, compile(configuration, Origin::File, &self.patterns))
            })
            .collect();
        self.hooks.rcu(|hooks| {
            let mut configurations = hooks.configurations.clone();
            configurations.retain(|(of, origin, _), _| *of != webhook_type || *origin != Origin::File);
            configurations.extend(compiled.iter().cloned());
            Hooks::new(configurations, hooks.changes + 1)
        });
    }
}

/// Returns the webhooks of `hooks` that are from files; these come first.
pub fn of_files(hooks: &[Arc<Webhook>]) -> &[Arc<Webhook>] {
    let end = hooks.partition_point(|hook| hook.origin == Origin::File);
    hooks.get(..end).unwrap_or_default()
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hooks = self.hooks.load();
        f.debug_struct("Webhooks")
            .field("mutating", &hooks.mutating.len())
            .field("validating", &hooks.validating.len())
            .finish()
    }
}

impl Hooks {
    fn new(configurations: Configurations, changes: u64) -> Self {
        let all = |webhook_type: WebhookType| {
            let of_sort = configurations.iter().filter(move |((of, ..), _)| *of == webhook_type);
            of_sort.flat_map(|(_, webhooks)| webhooks.iter().cloned()).collect()
        };
        Self {
            mutating: all(WebhookType::Mutating),
            validating: all(WebhookType::Validating),
            configurations,
            changes,
        }
    }
}

/// Compiles the webhooks of a configuration, which was validated.
fn compile(configuration: &Value, origin: Origin, patterns: &PatternMemory) -> Vec<Arc<Webhook>> {
    let root = Field::root(configuration);
    let (metadata, webhooks) = (root.child("metadata"), root.child("webhooks"));
    let name = metadata.child("name");
    webhooks
        .items()
        .map(|webhook| Arc::new(Webhook::from_field(&webhook, name.text(), origin, patterns)))
        .collect()
}

impl Webhook {
    fn from_field(webhook: &Field<'_, '_>, configuration: &str, origin: Origin, patterns: &PatternMemory) -> Self {
        let selector = |name: &str| {
            let field = webhook.child(name);
            field.value().map(LabelSelector::from_object).unwrap_or_default()
        };
        let seconds = webhook
            .child("timeoutSeconds")
            .number()
            .and_then(|seconds| u64::try_from(seconds).ok());
        let listed_versions = webhook.child("admissionReviewVersions");
        let mut versions = listed_versions
            .items()
            .filter_map(|version| ReviewVersion::named(version.text()));
        Self {
            name: webhook.child("name").text().into(),
            configuration: configuration.into(),
            origin,
            client: ClientConfig::from_field(&webhook.child("clientConfig")),
            rules: webhook
                .child("rules")
                .items()
                .map(|rule| Rule::from_field(&rule))
                .collect(),
            equivalent: webhook.child("matchPolicy").text() != "Exact",
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            fails_open: webhook.child("failurePolicy").text() == "Ignore",
            timeout: Duration::from_secs(seconds.unwrap_or(10)),
            reinvoked: webhook.child("reinvocationPolicy").text() == "IfNeeded",
            review_version: versions.next().unwrap_or(ReviewVersion::V1),
            gate: Gate::compile(&webhook.child("matchConditions"), patterns),
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    fn configuration(names: &[&str]) -> Value {
        let webhooks: Vec<String> = names.iter().map(|name| format!("{{name: {name}}}")).collect();
        let text = format!("{{webhooks: [{}]}}", webhooks.join(", "));
        yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    fn names(webhooks: &[Arc<Webhook>]) -> Vec<&str> {
        webhooks.iter().map(|webhook| webhook.name.as_str()).collect()
    }

    #[test]
    fn webhooks_follow_configuration_name_order() {
        let webhooks = Webhooks::default();
        webhooks.set(WebhookType::Mutating, "z", Some(&configuration(&["one"])));
        webhooks.set(WebhookType::Mutating, "a", Some(&configuration(&["two", "three"])));
        webhooks.set(WebhookType::Validating, "a", Some(&configuration(&["four"])));
        assert_eq!(names(&webhooks.now().mutating), ["two", "three", "one"]);
        assert_eq!(names(&webhooks.now().validating), ["four"]);
        webhooks.set(WebhookType::Mutating, "a", None);
        assert_eq!(names(&webhooks.now().mutating), ["one"]);
        webhooks.set(WebhookType::Mutating, "z", None);
        assert!(webhooks.now().mutating.is_empty());
        assert_eq!(names(&webhooks.now().validating), ["four"]);
    }
}
