//! Reader of encryption configurations. Errors have the reference's messages.
//!
//! <https://kubernetes.io/docs/tasks/administer-cluster/encrypt-data/>

use std::time::Duration;

use holdfast_gotext::duration;
use holdfast_schema::{GoField, read_go_file};
use holdfast_value::{SmolStr, Value};

/// Kinds in which a configuration may be declared. The second one is that of early releases.
const KINDS: [(&str, &str); 2] = [
    ("apiserver.config.k8s.io/v1", "EncryptionConfiguration"),
    ("v1", "EncryptionConfig"),
];

/// Default timeout of calls to a KMS plugin.
const KMS_TIMEOUT: Duration = Duration::from_secs(3);

/// Configuration of encryption at rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Rules in their order: an earlier one has precedence.
    pub resources: Vec<ResourceRule>,
}

/// Resources, and the providers that read and write their objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRule {
    /// Resources as `resource`, `resource.group`, `*.`, `*.group` or `*.*`.
    pub resources: Vec<SmolStr>,
    /// Providers: the first one writes, all of them read.
    pub providers: Vec<ProviderConfiguration>,
}

/// One provider; exactly one of the fields is set in a valid configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderConfiguration {
    /// Keys for AES-GCM with random nonces.
    pub aesgcm: Option<Vec<Key>>,
    /// Keys for AES-CBC with PKCS#7 padding.
    pub aescbc: Option<Vec<Key>>,
    /// Keys for XSalsa20 and Poly1305.
    pub secretbox: Option<Vec<Key>>,
    /// True for values that are stored unchanged.
    pub identity: bool,
    /// Plugin of a key management service.
    pub kms: Option<KmsConfiguration>,
}

/// Named key of a local provider. Its debug text does not show the secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Key {
    /// Name, which is stored with each value.
    pub name: SmolStr,
    /// Secret in Base64.
    pub secret: SmolStr,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Name: {}, Secret: [REDACTED]", self.name)
    }
}

/// Plugin of a key management service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KmsConfiguration {
    /// Version of the plugin's API.
    pub api_version: SmolStr,
    /// Name of the provider, which is stored with each value.
    pub name: SmolStr,
    /// Maximum number of cached keys; only for version 1.
    pub cache_size: Option<i64>,
    /// URL of the plugin's Unix socket.
    pub endpoint: SmolStr,
    /// Timeout of a call in nanoseconds.
    pub timeout_nanos: i64,
}

/// Error of a configuration that cannot be decoded: a description of the place and the reason.
pub(super) type DecodeError = String;

impl Configuration {
    /// Reads YAML or JSON, and fills defaults. The result is not validated.
    ///
    /// upstream: k8s.io/apiserver/pkg/server/options/encryptionconfig#loadConfig
    ///
    /// # Errors
    /// If the text is not a configuration, or has unknown or repeated fields.
    pub fn decode(text: &[u8]) -> Result<Self, DecodeError> {
        read_go_file(text, &KINDS, read_configuration)
    }
}

fn read_configuration(field: &GoField<'_>, unknown: &mut Vec<String>) -> Result<Configuration, DecodeError> {
    field.check_members("", &["apiVersion", "kind", "resources"], unknown)?;
    let items = field
        .child("EncryptionConfiguration", "resources")
        .items("v1.ResourceConfiguration")?;
    let rules = items.iter().map(|rule| read_rule(rule, unknown));
    Ok(Configuration {
        resources: rules.collect::<Result<_, _>>()?,
    })
}

fn read_rule(field: &GoField<'_>, unknown: &mut Vec<String>) -> Result<ResourceRule, DecodeError> {
    field.check_members("v1.ResourceConfiguration", &["resources", "providers"], unknown)?;
    let child = |name| field.child("ResourceConfiguration", name);
    let resources = child("resources").items("string")?;
    let items = child("providers").items("v1.ProviderConfiguration")?;
    let providers = items.iter().map(|provider| read_provider(provider, unknown));
    Ok(ResourceRule {
        resources: resources.iter().map(text).collect::<Result<_, _>>()?,
        providers: providers.collect::<Result<_, _>>()?,
    })
}

fn read_provider(field: &GoField<'_>, unknown: &mut Vec<String>) -> Result<ProviderConfiguration, DecodeError> {
    let known = ["aesgcm", "aescbc", "secretbox", "identity", "kms"];
    field.check_members("v1.ProviderConfiguration", &known, unknown)?;
    let child = |name| field.child("ProviderConfiguration", name);
    let identity = child("identity");
    identity.check_members("v1.IdentityConfiguration", &[], unknown)?;
    Ok(ProviderConfiguration {
        aesgcm: read_keys(&child("aesgcm"), "AESConfiguration", unknown)?,
        aescbc: read_keys(&child("aescbc"), "AESConfiguration", unknown)?,
        secretbox: read_keys(&child("secretbox"), "SecretboxConfiguration", unknown)?,
        identity: identity.value.is_some(),
        kms: read_kms(&child("kms"), unknown)?,
    })
}

fn read_keys(
    field: &GoField<'_>,
    holder: &'static str,
    unknown: &mut Vec<String>,
) -> Result<Option<Vec<Key>>, DecodeError> {
    if field.value.is_none() {
        return Ok(None);
    }
    field.check_members(&format!("v1.{holder}"), &["keys"], unknown)?;
    let items = field.child(holder, "keys").items("v1.Key")?;
    let keys = items.iter().map(|key| {
        key.check_members("v1.Key", &["name", "secret"], unknown)?;
        Ok(Key {
            name: text(&key.child("Key", "name"))?,
            secret: text(&key.child("Key", "secret"))?,
        })
    });
    keys.collect::<Result<_, _>>().map(Some)
}

/// upstream: k8s.io/apiserver/pkg/apis/apiserver/v1#SetDefaults_KMSConfiguration
fn read_kms(field: &GoField<'_>, unknown: &mut Vec<String>) -> Result<Option<KmsConfiguration>, DecodeError> {
    if field.value.is_none() {
        return Ok(None);
    }
    let known = ["apiVersion", "name", "cachesize", "endpoint", "timeout"];
    field.check_members("v1.KMSConfiguration", &known, unknown)?;
    let child = |name| field.child("KMSConfiguration", name);
    let (stated_version, timeout, cache_size) = (text(&child("apiVersion"))?, child("timeout"), child("cachesize"));
    let api_version = match stated_version.is_empty() {
        true => SmolStr::new_static("v1"),
        false => stated_version,
    };
    let stated_size = match cache_size.value {
        None => None,
        Some(Value::Int(size)) => Some(*size),
        Some(_) => return Err(cache_size.mismatch("int32")),
    };
    let timeout_nanos = match timeout.value {
        None => i64::try_from(KMS_TIMEOUT.as_nanos()).unwrap_or(i64::MAX),
        Some(_) => duration::parse(&text(&timeout)?)?,
    };
    Ok(Some(KmsConfiguration {
        cache_size: stated_size.or((api_version == "v1").then_some(1000)),
        api_version,
        name: text(&child("name"))?,
        endpoint: text(&child("endpoint"))?,
        timeout_nanos,
    }))
}

fn text(field: &GoField<'_>) -> Result<SmolStr, DecodeError> {
    field.text("string").map(SmolStr::new)
}
