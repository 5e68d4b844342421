use super::super::ports_of;
use super::taking::numbers_of;
use super::*;
use std::time::SystemTime;

/// Run whose reads nobody records.
struct Unrecorded;

impl WriteRun for Unrecorded {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn record_shared_state(&self) {}
}

impl Allocations {
    /// Allocates from the CIDRs of the flags.
    fn allocate(&self, object: &mut Value, old: Option<&Value>, dry_run: bool) -> Result<Vec<Reservation>, Rejection> {
        self.allocate_from(&Unrecorded, &|| self.ready_blocks(&[]), object, old, dry_run)
    }
}

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
        service_cidr: Cidr::read("10.9.8.0/29").unwrap(),
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
        let Err(Rejection::Invalid(errors)) = allocations.allocate(&mut nameless, None, false) else {
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
fn failed_write_releases_its_allocations() {
    let allocations = allocations();
    let mut wanted = service("ClusterIP", "10.9.8.3");
    let taken = allocations.allocate(&mut wanted, None, false).unwrap();
    let again = allocations.allocate(&mut service("ClusterIP", "10.9.8.3"), None, false);
    let Err(Rejection::Invalid(errors)) = again else {
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
            Err(Rejection::Internal(text)) => {
                assert!(text.ends_with("range is full"));
                break;
            }
            Err(_) => unreachable!(),
        }
    }
    // Eight addresses without the first, the API server's and the last.
    assert_eq!(seen.len(), 5);
}

#[test]
fn addresses_and_ports_are_drawn_from_the_upper_band_first() {
    let allocations = Allocations::new(&Config {
        service_cidr: Cidr::read("10.9.8.0/24").unwrap(),
        random: || 1000,
        ..Config::default()
    });
    let mut object = service("NodePort", "");
    allocations.allocate(&mut object, None, false).unwrap();
    // 16 of 256 addresses and 86 of 2768 ports are left to clients that request them.
    assert_eq!(object.str_at(&["spec", "clusterIP"]), Some("10.9.8.60"));
    let port = object.at(&["spec", "ports"]).and_then(Value::as_list).unwrap()[0].get("nodePort");
    assert_eq!(port.and_then(Value::as_i64), Some(30000 + 86 + 1000));
    let mut upper = around(16, 255, 1000).collect::<Vec<_>>();
    upper.sort_unstable();
    assert!(upper.into_iter().eq(16..255));
    assert_eq!(
        (PORTS.size_in(16), PORTS.size_in(100), PORTS.size_in(10_000)),
        (0, 16, 128)
    );
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
            Err(Rejection::Invalid(errors)) => Err(errors[0].to_string()),
            Err(_) => unreachable!(),
        }
    };
    // A dry run checks neither if the address is allocated nor the range of ports.
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
