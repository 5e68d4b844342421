//! Runs seeds, and proves that the simulation finds planted bugs.
#![allow(clippy::panic, reason = "what fails here is the test")]

use holdfast_simulation::{EtcdBug, Outcome, PlantedBug, Scenario, Settings, simulate};

/// Runs a range of seeds, and panics with the steps of the first one that breaks an invariant.
fn run_seeds(scenario: Scenario, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let outcome = simulate(scenario, seed, &Settings::default());
        if let Some(violation) = outcome.violation {
            let steps = outcome.last_steps.join("\n");
            panic!("{steps}\nseed {seed} of {}: {violation}", scenario.name());
        }
    }
}

/// Runs seeds with a planted bug until one of them finds it.
fn find(scenario: Scenario, bug: PlantedBug, seeds: u64) -> Outcome {
    let settings = Settings { bug: Some(bug) };
    let mut outcomes = (0..seeds).map(|seed| simulate(scenario, seed, &settings));
    let found = outcomes.find(|outcome| outcome.violation.is_some());
    found.unwrap_or_else(|| panic!("{bug:?} is not found within {seeds} seeds"))
}

#[test]
fn store_keeps_its_invariants() {
    run_seeds(Scenario::Store, 0..200);
}

/// Runs seeds twice, and panics if the second run of one of them has other steps.
fn run_seeds_twice(scenario: Scenario, seeds: std::ops::Range<u64>) {
    let run = |seed| simulate(scenario, seed, &Settings::default());
    for seed in seeds {
        let (first, second) = (run(seed), run(seed));
        assert!(first.steps > 3, "seed {seed} does nothing");
        assert_eq!(first, second, "seed {seed} of {}", scenario.name());
    }
    assert_ne!(run(1).trace, run(2).trace);
}

#[test]
fn seed_run_twice_gives_the_same_trace() {
    run_seeds_twice(Scenario::Store, 0..40);
    run_seeds_twice(Scenario::Api, 0..4);
}

#[test]
fn writes_acknowledged_before_they_are_durable_are_found() {
    find(Scenario::Store, PlantedBug::AcknowledgesBeforeSync, 50);
}

#[test]
fn steps_torn_by_a_crash_are_found() {
    find(Scenario::Store, PlantedBug::TearsSteps, 400);
}

#[test]
fn skipped_recovery_of_the_disk_is_found() {
    find(Scenario::Store, PlantedBug::SkipsRecovery, 100);
}

#[test]
fn events_skipped_by_a_watch_are_found() {
    find(Scenario::Store, PlantedBug::SkipsEvents, 50);
}

#[test]
fn pages_of_different_states_are_found() {
    find(Scenario::Store, PlantedBug::ListsNewestState, 50);
}

#[test]
fn api_keeps_its_invariants() {
    run_seeds(Scenario::Api, 0..10);
}

#[test]
#[ignore = "slow: some thousand seeds"]
fn scenarios_keep_their_invariants_at_length() {
    run_seeds(Scenario::Store, 0..5000);
    run_seeds(Scenario::Api, 0..500);
    run_seeds(Scenario::Etcd, 0..2000);
    run_seeds_twice(Scenario::Api, 0..200);
}

#[test]
fn updates_without_version_lose_increments() {
    find(Scenario::Api, PlantedBug::WritesWithoutVersion, 40);
}

#[test]
fn answers_before_durable_writes_are_found() {
    find(Scenario::Api, PlantedBug::AcknowledgesBeforeSync, 40);
}

#[test]
fn events_skipped_by_an_api_watch_are_found() {
    find(Scenario::Api, PlantedBug::SkipsEvents, 40);
}

#[test]
fn missing_controllers_are_found() {
    find(Scenario::Api, PlantedBug::RunsNoControllers, 40);
}

#[test]
fn servers_on_etcd_keep_their_invariants() {
    run_seeds(Scenario::Etcd, 0..100);
}

#[test]
fn etcd_seed_run_twice_gives_the_same_trace() {
    run_seeds_twice(Scenario::Etcd, 0..20);
}

#[test]
fn transactions_executed_twice_are_found() {
    find(Scenario::Etcd, PlantedBug::Etcd(EtcdBug::RepeatsTransactions), 50);
}

#[test]
fn revisions_skipped_by_a_new_watch_are_found() {
    find(Scenario::Etcd, PlantedBug::Etcd(EtcdBug::SkipsAfterBreak), 50);
}

#[test]
fn stale_reads_of_etcd_are_found() {
    find(Scenario::Etcd, PlantedBug::Etcd(EtcdBug::ReadsStale), 50);
}

#[test]
fn hidden_compactions_are_found() {
    find(Scenario::Etcd, PlantedBug::Etcd(EtcdBug::HidesCompaction), 100);
}

#[test]
fn progress_reported_before_events_is_found() {
    find(Scenario::Etcd, PlantedBug::Etcd(EtcdBug::ReportsEarly), 100);
}

#[test]
fn keys_that_outlive_their_leases_are_found() {
    find(Scenario::Etcd, PlantedBug::Etcd(EtcdBug::KeepsExpired), 50);
}
