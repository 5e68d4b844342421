//! Tolerations of namespaces.

use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::Field;
use holdfast_value::{Map, Value};

use crate::common::group_resource;
use holdfast_kinds::pod_spec::validate_tolerations;
use holdfast_kinds::qos_class;
use holdfast_kinds::validation::{Errors, read_json};

/// Plugin that merges the tolerations of the namespace into Pods and rejects those that the namespace does not allow:
/// <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#podtolerationrestriction>.
pub(super) struct PodTolerationRestriction {
    /// Settings for namespaces without annotations.
    pub(super) settings: TolerationSettings,
}

/// Tolerations for namespaces without annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TolerationSettings {
    /// Tolerations that Pods receive.
    default: Vec<Toleration>,
    /// Tolerations that Pods may have; all if empty.
    allowed: Vec<Toleration>,
}

impl TolerationSettings {
    /// Reads the configuration of the plugin.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn from_configuration(configuration: &Value) -> Result<Self, String> {
        let root = Field::placed(Some(configuration), "podtolerationrestriction");
        let mut errors = Errors::new();
        let mut list = |name| -> Result<Vec<Toleration>, String> {
            let list = root.child(name);
            let tolerations = list.value().map_or(Ok(Vec::new()), tolerations_of)?;
            validate_tolerations(&list, false, &mut errors);
            Ok(tolerations)
        };
        let settings = Self {
            default: list("default")?,
            allowed: list("whitelist")?,
        };
        if errors.is_empty() {
            return Ok(settings);
        }
        let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Err(format!("invalid config: [{}]", said.join(", ")))
    }
}

const DEFAULT: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const ALLOWED: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
const EXISTS: &str = "Exists";

impl AdmissionPlugin for PodTolerationRestriction {
    fn name(&self) -> &'static str {
        "PodTolerationRestriction"
    }

    fn calls(&self) -> Calls {
        Calls::both(&[Operation::Create, Operation::Update])
    }

    fn on_by_default(&self) -> bool {
        false
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_written("", "pods")] }
    }

    /// upstream: plugin/pkg/admission/podtolerationrestriction#Plugin.Admit
    fn mutate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&mut Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(pod) = object else {
            return Ok(());
        };
        let mut added = Vec::new();
        if context.operation == Operation::Create {
            let of_namespace = of_namespace(context, DEFAULT)?;
            added = of_namespace.unwrap_or_else(|| self.settings.default.clone());
        }
        if !is_best_effort(pod) {
            added.push(Toleration {
                key: "node.kubernetes.io/memory-pressure".to_owned(),
                operator: EXISTS.to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Toleration::default()
            });
        }
        if !added.is_empty() {
            let mut all = of_pod(pod);
            all.append(&mut added);
            let merged: Vec<Value> = merged(&all).into_iter().map(Value::from).collect();
            pod.set_at(&["spec", "tolerations"], merged.into());
        }
        self.validate(context, Some(pod), old)
    }

    /// upstream: plugin/pkg/admission/podtolerationrestriction#Plugin.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let tolerations = object.map(of_pod).unwrap_or_default();
        if tolerations.is_empty() {
            return Ok(());
        }
        let of_namespace = of_namespace(context, ALLOWED)?;
        let (allowed, scope) = match &of_namespace {
            Some(allowed) => (allowed, "namespace"),
            None => (&self.settings.allowed, "cluster"),
        };
        let fits = |toleration: &Toleration| allowed.iter().any(|allowed| allowed.covers(toleration));
        if allowed.is_empty() || tolerations.iter().all(fits) {
            return Ok(());
        }
        Err(Rejection::Failed(format!(
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its {scope} whitelist"
        )))
    }
}

/// Toleration of a taint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Toleration {
    key: String,
    operator: String,
    value: String,
    effect: String,
    seconds: Option<i64>,
}

impl Toleration {
    /// Returns true if it tolerates whatever `other` tolerates, by the reference's rules.
    fn covers(&self, other: &Self) -> bool {
        if self == other {
            return true;
        }
        let every_key = self.key.is_empty() && self.operator == EXISTS;
        if self.key != other.key && !every_key || self.effect != other.effect && !self.effect.is_empty() {
            return false;
        }
        if self.effect == "NoExecute"
            && let Some(most) = self.seconds
            && other.seconds.is_none_or(|seconds| seconds > most)
        {
            return false;
        }
        match self.operator.as_str() {
            "" | "Equal" => other.operator == "Equal" && other.value == self.value,
            operator => operator == EXISTS,
        }
    }
}

impl From<Toleration> for Value {
    fn from(toleration: Toleration) -> Self {
        let mut map = Map::new();
        for (field, text) in [
            ("effect", toleration.effect),
            ("key", toleration.key),
            ("operator", toleration.operator),
            ("value", toleration.value),
        ] {
            if !text.is_empty() {
                map.insert(field, text);
            }
        }
        if let Some(seconds) = toleration.seconds {
            map.insert("tolerationSeconds", seconds);
        }
        map.into()
    }
}

/// Returns the tolerations without those that others cover.
fn merged(all: &[Toleration]) -> Vec<Toleration> {
    let mut merged: Vec<Toleration> = Vec::new();
    for (at, toleration) in all.iter().enumerate() {
        let mut later = all.iter().skip(at + 1);
        let is_covered = merged.iter().any(|other| other.covers(toleration))
            || later.any(|other| other != toleration && other.covers(toleration));
        if !is_covered {
            merged.push(toleration.clone());
        }
    }
    merged
}

fn is_best_effort(pod: &Value) -> bool {
    let stated = pod.str_at(&["status", "qosClass"]).unwrap_or_default();
    let class = match stated {
        "" => qos_class(&Field::root(pod).child("spec")),
        stated => stated,
    };
    class == "BestEffort"
}

fn of_pod(pod: &Value) -> Vec<Toleration> {
    let tolerations = pod.at(&["spec", "tolerations"]).map(tolerations_of);
    tolerations.and_then(Result::ok).unwrap_or_default()
}

/// Returns the tolerations in an annotation of the namespace, or `None` if the annotation is missing.
fn of_namespace(context: &WriteContext<'_>, annotation: &str) -> Result<Option<Vec<Toleration>>, Rejection> {
    let namespaces = group_resource("", "namespaces");
    let Some(namespace) = context.lookup.get(&namespaces, "", context.namespace) else {
        return Err(Rejection::NotFound {
            resource: namespaces,
            name: context.namespace.to_owned(),
        });
    };
    let Some(text) = namespace.str_at(&["metadata", "annotations", annotation]) else {
        return Ok(None);
    };
    if text.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let list = read_json(text).and_then(|list| tolerations_of(&list));
    list.map(Some).map_err(Rejection::Failed)
}

/// Decodes a list of tolerations as Go does: case-insensitive field names, no unknown fields.
fn tolerations_of(list: &Value) -> Result<Vec<Toleration>, String> {
    if list.is_null() {
        return Ok(Vec::new());
    }
    let wrong = |kind: &str| format!("json: cannot unmarshal {kind} into Go value of type []v1.Toleration");
    let items = list.as_list().ok_or_else(|| wrong(list.json_kind()))?;
    items.iter().map(toleration_of).collect()
}

fn toleration_of(item: &Value) -> Result<Toleration, String> {
    let mut toleration = Toleration::default();
    if item.is_null() {
        return Ok(toleration);
    }
    let wrong = |place: &str, value: &Value, kind: &str| {
        let value = value.json_kind();
        format!("json: cannot unmarshal {value} into Go {place} of type {kind}")
    };
    let map = item.as_map().ok_or_else(|| wrong("value", item, "v1.Toleration"))?;
    for (name, value) in map {
        if value.is_null() {
            continue;
        }
        let is = |field: &str| name.eq_ignore_ascii_case(field);
        let text = if is("key") {
            &mut toleration.key
        } else if is("operator") {
            &mut toleration.operator
        } else if is("value") {
            &mut toleration.value
        } else if is("effect") {
            &mut toleration.effect
        } else if is("tolerationSeconds") {
            let seconds = value
                .as_i64()
                .ok_or_else(|| wrong("struct field Toleration.tolerationSeconds", value, "int64"))?;
            toleration.seconds = Some(seconds);
            continue;
        } else {
            continue;
        };
        let stated = value
            .as_str()
            .ok_or_else(|| wrong(&format!("struct field Toleration.{name}"), value, "string"))?;
        stated.clone_into(text);
    }
    Ok(toleration)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::TolerationSettings;
    use crate::harness::PluginSettings;
    use crate::harness::{Harness, at};

    const PLUGIN: &str = "PodTolerationRestriction";

    fn settings(text: &str) -> Result<TolerationSettings, String> {
        TolerationSettings::from_configuration(&yaml::parse(text.as_bytes(), &Limits::default()).unwrap())
    }

    fn harness(annotations: &str, configuration: &str) -> Harness {
        let namespace =
            format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: default, annotations: {{{annotations}}}}}}}");
        let plugins = PluginSettings {
            tolerations: settings(configuration).unwrap(),
            ..PluginSettings::default()
        };
        Harness::new().with(&namespace).with_plugins(plugins)
    }

    fn pod(tolerations: &str, resources: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: default}}, spec: {{tolerations: [{tolerations}], \
             containers: [{{name: c, image: i, resources: {{{resources}}}}}]}}}}"
        )
    }

    fn admit(harness: &Harness, tolerations: &str) -> Result<String, String> {
        let admitted = harness.admit(PLUGIN, &pod(tolerations, ""));
        admitted.map(|pod| at(&pod, "spec.tolerations"))
    }

    #[test]
    fn pods_take_on_what_their_namespace_or_else_the_cluster_says() {
        let cluster = "{default: [{key: c, operator: Exists}]}";
        let named = "scheduler.alpha.kubernetes.io/defaultTolerations: '[{\"KEY\": \"n\", \"operator\": \"Exists\"}]'";
        let (n, c) = (
            r#"[{"key":"n","operator":"Exists"}]"#,
            r#"[{"key":"c","operator":"Exists"}]"#,
        );
        assert_eq!(admit(&harness(named, cluster), "").unwrap(), n);
        assert_eq!(admit(&harness("", cluster), "").unwrap(), c);
        let nothing = "scheduler.alpha.kubernetes.io/defaultTolerations: ''";
        assert_eq!(admit(&harness(nothing, cluster), "").unwrap(), "nothing");
        let wider = "{operator: Exists}";
        assert_eq!(
            admit(&harness(named, cluster), wider).unwrap(),
            r#"[{"operator":"Exists"}]"#
        );
        let odd = "scheduler.alpha.kubernetes.io/defaultTolerations: '{}'";
        let why = admit(&harness(odd, cluster), "").unwrap_err();
        assert!(
            why.contains("json: cannot unmarshal object into Go value of type []v1.Toleration"),
            "{why}"
        );
    }

    #[test]
    fn pods_that_ask_for_memory_stay_where_it_is_short() {
        let pressure = r#"[{"effect":"NoSchedule","key":"node.kubernetes.io/memory-pressure","operator":"Exists"}]"#;
        let asking = pod("", "requests: {memory: 1}");
        let harness = harness("", "{default: [{key: c, operator: Exists}]}");
        let created = harness.admit(PLUGIN, &asking).unwrap();
        assert!(at(&created, "spec.tolerations").contains("memory-pressure"));
        let changed = harness.change(PLUGIN, &asking, &asking).unwrap();
        assert_eq!(at(&changed, "spec.tolerations"), pressure, "defaults are for new Pods");
    }

    #[test]
    fn pods_keep_to_what_is_allowed() {
        let allowed = "scheduler.alpha.kubernetes.io/tolerationsWhitelist: '[{\"key\": \"a\", \"operator\": \"Exists\", \"effect\": \
                       \"NoExecute\", \"tolerationSeconds\": 5}]'";
        let rejected = |scope: &str| {
            let why = "pod tolerations (possibly merged with namespace default tolerations) conflict with its";
            format!("Failed({:?})", format!("{why} {scope} whitelist"))
        };
        let named = harness(allowed, "{whitelist: [{key: b, operator: Exists}]}");
        let toleration =
            |seconds| format!("{{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: {seconds}}}");
        assert!(admit(&named, &toleration(4)).is_ok());
        assert_eq!(admit(&named, &toleration(6)).unwrap_err(), rejected("namespace"));
        let cluster = harness("", "{whitelist: [{key: b, value: v}, {key: c, operator: Exists}]}");
        assert_eq!(admit(&cluster, &toleration(4)).unwrap_err(), rejected("cluster"));
        assert!(admit(&cluster, "{key: b, operator: Equal, value: v}, {key: c, value: w}").is_ok());
        assert_eq!(
            admit(&cluster, "{key: b, operator: Equal, value: w}").unwrap_err(),
            rejected("cluster")
        );
    }

    #[test]
    fn configurations_are_checked() {
        assert_eq!(
            settings("{default: [{operator: Sometimes, key: a}]}").unwrap_err(),
            "invalid config: [podtolerationrestriction.default[0].operator: Unsupported value: \"Sometimes\": supported values: \
             \"Equal\", \"Exists\"]"
        );
        assert!(settings("{whitelist: 7}").is_err());
    }
}
