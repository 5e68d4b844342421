//! Metrics of authentication and authorization. The counters of all outcomes exist from the start, so that a request
//! needs no lookup.

use std::time::{Duration, SystemTime};

use holdfast_authorization::{Authorization, Decision};
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, Opts};

use super::{Families, registered};

/// Users who are counted by their names.
const KNOWN: [&str; 5] = [
    "admin",
    "client",
    "kube_proxy",
    "kubelet",
    "system:serviceaccount:kube-system:default",
];

/// Upper bounds of the remaining lifetimes of client certificates, in seconds: from half an hour to a year.
const REMAINING_LIFETIMES: [f64; 14] = [
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

/// Counters of authenticated users and of authorization decisions.
pub(crate) struct Identities {
    authenticated: IntCounter,
    unauthenticated: IntCounter,
    known: [IntCounter; KNOWN.len()],
    /// Requests of users whose names look like an e-mail address.
    by_mail: IntCounter,
    others: IntCounter,
    allowed: IntCounter,
    denied: IntCounter,
    undecided: IntCounter,
    failed: IntCounter,
    remaining_lifetimes: Histogram,
}

impl Identities {
    pub(super) fn new(registry: &Families) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, label: &str| {
            registered(registry, IntCounterVec::new(Opts::new(name, help), &[label])?)
        };
        let attempts = counter(
            "authentication_attempts",
            "Authentication attempts, by result",
            "result",
        )?;
        let users = counter(
            "authenticated_user_requests",
            "Authenticated requests, by user name; most are `other`",
            "username",
        )?;
        let decisions = counter(
            "authorization_attempts_total",
            "Authorization decisions, by result",
            "result",
        )?;
        let remaining_lifetimes = HistogramOpts::new(
            "apiserver_client_certificate_expiration_seconds",
            "Remaining lifetimes of the client certificates that authenticate requests, in seconds",
        )
        .buckets(REMAINING_LIFETIMES.to_vec());
        let [admin, client, proxy, kubelet, account] = KNOWN.map(|name| users.get_metric_with_label_values(&[name]));
        Ok(Self {
            authenticated: attempts.get_metric_with_label_values(&["success"])?,
            unauthenticated: attempts.get_metric_with_label_values(&["failure"])?,
            known: [admin?, client?, proxy?, kubelet?, account?],
            by_mail: users.get_metric_with_label_values(&["email_id"])?,
            others: users.get_metric_with_label_values(&["other"])?,
            allowed: decisions.get_metric_with_label_values(&["allowed"])?,
            denied: decisions.get_metric_with_label_values(&["denied"])?,
            undecided: decisions.get_metric_with_label_values(&["no-opinion"])?,
            failed: decisions.get_metric_with_label_values(&["error"])?,
            remaining_lifetimes: registered(registry, Histogram::with_opts(remaining_lifetimes)?)?,
        })
    }

    /// Counts a request of the user with that name.
    pub(crate) fn authenticated(&self, name: &str) {
        self.authenticated.inc();
        let known = KNOWN.iter().position(|known| *known == name);
        let counter = match known.and_then(|at| self.known.get(at)) {
            Some(counter) => counter,
            None if name.contains('@') => &self.by_mail,
            None => &self.others,
        };
        counter.inc();
    }

    /// Records the remaining lifetime of a client certificate that expires at `until`.
    ///
    /// upstream: k8s.io/apiserver/pkg/authentication/request/x509#Authenticator.AuthenticateRequest
    pub(crate) fn certificate(&self, until: SystemTime, now: SystemTime) {
        let remaining = until.duration_since(now).unwrap_or(Duration::ZERO);
        self.remaining_lifetimes.observe(remaining.as_secs_f64());
    }

    /// Counts a request with invalid credentials.
    pub(crate) fn unauthenticated(&self) {
        self.unauthenticated.inc();
    }

    /// Counts a request that authorizers decided about.
    ///
    /// upstream: k8s.io/apiserver/pkg/endpoints/filters#recordAuthorizationMetrics
    pub(crate) fn authorized(&self, answer: &Authorization) {
        match answer.decision {
            Decision::Allow => self.allowed.inc(),
            _ if answer.error.is_some() => self.failed.inc(),
            Decision::Deny => self.denied.inc(),
            Decision::NoOpinion => self.undecided.inc(),
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn requests_are_counted_by_user_and_decision() {
        let registry = Families::default();
        let identities = Identities::new(&registry).unwrap();
        for name in ["alice", "kubelet", "alice@example.com", "system:admin"] {
            identities.authenticated(name);
        }
        identities.unauthenticated();
        identities.certificate(
            SystemTime::UNIX_EPOCH + Duration::from_secs(3000),
            SystemTime::UNIX_EPOCH,
        );
        for decision in [Decision::Allow, Decision::NoOpinion, Decision::Deny, Decision::Allow] {
            identities.authorized(&Authorization::new(decision));
        }
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "apiserver_client_certificate_expiration_seconds_bucket{le=\"1800\"} 0\n",
            "apiserver_client_certificate_expiration_seconds_bucket{le=\"3600\"} 1\n",
            "authentication_attempts{result=\"success\"} 4\n",
            "authentication_attempts{result=\"failure\"} 1\n",
            "authenticated_user_requests{username=\"other\"} 2\n",
            "authenticated_user_requests{username=\"kubelet\"} 1\n",
            "authenticated_user_requests{username=\"email_id\"} 1\n",
            "authorization_attempts_total{result=\"allowed\"} 2\n",
            "authorization_attempts_total{result=\"denied\"} 1\n",
            "authorization_attempts_total{result=\"no-opinion\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
