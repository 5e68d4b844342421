//! Objects from elsewhere: from a server that a kubeconfig names, or from a file.

mod access;
mod client;
mod resource;
mod users;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
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

/// Returns the readiness report of a server; an error if the server is not ready or cannot be reached.
pub(crate) fn ready(flags: &AccessFlags) -> Result<String> {
    let access = Access::from_flags(flags)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { Client::connect(&access).await?.text("/readyz").await })
}

fn from_file(path: &Path) -> Result<Value> {
    let mut text = Vec::new();
    if path == Path::new("-") {
        std::io::stdin()
            .lock()
            .read_to_end(&mut text)
            .context("cannot read the standard input")?;
    } else {
        text = files::read(path)?;
    }
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
