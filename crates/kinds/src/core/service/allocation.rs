//! Which addresses and ports are taken.
//!
//! What a Service holds is taken from the moment a write reserves it until the Service is gone. A reservation becomes
//! lasting when the write is stored, and is given back when it is not.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast_gotext::quote::quote;
use holdfast_resource::{Field, FieldError, FieldPath, Refusal};
use holdfast_value::Value;

use super::{is_external, needs_health_check, ports_of, sort_of, takes_node_ports, texts_at};
use crate::config::Config;
use crate::validation::addresses::{Block, lenient_address};

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
    /// Ports that the map of all servers marks, though no Service is known to have them.
    marked: HashSet<u16>,
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

pub(super) const TAKEN_ADDRESS: &str = "provided IP is already allocated";
const TAKEN_PORT: &str = "provided port is already allocated";

/// The first port that a dry run is shown stands behind this one.
const DRY_RUN_PORT: i64 = 32768;

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
    /// have. On failure nothing stays reserved. A dry run reserves nothing, and what it is given is a stand-in.
    pub(super) fn allocate(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Vec<Reservation>, Refusal> {
        let mut taking = Taking {
            allocations: self,
            dry_run,
            ports: BTreeSet::new(),
            made: Vec::new(),
        };
        let result = taking
            .take_address(object, old)
            .and_then(|()| taking.take_ports(object, old))
            .and_then(|()| taking.take_health_check(object, old));
        match result {
            Ok(()) => Ok(taking.made),
            Err(refusal) => {
                self.finish(&taking.made, false);
                Err(refusal)
            }
        }
    }

    /// Makes reservations lasting, or gives them back.
    pub(super) fn finish(&self, reservations: &[Reservation], stored: bool) {
        let mut taken = self.taken();
        for reservation in reservations {
            match reservation {
                Reservation::Address(address) => finish_one(&mut taken.addresses, address, stored),
                Reservation::Port(port) => finish_one(&mut taken.ports, port, stored),
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
        // Whose they are, or were, is known now.
        for port in old_ports.iter().chain(&ports) {
            taken.marked.remove(port);
        }
        taken
            .addresses
            .extend(addresses.into_iter().map(|address| (address, Hold::Stored)));
        taken.ports.extend(ports.into_iter().map(|port| (port, Hold::Stored)));
    }

    /// A port turned out to be marked as taken in the map of all servers. The next attempt reports it to who requested it.
    pub(super) fn is_marked(&self, port: u16) {
        self.taken().marked.insert(port);
    }

    fn holds_port(&self, number: i64) -> bool {
        u16::try_from(number).is_ok_and(|port| self.taken().ports.contains_key(&port))
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserve_address(&self, address: IpAddr) -> Result<(), String> {
        if !self.block.offset(address).is_some_and(|offset| self.usable(offset)) {
            return Err("the provided network does not match the current range".to_owned());
        }
        match self.taken().addresses.entry(address) {
            Entry::Occupied(_) => Err(TAKEN_ADDRESS.to_owned()),
            Entry::Vacant(free) => {
                free.insert(Hold::Reserved);
                Ok(())
            }
        }
    }

    /// The first address names the block, and the last of IPv4 reaches all of them.
    fn usable(&self, offset: u128) -> bool {
        offset > 0 && (!self.is_ipv4() || offset + 1 < self.block.size())
    }

    fn free_address(&self) -> Option<IpAddr> {
        let mut taken = self.taken();
        // The first address names the block, the second is the API server's own, and the last of IPv4 reaches all of them.
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

    fn reserve_port(&self, number: i64) -> Result<u16, String> {
        let port = u16::try_from(number).ok().filter(|port| self.ports.contains(port));
        let Some(port) = port else {
            let (first, last) = (self.ports.start(), self.ports.end());
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {first}-{last}"
            ));
        };
        let mut taken = self.taken();
        // A mark may have gone since: the next one who asks finds out.
        if taken.ports.contains_key(&port) || taken.marked.remove(&port) {
            return Err(TAKEN_PORT.to_owned());
        }
        taken.ports.insert(port, Hold::Reserved);
        Ok(port)
    }

    fn free_port(&self) -> Option<u16> {
        let mut taken = self.taken();
        let size = self.ports.len() as u128;
        let middle = PORTS.of(size).min(size);
        let random = (self.random)();
        let mut ports = around(middle, size, random)
            .chain(around(0, middle, random))
            .filter_map(|offset| self.ports.start().checked_add(u16::try_from(offset).ok()?));
        let free = ports.find(|port| !taken.ports.contains_key(port) && !taken.marked.contains(port));
        drop(ports);
        if free.is_none() {
            taken.marked.clear();
        }
        taken.ports.insert(free?, Hold::Reserved);
        free
    }
}

/// What one write takes.
struct Taking<'a> {
    allocations: &'a Allocations,
    dry_run: bool,
    /// The ports that the write has taken so far.
    ports: BTreeSet<i64>,
    made: Vec<Reservation>,
}

impl Taking<'_> {
    /// Takes the address of a Service that is new or had none by its type; others keep theirs.
    fn take_address(&mut self, object: &mut Value, old: Option<&Value>) -> Result<(), Refusal> {
        let keeps = old.is_some_and(|old| !is_external(old));
        if is_external(object) || keeps || texts_at(object, "clusterIPs").first().is_some_and(|ip| ip == "None") {
            return Ok(());
        }
        let requested = object.str_at(&["spec", "clusterIP"]).unwrap_or_default();
        if !requested.is_empty() {
            let taken = self
                .address(requested)
                .and_then(|()| self.check_parent(object, requested));
            return taken.map_err(|fault| refused_address(object, requested, &fault));
        }
        let address = self
            .next_address()
            .ok_or_else(|| Refusal::Internal("failed to allocate a serviceIP: range is full".to_owned()))?;
        if let Err(fault) = self.check_parent(object, &address.to_string()) {
            let shown: Value = vec![Value::from("")].into();
            let detail = format!("failed to allocate IP: {fault}");
            let place = FieldPath::new("spec.clusterIPs");
            return Err(Refusal::Invalid(vec![FieldError::invalid(&place, shown, detail)]));
        }
        let text = Value::from(address.to_string());
        object.set_at(&["spec", "clusterIP"], text.clone());
        object.set_at(&["spec", "clusterIPs"], vec![text].into());
        Ok(())
    }

    /// The reference makes an object of each address before it looks at the Service that this is for, which must have a name.
    fn check_parent(&self, object: &Value, address: &str) -> Result<(), String> {
        let name = object.str_at(&["metadata", "name"]).unwrap_or_default();
        if self.dry_run || !name.is_empty() {
            return Ok(());
        }
        let address = quote(address);
        Err(format!(
            "IPAddress.networking.k8s.io {address} is invalid: spec.parentRef.name: Required value"
        ))
    }

    fn address(&mut self, text: &str) -> Result<(), String> {
        let allocations = self.allocations;
        let Some(address) = lenient_address(text) else {
            return Ok(());
        };
        if !self.dry_run {
            allocations.reserve_address(address)?;
            self.made.push(Reservation::Address(address));
            return Ok(());
        }
        let offset = allocations.block.offset(address);
        if offset.is_some_and(|offset| allocations.usable(offset)) {
            return Ok(());
        }
        Err(format!(
            "the provided IP ({address}) is not in the valid range. The range of valid IPs is {}",
            allocations.block
        ))
    }

    /// A free address; a dry run is shown the one that names the block.
    fn next_address(&mut self) -> Option<IpAddr> {
        if self.dry_run {
            return Some(self.allocations.block.nth(0));
        }
        let address = self.allocations.free_address()?;
        self.made.push(Reservation::Address(address));
        Some(address)
    }

    fn take_ports(&mut self, object: &mut Value, old: Option<&Value>) -> Result<(), Refusal> {
        if !takes_node_ports(sort_of(object)) {
            return Ok(());
        }
        match old {
            None => self.take_first_ports(object),
            Some(old) => self.take_further_ports(object, old),
        }
    }

    /// The ports of a new Service: those that serve the same port by several protocols share one of the nodes.
    fn take_first_ports(&mut self, object: &mut Value) -> Result<(), Refusal> {
        let ports = numbers_of(object);
        let mut requested: HashMap<i64, i64> = HashMap::new();
        for (port, node_port) in ports.iter().filter(|(_, node_port)| *node_port != 0) {
            requested.entry(*port).or_insert(*node_port);
        }
        let draws = draws_node_ports(object);
        let mut known: HashMap<i64, i64> = HashMap::new();
        for (index, (port, node_port)) in ports.into_iter().enumerate() {
            if node_port == 0 && !draws {
                continue;
            }
            match (known.get(&port), requested.get(&port)) {
                (Some(known), _) if node_port == 0 => set_node_port(object, index, *known),
                (Some(known), _) if node_port == *known => {}
                (Some(_), _) => self.node_port(index, node_port)?,
                (None, Some(requested)) => {
                    self.node_port(index, *requested)?;
                    set_node_port(object, index, *requested);
                    known.insert(port, *requested);
                }
                (None, None) => {
                    let drawn = self.next_node_port()?;
                    set_node_port(object, index, drawn);
                    known.insert(port, drawn);
                }
            }
        }
        Ok(())
    }

    /// The ports that a Service has not yet.
    #[expect(clippy::indexing_slicing, reason = "the place of one of the ports")]
    fn take_further_ports(&mut self, object: &mut Value, old: &Value) -> Result<(), Refusal> {
        let draws = draws_node_ports(object);
        let kept: HashSet<i64> = if takes_node_ports(sort_of(old)) {
            numbers_of(old).into_iter().map(|(_, node_port)| node_port).collect()
        } else {
            HashSet::new()
        };
        let mut seen: HashSet<(String, i64)> = HashSet::new();
        for (index, (_, node_port)) in numbers_of(object).into_iter().enumerate() {
            if node_port == 0 && !draws {
                continue;
            }
            let taken = if node_port == 0 {
                let drawn = self.next_node_port()?;
                set_node_port(object, index, drawn);
                drawn
            } else {
                if !kept.contains(&node_port) && !self.ports.contains(&node_port) {
                    self.node_port(index, node_port)?;
                }
                node_port
            };
            let protocol = ports_of(object)[index].str_at(&["protocol"]).unwrap_or_default();
            if !seen.insert((protocol.to_owned(), taken)) {
                return Err(Refusal::Failed(format!("duplicate nodePort: {{{protocol} {taken}}}")));
            }
        }
        Ok(())
    }

    fn take_health_check(&mut self, object: &mut Value, old: Option<&Value>) -> Result<(), Refusal> {
        if !needs_health_check(object) || old.is_some_and(needs_health_check) {
            return Ok(());
        }
        let path = ["spec", "healthCheckNodePort"];
        let requested = object.at(&path).and_then(Value::as_i64).unwrap_or_default();
        if requested != 0 {
            return self.port(requested).map_err(|fault| {
                Refusal::Internal(format!(
                    "failed to allocate requested HealthCheck NodePort {requested}: {fault}"
                ))
            });
        }
        let full = || Refusal::Internal("failed to allocate a HealthCheck NodePort 0: range is full".to_owned());
        object.set_at(&path, self.next_port().ok_or_else(full)?.into());
        Ok(())
    }

    fn node_port(&mut self, index: usize, number: i64) -> Result<(), Refusal> {
        self.port(number).map_err(|fault| {
            let place = FieldPath::new("spec.ports").index(index).child("nodePort");
            Refusal::Invalid(vec![FieldError::invalid(&place, number, fault)])
        })
    }

    fn next_node_port(&mut self) -> Result<i64, Refusal> {
        let full = || Refusal::Internal("failed to allocate a nodePort: range is full".to_owned());
        self.next_port().ok_or_else(full)
    }

    /// Takes a certain port. A dry run does not look at the range.
    fn port(&mut self, number: i64) -> Result<(), String> {
        if !self.dry_run {
            let port = self.allocations.reserve_port(number)?;
            self.made.push(Reservation::Port(port));
        } else if self.ports.contains(&number) || self.allocations.holds_port(number) {
            return Err(TAKEN_PORT.to_owned());
        }
        self.ports.insert(number);
        Ok(())
    }

    /// A free port; a dry run is shown one behind those that it has, in the range or not.
    fn next_port(&mut self) -> Option<i64> {
        let number = if self.dry_run {
            self.ports.last().copied().unwrap_or(DRY_RUN_PORT) + 1
        } else {
            let port = self.allocations.free_port()?;
            self.made.push(Reservation::Port(port));
            port.into()
        };
        self.ports.insert(number);
        Some(number)
    }
}

/// What is said of an address that a Service asks for and cannot have.
pub(super) fn refused_address(object: &Value, requested: &str, fault: &str) -> Refusal {
    let shown = object.at(&["spec", "clusterIPs"]).cloned().unwrap_or_default();
    let detail = format!("failed to allocate IP {requested}: {fault}");
    let place = FieldPath::new("spec.clusterIPs");
    Refusal::Invalid(vec![FieldError::invalid(&place, shown, detail)])
}

/// The port and the port of the nodes of each port.
fn numbers_of(object: &Value) -> Vec<(i64, i64)> {
    let number = |port: &Value, name: &str| port.get(name).and_then(Value::as_i64).unwrap_or_default();
    let ports = ports_of(object).iter();
    ports
        .map(|port| (number(port, "port"), number(port, "nodePort")))
        .collect()
}

/// Whether ports that name none of the nodes get one.
fn draws_node_ports(object: &Value) -> bool {
    let allocate = object.at(&["spec", "allocateLoadBalancerNodePorts"]);
    sort_of(object) == "NodePort" || allocate.and_then(Value::as_bool) == Some(true)
}

fn finish_one<K: std::hash::Hash + Eq>(holds: &mut HashMap<K, Hold>, key: &K, stored: bool) {
    match holds.get_mut(key) {
        Some(hold) if stored => *hold = Hold::Stored,
        Some(Hold::Reserved) => {
            holds.remove(key);
        }
        _ => {}
    }
}

/// Gives the port at `index` one of the nodes.
pub(super) fn set_node_port(object: &mut Value, index: usize, port: i64) {
    let list = object.at_mut(&["spec", "ports"]).and_then(Value::as_list_mut);
    if let Some(item) = list.and_then(|list| list.make_mut().get_mut(index)) {
        item.set_at(&["nodePort"], port.into());
    }
}

/// The addresses and ports that a Service holds.
pub(super) fn held(service: &Value) -> (Vec<IpAddr>, Vec<u16>) {
    let root = Field::root(service);
    let spec = root.child("spec");
    let mut addresses = Vec::new();
    let mut ports = Vec::new();
    if !is_external(service) {
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

    fn service(type_name: &str, ip: &str) -> Value {
        let mut object = Value::empty_map();
        object.set_at(&["metadata", "name"], "s".into());
        object.set_at(&["spec", "type"], type_name.into());
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
    fn an_address_is_for_a_service_with_a_name() {
        let allocations = allocations();
        for (requested, shown) in [("", ""), ("10.9.8.3", " 10.9.8.3")] {
            let mut nameless = service("ClusterIP", requested);
            nameless.remove_at(&["metadata", "name"]);
            assert!(allocations.allocate(&mut nameless.clone(), None, true).is_ok());
            let Err(Refusal::Invalid(errors)) = allocations.allocate(&mut nameless, None, false) else {
                unreachable!()
            };
            let error = errors.first().unwrap().to_string();
            assert!(
                error.contains(&format!("failed to allocate IP{shown}: IPAddress.networking")),
                "{error}"
            );
            assert!(
                error.ends_with("is invalid: spec.parentRef.name: Required value"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_a_failed_write_took_is_free_again() {
        let allocations = allocations();
        let mut wanted = service("ClusterIP", "10.9.8.3");
        let taken = allocations.allocate(&mut wanted, None, false).unwrap();
        let again = allocations.allocate(&mut service("ClusterIP", "10.9.8.3"), None, false);
        let Err(Refusal::Invalid(errors)) = again else {
            unreachable!()
        };
        assert_eq!(
            errors[0].to_string(),
            "spec.clusterIPs: Invalid value: null: failed to allocate IP 10.9.8.3: provided IP is already \
             allocated"
        );
        allocations.finish(&taken, false);
        assert!(
            allocations
                .allocate(&mut service("ClusterIP", "10.9.8.3"), None, false)
                .is_ok()
        );
    }

    #[test]
    fn every_address_is_given_once_and_then_none() {
        let allocations = allocations();
        let mut seen = std::collections::HashSet::new();
        loop {
            let mut object = service("ClusterIP", "");
            match allocations.allocate(&mut object, None, false) {
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
        allocations.allocate(&mut object, None, false).unwrap();
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
    fn a_dry_run_takes_nothing_and_sees_what_is_taken() {
        let allocations = allocations();
        let mut stored = service("NodePort", "10.9.8.3");
        set_node_port(&mut stored, 0, 30000);
        allocations.observe(None, Some(&stored));
        let dry_run = |ip: &str, port: i64| {
            let mut object = service("NodePort", ip);
            set_node_port(&mut object, 0, port);
            match allocations.allocate(&mut object, None, true) {
                Ok(made) => {
                    assert!(made.is_empty());
                    let port = ports_of(&object)[0].get("nodePort").and_then(Value::as_i64);
                    Ok((object.str_at(&["spec", "clusterIP"]).unwrap().to_owned(), port.unwrap()))
                }
                Err(Refusal::Invalid(errors)) => Err(errors[0].to_string()),
                Err(_) => unreachable!(),
            }
        };
        // An address is not looked up and the range of ports is not looked at.
        assert_eq!(dry_run("10.9.8.3", 1), Ok(("10.9.8.3".to_owned(), 1)));
        assert_eq!(dry_run("10.9.8.4", 30001), Ok(("10.9.8.4".to_owned(), 30001)));
        assert_eq!(dry_run("10.9.8.4", 30001), Ok(("10.9.8.4".to_owned(), 30001)));
        assert_eq!(dry_run("", 0), Ok(("10.9.8.0".to_owned(), 32769)));
        assert_eq!(
            dry_run("10.9.8.7", 0),
            Err(
                "spec.clusterIPs: Invalid value: null: failed to allocate IP 10.9.8.7: the provided IP (10.9.8.7) is not in \
                 the valid range. The range of valid IPs is 10.9.8.0/29"
                    .to_owned()
            )
        );
        assert_eq!(
            dry_run("", 30000),
            Err("spec.ports[0].nodePort: Invalid value: 30000: provided port is already allocated".to_owned())
        );
    }

    #[test]
    fn a_port_by_several_protocols_is_one_of_the_nodes() {
        let allocations = allocations();
        let ports = |node_ports: [i64; 2], old: Option<&Value>| {
            let mut object = service("NodePort", "");
            let port = |protocol: &str, node_port: i64| {
                let mut port = Value::empty_map();
                port.set_at(&["protocol"], protocol.into());
                port.set_at(&["port"], 53.into());
                port.set_at(&["nodePort"], node_port.into());
                port
            };
            let list = vec![port("UDP", node_ports[0]), port("TCP", node_ports[1])];
            object.set_at(&["spec", "ports"], list.into());
            let result = allocations.allocate(&mut object, old, true);
            result.map(|_| {
                numbers_of(&object)
                    .into_iter()
                    .map(|(_, port)| port)
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(ports([0, 30001], None).unwrap(), [30001, 30001]);
        assert_eq!(ports([0, 0], None).unwrap(), [32769, 32769]);
        assert_eq!(ports([30001, 30000], None).unwrap(), [30001, 30000]);
        let old = service("NodePort", "");
        assert_eq!(ports([30001, 0], Some(&old)).unwrap(), [30001, 30002]);
    }

    #[test]
    fn a_stored_service_holds_its_ports_until_it_is_gone() {
        let allocations = allocations();
        let mut first = service("NodePort", "");
        let taken = allocations.allocate(&mut first, None, false).unwrap();
        allocations.observe(None, Some(&first));
        allocations.finish(&taken, true);
        let mut second = service("NodePort", "");
        allocations.allocate(&mut second, None, false).unwrap();
        assert_ne!(first.at(&["spec", "ports"]), second.at(&["spec", "ports"]));
        assert!(allocations.allocate(&mut service("NodePort", ""), None, false).is_err());
        allocations.observe(Some(&first), None);
        assert!(allocations.allocate(&mut service("NodePort", ""), None, false).is_ok());
    }
}
