//! `holdfast undo`: writes an earlier version of an object again, by an update or a create.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use holdfast_merge::Typed;
use holdfast_ownership::changed_fields;
use holdfast_value::{Limits, Value, json};
use http::StatusCode;

use crate::apply::{encoded, subject};
use crate::diff::{is_secret, items};
use crate::remote::{ServedObject, ServedObjectFlags};
use crate::terminal::printable_text;

/// Fields of the metadata that a new object must not have, or that belong to the server.
const SERVER_FIELDS: [&str; 8] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
    "managedFields",
];

/// Object, and the version to write again.
#[derive(Debug, Args)]
pub(crate) struct UndoFlags {
    #[command(flatten)]
    object: ServedObjectFlags,

    /// Resource version at which the object was as it should be again
    #[arg(long, value_name = "RV")]
    to: u64,

    /// Name of the field manager, which becomes the owner of the fields that change
    #[arg(long, value_name = "NAME", default_value = "holdfast")]
    field_manager: String,

    /// Store nothing
    #[arg(long)]
    dry_run: bool,
}

/// Writes the earlier version, and prints what changed.
pub(crate) fn run(flags: &UndoFlags) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let text = runtime.block_on(undo(flags))?;
    io::stdout().write_all(printable_text(&text).as_bytes())?;
    Ok(())
}

async fn undo(flags: &UndoFlags) -> Result<String> {
    let mut object = ServedObject::from_flags(&flags.object).await?;
    let earlier = version_at(&mut object, flags.to).await?;
    let answer = object.client.answer(&object.path).await?;
    let document = json::parse(&answer.body, &Limits::TRUSTED).unwrap_or_else(|_| Value::empty_map());
    let current = match answer.status {
        StatusCode::NOT_FOUND => None,
        status => {
            check(status, &document)?;
            Some(document)
        }
    };
    let wanted = wanted(earlier, current.as_ref());
    let body = json::to_string(&wanted).into();
    let dry_run = if flags.dry_run { "&dryRun=All" } else { "" };
    let query = format!("fieldManager={}{dry_run}", encoded(&flags.field_manager));
    let (status, written) = match &current {
        Some(_) => {
            object
                .client
                .put_document(&format!("{}?{query}", object.path), body)
                .await?
        }
        None => {
            object
                .client
                .post_document(&format!("{}?{query}", object.collection), body)
                .await?
        }
    };
    check(status, &written)?;
    report(flags, current.as_ref(), &written)
}

/// Returns the object at this resource version: a list of one name can be read at an exact version on any server.
async fn version_at(object: &mut ServedObject, revision: u64) -> Result<Value> {
    let path = format!(
        "{}?fieldSelector={}&resourceVersion={revision}&resourceVersionMatch=Exact",
        object.collection,
        encoded(&format!("metadata.name={}", object.name))
    );
    let list = object.client.get(&path, "application/json").await?;
    let item = items(list.get("items")).next().cloned();
    let mut found = item.with_context(|| format!("there was no {} at resource version {revision}", object.name))?;
    // Items of a list do not name their kind.
    let kind = list.str_at(&["kind"]).and_then(|kind| kind.strip_suffix("List"));
    for (field, value) in [("kind", kind), ("apiVersion", list.str_at(&["apiVersion"]))] {
        if let (None, Some(value)) = (found.get(field), value) {
            found.set_at(&[field], value.into());
        }
    }
    Ok(found)
}

/// Returns the object to write: the earlier version, as an update of the current one if there is one.
fn wanted(mut earlier: Value, current: Option<&Value>) -> Value {
    for field in SERVER_FIELDS {
        earlier.remove_at(&["metadata", field]);
    }
    // The write fails if somebody changes the object meanwhile, or replaces it by another one.
    for field in ["resourceVersion", "uid"] {
        if let Some(value) = current.and_then(|current| current.at(&["metadata", field])) {
            earlier.set_at(&["metadata", field], value.clone());
        }
    }
    earlier
}

fn check(status: StatusCode, answer: &Value) -> Result<()> {
    if status.is_success() {
        return Ok(());
    }
    bail!(
        "{}",
        answer.str_at(&["message"]).unwrap_or("the server rejects the request")
    )
}

/// Returns the result as lines for people.
fn report(flags: &UndoFlags, current: Option<&Value>, written: &Value) -> Result<String> {
    let version = |object: &Value| {
        let version = object.str_at(&["metadata", "resourceVersion"]);
        version.unwrap_or_default().to_owned()
    };
    let to = flags.to;
    let mut out = format!("{}: ", subject(written));
    let _ = match (current, flags.dry_run) {
        (Some(current), false) if version(current) == version(written) => {
            writeln!(out, "already as at {to}")
        }
        (_, false) => writeln!(out, "as at {to} again, now {}", version(written)),
        (_, true) => writeln!(out, "would be as at {to} again (server dry run)"),
    };
    let Some(current) = current else { return Ok(out) };
    let is_secret = is_secret(Some(written));
    for change in changed_fields(Typed::deduced(current.clone()), Typed::deduced(written.clone()))? {
        let path = change.path.to_string();
        let is_hidden = is_secret && (path.starts_with(".data") || path.starts_with(".stringData"));
        let text = |value: &Value| match is_hidden {
            true => "***".to_owned(),
            false => json::to_string(value),
        };
        let _ = match (&change.before, &change.after) {
            (Some(before), Some(after)) => writeln!(out, "  ~ {path}: {} -> {}", text(before), text(after)),
            (Some(before), None) => writeln!(out, "  - {path}: {}", text(before)),
            (None, after) => writeln!(out, "  + {path}: {}", after.as_ref().map(text).unwrap_or_default()),
        };
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use holdfast_value::yaml;

    use super::*;

    fn tree(text: &str) -> Value {
        yaml::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    #[test]
    fn update_keeps_identity_of_current_object() {
        let earlier = || {
            tree(
                "{metadata: {name: a, uid: old, resourceVersion: '1', managedFields: [{}], generation: 1}, data: {k: v}}",
            )
        };
        let current = tree("{metadata: {name: a, uid: new, resourceVersion: '9'}, data: {k: w}}");
        assert_eq!(
            wanted(earlier(), Some(&current)),
            tree("{metadata: {name: a, uid: new, resourceVersion: '9'}, data: {k: v}}")
        );
        assert_eq!(wanted(earlier(), None), tree("{metadata: {name: a}, data: {k: v}}"));
    }
}
