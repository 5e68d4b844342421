//! Warnings about Services (`GetWarningsForService`).

use holdfast_schema::Field;

use crate::validation::addresses::{address_warning, block_warning};

/// Returns warnings about deprecated or ineffective settings of a Service.
pub(super) fn of_object(service: &Field<'_, '_>) -> Vec<String> {
    let (metadata, spec) = (service.child("metadata"), service.child("spec"));
    let mut warnings = Vec::new();
    let hints = "service.kubernetes.io/topology-aware-hints";
    if metadata.child("annotations").entry(hints).is_set() {
        warnings.push(format!(
            "annotation {hints} is deprecated, please use service.kubernetes.io/topology-mode instead"
        ));
    }
    warnings.extend(of_spec(&spec));
    if spec.child("trafficDistribution").text() == "PreferClose" {
        warnings.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
    warnings
}

/// Returns warnings about the addresses in a status.
pub(super) fn of_status(status: &Field<'_, '_>) -> Vec<String> {
    let balancer = status.child("loadBalancer");
    let points = balancer.child("ingress");
    let said = points.items().enumerate().filter_map(|(at, point)| {
        let place = balancer.path().child("ingress").index(at);
        address_warning(&Field::placed(point.child("ip").value(), place.as_str()))
    });
    said.collect()
}

/// Returns warnings about the addresses and CIDRs of a Service, and about settings that its type ignores.
///
/// upstream: pkg/api/service#GetWarningsForService
fn of_spec(spec: &Field<'_, '_>) -> Vec<String> {
    let text = |name: &str| spec.child(name).text().to_owned();
    let (service_type, cluster_ip) = (text("type"), text("clusterIP"));
    let is_external_name = service_type == "ExternalName";
    let is_headless = service_type == "ClusterIP" && cluster_ip == "None";
    let addresses = |list: &str| {
        let list = spec.child(list);
        list.items().filter_map(|one| address_warning(&one)).collect::<Vec<_>>()
    };
    let mut warnings = Vec::new();
    if !is_external_name && cluster_ip != "None" {
        warnings.extend(addresses("clusterIPs"));
    }
    let (balancer_ip, external_ips) = (spec.child("loadBalancerIP"), spec.child("externalIPs"));
    for (name, is_set) in [
        ("loadBalancerIP", !balancer_ip.text().is_empty()),
        ("externalIPs", !external_ips.is_empty()),
        ("SessionAffinity", text("sessionAffinity") == "ClientIP"),
    ] {
        if is_headless && is_set {
            warnings.push(format!("spec.{name} is ignored for headless services"));
        }
    }
    warnings.extend(addresses("externalIPs"));
    if !external_ips.is_empty() && !is_headless && !is_external_name {
        warnings.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if !balancer_ip.text().is_empty() {
        warnings.extend(address_warning(&balancer_ip));
    }
    for range in spec.child("loadBalancerSourceRanges").items() {
        warnings.extend(block_warning(&range));
    }
    if is_external_name && !external_ips.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !is_external_name && !spec.child("externalName").text().is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn ignored_address_settings_warn_in_reference_order() {
        let warnings = |spec: &str| {
            let service = format!(
                "{{apiVersion: v1, kind: Service, metadata: {{name: a}}, spec: {{{spec}, ports: [{{port: 80}}]}}}}"
            );
            Harness::new().warnings(&service)
        };
        let ignored = |what: &str| format!("spec.{what} is ignored for headless services");
        let deprecated = "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned();
        assert_eq!(
            warnings("clusterIP: None, externalIPs: [1.2.3.4], sessionAffinity: ClientIP"),
            [ignored("externalIPs"), ignored("SessionAffinity")]
        );
        assert_eq!(
            warnings("externalIPs: [1.2.3.4], externalName: a.b"),
            [
                deprecated,
                "spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned()
            ]
        );
        assert_eq!(
            warnings("type: ExternalName, externalName: a.b, externalIPs: [1.2.3.4]"),
            ["spec.externalIPs is ignored when spec.type is \"ExternalName\""]
        );
    }
}
