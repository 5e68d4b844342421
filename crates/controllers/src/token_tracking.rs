//! The ConfigMap that says since when servers note the use of tokens that lie in Secrets. kube-controller-manager cleans up none that
//! was not used before that day
//! (<https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#legacy-serviceaccount-token-tracking-controller>).
//!
//! In the reference this is a part of kube-apiserver, too.

use std::time::Duration;

use holdfast_resource::Resource;
use holdfast_resource::metadata::new_object;
use holdfast_server::operations::loopback::{Client, RequestError};
use tokio::time::Instant;

use crate::apiserver::{Turns, put};
use crate::refusal::unless_overtaken;

/// The health check of this controller, as kube-apiserver has it.
pub(crate) const CHECK: &str = "poststarthook/start-legacy-token-tracking-controller";
/// The name of this controller.
pub(crate) const NAME: &str = "legacy_token_tracking_controller";

const NAMESPACE: &str = "kube-system";
const OBJECT: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";
/// How often the object is looked at.
const INTERVAL: Duration = Duration::from_secs(10);
/// How often it is made at most: a server that does without may take it away.
const BETWEEN: Duration = Duration::from_secs(1800);

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let Some(resource) = client.resource("", "configmaps") else {
        return client.shutdown().closing().await;
    };
    let (mut turns, mut made) = (Turns::new(&client, INTERVAL), None);
    while turns.next().await {
        if let Err(error) = keep(&client, &resource, &mut made).await {
            tracing::warn!(%error, "cannot record when token tracking began; tried again later");
        }
    }
}

/// Makes the object where it is missing, unless it was `made` lately, and puts the day right where there is none.
async fn keep(client: &Client, resource: &Resource, made: &mut Option<Instant>) -> Result<(), RequestError> {
    let today: String = client.now().chars().take_while(|letter| *letter != 'T').collect();
    let written = match client.get(resource, NAMESPACE, OBJECT).map(|object| object.tree()) {
        None => {
            if made.is_some_and(|made| made.elapsed() < BETWEEN) {
                return Ok(());
            }
            let mut object = new_object("v1", "ConfigMap", NAMESPACE, OBJECT);
            object.set_at(&["data", SINCE], today.into());
            let written = put(client, resource, true, &object).await;
            if written.is_ok() {
                *made = Some(Instant::now());
            }
            written
        }
        Some(object) if object.str_at(&["data", SINCE]).is_some_and(is_day) => return Ok(()),
        Some(mut object) => {
            object.set_at(&["data", SINCE], today.into());
            put(client, resource, false, &object).await
        }
    };
    unless_overtaken(written)
}

/// Whether a text is a day, as `2026-02-28`.
fn is_day(text: &str) -> bool {
    use holdfast_gotext::time::{Precision, Timestamp};
    text.len() == 10 && Timestamp::parse(&format!("{text}T00:00:00Z"), Precision::Seconds).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_one_of_the_calendar() {
        for (text, is) in [
            ("2026-02-28", true),
            ("2024-02-29", true),
            ("2026-02-29", false),
            ("2026-2-28", false),
            ("2026-02-28T00:00:00Z", false),
            ("today", false),
            ("", false),
        ] {
            assert_eq!(is_day(text), is, "{text}");
        }
    }
}
