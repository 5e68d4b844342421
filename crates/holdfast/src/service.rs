//! The service: the parts of the server, assembled according to the flags.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use arc_swap::ArcSwap;
use holdfast_authentication::AnonymousConfig;
use holdfast_authorization::Authorizer;
use holdfast_authorization::node::{NodeAuthorizer, NodeFeatures, NodeGraph};
use holdfast_controllers::Selection;
use holdfast_egress::{Dialer, Network};
use holdfast_kind_tables::features::{Feature, FeatureGates};
use holdfast_resource::Registry;
use holdfast_resource::access::{RemoteTokenAuthenticator, TokenAuthenticator};
use holdfast_server::api::context::{Config, Context, Parts, Shared};
use holdfast_server::authentication::TokensOfNewKeys;
use holdfast_server::http::options::ListRules;
use holdfast_server::identity::{
    AccountsContext, Authenticator, BootstrapTokens, Impersonation, IssuerDocuments, LEGACY_ISSUER, LegacyTokens,
    SecretUse, ServiceAccounts, SharedKeys, Signer, TokenConfig, TokenFile, Tokens,
};
use holdfast_server::metrics::Metrics;
use holdfast_server::nodes::NodeConnections;
use holdfast_server::operations::debugging::Debugging;
use holdfast_server::operations::health::{Endpoint, Health};
use holdfast_server::operations::paths::{Pages, Paths};
use holdfast_server::operations::service::{PageFiles, Service};
use holdfast_server::operations::storage_versions::StorageVersionBarrier;
use holdfast_server::operations::testing::Testing;
use holdfast_server::operations::token_uses;
use holdfast_server::runtime::shutdown::Shutdown;
use holdfast_server::runtime::timeline::Timeline;
use holdfast_server::runtime::version::Build;
use holdfast_server::runtime::{Clock, RandomIdentifiers, SystemClock};
use holdfast_server::webhooks::Webhooks;
use holdfast_server::wire::in_flight::InFlight;
use holdfast_server::write::{FieldManagers, SizeLimit};
use smol_str::SmolStr;
use tokio::sync::mpsc::Receiver;

use crate::aggregation::{Aggregation, AggregationParts};
use crate::authentication::{Authentication, Surroundings};
use crate::authorization::{AuthorizationMode, AuthorizationParts, Configured};
use crate::egress::Egress;
use crate::flags::Serve;
use crate::health::{self, Milestones};
use crate::openapi::Documents;
use crate::profiling::Process;
use crate::signing::{EXTENDED_LIFE_SECONDS, TokenSigner};
use crate::static_admission::config;
use crate::store::Opened;
use crate::token_keys::TokenKeys;
use crate::traces::Traces;
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
    /// Graph of the mode `Node`, which the server keeps up to date.
    pub(crate) nodes: &'a Arc<NodeGraph>,
    /// The feature gates.
    pub(crate) gates: &'a FeatureGates,
    /// The controllers that run.
    pub(crate) controllers: &'a Selection,
    /// The authorizers.
    pub(crate) authorization: &'a Configured,
    /// State of the start for health checks.
    pub(crate) milestones: &'a Milestones,
    /// Address at which clients reach the server.
    pub(crate) reached: SocketAddr,
    /// Progress of the server's shutdown.
    pub(crate) shutdown: Shutdown,
    /// Endpoints for tests, if they are enabled.
    pub(crate) testing: Option<Arc<Testing>>,
    /// Timeline of requests, if it is enabled.
    pub(crate) timeline: Option<Arc<Timeline>>,
    /// Signer of service account tokens.
    pub(crate) token_signer: &'a TokenSigner,
    /// Proxies of networks, if there are any.
    pub(crate) egress: Option<&'a Egress>,
}

/// Authenticators of tokens that the store knows.
struct Accounts {
    current: Arc<ServiceAccounts>,
    /// Authenticator of tokens in Secrets.
    legacy: Arc<LegacyTokens>,
    /// Authenticator of bootstrap tokens, if it is enabled.
    bootstrap: Option<BootstrapTokens>,
    /// Uses of tokens in Secrets, to be noted there.
    uses: Receiver<SecretUse>,
    /// Public documents of the issuer.
    issuer: Option<IssuerDocuments>,
}

impl Assembly<'_> {
    /// Assembles the service.
    pub(crate) fn service(&self) -> Result<(Arc<Service>, Aggregation)> {
        let (flags, registry) = (self.flags, &self.registry);
        let loaded = flags
            .token_auth_file
            .as_deref()
            .map(|path| TokenFile::load(path).with_context(|| format!("--token-auth-file: {}", path.display())));
        let token_file = loaded.transpose()?;
        let has = |feature| self.kinds.features.has(feature);
        let Accounts {
            current: accounts,
            legacy,
            bootstrap,
            uses,
            issuer,
        } = self.accounts()?;
        let metrics = self.metrics().context("cannot set up metrics")?;
        metrics.count_kinds(legacy.counters())?;
        let authentication = self.authentication(&metrics)?;
        let bootstrap_tokens = bootstrap.map(|tokens| Arc::new(tokens) as Arc<dyn TokenAuthenticator>);
        let local = [
            Arc::new(
                token_file
                    .unwrap_or_default()
                    .with_audiences(token_config(flags).audiences),
            ) as Arc<dyn TokenAuthenticator>,
            Arc::clone(&accounts) as Arc<dyn TokenAuthenticator>,
            Arc::clone(&legacy) as Arc<dyn TokenAuthenticator>,
        ];
        let others = authentication.remote.clone().map(|remote| remote as Arc<_>);
        let remote = self.remote(others, [Arc::clone(&accounts) as _, legacy]);
        let tokens = Tokens::new(local.into_iter().chain(bootstrap_tokens)).with_remote(remote);
        let kubelets = flags.kubelets.load(self.dialer(Network::Cluster))?;
        let identity = kubelets.identity();
        let aggregation = flags.aggregation.load(AggregationParts {
            store: &self.opened.store,
            registry,
            reached: self.reached,
            metrics: &metrics,
            tells_uids: has(Feature::RemoteRequestHeaderUID),
            dialer: self.dialer(Network::Cluster),
            shutdown: &self.shutdown,
        })?;
        let types = Arc::clone(registry.load().types().table());
        let own_documents = Documents::new(Arc::clone(registry), types, self.kinds.features);
        let documents = aggregation.aggregator.documents(Arc::new(own_documents));
        let limits = [flags.max_requests_inflight, flags.max_mutating_requests_inflight];
        let levels = flags
            .fairness
            .levels(limits, flags.request_timeout, self.kinds.features)?;
        let in_flight = Arc::new(InFlight::new(
            flags.max_requests_inflight,
            flags.max_mutating_requests_inflight,
        ));
        let observer = Arc::new(metrics.audit().clone());
        let auditor = flags.audit.auditor(
            observer,
            self.dialer(Network::ControlPlane),
            &self.milestones.background,
            &self.shutdown,
        )?;
        let storage_versions = presence::barrier(self.kinds.features, &registry.load());
        let health = self.checks(auditor.is_some(), storage_versions.clone());
        let paths = Paths::new(Arc::clone(registry), health, self.reached.to_string(), &*self.clock());
        let traces = Traces::load(flags, self.dialer(Network::ControlPlane))?;
        let service = Service {
            context: Arc::new(self.context(tokens, accounts, Arc::clone(&metrics), kubelets.connections)?),
            authenticator: Authenticator {
                front_proxy: aggregation.front_proxy.clone(),
                ignores_certificate_uids: !has(Feature::AllowParsingUserUIDFromCertAuth),
                ..anonymous(flags, authentication.anonymous)
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
                .with_issuer(issuer)
                .with_debugging(self.debugging())
                .with_testing(self.testing.is_some())
                .with_history(self.flags.holdfast_apis),
            in_flight,
            fairness: levels,
            auditor,
            tracer: traces.as_ref().map(|traces| Arc::clone(&traces.tracer)),
            browsers: flags.transport.browsers()?,
            go_away: flags.transport.go_away()?,
            drain: flags.shutdown_send_retry_after.then(Arc::default),
            ends_unauthenticated_connections: has(Feature::UnauthenticatedHTTP2DOSMitigation),
            storage_versions,
            page: flags.ui.then_some(holdfast_ui::respond as PageFiles),
            testing: self.testing.clone(),
            timeline: self.timeline.clone(),
        };
        flags.kubelets.follow(identity, &service);
        if let Some(traces) = traces {
            traces.export();
        }
        let shared = Arc::new(service);
        token_uses::follow(&shared, uses);
        Ok((shared, aggregation))
    }

    /// Returns the dialer of a network; `None` for direct connections.
    fn dialer(&self, network: Network) -> Option<&Dialer> {
        self.egress?.selector.dialer(network)
    }

    /// Returns the pages about the process. A server in the process of a test has none.
    fn debugging(&self) -> Option<Debugging> {
        let verbosity = self.flags.verbosity.clone().filter(|_| self.flags.profiling)?;
        Some(Debugging::new(Process::new(verbosity)))
    }

    /// Returns the authenticators that ask other servers, and the rule for requests without credentials.
    fn authentication(&self, metrics: &Metrics) -> Result<Authentication> {
        let flags = self.flags;
        flags.authentication.load(&Surroundings {
            audiences: token_config(flags).audiences,
            own_issuers: &flags.service_account_issuer,
            is_anonymous_auth_set: flags.is_anonymous_auth_set,
            clock: self.clock(),
            metrics,
            egress: self.egress.map(|egress| &egress.selector),
            shutdown: &self.shutdown,
            background: &self.milestones.background,
        })
    }

    /// Returns the authenticators of service accounts and the public documents of their issuer.
    fn accounts(&self) -> Result<Accounts> {
        let flags = self.flags;
        let (signer, keys): (Signer, SharedKeys) = match self.token_signer {
            TokenSigner::External(signing) => {
                let keys = signing.signer.keys().clone();
                (Signer::External(Arc::clone(&signing.signer) as _), keys)
            }
            TokenSigner::Local(TokenKeys { signing, verifying }) => {
                let signer = signing.clone().map_or(Signer::None, Signer::Key);
                (signer, verifying.clone().into())
            }
        };
        let issuer = IssuerDocuments::new(
            flags.service_account_issuer.first().map_or("", String::as_str),
            &keys_url(flags, self.reached),
            keys.clone(),
        );
        let context = AccountsContext {
            registry: Arc::clone(&self.registry),
            store: Arc::clone(&self.opened.store),
            clock: self.clock(),
            identifiers: Arc::new(RandomIdentifiers::default()),
        };
        let config = self.token_config();
        let bootstrap = flags
            .enable_bootstrap_token_auth
            .then(|| BootstrapTokens::new(config.audiences.clone(), &context));
        let (legacy, uses) = LegacyTokens::new(config.audiences.clone(), keys.clone(), &context);
        Ok(Accounts {
            current: Arc::new(ServiceAccounts::new(config, signer, keys, context)),
            legacy: Arc::new(legacy),
            bootstrap,
            uses,
            issuer,
        })
    }

    /// Returns the configuration of service account tokens, within the limits of an external signer.
    fn token_config(&self) -> TokenConfig {
        let mut config = token_config(self.flags);
        if let Some(signing) = self.token_signer.external() {
            let longest = signing.signer.longest();
            config.longest.get_or_insert(longest);
            config.extended_life = config.extended_life.map(|life| life.min(longest));
        }
        config
    }

    /// Returns the authenticator of tokens that no local one accepts: those with a new key of an external signer, and
    /// those that `others` accept. `local` are the authenticators that use the keys of the signer.
    fn remote(
        &self,
        others: Option<Arc<dyn RemoteTokenAuthenticator>>,
        local: [Arc<dyn TokenAuthenticator>; 2],
    ) -> Option<Arc<dyn RemoteTokenAuthenticator>> {
        let Some(signing) = self.token_signer.external() else {
            return others;
        };
        let own = self.flags.service_account_issuer.iter().map(String::as_str);
        let issuers = own.chain([LEGACY_ISSUER]).map(str::to_owned).collect();
        let local = Arc::new(Tokens::new(local));
        let tokens = TokensOfNewKeys::new(Arc::clone(&signing.signer), issuers, local);
        Some(Arc::new(tokens.before(others)))
    }

    /// Returns the clock of the server.
    fn clock(&self) -> Arc<dyn Clock> {
        match &self.testing {
            Some(testing) => Arc::clone(&testing.clock) as _,
            None => Arc::new(SystemClock),
        }
    }

    /// Returns the chain of authorizers.
    fn authorizer(&self, metrics: &Metrics) -> Result<Arc<dyn Authorizer>> {
        let parts = AuthorizationParts {
            rbac: Arc::clone(&self.kinds.policy) as _,
            node: Arc::new(self.node_authorizer()),
            metrics,
            dialer: self.dialer(Network::ControlPlane),
            shutdown: &self.shutdown,
            background: &self.milestones.background,
        };
        self.flags.authorization.load(self.authorization, parts)
    }

    fn node_authorizer(&self) -> NodeAuthorizer {
        let features = self.kinds.features;
        let gates = NodeFeatures {
            pod_certificates: features.has(Feature::PodCertificateRequest),
            service_accounts: features.has(Feature::KubeletServiceAccountTokenForCredentialProviders),
        };
        NodeAuthorizer::new(Arc::clone(self.nodes), holdfast_kinds::node_rules(features), gates)
    }

    fn metrics(&self) -> Result<Arc<Metrics>> {
        let metrics = Metrics::new()?;
        if !self.flags.disabled_metrics.is_empty() {
            metrics.disable(self.flags.disabled_metrics.iter().cloned().collect());
        }
        metrics.count_objects(Arc::clone(&self.opened.store), Arc::clone(&self.registry))?;
        metrics.time_rules(Arc::clone(&self.kinds.rule_timings))?;
        metrics.count_kinds(self.kinds.counters.families())?;
        if let Some(signing) = self.token_signer.external() {
            metrics.count_signatures(&signing.metrics)?;
        }
        if let Some(egress) = self.egress {
            metrics.count_dials(&egress.metrics)?;
        }
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
        let checks = health::checks(health::Sources {
            flags: self.flags,
            store: Arc::clone(&self.opened.store),
            overrides: overrides.map_or(&[][..], |clusters| &clusters.overrides),
            encryption: self.opened.encryption.as_ref(),
            milestones: self.milestones,
            features: self.kinds.features,
            controllers: self.controllers,
            storage_versions,
            ending: self.shutdown.clone(),
        });
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
            size_limit: match (flags.max_object_bytes, flags.storage.etcd_servers.is_empty()) {
                (None, true) => SizeLimit::ETCD_REQUEST,
                (None, false) => SizeLimit::CLIENT_MESSAGE,
                (Some(bytes), true) => SizeLimit::Request(bytes),
                (Some(bytes), false) => SizeLimit::Message(bytes),
            },
            lists: ListRules {
                watch_list: features.has(Feature::WatchList),
                shards: features.has(Feature::ShardedListAndWatch),
            },
            unsafe_deletion: features.has(Feature::AllowUnsafeMalformedObjectDeletion),
            cbor: features.has(Feature::CBORServingAndStorage),
            compress: features.has(Feature::APIResponseCompression),
            own_apis: flags.holdfast_apis,
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
            webhooks: Webhooks::new(webhooks, Arc::clone(store), Arc::clone(registry))
                .with_credentials(credentials)
                .with_egress(self.egress.map(|egress| egress.selector.clone()).unwrap_or_default())
                .with_faults(self.testing.as_ref().map(|testing| Arc::clone(&testing.faults))),
            shared: Shared {
                registry: Arc::clone(registry),
                policies: Arc::clone(&self.kinds.policies),
                store: Arc::clone(store),
                authorizer: self.authorizer(&metrics)?,
                tokens: Arc::new(tokens),
                identifiers: Arc::new(RandomIdentifiers::default()),
                clock: self.clock(),
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

/// Returns an authenticator that accepts requests without credentials as `system:anonymous` by `configured`, or by the flags:
/// not if everybody may do everything.
fn anonymous(flags: &Serve, configured: Option<AnonymousConfig>) -> Authenticator {
    if let Some(AnonymousConfig { enabled, paths }) = configured {
        return Authenticator {
            anonymous: enabled,
            anonymous_paths: paths,
            ..Authenticator::default()
        };
    }
    let allows_all = flags.authorization.names(AuthorizationMode::AlwaysAllow);
    if flags.anonymous_auth && allows_all {
        tracing::warn!("the authorization mode AlwaysAllow switches --anonymous-auth off; use another mode");
    }
    Authenticator {
        anonymous: flags.anonymous_auth && !allows_all,
        ..Authenticator::default()
    }
}

/// Returns the configuration of service account tokens from the flags.
fn token_config(flags: &Serve) -> TokenConfig {
    let issuers = flags.service_account_issuer.clone();
    let audiences = if flags.api_audiences.is_empty() {
        issuers.first().into_iter().map(SmolStr::new).collect()
    } else {
        flags.api_audiences.iter().map(SmolStr::new).collect()
    };
    let longest = flags
        .service_account_max_token_expiration
        .filter(|limit| !limit.is_zero());
    TokenConfig {
        issuers,
        audiences,
        longest: longest.and_then(|longest| i64::try_from(longest.as_secs()).ok()),
        extended_life: flags
            .service_account_extend_token_expiration
            .then_some(EXTENDED_LIFE_SECONDS),
    }
}

/// Returns the URL of the issuer's keys.
fn keys_url(flags: &Serve, reached: SocketAddr) -> String {
    let own = || format!("https://{reached}{}", IssuerDocuments::KEYS_PATH);
    flags.service_account_jwks_uri.clone().unwrap_or_else(own)
}
