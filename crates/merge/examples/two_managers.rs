//! Applies two files in turn as two managers, without a server, and prints the conflict or the owner of each field.
//!
//! The types of the fields are deduced: maps merge, and lists have one owner as a whole. A program that knows the types
//! builds a schema instead ([`holdfast_merge::SchemaBuilder`]).
//!
//! ```console
//! cargo run --package holdfast-merge --example two_managers -- examples/gitops/platform/shop.yaml examples/gitops/team/shop.yaml
//! ```

use std::error::Error;
use std::io::Write as _;
use std::{env, fs};

use holdfast_merge::{ApplyError, IdentityConverter, Managers, Typed, UpdaterBuilder};
use holdfast_value::{Limits, Value, yaml};

/// Version in which both managers write.
const VERSION: &str = "v1";

/// A manager and the manifest that it applies.
struct Applier<'t> {
    name: &'t str,
    manifest: &'t str,
}

/// Returns a line for each conflicting field, or a line with the field set of each manager.
fn apply_in_turn(first: &Applier<'_>, second: &Applier<'_>) -> Result<Vec<String>, Box<dyn Error>> {
    let updater = UpdaterBuilder::new(IdentityConverter).build();
    let mut object = Typed::deduced(Value::Null);
    let mut managers = Managers::new();
    for applier in [first, second] {
        let manifest = yaml::parse(applier.manifest.as_bytes(), &Limits::default())?;
        let configuration = Typed::deduced(manifest);
        match updater.apply(&object, &configuration, VERSION, managers.clone(), applier.name, false) {
            Ok(applied) => {
                object = applied.object.unwrap_or(object);
                managers = applied.managers;
            }
            Err(ApplyError::Conflicts(conflicts)) => {
                let lines = conflicts.iter().map(|conflict| format!("{}: {conflict}", applier.name));
                return Ok(lines.collect());
            }
            Err(error) => return Err(error.into()),
        }
    }
    let mut lines = Vec::new();
    for (name, owned) in managers.iter() {
        lines.push(format!("{name} owns {}", owned.set.to_fields_v1()));
    }
    Ok(lines)
}

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<String> = env::args().skip(1).collect();
    let [first, second] = paths.as_slice() else {
        return Err("two files are needed".into());
    };
    let (one, two) = (fs::read_to_string(first)?, fs::read_to_string(second)?);
    let first = Applier {
        name: first,
        manifest: &one,
    };
    let second = Applier {
        name: second,
        manifest: &two,
    };
    for line in apply_in_turn(&first, &second)? {
        writeln!(std::io::stdout(), "{line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(first: &str, second: &str) -> Vec<String> {
        let platform = Applier {
            name: "platform",
            manifest: first,
        };
        let team = Applier {
            name: "team",
            manifest: second,
        };
        apply_in_turn(&platform, &team).unwrap()
    }

    #[test]
    fn different_values_of_a_field_conflict() {
        let lines = lines("data: {currency: EUR, theme: light}", "data: {theme: dark}");
        assert_eq!(lines, [r#"team: conflict with "platform": .data.theme"#]);
    }

    #[test]
    fn different_fields_have_different_owners() {
        let lines = lines("data: {currency: EUR}", "data: {theme: dark}");
        let expected = [
            r#"platform owns {"f:data":{".":{},"f:currency":{}}}"#,
            r#"team owns {"f:data":{".":{},"f:theme":{}}}"#,
        ];
        assert_eq!(lines, expected);
    }
}
