//! Repair of the stored addresses and ports of Services, as by kube-apiserver's repair controllers: addresses that are
//! missing, wrong or without a Service, ports that are not allocated in the bitmap or that no Service has.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use holdfast_gotext::cidr::Cidr;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::Claim;
use holdfast_value::Value;

use super::allocation::held;
use super::claims::{Bits, FAMILY, MANAGED_BY, MANAGER, family_of, is_of, key_of, object};
use super::is_external;

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

/// Returns the claims that repair the IPAddresses `there` of `services`, for addresses in `blocks`. An IPAddress that
/// must be recreated is deleted first, and the next repair creates it.
pub(super) fn addresses(services: &[Value], there: &[Value], blocks: &[Cidr], now: SystemTime) -> Vec<Claim> {
    let by_name: HashMap<NamespacedName<'_>, &Value> =
        services.iter().map(|service| (place(service), service)).collect();
    let by_address: HashMap<&str, &Value> = there.iter().map(|address| (place(address).1, address)).collect();
    let mut claims = Vec::new();
    let mut named = HashSet::new();
    for service in services {
        let held: BTreeSet<IpAddr> = held(service).0.into_iter().collect();
        for address in held
            .into_iter()
            .filter(|address| blocks.iter().any(|block| block.contains(*address)))
        {
            let key = key_of(address);
            let is_new = match by_address.get(address.to_string().as_str()) {
                None => true,
                Some(there) if is_right(there, address, service, &by_name) => continue,
                Some(_) => false,
            };
            if named.insert(key.clone()) {
                claims.push(Claim {
                    object: is_new.then(|| object(address, service, now)),
                    key,
                    is_new,
                });
            }
        }
    }
    for address in there.iter().filter(|address| is_orphan(address, &by_name, now)) {
        let key = format!("/registry/ipaddresses/{}", place(address).1);
        if named.insert(key.clone()) {
            claims.push(Claim {
                key,
                object: None,
                is_new: false,
            });
        }
    }
    claims
}

/// Returns true if an IPAddress is correct for a Service that has the address. It is also correct if it belongs to
/// another existing Service: only people can resolve that conflict.
fn is_right(there: &Value, address: IpAddr, service: &Value, services: &HashMap<NamespacedName<'_>, &Value>) -> bool {
    if !names_service(there) || !is_of(there, service) && !services.contains_key(&parent(there)) {
        return false;
    }
    let label = |name| there.str_at(&["metadata", "labels", name]);
    label(FAMILY) == Some(family_of(address)) && label(MANAGED_BY) == Some(MANAGER)
}

/// Returns true if an address was created for a Service that no longer has it.
fn is_orphan(address: &Value, services: &HashMap<NamespacedName<'_>, &Value>, now: SystemTime) -> bool {
    if address.str_at(&["metadata", "labels", MANAGED_BY]) != Some(MANAGER) {
        return false;
    }
    if !names_service(address) {
        return true;
    }
    let age = age(address, now);
    let Some(service) = services.get(&parent(address)) else {
        return age > GRACE;
    };
    let (_, name) = place(address);
    let listed = service.at(&["spec", "clusterIPs"]).and_then(Value::as_list);
    if listed.is_some_and(|listed| listed.iter().any(|one| one.as_str() == Some(name))) {
        return false;
    }
    if is_external(service) && age < GRACE {
        return false;
    }
    let made = |object: &Value| created(object);
    !(made(address) > made(service) && age < TAKEN_BACK)
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
        let claims = addresses(services, there, &[block], at(seconds));
        claims
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
