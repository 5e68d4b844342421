//! Faults that a test asks for: errors, delays, broken watches and unreachable webhooks.
//!
//! A fault is a [`Rule`] with counters. It fires for the requests that it matches, after `skip` of them, at most `count`
//! times, and with a probability. Choices by probability depend only on the seed and the number of the matching request,
//! so that a test gets the same faults in every run.

mod rule;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use holdfast_value::Value;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

pub use rule::{Action, Delay, MAX_DELAY, Rule, Selector, WatchAction};

/// Maximum number of faults.
pub const MAX_FAULTS: usize = 256;

/// Faults of a server.
#[derive(Debug)]
pub struct Faults {
    faults: ArcSwap<Vec<Arc<Fault>>>,
    last_id: AtomicU64,
    seed: u64,
    /// Lock of changes of the list.
    changes: Mutex<()>,
}

/// Several rules, as a file has them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleList {
    faults: Vec<Rule>,
}

/// Rule with its ID and its counters.
#[derive(Debug)]
pub struct Fault {
    id: u64,
    rule: Rule,
    seed: u64,
    matched: AtomicU64,
    fired: AtomicU64,
}

/// Fault as clients see it.
#[derive(Clone, Debug, Serialize)]
pub struct FaultReport {
    /// ID, by which the fault can be deleted.
    pub id: u64,
    /// The rule.
    #[serde(flatten)]
    pub rule: Rule,
    /// Counters.
    pub status: FaultCounters,
}

/// Counters of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FaultCounters {
    /// Number of requests, or calls of webhooks, that the rule matched.
    pub matched: u64,
    /// Number of those that got the fault.
    pub fired: u64,
}

/// Request for a resource, for the match with rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultRequest<'a> {
    /// Verb of the API.
    pub verb: &'a str,
    /// Group.
    pub group: &'a str,
    /// Plural name of the resource.
    pub resource: &'a str,
    /// Subresource; may be empty.
    pub subresource: &'a str,
    /// Namespace; may be empty.
    pub namespace: &'a str,
    /// Name; empty for collections.
    pub name: &'a str,
    /// Name of the effective user.
    pub user: &'a str,
    /// IDs of the credential of the user.
    pub credentials: &'a [SmolStr],
    /// `User-Agent`; may be empty.
    pub user_agent: &'a str,
    /// True if a controller of the server itself sends the request. It gets only faults that name a user or an agent.
    pub is_own: bool,
}

/// Faults that a request gets.
#[derive(Debug, Default)]
pub struct RequestFaults {
    /// Wait before the handler.
    pub latency: Duration,
    /// Fault that answers the request in place of its handler: an error or an expired token.
    pub answer: Option<Arc<Fault>>,
    /// Faults of which the first that fires replaces the answer to a successful write.
    pub after_write: Vec<Arc<Fault>>,
    /// Fault of the watch.
    pub watch: Option<WatchFault>,
}

/// Fault of one watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchFault {
    /// Time between a change and its event.
    pub lag: Duration,
    /// End of the watch.
    pub end: Option<WatchEnd>,
}

/// End of a watch that a fault breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchEnd {
    /// Number of events that are still sent.
    pub after_events: u32,
    /// True if the watch gets the error 410 before it ends.
    pub expired: bool,
}

impl Faults {
    /// Creates an empty list. `seed` determines the choices of rules without a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            faults: ArcSwap::default(),
            last_id: AtomicU64::new(0),
            seed,
            changes: Mutex::new(()),
        }
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// If the rule is invalid or there are too many.
    pub fn add(&self, rule: Rule) -> Result<FaultReport, String> {
        rule.check()?;
        let _lock = self.changes.lock();
        let faults = self.faults.load();
        if faults.len() >= MAX_FAULTS {
            return Err(format!("a server has at most {MAX_FAULTS} faults"));
        }
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let fault = Arc::new(Fault {
            id,
            seed: rule.seed.unwrap_or_else(|| mix(self.seed ^ mix(id))),
            rule,
            matched: AtomicU64::new(0),
            fired: AtomicU64::new(0),
        });
        let report = fault.report();
        let next = faults.iter().cloned().chain([fault]).collect();
        self.faults.store(Arc::new(next));
        Ok(report)
    }

    /// Adds the rules of a document with the field `faults`.
    ///
    /// # Errors
    /// If the document is invalid. The rules before the first invalid one were added.
    pub fn add_all(&self, document: &Value) -> Result<(), String> {
        let read = serde_json::to_value(document).and_then(serde_json::from_value);
        let list: RuleList = read.map_err(|error| error.to_string())?;
        for (at, rule) in list.faults.into_iter().enumerate() {
            self.add(rule).map_err(|why| format!("faults[{at}]: {why}"))?;
        }
        Ok(())
    }

    /// Removes the fault with this ID, and returns it as it was; `None` if there is none.
    pub fn remove(&self, id: u64) -> Option<FaultReport> {
        let _lock = self.changes.lock();
        let faults = self.faults.load();
        let removed = faults.iter().find(|fault| fault.id == id)?.report();
        let rest = faults.iter().filter(|fault| fault.id != id).cloned().collect();
        self.faults.store(Arc::new(rest));
        Some(removed)
    }

    /// Removes all faults, and returns them as they were.
    pub fn clear(&self) -> Vec<FaultReport> {
        let _lock = self.changes.lock();
        let removed = self.faults.swap(Arc::default());
        removed.iter().map(|fault| fault.report()).collect()
    }

    /// Returns all faults with their counters.
    pub fn list(&self) -> Vec<FaultReport> {
        self.faults.load().iter().map(|fault| fault.report()).collect()
    }

    /// Returns the fault with this ID.
    pub fn get(&self, id: u64) -> Option<FaultReport> {
        let faults = self.faults.load();
        faults.iter().find(|fault| fault.id == id).map(|fault| fault.report())
    }

    /// Returns the faults of a request, in the order of their rules. The rules after an error are not counted.
    pub fn of_request(&self, request: &FaultRequest<'_>) -> RequestFaults {
        let mut found = RequestFaults::default();
        for fault in self.faults.load().iter() {
            if !fault.concerns(request) {
                continue;
            }
            if fault.rule.action == (Action::TimeoutAfterWrite {}) {
                // The write may fail, which does not count.
                found.after_write.push(Arc::clone(fault));
                continue;
            }
            if !fault.fires() {
                continue;
            }
            match &fault.rule.action {
                Action::Error { .. } | Action::TokenExpired {} => {
                    found.answer = Some(Arc::clone(fault));
                    break;
                }
                Action::Latency { duration } => found.latency = (found.latency + duration.0).min(MAX_DELAY),
                Action::Watch(action) => found.watch.get_or_insert_default().add(*action),
                Action::TimeoutAfterWrite {} | Action::WebhookUnavailable {} => {}
            }
        }
        found
    }

    /// Returns true if the call of this webhook fails.
    pub fn is_webhook_unavailable(&self, configuration: &str, webhook: &str) -> bool {
        let faults = self.faults.load();
        let matching = faults.iter().filter(|fault| {
            let selector = &fault.rule.selector;
            fault.rule.action == (Action::WebhookUnavailable {})
                && accepts(selector.webhook_configuration.as_ref(), configuration)
                && accepts(selector.webhook.as_ref(), webhook)
        });
        matching.into_iter().any(|fault| fault.fires())
    }
}

/// Returns true if there is no expectation, or if `text` is as expected.
fn accepts(expected: Option<&SmolStr>, text: &str) -> bool {
    expected.is_none_or(|expected| expected == text)
}

impl Fault {
    /// Returns the action.
    pub fn action(&self) -> &Action {
        &self.rule.action
    }

    /// Counts a matching request, and returns true if it gets the fault.
    pub fn fires(&self) -> bool {
        let ordinal = self.matched.fetch_add(1, Ordering::Relaxed);
        let is_chosen = ordinal >= self.rule.skip
            && (self.rule.probability >= 1.0 || share(self.seed, ordinal) < self.rule.probability);
        let limit = self.rule.count.unwrap_or(u64::MAX);
        let counted = |fired: u64| (fired < limit).then_some(fired + 1);
        is_chosen
            && self
                .fired
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted)
                .is_ok()
    }

    fn concerns(&self, request: &FaultRequest<'_>) -> bool {
        let Selector {
            verbs,
            group,
            resource,
            subresource,
            namespace,
            name,
            user,
            credential_id,
            user_agent,
            ..
        } = &self.rule.selector;
        let suits_verb = match self.rule.action {
            Action::WebhookUnavailable {} => false,
            Action::Watch(_) => request.verb == "watch",
            Action::TimeoutAfterWrite {} => !matches!(request.verb, "get" | "list" | "watch"),
            // An expired token fails for every path, which other rules do not match.
            Action::TokenExpired {} => true,
            Action::Error { .. } | Action::Latency { .. } => !request.resource.is_empty(),
        };
        suits_verb
            && (!request.is_own || user.is_some() || user_agent.is_some())
            && (verbs.is_empty() || verbs.iter().any(|verb| verb == request.verb))
            && accepts(group.as_ref(), request.group)
            && accepts(resource.as_ref(), request.resource)
            && accepts(subresource.as_ref(), request.subresource)
            && accepts(namespace.as_ref(), request.namespace)
            && accepts(name.as_ref(), request.name)
            && accepts(user.as_ref(), request.user)
            && credential_id.as_ref().is_none_or(|id| request.credentials.contains(id))
            && user_agent
                .as_ref()
                .is_none_or(|part| request.user_agent.contains(part.as_str()))
    }

    fn report(&self) -> FaultReport {
        FaultReport {
            id: self.id,
            rule: self.rule.clone(),
            status: FaultCounters {
                matched: self.matched.load(Ordering::Relaxed),
                fired: self.fired.load(Ordering::Relaxed),
            },
        }
    }
}

impl WatchFault {
    fn add(&mut self, action: WatchAction) {
        let (after_events, expired) = match action {
            WatchAction::Lag { duration } => {
                self.lag = (self.lag + duration.0).min(MAX_DELAY);
                return;
            }
            WatchAction::End { after_events } => (after_events, false),
            WatchAction::Expired { after_events } => (after_events, true),
        };
        if self.end.is_none_or(|end| after_events < end.after_events) {
            self.end = Some(WatchEnd { after_events, expired });
        }
    }
}

/// Returns a number between 0 and 1 that depends only on the seed and the ordinal.
fn share(seed: u64, ordinal: u64) -> f64 {
    // A float holds 53 bits of a number: the upper ones are used.
    (mix(seed ^ mix(ordinal)) >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns a number whose bits all depend on all bits of `number` (SplitMix64).
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPDATE: FaultRequest<'static> = FaultRequest {
        verb: "update",
        group: "apps",
        resource: "deployments",
        subresource: "status",
        namespace: "a",
        name: "web",
        user: "alice",
        credentials: &[SmolStr::new_static("JTI=1")],
        user_agent: "controller/v1",
        is_own: false,
    };

    fn faults(rules: &[&str]) -> Faults {
        let faults = Faults::new(1);
        for rule in rules {
            faults.add(serde_json::from_str(rule).unwrap()).unwrap();
        }
        faults
    }

    fn answers(faults: &Faults, times: usize) -> String {
        let answered = (0..times).map(|_| faults.of_request(&UPDATE).answer.is_some());
        answered.map(|is_fault| if is_fault { 'x' } else { '.' }).collect()
    }

    #[test]
    fn each_field_of_a_match_restricts_it() {
        for (selector, expected) in [
            (r#"{}"#, true),
            (r#"{"verbs":["create","update"]}"#, true),
            (r#"{"verbs":["create"]}"#, false),
            (
                r#"{"group":"apps","resource":"deployments","subresource":"status"}"#,
                true,
            ),
            (r#"{"group":""}"#, false),
            (r#"{"resource":"pods"}"#, false),
            (r#"{"subresource":""}"#, false),
            (r#"{"namespace":"a","name":"web"}"#, true),
            (r#"{"namespace":"b"}"#, false),
            (r#"{"name":"db"}"#, false),
            (
                r#"{"user":"alice","userAgent":"controller","credentialId":"JTI=1"}"#,
                true,
            ),
            (r#"{"user":"bob"}"#, false),
            (r#"{"userAgent":"kubelet"}"#, false),
            (r#"{"credentialId":"JTI=2"}"#, false),
        ] {
            let faults = faults(&[&format!(
                r#"{{"match":{selector},"action":{{"error":{{"code":500}}}}}}"#
            )]);
            assert_eq!(answers(&faults, 1) == "x", expected, "{selector}");
        }
    }

    #[test]
    fn skip_and_count_bound_the_requests_with_the_fault() {
        let faults = faults(&[r#"{"skip":2,"count":3,"action":{"error":{"code":500}}}"#]);
        assert_eq!(answers(&faults, 7), "..xxx..");
        let counters = FaultCounters { matched: 7, fired: 3 };
        assert_eq!(faults.list()[0].status, counters);
    }

    #[test]
    fn seed_determines_the_choices_by_probability() {
        let rule = |seed: u64| format!(r#"{{"probability":0.5,"seed":{seed},"action":{{"error":{{"code":500}}}}}}"#);
        let run = |seed| answers(&faults(&[&rule(seed)]), 64);
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        let share = run(1).matches('x').count();
        assert!((16..48).contains(&share), "{share}");
        let unseeded = r#"{"probability":0.5,"action":{"error":{"code":500}}}"#;
        assert_eq!(answers(&faults(&[unseeded]), 64), answers(&faults(&[unseeded]), 64));
    }

    #[test]
    fn rules_combine_until_the_first_error() {
        let faults = faults(&[
            r#"{"action":{"latency":{"duration":"40s"}}}"#,
            r#"{"action":{"latency":{"duration":"40s"}}}"#,
            r#"{"action":{"timeoutAfterWrite":{}}}"#,
            r#"{"action":{"error":{"code":503}}}"#,
            r#"{"action":{"error":{"code":500}}}"#,
        ]);
        let found = faults.of_request(&UPDATE);
        assert_eq!(found.latency, MAX_DELAY);
        assert!(matches!(
            found.answer.unwrap().action(),
            Action::Error { code: 503, .. }
        ));
        assert_eq!(found.after_write.len(), 1);
        let matched: Vec<u64> = faults.list().iter().map(|fault| fault.status.matched).collect();
        assert_eq!(matched, [1, 1, 0, 1, 0]);
    }

    #[test]
    fn watch_breaks_at_the_earliest_end() {
        let faults = faults(&[
            r#"{"action":{"watch":{"end":{"afterEvents":5}}}}"#,
            r#"{"action":{"watch":{"expired":{"afterEvents":2}}}}"#,
            r#"{"action":{"watch":{"lag":{"duration":"1s"}}}}"#,
        ]);
        let watch = FaultRequest {
            verb: "watch",
            ..UPDATE
        };
        let expected = WatchFault {
            lag: Duration::from_secs(1),
            end: Some(WatchEnd {
                after_events: 2,
                expired: true,
            }),
        };
        assert_eq!(faults.of_request(&watch).watch, Some(expected));
        assert!(faults.of_request(&UPDATE).watch.is_none());
    }

    #[test]
    fn requests_of_controllers_need_a_named_user() {
        let own = FaultRequest { is_own: true, ..UPDATE };
        let unnamed = faults(&[r#"{"action":{"error":{"code":500}}}"#]);
        assert!(unnamed.of_request(&own).answer.is_none());
        let named = faults(&[r#"{"match":{"user":"alice"},"action":{"error":{"code":500}}}"#]);
        assert!(named.of_request(&own).answer.is_some());
    }

    #[test]
    fn webhook_is_found_by_configuration_and_name() {
        let faults = faults(&[
            r#"{"match":{"webhookConfiguration":"a","webhook":"b"},"count":1,"action":{"webhookUnavailable":{}}}"#,
        ]);
        assert!(!faults.is_webhook_unavailable("a", "c"));
        assert!(!faults.is_webhook_unavailable("b", "b"));
        assert!(faults.is_webhook_unavailable("a", "b"));
        assert!(!faults.is_webhook_unavailable("a", "b"));
        assert!(faults.of_request(&UPDATE).answer.is_none());
    }

    #[test]
    fn list_of_faults_is_bounded() {
        let rule: Rule = serde_json::from_str(r#"{"action":{"error":{"code":500}}}"#).unwrap();
        let faults = Faults::new(0);
        let added: Vec<_> = (0..=MAX_FAULTS).map(|_| faults.add(rule.clone())).collect();
        assert!(added[..MAX_FAULTS].iter().all(Result::is_ok) && added[MAX_FAULTS].is_err());
        assert_eq!(faults.remove(1).map(|fault| fault.id), Some(1));
        assert!(faults.remove(1).is_none() && faults.get(1).is_none());
        assert_eq!(faults.add(rule).unwrap().id, MAX_FAULTS as u64 + 1);
        assert_eq!(faults.clear().len(), MAX_FAULTS);
        assert!(faults.list().is_empty());
    }
}
