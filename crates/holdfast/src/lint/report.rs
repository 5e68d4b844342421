//! Findings as text for people, as JSON, and as SARIF
//! (<https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>).

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::findings::{Finding, Rule};
use crate::apply::encoded;
use crate::terminal::printable_line;

const SARIF_SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Returns a line for each finding: place, level, object, message and rule.
pub(super) fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let (file, line, level) = (
            finding.place.file.display(),
            finding.place.line,
            finding.rule.level().name(),
        );
        let message = printable_line(&format!("{file}:{line}: {level}: {}", described(finding)));
        let _ = writeln!(text, "{message} [{}]", finding.rule.id());
    }
    text
}

/// Returns the message with the object and the field.
fn described(finding: &Finding) -> String {
    let mut message = String::new();
    if let Some(object) = &finding.object {
        let _ = write!(message, "{object}: ");
    }
    // The messages of the server contain the field only in part.
    if let Some(field) = finding
        .field
        .as_deref()
        .filter(|field| !finding.message.contains(field))
    {
        let _ = write!(message, "{field}: ");
    }
    message.push_str(&finding.message);
    message
}

/// Returns one JSON document.
pub(super) fn json(findings: &[Finding], objects: usize) -> String {
    let findings: Vec<Value> = findings.iter().map(finding_json).collect();
    format!("{:#}\n", json!({"objects": objects, "findings": findings}))
}

fn finding_json(finding: &Finding) -> Value {
    let mut value = json!({
        "file": finding.place.file.display().to_string(),
        "line": finding.place.line,
        "level": finding.rule.level().name(),
        "rule": finding.rule.id(),
        "message": finding.message,
    });
    for (name, text) in [
        ("object", &finding.object),
        ("manager", &finding.manager),
        ("field", &finding.field),
    ] {
        if let (Some(map), Some(text)) = (value.as_object_mut(), text) {
            map.insert(name.to_owned(), text.as_str().into());
        }
    }
    value
}

/// Returns a SARIF log with one run.
pub(super) fn sarif(findings: &[Finding]) -> String {
    let rules: Vec<Value> = Rule::ALL
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id(),
                "shortDescription": {"text": rule.description()},
                "defaultConfiguration": {"level": rule.level().name()},
            })
        })
        .collect();
    let results: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({
                "ruleId": finding.rule.id(),
                "level": finding.rule.level().name(),
                "message": {"text": described(finding)},
                "locations": [{
                    "physicalLocation": {
                        "artifactLocation": {"uri": uri(finding)},
                        "region": {"startLine": finding.place.line},
                    },
                }],
            })
        })
        .collect();
    let driver = json!({
        "name": "holdfast lint",
        "version": env!("CARGO_PKG_VERSION"),
        "rules": rules,
    });
    let log = json!({
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    });
    format!("{log:#}\n")
}

/// Returns the file as a relative URI reference with slashes.
fn uri(finding: &Finding) -> String {
    let path = finding.place.file.display().to_string();
    let relative = path.strip_prefix("./").unwrap_or(&path);
    let segments: Vec<String> = relative.split('/').map(encoded).collect();
    segments.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::findings::Place;
    use super::*;

    fn findings() -> Vec<Finding> {
        vec![Finding {
            place: Place {
                file: "./my app/a.yaml".into(),
                line: 7,
            },
            rule: Rule::OwnershipConflict,
            object: Some("deployment.apps/web".to_owned()),
            manager: Some("b".to_owned()),
            field: Some(".spec.replicas".to_owned()),
            message: "conflict with \"a\"\u{1b}".to_owned(),
        }]
    }

    #[test]
    fn text_has_one_printable_line_for_each_finding() {
        assert_eq!(
            text(&findings()),
            "./my app/a.yaml:7: error: deployment.apps/web: .spec.replicas: conflict with \"a\"? [ownership-conflict]\n"
        );
    }

    #[test]
    fn json_has_the_parts_of_findings() {
        let document: Value = serde_json::from_str(&json(&findings(), 3)).unwrap();
        assert_eq!(document["objects"], 3);
        assert_eq!(document["findings"][0]["field"], ".spec.replicas");
        assert_eq!(document["findings"][0]["manager"], "b");
    }

    #[test]
    fn sarif_refers_to_the_place_and_the_rule() {
        let log: Value = serde_json::from_str(&sarif(&findings())).unwrap();
        let run = &log["runs"][0];
        let location = &run["results"][0]["locations"][0]["physicalLocation"];
        assert_eq!(location["artifactLocation"]["uri"], "my%20app/a.yaml");
        assert_eq!(location["region"]["startLine"], 7);
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        assert!(rules.iter().any(|rule| rule["id"] == run["results"][0]["ruleId"]));
    }
}
