//! `holdfast diff`: shows what an apply of manifests would change, by the diffs of a Holdfast server, or the difference
//! between two versions of an object, by its history.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use holdfast_value::{Limits, List, Value, json};
use http::StatusCode;

use crate::apply::{manifests, subject};
use crate::program::report;
use crate::remote::{Access, AccessFlags, Client, ServedObject};
use crate::terminal::printable_text;

/// Path of the diffs.
const PATH: &str = "/apis/holdfast.dev/v1/diffs";

/// Maximum length of the manifests of one request in bytes; the server accepts 3 MiB.
const MAX_REQUEST_BYTES: usize = 2 << 20;

/// Maximum number of manifests of one request.
const MAX_REQUEST_OBJECTS: usize = 1000;

/// Manifests to compare, the server, and the form of the output.
#[derive(Debug, Args)]
pub(crate) struct DiffFlags {
    /// Kind of an object whose versions to compare, or KIND/NAME
    #[arg(value_name = "KIND", requires = "from")]
    kind: Option<String>,

    /// Name of the object
    #[arg(value_name = "NAME", requires = "kind")]
    name: Option<String>,

    /// Resource version of the object before
    #[arg(long, value_name = "RV", requires = "kind")]
    from: Option<u64>,

    /// Resource version of the object after. The default is the current one
    #[arg(long, value_name = "RV", requires = "from")]
    to: Option<u64>,

    /// File or directory of manifests (YAML or JSON; - for the standard input). May be repeated
    #[arg(
        short,
        long,
        value_name = "PATH",
        required_unless_present = "kind",
        conflicts_with = "kind"
    )]
    filename: Vec<PathBuf>,

    /// Accepted for the form of kubectl; every diff is that of a Server-Side Apply
    #[arg(long)]
    server_side: bool,

    /// Name of the field manager
    #[arg(long, value_name = "NAME", default_value = "holdfast")]
    field_manager: String,

    /// Namespace of objects whose manifests name none
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// Show the effect of an apply that ignores conflicts, without the conflicts
    #[arg(long)]
    force_conflicts: bool,

    /// Continue to show the diff of each object whenever it changes
    #[arg(short, long)]
    watch: bool,

    /// Format of the output
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = DiffFormat::Text)]
    output: DiffFormat,

    #[command(flatten)]
    access: AccessFlags,
}

/// Format of diffs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DiffFormat {
    /// Lines for people.
    Text,
    /// One JSON object for each manifest.
    Json,
}

/// Most significant of the results of the manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// No apply changes a field.
    #[default]
    Same,
    /// An apply changes fields or conflicts.
    Different,
    /// An apply fails.
    Failed,
}

/// Shows the diffs. The exit code is that of kubectl diff.
pub(crate) fn run(flags: &DiffFlags) -> ExitCode {
    match compare(flags) {
        Ok(Outcome::Same) => ExitCode::SUCCESS,
        Ok(Outcome::Different) => ExitCode::from(1),
        Ok(Outcome::Failed) => ExitCode::from(2),
        Err(error) => {
            report(&error);
            ExitCode::from(2)
        }
    }
}

fn compare(flags: &DiffFlags) -> Result<Outcome> {
    if let Some(from) = flags.from {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return runtime.block_on(compare_versions(flags, from));
    }
    let manifests = manifests::read(&flags.filename)?;
    let access = Access::from_flags(&flags.access)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let batches = batches(manifests);
    if flags.watch {
        let [batch] = &batches[..] else {
            bail!("--watch accepts at most {MAX_REQUEST_OBJECTS} manifests of {MAX_REQUEST_BYTES} bytes in total");
        };
        return runtime.block_on(watch(flags, &access, batch));
    }
    let mut outcome = Outcome::Same;
    for batch in batches {
        outcome = outcome.max(runtime.block_on(compare_batch(flags, &access, &batch))?);
    }
    Ok(outcome)
}

/// Shows the difference between two versions of an object.
async fn compare_versions(flags: &DiffFlags, from: u64) -> Result<Outcome> {
    let access = Access::from_flags(&flags.access)?;
    let (kind, name) = (flags.kind.as_deref().unwrap_or_default(), flags.name.as_deref());
    let mut object = ServedObject::find(&access, kind, name, flags.namespace.as_deref()).await?;
    let to = flags.to.map(|to| format!("&to={to}")).unwrap_or_default();
    let history = object.history(&format!("values=true&from={from}{to}")).await?;
    let Some(item) = items(history.get("items")).next() else {
        bail!("the server answers without a difference");
    };
    let is_same = item.str_at(&["operation"]) == Some("Update") && item.get("fields").is_none();
    let text = match flags.output {
        DiffFormat::Json => json::to_string(item) + "\n",
        DiffFormat::Text if is_same => String::new(),
        DiffFormat::Text => {
            let mut text = format!("{}: {}\n", history_subject(&history), operation(item));
            write_fields(&mut text, item, is_secret(history.get("object")));
            printable_text(&text)
        }
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(match is_same {
        true => Outcome::Same,
        false => Outcome::Different,
    })
}

/// Returns the object of a history in the form of kubectl, with its namespace.
pub(crate) fn history_subject(history: &Value) -> String {
    let text = |name: &str| history.str_at(&["object", name]).unwrap_or_default();
    let kind = text("kind").to_lowercase();
    let resource = match text("apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}"),
        None => kind,
    };
    match text("namespace") {
        "" => format!("{resource}/{}", text("name")),
        namespace => format!("{resource}/{} in {namespace}", text("name")),
    }
}

/// Returns the operation of an item of a history, in lower case.
pub(crate) fn operation(item: &Value) -> String {
    item.str_at(&["operation"]).unwrap_or_default().to_lowercase()
}

/// Returns true if the values of the object are not shown.
pub(crate) fn is_secret(object: Option<&Value>) -> bool {
    let text = |name: &str| object.and_then(|object| object.str_at(&[name]));
    text("kind") == Some("Secret") && text("apiVersion") == Some("v1")
}

/// Splits the manifests so that each part fits in a request.
fn batches(manifests: Vec<Value>) -> Vec<Vec<Value>> {
    let mut batches: Vec<Vec<Value>> = Vec::new();
    let mut length = 0;
    for manifest in manifests {
        let bytes = json::to_string(&manifest).len();
        length += bytes;
        match batches.last_mut() {
            Some(batch) if length <= MAX_REQUEST_BYTES && batch.len() < MAX_REQUEST_OBJECTS => batch.push(manifest),
            _ => {
                length = bytes;
                batches.push(vec![manifest]);
            }
        }
    }
    batches
}

async fn compare_batch(flags: &DiffFlags, access: &Access, batch: &[Value]) -> Result<Outcome> {
    let mut client = Client::connect(access).await?;
    let (status, answer) = client.post_document(PATH, request(flags, access, batch).into()).await?;
    check(status, &answer)?;
    let mut outcome = Outcome::Same;
    for diff in objects(&answer) {
        outcome = outcome.max(show(flags, diff, batch)?);
    }
    Ok(outcome)
}

/// Shows the diffs until the server ends the watch.
async fn watch(flags: &DiffFlags, access: &Access, batch: &[Value]) -> Result<Outcome> {
    let mut client = Client::connect(access).await?;
    let path = format!("{PATH}?watch=true");
    let (status, mut lines) = client.post_stream(&path, request(flags, access, batch).into()).await?;
    let mut outcomes = vec![Outcome::Same; batch.len()];
    while let Some(line) = lines.next_line().await? {
        let parsed = json::parse(&line, &Limits::TRUSTED);
        if !status.is_success() {
            check(status, &parsed.unwrap_or_else(|_| Value::empty_map()))?;
            continue;
        }
        let event = parsed.context("the server sends no JSON")?;
        let document = event.get("object").unwrap_or(&event);
        if event.str_at(&["type"]) == Some("ERROR") {
            check(StatusCode::GONE, document)?;
        }
        for diff in objects(document) {
            let outcome = show(flags, diff, batch)?;
            if let Some(last) = index(diff).and_then(|index| outcomes.get_mut(index)) {
                *last = outcome;
            }
        }
    }
    Ok(outcomes.into_iter().max().unwrap_or_default())
}

/// Returns the request for the diffs of these manifests.
fn request(flags: &DiffFlags, access: &Access, batch: &[Value]) -> String {
    let namespace = flags.namespace.as_deref().or(access.namespace.as_deref());
    let mut request = Value::empty_map();
    request.set_at(&["apiVersion"], "holdfast.dev/v1".into());
    request.set_at(&["kind"], "Diff".into());
    request.set_at(&["spec", "fieldManager"], flags.field_manager.as_str().into());
    request.set_at(&["spec", "namespace"], namespace.unwrap_or("default").into());
    request.set_at(&["spec", "force"], flags.force_conflicts.into());
    request.set_at(&["spec", "objects"], Value::from(batch.to_vec()));
    json::to_string(&request)
}

/// Returns an error if the server rejects the request.
pub(crate) fn check(status: StatusCode, answer: &Value) -> Result<()> {
    if status.is_success() {
        return Ok(());
    }
    let message = answer.str_at(&["message"]).unwrap_or("the server rejects the request");
    if status == StatusCode::NOT_FOUND {
        bail!("the server does not serve holdfast.dev/v1: only Holdfast does, unless --holdfast-apis=false");
    }
    bail!("{message}")
}

fn objects(document: &Value) -> impl Iterator<Item = &Value> {
    items(document.at(&["status", "objects"]))
}

pub(crate) fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_list)
        .into_iter()
        .flat_map(|list: &List| list.iter())
}

fn index(diff: &Value) -> Option<usize> {
    diff.get("index")
        .and_then(Value::as_i64)
        .and_then(|index| usize::try_from(index).ok())
}

/// Writes the diff of an object.
fn show(flags: &DiffFlags, diff: &Value, batch: &[Value]) -> Result<Outcome> {
    let outcome = outcome(diff);
    let text = match flags.output {
        DiffFormat::Json => json::to_string(diff) + "\n",
        DiffFormat::Text if outcome == Outcome::Same && !flags.watch => String::new(),
        DiffFormat::Text => {
            let manifest = index(diff).and_then(|index| batch.get(index));
            text(diff, &manifest.map(subject).unwrap_or_default())
        }
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(outcome)
}

fn outcome(diff: &Value) -> Outcome {
    match diff.str_at(&["result"]) {
        Some("Failed") => Outcome::Failed,
        Some("Unchanged") if diff.get("conflicts").is_none() => Outcome::Same,
        _ => Outcome::Different,
    }
}

/// Returns the diff as lines for people.
fn text(diff: &Value, subject: &str) -> String {
    let said = |path: &str| diff.str_at(&[path]).unwrap_or_default();
    let mut out = String::new();
    let namespace = match said("namespace") {
        "" => String::new(),
        namespace => format!(" in {namespace}"),
    };
    let _ = match diff.str_at(&["status", "message"]) {
        Some(message) => writeln!(out, "{subject}{namespace}: {message}"),
        None => writeln!(out, "{subject}{namespace}: {}", said("result").to_lowercase()),
    };
    write_fields(&mut out, diff, is_secret(Some(diff)));
    for conflict in items(diff.get("conflicts")) {
        let text = |name: &str| conflict.str_at(&[name]).unwrap_or_default();
        let (field, manager, operation) = (text("field"), text("manager"), text("operation"));
        let _ = writeln!(out, "  ! {field}: conflict with \"{manager}\" ({operation})");
    }
    for path in items(diff.get("givenUp")) {
        let _ = writeln!(out, "  < {}: stays, no longer owned", path.as_str().unwrap_or_default());
    }
    for warning in items(diff.get("warnings")) {
        let _ = writeln!(out, "  warning: {}", warning.as_str().unwrap_or_default());
    }
    out
}

/// Writes a line for each changed field of a diff, or of an item of a history.
pub(crate) fn write_fields(out: &mut String, diff: &Value, is_secret: bool) {
    for field in items(diff.get("fields")) {
        let path = field.str_at(&["field"]).unwrap_or_default();
        let is_hidden = is_secret && (path.starts_with(".data") || path.starts_with(".stringData"));
        let value = |side: &str| match (is_hidden, field.get(side), field.str_at(&[&format!("{side}Truncated")])) {
            (true, ..) => "***".to_owned(),
            (false, Some(value), _) => json::to_string(value),
            (false, None, truncated) => truncated.unwrap_or_default().to_owned(),
        };
        let _ = match field.str_at(&["change"]) {
            Some("Added") => writeln!(out, "  + {path}: {}", value("after")),
            Some("Removed") => writeln!(out, "  - {path}: {}", value("before")),
            _ => writeln!(out, "  ~ {path}: {} -> {}", value("before"), value("after")),
        };
    }
    if let Some(omitted) = diff.get("fieldsOmitted").and_then(Value::as_i64) {
        let _ = writeln!(out, "  … and {omitted} more fields");
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::yaml;

    use super::*;

    fn tree(text: &str) -> Value {
        yaml::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    #[test]
    fn diff_shows_values_conflicts_and_fields_given_up() {
        let diff = tree(
            "{index: 0, kind: Deployment, apiVersion: apps/v1, namespace: shop, name: web, result: Update, fields: [{field: .a, \
             change: Changed, before: 1, after: 2}, {field: .b, change: Added, after: {c: d}}, {field: .e, change: Removed, \
             beforeTruncated: long…}], fieldsOmitted: 3, conflicts: [{field: .a, manager: ci, operation: Apply}], givenUp: \
             [.f], warnings: [careful]}",
        );
        assert_eq!(
            text(&diff, "deployment.apps/web"),
            "deployment.apps/web in shop: update\n  ~ .a: 1 -> 2\n  + .b: {\"c\":\"d\"}\n  - .e: long…\n  … and 3 more fields\n  \
             ! .a: conflict with \"ci\" (Apply)\n  < .f: stays, no longer owned\n  warning: careful\n"
        );
        assert_eq!(outcome(&diff), Outcome::Different);
    }

    #[test]
    fn values_of_secrets_are_hidden() {
        let diff = tree(
            "{kind: Secret, apiVersion: v1, result: Create, fields: [{field: .data.a, change: Added, after: cGFzcw==}]}",
        );
        assert_eq!(text(&diff, "secret/s"), "secret/s: create\n  + .data.a: ***\n");
    }

    #[test]
    fn outcome_is_the_most_significant_one() {
        let outcome = |text: &str| outcome(&tree(text));
        assert_eq!(outcome("{result: Unchanged}"), Outcome::Same);
        assert_eq!(outcome("{result: Unchanged, conflicts: [{}]}"), Outcome::Different);
        assert_eq!(outcome("{result: Failed}"), Outcome::Failed);
    }

    #[test]
    fn many_manifests_are_split_into_requests() {
        let small = vec![tree("{a: b}"); 2500];
        assert_eq!(
            batches(small).iter().map(Vec::len).collect::<Vec<_>>(),
            [1000, 1000, 500]
        );
        let large = vec![Value::from("x".repeat(MAX_REQUEST_BYTES / 2 - 100).as_str()); 3];
        assert_eq!(batches(large).iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    }
}
