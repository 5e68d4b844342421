use holdfast_cel::PatternMemory;
use holdfast_schema::types::{ListType, MapType};
use holdfast_value::{SmolStr, Value};

use crate::formats::is_known_for;
use crate::pattern::Pattern;
use crate::rule::Rule;

/// Maximum nesting of schemas; deeper ones are ignored.
const MAX_DEPTH: usize = 128;

/// A schema, or a value validation within `allOf` and similar keywords.
#[derive(Debug, Default, PartialEq)]
pub struct Node {
    /// Type of the JSON values; `None` if the schema names no type.
    pub kind: Option<JsonType>,
    /// True if the value may be `null`.
    pub nullable: bool,
    /// Default of a field that is left out.
    pub default: Option<Value>,
    /// True if unspecified fields are kept.
    pub preserves_unknown: bool,
    /// True if the value is an object with `apiVersion`, `kind` and `metadata`.
    pub embedded: bool,
    /// True if the value is a whole number or a text.
    pub int_or_string: bool,
    /// Treatment of the items of a list by server-side apply.
    pub list_type: Option<ListType>,
    /// For [`ListType::Map`], the fields that distinguish items.
    pub list_map_keys: Vec<SmolStr>,
    /// Treatment of the fields of a map by server-side apply.
    pub map_type: Option<MapType>,
    /// True if the named map type does not exist.
    pub unknown_map_type: bool,
    /// The specified fields, sorted by name.
    pub properties: Vec<(SmolStr, Node)>,
    /// The schema of all other fields.
    pub additional: Additional,
    /// The schema of the items of a list.
    pub items: Option<Box<Node>>,
    /// Checks of values.
    pub checks: Option<Box<Checks>>,
    /// The rules in CEL.
    pub rules: Vec<Rule>,
    /// Features within the schema, so that walks can skip parts without them.
    pub(super) within: Within,
}

/// Features of a schema or of those below it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Within {
    /// True if there is a default.
    pub(super) defaults: bool,
    /// True if there is a list that is a set or a map.
    pub(super) keyed_lists: bool,
    /// True if there is an embedded object.
    pub(super) embedded: bool,
    /// True if there is a CEL rule.
    pub(super) rules: bool,
    /// True if there is an object that may have unspecified fields.
    pub(super) open: bool,
}

/// Specification, in a schema, of fields that it does not name.
#[derive(Debug, Default, PartialEq)]
pub enum Additional {
    /// Nothing.
    #[default]
    Unsaid,
    /// True if there may be any.
    Allowed(bool),
    /// They are values of this schema.
    Schema(Box<Node>),
}

/// The types of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonType {
    /// A map.
    Object,
    /// A list.
    Array,
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A name that is not a type; no value is of it.
    Unknown,
}

impl JsonType {
    const NAMES: [(JsonType, &'static str); 6] = [
        (JsonType::Object, "object"),
        (JsonType::Array, "array"),
        (JsonType::String, "string"),
        (JsonType::Integer, "integer"),
        (JsonType::Number, "number"),
        (JsonType::Boolean, "boolean"),
    ];

    /// Returns the name in schemas.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(known, _)| *known == self)
            .map_or("", |(_, name)| name)
    }

    /// Returns the type of that name in schemas.
    pub fn from_name(name: &str) -> Self {
        Self::NAMES
            .iter()
            .find(|(_, known)| *known == name)
            .map_or(Self::Unknown, |(of, _)| *of)
    }
}

/// Checks of values beyond their type.
#[derive(Debug, Default, PartialEq)]
pub struct Checks {
    /// Format of texts and numbers; empty if there is none, or none with a known check.
    pub format: SmolStr,
    /// Name of a format without a known check. The reference removes it from schemas of objects, but not from those by
    /// which it checks defaults.
    pub unknown_format: SmolStr,
    /// Name of a type that does not exist.
    pub unknown_type: SmolStr,
    /// Minimum of numbers.
    pub minimum: Option<Limit>,
    /// Maximum of numbers.
    pub maximum: Option<Limit>,
    /// Factor of which numbers are multiples.
    pub multiple_of: Option<f64>,
    /// Minimum number of characters.
    pub min_length: Option<i64>,
    /// Maximum number of characters.
    pub max_length: Option<i64>,
    /// Pattern that texts match.
    pub pattern: Option<Pattern>,
    /// Minimum number of items.
    pub min_items: Option<i64>,
    /// Maximum number of items.
    pub max_items: Option<i64>,
    /// True if no item may be repeated. No CRD that is written today has this keyword.
    pub unique_items: bool,
    /// Minimum number of fields.
    pub min_properties: Option<i64>,
    /// Maximum number of fields.
    pub max_properties: Option<i64>,
    /// Allowed values; any value if empty.
    pub values: Vec<Value>,
    /// Required fields.
    pub required: Vec<SmolStr>,
    /// Schemas that must all match.
    pub all_of: Vec<Node>,
    /// Schemas of which at least one must match.
    pub any_of: Vec<Node>,
    /// Schemas of which exactly one must match.
    pub one_of: Vec<Node>,
    /// Schema that must not match.
    pub not: Option<Box<Node>>,
}

/// A bound of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The bound.
    pub value: f64,
    /// True if the bound itself is excluded.
    pub exclusive: bool,
}

impl Node {
    /// Reads a JSON schema. Malformed parts are skipped: CRDs are validated before they are served.
    pub fn read(schema: &Value) -> Self {
        Self::read_sharing(schema, &PatternMemory::default())
    }

    /// Reads a JSON schema, with patterns compiled into `memory` if that saves work.
    pub fn read_sharing(schema: &Value, memory: &PatternMemory) -> Self {
        Self::read_at(schema, memory, 0)
    }

    fn read_at(schema: &Value, memory: &PatternMemory, depth: usize) -> Self {
        if depth > MAX_DEPTH {
            return Self::default();
        }
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
        let kind = schema.str_at(&["type"]).filter(|name| !name.is_empty());
        let properties: Vec<(SmolStr, Node)> = schema
            .get("properties")
            .and_then(Value::as_map)
            .into_iter()
            .flatten()
            .map(|(name, schema)| (name.clone(), Self::read_at(schema, memory, depth + 1)))
            .collect();
        let below = |name: &str| schema.get(name).filter(|value| value.as_map().is_some());
        let mut node = Self {
            kind: kind.map(JsonType::from_name),
            nullable: flag("nullable"),
            default: schema.get("default").filter(|default| !default.is_null()).cloned(),
            preserves_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            list_type: schema.str_at(&["x-kubernetes-list-type"]).and_then(list_type),
            list_map_keys: texts(schema.get("x-kubernetes-list-map-keys")),
            map_type: schema.str_at(&["x-kubernetes-map-type"]).and_then(map_type),
            unknown_map_type: schema
                .str_at(&["x-kubernetes-map-type"])
                .is_some_and(|name| map_type(name).is_none()),
            properties,
            additional: match schema.get("additionalProperties") {
                Some(Value::Bool(allowed)) => Additional::Allowed(*allowed),
                Some(of @ Value::Map(_)) => Additional::Schema(Box::new(Self::read_at(of, memory, depth + 1))),
                _ => Additional::Unsaid,
            },
            items: below("items").map(|of| Box::new(Self::read_at(of, memory, depth + 1))),
            checks: Checks::read(schema, memory, depth).map(Box::new),
            rules: list(schema.get("x-kubernetes-validations"))
                .iter()
                .map(Rule::read)
                .collect(),
            within: Within::default(),
        };
        node.within = node.look_within();
        node
    }

    fn look_within(&self) -> Within {
        let mut within = Within {
            defaults: self.default.is_some(),
            keyed_lists: matches!(self.list_type, Some(ListType::Set | ListType::Map)),
            embedded: self.embedded,
            rules: !self.rules.is_empty(),
            open: self.preserves_unknown || matches!(self.additional, Additional::Allowed(true)) || self.embedded,
        };
        for child in self.children() {
            within.defaults |= child.within.defaults;
            within.keyed_lists |= child.within.keyed_lists;
            within.embedded |= child.within.embedded;
            within.rules |= child.within.rules;
            within.open |= child.within.open;
        }
        within
    }

    /// Returns the schemas of the junctors: their keyword, their index in its list, and the schema.
    pub fn choices(&self) -> impl Iterator<Item = (&'static str, Option<usize>, &Node)> {
        let checks = self.checks.as_deref();
        let not = checks.and_then(|checks| checks.not.as_deref());
        let lists = checks.into_iter().flat_map(|checks| {
            [
                ("allOf", &checks.all_of),
                ("oneOf", &checks.one_of),
                ("anyOf", &checks.any_of),
            ]
        });
        let listed = lists.flat_map(|(junctor, nodes)| {
            let nodes = nodes.iter().enumerate();
            nodes.map(move |(at, node)| (junctor, Some(at), node))
        });
        not.map(|not| ("not", None, not)).into_iter().chain(listed)
    }

    /// Returns true if the schema, or one below it, has a default.
    pub fn has_defaults(&self) -> bool {
        self.within.defaults
    }

    /// Returns the schemas directly below: those of fields, of other fields, and of items.
    pub fn children(&self) -> impl Iterator<Item = &Node> {
        let additional = match &self.additional {
            Additional::Schema(of) => Some(&**of),
            _ => None,
        };
        let named = self.properties.iter().map(|(_, node)| node);
        named.chain(additional).chain(self.items.as_deref())
    }

    /// Returns true if the schema, or one below it, has CEL rules.
    pub fn leads_to_rules(&self) -> bool {
        self.within.rules
    }

    /// Returns the schema of the field `name`, if it is specified.
    #[expect(clippy::indexing_slicing, reason = "the index was found in this very list")]
    pub fn property(&self, name: &str) -> Option<&Node> {
        let at = self.properties.binary_search_by(|(known, _)| known.as_str().cmp(name));
        at.ok().map(|at| &self.properties[at].1)
    }

    /// Returns the schema of a field, specified by name or not.
    pub fn field(&self, name: &str) -> Option<&Node> {
        self.property(name).or(match &self.additional {
            Additional::Schema(of) => Some(of),
            _ => None,
        })
    }

    /// Returns true if the value is `null` and the schema is not nullable.
    pub(super) fn is_wrong_null(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }
}

impl Checks {
    fn read(schema: &Value, memory: &PatternMemory, depth: usize) -> Option<Self> {
        let number = |name: &str| schema.get(name).and_then(float);
        let limit = |name: &str, exclusive: &str| {
            number(name).map(|value| Limit {
                value,
                exclusive: schema.get(exclusive).and_then(Value::as_bool).unwrap_or_default(),
            })
        };
        let count = |name: &str| schema.get(name).and_then(Value::as_i64);
        let nodes = |name: &str| -> Vec<Node> {
            let schemas = list(schema.get(name)).iter();
            schemas.map(|schema| Node::read_at(schema, memory, depth + 1)).collect()
        };
        let format = SmolStr::new(schema.str_at(&["format"]).unwrap_or_default());
        let is_known = is_known_for(schema.str_at(&["type"]).unwrap_or_default(), &format);
        let (format, unknown_format) = if is_known {
            (format, SmolStr::default())
        } else {
            (SmolStr::default(), format)
        };
        let unknown_type = schema
            .str_at(&["type"])
            .filter(|name| !name.is_empty() && JsonType::from_name(name) == JsonType::Unknown);
        let checks = Self {
            format,
            unknown_format,
            unknown_type: SmolStr::new(unknown_type.unwrap_or_default()),
            minimum: limit("minimum", "exclusiveMinimum"),
            maximum: limit("maximum", "exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            pattern: schema
                .str_at(&["pattern"])
                .filter(|text| !text.is_empty())
                .map(|text| Pattern::new(text, memory)),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            unique_items: schema.get("uniqueItems").and_then(Value::as_bool).unwrap_or_default(),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            values: list(schema.get("enum")).to_vec(),
            required: texts(schema.get("required")),
            all_of: nodes("allOf"),
            any_of: nodes("anyOf"),
            one_of: nodes("oneOf"),
            not: schema
                .get("not")
                .filter(|not| not.as_map().is_some())
                .map(|not| Box::new(Node::read_at(not, memory, depth + 1))),
        };
        (!checks.is_empty()).then_some(checks)
    }

    fn is_empty(&self) -> bool {
        self.format.is_empty()
            && self.unknown_format.is_empty()
            && self.unknown_type.is_empty()
            && self.minimum.is_none()
            && self.maximum.is_none()
            && self.multiple_of.is_none()
            && self.pattern.is_none()
            && !self.unique_items
            && self.values.is_empty()
            && self.required.is_empty()
            && self.not.is_none()
            && [
                self.min_length,
                self.max_length,
                self.min_items,
                self.max_items,
                self.min_properties,
                self.max_properties,
            ]
            .iter()
            .all(Option::is_none)
            && [&self.all_of, &self.any_of, &self.one_of]
                .iter()
                .all(|nodes| nodes.is_empty())
    }
}

/// Returns the number as a float.
pub(super) fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::UInt(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_list).map_or(&[], |list| list)
}

fn texts(value: Option<&Value>) -> Vec<SmolStr> {
    list(value).iter().filter_map(Value::as_str).map(SmolStr::new).collect()
}

fn list_type(name: &str) -> Option<ListType> {
    match name {
        "atomic" => Some(ListType::Atomic),
        "set" => Some(ListType::Set),
        "map" => Some(ListType::Map),
        _ => None,
    }
}

fn map_type(name: &str) -> Option<MapType> {
    match name {
        "atomic" => Some(MapType::Atomic),
        "granular" => Some(MapType::Granular),
        _ => None,
    }
}
