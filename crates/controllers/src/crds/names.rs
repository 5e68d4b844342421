//! Names of CRDs: they are accepted unless another CRD of the group has them already. When its names are accepted for
//! the first time, a CRD is established permanently.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_gotext::errors::aggregate;
use holdfast_resource::Resource;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, path_of};
use holdfast_server::webhooks::authorities_error;
use holdfast_value::{SmolStr, Value};

use super::crds;
use crate::apiserver::MANAGER;
use crate::conditions::{self, Condition};
use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use crate::rejection::unless_gone;

/// Annotation of API groups of the Kubernetes community that records their review.
const APPROVAL: &str = "api-approved.kubernetes.io";

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let Some(crds) = crds(&client) else {
        return;
    };
    let controller = Names {
        client: client.clone(),
        crds,
        groups: HashMap::new(),
    };
    reconcile::run(client, controller).await;
}

struct Names {
    client: Client,
    crds: Arc<Resource>,
    /// Accepted names by group and CRD.
    groups: HashMap<SmolStr, HashMap<SmolStr, Accepted>>,
}

/// Accepted names of one CRD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Accepted {
    resources: Vec<SmolStr>,
    kinds: Vec<SmolStr>,
}

impl Accepted {
    fn from_crd(crd: &Value) -> Self {
        let names = crd.at(&["status", "acceptedNames"]);
        let text = |name: &str| {
            names
                .and_then(|names| names.str_at(&[name]))
                .filter(|text| !text.is_empty())
        };
        let short = names
            .and_then(|names| names.get("shortNames"))
            .and_then(Value::as_list)
            .into_iter()
            .flat_map(|list| list.iter())
            .filter_map(Value::as_str);
        let resources = [text("plural"), text("singular")].into_iter().flatten().chain(short);
        let kinds = [text("kind"), text("listKind")].into_iter().flatten();
        Self {
            resources: resources.map(SmolStr::new).collect(),
            kinds: kinds.map(SmolStr::new).collect(),
        }
    }
}

fn group_of(crd: &Value) -> SmolStr {
    crd.str_at(&["spec", "group"]).map(SmolStr::new).unwrap_or_default()
}

impl Names {
    fn learn(&mut self, name: &str, crd: &Value) {
        let group = self.groups.entry(group_of(crd)).or_default();
        group.insert(name.into(), Accepted::from_crd(crd));
    }
}

impl Reconcile for Names {
    type Item = SmolStr;
    type Outcome = ();

    const NAME: &'static str = "naming-condition-controller";
    const QUEUE: &'static str = "crd_naming_condition_controller";
    // Two CRDs must not get the same name.
    const PARALLEL: usize = 1;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        self.groups.clear();
        client.watch(&self.crds)
    }

    fn seen(&mut self, object: &Object, queue: &mut Queue<SmolStr>) {
        self.learn(object.name(), &object.tree());
        queue.push(object.name().into());
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<SmolStr>) {
        let object = change.current();
        let crd = object.tree();
        if !change.is_removal() {
            self.learn(object.name(), &crd);
            queue.push(object.name().into());
            return;
        }
        // Its names are available to others now.
        let group = group_of(&crd);
        let Some(others) = self.groups.get_mut(&group) else {
            return;
        };
        others.remove(object.name());
        others.keys().for_each(|name| queue.push(name.clone()));
        if others.is_empty() {
            self.groups.remove(&group);
        }
    }

    fn work(&mut self, name: &SmolStr, _queue: &mut Queue<SmolStr>) -> Option<Work<()>> {
        let mut crd = self.client.get(&self.crds, "", name)?.tree();
        let empty = HashMap::new();
        let others = self
            .groups
            .get(&group_of(&crd))
            .unwrap_or(&empty)
            .iter()
            .filter(|(other, _)| *other != name)
            .map(|(_, accepted)| accepted);
        if !reconcile_names(&mut crd, others, &self.client.now()) {
            return None;
        }
        // The next CRD must see these names before the change arrives by the watch.
        self.learn(name, &crd);
        let path = path_of(&self.crds, "", name)?;
        let client = self.client.clone();
        Some(Box::pin(async move {
            let path = format!("{path}/status?fieldManager={MANAGER}");
            unless_gone(client.update(&path, &crd).await)
        }))
    }
}

/// Updates the names and conditions of a CRD, given the names of `others` in its group. Returns true if that changed
/// anything.
fn reconcile_names<'a>(crd: &mut Value, others: impl Iterator<Item = &'a Accepted> + Clone, now: &str) -> bool {
    let (names, conflict) = accept(crd, others);
    let mut changed = crd.at(&["status", "acceptedNames"]) != Some(&names);
    if changed {
        crd.set_at(&["status", "acceptedNames"], names);
    }
    let accepted = conflict.is_none();
    let (reason, message) = conflict.unwrap_or(("NoConflicts", "no conflicts found".to_owned()));
    let condition = Condition {
        of: "NamesAccepted",
        holds: accepted,
        reason,
        message: &message,
    };
    changed |= conditions::set(crd, condition, now);
    if !conditions::holds(crd, "Established") {
        let condition = if accepted && has_unfit_authorities(crd) {
            Condition {
                of: "Established",
                holds: false,
                reason: "InvalidCABundle",
                message: "The conversion webhook CABundle is invalid",
            }
        } else if accepted {
            Condition {
                of: "Established",
                holds: true,
                reason: "InitialNamesAccepted",
                message: "the initial names have been accepted",
            }
        } else {
            Condition {
                of: "Established",
                holds: false,
                reason: "NotAccepted",
                message: "not all names are accepted",
            }
        };
        changed |= conditions::set(crd, condition, now);
    }
    changed | judge_approval(crd, now)
}

/// Returns true if no webhook can be called with the CA bundle of the CRD.
fn has_unfit_authorities(crd: &Value) -> bool {
    let bundle = crd.str_at(&["spec", "conversion", "webhook", "clientConfig", "caBundle"]);
    bundle.is_some_and(|bundle| authorities_error(bundle).is_some())
}

/// Returns the names that the CRD may have, and the last conflict with others, as reason and message.
fn accept<'a>(
    crd: &Value,
    others: impl Iterator<Item = &'a Accepted> + Clone,
) -> (Value, Option<(&'static str, String)>) {
    let nothing = Value::Null;
    let wanted = crd.at(&["spec", "names"]).unwrap_or(&nothing);
    let before = crd.at(&["status", "acceptedNames"]).unwrap_or(&nothing);
    let used = |name: &str, kind: bool| {
        others.clone().any(|other| {
            let names = if kind { &other.kinds } else { &other.resources };
            names.iter().any(|used| used == name)
        })
    };
    let in_use = |name: &str| format!("{name:?} is already in use");
    let (mut names, mut conflict) = (before.clone(), None);
    if names.is_null() {
        names = Value::empty_map();
    }
    let keep = |names: &mut Value, field: &str| match wanted.get(field) {
        Some(value) => names.set_at(&[field], value.clone()),
        None => drop(names.remove_at(&[field])),
    };
    for (field, reason, kind) in [
        ("plural", "PluralConflict", false),
        ("singular", "SingularConflict", false),
        ("shortNames", "ShortNamesConflict", false),
        ("kind", "KindConflict", true),
        ("listKind", "ListKindConflict", true),
    ] {
        if field == "shortNames" {
            let list = |names: &'_ Value| -> Vec<SmolStr> {
                let list = names.get(field).and_then(Value::as_list).map(|list| list.to_vec());
                let texts = list.unwrap_or_default();
                texts.iter().filter_map(Value::as_str).map(SmolStr::new).collect()
            };
            let ours = list(before);
            let taken = |name: &SmolStr| !ours.contains(name) && used(name, false);
            let errors: Vec<String> = list(wanted)
                .iter()
                .filter(|name| taken(name))
                .map(|name| in_use(name))
                .collect();
            match errors.is_empty() {
                true => keep(&mut names, field),
                false => conflict = Some((reason, aggregate(&errors))),
            }
            continue;
        }
        let name = wanted.str_at(&[field]).unwrap_or_default();
        if before.str_at(&[field]) != Some(name) && used(name, kind) {
            conflict = Some((reason, in_use(name)));
        } else {
            keep(&mut names, field);
        }
    }
    keep(&mut names, "categories");
    (names, conflict)
}

/// Sets the condition that repeats the approval annotation of API groups of the Kubernetes community. Returns true if
/// that changed the CRD.
fn judge_approval(crd: &mut Value, now: &str) -> bool {
    let group = group_of(crd);
    let protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group
            .strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    if !protected {
        return false;
    }
    let annotation = crd.str_at(&["metadata", "annotations", APPROVAL]).unwrap_or_default();
    let link = "see https://github.com/kubernetes/enhancements/pull/1111";
    let (holds, reason, message) = match annotation {
        "" => (
            false,
            "MissingAnnotation",
            format!("protected groups must have approval annotation {APPROVAL:?}, {link}"),
        ),
        text if text.starts_with("unapproved") => (false, "UnapprovedAnnotation", format!("not approved: {text:?}")),
        text if text.starts_with("https://") || text.starts_with("http://") => {
            (true, "ApprovedAnnotation", format!("approved in {text}"))
        }
        _ => (
            false,
            "InvalidAnnotation",
            format!(
                "protected groups must have approval annotation {APPROVAL:?} with either a URL or a reason starting with \"unapproved\", {link}"
            ),
        ),
    };
    let condition = Condition {
        of: "KubernetesAPIApprovalPolicyConformant",
        holds,
        reason,
        message: &message,
    };
    conditions::set(crd, condition, now)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    fn crd(plural: &str, kind: &str, short: &str) -> Value {
        let text = format!(
            r#"{{"spec":{{"group":"example.com","names":{{"plural":"{plural}","singular":"{}","kind":"{kind}",
                "listKind":"{kind}List","shortNames":["{short}"]}}}},"status":{{"acceptedNames":{{"plural":"","kind":""}}}}}}"#,
            kind.to_lowercase()
        );
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    fn condition_text(crd: &Value, of: &str) -> String {
        let condition = conditions::find(crd, of).unwrap();
        let text = |name: &str| condition.str_at(&[name]).unwrap().to_owned();
        format!("{} {}: {}", text("status"), text("reason"), text("message"))
    }

    #[test]
    fn free_names_are_accepted_and_establish_the_crd() {
        let mut widgets = crd("widgets", "Widget", "wd");
        assert!(reconcile_names(&mut widgets, [].iter(), "1"));
        assert_eq!(widgets.at(&["status", "acceptedNames"]), widgets.at(&["spec", "names"]));
        assert_eq!(
            condition_text(&widgets, "NamesAccepted"),
            "True NoConflicts: no conflicts found"
        );
        assert_eq!(
            condition_text(&widgets, "Established"),
            "True InitialNamesAccepted: the initial names have been accepted"
        );
        assert!(
            !reconcile_names(&mut widgets, [].iter(), "2"),
            "nothing is written twice"
        );
    }

    #[test]
    fn crd_with_invalid_ca_bundle_is_established_after_correction() {
        const BUNDLE: [&str; 5] = ["spec", "conversion", "webhook", "clientConfig", "caBundle"];
        let mut widgets = crd("widgets", "Widget", "wd");
        widgets.set_at(&BUNDLE, "bm90IGEgY2VydA==".into());
        assert!(reconcile_names(&mut widgets, [].iter(), "1"));
        assert_eq!(
            condition_text(&widgets, "Established"),
            "False InvalidCABundle: The conversion webhook CABundle is invalid"
        );
        widgets.remove_at(&BUNDLE);
        assert!(reconcile_names(&mut widgets, [].iter(), "2"));
        assert!(conditions::holds(&widgets, "Established"));
    }

    #[test]
    fn a_name_that_another_has_is_a_conflict_until_it_is_free() {
        let mut widgets = crd("widgets", "Widget", "wd");
        reconcile_names(&mut widgets, [].iter(), "1");
        let others = [Accepted::from_crd(&widgets)];
        for (plural, kind, short, conflict) in [
            ("wodgets", "Widget", "wo", "KindConflict: \"Widget\" is already in use"),
            (
                "wodgets",
                "Wodget",
                "wd",
                "ShortNamesConflict: \"wd\" is already in use",
            ),
            ("widget", "Wodget", "wo", "PluralConflict: \"widget\" is already in use"),
        ] {
            let mut other = crd(plural, kind, short);
            reconcile_names(&mut other, others.iter(), "1");
            let text = condition_text(&other, "NamesAccepted");
            // The list kind is derived from the kind, and the last conflict is reported.
            let found = text.replace("ListKindConflict: \"WidgetList\"", "KindConflict: \"Widget\"");
            assert_eq!(found, format!("False {conflict}"), "{plural} {kind} {short}");
            assert_eq!(
                condition_text(&other, "Established"),
                "False NotAccepted: not all names are accepted"
            );
            reconcile_names(&mut other, [].iter(), "2");
            assert!(conditions::holds(&other, "Established"));
        }
    }

    #[test]
    fn protected_groups_show_whether_they_were_approved() {
        for (annotation, holds) in [
            ("https://github.com/a", true),
            ("unapproved, a test", false),
            ("", false),
        ] {
            let mut widgets = crd("widgets", "Widget", "wd");
            widgets.set_at(&["spec", "group"], "x.k8s.io".into());
            widgets.set_at(&["metadata", "annotations", APPROVAL], annotation.into());
            reconcile_names(&mut widgets, [].iter(), "1");
            assert_eq!(
                conditions::holds(&widgets, "KubernetesAPIApprovalPolicyConformant"),
                holds
            );
        }
    }
}
