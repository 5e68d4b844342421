use std::collections::BTreeSet;

use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::Field;
use holdfast_value::{Map, Value};

use holdfast_kinds::validation::resources::is_extended;

/// Plugin that adds tolerations to Pods with extended resources, for nodes dedicated to these resources:
/// <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#extendedresourcetoleration>.
pub(super) struct ExtendedResourceToleration;

impl AdmissionPlugin for ExtendedResourceToleration {
    fn name(&self) -> &'static str {
        "ExtendedResourceToleration"
    }

    fn calls(&self) -> Calls {
        Calls::admitting(&[Operation::Create, Operation::Update])
    }

    fn on_by_default(&self) -> bool {
        false
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_written("", "pods")] }
    }

    /// upstream: plugin/pkg/admission/extendedresourcetoleration#plugin.Admit
    fn mutate(
        &self,
        _context: &WriteContext<'_>,
        object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(pod) = object else {
            return Ok(());
        };
        let root = Field::root(pod);
        let spec = root.child("spec");
        let mut requested = BTreeSet::new();
        for list in ["containers", "initContainers"] {
            for container in spec.child(list).items() {
                let resources = container.child("resources");
                let requests = resources.child("requests");
                let names = requests.entries().map(|(name, _)| name.to_owned());
                requested.extend(names.filter(|name| is_extended(name)));
            }
        }
        if requested.is_empty() {
            return Ok(());
        }
        let mut tolerations = spec.child("tolerations").slice().to_vec();
        for resource in &requested {
            tolerate(&mut tolerations, resource);
        }
        pod.set_at(&["spec", "tolerations"], tolerations.into());
        Ok(())
    }
}

/// Replaces the tolerations that differ from the added one only in their seconds, or else appends it.
fn tolerate(tolerations: &mut Vec<Value>, resource: &str) {
    let mut added = Map::new();
    added.insert("effect", "NoSchedule");
    added.insert("key", resource);
    added.insert("operator", "Exists");
    let added = Value::from(added);
    let mut found = false;
    for toleration in tolerations.iter_mut() {
        let same = |field: &str| {
            let text = |toleration: &Value| toleration.str_at(&[field]).unwrap_or_default().to_owned();
            text(toleration) == text(&added)
        };
        if ["key", "effect", "operator", "value"].into_iter().all(same) {
            *toleration = added.clone();
            found = true;
        }
    }
    if !found {
        tolerations.push(added);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::harness::{Harness, at};

    fn tolerations(rest: &str) -> String {
        let manifest = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{initContainers: [{{name: i, image: i, resources: \
             {{requests: {{b.io/x: 1, cpu: 1}}}}}}], containers: [{{name: c, image: i, resources: {{requests: {{a.io/y: 1, \
             b.io/x: 2}}}}}}]{rest}}}}}"
        );
        let pod = Harness::new().admit("ExtendedResourceToleration", &manifest).unwrap();
        at(&pod, "spec.tolerations")
    }

    #[test]
    fn pods_tolerate_what_they_ask_for() {
        let two = r#"[{"effect":"NoSchedule","key":"a.io/y","operator":"Exists"},{"effect":"NoSchedule","key":"b.io/x","operator":"Exists"}]"#;
        assert_eq!(tolerations(""), two);
        let there = ", tolerations: [{key: a.io/y, operator: Exists, effect: NoSchedule}]";
        assert_eq!(tolerations(there), two);
        let other = ", tolerations: [{key: a.io/y, operator: Exists}]";
        assert!(tolerations(other).starts_with(r#"[{"key":"a.io/y","operator":"Exists"},{"effect""#));
        let plain = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i, resources: \
                     {requests: {cpu: 1}}}]}}";
        let pod = Harness::new().admit("ExtendedResourceToleration", plain).unwrap();
        assert_eq!(at(&pod, "spec.tolerations"), "nothing");
    }
}
