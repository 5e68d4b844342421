//! Protobuf messages of `proto.json`, from the view of JSON: the fields of inlined messages belong to their parent.

use std::collections::BTreeMap;

use anyhow::Context as _;
use holdfast_schema::types::{Field, Omission, ProtoPath, Shape, TypeTableBuilder};
use serde_json::Value;

/// All messages, by definition name.
pub(super) struct Messages<'f> {
    messages: BTreeMap<String, &'f Value>,
}

/// A field of a message, as JSON sees it.
pub(super) struct MessageField<'f> {
    /// Its numbers, those of inlined messages above it first.
    pub(super) numbers: Vec<u16>,
    /// The definitions whose messages have these numbers.
    pub(super) holders: Vec<String>,
    /// The facts about it.
    pub(super) fact: &'f Value,
}

impl<'f> Messages<'f> {
    pub(super) fn new(proto: &'f Value) -> Self {
        let messages = proto["messages"].as_object().into_iter().flatten();
        Self {
            messages: messages
                .map(|(name, message)| (definition_name(name), message))
                .collect(),
        }
    }

    /// Returns the fields of a message by their JSON names; `None` if there is no such message.
    pub(super) fn fields(&self, definition: &str) -> Option<BTreeMap<&'f str, MessageField<'f>>> {
        let mut found = BTreeMap::new();
        self.gather(definition, (&[], &[]), &mut found)?;
        Some(found)
    }

    fn gather(
        &self,
        definition: &str,
        above: (&[u16], &[String]),
        found: &mut BTreeMap<&'f str, MessageField<'f>>,
    ) -> Option<()> {
        for fact in self.messages.get(definition)?["fields"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let (mut numbers, mut holders) = (above.0.to_vec(), above.1.to_vec());
            numbers.push(u16::try_from(fact["n"].as_u64()?).ok()?);
            holders.push(definition.to_owned());
            if fact["inline"] == true {
                self.gather(&definition_name(fact["type"].as_str()?), (&numbers, &holders), found)?;
                continue;
            }
            let name = fact["json"].as_str().or(fact["name"].as_str())?;
            let field = MessageField { numbers, holders, fact };
            found.insert(name, field);
        }
        Some(())
    }

    /// Returns the shape of a field; `None` if it names a message without a type of its own, such as the wrapper of a
    /// list.
    pub(super) fn shape(&self, fact: &Value, builder: &TypeTableBuilder) -> Option<Shape> {
        if let Some(value) = fact["map"][1].as_str() {
            return Some(Shape::Map(Box::new(plain_shape(value, builder)?)));
        }
        let plain = plain_shape(fact["type"].as_str()?, builder)?;
        Some(match fact["repeated"] == true {
            true => Shape::List(Box::new(plain)),
            false => plain,
        })
    }
}

impl MessageField<'_> {
    /// Adds the facts of its message to a field.
    pub(super) fn complete(&self, field: &mut Field) -> anyhow::Result<()> {
        let mut numbers = self.numbers.clone();
        if matches!(field.shape, Shape::List(_)) && self.fact["repeated"] != true {
            // A list with a type of its own (`Verbs`) is a message with the items in field 1.
            numbers.push(1);
        }
        field.proto = ProtoPath::new(&numbers).context("nested too deep")?;
        field.omission = match self.fact["jsonOmit"].as_str() {
            Some("never") => Omission::Never,
            Some("omitempty" | "never (struct)") => Omission::Empty,
            Some("omitempty+omitzero" | "omitzero") => Omission::Zero,
            odd => anyhow::bail!("left out of JSON: {odd:?}"),
        };
        let plain = !matches!(field.shape, Shape::List(_) | Shape::Map(_) | Shape::Bytes);
        field.pointer = plain && self.fact["when"] == "set";
        Ok(())
    }
}

fn plain_shape(name: &str, builder: &TypeTableBuilder) -> Option<Shape> {
    Some(match name {
        "string" => Shape::String,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "bool" => Shape::Bool,
        "double" => Shape::Double,
        "bytes" => Shape::Bytes,
        message => Shape::Ref(builder.named(&definition_name(message))?),
    })
}

/// Returns the OpenAPI name of a message such as `k8s.io.api.core.v1.Pod`.
pub(super) fn definition_name(message: &str) -> String {
    let rest = message.strip_prefix("k8s.io.").unwrap_or(message);
    format!("io.k8s.{}", rest.replace('_', "-"))
}
