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
use holdfast_value::{Limits, Value, json, yaml};
use http::StatusCode;

use crate::files;
pub(crate) use access::{Access, AccessFlags};
pub(crate) use client::{Client, beginning, dial};
pub(crate) use resource::{AGGREGATED, Resource};
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

/// Selection of an object of a server.
#[derive(Debug, Args)]
pub(crate) struct ServedObjectFlags {
    /// Kind of the object, such as deploy, Deployment or deployments.apps; or KIND/NAME
    #[arg(value_name = "KIND")]
    pub(crate) kind: String,

    /// Name of the object
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Namespace of the object
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    #[command(flatten)]
    pub(crate) access: AccessFlags,
}

/// Connection to the server of an object, and the paths of the object.
pub(crate) struct ServedObject {
    pub(crate) client: Client,
    /// Path of the object.
    pub(crate) path: String,
    /// Path of the collection in the object's namespace.
    pub(crate) collection: String,
    pub(crate) name: String,
}

impl ServedObject {
    /// Finds the object of this kind and name. It need not exist.
    pub(crate) async fn find(access: &Access, kind: &str, name: Option<&str>, namespace: Option<&str>) -> Result<Self> {
        let (kind, name) = match (kind.split_once('/'), name) {
            (None, Some(name)) => (kind, name),
            (Some((kind, name)), None) => (kind, name),
            _ => bail!("name one object: KIND NAME or KIND/NAME"),
        };
        let mut client = Client::connect(access).await?;
        let resource = Resource::find(&mut client, kind).await?;
        let namespace = namespace.or(access.namespace.as_deref());
        let path = resource.path(namespace.unwrap_or("default"), name)?;
        let collection = path
            .rsplit_once('/')
            .map_or_else(String::new, |(collection, _)| collection.to_owned());
        Ok(Self {
            client,
            path,
            collection,
            name: name.to_owned(),
        })
    }

    /// Finds the object that the flags select.
    pub(crate) async fn from_flags(flags: &ServedObjectFlags) -> Result<Self> {
        let access = Access::from_flags(&flags.access)?;
        Self::find(&access, &flags.kind, flags.name.as_deref(), flags.namespace.as_deref()).await
    }

    /// Returns the history of the object, by a request with this query.
    pub(crate) async fn history(&mut self, query: &str) -> Result<Value> {
        let answer = self.client.answer(&format!("{}/history?{query}", self.path)).await?;
        let document = json::parse(&answer.body, &Limits::TRUSTED).unwrap_or_else(|_| Value::empty_map());
        if answer.status.is_success() && document.str_at(&["kind"]) == Some("ObjectHistory") {
            return Ok(document);
        }
        let message = document
            .str_at(&["message"])
            .unwrap_or("the server has no history of objects");
        // kube-apiserver does not know the path, and names no object.
        match answer.status == StatusCode::NOT_FOUND && document.at(&["details", "name"]).is_none() {
            true => bail!("the server has no history of objects: only Holdfast has, unless --holdfast-apis=false"),
            false => bail!("{message}"),
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
    let access = Access::from_flags(&flags.access)?;
    let (name, namespace) = (flags.name.as_deref(), flags.namespace.as_deref());
    let mut object = ServedObject::find(&access, kind, name, namespace).await?;
    object.client.get(&object.path, "application/json").await
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
