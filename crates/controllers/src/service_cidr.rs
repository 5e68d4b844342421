//! The ServiceCIDR of the flags: the object is created if it is missing, and its status reports that it is ready
//! (<https://kubernetes.io/docs/reference/networking/virtual-ips/#ip-address-objects>).
//!
//! In the reference this is a part of kube-apiserver that checks the object every ten seconds. This controller does the
//! same.

use std::time::Duration;

use holdfast_resource::Resource;
use holdfast_resource::table::items;
use holdfast_schema::metadata::new_object;
use holdfast_server::http::negotiation::PatchType;
use holdfast_server::operations::loopback::{Client, RequestError, path_of};
use holdfast_value::Value;

use crate::apiserver::{Turns, put};
use crate::conditions;
use crate::events::{Recorder, Warning};

/// Health check of this controller, with kube-apiserver's name.
pub(crate) const CHECK: &str = "poststarthook/start-kubernetes-service-cidr-controller";
/// The name of this controller, and of its field manager.
pub(crate) const NAME: &str = "kubernetes-service-cidr-controller";

/// Name of the object.
const OBJECT: &str = "kubernetes";
const GROUP: &str = "networking.k8s.io";
const INTERVAL: Duration = Duration::from_secs(10);
const READY: &str = "Ready";

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let Some(resource) = client.resource(GROUP, "servicecidrs") else {
        return client.shutdown().closing().await;
    };
    let initial = resource
        .capabilities
        .initial_objects
        .as_ref()
        .map(|kind| kind.initial_objects())
        .unwrap_or_default();
    let named = |object: &Value| object.str_at(&["metadata", "name"]) == Some(OBJECT);
    let Some(wanted) = initial.into_iter().find(named) else {
        return client.shutdown().closing().await;
    };
    let recorder = Recorder::new(client.clone(), NAME);
    let (mut turns, mut reported) = (Turns::new(&client, INTERVAL), None);
    while turns.next().await {
        if let Err(error) = keep(&recorder, &resource, &wanted, &mut reported).await {
            tracing::warn!(%error, "cannot update the ServiceCIDR of the flags; will retry");
        }
    }
}

/// Creates the object or its status if it is missing. An unfixable problem is logged once and kept in `reported`.
async fn keep(
    recorder: &Recorder,
    resource: &Resource,
    wanted: &Value,
    reported: &mut Option<Wrong>,
) -> Result<(), RequestError> {
    let client = recorder.client();
    let Some(there) = client.get(resource, "", OBJECT).map(|object| object.tree()) else {
        return match put(client, resource, true, wanted).await {
            // Another server was faster.
            Err(error) if error.is_conflict() => Ok(()),
            made => made.map(drop),
        };
    };
    match judge(&there, wanted) {
        Decision::Nothing => Ok(()),
        Decision::AddFamily => {
            let cidrs = wanted.at(&["spec", "cidrs"]).cloned().unwrap_or_default();
            let mut next = there.clone();
            next.set_at(&["spec", "cidrs"], cidrs);
            let added = put(client, resource, false, &next).await.map(drop);
            if let Err(error) = &added {
                let message = format!(
                    "The default ServiceCIDR can not be upgraded from {} to dual stack {} : {error}",
                    items(&there, &["spec", "cidrs"])
                        .iter()
                        .filter_map(Value::as_str)
                        .collect::<String>(),
                    blocks(wanted),
                );
                warn(recorder, &there, ERROR, &message).await;
            }
            added
        }
        Decision::Report(wrong) => {
            if reported.replace(wrong) != Some(wrong) {
                tracing::warn!(cidrs = ?there.at(&["spec", "cidrs"]), "{}", wrong.text());
                let (reason, message) = wrong.event(&there, wanted);
                warn(recorder, &there, &reason, &message).await;
            }
            Ok(())
        }
        Decision::SetReady => {
            let object_path = path_of(resource, "", OBJECT).unwrap_or_default();
            let path = format!("{object_path}/status?fieldManager={NAME}&force=true");
            let ready = ready(&client.now());
            let set = client.patch(&path, PatchType::Apply, &ready).await.map(drop);
            if set.is_err() {
                let message = "The default ServiceCIDR Status can not be set to Ready=True";
                warn(recorder, &there, ERROR, message).await;
            }
            set
        }
    }
}

/// Reason of events about failed requests.
const ERROR: &str = "KubernetesDefaultServiceCIDRError";

async fn warn(recorder: &Recorder, object: &Value, reason: &str, message: &str) {
    let warning = Warning {
        object,
        reason,
        message,
    };
    recorder.warn(warning).await;
}

/// Returns the blocks of the object as Go prints them.
fn blocks(object: &Value) -> String {
    let blocks = items(object, &["spec", "cidrs"]).iter().filter_map(Value::as_str);
    format!("[{}]", blocks.collect::<Vec<_>>().join(" "))
}

/// Problem of the object that no server can fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    OtherBlocks,
    NotReady,
}

impl Wrong {
    /// Returns reason and message of the event.
    ///
    /// upstream: pkg/controlplane/controller/defaultservicecidr#Controller.syncStatus
    fn event(self, there: &Value, wanted: &Value) -> (String, String) {
        match self {
            Self::OtherBlocks => (
                "KubernetesDefaultServiceCIDRInconsistent".to_owned(),
                format!(
                    "The default ServiceCIDR {} does not match the controller flag configurations {}",
                    blocks(there),
                    blocks(wanted)
                ),
            ),
            Self::NotReady => {
                let condition = conditions::find(there, READY);
                let text = |part: &str| {
                    condition
                        .and_then(|condition| condition.str_at(&[part]))
                        .unwrap_or_default()
                };
                (
                    text("reason").to_owned(),
                    format!("Configuration matches, but {}", text("message")),
                )
            }
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::OtherBlocks => "the ServiceCIDR kubernetes has other blocks than the flags",
            Self::NotReady => {
                "the ServiceCIDR kubernetes is said not to be ready, though its blocks are those of the flags"
            }
        }
    }
}

/// Action for the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Nothing,
    Report(Wrong),
    /// The cluster became dual-stack.
    AddFamily,
    SetReady,
}

fn judge(there: &Value, wanted: &Value) -> Decision {
    if there.at(&["metadata", "deletionTimestamp"]).is_some() {
        return Decision::Nothing;
    }
    let cidrs = items(there, &["spec", "cidrs"]);
    if let ([only], [first, _]) = (cidrs, items(wanted, &["spec", "cidrs"]))
        && only == first
    {
        return Decision::AddFamily;
    }
    if there.at(&["spec", "cidrs"]) != wanted.at(&["spec", "cidrs"]) {
        return Decision::Report(Wrong::OtherBlocks);
    }
    match conditions::find(there, READY).and_then(|ready| ready.str_at(&["status"])) {
        Some("True") => Decision::Nothing,
        Some("False") => Decision::Report(Wrong::NotReady),
        _ => Decision::SetReady,
    }
}

/// Returns the status to apply.
fn ready(now: &str) -> Value {
    let mut condition = Value::empty_map();
    condition.set_at(&["type"], READY.into());
    condition.set_at(&["status"], "True".into());
    condition.set_at(&["lastTransitionTime"], now.into());
    condition.set_at(&["message"], "Kubernetes default Service CIDR is ready".into());
    let mut applied = new_object("networking.k8s.io/v1", "ServiceCIDR", "", OBJECT);
    applied.set_at(&["status", "conditions"], vec![condition].into());
    applied
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(cidr: &str) -> Value {
        let mut object = new_object("networking.k8s.io/v1", "ServiceCIDR", "", OBJECT);
        object.set_at(&["spec", "cidrs"], vec![cidr.into()].into());
        object
    }

    #[test]
    fn a_block_is_said_to_be_ready_unless_somebody_says_otherwise() {
        let wanted = block("10.0.0.0/24");
        assert_eq!(judge(&wanted, &wanted), Decision::SetReady);
        let mut there = wanted.clone();
        there.set_at(&["status"], ready("1").at(&["status"]).cloned().unwrap_or(Value::Null));
        assert_eq!(judge(&there, &wanted), Decision::Nothing);
        let condition = conditions::Condition {
            of: READY,
            holds: false,
            reason: "Full",
            message: "",
        };
        conditions::set(&mut there, condition, "2");
        assert_eq!(judge(&there, &wanted), Decision::Report(Wrong::NotReady));
        assert_eq!(
            judge(&block("10.1.0.0/24"), &wanted),
            Decision::Report(Wrong::OtherBlocks)
        );
        let mut dual_stack = wanted.clone();
        dual_stack.set_at(
            &["spec", "cidrs"],
            vec!["10.0.0.0/24".into(), "fd00::/112".into()].into(),
        );
        assert_eq!(judge(&wanted, &dual_stack), Decision::AddFamily);
        assert_eq!(
            judge(&block("10.1.0.0/24"), &dual_stack),
            Decision::Report(Wrong::OtherBlocks)
        );
        let mut goes = wanted.clone();
        goes.set_at(&["metadata", "deletionTimestamp"], "1".into());
        assert_eq!(judge(&goes, &wanted), Decision::Nothing);
    }
}
