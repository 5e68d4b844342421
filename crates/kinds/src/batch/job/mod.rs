//! Jobs: <https://kubernetes.io/docs/concepts/workloads/controllers/job/>.

mod cells;
mod indexed;
mod status;
mod validation;

pub(super) use cells::CELLS;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, in_order};
use holdfast_resource::{DeletionRules, Old, Rejection, SelectorWords, Strategy, WriteContext};
use holdfast_schema::metadata::formats::label_value;
use holdfast_schema::{Field, FieldError, UpdateOrder};
use holdfast_value::Value;

pub(super) use self::indexed::indexed_warning;
pub(super) use self::validation::validate_job_spec;
use crate::config::Config;
use crate::defaults::{is_zero, set_missing};
use crate::kind::kind;
use crate::pod_spec::template_warnings;
use crate::workload::{TemplateWarnings, name_warnings, warns_of_spec};

/// Strategy of Jobs, which generate the selector of their own Pods.
pub(crate) struct Job {
    pub(crate) config: Config,
}

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// Names of both labels before they had a domain.
const OLD_CONTROLLER_UID: &str = "controller-uid";
const OLD_JOB_NAME: &str = "job-name";

/// Warning for the deletion of a Job without a propagation policy for its Pods.
pub(super) const DELETION_WARNING: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or \
             set propagationPolicy=Orphan to suppress this warning";

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(Job { config: config.clone() })
        .kept_by(to_rest)
        .cells(CELLS)
        .deletion(DeletionRules {
            warning: Some(DELETION_WARNING),
            ..DeletionRules::default()
        })
        .selector_words(SelectorWords::NamesKind)
        .pod_template(&["spec", "template"], TemplateWarnings::Own)
        .empty_status()
        .metadata_checks(in_order(UpdateOrder::ObjectFirst, COMMON_CHECKS))
        .done()
}

impl Strategy for Job {
    /// upstream: pkg/apis/batch/v1#SetDefaults_Job
    fn default_fields(&self, _version: &str, object: &mut Value) {
        label_as_template(object);
        let Some(spec) = object.as_map_mut().and_then(|object| object.get_mut("spec")) else {
            return;
        };
        if spec.get("parallelism").is_none() && set_missing(spec, "completions", || 1.into()) {
            set_missing(spec, "parallelism", || 1.into());
        }
        set_missing(spec, "parallelism", || 1.into());
        let by_index = !is_zero(spec.get("backoffLimitPerIndex")) || spec.get("backoffLimitPerIndex").is_some();
        set_missing(
            spec,
            "backoffLimit",
            || if by_index { i32::MAX.into() } else { 6.into() },
        );
        let by_failure = spec.get("podFailurePolicy").is_some_and(|policy| !policy.is_null());
        set_missing(spec, "podReplacementPolicy", || {
            if by_failure { "Failed" } else { "TerminatingOrFailed" }.into()
        });
    }

    /// upstream: pkg/registry/batch/job#jobStrategy.PrepareForCreate
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        let manual = object
            .at(&["spec", "manualSelector"])
            .and_then(Value::as_bool)
            .unwrap_or_default();
        if !manual {
            // In the reference, a Job that got its labels from its template shares the map, including the generated
            // labels.
            let shared = shares_labels(object);
            make_selector(context, object);
            if shared && let Some(labels) = object.at(&["spec", "template", "metadata", "labels"]).cloned() {
                object.set_at(&["metadata", "labels"], labels);
            }
        }
        // The reference sets defaults again when it reads the object back, now with the template's new labels. A name
        // that is not a valid label is left for the validation of the template to reject.
        if label_value(context.name).is_empty() {
            label_as_template(object);
        }
        Ok(())
    }

    /// upstream: pkg/registry/batch/job#jobStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut check = context.new_check();
        if let Some(job) = check.root(object) {
            validation::validate_job(&job, self.config.pods(), &mut check);
        }
        check.errors
    }

    /// upstream: pkg/registry/batch/job#jobStrategy.ValidateUpdate
    /// upstream: pkg/registry/batch/job#jobStatusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        if context.subresource == Some("status") {
            let mut errors = context.check(object, &status::CountRules);
            status::validate_status_update(&Field::root(object), &Field::root(old), &mut errors);
            return errors;
        }
        let mut errors = self.validate(context, object);
        errors.extend(context.rest_of_metadata(object, old));
        // The reference validates the spec again as part of the change.
        let mut check = context.new_check();
        if let Some(job) = check.root(object) {
            validation::validate_own_spec(&job, self.config.pods(), &mut check);
        }
        errors.extend(check.errors);
        let rules = validation::ChangeRules {
            old: Field::root(old),
            features: self.config.features,
        };
        errors.extend(context.check_changes(object, old, &rules));
        errors
    }

    /// upstream: pkg/registry/batch/job#jobStrategy.WarningsOnCreate
    /// upstream: pkg/registry/batch/job#jobStrategy.WarningsOnUpdate
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if warns_of_spec(context, object, old) {
            if old.is_none() {
                name_warnings(context, "Pod names and hostnames", &mut warnings);
            }
            warnings.extend(indexed_warning(&Field::root(object).child("spec")));
            warnings.extend(template_warnings(&context.parts, object, &["spec", "template"]));
        }
        warnings
    }
}

/// Returns a Job in its stored form. If a new Job has only the labels that were generated for its template, they are
/// not stored, and each read fills them in.
pub(super) fn to_rest(mut object: Value, old: Old<'_>) -> Value {
    const MADE_UP: [&str; 4] = [CONTROLLER_UID, JOB_NAME, OLD_CONTROLLER_UID, OLD_JOB_NAME];
    let labels = |path: &[&str]| object.at(path).and_then(Value::as_map);
    let (own, pods) = (
        labels(&["metadata", "labels"]),
        labels(&["spec", "template", "metadata", "labels"]),
    );
    let made_up = own.is_some()
        && own == pods
        && own
            .iter()
            .flat_map(|own| own.iter())
            .all(|(label, _)| MADE_UP.contains(&label.as_str()));
    if old.is_none() && made_up {
        object.remove_at(&["metadata", "labels"]);
    }
    object
}

/// Copies the template's labels to a Job without labels.
fn label_as_template(object: &mut Value) {
    let labels = object.at(&["spec", "template", "metadata", "labels"]);
    if is_zero(object.at(&["metadata", "labels"]))
        && let Some(labels) = labels.filter(|labels| !is_zero(Some(labels))).cloned()
    {
        object.set_at(&["metadata", "labels"], labels);
    }
}

/// Returns true if the Job and its template share one map of labels. Equal maps are not enough.
fn shares_labels(object: &Value) -> bool {
    let labels = |path: &[&str]| object.at(path).and_then(Value::as_map);
    let (own, pods) = (
        labels(&["metadata", "labels"]),
        labels(&["spec", "template", "metadata", "labels"]),
    );
    own.zip(pods)
        .is_some_and(|(own, pods)| !own.is_empty() && own.same(pods))
}

/// Adds labels to the Pod template that are unique to this Job, and the selector for them.
fn make_selector(context: &WriteContext<'_>, object: &mut Value) {
    let uid = object.at(&["metadata", "uid"]).cloned().unwrap_or_default();
    let name = Value::from(context.name);
    for (label, value) in [
        (OLD_JOB_NAME, &name),
        (JOB_NAME, &name),
        (OLD_CONTROLLER_UID, &uid),
        (CONTROLLER_UID, &uid),
    ] {
        let label = ["spec", "template", "metadata", "labels", label];
        // A label that the client set stays, for validation to reject.
        if object.at(&label).is_none() {
            object.set_at(&label, value.clone());
        }
    }
    let selected = ["spec", "selector", "matchLabels", CONTROLLER_UID];
    if object.at(&selected).is_none() {
        object.set_at(&selected, uid);
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    const ONCE: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox:1}]
";
    #[test]
    fn large_indexed_job_warns_when_its_spec_changes() {
        let large = "{apiVersion: batch/v1, kind: Job, metadata: {name: a, generation: 1}, spec: {completionMode: Indexed, \
                     completions: 100001, parallelism: 10001}}";
        let next = large.replace("generation: 1", "generation: 2");
        let is_warned_of = |warnings: Vec<String>| {
            let starts = |warning: &String| warning.starts_with("spec: In Indexed Jobs with a number of completions");
            warnings.iter().any(starts)
        };
        let harness = Harness::new();
        assert!(is_warned_of(harness.warnings(large)));
        assert!(is_warned_of(harness.update_warnings(large, &next)));
        assert!(!is_warned_of(harness.update_warnings(large, large)));
        assert!(!is_warned_of(harness.subresource_warnings("status", large)));
        for small in [
            large.replace("100001", "100000"),
            large.replace("10001,", "10000,").replace("10001}", "10000}"),
            large.replace("Indexed", "NonIndexed"),
        ] {
            assert!(!is_warned_of(harness.warnings(&small)), "{small}");
        }
    }

    const UID: &str = "11111111-2222-4333-8444-555555555555";

    fn with(line: &str) -> String {
        ONCE.replace("spec:\n  template", &format!("spec:\n  {line}\n  template"))
    }

    #[test]
    fn a_job_selects_its_own_pods_by_its_uid() {
        let created = Harness::new().create(ONCE);
        let selector = format!("{{\"matchLabels\":{{\"batch.kubernetes.io/controller-uid\":\"{UID}\"}}}}");
        assert_eq!(at(&created, "spec.selector"), selector);
        assert_eq!(
            at(&created, "metadata.labels"),
            at(&created, "spec.template.metadata.labels")
        );
        assert_eq!(at(&created, "metadata.labels.job-name"), r#""once""#);
    }

    #[test]
    fn a_job_shares_the_labels_that_it_took_from_its_template() {
        let harness = Harness::new();
        let labelled = ONCE.replace("  template:\n", "  template:\n    metadata: {labels: {app: a}}\n");
        let created = harness.create(&labelled);
        assert_eq!(at(&created, "metadata.labels.job-name"), r#""once""#);
        let own = labelled.replace("{name: once}", "{name: once, labels: {app: a}}");
        assert_eq!(at(&harness.create(&own), "metadata.labels"), r#"{"app":"a"}"#);
    }

    #[test]
    fn a_selector_that_all_made_up_labels_meet_is_not_refused_twice() {
        let harness = Harness::new();
        let old = harness.create(ONCE);
        let mut new = old.clone();
        new.set_at(&["spec", "selector"], holdfast_value::Value::empty_map());
        assert_eq!(
            harness.check_update(None, &old, &new),
            ["spec.selector: Invalid value: {}: field is immutable"]
        );
    }

    #[test]
    fn a_job_that_waits_may_change_what_its_template_says_of_itself() {
        let harness = Harness::new();
        let old = harness.create(&with("suspend: true"));
        let mut new = old.clone();
        new.set_at(
            &["spec", "template", "metadata", "finalizers"],
            vec!["a/b".into()].into(),
        );
        assert_eq!(harness.check_update(None, &old, &new), Vec::<String>::new());
        new.set_at(&["spec", "template", "spec", "hostname"], "h".into());
        let errors = harness.check_update(None, &old, &new);
        assert!(errors[0].starts_with("spec.template.spec: Invalid value"), "{errors:?}");
    }

    /// Returns the errors of a change to the template of a Job with an unchanged status.
    fn change(gates: &str, status: &str, path: &[&str], value: &str) -> Vec<String> {
        let harness = Harness::with_gates(gates);
        let read = |text: &str| holdfast_value::yaml::parse(text.as_bytes(), &holdfast_value::Limits::REQUEST).unwrap();
        let mut old = harness.create(&with("suspend: true"));
        old.set_at(&["status"], read(status));
        let mut new = old.clone();
        new.set_at(path, read(value));
        harness.check_update(None, &old, &new)
    }

    #[test]
    fn scheduling_directives_change_only_without_active_pods() {
        const ON: &str = "MutableSchedulingDirectivesForSuspendedJobs=true";
        const OFF: &str = "MutableSchedulingDirectivesForSuspendedJobs=false";
        let template = ["spec", "template", "spec"];
        let selector = |gates, status| change(gates, status, &[&template[..], &["nodeSelector"]].concat(), "{a: b}");
        let (ended, running) = (
            "{startTime: '2026-01-01T00:00:00Z', conditions: [{type: Suspended, status: 'True'}]}",
            "{startTime: '2026-01-01T00:00:00Z', active: 1, conditions: [{type: Suspended, status: 'True'}]}",
        );
        for (gates, status, allowed) in [
            (ON, "{}", true),
            (ON, ended, true),
            (ON, running, false),
            (ON, "{active: 1}", false),
            (OFF, "{}", true),
            (OFF, ended, false),
            (OFF, "{active: 1}", true),
        ] {
            assert_eq!(selector(gates, status).is_empty(), allowed, "{gates} {status}");
        }
        let affinity = |value| change(ON, "{}", &[&template[..], &["affinity"]].concat(), value);
        assert!(affinity("{nodeAffinity: {}}").is_empty());
        assert_eq!(
            affinity("{podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]}}").len(),
            1
        );
    }

    #[test]
    fn unset_counts_default_by_the_other_fields() {
        let harness = Harness::new();
        let counts = |text: &str| {
            let job = harness.read(text);
            [
                at(&job, "spec.completions"),
                at(&job, "spec.parallelism"),
                at(&job, "spec.backoffLimit"),
            ]
        };
        assert_eq!(counts(ONCE), ["1", "1", "6"]);
        assert_eq!(counts(&with("parallelism: 3")), ["nothing", "3", "6"]);
        assert_eq!(counts(&with("completions: 3")), ["3", "1", "6"]);
        assert_eq!(counts(&with("backoffLimitPerIndex: 1")), ["1", "1", "2147483647"]);
    }

    #[test]
    fn jobs_restart_on_failure_or_never() {
        assert_eq!(
            Harness::new().errors(&ONCE.replace("Never", "Always")),
            [r#"spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never""#]
        );
        assert_eq!(
            Harness::new().errors(&with("backoffLimitPerIndex: 1")),
            ["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"]
        );
        assert!(Harness::new().errors(ONCE).is_empty());
    }

    #[test]
    fn a_finished_job_says_when_it_ended() {
        let done = format!(
            "{ONCE}status: {{startTime: '2020-01-01T00:00:00Z', conditions: [{{type: Complete, status: 'True'}}]}}\n"
        );
        assert_eq!(
            Harness::new().subresource_errors(Some("status"), ONCE, &done),
            [
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true \
                 condition",
            ]
        );
    }

    #[test]
    fn indexes_of_a_status_are_within_the_completions() {
        let job = ONCE.replace(
            "spec:\n  template",
            "spec:\n  completionMode: Indexed\n  completions: 5\n  parallelism: 1\n  backoffLimitPerIndex: 1\n  template",
        );
        let harness = Harness::new();
        let read = |status: &str| harness.read(&format!("{job}status: {{{status}}}\n"));
        let errors = |old: &str, new: &str| harness.check_update(Some("status"), &read(old), &read(new));
        assert_eq!(
            errors("", "completedIndexes: '0-2', failedIndexes: '2,9'"),
            [
                "status.failedIndexes: Invalid value: \"2,9\": error parsing failedIndexes: too large index: \"9\"",
                "status.failedIndexes: Invalid value: \"2,9\": failedIndexes and completedIndexes overlap at index: 2",
            ]
        );
        // Existing errors may stay.
        assert!(errors("completedIndexes: '9'", "completedIndexes: '9', active: 1").is_empty());
        assert_eq!(
            errors(
                "succeeded: 2, active: 1",
                "succeeded: 1, ready: 1, uncountedTerminatedPods: {failed: [a, a]}"
            ),
            [
                "status.uncountedTerminatedPods.failed[1]: Duplicate value: \"a\"",
                "status.ready: Invalid value: 1: cannot set more ready pods than active",
                "status.succeeded: Invalid value: 1: cannot decrease the succeeded counter",
            ]
        );
    }

    #[test]
    fn a_finished_job_has_no_pods_to_count() {
        let done = format!(
            "{ONCE}status: {{startTime: '2020-01-01T00:00:00Z', uncountedTerminatedPods: {{succeeded: [u]}}, conditions: \
             [{{type: Failed, status: 'True'}}, {{type: FailureTarget, status: 'True'}}]}}\n"
        );
        assert_eq!(
            Harness::new().subresource_errors(Some("status"), ONCE, &done),
            [
                "status.uncountedTerminatedPods: Invalid value: {\"Succeeded\":[\"u\"],\"Failed\":null}: must be empty for \
                 finished job"
            ]
        );
        let harness = Harness::new();
        let untargeted = done.replace(", {type: FailureTarget, status: 'True'}", "");
        assert_eq!(
            harness.check_update(Some("status"), &harness.read(&done), &harness.read(&untargeted)),
            ["status.conditions: Invalid value: cannot disable the terminal FailureTarget=True condition"]
        );
        let undone = harness.check_update(Some("status"), &harness.read(&done), &harness.read(ONCE));
        assert_eq!(
            undone,
            [
                "status.conditions: Invalid value: cannot disable the terminal Failed=True condition",
                "status.conditions: Invalid value: cannot disable the terminal FailureTarget=True condition",
                "status.startTime: Invalid value: null: field is immutable for unsuspended job once set",
            ]
        );
    }

    #[test]
    fn rules_of_failure_say_what_they_do() {
        let rule = |rule: &str| Harness::new().errors(&with(&format!("podFailurePolicy: {{rules: [{{{rule}}}]}}")));
        let codes = "onExitCodes: {operator: In, values: [1]}";
        assert_eq!(
            rule(codes),
            [
                "spec.podFailurePolicy.rules[0].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \
                 \"Ignore\"]"
            ]
        );
        assert_eq!(
            rule(&format!("action: FailIndex, {codes}")),
            [
                "spec.podFailurePolicy.rules[0].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be \
                 set"
            ]
        );
    }

    #[test]
    fn labels_of_the_template_are_not_the_clients() {
        let taken = ONCE.replace(
            "  template:\n",
            "  template:\n    metadata: {labels: {job-name: other}}\n",
        );
        let errors = Harness::new().errors(&taken);
        let ends = [
            errors.len() == 1,
            errors
                .concat()
                .starts_with("spec.template.metadata.labels[job-name]: Invalid value: {"),
            errors.concat().ends_with("}: must be 'once'"),
        ];
        assert_eq!(ends, [true; 3], "{errors:?}");
    }
}
