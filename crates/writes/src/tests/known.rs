//! Properties of an object that this process computed when it stored the object are not computed again.

use holdfast_schema::{Provenance, StoredFacts};

use super::*;

const WORKLOADS: [&str; 3] = [
    "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {selector: {matchLabels: {x: z}}, template: TEMPLATE}}",
    "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {selector: {matchLabels: {x: z}}, template: TEMPLATE}}",
    "{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {schedule: '* * * * *', jobTemplate: {spec: {template: TEMPLATE}}}}",
];

fn workload(text: &str) -> String {
    let restart = if text.contains("Job") {
        "restartPolicy: Never, "
    } else {
        ""
    };
    let spec = format!("{{{restart}containers: [{{name: c, image: i}}]}}");
    text.replace("TEMPLATE", &format!("{{metadata: {{labels: {{x: z}}}}, spec: {spec}}}"))
}

/// Returns the object with an invalid container name.
fn broken(object: &Value) -> Value {
    let text = json::to_string(object).replace(r#""name":"c""#, r#""name":"C""#);
    json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
}

fn patched(world: &World, stored: &Value, facts: StoredFacts, patch: &str) -> Result<Staged, Error> {
    let existing = StoredObject {
        provenance: Provenance::from_store(facts).in_requested_form(),
        ..StoredObject::unproven(stored.clone())
    };
    let change = Change::Patch {
        patch: Ok((Patch::Merge(tree(patch)), Vec::new())),
        validation: FieldValidation::Strict,
    };
    let target = target(world, stored, "");
    run(world, &target, async |stage| {
        stage.update(&change, Some(&existing)).await
    })
}

const LABELS: &str = "{metadata: {labels: {a: b}}}";

#[test]
fn invalid_stored_template_is_rejected_unless_known_as_valid() {
    let world = world();
    for text in WORKLOADS {
        let stored = broken(&stored(&world, &workload(text)));
        let refused = kind_of(patched(&world, &stored, StoredFacts::UNPROVEN, LABELS));
        assert!(matches!(refused, ErrorKind::Invalid { .. }), "{text}");
    }
}

#[test]
fn known_valid_template_is_not_validated_until_it_changes() {
    let world = world();
    for text in WORKLOADS {
        let staged = create(&world, &workload(text)).unwrap();
        let mut stored = staged.object;
        stored.set_at(&["metadata", "resourceVersion"], "7".into());
        // This is only accepted if the template is not validated.
        let stored = broken(&stored);
        let staged = patched(&world, &stored, staged.facts, LABELS).unwrap();
        assert!(staged.facts.has_form_of_type(), "{text}");
        assert!(
            patched(&world, &stored, staged.facts, LABELS).is_ok(),
            "and so on: {text}"
        );
        let minimal = "{terminationGracePeriodSeconds: 5}";
        let template = match text.contains("CronJob") {
            true => format!("{{spec: {{jobTemplate: {{spec: {{template: {{spec: {minimal}}}}}}}}}}}"),
            false => format!("{{spec: {{template: {{spec: {minimal}}}}}}}"),
        };
        let refused = kind_of(patched(&world, &stored, staged.facts, &template));
        assert!(matches!(refused, ErrorKind::Invalid { .. }), "{text}");
    }
}

#[test]
fn a_write_to_the_status_leaves_known_what_is_known_of_the_rest() {
    let world = world();
    let staged = create(&world, &workload(WORKLOADS[0])).unwrap();
    let mut stored = staged.object;
    stored.set_at(&["metadata", "resourceVersion"], "7".into());
    let existing = StoredObject {
        provenance: Provenance::from_store(staged.facts).in_requested_form(),
        ..StoredObject::unproven(stored.clone())
    };
    let change = Change::Patch {
        patch: Ok((Patch::Merge(tree("{status: {replicas: 1}}")), Vec::new())),
        validation: FieldValidation::Strict,
    };
    let target = target(&world, &stored, "status");
    let after = run(&world, &target, async |stage| {
        stage.update(&change, Some(&existing)).await
    });
    assert_eq!(after.unwrap().facts, staged.facts);
}
