//! Protects ServiceCIDRs from removal while Services use their addresses, and reports whether they are ready
//! (<https://kubernetes.io/docs/tasks/network/extend-service-ip-ranges/>).
//!
//! upstream: pkg/controller/servicecidrs#Controller

use std::sync::Arc;
use std::time::Duration;

use holdfast_gotext::cidr::Cidr;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::Resource;
use holdfast_resource::table::items;
use holdfast_schema::metadata::new_object;
use holdfast_server::http::negotiation::PatchType;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, path_of};
use holdfast_value::{SmolStr, Value};
use tokio::time::Instant;

use crate::conditions;
use crate::events::{Recorder, Warning};
use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use crate::rejection::unless_gone;

/// The name of the controller, and of its field manager.
pub(crate) const NAME: &str = "service-cidr-controller";

const GROUP: &str = "networking.k8s.io";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const ALLOCATOR: &str = "ipallocator.k8s.io";

/// Delay of the removal of a deleted ServiceCIDR, until every server has stopped to allocate addresses from it.
const DELETION_GRACE_PERIOD: Duration = Duration::from_secs(10);

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let service_cidrs = client.resource(GROUP, "servicecidrs");
    let (Some(service_cidrs), Some(addresses)) = (service_cidrs, client.resource(GROUP, "ipaddresses")) else {
        return;
    };
    let controller = Protection {
        client: client.clone(),
        recorder: Recorder::new(client.clone(), NAME),
        service_cidrs,
        addresses,
    };
    reconcile::run(client, controller).await;
}

struct Protection {
    client: Client,
    recorder: Recorder,
    service_cidrs: Arc<Resource>,
    addresses: Arc<Resource>,
}

impl Protection {
    fn push_all(&self, queue: &mut Queue<SmolStr>) {
        let all = self.client.list(&self.service_cidrs, "");
        all.iter().for_each(|one| queue.push(one.name().into()));
    }

    /// Returns true if no address of a Service would be without a ServiceCIDR (`canDeleteCIDR`).
    fn is_deletable(&self, name: &str, service_cidr: &Value) -> bool {
        let all = self.client.list(&self.service_cidrs, "");
        let others: Vec<Cidr> = all
            .iter()
            .filter(|other| other.name() != name)
            .flat_map(|other| blocks(&other.tree()))
            .collect();
        let own = blocks(service_cidr);
        if own.iter().all(|block| others.iter().any(|other| other.covers(block))) {
            return true;
        }
        let addresses = self.client.list(&self.addresses, "");
        let mut orphans = addresses.iter().filter(|address| {
            let is_managed = || address.tree().str_at(&["metadata", "labels", MANAGED_BY]) == Some(ALLOCATOR);
            let contains = |block: &Cidr| address.name().parse().is_ok_and(|address| block.contains(address));
            own.iter().any(contains) && !others.iter().any(contains) && is_managed()
        });
        orphans.next().is_none()
    }
}

impl Reconcile for Protection {
    type Item = SmolStr;
    type Outcome = ();

    const NAME: &'static str = NAME;
    const QUEUE: &'static str = "servicecidrs";
    const PARALLEL: usize = 1;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        let changes = client.watch_both(&self.service_cidrs, &self.addresses)?;
        // They are read after the watch began, so that no change is missed.
        Ok((client.list(&self.service_cidrs, ""), changes))
    }

    fn seen(&mut self, object: &Object, queue: &mut Queue<SmolStr>) {
        queue.push(object.name().into());
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<SmolStr>) {
        // A new ServiceCIDR may cover one that waits, and a removed address may have been the last one.
        let object = change.current();
        if object.is_of(&self.service_cidrs) || change.is_removal() && object.is_of(&self.addresses) {
            self.push_all(queue);
        }
    }

    fn work(&mut self, name: &SmolStr, queue: &mut Queue<SmolStr>) -> Option<Work<()>> {
        let mut service_cidr = self.client.get(&self.service_cidrs, "", name)?.tree();
        let client = self.client.clone();
        let path = path_of(&self.service_cidrs, "", name)?;
        let deleted = service_cidr
            .str_at(&["metadata", "deletionTimestamp"])
            .and_then(|text| Timestamp::parse(text, Precision::Seconds).ok());
        let has_finalizer = finalizers(&service_cidr)
            .iter()
            .any(|one| one.as_str() == Some(FINALIZER));
        let condition = match deleted {
            Some(_) if !has_finalizer => return None,
            Some(_) if !self.is_deletable(name, &service_cidr) => Ready::TERMINATING,
            Some(deleted) => {
                let seconds = Timestamp::from(self.client.time())
                    .seconds
                    .saturating_sub(deleted.seconds);
                let passed = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
                if let Some(left) = DELETION_GRACE_PERIOD.checked_sub(passed).filter(|left| !left.is_zero()) {
                    queue.push_at(name.clone(), Instant::now() + left);
                    return None;
                }
                let kept: Vec<Value> = finalizers(&service_cidr)
                    .iter()
                    .filter(|one| one.as_str() != Some(FINALIZER))
                    .cloned()
                    .collect();
                service_cidr.set_at(&["metadata", "finalizers"], kept.into());
                return Some(Box::pin(async move {
                    unless_gone(client.update(&path, &service_cidr).await)
                }));
            }
            None if !has_finalizer => {
                let mut next = finalizers(&service_cidr).to_vec();
                next.push(FINALIZER.into());
                service_cidr.set_at(&["metadata", "finalizers"], next.into());
                return Some(Box::pin(async move {
                    unless_gone(client.update(&path, &service_cidr).await)
                }));
            }
            None => Ready::TRUE,
        };
        if condition.is_set(&service_cidr) {
            return None;
        }
        let recorder = self.recorder.clone();
        let applied = condition.applied(name, &client.now());
        let path = format!("{path}/status?fieldManager={NAME}&force=true");
        Some(Box::pin(async move {
            let set = unless_gone(client.patch(&path, PatchType::Apply, &applied).await);
            if set.is_err() && condition == Ready::TRUE {
                let warning = Warning {
                    object: &service_cidr,
                    reason: "KubernetesServiceCIDRError",
                    message: "The ServiceCIDR Status can not be set to Ready=True",
                };
                recorder.warn(warning).await;
            }
            set
        }))
    }
}

fn finalizers(object: &Value) -> &[Value] {
    items(object, &["metadata", "finalizers"])
}

/// State of the condition `Ready`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ready {
    status: &'static str,
    reason: &'static str,
    message: &'static str,
}

impl Ready {
    const TRUE: Self = Self {
        status: "True",
        reason: "",
        message: "Kubernetes Service CIDR is ready",
    };
    const TERMINATING: Self = Self {
        status: "False",
        reason: "Terminating",
        message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
    };

    fn is_set(&self, object: &Value) -> bool {
        let Some(condition) = conditions::find(object, "Ready") else {
            return false;
        };
        let text = |field: &str| condition.str_at(&[field]).unwrap_or_default();
        (text("status"), text("reason"), text("message")) == (self.status, self.reason, self.message)
    }

    fn applied(&self, name: &str, now: &str) -> Value {
        let mut condition = Value::empty_map();
        for (field, text) in [
            ("type", "Ready"),
            ("status", self.status),
            ("reason", self.reason),
            ("message", self.message),
            ("lastTransitionTime", now),
        ] {
            condition.set_at(&[field], text.into());
        }
        let mut applied = new_object("networking.k8s.io/v1", "ServiceCIDR", "", name);
        applied.set_at(&["status", "conditions"], vec![condition].into());
        applied
    }
}

fn blocks(service_cidr: &Value) -> Vec<Cidr> {
    let cidrs = items(service_cidr, &["spec", "cidrs"]).iter();
    cidrs.filter_map(|cidr| Cidr::read(cidr.as_str()?)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    #[test]
    fn applied_condition_is_recognised() {
        for ready in [Ready::TRUE, Ready::TERMINATING] {
            let applied = ready.applied("two", "2026-01-01T00:00:00Z");
            assert!(ready.is_set(&applied));
            assert!(!ready.is_set(&new_object("networking.k8s.io/v1", "ServiceCIDR", "", "two")));
        }
    }
}
