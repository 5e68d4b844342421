//! `holdfast check`: the meaning of the flags of a server, before they are used.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::CommandFactory as _;
use holdfast_kind_tables::features::FeatureGates;
use time::OffsetDateTime;

use crate::flags::{Arguments, Serve};
use crate::serve::{Rehearsal, rehearse};
use crate::{files, logging, pki};

/// Remaining validity below which a certificate is reported.
pub(crate) const EXPIRY_WARNING: time::Duration = time::Duration::days(30);

/// Admission plugins that deny requests by themselves, and the requests.
const DENYING_PLUGINS: [(&str, &str); 8] = [
    ("AlwaysDeny", "all writes"),
    ("DenyServiceExternalIPs", "Services with new external IPs"),
    (
        "EventRateLimit",
        "Events above the limits of --admission-control-config-file",
    ),
    ("ImagePolicyWebhook", "Pods whose images the webhook denies"),
    (
        "LimitPodHardAntiAffinityTopology",
        "Pods with required anti-affinity in other topologies than the host name",
    ),
    ("NodeRestriction", "writes of kubelets to objects of other nodes"),
    (
        "OwnerReferencesPermissionEnforcement",
        "blocking owner references without permission for the owner",
    ),
    ("ServiceAccount", "Pods whose service account does not exist"),
];

/// Prints the meaning of the flags.
///
/// # Errors
/// If a server would not start with them.
pub(crate) fn run(mut flags: Serve) -> Result<()> {
    match flags.is_set("v") {
        true => logging::start(flags.logging_format, flags.v),
        false => logging::start_quietly(flags.logging_format),
    }
    let before = Before::new(&flags);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(rehearse(&mut flags));
    runtime.shutdown_background();
    let now = OffsetDateTime::now_utc();
    let mut report = Report::default();
    before.describe(&mut report, now);
    if let Ok(rehearsal) = &outcome {
        describe(&flags, rehearsal, &mut report);
    }
    std::io::stdout().write_all(report.text.as_bytes())?;
    outcome?;
    ensure!(report.errors.is_empty(), "{}", report.errors.join("; "));
    Ok(())
}

/// Lines of the report, and errors that no line of code before the start of a server reports.
#[derive(Default)]
struct Report {
    text: String,
    errors: Vec<String>,
}

impl Report {
    fn line(&mut self, subject: &str, meaning: &str) {
        let _ = writeln!(self.text, "{subject:<14}{meaning}");
    }

    fn lines(&mut self, subject: &str, meanings: impl IntoIterator<Item = String>) {
        for (at, meaning) in meanings.into_iter().enumerate() {
            self.line(if at == 0 { subject } else { "" }, &meaning);
        }
    }
}

/// Settings that the rehearsal replaces.
struct Before {
    address: SocketAddr,
    data_dir: PathBuf,
    etcd: Vec<String>,
    is_persistent: bool,
    /// Files that flags name: flag and path.
    files: Vec<(String, PathBuf)>,
    ignored: Vec<String>,
}

impl Before {
    fn new(flags: &Serve) -> Self {
        Self {
            address: SocketAddr::new(flags.bind_address, flags.secure_port),
            data_dir: flags.data_dir.clone(),
            etcd: flags.storage.etcd_servers.clone(),
            is_persistent: !flags.unsafe_no_fsync,
            files: named_files(flags),
            ignored: flags.ignored.iter().cloned().collect(),
        }
    }

    fn describe(&self, report: &mut Report, now: OffsetDateTime) {
        let store = self.data_dir.join("store.db");
        match (self.etcd.is_empty(), std::fs::metadata(&store)) {
            (false, _) => report.line("storage", &format!("etcd at {} (not contacted)", self.etcd.join(", "))),
            (true, Ok(file)) => report.line("storage", &format!("{}, {} bytes", store.display(), file.len())),
            (true, Err(_)) => report.line(
                "storage",
                &format!("{}, which the first start creates", store.display()),
            ),
        }
        if !self.is_persistent {
            report.line("", "warning: --unsafe-no-fsync loses objects if the machine crashes");
        }
        report.line("address", &format!("https://{}", self.address));
        if let Err(error) = TcpListener::bind(self.address) {
            report.line("", &format!("warning: a server cannot listen there now: {error}"));
        }
        let files = self.files.iter().map(|(flag, path)| {
            let state = match std::fs::metadata(path) {
                Ok(file) if file.is_file() => format!("{} bytes", file.len()),
                Ok(_) => "a directory".to_owned(),
                Err(error) => format!("{error}"),
            };
            format!("--{flag}={}: {state}", path.display())
        });
        report.lines("files", files);
        self.certificates(report, now);
        let ignored = self.ignored.iter().map(|flag| format!("--{flag} has no effect here"));
        report.lines("ignored", ignored);
    }

    /// Describes the certificates that flags name, and those that the server has created.
    fn certificates(&self, report: &mut Report, now: OffsetDateTime) {
        let possible = ["ca.crt", "server.crt", "admin.crt"].map(|name| self.data_dir.join("pki").join(name));
        let own = possible.into_iter().filter(|path| path.exists());
        let is_certificate = |flag: &str| flag.contains("cert") || flag.contains("-ca-") || flag.ends_with("cafile");
        let named = self
            .files
            .iter()
            .filter(|(flag, _)| is_certificate(flag))
            .map(|(_, path)| path.clone());
        let mut lines = Vec::new();
        for path in own.chain(named) {
            // Keys and configurations have such names, too.
            if let Some(end) = files::read_bounded(&path)
                .ok()
                .and_then(|text| pki::end_of_pem(&text).ok())
            {
                lines.push(format!("{}: {}", path.display(), validity(end, now)));
                if end < now && !path.starts_with(self.data_dir.join("pki")) {
                    report.errors.push(format!("{} has expired", path.display()));
                }
            }
        }
        report.lines("certificates", lines);
    }
}

/// Returns the end of a certificate, with a warning if it is near.
pub(crate) fn validity(end: OffsetDateTime, now: OffsetDateTime) -> String {
    let left = end - now;
    let warning = match () {
        () if left.is_negative() => ", warning: expired".to_owned(),
        () if left < EXPIRY_WARNING => format!(", warning: {} days left", left.whole_days()),
        () => String::new(),
    };
    format!("valid until {}{warning}", end.date())
}

/// Returns the files that the command line names.
fn named_files(flags: &Serve) -> Vec<(String, PathBuf)> {
    let command = Arguments::command();
    let is_file = |argument: &clap::Arg| {
        let names = argument.get_value_names().unwrap_or_default();
        names.iter().any(|name| name.as_str() == "FILE")
    };
    // The server writes these.
    let is_output = |flag: &str| ["audit-log-path", "ready-file"].contains(&flag);
    let set = command
        .get_arguments()
        .filter(|argument| flags.is_set(argument.get_id().as_str()) && is_file(argument));
    let names = set.filter_map(clap::Arg::get_long).filter(|flag| !is_output(flag));
    let value = |flag: &str| {
        flags
            .stated
            .get(flag)
            .map(|value| value.trim_matches(['[', ']']).to_owned())
    };
    let named = names.flat_map(|flag| {
        let values = value(flag).unwrap_or_default();
        let paths: Vec<PathBuf> = values
            .split(',')
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
            .collect();
        paths.into_iter().map(move |path| (flag.to_owned(), path))
    });
    named.collect()
}

fn describe(flags: &Serve, rehearsal: &Rehearsal, report: &mut Report) {
    let defaults = FeatureGates::default();
    let changed = rehearsal.gates.iter().filter(|gate| {
        let mut same = defaults.iter().filter(|default| default.name == gate.name);
        same.any(|default| default.on != gate.on)
    });
    report.lines("gates", changed.map(|gate| format!("{}={}", gate.name, gate.on)));
    report.line("controllers", &or_none(&rehearsal.controllers.join(", ")));
    report.line("admission", &or_none(&rehearsal.plugins.join(", ")));
    report.lines("denied", denials(flags, &rehearsal.plugins));
}

fn or_none(text: &str) -> String {
    if text.is_empty() {
        "none".to_owned()
    } else {
        text.to_owned()
    }
}

/// Returns the requests that the server would deny although their users have permission.
fn denials(flags: &Serve, plugins: &[String]) -> Vec<String> {
    let mut denials = Vec::new();
    if !flags.anonymous_auth {
        denials.push("requests without credentials, health checks included (--anonymous-auth=false)".to_owned());
    }
    if !flags.allow_privileged {
        denials.push("privileged Pods (--allow-privileged=false)".to_owned());
    }
    let denying = DENYING_PLUGINS
        .iter()
        .filter(|(plugin, _)| plugins.iter().any(|on| on == plugin));
    denials.extend(denying.map(|(plugin, requests)| format!("{requests} ({plugin})")));
    denials
}
