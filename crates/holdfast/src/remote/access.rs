//! Address of a server and credentials of the user, from a kubeconfig
//! (<https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/>).

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use holdfast_value::{Limits, Value, yaml};

use crate::files;

/// Flags that select the server, with kubectl's names.
#[derive(Debug, Default, Args)]
pub(crate) struct AccessFlags {
    /// Path of the kubeconfig. The default is $KUBECONFIG, or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Name of the kubeconfig context
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// URL of the server. Overrides that of the kubeconfig
    #[arg(short, long, value_name = "URL")]
    pub(crate) server: Option<String>,

    /// Bearer token. Overrides the credentials of the kubeconfig
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,

    /// Certificate authority to verify the server's certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,

    /// Accept any certificate of the server
    #[arg(long)]
    pub(crate) insecure_skip_tls_verify: bool,
}

/// Address of a server and credentials of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// The URL.
    pub(crate) server: String,
    /// Name that the server's certificate must contain, if it is not that of the URL.
    pub(crate) server_name: Option<String>,
    /// The authorities that the server's certificate must come from, in PEM.
    pub(crate) authority: Option<Vec<u8>>,
    /// True if any server certificate is trusted.
    pub(crate) insecure: bool,
    /// A bearer token.
    pub(crate) token: Option<String>,
    /// A client certificate and its key, in PEM.
    pub(crate) certificate: Option<(Vec<u8>, Vec<u8>)>,
    /// Default namespace.
    pub(crate) namespace: Option<String>,
}

impl Access {
    /// Combines the flags and the kubeconfig; flags have precedence.
    pub(crate) fn from_flags(flags: &AccessFlags) -> Result<Self> {
        let path = match &flags.kubeconfig {
            Some(path) => Some(path.clone()),
            None => usual_kubeconfig(flags.server.is_some())?,
        };
        let mut access = match &path {
            Some(path) => Self::read(path, flags.context.as_deref())?,
            None if flags.server.is_some() => Self::default(),
            None => bail!("no server is known: set KUBECONFIG, or give --kubeconfig or --server"),
        };
        if let Some(server) = &flags.server {
            access.server.clone_from(server);
        }
        if let Some(token) = &flags.token {
            access.token = Some(token.clone());
            access.certificate = None;
        }
        if let Some(path) = &flags.certificate_authority {
            access.authority = Some(files::read(path)?);
        }
        access.insecure |= flags.insecure_skip_tls_verify;
        Ok(access)
    }

    /// Rejects sending a token over a connection on which others may read it.
    pub(crate) fn check(&self) -> Result<()> {
        let is_open = |scheme: &str| scheme.eq_ignore_ascii_case("http://");
        if self.token.is_some() && self.server.get(..7).is_some_and(is_open) {
            bail!(
                "{} is reached over http, where others may read the bearer token; use https",
                self.server
            );
        }
        Ok(())
    }

    /// Reads `context`, or the current context, from the kubeconfig at `path`.
    pub(crate) fn read(path: &Path, context: Option<&str>) -> Result<Self> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let parsed = yaml::parse(&files::read(path)?, &Limits::REQUEST);
        let config = parsed.with_context(|| format!("{} is no kubeconfig", path.display()))?;
        Self::from_config(&config, context, folder).with_context(|| format!("in {}", path.display()))
    }

    /// Reads `context`, or the current context, from `config`. File names are relative to `folder`.
    fn from_config(config: &Value, context: Option<&str>, folder: &Path) -> Result<Self> {
        check_version(config)?;
        let context_name = context.or(config.str_at(&["current-context"])).unwrap_or_default();
        let context = member(config, "contexts", "context", context_name)?;
        let cluster = member(
            config,
            "clusters",
            "cluster",
            context.str_at(&["cluster"]).unwrap_or_default(),
        )?;
        let user = match context.str_at(&["user"]) {
            Some(name) if !name.is_empty() => member(config, "users", "user", name)?,
            _ => &Value::Null,
        };
        if user.get("exec").is_some() || user.get("auth-provider").is_some() {
            bail!("credentials that another program makes are not supported; give --token");
        }
        let token = match (user.str_at(&["token"]), user.str_at(&["tokenFile"])) {
            (Some(token), _) => Some(token.to_owned()),
            (None, Some(file)) => Some(String::from_utf8(files::read(&folder.join(file))?)?.trim().to_owned()),
            (None, None) => None,
        };
        let certificate_data = data(user, "client-certificate", folder)?;
        let certificate = certificate_data.zip(data(user, "client-key", folder)?);
        let text = |value: &Value, key: &str| value.str_at(&[key]).map(str::to_owned);
        Ok(Self {
            server: text(cluster, "server").context("the cluster names no server")?,
            server_name: text(cluster, "tls-server-name"),
            authority: data(cluster, "certificate-authority", folder)?,
            insecure: cluster.get("insecure-skip-tls-verify").and_then(Value::as_bool) == Some(true),
            token,
            certificate,
            namespace: text(context, "namespace"),
        })
    }
}

/// Rejects a document whose kind or version is not that of a kubeconfig, of which only one version exists. Unknown
/// fields are ignored, as in the reference.
pub(super) fn check_version(config: &Value) -> Result<()> {
    let text = |name, usual| match config.str_at(&[name]) {
        None | Some("") => usual,
        Some(text) => text,
    };
    match (text("apiVersion", "v1"), text("kind", "Config")) {
        ("v1", "Config") => Ok(()),
        (version, kind) => bail!("no kind {kind:?} is registered for version {version:?}; there is Config of v1"),
    }
}

/// Returns the content, under `key`, of the entry `name` of the list `list`.
pub(super) fn member<'a>(config: &'a Value, list: &str, key: &str, name: &str) -> Result<&'a Value> {
    let entries = config.get(list).and_then(Value::as_list);
    let candidates = entries.into_iter().flat_map(|entries| entries.iter());
    let mut found = candidates.filter(|entry| entry.str_at(&["name"]) == Some(name));
    let entry = found.next().and_then(|entry| entry.get(key));
    entry.with_context(|| format!("there is no {key} {name:?}"))
}

/// Returns the content of the member `KEY-data` in base64, or of the file that the member `KEY` names.
pub(super) fn data(value: &Value, key: &str, folder: &Path) -> Result<Option<Vec<u8>>> {
    let inline = format!("{key}-data");
    if let Some(text) = value.str_at(&[&inline]) {
        let bytes = STANDARD
            .decode(text.trim())
            .with_context(|| format!("{inline} is no base64"))?;
        return Ok(Some(bytes));
    }
    value
        .str_at(&[key])
        .map(|file| files::read(&folder.join(file)))
        .transpose()
}

/// Returns the default kubeconfig: the first of `KUBECONFIG` that exists, or that of the home folder.
///
/// # Errors
/// If `KUBECONFIG` names only missing files, unless the kubeconfig is optional.
fn usual_kubeconfig(is_optional: bool) -> Result<Option<PathBuf>> {
    let variable = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let named: Vec<PathBuf> = std::env::split_paths(&variable)
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    let home = std::env::home_dir().map(|home| home.join(".kube/config"));
    let candidates = if named.is_empty() {
        Vec::from_iter(home)
    } else {
        named.clone()
    };
    let found = candidates.into_iter().find(|path| path.exists());
    if found.is_none() && !named.is_empty() && !is_optional {
        let names: Vec<String> = named.iter().map(|path| path.display().to_string()).collect();
        bail!("KUBECONFIG names no existing file: {}", names.join(", "));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const CONFIG: &str = "
current-context: one
contexts:
- name: one
  context: {cluster: local, user: admin, namespace: shop}
- name: two
  context: {cluster: remote, user: robot}
- name: three
  context: {cluster: remote, user: clever}
- name: four
  context: {cluster: gone}
clusters:
- name: local
  cluster: {server: 'https://127.0.0.1:6443', certificate-authority-data: Q0E=}
- name: remote
  cluster: {server: 'https://example.com', insecure-skip-tls-verify: true, tls-server-name: other}
users:
- name: admin
  user: {client-certificate-data: Q0VSVA==, client-key: key.pem}
- name: robot
  user: {token: secret}
- name: clever
  user: {exec: {command: login}}
";

    fn read_access(context: Option<&str>) -> Result<Access> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("key.pem"), "KEY")?;
        fs::write(folder.path().join("config"), CONFIG)?;
        Access::read(&folder.path().join("config"), context)
    }

    #[test]
    fn the_current_context_counts_unless_another_is_named() {
        let one = read_access(None).unwrap();
        assert_eq!(one.server, "https://127.0.0.1:6443");
        assert_eq!(one.authority.as_deref(), Some(b"CA".as_slice()));
        assert_eq!(one.certificate, Some((b"CERT".to_vec(), b"KEY".to_vec())));
        assert_eq!(one.namespace.as_deref(), Some("shop"));
        let two = read_access(Some("two")).unwrap();
        assert_eq!((two.token.as_deref(), two.insecure), (Some("secret"), true));
        assert_eq!(two.server_name.as_deref(), Some("other"));
    }

    #[test]
    fn unusable_kubeconfig_is_reported() {
        let message = |context| format!("{:#}", read_access(Some(context)).unwrap_err());
        assert!(
            message("three").ends_with("not supported; give --token"),
            "{}",
            message("three")
        );
        assert!(message("four").ends_with("there is no cluster \"gone\""));
        assert!(message("none").ends_with("there is no context \"none\""));
    }

    #[test]
    fn tokens_are_shown_over_tls_alone() {
        let access = |server: &str, token: Option<&str>| Access {
            server: server.to_owned(),
            token: token.map(str::to_owned),
            ..Access::default()
        };
        for open in ["http://localhost", "HTTP://[::1]:1/path"] {
            let why = access(open, Some("secret")).check().unwrap_err().to_string();
            assert!(why.starts_with(open) && !why.contains("secret"), "{why}");
            assert!(access(open, None).check().is_ok());
        }
        assert!(access("https://localhost", Some("secret")).check().is_ok());
    }

    #[test]
    fn flags_come_before_the_kubeconfig() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(folder.path().join("key.pem"), "KEY").unwrap();
        fs::write(&path, CONFIG).unwrap();
        let flags = AccessFlags {
            kubeconfig: Some(path),
            server: Some("https://localhost:1".to_owned()),
            token: Some("mine".to_owned()),
            ..AccessFlags::default()
        };
        let access = Access::from_flags(&flags).unwrap();
        assert_eq!(access.server, "https://localhost:1");
        assert_eq!((access.token.as_deref(), access.certificate), (Some("mine"), None));
    }
}
