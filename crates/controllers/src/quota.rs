//! Quotas know what is used of them: <https://kubernetes.io/docs/concepts/policy/resource-quotas/>.
//!
//! Admission adds what is taken together with the object that takes it. This controller counts what is there when a quota is
//! new or its limits change, when objects go or take less than before, and now and then, as kube-controller-manager does: a
//! kube-apiserver on the same store charges a quota before the object is there, and the charge of one that never came to be
//! would stay.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_gotext::quantity::Quantity;
use holdfast_resource::Resource;
use holdfast_resource::quota::{self, Amounts, Counted};
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, RequestError, path_of};
use holdfast_value::{SmolStr, Value};
use tokio::time::Instant;

use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};

/// The name of this controller.
pub(crate) const NAME: &str = "resourcequota-controller";

/// How long a count waits for more to change: of many objects that go at once, few make it count.
const GATHERING: Duration = Duration::from_millis(20);

/// How long after limits came into force writes may still end that began without them, and were not charged.
const UNCHARGED: Duration = Duration::from_secs(30);

/// How many objects are looked at before other tasks have the thread.
const RUN: usize = 512;

/// How often a count is written at once when the quota is charged meanwhile.
const ATTEMPTS: usize = 10;

/// Runs the controller until the server ends. All quotas are counted again after each `period`; never where it is zero.
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

/// A quota: its namespace and its name.
type Key = (SmolStr, SmolStr);

/// What there is to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Task {
    /// A quota is counted.
    Count(Count),
    /// Counts of all quotas are wanted.
    CountAll,
}

impl Task {
    fn count(quota: Key, only_new: bool) -> Self {
        Self::Count(Count { quota, only_new })
    }
}

/// A count to be made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Count {
    quota: Key,
    /// Whether nothing but new objects made it necessary. It finds what was not charged, and lowers nothing: a kube-apiserver
    /// on the same store charges a quota before the object is there.
    only_new: bool,
}

struct Quotas {
    client: Client,
    quotas: Arc<Resource>,
    /// The quotas of each namespace that has any, each with the time until which objects may come to be without a charge.
    namespaces: HashMap<SmolStr, HashMap<SmolStr, Instant>>,
    /// How often all of them are counted; `None` for never.
    period: Option<Duration>,
}

impl Quotas {
    /// Has a quota counted whose limits are not in force yet.
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

    /// Has the quotas of a namespace counted for which the change of an object makes a difference.
    fn recount(&self, change: &Change, queue: &mut Queue<Task>) {
        let object = change.current();
        let Some(resource) = self.client.resource_of(&object) else {
            return;
        };
        let namespace = object.namespace(&resource);
        let (Some(quotas), Some(counted)) = (self.namespaces.get(namespace), Counted::of(&resource)) else {
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

    /// Has all quotas counted, and this done again after a while.
    fn recount_all(&self, queue: &mut Queue<Task>) {
        for (namespace, quotas) in &self.namespaces {
            for name in quotas.keys() {
                queue.push(Task::count((namespace.clone(), name.clone()), false));
            }
        }
        self.schedule_recount(queue);
    }

    /// Has all quotas counted after a while.
    fn schedule_recount(&self, queue: &mut Queue<Task>) {
        if let Some(period) = self.period {
            queue.push_at(Task::CountAll, Instant::now() + period);
        }
    }

    /// Whether an object is counted otherwise than before.
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
        // Of what is there already the quotas alone matter. They are read after the watch began, so none is missed.
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

/// Puts the limits of a quota in force and what is used of them beside them, where that is not so already.
async fn sync_status(client: &Client, quotas: &Resource, wanted: &Count) -> Result<(), RequestError> {
    let (namespace, name) = &wanted.quota;
    let Some(path) = path_of(quotas, namespace, name) else {
        return Ok(());
    };
    let path = format!("{path}/status");
    let mut attempt = 1;
    loop {
        // The quota is read before what it counts: a write that takes from it after this changes it.
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

/// Lowers nothing of what is `known` to be used.
fn keep_charges(used: &mut Amounts, known: &Amounts) {
    for (name, amount) in used {
        if let Some(charged) = known.get(name).filter(|charged| *charged > amount) {
            *amount = *charged;
        }
    }
}

/// What is used of what a quota limits. What has no rule of counting stays as it is `known`; of objects whose resource is
/// yet to be defined there is none, so that the first ones find their quota counted.
async fn count(client: &Client, quota: &Value, limits: &Amounts, known: &Amounts, namespace: &str) -> Amounts {
    let registry = client.registry();
    let mut used: Amounts = limits
        .keys()
        .filter_map(|name| Some((name.clone(), *known.get(name)?)))
        .collect();
    let scoped = quota::has_scopes(quota);
    for resource in registry.resources() {
        let Some(counted) = Counted::of(resource) else {
            continue;
        };
        let names: Vec<&String> = limits.keys().filter(|name| counted.takes(name)).collect();
        if names.is_empty() {
            continue;
        }
        let objects = client.list(resource, namespace);
        let sum = if !scoped && names.iter().all(|name| counted.is_number_of_all(name)) {
            let number = Quantity::of_units(i64::try_from(objects.len()).unwrap_or(i64::MAX));
            names.iter().map(|name| ((*name).clone(), number)).collect()
        } else {
            measure(client, &counted, quota, &objects).await
        };
        for name in names {
            let amount = sum.get(name).copied().unwrap_or(Quantity::of_units(0));
            used.insert(name.clone(), amount);
        }
    }
    for name in limits.keys().filter(|name| names_a_group(name)) {
        used.entry(name.clone()).or_insert(Quantity::of_units(0));
    }
    used
}

/// Whether this is the number of objects of a group other than the core group: `count/PLURAL.GROUP`.
fn names_a_group(name: &str) -> bool {
    name.strip_prefix("count/").is_some_and(|counted| counted.contains('.'))
}

/// What those objects take that are within the scopes of a quota.
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
        let amount = |(name, units): &(&str, i64)| ((*name).to_owned(), Quantity::of_units(*units));
        of.iter().map(amount).collect()
    }

    #[test]
    fn what_is_charged_ahead_of_its_object_stays_charged() {
        let mut used = amounts(&[("pods", 3), ("services", 4), ("secrets", 1)]);
        keep_charges(&mut used, &amounts(&[("pods", 5), ("services", 2)]));
        assert_eq!(used, amounts(&[("pods", 5), ("services", 4), ("secrets", 1)]));
    }
}
