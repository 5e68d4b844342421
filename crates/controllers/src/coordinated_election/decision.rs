//! The next step of the election for one Lease, derived from the Lease, its candidates and the time.
//!
//! upstream: pkg/controlplane/controller/leaderelection#Controller.reconcileElectionStep

use std::time::{Duration, SystemTime};

use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_schema::metadata::new_object;
use holdfast_value::{SmolStr, Value};

use super::LeaseName;
use super::candidate::{CANDIDATE_VALIDITY, Candidate, DifferingStrategies, LeaseState, best_strategy, oldest};

/// Time that candidates have for their renewal when an election begins, and for which a renewal counts in it.
const ELECTION_DURATION: Duration = Duration::from_secs(5);

/// Duration in seconds of a Lease whose holder was elected; the holder writes its own duration when it renews.
const DEFAULT_LEASE_SECONDS: i64 = 5;

/// The strategy that this server decides by. Third parties decide by all others.
const OLDEST_EMULATION_VERSION: &str = "OldestEmulationVersion";

/// Next step of an election.
#[derive(Debug)]
pub(super) enum Step<'a> {
    /// Nothing is to be done until something changes.
    Rest,
    /// Nothing is to be done now. The Lease may expire without a change, so that it is checked again after an interval.
    Wait,
    /// Ask these candidates to renew, and check again after an interval.
    Ping(Vec<&'a Candidate>),
    /// Write the outcome to the Lease, and check again after an interval.
    Elect(Outcome),
}

/// Reason why no leader can be elected.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Undecided {
    /// Before the candidates get a ping.
    #[error("{0}")]
    Preliminary(DifferingStrategies),
    /// Among the candidates that have renewed.
    #[error("{0}")]
    Final(DifferingStrategies),
    /// No candidate has renewed in time.
    #[error("no available candidates")]
    NoCandidates,
}

/// Outcome of an election.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    strategy: SmolStr,
    /// The elected candidate; `None` if a third party decides.
    pub(super) leader: Option<SmolStr>,
}

/// Returns the next step for a Lease with these unexpired candidates.
pub(super) fn next_step<'a>(
    candidates: &'a [Candidate],
    lease: Option<&LeaseState>,
    now: SystemTime,
) -> Result<Step<'a>, Undecided> {
    if candidates.is_empty() {
        return Ok(Step::Rest);
    }
    if !is_election_needed(candidates, lease, now).map_err(Undecided::Preliminary)? {
        return Ok(Step::Wait);
    }
    let (mut is_waiting, mut unasked) = (false, Vec::new());
    for candidate in candidates {
        let was_just_asked = candidate.pinged.is_some_and(|pinged| pinged + ELECTION_DURATION > now);
        if was_just_asked && candidate.is_pending() {
            is_waiting = true;
        } else if !has_just_renewed(candidate, now) && !candidate.is_pending() {
            // A candidate that has not answered is not asked again until it renews.
            unasked.push(candidate);
        }
    }
    if !unasked.is_empty() {
        return Ok(Step::Ping(unasked));
    }
    if is_waiting {
        return Ok(Step::Wait);
    }
    let voters = || candidates.iter().filter(|candidate| has_just_renewed(candidate, now));
    let strategy = best_strategy(voters())
        .map_err(Undecided::Final)?
        .ok_or(Undecided::NoCandidates)?;
    let leader = match strategy == OLDEST_EMULATION_VERSION {
        true => Some(oldest(voters()).ok_or(Undecided::NoCandidates)?.name.clone()),
        false => None,
    };
    Ok(Step::Elect(Outcome { strategy, leader }))
}

fn has_just_renewed(candidate: &Candidate, now: SystemTime) -> bool {
    candidate.renewed + ELECTION_DURATION > now
}

/// Returns true if the Lease has no holder, if another candidate is better than the holder, or if a candidate has not
/// renewed for half of the time for which it is valid.
///
/// upstream: pkg/controlplane/controller/leaderelection#Controller.electionNeeded
fn is_election_needed(
    candidates: &[Candidate],
    lease: Option<&LeaseState>,
    now: SystemTime,
) -> Result<bool, DifferingStrategies> {
    let Some(lease) = lease.filter(|lease| !lease.is_expired(now) && lease.holder.is_some()) else {
        return Ok(true);
    };
    let is_overdue = |candidate: &Candidate| candidate.renewed + CANDIDATE_VALIDITY / 2 < now;
    if candidates.iter().any(is_overdue) {
        return Ok(true);
    }
    if best_strategy(candidates)?.is_none_or(|strategy| strategy != OLDEST_EMULATION_VERSION) {
        return Ok(false);
    }
    let best = oldest(candidates);
    Ok(best.is_some_and(|best| lease.holder.as_ref() != Some(&best.name)))
}

/// Returns the Lease with the outcome of an election; `None` if it has that already.
///
/// The reference fails if a Lease without a holder gets a leader, because it compares the missing holder. Here it is an
/// empty one.
pub(super) fn lease_with(outcome: &Outcome, existing: &Value, now: SystemTime) -> Option<Value> {
    let state = LeaseState::from_object(existing);
    let mut lease = existing.clone();
    if state.strategy.as_ref() != Some(&outcome.strategy) {
        lease.set_at(&["spec", "strategy"], outcome.strategy.as_str().into());
    }
    if let Some(leader) = outcome
        .leader
        .as_ref()
        .filter(|leader| state.holder.as_ref() != Some(leader))
    {
        if state.holder.is_none() || state.is_expired(now) {
            hold(&mut lease, Some(leader), now);
            if let Some(spec) = lease.as_map_mut().and_then(|lease| lease.get_mut("spec")?.as_map_mut()) {
                spec.remove("preferredHolder");
                spec.remove("acquireTime");
            }
        } else {
            lease.set_at(&["spec", "preferredHolder"], leader.as_str().into());
        }
    }
    (lease != *existing).then_some(lease)
}

/// Returns a new Lease with the outcome of an election.
pub(super) fn new_lease(outcome: &Outcome, name: &LeaseName, now: SystemTime) -> Value {
    let mut lease = new_object("coordination.k8s.io/v1", "Lease", &name.namespace, &name.name);
    lease.set_at(&["spec", "strategy"], outcome.strategy.as_str().into());
    hold(&mut lease, outcome.leader.as_ref(), now);
    lease
}

fn hold(lease: &mut Value, leader: Option<&SmolStr>, now: SystemTime) {
    if let Some(leader) = leader {
        lease.set_at(&["spec", "holderIdentity"], leader.as_str().into());
    }
    lease.set_at(&["spec", "leaseDurationSeconds"], DEFAULT_LEASE_SECONDS.into());
    let now = Timestamp::from(now).text(Precision::Micros);
    lease.set_at(&["spec", "renewTime"], now.as_str().into());
}

/// Returns a candidate's object with the request to renew.
pub(super) fn pinged(candidate: &Candidate, now: SystemTime) -> Value {
    let mut object = candidate.object.clone();
    let now = Timestamp::from(now).text(Precision::Micros);
    object.set_at(&["spec", "pingTime"], now.as_str().into());
    object
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    const MINUTE: i64 = 60;

    /// Time of the tests, in seconds since 1970.
    const NOW: i64 = 1_800_000_000;

    fn time(seconds: i64) -> SystemTime {
        Timestamp { seconds, nanos: 0 }.into()
    }

    fn text(seconds: i64) -> SmolStr {
        Timestamp::from(time(seconds)).text(Precision::Micros)
    }

    /// A candidate of the tests; its times are seconds before the current one.
    struct Nomination {
        name: &'static str,
        emulation: &'static str,
        binary: &'static str,
        strategy: &'static str,
        created: i64,
        pinged: Option<i64>,
        renewed: i64,
    }

    const FRESH: Nomination = Nomination {
        name: "a",
        emulation: "1.35.0",
        binary: "1.36.0",
        strategy: OLDEST_EMULATION_VERSION,
        created: MINUTE,
        pinged: None,
        renewed: 1,
    };

    fn candidates(nominations: &[Nomination]) -> Vec<Candidate> {
        let candidate = |nomination: &Nomination| {
            let mut object = new_object("coordination.k8s.io/v1beta1", "LeaseCandidate", "n", nomination.name);
            let created = Timestamp::from(time(NOW - nomination.created)).text(Precision::Seconds);
            object.set_at(&["metadata", "creationTimestamp"], created.as_str().into());
            for (field, value) in [
                ("emulationVersion", nomination.emulation),
                ("binaryVersion", nomination.binary),
                ("strategy", nomination.strategy),
                ("renewTime", &text(NOW - nomination.renewed)),
            ] {
                object.set_at(&["spec", field], value.into());
            }
            if let Some(pinged) = nomination.pinged {
                object.set_at(&["spec", "pingTime"], text(NOW - pinged).as_str().into());
            }
            Candidate::from_object(object, time(NOW))
        };
        nominations.iter().filter_map(candidate).collect()
    }

    /// Returns a Lease that was renewed `renewed` seconds ago.
    fn lease(holder: &str, renewed: i64) -> Value {
        let name = LeaseName {
            namespace: "n".into(),
            name: "l".into(),
        };
        let outcome = Outcome {
            strategy: OLDEST_EMULATION_VERSION.into(),
            leader: Some(holder.into()),
        };
        let mut lease = new_lease(&outcome, &name, time(NOW - renewed));
        lease.set_at(&["spec", "acquireTime"], text(NOW - MINUTE).as_str().into());
        lease
    }

    /// Returns the next step as text.
    fn step(nominations: &[Nomination], lease: Option<&Value>) -> String {
        let candidates = candidates(nominations);
        let state = lease.map(LeaseState::from_object);
        match next_step(&candidates, state.as_ref(), time(NOW)) {
            Ok(Step::Rest) => "rest".to_owned(),
            Ok(Step::Wait) => "wait".to_owned(),
            Ok(Step::Ping(unasked)) => {
                let names: Vec<_> = unasked.iter().map(|candidate| candidate.name.as_str()).collect();
                format!("ping {}", names.join(" "))
            }
            Ok(Step::Elect(outcome)) => format!("elect {}", outcome.leader.as_deref().unwrap_or("nobody")),
            Err(reason) => reason.to_string(),
        }
    }

    #[test]
    fn candidates_are_asked_before_one_is_elected() {
        let b = |pinged, renewed| Nomination {
            name: "b",
            emulation: "1.34.0",
            pinged,
            renewed,
            ..FRESH
        };
        assert_eq!(step(&[], None), "rest");
        assert_eq!(step(&[FRESH], None), "elect a");
        assert_eq!(step(&[FRESH, b(None, MINUTE)], None), "ping b");
        assert_eq!(step(&[FRESH, b(Some(2), MINUTE)], None), "wait");
        assert_eq!(step(&[FRESH, b(Some(2), 1)], None), "elect b");
        // It had its time to answer, and is not asked again.
        assert_eq!(step(&[FRESH, b(Some(6), MINUTE)], None), "elect a");
        assert_eq!(step(&[b(Some(6), MINUTE)], None), "no available candidates");
        // It answered the last time.
        assert_eq!(step(&[FRESH, b(Some(2 * MINUTE), MINUTE)], None), "ping b");
        assert_eq!(step(&[FRESH, b(None, 31 * MINUTE)], None), "elect a");
    }

    #[test]
    fn best_candidate_has_the_oldest_version() {
        let with = |name, emulation, binary, created| Nomination {
            name,
            emulation,
            binary,
            created,
            ..FRESH
        };
        for (nominations, elected) in [
            (
                [with("a", "1.36.0", "1.36.0", 9), with("b", "1.35.0", "1.37.0", 1)],
                "b",
            ),
            (
                [with("a", "1.35.0", "1.37.0", 9), with("b", "1.35.0", "1.36.0", 1)],
                "b",
            ),
            (
                [with("a", "1.35.0", "1.36.0", 1), with("b", "1.35.0", "1.36.0", 9)],
                "b",
            ),
            (
                [with("a", "1.35.0", "1.36.0", 9), with("b", "1.35.0", "1.36.0", 9)],
                "a",
            ),
            (
                [with("a", "1.35.10", "1.36.0", 9), with("b", "1.35.9", "1.36.0", 1)],
                "b",
            ),
            ([with("a", "", "1.36.0", 9), with("b", "1.35.0", "1.36.0", 1)], "b"),
        ] {
            assert_eq!(step(&nominations, None), format!("elect {elected}"));
        }
    }

    #[test]
    fn strategy_is_that_of_the_highest_binary_version() {
        let with = |name, binary, strategy| Nomination {
            name,
            binary,
            strategy,
            ..FRESH
        };
        let other = "example.com/other";
        let own = with("a", "1.36.0", OLDEST_EMULATION_VERSION);
        assert_eq!(step(&[own, with("b", "1.37.0", other)], None), "elect nobody");
        let own = with("a", "1.36.0", OLDEST_EMULATION_VERSION);
        assert_eq!(step(&[own, with("b", "1.35.0", other)], None), "elect b");
        let own = with("a", "1.36.0", OLDEST_EMULATION_VERSION);
        assert_eq!(
            step(&[own, with("b", "1.36.0", other)], None),
            "candidates \"a\", \"b\" at same binary version but received differing strategies OldestEmulationVersion, \
             example.com/other"
        );
        // The holder that a third party chose remains, even if this server would elect another one.
        let held = lease("b", 1);
        let nominations = [with("a", "1.36.0", other), with("b", "1.36.0", other)];
        assert_eq!(step(&nominations, Some(&held)), "wait");
    }

    #[test]
    fn election_begins_if_the_lease_requires_it() {
        let better = || Nomination {
            name: "b",
            emulation: "1.34.0",
            ..FRESH
        };
        assert_eq!(step(&[FRESH], Some(&lease("a", 1))), "wait");
        assert_eq!(step(&[FRESH, better()], Some(&lease("a", 1))), "elect b");
        assert_eq!(step(&[FRESH], Some(&lease("b", 5))), "elect a");
        assert_eq!(step(&[FRESH], Some(&lease("a", 6))), "elect a");
        assert_eq!(step(&[FRESH], Some(&lease("", 1))), "elect a");
        // Each candidate has to renew within half of the time for which it is valid.
        let silent = |renewed| Nomination {
            name: "c",
            emulation: "1.36.0",
            renewed,
            ..FRESH
        };
        assert_eq!(step(&[FRESH, silent(15 * MINUTE)], Some(&lease("a", 1))), "wait");
        assert_eq!(step(&[FRESH, silent(15 * MINUTE + 1)], Some(&lease("a", 1))), "ping c");
    }

    #[test]
    fn outcome_replaces_only_holders_that_do_not_renew() {
        let outcome = |leader: Option<&str>| Outcome {
            strategy: OLDEST_EMULATION_VERSION.into(),
            leader: leader.map(SmolStr::new),
        };
        let with = |lease: &Value, leader| lease_with(&outcome(leader), lease, time(NOW));
        let spec = |lease: &Value, field: &str| lease.str_at(&["spec", field]).map(str::to_owned);
        let held = lease("a", 1);
        assert_eq!(with(&held, Some("a")), None);
        assert_eq!(with(&held, None), None);
        let asked = with(&held, Some("b")).unwrap();
        assert_eq!(spec(&asked, "holderIdentity").as_deref(), Some("a"));
        assert_eq!(spec(&asked, "preferredHolder").as_deref(), Some("b"));
        assert_eq!(spec(&asked, "renewTime"), spec(&held, "renewTime"));
        assert_eq!(with(&asked, Some("b")), None);
        for (holder, renewed) in [("a", 6), ("", 1)] {
            let mut before = lease(holder, renewed);
            before.set_at(&["spec", "preferredHolder"], "b".into());
            before.set_at(&["spec", "leaseTransitions"], 3.into());
            let after = with(&before, Some("b")).unwrap();
            assert_eq!(spec(&after, "holderIdentity").as_deref(), Some("b"));
            assert_eq!(spec(&after, "renewTime").as_deref(), Some(text(NOW).as_str()));
            assert_eq!(spec(&after, "preferredHolder"), None);
            assert_eq!(spec(&after, "acquireTime"), None);
            assert_eq!(after.at(&["spec", "leaseTransitions"]), Some(&3.into()));
        }
        // A holder that is elected again acquires its Lease by itself.
        assert_eq!(with(&lease("a", 6), Some("a")), None);
        let mut plain = lease("a", 1);
        plain.set_at(&["spec", "strategy"], "example.com/other".into());
        let changed = with(&plain, Some("a")).unwrap();
        assert_eq!(spec(&changed, "strategy").as_deref(), Some(OLDEST_EMULATION_VERSION));
    }
}
