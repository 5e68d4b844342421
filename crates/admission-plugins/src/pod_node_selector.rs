//! Node selectors of namespaces.

use std::collections::BTreeMap;

use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::metadata::formats::{label_value, qualified_name};
use holdfast_schema::{Field, FieldError, FieldPath};
use holdfast_value::Value;

use crate::common::group_resource;

/// Plugin that merges the node selector of the namespace into Pods and rejects Pods outside the namespace's allowed
/// labels: <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#podnodeselector>.
pub(super) struct PodNodeSelector {
    /// Allowed labels, by namespace.
    pub(super) selectors: BTreeMap<String, String>,
}

/// Key of the selector for namespaces without an annotation.
const OF_OTHERS: &str = "clusterDefaultNodeSelector";
const ANNOTATION: [&str; 3] = ["metadata", "annotations", "scheduler.alpha.kubernetes.io/node-selector"];
const SELECTOR: [&str; 2] = ["spec", "nodeSelector"];

type Labels = BTreeMap<String, String>;

impl AdmissionPlugin for PodNodeSelector {
    fn name(&self) -> &'static str {
        "PodNodeSelector"
    }

    fn calls(&self) -> Calls {
        Calls::both(&[Operation::Create])
    }

    fn on_by_default(&self) -> bool {
        false
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_new("", "pods")] }
    }

    /// upstream: plugin/pkg/admission/podnodeselector#Plugin.Admit
    fn mutate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(pod) = object else {
            return Ok(());
        };
        let wanted = self.of_namespace(context)?;
        check_conflicts(&wanted, pod)?;
        for (label, value) in &wanted {
            pod.set_at(&[SELECTOR[0], SELECTOR[1], label], value.as_str().into());
        }
        self.check(context, &wanted, pod)
    }

    /// upstream: plugin/pkg/admission/podnodeselector#Plugin.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(pod) = object else {
            return Ok(());
        };
        let wanted = self.of_namespace(context)?;
        self.check(context, &wanted, pod)
    }
}

impl PodNodeSelector {
    fn selector(&self, name: &str) -> Result<Labels, Rejection> {
        labels_of(self.selectors.get(name).map_or("", String::as_str))
    }

    /// Returns the node labels of the namespace of the write.
    fn of_namespace(&self, context: &WriteContext<'_>) -> Result<Labels, Rejection> {
        let name = context.namespace;
        let namespace = context
            .lookup
            .get(&group_resource("", "namespaces"), "", name)
            .ok_or_else(|| Rejection::Internal(format!("namespace {name} does not exist")))?;
        match namespace.str_at(&ANNOTATION) {
            Some(selector) => labels_of(selector),
            None => self.selector(OF_OTHERS),
        }
    }

    /// upstream: plugin/pkg/admission/podnodeselector#Plugin.Validate
    fn check(&self, context: &WriteContext<'_>, wanted: &Labels, pod: &Value) -> Result<(), Rejection> {
        check_conflicts(wanted, pod)?;
        let allowed = self.selector(context.namespace)?;
        let selector = Field::placed(pod.at(&SELECTOR), "");
        let fits =
            |(label, value): (&str, Field<'_, '_>)| allowed.get(label).is_some_and(|allowed| allowed == value.text());
        if allowed.is_empty() || selector.entries().all(fits) {
            return Ok(());
        }
        Err(reject(
            pod,
            "pod node label selector labels conflict with its namespace whitelist",
        ))
    }
}

/// upstream: plugin/pkg/admission/podnodeselector#Plugin.Admit
fn check_conflicts(wanted: &Labels, pod: &Value) -> Result<(), Rejection> {
    let selector = Field::placed(pod.at(&SELECTOR), "");
    let differs =
        |(label, value): (&str, Field<'_, '_>)| wanted.get(label).is_some_and(|wanted| wanted != value.text());
    match selector.entries().any(differs) {
        true => Err(reject(
            pod,
            "pod node label selector conflicts with its namespace node label selector",
        )),
        false => Ok(()),
    }
}

/// Returns an error that names the Pod, without the prefix of a name that is not generated yet.
fn reject(pod: &Value, why: &str) -> Rejection {
    Rejection::ForbiddenOn {
        resource: group_resource("", "pods"),
        name: pod.str_at(&["metadata", "name"]).unwrap_or_default().to_owned(),
        message: why.to_owned(),
    }
}

/// Returns the labels of a selector of the form `a=b,c=d`. Its errors have no status in the reference.
fn labels_of(selector: &str) -> Result<Labels, Rejection> {
    let mut labels = Labels::new();
    if selector.is_empty() {
        return Ok(labels);
    }
    for label in selector.split(',') {
        let parts: Vec<&str> = label.split('=').collect();
        let [key, value] = parts.as_slice() else {
            return Err(Rejection::Failed(format!("invalid selector: [{}]", parts.join(" "))));
        };
        let (key, value) = (key.trim(), value.trim());
        let invalid = |place: String, value: &str, errors: Vec<_>| {
            let error = FieldError::invalid(&FieldPath::new(&place), value, errors.join("; "));
            Rejection::Failed(error.to_string())
        };
        let errors = qualified_name(key);
        if !errors.is_empty() {
            return Err(invalid("<nil>".to_owned(), key, errors));
        }
        let errors = label_value(value);
        if !errors.is_empty() {
            return Err(invalid(format!("[{key}]"), value, errors));
        }
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(labels)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::harness::PluginSettings;
    use crate::harness::{Harness, at};

    const PLUGIN: &str = "PodNodeSelector";

    fn harness(annotation: &str, selectors: &[(&str, &str)]) -> Harness {
        let namespace =
            format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: default, annotations: {{{annotation}}}}}}}");
        let settings = PluginSettings {
            node_selectors: selectors
                .iter()
                .map(|(name, selector)| (name.to_string(), selector.to_string()))
                .collect(),
            ..PluginSettings::default()
        };
        Harness::new().with(&namespace).with_plugins(settings)
    }

    fn admit(harness: &Harness, selector: &str) -> Result<String, String> {
        let pod = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: default}}, spec: {{nodeSelector: {{{selector}}}, \
             containers: [{{name: c, image: i}}]}}}}"
        );
        harness.admit(PLUGIN, &pod).map(|pod| at(&pod, "spec.nodeSelector"))
    }

    fn annotated(selector: &str) -> String {
        format!("scheduler.alpha.kubernetes.io/node-selector: '{selector}'")
    }

    #[test]
    fn pods_take_on_the_selector_of_their_namespace() {
        let named = harness(&annotated("a=b, c = d"), &[("clusterDefaultNodeSelector", "e=f")]);
        assert_eq!(admit(&named, "x: 'y'").unwrap(), r#"{"a":"b","c":"d","x":"y"}"#);
        let other = harness("", &[("clusterDefaultNodeSelector", "e=f")]);
        assert_eq!(admit(&other, "").unwrap(), r#"{"e":"f"}"#);
        let rejected = "pod node label selector conflicts with its namespace node label selector";
        assert!(admit(&named, "a: other").unwrap_err().contains(rejected));
    }

    #[test]
    fn pods_keep_to_what_their_namespace_allows() {
        let harness = harness("", &[("default", "a=b,c=d")]);
        assert!(admit(&harness, "a: b").is_ok());
        let rejected = "pod node label selector labels conflict with its namespace whitelist";
        assert!(admit(&harness, "a: other").unwrap_err().contains(rejected));
        assert!(admit(&harness, "e: f").unwrap_err().contains(rejected));
    }

    #[test]
    fn selectors_that_are_none_are_reported() {
        for (selector, why) in [
            ("a=b=c", "invalid selector: [a b c]"),
            ("a", "invalid selector: [a]"),
            ("a b=c", "<nil>: Invalid value: \\\"a b\\\": "),
            ("a=b c", "[a]: Invalid value: \\\"b c\\\": "),
        ] {
            let error = admit(&harness(&annotated(selector), &[]), "").unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
