//! Pages of the reference: tables generated from the code.

use std::fmt::Write as _;

use anyhow::Result;
use clap::{Arg, Command, ValueEnum};
use holdfast_admission::AdmissionChain;
use holdfast_admission_plugins::{PluginSettings, all_plugins, names};
use holdfast_kind_tables::features::{Claim, Feature, FeatureGates, Gate, Stage};

use crate::compatible::FlagState;
use crate::{admission, compatible, help};

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Page {
    /// Flags of the server and of the commands.
    Flags,
    /// Feature gates.
    FeatureGates,
    /// Admission plugins.
    AdmissionPlugins,
    /// Metrics.
    Metrics,
}

impl Page {
    /// Returns the page in Markdown.
    pub(crate) fn text(self) -> Result<String> {
        match self {
            Self::Flags => Ok(flags()),
            Self::FeatureGates => Ok(feature_gates()),
            Self::AdmissionPlugins => admission_plugins(),
            Self::Metrics => metrics(),
        }
    }
}

fn flags() -> String {
    let mut command = help::command().disable_help_subcommand(true);
    command.build();
    let mut page = String::from(
        "# Flags\n\nA flag has the same name as in kube-apiserver, if kube-apiserver has it. Boolean flags are written `--flag`, \
         `--flag=true` or `--flag=false`. If a flag with one value is repeated, the last value applies.\n\n\
         ## Server\n\n",
    );
    table_of_flags(&mut page, &command);
    table_of_reference_flags(&mut page);
    for command in command.get_subcommands() {
        of_command(&mut page, "holdfast", command);
    }
    page
}

/// Writes the section that lists all flags of kube-apiserver with their state.
fn table_of_reference_flags(page: &mut String) {
    *page += "\n## Flags of kube-apiserver 1.36\n\nCommand lines written for kube-apiserver are accepted. A flag without effect is \
              accepted and logged. A flag that is not supported yet ends the process with an error that names it, unless its value is \
              empty or `false`: ignoring it could weaken security or hide a missing feature.\n\n| flag | state |\n|---|---|\n";
    for flag in compatible::reference_flags() {
        let state = match flag.state {
            FlagState::Supported => "supported".to_owned(),
            FlagState::NoEffect(reason) => format!("no effect: {reason}"),
            FlagState::Unsupported => "not supported yet".to_owned(),
            FlagState::Fixed(values) => format!("not supported yet, except the values {}", values.replace(' ', ", ")),
        };
        let _ = writeln!(page, "| `--{}` | {} |", flag.name, cell(&state));
    }
}

/// Writes a section about a command, and the sections of its subcommands.
fn of_command(page: &mut String, before: &str, command: &Command) {
    let called = format!("{before} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(page, "\n## `{called}`\n\n{}.\n", about.trim_end_matches('.'));
    let places: Vec<&Arg> = command.get_positionals().collect();
    if !places.is_empty() {
        *page += "\n| argument | description |\n|---|---|\n";
        for place in places {
            let _ = writeln!(page, "| `{}` | {} |", value(place), help(place));
        }
    }
    if is_of_server(&called) {
        *page += "\nThe flags are those of the server.\n";
    } else if flags_of(command).next().is_some() {
        page.push('\n');
        table_of_flags(page, command);
    }
    for below in command.get_subcommands() {
        of_command(page, &called, below);
    }
}

/// True if a command has the flags of the server.
fn is_of_server(called: &str) -> bool {
    let command = called.strip_prefix("holdfast ");
    command.is_some_and(|command| help::SERVERS.contains(&command))
}

/// Returns the flags of a command, except `--help` and `--version`.
fn flags_of(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| {
        let is_general = ["help", "version"].contains(&argument.get_id().as_str());
        !argument.is_hide_set() && !is_general && argument.get_long().is_some()
    })
}

fn table_of_flags(page: &mut String, command: &Command) {
    *page += "| flag | default | description |\n|---|---|---|\n";
    let mut flags: Vec<&Arg> = flags_of(command).collect();
    flags.sort_by_key(|argument| argument.get_long());
    for argument in flags {
        let Some(flag) = argument.get_long() else { continue };
        let short = argument
            .get_short()
            .map(|short| format!("`-{short}`, "))
            .unwrap_or_default();
        let value = match argument.get_action().takes_values() {
            true => format!(" {}", value(argument)),
            false => String::new(),
        };
        let _ = writeln!(
            page,
            "| {short}`--{flag}{value}` | {} | {} |",
            default(argument),
            help(argument)
        );
    }
}

/// Returns the placeholder for the value of an argument.
fn value(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let shown = match names {
        [] => argument.get_id().as_str().to_uppercase(),
        names => names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    };
    // A bar ends a cell, in code too.
    shown.replace('|', "\\|")
}

fn default(argument: &Arg) -> String {
    let values = argument.get_default_values().iter();
    let defaults: Vec<String> = values.map(|value| format!("`{}`", value.to_string_lossy())).collect();
    match argument.get_action().takes_values() {
        true => cell(&defaults.join(", ")),
        false => String::new(),
    }
}

fn help(argument: &Arg) -> String {
    let text = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let mut help = cell(&text);
    let chosen: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let of_switch = chosen == ["`true`", "`false`"];
    if !chosen.is_empty() && !of_switch {
        let _ = write!(help, ": {}", chosen.join(", "));
    }
    help
}

/// Escapes a text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('<', "&lt;")
        .replace('*', "\\*")
        .replace('\n', " ")
}

fn feature_gates() -> String {
    let mut page = String::from(
        "# Feature gates\n\n`--feature-gates` accepts all feature gates of kube-apiserver 1.36, with the same stages and defaults. The \
         last column describes the effect of each gate in Holdfast:\n\n\
         - *effect*: the gate enables or disables the behaviour.\n\
         - *always*: Holdfast always has the behaviour.\n\
         - *absent*: Holdfast does not have the behaviour, whatever the value of the gate.\n\
         - *no effect*: the gate belongs to another component, or changes nothing here.\n\n\
         | gate | stage | default | in Holdfast |\n|---|---|---|---|\n",
    );
    for gate in FeatureGates::default().iter() {
        let stage = match gate.stage {
            Stage::Alpha => "alpha",
            Stage::Beta => "beta",
            Stage::Stable => "stable",
            Stage::Deprecated => "deprecated",
        };
        let default = if gate.on { "on" } else { "off" };
        let locked = if gate.is_locked() { ", locked" } else { "" };
        let _ = writeln!(
            page,
            "| `{}` | {stage} | {default}{locked} | {} |",
            gate.name,
            cell(&gate_effect(gate))
        );
    }
    page
}

/// Returns the effect of a gate in Holdfast.
fn gate_effect(gate: &Gate) -> String {
    if gate.is_of_stage() {
        return "effect: sets all gates of its stage".to_owned();
    }
    let effect = Feature::named(gate.name).map(Feature::effect);
    match (effect, gate.claim()) {
        (Some(effect), Some(Claim::Lacks(missing))) => format!("effect: {effect} Absent: {missing}"),
        (Some(effect), _) => format!("effect: {effect}"),
        (None, Some(Claim::Always(behaviour))) => format!("always: {behaviour}"),
        (None, Some(Claim::Absent(reason) | Claim::Lacks(reason))) => format!("absent: {reason}"),
        (None, Some(Claim::NoEffect(reason))) => format!("no effect: {reason}"),
        (None, None) => format!("no effect: used only by {}", gate.components().join(", ")),
    }
}

fn admission_plugins() -> Result<String> {
    let mut page = String::from(
        "# Admission plugins\n\nThe admission plugins of kube-apiserver 1.36, in the order in which they run. \
         `--enable-admission-plugins` and `--disable-admission-plugins` change the default.\n\n\
         | plugin | default |\n|---|---|\n",
    );
    let settings = PluginSettings::default();
    let (on, all) = (
        admission::chain(&[], &[], &settings)?,
        AdmissionChain::new(all_plugins(&settings)),
    );
    for known in names() {
        let here = if on.names().any(|name| name == known) {
            "on".to_owned()
        } else if let Some(gate) = all.gate(known) {
            format!("on with the feature gate `{gate}`")
        } else {
            "off".to_owned()
        };
        let _ = writeln!(page, "| `{known}` | {here} |");
    }
    Ok(page)
}

fn metrics() -> Result<String> {
    let mut page = String::from(
        "# Metrics\n\n`/metrics` has these metrics once they have a value. Names and labels are those of kube-apiserver. Metrics \
         that begin with `etcd_` exist only on etcd. The metrics of health checks are at `/metrics/slis`.\n\n\
         | metric | type | stability | labels | description |\n|---|---|---|---|---|\n",
    );
    let mut counters = holdfast_kinds::Config::default().counters.families();
    counters.extend(holdfast_server::identity::new_token_counters());
    for family in holdfast_server::metrics::families(counters)? {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} |",
            family.name,
            family.kind,
            family.stability.to_ascii_lowercase(),
            labels.join(", "),
            cell(&family.help)
        );
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_a_row_for_each_thing() {
        for page in Page::value_variants() {
            let text = page.text().unwrap();
            assert!(text.starts_with("# "), "{text}");
            let cells = |line: &str| line.replace("\\|", "").matches('|').count();
            let mut tables = text.lines().filter(|line| line.starts_with('|')).peekable();
            assert!(tables.peek().is_some());
            for pair in text.lines().collect::<Vec<_>>().windows(2) {
                if let [above, below] = pair
                    && above.starts_with('|')
                    && below.starts_with('|')
                {
                    assert_eq!(cells(above), cells(below), "{above}\n{below}");
                }
            }
        }
        let flags = Page::Flags.text().unwrap();
        assert!(flags.contains("| `--secure-port PORT` | `6443` |"), "{flags}");
        assert!(flags.contains("`--logging-format FORMAT` | `text` | Log format. JSON lines have the keys of kube-apiserver's: `text`, `json` |"));
        assert!(flags.contains("## `holdfast snapshot save`"));
        assert!(flags.contains("| `--admission-control` | not supported yet |"));
        assert!(flags.contains("| `--watch-cache-sizes` | no effect: all objects are served from memory |"));
        assert!(!flags.contains("holdfast reference"));
        let plugins = Page::AdmissionPlugins.text().unwrap();
        for row in [
            "| `NamespaceLifecycle` | on |",
            "| `ServiceAccount` | off |",
            "| `PodTopologyLabels` | on |",
            "| `AlwaysDeny` | off |",
        ] {
            assert!(plugins.contains(row), "{row}: {plugins}");
        }
        let metrics = Page::Metrics.text().unwrap();
        for row in [
            "| `apiserver_flowcontrol_rejected_requests_total` | counter | beta | `flow_schema`, `priority_level`, `reason` |",
            "| `apiserver_storage_objects` | gauge | stable | `resource` |",
            "| `etcd_request_duration_seconds` | histogram | alpha | `group`, `operation`, `resource` |",
        ] {
            assert!(metrics.contains(row), "{row}: {metrics}");
        }
        assert!(!metrics.contains("| untyped |"));
    }
}
