//! Admission of Pods by their service account: <https://kubernetes.io/docs/concepts/security/service-accounts/>.

use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::Field;
use holdfast_value::{Map, Value};

use crate::common::group_resource;
use holdfast_kinds::defaults::is_zero;
use holdfast_kinds::pod_spec::{MIRROR, names_secret};

/// Plugin that assigns Pods their service account, with a token and image pull secrets, and rejects Pods whose account
/// is missing.
pub(super) struct ServiceAccount;

const DEFAULT: &str = "default";
/// Annotation of an account whose pods may only reference the account's own secrets.
const MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
/// Name prefix of token volumes.
const VOLUME: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Lifetime of requested tokens. The server extends exactly this lifetime and warns about clients that do not reload
/// the token, instead of rejecting them.
const TOKEN_SECONDS: i64 = 3607;
/// Characters of generated suffixes: no ambiguous ones, and no vowels that could form a word.
const SUFFIX: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Lists of containers, each with the name for one of its containers.
const CONTAINERS: [(&str, &str); 2] = [("initContainers", "init container"), ("containers", "container")];

impl AdmissionPlugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn calls(&self) -> Calls {
        Calls::both(&[Operation::Create, Operation::Update])
    }

    fn on_by_default(&self) -> bool {
        false
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[
                Interest::in_new("", "pods"),
                Interest {
                    subresources: &["ephemeralcontainers"],
                    ..Interest::in_objects("", "pods", &[Operation::Update])
                },
            ]
        }
    }

    /// upstream: plugin/pkg/admission/serviceaccount#Plugin.Admit
    fn mutate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(pod) = object.filter(|_| context.operation == Operation::Create) else {
            return Ok(());
        };
        if is_mirror(pod) {
            return check_mirror(pod);
        }
        if account_of(pod).is_empty() {
            for field in ["serviceAccountName", "serviceAccount"] {
                pod.set_at(&["spec", field], DEFAULT.into());
            }
        }
        let account = account(context, account_of(pod))?;
        if automounts(&account, pod) {
            mount_token(pod);
        }
        if is_zero(pod.at(&["spec", "imagePullSecrets"])) {
            let secrets: Vec<Value> = names_in(&account, "imagePullSecrets")
                .map(|name| named(name).into())
                .collect();
            if !secrets.is_empty() {
                pod.set_at(&["spec", "imagePullSecrets"], secrets.into());
            }
        }
        check(context, pod)
    }

    /// upstream: plugin/pkg/admission/serviceaccount#Plugin.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(pod) = object else {
            return Ok(());
        };
        match context.operation {
            Operation::Create if is_mirror(pod) => check_mirror(pod),
            Operation::Create => check(context, pod),
            _ => {
                let account = account_required(context, pod)?;
                if keeps_to_own_secrets(&account) {
                    check_variables(&account, pod, &[("ephemeralContainers", "ephemeral container")])?;
                }
                Ok(())
            }
        }
    }
}

/// Returns true if a Pod is a mirror Pod.
fn is_mirror(pod: &Value) -> bool {
    pod.at(&["metadata", "annotations", MIRROR]).is_some()
}

fn account_of(pod: &Value) -> &str {
    pod.str_at(&["spec", "serviceAccountName"]).unwrap_or_default()
}

fn account(context: &WriteContext<'_>, name: &str) -> Result<Value, Rejection> {
    let accounts = group_resource("", "serviceaccounts");
    context.lookup.get(&accounts, context.namespace, name).ok_or_else(|| {
        Rejection::forbidden(format!(
            "error looking up service account {}/{name}: serviceaccount {name:?} not found",
            context.namespace
        ))
    })
}

fn account_required(context: &WriteContext<'_>, pod: &Value) -> Result<Value, Rejection> {
    match account_of(pod) {
        "" => Err(Rejection::forbidden(format!(
            "no service account specified for pod {}/{}",
            context.namespace,
            pod.str_at(&["metadata", "name"]).unwrap_or_default()
        ))),
        name => account(context, name),
    }
}

/// Rejects a Pod whose account is missing or does not list the secrets that the Pod references.
///
/// upstream: plugin/pkg/admission/serviceaccount#Plugin.limitSecretReferences
fn check(context: &WriteContext<'_>, pod: &Value) -> Result<(), Rejection> {
    let account = account_required(context, pod)?;
    if !keeps_to_own_secrets(&account) {
        return Ok(());
    }
    let name = account.str_at(&["metadata", "name"]).unwrap_or_default();
    let own: Vec<&str> = names_in(&account, "secrets").collect();
    let root = Field::root(pod);
    let spec = root.child("spec");
    for volume in spec.child("volumes").items() {
        let source = volume.child("secret");
        let secret = source.child("secretName").text();
        if source.is_set() && !own.contains(&secret) {
            return Err(Rejection::forbidden(format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account {name} does not reference \
                 that secret"
            )));
        }
    }
    check_variables(&account, pod, &CONTAINERS)?;
    let own: Vec<&str> = names_in(&account, "imagePullSecrets").collect();
    for (at, secret) in spec.child("imagePullSecrets").items().enumerate() {
        let secret = secret.child("name").text();
        if !own.contains(&secret) {
            return Err(Rejection::forbidden(format!(
                "imagePullSecrets[{at}].name=\"{secret}\" is not allowed because service account {name} does not reference \
                 that imagePullSecret"
            )));
        }
    }
    Ok(())
}

/// Rejects variables from secrets that the account does not list.
///
/// upstream: plugin/pkg/admission/serviceaccount#Plugin.limitSecretReferences
fn check_variables(account: &Value, pod: &Value, lists: &[(&str, &str)]) -> Result<(), Rejection> {
    let name = account.str_at(&["metadata", "name"]).unwrap_or_default();
    let own: Vec<&str> = names_in(account, "secrets").collect();
    let root = Field::root(pod);
    let spec = root.child("spec");
    for (list, called) in lists {
        for container in spec.child(list).items() {
            for variable in container.child("env").items() {
                let from = variable.child("valueFrom");
                let reference = from.child("secretKeyRef");
                let secret = reference.child("name").text();
                if reference.is_set() && !own.contains(&secret) {
                    return Err(Rejection::forbidden(format!(
                        "{called} {} with envVar {} referencing secret.secretName=\"{secret}\" is not allowed because service \
                         account {name} does not reference that secret",
                        container.child("name").text(),
                        variable.child("name").text()
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Rejects mirror Pods that reference service accounts, secrets or service account tokens.
///
/// upstream: plugin/pkg/admission/serviceaccount#Plugin.Validate
fn check_mirror(pod: &Value) -> Result<(), Rejection> {
    if !account_of(pod).is_empty() {
        return Err(Rejection::forbidden("a mirror pod may not reference service accounts"));
    }
    let root = Field::root(pod);
    let spec = root.child("spec");
    if names_secret(&spec) {
        return Err(Rejection::forbidden("a mirror pod may not reference secrets"));
    }
    let has_token = spec.child("volumes").items().any(|volume| {
        let projected = volume.child("projected");
        let sources = projected.child("sources");
        sources
            .items()
            .any(|source| source.child("serviceAccountToken").is_set())
    });
    match has_token {
        true => Err(Rejection::forbidden(
            "a mirror pod may not use ServiceAccountToken volume projections",
        )),
        false => Ok(()),
    }
}

fn keeps_to_own_secrets(account: &Value) -> bool {
    let annotation = account.str_at(&["metadata", "annotations", MOUNTABLE_SECRETS]);
    annotation.is_some_and(|text| matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True"))
}

/// Returns the names of the secrets that an account lists.
fn names_in<'a>(account: &'a Value, list: &str) -> impl Iterator<Item = &'a str> {
    let list = account.get(list).and_then(Value::as_list);
    list.into_iter()
        .flat_map(|list| list.iter())
        .filter_map(|reference| reference.str_at(&["name"]))
}

/// Returns true if a Pod gets a token: by its own setting, else by that of its account, else by default.
fn automounts(account: &Value, pod: &Value) -> bool {
    let of_pod = pod
        .at(&["spec", "automountServiceAccountToken"])
        .and_then(Value::as_bool);
    let of_account = account.at(&["automountServiceAccountToken"]).and_then(Value::as_bool);
    of_pod.or(of_account).unwrap_or(true)
}

/// Mounts a token in each container that has no other mount at the token's path.
fn mount_token(pod: &mut Value) {
    let root = Field::root(pod);
    let spec = root.child("spec");
    let there = spec
        .child("volumes")
        .slice()
        .iter()
        .filter_map(|volume| volume.str_at(&["name"]))
        .find(|name| name.starts_with(VOLUME));
    let (name, is_new) = match there {
        Some(name) => (name.to_owned(), false),
        None => (volume_name(pod.str_at(&["metadata", "uid"]).unwrap_or_default()), true),
    };
    let mut volumes = is_new.then(|| spec.child("volumes").slice().to_vec());
    let mut changed = Vec::new();
    for (list, _) in CONTAINERS {
        let mut containers = spec.child(list).slice().to_vec();
        let mut mounted = false;
        for container in &mut containers {
            let mut mounts = Field::root(container).child("volumeMounts").slice().to_vec();
            if mounts
                .iter()
                .all(|mount| mount.str_at(&["mountPath"]) != Some(MOUNT_PATH))
            {
                mounts.push(token_mount(&name));
                container.set_at(&["volumeMounts"], mounts.into());
                mounted = true;
            }
        }
        if mounted {
            changed.push((list, containers));
        }
    }
    if changed.is_empty() {
        return;
    }
    for (list, containers) in changed {
        pod.set_at(&["spec", list], containers.into());
    }
    if let Some(mut volumes) = volumes.take() {
        volumes.push(token_volume(&name));
        pod.set_at(&["spec", "volumes"], volumes.into());
    }
}

/// Returns a name for the volume, derived from the Pod's uid, which is random.
#[expect(clippy::indexing_slicing, reason = "a remainder of the length")]
fn volume_name(uid: &str) -> String {
    let number = uid
        .bytes()
        .filter_map(|digit| char::from(digit).to_digit(16))
        .fold(0_u64, |number, digit| number.rotate_left(4) ^ u64::from(digit));
    let letters = (0..5).scan(number, |rest, _| {
        let letter = SUFFIX[(*rest % SUFFIX.len() as u64) as usize];
        *rest /= SUFFIX.len() as u64;
        Some(char::from(letter))
    });
    VOLUME.chars().chain(letters).collect()
}

fn named(name: &str) -> Map {
    let mut reference = Map::new();
    reference.insert("name", name);
    reference
}

fn token_mount(volume: &str) -> Value {
    let mut mount = named(volume);
    mount.insert("readOnly", true);
    mount.insert("mountPath", MOUNT_PATH);
    mount.into()
}

/// Returns the volume with the token, the CA certificates of the server, and the namespace.
fn token_volume(name: &str) -> Value {
    let mut token = Value::empty_map();
    token.set_at(&["serviceAccountToken", "expirationSeconds"], TOKEN_SECONDS.into());
    token.set_at(&["serviceAccountToken", "path"], "token".into());
    let mut item = Map::new();
    item.insert("key", "ca.crt");
    item.insert("path", "ca.crt");
    let mut authorities = Value::empty_map();
    authorities.set_at(&["configMap", "name"], "kube-root-ca.crt".into());
    authorities.set_at(&["configMap", "items"], vec![Value::from(item)].into());
    let mut item = Value::empty_map();
    item.set_at(&["path"], "namespace".into());
    item.set_at(&["fieldRef", "apiVersion"], "v1".into());
    item.set_at(&["fieldRef", "fieldPath"], "metadata.namespace".into());
    let mut namespace = Value::empty_map();
    namespace.set_at(&["downwardAPI", "items"], vec![item].into());
    let mut volume = Value::from(named(name));
    volume.set_at(&["projected", "sources"], vec![token, authorities, namespace].into());
    volume.set_at(&["projected", "defaultMode"], 420_i64.into());
    volume
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    const PLUGIN: &str = "ServiceAccount";
    const DEFAULT: &str = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: default}}";

    const TOKEN: &str = r#"{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}}"#;
    const AUTHORITIES: &str = r#"{"configMap":{"items":[{"key":"ca.crt","path":"ca.crt"}],"name":"kube-root-ca.crt"}}"#;
    const NAMESPACE: &str = r#"{"downwardAPI":{"items":[{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"},"path":"namespace"}]}}"#;

    fn pod(metadata: &str, spec: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p, uid: 11111111-2222-4333-8444-555555555555{metadata}}}, spec: \
             {{{spec} containers: [{{name: c, image: i}}]}}}}"
        )
    }

    fn account(part: &str) -> Harness {
        Harness::new().with(&DEFAULT.replace("}}", &format!("}}{part}}}")))
    }

    #[test]
    fn a_pod_gets_the_default_account_and_its_token() {
        let admitted = account("").admit(PLUGIN, &pod("", "")).unwrap();
        assert_eq!(at(&admitted, "spec.serviceAccountName"), r#""default""#);
        assert_eq!(at(&admitted, "spec.serviceAccount"), r#""default""#);
        let name = at(&admitted, "spec.volumes.0.name");
        assert!(name.starts_with("\"kube-api-access-") && name.len() == 23, "{name}");
        assert_eq!(
            at(&admitted, "spec.volumes.0"),
            format!(
                r#"{{"name":{name},"projected":{{"defaultMode":420,"sources":[{TOKEN},{AUTHORITIES},{NAMESPACE}]}}}}"#
            )
        );
        assert_eq!(
            at(&admitted, "spec.containers.0.volumeMounts"),
            format!(
                r#"[{{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","name":{name},"readOnly":true}}]"#
            )
        );
        let manifest = pod("", "").replace("2222", "3333");
        let other = account("").admit(PLUGIN, &manifest).unwrap();
        assert_ne!(at(&other, "spec.volumes.0.name"), name);
    }

    #[test]
    fn pod_and_account_may_say_that_there_is_no_token() {
        let none = account(", automountServiceAccountToken: false");
        let without = |admitted: &holdfast_value::Value| at(admitted, "spec.volumes") == "nothing";
        assert!(without(&none.admit(PLUGIN, &pod("", "")).unwrap()));
        let wants = pod("", "automountServiceAccountToken: true,");
        assert!(!without(&none.admit(PLUGIN, &wants).unwrap()));
        let does_not = pod("", "automountServiceAccountToken: false,");
        assert!(without(&account("").admit(PLUGIN, &does_not).unwrap()));
    }

    #[test]
    fn existing_token_mount_stays() {
        let own = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {volumes: [{name: kube-api-access-mine, emptyDir: \
                   {}}], containers: [{name: c, image: i, volumeMounts: [{name: kube-api-access-mine, mountPath: \
                   /var/run/secrets/kubernetes.io/serviceaccount}]}, {name: d, image: i}]}}";
        let admitted = account("").admit(PLUGIN, own).unwrap();
        assert_eq!(at(&admitted, "spec.volumes.1"), "nothing");
        assert_eq!(at(&admitted, "spec.containers.0.volumeMounts.1"), "nothing");
        assert_eq!(
            at(&admitted, "spec.containers.1.volumeMounts.0.name"),
            r#""kube-api-access-mine""#
        );
    }

    #[test]
    fn images_are_pulled_with_the_secrets_of_the_account() {
        let harness = account(", imagePullSecrets: [{name: a}, {name: b}]");
        let admitted = harness.admit(PLUGIN, &pod("", "")).unwrap();
        assert_eq!(at(&admitted, "spec.imagePullSecrets"), r#"[{"name":"a"},{"name":"b"}]"#);
        let own = harness
            .admit(PLUGIN, &pod("", "imagePullSecrets: [{name: c}],"))
            .unwrap();
        assert_eq!(at(&own, "spec.imagePullSecrets"), r#"[{"name":"c"}]"#);
    }

    #[test]
    fn an_account_that_is_not_there_is_rejected() {
        assert_eq!(
            account("")
                .admit(PLUGIN, &pod("", "serviceAccountName: nope,"))
                .unwrap_err(),
            "error looking up service account default/nope: serviceaccount \"nope\" not found"
        );
    }

    #[test]
    fn an_account_may_keep_its_pods_to_its_own_secrets() {
        let text = DEFAULT.replace(
            "namespace: default}}",
            "namespace: default, annotations: {kubernetes.io/enforce-mountable-secrets: 'true'}}, secrets: [{name: own}], \
             imagePullSecrets: [{name: pull}]}",
        );
        let harness = Harness::new().with(&text);
        let rejection = |spec: &str| harness.admit(PLUGIN, &pod("", spec)).map(|_| ()).unwrap_err();
        let volume = |secret: &str| format!("volumes: [{{name: v, secret: {{secretName: {secret}}}}}],");
        assert_eq!(
            rejection(&volume("other")),
            "volume with secret.secretName=\"other\" is not allowed because service account default does not reference that \
             secret"
        );
        assert!(harness.admit(PLUGIN, &pod("", &volume("own"))).is_ok());
        assert_eq!(
            rejection(
                "initContainers: [{name: first, image: i, env: [{name: E, valueFrom: {secretKeyRef: {name: other, key: k}}}]}],"
            ),
            "init container first with envVar E referencing secret.secretName=\"other\" is not allowed because service account \
             default does not reference that secret"
        );
        assert_eq!(
            rejection("imagePullSecrets: [{name: other}],"),
            "imagePullSecrets[0].name=\"other\" is not allowed because service account default does not reference that \
             imagePullSecret"
        );
    }

    #[test]
    fn mirror_pods_ask_for_nothing() {
        let mirror = |spec: &str| {
            let text = pod(", annotations: {kubernetes.io/config.mirror: x}", spec);
            Harness::new().admit(PLUGIN, &text).map(|pod| at(&pod, "spec.volumes"))
        };
        assert_eq!(mirror("").unwrap(), "nothing");
        assert_eq!(
            mirror("serviceAccountName: a,").unwrap_err(),
            "a mirror pod may not reference service accounts"
        );
        assert_eq!(
            mirror("volumes: [{name: v, secret: {secretName: s}}],").unwrap_err(),
            "a mirror pod may not reference secrets"
        );
        assert_eq!(
            mirror("volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}],").unwrap_err(),
            "a mirror pod may not use ServiceAccountToken volume projections"
        );
    }
}
