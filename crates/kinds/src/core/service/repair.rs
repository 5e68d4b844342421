//! Repair of the stored addresses and ports of Services, as by kube-apiserver's repair controllers: addresses that are
//! missing, wrong or without a Service, ports that are not allocated in the bitmap or that no Service has.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use holdfast_gotext::cidr::Cidr;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::{Claim, ClaimProblem, ClaimRepair};
use holdfast_schema::Field;
use holdfast_value::Value;

use super::allocation::{held, port_number};
use super::claims::{Bits, FAMILY, MANAGED_BY, MANAGER, family_of, is_of, key_of, object};
use super::{is_external, texts_at};

/// Grace period for an address without its Service, which other servers write after it.
const GRACE: Duration = Duration::from_secs(60);
/// Time in which an address that is newer than its Service may belong to a write that is rolled back.
const TAKEN_BACK: Duration = Duration::from_secs(5);
/// Number of consecutive checks after which a port without a Service is released, since its Service may still be
/// written.
const LOOKS: u32 = 3;

/// Ports that no Service has, with the number of checks that found them so.
pub(super) type Leaks = BTreeMap<usize, u32>;

/// Namespace and name of an object.
type NamespacedName<'v> = (&'v str, &'v str);

fn place(object: &Value) -> NamespacedName<'_> {
    let text = |field| object.str_at(&["metadata", field]).unwrap_or_default();
    (text("namespace"), text("name"))
}

fn parent(address: &Value) -> NamespacedName<'_> {
    let text = |field| address.str_at(&["spec", "parentRef", field]).unwrap_or_default();
    (text("namespace"), text("name"))
}

/// Returns true if the parent of an address is a Service.
fn names_service(address: &Value) -> bool {
    let text = |field| address.str_at(&["spec", "parentRef", field]).unwrap_or_default();
    text("group").is_empty() && text("resource") == "services"
}

/// Action of events about the addresses of Services.
const CLUSTER_IP: &str = "ClusterIPAllocation";
/// Action of events about IPAddresses.
const IP_ADDRESS: &str = "IPAddressAllocation";
/// Action of events about ports.
const PORT: &str = "PortAllocation";

/// Returns the writes that repair the IPAddresses `there` of `services`, for addresses in `blocks`. An IPAddress that
/// must be recreated is deleted first, and the next repair creates it.
///
/// upstream: pkg/registry/core/service/ipallocator/controller#RepairIPAddress.syncService
pub(super) fn addresses(services: &[Value], there: &[Value], blocks: &[Cidr], now: SystemTime) -> ClaimRepair {
    let by_name: HashMap<NamespacedName<'_>, &Value> =
        services.iter().map(|service| (place(service), service)).collect();
    let by_address: HashMap<&str, &Value> = there.iter().map(|address| (place(address).1, address)).collect();
    let mut repair = ClaimRepair::default();
    let mut named = HashSet::new();
    for service in services {
        let held: BTreeSet<IpAddr> = held(service).0.into_iter().collect();
        for address in held {
            let state = match by_address.get(address.to_string().as_str()) {
                _ if !blocks.iter().any(|block| block.contains(address)) => AddressState::OutOfRange,
                None => AddressState::Missing,
                Some(there) => state_of(there, address, service, &by_name),
            };
            repair.problems.extend(state.problem(address, service));
            let key = key_of(address);
            if state.needs_write() && named.insert(key.clone()) {
                let is_new = state == AddressState::Missing;
                repair.claims.push(Claim {
                    object: is_new.then(|| object(address, service, now)),
                    key,
                    is_new,
                });
            }
        }
    }
    for address in there {
        let Some(message) = orphan_message(address, &by_name, now) else {
            continue;
        };
        let key = format!("/registry/ipaddresses/{}", place(address).1);
        if named.insert(key.clone()) {
            repair.claims.push(Claim {
                key,
                object: None,
                is_new: false,
            });
            repair.problems.push(ClaimProblem {
                object: address.clone(),
                is_of_port: false,
                reason: message.reason,
                action: IP_ADDRESS,
                message: message.text,
            });
        }
    }
    repair
}

/// State of an address that a Service has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressState {
    /// Its IPAddress is correct.
    Right,
    /// No ServiceCIDR contains it.
    OutOfRange,
    /// It has no IPAddress.
    Missing,
    /// Its IPAddress refers to no existing Service.
    WrongReference,
    /// Its IPAddress belongs to another Service that has the address, too. Only people can resolve that.
    OfAnother,
    /// Its IPAddress lacks labels.
    WrongLabels,
}

impl AddressState {
    fn needs_write(self) -> bool {
        matches!(self, Self::Missing | Self::WrongReference | Self::WrongLabels)
    }

    fn problem(self, address: IpAddr, service: &Value) -> Option<ClaimProblem> {
        let family = family_of(address);
        let (reason, message) = match self {
            Self::Right | Self::WrongLabels => return None,
            Self::OutOfRange => (
                "ClusterIPOutOfRange",
                format!(
                    "Cluster IP [{family}]: {address} is not within any configured Service CIDR; please recreate service"
                ),
            ),
            Self::Missing => (
                "ClusterIPNotAllocated",
                format!("Cluster IP [{family}]: {address} is not allocated; repairing"),
            ),
            Self::WrongReference => {
                let (namespace, name) = place(service);
                let message = format!(
                    "the ClusterIP [{family}]: {address} for Service {namespace}/{name} has a wrong reference; repairing"
                );
                ("ClusterIPNotAllocated", message)
            }
            Self::OfAnother => (
                "ClusterIPAlreadyAllocated",
                format!("Cluster IP [{family}]:{address} was assigned to multiple services; please recreate service"),
            ),
        };
        Some(ClaimProblem {
            object: service.clone(),
            is_of_port: false,
            reason,
            action: CLUSTER_IP,
            message,
        })
    }
}

/// Returns the state of an address that a Service has, by its IPAddress `there`.
fn state_of(
    there: &Value,
    address: IpAddr,
    service: &Value,
    services: &HashMap<NamespacedName<'_>, &Value>,
) -> AddressState {
    if !names_service(there) {
        return AddressState::WrongReference;
    }
    if !is_of(there, service) {
        match services.get(&parent(there)) {
            None => return AddressState::WrongReference,
            Some(other) if lists_address(other, place(there).1) => return AddressState::OfAnother,
            Some(_) => {}
        }
    }
    let label = |name| there.str_at(&["metadata", "labels", name]);
    let is_labelled = label(FAMILY) == Some(family_of(address)) && label(MANAGED_BY) == Some(MANAGER);
    match is_labelled {
        true => AddressState::Right,
        false => AddressState::WrongLabels,
    }
}

/// Returns true if an address is one of a Service's `clusterIPs`.
fn lists_address(service: &Value, address: &str) -> bool {
    texts_at(service, "clusterIPs").iter().any(|listed| listed == address)
}

/// Reason and message of an event.
struct Message {
    reason: &'static str,
    text: String,
}

/// Returns the message about an IPAddress that was created for a Service that no longer has it; `None` if it is no
/// orphan.
///
/// upstream: pkg/registry/core/service/ipallocator/controller#RepairIPAddress.syncIPAddress
fn orphan_message(address: &Value, services: &HashMap<NamespacedName<'_>, &Value>, now: SystemTime) -> Option<Message> {
    if address.str_at(&["metadata", "labels", MANAGED_BY]) != Some(MANAGER) {
        return None;
    }
    let (_, name) = place(address);
    let (parent_namespace, parent_name) = parent(address);
    if !names_service(address) {
        let field = |field| address.str_at(&["spec", "parentRef", field]).unwrap_or_default();
        let text = format!(
            "IPAddress {name} appears to have been modified, not referencing a Service \
             &ParentReference{{Group:{},Resource:{},Namespace:{parent_namespace},Name:{parent_name},}}: cleaning up",
            field("group"),
            field("resource"),
        );
        return Some(Message {
            reason: "IPAddressNotAllocated",
            text,
        });
    }
    let age = age(address, now);
    let Some(service) = services.get(&parent(address)) else {
        let text = format!(
            "IPAddress: {name} for Service {parent_namespace}/{parent_name} appears to have leaked: cleaning up"
        );
        return (age > GRACE).then_some(Message {
            reason: "IPAddressNotAllocated",
            text,
        });
    };
    let is_recent = created(address) > created(service) && age < TAKEN_BACK;
    if lists_address(service, name) || is_external(service) && age < GRACE || is_recent {
        return None;
    }
    Some(Message {
        reason: "IPAddressWrongReference",
        text: format!(
            "IPAddress: {name} for Service {parent_namespace}/{parent_name} has a wrong reference; cleaning up"
        ),
    })
}

fn created(object: &Value) -> Option<i64> {
    let text = object.str_at(&["metadata", "creationTimestamp"])?;
    Timestamp::parse(text, Precision::Seconds).ok().map(|time| time.seconds)
}

fn age(object: &Value, now: SystemTime) -> Duration {
    let now = Timestamp::from(now).seconds;
    let age = now.saturating_sub(created(object).unwrap_or(0));
    Duration::from_secs(u64::try_from(age).unwrap_or(0))
}

/// Returns the correct bitmap of ports: those of `services`, and those without a Service that a running write may still
/// claim. `offset` returns the index of a port in the bitmap.
pub(super) fn ports(
    services: &[Value],
    stored: &Bits,
    leaks: &mut Leaks,
    offset: impl Fn(u16) -> Option<usize>,
) -> Bits {
    let mut right = Bits::default();
    for at in services.iter().flat_map(|service| held(service).1).filter_map(offset) {
        right.set(at, true);
        leaks.remove(&at);
    }
    leaks.retain(|at, _| stored.has(*at));
    let unheld: Vec<usize> = stored.iter().filter(|at| !right.has(*at)).collect();
    for at in unheld {
        let looks = leaks.entry(at).or_default();
        *looks += 1;
        if *looks < LOOKS {
            right.set(at, true);
        } else {
            leaks.remove(&at);
        }
    }
    right
}

/// Returns the problems with the ports of `services`: outside of `range`, held by several, or not in the bitmap, if there
/// is one. `offset` returns the index of a port in the bitmap.
///
/// upstream: pkg/registry/core/service/portallocator/controller#Repair.doRunOnce
pub(super) fn port_problems(
    services: &[Value],
    stored: Option<&Bits>,
    range: &str,
    offset: impl Fn(u16) -> Option<usize>,
) -> Vec<ClaimProblem> {
    let mut seen = HashSet::new();
    let mut problems = Vec::new();
    for service in services {
        for port in node_ports(service) {
            let (reason, message) = match offset(port) {
                None => (
                    "PortOutOfRange",
                    format!("Port {port} is not within the port range {range}; please recreate service"),
                ),
                Some(_) if !seen.insert(port) => (
                    "PortAlreadyAllocated",
                    format!("Port {port} was assigned to multiple services; please recreate service"),
                ),
                Some(at) if stored.is_some_and(|stored| !stored.has(at)) => {
                    ("PortNotAllocated", format!("Port {port} is not allocated; repairing"))
                }
                Some(_) => continue,
            };
            problems.push(ClaimProblem {
                object: service.clone(),
                is_of_port: true,
                reason,
                action: PORT,
                message,
            });
        }
    }
    problems
}

/// Returns the node ports of a Service: one that several protocols use once, one that a protocol uses twice twice.
///
/// upstream: pkg/registry/core/service/portallocator/controller#collectServiceNodePorts
fn node_ports(service: &Value) -> Vec<u16> {
    let root = Field::root(service);
    let spec = root.child("spec");
    let mut protocols: BTreeMap<u16, BTreeSet<String>> = BTreeMap::new();
    let mut ports = Vec::new();
    for item in spec.child("ports").items() {
        let Some(port) = port_number(&item.child("nodePort")) else {
            continue;
        };
        let known = protocols.entry(port).or_default();
        let protocol = item.child("protocol").text().to_owned();
        if known.is_empty() || known.contains(&protocol) {
            ports.push(port);
        }
        known.insert(protocol);
    }
    if let Some(port) = port_number(&spec.child("healthCheckNodePort"))
        && protocols.get(&port).is_none_or(|known| known.contains("TCP"))
    {
        ports.push(port);
    }
    ports
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use holdfast_value::{Limits, json, yaml};

    use super::*;

    const NOON: &str = "2026-01-01T12:00:00Z";

    fn at(seconds: i64) -> SystemTime {
        let noon = Timestamp::parse(NOON, Precision::Seconds).unwrap();
        SystemTime::UNIX_EPOCH + Duration::from_secs((noon.seconds + seconds).try_into().unwrap())
    }

    fn service(name: &str, type_name: &str, ip: &str) -> Value {
        let text = format!(
            "{{metadata: {{name: {name}, namespace: a, uid: 8502290d-313d-466b-b47f-2b3a8095b710, creationTimestamp: '{NOON}'}}, \
             spec: {{type: {type_name}, clusterIP: {ip}, clusterIPs: [{ip}], ports: [{{port: 80, nodePort: 30001}}]}}}}"
        );
        yaml::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    fn address(ip: &str, service: &Value) -> Value {
        let text = object(ip.parse().unwrap(), service, at(0));
        json::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    fn mends(services: &[Value], there: &[Value], seconds: i64) -> Vec<(String, bool)> {
        let block = Cidr::read("10.0.0.0/16").unwrap();
        let repair = addresses(services, there, &[block], at(seconds));
        repair
            .claims
            .into_iter()
            .map(|claim| (claim.key.replace("/registry/ipaddresses/", ""), claim.object.is_some()))
            .collect()
    }

    fn made(ip: &str) -> Vec<(String, bool)> {
        vec![(ip.to_owned(), true)]
    }

    fn removed(ip: &str) -> Vec<(String, bool)> {
        vec![(ip.to_owned(), false)]
    }

    #[test]
    fn each_address_of_a_service_has_its_object() {
        let web = service("web", "ClusterIP", "10.0.0.5");
        assert_eq!(mends(std::slice::from_ref(&web), &[], 0), made("10.0.0.5"));
        assert_eq!(mends(std::slice::from_ref(&web), &[address("10.0.0.5", &web)], 99), []);
        // An address outside the block, and a Service without an address.
        assert_eq!(
            mends(&[service("far", "ClusterIP", "10.9.0.5")], &[], 0),
            made("10.9.0.5")[1..]
        );
        assert_eq!(mends(&[service("headless", "ClusterIP", "None")], &[], 0), []);
    }

    #[test]
    fn an_object_with_a_wrong_reference_or_label_is_made_anew() {
        let (web, gone) = (
            service("web", "ClusterIP", "10.0.0.5"),
            service("gone", "ClusterIP", "10.0.0.5"),
        );
        let services = std::slice::from_ref(&web);
        assert_eq!(mends(services, &[address("10.0.0.5", &gone)], 0), removed("10.0.0.5"));
        let mut foreign = address("10.0.0.5", &web);
        foreign.set_at(&["spec", "parentRef", "resource"], "gateways".into());
        assert_eq!(mends(services, &[foreign], 0), removed("10.0.0.5"));
        let mut unlabelled = address("10.0.0.5", &web);
        unlabelled.remove_at(&["metadata", "labels", FAMILY]);
        assert_eq!(mends(services, &[unlabelled], 0), removed("10.0.0.5"));
        // Two Services with the same address cannot be distinguished: the first one keeps it.
        let other = service("other", "ClusterIP", "10.0.0.5");
        assert_eq!(mends(&[web.clone(), other], &[address("10.0.0.5", &web)], 99), []);
    }

    #[test]
    fn orphaned_address_is_removed_after_grace_period() {
        let web = service("web", "ClusterIP", "10.0.0.5");
        let leaked = [address("10.0.0.5", &web)];
        assert_eq!(mends(&[], &leaked, 60), []);
        assert_eq!(mends(&[], &leaked, 61), removed("10.0.0.5"));
        // Addresses of other managers are left unchanged.
        let mut theirs = leaked[0].clone();
        theirs.set_at(&["metadata", "labels", MANAGED_BY], "me".into());
        assert_eq!(mends(&[], &[theirs], 99), []);
        let external = service("web", "ExternalName", "''");
        assert_eq!(mends(std::slice::from_ref(&external), &leaked, 59), []);
        assert_eq!(mends(&[external], &leaked, 60), removed("10.0.0.5"));
        let moved = service("web", "ClusterIP", "10.0.0.6");
        let there = [address("10.0.0.5", &moved), address("10.0.0.6", &moved)];
        assert_eq!(mends(&[moved], &there, 5), removed("10.0.0.5"));
    }

    fn reports(services: &[Value], there: &[Value], seconds: i64) -> Vec<(&'static str, String)> {
        let block = Cidr::read("10.0.0.0/16").unwrap();
        let problems = addresses(services, there, &[block], at(seconds)).problems;
        problems
            .into_iter()
            .map(|problem| (problem.reason, problem.message))
            .collect()
    }

    #[test]
    fn address_problems_have_the_reference_messages() {
        let web = service("web", "ClusterIP", "10.0.0.5");
        let services = std::slice::from_ref(&web);
        let right = address("10.0.0.5", &web);
        assert_eq!(reports(services, std::slice::from_ref(&right), 99), []);
        let missing = "Cluster IP [IPv4]: 10.0.0.5 is not allocated; repairing";
        assert_eq!(
            reports(services, &[], 0),
            [("ClusterIPNotAllocated", missing.to_owned())]
        );
        let far = "Cluster IP [IPv4]: 10.9.0.5 is not within any configured Service CIDR; please recreate service";
        assert_eq!(
            reports(&[service("far", "ClusterIP", "10.9.0.5")], &[], 0),
            [("ClusterIPOutOfRange", far.to_owned())]
        );
        let other = service("other", "ClusterIP", "10.0.0.5");
        let twice = "Cluster IP [IPv4]:10.0.0.5 was assigned to multiple services; please recreate service";
        assert_eq!(
            reports(&[web.clone(), other.clone()], std::slice::from_ref(&right), 99),
            [("ClusterIPAlreadyAllocated", twice.to_owned())]
        );
        let wrong = "the ClusterIP [IPv4]: 10.0.0.5 for Service a/web has a wrong reference; repairing";
        assert_eq!(
            reports(services, &[address("10.0.0.5", &other)], 0),
            [("ClusterIPNotAllocated", wrong.to_owned())]
        );
    }

    #[test]
    fn orphan_problems_have_the_reference_messages() {
        let web = service("web", "ClusterIP", "10.0.0.5");
        let leaked = "IPAddress: 10.0.0.5 for Service a/web appears to have leaked: cleaning up";
        let right = address("10.0.0.5", &web);
        assert_eq!(
            reports(&[], std::slice::from_ref(&right), 61),
            [("IPAddressNotAllocated", leaked.to_owned())]
        );
        let mut modified = right.clone();
        modified.set_at(&["spec", "parentRef", "resource"], "gateways".into());
        let text = "IPAddress 10.0.0.5 appears to have been modified, not referencing a Service \
                    &ParentReference{Group:,Resource:gateways,Namespace:a,Name:web,}: cleaning up";
        assert_eq!(
            reports(&[], &[modified], 0),
            [("IPAddressNotAllocated", text.to_owned())]
        );
        let moved = service("web", "ClusterIP", "10.0.0.6");
        let there = [right, address("10.0.0.6", &moved)];
        let text = "IPAddress: 10.0.0.5 for Service a/web has a wrong reference; cleaning up";
        assert_eq!(
            reports(&[moved], &there, 5),
            [("IPAddressWrongReference", text.to_owned())]
        );
    }

    #[test]
    fn port_problems_have_the_reference_messages() {
        let offset = |port: u16| port.checked_sub(30000).map(usize::from);
        let both = ["web", "other"].map(|name| service(name, "NodePort", "10.0.0.5"));
        let reports = |services: &[Value], stored: Option<&Bits>| -> Vec<(&'static str, String)> {
            port_problems(services, stored, "30000-32767", offset)
                .into_iter()
                .map(|problem| (problem.reason, problem.message))
                .collect()
        };
        let twice = "Port 30001 was assigned to multiple services; please recreate service".to_owned();
        assert_eq!(reports(&both, None), [("PortAlreadyAllocated", twice)]);
        let unmarked = "Port 30001 is not allocated; repairing".to_owned();
        assert_eq!(
            reports(&both[..1], Some(&Bits::default())),
            [("PortNotAllocated", unmarked)]
        );
        let mut outside = both[0].clone();
        let port = yaml::parse(b"[{port: 80, nodePort: 80}]", &Limits::default()).unwrap();
        outside.set_at(&["spec", "ports"], port);
        let text = "Port 80 is not within the port range 30000-32767; please recreate service".to_owned();
        assert_eq!(reports(&[outside], None), [("PortOutOfRange", text)]);
    }

    #[test]
    fn node_port_counts_once_for_each_protocol() {
        let text = b"{spec: {type: NodePort, healthCheckNodePort: 30009, ports: [{nodePort: 30001, protocol: TCP}, \
            {nodePort: 30001, protocol: UDP}, {nodePort: 30001, protocol: UDP}, {nodePort: 30009, protocol: UDP}, {}]}}";
        let service = yaml::parse(text, &Limits::default()).unwrap();
        assert_eq!(node_ports(&service), [30001, 30001, 30009]);
    }

    #[test]
    fn a_port_without_a_service_is_freed_at_the_third_look() {
        let offset = |port: u16| port.checked_sub(30000).map(usize::from);
        let mut stored = Bits::default();
        stored.set(7, true);
        let mut leaks = Leaks::new();
        let node_port = [service("web", "NodePort", "10.0.0.5")];
        for look in 1..=3 {
            let right = ports(&node_port, &stored, &mut leaks, offset);
            assert!(right.has(1), "a port that was not marked");
            assert_eq!(right.has(7), look < 3, "{look}");
        }
        // The count of a port that was allocated meanwhile restarts.
        let right = ports(&[], &stored, &mut leaks, offset);
        assert!(right.has(7));
        stored.set(7, false);
        ports(&[], &stored, &mut leaks, offset);
        assert!(leaks.is_empty());
    }
}
