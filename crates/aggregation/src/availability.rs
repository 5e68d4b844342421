//! Availability of the server of an APIService: its service has endpoints, and it answers for its group version.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use holdfast_authorization::MASTERS;

use crate::api_services::Proxied;
use crate::servers::Servers;
use crate::transport::{Question, Transport, authority, own_user};

/// The content of the condition `Available` of an APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// True if it is available.
    pub available: bool,
    /// The reason of the condition.
    pub reason: &'static str,
    /// The message of the condition.
    pub message: String,
}

impl Availability {
    /// Returns the condition of a locally served group version.
    fn local() -> Self {
        Self {
            available: true,
            reason: "Local",
            message: "Local APIServices are always available".to_owned(),
        }
    }
}

/// The number of failed checks after which a server counts as unavailable; one success is enough to reset it.
const ATTEMPTS: usize = 5;

/// The time limit of an answer.
const LIMIT: Duration = Duration::from_secs(5);

/// The user name of this server at aggregated servers.
pub(crate) const USER: &str = "system:kube-aggregator";

impl<T: Transport> Servers<T> {
    /// Returns the availability of the APIService of that name; `None` if it does not exist.
    pub async fn check(&self, name: &str) -> Option<Availability> {
        let Some(proxied) = self.proxied(name) else {
            let services = self.services();
            return services
                .all()
                .any(|service| service.name == name)
                .then(Availability::local);
        };
        let remote = proxied.service.remote.as_ref()?;
        if let Err(error) = self.transport.check(remote) {
            return Some(Availability {
                available: false,
                reason: error.reason,
                message: error.message,
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

    /// Requests the group version that the server must serve.
    async fn ask_for_group_version(&self, proxied: &Proxied<T::Backend>) -> Result<(), String> {
        let remote = proxied.service.remote.as_ref().ok_or("it is served here")?;
        let path = proxied.service.path();
        let url = format!("https://{}{path}", authority(&self.transport.address(remote)?));
        let question = Question {
            path: &path,
            user: own_user(USER, &[MASTERS]),
            accept: None,
            etag: None,
            limit: LIMIT,
        };
        let outcome = tokio::time::timeout(LIMIT, self.ask(proxied, question)).await;
        let checked = outcome.unwrap_or_else(|_| {
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
}
