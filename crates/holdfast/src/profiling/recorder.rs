//! Encoder of profiles in the format that `go tool pprof` reads
//! (<https://github.com/google/pprof/blob/main/proto/README.md>).

use std::collections::HashMap;
use std::io::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use pprof::{ProfilerGuardBuilder, Report, Symbol};
use prost::Message as _;

/// Number of samples in a second of use of one processor, as in Go.
const FREQUENCY: i32 = 100;

/// Libraries in which a stack is not unwound, because they may hold locks that unwinding needs.
const BLOCKED: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

/// Returns a profile of the next `duration`.
pub(super) async fn record(duration: Duration) -> Result<Vec<u8>, String> {
    let builder = ProfilerGuardBuilder::default().frequency(FREQUENCY).blocklist(&BLOCKED);
    let guard = builder.build().map_err(|error| error.to_string())?;
    tokio::time::sleep(duration).await;
    let encoded = tokio::task::spawn_blocking(move || {
        let report = guard.report().build().map_err(|error| error.to_string())?;
        drop(guard);
        compress(&Profile::from(&report)).map_err(|error| error.to_string())
    });
    encoded.await.map_err(|error| error.to_string())?
}

fn compress(profile: &Profile) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&profile.encode_to_vec())?;
    encoder.finish()
}

/// A profile. Texts are indices into its table of strings, whose first is empty.
#[derive(Clone, PartialEq, prost::Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

/// A stack, from the innermost location on.
#[derive(Clone, PartialEq, prost::Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
}

/// A place in the program. The last line is that of the function into which the others are inlined.
#[derive(Clone, PartialEq, prost::Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// Tables of a profile in the making.
#[derive(Default)]
struct Tables {
    strings: Vec<String>,
    string_indices: HashMap<String, i64>,
    functions: Vec<Function>,
    function_ids: HashMap<(i64, i64), u64>,
    locations: Vec<Location>,
    location_ids: HashMap<Vec<Line>, u64>,
}

impl Tables {
    fn text(&mut self, text: &str) -> i64 {
        if let Some(index) = self.string_indices.get(text) {
            return *index;
        }
        let index = self.strings.len() as i64;
        self.strings.push(text.to_owned());
        self.string_indices.insert(text.to_owned(), index);
        index
    }

    fn function(&mut self, symbol: &Symbol) -> u64 {
        let system_name = self.text(&symbol.sys_name());
        let filename = self.text(&symbol.filename());
        let name = self.text(&symbol.name());
        let next = self.functions.len() as u64 + 1;
        let id = *self.function_ids.entry((system_name, filename)).or_insert(next);
        if id == next {
            self.functions.push(Function {
                id,
                name,
                system_name,
                filename,
            });
        }
        id
    }

    fn location(&mut self, symbols: &[Symbol]) -> u64 {
        let resolved = symbols.iter().map(|symbol| Line {
            function_id: self.function(symbol),
            line: i64::from(symbol.lineno()),
        });
        let lines: Vec<Line> = resolved.collect();
        let next = self.locations.len() as u64 + 1;
        let id = *self.location_ids.entry(lines.clone()).or_insert(next);
        if id == next {
            self.locations.push(Location { id, line: lines });
        }
        id
    }
}

impl From<&Report> for Profile {
    fn from(report: &Report) -> Self {
        let mut tables = Tables::default();
        tables.text("");
        let period = 1_000_000_000 / i64::from(FREQUENCY);
        let value_type = |tables: &mut Tables, kind: &str, unit: &str| ValueType {
            r#type: tables.text(kind),
            unit: tables.text(unit),
        };
        let samples = value_type(&mut tables, "samples", "count");
        let time = value_type(&mut tables, "cpu", "nanoseconds");
        let thread = tables.text("thread");
        let sample = report.data.iter().map(|(frames, count)| {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            let name = tables.text(&frames.thread_name_or_id());
            let used = frames.frames.iter().filter(|symbols| !symbols.is_empty());
            Sample {
                location_id: used.map(|symbols| tables.location(symbols)).collect(),
                value: vec![count, count.saturating_mul(period)],
                label: vec![Label { key: thread, str: name }],
            }
        });
        let sample = sample.collect();
        let nanoseconds = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        let started = report.timing.start_time.duration_since(UNIX_EPOCH);
        Self {
            sample_type: vec![samples, time],
            sample,
            location: tables.locations,
            function: tables.functions,
            string_table: tables.strings,
            time_nanos: nanoseconds(started.unwrap_or_default()),
            duration_nanos: nanoseconds(report.timing.duration),
            period_type: Some(time),
            period,
        }
    }
}
