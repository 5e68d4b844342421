//! The service: the parts of the server, assembled according to the flags.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use arc_swap::ArcSwap;
use holdfast_authorization::rbac::RuleIndex;
use holdfast_authorization::{AlwaysAllow, AlwaysDeny, Authorizer, Chain};
use holdfast_controllers::Selection;
use holdfast_kind_tables::features::{Feature, FeatureGates};
use holdfast_resource::Registry;
use holdfast_resource::access::TokenAuthenticator;
use holdfast_server::api::context::{Config, Context, MAX_OBJECT_BYTES, MAX_OBJECT_BYTES_ON_ETCD, Parts, Shared};
use holdfast_server::http::options::ListRules;
use holdfast_server::identity::{
    AccountsContext, Authenticator, Impersonation, IssuerDocuments, ServiceAccounts, TokenConfig, TokenFile, Tokens,
};
use holdfast_server::metrics::Metrics;
use holdfast_server::nodes::NodeConnections;
use holdfast_server::operations::health::{Endpoint, Health};
use holdfast_server::operations::paths::{Pages, Paths};
use holdfast_server::operations::service::Service;
use holdfast_server::operations::storage_versions::StorageVersionBarrier;
use holdfast_server::runtime::shutdown::Shutdown;
use holdfast_server::runtime::version::Build;
use holdfast_server::runtime::{RandomIdentifiers, SystemClock};
use holdfast_server::webhooks::Webhooks;
use holdfast_server::wire::in_flight::InFlight;
use holdfast_server::write::FieldManagers;
use smol_str::SmolStr;

use crate::aggregation::Aggregation;
use crate::flags::{AuthorizationMode, Serve};
use crate::health::{self, Milestones};
use crate::openapi::Documents;
use crate::static_admission::config;
use crate::store::Opened;
use crate::token_keys::TokenKeys;
use crate::{admission, audit, presence};

/// Build information from `build.rs`.
const BUILD: Build = Build {
    commit: env!("HOLDFAST_GIT_COMMIT"),
    tree_state: env!("HOLDFAST_GIT_TREE_STATE"),
    date: env!("HOLDFAST_BUILD_DATE"),
    compiler: env!("HOLDFAST_COMPILER"),
};

/// Parts of a service.
pub(crate) struct Assembly<'a> {
    pub(crate) flags: &'a Serve,
    /// The resources that are served.
    pub(crate) registry: Arc<ArcSwap<Registry>>,
    /// The store.
    pub(crate) opened: &'a Opened,
    /// The built-in kinds.
    pub(crate) kinds: &'a holdfast_kinds::Config,
    /// The feature gates.
    pub(crate) gates: &'a FeatureGates,
    /// The controllers that run.
    pub(crate) controllers: &'a Selection,
    /// State of the start for health checks.
    pub(crate) milestones: &'a Milestones,
    /// Address at which clients reach the server.
    pub(crate) reached: SocketAddr,
    /// Progress of the server's shutdown.
    pub(crate) shutdown: Shutdown,
}

impl Assembly<'_> {
    /// Assembles the service.
    pub(crate) fn service(&self) -> Result<(Arc<Service>, Aggregation)> {
        let (flags, registry) = (self.flags, &self.registry);
        let token_file = flags
            .token_auth_file
            .as_deref()
            .map(|path| TokenFile::load(path).with_context(|| format!("--token-auth-file: {}", path.display())));
        let token_file = token_file.transpose()?;
        let has = |feature| self.kinds.features.has(feature);
        let (accounts, issuer) = self.accounts()?;
        let tokens = Tokens::new([
            Arc::new(token_file.unwrap_or_default()) as Arc<dyn TokenAuthenticator>,
            Arc::clone(&accounts) as Arc<dyn TokenAuthenticator>,
        ]);
        let metrics = self.metrics().context("cannot set up metrics")?;
        let kubelets = flags.kubelets.load()?;
        let identity = kubelets.identity();
        let stores = (&self.opened.store, registry);
        let aggregation = flags.aggregation.load(
            stores,
            self.reached,
            (&metrics, has(Feature::RemoteRequestHeaderUID)),
            &self.shutdown,
        )?;
        let types = Arc::clone(registry.load().types().table());
        let documents = Documents::new(Arc::clone(registry), types, self.kinds.features);
        let documents = aggregation.aggregator.documents(Arc::new(documents));
        let limits = [flags.max_requests_inflight, flags.max_mutating_requests_inflight];
        let levels = flags
            .fairness
            .levels(limits, flags.request_timeout, self.kinds.features)?;
        let in_flight = Arc::new(InFlight::new(
            flags.max_requests_inflight,
            flags.max_mutating_requests_inflight,
        ));
        let observer = Arc::new(metrics.audit().clone());
        let auditor = flags
            .audit
            .auditor(observer, &self.milestones.background, &self.shutdown)?;
        let storage_versions = presence::barrier(self.kinds.features, &registry.load());
        let health = self.checks(auditor.is_some(), storage_versions.clone());
        let paths = Paths::new(Arc::clone(registry), health, self.reached.to_string(), &SystemClock);
        let service = Service {
            context: Arc::new(self.context(tokens, accounts, Arc::clone(&metrics), kubelets.connections)?),
            authenticator: Authenticator {
                anonymous: anonymous(flags),
                front_proxy: aggregation.front_proxy.clone(),
                ignores_certificate_uids: !has(Feature::AllowParsingUserUIDFromCertAuth),
            },
            impersonation: Impersonation::new(has(Feature::ConstrainedImpersonation)),
            paths: paths
                .with_build(&BUILD)
                .with_flags(flags.stated.clone())
                .with_pages(Pages {
                    flagz: has(Feature::ComponentFlagz),
                    statusz: has(Feature::ComponentStatusz),
                    cbor: has(Feature::CBORServingAndStorage),
                })
                .with_openapi(documents)
                .with_aggregator(Arc::clone(&aggregation.aggregator))
                .with_metrics(metrics, Arc::clone(&in_flight))
                .with_fairness(levels.clone())
                .with_issuer(issuer),
            in_flight,
            fairness: levels,
            auditor,
            browsers: flags.transport.browsers()?,
            go_away: flags.transport.go_away()?,
            ends_unauthenticated_connections: has(Feature::UnauthenticatedHTTP2DOSMitigation),
            storage_versions,
        };
        flags.kubelets.follow(identity, &service);
        Ok((Arc::new(service), aggregation))
    }

    /// Returns the service accounts and the public documents of their issuer.
    fn accounts(&self) -> Result<(Arc<ServiceAccounts>, Option<IssuerDocuments>)> {
        let flags = self.flags;
        let keys = TokenKeys::load(
            &flags.data_dir.join("pki"),
            flags.service_account_signing_key_file.as_deref(),
            &flags.service_account_key_file,
        )?;
        let issuer = IssuerDocuments::new(
            flags.service_account_issuer.first().map_or("", String::as_str),
            &keys_url(flags, self.reached),
            &keys.verifying,
        );
        let context = AccountsContext {
            registry: Arc::clone(&self.registry),
            store: Arc::clone(&self.opened.store),
            clock: Arc::new(SystemClock),
            identifiers: Arc::new(RandomIdentifiers::default()),
        };
        let accounts = ServiceAccounts::new(token_config(flags), keys.signing, keys.verifying, context);
        Ok((Arc::new(accounts), issuer))
    }

    fn metrics(&self) -> Result<Arc<Metrics>> {
        let metrics = Metrics::new()?;
        metrics.count_objects(Arc::clone(&self.opened.store), Arc::clone(&self.registry))?;
        metrics.time_rules(Arc::clone(&self.kinds.rule_timings))?;
        metrics.count_kinds(self.kinds.counters.families())?;
        metrics.record_build(&BUILD)?;
        let gates = self.gates.iter();
        metrics.record_features(gates.map(|gate| (gate.name, gate.stage.name(), gate.on)))?;
        if let Some(clusters) = &self.opened.clusters {
            metrics.count_etcd(clusters.calls.clone())?;
        }
        Ok(Arc::new(metrics))
    }

    fn checks(&self, audited: bool, storage_versions: Option<Arc<StorageVersionBarrier>>) -> Health {
        let overrides = self.opened.clusters.as_ref();
        let stores = (
            Arc::clone(&self.opened.store),
            overrides.map_or(&[][..], |clusters| &clusters.overrides),
        );
        let checks = health::checks(
            self.flags,
            stores,
            (self.milestones, self.kinds.features),
            self.controllers,
            storage_versions,
            self.shutdown.clone(),
        );
        let background = self.milestones.background.clone();
        match audited {
            true => checks.with(audit::CHECK, Endpoint::ALL, move || background.outcome(audit::CHECK)),
            false => checks,
        }
    }

    fn config(&self) -> Config {
        let (flags, features) = (self.flags, self.kinds.features);
        Config {
            request_timeout: flags.request_timeout,
            min_watch_timeout: Duration::from_secs(flags.min_request_timeout),
            deletion_workers: flags.storage.delete_collection_workers.max(1),
            max_object_bytes: flags
                .max_object_bytes
                .unwrap_or(match flags.storage.etcd_servers.is_empty() {
                    true => MAX_OBJECT_BYTES,
                    false => MAX_OBJECT_BYTES_ON_ETCD,
                }),
            lists: ListRules {
                watch_list: features.has(Feature::WatchList),
                shards: features.has(Feature::ShardedListAndWatch),
            },
            unsafe_deletion: features.has(Feature::AllowUnsafeMalformedObjectDeletion),
            cbor: features.has(Feature::CBORServingAndStorage),
            compress: features.has(Feature::APIResponseCompression),
        }
    }

    fn context(
        &self,
        tokens: Tokens,
        accounts: Arc<ServiceAccounts>,
        metrics: Arc<Metrics>,
        nodes: NodeConnections,
    ) -> Result<Context> {
        let (flags, registry, store) = (self.flags, &self.registry, &self.opened.store);
        let webhooks = Arc::clone(&self.kinds.webhooks);
        let admission = admission::chain(
            &flags.enable_admission_plugins,
            &flags.disable_admission_plugins,
            &admission::settings(flags, self.kinds)?,
        )?;
        let credentials = config::webhook_credentials(&flags.static_admission.configurations()?)?;
        metrics.time_admission(Arc::clone(admission.timings()))?;
        Ok(Context::new(Parts {
            webhooks: Webhooks::new(webhooks, Arc::clone(store), Arc::clone(registry)).with_credentials(credentials),
            shared: Shared {
                registry: Arc::clone(registry),
                policies: Arc::clone(&self.kinds.policies),
                store: Arc::clone(store),
                authorizer: Arc::new(authorizer(flags, &self.kinds.policy)),
                tokens: Arc::new(tokens),
                identifiers: Arc::new(RandomIdentifiers::default()),
                clock: Arc::new(SystemClock),
                metrics,
            },
            field_managers: FieldManagers::new(Arc::clone(registry.load().types())),
            nodes,
            issuer: accounts,
            admission,
            shutdown: self.shutdown.clone(),
            background: self.milestones.background.clone(),
            config: self.config(),
        }))
    }
}

/// Returns the authorizers in the order of the flags.
fn authorizer(flags: &Serve, policy: &Arc<RuleIndex>) -> Chain {
    let modes = flags.authorization_mode.iter();
    Chain::new(modes.filter_map(|mode| -> Option<Arc<dyn Authorizer>> {
        match mode {
            AuthorizationMode::Rbac => Some(Arc::clone(policy) as _),
            AuthorizationMode::AlwaysAllow => Some(Arc::new(AlwaysAllow)),
            AuthorizationMode::AlwaysDeny => Some(Arc::new(AlwaysDeny)),
            // It decides only about nodes.
            AuthorizationMode::Node => None,
        }
    }))
}

/// Returns true if requests without credentials are accepted as `system:anonymous`: not if everybody may do everything.
fn anonymous(flags: &Serve) -> bool {
    let allows_all = flags.authorization_mode.contains(&AuthorizationMode::AlwaysAllow);
    if flags.anonymous_auth && allows_all {
        tracing::warn!("the authorization mode AlwaysAllow switches --anonymous-auth off; use another mode");
    }
    flags.anonymous_auth && !allows_all
}

/// Returns the configuration of service account tokens from the flags.
fn token_config(flags: &Serve) -> TokenConfig {
    let issuers = flags.service_account_issuer.clone();
    let audiences = if flags.api_audiences.is_empty() {
        issuers.first().into_iter().map(SmolStr::new).collect()
    } else {
        flags.api_audiences.iter().map(SmolStr::new).collect()
    };
    let longest = flags.service_account_max_token_expiration;
    let longest = longest.filter(|longest| !longest.is_zero());
    TokenConfig {
        issuers,
        audiences,
        longest: longest.and_then(|longest| i64::try_from(longest.as_secs()).ok()),
        extends: flags.service_account_extend_token_expiration,
    }
}

/// Returns the URL of the issuer's keys.
fn keys_url(flags: &Serve, reached: SocketAddr) -> String {
    let own = || format!("https://{reached}{}", IssuerDocuments::KEYS_PATH);
    flags.service_account_jwks_uri.clone().unwrap_or_else(own)
}
