//! LeaseCandidates and Leases as the election reads them.

use std::cmp::Ordering;
use std::time::{Duration, SystemTime};

use holdfast_cel::Version;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_value::{SmolStr, Value};

/// Time after which a LeaseCandidate that was not renewed is no candidate any more.
pub(super) const CANDIDATE_VALIDITY: Duration = Duration::from_secs(30 * 60);

/// The parts of a LeaseCandidate that decide about the leader.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) name: SmolStr,
    pub(super) strategy: SmolStr,
    emulation_version: Option<Version>,
    binary_version: Option<Version>,
    created: Option<SystemTime>,
    /// Time at which the server asked it to renew.
    pub(super) pinged: Option<SystemTime>,
    pub(super) renewed: SystemTime,
    /// The whole object.
    pub(super) object: Value,
}

impl Candidate {
    /// Creates a candidate from a LeaseCandidate. Returns `None` if its renewal is too long ago.
    pub(super) fn from_object(object: Value, now: SystemTime) -> Option<Self> {
        let renewed = time_at(&object, "renewTime").filter(|_| !is_expired(&object, now))?;
        let text = |path: &[&str]| object.str_at(path).unwrap_or_default();
        let version = |field| Version::parse(text(&["spec", field])).ok();
        let created = Timestamp::parse(text(&["metadata", "creationTimestamp"]), Precision::Seconds).ok();
        Some(Self {
            name: text(&["metadata", "name"]).into(),
            strategy: text(&["spec", "strategy"]).into(),
            emulation_version: version("emulationVersion"),
            binary_version: version("binaryVersion"),
            created: created.map(SystemTime::from),
            pinged: time_at(&object, "pingTime"),
            renewed,
            object,
        })
    }

    /// Returns true if it has not renewed since its last ping.
    pub(super) fn is_pending(&self) -> bool {
        self.pinged.is_some_and(|pinged| self.renewed < pinged)
    }

    /// True if it can be compared with others.
    ///
    /// upstream: pkg/controlplane/controller/leaderelection#validLeaseCandidateForOldestEmulationVersion
    fn has_versions(&self) -> bool {
        self.emulation_version.is_some() && self.binary_version.is_some()
    }

    /// Returns `Less` if `self` shall lead rather than `other`, which sorts after it by name.
    ///
    /// upstream: pkg/controlplane/controller/leaderelection#compare
    fn compare(&self, other: &Self) -> Ordering {
        compare_versions(self.emulation_version.as_ref(), other.emulation_version.as_ref())
            .then_with(|| self.compare_binaries(other))
            .then_with(|| self.created.cmp(&other.created))
    }

    fn compare_binaries(&self, other: &Self) -> Ordering {
        compare_versions(self.binary_version.as_ref(), other.binary_version.as_ref())
    }
}

/// Compares versions. A missing or invalid one counts as 0.0.0.
fn compare_versions(one: Option<&Version>, other: Option<&Version>) -> Ordering {
    match (one, other) {
        (None, None) => Ordering::Equal,
        (Some(one), Some(other)) => one.compare(other),
        (Some(one), None) => Version::parse(ZERO).map_or(Ordering::Equal, |zero| one.compare(&zero)),
        (None, Some(_)) => compare_versions(other, one).reverse(),
    }
}

const ZERO: &str = "0.0.0";

/// Returns true if the server has asked the owner of a LeaseCandidate to renew, and it has not done so yet.
pub(super) fn is_pending(object: &Value) -> bool {
    let times = time_at(object, "renewTime").zip(time_at(object, "pingTime"));
    times.is_some_and(|(renewed, pinged)| renewed < pinged)
}

/// Returns true if a LeaseCandidate was not renewed for too long.
///
/// upstream: pkg/controlplane/controller/leaderelection#isLeaseCandidateExpired
pub(super) fn is_expired(object: &Value, now: SystemTime) -> bool {
    time_at(object, "renewTime").is_none_or(|renewed| renewed + CANDIDATE_VALIDITY < now)
}

/// Returns the candidate with the lowest emulation version; of those, the one with the lowest binary version; of those,
/// the oldest object. Candidates are in the order of their names.
///
/// upstream: pkg/controlplane/controller/leaderelection#pickBestLeaderOldestEmulationVersion
pub(super) fn oldest<'a>(candidates: impl IntoIterator<Item = &'a Candidate>) -> Option<&'a Candidate> {
    let comparable = candidates.into_iter().filter(|candidate| candidate.has_versions());
    comparable.min_by(|one, other| one.compare(other))
}

/// Strategies of candidates with the same version that contradict each other.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "candidates {first:?}, {second:?} at same binary version but received differing strategies {}, {}",
    strategies[0],
    strategies[1]
)]
pub(super) struct DifferingStrategies {
    first: SmolStr,
    second: SmolStr,
    strategies: [SmolStr; 2],
}

/// Returns the strategy of the candidates with the highest binary version; `None` if there are no candidates.
///
/// # Errors
/// If they have different strategies.
///
/// upstream: pkg/controlplane/controller/leaderelection#pickBestStrategy
pub(super) fn best_strategy<'a>(
    candidates: impl IntoIterator<Item = &'a Candidate>,
) -> Result<Option<SmolStr>, DifferingStrategies> {
    let mut best: Option<&Candidate> = None;
    for candidate in candidates {
        let Some(newest) = best else {
            best = Some(candidate);
            continue;
        };
        match newest.compare_binaries(candidate) {
            Ordering::Less => best = Some(candidate),
            Ordering::Equal if newest.strategy != candidate.strategy => {
                return Err(DifferingStrategies {
                    first: newest.name.clone(),
                    second: candidate.name.clone(),
                    strategies: [newest.strategy.clone(), candidate.strategy.clone()],
                });
            }
            _ => {}
        }
    }
    Ok(best.map(|candidate| candidate.strategy.clone()))
}

/// The parts of a Lease that decide about the leader.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LeaseState {
    /// The holder; `None` if it is missing or empty.
    pub(super) holder: Option<SmolStr>,
    pub(super) strategy: Option<SmolStr>,
    /// Time from which on others may hold it; `None` if that is so in any case.
    expiry: Option<SystemTime>,
}

impl LeaseState {
    /// Reads a Lease.
    pub(super) fn from_object(object: &Value) -> Self {
        let text = |field| object.str_at(&["spec", field]).map(SmolStr::new);
        let seconds = object.at(&["spec", "leaseDurationSeconds"]).and_then(Value::as_i64);
        let duration = seconds.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
        Self {
            holder: text("holderIdentity").filter(|holder| !holder.is_empty()),
            strategy: text("strategy"),
            expiry: time_at(object, "renewTime")
                .zip(duration)
                .and_then(|(renewed, duration)| renewed.checked_add(duration)),
        }
    }

    /// True if its holder did not renew it in time.
    ///
    /// upstream: pkg/controlplane/controller/leaderelection#isLeaseExpired
    pub(super) fn is_expired(&self, now: SystemTime) -> bool {
        self.expiry.is_none_or(|expiry| expiry < now)
    }
}

/// Returns the time in a field of the specification.
fn time_at(object: &Value, field: &str) -> Option<SystemTime> {
    let time = Timestamp::parse(object.str_at(&["spec", field])?, Precision::Micros).ok()?;
    Some(time.into())
}
