//! Kinds as the lists of groups declare them: the strategy of a kind and its capabilities.

use std::sync::Arc;

use holdfast_kind_tables::Kind;
use holdfast_resource::quota::QuotaUsage;
use holdfast_resource::table::NamedCell;
use holdfast_resource::{
    AtRestRules, Claims, ComputedObjects, Connecter, Converts, Defines, DeletionRules, Followed, Generic, HiddenField,
    InitialObjects, Old, RawExtensions, Responder, Review, RowRules, SelectorWords, Strategy, SubresourceAction,
    TokenClaim,
};
use holdfast_schema::metadata::formats::Messages;
use holdfast_schema::{MetadataChecks, NameRule};
use holdfast_value::Value;

use crate::config::Config;
use crate::versions::Versions;
use crate::workload::{TemplateWarnings, WithPodTemplate};

/// Builder of a kind with a strategy of type `S`. Its methods add capabilities.
pub(crate) struct KindBuilder<S> {
    strategy: Arc<S>,
    kind: Kind,
}

/// Returns a kind that only does what its descriptor states. The methods of [`KindBuilder`] add capabilities.
pub(crate) fn generic() -> KindBuilder<Generic> {
    kind(Generic)
}

/// Returns a kind with this strategy.
pub(crate) fn kind<S: Strategy + 'static>(strategy: S) -> KindBuilder<S> {
    KindBuilder {
        strategy: Arc::new(strategy),
        kind: Kind::default(),
    }
}

impl<S: Strategy + 'static> KindBuilder<S> {
    /// Declares that the kind has several versions and converts between them.
    pub(crate) fn converts(mut self) -> Self
    where
        S: Converts,
    {
        self.kind.capabilities.converts = Some(self.strategy.clone());
        self
    }

    /// Declares that `versions` converts the versions other than the default, if any of the group may be served.
    pub(crate) fn converts_by(mut self, config: &Config, group: &str, versions: Versions) -> Self {
        if config.apis.has_more(group) {
            self.kind.capabilities.converts = Some(Arc::new(versions));
        }
        self
    }

    /// Declares that objects of the kind define resources.
    pub(crate) fn defines(mut self) -> Self
    where
        S: Defines,
    {
        self.kind.capabilities.defines = Some(self.strategy.clone());
        self
    }

    /// Declares that the kind observes its stored objects.
    pub(crate) fn followed(mut self) -> Self
    where
        S: Followed,
    {
        self.kind.capabilities.followed = Some(self.strategy.clone());
        self
    }

    /// Declares that objects of the kind claim values that no other object may have.
    pub(crate) fn claims(mut self) -> Self
    where
        S: Claims,
    {
        self.kind.capabilities.claims = Some(self.strategy.clone());
        self
    }

    /// Declares that some objects of the kind exist from the start.
    pub(crate) fn initial_objects(mut self) -> Self
    where
        S: InitialObjects,
    {
        self.kind.capabilities.initial_objects = Some(self.strategy.clone());
        self
    }

    /// Adds a review: a POST to `subresource`, or to the resource itself if that is empty, stores nothing.
    pub(crate) fn review(self, subresource: &'static str, review: impl Review + 'static) -> Self {
        self.responder(subresource, Responder::Review(Arc::new(review)))
    }

    /// Declares that objects of the kind are computed when they are read.
    pub(crate) fn computed(self, objects: impl ComputedObjects + 'static) -> Self {
        self.responder("", Responder::Computed(Arc::new(objects)))
    }

    /// Adds an action: a POST to `subresource`, or to the resource itself if that is empty, changes stored objects.
    pub(crate) fn action(self, subresource: &'static str, action: impl SubresourceAction + 'static) -> Self {
        self.responder(subresource, Responder::Action(Arc::new(action)))
    }

    /// Declares that requests to `subresource` connect to a node, a pod or a service.
    pub(crate) fn connects(self, subresource: &'static str, connecter: impl Connecter + 'static) -> Self {
        self.responder(subresource, Responder::Connect(Arc::new(connecter)))
    }

    /// Declares several subresources like [`KindBuilder::connects`].
    pub(crate) fn connects_each<C: Connecter + 'static>(
        self,
        connecters: impl IntoIterator<Item = (&'static str, C)>,
    ) -> Self {
        let connect = |kind: Self, (subresource, connecter)| kind.connects(subresource, connecter);
        connecters.into_iter().fold(self, connect)
    }

    fn responder(mut self, subresource: &'static str, responder: Responder) -> Self {
        self.kind.capabilities.responders.push((subresource, responder));
        self
    }

    /// Sets the rule for names of objects of the kind.
    pub(crate) fn named_by(mut self, errors: fn(&Value, &str) -> Messages) -> Self {
        self.kind.capabilities.name_errors = Some(errors);
        self
    }

    /// Declares that objects of the kind are the namespaces of other objects.
    pub(crate) fn holds_namespaces(mut self) -> Self {
        self.kind.capabilities.is_namespace = true;
        self
    }

    /// Exempts the kind from admission policies.
    pub(crate) fn exempt_from_policies(mut self) -> Self {
        self.kind.capabilities.exempt.policies = true;
        self
    }

    /// Exempts the kind from webhooks.
    pub(crate) fn exempt_from_webhooks(mut self) -> Self {
        self.kind.capabilities.exempt.webhooks = true;
        self
    }

    /// Sets the deletion rules of the kind.
    pub(crate) fn deletion(mut self, rules: DeletionRules) -> Self {
        self.kind.capabilities.deletion = rules;
        self
    }

    /// Sets rules for objects whose form in etcd differs from the served form.
    pub(crate) fn at_rest(mut self, rules: AtRestRules) -> Self {
        self.kind.capabilities.at_rest = rules;
        self
    }

    /// Sets the function that converts objects from the served to the stored form.
    pub(crate) fn kept_by(mut self, kept: fn(Value, Old<'_>) -> Value) -> Self {
        self.kind.capabilities.at_rest.kept = Some(kept);
        self
    }

    /// Sets the field that is stored in some objects but not served.
    pub(crate) fn hides(mut self, hidden: HiddenField) -> Self {
        self.kind.capabilities.at_rest.hidden = Some(hidden);
        self
    }

    /// Sets the function that converts objects that older versions stored.
    pub(crate) fn read_by(self, read: fn(Value) -> Value) -> Self {
        self.at_rest(AtRestRules {
            read: Some(read),
            ..AtRestRules::default()
        })
    }

    /// Sets the rules for rows of tables.
    pub(crate) fn rows(mut self, rules: RowRules) -> Self {
        self.kind.capabilities.rows = rules;
        self
    }

    /// Limits exemptions to policies and webhooks of the API: those from files of the server apply to the kind.
    pub(crate) fn but_from_those_of_files(mut self) -> Self {
        self.kind.capabilities.exempt.but_of_files = true;
        self
    }

    /// Sets the paths of raw extensions. `immutable` is the field around them, if it does not change.
    pub(crate) fn raw(mut self, fields: &'static [&'static [&'static str]], immutable: Option<&'static str>) -> Self {
        self.kind.capabilities.raw = Some(RawExtensions {
            fields,
            status_fields: &[],
            immutable,
        });
        self
    }

    /// Sets the paths of raw extensions in the status.
    pub(crate) fn raw_in_status(mut self, status_fields: &'static [&'static [&'static str]]) -> Self {
        if let Some(raw) = &mut self.kind.capabilities.raw {
            raw.status_fields = status_fields;
        }
        self
    }

    /// Declares that an update counts as a change even if the server drops everything that it changes.
    pub(crate) fn counts_dropped_fields(mut self) -> Self {
        self.kind.capabilities.counts_dropped_fields = true;
        self
    }

    /// Declares that a new object keeps the fields from its creator that writes to the object do not change.
    pub(crate) fn keeps_reset_fields_at_creation(mut self) -> Self {
        self.kind.capabilities.keeps_reset_fields_at_creation = true;
        self
    }

    /// Sets the fields that a write to a subresource changes without owning them.
    pub(crate) fn unowned_fields(mut self, fields: &'static [(&'static str, &'static str)]) -> Self {
        self.kind.capabilities.unowned_fields = fields;
        self
    }

    /// Sets the warning of every response about the kind.
    pub(crate) fn deprecated(mut self, warning: &'static str) -> Self {
        self.kind.deprecation = Some(warning);
        self
    }

    /// Declares that quotas also count objects of the kind by the plural name only.
    pub(crate) fn counted_by_plural(mut self) -> Self {
        self.kind.capabilities.quota.plain_name = true;
        self
    }

    /// Sets the usage of quotas beyond the number of objects.
    pub(crate) fn takes_of_quotas(mut self, usage: impl QuotaUsage + 'static) -> Self {
        self.kind.capabilities.quota.usage = Some(Arc::new(usage));
        self
    }

    /// Exempts objects of the kind from quotas.
    pub(crate) fn exempt_from_quotas(mut self) -> Self {
        self.kind.capabilities.quota.exempt = true;
        self
    }

    /// Sets the messages for selectors with an unknown field.
    pub(crate) fn selector_words(mut self, words: SelectorWords) -> Self {
        self.kind.capabilities.selector_words = words;
        self
    }

    /// Declares that service account tokens may be bound to objects of the kind, with the claim `name`. Messages call
    /// the object `called`.
    pub(crate) fn ends_tokens(mut self, name: &'static str, called: &'static str) -> Self {
        self.kind.capabilities.token_claim = Some(TokenClaim { name, called });
        self
    }

    /// Declares a pod template at `path`.
    pub(crate) fn pod_template(
        mut self,
        path: &'static [&'static str],
        warnings: TemplateWarnings,
    ) -> KindBuilder<WithPodTemplate<S>> {
        self.kind.capabilities.pod_template = Some(path);
        self.kind.capabilities.parts.push(path);
        let strategy = WithPodTemplate {
            kind: self.strategy,
            path,
            warnings,
        };
        KindBuilder {
            strategy: Arc::new(strategy),
            kind: self.kind,
        }
    }

    /// Declares a part at `path` that is validated independently of the rest; see
    /// [`Check::independent_part`](holdfast_schema::Check::independent_part).
    pub(crate) fn part(mut self, path: &'static [&'static str]) -> Self {
        self.kind.capabilities.parts.push(path);
        self
    }

    /// Declares that a new object has the zero value of its status, whatever its creator sends.
    pub(crate) fn empty_status(mut self) -> Self {
        self.kind.empty_status = true;
        self
    }

    /// Declares that writes to the object also change its status.
    pub(crate) fn writes_status(mut self) -> Self {
        self.kind.writes_status = true;
        self
    }

    /// Sets a rule for names that differs from that of the table.
    pub(crate) fn names(mut self, rule: Option<NameRule>) -> Self {
        self.kind.names = rule;
        self
    }

    /// Sets the number of times that validation of the kind checks the metadata.
    pub(crate) fn metadata_checks(mut self, checks: MetadataChecks) -> Self {
        self.kind.metadata_checks = checks;
        self
    }

    /// Sets the cells that columns of its tables name.
    pub(crate) fn cells(mut self, cells: &'static [NamedCell]) -> Self {
        self.kind.cells = cells;
        self
    }

    /// Returns the kind.
    pub(crate) fn done(self) -> Kind {
        Kind {
            strategy: self.strategy,
            ..self.kind
        }
    }
}
