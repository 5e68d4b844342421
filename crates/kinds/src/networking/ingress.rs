//! Ingresses: <https://kubernetes.io/docs/concepts/services-networking/ingress/>.

use std::net::IpAddr;

use holdfast_kind_tables::Kind;
use holdfast_resource::table::{NamedCell, items};
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::metadata::formats::{Messages, dns_label, dns_subdomain, path_segment, wildcard_subdomain};
use holdfast_schema::types::EmptyField;
use holdfast_schema::{Check, Field, FieldError, FieldPath, Part, Rules};
use holdfast_value::{SeenValues, Value};

use crate::cells::ingress_addresses;
use crate::config::Config;
use crate::kind::kind;
use crate::rules::IngressRule;
use crate::validation::addresses::{Reading, address_warning};
use crate::validation::ports::{port_name, port_number};
use crate::validation::{Errors, report, required_text};

/// Strategy of Ingresses.
pub(crate) struct Ingress {
    /// Parsing mode for the addresses of load balancers.
    pub(crate) reading: Reading,
}

/// Annotation that named the class before the field existed.
const CLASS: &str = "kubernetes.io/ingress.class";
const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
const NOT_IN_PATHS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const NOT_AT_ENDS: [&str; 2] = ["/..", "/."];

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(Ingress {
        reading: Reading::for_features(config.features),
    })
    .cells(CELLS)
    .read_by(super::at_rest::ingress)
    .empty_status()
    .done()
}

impl Strategy for Ingress {
    /// upstream: pkg/registry/networking/ingress#ingressStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = context.check(object, &self.rules_against(None));
        let annotation = object.str_at(&["metadata", "annotations", CLASS]);
        let class = object.str_at(&["spec", "ingressClassName"]);
        if let (Some(annotation), Some(class)) = (annotation, class)
            && annotation != class
        {
            let place = FieldPath::new("annotations").child(CLASS);
            errors.push(FieldError::invalid(
                &place,
                annotation,
                "must match `ingressClassName` when both are specified",
            ));
        }
        errors
    }

    /// upstream: pkg/registry/networking/ingress#ingressStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        context.check(object, &self.rules_against(Some(old)))
    }

    /// upstream: pkg/registry/networking/ingress#ingressStrategy.WarningsOnCreate
    /// upstream: pkg/registry/networking/ingress#ingressStrategy.WarningsOnUpdate
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        if context.subresource == Some("status") {
            return status_warnings(&Field::root(object));
        }
        let named_twice = object.at(&["spec", "ingressClassName"]).is_some();
        if old.is_none() && !named_twice && object.at(&["metadata", "annotations", CLASS]).is_some() {
            return vec![format!(
                "annotation \"{CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"
            )];
        }
        Vec::new()
    }
}

/// Returns the warnings about the addresses of load balancers, with the path of each.
///
/// upstream: pkg/registry/networking/ingress#ingressStatusStrategy.WarningsOnUpdate
fn status_warnings(ingress: &Field<'_, '_>) -> Vec<String> {
    let status = ingress.child("status");
    let balancer = status.child("loadBalancer");
    let points = balancer.child("ingress");
    let of_point = |point: Field<'_, '_>| {
        let (place, ip) = (point.path(), point.child("ip"));
        address_warning(&Field::placed(ip.value(), place.as_str()))
    };
    points.items().filter_map(of_point).collect()
}

impl Ingress {
    /// Returns the rules for an object that replaces `old`.
    fn rules_against<'a>(&self, old: Option<&'a Value>) -> IngressRules<'a> {
        let points = old.map_or(&[][..], |old| items(old, &["status", "loadBalancer", "ingress"]));
        IngressRules {
            reading: self.reading,
            kept: points.iter().filter_map(|point| point.str_at(&["ip"])).collect(),
        }
    }
}

/// Validation rules of an Ingress.
struct IngressRules<'a> {
    reading: Reading,
    /// Load balancer addresses of the old object.
    kept: SeenValues<&'a str>,
}

impl<'v> Rules<'v> for IngressRules<'_> {
    type Rule = IngressRule;

    fn rule(&self, rule: IngressRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        let errors = &mut check.errors;
        match rule {
            IngressRule::Backends => validate_backends(part, check),
            IngressRule::Backend => validate_backend(part, errors),
            IngressRule::Host => validate_host(&part.child("host"), errors),
            IngressRule::Hosts => {
                for host in part.child("hosts").items() {
                    report(&host, host_form(host.text()), errors);
                }
            }
            IngressRule::Path => self.validate_path(part, check),
            IngressRule::LoadBalancer => self.validate_balancer(&part.child("loadBalancer"), errors),
        }
    }
}

impl IngressRules<'_> {
    /// upstream: pkg/apis/networking/validation#ValidateIngressLoadBalancerStatus
    fn validate_balancer(&self, balancer: &Field<'_, '_>, errors: &mut Errors) {
        for point in balancer.child("ingress").items() {
            let (ip, host) = (point.child("ip"), point.child("hostname"));
            if !ip.text().is_empty() && !self.kept.contains(&ip.text()) {
                self.reading.address(&ip, errors);
            }
            if !host.text().is_empty() {
                report(&host, dns_subdomain(host.text()), errors);
                if host.text().parse::<IpAddr>().is_ok() {
                    errors.push(host.invalid("must be a DNS name, not an IP address"));
                }
            }
        }
    }

    /// Validates an HTTP path. A path without a type gets no further errors.
    ///
    /// upstream: pkg/apis/networking/validation#validateHTTPIngressPath
    fn validate_path<'v>(&self, part: &Part<'v, '_>, check: &mut Check<'_>) {
        let path_type = part.child("pathType");
        if !path_type.is_set() {
            check.errors.push(path_type.required("pathType must be specified"));
            return;
        }
        validate_path_of(&path_type, &part.child("path"), &mut check.errors);
        check.field(part, "backend", self);
    }
}

/// Validates that there is a default backend or a rule. The error is at the spec but shows the rules.
///
/// upstream: pkg/apis/networking/validation#ValidateIngressSpec
fn validate_backends(spec: &Field<'_, '_>, check: &mut Check<'_>) {
    let rules = spec.child("rules");
    if !rules.is_empty() || spec.child("defaultBackend").is_set() {
        return;
    }
    let empty = check.provenance.empty_at(&rules);
    let shown = empty.map(EmptyField::value).unwrap_or_default();
    let why = "either `defaultBackend` or `rules` must be specified";
    check.errors.push(spec.invalid_as(shown, why));
}

/// upstream: pkg/apis/networking/validation#validateIngressRules
fn validate_host(host: &Field<'_, '_>, errors: &mut Errors) {
    if host.text().parse::<IpAddr>().is_ok() {
        errors.push(host.invalid("must be a DNS name, not an IP address"));
    } else if !host.text().is_empty() {
        report(host, host_form(host.text()), errors);
    }
}

fn host_form(host: &str) -> Messages {
    if host.contains('*') {
        wildcard_subdomain(host)
    } else {
        dns_subdomain(host)
    }
}

/// upstream: pkg/apis/networking/validation#validateHTTPIngressPath
fn validate_path_of(path_type: &Field<'_, '_>, path: &Field<'_, '_>, errors: &mut Errors) {
    if !PATH_TYPES.contains(&path_type.text()) {
        errors.push(path_type.not_supported(&PATH_TYPES));
    }
    let text = path.text();
    match path_type.text() {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                errors.push(path.invalid_text("must be an absolute path"));
            }
            for part in NOT_IN_PATHS.iter().filter(|part| text.contains(**part)) {
                errors.push(path.invalid(format!("must not contain '{part}'")));
            }
            for end in NOT_AT_ENDS.iter().filter(|end| text.ends_with(**end)) {
                errors.push(path.invalid(format!("cannot end with '{end}'")));
            }
        }
        "ImplementationSpecific" if !text.is_empty() && !text.starts_with('/') => {
            errors.push(path.invalid("must be an absolute path"));
        }
        _ => {}
    }
}

/// upstream: pkg/apis/networking/validation#validateIngressBackend
fn validate_backend(backend: &Field<'_, '_>, errors: &mut Errors) {
    let (service, resource) = (backend.child("service"), backend.child("resource"));
    match (service.is_set(), resource.is_set()) {
        (true, true) => errors.push(backend.invalid_as("", "cannot set both resource and service backends")),
        (false, true) => {
            validate_reference(&resource, errors);
        }
        (true, false) => {
            required_text(&service.child("name"), dns_label, errors);
            let port = service.child("port");
            let (name, number) = (port.child("name"), port.child("number"));
            match (!name.text().is_empty(), number.number().unwrap_or_default() != 0) {
                (true, true) => errors.push(backend.invalid_as("", "cannot set both port name & port number")),
                (true, false) => report(&name, port_name(name.text()), errors),
                (false, true) => port_number(&number, errors),
                (false, false) => errors.push(backend.required("port name or number is required")),
            }
        }
        (false, false) => errors.push(backend.invalid_as("", "resource or service backend is required")),
    }
}

/// upstream: pkg/apis/networking/validation#validateIngressTypedLocalObjectReference
pub(super) fn validate_reference(reference: &Field<'_, '_>, errors: &mut Errors) {
    let group = reference.child("apiGroup");
    if group.is_set() {
        report(&group, dns_subdomain(group.text()), errors);
    }
    for part in ["kind", "name"] {
        required_text(&reference.child(part), path_segment, errors);
    }
}

/// Table cells that are not just the value at a path.
pub(super) const CELLS: &[NamedCell] = &[
    ("ingress-address", |object, _| {
        ingress_addresses(object).join(",").into()
    }),
    ("ingress-hosts", |object, _| ingress_hosts(object)),
    ("ingress-ports", |object, _| match items(object, &["spec", "tls"]) {
        [] => "80".into(),
        _ => "80, 443".into(),
    }),
];

fn ingress_hosts(ingress: &Value) -> Value {
    let rules = items(ingress, &["spec", "rules"]);
    let hosts = rules
        .iter()
        .take(3)
        .filter_map(|rule| rule.str_at(&["host"]))
        .filter(|host| !host.is_empty());
    let mut text = hosts.collect::<Vec<_>>().join(",");
    if text.is_empty() {
        text.push('*');
    }
    if rules.len() > 3 {
        text.push_str(&format!(" + {} more...", rules.len() - 3));
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn ingress(spec: &str) -> Vec<String> {
        Harness::new().errors(&format!(
            "{{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {{name: i}}, spec: {{{spec}}}}}"
        ))
    }

    fn path(path: &str) -> Vec<String> {
        ingress(&format!(
            "rules: [{{http: {{paths: [{{{path}, backend: {{service: {{name: s, port: {{number: 80}}}}}}}}]}}}}]"
        ))
    }

    #[test]
    fn an_ingress_leads_somewhere() {
        assert_eq!(
            ingress(""),
            ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]
        );
        assert_eq!(
            ingress("rules: []"),
            ["spec: Invalid value: []: either `defaultBackend` or `rules` must be specified"]
        );
        assert_eq!(
            ingress("defaultBackend: {service: {name: ''}}"),
            [
                "spec.defaultBackend.service.name: Required value",
                "spec.defaultBackend: Required value: port name or number is required",
            ]
        );
    }

    #[test]
    fn ingress_with_invalid_backend_is_rejected() {
        let (name, resource) = (
            ingress("defaultBackend: {service: {name: a.b, port: {number: 80}}}"),
            ingress("defaultBackend: {resource: {apiGroup: '', kind: K, name: r}}"),
        );
        assert_eq!(
            name,
            [r#"spec.defaultBackend.service.name: Invalid value: "a.b": must not contain dots"#]
        );
        assert!(resource[0].starts_with("spec.defaultBackend.resource.apiGroup: Invalid value: \"\": a lowercase"));
        assert!(ingress("defaultBackend: {service: {name: 1a, port: {number: 80}}}").is_empty());
        // A path without a type gets no further errors.
        assert_eq!(
            ingress("rules: [{http: {paths: [{}]}}]"),
            ["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"]
        );
    }

    #[test]
    fn class_annotation_without_class_field_warns() {
        let class = |spec: &str| {
            Harness::new().warnings(&format!(
                "{{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {{name: i, annotations: \
                 {{kubernetes.io/ingress.class: a}}}}, spec: {{{spec}}}}}"
            ))
        };
        assert_eq!(class("").len(), 1);
        assert!(class("ingressClassName: a").is_empty());
    }

    #[test]
    fn hosts_are_names_and_paths_absolute() {
        assert!(path("path: /a, pathType: Prefix").is_empty());
        assert_eq!(
            path("path: /a//b, pathType: Exact"),
            [r#"spec.rules[0].http.paths[0].path: Invalid value: "/a//b": must not contain '//'"#]
        );
        assert_eq!(
            path("path: /a"),
            ["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"]
        );
        assert_eq!(
            ingress("rules: [{host: 1.2.3.4}]"),
            [r#"spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address"#]
        );
    }
}
