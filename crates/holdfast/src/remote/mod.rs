//! Objects from elsewhere: from a server that a kubeconfig names, or from a file.

mod access;
mod client;
mod resource;
mod users;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use holdfast_gotext::duration;
use holdfast_value::{Limits, Value, yaml};

use crate::files;
pub(crate) use access::{Access, AccessFlags};
pub(crate) use client::{Client, beginning};
pub(crate) use resource::Resource;
pub(crate) use users::read_users;

/// Selection of an object and of its server.
#[derive(Debug, Args)]
pub(crate) struct ObjectFlags {
    /// Kind of the object, such as deploy, Deployment or deployments.apps; or KIND/NAME
    #[arg(value_name = "KIND", required_unless_present = "filename")]
    kind: Option<String>,

    /// Name of the object
    #[arg(value_name = "NAME", conflicts_with = "filename")]
    name: Option<String>,

    /// Namespace of the object
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// Read the object from a file instead of a server (YAML or JSON; - for the standard input)
    #[arg(short, long, value_name = "FILE", conflicts_with = "kind")]
    filename: Option<PathBuf>,

    #[command(flatten)]
    access: AccessFlags,
}

impl ObjectFlags {
    /// Returns the file of the object, if it is not that of a server.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.filename.as_deref()
    }
}

/// Returns the object that the flags select.
pub(crate) fn object(flags: &ObjectFlags) -> Result<Value> {
    match &flags.filename {
        Some(path) => from_file(path),
        None => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(from_server(flags))
        }
    }
}

/// Selection of a server, and the time for which to wait for it.
#[derive(Debug, Args)]
pub(crate) struct ReadyFlags {
    #[command(flatten)]
    access: AccessFlags,

    /// Time to wait until the server is ready. The kubeconfig may be missing at first
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse_from_zero)]
    wait: Duration,
}

/// Interval between two attempts to find a server ready.
const READY_INTERVAL: Duration = Duration::from_millis(50);

/// Returns the readiness report of a server; an error if the server is not ready or cannot be reached within the time.
pub(crate) fn ready(flags: &ReadyFlags) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let attempt = async || {
        let access = Access::from_flags(&flags.access)?;
        Client::connect(&access).await?.text("/readyz").await
    };
    runtime.block_on(async {
        let mut last = None;
        let attempts = async {
            loop {
                match attempt().await {
                    Ok(report) => return report,
                    Err(error) => last = Some(error),
                }
                tokio::time::sleep(READY_INTERVAL).await;
            }
        };
        if flags.wait.is_zero() {
            return attempt().await;
        }
        let outcome = tokio::time::timeout(flags.wait, attempts).await;
        outcome.map_err(|_| last.unwrap_or_else(|| anyhow!("the server does not answer")))
    })
}

fn from_file(path: &Path) -> Result<Value> {
    let text = match path == Path::new("-") {
        true => files::read_all(std::io::stdin().lock()).context("cannot read the standard input")?,
        false => files::read(path)?,
    };
    let object = yaml::parse(&text, &Limits::REQUEST);
    object.with_context(|| format!("{} holds no object", path.display()))
}

async fn from_server(flags: &ObjectFlags) -> Result<Value> {
    let kind = flags.kind.as_deref().unwrap_or_default();
    let (kind, name) = match (kind.split_once('/'), &flags.name) {
        (None, Some(name)) => (kind, name.as_str()),
        (Some((kind, name)), None) => (kind, name),
        _ => bail!("name one object: KIND NAME or KIND/NAME"),
    };
    let access = Access::from_flags(&flags.access)?;
    let mut client = Client::connect(&access).await?;
    let resource = Resource::find(&mut client, kind).await?;
    let namespace = flags.namespace.as_deref().or(access.namespace.as_deref());
    let path = resource.path(namespace.unwrap_or("default"), name)?;
    client.get(&path, "application/json").await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_yaml_or_json() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("object");
        for text in ["{\"kind\": \"ConfigMap\"}", "kind: ConfigMap\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(from_file(&path).unwrap().str_at(&["kind"]), Some("ConfigMap"));
        }
        std::fs::write(&path, "{").unwrap();
        assert!(from_file(&path).unwrap_err().to_string().ends_with("holds no object"));
        assert!(from_file(&folder.path().join("none")).is_err());
    }
}
