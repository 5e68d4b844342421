//! kube-apiserver's flags for tokens of OpenID Connect issuers and for the token webhook.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use data_encoding::HEXLOWER;
use holdfast_authentication::{
    Algorithm, AnonymousConfig, AuthenticationConfiguration, ClaimMappings, ClaimValidationRule, Issuer,
    JwtAuthenticator, JwtConfig, PrefixedClaimOrExpression, validate,
};
use holdfast_controllers::Identity;
use holdfast_egress::{Dialer, EgressSelector, Network};
use holdfast_gotext::duration;
use holdfast_schema::{Aggregate, FieldError, FieldPath};
use holdfast_server::authentication::{JwtAuthenticators, JwtIssuers, RemoteTokens, ReviewVersion, TokenWebhook};
use holdfast_server::metrics::{AuthenticationMetrics, Metrics};
use holdfast_server::runtime::Clock;
use holdfast_server::runtime::background::Background;
use holdfast_server::runtime::shutdown::Shutdown;
use sha2::{Digest as _, Sha256};
use smol_str::SmolStr;

use crate::certificates::hostname;
use crate::files;
use crate::reload::{self, Changes, FileState};
use crate::webhook::Webhook;

/// Interval at which the file is read even if it seems not to have changed, and at which unreachable issuers are tried again.
const RETRY_PERIOD: Duration = Duration::from_secs(60);

/// Username prefix that means none.
const NO_PREFIX: &str = "-";

/// Flags about tokens that other servers vouch for.
#[derive(Clone, Debug, Args)]
pub(crate) struct AuthenticationFlags {
    /// File with an AuthenticationConfiguration: issuers of tokens (JWTs), the meaning of their claims, and requests
    /// without credentials. Reloaded when it changes. Excludes the flags --oidc-*, and --anonymous-auth if the file
    /// configures anonymous requests
    #[arg(long, value_name = "FILE")]
    authentication_config: Option<PathBuf>,

    /// URL of the OpenID Connect issuer whose ID tokens are accepted. Only https
    #[arg(long, value_name = "URL")]
    oidc_issuer_url: Option<String>,

    /// Client ID for which ID tokens must be issued. Required with --oidc-issuer-url
    #[arg(long, value_name = "ID")]
    oidc_client_id: Option<String>,

    /// Certificate authorities of the issuer (PEM). The default is the authorities of the system
    #[arg(long, value_name = "FILE")]
    oidc_ca_file: Option<PathBuf>,

    /// Claim with the user name. The default is sub; other claims need not be unique
    #[arg(long, value_name = "CLAIM")]
    oidc_username_claim: Option<String>,

    /// Prefix of user names. The default is the issuer's URL and #, except for the claim email; - for no prefix
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true)]
    oidc_username_prefix: Option<String>,

    /// Claim with the groups of the user: a string or a list of strings
    #[arg(long, value_name = "CLAIM")]
    oidc_groups_claim: Option<String>,

    /// Prefix of groups
    #[arg(long, value_name = "PREFIX")]
    oidc_groups_prefix: Option<String>,

    /// Accepted signature algorithms: RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512. The default is
    /// RS256
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    oidc_signing_algs: Vec<String>,

    /// Claim that ID tokens must have with this value, as CLAIM=VALUE. May be repeated
    #[arg(long, value_name = "CLAIM=VALUE", value_parser = pair)]
    oidc_required_claim: Vec<(String, String)>,

    /// kubeconfig of a webhook that reviews bearer tokens that no other authenticator accepts
    #[arg(long, value_name = "FILE")]
    authentication_token_webhook_config_file: Option<PathBuf>,

    /// API version of the reviews: v1 or v1beta1
    #[arg(long, value_name = "VERSION", default_value = "v1beta1")]
    authentication_token_webhook_version: String,

    /// Time to cache the answers of the token webhook; 0 for no cache
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse_from_zero)]
    authentication_token_webhook_cache_ttl: Duration,
}

/// Parses `KEY=VALUE`.
fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').ok_or("malformed pair, expect string=string")?;
    Ok((pair.0.trim().to_owned(), pair.1.trim().to_owned()))
}

/// Values of other flags that authentication depends on.
pub(crate) struct Surroundings<'a> {
    /// Audiences of this server.
    pub(crate) audiences: Vec<SmolStr>,
    /// Issuers of service account tokens, which may issue no other tokens.
    pub(crate) own_issuers: &'a [String],
    /// True if --anonymous-auth is set, to whatever value.
    pub(crate) is_anonymous_auth_set: bool,
    /// Clock of the server.
    pub(crate) clock: Arc<dyn Clock>,
    /// The metrics of the server.
    pub(crate) metrics: &'a Metrics,
    /// Proxies of networks, if there are any.
    pub(crate) egress: Option<&'a EgressSelector>,
    /// Progress of the server's shutdown.
    pub(crate) shutdown: &'a Shutdown,
    /// Tasks in the background.
    pub(crate) background: &'a Background,
}

/// Authentication that results from the flags.
#[derive(Default)]
pub(crate) struct Authentication {
    /// Authenticators that ask other servers.
    pub(crate) remote: Option<Arc<RemoteTokens>>,
    /// Requests without credentials, if the file decides about them.
    pub(crate) anonymous: Option<AnonymousConfig>,
}

impl AuthenticationFlags {
    /// Returns the errors of combinations of flags.
    ///
    /// upstream: pkg/kubeapiserver/options#BuiltInAuthenticationOptions.validateOIDCOptions
    pub(crate) fn errors(&self) -> Vec<String> {
        let is_missing = |flag: &Option<String>| flag.as_deref().unwrap_or_default().is_empty();
        let mut messages = Vec::new();
        if self.authentication_config.is_some() {
            if self.is_oidc_set() {
                let why = "authentication-config file and oidc-* flags are mutually exclusive";
                messages.push(why.to_owned());
            }
        } else if self.is_oidc_set() && (is_missing(&self.oidc_issuer_url) || is_missing(&self.oidc_client_id)) {
            let why = "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set";
            messages.push(why.to_owned());
        }
        messages
    }

    fn is_oidc_set(&self) -> bool {
        let texts = [
            &self.oidc_issuer_url,
            &self.oidc_client_id,
            &self.oidc_username_claim,
            &self.oidc_username_prefix,
            &self.oidc_groups_claim,
            &self.oidc_groups_prefix,
        ];
        texts.iter().any(|flag| flag.is_some())
            || self.oidc_ca_file.is_some()
            || !self.oidc_signing_algs.is_empty()
            || !self.oidc_required_claim.is_empty()
    }

    /// Reads the configuration, starts the issuers, and reads the file again when it changes.
    ///
    /// # Errors
    /// If the file or a flag is invalid.
    pub(crate) fn load(&self, surroundings: &Surroundings<'_>) -> Result<Authentication> {
        let dialer = surroundings
            .egress
            .and_then(|egress| egress.dialer(Network::ControlPlane));
        let webhook = self.webhook(&surroundings.audiences, dialer)?;
        let (jwt, anonymous) = match &self.authentication_config {
            Some(path) => self.load_file(path, surroundings)?,
            None if self.is_oidc_set() => (Some(self.load_flags(surroundings)?), None),
            None => (None, None),
        };
        Ok(Authentication {
            remote: RemoteTokens::new(jwt, webhook),
            anonymous,
        })
    }

    fn load_file(
        &self,
        path: &Path,
        surroundings: &Surroundings<'_>,
    ) -> Result<(Option<Arc<JwtAuthenticators>>, Option<AnonymousConfig>)> {
        let failed = || {
            format!(
                "failed to load authentication configuration from file {:?}",
                path.display().to_string()
            )
        };
        let file = path.to_owned();
        // The state of the file is noted before its content is read, so that no change is missed.
        let changes = Changes::new(surroundings.shutdown, move || reload::state(&file));
        let text = files::read(path).with_context(failed)?;
        let configuration = AuthenticationConfiguration::read(&text).with_context(failed)?;
        let anonymous = configuration.anonymous.clone();
        if anonymous.is_some() && surroundings.is_anonymous_auth_set {
            let why = "--anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file";
            return Err(anyhow!("{}", FieldError::forbidden(&FieldPath::new("anonymous"), why)));
        }
        let metrics = metrics(surroundings.metrics)?;
        let mut follower = Follower {
            path: path.to_owned(),
            text: Vec::new(),
            anonymous: anonymous.clone(),
            own_issuers: surroundings.own_issuers.to_vec(),
            clock: Arc::clone(&surroundings.clock),
            metrics: metrics.clone(),
            egress: surroundings.egress.cloned(),
            shutdown: surroundings.shutdown.clone(),
            jwt: None,
        };
        let issuers = follower
            .issuers(configuration)
            .map_err(|why| anyhow!("invalid authentication configuration: {why}"))?;
        let jwt = JwtAuthenticators::new(issuers, surroundings.audiences.clone(), metrics.clone());
        metrics.in_force(&text);
        (follower.text, follower.jwt) = (text, Some(Arc::clone(&jwt)));
        let work = follower.follow(changes);
        surroundings
            .background
            .spawn(reload::CHECK, "authentication", surroundings.shutdown, work);
        Ok((Some(jwt), anonymous))
    }

    fn load_flags(&self, surroundings: &Surroundings<'_>) -> Result<Arc<JwtAuthenticators>> {
        let configuration = AuthenticationConfiguration {
            jwt: vec![self.jwt_config()?],
            anonymous: None,
        };
        let algorithms = self.algorithms()?;
        let metrics = metrics(surroundings.metrics)?;
        let outcome = authenticators(configuration, surroundings.own_issuers, &algorithms);
        let authenticators = outcome.map_err(|why| anyhow!("invalid authentication configuration: {why}"))?;
        let (clock, egress) = (&surroundings.clock, surroundings.egress);
        let issuers = JwtIssuers::start(authenticators, clock, &metrics, egress, surroundings.shutdown)
            .map_err(|why| anyhow!(why))?;
        Ok(JwtAuthenticators::new(issuers, surroundings.audiences.clone(), metrics))
    }

    fn algorithms(&self) -> Result<Vec<Algorithm>> {
        if self.oidc_signing_algs.is_empty() {
            return Ok(vec![Algorithm::RS256]);
        }
        let read = |name: &String| {
            let algorithm = Algorithm::named(name.trim());
            algorithm.with_context(|| format!("oidc: unsupported signing alg: {name:?}"))
        };
        self.oidc_signing_algs.iter().map(read).collect()
    }

    /// Returns the issuer of the flags.
    ///
    /// upstream: pkg/kubeapiserver/options#BuiltInAuthenticationOptions.ToAuthenticationConfig
    fn jwt_config(&self) -> Result<JwtConfig> {
        let text = |flag: &Option<String>| flag.clone().unwrap_or_default();
        let issuer = text(&self.oidc_issuer_url);
        let claim = self.oidc_username_claim.clone().unwrap_or_else(|| "sub".to_owned());
        let prefix = match text(&self.oidc_username_prefix).as_str() {
            "" if claim != "email" => format!("{issuer}#"),
            NO_PREFIX => String::new(),
            prefix => prefix.to_owned(),
        };
        let mapped = |claim: String, prefix: String| PrefixedClaimOrExpression {
            claim,
            prefix: Some(prefix),
            expression: String::new(),
        };
        let groups_claim = self.oidc_groups_claim.clone().filter(|claim| !claim.is_empty());
        let groups = groups_claim.map(|claim| mapped(claim, text(&self.oidc_groups_prefix)));
        let authority = self.oidc_ca_file.as_deref().map(|path| {
            let pem = files::read(path).with_context(|| format!("--oidc-ca-file: {}", path.display()))?;
            String::from_utf8(pem).with_context(|| format!("--oidc-ca-file: {}", path.display()))
        });
        let required = self
            .oidc_required_claim
            .iter()
            .map(|(claim, value)| ClaimValidationRule {
                claim: claim.clone(),
                required_value: value.clone(),
                ..ClaimValidationRule::default()
            });
        Ok(JwtConfig {
            issuer: Issuer {
                url: issuer,
                audiences: vec![text(&self.oidc_client_id)],
                certificate_authority: authority.transpose()?.unwrap_or_default(),
                ..Issuer::default()
            },
            claim_mappings: ClaimMappings {
                username: mapped(claim, prefix),
                groups: groups.unwrap_or_default(),
                ..ClaimMappings::default()
            },
            claim_validation_rules: required.collect(),
            user_validation_rules: Vec::new(),
        })
    }

    fn webhook(&self, audiences: &[SmolStr], dialer: Option<&Dialer>) -> Result<Option<TokenWebhook>> {
        let Some(path) = &self.authentication_token_webhook_config_file else {
            return Ok(None);
        };
        let version = ReviewVersion::named(&self.authentication_token_webhook_version).map_err(|why| anyhow!(why))?;
        let read = Webhook::read(path);
        let webhook =
            read.with_context(|| format!("--authentication-token-webhook-config-file: {}", path.display()))?;
        let ttl = self.authentication_token_webhook_cache_ttl;
        let post = Box::new(webhook.through(dialer));
        Ok(Some(TokenWebhook::new(post, version, audiences.to_vec(), ttl)))
    }
}

/// Returns the hash of the name of this server as metrics show it.
pub(crate) fn server_hash() -> String {
    let hash = HEXLOWER.encode(&Sha256::digest(Identity::name_of(&hostname())));
    format!("sha256:{hash}")
}

fn metrics(metrics: &Metrics) -> Result<AuthenticationMetrics> {
    let metrics = metrics.follow_authentication(&server_hash());
    metrics.context("cannot set up metrics")
}

/// Returns the authenticators of the issuers in a configuration.
fn authenticators(
    configuration: AuthenticationConfiguration,
    own_issuers: &[String],
    algorithms: &[Algorithm],
) -> Result<Vec<JwtAuthenticator>, String> {
    let validated = validate(&configuration, own_issuers);
    if !validated.errors.is_empty() {
        return Err(Aggregate(&validated.errors).to_string());
    }
    let compiled = configuration.jwt.into_iter().zip(validated.compiled);
    let issuers = compiled.map(|(config, compiled)| JwtAuthenticator::new(config, compiled, algorithms.to_vec()));
    Ok(issuers.collect())
}

/// Task that reads the file again when it changes.
struct Follower {
    path: PathBuf,
    /// Last text that was read, valid or not.
    text: Vec<u8>,
    /// Requests without credentials, which a reload cannot change.
    anonymous: Option<AnonymousConfig>,
    own_issuers: Vec<String>,
    clock: Arc<dyn Clock>,
    metrics: AuthenticationMetrics,
    egress: Option<EgressSelector>,
    shutdown: Shutdown,
    jwt: Option<Arc<JwtAuthenticators>>,
}

impl Follower {
    /// Starts the issuers of a configuration. As in the reference, all algorithms are accepted.
    fn issuers(&self, configuration: AuthenticationConfiguration) -> Result<JwtIssuers, String> {
        let changed = configuration.anonymous != self.anonymous;
        let authenticators = authenticators(configuration, &self.own_issuers, &Algorithm::ALL)?;
        if changed {
            let why = "changed from initial configuration file";
            return Err(FieldError::forbidden(&FieldPath::new("anonymous"), why).to_string());
        }
        let egress = self.egress.as_ref();
        JwtIssuers::start(authenticators, &self.clock, &self.metrics, egress, &self.shutdown)
    }

    async fn follow(mut self, mut changes: Changes<Option<FileState>>) {
        loop {
            // The file is also read from time to time: it may have changed without another time or length.
            tokio::select! {
                has_changed = changes.next() => if !has_changed {
                    return;
                },
                () = tokio::time::sleep(RETRY_PERIOD) => {}
            }
            self.reload().await;
        }
    }

    /// Reads the file, and uses it if it has changed.
    async fn reload(&mut self) {
        let path = self.path.display().to_string();
        let text = match files::read(&self.path) {
            Ok(text) => text,
            Err(error) => return self.fail(&format!("{error:#}")),
        };
        if text == self.text {
            return;
        }
        let read = AuthenticationConfiguration::read(&text).map_err(|error| error.to_string());
        let issuers = match read.and_then(|configuration| self.issuers(configuration)) {
            Ok(issuers) => issuers,
            Err(why) => {
                self.text = text;
                return self.fail(&why);
            }
        };
        if let Some(jwt) = &self.jwt
            && let Err(why) = jwt.replace(issuers).await
        {
            return self.fail(&why);
        }
        self.metrics.reloaded(&text);
        self.text = text;
        tracing::info!(path, "the authentication configuration has changed and was read again");
    }

    fn fail(&self, error: &str) {
        self.metrics.reload_failed();
        let path = self.path.display().to_string();
        tracing::error!(
            path,
            error,
            "the authentication configuration cannot be used; the old one stays"
        );
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: AuthenticationFlags,
    }

    fn flags(arguments: &[&str]) -> AuthenticationFlags {
        Line::try_parse_from([&["holdfast"], arguments].concat()).unwrap().flags
    }

    const ISSUER: [&str; 2] = ["--oidc-issuer-url=https://a", "--oidc-client-id=x"];

    #[test]
    fn flags_describe_one_issuer() {
        let config = |more: &[&str]| flags(&[&ISSUER, more].concat()).jwt_config().unwrap();
        let plain = config(&[]);
        assert_eq!(plain.issuer.audiences, ["x"]);
        assert_eq!(plain.claim_mappings.username.claim, "sub");
        let prefix = |config: &JwtConfig| config.claim_mappings.username.prefix.clone().unwrap();
        assert_eq!(prefix(&plain), "https://a#");
        assert_eq!(prefix(&config(&["--oidc-username-prefix=-"])), "");
        assert_eq!(prefix(&config(&["--oidc-username-claim=email"])), "");
        assert_eq!(prefix(&config(&["--oidc-username-prefix=a:"])), "a:");
        let groups = config(&["--oidc-groups-claim=roles", "--oidc-groups-prefix=r:"]);
        assert_eq!(groups.claim_mappings.groups.prefix.as_deref(), Some("r:"));
        let config = config(&["--oidc-required-claim=a=b=c", "--oidc-required-claim=d=e"]);
        let required = config.claim_validation_rules;
        assert_eq!((required.len(), required[0].required_value.as_str()), (2, "b=c"));
    }

    #[test]
    fn contradictory_flags_are_reported() {
        assert_eq!(flags(&ISSUER).errors(), [""; 0]);
        assert_eq!(flags(&[]).errors(), [""; 0]);
        for incomplete in [&ISSUER[..1], &ISSUER[1..], &["--oidc-groups-claim=a"]] {
            let [message] = &flags(incomplete).errors()[..] else {
                unreachable!("one fault")
            };
            assert!(message.contains("must be specified together"), "{message}");
        }
        let both = flags(&["--authentication-config=f", "--oidc-client-id=x"]);
        assert_eq!(
            both.errors(),
            ["authentication-config file and oidc-* flags are mutually exclusive"]
        );
    }

    #[test]
    fn unknown_algorithms_are_rejected() {
        let algorithms = |names: &str| flags(&[&format!("--oidc-signing-algs={names}")]).algorithms();
        assert_eq!(algorithms("RS256,ES512").unwrap(), [Algorithm::RS256, Algorithm::ES512]);
        let error = algorithms("HS256").unwrap_err().to_string();
        assert_eq!(error, "oidc: unsupported signing alg: \"HS256\"");
        assert_eq!(flags(&[]).algorithms().unwrap(), [Algorithm::RS256]);
    }
}
