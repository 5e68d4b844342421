//! Table cells that several kinds share.

use std::time::SystemTime;

use holdfast_resource::table::items;
use holdfast_value::Value;

/// Returns the phase of an object, or `Terminating` if it is being deleted.
pub(crate) fn phase_or_terminating(object: &Value, _now: SystemTime) -> Value {
    match object.at(&["metadata", "deletionTimestamp"]) {
        Some(_) => "Terminating".into(),
        None => object.str_at(&["status", "phase"]).unwrap_or_default().into(),
    }
}

/// Returns the class of a volume or of a claim, from the older annotation or from the field.
pub(crate) fn storage_class(object: &Value, _now: SystemTime) -> Value {
    const BETA: [&str; 3] = ["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"];
    let class = object
        .str_at(&BETA)
        .or_else(|| object.str_at(&["spec", "storageClassName"]));
    class.unwrap_or_default().into()
}

/// Returns the access modes at `path` by their abbreviations.
pub(crate) fn access_modes(object: &Value, path: &[&str]) -> Value {
    const MODES: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let listed = items(object, path);
    let short = MODES
        .iter()
        .filter(|(mode, _)| listed.iter().any(|item| item.as_str() == Some(mode)));
    short.map(|(_, short)| *short).collect::<Vec<_>>().join(",").into()
}

/// Returns the name of a class, followed by `(default)` if it is the default.
///
/// upstream: pkg/printers/internalversion#printStorageClass
pub(crate) fn default_class(class: &Value, annotations: &[&str]) -> Value {
    let name = class.str_at(&["metadata", "name"]).unwrap_or_default();
    let is_default = |key: &&str| class.str_at(&["metadata", "annotations", key]) == Some("true");
    if annotations.iter().any(is_default) {
        format!("{name} (default)").into()
    } else {
        name.into()
    }
}

/// Returns the addresses of a load balancer.
pub(crate) fn ingress_addresses(object: &Value) -> Vec<String> {
    let points = items(object, &["status", "loadBalancer", "ingress"]);
    let address = |point: &Value| {
        let ip = point.str_at(&["ip"]).filter(|ip| !ip.is_empty());
        ip.or_else(|| point.str_at(&["hostname"])).map(str::to_owned)
    };
    let mut addresses: Vec<String> = points.iter().filter_map(address).collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

/// Number of texts in the result of [`first_of`].
const SHOWN: usize = 3;

/// Returns the first few of many texts, and the number of the others.
pub(crate) fn first_of(all: &[String]) -> String {
    let shown = all.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(",");
    match all.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_kind_tables::Columns;
    use holdfast_resource::table::NamedCell;
    use holdfast_value::{Limits, json};

    use super::*;
    use crate::{Config, kind_of};

    #[test]
    fn cells_show_what_the_object_says_and_what_is_missing() {
        for (plural, name, object, cell) in [
            (
                "componentstatuses",
                "component-status",
                r#"{"conditions":[{"type":"Healthy","status":"True"}]}"#,
                "Healthy",
            ),
            ("componentstatuses", "component-status", "{}", "Unknown"),
            (
                "validatingadmissionpolicies",
                "parameter-kind",
                r#"{"spec":{"paramKind":{"apiVersion":"v1","kind":"A"}}}"#,
                "v1/A",
            ),
            (
                "validatingadmissionpolicies",
                "parameter-kind",
                r#"{"spec":{}}"#,
                "<unset>",
            ),
            (
                "validatingadmissionpolicybindings",
                "parameter-reference",
                r#"{"spec":{"paramRef":{"name":"p"}}}"#,
                "*/p",
            ),
            (
                "validatingadmissionpolicybindings",
                "parameter-reference",
                r#"{"spec":{"paramRef":{"selector":{"matchLabels":{"a":"b"}}}}}"#,
                "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}",
            ),
            (
                "ipaddresses",
                "parent-reference",
                r#"{"spec":{"parentRef":{"group":"G.io","resource":"Things","namespace":"n","name":"t"}}}"#,
                "things.g.io/n/t",
            ),
            (
                "certificatesigningrequests",
                "requested-duration",
                r#"{"spec":{"expirationSeconds":3600}}"#,
                "60m",
            ),
            (
                "certificatesigningrequests",
                "requested-duration",
                r#"{"spec":{}}"#,
                "<none>",
            ),
            (
                "certificatesigningrequests",
                "signing-condition",
                r#"{"status":{"conditions":[{"type":"Approved"}],"certificate":"YQ=="}}"#,
                "Approved,Issued",
            ),
            ("certificatesigningrequests", "signing-condition", "{}", "Pending"),
            ("resourceclaims", "resource-claim-state", "{}", "pending"),
            (
                "resourceclaims",
                "resource-claim-state",
                r#"{"status":{"allocation":{},"reservedFor":[{}]}}"#,
                "allocated,reserved",
            ),
            ("apiservices", "service-reference", r#"{"spec":{}}"#, "Local"),
            (
                "apiservices",
                "service-reference",
                r#"{"spec":{"service":{"namespace":"n","name":"s"}}}"#,
                "n/s",
            ),
            (
                "apiservices",
                "service-available",
                r#"{"status":{"conditions":[{"type":"Available","status":"False","reason":"Gone"}]}}"#,
                "False (Gone)",
            ),
            ("events", "event-message", r#"{"message":" Started \n"}"#, "Started"),
        ] {
            let group = match plural {
                "validatingadmissionpolicies" => "admissionregistration.k8s.io",
                "validatingadmissionpolicybindings" => "admissionregistration.k8s.io",
                "ipaddresses" => "networking.k8s.io",
                "certificatesigningrequests" => "certificates.k8s.io",
                "resourceclaims" => "resource.k8s.io",
                "apiservices" => "apiregistration.k8s.io",
                _ => "",
            };
            let object = json::parse(object.as_bytes(), &Limits::TRUSTED).unwrap();
            let kind = kind_of(group, plural, &Config::default()).unwrap();
            let (_, of) = kind.cells.iter().find(|(known, _)| *known == name).unwrap();
            assert_eq!(of(&object, SystemTime::UNIX_EPOCH), cell.into(), "{name} of {object}");
        }
    }

    fn cells_of(api_version: &str, plural: &str) -> &'static [NamedCell] {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        kind_of(group, plural, &Config::default()).map_or(&[], |kind| kind.cells)
    }

    #[test]
    fn every_cell_of_a_kind_is_that_of_a_column() {
        let mut at = (String::new(), String::new());
        let mut used = std::collections::HashSet::new();
        for line in Columns::lines() {
            match (line.split_once("computed "), line.split_once(' ')) {
                (Some((_, rule)), _) => {
                    let name = rule.split(' ').next().unwrap_or_default();
                    used.insert((at.0.clone(), at.1.clone(), name.to_owned()));
                }
                (None, Some((version, plural))) if !line.starts_with(' ') => at = (version.into(), plural.into()),
                _ => {}
            }
        }
        for (version, plural, _) in &used {
            for (name, _) in cells_of(version, plural) {
                let shown = |plural: &String| used.contains(&(version.clone(), plural.clone(), (*name).to_owned()));
                // Policies and their bindings have the same cells.
                assert!(
                    shown(plural)
                        || shown(&plural.replace("policies", "policybindings"))
                        || shown(&plural.replace("policybindings", "policies")),
                    "{plural}: {name}"
                );
            }
        }
    }

    #[test]
    fn every_table_line_is_a_column_with_description() {
        let columns = Columns::read();
        let mut cells: &[NamedCell] = &[];
        for line in Columns::lines() {
            match (line.strip_prefix("  "), line.split_once(' ')) {
                (Some(line), _) => {
                    let column = columns.column(line, cells).unwrap_or_else(|| panic!("{line}"));
                    // The reference looks up the descriptions of these fields in the wrong type.
                    let wordless = ["BinaryVersion", "EmulationVersion", "Handler"]
                        .iter()
                        .any(|name| line.starts_with(name));
                    assert!(wordless || !column.description.is_empty(), "{line}");
                }
                (None, Some((api_version, plural))) => cells = cells_of(api_version, plural),
                (None, None) => panic!("{line}"),
            }
        }
        let names = |version, plural| -> Vec<String> {
            let columns = columns.of(version, plural, &[]).unwrap_or_else(|| columns.defaults());
            columns.iter().map(|column| column.name.to_string()).collect()
        };
        assert_eq!(names("v1", "configmaps"), ["Name", "Data", "Age"]);
        assert_eq!(names("v1", "limitranges"), ["Name", "Created At"]);
    }

    #[test]
    fn column_description_is_that_of_its_field_or_its_own() {
        let columns = Columns::read();
        let description = |plural, name: &str| {
            let columns = columns.of("v1", plural, cells_of("v1", plural)).unwrap();
            let column = columns.into_iter().find(|column| column.name == name).unwrap();
            column.description
        };
        assert!(description("configmaps", "Name").starts_with("Name must be unique within a namespace."));
        assert!(description("configmaps", "Data").starts_with("Data contains the configuration data."));
        assert!(description("configmaps", "Age").contains("\n\nPopulated by the system."));
        assert!(description("pods", "IP").starts_with("podIP address"));
        assert_eq!(description("nodes", "Roles"), "The roles of the node");
        // The possible values of a field belong to its schema, not to this table.
        assert!(!description("services", "Type").contains("Possible enum"));
    }
}
