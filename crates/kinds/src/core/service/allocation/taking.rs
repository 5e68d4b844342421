//! Allocations of one write.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use holdfast_gotext::cidr::Cidr;
use holdfast_gotext::quote::quote;
use holdfast_resource::{Rejection, WriteRun};
use holdfast_schema::{FieldError, FieldPath};
use holdfast_value::Value;

use super::super::families::keeps_preferring;
use super::super::{is_external, needs_health_check, ports_of, sort_of, takes_node_ports, texts_at};
use super::{Allocations, DRY_RUN_PORT, Reservation, TAKEN_PORT, family_of, is_usable};
use crate::validation::addresses::lenient_address;

/// Allocations of one write.
pub(super) struct Taking<'a> {
    pub(super) allocations: &'a Allocations,
    pub(super) run: &'a dyn WriteRun,
    /// Returns the CIDRs that addresses are allocated from.
    pub(super) blocks: &'a dyn Fn() -> Vec<Cidr>,
    pub(super) dry_run: bool,
    /// Ports that the write has allocated so far.
    pub(super) ports: BTreeSet<i64>,
    pub(super) made: Vec<Reservation>,
}

impl Taking<'_> {
    /// Allocates the addresses of a Service that is new or whose old type had none, and the second address of one that
    /// becomes dual-stack; others keep theirs.
    #[expect(clippy::indexing_slicing, reason = "the list has an entry for each family")]
    pub(super) fn take_addresses(&mut self, object: &mut Value, old: Option<&Value>) -> Result<(), Rejection> {
        let first = match old.filter(|old| !is_external(old)) {
            _ if is_external(object) => return Ok(()),
            Some(old) if adds_family(object, old) => 1,
            Some(_) => return Ok(()),
            None => 0,
        };
        let mut addresses = texts_at(object, "clusterIPs");
        if addresses.first().is_some_and(|ip| ip == "None") {
            return Ok(());
        }
        if addresses.is_empty() {
            let ip = object.str_at(&["spec", "clusterIP"]).filter(|ip| !ip.is_empty());
            addresses.extend(ip.map(str::to_owned));
        }
        let mut families = texts_at(object, "ipFamilies");
        if families.is_empty() {
            families.extend(self.allocations.families().first().map(|&family| family.to_owned()));
        }
        if addresses.len() < families.len() {
            addresses.resize(families.len(), String::new());
        }
        // The reference prints empty texts for addresses that it has not chosen yet.
        let requested_list = match addresses.iter().any(String::is_empty) {
            true => list_of(&addresses),
            false => object.at(&["spec", "clusterIPs"]).cloned().unwrap_or_default(),
        };
        for (at, family) in families.iter().enumerate().skip(first) {
            let requested = addresses[at].clone();
            if requested.is_empty() {
                addresses[at] = self.draw_address(object, family, &requested_list)?;
                continue;
            }
            let taken = self
                .address(&requested)
                .and_then(|()| self.check_parent(object, &requested));
            taken.map_err(|error| refused_address_of(requested_list.clone(), &requested, &error))?;
        }
        if first == 0 {
            object.set_at(&["spec", "clusterIP"], addresses[0].as_str().into());
        }
        object.set_at(&["spec", "clusterIPs"], list_of(&addresses));
        Ok(())
    }

    /// upstream: pkg/registry/core/service/storage#Allocators.allocIPs
    fn draw_address(&mut self, object: &Value, family: &str, shown: &Value) -> Result<String, Rejection> {
        let address = self.next_address(family).ok_or_else(|| {
            let name = quote(object.str_at(&["metadata", "name"]).unwrap_or_default());
            Rejection::Internal(format!(
                "failed to allocate a serviceIP for Service {name}: range is full"
            ))
        })?;
        let address = address.to_string();
        match self.check_parent(object, &address) {
            Ok(()) => Ok(address),
            Err(error) => {
                let detail = format!("failed to allocate IP: {error}");
                let place = FieldPath::new("spec.clusterIPs");
                Err(Rejection::Invalid(vec![FieldError::invalid(
                    &place,
                    shown.clone(),
                    detail,
                )]))
            }
        }
    }

    /// Checks that the Service has a name: the reference creates an object for each address before it validates the
    /// Service.
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
            allocations.reserve_address(self.run, &(self.blocks)(), address)?;
            self.made.push(Reservation::Address(address));
            return Ok(());
        }
        // The error of a dry run of the reference names only the first CIDR of the family.
        let blocks = (self.blocks)();
        let mut of_family = blocks.iter().filter(|block| block.is_ipv4() == address.is_ipv4());
        match of_family.next() {
            Some(block) if is_usable(block, address) || of_family.any(|block| is_usable(block, address)) => Ok(()),
            Some(block) => Err(format!(
                "the provided IP ({address}) is not in the valid range. The range of valid IPs is {block}"
            )),
            None => Err("allocator not ready".to_owned()),
        }
    }

    /// Returns a free address; the network address for a dry run.
    fn next_address(&mut self, family: &str) -> Option<IpAddr> {
        let mut blocks = (self.blocks)();
        blocks.retain(|block| family_of(block) == family);
        if self.dry_run {
            return Some(blocks.first()?.nth(0));
        }
        let address = self.allocations.free_address(self.run, &blocks)?;
        self.made.push(Reservation::Address(address));
        Some(address)
    }

    pub(super) fn take_ports(&mut self, object: &mut Value, old: Option<&Value>) -> Result<(), Rejection> {
        if !takes_node_ports(sort_of(object)) {
            return Ok(());
        }
        match old {
            None => self.take_first_ports(object),
            Some(old) => self.take_further_ports(object, old),
        }
    }

    /// Allocates the node ports of a new Service. Ports with the same number and different protocols share one node
    /// port.
    fn take_first_ports(&mut self, object: &mut Value) -> Result<(), Rejection> {
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

    /// Allocates the node ports that a Service lacks.
    #[expect(clippy::indexing_slicing, reason = "the place of one of the ports")]
    fn take_further_ports(&mut self, object: &mut Value, old: &Value) -> Result<(), Rejection> {
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
                return Err(Rejection::Failed(format!("duplicate nodePort: {{{protocol} {taken}}}")));
            }
        }
        Ok(())
    }

    /// upstream: pkg/registry/core/service/storage#Allocators.allocHealthCheckNodePort
    pub(super) fn take_health_check(&mut self, object: &mut Value, old: Option<&Value>) -> Result<(), Rejection> {
        if !needs_health_check(object) || old.is_some_and(needs_health_check) {
            return Ok(());
        }
        let path = ["spec", "healthCheckNodePort"];
        let requested = object.at(&path).and_then(Value::as_i64).unwrap_or_default();
        if requested != 0 {
            return self.port(requested).map_err(|error| {
                Rejection::Internal(format!(
                    "failed to allocate requested HealthCheck NodePort {requested}: {error}"
                ))
            });
        }
        let full = || Rejection::Internal("failed to allocate a HealthCheck NodePort 0: range is full".to_owned());
        object.set_at(&path, self.next_port().ok_or_else(full)?.into());
        Ok(())
    }

    fn node_port(&mut self, index: usize, number: i64) -> Result<(), Rejection> {
        self.port(number).map_err(|error| {
            let place = FieldPath::new("spec.ports").index(index).child("nodePort");
            Rejection::Invalid(vec![FieldError::invalid(&place, number, error)])
        })
    }

    fn next_node_port(&mut self) -> Result<i64, Rejection> {
        let full = || Rejection::Internal("failed to allocate a nodePort: range is full".to_owned());
        self.next_port().ok_or_else(full)
    }

    /// Allocates a specific port. A dry run does not check the range.
    fn port(&mut self, number: i64) -> Result<(), String> {
        if !self.dry_run {
            let port = self.allocations.reserve_port(self.run, number)?;
            self.made.push(Reservation::Port(port));
        } else if self.ports.contains(&number) || self.allocations.holds_port(self.run, number) {
            return Err(TAKEN_PORT.to_owned());
        }
        self.ports.insert(number);
        Ok(())
    }

    /// Returns a free port. A dry run returns the port after its last one, even outside the range.
    fn next_port(&mut self) -> Option<i64> {
        let number = if self.dry_run {
            self.ports.last().copied().unwrap_or(DRY_RUN_PORT) + 1
        } else {
            let port = self.allocations.free_port(self.run)?;
            self.made.push(Reservation::Port(port));
            port.into()
        };
        self.ports.insert(number);
        Some(number)
    }
}

/// Returns the error for a requested address that cannot be allocated.
pub(in super::super) fn refused_address(object: &Value, requested: &str, error: &str) -> Rejection {
    let shown = object.at(&["spec", "clusterIPs"]).cloned().unwrap_or_default();
    refused_address_of(shown, requested, error)
}

/// upstream: pkg/registry/core/service/storage#Allocators.allocIPs
fn refused_address_of(shown: Value, requested: &str, error: &str) -> Rejection {
    let detail = format!("failed to allocate IP {requested}: {error}");
    let place = FieldPath::new("spec.clusterIPs");
    Rejection::Invalid(vec![FieldError::invalid(&place, shown, detail)])
}

/// Returns true if an update makes a single-stack Service dual-stack.
fn adds_family(object: &Value, old: &Value) -> bool {
    let count = |object: &Value| texts_at(object, "ipFamilies").len();
    let is_headless = texts_at(old, "clusterIPs").first().is_some_and(|ip| ip == "None");
    count(old) == 1 && count(object) == 2 && !is_headless && !keeps_preferring(object, old)
}

fn list_of(texts: &[String]) -> Value {
    let texts: Vec<Value> = texts.iter().map(|text| text.as_str().into()).collect();
    texts.into()
}

/// Returns the port and the node port of each port.
pub(super) fn numbers_of(object: &Value) -> Vec<(i64, i64)> {
    let number = |port: &Value, name: &str| port.get(name).and_then(Value::as_i64).unwrap_or_default();
    let ports = ports_of(object).iter();
    ports
        .map(|port| (number(port, "port"), number(port, "nodePort")))
        .collect()
}

/// Returns true if ports without a node port get one.
fn draws_node_ports(object: &Value) -> bool {
    let allocate = object.at(&["spec", "allocateLoadBalancerNodePorts"]);
    sort_of(object) == "NodePort" || allocate.and_then(Value::as_bool) == Some(true)
}

/// Sets the node port of the port at `index`.
pub(in super::super) fn set_node_port(object: &mut Value, index: usize, port: i64) {
    let list = object.at_mut(&["spec", "ports"]).and_then(Value::as_list_mut);
    if let Some(item) = list.and_then(|list| list.make_mut().get_mut(index)) {
        item.set_at(&["nodePort"], port.into());
    }
}
