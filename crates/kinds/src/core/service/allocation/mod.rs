//! Allocation of addresses and ports.
//!
//! Addresses and ports of a Service are allocated from the moment a write reserves them until the Service is gone. A
//! reservation becomes permanent when the write is stored, and is released when it is not.

mod taking;

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use holdfast_gotext::cidr::Cidr;
use holdfast_resource::table::items;
use holdfast_resource::{Rejection, SharedState, WriteRun};
use holdfast_schema::Field;
use holdfast_value::Value;

use self::taking::Taking;
pub(super) use self::taking::{refused_address, set_node_port};
use super::{is_external, sort_of, takes_node_ports};
use crate::config::Config;

/// Addresses and ports of all Services.
pub(super) struct Allocations {
    /// CIDRs of the flags; the first one has the default family.
    blocks: Vec<Cidr>,
    ports: RangeInclusive<u16>,
    random: fn() -> u64,
    taken: SharedState<Taken>,
}

#[derive(Default)]
struct Taken {
    addresses: HashMap<IpAddr, Hold>,
    ports: HashMap<u16, Hold>,
    /// Ports that are allocated in the shared bitmap, although no known Service has them.
    marked: HashSet<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// Held by a write whose outcome is unknown.
    Reserved,
    /// Held by a stored Service.
    Stored,
}

/// Address or port that a write has reserved.
#[derive(Clone, Copy)]
pub(super) enum Reservation {
    Address(IpAddr),
    Port(u16),
}

impl Reservation {
    /// Returns the address, unless a port is reserved.
    pub(super) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Port(_) => None,
        }
    }
}

/// Start of a range that is left, while others are free, for clients that request a specific address or port: its
/// minimum and maximum size, and the divisor of the size of the range.
#[derive(Clone, Copy)]
struct Band {
    least: u128,
    most: u128,
    part: u128,
}

pub(super) const TAKEN_ADDRESS: &str = "provided IP is already allocated";
const TAKEN_PORT: &str = "provided port is already allocated";

/// Port before the first one that a dry run returns.
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
    /// Returns the size of the band in a range of `size`; 0 for a small range.
    fn size_in(self, size: u128) -> u128 {
        if size <= self.least {
            return 0;
        }
        (size / self.part).clamp(self.least, self.most)
    }
}

/// Returns all offsets from `from` up to but excluding `to`, starting at a random one.
fn around(from: u128, to: u128, random: u64) -> impl Iterator<Item = u128> {
    let size = to.saturating_sub(from);
    let start = u128::from(random) % size.max(1);
    (0..size).map(move |step| from + (start + step) % size)
}

impl Allocations {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            blocks: config.service_cidrs().collect(),
            ports: config.node_ports.clone(),
            random: config.random,
            taken: SharedState::default(),
        }
    }

    /// Returns the families of the cluster, the default one first.
    pub(super) fn families(&self) -> Vec<&'static str> {
        self.blocks.iter().map(family_of).collect()
    }

    /// Returns the CIDRs that new addresses are allocated from: those of ready ServiceCIDRs, those of the flags first.
    /// A CIDR of the flags without a ServiceCIDR is ready, since the default ServiceCIDR is created later.
    ///
    /// upstream: pkg/registry/core/service/ipallocator#MetaAllocator
    pub(super) fn ready_blocks(&self, service_cidrs: &[Value]) -> Vec<Cidr> {
        let mut listed: Vec<(Cidr, bool)> = Vec::new();
        for service_cidr in service_cidrs {
            let is_ready = is_ready(service_cidr);
            listed.extend(blocks_of(service_cidr).map(|block| (block, is_ready)));
        }
        let own = |block: &Cidr| self.blocks.contains(block);
        let is_usable = |block: &Cidr| {
            let mut states = listed.iter().filter(|(known, _)| known == block).peekable();
            states.peek().is_none() || states.any(|(_, is_ready)| *is_ready)
        };
        let mut ready: Vec<Cidr> = self.blocks.iter().copied().filter(|block| is_usable(block)).collect();
        for (block, is_ready) in &listed {
            if *is_ready && !own(block) && !ready.contains(block) {
                ready.push(*block);
            }
        }
        ready
    }

    /// Assigns the addresses and ports that `object` needs and lacks, and reserves those that it newly requests. On
    /// failure nothing stays reserved. A dry run reserves nothing and assigns placeholders. `blocks` returns the
    /// [blocks](Self::ready_blocks) to allocate addresses from; it is only called if an address is needed.
    pub(super) fn allocate_from(
        &self,
        run: &dyn WriteRun,
        blocks: &dyn Fn() -> Vec<Cidr>,
        object: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Vec<Reservation>, Rejection> {
        let mut taking = Taking {
            allocations: self,
            run,
            blocks,
            dry_run,
            ports: BTreeSet::new(),
            made: Vec::new(),
        };
        let result = taking
            .take_addresses(object, old)
            .and_then(|()| taking.take_ports(object, old))
            .and_then(|()| taking.take_health_check(object, old));
        match result {
            Ok(()) => Ok(taking.made),
            Err(rejection) => {
                self.finish(&taking.made, false);
                Err(rejection)
            }
        }
    }

    /// Makes reservations permanent, or releases them.
    pub(super) fn finish(&self, reservations: &[Reservation], stored: bool) {
        let mut taken = self.taken.outside_run();
        for reservation in reservations {
            match reservation {
                Reservation::Address(address) => finish_one(&mut taken.addresses, address, stored),
                Reservation::Port(port) => finish_one(&mut taken.ports, port, stored),
            }
        }
    }

    /// Applies a change of a stored Service.
    pub(super) fn observe(&self, old: Option<&Value>, new: Option<&Value>) {
        let mut taken = self.taken.outside_run();
        let (addresses, ports) = new.map(held).unwrap_or_default();
        let (old_addresses, old_ports) = old.map(held).unwrap_or_default();
        for address in old_addresses.iter().filter(|address| !addresses.contains(address)) {
            taken.addresses.remove(address);
        }
        for port in old_ports.iter().filter(|port| !ports.contains(port)) {
            taken.ports.remove(port);
        }
        // The owner of these ports is known now.
        for port in old_ports.iter().chain(&ports) {
            taken.marked.remove(port);
        }
        taken
            .addresses
            .extend(addresses.into_iter().map(|address| (address, Hold::Stored)));
        taken.ports.extend(ports.into_iter().map(|port| (port, Hold::Stored)));
    }

    /// Records that a port is allocated in the shared bitmap. The next attempt reports it to the client that requested
    /// it.
    pub(super) fn is_marked(&self, port: u16) {
        self.taken.outside_run().marked.insert(port);
    }

    fn holds_port(&self, run: &dyn WriteRun, number: i64) -> bool {
        u16::try_from(number).is_ok_and(|port| self.taken.in_run(run).ports.contains_key(&port))
    }

    fn reserve_address(&self, run: &dyn WriteRun, blocks: &[Cidr], address: IpAddr) -> Result<(), String> {
        if !blocks.iter().any(|block| is_usable(block, address)) {
            return Err("the provided network does not match the current range".to_owned());
        }
        match self.taken.in_run(run).addresses.entry(address) {
            Entry::Occupied(_) => Err(TAKEN_ADDRESS.to_owned()),
            Entry::Vacant(free) => {
                free.insert(Hold::Reserved);
                Ok(())
            }
        }
    }

    /// Reserves a free address of the first of `blocks` that has one.
    fn free_address(&self, run: &dyn WriteRun, blocks: &[Cidr]) -> Option<IpAddr> {
        blocks.iter().find_map(|block| self.free_address_of(run, block))
    }

    fn free_address_of(&self, run: &dyn WriteRun, block: &Cidr) -> Option<IpAddr> {
        let mut taken = self.taken.in_run(run);
        // The first address is the network address, and the last one of IPv4 the broadcast address. The second address
        // of the first CIDR belongs to the API server.
        let end = block.size().saturating_sub(u128::from(block.is_ipv4()));
        let start = if self.blocks.first() == Some(block) { 2 } else { 1 };
        let middle = ADDRESSES.size_in(block.size()).clamp(start, end.max(start));
        let random = (self.random)();
        // One more address than are allocated must include a free one, so the search ends.
        let enough = taken.addresses.len().saturating_add(1);
        let offsets = around(middle, end, random)
            .take(enough)
            .chain(around(start, middle.min(end), random));
        for offset in offsets {
            let address = block.nth(offset);
            if let Entry::Vacant(free) = taken.addresses.entry(address) {
                free.insert(Hold::Reserved);
                return Some(address);
            }
        }
        None
    }

    fn reserve_port(&self, run: &dyn WriteRun, number: i64) -> Result<u16, String> {
        let port = u16::try_from(number).ok().filter(|port| self.ports.contains(port));
        let Some(port) = port else {
            let (first, last) = (self.ports.start(), self.ports.end());
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {first}-{last}"
            ));
        };
        let mut taken = self.taken.in_run(run);
        // The port may have been released since, which the next request finds out.
        if taken.ports.contains_key(&port) || taken.marked.remove(&port) {
            return Err(TAKEN_PORT.to_owned());
        }
        taken.ports.insert(port, Hold::Reserved);
        Ok(port)
    }

    fn free_port(&self, run: &dyn WriteRun) -> Option<u16> {
        let mut taken = self.taken.in_run(run);
        let size = self.ports.len() as u128;
        let middle = PORTS.size_in(size).min(size);
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

/// Returns true if Services may have the address of the CIDR. The first address is the network address, and the last
/// one of IPv4 the broadcast address.
fn is_usable(block: &Cidr, address: IpAddr) -> bool {
    let offset = block.offset(address);
    offset.is_some_and(|offset| offset > 0 && (!block.is_ipv4() || offset + 1 < block.size()))
}

fn family_of(block: &Cidr) -> &'static str {
    if block.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Returns the CIDRs of a ServiceCIDR.
pub(super) fn blocks_of(service_cidr: &Value) -> impl Iterator<Item = Cidr> {
    let cidrs = items(service_cidr, &["spec", "cidrs"]).iter();
    cidrs.filter_map(|cidr| Cidr::read(cidr.as_str()?))
}

/// Returns true if addresses can be allocated from a ServiceCIDR. One without the condition is ready, since not every
/// cluster runs the controller that sets it.
fn is_ready(service_cidr: &Value) -> bool {
    let mut conditions = items(service_cidr, &["status", "conditions"])
        .iter()
        .filter(|condition| condition.str_at(&["type"]) == Some("Ready"));
    let status = conditions.next().and_then(|condition| condition.str_at(&["status"]));
    service_cidr.at(&["metadata", "deletionTimestamp"]).is_none() && status.is_none_or(|status| status == "True")
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

/// Returns the addresses and ports that a Service holds.
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
        ports.extend(list.items().filter_map(|port| port_number(&port.child("nodePort"))));
        ports.extend(port_number(&spec.child("healthCheckNodePort")));
    }
    (addresses, ports)
}

/// Returns the port in a field; `None` if it is zero or no port.
pub(super) fn port_number(field: &Field<'_, '_>) -> Option<u16> {
    u16::try_from(field.number()?).ok().filter(|port| *port != 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
