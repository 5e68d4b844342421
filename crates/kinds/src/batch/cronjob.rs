//! CronJobs: <https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/>.

use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use super::job::validate_job_spec;
use super::schedule;
use crate::config::Config;
use crate::core::pod_spec::{default_template, template_warnings};
use crate::validation::{Errors, numbers, one_of, same};
use crate::workload::name_warnings;

/// What only CronJobs do.
pub(crate) struct CronJob {
    pub(crate) config: Config,
}

/// Names of Jobs are made of those of CronJobs and eleven more characters.
const NAME_LENGTH: usize = 52;

impl Strategy for CronJob {
    fn default_fields(&self, _version: &str, object: &mut Value) {
        default_template(object, &["spec", "jobTemplate", "spec", "template"]);
    }

    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        let root = Field::root(object);
        self.validate_spec(&root.child("spec"), None, &mut errors);
        if context.name.len() > NAME_LENGTH {
            let metadata = root.child("metadata");
            let name = metadata.child("name");
            errors.push(name.invalid_as(context.name, format!("must be no more than {NAME_LENGTH} characters")));
        }
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        if context.subresource != Some("status") {
            let (root, old_root) = (Field::root(object), Field::root(old));
            self.validate_spec(&root.child("spec"), Some(&old_root.child("spec")), &mut errors);
        }
        errors
    }

    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if context.subresource.is_some() || old.is_some_and(|old| same(object.get("spec"), old.get("spec"))) {
            return warnings;
        }
        if old.is_none() {
            name_warnings(context, "Pod names and hostnames", &mut warnings);
        }
        warnings.extend(template_warnings(object, &["spec", "jobTemplate", "spec", "template"]));
        warnings
    }
}

impl CronJob {
    fn validate_spec(&self, spec: &Field<'_, '_>, old: Option<&Field<'_, '_>>, errors: &mut Errors) {
        let line = spec.child("schedule");
        if line.text().is_empty() {
            errors.push(line.required(""));
        } else if let Err(fault) = schedule::check(line.text(), spec.child("timeZone").is_set()) {
            errors.push(line.invalid(fault));
        }
        for part in [
            "startingDeadlineSeconds",
            "successfulJobsHistoryLimit",
            "failedJobsHistoryLimit",
        ] {
            numbers::not_negative(&spec.child(part), errors);
        }
        let zone = spec.child("timeZone");
        let kept = old.is_some_and(|old| same(zone.value(), old.child("timeZone").value()));
        if zone.is_set() && !kept {
            let faults = schedule::time_zone_faults(zone.text());
            errors.extend(faults.into_iter().map(|fault| zone.invalid(fault)));
        }
        one_of(
            &spec.child("concurrencyPolicy"),
            &["Allow", "Forbid", "Replace"],
            errors,
        );
        let template = spec.child("jobTemplate");
        let job = template.child("spec");
        let (selector, manual) = (job.child("selector"), job.child("manualSelector"));
        validate_job_spec(&job, self.config.allow_privileged, errors);
        if manual.is_true() {
            errors.push(FieldError::not_supported(&manual.path(), true, &["nil", "false"]));
        }
        if selector.is_set() {
            errors.push(selector.invalid("`selector` will be auto-generated"));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    const NIGHTLY: &str = "
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: '@daily'
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
";

    #[test]
    fn the_jobs_to_come_get_only_the_defaults_of_pods() {
        let created = Harness::new().create(NIGHTLY);
        assert_eq!(at(&created, "spec.jobTemplate.spec.backoffLimit"), "nothing");
        assert_eq!(
            at(&created, "spec.jobTemplate.spec.template.spec.dnsPolicy"),
            r#""ClusterFirst""#
        );
    }

    #[test]
    fn schedule_zone_and_name_are_checked() {
        let harness = Harness::new();
        assert!(harness.errors(NIGHTLY).is_empty());
        assert_eq!(
            harness.errors(
                &NIGHTLY.replace("'@daily'", "'61 * * * *', timeZone: No/Where").replace(
                    "schedule: '61 * * * *', timeZone: No/Where",
                    "schedule: 61 * * * *\n  timeZone: No/Where"
                )
            ),
            [
                "spec.schedule: Invalid value: \"61 * * * *\": end of range (61) above maximum (59): 61",
                "spec.timeZone: Invalid value: \"No/Where\": unknown time zone No/Where",
            ]
        );
        let long = "b".repeat(53);
        assert_eq!(
            harness.errors(&NIGHTLY.replace("nightly", &long)),
            [format!(
                "metadata.name: Invalid value: \"{long}\": must be no more than 52 characters"
            )]
        );
    }
}
