//! Cells of the kinds and the columns that name them.

use std::time::SystemTime;

use holdfast_kind_tables::Columns;
use holdfast_resource::table::NamedCell;
use holdfast_value::{Limits, json};

use crate::config::Config;
use crate::registry::kind_of;

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
        let columns = columns
            .for_resource(version, plural, &[])
            .unwrap_or_else(|| columns.defaults());
        columns.iter().map(|column| column.name.to_string()).collect()
    };
    assert_eq!(names("v1", "configmaps"), ["Name", "Data", "Age"]);
    assert_eq!(names("v1", "limitranges"), ["Name", "Created At"]);
}

#[test]
fn column_description_is_that_of_its_field_or_its_own() {
    let columns = Columns::read();
    let description = |plural, name: &str| {
        let columns = columns.for_resource("v1", plural, cells_of("v1", plural)).unwrap();
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
