//! What a line in the list of a group's kinds says: the strategy of a kind and the capabilities that it has.

use std::sync::Arc;

use holdfast_resource::metadata::formats::Faults;
use holdfast_resource::quota::QuotaUsage;
use holdfast_resource::table::NamedCell;
use holdfast_resource::{
    AtRestRules, Capabilities, Claims, ComputedObjects, Connecter, Converts, Defines, DeletionRules, Followed, Generic,
    InitialObjects, MetadataChecks, NameRule, Old, RawExtensions, Resource, Responder, Review, RowRules, SelectorWords,
    Strategy, SubresourceAction, TokenClaim,
};
use holdfast_value::{SmolStr, Value};

use crate::config::Config;
use crate::metadata_checks;
use crate::versions::Versions;
use crate::workload::{TemplateWarnings, WithPodTemplate};

/// A kind: its strategy, and beside it what its capabilities are. [`Kind::done`] forgets the type of the strategy.
pub(crate) struct Kind<S: ?Sized = dyn Strategy> {
    strategy: Arc<S>,
    capabilities: Capabilities,
    deprecation: Option<&'static str>,
    cells: &'static [NamedCell],
    empty_status: bool,
    writes_status: bool,
    names: Option<NameRule>,
    metadata_checks: MetadataChecks,
}

/// A kind that does what its descriptor says, and has the capabilities that follow.
pub(crate) fn generic() -> Kind<Generic> {
    kind(Generic)
}

/// A kind with this strategy.
pub(crate) fn kind<S: Strategy + 'static>(strategy: S) -> Kind<S> {
    Kind {
        strategy: Arc::new(strategy),
        capabilities: Capabilities::default(),
        deprecation: None,
        cells: &[],
        empty_status: false,
        writes_status: false,
        names: None,
        metadata_checks: metadata_checks::MOST,
    }
}

impl<S: Strategy + 'static> Kind<S> {
    /// It has several versions, and converts between them.
    pub(crate) fn converts(mut self) -> Self
    where
        S: Converts,
    {
        self.capabilities.converts = Some(self.strategy.clone());
        self
    }

    /// Its versions beyond the default are converted by `versions`, where any of the group may be served.
    pub(crate) fn converts_by(mut self, config: &Config, group: &str, versions: Versions) -> Self {
        if config.apis.has_more(group) {
            self.capabilities.converts = Some(Arc::new(versions));
        }
        self
    }

    /// Its objects define resources.
    pub(crate) fn defines(mut self) -> Self
    where
        S: Defines,
    {
        self.capabilities.defines = Some(self.strategy.clone());
        self
    }

    /// It follows its stored objects.
    pub(crate) fn followed(mut self) -> Self
    where
        S: Followed,
    {
        self.capabilities.followed = Some(self.strategy.clone());
        self
    }

    /// Its objects hold what no other may hold.
    pub(crate) fn claims(mut self) -> Self
    where
        S: Claims,
    {
        self.capabilities.claims = Some(self.strategy.clone());
        self
    }

    /// Some of its objects exist from the start.
    pub(crate) fn initial_objects(mut self) -> Self
    where
        S: InitialObjects,
    {
        self.capabilities.initial_objects = Some(self.strategy.clone());
        self
    }

    /// A POST to `subresource`, or to the resource itself where that is empty, is answered and nothing is stored.
    pub(crate) fn review(self, subresource: &'static str, review: impl Review + 'static) -> Self {
        self.responder(subresource, Responder::Review(Arc::new(review)))
    }

    /// Its objects are computed when they are read.
    pub(crate) fn computed(self, objects: impl ComputedObjects + 'static) -> Self {
        self.responder("", Responder::Computed(Arc::new(objects)))
    }

    /// A POST to `subresource`, or to the resource itself where that is empty, changes stored objects.
    pub(crate) fn action(self, subresource: &'static str, action: impl SubresourceAction + 'static) -> Self {
        self.responder(subresource, Responder::Action(Arc::new(action)))
    }

    /// Requests to `subresource` go on to a node, a pod or a service.
    pub(crate) fn connects(self, subresource: &'static str, connecter: impl Connecter + 'static) -> Self {
        self.responder(subresource, Responder::Connect(Arc::new(connecter)))
    }

    /// As [`Kind::connects`], for several subresources.
    pub(crate) fn connects_each<C: Connecter + 'static>(
        self,
        connecters: impl IntoIterator<Item = (&'static str, C)>,
    ) -> Self {
        let connect = |kind: Self, (subresource, connecter)| kind.connects(subresource, connecter);
        connecters.into_iter().fold(self, connect)
    }

    fn responder(mut self, subresource: &'static str, responder: Responder) -> Self {
        self.capabilities.responders.push((subresource, responder));
        self
    }

    /// Names have a rule of the kind's own.
    pub(crate) fn named_by(mut self, faults: fn(&Value, &str) -> Faults) -> Self {
        self.capabilities.name_faults = Some(faults);
        self
    }

    /// Its objects are the namespaces in which other objects live.
    pub(crate) fn holds_namespaces(mut self) -> Self {
        self.capabilities.is_namespace = true;
        self
    }

    /// Policies have no say in writes to it.
    pub(crate) fn exempt_from_policies(mut self) -> Self {
        self.capabilities.exempt.policies = true;
        self
    }

    /// Webhooks have no say in writes to it.
    pub(crate) fn exempt_from_webhooks(mut self) -> Self {
        self.capabilities.exempt.webhooks = true;
        self
    }

    /// Deletion differs from that of other kinds.
    pub(crate) fn deletion(mut self, rules: DeletionRules) -> Self {
        self.capabilities.deletion = rules;
        self
    }

    /// Objects lie in etcd otherwise than they are served.
    pub(crate) fn at_rest(mut self, rules: AtRestRules) -> Self {
        self.capabilities.at_rest = rules;
        self
    }

    /// Objects are kept otherwise than they are served; this makes the one of the other.
    pub(crate) fn kept_by(mut self, kept: fn(Value, Old<'_>) -> Value) -> Self {
        self.capabilities.at_rest.kept = Some(kept);
        self
    }

    /// Objects that were kept in older versions are read by this.
    pub(crate) fn read_by(self, read: fn(Value) -> Value) -> Self {
        self.at_rest(AtRestRules {
            read: Some(read),
            ..AtRestRules::default()
        })
    }

    /// The rows of tables differ from those of other kinds.
    pub(crate) fn rows(mut self, rules: RowRules) -> Self {
        self.capabilities.rows = rules;
        self
    }

    /// Policies and webhooks that come from files of the server have a say all the same.
    pub(crate) fn but_from_those_of_files(mut self) -> Self {
        self.capabilities.exempt.but_of_files = true;
        self
    }

    /// Objects have raw extensions at these paths; `immutable` is the field around them, if that does not change.
    pub(crate) fn raw(mut self, fields: &'static [&'static [&'static str]], immutable: Option<&'static str>) -> Self {
        self.capabilities.raw = Some(RawExtensions {
            fields,
            status_fields: &[],
            immutable,
        });
        self
    }

    /// The status has raw extensions at these paths, too.
    pub(crate) fn raw_in_status(mut self, status_fields: &'static [&'static [&'static str]]) -> Self {
        if let Some(raw) = &mut self.capabilities.raw {
            raw.status_fields = status_fields;
        }
        self
    }

    /// An update counts as a change even where the server drops all that it changes.
    pub(crate) fn counts_dropped_fields(mut self) -> Self {
        self.capabilities.counts_dropped_fields = true;
        self
    }

    /// A new object keeps what its creator sends in the fields that writes to the object do not touch.
    pub(crate) fn keeps_reset_fields_at_creation(mut self) -> Self {
        self.capabilities.keeps_reset_fields_at_creation = true;
        self
    }

    /// A write to a subresource that changes these fields does not own them.
    pub(crate) fn unowned_fields(mut self, fields: &'static [(&'static str, &'static str)]) -> Self {
        self.capabilities.unowned_fields = fields;
        self
    }

    /// Every answer about the kind carries this warning.
    pub(crate) fn deprecated(mut self, warning: &'static str) -> Self {
        self.deprecation = Some(warning);
        self
    }

    /// Quotas count its objects by their plural name alone, too.
    pub(crate) fn counted_by_plural(mut self) -> Self {
        self.capabilities.quota.plain_name = true;
        self
    }

    /// Its objects take more of quotas than their number.
    pub(crate) fn takes_of_quotas(mut self, usage: impl QuotaUsage + 'static) -> Self {
        self.capabilities.quota.usage = Some(Arc::new(usage));
        self
    }

    /// Quotas do not count its objects.
    pub(crate) fn exempt_from_quotas(mut self) -> Self {
        self.capabilities.quota.exempt = true;
        self
    }

    /// The refusal of a selector by an unknown field is worded otherwise.
    pub(crate) fn selector_words(mut self, words: SelectorWords) -> Self {
        self.capabilities.selector_words = words;
        self
    }

    /// A token of a service account may end with an object of the kind, which its claim `name` names. Messages call the object
    /// `called`.
    pub(crate) fn ends_tokens(mut self, name: &'static str, called: &'static str) -> Self {
        self.capabilities.token_claim = Some(TokenClaim { name, called });
        self
    }

    /// Its objects hold a template of Pods at `path`.
    pub(crate) fn pod_template(
        mut self,
        path: &'static [&'static str],
        warnings: TemplateWarnings,
    ) -> Kind<WithPodTemplate<S>> {
        self.capabilities.pod_template = Some(path);
        self.capabilities.parts.push(path);
        self.with_strategy(|kind| Arc::new(WithPodTemplate { kind, path, warnings }))
    }

    /// Its objects have a part at `path` that is checked by what it holds alone; see [`Check::alone`](holdfast_resource::Check::alone).
    pub(crate) fn part(mut self, path: &'static [&'static str]) -> Self {
        self.capabilities.parts.push(path);
        self
    }

    /// A new object has the zero value of its status, whatever its writer sends.
    pub(crate) fn empty_status(mut self) -> Self {
        self.empty_status = true;
        self
    }

    /// Writes to the object change its status too.
    pub(crate) fn writes_status(mut self) -> Self {
        self.writes_status = true;
        self
    }

    /// Its names follow another rule than the table has.
    pub(crate) fn names(mut self, rule: Option<NameRule>) -> Self {
        self.names = rule;
        self
    }

    /// Validation of the kind looks at metadata as often as `checks` say.
    pub(crate) fn metadata_checks(mut self, checks: MetadataChecks) -> Self {
        self.metadata_checks = checks;
        self
    }

    /// Columns of its tables name these cells.
    pub(crate) fn cells(mut self, cells: &'static [NamedCell]) -> Self {
        self.cells = cells;
        self
    }

    /// The kind, whatever the type of its strategy.
    pub(crate) fn done(self) -> Kind {
        self.with_strategy::<dyn Strategy>(|strategy| strategy)
    }

    /// The same with another strategy, which `of` makes of this one.
    fn with_strategy<T: ?Sized>(self, of: impl FnOnce(Arc<S>) -> Arc<T>) -> Kind<T> {
        Kind {
            strategy: of(self.strategy),
            capabilities: self.capabilities,
            deprecation: self.deprecation,
            cells: self.cells,
            empty_status: self.empty_status,
            writes_status: self.writes_status,
            names: self.names,
            metadata_checks: self.metadata_checks,
        }
    }
}

impl Default for Kind {
    fn default() -> Self {
        generic().done()
    }
}

impl Kind {
    /// `resource`, which does what the kind does.
    pub(crate) fn behind(&self, mut resource: Resource) -> Resource {
        resource.strategy = Arc::clone(&self.strategy);
        resource.capabilities = self.capabilities.clone();
        resource.rules.metadata_checks = self.metadata_checks;
        resource
    }

    /// Whether a new object has the zero value of its status, whatever its writer sends.
    pub(crate) fn has_empty_status(&self) -> bool {
        self.empty_status
    }

    /// Whether writes to the object change its status too.
    pub(crate) fn takes_status(&self) -> bool {
        self.writes_status
    }

    /// The rule of its names, where it is another than the table has.
    pub(crate) fn name_rule(&self) -> Option<NameRule> {
        self.names
    }

    /// The warning that every answer about the kind carries.
    pub(crate) fn deprecation(&self) -> Option<SmolStr> {
        self.deprecation.map(SmolStr::new_static)
    }

    /// The cells that columns of its tables name.
    pub(crate) fn cells(&self) -> &'static [NamedCell] {
        self.cells
    }
}
