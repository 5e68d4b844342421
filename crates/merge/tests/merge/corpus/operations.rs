//! Test vectors of apply and update.

use std::sync::Arc;

use holdfast_merge::{
    ApplyError, Conflict, Conflicts, ConvertError, Converter, Managers, Path, Schema, Typed, Updater, UpdaterBuilder,
};
use holdfast_value::Value;

use crate::corpus::typed::validated;
use crate::corpus::vectors::{Schemas, Vector, Verdict, element, filter, managers, same, same_object, set, sharing};

pub(crate) fn check(schemas: &mut Schemas, vector: &Vector) -> Verdict {
    Some(match vector.op() {
        "conflictsMessage" => {
            let recorded = vector.out("message").unwrap().as_str().unwrap().to_owned();
            same("message", &conflicts(vector).to_string(), &recorded)
        }
        "conflictsToSet" => same("set", &conflicts(vector).to_set(), &set(vector.out("set").unwrap())),
        "apply" | "update" => check_as_given(schemas, vector).and_then(|()| check_validated(schemas, vector)),
        other => Err(format!("unknown operation {other}")),
    })
}

/// Runs a vector on values that are not validated.
fn check_as_given(schemas: &mut Schemas, vector: &Vector) -> Result<(), String> {
    write(schemas, vector, |value, schema, type_ref| {
        Typed::unchecked(value.clone(), schema.clone(), type_ref)
    })
}

/// Runs a vector again on validated values, as far as they are valid, that share their common parts: the result must be
/// the same.
fn check_validated(schemas: &mut Schemas, vector: &Vector) -> Result<(), String> {
    write(schemas, vector, |value, schema, type_ref| {
        validated(&sharing(value, vector.value("live")), schema, type_ref)
    })
    .map_err(|reason| format!("with validated values, {reason}"))
}

fn write(
    schemas: &mut Schemas,
    vector: &Vector,
    typed: impl Fn(&Value, &Arc<Schema>, holdfast_merge::TypeRef) -> Typed,
) -> Result<(), String> {
    let (schema, type_ref) = schemas.type_of(vector, "schema", "type");
    let (existing_schema, existing_type) = schemas.type_of(
        vector,
        if vector.get("liveSchema").is_some() {
            "liveSchema"
        } else {
            "schema"
        },
        if vector.get("liveType").is_some() {
            "liveType"
        } else {
            "type"
        },
    );
    let existing = typed(vector.value("live"), &existing_schema, existing_type);
    let updater = updater(vector, &schema);
    let (version, manager) = (vector.text("version"), vector.text("manager"));
    let before = managers(vector.value("managers"));
    if vector.op() == "update" {
        let new = typed(vector.value("new"), &schema, type_ref);
        let result = updater.update(&existing, &new, version, before, manager);
        return outcome(vector, result, |(object, after)| {
            same_object("object", object.value(), vector.value("new"))?;
            same_managers(vector, &after)
        });
    }
    let config = typed(vector.value("config"), &schema, type_ref);
    let result = updater.apply(&existing, &config, version, before, manager, vector.flag("force"));
    outcome(vector, result, |applied| {
        let noop = vector.out("noop").unwrap().as_bool().unwrap();
        same("no-op", &applied.object.is_none(), &noop)?;
        if let Some(object) = &applied.object {
            same_object("object", object.value(), vector.out("object").unwrap())?;
        }
        same_managers(vector, &applied.managers)
    })
}

fn updater(vector: &Vector, schema: &Arc<Schema>) -> Updater<TableConverter> {
    let mut builder = UpdaterBuilder::new(TableConverter::from_vector(vector, schema));
    let options = vector.get("options");
    let entries = |name: &str| options.and_then(|options| options.get(name)).and_then(Value::as_map);
    if let Some(fields) = entries("ignoredFields") {
        builder = builder.ignored_fields(fields.iter().map(|(version, fields)| (version.clone(), set(fields))));
    }
    if let Some(filters) = entries("ignoreFilter") {
        builder = builder.ignore_filter(filters.iter().map(|(version, value)| (version.clone(), filter(value))));
    }
    let noop = options
        .and_then(|options| options.get("returnInputOnNoop"))
        .and_then(Value::as_bool);
    builder.return_input_on_noop(noop == Some(true)).build()
}

fn outcome<T>(
    vector: &Vector,
    result: Result<T, ApplyError>,
    check: impl FnOnce(T) -> Result<(), String>,
) -> Result<(), String> {
    match (result, vector.out("error"), vector.out("message")) {
        (Err(ApplyError::Conflicts(conflicts)), _, Some(Value::String(message))) => {
            same("message", &conflicts.to_string(), &message.to_string())?;
            let listed: Vec<_> = conflicts
                .iter()
                .map(|conflict| (conflict.manager.to_string(), conflict.path.to_string()))
                .collect();
            let recorded: Vec<_> = vector
                .out("conflicts")
                .and_then(Value::as_list)
                .unwrap()
                .iter()
                .map(name_and_path)
                .collect();
            same("conflicts", &listed, &recorded)
        }
        (Err(_), Some(_), _) => Ok(()),
        (Err(error), None, _) => Err(format!("failed: {error}")),
        (Ok(_), Some(error), _) => Err(format!("succeeded, recorded is the error {error:?}")),
        (Ok(_), None, Some(message)) => Err(format!("succeeded, recorded is {message:?}")),
        (Ok(got), None, None) => check(got),
    }
}

fn name_and_path(conflict: &Value) -> (String, String) {
    let text = |name| conflict.str_at(&[name]).unwrap().to_owned();
    (text("manager"), text("path"))
}

fn same_managers(vector: &Vector, after: &Managers) -> Result<(), String> {
    same("managers", after, &managers(vector.out("managers").unwrap()))
}

fn conflicts(vector: &Vector) -> Conflicts {
    let listed = vector.value("conflicts").as_list().unwrap();
    listed
        .iter()
        .map(|conflict| Conflict {
            manager: conflict.str_at(&["manager"]).unwrap().into(),
            path: conflict
                .get("elements")
                .and_then(Value::as_list)
                .unwrap()
                .iter()
                .map(element)
                .collect::<Path>(),
        })
        .collect()
}

/// A converter as a vector describes it.
struct TableConverter {
    kind: String,
    /// Existing versions, for a converter that accepts them unchanged.
    versions: Vec<String>,
    /// The recorded conversions.
    conversions: Vec<Value>,
    schema: Arc<Schema>,
}

impl TableConverter {
    fn from_vector(vector: &Vector, schema: &Arc<Schema>) -> Self {
        let converter = vector.value("converter");
        let list = |name: &str| {
            converter
                .get(name)
                .and_then(Value::as_list)
                .map(|list| list.to_vec())
                .unwrap_or_default()
        };
        Self {
            kind: converter.str_at(&["kind"]).unwrap().to_owned(),
            versions: list("versions")
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            conversions: list("conversions"),
            schema: Arc::clone(schema),
        }
    }

    fn recorded(&self, object: &Typed, version: &str) -> Option<&Value> {
        self.conversions.iter().find(|conversion| {
            let from_type = conversion
                .str_at(&["fromType"])
                .and_then(|name| self.schema.named(name));
            from_type == Some(object.type_ref())
                && conversion.str_at(&["version"]) == Some(version)
                && conversion.get("from").unwrap_or(&Value::Null) == object.value()
        })
    }
}

impl Converter for TableConverter {
    fn convert(&self, object: &Typed, version: &str) -> Result<Typed, ConvertError> {
        match self.kind.as_str() {
            "identity" => match version {
                "" => Err(ConvertError::Failed("cannot convert to invalid type".into())),
                _ => Ok(object.clone()),
            },
            "accept" => match self.versions.iter().any(|known| known == version) {
                true => Ok(object.clone()),
                false => Err(ConvertError::MissingVersion(version.into())),
            },
            kind => {
                let Some(conversion) = self.recorded(object, version) else {
                    return self.by_rule(kind, object, version);
                };
                if let Some(error) = conversion.get("error") {
                    return Err(match conversion.get("missingVersion").and_then(Value::as_bool) {
                        Some(true) => ConvertError::MissingVersion(version.into()),
                        _ => ConvertError::Failed(format!("{error:?}").into()),
                    });
                }
                let to_type = self.schema.named(conversion.str_at(&["toType"]).unwrap()).unwrap();
                let to = conversion.get("to").cloned().unwrap_or_default();
                Ok(validated(&to, &self.schema, to_type))
            }
        }
    }
}

impl TableConverter {
    /// Converts by the rules behind the recorded conversions, for calls that the reference did not make.
    fn by_rule(&self, kind: &str, object: &Typed, version: &str) -> Result<Typed, ConvertError> {
        if object.value().is_null() && kind == "renaming" {
            let to_type = self.schema.named(version).unwrap();
            return Ok(validated(&Value::Null, &self.schema, to_type));
        }
        if self.schema.named(version) == Some(object.type_ref()) {
            return Ok(object.clone());
        }
        panic!("no {kind} conversion of {:?} to {version} is recorded", object.value());
    }
}
