//! Outcomes of audit events.

use holdfast_audit::{Level, Observer};
use prometheus::{IntCounter, IntCounterVec, Opts};

use super::{Families, registered};

/// Counters of audit events.
#[derive(Clone)]
pub struct AuditCounters {
    events: IntCounter,
    errors: IntCounterVec,
    levels: IntCounterVec,
    rejected: IntCounter,
}

impl AuditCounters {
    pub(super) fn new(registry: &Families) -> prometheus::Result<Self> {
        Ok(Self {
            events: registered(
                registry,
                IntCounter::new("apiserver_audit_event_total", "Audit events sent to the backends")?,
            )?,
            errors: registered(
                registry,
                IntCounterVec::new(
                    Opts::new(
                        "apiserver_audit_error_total",
                        "Audit events that were lost, by the plugin that failed",
                    ),
                    &["plugin"],
                )?,
            )?,
            levels: registered(
                registry,
                IntCounterVec::new(
                    Opts::new("apiserver_audit_level_total", "Requests, by audit level"),
                    &["level"],
                )?,
            )?,
            rejected: registered(
                registry,
                IntCounter::new(
                    "apiserver_audit_requests_rejected_total",
                    "Requests rejected because their audit events could not be stored",
                )?,
            )?,
        })
    }
}

impl Observer for AuditCounters {
    fn judged(&self, level: Level) {
        if let Ok(counter) = self.levels.get_metric_with_label_values(&[level.name()]) {
            counter.inc();
        }
    }

    fn emitted(&self) {
        self.events.inc();
    }

    fn failed(&self, plugin: &'static str, events: usize) {
        if let Ok(counter) = self.errors.get_metric_with_label_values(&[plugin]) {
            counter.inc_by(u64::try_from(events).unwrap_or(u64::MAX));
        }
    }

    fn rejected(&self) {
        self.rejected.inc();
    }
}
