//! Writes for which policies, webhooks and plugins are called.

use holdfast_admission::webhooks::WebhookType;
use holdfast_resource::Verb;

use super::*;

const REVIEW: &str = "{apiVersion: authorization.k8s.io/v1, kind: SelfSubjectAccessReview, spec: {nonResourceAttributes: \
                      {path: /, verb: get}}}";

const BINDING: &str = "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: \
                       {name: a}, spec: {policyName: p, validationActions: [Deny]}}";

const WEBHOOKS: &str = "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: \
                        {name: a}}";

/// A rule that names everything.
const EVERYTHING: &str = "operations: ['*'], apiGroups: ['*'], apiVersions: ['*'], resources: ['*']";

fn refusing_policy(world: &World) {
    let spec = format!(
        "{{matchConstraints: {{resourceRules: [{{{EVERYTHING}}}], matchPolicy: Equivalent}}, failurePolicy: Fail, \
         validations: [{{expression: 'false'}}]}}"
    );
    let policy = tree(&format!("{{spec: {spec}}}"));
    world.policies.validating.set_policy("p", Some(&policy));
    let binding = tree("{spec: {policyName: p, validationActions: [Deny]}}");
    world.policies.validating.set_binding("b", Some(&binding));
}

/// Adds an unreachable webhook with the additional settings `more`.
fn dead_webhook(world: &World, more: &str) {
    let configuration = format!(
        "{{webhooks: [{{name: a.io, clientConfig: {{url: 'https://localhost'}}, rules: [{{{EVERYTHING}}}], failurePolicy: \
         Fail, sideEffects: None, admissionReviewVersions: [v1], timeoutSeconds: 1{more}}}]}}"
    );
    let webhooks = &world.webhooks;
    webhooks.set(WebhookType::Validating, "w", Some(&tree(&configuration)));
}

fn is_called(world: &World, text: &str) -> bool {
    match create(world, text) {
        Ok(_) => false,
        Err(error) => match error.into_parts().0 {
            ErrorKind::Internal(why) => why.contains("there is no server"),
            other => panic!("{other:?}"),
        },
    }
}

#[test]
fn policies_have_no_say_in_policies_and_reviews() {
    let world = world();
    refusing_policy(&world);
    assert!(matches!(
        kind_of(create(&world, CONFIG)),
        ErrorKind::Denied { code: 422, .. }
    ));
    assert!(create(&world, BINDING).is_ok());
    let review = decoded(&world, REVIEW);
    let target = target(&world, &review, "");
    let holdfast_resource::Responder::Review(answers) = target.resource.capabilities.responder("").unwrap() else {
        panic!("no review")
    };
    assert!(
        run(&world, &target, async |stage| stage
            .answer(answers.as_ref(), review.clone())
            .await)
        .is_ok()
    );
    assert!(
        matches!(kind_of(create(&world, WEBHOOKS)), ErrorKind::Denied { .. }),
        "webhooks are no policies"
    );
}

#[test]
fn mutating_policy_precedes_validation_and_owns_no_fields() {
    let world = world();
    let mutate = |expression: &str| {
        let spec = format!(
            "{{matchConstraints: {{resourceRules: [{{{EVERYTHING}}}], matchPolicy: Equivalent}}, failurePolicy: Fail, \
             reinvocationPolicy: Never, mutations: [{{patchType: ApplyConfiguration, applyConfiguration: {{expression: \
             '{expression}'}}}}]}}"
        );
        let policy = tree(&format!("{{spec: {spec}}}"));
        world.policies.mutating.set_policy("p", Some(&policy));
        let binding = tree("{spec: {policyName: p}}");
        world.policies.mutating.set_binding("b", Some(&binding));
        create(&world, CONFIG)
    };
    let object = mutate("Object{data: {\"b\": \"added\"}}").unwrap().object;
    assert_eq!(object.at(&["data"]), Some(&tree("{a: '1', b: added}")));
    let owned = json::to_string(object.at(&["metadata", "managedFields"]).unwrap());
    assert!(owned.contains("f:a") && !owned.contains("f:b"), "{owned}");
    let ErrorKind::Invalid { errors, .. } = kind_of(mutate("Object{data: {\"/\": \"x\"}}")) else {
        panic!("not invalid")
    };
    assert_eq!(errors[0].field.as_str(), "data[/]");
}

#[test]
fn webhooks_skip_admission_configurations_and_internal_writes() {
    let world = world();
    dead_webhook(&world, "");
    assert!(is_called(&world, CONFIG));
    assert!(!is_called(&world, WEBHOOKS) && !is_called(&world, BINDING));
    let object = decoded(&world, CONFIG);
    let mut target = target(&world, &object, "");
    target.writer.internal = true;
    assert!(run(&world, &target, async |stage| stage.create(object.clone()).await).is_ok());
}

#[test]
fn namespace_selector_matches_own_labels_of_a_namespace() {
    let world = world();
    dead_webhook(&world, ", namespaceSelector: {matchLabels: {a: b}}");
    assert!(is_called(
        &world,
        "{apiVersion: v1, kind: Namespace, metadata: {name: home, labels: {a: b}}}"
    ));
    assert!(!is_called(
        &world,
        "{apiVersion: v1, kind: Namespace, metadata: {name: home}}"
    ));
    let lost = kind_of(create(&world, CONFIG));
    assert!(
        matches!(&lost, ErrorKind::NotFound(resource, name) if resource.resource == "namespaces" && name == "default"),
        "{lost:?}"
    );
}

#[test]
fn a_webhook_that_fails_open_lets_a_write_pass() {
    let world = world();
    dead_webhook(&world, ", failurePolicy: Ignore");
    assert!(!is_called(&world, CONFIG));
}

#[test]
fn a_connection_by_another_verb_asks_for_the_one_that_is_needed() {
    let mut world = world();
    let pod = tree("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default}}");
    let connect = |world: &World, verb| {
        let target = target(world, &pod, "exec");
        let connecter = target.resource.capabilities.connecter("exec").unwrap();
        let options = tree("{command: [ls], stdout: true}");
        run(world, &target, async |stage| {
            stage.connect(verb, connecter, options).await.map(drop)
        })
    };
    assert!(connect(&world, Verb::Get).is_ok());
    world.authorizer = Arc::new(AlwaysDeny);
    assert!(connect(&world, Verb::Create).is_ok(), "who may create was asked before");
    let refused = connect(&world, Verb::Get).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Forbidden { .. }), "{refused:?}");
}
