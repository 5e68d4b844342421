//! `cargo xtask simulate`: runs seeds of the deterministic simulation, and shows the last steps of a seed that fails.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use holdfast_simulation::{Outcome, Scenario, Settings, simulate};

use crate::commands::say;

/// Interval between two lines about the progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of seeds, from the first seed on.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// Run only this seed, twice, and print its last steps.
    #[arg(long)]
    seed: Option<u64>,
    /// First seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// End after this number of minutes even if seeds are left.
    #[arg(long)]
    minutes: Option<u64>,
    /// Scenario to run: `store`, `api` or `etcd`; all of them if it is absent.
    #[arg(long, value_parser = scenario)]
    scenario: Option<Scenario>,
}

fn scenario(name: &str) -> Result<Scenario, String> {
    let found = Scenario::ALL.into_iter().find(|scenario| scenario.name() == name);
    found.ok_or_else(|| format!("there is no scenario {name}"))
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let scenarios = arguments.scenario.map_or(Scenario::ALL.to_vec(), |only| vec![only]);
    if let Some(seed) = arguments.seed {
        return scenarios.into_iter().try_for_each(|scenario| replay(scenario, seed));
    }
    let begun = Instant::now();
    let end = arguments
        .minutes
        .map(|minutes| begun + Duration::from_secs(60 * minutes));
    let (mut steps, mut reported, mut count) = (0, begun, 0);
    for seed in arguments.first..arguments.first.saturating_add(arguments.seeds) {
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        for scenario in &scenarios {
            let outcome = simulate(*scenario, seed, &Settings::default());
            steps += outcome.steps;
            check(*scenario, seed, &outcome)?;
        }
        count += 1;
        if reported.elapsed() > PROGRESS_INTERVAL {
            reported = Instant::now();
            say(&format!("{count} seeds, {steps} steps"));
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    say(&format!(
        "{count} seeds, {steps} steps in {seconds:.1} s: no invariant is broken"
    ));
    Ok(())
}

/// Runs a seed twice and prints its last steps.
fn replay(scenario: Scenario, seed: u64) -> Result<()> {
    let outcome = simulate(scenario, seed, &Settings::default());
    let again = simulate(scenario, seed, &Settings::default());
    for step in &outcome.last_steps {
        say(step);
    }
    check(scenario, seed, &outcome)?;
    ensure!(
        outcome.trace == again.trace,
        "the second run of seed {seed} has other steps"
    );
    say(&format!(
        "seed {seed} of {}: {} steps, trace {:016x}, no invariant is broken",
        scenario.name(),
        outcome.steps,
        outcome.trace
    ));
    Ok(())
}

fn check(scenario: Scenario, seed: u64, outcome: &Outcome) -> Result<()> {
    let Some(violation) = &outcome.violation else {
        return Ok(());
    };
    for step in &outcome.last_steps {
        say(step);
    }
    let name = scenario.name();
    let replay = format!("replay it with `cargo xtask simulate --scenario {name} --seed {seed}`");
    Err(anyhow!("{violation}")).with_context(|| format!("seed {seed} of {name} breaks an invariant; {replay}"))
}
