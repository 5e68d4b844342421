//! `cargo xtask bench --plot`: growth of the cost of each operation with the number of objects, watchers, managers of
//! one object and policies. Written to BENCHMARKS.md as tables, and drawn.

mod managers;
mod objects;
mod picture;
mod policies;
mod watchers;

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use conformance::{Binary, Server, root};

use super::pods;
use super::table::put;
use super::workload::Objects;

/// The tables, and the picture of their curves.
const DOCUMENT: &str = "BENCHMARKS.md";
const PICTURE: &str = "docs/scale.svg";

/// Markers around the tables in the document.
const BEGIN: &str = "<!-- figures: written by `cargo xtask bench --plot --write` -->\n";

/// The size that `--million` adds.
const MILLION: u64 = 1_000_000;

#[derive(clap::Args)]
pub(super) struct Sizes {
    /// With `--plot`: numbers of objects.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000])]
    plot_objects: Vec<u64>,
    /// With `--plot`: numbers of watchers of one object.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 1_000, 10_000])]
    plot_watchers: Vec<u64>,
    /// With `--plot`: numbers of managers that apply to one object.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 1_000])]
    plot_managers: Vec<u64>,
    /// With `--plot`: numbers of policies.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 1_000])]
    plot_policies: Vec<u64>,
    /// With `--plot`: minimum processor time of the server for a point, in milliseconds.
    #[arg(long, default_value_t = 300)]
    plot_time: u64,
}

impl Sizes {
    /// Returns the time after which a point is known well enough: the kernel counts in hundredths of a second.
    fn least(&self) -> Duration {
        Duration::from_millis(self.plot_time)
    }
}

/// Curves of the costs that may depend on one number.
struct Chart {
    /// Things whose number grows.
    of: &'static str,
    curves: Vec<Curve>,
}

/// The cost of one operation, by a number.
struct Curve {
    operation: &'static str,
    /// Reason for the growth, if the cost grows.
    reason: &'static str,
    /// Numbers, each with microseconds of the server's processor time for one operation.
    points: Vec<(u64, f64)>,
}

impl Curve {
    fn new(operation: &'static str, reason: &'static str) -> Self {
        Self {
            operation,
            reason,
            points: Vec::new(),
        }
    }

    /// Returns the ratio of the last point to the first; `None` if the first is too small to be measured.
    fn growth(&self) -> Option<f64> {
        let [(_, first), .., (_, last)] = self.points.as_slice() else {
            return None;
        };
        Some(last / first).filter(|growth| growth.is_finite())
    }
}

/// Measures all curves and returns their tables. With `write` these go to the document, and the picture is drawn.
pub(super) async fn run(binary: &Binary, sizes: &Sizes, million: bool, write: bool) -> Result<String> {
    let counts = sizes.plot_objects.iter().copied().chain(million.then_some(MILLION));
    let charts = [
        objects::chart(binary, &counts.collect::<Vec<_>>(), sizes.least()).await?,
        watchers::chart(binary, &sizes.plot_watchers, sizes.least()).await?,
        managers::chart(binary, &sizes.plot_managers, sizes.least()).await?,
        policies::chart(binary, &sizes.plot_policies, sizes.least()).await?,
    ];
    let text = text(&charts);
    if write {
        put(DOCUMENT, BEGIN, &text)?;
        fs::write(root().join(PICTURE), picture::draw(&charts)?).with_context(|| PICTURE.to_owned())?;
    }
    Ok(text)
}

/// Returns the processor time of the server for one operation, in microseconds: `batch` does as many as it returns, and
/// is called until they took `least` in all.
async fn cost(server: &Server, least: Duration, mut batch: impl AsyncFnMut() -> Result<u64>) -> Result<f64> {
    let (before, mut done) = (server.cpu()?, 0);
    loop {
        done += batch().await?;
        let spent = server.cpu()?.saturating_sub(before);
        if spent >= least {
            return Ok(spent.as_secs_f64() * 1e6 / done as f64);
        }
    }
}

/// Returns the same for one operation, which is repeated `times` between two looks at the clock.
async fn cost_of_each(
    server: &Server,
    least: Duration,
    times: u64,
    mut operation: impl AsyncFnMut() -> Result<()>,
) -> Result<f64> {
    cost(server, least, async || {
        for _ in 0..times {
            operation().await?;
        }
        Ok(times)
    })
    .await
}

/// Returns the small ConfigMaps of a collection.
const fn config_maps(collection: &'static str) -> Objects {
    Objects {
        collection,
        object: |number, value| pods::config_map(&format!("bench-{number}"), value),
        patch: r#"{"data": {"value": "patched"}}"#,
    }
}

/// Returns a table for each chart.
fn text(charts: &[Chart]) -> String {
    let mut text = String::new();
    for chart in charts {
        let numbers: Vec<u64> = chart.curves.first().map_or_else(Vec::new, |curve| {
            curve.points.iter().map(|(number, _)| *number).collect()
        });
        // Writes to a string cannot fail.
        let _ = write!(text, "\n### By the number of {}\n\n| server CPU of one |", chart.of);
        for number in &numbers {
            let _ = write!(text, " {} |", grouped(*number));
        }
        let _ = write!(
            text,
            " growth | why it grows |\n|---|{}---:|---|\n",
            "---:|".repeat(numbers.len())
        );
        for curve in &chart.curves {
            let _ = write!(text, "| {} |", curve.operation);
            for (_, micros) in &curve.points {
                let _ = write!(text, " {} |", rounded(*micros));
            }
            let growth = curve
                .growth()
                .map_or_else(String::new, |growth| format!("× {growth:.2}"));
            let _ = writeln!(text, " {growth} | {} |", curve.reason);
        }
    }
    text
}

/// Microseconds with as many digits as mean something.
fn rounded(micros: f64) -> String {
    match micros {
        few if few < 10.0 => format!("{few:.1} µs"),
        some if some < 10_000.0 => format!("{some:.0} µs"),
        many => format!("{:.1} ms", many / 1000.0),
    }
}

/// Returns a number with commas between its thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charts() -> Vec<Chart> {
        let mut flat = Curve::new("get", "");
        flat.points = vec![(1_000, 20.0), (100_000, 21.0)];
        let mut growing = Curve::new("create", "each policy is evaluated");
        growing.points = vec![(1_000, 100.0), (100_000, 12_345.0)];
        vec![Chart {
            of: "objects",
            curves: vec![flat, growing],
        }]
    }

    #[test]
    fn a_table_has_a_row_for_each_curve_with_its_growth() {
        let text = text(&charts());
        let rows: Vec<&str> = text.lines().skip(3).collect();
        assert_eq!(
            rows,
            [
                "| server CPU of one | 1,000 | 100,000 | growth | why it grows |",
                "|---|---:|---:|---:|---|",
                "| get | 20 µs | 21 µs | × 1.05 |  |",
                "| create | 100 µs | 12.3 ms | × 123.45 | each policy is evaluated |",
            ]
        );
    }

    #[test]
    fn the_picture_names_every_curve() {
        let picture = picture::draw(&charts()).unwrap();
        assert!(picture.starts_with("<svg "), "{picture}");
        for name in ["get", "create", "objects"] {
            assert!(picture.contains(name), "{name}");
        }
    }

    #[test]
    fn the_document_has_a_place_for_the_tables() {
        let document = fs::read_to_string(root().join(DOCUMENT)).unwrap();
        assert!(document.contains(BEGIN));
    }
}
