//! Shared code of the controllers that are parts of kube-apiserver: they write in its name, and some check their
//! objects periodically.

use std::time::Duration;

use holdfast_resource::Resource;
use holdfast_server::operations::loopback::{Client, RequestError, path_of};
use holdfast_server::runtime::shutdown::Shutdown;
use holdfast_value::Value;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Field manager of the fields that kube-apiserver writes.
pub(crate) const MANAGER: &str = "kube-apiserver";

/// Creates an object of `resource`, or replaces the existing one, as kube-apiserver does.
///
/// # Errors
/// If the server rejects the request.
pub(crate) async fn put(
    client: &Client,
    resource: &Resource,
    is_new: bool,
    object: &Value,
) -> Result<Value, RequestError> {
    let metadata = |field| object.str_at(&["metadata", field]).unwrap_or_default();
    let name = if is_new { "" } else { metadata("name") };
    let object_path = path_of(resource, metadata("namespace"), name).unwrap_or_default();
    let path = format!("{object_path}?fieldManager={MANAGER}");
    match is_new {
        true => client.create(&path, object).await,
        false => client.update(&path, object).await,
    }
}

/// Schedule of periodic work: now and after each period, until the server ends.
pub(crate) struct Turns {
    ticks: Interval,
    shutdown: Shutdown,
}

impl Turns {
    pub(crate) fn new(client: &Client, period: Duration) -> Self {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            ticks,
            shutdown: client.shutdown(),
        }
    }

    /// Waits until work is due. Returns false if the server ends.
    pub(crate) async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.ticks.tick() => true,
            () = self.shutdown.closing() => false,
        }
    }
}
