//! The ConfigMap with the date since when servers track the use of tokens in Secrets. kube-controller-manager does not
//! clean up tokens that were not used since before that date
//! (<https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#legacy-serviceaccount-token-tracking-controller>).
//!
//! In the reference this is also a part of kube-apiserver.

use std::time::Duration;

use holdfast_resource::Resource;
use holdfast_schema::metadata::new_object;
use holdfast_server::operations::loopback::{Client, RequestError};
use tokio::time::Instant;

use crate::apiserver::{Turns, put};
use crate::rejection::unless_overtaken;

/// Health check of this controller, with kube-apiserver's name.
pub(crate) const CHECK: &str = "poststarthook/start-legacy-token-tracking-controller";
/// The name of this controller.
pub(crate) const NAME: &str = "legacy_token_tracking_controller";

const NAMESPACE: &str = "kube-system";
const OBJECT: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";
/// Interval at which the object is checked.
const INTERVAL: Duration = Duration::from_secs(10);
/// Minimum time between two creations: a server without this feature may delete the object.
const BETWEEN: Duration = Duration::from_secs(1800);

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let Some(resource) = client.resource("", "configmaps") else {
        return client.shutdown().closing().await;
    };
    let (mut turns, mut made) = (Turns::new(&client, INTERVAL), None);
    while turns.next().await {
        if let Err(error) = keep(&client, &resource, &mut made).await {
            tracing::warn!(%error, "cannot record when token tracking began; will retry");
        }
    }
}

/// Creates the object if it is missing, unless it was `made` recently, and adds the date if there is none.
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

/// Returns true if a text is a date such as `2026-02-28`.
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
