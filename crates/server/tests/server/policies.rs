//! End-to-end tests of admission policies: the tests create policies and bindings and observe their effects on other
//! writes.

use crate::support::{APPLY, Answer, CONFIG_MAPS, MERGE, Server};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// Returns match constraints for a resource of the core group, with all operations.
fn on(resources: &str) -> String {
    format!(
        r#""matchConstraints":{{"resourceRules":[{{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":[{resources}]}}]}}"#
    )
}

/// Creates a validating policy and a binding of that name, and waits until they are in effect.
async fn validating(server: &Server, name: &str, spec: &str, binding: &str) {
    let actions = if binding.contains("validationActions") {
        ""
    } else {
        r#""validationActions":["Deny"],"#
    };
    made(server, "Validating", name, spec, &format!("{actions}{binding}")).await;
    let policies = &server.service.context.shared.policies;
    while !policies
        .validating
        .now()
        .hooks()
        .iter()
        .any(|hook| hook.policy.name == name)
    {
        tokio::task::yield_now().await;
    }
}

/// Creates a mutating policy and a binding of that name, and waits until they are in effect.
async fn mutating(server: &Server, name: &str, spec: &str) {
    let never = if spec.contains("reinvocationPolicy") {
        ""
    } else {
        r#""reinvocationPolicy":"Never","#
    };
    made(server, "Mutating", name, &format!("{never}{spec}"), "").await;
    let policies = &server.service.context.shared.policies;
    while !policies
        .mutating
        .now()
        .hooks()
        .iter()
        .any(|hook| hook.policy.name == name)
    {
        tokio::task::yield_now().await;
    }
}

async fn made(server: &Server, policy_type: &str, name: &str, spec: &str, binding: &str) {
    let path = format!("{GROUP}/{}admissionpolicies", policy_type.to_lowercase());
    let head = |kind: &str| {
        format!(
            r#""apiVersion":"admissionregistration.k8s.io/v1","kind":"{policy_type}AdmissionPolicy{kind}","metadata":{{"name":"{name}"}}"#
        )
    };
    let answer = server
        .post(&path, &format!(r#"{{{},"spec":{{{spec}}}}}"#, head("")))
        .await;
    assert_eq!(answer.code, 201, "{}", answer.message());
    let path = format!("{GROUP}/{}admissionpolicybindings", policy_type.to_lowercase());
    let spec = format!(r#"{{{},"spec":{{{binding}"policyName":"{name}"}}}}"#, head("Binding"));
    let answer = server.post(&path, &spec).await;
    assert_eq!(answer.code, 201, "{}", answer.message());
}

fn config_map(name: &str, rest: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}{rest}}}"#)
}

fn rejection(answer: &Answer) -> (u16, &str, &str) {
    let reason = answer.at("/reason").as_str().unwrap_or_default();
    (answer.code, reason, answer.message())
}

fn denied(name: &str, of: &str, why: &str) -> String {
    format!("{of} \"{name}\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: {why}")
}

#[tokio::test]
async fn a_policy_refuses_what_does_not_pass_and_nothing_else() {
    let server = Server::start().await;
    let spec = on(r#""configmaps""#)
        + r#","validations":[
            {"expression":"!has(object.data) || !('a' in object.data)","message":"no a"},
            {"expression":"!has(object.data) || !('b' in object.data)","messageExpression":"'b is ' + object.data.b","reason":"Forbidden"}]"#;
    validating(&server, "p", &spec, "").await;
    let answer = server
        .post(CONFIG_MAPS, &config_map("one", r#","data":{"a":"1"}"#))
        .await;
    assert_eq!(
        rejection(&answer),
        (422, "Invalid", denied("one", "configmaps", "no a").as_str())
    );
    let cause = answer.at("/details/causes/0/message").as_str().unwrap_or_default();
    assert_eq!(
        cause,
        "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no a"
    );
    let answer = server
        .post(CONFIG_MAPS, &config_map("one", r#","data":{"b":"x"}"#))
        .await;
    assert_eq!(
        rejection(&answer),
        (403, "Forbidden", denied("one", "configmaps", "b is x").as_str())
    );
    assert_eq!(server.post(CONFIG_MAPS, &config_map("one", "")).await.code, 201);
    let one = format!("{CONFIG_MAPS}/one");
    assert_eq!(server.patch(&one, MERGE, r#"{"data":{"a":"1"}}"#).await.code, 422);
    let applied = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"data":{"a":"1"}}"#;
    let answer = server.patch(&format!("{one}?fieldManager=m"), APPLY, applied).await;
    assert_eq!(answer.code, 422);
    let dry = format!("{CONFIG_MAPS}?dryRun=All");
    assert_eq!(
        server.post(&dry, &config_map("two", r#","data":{"a":"1"}"#)).await.code,
        422
    );
    let secret = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"a":""}}"#;
    assert_eq!(
        server.post("/api/v1/namespaces/default/secrets", secret).await.code,
        201
    );
}

#[tokio::test]
async fn a_policy_hears_of_an_apply_that_changed_nothing_before() {
    let server = Server::start().await;
    let path = format!("{CONFIG_MAPS}/one?fieldManager=m");
    let applied = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"data":{"a":"1"}}"#;
    for code in [201, 200, 200] {
        assert_eq!(server.patch(&path, APPLY, applied).await.code, code);
    }
    let spec = on(r#""configmaps""#) + r#","validations":[{"expression":"!('a' in object.data)","message":"no a"}]"#;
    validating(&server, "p", &spec, "").await;
    assert_eq!(server.patch(&path, APPLY, applied).await.code, 422);
}

#[tokio::test]
async fn policy_on_delete_sees_the_old_object() {
    let server = Server::start().await;
    let spec = on(r#""configmaps""#)
        + r#","validations":[{"expression":"request.operation != 'DELETE' || object == null && !has(oldObject.metadata.labels)","message":"kept"}]"#;
    validating(&server, "p", &spec, "").await;
    let labelled = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kept","labels":{"a":"b"}}}"#;
    assert_eq!(server.post(CONFIG_MAPS, labelled).await.code, 201);
    assert_eq!(server.post(CONFIG_MAPS, &config_map("free", "")).await.code, 201);
    let answer = server.delete(&format!("{CONFIG_MAPS}/kept")).await;
    assert_eq!(
        rejection(&answer),
        (422, "Invalid", denied("kept", "configmaps", "kept").as_str())
    );
    assert_eq!(server.delete(&format!("{CONFIG_MAPS}/free")).await.code, 200);
    let answer = server.delete(CONFIG_MAPS).await;
    assert_eq!(answer.code, 422, "{}", answer.message());
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/kept")).await.code, 200);
}

#[tokio::test]
async fn warnings_are_sent_and_audits_are_not() {
    let server = Server::start().await;
    let spec = on(r#""configmaps""#) + r#","validations":[{"expression":"has(object.data)","message":"data wanted"}]"#;
    validating(&server, "p", &spec, r#""validationActions":["Warn","Audit"],"#).await;
    let answer = server.post(CONFIG_MAPS, &config_map("one", "")).await;
    assert_eq!(answer.code, 201);
    let warnings: Vec<&str> = answer
        .headers
        .get_all("warning")
        .iter()
        .filter_map(|text| text.to_str().ok())
        .collect();
    assert_eq!(
        warnings,
        [r#"299 - "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': data wanted""#]
    );
}

#[tokio::test]
async fn parameters_are_read_as_they_are_when_the_write_is() {
    let server = Server::start().await;
    let limits = "/api/v1/namespaces/default/secrets";
    let spec = on(r#""configmaps""#)
        + r#","paramKind":{"apiVersion":"v1","kind":"Secret"},"validations":[
            {"expression":"object.metadata.name in params.metadata.annotations.names.split(',')",
             "messageExpression":"'only ' + params.metadata.annotations.names"}]"#;
    let reference = r#""paramRef":{"name":"limits","parameterNotFoundAction":"Deny"},"#;
    validating(&server, "p", &spec, reference).await;
    let make = async |name: &str| {
        server
            .post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map(name, ""))
            .await
    };
    let answer = make("a").await;
    let missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert_eq!(answer.message(), denied("a", "configmaps", missing));
    let parameter = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"limits","annotations":{"names":"a,b"}}}"#;
    assert_eq!(server.post(limits, parameter).await.code, 201);
    assert_eq!(make("a").await.code, 201);
    assert_eq!(make("c").await.message(), denied("c", "configmaps", "only a,b"));
    let change = r#"{"metadata":{"annotations":{"names":"c"}}}"#;
    assert_eq!(server.patch(&format!("{limits}/limits"), MERGE, change).await.code, 200);
    assert_eq!(make("c").await.code, 201);
}

#[tokio::test]
async fn expressions_see_request_namespace_and_authorizer() {
    let server = Server::start().await;
    let spec = on(r#""configmaps""#)
        + r#","variables":[{"name":"env","expression":"namespaceObject.metadata.?labels['env'].orValue('none')"}],
            "validations":[
            {"expression":"request.userInfo.username == 'admin' && request.operation == 'CREATE' && request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps'"},
            {"expression":"object.metadata.name != 'dry' || request.dryRun","message":"dry runs only"},
            {"expression":"authorizer.requestResource.check('delete').allowed() && authorizer.group('').resource('secrets').namespace('default').check('get').allowed()"},
            {"expression":"variables.env == 'none'","messageExpression":"'not in ' + variables.env"}]"#;
    validating(&server, "p", &spec, "").await;
    assert_eq!(server.post(CONFIG_MAPS, &config_map("one", "")).await.code, 201);
    let answer = server.post(CONFIG_MAPS, &config_map("dry", "")).await;
    assert_eq!(answer.message(), denied("dry", "configmaps", "dry runs only"));
    let dry = format!("{CONFIG_MAPS}?dryRun=All");
    assert_eq!(server.post(&dry, &config_map("dry", "")).await.code, 201);
    let labels = r#"{"metadata":{"labels":{"env":"prod"}}}"#;
    assert_eq!(
        server.patch("/api/v1/namespaces/default", MERGE, labels).await.code,
        200
    );
    let answer = server.post(CONFIG_MAPS, &config_map("two", "")).await;
    assert_eq!(answer.message(), denied("two", "configmaps", "not in prod"));
}

#[tokio::test]
async fn policies_have_no_say_in_policies() {
    let server = Server::start().await;
    let spec = on(r#""*""#) + r#","validations":[{"expression":"false"}]"#;
    validating(&server, "p", &spec, "").await;
    assert_eq!(server.post(CONFIG_MAPS, &config_map("one", "")).await.code, 422);
    assert_eq!(
        server
            .delete(&format!("{GROUP}/validatingadmissionpolicybindings/p"))
            .await
            .code,
        200
    );
    assert_eq!(
        server
            .delete(&format!("{GROUP}/validatingadmissionpolicies/p"))
            .await
            .code,
        200
    );
}

#[tokio::test]
async fn policies_have_no_say_in_reviews() {
    let server = Server::start().await;
    let spec = on(r#""*""#) + r#","validations":[{"expression":"false"}]"#;
    validating(&server, "p", &spec, "").await;
    assert_eq!(server.post(CONFIG_MAPS, &config_map("one", "")).await.code, 422);
    let attributes = r#""nonResourceAttributes":{"path":"/","verb":"get"}"#;
    let reviews = [
        (
            "authentication.k8s.io",
            "selfsubjectreviews",
            "SelfSubjectReview",
            String::new(),
        ),
        (
            "authentication.k8s.io",
            "tokenreviews",
            "TokenReview",
            r#","spec":{"token":"x"}"#.to_owned(),
        ),
        (
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            format!(r#","spec":{{{attributes}}}"#),
        ),
        (
            "authorization.k8s.io",
            "selfsubjectrulesreviews",
            "SelfSubjectRulesReview",
            r#","spec":{"namespace":"default"}"#.to_owned(),
        ),
        (
            "authorization.k8s.io",
            "subjectaccessreviews",
            "SubjectAccessReview",
            format!(r#","spec":{{"user":"u",{attributes}}}"#),
        ),
    ];
    for (group, plural, kind, spec) in reviews {
        let body = format!(r#"{{"apiVersion":"{group}/v1","kind":"{kind}"{spec}}}"#);
        let answer = server.post(&format!("/apis/{group}/v1/{plural}"), &body).await;
        assert_eq!(answer.code, 201, "{plural}: {}", answer.body);
    }
}

#[tokio::test]
async fn policy_params_without_param_ref_have_no_fields() {
    let server = Server::start().await;
    let spec = on(r#""configmaps""#)
        + r#","paramKind":{"apiVersion":"v1","kind":"Secret"},"validations":[
            {"expression":"!has(params.metadata) || object.metadata.name == params.metadata.name"}]"#;
    validating(&server, "p", &spec, "").await;
    let answer = server.post(CONFIG_MAPS, &config_map("one", "")).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
}

#[tokio::test]
async fn connect_policies_run_before_the_pod_lookup() {
    let server = Server::start().await;
    let spec = on(r#""pods/*","nodes/proxy""#)
        + r#","validations":[
            {"expression":"request.operation == 'CONNECT' && oldObject == null"},
            {"expression":"object.kind != 'PodExecOptions' || object.command != ['sh', '-c']","message":"no shells"},
            {"expression":"object.kind != 'NodeProxyOptions' || object.path == '/pods/'","message":"pods alone"}]"#;
    validating(&server, "p", &spec, "").await;
    let exec = |command: &str| format!("/api/v1/namespaces/default/pods/none/exec?{command}");
    let answer = server.post(&exec("command=sh&command=-c"), "").await;
    assert_eq!(
        rejection(&answer),
        (422, "Invalid", &*denied("none", "pods", "no shells"))
    );
    assert_eq!(
        server.post(&exec("command=ls"), "").await.message(),
        "pods \"none\" not found"
    );
    let answer = server.get("/api/v1/nodes/none/proxy/logs/").await;
    assert_eq!(answer.message(), denied("none", "nodes", "pods alone"));
    assert_eq!(
        server.get("/api/v1/nodes/none/proxy/pods/").await.message(),
        "nodes \"none\" not found"
    );
    // A log is a read, and admission does not apply to reads.
    let log = server.get("/api/v1/namespaces/default/pods/none/log").await;
    assert_eq!(log.message(), "pods \"none\" not found");
}

#[tokio::test]
async fn warnings_on_connect_reach_the_client() {
    let server = Server::start().await;
    let spec = on(r#""pods/exec","pods/attach","pods/portforward","pods/proxy","services/proxy","nodes/proxy""#)
        + r#","validations":[{"expression":"false","message":"avoid connections"}]"#;
    validating(&server, "p", &spec, r#""validationActions":["Warn"],"#).await;
    let pod = "/api/v1/namespaces/default/pods/none";
    for path in [
        format!("{pod}/exec?command=ls"),
        format!("{pod}/attach"),
        format!("{pod}/portforward?ports=80"),
        format!("{pod}/proxy"),
        "/api/v1/namespaces/default/services/none/proxy".to_owned(),
        "/api/v1/nodes/none/proxy".to_owned(),
    ] {
        let answer = server.get(&path).await;
        let warning = answer.headers.get("warning").and_then(|warning| warning.to_str().ok());
        let expected = "avoid connections";
        assert!(
            warning.is_some_and(|warning| warning.contains(expected)),
            "{path}: {warning:?}"
        );
    }
}

#[tokio::test]
async fn a_plugin_that_is_off_asks_no_policies() {
    for (off, code) in [("ValidatingAdmissionPolicy", 201), ("ValidatingAdmissionWebhook", 422)] {
        let server = Server::start_without_plugin(off).await;
        let spec = on(r#""configmaps""#) + r#","validations":[{"expression":"false"}]"#;
        validating(&server, "p", &spec, "").await;
        assert_eq!(
            server.post(CONFIG_MAPS, &config_map("one", "")).await.code,
            code,
            "{off}"
        );
    }
    for (off, made) in [("MutatingAdmissionPolicy", ""), ("MutatingAdmissionWebhook", "yes")] {
        let server = Server::start_without_plugin(off).await;
        let spec = on(r#""configmaps""#)
            + r#","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{data: {'made': 'yes'}}"}}]"#;
        mutating(&server, "p", &spec).await;
        let answer = server.post(CONFIG_MAPS, &config_map("one", "")).await;
        assert_eq!(answer.at("/data/made").as_str().unwrap_or_default(), made, "{off}");
    }
}

#[tokio::test]
async fn policies_see_writes_to_subresources() {
    let server = Server::start().await;
    let spec = on(r#""deployments/scale","pods/status","pods/eviction","pods/binding""#)
        + r#","validations":[{"expression":"request.subResource != 'scale' || object.spec.replicas <= 2","message":"too many"},
            {"expression":"request.subResource != 'status' || object.status.phase != 'Failed'","message":"may not fail"},
            {"expression":"request.subResource != 'eviction' && request.subResource != 'binding'","messageExpression":"string(object.kind)"}]"#;
    validating(&server, "p", &spec, "").await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":5,
        "selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    assert_eq!(server.post(deployments, deployment).await.code, 201);
    let scale = format!("{deployments}/d/scale");
    let answer = server.patch(&scale, MERGE, r#"{"spec":{"replicas":3}}"#).await;
    assert_eq!(answer.message(), denied("d", "deployments.apps", "too many"));
    assert_eq!(
        server.patch(&scale, MERGE, r#"{"spec":{"replicas":2}}"#).await.code,
        200
    );
    let pods = "/api/v1/namespaces/default/pods";
    let pod =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    assert_eq!(server.post(pods, pod).await.code, 201);
    let status = format!("{pods}/p/status");
    let answer = server.patch(&status, MERGE, r#"{"status":{"phase":"Failed"}}"#).await;
    assert_eq!(answer.message(), denied("p", "pods", "may not fail"));
}

#[tokio::test]
async fn validating_policies_see_final_subresource_objects() {
    let server = Server::start().await;
    let spec = on(r#""deployments/scale","pods/binding","serviceaccounts/token""#)
        + r#","validations":[
            {"expression":"request.subResource != 'scale' || (!has(object.metadata.managedFields) && object.metadata.uid == oldObject.metadata.uid && object.status.selector == 'a=b')"},
            {"expression":"request.subResource != 'token' || object.metadata.name == 's'"},
            {"expression":"request.subResource != 'binding' || object.metadata.managedFields[0].subresource == 'binding'"}]"#;
    validating(&server, "p", &spec, "").await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{
        "selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    assert_eq!(server.post(deployments, deployment).await.code, 201);
    let scale = r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":3}}"#;
    let scaled = server.put(&format!("{deployments}/d/scale"), scale).await;
    assert_eq!(scaled.code, 200, "{}", scaled.body);
    let core = "/api/v1/namespaces/default";
    let account = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"s"}}"#;
    assert_eq!(server.post(&format!("{core}/serviceaccounts"), account).await.code, 201);
    let token = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest"}"#;
    let past = server.post(&format!("{core}/serviceaccounts/s/token"), token).await;
    // The error comes from a later step, so the policy admitted the request.
    assert_eq!(past.message(), "failed to generate token: this server makes no tokens");
    let pod =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    assert_eq!(server.post(&format!("{core}/pods"), pod).await.code, 201);
    let binding = |kind: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Binding","metadata":{{"name":"p"}},"target":{{"kind":"{kind}","name":"n"}}}}"#
        )
    };
    let bound = server.post(&format!("{core}/pods/p/binding"), &binding("Node")).await;
    assert_eq!(bound.code, 201, "{}", bound.body);
}

#[tokio::test]
async fn an_invalid_binding_is_refused_before_policies_see_it() {
    let server = Server::start().await;
    let spec = on(r#""pods/binding""#) + r#","validations":[{"expression":"false"}]"#;
    validating(&server, "p", &spec, "").await;
    let binding = r#"{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},"target":{"kind":"Pod","name":"n"}}"#;
    let refused = server.post("/api/v1/namespaces/default/pods/p/binding", binding).await;
    assert!(
        refused.message().starts_with("target.kind: Unsupported value: \"Pod\""),
        "{}",
        refused.message()
    );
}

#[tokio::test]
async fn an_apply_configuration_is_merged_and_has_no_owner() {
    let server = Server::start().await;
    let spec = on(r#""configmaps""#)
        + r#","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":
            "Object{metadata: Object.metadata{labels: {'by': request.userInfo.username}}, data: {'extra': object.metadata.name}}"}}]"#;
    mutating(&server, "p", &spec).await;
    let answer = server
        .post(CONFIG_MAPS, &config_map("one", r#","data":{"k":"v"}"#))
        .await;
    assert_eq!(answer.at("/data"), &serde_json::json!({"extra": "one", "k": "v"}));
    assert_eq!(answer.at("/metadata/labels"), &serde_json::json!({"by": "admin"}));
    let owned = serde_json::json!({"f:data": {".": {}, "f:k": {}}});
    assert_eq!(answer.at("/metadata/managedFields/0/fieldsV1"), &owned);
}

#[tokio::test]
async fn policy_apply_merges_lists_by_key_but_not_atomic_ones() {
    let server = Server::start().await;
    let containers = on(r#""pods""#)
        + r#","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":
            "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', env: [Object.spec.containers.env{name: 'A', value: '1'}]}]}}"}}]"#;
    mutating(&server, "p", &containers).await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[
        {"name":"c","image":"i","env":[{"name":"B","value":"2"}]},{"name":"d","image":"i"}]}}"#;
    let answer = server.post(&format!("{pods}?dryRun=All"), pod).await;
    assert_eq!(answer.code, 201, "{}", answer.message());
    assert_eq!(answer.at("/spec/containers/0/env/1/name"), "A");
    assert_eq!(answer.at("/spec/containers/0/image"), "i");
    assert_eq!(answer.at("/spec/containers/1/name"), "d");
    let args = on(r#""pods""#)
        + r#","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":
            "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['x']}]}}"}}]"#;
    mutating(&server, "q", &args).await;
    let answer = server.post(&format!("{pods}?dryRun=All"), pod).await;
    assert_eq!(
        rejection(&answer),
        (
            403,
            "Invalid",
            "policy 'q' with binding 'q' denied request: error applying patch: invalid ApplyConfiguration: \
             may not mutate atomic arrays, maps or structs: .spec.containers[0].args"
        )
    );
}

#[tokio::test]
async fn json_patch_policy_applies_unless_its_test_fails() {
    let server = Server::start().await;
    let spec = on(r#""configmaps""#)
        + r#","mutations":[
            {"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'a': 'b'}}, JSONPatch{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey('x.y/z'), value: '1'}]"}},
            {"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'test', path: '/data/k', value: 'other'}, JSONPatch{op: 'remove', path: '/data'}]"}},
            {"patchType":"JSONPatch","jsonPatch":{"expression":"object.metadata.name == 'bad' ? [JSONPatch{op: 'remove', path: '/data/none'}] : []"}}]"#;
    mutating(&server, "p", &spec).await;
    let answer = server
        .post(CONFIG_MAPS, &config_map("one", r#","data":{"k":"v"}"#))
        .await;
    assert_eq!(
        answer.at("/metadata/annotations"),
        &serde_json::json!({"a": "b", "x.y/z": "1"})
    );
    assert_eq!(answer.at("/data/k"), "v");
    let answer = server
        .post(CONFIG_MAPS, &config_map("bad", r#","data":{"k":"v"}"#))
        .await;
    assert_eq!(
        answer.message(),
        "policy 'p' with binding 'p' denied request: JSON Patch: error in remove for path: '/data/none': \
         Unable to remove nonexistent key: none: missing value"
    );
}

#[tokio::test]
async fn objects_are_built_by_the_names_of_their_places() {
    let server = Server::start().await;
    let spec = on(r#""configmaps""#)
        + r#","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{metadata: Object.spec{}}"}}]"#;
    mutating(&server, "p", &spec).await;
    let answer = server.post(CONFIG_MAPS, &config_map("one", "")).await;
    assert_eq!(
        answer.message(),
        "policy 'p' with binding 'p' denied request: type mismatch: unexpected type name \"Object.spec\", \
         expected \"Object.metadata\", which matches field name path from root Object type"
    );
}

#[tokio::test]
async fn a_policy_that_wishes_sees_what_later_ones_changed() {
    let server = Server::start().await;
    let adds = |key: &str, value: &str| {
        format!(
            r#","mutations":[{{"patchType":"ApplyConfiguration","applyConfiguration":{{"expression":"Object{{data: {{'{key}': {value}}}}}"}}}}]"#
        )
    };
    let seen = |key: &str| adds(key, "object.?data.later.orValue('nothing')");
    let wishes = r#","reinvocationPolicy":"IfNeeded""#;
    mutating(&server, "a", &(on(r#""configmaps""#) + &seen("wishing") + wishes)).await;
    mutating(&server, "b", &(on(r#""configmaps""#) + &seen("content"))).await;
    mutating(&server, "c", &(on(r#""configmaps""#) + &adds("later", "'yes'"))).await;
    let answer = server.post(CONFIG_MAPS, &config_map("one", "")).await;
    let data = serde_json::json!({"content": "nothing", "later": "yes", "wishing": "yes"});
    assert_eq!(answer.at("/data"), &data);
}

#[tokio::test]
async fn a_failure_refuses_the_write_unless_the_policy_ignores_it() {
    let server = Server::start().await;
    let failing = r#","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{data: {'x': object.data.none}}"}}]"#;
    let ignoring = on(r#""configmaps""#) + failing + r#","failurePolicy":"Ignore""#;
    mutating(&server, "ignored", &ignoring).await;
    let wrong = r#","validations":[{"expression":"object.data.none == 'x'"}],"failurePolicy":"Ignore""#;
    validating(&server, "also-ignored", &(on(r#""configmaps""#) + wrong), "").await;
    let object = config_map("one", r#","data":{"k":"v"}"#);
    let answer = server.post(&format!("{CONFIG_MAPS}?dryRun=All"), &object).await;
    assert_eq!(answer.at("/data"), &serde_json::json!({"k": "v"}));
    mutating(&server, "p", &(on(r#""configmaps""#) + failing)).await;
    let answer = server.post(CONFIG_MAPS, &object).await;
    assert_eq!(
        rejection(&answer),
        (
            403,
            "Invalid",
            "policy 'p' with binding 'p' denied request: expression 'Object{data: {'x': object.data.none}}' resulted in error: no such key: none"
        )
    );
    for (metadata, name) in [("{}", "Unknown"), (r#"{"generateName":"a-"}"#, "a-")] {
        let object = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata},"data":{{}}}}"#);
        let answer = server.post(CONFIG_MAPS, &object).await;
        assert_eq!(answer.at("/details/name"), name);
    }
}

#[tokio::test]
async fn validating_policies_see_what_mutating_ones_made() {
    let server = Server::start().await;
    let adds = on(r#""configmaps""#)
        + r#","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{data: {'added': 'yes'}}"}}]"#;
    mutating(&server, "m", &adds).await;
    let spec =
        on(r#""configmaps""#) + r#","validations":[{"expression":"!('added' in object.data)","message":"seen"}]"#;
    validating(&server, "p", &spec, "").await;
    let answer = server.post(CONFIG_MAPS, &config_map("one", "")).await;
    assert_eq!(answer.message(), denied("one", "configmaps", "seen"));
}
