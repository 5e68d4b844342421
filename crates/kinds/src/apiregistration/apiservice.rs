//! APIServices: the server of a group version, either this one or an extension API server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_kind_tables::Kind;
use holdfast_kind_tables::apis::Apis;
use holdfast_kind_tables::metadata_checks::of_apimachinery;
use holdfast_resource::table::{NamedCell, condition};
use holdfast_resource::{InitialObjects, Rejection, Strategy, WriteContext};
use holdfast_schema::metadata::formats::{Messages, path_segment};
use holdfast_schema::metadata::new_object;
use holdfast_schema::{AnyRules, Check, Field, FieldError, GroupVersion, Part, Rules};
use holdfast_value::Value;

use crate::config::Config;
use crate::kind::kind;
use crate::rules::ApiServiceRule;
use crate::time::time_text;
use crate::validation::{Errors, report};

/// Strategy of APIServices.
pub(crate) struct ApiService {
    /// APIs that this server serves.
    apis: Apis,
}

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(ApiService::new(config))
        .initial_objects()
        .cells(CELLS)
        .named_by(name_errors)
        .empty_status()
        .metadata_checks(of_apimachinery(1, 1))
        .done()
}

impl ApiService {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            apis: config.apis.clone(),
        }
    }
}

/// Group versions that this server can serve, with the priorities of group and version for clients.
const LOCAL: [(&str, &str, i64, i64); 35] = [
    ("", "v1", 18_000, 1),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("admissionregistration.k8s.io", "v1alpha1", 16_700, 9),
    ("admissionregistration.k8s.io", "v1beta1", 16_700, 12),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("apps", "v1", 17_800, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v1", 17_500, 15),
    ("autoscaling", "v2", 17_500, 30),
    ("batch", "v1", 17_400, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("certificates.k8s.io", "v1alpha1", 17_300, 1),
    ("certificates.k8s.io", "v1beta1", 17_300, 9),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("coordination.k8s.io", "v1alpha2", 16_500, 12),
    ("coordination.k8s.io", "v1beta1", 16_500, 13),
    ("discovery.k8s.io", "v1", 16_200, 15),
    ("events.k8s.io", "v1", 17_750, 15),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
    ("internal.apiserver.k8s.io", "v1alpha1", 16_000, 9),
    ("networking.k8s.io", "v1", 17_200, 15),
    ("networking.k8s.io", "v1beta1", 17_200, 9),
    ("node.k8s.io", "v1", 16_300, 15),
    ("policy", "v1", 17_100, 15),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("resource.k8s.io", "v1", 16_200, 21),
    ("resource.k8s.io", "v1alpha3", 16_200, 1),
    ("resource.k8s.io", "v1beta1", 16_200, 9),
    ("resource.k8s.io", "v1beta2", 16_200, 15),
    ("scheduling.k8s.io", "v1", 16_600, 15),
    ("scheduling.k8s.io", "v1alpha2", 16_600, 2),
    ("storage.k8s.io", "v1", 16_800, 15),
    ("storage.k8s.io", "v1beta1", 16_800, 9),
    ("storagemigration.k8s.io", "v1beta1", 15_800, 9),
];

/// Label of objects that exist because this server serves their group version.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Returns the `APIService` of a group version that this server serves, with its priorities.
fn local(group: &str, version: &str, of_group: i64, of_version: i64) -> Value {
    let mut object = new_object(
        "apiregistration.k8s.io/v1",
        "APIService",
        "",
        &format!("{version}.{group}"),
    );
    object.set_at(&["metadata", "labels", AUTOMANAGED], "onstart".into());
    if !group.is_empty() {
        object.set_at(&["spec", "group"], group.into());
    }
    object.set_at(&["spec", "version"], version.into());
    object.set_at(&["spec", "groupPriorityMinimum"], Value::Int(of_group));
    object.set_at(&["spec", "versionPriority"], Value::Int(of_version));
    object
}

impl Strategy for ApiService {
    /// Marks group versions that this server itself serves as available.
    ///
    /// upstream: k8s.io/kube-aggregator/pkg/registry/apiservice#apiServerStrategy.PrepareForCreate
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        if object
            .at(&["spec", "service"])
            .is_some_and(|service| !service.is_null())
        {
            return Ok(());
        }
        let mut condition = Value::empty_map();
        condition.set_at(&["lastTransitionTime"], time_text(context.now()));
        condition.set_at(&["message"], "Local APIServices are always available".into());
        condition.set_at(&["reason"], "Local".into());
        condition.set_at(&["status"], "True".into());
        condition.set_at(&["type"], "Available".into());
        object.set_at(&["status", "conditions"], vec![condition].into());
        Ok(())
    }

    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    /// upstream: k8s.io/kube-aggregator/pkg/registry/apiservice#apiServerStrategy.ValidateUpdate
    /// upstream: k8s.io/kube-aggregator/pkg/registry/apiservice#apiServerStatusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, _old: &Value) -> Vec<FieldError> {
        if context.subresource == Some("status") {
            return Errors::new();
        }
        let name = object.str_at(&["metadata", "name"]).unwrap_or_default();
        let mut errors = Errors::new();
        report(
            &Field::placed(Some(&name.into()), "metadata.name"),
            name_errors(object, name),
            &mut errors,
        );
        errors.extend(self.validate(context, object));
        errors
    }
}

impl InitialObjects for ApiService {
    fn initial_objects(&self) -> Vec<Value> {
        let served = LOCAL
            .into_iter()
            .filter(|(group, version, ..)| self.apis.serves_any(&GroupVersion::new(*group, *version)));
        served
            .map(|(group, version, of_group, of_version)| local(group, version, of_group, of_version))
            .collect()
    }

    /// Restores the spec of an object that the server manages.
    fn reconcile(&self, stored: &Value, initial: &Value) -> Option<Value> {
        let looked_after = stored.str_at(&["metadata", "labels", AUTOMANAGED]);
        let (own, wanted) = (stored.get("spec"), initial.get("spec")?);
        if !matches!(looked_after, Some("onstart" | "true")) || own == Some(wanted) {
            return None;
        }
        let mut next = stored.clone();
        next.set_at(&["spec"], wanted.clone());
        Some(next)
    }
}

/// Validates that the name is `VERSION.GROUP`. A name that is not a valid path segment gets only that error.
///
/// upstream: k8s.io/kube-aggregator/pkg/apis/apiregistration/validation#ValidateAPIService
pub(super) fn name_errors(object: &Value, name: &str) -> Messages {
    let details = path_segment(name);
    let part = |part: &str| object.str_at(&["spec", part]).unwrap_or_default();
    let wanted = format!("{}.{}", part("version"), part("group"));
    if !details.is_empty() || name == wanted {
        return details;
    }
    vec![format!("must be `spec.version+\".\"+spec.group`: {wanted:?}").into()]
}

impl<'v> Rules<'v> for ApiService {
    type Rule = ApiServiceRule;

    fn rule(&self, rule: ApiServiceRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            ApiServiceRule::Group => validate_group(part, &mut check.errors),
            ApiServiceRule::Trust => validate_trust(part, &mut check.errors),
        }
    }
}

/// upstream: k8s.io/kube-aggregator/pkg/apis/apiregistration/validation#ValidateAPIService
fn validate_group(spec: &Field<'_, '_>, errors: &mut Errors) {
    let group = spec.child("group");
    if group.text().is_empty() && spec.child("version").text() != "v1" {
        errors.push(group.required("only v1 may have an empty group and it better be legacy kube"));
    }
}

/// Validates the TLS trust in the server of the group version. For this server itself there must be none.
///
/// upstream: k8s.io/kube-aggregator/pkg/apis/apiregistration/validation#ValidateAPIService
fn validate_trust(spec: &Field<'_, '_>, errors: &mut Errors) {
    let (bundle, skip) = (spec.child("caBundle"), spec.child("insecureSkipTLSVerify"));
    let has_bundle = !bundle.text().is_empty();
    let is_local = !spec.child("service").is_set();
    if is_local && has_bundle {
        let bytes = STANDARD.decode(bundle.text()).map_or(0, |bytes| bytes.len());
        errors.push(bundle.invalid_as(format!("{bytes} bytes"), "local APIServices may not have a caBundle"));
    }
    if is_local && skip.is_true() {
        errors.push(skip.invalid("local APIServices may not have insecureSkipTLSVerify"));
    }
    if !is_local && skip.is_true() && has_bundle {
        errors.push(skip.invalid("may not be true if caBundle is present"));
    }
}

/// Table cells that are not just the value at a path.
pub(super) const CELLS: &[NamedCell] = &[
    ("service-available", |object, _| service_available(object)),
    ("service-reference", |object, _| {
        let text = |field| object.str_at(&["spec", "service", field]).unwrap_or_default();
        match object.at(&["spec", "service"]) {
            Some(service) if !service.is_null() => format!("{}/{}", text("namespace"), text("name")).into(),
            _ => "Local".into(),
        }
    }),
];

fn service_available(service: &Value) -> Value {
    let available = condition(service, "Available");
    let text = |field| available.and_then(|found| found.str_at(&[field])).unwrap_or_default();
    match (text("status"), text("reason")) {
        ("", _) => "Unknown".into(),
        ("True", _) => "True".into(),
        (status, "") => status.into(),
        (status, reason) => format!("{status} ({reason})").into(),
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    fn service(name: &str, spec: &str) -> String {
        format!(
            "{{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {{name: {name}}}, spec: {{group: \
             a.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 10{spec}}}}}"
        )
    }

    #[test]
    fn local_apiservice_is_available_on_create() {
        let local = Harness::new().create(&service("v1.a.example.com", ""));
        assert_eq!(at(&local, "status.conditions.0.reason"), r#""Local""#);
        let remote = Harness::new().create(&service("v1.a.example.com", ", service: {namespace: ns, name: s}"));
        assert_eq!(at(&remote, "status.conditions"), "nothing");
    }

    #[test]
    fn managed_apiservice_is_restored_at_startup() {
        use holdfast_resource::InitialObjects as _;
        let kind = super::ApiService::new(&super::Config::default());
        let mut initial = kind.initial_objects();
        assert_eq!(initial.len(), 21);
        let initial = initial.remove(3);
        assert_eq!(initial.str_at(&["metadata", "name"]), Some("v1.apps"));
        let reconcile = |stored: &super::Value| kind.reconcile(stored, &initial);
        assert!(reconcile(&initial).is_none());
        let mut changed = initial.clone();
        changed.set_at(&["spec", "versionPriority"], super::Value::Int(7));
        assert_eq!(reconcile(&changed).as_ref(), Some(&initial));
        changed.remove_at(&["metadata", "labels"]);
        assert!(reconcile(&changed).is_none(), "it belongs to another server now");
    }

    #[test]
    fn versions_that_are_switched_on_or_off_are_served_or_not() {
        use holdfast_resource::InitialObjects as _;
        let config = super::Config {
            apis: super::Apis::set(&["api/beta=true,storage.k8s.io/v1beta1=false,apps/v1=false".to_owned()]).unwrap(),
            ..super::Config::default()
        };
        let initial = super::ApiService::new(&config).initial_objects();
        let has = |name: &str| {
            initial
                .iter()
                .any(|object| object.str_at(&["metadata", "name"]) == Some(name))
        };
        assert!(has("v1beta1.networking.k8s.io") && has("v1beta2.resource.k8s.io") && has("v1.batch"));
        assert!(!has("v1beta1.storage.k8s.io") && !has("v1.apps") && !has("v1alpha3.resource.k8s.io"));
    }

    #[test]
    fn the_name_is_version_and_group() {
        let other = service("v1.b.example.com", "");
        assert_eq!(
            Harness::new().update_errors(&other, &other),
            [
                "metadata.name: Invalid value: \"v1.b.example.com\": must be `spec.version+\".\"+spec.group`: \
                 \"v1.a.example.com\""
            ]
        );
    }

    #[test]
    fn trust_is_given_in_one_way_and_only_to_others() {
        let errors = |spec: &str| Harness::new().errors(&service("v1.a.example.com", spec));
        assert_eq!(
            errors(", service: {namespace: ns, name: s}, insecureSkipTLSVerify: true, caBundle: AAAA"),
            ["spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"]
        );
        assert_eq!(
            errors(", caBundle: AAAA"),
            ["spec.caBundle: Invalid value: \"3 bytes\": local APIServices may not have a caBundle"]
        );
        assert_eq!(errors(", service: {namespace: ns, name: s, port: 0}").len(), 1);
    }
}
