//! `cargo xtask compare --reference URL`: sends the same seeded random writes to a kube-apiserver and to Holdfast, and
//! shows differences of the responses.
//!
//! A case is a sequence of writes to one object: creates, updates, patches of every kind, applies of several managers,
//! deletes. Bodies are valid objects (`seeds.json`) with some fields removed, emptied, or set to values that the
//! OpenAPI schema of the kind allows or forbids. A case with different responses is shrunk to the shortest one that
//! still differs, and printed. Both servers get the same names in the namespace `compare`; each object is deleted when
//! its case ends.

mod answers;
mod bodies;
mod choices;
mod search;
mod sides;
mod steps;

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use conformance::{Binary, Server, Target};
use serde_json::Value;
use tokio::runtime::Runtime;

use self::answers::Difference;
use self::bodies::{Kind, kinds};
use self::search::{Draws, search};
use self::sides::Side;
use crate::commands::say;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// URL of the kube-apiserver to compare with: `https://HOST:PORT`, or the `http://` address that `kubectl proxy`
    /// prints.
    #[arg(long)]
    reference: String,
    /// File with the certificate authorities (PEM) to verify the reference's certificate.
    #[arg(long)]
    certificate_authority: Option<PathBuf>,
    /// File with the bearer token for the reference.
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// Number of sequences of writes to send.
    #[arg(long, default_value_t = 500)]
    cases: u64,
    /// Seed of the choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Use a debug build.
    #[arg(long)]
    debug: bool,
    /// Compare only these kinds, such as `Deployment`.
    kinds: Vec<String>,
}

/// Flag that disables Holdfast's controllers, which would fill in fields that are empty on the reference without
/// controllers.
const FLAGS: [&str; 1] = ["--controllers="];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let binary = Binary::new(arguments.debug)?;
    let server = Server::start(&binary, &FLAGS)?;
    let reference = reference(arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut comparison = runtime.block_on(Comparison::begin(&reference, &Target::new(&server)?, &arguments.kinds))?;
    let found = search(arguments.seed, arguments.cases, |case, draws| {
        comparison.play(&runtime, case, draws)
    })?;
    for (draws, difference) in &found {
        say(&comparison.shown(draws.0, &draws.1, difference));
    }
    say(&format!("{} cases, {} differences", arguments.cases, found.len()));
    ensure!(found.is_empty(), "the answers differ");
    Ok(())
}

fn reference(arguments: &Arguments) -> Result<Target> {
    let text = arguments
        .token_file
        .as_deref()
        .map(std::fs::read_to_string)
        .transpose()
        .context("the token file")?;
    let token = text.as_deref().map(str::trim);
    Target::at(&arguments.reference, arguments.certificate_authority.as_deref(), token)
}

/// Both servers, and the kinds to compare.
struct Comparison {
    reference: Side,
    holdfast: Side,
    kinds: Vec<Kind>,
    /// Number of objects so far: the name of the next one.
    objects: u64,
}

impl Comparison {
    async fn begin(reference: &Target, holdfast: &Target, wanted: &[String]) -> Result<Self> {
        let mut reference = Side::connect(reference).await.context("the reference")?;
        let mut holdfast = Side::connect(holdfast).await?;
        let kinds = kinds(&mut holdfast, wanted).await?;
        ensure!(!kinds.is_empty(), "there is no kind of these names to compare");
        for side in [&mut reference, &mut holdfast] {
            side.prepare().await?;
        }
        Ok(Self {
            reference,
            holdfast,
            kinds,
            objects: std::time::SystemTime::UNIX_EPOCH.elapsed()?.as_secs() << 20,
        })
    }

    fn kind(&self, case: u64) -> Option<&Kind> {
        let at = usize::try_from(case).unwrap_or_default() % self.kinds.len().max(1);
        self.kinds.get(at)
    }

    /// Sends one sequence to both and returns the first difference.
    fn play(&mut self, runtime: &Runtime, case: u64, draws: &Draws) -> Result<Option<Difference>> {
        self.objects += 1;
        let name = format!("case-{:x}", self.objects);
        let kind = self.kind(case).context("no kind")?.clone();
        runtime.block_on(async {
            let mut outcome = Ok(None);
            for step in kind.steps(draws) {
                let reference = self.reference.send(&kind, &name, &step).await?;
                let holdfast = self.holdfast.send(&kind, &name, &step).await?;
                outcome = Ok(Difference::between(&kind, &step, &reference, &holdfast));
                if !matches!(outcome, Ok(None)) {
                    break;
                }
            }
            for side in [&mut self.reference, &mut self.holdfast] {
                side.forget(&kind, &name).await?;
            }
            outcome
        })
    }

    fn shown(&self, case: u64, draws: &Draws, difference: &Difference) -> String {
        let mut text = String::new();
        for step in self.kind(case).into_iter().flat_map(|kind| kind.steps(draws)) {
            text.push_str(&step.to_string());
            text.push('\n');
        }
        text.push_str(&difference.to_string());
        text
    }
}

/// Returns a value as one line.
fn line(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), Value::to_string)
}
