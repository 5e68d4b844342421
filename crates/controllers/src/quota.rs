//! Usage in the status of quotas: <https://kubernetes.io/docs/concepts/policy/resource-quotas/>.
//!
//! Admission adds the usage of an object together with the object. This controller recounts the usage when a quota is
//! new or its limits change, when objects are deleted or use less than before, and periodically, as
//! kube-controller-manager does: a kube-apiserver on the same store charges a quota before it creates the object, and
//! the charge of an object that is never created would remain.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_gotext::quantity::Quantity;
use holdfast_resource::quota::{self, Amounts};
use holdfast_resource::{Counted, Resource};
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, RequestError, path_of};
use holdfast_value::{SmolStr, Value};
use tokio::time::Instant;

use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};

/// The name of this controller.
pub(crate) const NAME: &str = "resourcequota-controller";

/// Delay of a count to collect further changes: the deletion of many objects causes few counts.
const GATHERING: Duration = Duration::from_millis(20);

/// Time after the start of limits in which writes may end that began without them and were not charged.
const UNCHARGED: Duration = Duration::from_secs(30);

/// Number of objects after which the task yields to others.
const RUN: usize = 512;

/// Maximum number of immediate attempts to write a count while the quota is charged concurrently.
const ATTEMPTS: usize = 10;

/// Runs the controller until the server ends. Recounts all quotas after each `period`, unless it is zero.
pub(crate) async fn run(client: Client, period: Duration) {
    let Some(quotas) = client.resource("", "resourcequotas") else {
        return;
    };
    let controller = Quotas {
        client: client.clone(),
        quotas,
        namespaces: HashMap::new(),
        period: Some(period).filter(|period| !period.is_zero()),
    };
    reconcile::run(client, controller).await;
}

/// Namespace and name of a quota.
type Key = (SmolStr, SmolStr);

/// Work to be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Task {
    /// Count one quota.
    Count(Count),
    /// Count all quotas.
    CountAll,
}

impl Task {
    fn count(quota: Key, only_new: bool) -> Self {
        Self::Count(Count { quota, only_new })
    }
}

/// A requested count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Count {
    quota: Key,
    /// True if only new objects require the count. Such a count adds what was not charged, and lowers nothing: a
    /// kube-apiserver on the same store charges a quota before it creates the object.
    only_new: bool,
}

struct Quotas {
    client: Client,
    quotas: Arc<Resource>,
    /// Quotas of each namespace that has any, each with the time until which objects may be created without a charge.
    namespaces: HashMap<SmolStr, HashMap<SmolStr, Instant>>,
    /// Interval of the recount of all quotas; `None` for never.
    period: Option<Duration>,
}

impl Quotas {
    /// Queues a quota whose limits are not in effect yet.
    fn look_at(&mut self, object: &Object, queue: &mut Queue<Task>) {
        let key = self.key(object);
        let known = self.namespaces.get(&key.0).is_some_and(|of| of.contains_key(&key.1));
        let quota = object.tree();
        if known && quota::limits(&quota) == quota::status(&quota).0 {
            return;
        }
        let of_namespace = self.namespaces.entry(key.0.clone()).or_default();
        of_namespace.insert(key.1.clone(), Instant::now() + UNCHARGED);
        queue.push(Task::count(key, false));
    }

    fn forget(&mut self, object: &Object) {
        let (namespace, name) = self.key(object);
        if let Some(of_namespace) = self.namespaces.get_mut(&namespace) {
            of_namespace.remove(&name);
            if of_namespace.is_empty() {
                self.namespaces.remove(&namespace);
            }
        }
    }

    fn key(&self, object: &Object) -> Key {
        (object.namespace(&self.quotas).into(), object.name().into())
    }

    /// Queues the quotas of a namespace that the change of an object affects.
    fn recount(&self, change: &Change, queue: &mut Queue<Task>) {
        let object = change.current();
        let Some(resource) = self.client.resource_of(&object) else {
            return;
        };
        let namespace = object.namespace(&resource);
        let (Some(quotas), Some(counted)) = (self.namespaces.get(namespace), Counted::for_resource(&resource)) else {
            return;
        };
        let previous = change.previous();
        let is_new = previous.is_none() && !change.is_removal();
        let matters = match &previous {
            _ if change.is_removal() => true,
            None => true,
            Some(previous) => counted.beyond_number().is_some() && self.differ(&counted, previous, &object),
        };
        if !matters {
            return;
        }
        let now = Instant::now();
        for (name, uncharged) in quotas {
            if !is_new || now < *uncharged {
                queue.push(Task::count((namespace.into(), name.clone()), is_new));
            }
        }
    }

    /// Queues all quotas, and schedules the next recount.
    fn recount_all(&self, queue: &mut Queue<Task>) {
        for (namespace, quotas) in &self.namespaces {
            for name in quotas.keys() {
                queue.push(Task::count((namespace.clone(), name.clone()), false));
            }
        }
        self.schedule_recount(queue);
    }

    /// Schedules a recount of all quotas.
    fn schedule_recount(&self, queue: &mut Queue<Task>) {
        if let Some(period) = self.period {
            queue.push_at(Task::CountAll, Instant::now() + period);
        }
    }

    /// Returns true if an object counts differently than before.
    fn differ(&self, counted: &Counted<'_>, before: &Object, after: &Object) -> bool {
        let (before, after) = (before.tree(), after.tree());
        let now = self.client.time();
        before.at(&["spec"]) != after.at(&["spec"]) || counted.usage(&before, now) != counted.usage(&after, now)
    }
}

impl Reconcile for Quotas {
    type Item = Task;
    type Outcome = ();

    const NAME: &'static str = NAME;
    const QUEUE: &'static str = "resourcequota_primary";
    const PARALLEL: usize = 64;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        let (_, changes) = client.watch_everything()?;
        self.namespaces.clear();
        // Of the existing objects only the quotas matter. They are read after the watch began, so that no change is
        // missed.
        Ok((client.list(&self.quotas, ""), changes))
    }

    fn seen(&mut self, quota: &Object, queue: &mut Queue<Task>) {
        self.look_at(quota, queue);
    }

    fn all_seen(&mut self, queue: &mut Queue<Task>) {
        self.schedule_recount(queue);
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<Task>) {
        let object = change.current();
        if object.is_of(&self.quotas) {
            if change.is_removal() {
                self.forget(&object);
            } else {
                self.look_at(&object, queue);
            }
        }
        if !self.namespaces.is_empty() {
            self.recount(change, queue);
        }
    }

    fn work(&mut self, task: &Task, queue: &mut Queue<Task>) -> Option<Work<()>> {
        let Task::Count(count) = task else {
            self.recount_all(queue);
            return None;
        };
        let (client, quotas) = (self.client.clone(), Arc::clone(&self.quotas));
        let count = count.clone();
        Some(Box::pin(async move {
            tokio::time::sleep(GATHERING).await;
            sync_status(&client, &quotas, &count).await
        }))
    }
}

/// Writes the limits and the usage of a quota to its status, if they differ.
async fn sync_status(client: &Client, quotas: &Resource, wanted: &Count) -> Result<(), RequestError> {
    let (namespace, name) = &wanted.quota;
    let Some(path) = path_of(quotas, namespace, name) else {
        return Ok(());
    };
    let path = format!("{path}/status");
    let mut attempt = 1;
    loop {
        // The quota is read before the objects that it counts: a later write that is charged to it changes it.
        let Some(quota) = client.get(quotas, namespace, name) else {
            return Ok(());
        };
        let mut quota = quota.tree();
        let (hard, known) = quota::status(&quota);
        let limits = quota::limits(&quota);
        let mut used = count(client, &quota, &limits, &known, namespace).await;
        if wanted.only_new {
            keep_charges(&mut used, &known);
        }
        if hard == limits && known == used {
            return Ok(());
        }
        let text = |amounts: &Amounts| -> Value {
            let mut list = Value::empty_map();
            for (name, amount) in amounts {
                list.set_at(&[name.as_str()], amount.to_string().into());
            }
            list
        };
        quota.set_at(&["status", "hard"], text(&limits));
        quota.set_at(&["status", "used"], text(&used));
        match client.update(&path, &quota).await {
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => attempt += 1,
            Err(error) if !error.is_not_found() => return Err(error),
            _ => return Ok(()),
        }
    }
}

/// Raises `used` to the amounts that are `known`, so that no charge is lowered.
fn keep_charges(used: &mut Amounts, known: &Amounts) {
    for (name, amount) in used {
        if let Some(charged) = known.get(name).filter(|charged| *charged > amount) {
            *amount = *charged;
        }
    }
}

/// Counts the usage of the limits of a quota. Limits without a counting rule keep their `known` usage; a resource that
/// is yet to be defined has no objects and counts as zero, so that its first objects find a counted quota.
async fn count(client: &Client, quota: &Value, limits: &Amounts, known: &Amounts, namespace: &str) -> Amounts {
    let registry = client.registry();
    let mut used: Amounts = limits
        .keys()
        .filter_map(|name| Some((name.clone(), *known.get(name)?)))
        .collect();
    let scoped = quota::has_scopes(quota);
    for resource in registry.resources() {
        let Some(counted) = Counted::for_resource(resource) else {
            continue;
        };
        let names: Vec<&String> = limits.keys().filter(|name| counted.takes(name)).collect();
        if names.is_empty() {
            continue;
        }
        let objects = client.list(resource, namespace);
        let sum = if !scoped && names.iter().all(|name| counted.is_number_of_all(name)) {
            let number = Quantity::from_units(i64::try_from(objects.len()).unwrap_or(i64::MAX));
            names.iter().map(|name| ((*name).clone(), number)).collect()
        } else {
            measure(client, &counted, quota, &objects).await
        };
        for name in names {
            let amount = sum.get(name).copied().unwrap_or(Quantity::from_units(0));
            used.insert(name.clone(), amount);
        }
    }
    for name in limits.keys().filter(|name| names_a_group(name)) {
        used.entry(name.clone()).or_insert(Quantity::from_units(0));
    }
    used
}

/// Returns true if this is the number of objects of a group other than the core group: `count/PLURAL.GROUP`.
fn names_a_group(name: &str) -> bool {
    name.strip_prefix("count/").is_some_and(|counted| counted.contains('.'))
}

/// Measures the usage of the objects within the scopes of a quota.
async fn measure(client: &Client, counted: &Counted<'_>, quota: &Value, objects: &Objects) -> Amounts {
    let now = client.time();
    let (mut sum, mut last) = (Amounts::new(), None);
    loop {
        let mut seen = 0;
        let from = last.take();
        for object in objects.after(from.as_ref()).take(RUN) {
            let tree = object.tree();
            if counted.is_within_scopes_of(quota, &tree) {
                quota::add(&mut sum, &counted.usage(&tree, now));
            }
            seen += 1;
            last = Some(object);
        }
        if seen < RUN {
            return sum;
        }
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(of: &[(&str, i64)]) -> Amounts {
        let amount = |(name, units): &(&str, i64)| ((*name).to_owned(), Quantity::from_units(*units));
        of.iter().map(amount).collect()
    }

    #[test]
    fn charge_before_object_creation_is_kept() {
        let mut used = amounts(&[("pods", 3), ("services", 4), ("secrets", 1)]);
        keep_charges(&mut used, &amounts(&[("pods", 5), ("services", 2)]));
        assert_eq!(used, amounts(&[("pods", 5), ("services", 4), ("secrets", 1)]));
    }
}
