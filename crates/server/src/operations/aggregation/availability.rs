//! Whether the server of an APIService is there: its service has endpoints, and it answers for its group version.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use holdfast_authorization::MASTERS;

use super::Aggregator;
use super::api_services::{ApiService, Proxied};
use super::fetch::{Question, own_user};
use super::forward::authority;

/// What the condition `Available` of an APIService says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// Whether it is available.
    pub available: bool,
    /// The reason.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

impl Availability {
    /// What is served here.
    fn local() -> Self {
        Self {
            available: true,
            reason: "Local",
            message: "Local APIServices are always available".to_owned(),
        }
    }
}

/// How many checks fail before a server counts as away; one success is enough.
const ATTEMPTS: usize = 5;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The user as which an aggregated server knows this one.
pub(super) const USER: &str = "system:kube-aggregator";

impl Aggregator {
    /// How it stands with the APIService of that name; `None` where there is none.
    pub async fn check(&self, name: &str) -> Option<Availability> {
        let Some(proxied) = self.proxied(name) else {
            let known = self.known();
            return known
                .all()
                .any(|service| service.name == name)
                .then(Availability::local);
        };
        let remote = proxied.service.remote.as_ref()?;
        if let Err(fault) = self.services.check(&remote.namespace, &remote.service, remote.port) {
            return Some(Availability {
                available: false,
                reason: fault.reason,
                message: fault.message,
            });
        }
        let mut attempts: FuturesUnordered<_> = (0..ATTEMPTS).map(|_| self.ask_for_group_version(&proxied)).collect();
        let mut failure = String::new();
        while let Some(outcome) = attempts.next().await {
            match outcome {
                Ok(()) => {
                    return Some(Availability {
                        available: true,
                        reason: "Passed",
                        message: "all checks passed".to_owned(),
                    });
                }
                Err(why) => failure = why,
            }
        }
        Some(Availability {
            available: false,
            reason: "FailedDiscoveryCheck",
            message: failure,
        })
    }

    /// Asks for what a server must serve.
    async fn ask_for_group_version(&self, proxied: &Proxied) -> Result<(), String> {
        let remote = proxied.service.remote.as_ref().ok_or("it is served here")?;
        let path = path(&proxied.service);
        let url = format!("https://{}{path}", authority(&self.resolve(remote)?));
        let question = Question {
            path: &path,
            user: own_user(USER, &[MASTERS]),
            accept: None,
            known: None,
            limit: LIMIT,
        };
        let checked = tokio::time::timeout(LIMIT, self.ask(proxied, question)).await;
        let checked = checked.unwrap_or_else(|_| {
            let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
            Err(why.to_owned())
        });
        let why = match checked {
            Ok(answer) if answer.status.is_success() => return Ok(()),
            Ok(answer) => format!("bad status from {url}: {}", answer.status.as_u16()),
            Err(why) => format!("Get {url:?}: {why}"),
        };
        Err(format!("failing or missing response from {url}: {why}"))
    }

    /// Counts how it stands with an APIService: whether it is available now, and if not, whether it was before.
    pub fn count(&self, name: &str, now: &Availability, was_available: bool) {
        self.metrics.aggregation().available(name, now.available);
        if was_available && !now.available {
            self.metrics.aggregation().became_unavailable(name, now.reason);
        }
    }
}

/// Where the server of an APIService reports its group version.
pub(super) fn path(service: &ApiService) -> String {
    let ApiService { group, version, .. } = service;
    if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    }
}
