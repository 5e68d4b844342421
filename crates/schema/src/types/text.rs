//! The text form of a [`TypeTable`]: one line a field, so that a change of the tables reads well in a review.
//!
//! ```text
//! package core.v1 io.k8s.api.core.v1
//! type core.v1.ContainerPort struct
//!   containerPort int32 3 required never
//!   protocol string 4 enum(SCTP,TCP,UDP) published default="TCP"
//! ```
//! A field is its name, its shape (`[]` before the shape of items, `{}` before that of values, a type by its name), its
//! numbers in protobuf (`2/1` is field 1 of the message in field 2, `-` is none) and properties. Types outside the
//! packages at the top have their full names. Words that begin with `+` are [validation tags](crate::types::Tag). A
//! text with blanks or commas is quoted as in JSON. Fields are in the order in which the reference writes them.

use holdfast_value::{Limits, SmolStr, Value, json};

use crate::names::{GroupVersion, GroupVersionKind};
use crate::rule_names::RuleNames;
use crate::types::quoted::{items, next_word};
use crate::types::{
    Field, ListType, MapType, MergeKey, Omission, ProtoPath, Scalar, Shape, TableError, TypeTable, TypeTableBuilder,
    Union,
};

/// Error in the text of a table of types.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// A line is malformed.
    #[error("line {line}: {what}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// Description of the error.
        what: &'static str,
    },
    /// The types are inconsistent.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl TypeTable {
    /// Reads the text form of types that name no rules in code; the types keep its order.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        Self::parse_with_rules(text, &RuleNames::NONE)
    }

    /// Reads the text form; the types keep its order. `rules` are the rules in code that they may name.
    pub fn parse_with_rules(text: &str, rules: &RuleNames) -> Result<Self, TextError> {
        let mut reader = Reader::new(rules);
        reader.name_types(text);
        let mut lines = text.lines().enumerate().peekable();
        while let Some((at, line)) = lines.next() {
            let within = |what| TextError::Line { line: at + 1, what };
            if line.is_empty() || line.starts_with('#') || line.starts_with("package ") {
                continue;
            }
            let head = line.strip_prefix("type ").ok_or(within("neither a type nor a field"))?;
            let mut fields = Vec::new();
            while let Some((at, line)) = lines.next_if(|(_, line)| line.starts_with("  ")) {
                let field = reader.field(&line[2..]);
                fields.push(field.map_err(|what| TextError::Line { line: at + 1, what })?);
            }
            reader.add_type(head, fields, at + 1)?;
        }
        Ok(reader.builder.build()?)
    }
}

struct Reader<'t> {
    rules: &'t RuleNames,
    packages: Vec<(&'t str, &'t str)>,
    builder: TypeTableBuilder,
    /// Last full name that was built; kept for its memory.
    name: String,
}

impl<'t> Reader<'t> {
    fn new(rules: &'t RuleNames) -> Self {
        Self {
            rules,
            packages: Vec::new(),
            builder: TypeTableBuilder::default(),
            name: String::new(),
        }
    }

    /// Reads the packages, and the names of the types in their order, which determines their ids.
    fn name_types(&mut self, text: &'t str) {
        for line in text.lines() {
            if let Some((short, long)) = line.strip_prefix("package ").and_then(|rest| rest.split_once(' ')) {
                self.packages.push((short, long));
            } else if let Some(head) = line.strip_prefix("type ") {
                self.full_name(head.split(' ').next().unwrap_or_default());
                self.builder.reference(&self.name);
            }
        }
    }

    /// Builds the full name of a type in `self.name`.
    fn full_name(&mut self, name: &str) {
        self.name.clear();
        let package = name
            .rsplit_once('.')
            .and_then(|(short, last)| Some((self.packages.iter().find(|(known, _)| *known == short)?.1, last)));
        match package {
            Some((long, last)) => self.name.extend([long, ".", last]),
            None => self.name.push_str(name),
        }
    }

    fn add_type(&mut self, head: &str, fields: Vec<Field>, line: usize) -> Result<(), TextError> {
        let (name, after) = next_word(head, ' ');
        let (kind, mut rest) = next_word(after, ' ');
        self.full_name(name);
        let within = |what| TextError::Line { line, what };
        let ty = match Scalar::from_name(kind) {
            Some(scalar) => self.builder.add_scalar(&self.name, scalar)?,
            None if kind == "struct" => self.builder.add_struct(&self.name, fields)?,
            None => return Err(within("no such kind of type")),
        };
        while !rest.is_empty() {
            let (tag, after) = next_word(rest, ' ');
            rest = after;
            let (name, inside) = split_tag(tag);
            match name {
                "atomic" => ty.map_type = Some(MapType::Atomic),
                "granular" => ty.map_type = Some(MapType::Granular),
                "unpublished" => ty.published = false,
                "kind" => ty.kinds.push(kind_of(inside).ok_or(within("no kind"))?),
                "union" => ty.unions.push(union_of(inside).ok_or(within("no union"))?),
                _ if tag.starts_with('+') => ty.tags.read(&tag[1..], self.rules).map_err(within)?,
                _ => return Err(within("no such tag of a type")),
            }
        }
        Ok(())
    }

    fn field(&mut self, line: &str) -> Result<Field, &'static str> {
        let mut rest = line;
        let mut word = || {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = after;
            word
        };
        let (name, shape, path) = (word(), word(), word());
        let mut field = Field::new(name, self.shape(shape));
        field.proto = proto_path(path).ok_or("no numbers of a field")?;
        while !rest.is_empty() {
            if let Some(default) = rest.strip_prefix("default=") {
                field.default = Some(value_of(default)?);
                break;
            }
            let (tag, after) = next_word(rest, ' ');
            rest = after;
            mark_field(&mut field, tag)?;
        }
        Ok(field)
    }

    fn shape(&mut self, word: &str) -> Shape {
        if let Some(item) = word.strip_prefix("[]") {
            return Shape::List(Box::new(self.shape(item)));
        }
        if let Some(value) = word.strip_prefix("{}") {
            return Shape::Map(Box::new(self.shape(value)));
        }
        if let Some((shape, _)) = PLAIN_SHAPES.iter().find(|(_, name)| *name == word) {
            return shape.clone();
        }
        self.full_name(word);
        Shape::Ref(self.builder.reference(&self.name))
    }
}

/// Shapes that contain no other, with their names in a table.
pub const PLAIN_SHAPES: [(Shape, &str); 7] = [
    (Shape::String, "string"),
    (Shape::Int32, "int32"),
    (Shape::Int64, "int64"),
    (Shape::Bool, "bool"),
    (Shape::Double, "double"),
    (Shape::Bytes, "bytes"),
    (Shape::Any, "any"),
];

fn mark_field(field: &mut Field, tag: &str) -> Result<(), &'static str> {
    if let Some(tag) = tag.strip_prefix('+') {
        return field.tags.read(tag);
    }
    let (name, inside) = split_tag(tag);
    match name {
        "required" => field.required = true,
        "pointer" => field.pointer = true,
        "never" => field.omission = Omission::Never,
        "zero" => field.omission = Omission::Zero,
        "atomic" => field.list_type = Some(ListType::Atomic),
        "set" => field.list_type = Some(ListType::Set),
        "keys" => {
            field.list_type = Some(ListType::Map);
            field.keys = inside.split(',').map(merge_key).collect::<Result<_, _>>()?;
        }
        "map-atomic" => field.map_type = Some(MapType::Atomic),
        "map-granular" => field.map_type = Some(MapType::Granular),
        "merge" => field.patch.merge = true,
        "replace" => field.patch.replace = true,
        "merge-key" => field.patch.merge_key = Some(SmolStr::new(inside)),
        "retain-keys" => field.patch.retain_keys = true,
        "enum" => field.enum_values = items(inside)?,
        "published" => field.default_published = true,
        "undefaulted" => field.undefaulted = true,
        _ => return Err("no such tag of a field"),
    }
    Ok(())
}

/// Splits `tag(inside)` into its two parts.
fn split_tag(tag: &str) -> (&str, &str) {
    match tag.split_once('(') {
        Some((name, inside)) => (name, inside.strip_suffix(')').unwrap_or(inside)),
        None => (tag, ""),
    }
}

fn merge_key(text: &str) -> Result<MergeKey, &'static str> {
    let (name, default) = match text.split_once('=') {
        Some((name, default)) => (name, Some(value_of(default)?)),
        None => (text, None),
    };
    let name = SmolStr::new(name);
    Ok(MergeKey { name, default })
}

fn value_of(text: &str) -> Result<Value, &'static str> {
    json::parse(text.as_bytes(), &Limits::TRUSTED).map_err(|_| "no JSON value")
}

#[expect(clippy::indexing_slicing, reason = "the depth counts the numbers that were read")]
fn proto_path(text: &str) -> Option<ProtoPath> {
    if text == "-" {
        return Some(ProtoPath::default());
    }
    let mut numbers = [0; 3];
    let mut depth = 0;
    for number in text.split('/') {
        *numbers.get_mut(depth)? = number.parse().ok()?;
        depth += 1;
    }
    ProtoPath::new(&numbers[..depth])
}

fn kind_of(text: &str) -> Option<GroupVersionKind> {
    let (group_version, kind) = text.rsplit_once('/')?;
    let group_version = GroupVersion::parse(group_version)?;
    let kind = SmolStr::new(kind);
    Some(GroupVersionKind { group_version, kind })
}

fn union_of(text: &str) -> Option<Union> {
    let (discriminator, fields) = text.split_once(':')?;
    let fields = fields.split(',').map(|pair| pair.split_once('='));
    Some(Union {
        discriminator: (!discriminator.is_empty()).then(|| SmolStr::new(discriminator)),
        fields: fields
            .map(|pair| pair.map(|(field, value)| (SmolStr::new(field), SmolStr::new(value))))
            .collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"package a.v1 io.example.a.v1

type a.v1.Port struct atomic kind(v1/Port) kind(a/v1/Port) union(type:tcp=TCP,udp=UDP)
  number int32 1 required never
  protocol string 2/3 enum(,TCP,"UDP 8") published default="TCP"

type a.v1.Ports struct unpublished
  extra {}[]string 1 pointer map-atomic
  ports []a.v1.Port - merge replace retain-keys keys(number,protocol="TCP") merge-key(number)
  when a.v1.Time 3 zero undefaulted

type a.v1.Time time
"#;

    #[test]
    fn types_have_the_properties_of_their_lines() {
        let table = TypeTable::parse(TEXT).unwrap();
        let ports = table.get(table.id("io.example.a.v1.Ports").unwrap());
        assert!(!ports.published && ports.field("when").unwrap().undefaulted);
        assert_eq!(ports.field("extra").unwrap().map_type, Some(MapType::Atomic));
        let list = ports.field("ports").unwrap();
        assert_eq!(list.patch.merge_key.as_deref(), Some("number"));
        assert!(list.patch.merge && list.patch.replace && list.patch.retain_keys);
        assert_eq!(list.keys[1].default, Some(Value::from("TCP")));
        let port = table.get(table.id("io.example.a.v1.Port").unwrap());
        assert_eq!(port.map_type, Some(MapType::Atomic));
        assert_eq!(port.unions[0].fields.len(), 2);
        let protocol = port.field("protocol").unwrap();
        assert_eq!(protocol.proto.numbers(), [2, 3]);
        assert_eq!(protocol.enum_values, ["", "TCP", "UDP 8"]);
        assert_eq!(json::to_string(&port.zero()), r#"{"number":0}"#);
        assert_eq!(
            table.id_of_kind(&kind_of("a/v1/Port").unwrap()),
            table.id("io.example.a.v1.Port")
        );
    }

    const RULES: RuleNames = RuleNames {
        values: &[("A", "one")],
        changes: &[("A", "two")],
    };

    #[test]
    fn a_bad_line_is_named() {
        for (text, message) in [
            ("type a struct\n  x string nine", "line 2: no numbers of a field"),
            ("type a struct\n  x string 1 odd", "line 2: no such tag of a field"),
            ("type a odd", "line 1: no such kind of type"),
            ("type a struct +odd", "line 1: no such tag of a type"),
            ("type a struct\n  x string 1 +odd", "line 2: no such tag of validation"),
            (
                "type a struct +order(x)\n  x string 1",
                "the order of a names x, of which nothing is said",
            ),
            (
                "type a struct +rules(A) +order(@one)\n  x string 1 +required",
                "the order of a leaves out x, of which something is said",
            ),
            (
                "type a struct +rules(A) +changes(@two)\n  x string 1 +immutable",
                "the order of a leaves out x, of which something is said",
            ),
            ("type a struct +order(@one)", "line 1: no set of the rules of a type"),
            ("type a struct +rules(A) +order(@two)", "line 1: no such rule of a type"),
            (
                "type a struct +rules(A) +changes(@one)",
                "line 1: no such rule of a type",
            ),
            ("  x string 1", "line 1: neither a type nor a field"),
            ("type a struct\n  x b 1", "the type b is named and not there"),
            ("type a time\ntype a time", "the type a stands there twice"),
            (
                "type a struct\n  x string 1\n  x string 2",
                "the field x of a stands there twice",
            ),
            (
                "type a struct\n  x a 1",
                "a value of type a that is not set would be endless",
            ),
        ] {
            let error = TypeTable::parse_with_rules(text, &RULES).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
