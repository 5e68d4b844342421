//! `holdfast apply`: applies manifests to any Kubernetes server, and decides about each conflict.

mod atomic;
mod conflicts;
mod decisions;
pub(crate) mod manifests;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use holdfast_ownership::PathText;
use holdfast_value::{Value, json};

use self::conflicts::Conflict;
use self::decisions::{Answers, Decision};
use crate::remote::{Access, AccessFlags, Client, Resource};
use crate::terminal::{printable_line, printable_text};

/// Manifests to apply, the server, and decisions about conflicts.
#[derive(Debug, Args)]
pub(crate) struct ApplyFlags {
    /// File or directory of manifests (YAML or JSON; - for the standard input). May be repeated
    #[arg(short, long, value_name = "PATH", required = true)]
    filename: Vec<PathBuf>,

    /// Accepted for the form of kubectl; every apply is a Server-Side Apply
    #[arg(long)]
    server_side: bool,

    /// Name of the field manager
    #[arg(long, value_name = "NAME", default_value = "holdfast")]
    field_manager: String,

    /// Namespace of objects whose manifests name none
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// Become the owner of this field and those below it without asking, such as .spec.replicas. May be repeated
    #[arg(long, value_name = "FIELD")]
    yes_to: Vec<String>,

    /// Store nothing
    #[arg(long)]
    dry_run: bool,

    /// Apply all manifests in one transaction, or none of them. Only Holdfast has transactions
    #[arg(long)]
    atomic: bool,

    #[command(flatten)]
    access: AccessFlags,
}

/// Maximum number of applies of one object: each may conflict with changes since the one before.
const MAX_APPLIES: usize = 10;

/// Applies the manifests in their order.
pub(crate) fn run(flags: &ApplyFlags) -> Result<()> {
    let mut yes_to = Vec::new();
    for text in &flags.yes_to {
        yes_to.extend(PathText::parse_list(text).context("--yes-to")?);
    }
    let manifests = manifests::read(&flags.filename)?;
    let access = Access::from_flags(&flags.access)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if flags.atomic {
        return runtime.block_on(atomic::apply(flags, &access, &yes_to, &manifests));
    }
    let mut failed = 0;
    for manifest in manifests {
        let subject = printable_line(&subject(&manifest));
        match runtime.block_on(apply(flags, &access, &yes_to, manifest)) {
            Ok(()) => {
                let suffix = if flags.dry_run { " (server dry run)" } else { "" };
                writeln!(io::stdout(), "{subject} serverside-applied{suffix}")?;
            }
            Err(error) => {
                failed += 1;
                writeln!(io::stderr(), "{subject}: {}", printable_text(&format!("{error:#}")))?;
            }
        }
    }
    match failed {
        0 => Ok(()),
        failed => bail!("{failed} of the objects could not be applied"),
    }
}

/// Returns the object in the form of kubectl: `deployment.apps/web`.
pub(crate) fn subject(manifest: &Value) -> String {
    let text = |path: &[&str]| manifest.str_at(path).unwrap_or_default();
    let kind = text(&["kind"]).to_lowercase();
    let name = text(&["metadata", "name"]);
    match text(&["apiVersion"]).split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

/// Applies one manifest until it has no conflict, or until a conflict is not decided.
async fn apply(flags: &ApplyFlags, access: &Access, yes_to: &[PathText], mut manifest: Value) -> Result<()> {
    let path = path(flags, access, &manifest).await?;
    let mut forced = Forced::Fields(Vec::new());
    for _ in 0..MAX_APPLIES {
        // The server may have closed the connection while somebody thought about the answer.
        let mut client = Client::connect(access).await?;
        let body = json::to_string(&manifest);
        let (status, answer) = client.apply(&path, &query(flags, &forced), body.into()).await?;
        if status.is_success() {
            return Ok(());
        }
        let mut conflicts = conflicts::of_status(&answer);
        if conflicts.is_empty() {
            bail!("{}", answer.str_at(&["message"]).unwrap_or("the server rejected it"));
        }
        let knows_options = answer.at(&["details", "conflicts"]).is_some();
        let mut version = None;
        if !knows_options {
            let existing = client.get(&path, "application/json").await?;
            conflicts
                .iter_mut()
                .for_each(|conflict| conflict.fill_in(&existing, &manifest));
            version = existing.at(&["metadata", "resourceVersion"]).cloned();
        }
        let taken = decide(&conflicts, yes_to, &mut manifest)?;
        forced = match (knows_options, taken.is_empty()) {
            (true, _) => {
                let mut fields = forced.into_fields();
                fields.extend(taken);
                Forced::Fields(fields)
            }
            (false, true) => Forced::Fields(Vec::new()),
            // All other conflicts are resolved in the manifest. The version makes sure that there are no new ones.
            (false, false) => {
                if let Some(version) = version {
                    manifest.set_at(&["metadata", "resourceVersion"], version);
                }
                Forced::All
            }
        };
    }
    bail!("there were new conflicts after each of {MAX_APPLIES} applies")
}

/// The conflicts that an apply ignores.
enum Forced {
    /// Conflicts about these fields.
    Fields(Vec<String>),
    /// All conflicts, for servers that cannot tell fields apart.
    All,
}

impl Forced {
    fn into_fields(self) -> Vec<String> {
        match self {
            Self::Fields(fields) => fields,
            Self::All => Vec::new(),
        }
    }
}

/// Decides about each conflict. Changes the manifest if others keep or share a field; returns the fields to force.
fn decide(conflicts: &[Conflict], yes_to: &[PathText], manifest: &mut Value) -> Result<Vec<String>> {
    let decided: Vec<bool> = conflicts
        .iter()
        .map(|conflict| conflict.is_below(yes_to, manifest))
        .collect();
    if decided.contains(&false) && !io::stdin().is_terminal() {
        let mut list = String::from("these fields conflict; decide with --yes-to, or on a terminal:");
        for (conflict, _) in conflicts.iter().zip(&decided).filter(|(_, decided)| !**decided) {
            list.push('\n');
            list.push_str(&conflict.to_string());
        }
        bail!(list);
    }
    let mut answers = Answers::new(io::stdin().lock(), io::stderr());
    let mut taken = Vec::new();
    for (conflict, decided) in conflicts.iter().zip(decided) {
        let decision = match decided {
            true => Decision::TakeOver,
            false => answers.ask(conflict)?,
        };
        match decision {
            Decision::TakeOver => taken.push(conflict.field.clone()),
            Decision::Keep => conflict.remove_from(manifest)?,
            Decision::Share => conflict.share_in(manifest)?,
        }
    }
    Ok(taken)
}

/// Returns the path of the object.
async fn path(flags: &ApplyFlags, access: &Access, manifest: &Value) -> Result<String> {
    let text = |path: &[&str]| manifest.str_at(path).unwrap_or_default();
    let (group, version) = match text(&["apiVersion"]).split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", text(&["apiVersion"])),
    };
    let mut client = Client::connect(access).await?;
    let name = format!("{}.{version}.{group}", text(&["kind"]));
    let resource = Resource::find(&mut client, &name).await?;
    let namespaces = [
        manifest.str_at(&["metadata", "namespace"]),
        flags.namespace.as_deref(),
        access.namespace.as_deref(),
    ];
    let namespace = namespaces.into_iter().flatten().next().unwrap_or("default");
    resource.path(namespace, text(&["metadata", "name"]))
}

/// Returns the query of an apply.
fn query(flags: &ApplyFlags, forced: &Forced) -> String {
    let mut query = format!("fieldManager={}&conflictDetails=true", encoded(&flags.field_manager));
    if flags.dry_run {
        query.push_str("&dryRun=All");
    }
    match forced {
        Forced::All => query.push_str("&force=true"),
        Forced::Fields(fields) => {
            for field in fields {
                query.push_str("&forceFields=");
                query.push_str(&encoded(field));
            }
        }
    }
    query
}

/// Returns the text with percent encoding.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    #[test]
    fn objects_are_named_like_in_kubectl() {
        let named = |text: &str| subject(&yaml::parse(text.as_bytes(), &Limits::default()).unwrap());
        assert_eq!(
            named("{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}"),
            "deployment.apps/web"
        );
        assert_eq!(named("{apiVersion: v1, kind: Pod, metadata: {name: a}}"), "pod/a");
    }

    #[test]
    fn texts_are_encoded_for_a_query() {
        assert_eq!(encoded(r#".a[n="ü"]&"#), ".a%5Bn%3D%22%C3%BC%22%5D%26");
    }
}
