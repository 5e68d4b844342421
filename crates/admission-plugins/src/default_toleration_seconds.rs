use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::Field;
use holdfast_value::{Map, Value};

/// Plugin that lets a Pod stay for five minutes, by default, on a node that is not ready or unreachable.
pub(super) struct DefaultTolerationSeconds {
    /// Toleration seconds for a node that is not ready.
    pub(super) not_ready: i64,
    /// Toleration seconds for an unreachable node.
    pub(super) unreachable: i64,
}

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const EFFECT: &str = "NoExecute";

impl AdmissionPlugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn calls(&self) -> Calls {
        Calls::admitting(&[Operation::Create, Operation::Update])
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_written("", "pods")] }
    }

    /// upstream: plugin/pkg/admission/defaulttolerationseconds#Plugin.Admit
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
        let tolerations = spec.child("tolerations");
        let tolerated = |taint: &str| {
            tolerations.items().any(|toleration| {
                let (key, effect) = (toleration.child("key").text(), toleration.child("effect").text());
                (key.is_empty() || key == taint) && (effect.is_empty() || effect == EFFECT)
            })
        };
        let missing: Vec<Value> = [(NOT_READY, self.not_ready), (UNREACHABLE, self.unreachable)]
            .into_iter()
            .filter(|(taint, _)| !tolerated(taint))
            .map(|(taint, seconds)| toleration(taint, seconds))
            .collect();
        if !missing.is_empty() {
            let mut all = tolerations.slice().to_vec();
            all.extend(missing);
            pod.set_at(&["spec", "tolerations"], all.into());
        }
        Ok(())
    }
}

fn toleration(taint: &str, seconds: i64) -> Value {
    let mut toleration = Map::new();
    toleration.insert("effect", EFFECT);
    toleration.insert("key", taint);
    toleration.insert("operator", "Exists");
    toleration.insert("tolerationSeconds", seconds);
    toleration.into()
}
