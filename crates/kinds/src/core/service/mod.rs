//! Services: <https://kubernetes.io/docs/concepts/services-networking/service/>.

mod allocation;
mod cells;
mod claims;
mod families;
mod proxy;
mod repair;
mod validation;
mod warnings;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::features::Feature;
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::{
    Followed, HiddenField, InitialObjects, Lookup, Old, Rejection, SharedState, Strategy, WriteContext,
};
use holdfast_schema::metadata::new_object;
use holdfast_schema::{Field, FieldError, GroupResource, NameRule};
use holdfast_value::{List, Value};

pub(super) use cells::CELLS;
pub(super) use proxy::Proxy;

use self::allocation::{Allocations, Reservation};
use self::validation::ServiceRules;
use crate::config::Config;
use crate::defaults::{change_items, is_zero, set_missing};
use crate::kind::kind;
use crate::quota;
use crate::validation::addresses::Reading;
use crate::validation::{Errors, same};

/// Rules of Services only: they allocate addresses and ports that no other Service has.
pub(crate) struct Service {
    allocations: Arc<Allocations>,
    config: Config,
    /// Ports that are allocated in the bitmap and that no Service has.
    leaks: SharedState<repair::Leaks>,
}

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(Service::new(config))
        .names((!config.features.has(Feature::RelaxedServiceNameValidation)).then_some(NameRule::Label1035))
        .initial_objects()
        .followed()
        .read_by(from_rest)
        .kept_by(to_rest)
        .hides(HIDDEN_POLICY)
        .claims()
        .connects("proxy", Proxy { random: config.random })
        .cells(CELLS)
        .counted_by_plural()
        .takes_of_quotas(quota::Services)
        .empty_status()
        .metadata_checks(of_core(0, 1))
        .done()
}

impl Service {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            allocations: Arc::new(Allocations::new(config)),
            config: config.clone(),
            leaks: SharedState::default(),
        }
    }

    /// Returns the strictness of address parsing.
    fn reading(&self) -> Reading {
        Reading::for_features(self.config.features)
    }
}

impl Strategy for Service {
    /// upstream: pkg/apis/core/v1#SetDefaults_Service
    fn default_fields(&self, _version: &str, object: &mut Value) {
        let Some(spec) = object.as_map_mut().and_then(|object| object.get_mut("spec")) else {
            return;
        };
        match spec.str_at(&["sessionAffinity"]) {
            Some("None") => {
                spec.remove_at(&["sessionAffinityConfig"]);
            }
            Some("ClientIP") => {
                let seconds = ["sessionAffinityConfig", "clientIP", "timeoutSeconds"];
                if spec.at(&seconds).is_none_or(Value::is_null) {
                    spec.set_at(&seconds, 10800.into());
                }
            }
            _ => {}
        }
        change_items(
            spec,
            "ports",
            |port| is_zero(port.get("targetPort")),
            |port| {
                if let Some(number) = port.get("port").cloned() {
                    port.set_at(&["targetPort"], number);
                }
            },
        );
        let type_name = spec.str_at(&["type"]).unwrap_or_default().to_owned();
        let exposed = type_name == "ClusterIP" && !is_zero(spec.get("externalIPs"));
        if exposed || matches!(type_name.as_str(), "NodePort" | "LoadBalancer") {
            set_missing(spec, "externalTrafficPolicy", || "Cluster".into());
        }
        if matches!(type_name.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
            set_missing(spec, "internalTrafficPolicy", || "Cluster".into());
        }
        if type_name == "LoadBalancer" {
            set_missing(spec, "allocateLoadBalancerNodePorts", || true.into());
            if let Some(balancer) = object.at_mut(&["status", "loadBalancer"]) {
                let lacks = |ingress: &Value| !is_zero(ingress.get("ip")) && ingress.get("ipMode").is_none();
                change_items(balancer, "ingress", lacks, |ingress| {
                    ingress.set_at(&["ipMode"], "VIP".into())
                });
            }
        }
    }

    /// upstream: pkg/registry/core/service#svcStrategy.PrepareForCreate
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        mirror_cluster_ip(object, None);
        self.allocate(context, object, None)?;
        hide_internal_policy(object);
        Ok(())
    }

    /// upstream: pkg/registry/core/service#svcStrategy.PrepareForUpdate
    /// upstream: pkg/registry/core/service#serviceStatusStrategy.PrepareForUpdate
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Rejection> {
        if context.subresource.is_some() {
            return Ok(());
        }
        keep_allocated(object, old);
        mirror_cluster_ip(object, Some(old));
        self.allocate(context, object, Some(old))?;
        drop_what_the_type_dropped(object, old);
        hide_internal_policy(object);
        Ok(())
    }

    /// upstream: pkg/registry/core/service#svcStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        context.check(object, &ServiceRules::new(object, None, self.reading()))
    }

    /// upstream: pkg/registry/core/service#svcStrategy.ValidateUpdate
    /// upstream: pkg/registry/core/service#serviceStatusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        if context.subresource == Some("status") {
            validation::validate_status(&Field::root(object), &Field::root(old), self.reading(), &mut errors);
            return errors;
        }
        validation::validate_change(&Field::root(object), &Field::root(old), &mut errors);
        errors.extend(context.check(object, &ServiceRules::new(object, Some(old), self.reading())));
        errors
    }

    /// upstream: pkg/registry/core/service#svcStrategy.WarningsOnCreate
    /// upstream: pkg/registry/core/service#svcStrategy.WarningsOnUpdate
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let root = Field::root(object);
        match context.subresource {
            None => warnings::of_object(&root),
            Some("status") => warnings::of_status(&root.child("status")),
            Some(_) => Vec::new(),
        }
    }
}

impl Followed for Service {
    fn observe(&self, old: Option<&Value>, new: Option<&Value>) {
        self.allocations.observe(old, new);
    }
}

impl InitialObjects for Service {
    /// Returns the Service by which clients in the cluster reach the server, at the first address of the CIDR.
    fn initial_objects(&self) -> Vec<Value> {
        let mut port = Value::empty_map();
        port.set_at(&["name"], "https".into());
        port.set_at(&["port"], Value::Int(443));
        port.set_at(&["protocol"], "TCP".into());
        port.set_at(&["targetPort"], Value::Int(self.config.secure_port.into()));
        let mut object = new_object("v1", "Service", "default", "kubernetes");
        for (label, value) in [("component", "apiserver"), ("provider", "kubernetes")] {
            object.set_at(&["metadata", "labels", label], value.into());
        }
        let address = self.config.service_cidr.nth(1).to_string();
        object.set_at(&["spec", "clusterIP"], address.into());
        object.set_at(&["spec", "ports"], vec![port].into());
        vec![object]
    }
}

impl Service {
    /// Sets the address families and allocates the addresses and ports that the Service lacks; they are released if
    /// the write fails. Errors found here are reported before those of validation.
    fn allocate(&self, context: &WriteContext<'_>, object: &mut Value, old: Option<&Value>) -> Result<(), Rejection> {
        families::complete(object, old, &self.allocations.families(), self.reading()).map_err(Rejection::Invalid)?;
        let requested = texts_at(object, "clusterIPs");
        let blocks = || self.allocations.ready_blocks(&service_cidrs(context.lookup));
        let taken = self
            .allocations
            .allocate_from(context.run, &blocks, object, old, context.dry_run)?;
        let mut taken_addresses = taken.iter().filter_map(Reservation::address);
        let of_another = taken_addresses.find(|address| {
            requested.contains(&address.to_string()) && claims::is_of_another(*address, object, context.lookup)
        });
        if let Some(address) = of_another {
            self.allocations.finish(&taken, false);
            return Err(allocation::refused_address(
                object,
                &address.to_string(),
                allocation::TAKEN_ADDRESS,
            ));
        }
        if !taken.is_empty() {
            let allocations = Arc::clone(&self.allocations);
            context.on_outcome(move |stored| allocations.finish(&taken, stored));
        }
        Ok(())
    }
}

/// Returns all ServiceCIDRs.
fn service_cidrs(lookup: &dyn Lookup) -> Vec<Value> {
    let resource = GroupResource {
        group: "networking.k8s.io".into(),
        resource: "servicecidrs".into(),
    };
    let mut found = Vec::new();
    lookup.list(&resource, "", &mut |service_cidr| {
        found.push(service_cidr.clone());
        ControlFlow::Continue(())
    });
    found
}

/// Converts a stored Service: older servers stored only one address, and traffic policies that do not apply.
pub(super) fn from_rest(mut object: Value) -> Value {
    mirror_cluster_ip(&mut object, None);
    families::infer_for_old(&mut object);
    hide_internal_policy(&mut object);
    object
}

/// Returns a Service in its stored form. One that becomes an ExternalName keeps its internal traffic policy, which
/// reads omit.
pub(super) fn to_rest(mut object: Value, old: Old<'_>) -> Value {
    let path = ["spec", "internalTrafficPolicy"];
    if is_external(&object)
        && object.at(&path).is_none()
        && let Some(old) = old.map(|old| old()).filter(|old| !is_external(old))
        && let Some(policy) = old.at(&path).cloned()
    {
        object.set_at(&path, policy);
    }
    object
}

/// The internal traffic policy, which a Service that became an ExternalName still has in etcd.
pub(super) const HIDDEN_POLICY: HiddenField = HiddenField {
    path: &["spec", "internalTrafficPolicy"],
    values: ["Cluster", "Local"],
};

/// Removes the internal traffic policy of an ExternalName Service, which may be written with one.
fn hide_internal_policy(object: &mut Value) {
    let path = ["spec", "internalTrafficPolicy"];
    if is_external(object) && matches!(object.str_at(&path), Some("Cluster" | "Local")) {
        object.remove_at(&path);
    }
}

/// Returns true if a Service refers to an external name and has no address of its own.
fn is_external(object: &Value) -> bool {
    sort_of(object) == "ExternalName"
}

/// Returns true if a Service deliberately has no address of its own.
fn is_headless(object: &Value) -> bool {
    object.str_at(&["spec", "clusterIP"]) == Some("None")
}

/// Returns the texts of a list of `spec`.
fn texts_at(object: &Value, list: &str) -> Vec<String> {
    let list = object.at(&["spec", list]).and_then(Value::as_list);
    let texts = list.into_iter().flat_map(|list| list.iter()).filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

/// Returns true if Services of this type have node ports.
fn takes_node_ports(type_name: &str) -> bool {
    matches!(type_name, "NodePort" | "LoadBalancer")
}

/// Returns true if node ports are allocated for a Service, which a load balancer may disable.
fn needs_node_ports(object: &Value) -> bool {
    match sort_of(object) {
        "LoadBalancer" => {
            object
                .at(&["spec", "allocateLoadBalancerNodePorts"])
                .and_then(Value::as_bool)
                != Some(false)
        }
        type_name => type_name == "NodePort",
    }
}

fn sort_of(object: &Value) -> &str {
    object.str_at(&["spec", "type"]).unwrap_or_default()
}

/// Returns true if a load balancer needs health checks to find the nodes with endpoints.
///
/// upstream: pkg/api/service#NeedsHealthCheck
fn needs_health_check(object: &Value) -> bool {
    sort_of(object) == "LoadBalancer" && object.str_at(&["spec", "externalTrafficPolicy"]) == Some("Local")
}

/// Keeps `clusterIPs` consistent with `clusterIP`, the only field that older clients know.
///
/// upstream: pkg/registry/core/service/storage#normalizeClusterIPs
fn mirror_cluster_ip(object: &mut Value, old: Option<&Value>) {
    let ip = object.str_at(&["spec", "clusterIP"]).unwrap_or_default().to_owned();
    let list = texts_at(object, "clusterIPs");
    let list_of = |ip: &str| Value::List(List::from(vec![ip.into()]));
    let Some(old) = old else {
        if !ip.is_empty() && list.is_empty() {
            object.set_at(&["spec", "clusterIPs"], list_of(&ip));
        }
        return;
    };
    let old_ip = old.str_at(&["spec", "clusterIP"]).unwrap_or_default();
    let old_list = texts_at(old, "clusterIPs");
    if old_ip == ip {
        if list.is_empty()
            && !old_list.is_empty()
            && let Some(kept) = old.at(&["spec", "clusterIPs"])
        {
            object.set_at(&["spec", "clusterIPs"], kept.clone());
        }
        return;
    }
    if list != old_list {
        return;
    }
    if ip.is_empty() {
        object.remove_at(&["spec", "clusterIPs"]);
    } else {
        object.set_at(&["spec", "clusterIPs"], list_of(&ip));
    }
}

/// Keeps allocated values that the client omits.
fn keep_allocated(object: &mut Value, old: &Value) {
    if !is_external(object) && !is_external(old) {
        if is_zero(object.at(&["spec", "clusterIP"]))
            && let Some(ip) = old.at(&["spec", "clusterIP"])
        {
            object.set_at(&["spec", "clusterIP"], ip.clone());
        }
        if is_zero(object.at(&["spec", "clusterIPs"]))
            && let Some(list) = old.at(&["spec", "clusterIPs"])
        {
            object.set_at(&["spec", "clusterIPs"], list.clone());
        }
    }
    if needs_node_ports(object) && needs_node_ports(old) {
        keep_node_ports(object, old);
    }
    if needs_health_check(object)
        && needs_health_check(old)
        && is_zero(object.at(&["spec", "healthCheckNodePort"]))
        && let Some(port) = old.at(&["spec", "healthCheckNodePort"])
    {
        object.set_at(&["spec", "healthCheckNodePort"], port.clone());
    }
}

/// Keeps the node ports of ports with the same names, whatever else of them changed.
fn keep_node_ports(object: &mut Value, old: &Value) {
    let name = |port: &Value| port.str_at(&["name"]).unwrap_or_default().to_owned();
    let number = |port: &Value| port.get("nodePort").and_then(Value::as_i64).unwrap_or_default();
    let before: HashMap<String, i64> = ports_of(old).iter().map(|port| (name(port), number(port))).collect();
    let mut used = node_ports(object);
    let kept: Vec<Option<i64>> = ports_of(object)
        .iter()
        .map(|port| {
            let found = *before.get(&name(port)).filter(|_| number(port) == 0)?;
            (found != 0 && used.insert(found)).then_some(found)
        })
        .collect();
    for (index, port) in kept.into_iter().enumerate() {
        if let Some(port) = port {
            allocation::set_node_port(object, index, port);
        }
    }
}

/// Removes fields that only the old type has, unless the client changed them as well.
///
/// upstream: pkg/registry/core/service#dropTypeDependentFields
fn drop_what_the_type_dropped(object: &mut Value, old: &Value) {
    let (new_sort, old_sort) = (sort_of(object).to_owned(), sort_of(old).to_owned());
    let drop_unchanged = |object: &mut Value, part: &str| {
        if same(object.at(&["spec", part]), old.at(&["spec", part])) {
            object.remove_at(&["spec", part]);
        }
    };
    if !is_external(old) && is_external(object) {
        for part in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            drop_unchanged(object, part);
        }
    }
    // Node ports are only removed if the update sets no new ones.
    if takes_node_ports(&old_sort)
        && !takes_node_ports(&new_sort)
        && node_ports(object).is_subset(&node_ports(old))
        && let Some(spec) = object.as_map_mut().and_then(|object| object.get_mut("spec"))
    {
        let asks = |port: &Value| port.get("nodePort").is_some();
        change_items(spec, "ports", asks, |port| {
            port.remove_at(&["nodePort"]);
        });
    }
    if needs_health_check(old) && !needs_health_check(object) {
        drop_unchanged(object, "healthCheckNodePort");
    }
    if old_sort == "LoadBalancer" && new_sort != "LoadBalancer" {
        for part in ["loadBalancerClass", "allocateLoadBalancerNodePorts"] {
            drop_unchanged(object, part);
        }
        object.set_at(&["status", "loadBalancer"], Value::empty_map());
    }
    let reachable = |object: &Value| {
        takes_node_ports(sort_of(object))
            || sort_of(object) == "ClusterIP" && !is_zero(object.at(&["spec", "externalIPs"]))
    };
    if reachable(old) && !reachable(object) {
        drop_unchanged(object, "externalTrafficPolicy");
    }
}

fn ports_of(object: &Value) -> &[Value] {
    object
        .at(&["spec", "ports"])
        .and_then(Value::as_list)
        .map_or(&[], |list| list)
}

fn node_ports(object: &Value) -> HashSet<i64> {
    let numbers = ports_of(object)
        .iter()
        .filter_map(|port| port.get("nodePort")?.as_i64());
    numbers.collect()
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    const FRONT: &str = "{apiVersion: v1, kind: Service, metadata: {name: front}, spec: {ports: [{port: 80}]}}";

    fn service(spec: &str) -> String {
        format!("{{apiVersion: v1, kind: Service, metadata: {{name: front}}, spec: {spec}}}")
    }

    #[test]
    fn a_service_gets_an_address_and_what_follows_from_its_type() {
        let harness = Harness::new();
        let created = harness.create(FRONT);
        assert!(at(&created, "spec.clusterIP").starts_with("\"10.0.0."));
        assert_eq!(at(&created, "spec.clusterIPs.0"), at(&created, "spec.clusterIP"));
        assert_eq!(
            at(&created, "spec.ports.0"),
            r#"{"port":80,"protocol":"TCP","targetPort":80}"#
        );
        assert_eq!(at(&created, "spec.ipFamilies"), r#"["IPv4"]"#);
        assert_eq!(at(&created, "spec.externalTrafficPolicy"), "nothing");
        let exposed = harness.create(&service("{type: NodePort, ports: [{port: 80}]}"));
        assert_eq!(at(&exposed, "spec.externalTrafficPolicy"), r#""Cluster""#);
        let port: u16 = at(&exposed, "spec.ports.0.nodePort").parse().unwrap_or_default();
        assert!((30086..=32767).contains(&port), "{port}");
        let named = harness.create(&service("{type: ExternalName, externalName: example.com}"));
        assert_eq!(at(&named, "spec.clusterIP"), "nothing");
    }

    #[test]
    fn a_headless_service_without_selector_may_have_any_family() {
        let created = Harness::new().create(&service("{clusterIP: None}"));
        assert_eq!(at(&created, "spec.clusterIPs"), r#"["None"]"#);
        assert_eq!(at(&created, "spec.ipFamilyPolicy"), r#""RequireDualStack""#);
    }

    #[test]
    fn allocated_values_stay_until_type_drops_them() {
        let harness = Harness::new();
        let created = harness.create(&service("{type: NodePort, ports: [{port: 80}]}"));
        let same = harness.update(&created, &service("{type: NodePort, ports: [{port: 80}]}"));
        assert_eq!(at(&same, "spec.clusterIP"), at(&created, "spec.clusterIP"));
        assert_eq!(
            at(&same, "spec.ports.0.nodePort"),
            at(&created, "spec.ports.0.nodePort")
        );
        let mut inner = created.clone();
        inner.set_at(&["spec", "type"], "ClusterIP".into());
        let text = holdfast_value::json::to_string(&inner);
        let inner = harness.update(&created, &text);
        assert_eq!(at(&inner, "spec.ports.0.nodePort"), "nothing");
        assert_eq!(at(&inner, "spec.externalTrafficPolicy"), "nothing");
        let named = harness.update(&inner, &service("{type: ExternalName, externalName: example.com}"));
        assert_eq!(at(&named, "spec.clusterIP"), "nothing");
    }

    #[test]
    fn a_load_balancer_that_does_without_new_ports_keeps_its_own() {
        let harness = Harness::new();
        let created = harness.create(&service("{type: LoadBalancer, ports: [{port: 80}]}"));
        let mut without = created.clone();
        without.set_at(&["spec", "allocateLoadBalancerNodePorts"], false.into());
        let kept = harness.update(&created, &holdfast_value::json::to_string(&without));
        assert_eq!(
            at(&kept, "spec.ports.0.nodePort"),
            at(&created, "spec.ports.0.nodePort")
        );
    }

    #[test]
    fn an_address_alone_stands_for_the_list_on_update_too() {
        let refused = Harness::new().update_errors(FRONT, &service("{clusterIP: nonsense, ports: [{port: 80}]}"));
        assert_eq!(
            refused,
            [
                "spec.clusterIPs[0]: Invalid value: \"nonsense\": must be a valid IP address, (e.g. 10.9.8.7 or \
              2001:db8::ffff)"
            ]
        );
    }

    #[test]
    fn addresses_are_taken_once_and_from_the_block() {
        let harness = Harness::new();
        let refused = |ip: &str| harness.errors(&service(&format!("{{clusterIP: {ip}, ports: [{{port: 80}}]}}")));
        assert_eq!(
            refused("192.168.9.9"),
            [
                "spec.clusterIPs: Invalid value: [\"192.168.9.9\"]: failed to allocate IP 192.168.9.9: the provided network \
              does not match the current range"
            ]
        );
        assert_eq!(
            refused("nonsense"),
            [
                "spec.clusterIPs[0]: Invalid value: \"nonsense\": must be a valid IP address, (e.g. 10.9.8.7 or \
              2001:db8::ffff)"
            ]
        );
        assert_eq!(
            harness.errors(&service("{type: NodePort, ports: [{port: 80, nodePort: 1}]}")),
            [
                "spec.ports[0].nodePort: Invalid value: 1: provided port is not in the valid range. The range of valid ports \
              is 30000-32767"
            ]
        );
    }

    #[test]
    fn several_ports_have_names() {
        assert_eq!(
            Harness::new().errors(&service("{ports: [{port: 80}, {port: 81, name: b}]}")),
            ["spec.ports[0].name: Required value"]
        );
    }

    #[test]
    fn the_address_stays() {
        // A generated address could be the requested one.
        let front = service("{clusterIP: 10.0.0.98, ports: [{port: 80}]}");
        let errors = Harness::new().update_errors(&front, &service("{clusterIP: 10.0.0.99, ports: [{port: 80}]}"));
        assert_eq!(
            errors,
            [r#"spec.clusterIPs[0]: Invalid value: ["10.0.0.99"]: may not change once set"#]
        );
        let named = |ip: &str, ips: &str| {
            service(&format!(
                "{{clusterIP: {ip}, clusterIPs: [{ips}], ports: [{{port: 80}}]}}"
            ))
        };
        let harness = Harness::new();
        assert_eq!(
            harness.update_errors(&named("10.0.0.98", "10.0.0.98"), &named("10.0.0.99", "10.0.0.98")),
            [r#"spec.clusterIPs[0]: Invalid value: ["10.0.0.99"]: may not change once set"#]
        );
        // The format of addresses is validated before their changes.
        assert_eq!(
            harness.update_errors(&named("10.0.0.97", "10.0.0.97"), &named("x", "10.0.0.97")),
            ["spec.clusterIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
        );
    }
}
