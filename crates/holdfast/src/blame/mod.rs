//! `holdfast blame`: an object with the manager, operation and age of each field.

mod age;
mod lines;

use std::time::SystemTime;

use holdfast_ownership::{Blame, Owner, blame};
use holdfast_value::Value;

use self::lines::Line;
use crate::terminal::printable_line;

/// The columns in front of the object.
const HEADER: [&str; 3] = ["MANAGER", "OPERATION", "AGE"];

/// Renders the object as YAML without its `managedFields`. Each line has the field's manager, the operation and
/// subresource through which it owns the field, and the age of that; further managers follow on lines of their own.
pub(crate) fn render(object: &Value, now: SystemTime) -> String {
    let blames = blame(object);
    let lines = lines::annotate(object, &blames);
    let cells: Vec<Vec<[String; 3]>> = lines.iter().map(|line| cells(line, now)).collect();
    let mut widths = HEADER.map(str::len);
    for row in cells.iter().flatten() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }

    let mut out = String::new();
    row(&mut out, &HEADER.map(str::to_owned), widths, "FIELD");
    let blank = HEADER.map(|_| String::new());
    for (line, owners) in lines.iter().zip(&cells) {
        let (first, others) = owners
            .split_first()
            .map_or((&blank, &[][..]), |(first, others)| (first, others));
        row(&mut out, first, widths, &line.text);
        for other in others {
            row(&mut out, other, widths, "");
        }
    }
    out
}

/// Returns one row for each owner of the field on a line.
fn cells(line: &Line<'_>, now: SystemTime) -> Vec<[String; 3]> {
    let owners = line.blame.map_or(&[][..], |Blame { owners, .. }| owners);
    owners
        .iter()
        .map(|owner| [manager(owner), operation(owner), age::describe(owner.time, now)])
        .collect()
}

/// Returns the manager without control characters, so that its name cannot break the column.
fn manager(owner: &Owner) -> String {
    printable_line(&owner.manager)
}

fn operation(owner: &Owner) -> String {
    let Owner {
        operation, subresource, ..
    } = owner;
    match subresource.as_str() {
        "" => operation.name().to_owned(),
        subresource => format!("{}/{}", operation.name(), printable_line(subresource)),
    }
}

fn row(out: &mut String, cells: &[String; 3], widths: [usize; 3], text: &str) {
    let start = out.len();
    for (cell, width) in cells.iter().zip(widths) {
        out.push_str(cell);
        out.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
    }
    out.push_str(text);
    out.truncate(start + out[start..].trim_end_matches(' ').len());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use holdfast_value::{Limits, yaml};

    use super::*;

    fn rendered(object: &str) -> String {
        let object = yaml::parse(object.as_bytes(), &Limits::default()).unwrap();
        render(&object, SystemTime::UNIX_EPOCH + Duration::from_secs(100))
    }

    #[test]
    fn each_field_stands_beside_its_owners() {
        let object = r#"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
  managedFields:
  - {manager: alpha, operation: Apply, apiVersion: apps/v1, time: "1970-01-01T00:00:55Z", fieldsType: FieldsV1,
     fieldsV1: {"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:selector": {}, "f:template": {"f:spec":
       {"f:containers": {'k:{"name":"main"}': {".": {}, "f:name": {}, "f:image": {}}}}}}}}
  - {manager: a-scaler, operation: Update, apiVersion: apps/v1, fieldsType: FieldsV1, subresource: scale,
     fieldsV1: {"f:spec": {"f:replicas": {}}}}
  - {manager: bravo, operation: Update, apiVersion: apps/v1, time: "1970-01-01T00:01:38Z", fieldsType: FieldsV1,
     fieldsV1: {"f:metadata": {"f:labels": {"f:app": {}}}}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    spec:
      containers:
      - {name: main, image: nginx, args: [a, [b]], env: []}
      volumes: [{}, {name: v}]
"#;
        let expected = "\
MANAGER   OPERATION     AGE  FIELD
                             apiVersion: apps/v1
                             kind: Deployment
                             metadata:
                               labels:
alpha     Apply         45s      app: web
bravo     Update        2s
                               name: web
                             spec:
a-scaler  Update/scale  -      replicas: 3
                               selector:
                                 matchLabels:
alpha     Apply         45s        app: web
                               template:
                                 spec:
                                   containers:
                                   - args:
                                     - a
                                     - - b
                                     env: []
alpha     Apply         45s          image: nginx
alpha     Apply         45s          name: main
                                   volumes:
                                   - {}
                                   - name: v
";
        assert_eq!(rendered(object), expected);
    }

    #[test]
    fn texts_of_many_lines_stay_below_their_field() {
        let object = r#"
data: {script: "one\ntwo\n"}
metadata:
  managedFields:
  - {manager: "tab\there", operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:data": {"f:script": {}}}}
list: ["x\ny\n"]
"#;
        let expected = "\
MANAGER   OPERATION  AGE  FIELD
                          data:
tab?here  Apply      -      script: |
                              one
                              two
                          list:
                          - |
                            x
                            y
";
        assert_eq!(rendered(object), expected);
    }

    #[test]
    fn anything_can_be_printed() {
        for (object, expected) in [
            ("5", "MANAGER  OPERATION  AGE  FIELD\n                         5\n"),
            ("{}", "MANAGER  OPERATION  AGE  FIELD\n                         {}\n"),
            (
                "{metadata: {managedFields: [{}]}, z: 1}",
                "MANAGER  OPERATION  AGE  FIELD\n                         z: 1\n",
            ),
        ] {
            assert_eq!(rendered(object), expected);
        }
    }
}
