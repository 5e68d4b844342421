//! The status of ValidatingAdmissionPolicies: it shows the errors of their expressions for the kinds that they match
//! (<https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/#type-checking>).

use std::sync::Arc;

use holdfast_admission::policies::type_checking;
use holdfast_resource::Resource;
use holdfast_schema::metadata::new_object;
use holdfast_server::http::negotiation::PatchType;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, path_of};
use holdfast_value::{SmolStr, Value};

use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use crate::rejection::unless_gone;

/// The name of this controller, and of its field manager.
pub(crate) const NAME: &str = "validatingadmissionpolicy-status-controller";

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let Some(policies) = client.resource("admissionregistration.k8s.io", "validatingadmissionpolicies") else {
        return;
    };
    let controller = PolicyStatus {
        client: client.clone(),
        policies,
    };
    reconcile::run(client, controller).await;
}

struct PolicyStatus {
    client: Client,
    policies: Arc<Resource>,
}

impl Reconcile for PolicyStatus {
    type Item = SmolStr;
    type Outcome = ();

    const NAME: &'static str = NAME;
    const QUEUE: &'static str = "validatingadmissionpolicy-status";
    const PARALLEL: usize = 1;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        client.watch(&self.policies)
    }

    fn seen(&mut self, policy: &Object, queue: &mut Queue<SmolStr>) {
        queue.push(policy.name().into());
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<SmolStr>) {
        if !change.is_removal() {
            queue.push(change.current().name().into());
        }
    }

    fn work(&mut self, name: &SmolStr, _queue: &mut Queue<SmolStr>) -> Option<Work<()>> {
        let policy = self.client.get(&self.policies, "", name)?.tree();
        let number = |path: &[&str]| policy.at(path).and_then(Value::as_i64).unwrap_or_default();
        let generation = number(&["metadata", "generation"]);
        if generation <= number(&["status", "observedGeneration"]) {
            return None;
        }
        let warnings = type_checking::warnings(&policy, &self.client.registry());
        let mut configuration = new_object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "", name);
        configuration.set_at(&["status", "observedGeneration"], Value::Int(generation));
        configuration.set_at(&["status", "typeChecking"], Value::empty_map());
        if !warnings.is_empty() {
            configuration.set_at(&["status", "typeChecking", "expressionWarnings"], warnings.into());
        }
        let path = path_of(&self.policies, "", name)?;
        let client = self.client.clone();
        Some(Box::pin(async move {
            let path = format!("{path}/status?fieldManager={NAME}&force=true");
            unless_gone(client.patch(&path, PatchType::Apply, &configuration).await)
        }))
    }
}
