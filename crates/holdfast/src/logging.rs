//! The log: lines on the standard error, for people or for machines.

use std::fmt;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use holdfast_server::runtime::{Clock as _, SystemClock};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use crate::flags::LogFormat;

/// Environment variable with the log filter that overrides `-v`, in the syntax of `tracing` (`holdfast_server=debug`).
const VARIABLE: &str = "HOLDFAST_LOG";

/// The verbosity of the log, which can be changed.
#[derive(Clone)]
pub(crate) struct Verbosity(Arc<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>);

impl fmt::Debug for Verbosity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verbosity")
    }
}

impl Verbosity {
    /// Sets the verbosity, which is that of kube-apiserver's `-v`.
    pub(crate) fn set(&self, verbosity: u8) -> Result<(), String> {
        self.0(filter(level(verbosity)))
    }
}

/// Returns the level of kube-apiserver's `-v`.
fn level(verbosity: u8) -> &'static str {
    match verbosity {
        0 | 1 => "info",
        2..=4 => "debug",
        _ => "trace",
    }
}

/// Returns the filter of a level. The libraries below log a lot that is useful only to their authors.
fn filter(level: &str) -> EnvFilter {
    EnvFilter::new(format!("{level},hyper=info,h2=info,rustls=info,tokio=info"))
}

/// Starts logging. `verbosity` is that of kube-apiserver's `-v`.
pub(crate) fn start(format: LogFormat, verbosity: u8) -> Verbosity {
    start_at(format, level(verbosity))
}

/// Starts logging warnings and errors only.
pub(crate) fn start_quietly(format: LogFormat) -> Verbosity {
    start_at(format, "warn")
}

fn start_at(format: LogFormat, level: &str) -> Verbosity {
    let usual = || filter(level);
    let stated = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let parsed = stated.map(|text| EnvFilter::try_new(&text).map_err(|error| (text, error)));
    let (initial, invalid) = match parsed {
        Some(Ok(filter)) => (filter, None),
        Some(Err(invalid)) => (usual(), Some(invalid)),
        None => (usual(), None),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(initial)
        .with_writer(|| EventLines(std::io::stderr()));
    let verbosity = match format {
        LogFormat::Text => {
            let builder = builder
                .with_ansi(std::io::stderr().is_terminal())
                .with_target(false)
                .with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            Verbosity(Arc::new(move |filter: EnvFilter| {
                handle.reload(filter).map_err(|error| error.to_string())
            }))
        }
        LogFormat::Json => {
            let builder = builder
                .with_ansi(false)
                .event_format(JsonLines {
                    now: || SystemClock.now(),
                })
                .with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            Verbosity(Arc::new(move |filter: EnvFilter| {
                handle.reload(filter).map_err(|error| error.to_string())
            }))
        }
    };
    if let Some((text, error)) = invalid {
        tracing::warn!(filter = text, %error, "the filter of {VARIABLE} is invalid and ignored");
    }
    verbosity
}

/// Writer that gets one event at a time and writes it as one line. A line break in a text from elsewhere, such as the
/// message of a webhook, therefore cannot begin a line that looks like another event.
struct EventLines<W>(W);

impl<W: io::Write> io::Write for EventLines<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = event.strip_suffix(b"\n").unwrap_or(event);
        if line.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            let text = String::from_utf8_lossy(line).replace('\n', "\\n");
            writeln!(self.0, "{}", text.replace('\r', "\\r"))?;
        } else {
            self.0.write_all(event)?;
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Format of lines with one JSON object each, with the keys of kube-apiserver: `ts` (milliseconds since 1970), `logger`,
/// `caller`, `msg`, `v` (verbosity; absent for errors), the fields of the event with `err`, and the fields of
/// each span as text.
struct JsonLines {
    /// Clock.
    now: fn() -> SystemTime,
}

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut line = line((self.now)(), event.metadata(), fields);
        for span in context.event_scope().into_iter().flatten() {
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>() {
                line.entry(span.name()).or_insert_with(|| fields.as_str().into());
            }
        }
        writeln!(writer, "{}", Value::Object(line))
    }
}

/// Returns the object of a log line.
fn line(now: SystemTime, metadata: &Metadata<'_>, fields: Fields) -> Map<String, Value> {
    let mut line = Map::new();
    let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    line.insert("ts".into(), (since_epoch.as_nanos() as f64 / 1e6).into());
    line.insert("logger".into(), metadata.target().into());
    if let (Some(file), Some(number)) = (metadata.file(), metadata.line()) {
        line.insert("caller".into(), format!("{}:{number}", last_two_segments(file)).into());
    }
    line.insert("msg".into(), fields.message.unwrap_or_default().into());
    let verbosity = match *metadata.level() {
        Level::ERROR => None,
        Level::WARN | Level::INFO => Some(0),
        Level::DEBUG => Some(2),
        Level::TRACE => Some(5),
    };
    if let Some(verbosity) = verbosity {
        line.insert("v".into(), verbosity.into());
    }
    for (name, value) in fields.others {
        // A field never replaces one of the fixed keys.
        line.entry(name).or_insert(value);
    }
    line
}

/// Returns the folder and the name of a source file.
fn last_two_segments(file: &str) -> String {
    let path = Path::new(file);
    let folder = path.parent().and_then(Path::file_name);
    let short: std::path::PathBuf = folder.into_iter().chain(path.file_name()).collect();
    short.display().to_string()
}

/// Fields of an event.
#[derive(Default)]
struct Fields {
    message: Option<String>,
    others: Map<String, Value>,
}

impl Fields {
    fn insert(&mut self, field: &Field, value: impl Into<Value>) {
        let name = match field.name() {
            "error" => "err",
            name => name,
        };
        self.others.insert(name.into(), value.into());
    }

    fn insert_text(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = Some(text),
            _ => self.insert(field, text),
        }
    }
}

impl Visit for Fields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert_text(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.insert_text(field, value.to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert_text(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::*;

    /// Output that tests read.
    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the lines that `log` writes.
    fn logged(log: impl FnOnce()) -> Vec<Value> {
        let output = Output::default();
        let writer = output.clone();
        let now = || UNIX_EPOCH + Duration::from_micros(1_500);
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_ansi(false)
            .event_format(JsonLines { now })
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = output.0.lock();
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    #[test]
    fn event_with_line_breaks_is_one_line() {
        let output = Output::default();
        let writer = output.clone();
        let subscriber = tracing_subscriber::fmt()
            .without_time()
            .with_ansi(false)
            .with_writer(move || EventLines(writer.clone()))
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(error = %"denied\r\nERROR forged", "it failed");
            tracing::error!("it failed again");
        });
        let text = String::from_utf8(output.0.lock().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].ends_with(r"error=denied\r\nERROR forged"), "{text}");
    }

    #[test]
    fn json_lines_have_the_keys_of_the_reference() {
        let lines = logged(|| tracing::info!(count = 3, name = "a\"b", took = ?Duration::from_secs(1), "it happened"));
        let line = lines.first().unwrap().as_object().unwrap();
        let keys: Vec<&String> = line.keys().collect();
        assert_eq!(keys, ["ts", "logger", "caller", "msg", "v", "count", "name", "took"]);
        assert_eq!(line["ts"], 1.5);
        assert_eq!(line["msg"], "it happened");
        assert_eq!(line["v"], 0);
        assert_eq!(line["count"], 3);
        assert_eq!(line["name"], "a\"b");
        assert_eq!(line["took"], "1s");
        assert!(
            line["caller"].as_str().unwrap().starts_with("src/logging.rs:"),
            "{line:?}"
        );
    }

    #[test]
    fn json_line_of_an_error_has_err_and_no_verbosity() {
        let error = io::Error::other("no space");
        let lines = logged(|| {
            tracing::error!(%error, msg = "other", "cannot write");
            tracing::trace!("detail");
        });
        let spans = logged(|| {
            let connection = tracing::info_span!("connection", peer = "[::1]:7");
            connection.in_scope(|| tracing::info!("accepted"));
        });
        assert_eq!(spans[0]["connection"], "peer=\"[::1]:7\"");
        let [failed, detail] = lines.as_slice() else {
            panic!("{lines:?}")
        };
        assert_eq!(failed["err"], "no space");
        assert_eq!(failed["msg"], "cannot write");
        assert!(failed.get("v").is_none());
        assert_eq!(detail["v"], 5);
    }
}
