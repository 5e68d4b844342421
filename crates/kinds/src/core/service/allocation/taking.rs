//! What one write takes of the addresses and ports.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use holdfast_gotext::quote::quote;
use holdfast_resource::{FieldError, FieldPath, Refusal};
use holdfast_value::Value;

use super::super::{is_external, needs_health_check, ports_of, sort_of, takes_node_ports, texts_at};
use super::{Allocations, DRY_RUN_PORT, Reservation, TAKEN_PORT};
use crate::validation::addresses::lenient_address;

/// What one write takes.
pub(super) struct Taking<'a> {
    pub(super) allocations: &'a Allocations,
    pub(super) dry_run: bool,
    /// The ports that the write has taken so far.
    pub(super) ports: BTreeSet<i64>,
    pub(super) made: Vec<Reservation>,
}

impl Taking<'_> {
    /// Takes the address of a Service that is new or had none by its type; others keep theirs.
    pub(super) fn take_address(&mut self, object: &mut Value, old: Option<&Value>) -> Result<(), Refusal> {
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

    pub(super) fn take_ports(&mut self, object: &mut Value, old: Option<&Value>) -> Result<(), Refusal> {
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

    pub(super) fn take_health_check(&mut self, object: &mut Value, old: Option<&Value>) -> Result<(), Refusal> {
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
pub(in super::super) fn refused_address(object: &Value, requested: &str, fault: &str) -> Refusal {
    let shown = object.at(&["spec", "clusterIPs"]).cloned().unwrap_or_default();
    let detail = format!("failed to allocate IP {requested}: {fault}");
    let place = FieldPath::new("spec.clusterIPs");
    Refusal::Invalid(vec![FieldError::invalid(&place, shown, detail)])
}

/// The port and the port of the nodes of each port.
pub(super) fn numbers_of(object: &Value) -> Vec<(i64, i64)> {
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

/// Gives the port at `index` one of the nodes.
pub(in super::super) fn set_node_port(object: &mut Value, index: usize, port: i64) {
    let list = object.at_mut(&["spec", "ports"]).and_then(Value::as_list_mut);
    if let Some(item) = list.and_then(|list| list.make_mut().get_mut(index)) {
        item.set_at(&["nodePort"], port.into());
    }
}
