//! `holdfast history`: the versions of an object that the server holds, the newest first.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use anyhow::Result;
use clap::{Args, ValueEnum};
use holdfast_value::{Value, json};

use crate::diff::{is_secret, items, operation, write_fields};
use crate::remote::{ServedObject, ServedObjectFlags};
use crate::terminal::{printable_line, printable_text};

/// Number of versions of one request.
const CHUNK_VERSIONS: usize = 100;

/// Number of changed fields that are shown for a version without their values.
const SHOWN_FIELDS: usize = 5;

/// Object, and form of the output.
#[derive(Debug, Args)]
pub(crate) struct HistoryFlags {
    #[command(flatten)]
    object: ServedObjectFlags,

    /// Maximum number of versions; 0 for all of them
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    limit: usize,

    /// Show the values of the changed fields. Those of Secrets are hidden
    #[arg(long)]
    values: bool,

    /// Format of the output
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = HistoryFormat::Text)]
    output: HistoryFormat,
}

/// Format of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HistoryFormat {
    /// Lines for people.
    Text,
    /// One JSON object for each version.
    Json,
}

/// Prints the versions.
pub(crate) fn run(flags: &HistoryFlags) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(print(flags))
}

async fn print(flags: &HistoryFlags) -> Result<()> {
    let mut object = ServedObject::from_flags(&flags.object).await?;
    let mut left = match flags.limit {
        0 => usize::MAX,
        limit => limit,
    };
    let mut next = String::new();
    let mut out = io::stdout().lock();
    loop {
        let limit = left.min(CHUNK_VERSIONS);
        let query = format!("limit={limit}&continue={next}&values={}", flags.values);
        let history = object.history(&query).await?;
        let is_secret = is_secret(history.get("object"));
        for item in items(history.get("items")) {
            let text = match flags.output {
                HistoryFormat::Json => json::to_string(item) + "\n",
                HistoryFormat::Text => printable_text(&text(item, flags.values, is_secret)),
            };
            out.write_all(text.as_bytes())?;
            left -= 1;
        }
        match history.str_at(&["metadata", "continue"]) {
            // The value is a number; any other would be part of a path.
            Some(token) if left > 0 && token.bytes().all(|byte| byte.is_ascii_digit()) => next = token.to_owned(),
            _ => return Ok(()),
        }
    }
}

/// Returns a version as lines for people: one line, and the changed fields with their values if they are shown.
fn text(item: &Value, with_values: bool, is_secret: bool) -> String {
    let said = |name: &str| item.str_at(&[name]).unwrap_or("-");
    let mut out = format!("{}  {}  {}", said("resourceVersion"), said("time"), operation(item));
    let managers: Vec<String> = items(item.get("managers")).map(manager).collect();
    if !managers.is_empty() {
        let _ = write!(out, " by {}", managers.join(", "));
    }
    if let Some(error) = item.str_at(&["error"]) {
        let _ = writeln!(out, ": {}", printable_line(error));
        return out;
    }
    // The fields of a new object are all of its fields.
    let is_brief = !with_values && item.str_at(&["operation"]) != Some("Create");
    let fields: Vec<&str> = items(item.get("fields"))
        .filter_map(|field| field.str_at(&["field"]))
        .collect();
    if is_brief && !fields.is_empty() {
        let shown = fields.get(..SHOWN_FIELDS).unwrap_or(&fields);
        let _ = write!(out, ": {}", shown.join(", "));
        let omitted = item.get("fieldsOmitted").and_then(Value::as_i64).unwrap_or_default();
        let more = fields.len() - shown.len() + usize::try_from(omitted).unwrap_or_default();
        if more > 0 {
            let _ = write!(out, " and {more} more");
        }
    }
    out.push('\n');
    if with_values {
        write_fields(&mut out, item, is_secret);
    }
    out
}

/// Returns a field manager with its operation: `ci (Apply)`.
fn manager(manager: &Value) -> String {
    let text = |name: &str| manager.str_at(&[name]).unwrap_or_default();
    let operation = match text("subresource") {
        "" => text("operation").to_owned(),
        subresource => format!("{}/{subresource}", text("operation")),
    };
    printable_line(&format!("{} ({operation})", text("manager")))
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    fn tree(text: &str) -> Value {
        yaml::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    #[test]
    fn version_has_managers_and_changed_fields() {
        let item = tree(
            "{resourceVersion: '7', time: T, operation: Update, managers: [{manager: ci, operation: Apply}, {manager: k, \
             operation: Update, subresource: scale}], fields: [{field: .a, change: Changed, before: 1, after: 2}, {field: .b}, \
             {field: .c}, {field: .d}, {field: .e}, {field: .f}], fieldsOmitted: 2}",
        );
        assert_eq!(
            text(&item, false, false),
            "7  T  update by ci (Apply), k (Update/scale): .a, .b, .c, .d, .e and 3 more\n"
        );
        let shown = text(&item, true, false);
        assert!(
            shown.contains("\n  ~ .a: 1 -> 2\n") && shown.ends_with("  … and 2 more fields\n"),
            "{shown}"
        );
    }

    #[test]
    fn version_without_event_or_content_is_one_line() {
        for (item, expected) in [
            ("{resourceVersion: '3', operation: Update}", "3  -  update\n"),
            ("{resourceVersion: '9', time: T, operation: Delete}", "9  T  delete\n"),
            (
                "{resourceVersion: '9', time: T, operation: Update, error: no key}",
                "9  T  update: no key\n",
            ),
            (
                "{resourceVersion: '2', time: T, operation: Create, fields: [{field: .a}]}",
                "2  T  create\n",
            ),
        ] {
            assert_eq!(text(&tree(item), false, false), expected);
        }
    }

    #[test]
    fn values_of_secrets_are_hidden() {
        let item = tree("{operation: Update, fields: [{field: .data.a, change: Changed, before: x, after: y}]}");
        assert!(text(&item, true, true).ends_with("  ~ .data.a: *** -> ***\n"));
    }
}
