//! Admission of PodGroups, Workloads and Jobs with gang scheduling.

use std::ops::ControlFlow;

use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::table::items;
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_value::Value;

use crate::common::{add_finalizer, group_resource};
use holdfast_kind_tables::features::Feature;

const GROUP: &str = "scheduling.k8s.io";
const POD_GROUPS: &str = "podgroups";
const PARALLELISM: [&str; 2] = ["spec", "parallelism"];

/// Plugin that requires the template of a PodGroup to exist in its Workload.
pub(super) struct PodGroupWorkloadExists;

impl AdmissionPlugin for PodGroupWorkloadExists {
    fn name(&self) -> &'static str {
        "PodGroupWorkloadExists"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Create])
    }

    fn gate(&self) -> Option<&'static str> {
        Some(Feature::GenericWorkload.name())
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_new(GROUP, POD_GROUPS)] }
    }

    /// upstream: plugin/pkg/admission/podgroup#PodGroupWorkloadExists.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let workload = object.and_then(|group| group.at(&["spec", "podGroupTemplateRef", "workload"]));
        let Some(reference) = workload.filter(|workload| !workload.is_null()) else {
            return Ok(());
        };
        let text = |name| reference.str_at(&[name]).unwrap_or_default();
        let (name, template) = (text("workloadName"), text("podGroupTemplateName"));
        let reject = |why: String| Err(Rejection::forbidden(format!("PodGroup rejected: {why}")));
        let workloads = group_resource(GROUP, "workloads");
        let Some(workload) = context.lookup.get(&workloads, context.namespace, name) else {
            return reject(format!("Workload {name:?} not found"));
        };
        if workload.at(&["metadata", "deletionTimestamp"]).is_some() {
            return reject(format!("Workload {name:?} is being deleted"));
        }
        let mut templates = items(&workload, &["spec", "podGroupTemplates"]).iter();
        match templates.any(|known| known.str_at(&["name"]) == Some(template)) {
            true => Ok(()),
            false => reject(format!("PodGroupTemplate {template:?} not found in Workload {name:?}")),
        }
    }
}

/// Plugin that keeps a PodGroup as long as it has Pods.
pub(super) struct PodGroupProtection;

const PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";

impl AdmissionPlugin for PodGroupProtection {
    fn name(&self) -> &'static str {
        "PodGroupProtection"
    }

    fn calls(&self) -> Calls {
        Calls::admitting(&[Operation::Create])
    }

    fn gate(&self) -> Option<&'static str> {
        Some(Feature::GenericWorkload.name())
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_new(GROUP, POD_GROUPS)] }
    }

    /// upstream: plugin/pkg/admission/scheduling/podgroupprotection#podGroupProtectionPlugin.Admit
    fn mutate(
        &self,
        _context: &WriteContext<'_>,
        object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        if let Some(group) = object {
            add_finalizer(group, PROTECTION);
        }
        Ok(())
    }
}

/// Plugin that keeps the number of Pods of a gang-scheduled Job.
pub(super) struct JobValidation;

impl AdmissionPlugin for JobValidation {
    fn name(&self) -> &'static str {
        "JobValidation"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Update])
    }

    fn gate(&self) -> Option<&'static str> {
        Some(Feature::GenericWorkload.name())
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_objects("batch", "jobs", &[Operation::Update])] }
    }

    /// upstream: plugin/pkg/admission/job#Plugin.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let (Some(job), Some(old)) = (object, old) else {
            return Ok(());
        };
        if job.at(&PARALLELISM) == old.at(&PARALLELISM) {
            return Ok(());
        }
        match gang_of(context, old) {
            Some(name) => Err(Rejection::forbidden(format!(
                "cannot change parallelism for a Job referencing gang-scheduled PodGroup {name:?}"
            ))),
            None => Ok(()),
        }
    }
}

/// Returns the name of the PodGroup of a gang-scheduled Job: the one that its template names, or else one that it
/// controls.
fn gang_of(context: &WriteContext<'_>, job: &Value) -> Option<String> {
    let is_gang = |group: &Value| {
        group
            .at(&["spec", "schedulingPolicy", "gang"])
            .is_some_and(|gang| !gang.is_null())
    };
    let name_of = |group: &Value| group.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
    let groups = group_resource(GROUP, POD_GROUPS);
    if let Some(named) = job.str_at(&["spec", "template", "spec", "schedulingGroup", "podGroupName"]) {
        let group = context.lookup.get(&groups, context.namespace, named)?;
        return is_gang(&group).then(|| name_of(&group));
    }
    let uid = job.str_at(&["metadata", "uid"])?;
    let mut found = None;
    context.lookup.list(&groups, context.namespace, &mut |group| {
        if is_gang(group) && is_controlled_by(group, uid) {
            found = Some(name_of(group));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    found
}

fn is_controlled_by(object: &Value, uid: &str) -> bool {
    let is_controller = |owner: &Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
    let mut owners = items(object, &["metadata", "ownerReferences"]).iter();
    owners.any(|owner| is_controller(owner) && owner.str_at(&["uid"]) == Some(uid))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::harness::{Harness, at};

    const GATES: &str = "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true";
    const APIS: &str = "scheduling.k8s.io/v1alpha2=true";
    const WORKLOAD: &str = "{apiVersion: scheduling.k8s.io/v1alpha2, kind: Workload, metadata: {name: w, namespace: default}, \
         spec: {podGroupTemplates: [{name: t, schedulingPolicy: {gang: {minCount: 2}}}]}}";

    fn group(workload: &str, template: &str) -> String {
        format!(
            "{{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {{name: g, namespace: default}}, spec: \
             {{podGroupTemplateRef: {{workload: {{workloadName: {workload}, podGroupTemplateName: {template}}}}}, \
             schedulingPolicy: {{gang: {{minCount: 2}}}}}}}}"
        )
    }

    #[test]
    fn a_group_needs_a_template_of_a_workload() {
        let harness = Harness::serving(APIS, GATES).with(WORKLOAD);
        let admit = |workload, template| harness.admit("PodGroupWorkloadExists", &group(workload, template));
        assert!(admit("w", "t").is_ok());
        assert!(
            admit("x", "t")
                .unwrap_err()
                .contains("PodGroup rejected: Workload \"x\" not found")
        );
        let missing = "PodGroup rejected: PodGroupTemplate \"x\" not found in Workload \"w\"";
        assert!(admit("w", "x").unwrap_err().contains(missing));
    }

    #[test]
    fn a_new_group_is_protected() {
        let harness = Harness::serving(APIS, GATES);
        let protected = r#"["scheduling.k8s.io/podgroup-protection"]"#;
        let plain = harness.admit("PodGroupProtection", &group("w", "t")).unwrap();
        assert_eq!(at(&plain, "metadata.finalizers"), protected);
        let finalized = group("w", "t").replace(
            "name: g,",
            "name: g, finalizers: [scheduling.k8s.io/podgroup-protection],",
        );
        let there = harness.admit("PodGroupProtection", &finalized).unwrap();
        assert_eq!(at(&there, "metadata.finalizers"), protected);
    }

    #[test]
    fn a_job_of_a_gang_keeps_its_number() {
        let harness = Harness::serving(APIS, GATES).with(&group("w", "t"));
        let job = |parallelism: i64, name: &str| {
            format!(
                "{{apiVersion: batch/v1, kind: Job, metadata: {{name: j, namespace: default}}, spec: {{parallelism: {parallelism}, \
                 template: {{spec: {{restartPolicy: Never, schedulingGroup: {{podGroupName: {name}}}, containers: [{{name: c, \
                 image: i}}]}}}}}}}}"
            )
        };
        let admit =
            |name, parallelism| harness.admit_update("JobValidation", None, &job(1, name), &job(parallelism, name));
        assert!(admit("g", 2).unwrap_err().contains("gang-scheduled PodGroup \"g\""));
        assert!(admit("g", 1).is_ok() && admit("other", 2).is_ok());
    }

    #[test]
    fn groups_have_the_priority_of_their_class() {
        let class = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 7}";
        let named = group("w", "t").replace("spec: {pod", "spec: {priorityClassName: high, pod");
        let differs = named.replace("spec: {p", "spec: {priority: 8, p");
        let harness = Harness::serving(APIS, GATES).with(class);
        assert_eq!(at(&harness.admit("Priority", &named).unwrap(), "spec.priority"), "7");
        let rejection = harness.admit("Priority", &differs).unwrap_err();
        assert!(
            rejection.contains("priority set in the pod group (8) must match the priority computed (7)"),
            "{rejection}"
        );
    }
}
