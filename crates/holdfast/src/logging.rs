//! The log: lines on the standard error, for people or for machines.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::flags::LogFormat;

/// Environment variable with the log filter that overrides `-v`, in the syntax of `tracing` (`holdfast_server=debug`).
const VARIABLE: &str = "HOLDFAST_LOG";

/// Starts logging. `verbosity` is that of kube-apiserver's `-v`.
pub(crate) fn start(format: LogFormat, verbosity: u8) {
    start_at(
        format,
        match verbosity {
            0 | 1 => "info",
            2..=4 => "debug",
            _ => "trace",
        },
    );
}

/// Starts logging warnings and errors only.
pub(crate) fn start_quietly(format: LogFormat) {
    start_at(format, "warn");
}

fn start_at(format: LogFormat, level: &str) {
    // The libraries below log a lot that is useful only to their authors.
    let usual = || EnvFilter::new(format!("{level},hyper=info,h2=info,rustls=info,tokio=info"));
    let stated = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let parsed = stated.map(|text| EnvFilter::try_new(&text).map_err(|error| (text, error)));
    let (filter, invalid) = match parsed {
        Some(Ok(filter)) => (filter, None),
        Some(Err(invalid)) => (usual(), Some(invalid)),
        None => (usual(), None),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => builder.with_target(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    if let Some((text, error)) = invalid {
        tracing::warn!(filter = text, %error, "the filter of {VARIABLE} is invalid and ignored");
    }
}
