//! kube-apiserver's flags for the chain of authorizers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use holdfast_authorization::abac::PolicyList;
use holdfast_authorization::{AlwaysAllow, AlwaysDeny, Authorizer, Chain, Decision};
use holdfast_egress::Dialer;
use holdfast_gotext::duration;
use holdfast_gotext::errors::aggregate;
use holdfast_gotext::quote::quote;
use holdfast_schema::Aggregate;
use holdfast_server::authorization::{
    AccessReviewVersion, AuthorizationConfiguration, AuthorizationWebhook, AuthorizerConfig, Counted, MatchConditions,
    ReloadableChain, WebhookRules, WebhookSettings, validate,
};
use holdfast_server::metrics::{AuthorizationMetrics, Metrics};
use holdfast_server::runtime::background::Background;
use holdfast_server::runtime::shutdown::Shutdown;

use crate::authentication::server_hash;
use crate::files;
use crate::reload::{self, Changes, FileState};
use crate::webhook::Webhook;

/// Interval at which the file is read even if it seems not to have changed.
const RETRY_PERIOD: Duration = Duration::from_secs(60);

/// Name of the webhook of the flags.
const DEFAULT_NAME: &str = "default";

/// Time limit of a call of the webhook of the flags.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Flags about the authorizers.
#[derive(Clone, Debug, Args)]
pub(crate) struct AuthorizationFlags {
    /// Ordered list of authorizers: RBAC, Node, Webhook, ABAC, AlwaysAllow, AlwaysDeny. A cluster with nodes needs Node,RBAC
    /// and the admission plugin NodeRestriction
    #[arg(long, value_name = "MODES", value_delimiter = ',', default_value = "RBAC", value_parser = authorization_mode)]
    authorization_mode: Vec<AuthorizationMode>,

    /// File with an AuthorizationConfiguration: the chain of authorizers, with any number of webhooks and their match
    /// conditions. Reloaded when it changes. Excludes --authorization-mode and --authorization-webhook-*
    #[arg(long, value_name = "FILE")]
    authorization_config: Option<PathBuf>,

    /// File with the policies of the mode ABAC: one JSON object per line
    #[arg(long, value_name = "FILE")]
    authorization_policy_file: Option<PathBuf>,

    /// kubeconfig of the webhook of the mode Webhook
    #[arg(long, value_name = "FILE")]
    authorization_webhook_config_file: Option<PathBuf>,

    /// API version of the SubjectAccessReviews that the webhook gets: v1 or v1beta1
    #[arg(long, value_name = "VERSION", default_value = "v1beta1")]
    authorization_webhook_version: String,

    /// Time to cache that the webhook allows a request; 0 for no cache
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse_from_zero)]
    authorization_webhook_cache_authorized_ttl: Duration,

    /// Time to cache that the webhook does not allow a request; 0 for no cache
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse_from_zero)]
    authorization_webhook_cache_unauthorized_ttl: Duration,

    /// True if a flag is set that excludes --authorization-config.
    #[arg(skip)]
    pub(crate) has_mode_flags: bool,
}

/// Ids of the flags that exclude --authorization-config.
pub(crate) const MODE_FLAGS: [&str; 5] = [
    "authorization_mode",
    "authorization_webhook_config_file",
    "authorization_webhook_version",
    "authorization_webhook_cache_authorized_ttl",
    "authorization_webhook_cache_unauthorized_ttl",
];

/// Type of an authorizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AuthorizationMode {
    /// Policies of a file.
    Abac,
    /// Everything is allowed.
    AlwaysAllow,
    /// Nothing is allowed, but to members of `system:masters`.
    AlwaysDeny,
    /// Permissions of nodes for their own objects and those that their Pods need.
    Node,
    /// Roles and bindings.
    Rbac,
    /// Another server decides.
    Webhook,
}

impl AuthorizationMode {
    const ALL: [Self; 6] = [
        Self::Abac,
        Self::AlwaysAllow,
        Self::AlwaysDeny,
        Self::Node,
        Self::Rbac,
        Self::Webhook,
    ];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Abac => "ABAC",
            Self::AlwaysAllow => "AlwaysAllow",
            Self::AlwaysDeny => "AlwaysDeny",
            Self::Node => "Node",
            Self::Rbac => "RBAC",
            Self::Webhook => "Webhook",
        }
    }
}

fn authorization_mode(text: &str) -> Result<AuthorizationMode, String> {
    let mode = AuthorizationMode::named(text);
    mode.ok_or_else(|| format!("authorization-mode {} is not a valid mode", quote(text)))
}

/// A valid configuration.
pub(crate) struct Configured {
    configuration: AuthorizationConfiguration,
    /// Text of the file, if it comes from one.
    text: Option<Vec<u8>>,
}

impl Configured {
    /// True if there is an authorizer of that type.
    pub(crate) fn has(&self, mode: AuthorizationMode) -> bool {
        let authorizers = &self.configuration.authorizers;
        authorizers.iter().any(|authorizer| authorizer.kind == mode.name())
    }
}

/// Parts of the server that authorization depends on.
pub(crate) struct AuthorizationParts<'a> {
    /// Authorizer of the mode `RBAC`.
    pub(crate) rbac: Arc<dyn Authorizer>,
    /// Authorizer of the mode `Node`.
    pub(crate) node: Arc<dyn Authorizer>,
    /// The metrics of the server.
    pub(crate) metrics: &'a Metrics,
    /// Dialer of webhooks; `None` for direct connections.
    pub(crate) dialer: Option<&'a Dialer>,
    /// Progress of the server's shutdown.
    pub(crate) shutdown: &'a Shutdown,
    /// Tasks in the background.
    pub(crate) background: &'a Background,
}

impl AuthorizationFlags {
    /// True if `--authorization-mode` names `mode` and is in force.
    pub(crate) fn names(&self, mode: AuthorizationMode) -> bool {
        self.authorization_config.is_none() && self.authorization_mode.contains(&mode)
    }

    /// Returns the errors of combinations of flags.
    ///
    /// upstream: pkg/kubeapiserver/options#BuiltInAuthorizationOptions.Validate
    pub(crate) fn errors(&self) -> Vec<String> {
        if self.authorization_config.is_some() {
            let why = "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* \
                       flags are defined";
            return self.has_mode_flags.then(|| why.to_owned()).into_iter().collect();
        }
        let has = |mode| self.authorization_mode.contains(&mode);
        let (has_abac, has_webhook) = (has(AuthorizationMode::Abac), has(AuthorizationMode::Webhook));
        let (policies, webhook) = (&self.authorization_policy_file, &self.authorization_webhook_config_file);
        let distinct: BTreeSet<_> = self.authorization_mode.iter().collect();
        let names = self.authorization_mode.iter().map(|mode| quote(mode.name()));
        let repeated = format!(
            "authorization-mode [{}] has mode specified more than once",
            names.collect::<Vec<_>>().join(" ")
        );
        let messages = [
            (
                has_abac && policies.is_none(),
                "authorization-mode ABAC's authorization policy file not passed",
            ),
            (
                has_webhook && webhook.is_none(),
                "authorization-mode Webhook's authorization config file not passed",
            ),
            (
                policies.is_some() && !has_abac,
                "cannot specify --authorization-policy-file without mode ABAC",
            ),
            (
                webhook.is_some() && !has_webhook,
                "cannot specify --authorization-webhook-config-file without mode Webhook",
            ),
            (distinct.len() != self.authorization_mode.len(), &repeated),
        ];
        let violated = messages.into_iter().filter(|(is_violated, _)| *is_violated);
        violated.map(|(_, why)| why.to_owned()).collect()
    }

    /// Reads the configuration: the file, or that which results from the other flags.
    ///
    /// # Errors
    /// If it is invalid.
    pub(crate) fn read(&self) -> Result<Configured> {
        let Some(path) = &self.authorization_config else {
            return Ok(Configured {
                configuration: self.configuration(),
                text: None,
            });
        };
        let failed = || format!("--authorization-config: {}", path.display());
        let text = files::read(path).with_context(failed)?;
        let configuration = parse(&text, &BTreeSet::new()).map_err(|why| anyhow!(why));
        Ok(Configured {
            configuration: configuration.with_context(failed)?,
            text: Some(text),
        })
    }

    /// Returns the configuration that results from the flags.
    ///
    /// upstream: pkg/kubeapiserver/options#BuiltInAuthorizationOptions.buildAuthorizationConfiguration
    fn configuration(&self) -> AuthorizationConfiguration {
        let authorizers = self.authorization_mode.iter().map(|mode| match mode {
            AuthorizationMode::Webhook => AuthorizerConfig {
                kind: mode.name().to_owned(),
                name: DEFAULT_NAME.to_owned(),
                webhook: Some(self.webhook_settings()),
            },
            mode => AuthorizerConfig {
                kind: mode.name().to_owned(),
                name: mode.name().to_ascii_lowercase(),
                webhook: None,
            },
        });
        AuthorizationConfiguration {
            authorizers: authorizers.collect(),
        }
    }

    fn webhook_settings(&self) -> WebhookSettings {
        let (authorized, unauthorized) = (
            self.authorization_webhook_cache_authorized_ttl,
            self.authorization_webhook_cache_unauthorized_ttl,
        );
        let path = self.authorization_webhook_config_file.as_deref();
        WebhookSettings {
            authorized_ttl: nanoseconds(authorized),
            caches_authorized: !authorized.is_zero(),
            unauthorized_ttl: nanoseconds(unauthorized),
            caches_unauthorized: !unauthorized.is_zero(),
            timeout: nanoseconds(DEFAULT_TIMEOUT),
            review_version: self.authorization_webhook_version.clone(),
            failure_policy: "NoOpinion".to_owned(),
            kubeconfig: path.map(|path| path.display().to_string()),
            ..WebhookSettings::default()
        }
    }

    /// Creates the chain of authorizers, and reads the file again when it changes.
    ///
    /// # Errors
    /// If a file that the configuration names cannot be used.
    pub(crate) fn load(&self, configured: &Configured, parts: AuthorizationParts<'_>) -> Result<Arc<dyn Authorizer>> {
        let metrics = parts.metrics.follow_authorization(&server_hash());
        let builder = Builder {
            abac: self.policies(configured)?,
            node: configured.has(AuthorizationMode::Node).then_some(parts.node),
            rbac: configured.has(AuthorizationMode::Rbac).then_some(parts.rbac),
            metrics: metrics.context("cannot set up metrics")?,
            dialer: parts.dialer.cloned(),
        };
        let chain = builder.chain(&configured.configuration).map_err(|why| anyhow!(why));
        let (Some(path), Some(text)) = (&self.authorization_config, &configured.text) else {
            return Ok(Arc::new(chain?));
        };
        let chain = chain.with_context(|| format!("--authorization-config: {}", path.display()))?;
        let reloadable = Arc::new(ReloadableChain::new(chain));
        builder.metrics.in_force(text);
        let file = path.clone();
        let changes = Changes::new(parts.shutdown, move || reload::state(&file));
        let follower = Follower {
            path: path.clone(),
            text: text.clone(),
            configuration: configured.configuration.clone(),
            required: local_types(&configured.configuration),
            builder,
            chain: Arc::clone(&reloadable),
        };
        let work = follower.follow(changes);
        parts
            .background
            .spawn(reload::CHECK, "authorization", parts.shutdown, work);
        Ok(reloadable)
    }

    /// Returns the policies of the mode `ABAC`, if it is in the chain.
    fn policies(&self, configured: &Configured) -> Result<Option<Arc<dyn Authorizer>>> {
        if !configured.has(AuthorizationMode::Abac) {
            return Ok(None);
        }
        let file = self.authorization_policy_file.as_deref();
        let path = file.context("the authorizer ABAC needs --authorization-policy-file")?;
        let failed = || format!("error reading policy file {}", path.display());
        let policies = PolicyList::read(&files::read(path).with_context(failed)?).with_context(failed)?;
        if policies.has_unversioned() {
            tracing::warn!(path = %path.display(), "the policy file has lines without a version");
        }
        Ok(Some(Arc::new(policies)))
    }
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the types of the authorizers other than webhooks.
fn local_types(configuration: &AuthorizationConfiguration) -> BTreeSet<String> {
    let types = configuration
        .authorizers
        .iter()
        .map(|authorizer| authorizer.kind.clone());
    types.filter(|kind| kind != AuthorizationMode::Webhook.name()).collect()
}

/// Reads and validates a file, which must have authorizers of the `required` types.
///
/// upstream: pkg/kubeapiserver/authorizer#LoadAndValidateData
fn parse(text: &[u8], required: &BTreeSet<String>) -> Result<AuthorizationConfiguration, String> {
    let configuration = AuthorizationConfiguration::read(text)
        .map_err(|error| format!("failed to load AuthorizationConfiguration from file: {error}"))?;
    let errors = validate(&configuration).errors;
    if !errors.is_empty() {
        return Err(Aggregate(&errors).to_string());
    }
    let locals = configuration.authorizers.iter().filter(|one| one.webhook.is_none());
    let misnamed = locals
        .filter(|one| one.name != one.kind.to_ascii_lowercase())
        .map(|one| {
            let expected = one.kind.to_ascii_lowercase();
            format!(
                "expected name {expected} for authorizer {} instead of {}",
                one.kind, one.name
            )
        });
    let mut errors: Vec<String> = misnamed.collect();
    let types = local_types(&configuration);
    let missing: Vec<&str> = required.difference(&types).map(String::as_str).collect();
    if !missing.is_empty() {
        errors.push(format!("missing required types: [{}]", missing.join(" ")));
    }
    match errors.is_empty() {
        true => Ok(configuration),
        false => Err(aggregate(&errors)),
    }
}

/// Builder of chains from authorizers that stay the same.
struct Builder {
    abac: Option<Arc<dyn Authorizer>>,
    node: Option<Arc<dyn Authorizer>>,
    rbac: Option<Arc<dyn Authorizer>>,
    metrics: AuthorizationMetrics,
    /// Dialer of webhooks; `None` for direct connections.
    dialer: Option<Dialer>,
}

impl Builder {
    /// upstream: pkg/kubeapiserver/authorizer#reloadableAuthorizerResolver.newForConfig
    fn chain(&self, configuration: &AuthorizationConfiguration) -> Result<Chain, String> {
        let conditions = validate(configuration).conditions;
        let links = configuration
            .authorizers
            .iter()
            .zip(conditions)
            .map(|(config, conditions)| {
                let authorizer = self.authorizer(config, conditions)?;
                let counted = Counted::new(authorizer, &config.kind, &config.name, &self.metrics);
                let authorizer = counted.map_err(|error| error.to_string())?;
                Ok(Arc::new(authorizer) as Arc<dyn Authorizer>)
            });
        Ok(Chain::new(links.collect::<Result<Vec<_>, String>>()?))
    }

    fn authorizer(
        &self,
        config: &AuthorizerConfig,
        conditions: MatchConditions,
    ) -> Result<Arc<dyn Authorizer>, String> {
        let kind = &config.kind;
        let mode =
            AuthorizationMode::named(kind).ok_or_else(|| format!("unknown authorization mode {kind} specified"))?;
        let existing = |authorizer: &Option<Arc<dyn Authorizer>>| {
            let missing =
                || format!("authorizer type {kind} is not allowed if it was not enabled at initial server startup");
            authorizer.clone().ok_or_else(missing)
        };
        match mode {
            AuthorizationMode::Abac => existing(&self.abac),
            AuthorizationMode::AlwaysAllow => Ok(Arc::new(AlwaysAllow)),
            AuthorizationMode::AlwaysDeny => Ok(Arc::new(AlwaysDeny)),
            AuthorizationMode::Node => existing(&self.node),
            AuthorizationMode::Rbac => existing(&self.rbac),
            AuthorizationMode::Webhook => self.webhook(config, conditions),
        }
    }

    fn webhook(&self, config: &AuthorizerConfig, conditions: MatchConditions) -> Result<Arc<dyn Authorizer>, String> {
        let settings = config.webhook.as_ref().ok_or("a webhook without settings")?;
        let path = settings.kubeconfig.as_deref().ok_or("a webhook without a kubeconfig")?;
        let time = |nanoseconds: i64| Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default());
        let ttl = |is_cached: bool, ttl: i64| if is_cached { time(ttl) } else { Duration::ZERO };
        let rules = WebhookRules {
            name: config.name.as_str().into(),
            version: AccessReviewVersion::named(&settings.review_version)?,
            timeout: time(settings.timeout),
            authorized_ttl: ttl(settings.caches_authorized, settings.authorized_ttl),
            unauthorized_ttl: ttl(settings.caches_unauthorized, settings.unauthorized_ttl),
            on_error: match settings.failure_policy.as_str() {
                "Deny" => Decision::Deny,
                _ => Decision::NoOpinion,
            },
            conditions,
        };
        let webhook = Webhook::read(Path::new(path)).map_err(|error| format!("{path}: {error:#}"))?;
        let post = Box::new(webhook.with_timeout(rules.timeout).through(self.dialer.as_ref()));
        Ok(Arc::new(AuthorizationWebhook::new(post, rules, self.metrics.clone())))
    }
}

/// Task that reads the file again when it changes.
struct Follower {
    path: PathBuf,
    /// Last text that was read, valid or not.
    text: Vec<u8>,
    /// Last valid configuration.
    configuration: AuthorizationConfiguration,
    /// Types of authorizers that a reload cannot remove.
    required: BTreeSet<String>,
    builder: Builder,
    chain: Arc<ReloadableChain>,
}

impl Follower {
    async fn follow(mut self, mut changes: Changes<Option<FileState>>) {
        loop {
            // The first time, this finds a change since the file was read at the start.
            self.reload();
            // The file is also read from time to time: it may have changed without another time or length.
            tokio::select! {
                has_changed = changes.next() => if !has_changed {
                    return;
                },
                () = tokio::time::sleep(RETRY_PERIOD) => {}
            }
        }
    }

    /// Reads the file, and uses it if it has changed.
    ///
    /// upstream: pkg/kubeapiserver/authorizer#reloadableAuthorizerResolver.checkFile
    fn reload(&mut self) {
        let path = self.path.display().to_string();
        let text = files::read(&self.path).map_err(|error| format!("{error:#}"));
        let outcome = text.and_then(|text| self.apply(text));
        match outcome {
            Ok(true) => tracing::info!(path, "the authorization configuration has changed and was read again"),
            Ok(false) => {}
            Err(error) => {
                self.builder.metrics.reload_failed();
                tracing::error!(
                    path,
                    error,
                    "the authorization configuration cannot be used; the old one stays"
                );
            }
        }
    }

    /// Replaces the chain by that of `text`; returns false if it is the same.
    fn apply(&mut self, text: Vec<u8>) -> Result<bool, String> {
        if text == self.text {
            return Ok(false);
        }
        self.text = text;
        let configuration = parse(&self.text, &self.required)?;
        if configuration == self.configuration {
            return Ok(false);
        }
        let chain = self.builder.chain(&configuration);
        if chain.is_err() {
            // A file that this one names may be readable later.
            self.text.clear();
        }
        self.chain.replace(chain?);
        self.configuration = configuration;
        self.builder.metrics.reloaded(&self.text);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: AuthorizationFlags,
    }

    fn flags(arguments: &[&str]) -> AuthorizationFlags {
        Line::try_parse_from([&["holdfast"], arguments].concat()).unwrap().flags
    }

    #[test]
    fn modes_name_their_authorizers() {
        assert_eq!(flags(&[]).authorization_mode, [AuthorizationMode::Rbac]);
        let modes = flags(&["--authorization-mode=Node,Webhook,RBAC,ABAC"]).configuration();
        let names = modes.authorizers.iter().map(|one| one.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["node", "default", "rbac", "abac"]);
        let Err(error) = Line::try_parse_from(["holdfast", "--authorization-mode=rbac"]) else {
            unreachable!("no such mode")
        };
        let error = error.to_string();
        assert!(
            error.contains("authorization-mode \"rbac\" is not a valid mode"),
            "{error}"
        );
    }

    #[test]
    fn contradictory_flags_are_reported() {
        let messages = |arguments: &[&str]| flags(arguments).errors().join("; ");
        for (arguments, expected) in [
            (&["--authorization-mode=Node,RBAC"][..], ""),
            (
                &["--authorization-mode=Webhook"],
                "authorization-mode Webhook's authorization config file not passed",
            ),
            (
                &["--authorization-mode=ABAC"],
                "authorization-mode ABAC's authorization policy file not passed",
            ),
            (
                &["--authorization-policy-file=f"],
                "cannot specify --authorization-policy-file without mode ABAC",
            ),
            (
                &["--authorization-webhook-config-file=f"],
                "cannot specify --authorization-webhook-config-file without mode Webhook",
            ),
            (
                &["--authorization-mode=RBAC,RBAC"],
                "authorization-mode [\"RBAC\" \"RBAC\"] has mode specified more than once",
            ),
            (&["--authorization-config=f", "--authorization-policy-file=f"], ""),
        ] {
            assert_eq!(messages(arguments), expected);
        }
        let mut both = flags(&["--authorization-config=f", "--authorization-mode=RBAC"]);
        both.has_mode_flags = true;
        assert!(both.errors()[0].starts_with("--authorization-config can not be specified when"));
    }

    #[test]
    fn file_needs_usual_names_and_required_types() {
        let error = |authorizers: &str| {
            let text = format!(
                "{{apiVersion: apiserver.config.k8s.io/v1, kind: AuthorizationConfiguration, authorizers: {authorizers}}}"
            );
            parse(text.as_bytes(), &BTreeSet::from(["RBAC".to_owned()]))
                .err()
                .unwrap_or_default()
        };
        assert_eq!(error("[{type: RBAC, name: rbac}]"), "");
        assert_eq!(
            error("[{type: Node, name: nodes}]"),
            "[expected name node for authorizer Node instead of nodes, missing required types: [RBAC]]"
        );
        assert!(error("[{type: RBAC, name: rbac, extra: 1}]").contains("unknown field \"authorizers[0].extra\""));
    }
}
