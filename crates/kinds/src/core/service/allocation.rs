//! Which addresses and ports are taken.
//!
//! What a Service holds is taken from the moment a write reserves it until the Service is gone. A reservation becomes
//! lasting when the write is stored, and is given back when it is not.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast_resource::{Field, FieldError, FieldPath, Refusal};
use holdfast_value::Value;

use super::{needs_health_check, sort_of, takes_cluster_ip, takes_node_ports};
use crate::config::Config;
use crate::defaults::is_zero;
use crate::validation::addresses::Block;

/// The addresses and ports of all Services.
pub(super) struct Allocations {
    block: Block,
    ports: RangeInclusive<u16>,
    random: fn() -> u64,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    addresses: HashMap<IpAddr, Hold>,
    ports: HashMap<u16, Hold>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// By a write whose outcome is not known.
    Reserved,
    /// By a stored Service.
    Stored,
}

/// What one write has reserved.
#[derive(Clone, Copy)]
pub(super) enum Reservation {
    Address(IpAddr),
    Port(u16),
}

/// The start of a range is left for clients that ask for a certain address or port, as long as others are free: how much of
/// it, at least and at most, and the part of the whole.
#[derive(Clone, Copy)]
struct Band {
    least: u128,
    most: u128,
    part: u128,
}

const ADDRESSES: Band = Band {
    least: 16,
    most: 256,
    part: 16,
};
const PORTS: Band = Band {
    least: 16,
    most: 128,
    part: 32,
};

impl Band {
    /// How much of a range of `size` is left: nothing of a small one.
    fn of(self, size: u128) -> u128 {
        if size <= self.least {
            return 0;
        }
        (size / self.part).clamp(self.least, self.most)
    }
}

/// All places from `from` to before `to`, beginning at a random one.
fn around(from: u128, to: u128, random: u64) -> impl Iterator<Item = u128> {
    let size = to.saturating_sub(from);
    let start = u128::from(random) % size.max(1);
    (0..size).map(move |step| from + (start + step) % size)
}

impl Allocations {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            block: config.service_cidr,
            ports: config.node_ports.clone(),
            random: config.random,
            taken: Mutex::default(),
        }
    }

    pub(super) fn is_ipv4(&self) -> bool {
        self.block.is_ipv4()
    }

    /// Gives `object` the addresses and ports that it needs and lacks, and reserves those that it asks for and did not
    /// have. On failure nothing stays reserved.
    pub(super) fn allocate(&self, object: &mut Value, old: Option<&Value>) -> Result<Vec<Reservation>, Refusal> {
        let mut made = Vec::new();
        let result = self
            .allocate_address(object, old, &mut made)
            .and_then(|()| self.allocate_ports(object, old, &mut made));
        match result {
            Ok(()) => Ok(made),
            Err(refusal) => {
                self.settle(&made, false);
                Err(refusal)
            }
        }
    }

    /// Makes reservations lasting, or gives them back.
    pub(super) fn settle(&self, reservations: &[Reservation], stored: bool) {
        let mut taken = self.taken();
        for reservation in reservations {
            match reservation {
                Reservation::Address(address) => settle_one(&mut taken.addresses, address, stored),
                Reservation::Port(port) => settle_one(&mut taken.ports, port, stored),
            }
        }
    }

    /// Follows the stored Services.
    pub(super) fn observe(&self, old: Option<&Value>, new: Option<&Value>) {
        let mut taken = self.taken();
        let (addresses, ports) = new.map(held).unwrap_or_default();
        let (old_addresses, old_ports) = old.map(held).unwrap_or_default();
        for address in old_addresses.iter().filter(|address| !addresses.contains(address)) {
            taken.addresses.remove(address);
        }
        for port in old_ports.iter().filter(|port| !ports.contains(port)) {
            taken.ports.remove(port);
        }
        taken
            .addresses
            .extend(addresses.into_iter().map(|address| (address, Hold::Stored)));
        taken.ports.extend(ports.into_iter().map(|port| (port, Hold::Stored)));
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allocate_address(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        made: &mut Vec<Reservation>,
    ) -> Result<(), Refusal> {
        if !takes_cluster_ip(sort_of(object)) {
            return Ok(());
        }
        let asked = object.str_at(&["spec", "clusterIP"]).unwrap_or_default();
        match asked {
            "None" => Ok(()),
            "" => {
                let address = self
                    .free_address()
                    .ok_or_else(|| Refusal::Internal("failed to allocate a serviceIP: range is full".to_owned()))?;
                made.push(Reservation::Address(address));
                let text = Value::from(address.to_string());
                object.set_at(&["spec", "clusterIP"], text.clone());
                object.set_at(&["spec", "clusterIPs"], vec![text].into());
                Ok(())
            }
            _ => {
                let Ok(address) = asked.parse::<IpAddr>() else {
                    return Ok(());
                };
                if old.is_some_and(|old| held(old).0.contains(&address)) {
                    return Ok(());
                }
                self.reserve_address(address)?;
                made.push(Reservation::Address(address));
                Ok(())
            }
        }
    }

    fn reserve_address(&self, address: IpAddr) -> Result<(), Refusal> {
        let fault = match self.block.offset(address) {
            None => "the provided network does not match the current range",
            Some(offset) if !self.usable(offset) => &format!(
                "the provided IP ({address}) is not in the valid range. The range of valid IPs is {}",
                self.block
            ),
            Some(_) => {
                let mut taken = self.taken();
                match taken.addresses.entry(address) {
                    Entry::Occupied(_) => "provided IP is already allocated",
                    Entry::Vacant(free) => {
                        free.insert(Hold::Reserved);
                        return Ok(());
                    }
                }
            }
        };
        let shown = Value::from(vec![address.to_string().into()]);
        let detail = format!("failed to allocate IP {address}: {fault}");
        let error = FieldError::invalid(&FieldPath::new("spec.clusterIPs"), shown, detail);
        Err(Refusal::Invalid(vec![error]))
    }

    /// The first address names the block, the second is the API server's own, and the last reaches all of them.
    fn usable(&self, offset: u128) -> bool {
        offset > 0 && (!self.is_ipv4() || offset + 1 < self.block.size())
    }

    fn free_address(&self) -> Option<IpAddr> {
        let mut taken = self.taken();
        // The first address names the block, the last of IPv4 reaches all of them.
        let end = self.block.size().saturating_sub(u128::from(self.is_ipv4()));
        let middle = ADDRESSES.of(self.block.size()).clamp(2, end.max(2));
        let random = (self.random)();
        // Of more addresses than are taken one is free, so the search ends.
        let enough = taken.addresses.len().saturating_add(1);
        let offsets = around(middle, end, random)
            .take(enough)
            .chain(around(2, middle.min(end), random));
        for offset in offsets {
            let address = self.block.nth(offset);
            if let Entry::Vacant(free) = taken.addresses.entry(address) {
                free.insert(Hold::Reserved);
                return Some(address);
            }
        }
        None
    }

    fn allocate_ports(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        made: &mut Vec<Reservation>,
    ) -> Result<(), Refusal> {
        let sort = sort_of(object);
        if !takes_node_ports(sort) {
            return Ok(());
        }
        let wanted = sort == "NodePort"
            || Field::root(object)
                .child("spec")
                .child("allocateLoadBalancerNodePorts")
                .is_true();
        let kept = old.map(|old| held(old).1).unwrap_or_default();
        let count = object
            .at(&["spec", "ports"])
            .and_then(Value::as_list)
            .map_or(0, |list| list.len());
        let place = FieldPath::new("spec.ports");
        let mut own: Vec<u16> = Vec::new();
        for index in 0..count {
            let port = object
                .at(&["spec", "ports"])
                .and_then(Value::as_list)
                .map(|list| &list[index]);
            let asked = port
                .and_then(|port| port.get("nodePort"))
                .and_then(Value::as_i64)
                .unwrap_or_default();
            if asked != 0 {
                let place = place.index(index).child("nodePort");
                // Two protocols of one Service may share a port.
                let known = u16::try_from(asked).is_ok_and(|port| own.contains(&port) || kept.contains(&port));
                if !known {
                    let port = self.reserve_port(asked, &place)?;
                    made.push(Reservation::Port(port));
                }
                own.extend(u16::try_from(asked));
            } else if wanted {
                let port = self.free_port()?;
                made.push(Reservation::Port(port));
                own.push(port);
                set_node_port(object, index, port);
            }
        }
        if needs_health_check(object) {
            let asked = object.at(&["spec", "healthCheckNodePort"]);
            if is_zero(asked) {
                let port = self.free_port()?;
                made.push(Reservation::Port(port));
                object.set_at(&["spec", "healthCheckNodePort"], i64::from(port).into());
            } else if let Some(number) = asked.and_then(Value::as_i64) {
                let known = u16::try_from(number).is_ok_and(|port| kept.contains(&port));
                if !known {
                    let port = self.reserve_port(number, &FieldPath::new("spec.healthCheckNodePort"))?;
                    made.push(Reservation::Port(port));
                }
            }
        }
        Ok(())
    }

    fn reserve_port(&self, number: i64, place: &FieldPath) -> Result<u16, Refusal> {
        let refuse = |fault: String| Refusal::Invalid(vec![FieldError::invalid(place, number, fault)]);
        let port = u16::try_from(number).ok().filter(|port| self.ports.contains(port));
        let Some(port) = port else {
            let (first, last) = (self.ports.start(), self.ports.end());
            return Err(refuse(format!(
                "provided port is not in the valid range. The range of valid ports is {first}-{last}"
            )));
        };
        let mut taken = self.taken();
        if taken.ports.contains_key(&port) {
            return Err(refuse("provided port is already allocated".to_owned()));
        }
        taken.ports.insert(port, Hold::Reserved);
        Ok(port)
    }

    fn free_port(&self) -> Result<u16, Refusal> {
        let mut taken = self.taken();
        let size = self.ports.len() as u128;
        let middle = PORTS.of(size).min(size);
        let random = (self.random)();
        let mut ports = around(middle, size, random)
            .chain(around(0, middle, random))
            .filter_map(|offset| self.ports.start().checked_add(u16::try_from(offset).ok()?));
        let free = ports.find(|port| !taken.ports.contains_key(port));
        drop(ports);
        let port = free.ok_or_else(|| Refusal::Internal("failed to allocate a nodePort: range is full".to_owned()))?;
        taken.ports.insert(port, Hold::Reserved);
        Ok(port)
    }
}

fn settle_one<K: std::hash::Hash + Eq>(holds: &mut HashMap<K, Hold>, key: &K, stored: bool) {
    match holds.get_mut(key) {
        Some(hold) if stored => *hold = Hold::Stored,
        Some(Hold::Reserved) => {
            holds.remove(key);
        }
        _ => {}
    }
}

fn set_node_port(object: &mut Value, index: usize, port: u16) {
    let list = object.at_mut(&["spec", "ports"]).and_then(Value::as_list_mut);
    if let Some(item) = list.and_then(|list| list.make_mut().get_mut(index)) {
        item.set_at(&["nodePort"], i64::from(port).into());
    }
}

/// The addresses and ports that a Service holds.
fn held(service: &Value) -> (Vec<IpAddr>, Vec<u16>) {
    let root = Field::root(service);
    let spec = root.child("spec");
    let mut addresses = Vec::new();
    let mut ports = Vec::new();
    if takes_cluster_ip(sort_of(service)) {
        let list = spec.child("clusterIPs");
        let texts = list
            .slice()
            .iter()
            .filter_map(Value::as_str)
            .chain([spec.child("clusterIP").text()]);
        addresses.extend(texts.filter_map(|text| text.parse::<IpAddr>().ok()));
    }
    if takes_node_ports(sort_of(service)) {
        let list = spec.child("ports");
        let numbers = list.items().filter_map(|port| port.child("nodePort").number());
        let check = spec.child("healthCheckNodePort").number();
        let in_range = |number: i64| u16::try_from(number).ok().filter(|port| *port != 0);
        ports.extend(numbers.chain(check).filter_map(in_range));
    }
    (addresses, ports)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn service(sort: &str, ip: &str) -> Value {
        let mut object = Value::empty_map();
        object.set_at(&["spec", "type"], sort.into());
        if !ip.is_empty() {
            object.set_at(&["spec", "clusterIP"], ip.into());
        }
        let mut port = Value::empty_map();
        port.set_at(&["port"], 80.into());
        object.set_at(&["spec", "ports"], vec![port].into());
        object
    }

    fn allocations() -> Allocations {
        Allocations::new(&Config {
            service_cidr: Block::read("10.9.8.0/29").unwrap(),
            node_ports: 30000..=30001,
            ..Config::default()
        })
    }

    #[test]
    fn what_a_failed_write_took_is_free_again() {
        let allocations = allocations();
        let mut wanted = service("ClusterIP", "10.9.8.3");
        let taken = allocations.allocate(&mut wanted, None).unwrap();
        let again = allocations.allocate(&mut service("ClusterIP", "10.9.8.3"), None);
        let Err(Refusal::Invalid(errors)) = again else {
            unreachable!()
        };
        assert_eq!(
            errors[0].to_string(),
            "spec.clusterIPs: Invalid value: [\"10.9.8.3\"]: failed to allocate IP 10.9.8.3: provided IP is already \
             allocated"
        );
        allocations.settle(&taken, false);
        assert!(
            allocations
                .allocate(&mut service("ClusterIP", "10.9.8.3"), None)
                .is_ok()
        );
    }

    #[test]
    fn every_address_is_given_once_and_then_none() {
        let allocations = allocations();
        let mut seen = std::collections::HashSet::new();
        loop {
            let mut object = service("ClusterIP", "");
            match allocations.allocate(&mut object, None) {
                Ok(_) => assert!(seen.insert(object.str_at(&["spec", "clusterIP"]).unwrap().to_owned())),
                Err(Refusal::Internal(text)) => {
                    assert!(text.ends_with("range is full"));
                    break;
                }
                Err(_) => unreachable!(),
            }
        }
        // Of eight addresses: not the first, the API server's, and the last.
        assert_eq!(seen.len(), 5);
    }

    #[test]
    fn addresses_and_ports_are_drawn_from_the_upper_band_first() {
        let allocations = Allocations::new(&Config {
            service_cidr: Block::read("10.9.8.0/24").unwrap(),
            random: || 1000,
            ..Config::default()
        });
        let mut object = service("NodePort", "");
        allocations.allocate(&mut object, None).unwrap();
        // 16 addresses of 256 and 86 ports of 2768 are left to those who ask for them.
        assert_eq!(object.str_at(&["spec", "clusterIP"]), Some("10.9.8.60"));
        let port = object.at(&["spec", "ports"]).and_then(Value::as_list).unwrap()[0].get("nodePort");
        assert_eq!(port.and_then(Value::as_i64), Some(30000 + 86 + 1000));
        let mut upper = around(16, 255, 1000).collect::<Vec<_>>();
        upper.sort_unstable();
        assert!(upper.into_iter().eq(16..255));
        assert_eq!((PORTS.of(16), PORTS.of(100), PORTS.of(10_000)), (0, 16, 128));
    }

    #[test]
    fn a_stored_service_holds_its_ports_until_it_is_gone() {
        let allocations = allocations();
        let mut first = service("NodePort", "");
        let taken = allocations.allocate(&mut first, None).unwrap();
        allocations.observe(None, Some(&first));
        allocations.settle(&taken, true);
        let mut second = service("NodePort", "");
        allocations.allocate(&mut second, None).unwrap();
        assert_ne!(first.at(&["spec", "ports"]), second.at(&["spec", "ports"]));
        assert!(allocations.allocate(&mut service("NodePort", ""), None).is_err());
        allocations.observe(Some(&first), None);
        assert!(allocations.allocate(&mut service("NodePort", ""), None).is_ok());
    }
}
