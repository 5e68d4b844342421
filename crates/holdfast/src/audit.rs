//! kube-apiserver's flags for the audit log.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use bytes::Bytes;
use clap::{ArgAction, Args};
use futures_util::future::BoxFuture;
use holdfast_audit::sink::log::{Format, Retention, Target};
use holdfast_audit::sink::{BackendConfig, Batching, Ended, Truncation};
use holdfast_audit::{Auditor, Mode, Observer, Policy, Post, Sink};
use holdfast_egress::Dialer;
use holdfast_gotext::duration;
use holdfast_server::runtime::background::Background;
use holdfast_server::runtime::shutdown::Shutdown;
use holdfast_server::runtime::{Clock as _, SystemClock};

use crate::files;
use crate::remote::beginning;
use crate::webhook::Webhook;

/// Health check that fails if the audit log is no longer written.
pub(crate) const CHECK: &str = "audit";

/// Time limit at shutdown for writing and sending the remaining events.
pub(crate) const CLOSE_LIMIT: Duration = Duration::from_secs(60);

/// The only version of events.
const VERSION: &str = "audit.k8s.io/v1";

/// Flags about the audit log.
#[derive(Clone, Debug, Args)]
pub(crate) struct AuditFlags {
    /// File with the audit policy, which defines the audited requests and their level
    #[arg(long, value_name = "FILE", value_parser = file)]
    audit_policy_file: Option<PathBuf>,

    /// File of the audit log; - means standard output
    #[arg(long, value_name = "FILE", value_parser = file)]
    audit_log_path: Option<PathBuf>,

    /// Maximum number of days to retain old audit log files; 0 retains them forever
    #[arg(long, value_name = "DAYS", default_value_t = 366, allow_negative_numbers = true)]
    audit_log_maxage: i64,

    /// Maximum number of old audit log files to retain; 0 retains all
    #[arg(long, value_name = "NUMBER", default_value_t = 100, allow_negative_numbers = true)]
    audit_log_maxbackup: i64,

    /// Maximum size in megabytes of the audit log file before it is rotated; 0 for no limit
    #[arg(long, value_name = "MEGABYTES", default_value_t = 100, allow_negative_numbers = true)]
    audit_log_maxsize: i64,

    /// Compress rotated audit log files with gzip
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    audit_log_compress: bool,

    /// Format of saved audit events: json, or legacy for one line of text per event
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    audit_log_format: String,

    /// Strategy for writing audit events. `blocking` and `blocking-strict` delay the response until the event is
    /// written; `batch` buffers events and writes them asynchronously
    #[arg(long, value_name = "MODE", default_value = "blocking")]
    audit_log_mode: String,

    /// Size of the buffer of events before they are batched and written. Only used in batch mode
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, allow_negative_numbers = true)]
    audit_log_batch_buffer_size: i64,

    /// Maximum number of events in a batch. Only used in batch mode
    #[arg(long, value_name = "NUMBER", default_value_t = 1, allow_negative_numbers = true)]
    audit_log_batch_max_size: i64,

    /// Time to wait before a batch that is not full is written. Only used in batch mode
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse_from_zero)]
    audit_log_batch_max_wait: Duration,

    /// Limit the rate of batches. Only used in batch mode
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    audit_log_batch_throttle_enable: bool,

    /// Maximum average number of batches per second. Only used in batch mode
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0, allow_negative_numbers = true)]
    audit_log_batch_throttle_qps: f32,

    /// Maximum number of batches written at the same moment if the throttle was idle before. Only used in batch mode
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_negative_numbers = true)]
    audit_log_batch_throttle_burst: i64,

    /// Truncate events and batches that are too large before they are written
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    audit_log_truncate_enabled: bool,

    /// Maximum size in bytes of a batch of events
    #[arg(long, value_name = "BYTES", default_value_t = 10 << 20, allow_negative_numbers = true)]
    audit_log_truncate_max_batch_size: i64,

    /// Maximum size in bytes of an event. The request and response objects of larger events are removed; if that is not
    /// enough, the event is discarded
    #[arg(long, value_name = "BYTES", default_value_t = 100 << 10, allow_negative_numbers = true)]
    audit_log_truncate_max_event_size: i64,

    /// API group and version of the events in the log
    #[arg(long, value_name = "VERSION", default_value = VERSION)]
    audit_log_version: String,

    /// Kubeconfig file that defines the audit webhook
    #[arg(long, value_name = "FILE", value_parser = file)]
    audit_webhook_config_file: Option<PathBuf>,

    /// Time to wait before the first failed request is retried
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse_from_zero,
          alias = "audit-webhook-batch-initial-backoff")]
    audit_webhook_initial_backoff: Duration,

    /// Strategy for sending audit events. `blocking` and `blocking-strict` delay the response until the event is sent;
    /// `batch` buffers events and sends them asynchronously
    #[arg(long, value_name = "MODE", default_value = "batch")]
    audit_webhook_mode: String,

    /// Size of the buffer of events before they are batched and sent. Only used in batch mode
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, allow_negative_numbers = true)]
    audit_webhook_batch_buffer_size: i64,

    /// Maximum number of events in a batch. Only used in batch mode
    #[arg(long, value_name = "NUMBER", default_value_t = 400, allow_negative_numbers = true)]
    audit_webhook_batch_max_size: i64,

    /// Time to wait before a batch that is not full is sent. Only used in batch mode
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse_from_zero)]
    audit_webhook_batch_max_wait: Duration,

    /// Limit the rate of batches. Only used in batch mode
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    audit_webhook_batch_throttle_enable: bool,

    /// Maximum average number of batches per second. Only used in batch mode
    #[arg(long, value_name = "NUMBER", default_value_t = 10.0, allow_negative_numbers = true)]
    audit_webhook_batch_throttle_qps: f32,

    /// Maximum number of batches sent at the same moment if the throttle was idle before. Only used in batch mode
    #[arg(long, value_name = "NUMBER", default_value_t = 15, allow_negative_numbers = true)]
    audit_webhook_batch_throttle_burst: i64,

    /// Truncate events and batches that are too large before they are sent
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    audit_webhook_truncate_enabled: bool,

    /// Maximum size in bytes of a batch of events
    #[arg(long, value_name = "BYTES", default_value_t = 10 << 20, allow_negative_numbers = true)]
    audit_webhook_truncate_max_batch_size: i64,

    /// Maximum size in bytes of an event. The request and response objects of larger events are removed; if that is not
    /// enough, the event is discarded
    #[arg(long, value_name = "BYTES", default_value_t = 100 << 10, allow_negative_numbers = true)]
    audit_webhook_truncate_max_event_size: i64,

    /// API group and version of the events that are sent
    #[arg(long, value_name = "VERSION", default_value = VERSION)]
    audit_webhook_version: String,
}

/// Parses a file name; an empty one means no file.
fn file(text: &str) -> Result<PathBuf, Infallible> {
    Ok(text.into())
}

/// Returns the file that a flag names.
fn named(path: Option<&PathBuf>) -> Option<&Path> {
    path.map(PathBuf::as_path).filter(|path| !path.as_os_str().is_empty())
}

/// Flags of one backend.
struct BackendFlags<'a> {
    name: &'static str,
    mode: &'a str,
    buffer_size: i64,
    max_size: i64,
    max_wait: Duration,
    throttle: Option<(f32, i64)>,
    truncates: bool,
    max_batch_bytes: i64,
    max_event_bytes: i64,
    version: &'a str,
}

impl BackendFlags<'_> {
    /// Returns the validation errors, with the reference's messages.
    fn errors(&self) -> Vec<String> {
        let mut details: Vec<String> = self.batch_error().into_iter().collect();
        let (name, event, batch) = (self.name, self.max_event_bytes, self.max_batch_bytes);
        if event <= 0 {
            details.push(format!(
                "invalid audit truncate {name} max event size {event}, must be a positive number"
            ));
        } else if batch < event {
            details.push(format!(
                "invalid audit truncate {name} max batch size {batch}, must be greater than max event size ({event})"
            ));
        }
        if self.version.matches('/').count() > 1 {
            details.push(format!("unexpected GroupVersion string: {}", self.version));
        } else if self.version != VERSION {
            details.push(format!("invalid group version, allowed versions are [{VERSION:?}]"));
        }
        details
    }

    fn batch_error(&self) -> Option<String> {
        let name = self.name;
        let Some(mode) = Mode::named(self.mode) else {
            let known: Vec<&str> = Mode::ALL.iter().map(|(_, known)| *known).collect();
            return Some(format!(
                "invalid audit {name} mode {}, allowed modes are {:?}",
                self.mode,
                known.join(",")
            ));
        };
        if mode != Mode::Batch {
            return None;
        }
        let positive = |what: &str, number: &dyn std::fmt::Display, well: bool| {
            (!well).then(|| format!("invalid audit batch {name} {what} {number}, must be a positive number"))
        };
        let (per_second, burst) = self.throttle.unwrap_or((1.0, 1));
        positive("buffer size", &self.buffer_size, self.buffer_size > 0)
            .or_else(|| positive("max batch size", &self.max_size, self.max_size > 0))
            .or_else(|| positive("throttle QPS", &per_second, per_second > 0.0))
            .or_else(|| positive("throttle burst", &burst, burst > 0))
    }

    fn config(&self) -> BackendConfig {
        let size = |number: i64| usize::try_from(number).unwrap_or_default();
        let throttle = self.throttle;
        BackendConfig {
            mode: Mode::named(self.mode).unwrap_or(Mode::Blocking),
            batching: Batching {
                buffer_size: size(self.buffer_size),
                max_size: size(self.max_size),
                max_wait: self.max_wait,
                throttle: throttle.map(|(per_second, burst)| (per_second, u32::try_from(burst).unwrap_or(u32::MAX))),
            },
            truncation: self.truncates.then(|| Truncation {
                max_event_bytes: size(self.max_event_bytes),
                max_batch_bytes: size(self.max_batch_bytes),
            }),
        }
    }
}

impl AuditFlags {
    /// Replaces the file of the log by the standard output, so that no file is opened.
    pub(crate) fn keep_nothing(&mut self) {
        if let Some(path) = self.audit_log_path.as_mut().filter(|path| !path.as_os_str().is_empty()) {
            *path = PathBuf::from("-");
        }
    }

    /// Returns the writer of the audit log; `None` if the flags name no policy, or neither a log nor a webhook. If the
    /// writer ends before the server does, the health check fails.
    pub(crate) fn auditor(
        &self,
        observer: Arc<dyn Observer>,
        dialer: Option<&Dialer>,
        background: &Background,
        shutdown: &Shutdown,
    ) -> Result<Option<Arc<Auditor>>> {
        let policy = self.policy().context("loading audit policy file")?;
        let target = self.target();
        let webhook = named(self.audit_webhook_config_file.as_ref());
        let used = target.is_some() || webhook.is_some();
        let Some(policy) = policy.filter(|_| used) else {
            if used {
                tracing::warn!("no audit policy file is named, so that no requests are audited");
            }
            return Ok(None);
        };
        let mut sink = Sink::new(Arc::clone(&observer));
        let mut ends = Vec::new();
        if let Some(target) = target {
            let path = self.audit_log_path.clone().unwrap_or_default();
            let output = target
                .open()
                .with_context(|| format!("cannot open the audit log {}", path.display()))?;
            let format = Format::named(&self.audit_log_format).unwrap_or(Format::Json);
            let ended = sink.add_log(output, format, &self.log().config());
            ends.push(("audit log", ended.context("cannot start the thread of the audit log")?));
        }
        if let Some(path) = webhook {
            let webhook = Webhook::read(path)
                .context("initializing audit webhook")?
                .through(dialer);
            let hook = Arc::new(Hook(webhook));
            let ended = sink.add_webhook(hook, self.audit_webhook_initial_backoff, &self.webhook().config());
            ends.push(("audit webhook", ended));
        }
        for (task, ended) in ends {
            watch(task, ended, background, shutdown);
        }
        Ok(Some(Arc::new(Auditor::new(policy, sink, observer, || {
            SystemClock.now()
        }))))
    }

    fn policy(&self) -> Result<Option<Policy>> {
        let Some(path) = named(self.audit_policy_file.as_ref()) else {
            return Ok(None);
        };
        let text = files::read_bounded(path).with_context(|| format!("failed to read file path {path:?}"))?;
        let policy = Policy::read(&text).map_err(|error| anyhow!("{error}: from file {}", path.display()))?;
        Ok(Some(policy))
    }

    fn target(&self) -> Option<Target> {
        let path = named(self.audit_log_path.as_ref())?.to_owned();
        if path.as_os_str() == "-" {
            return Some(Target::Stdout);
        }
        let number = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
        Some(match u64::try_from(self.audit_log_maxsize).unwrap_or_default() {
            0 => Target::Growing(path),
            megabytes => Target::Rotating(Retention {
                path,
                max_bytes: megabytes.saturating_mul(1 << 20),
                max_age_days: number(self.audit_log_maxage),
                max_backups: number(self.audit_log_maxbackup),
                compress: self.audit_log_compress,
            }),
        })
    }

    /// Returns the reference's validation errors for the flags.
    pub(crate) fn errors(&self) -> Vec<String> {
        let mut details = Vec::new();
        if self.target().is_some() {
            details.extend(self.log().errors());
            if Format::named(&self.audit_log_format).is_none() {
                let known: Vec<&str> = Format::ALL.iter().map(|(_, known)| *known).collect();
                details.push(format!(
                    "invalid audit log format {}, allowed formats are {:?}",
                    self.audit_log_format,
                    known.join(",")
                ));
            }
            for (flag, number) in [
                ("maxage", self.audit_log_maxage),
                ("maxbackup", self.audit_log_maxbackup),
                ("maxsize", self.audit_log_maxsize),
            ] {
                if number < 0 {
                    details.push(format!("--audit-log-{flag} {number} can't be a negative number"));
                }
            }
        }
        if named(self.audit_webhook_config_file.as_ref()).is_some() {
            details.extend(self.webhook().errors());
        }
        details
    }

    fn log(&self) -> BackendFlags<'_> {
        let throttle = (self.audit_log_batch_throttle_qps, self.audit_log_batch_throttle_burst);
        BackendFlags {
            name: "log",
            mode: &self.audit_log_mode,
            buffer_size: self.audit_log_batch_buffer_size,
            max_size: self.audit_log_batch_max_size,
            max_wait: self.audit_log_batch_max_wait,
            throttle: self.audit_log_batch_throttle_enable.then_some(throttle),
            truncates: self.audit_log_truncate_enabled,
            max_batch_bytes: self.audit_log_truncate_max_batch_size,
            max_event_bytes: self.audit_log_truncate_max_event_size,
            version: &self.audit_log_version,
        }
    }

    fn webhook(&self) -> BackendFlags<'_> {
        let throttle = (
            self.audit_webhook_batch_throttle_qps,
            self.audit_webhook_batch_throttle_burst,
        );
        BackendFlags {
            name: "webhook",
            mode: &self.audit_webhook_mode,
            buffer_size: self.audit_webhook_batch_buffer_size,
            max_size: self.audit_webhook_batch_max_size,
            max_wait: self.audit_webhook_batch_max_wait,
            throttle: self.audit_webhook_batch_throttle_enable.then_some(throttle),
            truncates: self.audit_webhook_truncate_enabled,
            max_batch_bytes: self.audit_webhook_truncate_max_batch_size,
            max_event_bytes: self.audit_webhook_truncate_max_event_size,
            version: &self.audit_webhook_version,
        }
    }
}

/// Makes the health check fail if a backend ends before the server does.
fn watch(task: &'static str, ended: Ended, background: &Background, shutdown: &Shutdown) {
    background.spawn(CHECK, task, shutdown, ended);
}

/// The webhook that events are sent to.
struct Hook(Webhook);

impl Post for Hook {
    fn post(&self, list: Bytes) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let answer = self.0.send(list).await;
            let (status, body) = answer.map_err(|error| format!("{error:#}"))?;
            beginning(status, &body).map(drop).map_err(|error| error.to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use holdfast_gotext::errors::aggregate;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        audit: AuditFlags,
    }

    fn error(flags: &str) -> String {
        let words = ["holdfast", "--audit-log-path=/log"]
            .into_iter()
            .chain(flags.split_whitespace());
        let line = Line::try_parse_from(words).unwrap();
        aggregate(&line.audit.errors())
    }

    #[test]
    fn invalid_flags_have_the_messages_of_the_reference() {
        for (flags, message) in [
            (
                "--audit-log-mode=foo",
                "invalid audit log mode foo, allowed modes are \"batch,blocking,blocking-strict\"",
            ),
            (
                "--audit-log-format=x",
                "invalid audit log format x, allowed formats are \"legacy,json\"",
            ),
            (
                "--audit-log-maxage=-1 --audit-log-maxsize=-2",
                "[--audit-log-maxage -1 can't be a negative number, --audit-log-maxsize -2 can't be a negative number]",
            ),
            (
                "--audit-log-version=audit.k8s.io/v2",
                "invalid group version, allowed versions are [\"audit.k8s.io/v1\"]",
            ),
            (
                "--audit-log-mode=batch --audit-log-batch-buffer-size=0",
                "invalid audit batch log buffer size 0, must be a positive number",
            ),
            (
                "--audit-log-mode=batch --audit-log-batch-throttle-enable --audit-log-batch-throttle-qps=0",
                "invalid audit batch log throttle QPS 0, must be a positive number",
            ),
            (
                "--audit-log-truncate-max-event-size=0",
                "invalid audit truncate log max event size 0, must be a positive number",
            ),
            (
                "--audit-log-truncate-max-batch-size=5",
                "invalid audit truncate log max batch size 5, must be greater than max event size (102400)",
            ),
            (
                "--audit-webhook-config-file=/x --audit-webhook-batch-max-size=-1",
                "invalid audit batch webhook max batch size -1, must be a positive number",
            ),
        ] {
            assert_eq!(error(flags), message, "{flags}");
        }
    }

    #[test]
    fn unused_flags_are_not_validated() {
        let line = ["holdfast", "--audit-log-mode=foo", "--audit-webhook-mode=foo"];
        assert!(Line::try_parse_from(line).unwrap().audit.errors().is_empty());
        let line = ["holdfast", "--audit-log-path=/log", "--audit-log-batch-buffer-size=0"];
        assert!(Line::try_parse_from(line).unwrap().audit.errors().is_empty());
    }
}
