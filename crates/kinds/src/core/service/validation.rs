//! Validation of a Service.

use std::collections::HashSet;

use holdfast_schema::metadata::formats::{dns_label, dns_subdomain, qualified_name};
use holdfast_schema::{AnyRules, Check, Field, FieldError, Part, Rules};
use holdfast_value::Value;

use super::families;
use crate::rules::ServiceRule;
use crate::validation::addresses::{Reading, endpoint_address, lenient_address, stands_in};
use crate::validation::ports::{port_number, port_number_or_name};
use crate::validation::{Errors, repeated, report, same, set_one_of};

const AFFINITY_SECONDS_MOST: i64 = 86400;
const KUBELET_PORT: i64 = 10250;

/// Checks of `ValidateService` in code, for a Service that replaces `old`. Unchanged addresses stay allowed.
pub(super) struct ServiceRules<'v> {
    service: Field<'v, 'v>,
    old: Field<'v, 'v>,
    reading: Reading,
}

impl<'v> ServiceRules<'v> {
    /// Returns the rules for `service`, which replaces `old`.
    pub(super) fn new(service: &'v Value, old: Option<&'v Value>, reading: Reading) -> Self {
        Self {
            service: Field::root(service),
            old: Field::placed(old, ""),
            reading,
        }
    }
}

impl<'v> Rules<'v> for ServiceRules<'_> {
    type Rule = ServiceRule;

    fn rule(&self, rule: ServiceRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            ServiceRule::Topology => validate_topology(&part.child("metadata"), &mut check.errors),
            ServiceRule::Ports => validate_ports(part, self, check),
            ServiceRule::TargetPort => port_number_or_name(&part.child("targetPort"), &mut check.errors),
            ServiceRule::SessionAffinity => validate_affinity(part, &mut check.errors),
            ServiceRule::Addresses => {
                let old = self.old.child("spec");
                families::validate_addresses(part, &old, self.reading, &mut check.errors);
                validate_external(part, &old, self.reading, &mut check.errors);
            }
            ServiceRule::Balancer => {
                validate_port_numbers(part, &mut check.errors);
                validate_ranges(&self.service, &self.old, self.reading, &mut check.errors);
                validate_balancer(part, &mut check.errors);
                validate_class(part, &mut check.errors);
                validate_traffic(part, self, check);
            }
        }
    }
}

/// Validates the type and the ports, which most types require.
///
/// upstream: pkg/apis/core/validation#validateService
fn validate_ports<'v>(spec: &Part<'v, '_>, rules: &dyn AnyRules<'v>, check: &mut Check<'_>) {
    let ports = spec.child("ports");
    let headless = spec.child("clusterIP").text() == "None";
    if ports.is_empty() && !headless && spec.child("type").text() != "ExternalName" {
        check.errors.push(ports.required(""));
    }
    validate_type(spec, headless, &mut check.errors);
    let mut names = HashSet::new();
    for port in check.items(spec, "ports", &ports) {
        validate_port_name(&port.child("name"), ports.len() > 1, &mut names, &mut check.errors);
        check.values(&port, rules);
    }
}

/// Validates external addresses: unchanged ones, or valid endpoint addresses.
///
/// upstream: pkg/apis/core/validation#validateService
fn validate_external(spec: &Field<'_, '_>, old: &Field<'_, '_>, reading: Reading, errors: &mut Errors) {
    let (external, old_external) = (spec.child("externalIPs"), old.child("externalIPs"));
    for external in external.items() {
        let before = errors.len();
        reading.kept_or_address(&external, &old_external, errors);
        if errors.len() == before {
            endpoint_address(&external, None, errors);
        }
    }
}

/// Reports node ports that the type does not have, and duplicate ports.
///
/// upstream: pkg/apis/core/validation#validateService
fn validate_port_numbers(spec: &Field<'_, '_>, errors: &mut Errors) {
    let ports = spec.child("ports");
    if spec.child("type").text() == "ClusterIP" {
        for port in ports.items() {
            let node_port = port.child("nodePort");
            if node_port.number().unwrap_or_default() != 0 {
                errors.push(node_port.forbidden("may not be used when `type` is 'ClusterIP'"));
            }
        }
    }
    validate_repeated_ports(&ports, errors);
}

/// Reports two equivalent annotations with different values.
///
/// upstream: pkg/apis/core/validation#validateService
fn validate_topology(metadata: &Field<'_, '_>, errors: &mut Errors) {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    let annotations = metadata.child("annotations");
    let (mode, hints) = (
        annotations.entry("service.kubernetes.io/topology-mode"),
        annotations.entry(HINTS),
    );
    if mode.is_set() && hints.is_set() && mode.text() != hints.text() {
        errors.push(mode.invalid_text(format!("must match annotations[{HINTS}] when both are specified")));
    }
}

/// upstream: pkg/apis/core/validation#validateService
fn validate_type(spec: &Field<'_, '_>, headless: bool, errors: &mut Errors) {
    let ips = spec.child("clusterIPs");
    let type_name = spec.child("type").text();
    if type_name == "LoadBalancer" {
        for port in spec.child("ports").items() {
            if port.child("port").number() == Some(KUBELET_PORT) {
                let why = format!("may not expose port {KUBELET_PORT} externally since it is used by kubelet");
                errors.push(port.invalid_as(KUBELET_PORT, why));
            }
        }
    }
    match type_name {
        "LoadBalancer" | "NodePort" if headless => {
            let detail = format!("may not be set to 'None' for {type_name} services");
            errors.push(FieldError::invalid(&ips.path().index(0), "None", detail));
        }
        "ExternalName" => {
            const NOT_HERE: &str = "may not be set for ExternalName services";
            let (families, policy) = (spec.child("ipFamilies"), spec.child("ipFamilyPolicy"));
            for (part, set) in [
                (&ips, !ips.is_empty()),
                (&families, !families.is_empty()),
                (&policy, policy.is_set()),
            ] {
                if set {
                    errors.push(part.forbidden(NOT_HERE));
                }
            }
            let name = spec.child("externalName");
            let text = name.text().strip_suffix('.').unwrap_or(name.text());
            if text.is_empty() {
                errors.push(name.required(""));
            } else {
                errors.extend(
                    dns_subdomain(text)
                        .into_iter()
                        .map(|message| name.invalid_as(text, message)),
                );
            }
        }
        _ => {}
    }
}

/// upstream: pkg/apis/core/validation#validateServicePort
fn validate_port_name<'v>(name: &Field<'v, '_>, needs_name: bool, names: &mut HashSet<&'v str>, errors: &mut Errors) {
    if name.text().is_empty() {
        if needs_name {
            errors.push(name.required(""));
        }
    } else {
        report(name, dns_label(name.text()), errors);
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
}

/// upstream: pkg/apis/core/validation#validateService
/// upstream: pkg/apis/core/validation#validateClientIPAffinityConfig
fn validate_affinity(spec: &Field<'_, '_>, errors: &mut Errors) {
    let (affinity, config) = (spec.child("sessionAffinity"), spec.child("sessionAffinityConfig"));
    match affinity.text() {
        "ClientIP" => {
            let client = config.child("clientIP");
            let seconds = client.child("timeoutSeconds");
            match seconds.number() {
                Some(1..=AFFINITY_SECONDS_MOST) => {}
                Some(_) => errors
                    .push(seconds.invalid(format!("must be greater than 0 and less than {AFFINITY_SECONDS_MOST}"))),
                None => errors.push(config.required("when session affinity type is ClientIP")),
            }
        }
        "None" if config.is_set() => {
            errors.push(config.forbidden("must not be set when session affinity is None"));
        }
        _ => {}
    }
}

/// upstream: pkg/apis/core/validation#validateService
fn validate_repeated_ports(ports: &Field<'_, '_>, errors: &mut Errors) {
    let mut node_ports = HashSet::new();
    for port in ports.items() {
        let node_port = port.child("nodePort");
        if let Some(number) = node_port.number().filter(|number| *number != 0)
            && !node_ports.insert((port.child("protocol").text(), number))
        {
            errors.push(node_port.duplicate());
        }
    }
    let mut seen = HashSet::new();
    for port in ports.items() {
        let (protocol, number) = (port.child("protocol").text(), port.child("port").number());
        if !seen.insert((protocol, number)) {
            errors.push(repeated_port(&port, protocol, number.unwrap_or_default()));
        }
    }
}

/// Returns the error for a duplicate port, printed like the reference's internal type.
fn repeated_port(port: &Field<'_, '_>, protocol: &str, number: i64) -> FieldError {
    let protocol = Value::from(protocol);
    let shown = format!(
        "{{\"Name\":\"\",\"Protocol\":{protocol},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}"
    );
    repeated(port, shown)
}

const ONLY_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

/// Validates the source ranges of a load balancer, in the field or in the annotation that preceded it.
///
/// upstream: pkg/apis/core/validation#validateService
fn validate_ranges(service: &Field<'_, '_>, old: &Field<'_, '_>, reading: Reading, errors: &mut Errors) {
    const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let (spec, old_spec) = (service.child("spec"), old.child("spec"));
    let balancer = spec.child("type").text() == "LoadBalancer";
    let (ranges, kept) = (
        spec.child("loadBalancerSourceRanges"),
        old_spec.child("loadBalancerSourceRanges"),
    );
    if !ranges.is_empty() {
        // The reference capitalizes this name.
        let place = spec.path().child("LoadBalancerSourceRanges");
        let ranges = Field::placed(ranges.value(), place.as_str());
        if !balancer {
            errors.push(ranges.forbidden(ONLY_BALANCERS));
        }
        for range in ranges.items().filter(|range| !stands_in(range.text().trim(), &kept)) {
            reading.block_text(&range, range.text().trim(), errors);
        }
        return;
    }
    let (metadata, old_metadata) = (service.child("metadata"), old.child("metadata"));
    let (annotations, kept) = (metadata.child("annotations"), old_metadata.child("annotations"));
    let (ranges, kept) = (annotations.entry(ANNOTATION), kept.entry(ANNOTATION));
    if !ranges.is_set() {
        return;
    }
    if !balancer {
        errors.push(ranges.forbidden(ONLY_BALANCERS));
    }
    let unchanged = kept.is_set() && kept.text() == ranges.text();
    if !unchanged && !ranges.text().trim().is_empty() {
        for range in ranges.text().split(',') {
            reading.block_text(&ranges, range.trim(), errors);
        }
    }
}

/// upstream: pkg/apis/core/validation#validateService
fn validate_balancer(spec: &Field<'_, '_>, errors: &mut Errors) {
    let balancer = spec.child("type").text() == "LoadBalancer";
    let allocate = spec.child("allocateLoadBalancerNodePorts");
    if allocate.is_set() && !balancer {
        errors.push(allocate.forbidden(ONLY_BALANCERS));
    }
    if !allocate.is_set() && balancer {
        errors.push(allocate.required(""));
    }
}

/// upstream: pkg/apis/core/validation#validateLoadBalancerClassField
fn validate_class(spec: &Field<'_, '_>, errors: &mut Errors) {
    let class = spec.child("loadBalancerClass");
    if class.is_set() {
        if spec.child("type").text() == "LoadBalancer" {
            report(&class, qualified_name(class.text()), errors);
        } else {
            errors.push(class.forbidden(ONLY_BALANCERS));
        }
    }
}

/// upstream: pkg/apis/core/validation#validateServiceExternalTrafficPolicy
fn validate_traffic<'v>(spec: &Part<'v, '_>, rules: &dyn AnyRules<'v>, check: &mut Check<'_>) {
    let type_name = spec.child("type").text();
    let policy = spec.child("externalTrafficPolicy");
    let reachable = matches!(type_name, "NodePort" | "LoadBalancer")
        || type_name == "ClusterIP" && !spec.child("externalIPs").is_empty();
    if reachable {
        check.field(spec, "externalTrafficPolicy", rules);
    } else if !policy.text().is_empty() {
        let message = "may only be set for externally-accessible services";
        check.errors.push(policy.invalid(message));
    }
    validate_health_check(spec, &mut check.errors);
    let internal = spec.child("internalTrafficPolicy");
    check.field(spec, "internalTrafficPolicy", rules);
    if !internal.is_set() && matches!(type_name, "ClusterIP" | "NodePort" | "LoadBalancer") {
        check.errors.push(internal.required(""));
    }
}

/// Validates the health check node port.
///
/// upstream: pkg/apis/core/validation#validateServiceExternalTrafficPolicy
fn validate_health_check(spec: &Field<'_, '_>, errors: &mut Errors) {
    let port = spec.child("healthCheckNodePort");
    let balancer = spec.child("type").text() == "LoadBalancer";
    let checked = balancer && spec.child("externalTrafficPolicy").text() == "Local";
    let number = port.number().unwrap_or_default();
    if checked && number == 0 {
        errors.push(port.required(""));
    } else if checked {
        port_number(&port, errors);
    } else if number != 0 {
        errors
            .push(port.invalid("may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"));
    }
}

/// Reports changes of immutable parts of a Service.
///
/// upstream: pkg/apis/core/validation#ValidateServiceUpdate
pub(super) fn validate_change(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (new, old) = (new.child("spec"), old.child("spec"));
    let external = |spec: &Field<'_, '_>| spec.child("type").text() == "ExternalName";
    if !external(&new) && !external(&old) {
        families::validate_kept_addresses(&new, &old, errors);
        families::validate_kept_families(&new, &old, errors);
    }
    let balancer = |spec: &Field<'_, '_>| spec.child("type").text() == "LoadBalancer";
    let class = new.child("loadBalancerClass");
    if balancer(&new) && balancer(&old) && !same(class.value(), old.child("loadBalancerClass").value()) {
        errors.push(class.invalid("may not change once set"));
    }
    // The reference validates the class here, and again with all other fields.
    validate_class(&new, errors);
    let checked = |spec: &Field<'_, '_>| balancer(spec) && spec.child("externalTrafficPolicy").text() == "Local";
    let number = |spec: &Field<'_, '_>| spec.child("healthCheckNodePort").number().unwrap_or_default();
    if checked(&new) && checked(&old) && number(&new) != number(&old) {
        errors.push(new.child("healthCheckNodePort").forbidden("field is immutable"));
    }
}

/// Validates the status of a Service that replaces `old`.
///
/// upstream: pkg/apis/core/validation#ValidateLoadBalancerStatus
pub(super) fn validate_status(service: &Field<'_, '_>, old: &Field<'_, '_>, reading: Reading, errors: &mut Errors) {
    let (status, old_status) = (service.child("status"), old.child("status"));
    let (balancer, old_balancer) = (status.child("loadBalancer"), old_status.child("loadBalancer"));
    let (ingress, old_ingress) = (balancer.child("ingress"), old_balancer.child("ingress"));
    let spec = service.child("spec");
    if !ingress.is_empty() && spec.child("type").text() != "LoadBalancer" {
        errors.push(ingress.forbidden("may only be used when `spec.type` is 'LoadBalancer'"));
        return;
    }
    let known: HashSet<&str> = old_ingress.items().map(|point| point.child("ip").text()).collect();
    for point in ingress.items() {
        let (ip, mode, name) = (point.child("ip"), point.child("ipMode"), point.child("hostname"));
        let addressed = !ip.text().is_empty();
        if addressed && !known.contains(ip.text()) {
            reading.address(&ip, errors);
        }
        match (addressed, mode.is_set()) {
            (true, false) => errors.push(mode.required("must be specified when `ip` is set")),
            (false, true) => errors.push(mode.forbidden("may not be specified when `ip` is not set")),
            _ => set_one_of(&mode, &["Proxy", "VIP"], errors),
        }
        if !name.text().is_empty() {
            report(&name, dns_subdomain(name.text()), errors);
            if lenient_address(name.text()).is_some() {
                errors.push(name.invalid("must be a DNS name, not an IP address"));
            }
        }
    }
}
