use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::Field;
use holdfast_value::{Map, Value};

/// Plugin that taints a new node until it is known to be ready.
pub(super) struct TaintNodesByCondition;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

impl AdmissionPlugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn calls(&self) -> Calls {
        Calls::admitting(&[Operation::Create])
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_new("", "nodes")] }
    }

    /// upstream: plugin/pkg/admission/nodetaint#Plugin.Admit
    fn mutate(
        &self,
        _context: &WriteContext<'_>,
        object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(node) = object else {
            return Ok(());
        };
        let root = Field::root(node);
        let mut taints = root.child("spec").child("taints").slice().to_vec();
        let there =
            |taint: &Value| taint.str_at(&["key"]) == Some(NOT_READY) && taint.str_at(&["effect"]) == Some(EFFECT);
        if !taints.iter().any(there) {
            let mut taint = Map::new();
            taint.insert("effect", EFFECT);
            taint.insert("key", NOT_READY);
            taints.push(taint.into());
            node.set_at(&["spec", "taints"], taints.into());
        }
        Ok(())
    }
}
