//! The temporary server, and the requests to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use holdfast_value::{Limits, Value, json};
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use tower_service::Service as _;

use super::findings::{Finding, Problem, Rule};
use super::manifests::Manifest;
use crate::apply::{encoded, subject};
use crate::connection::Connection;
use crate::remote::{AGGREGATED, Resource};
use crate::server::Server;

const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

/// Admission plugins that need objects or programs of a running cluster, which manifests do not contain.
const DISABLED_PLUGINS: [&str; 6] = [
    "MutatingAdmissionWebhook",
    "Priority",
    "ResourceQuota",
    "RuntimeClass",
    "ServiceAccount",
    "ValidatingAdmissionWebhook",
];

/// Time limit until policies are in effect.
const POLICY_WAIT: Duration = Duration::from_secs(10);

/// Interval between two looks at the policies in effect.
const POLICY_INTERVAL: Duration = Duration::from_millis(2);

/// Order in which manifests are applied: each stage finds what it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Namespaces,
    Definitions,
    /// Objects that are parameters of policies.
    Parameters,
    Policies,
    Bindings,
    Others,
}

/// Identity of an object: API group, kind, namespace and name.
type Identity = (String, String, String, String);

/// Temporary server, and what was found with it.
pub(super) struct Checker {
    server: Server,
    connection: Connection<Full<Bytes>>,
    /// Namespace of objects whose manifests name none.
    namespace: String,
    skip_unknown_kinds: bool,
    /// Discovery documents of `/api` and `/apis`.
    discovery: Vec<(&'static str, Value)>,
    /// Field managers of the objects that were applied.
    applied: BTreeMap<Identity, BTreeSet<String>>,
    findings: Vec<Finding>,
}

/// Response of the server.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    document: Value,
}

impl Checker {
    /// Starts a server in memory.
    pub(super) async fn start(namespace: &str, skip_unknown_kinds: bool) -> Result<Self> {
        let builder = Server::builder()
            .in_memory()
            .controllers([""; 0])
            .disable_admission_plugins(DISABLED_PLUGINS);
        let server = builder.start().await.context("the temporary server does not start")?;
        Ok(Self {
            connection: server.connection(),
            server,
            namespace: namespace.to_owned(),
            skip_unknown_kinds,
            discovery: Vec::new(),
            applied: BTreeMap::new(),
            findings: Vec::new(),
        })
    }

    /// Applies the manifests, stage by stage.
    pub(super) async fn check(&mut self, manifests: Vec<Manifest>) -> Result<()> {
        let parameters = parameter_kinds(&manifests);
        let policies = bound_policies(&manifests);
        let mut stages: BTreeMap<Stage, Vec<Manifest>> = BTreeMap::new();
        for manifest in manifests {
            stages.entry(stage(&manifest, &parameters)).or_default().push(manifest);
        }
        let empty = Vec::new();
        let of_stage = |stage| stages.get(&stage).unwrap_or(&empty);
        self.discover().await?;
        self.apply_all(of_stage(Stage::Namespaces)).await?;
        self.make_namespaces(stages.values().flatten()).await?;
        self.apply_all(of_stage(Stage::Definitions)).await?;
        // CRDs have added kinds.
        self.discover().await?;
        self.apply_all(of_stage(Stage::Parameters)).await?;
        self.apply_all(of_stage(Stage::Policies)).await?;
        self.apply_all(of_stage(Stage::Bindings)).await?;
        self.wait_for_policies(&policies).await?;
        self.apply_all(of_stage(Stage::Others)).await
    }

    /// Ends the server, and returns the findings.
    pub(super) async fn finish(self) -> Result<Vec<Finding>> {
        drop(self.connection);
        self.server.shutdown().await.context("the temporary server failed")?;
        Ok(self.findings)
    }

    async fn discover(&mut self) -> Result<()> {
        self.discovery.clear();
        for root in ["/api", "/apis"] {
            let request = Request::get(root).header(header::ACCEPT, AGGREGATED);
            let answer = self.ask(request, Bytes::new()).await?;
            if !answer.status.is_success() {
                bail!("the temporary server answers {} to {root}", answer.status);
            }
            self.discovery.push((root, answer.document));
        }
        Ok(())
    }

    /// Creates the namespaces that the manifests use. Those among the manifests exist already.
    async fn make_namespaces(&mut self, manifests: impl Iterator<Item = &Manifest>) -> Result<()> {
        let used = manifests.map(|manifest| manifest.text_at(&["metadata", "namespace"]));
        let mut names: BTreeSet<String> = used.filter(|name| !name.is_empty()).map(str::to_owned).collect();
        names.insert(self.namespace.clone());
        for name in names {
            let mut namespace = Value::empty_map();
            namespace.set_at(&["apiVersion"], "v1".into());
            namespace.set_at(&["kind"], "Namespace".into());
            namespace.set_at(&["metadata", "name"], name.as_str().into());
            let request = Request::post("/api/v1/namespaces").header(header::CONTENT_TYPE, JSON);
            // An invalid name is found with the objects in the namespace.
            self.ask(request, json::to_string(&namespace).into()).await?;
        }
        Ok(())
    }

    async fn apply_all(&mut self, manifests: &[Manifest]) -> Result<()> {
        for manifest in manifests {
            self.check_one(manifest).await?;
        }
        Ok(())
    }

    async fn check_one(&mut self, manifest: &Manifest) -> Result<()> {
        let Some(resource) = self.resource(manifest) else {
            if !self.skip_unknown_kinds {
                let kind = format!(
                    "{}, kind {}",
                    manifest.text_at(&["apiVersion"]),
                    manifest.text_at(&["kind"])
                );
                let message = format!("{kind} is neither built in nor defined by a CRD among the manifests");
                self.add(manifest, Problem::new(Rule::UnknownKind, message));
            }
            return Ok(());
        };
        let namespace = match manifest.text_at(&["metadata", "namespace"]) {
            "" => self.namespace.clone(),
            namespace => namespace.to_owned(),
        };
        let name = manifest.text_at(&["metadata", "name"]);
        if name.is_empty() {
            return self.create(manifest, &resource, &namespace).await;
        }
        let path = match resource.path(&namespace, name) {
            Ok(path) => path,
            Err(error) => {
                self.add(manifest, Problem::new(Rule::Validation, error.to_string()));
                return Ok(());
            }
        };
        if !self.add_manager(manifest, namespace) {
            let message = format!(
                "another manifest of the field manager {:?} is about this object",
                manifest.manager
            );
            self.add(manifest, Problem::new(Rule::DuplicateObject, message));
            return Ok(());
        }
        self.apply(manifest, &path).await
    }

    /// Applies an object. If it conflicts, the rest of it is checked, too.
    async fn apply(&mut self, manifest: &Manifest, path: &str) -> Result<()> {
        let manager = encoded(&manifest.manager);
        let mut query = format!("fieldManager={manager}&fieldValidation=Strict");
        let mut conflicts = Vec::new();
        loop {
            let request = Request::builder()
                .method(Method::PATCH)
                .uri(format!("{path}?{query}"))
                .header(header::CONTENT_TYPE, APPLY);
            let answer = self.ask(request, body(manifest)).await?;
            let problems = answer.problems();
            let is_conflict = |problem: &Problem| problem.rule == Rule::OwnershipConflict;
            if conflicts.is_empty() && problems.iter().any(is_conflict) {
                conflicts = problems;
                query.push_str("&force=true&dryRun=All");
                continue;
            }
            for problem in conflicts.into_iter().chain(problems) {
                self.add(manifest, problem);
            }
            return Ok(());
        }
    }

    /// Creates an object whose name the server generates, without storing it.
    async fn create(&mut self, manifest: &Manifest, resource: &Resource, namespace: &str) -> Result<()> {
        let collection = match resource.collection(namespace) {
            Ok(collection) => collection,
            Err(error) => {
                self.add(manifest, Problem::new(Rule::Validation, error.to_string()));
                return Ok(());
            }
        };
        let manager = encoded(&manifest.manager);
        let path = format!("{collection}?fieldManager={manager}&fieldValidation=Strict&dryRun=All");
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/yaml");
        let answer = self.ask(request, body(manifest)).await?;
        for problem in answer.problems() {
            self.add(manifest, problem);
        }
        Ok(())
    }

    fn resource(&self, manifest: &Manifest) -> Option<Resource> {
        let (group, version) = group_version(manifest);
        let kind = manifest.text_at(&["kind"]);
        let mut found = self.discovery.iter();
        found.find_map(|(root, groups)| Resource::find_kind(root, groups, group, version, kind))
    }

    /// Adds the manifest's manager to those of its object. Returns false if it has another manifest for the object.
    fn add_manager(&mut self, manifest: &Manifest, namespace: String) -> bool {
        let text = |path: &[&str]| manifest.text_at(path).to_owned();
        let group = group_version(manifest).0.to_owned();
        let identity = (group, text(&["kind"]), namespace, text(&["metadata", "name"]));
        let managers = self.applied.entry(identity).or_default();
        managers.insert(manifest.manager.clone())
    }

    /// Waits until the bindings of these policies are in effect, as far as the server accepted both.
    async fn wait_for_policies(&self, policies: &[BoundPolicy]) -> Result<()> {
        let mut expected = 0;
        for policy in policies {
            expected += usize::from(self.exists(&policy.path).await? && self.exists(&policy.binding_path).await?);
        }
        let in_effect = async {
            while self.server.policy_bindings() < expected {
                tokio::time::sleep(POLICY_INTERVAL).await;
            }
        };
        let waited = tokio::time::timeout(POLICY_WAIT, in_effect).await;
        waited.context("the policies do not come into effect")
    }

    async fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.ask(Request::get(path), Bytes::new()).await?.status.is_success())
    }

    async fn ask(&self, request: http::request::Builder, body: Bytes) -> Result<Answer> {
        let request = request.body(Full::new(body))?;
        let response = self.connection.clone().call(request).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            document: json::parse(&body, &Limits::TRUSTED).context("the temporary server sends no JSON")?,
        })
    }

    fn add(&mut self, manifest: &Manifest, problem: Problem) {
        self.findings.push(Finding {
            place: manifest.place.clone(),
            rule: problem.rule,
            object: Some(subject(&manifest.object)),
            manager: Some(manifest.manager.clone()),
            field: problem.field,
            message: problem.message,
        });
    }
}

impl Answer {
    /// Returns the problems that the server reports: errors, and warnings of objects that it accepts.
    fn problems(&self) -> Vec<Problem> {
        let mut problems = match self.status.is_success() {
            true => Vec::new(),
            false => Problem::from_status(self.status, &self.document),
        };
        let warnings = self.headers.get_all(header::WARNING).into_iter();
        let texts = warnings.filter_map(|value| warning_text(value.to_str().ok()?));
        problems.extend(texts.map(|text| Problem::new(Rule::Warning, text)));
        problems
    }
}

/// Returns the text of a `Warning` header: a quoted string after code and agent (RFC 7234, 5.5).
fn warning_text(header: &str) -> Option<String> {
    let (_, quoted) = header.split_once('"')?;
    let quoted = quoted.strip_suffix('"').unwrap_or(quoted);
    let mut text = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.extend(characters.next()),
            _ => text.push(character),
        }
    }
    Some(text)
}

/// Policy with a binding among the manifests.
struct BoundPolicy {
    path: String,
    binding_path: String,
}

fn group_version(manifest: &Manifest) -> (&str, &str) {
    let text = manifest.text_at(&["apiVersion"]);
    text.split_once('/').unwrap_or(("", text))
}

fn stage(manifest: &Manifest, parameters: &BTreeSet<(String, String)>) -> Stage {
    let (group, _) = group_version(manifest);
    let kind = manifest.text_at(&["kind"]);
    match (group, kind) {
        ("", "Namespace") => Stage::Namespaces,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Stage::Definitions,
        ("admissionregistration.k8s.io", kind) if kind.ends_with("AdmissionPolicy") => Stage::Policies,
        ("admissionregistration.k8s.io", kind) if kind.ends_with("AdmissionPolicyBinding") => Stage::Bindings,
        _ if parameters.contains(&(group.to_owned(), kind.to_owned())) => Stage::Parameters,
        _ => Stage::Others,
    }
}

/// Returns the groups and kinds of the parameters of all policies.
fn parameter_kinds(manifests: &[Manifest]) -> BTreeSet<(String, String)> {
    let kinds = manifests.iter().filter_map(|manifest| {
        let parameter = manifest.object.at(&["spec", "paramKind"])?;
        let api_version = parameter.str_at(&["apiVersion"])?;
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Some((group.to_owned(), parameter.str_at(&["kind"])?.to_owned()))
    });
    kinds.collect()
}

/// Returns the policies that have bindings among the manifests.
fn bound_policies(manifests: &[Manifest]) -> Vec<BoundPolicy> {
    let bindings = manifests.iter().filter_map(|manifest| {
        let policy_kind = manifest.text_at(&["kind"]).strip_suffix("Binding")?;
        if !policy_kind.ends_with("AdmissionPolicy") {
            return None;
        }
        let (policy, binding) = (
            manifest.text_at(&["spec", "policyName"]),
            manifest.text_at(&["metadata", "name"]),
        );
        let root = "/apis/admissionregistration.k8s.io/v1";
        let plural = match policy_kind {
            "ValidatingAdmissionPolicy" => "validatingadmissionpolic",
            _ => "mutatingadmissionpolic",
        };
        Some(BoundPolicy {
            path: format!("{root}/{plural}ies/{}", encoded(policy)),
            binding_path: format!("{root}/{plural}ybindings/{}", encoded(binding)),
        })
    });
    bindings.collect()
}

/// Returns the body of the request for a manifest.
fn body(manifest: &Manifest) -> Bytes {
    match &manifest.text {
        Some(text) => Bytes::copy_from_slice(text.as_bytes()),
        None => json::to_string(&manifest.object).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_read_from_their_header() {
        assert_eq!(warning_text(r#"299 - "a \"b\" \\c""#).as_deref(), Some(r#"a "b" \c"#));
        assert_eq!(warning_text("299 -"), None);
    }
}
