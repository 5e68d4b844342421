//! Addresses and ports of Services as kube-apiserver stores them: an IPAddress for each address, and one bitmap for the
//! node ports. Each server claims them in the transaction that writes the Service, so that none is allocated twice.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_gotext::cidr::Cidr;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::{Claim, ClaimRepair, Claims, Lookup};
use holdfast_schema::GroupResource;
use holdfast_value::{Value, json};

use super::allocation::{blocks_of, held};
use super::{Service, repair};

/// Key of the bitmap of node ports.
const PORTS: &str = "/registry/ranges/servicenodeports";
/// Key prefix of IPAddresses.
const ADDRESSES: &str = "/registry/ipaddresses/";
/// Key prefix of ServiceCIDRs.
const SERVICE_CIDRS: &str = "/registry/servicecidrs/";

/// Labels of an IPAddress of a Service, and the name of its manager.
pub(super) const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
pub(super) const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
pub(super) const MANAGER: &str = "ipallocator.k8s.io";

impl Claims for Service {
    fn beside(
        &self,
        old: Option<&Value>,
        new: Option<&Value>,
        read: &dyn Fn(&str) -> Option<Value>,
        now: SystemTime,
    ) -> Vec<Claim> {
        let (had, had_ports) = old.map(held).unwrap_or_default();
        let (has, has_ports) = new.map(held).unwrap_or_default();
        let (had, has): (BTreeSet<IpAddr>, BTreeSet<IpAddr>) = (had.into_iter().collect(), has.into_iter().collect());
        let Some(service) = new.or(old) else { return Vec::new() };
        let taken = has
            .difference(&had)
            .filter_map(|address| take(*address, service, read, now));
        let given_back = had
            .difference(&has)
            .filter_map(|address| give_back(*address, service, read));
        let mut claims: Vec<Claim> = taken.chain(given_back).collect();
        let (had, has): (BTreeSet<u16>, BTreeSet<u16>) =
            (had_ports.into_iter().collect(), has_ports.into_iter().collect());
        if had != has {
            claims.push(self.ports(&had, &has, read));
        }
        claims
    }

    fn repair(&self, objects: &[Value], below: &dyn Fn(&str) -> Vec<Value>, now: SystemTime) -> ClaimRepair {
        let mut blocks: Vec<Cidr> = self.config.service_cidrs().collect();
        blocks.extend(below(SERVICE_CIDRS).iter().flat_map(blocks_of));
        let mut repair = repair::addresses(objects, &below(ADDRESSES), &blocks, now);
        let there = below(PORTS).pop();
        let stored = Bits::decode(there.as_ref());
        let mut leaks = self.leaks.outside_run();
        let right = repair::ports(objects, &stored, &mut leaks, |port| self.offset(port));
        let range = |object: &Value| object.str_at(&["range"]).map(str::to_owned);
        if right != stored || there.as_ref().and_then(range) != Some(self.range()) {
            repair.claims.push(self.map_of_ports(right));
        }
        // A server that has a store to itself stores no bitmap.
        let stored = there.is_some().then_some(&stored);
        repair
            .problems
            .extend(repair::port_problems(objects, stored, &self.range(), |port| {
                self.offset(port)
            }));
        repair
    }
}

/// Returns true if an IPAddress assigns the address to another object than this Service.
pub(super) fn is_of_another(address: IpAddr, service: &Value, lookup: &dyn Lookup) -> bool {
    let addresses = GroupResource {
        group: "networking.k8s.io".into(),
        resource: "ipaddresses".into(),
    };
    let there = lookup.get(&addresses, "", &address.to_string());
    there.is_some_and(|there| !is_of(&there, service))
}

pub(super) fn key_of(address: IpAddr) -> String {
    format!("{ADDRESSES}{address}")
}

/// Returns the claim of an address for this Service, or `None` if the Service holds it already.
fn take(address: IpAddr, service: &Value, read: &dyn Fn(&str) -> Option<Value>, now: SystemTime) -> Option<Claim> {
    let key = key_of(address);
    if read(&key).is_some_and(|there| is_of(&there, service)) {
        return None;
    }
    Some(Claim {
        object: Some(object(address, service, now)),
        key,
        is_new: true,
    })
}

fn give_back(address: IpAddr, service: &Value, read: &dyn Fn(&str) -> Option<Value>) -> Option<Claim> {
    let key = key_of(address);
    is_of(&read(&key)?, service).then_some(Claim {
        key,
        object: None,
        is_new: false,
    })
}

/// Returns true if this Service holds an IPAddress.
pub(super) fn is_of(address: &Value, service: &Value) -> bool {
    let parent = |field: &str| address.str_at(&["spec", "parentRef", field]).unwrap_or_default();
    let own = |field: &str| service.str_at(&["metadata", field]).unwrap_or_default();
    parent("resource") == "services" && parent("namespace") == own("namespace") && parent("name") == own("name")
}

/// Returns the IPAddress object of an address, as kube-apiserver creates it. Its uid derives from the Service's uid and
/// from the address.
pub(super) fn object(address: IpAddr, service: &Value, now: SystemTime) -> String {
    let text = |field: &str| json::to_string(&service.at(&["metadata", field]).cloned().unwrap_or_default());
    let now = Timestamp::from(now).text(Precision::Seconds);
    let family = family_of(address);
    let uid = uid_of(address, service.str_at(&["metadata", "uid"]).unwrap_or_default());
    format!(
        r#"{{"kind":"IPAddress","apiVersion":"networking.k8s.io/v1","metadata":{{"name":"{address}","uid":"{uid}","resourceVersion":"","creationTimestamp":"{now}","labels":{{"{FAMILY}":"{family}","{MANAGED_BY}":"{MANAGER}"}},"managedFields":[{{"manager":"kube-apiserver","operation":"Update","apiVersion":"networking.k8s.io/v1","time":"{now}","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:labels":{{".":{{}},"f:{FAMILY}":{{}},"f:{MANAGED_BY}":{{}}}}}},"f:spec":{{"f:parentRef":{{".":{{}},"f:name":{{}},"f:namespace":{{}},"f:resource":{{}}}}}}}}}}]}},"spec":{{"parentRef":{{"resource":"services","namespace":{},"name":{}}}}}}}"#,
        text("namespace"),
        text("name"),
    )
}

pub(super) fn family_of(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Returns a unique uid: the random digits of the Service's uid mixed with those of the address.
fn uid_of(address: IpAddr, service: &str) -> String {
    let bits = match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    };
    let digits: String = service.chars().filter(char::is_ascii_hexdigit).collect();
    let own = u128::from_str_radix(&digits, 16).unwrap_or_default();
    // An odd factor maps distinct numbers to distinct numbers.
    let mixed = own
        ^ bits
            .wrapping_add(1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let marked = mixed & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{marked:032x}");
    let mut uid = String::with_capacity(36);
    for (at, digit) in hex.chars().enumerate() {
        if [8, 12, 16, 20].contains(&at) {
            uid.push('-');
        }
        uid.push(digit);
    }
    uid
}

impl Service {
    /// Returns the bitmap of node ports after `had` is released and `has` is allocated.
    fn ports(&self, had: &BTreeSet<u16>, has: &BTreeSet<u16>, read: &dyn Fn(&str) -> Option<Value>) -> Claim {
        let mut bits = Bits::decode(read(PORTS).as_ref());
        for at in had.difference(has).filter_map(|port| self.offset(*port)) {
            bits.set(at, false);
        }
        let mut is_lost = false;
        for port in has.difference(had) {
            let Some(at) = self.offset(*port) else { continue };
            if bits.has(at) {
                is_lost = true;
                self.allocations.is_marked(*port);
            }
            bits.set(at, true);
        }
        Claim {
            // Another server allocated one of them and this server has not observed it yet. The map exists, so a claim
            // for a new object fails, and the write is retried.
            is_new: is_lost,
            ..self.map_of_ports(bits)
        }
    }

    /// Returns the index of a port in the bitmap.
    fn offset(&self, port: u16) -> Option<usize> {
        let range = &self.config.node_ports;
        port.checked_sub(*range.start())
            .filter(|_| range.contains(&port))
            .map(usize::from)
    }

    fn range(&self) -> String {
        let range = &self.config.node_ports;
        format!("{}-{}", range.start(), range.end())
    }

    fn map_of_ports(&self, bits: Bits) -> Claim {
        let data = match STANDARD.encode(bits.bytes()) {
            data if data.is_empty() => data,
            data => format!(",\"data\":\"{data}\""),
        };
        let range = self.range();
        Claim {
            key: PORTS.to_owned(),
            object: Some(format!(
                r#"{{"kind":"RangeAllocation","apiVersion":"v1","metadata":{{"resourceVersion":""}},"range":"{range}"{data}}}"#
            )),
            is_new: false,
        }
    }
}

/// Bit set in the encoding of Go's `big.Int`: the highest byte first, without leading zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits(Vec<u8>);

impl PartialEq for Bits {
    fn eq(&self, other: &Self) -> bool {
        self.clone().bytes() == other.clone().bytes()
    }
}

impl Bits {
    /// Decodes a stored bitmap; empty if there is none.
    fn decode(map: Option<&Value>) -> Self {
        let data = map.and_then(|map| map.str_at(&["data"])).unwrap_or_default();
        Self::read(&STANDARD.decode(data).unwrap_or_default())
    }

    /// Iterates over the numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.0.len() * 8).filter(|at| self.has(*at))
    }

    fn read(bytes: &[u8]) -> Self {
        Self(bytes.iter().rev().copied().collect())
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.0.get(at / 8).is_some_and(|byte| byte & 1 << (at % 8) != 0)
    }

    pub(super) fn set(&mut self, at: usize, on: bool) {
        if self.0.len() <= at / 8 {
            self.0.resize(at / 8 + 1, 0);
        }
        if let Some(byte) = self.0.get_mut(at / 8) {
            *byte = if on {
                *byte | 1 << (at % 8)
            } else {
                *byte & !(1 << (at % 8))
            };
        }
    }

    fn bytes(self) -> Vec<u8> {
        let mut bytes = self.0;
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        bytes.reverse();
        bytes
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::time::UNIX_EPOCH;

    use holdfast_value::{Limits, yaml};

    use super::*;
    use crate::config::Config;

    fn service(name: &str, ip: &str, port: u16) -> Value {
        let text = format!(
            "{{metadata: {{name: {name}, namespace: a, uid: 8502290d-313d-466b-b47f-2b3a8095b710}}, spec: {{type: NodePort, \
             clusterIP: {ip}, clusterIPs: [{ip}], ports: [{{port: 80, nodePort: {port}}}]}}}}"
        );
        yaml::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    /// Stored objects that claims are applied to.
    #[derive(Default)]
    struct Stored(RefCell<BTreeMap<String, Value>>);

    impl Stored {
        /// Applies the claims of a change. Returns true if all of them held.
        fn change(&self, old: Option<&Value>, new: Option<&Value>) -> bool {
            let kind = Service::new(&Config::default());
            let read = |key: &str| self.0.borrow().get(key).cloned();
            let claims = kind.beside(old, new, &read, UNIX_EPOCH);
            let mut stored = self.0.borrow_mut();
            if claims
                .iter()
                .any(|claim| claim.is_new && stored.contains_key(&claim.key))
            {
                return false;
            }
            for Claim { key, object, .. } in claims {
                match object {
                    Some(object) => stored.insert(key, json::parse(object.as_bytes(), &Limits::default()).unwrap()),
                    None => stored.remove(&key),
                };
            }
            true
        }

        fn data(&self) -> Option<String> {
            self.0.borrow().get(PORTS)?.str_at(&["data"]).map(str::to_owned)
        }
    }

    #[test]
    fn held_address_is_unavailable_until_released() {
        let stored = Stored::default();
        let first = service("first", "10.0.0.5", 30000);
        assert!(stored.change(None, Some(&first)));
        assert_eq!(stored.data().as_deref(), Some("AQ=="));
        assert!(
            !stored.change(None, Some(&service("second", "10.0.0.5", 30001))),
            "its address"
        );
        assert!(
            !stored.change(None, Some(&service("second", "10.0.0.6", 30000))),
            "its port"
        );
        // A change that keeps both claims nothing.
        assert!(stored.change(Some(&first), Some(&first)));
        let moved = service("first", "10.0.0.5", 30009);
        assert!(stored.change(Some(&first), Some(&moved)));
        assert_eq!(stored.data().as_deref(), Some("AgA="), "bit 9, the highest byte first");
        assert!(stored.change(None, Some(&service("second", "10.0.0.6", 30000))));
        assert!(stored.change(Some(&moved), None));
        assert!(stored.change(None, Some(&service("third", "10.0.0.5", 30009))));
    }

    #[test]
    fn an_address_bears_a_uid_of_its_own() {
        let uid = "8502290d-313d-466b-b47f-2b3a8095b710";
        let uids = ["10.0.0.1", "10.0.0.2", "fd00::1"].map(|address| uid_of(address.parse().unwrap(), uid));
        assert!(
            uids.iter()
                .all(|one| one.len() == 36 && one.as_bytes()[14] == b'4' && one != uid),
            "{uids:?}"
        );
        assert!(uids[0] != uids[1] && uids[1] != uids[2]);
    }
}
