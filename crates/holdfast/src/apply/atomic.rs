//! Apply of all manifests in one transaction of a Holdfast server.

use std::io::{self, Write as _};

use anyhow::{Result, bail};
use holdfast_ownership::PathText;
use holdfast_value::{Value, json};

use super::{ApplyFlags, conflicts, subject};
use crate::diff::check;
use crate::remote::{Access, Client};

/// Path of the transactions.
const PATH: &str = "/apis/holdfast.dev/v1/transactions";

/// Applies all manifests or none of them. Conflicts are decided by flags only, because others may change while somebody
/// thinks about the answer.
pub(super) async fn apply(flags: &ApplyFlags, access: &Access, yes_to: &[PathText], manifests: &[Value]) -> Result<()> {
    let mut client = Client::connect(access).await?;
    let path = match flags.dry_run {
        true => format!("{PATH}?dryRun=All"),
        false => PATH.to_owned(),
    };
    let body = json::to_string(&request(flags, access, yes_to, manifests));
    let (status, answer) = client.post_document(&path, body.into()).await?;
    if status.is_success() {
        let suffix = if flags.dry_run { " (server dry run)" } else { "" };
        for manifest in manifests {
            writeln!(io::stdout(), "{} serverside-applied{suffix}", subject(manifest))?;
        }
        return Ok(());
    }
    let index = answer.at(&["details", "operationIndex"]).and_then(Value::as_i64);
    let failed = index.and_then(|index| manifests.get(usize::try_from(index).ok()?));
    let conflicts = conflicts::of_status(&answer);
    if let (Some(manifest), false) = (failed, conflicts.is_empty()) {
        let mut list = format!("{}: these fields conflict; decide with --yes-to:", subject(manifest));
        for conflict in &conflicts {
            list.push('\n');
            list.push_str(&conflict.to_string());
        }
        bail!("{list}\nnothing was applied");
    }
    let outcome = check(status, &answer);
    match failed {
        Some(manifest) => outcome.map_err(|error| error.context(format!("{}: nothing was applied", subject(manifest)))),
        None => outcome,
    }
}

fn request(flags: &ApplyFlags, access: &Access, yes_to: &[PathText], manifests: &[Value]) -> Value {
    let namespace = flags.namespace.as_deref().or(access.namespace.as_deref());
    let forced: Vec<Value> = yes_to.iter().map(|path| path.as_str().into()).collect();
    let operations = manifests.iter().map(|manifest| {
        let mut operation = Value::empty_map();
        operation.set_at(&["operation"], "Apply".into());
        operation.set_at(&["object"], manifest.clone());
        operation.set_at(&["forceFields"], Value::from(forced.clone()));
        operation
    });
    let mut request = Value::empty_map();
    request.set_at(&["apiVersion"], "holdfast.dev/v1".into());
    request.set_at(&["kind"], "Transaction".into());
    request.set_at(&["spec", "fieldManager"], flags.field_manager.as_str().into());
    request.set_at(&["spec", "namespace"], namespace.unwrap_or("default").into());
    request.set_at(&["spec", "operations"], Value::from(operations.collect::<Vec<_>>()));
    request
}
