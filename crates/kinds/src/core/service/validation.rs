//! What is wrong with a Service.

use std::collections::HashSet;

use holdfast_resource::metadata::formats::{dns_label, dns_subdomain, qualified_name};
use holdfast_resource::metadata::labels::validate_labels;
use holdfast_resource::{Field, FieldError};
use holdfast_value::Map;

use crate::validation::addresses::{address, block, endpoint_address};
use crate::validation::ports::{PROTOCOLS, port_number, port_number_or_name};
use crate::validation::{Errors, immutable, numbers, one_of, optional_text, report, same};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const AFFINITY_SECONDS_MOST: i64 = 86400;

/// Checks a Service.
pub(super) fn validate_service(service: &Field<'_, '_>, ipv4: bool, errors: &mut Errors) {
    let spec = service.child("spec");
    let (sort, ports) = (spec.child("type"), spec.child("ports"));
    let headless = spec.child("clusterIP").text() == "None";
    if ports.is_empty() && !headless && sort.text() != "ExternalName" {
        errors.push(ports.required(""));
    }
    validate_type(&spec, headless, errors);
    let mut names = HashSet::new();
    for port in ports.items() {
        validate_port(&port, ports.len() > 1, &mut names, errors);
    }
    validate_labels(&spec.child("selector"), errors);
    validate_affinity(&spec, errors);
    validate_addresses(&spec, headless, ipv4, errors);
    for external in spec.child("externalIPs").items() {
        let before = errors.len();
        address(&external, errors);
        if errors.len() == before {
            endpoint_address(&external, None, errors);
        }
    }
    one_of(&sort, &TYPES, errors);
    if sort.text() == "ClusterIP" {
        for port in ports.items() {
            let node_port = port.child("nodePort");
            if node_port.number().unwrap_or_default() != 0 {
                errors.push(node_port.forbidden("may not be used when `type` is 'ClusterIP'"));
            }
        }
    }
    validate_repeated_ports(&ports, errors);
    validate_balancer(&spec, errors);
    validate_traffic(&spec, errors);
}

fn validate_type(spec: &Field<'_, '_>, headless: bool, errors: &mut Errors) {
    let ips = spec.child("clusterIPs");
    match spec.child("type").text() {
        sort @ ("LoadBalancer" | "NodePort") if headless => {
            let detail = format!("may not be set to 'None' for {sort} services");
            errors.push(FieldError::invalid(&ips.path().index(0), "None", detail));
        }
        "ExternalName" => {
            if !ips.is_empty() {
                errors.push(ips.forbidden("may not be set for ExternalName services"));
            }
            let name = spec.child("externalName");
            match name.text() {
                "" => errors.push(name.required("")),
                text => report(&name, dns_subdomain(text.strip_suffix('.').unwrap_or(text)), errors),
            }
        }
        _ => {}
    }
}

fn validate_port<'v>(port: &Field<'v, '_>, needs_name: bool, names: &mut HashSet<&'v str>, errors: &mut Errors) {
    let name = port.child("name");
    if name.text().is_empty() {
        if needs_name {
            errors.push(name.required(""));
        }
    } else {
        report(&name, dns_label(name.text()), errors);
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
    port_number(&port.child("port"), errors);
    one_of(&port.child("protocol"), &PROTOCOLS, errors);
    port_number_or_name(&port.child("targetPort"), errors);
    optional_text(&port.child("appProtocol"), qualified_name, errors);
}

fn validate_affinity(spec: &Field<'_, '_>, errors: &mut Errors) {
    let (affinity, config) = (spec.child("sessionAffinity"), spec.child("sessionAffinityConfig"));
    one_of(&affinity, &["ClientIP", "None"], errors);
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

fn validate_addresses(spec: &Field<'_, '_>, headless: bool, ipv4: bool, errors: &mut Errors) {
    let (ips, families, policy) = (
        spec.child("clusterIPs"),
        spec.child("ipFamilies"),
        spec.child("ipFamilyPolicy"),
    );
    if spec.child("type").text() == "ExternalName" {
        for part in [&families, &policy] {
            if part.is_set() && !(part.is_empty() && part.text().is_empty()) {
                errors.push(part.forbidden("may not be set for ExternalName services"));
            }
        }
        return;
    }
    let ip = spec.child("clusterIP");
    if ip.text().is_empty() && !ips.is_empty() {
        errors.push(ips.invalid("must be empty when `clusterIP` is not specified"));
    } else if ips
        .slice()
        .first()
        .is_some_and(|first| first.as_str() != Some(ip.text()))
    {
        errors.push(ips.invalid("first value must match `clusterIP`"));
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    crate::validation::optional_one_of(&policy, &policies, errors);
    let any_family = headless && spec.child("selector").is_empty();
    if policy.text() == "RequireDualStack" && !any_family {
        errors.push(policy.invalid("this cluster is not configured for dual-stack services"));
    }
    let mut seen = HashSet::new();
    for family in families.items() {
        let served = if ipv4 { "IPv4" } else { "IPv6" };
        match family.text() {
            "IPv4" | "IPv6" => {
                if !any_family && family.text() != served {
                    errors.push(family.invalid("not configured on this cluster"));
                }
            }
            _ => errors.push(family.not_supported(&["IPv4", "IPv6"])),
        }
        if !seen.insert(family.text()) {
            errors.push(family.duplicate());
        }
    }
    if ips.len() > 2 {
        errors.push(ips.invalid("may only hold up to 2 values"));
    }
    if headless && ips.len() > 1 {
        errors.push(ips.invalid("'None' must be the first and only value"));
    }
    for one in ips.items().filter(|one| one.text() != "None") {
        address(&one, errors);
    }
}

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
            let shown = Map::from_unsorted(vec![
                ("port".into(), number.unwrap_or_default().into()),
                ("protocol".into(), protocol.into()),
            ]);
            errors.push(FieldError::duplicate(&port.path(), shown));
        }
    }
}

fn validate_balancer(spec: &Field<'_, '_>, errors: &mut Errors) {
    const ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
    let balancer = spec.child("type").text() == "LoadBalancer";
    let ranges = spec.child("loadBalancerSourceRanges");
    if !ranges.is_empty() {
        // The reference writes this name with a capital letter.
        let place = spec.path().child("LoadBalancerSourceRanges");
        let ranges = Field::placed(ranges.value(), place.as_str());
        if !balancer {
            errors.push(ranges.forbidden(ONLY));
        }
        for range in ranges.items() {
            block(&range, errors);
        }
    }
    let allocate = spec.child("allocateLoadBalancerNodePorts");
    if allocate.is_set() && !balancer {
        errors.push(allocate.forbidden(ONLY));
    }
    if !allocate.is_set() && balancer {
        errors.push(allocate.required(""));
    }
    let class = spec.child("loadBalancerClass");
    if class.is_set() {
        if !balancer {
            errors.push(class.forbidden(ONLY));
        }
        report(&class, qualified_name(class.text()), errors);
    }
}

fn validate_traffic(spec: &Field<'_, '_>, errors: &mut Errors) {
    let sort = spec.child("type").text();
    let policy = spec.child("externalTrafficPolicy");
    let reachable =
        matches!(sort, "NodePort" | "LoadBalancer") || sort == "ClusterIP" && !spec.child("externalIPs").is_empty();
    if reachable {
        one_of(&policy, &["Cluster", "Local"], errors);
    } else if !policy.text().is_empty() {
        errors.push(policy.invalid("may only be set for externally-accessible services"));
    }
    let check = spec.child("healthCheckNodePort");
    numbers::not_negative(&check, errors);
    let checked = sort == "LoadBalancer" && policy.text() == "Local";
    if !checked && check.number().unwrap_or_default() != 0 {
        errors.push(
            check.invalid("may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"),
        );
    }
    let internal = spec.child("internalTrafficPolicy");
    if matches!(sort, "ClusterIP" | "NodePort" | "LoadBalancer") {
        one_of(&internal, &["Cluster", "Local"], errors);
    } else if sort == "ExternalName" && internal.is_set() {
        errors.push(internal.forbidden("may not be set for ExternalName services"));
    }
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    crate::validation::optional_one_of(&spec.child("trafficDistribution"), &distributions, errors);
}

/// Reports changes of what a Service keeps for its life.
pub(super) fn validate_change(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (new, old) = (new.child("spec"), old.child("spec"));
    let external = |spec: &Field<'_, '_>| spec.child("type").text() == "ExternalName";
    if external(&new) || external(&old) {
        return;
    }
    let headless_change = new.child("clusterIP").text() == "None";
    let (ips, old_ips) = (new.child("clusterIPs"), old.child("clusterIPs"));
    if !old_ips.is_empty() && ips.slice().first() != old_ips.slice().first() && !headless_change {
        let shown = ips.value().cloned().unwrap_or_default();
        errors.push(FieldError::invalid(
            &ips.path().index(0),
            shown,
            "may not change once set",
        ));
    }
    let (families, old_families) = (new.child("ipFamilies"), old.child("ipFamilies"));
    if !old_families.is_empty() && families.slice().first() != old_families.slice().first() {
        let shown = families.value().cloned().unwrap_or_default();
        errors.push(FieldError::invalid(
            &families.path().index(0),
            shown,
            "may not change once set",
        ));
    }
    let balancer = |spec: &Field<'_, '_>| spec.child("type").text() == "LoadBalancer";
    let class = new.child("loadBalancerClass");
    if balancer(&new) && balancer(&old) && !same(class.value(), old.child("loadBalancerClass").value()) {
        errors.push(class.invalid("may not change once set"));
    }
    let checked = |spec: &Field<'_, '_>| balancer(spec) && spec.child("externalTrafficPolicy").text() == "Local";
    if checked(&new) && checked(&old) {
        immutable(
            &new.child("healthCheckNodePort"),
            &old.child("healthCheckNodePort"),
            errors,
        );
    }
}

/// Checks the status of a Service.
pub(super) fn validate_status(service: &Field<'_, '_>, errors: &mut Errors) {
    let status = service.child("status");
    let balancer = status.child("loadBalancer");
    let ingress = balancer.child("ingress");
    let spec = service.child("spec");
    if !ingress.is_empty() && spec.child("type").text() != "LoadBalancer" {
        errors.push(ingress.forbidden("may only be used when `spec.type` is 'LoadBalancer'"));
        return;
    }
    for point in ingress.items() {
        let (ip, mode, name) = (point.child("ip"), point.child("ipMode"), point.child("hostname"));
        if !ip.text().is_empty() {
            address(&ip, errors);
            if mode.is_set() {
                crate::validation::optional_one_of(&mode, &["Proxy", "VIP"], errors);
            } else {
                errors.push(mode.required(""));
            }
        } else if mode.is_set() {
            errors.push(mode.forbidden("may not be specified when `ip` is not set"));
        }
        if !name.text().is_empty() {
            report(&name, dns_subdomain(name.text()), errors);
            if name.text().parse::<std::net::IpAddr>().is_ok() {
                errors.push(name.invalid("must be a DNS name, not an IP address"));
            }
        }
    }
}
