//! CronJobs: <https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/>.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{of_core, with_status};
use holdfast_resource::table::NamedCell;
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::{Check, Field, FieldError, Part, Rules};
use holdfast_value::Value;

use super::job::{indexed_warning, validate_job_spec};
use super::schedule;
use crate::config::{Config, PodSettings};
use crate::kind::kind;
use crate::pod_spec::template_warnings;
use crate::rules::CronJobRule;
use crate::validation::{Errors, same};
use crate::workload::{TemplateWarnings, name_warnings};

/// Strategy of CronJobs.
pub(crate) struct CronJob {
    pub(crate) config: Config,
}

/// Maximum length of names. Names of Jobs are those of CronJobs and eleven more characters.
const NAME_LENGTH: usize = 52;

/// Path of the Pod template.
pub(super) const TEMPLATE: [&str; 4] = ["spec", "jobTemplate", "spec", "template"];

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(CronJob { config: config.clone() })
        .cells(CELLS)
        .pod_template(&TEMPLATE, TemplateWarnings::Own)
        .empty_status()
        .metadata_checks(with_status(of_core(0, 1), 0, 0))
        .done()
}

impl Strategy for CronJob {
    /// upstream: pkg/registry/batch/cronjob#cronJobStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = context.check(object, &self.rules(None));
        if context.name.len() > NAME_LENGTH {
            let root = Field::root(object);
            let metadata = root.child("metadata");
            let name = metadata.child("name");
            errors.push(name.invalid_as(context.name, format!("must be no more than {NAME_LENGTH} characters")));
        }
        errors
    }

    /// upstream: pkg/registry/batch/cronjob#cronJobStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        context.check(object, &self.rules(Some(old)))
    }

    /// upstream: pkg/registry/batch/cronjob#cronJobStrategy.WarningsOnCreate
    /// upstream: pkg/registry/batch/cronjob#cronJobStrategy.WarningsOnUpdate
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if context.subresource.is_some() {
            return warnings;
        }
        if old.is_none() {
            name_warnings(context, "Pod names and hostnames", &mut warnings);
        }
        if !old.is_some_and(|old| same(object.get("spec"), old.get("spec"))) {
            let root = Field::root(object);
            let spec = root.child("spec");
            let jobs = spec.child("jobTemplate");
            warnings.extend(indexed_warning(&jobs.child("spec")));
            warnings.extend(template_warnings(&context.parts, object, &TEMPLATE));
        }
        let schedule = object.str_at(&["spec", "schedule"]).unwrap_or_default();
        // Validation rejects a new CronJob with such a schedule. An existing one keeps it.
        if old.is_some() && schedule.contains("TZ") {
            // The reference names the field like this.
            warnings.push(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                    .to_owned(),
            );
        }
        warnings
    }
}

impl CronJob {
    fn rules<'o>(&self, old: Option<&'o Value>) -> SpecRules<'o> {
        SpecRules {
            settings: self.config.pods(),
            old: Field::placed(old.and_then(|old| old.get("spec")), ""),
        }
    }
}

/// Hand-written checks of `validateCronJobSpec` for a spec that replaces `old`.
struct SpecRules<'o> {
    settings: PodSettings,
    old: Field<'o, 'o>,
}

impl<'v> Rules<'v> for SpecRules<'_> {
    type Rule = CronJobRule;

    fn rule(&self, rule: CronJobRule, spec: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            CronJobRule::Schedule => validate_schedule(spec, &self.old, &mut check.errors),
            CronJobRule::TimeZone => validate_time_zone(&spec.child("timeZone"), &self.old, &mut check.errors),
            CronJobRule::JobTemplate => self.validate_job_template(spec, check),
        }
    }
}

impl SpecRules<'_> {
    /// upstream: pkg/apis/batch/validation#ValidateJobTemplateSpec
    fn validate_job_template(&self, spec: &Part<'_, '_>, check: &mut Check<'_>) {
        let Some(template) = check.child(spec, "jobTemplate") else {
            return;
        };
        let Some(job) = check.child(&template, "spec") else {
            return;
        };
        validate_job_spec(&job, self.settings, check);
        let (selector, manual) = (job.child("selector"), job.child("manualSelector"));
        if selector.is_set() {
            check.errors.push(selector.invalid("`selector` will be auto-generated"));
        }
        if manual.is_true() {
            let error = FieldError::not_supported(&manual.path(), true, &["nil", "false"]);
            check.errors.push(error);
        }
    }
}

/// Validates a time zone. An unchanged one stays valid even if it is no longer known.
///
/// upstream: pkg/apis/batch/validation#validateTimeZone
fn validate_time_zone(zone: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let kept = old.is_set() && same(zone.value(), old.child("timeZone").value());
    if zone.is_set() && !kept {
        let messages = schedule::check_time_zone(zone.text()).into_iter();
        errors.extend(messages.map(|message| zone.invalid(message)));
    }
}

/// Checks that a time zone in the schedule is only allowed if the old schedule had one.
///
/// upstream: pkg/apis/batch/validation#validateScheduleFormat
fn validate_schedule(spec: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let line = spec.child("schedule");
    if line.text().is_empty() {
        errors.push(line.required(""));
        return;
    }
    if let Err(message) = schedule::check(line.text()) {
        errors.push(line.invalid(message));
    }
    if !line.text().contains("TZ") {
        return;
    }
    let had_zone = old.child("schedule").text().contains("TZ");
    if !had_zone {
        errors.push(line.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"));
    } else if spec.child("timeZone").is_set() {
        errors.push(line.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule"));
    }
}

/// Table cells that are not just the value at a path.
pub(super) const CELLS: &[NamedCell] = &[("cron-suspend", |object, _| cron_suspend(object))];

fn cron_suspend(job: &Value) -> Value {
    match job.at(&["spec", "suspend"]).and_then(Value::as_bool) {
        None => "<unset>".into(),
        Some(true) => "True".into(),
        Some(false) => "False".into(),
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    #[test]
    fn time_zone_in_schedule_is_rejected_after_parse_errors() {
        let zoned = |zone: &str| NIGHTLY.replace("'@daily'", &format!("'TZ={zone} 0 0 * * *'"));
        let refused = |zone: &str| {
            format!(
                "spec.schedule: Invalid value: \"TZ={zone} 0 0 * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            )
        };
        let harness = Harness::new();
        assert_eq!(harness.errors(&zoned("UTC")), [refused("UTC")]);
        assert_eq!(
            harness.errors(&zoned("Nowhere")),
            [
                "spec.schedule: Invalid value: \"TZ=Nowhere 0 0 * * *\": provided bad location Nowhere: unknown time zone Nowhere".to_owned(),
                refused("Nowhere"),
            ]
        );
        assert_eq!(
            harness.update_errors(&zoned("UTC"), &zoned("Europe/Berlin")),
            Vec::<String>::new()
        );
    }

    #[test]
    fn update_with_time_zone_in_schedule_warns() {
        let zoned = NIGHTLY.replace("'@daily'", "'CRON_TZ=UTC 0 0 * * *'");
        let harness = Harness::new();
        assert_eq!(
            harness.update_warnings(&zoned, &zoned),
            [
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            ]
        );
        assert!(harness.update_warnings(NIGHTLY, NIGHTLY).is_empty());
    }

    const NIGHTLY: &str = "
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: '@daily'
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
";

    #[test]
    fn the_selector_of_jobs_to_come_is_refused_ahead_of_its_flag() {
        let own = NIGHTLY.replace(
            "{spec: {template",
            "{spec: {selector: {matchLabels: {a: b}}, manualSelector: true, template",
        );
        assert_eq!(
            Harness::new().errors(&own),
            [
                "spec.jobTemplate.spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` will be auto-generated",
                "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\""
            ]
        );
    }

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
    fn history_limits_are_validated_after_the_job() {
        let bad = format!("{NIGHTLY}  successfulJobsHistoryLimit: -1\n")
            .replace("jobTemplate:", "timeZone: Nowhere\n  jobTemplate:");
        let errors = Harness::new().errors(&bad);
        let fields: Vec<&str> = errors.iter().filter_map(|error| error.split(": ").next()).collect();
        assert_eq!(fields, ["spec.timeZone", "spec.successfulJobsHistoryLimit"]);
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
