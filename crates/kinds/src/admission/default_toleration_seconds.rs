use holdfast_admission::{AdmissionPlugin, Interest};
use holdfast_resource::{Field, Operation, Refusal, Resource, WriteContext};
use holdfast_value::{Map, Value};

/// A Pod that does not say otherwise stays for five minutes on a node that is not ready or cannot be reached.
pub(super) struct DefaultTolerationSeconds;

const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const EFFECT: &str = "NoExecute";
const SECONDS: i64 = 300;

impl AdmissionPlugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[Interest::in_objects(
                "",
                "pods",
                &[Operation::Create, Operation::Update],
            )]
        }
    }

    fn mutate(
        &self,
        _context: &WriteContext<'_>,
        _resource: &Resource,
        object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Refusal> {
        let Some(pod) = object else {
            return Ok(());
        };
        let root = Field::root(pod);
        let spec = root.child("spec");
        let tolerations = spec.child("tolerations");
        let tolerated = |taint: &str| {
            tolerations.items().any(|toleration| {
                let (key, effect) = (toleration.child("key").text(), toleration.child("effect").text());
                (key.is_empty() || key == taint) && (effect.is_empty() || effect == EFFECT)
            })
        };
        let missing: Vec<Value> = TAINTS
            .iter()
            .filter(|taint| !tolerated(taint))
            .map(|taint| toleration(taint))
            .collect();
        if !missing.is_empty() {
            let mut all = tolerations.slice().to_vec();
            all.extend(missing);
            pod.set_at(&["spec", "tolerations"], all.into());
        }
        Ok(())
    }
}

fn toleration(taint: &str) -> Value {
    let mut toleration = Map::new();
    toleration.insert("effect", EFFECT);
    toleration.insert("key", taint);
    toleration.insert("operator", "Exists");
    toleration.insert("tolerationSeconds", SECONDS);
    toleration.into()
}
