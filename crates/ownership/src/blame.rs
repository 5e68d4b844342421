//! Owners of each field of an object.

use holdfast_merge::{Path, PathElement, Set};
use holdfast_value::{SmolStr, Value};

use crate::entry::{Entry, Operation, Source};
use crate::lookup::{Fit, fit};
use crate::managed::Managed;

/// Leaf field of an object with its owners.
///
/// ```
/// use holdfast_ownership::blame;
/// use holdfast_value::{Limits, json};
///
/// // Nobody owns the field of an object without managed fields.
/// let object = json::parse(br#"{"size":1}"#, &Limits::REQUEST)?;
/// let fields = blame(&object);
/// assert_eq!((fields[0].path.to_string().as_str(), fields[0].value.as_i64()), (".size", Some(1)));
/// assert!(fields[0].owners.is_empty());
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Blame {
    /// Path of the field. Items of a list are identified by the keys that their owners use, otherwise by position.
    pub path: Path,
    /// Value of the field: a scalar, or an empty list or map.
    pub value: Value,
    /// Owners of the field itself or of a container around it. Empty if it has none.
    pub owners: Vec<Owner>,
}

/// An owner of a field.
///
/// ```
/// use holdfast_ownership::{Operation, blame};
/// use holdfast_value::{Limits, json};
///
/// let object = json::parse(
///     br#"{"metadata":{"managedFields":[{"manager":"scaler","operation":"Update","subresource":"scale","apiVersion":"v1",
///         "time":"1970-01-01T00:01:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:size":{}}}]},"size":1}"#,
///     &Limits::REQUEST,
/// )?;
/// let fields = blame(&object);
/// let owner = &fields.iter().find(|field| field.path.to_string() == ".size").unwrap().owners[0];
/// assert_eq!((owner.manager.as_str(), owner.operation, owner.subresource.as_str()), ("scaler", Operation::Update, "scale"));
/// assert_eq!(owner.time, Some(60));
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Name of the manager.
    pub manager: SmolStr,
    /// Operation by which it became the owner.
    pub operation: Operation,
    /// Subresource through which it writes; empty for the object itself.
    pub subresource: SmolStr,
    /// Time of its last change to its fields, in seconds since 1970, if known.
    pub time: Option<i64>,
}

/// Lists the owners of each field of `object` from its `managedFields`, which are themselves omitted. No schema is
/// needed: the owned paths show which containers are owned as a whole and which item by item. If the entries cannot be
/// read, no field has an owner.
///
/// ```
/// use holdfast_ownership::blame;
/// use holdfast_value::{Limits, json};
///
/// let object = json::parse(
///     br#"{"metadata":{"managedFields":[{"manager":"kubectl","operation":"Apply","apiVersion":"v1",
///         "fieldsType":"FieldsV1","fieldsV1":{"f:size":{}}}]},"size":1}"#,
///     &Limits::REQUEST,
/// )?;
/// let blames = blame(&object);
/// let size = blames.iter().find(|blame| blame.path.to_string() == ".size").unwrap();
/// assert_eq!(size.owners[0].manager, "kubectl");
/// # Ok::<(), holdfast_value::Error>(())
/// ```
pub fn blame(object: &Value) -> Vec<Blame> {
    let managed = Managed::decode(object, Source::Request).unwrap_or_default();
    let mut owners = Vec::with_capacity(managed.0.len());
    let mut claims = Vec::with_capacity(managed.0.len());
    for record in managed.0.into_values() {
        claims.push(Claim {
            owner: owners.len(),
            below: record.set,
            whole: false,
        });
        owners.push(Owner::from(record.entry));
    }
    let mut walk = BlameVisitor {
        owners,
        path: Path::new(),
        blames: Vec::new(),
    };
    walk.value(object, &claims);
    walk.blames
}

impl From<Entry> for Owner {
    fn from(entry: Entry) -> Self {
        Self {
            manager: entry.manager,
            operation: entry.operation,
            subresource: entry.subresource,
            time: entry.time.map(|time| time.seconds),
        }
    }
}

/// Claim of an owner on a value.
#[derive(Clone)]
struct Claim {
    /// Index of the owner in the list of all owners.
    owner: usize,
    /// Owned paths below the value.
    below: Set,
    /// True if the owner owns the value as a whole.
    whole: bool,
}

struct BlameVisitor {
    owners: Vec<Owner>,
    path: Path,
    blames: Vec<Blame>,
}

impl BlameVisitor {
    fn value(&mut self, value: &Value, claims: &[Claim]) {
        match value {
            Value::Map(map) if !map.is_empty() => {
                for (key, value) in map {
                    self.child(PathElement::Field(key.clone()), value, claims);
                }
            }
            Value::List(list) if !list.is_empty() => {
                for (at, item) in list.iter().enumerate() {
                    self.child(item_element(at, item, claims), item, claims);
                }
            }
            leaf => self.blames.push(Blame {
                path: self.path.clone(),
                value: leaf.clone(),
                owners: (claims.iter().filter(|claim| claim.whole))
                    .filter_map(|claim| self.owners.get(claim.owner).cloned())
                    .collect(),
            }),
        }
    }

    fn child(&mut self, element: PathElement, value: &Value, claims: &[Claim]) {
        self.path.push(element.clone());
        if self.path[..] != *Path::from_fields(["metadata", "managedFields"]) {
            let claims: Vec<Claim> = claims.iter().filter_map(|claim| claim.on(&element)).collect();
            self.value(value, &claims);
        }
        self.path.pop();
    }
}

impl Claim {
    /// Returns the claim on a child.
    fn on(&self, element: &PathElement) -> Option<Claim> {
        // A member without paths below it covers the whole content of its value.
        if self.whole && self.below.is_empty() {
            return Some(self.clone());
        }
        let below = self.below.with_prefix(element);
        let whole = self.below.has(std::slice::from_ref(element));
        (whole || !below.is_empty()).then_some(Claim {
            owner: self.owner,
            below,
            whole,
        })
    }
}

/// Returns the element by which owners identify a list item, or its position if there is none.
fn item_element(at: usize, item: &Value, claims: &[Claim]) -> PathElement {
    let known = claims.iter().flat_map(|claim| {
        let below = &claim.below;
        below.members().chain(below.children().map(|(element, _)| element))
    });
    let mut nearly = None;
    for element in known {
        match element {
            PathElement::Value(value) if value == item => return element.clone(),
            PathElement::Key(key) => match fit(key, item) {
                Fit::All => return element.clone(),
                Fit::Some => nearly = Some(element),
                Fit::None => {}
            },
            _ => {}
        }
    }
    let position = || PathElement::Index(i64::try_from(at).unwrap_or(i64::MAX));
    nearly.cloned().unwrap_or_else(position)
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    /// Formats the blames as `path=value: manager/operation[/subresource]@second, ...`.
    fn blamed(text: &str) -> Vec<String> {
        let object = yaml::parse(text.as_bytes(), &Limits::default()).unwrap();
        (blame(&object).into_iter())
            .map(|blame| {
                let owners: Vec<String> = (blame.owners.iter())
                    .map(|owner| {
                        let Owner {
                            manager,
                            operation,
                            subresource,
                            time,
                        } = owner;
                        let time = time.map_or("-".to_owned(), |time| time.to_string());
                        format!("{manager}/{}/{subresource}@{time}", operation.name())
                    })
                    .collect();
                format!("{}={}: {}", blame.path, blame.value, owners.join(", "))
            })
            .collect()
    }

    fn entry(manager: &str, operation: &str, rest: &str, fields: &str) -> String {
        format!(
            "{{manager: {manager}, operation: {operation}, apiVersion: v1, fieldsType: FieldsV1, {rest} fieldsV1: {fields}}}"
        )
    }

    #[test]
    fn each_field_has_its_owners() {
        let entries = [
            entry(
                "alpha",
                "Apply",
                "time: '1970-01-01T00:00:07Z',",
                "{'f:data': {'f:a': {}, 'f:b': {}}}",
            ),
            entry(
                "tool",
                "Update",
                "subresource: status,",
                "{'f:data': {'.': {}, 'f:b': {}}}",
            ),
        ];
        assert_eq!(
            blamed(&format!(
                "{{kind: X, metadata: {{managedFields: [{}], name: one}}, data: {{a: '1', b: 2, c: []}}}}",
                entries.join(", ")
            )),
            [
                ".data.a=\"1\": alpha/Apply/@7",
                ".data.b=2: alpha/Apply/@7, tool/Update/status@-",
                ".data.c=[]: ",
                ".kind=\"X\": ",
                ".metadata.name=\"one\": ",
            ]
        );
    }

    #[test]
    fn owner_of_container_owns_its_content() {
        let entries = entry("alpha", "Apply", "", "{'f:spec': {'f:selector': {}, 'f:args': {}}}");
        assert_eq!(
            blamed(&format!(
                "{{metadata: {{managedFields: [{entries}]}}, spec: {{selector: {{a: b, c: {{d: e}}}}, args: [x, [z]]}}}}"
            )),
            [
                ".spec.args[0]=\"x\": alpha/Apply/@-",
                ".spec.args[1][0]=\"z\": alpha/Apply/@-",
                ".spec.selector.a=\"b\": alpha/Apply/@-",
                ".spec.selector.c.d=\"e\": alpha/Apply/@-",
            ]
        );
    }

    #[test]
    fn items_go_by_the_names_that_their_owners_have_for_them() {
        let fields =
            "{'f:tags': {'v:\"x\"': {}}, 'f:ports': {'k:{\"port\":53,\"protocol\":\"TCP\"}': {'.': {}, 'f:port': {}}}}";
        let entries = entry("alpha", "Apply", "", fields);
        assert_eq!(
            blamed(&format!(
                "{{metadata: {{managedFields: [{entries}]}}, tags: [w, x], ports: [{{port: 53, protocol: UDP}}, {{port: 53}}]}}"
            )),
            [
                ".ports[0].port=53: ",
                ".ports[0].protocol=\"UDP\": ",
                ".ports[port=53,protocol=\"TCP\"].port=53: alpha/Apply/@-",
                ".tags[0]=\"w\": ",
                ".tags[=\"x\"]=\"x\": alpha/Apply/@-",
            ]
        );
    }

    #[test]
    fn entries_that_cannot_be_read_own_nothing() {
        assert_eq!(
            blamed("{metadata: {managedFields: [{operation: Nonsense}]}, a: 1}"),
            [".a=1: "]
        );
        assert_eq!(blamed("5"), ["=5: "]);
    }
}
