//! Tokens of service accounts: signed statements (JWTs) that this server issues and then accepts
//! (<https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/>).
//!
//! A token is valid while its signature, issuer, audience and time are, and while the service account and the bound
//! object exist with the same uid and are not deleted.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_authorization::{AUTHENTICATED, NODE_NAME, User, service_account_groups, service_account_user};
use holdfast_resource::access::{
    BoundObject, IssuedToken, ServiceAccountToken, TokenAuthenticator, TokenError, TokenIssuer, TokenSigner, TokenUser,
};
use holdfast_resource::{Registry, Resource};
use holdfast_schema::GroupResource;
use holdfast_value::Value;
use jsonwebtoken::Header;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::CREDENTIAL;
use super::keys::{SharedKeys, SigningKey};
use super::signatures::{IssuedClaims, Signatures};
use crate::objects::{self, Store};
use crate::runtime::{Clock, Identifiers};

/// Time for which a deleted object still counts, so that its last requests succeed.
const LEEWAY: Duration = Duration::from_secs(60);
/// Maximum clock skew, in seconds.
const SKEW: u64 = 60;

const POD: [&str; 2] = [
    "authentication.kubernetes.io/pod-name",
    "authentication.kubernetes.io/pod-uid",
];
const NODE: [&str; 2] = [NODE_NAME, "authentication.kubernetes.io/node-uid"];

/// The configuration of tokens.
#[derive(Clone, Debug)]
pub struct TokenConfig {
    /// Issuers. The first issues tokens; tokens of all are accepted.
    pub issuers: Vec<String>,
    /// The audiences of the tokens that this server accepts.
    pub audiences: Vec<SmolStr>,
    /// Maximum lifetime of a token, in seconds.
    pub longest: Option<i64>,
    /// Lifetime in seconds to which the tokens of pods are extended.
    pub extended_life: Option<i64>,
}

/// Signer of tokens.
pub enum Signer {
    /// No token is issued.
    None,
    /// A key of this process.
    Key(SigningKey),
    /// A signer outside of this process.
    External(Arc<dyn TokenSigner>),
}

/// Issuer and authenticator of tokens of service accounts.
pub struct ServiceAccounts {
    config: TokenConfig,
    signer: Signer,
    signatures: Signatures<Claims>,
    bound: BoundKinds,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    identifiers: Arc<dyn Identifiers>,
}

/// Kinds whose objects tokens name, each by its claim. They are built in, so they never change.
struct BoundKinds {
    account: BoundKind,
    secret: BoundKind,
    pod: BoundKind,
    node: BoundKind,
}

struct BoundKind {
    /// Name of an object in messages.
    called: &'static str,
    resource: Option<Arc<Resource>>,
}

impl BoundKinds {
    fn new(registry: &Registry) -> Self {
        let bound_kind = |claim| {
            let named = registry.resources().find_map(|resource| {
                let token_claim = resource.capabilities.token_claim?;
                (token_claim.name == claim).then(|| (token_claim.called, Arc::clone(resource)))
            });
            let (called, resource) = named.unzip();
            BoundKind {
                called: called.unwrap_or(claim),
                resource,
            }
        };
        Self {
            account: bound_kind("serviceaccount"),
            secret: bound_kind("secret"),
            pod: bound_kind("pod"),
            node: bound_kind("node"),
        }
    }
}

impl BoundKind {
    /// Returns the name of the resource in messages.
    fn plural(&self) -> &str {
        self.resource.as_ref().map_or(self.called, |resource| &resource.plural)
    }

    fn key(&self, namespace: &str, name: &str) -> Option<String> {
        Some(self.resource.as_ref()?.storage.as_ref()?.key(namespace, name))
    }
}

/// The claims of a token.
#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    aud: Audiences,
    exp: u64,
    iat: u64,
    iss: String,
    #[serde(default)]
    jti: String,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Kubernetes,
    nbf: u64,
    sub: String,
}

impl IssuedClaims for Claims {
    fn issuer(&self) -> &str {
        &self.iss
    }
}

/// One audience or several.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Audiences {
    Several(Vec<SmolStr>),
    One(SmolStr),
}

impl Audiences {
    pub(super) fn list(&self) -> &[SmolStr] {
        match self {
            Self::Several(list) => list,
            Self::One(one) => std::slice::from_ref(one),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Kubernetes {
    namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<Named>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod: Option<Named>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<Named>,
    serviceaccount: Named,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    warnafter: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Named {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    uid: String,
}

impl From<&BoundObject> for Named {
    fn from(object: &BoundObject) -> Self {
        Self {
            name: object.name.clone(),
            uid: object.uid.clone(),
        }
    }
}

/// Dependencies of the checks of tokens: the objects, the time, and a source of names.
pub struct AccountsContext {
    /// The resources that are served.
    pub registry: Arc<ArcSwap<Registry>>,
    /// The objects.
    pub store: Arc<Store>,
    /// Clock for the current time.
    pub clock: Arc<dyn Clock>,
    /// The source of the identifiers of tokens.
    pub identifiers: Arc<dyn Identifiers>,
}

impl ServiceAccounts {
    /// Issues tokens that `signer` signs, and accepts tokens that one of `keys` verifies.
    pub fn new(config: TokenConfig, signer: Signer, keys: SharedKeys, context: AccountsContext) -> Self {
        let AccountsContext {
            registry,
            store,
            clock,
            identifiers,
        } = context;
        Self {
            config,
            signer,
            signatures: Signatures::new(keys),
            bound: BoundKinds::new(&registry.load()),
            store,
            clock,
            identifiers,
        }
    }

    /// Returns the claims of the token, if its signature is valid.
    fn claims(&self, token: &str) -> Result<Arc<Claims>, TokenError> {
        let issuers = &self.config.issuers;
        let accepts = |issuer: &str| issuers.iter().any(|known| known == issuer);
        self.signatures.claims(token, self.clock.now(), accepts)
    }

    /// Returns the audit annotation for a token that its client should have replaced by now.
    fn stale(&self, claims: &Claims) -> Option<(&'static str, String)> {
        let warned = claims.kubernetes.warnafter.filter(|warned| *warned != 0)?;
        let late = seconds(self.clock.now()).checked_sub(warned).filter(|late| *late > 0)?;
        let text = format!("subject: {}, seconds after warning threshold: {late}", claims.sub);
        Some(("authentication.k8s.io/stale-token", text))
    }

    fn check_time(&self, claims: &Claims) -> Result<(), TokenError> {
        let now = seconds(self.clock.now());
        if now > claims.exp + SKEW {
            return Err(rejected("service account token has expired"));
        }
        if now + SKEW < claims.nbf {
            return Err(rejected("service account token is not valid yet"));
        }
        Ok(())
    }

    /// Checks that the objects that the token names still exist with the same uid.
    fn check_objects(&self, claims: &Claims) -> Result<(), TokenError> {
        let Kubernetes {
            namespace,
            node,
            pod,
            secret,
            serviceaccount,
            ..
        } = &claims.kubernetes;
        self.check_object(&self.bound.account, namespace, serviceaccount)?;
        if let Some(secret) = secret {
            self.check_object(&self.bound.secret, namespace, secret)?;
        }
        match (pod, node) {
            (Some(pod), _) => self.check_object(&self.bound.pod, namespace, pod),
            // A node in addition to a pod is only information about the pod; a token with a node and no pod ends with
            // the node.
            (None, Some(node)) => self.check_object(&self.bound.node, "", node),
            (None, None) => Ok(()),
        }
    }

    fn check_object(&self, kind: &BoundKind, namespace: &str, named: &Named) -> Result<(), TokenError> {
        let missing = || rejected(format!("{} \"{}\" not found", kind.plural(), named.name));
        let object = self.get(kind, namespace, &named.name).ok_or_else(missing)?;
        let called = kind.called;
        let uid = object.str_at(&["metadata", "uid"]).unwrap_or_default();
        if uid != named.uid {
            return Err(rejected(format!(
                "{called} UID ({uid}) does not match claim ({})",
                named.uid
            )));
        }
        let deleted = object.str_at(&["metadata", "deletionTimestamp"]).and_then(read_time);
        if deleted.is_some_and(|deleted| deleted + LEEWAY < self.clock.now()) {
            let name = if namespace.is_empty() {
                named.name.clone()
            } else {
                format!("{namespace}/{}", named.name)
            };
            return Err(rejected(format!("{called} {name} has been deleted")));
        }
        Ok(())
    }

    fn get(&self, kind: &BoundKind, namespace: &str, name: &str) -> Option<Value> {
        let key = kind.key(namespace, name)?;
        let snapshot = self.store.snapshot();
        Some(objects::tree(snapshot.get(key.as_bytes())?))
    }
}

impl TokenAuthenticator for ServiceAccounts {
    fn authenticate(&self, token: &str, audiences: &[&str]) -> Result<TokenUser, TokenError> {
        // A text that is not a JWT is not parsed any further.
        if token.bytes().filter(|byte| *byte == b'.').count() != 2 {
            return Err(TokenError::Unknown);
        }
        let claims = self.claims(token)?;
        let audiences = shared_audiences(claims.aud.list(), &self.config.audiences, audiences)?;
        self.check_time(&claims)?;
        self.check_objects(&claims)?;
        Ok(TokenUser {
            user: Arc::new(user(&claims)),
            audiences,
            annotations: self.stale(&claims).into_iter().collect(),
            warning: None,
        })
    }
}

impl TokenIssuer for ServiceAccounts {
    fn audiences(&self) -> &[SmolStr] {
        &self.config.audiences
    }

    fn longest(&self) -> Option<i64> {
        self.config.longest
    }

    fn extended_life(&self) -> Option<i64> {
        self.config.extended_life
    }

    fn issue(&self, token: &ServiceAccountToken<'_>) -> Result<IssuedToken, String> {
        let no_signer = || "there is no key to sign tokens with".to_owned();
        let issuer = self.config.issuers.first().ok_or_else(no_signer)?;
        let now = seconds(token.now);
        let after = |seconds: i64| now.saturating_add_signed(seconds);
        let claims = Claims {
            aud: Audiences::Several(token.audiences.to_vec()),
            exp: after(token.seconds),
            iat: now,
            iss: issuer.clone(),
            jti: self.identifiers.uid(),
            kubernetes: Kubernetes {
                namespace: token.namespace.to_owned(),
                node: token.node.as_ref().map(Named::from),
                pod: token.pod.as_ref().map(Named::from),
                secret: token.secret.as_ref().map(Named::from),
                serviceaccount: Named::from(&token.account),
                warnafter: token.warn_after.map(after),
            },
            nbf: now,
            sub: service_account_user(token.namespace, &token.account.name).into(),
        };
        let token = match &self.signer {
            Signer::None => return Err(no_signer()),
            Signer::Key(key) => {
                let header = Header {
                    typ: None,
                    kid: Some(key.id().to_owned()),
                    ..Header::new(key.algorithm())
                };
                jsonwebtoken::encode(&header, &claims, key.encoding()).map_err(|error| error.to_string())?
            }
            Signer::External(_) => {
                let claims = serde_json::to_vec(&claims).map_err(|error| error.to_string())?;
                URL_SAFE_NO_PAD.encode(claims)
            }
        };
        Ok(IssuedToken {
            token,
            credential: credential(&claims.jti),
        })
    }

    fn signer(&self) -> Option<&dyn TokenSigner> {
        match &self.signer {
            Signer::External(signer) => Some(&**signer),
            Signer::None | Signer::Key(_) => None,
        }
    }
}

/// Returns the `requested` audiences that a token has, by default those of this server, `own`.
pub(super) fn shared_audiences(
    of_token: &[SmolStr],
    own: &[SmolStr],
    requested: &[&str],
) -> Result<Vec<SmolStr>, TokenError> {
    let wanted: Vec<SmolStr> = if requested.is_empty() {
        own.to_vec()
    } else {
        requested.iter().map(SmolStr::new).collect()
    };
    let good: Vec<SmolStr> = wanted.iter().filter(|one| of_token.contains(one)).cloned().collect();
    if good.is_empty() {
        let list = |list: &[SmolStr]| {
            let quoted: Vec<String> = list.iter().map(|one| format!("{one:?}")).collect();
            quoted.join(" ")
        };
        return Err(rejected(format!(
            "token audiences [{}] is invalid for the target audiences [{}]",
            list(of_token),
            list(&wanted)
        )));
    }
    Ok(good)
}

/// Returns the resource of the core group with this plural name.
pub(super) fn core_resource(registry: &Registry, plural: &str) -> Option<Arc<Resource>> {
    let name = GroupResource {
        group: SmolStr::default(),
        resource: plural.into(),
    };
    registry.resource(&name).cloned()
}

/// Returns the credential id of a token with that identifier.
fn credential(jti: &str) -> String {
    format!("JTI={jti}")
}

/// Returns the user of a service account.
fn user(claims: &Claims) -> User {
    let Kubernetes {
        namespace,
        node,
        pod,
        serviceaccount,
        ..
    } = &claims.kubernetes;
    let mut extra = Vec::new();
    let mut say = |key: &'static str, value: String| {
        extra.push((SmolStr::new_static(key), vec![SmolStr::from(value)]));
    };
    if !claims.jti.is_empty() {
        say(CREDENTIAL, credential(&claims.jti));
    }
    for (keys, named) in [(NODE, node), (POD, pod)] {
        let Some(named) = named else { continue };
        say(keys[0], named.name.clone());
        if !named.uid.is_empty() {
            say(keys[1], named.uid.clone());
        }
    }
    User {
        name: service_account_user(namespace, &serviceaccount.name),
        uid: SmolStr::new(&serviceaccount.uid),
        groups: service_account_groups(namespace)
            .into_iter()
            .chain([SmolStr::new_static(AUTHENTICATED)])
            .collect(),
        extra,
    }
}

fn rejected(why: impl Into<String>) -> TokenError {
    TokenError::Refused(why.into())
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn read_time(text: &str) -> Option<SystemTime> {
    use holdfast_gotext::time::{Precision, Timestamp};
    Timestamp::parse(text, Precision::Seconds).ok().map(SystemTime::from)
}
