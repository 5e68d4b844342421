//! An APIService for each group version that this server serves. Those of built-in groups are created at the start, and
//! users may change them afterwards. Those of CRDs are created and deleted with these, and are reset after a change.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use holdfast_resource::Resource;
use holdfast_schema::GroupVersion;
use holdfast_schema::metadata::new_object;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, path_of};
use holdfast_value::{SmolStr, Value};

use super::api_services;
use crate::apiserver::put;
use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use crate::rejection::unless_overtaken;

/// Label that marks an APIService as managed by the server, and for how long.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Managed only at the start.
const AT_START: &str = "onstart";
/// Always managed.
const ALWAYS: &str = "true";

/// Priority of group versions of CRDs.
const GROUP_PRIORITY: i64 = 1000;
const VERSION_PRIORITY: i64 = 100;

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let crds = client.resource("apiextensions.k8s.io", "customresourcedefinitions");
    let (Some(api_services), Some(crds)) = (api_services(&client), crds) else {
        return;
    };
    let capability = api_services.capabilities.initial_objects.as_ref();
    let initial = capability
        .map(|capability| capability.initial_objects())
        .unwrap_or_default();
    let registry = client.registry();
    let served: HashSet<&GroupVersion> = registry.group_versions().collect();
    let at_start = initial.iter().filter_map(|object| {
        let text = |field: &str| object.str_at(&["spec", field]).unwrap_or_default();
        let is_served = served.contains(&GroupVersion::new(text("group"), text("version")));
        let name = object.str_at(&["metadata", "name"])?;
        is_served.then(|| SmolStr::new(name))
    });
    let controller = Registration {
        client: client.clone(),
        at_start: at_start.collect(),
        there_at_start: None,
        synced: HashSet::new(),
        defined: BTreeMap::new(),
        versions: HashMap::new(),
        api_services,
        crds,
    };
    reconcile::run(client, controller).await;
}

struct Registration {
    client: Client,
    api_services: Arc<Resource>,
    crds: Arc<Resource>,
    /// APIServices that are created at the start, before this controller begins.
    at_start: HashSet<SmolStr>,
    /// APIServices that existed when this controller began.
    there_at_start: Option<HashSet<SmolStr>>,
    /// APIServices that were correct once.
    synced: HashSet<SmolStr>,
    /// CRDs that serve a group version, by the name of its APIService.
    defined: BTreeMap<SmolStr, (GroupVersion, BTreeSet<SmolStr>)>,
    /// Names of the APIServices that a CRD needs.
    versions: HashMap<SmolStr, Vec<SmolStr>>,
}

impl Registration {
    /// Records the group versions that a CRD serves, and queues the affected APIServices.
    fn defines(&mut self, name: &str, crd: Option<&Value>, queue: &mut Queue<SmolStr>) {
        for version in self.versions.remove(name).unwrap_or_default() {
            if let Some((_, by)) = self.defined.get_mut(&version) {
                by.remove(name);
                if by.is_empty() {
                    self.defined.remove(&version);
                }
            }
            queue.push(version);
        }
        let served = crd.map(served_versions).unwrap_or_default();
        for group_version in served {
            let api_service = name_of(&group_version);
            let (_, by) = self
                .defined
                .entry(api_service.clone())
                .or_insert((group_version, BTreeSet::new()));
            by.insert(name.into());
            self.versions.entry(name.into()).or_default().push(api_service.clone());
            queue.push(api_service);
        }
    }

    /// Returns the change of the APIService `name`; `there` is the stored one.
    fn step(&self, name: &str, there: Option<&Value>) -> Step {
        // APIServices that are created at the start were corrected before this controller began.
        if self.at_start.contains(name) {
            return Step::Nothing;
        }
        let wanted = self.defined.get(name).map(|(group_version, _)| defined(group_version));
        let was_there = self.there_at_start.as_ref().is_some_and(|known| known.contains(name));
        Step::new(wanted, there, was_there && !self.synced.contains(name))
    }
}

/// Change of an APIService.
#[derive(Debug, PartialEq)]
enum Step {
    Nothing,
    Create(Value),
    Update(Value),
    Delete,
}

impl Step {
    /// Returns the change from `there` to `wanted`. `first` is true if the object existed when the server started and
    /// is checked for the first time: only then are those corrected that are managed only at the start.
    fn new(wanted: Option<Value>, there: Option<&Value>, first: bool) -> Self {
        let Some(there) = there else {
            return wanted.map_or(Self::Nothing, Self::Create);
        };
        match there.str_at(&["metadata", "labels", AUTOMANAGED]) {
            Some(ALWAYS) => {}
            Some(AT_START) if first => {}
            _ => return Self::Nothing,
        }
        match wanted {
            None => Step::Delete,
            Some(wanted) if wanted.get("spec") == there.get("spec") => Step::Nothing,
            Some(wanted) => {
                let mut next = there.clone();
                next.set_at(&["spec"], wanted.get("spec").cloned().unwrap_or_default());
                Step::Update(next)
            }
        }
    }
}

impl Reconcile for Registration {
    /// Name of an APIService.
    type Item = SmolStr;
    type Outcome = ();

    const NAME: &'static str = "autoregister";
    const PARALLEL: usize = 5;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        let changes = client.watch_both(&self.api_services, &self.crds)?;
        Ok((client.list(&self.api_services, ""), changes))
    }

    fn seen(&mut self, api_service: &Object, queue: &mut Queue<SmolStr>) {
        queue.push(api_service.name().into());
    }

    fn all_seen(&mut self, queue: &mut Queue<SmolStr>) {
        if self.there_at_start.is_none() {
            let there = self.client.list(&self.api_services, "");
            self.there_at_start = Some(there.iter().map(|object| object.name().into()).collect());
        }
        let crds = self.client.list(&self.crds, "");
        let there: HashSet<SmolStr> = crds.iter().map(|object| object.name().into()).collect();
        let gone: Vec<SmolStr> = self
            .versions
            .keys()
            .filter(|name| !there.contains(*name))
            .cloned()
            .collect();
        for name in gone {
            self.defines(&name, None, queue);
        }
        for crd in crds.iter() {
            self.defines(crd.name(), Some(&crd.tree()), queue);
        }
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<SmolStr>) {
        let object = change.current();
        if object.is_of(&self.api_services) {
            queue.push(object.name().into());
        } else if object.is_of(&self.crds) {
            let tree = (!change.is_removal()).then(|| object.tree());
            self.defines(object.name(), tree.as_ref(), queue);
        }
    }

    fn work(&mut self, name: &SmolStr, _queue: &mut Queue<SmolStr>) -> Option<Work<()>> {
        let there = self
            .client
            .get(&self.api_services, "", name)
            .map(|object| object.tree());
        let (client, at) = (self.client.clone(), path_of(&self.api_services, "", name)?);
        let api_services = Arc::clone(&self.api_services);
        let step = self.step(name, there.as_ref());
        if step == Step::Nothing {
            self.synced.insert(name.clone());
            return None;
        }
        Some(Box::pin(async move {
            let written = match step {
                Step::Nothing => return Ok(()),
                Step::Create(object) => put(&client, &api_services, true, &object).await,
                Step::Update(object) => put(&client, &api_services, false, &object).await,
                Step::Delete => {
                    let uid = there.as_ref().and_then(|there| there.at(&["metadata", "uid"])).cloned();
                    let mut options = Value::empty_map();
                    options.set_at(&["preconditions", "uid"], uid.unwrap_or_default());
                    client.delete(&at, &options).await
                }
            };
            // Changes that others made meanwhile arrive by the watch.
            unless_overtaken(written)
        }))
    }

    fn finished(&mut self, name: &SmolStr, _outcome: (), _queue: &mut Queue<SmolStr>) {
        self.synced.insert(name.clone());
    }
}

/// Returns the name of the APIService of a group version.
fn name_of(group_version: &GroupVersion) -> SmolStr {
    format!("{}.{}", group_version.version, group_version.group).into()
}

/// Returns the group versions that a CRD serves.
fn served_versions(crd: &Value) -> Vec<GroupVersion> {
    let group = crd.str_at(&["spec", "group"]).unwrap_or_default();
    let list = crd.at(&["spec", "versions"]).and_then(Value::as_list);
    let versions = list.into_iter().flat_map(|list| list.iter());
    let served = versions.filter(|version| version.get("served").and_then(Value::as_bool) == Some(true));
    served
        .filter_map(|version| Some(GroupVersion::new(group, version.str_at(&["name"])?)))
        .collect()
}

/// Returns the APIService of a group version of CRDs.
fn defined(group_version: &GroupVersion) -> Value {
    let mut object = new_object("apiregistration.k8s.io/v1", "APIService", "", &name_of(group_version));
    object.set_at(&["metadata", "labels", AUTOMANAGED], ALWAYS.into());
    object.set_at(&["spec", "group"], group_version.group.clone().into());
    object.set_at(&["spec", "version"], group_version.version.clone().into());
    object.set_at(&["spec", "groupPriorityMinimum"], GROUP_PRIORITY.into());
    object.set_at(&["spec", "versionPriority"], VERSION_PRIORITY.into());
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(label: &str, priority: i64) -> Value {
        let mut object = defined(&GroupVersion::new("x.example.com", "v1"));
        object.set_at(&["metadata", "labels", AUTOMANAGED], label.into());
        object.set_at(&["spec", "groupPriorityMinimum"], priority.into());
        object
    }

    #[test]
    fn managed_api_service_is_created_corrected_and_deleted() {
        let wanted = || Some(defined(&GroupVersion::new("x.example.com", "v1")));
        let made = defined(&GroupVersion::new("x.example.com", "v1"));
        assert_eq!(Step::new(wanted(), None, false), Step::Create(made.clone()));
        assert_eq!(Step::new(None, None, false), Step::Nothing);
        let mended = Step::new(wanted(), Some(&stored(ALWAYS, 7)), false);
        assert_eq!(mended, Step::Update(made.clone()));
        assert_eq!(Step::new(wanted(), Some(&made), false), Step::Nothing);
        assert_eq!(Step::new(None, Some(&made), false), Step::Delete);
    }

    #[test]
    fn api_service_managed_at_start_is_unchanged_afterwards() {
        let at_start = stored(AT_START, 7);
        assert_eq!(Step::new(None, Some(&at_start), true), Step::Delete);
        assert_eq!(Step::new(None, Some(&at_start), false), Step::Nothing);
        let others = stored("no", 7);
        for first in [true, false] {
            assert_eq!(Step::new(None, Some(&others), first), Step::Nothing);
        }
    }

    #[test]
    fn versions_that_are_not_served_need_no_api_service() {
        let mut crd = Value::empty_map();
        crd.set_at(&["spec", "group"], "x.example.com".into());
        let version = |name: &str, served: bool| {
            let mut version = Value::empty_map();
            version.set_at(&["name"], name.into());
            version.set_at(&["served"], served.into());
            version
        };
        let versions = vec![version("v1", true), version("v0", false)];
        crd.set_at(&["spec", "versions"], versions.into());
        let served = served_versions(&crd);
        assert_eq!(served.iter().map(name_of).collect::<Vec<_>>(), ["v1.x.example.com"]);
    }
}
