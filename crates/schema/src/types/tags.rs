//! Validation tags: conditions on the values of a field, named like the tags of Kubernetes' own declarative validation
//! (`+k8s:required`, `+k8s:minimum`, ...: <https://kubernetes.io/docs/reference/using-api/declarative-validation/>),
//! without their prefix.
//!
//! ```text
//! type example.v1.Spec struct +rules(Example) +order(@source,kind,count) +changes(kind)
//!   kind string 1 +required("must be set") +enum(A,B) +immutable
//!   count int32 2 pointer +minimum(1)
//! ```
//! A text with blanks or commas is quoted as in JSON. [`Check`](crate::Check) walks the tags.

use std::fmt;

use holdfast_value::SmolStr;

use crate::field::Field;
use crate::field_error::FieldError;
use crate::metadata::conditions::validate_conditions;
use crate::metadata::formats::{self, Messages};
use crate::metadata::labels::{validate_label_selector, validate_labels};
use crate::rule_names::{RuleId, RuleNames};
use crate::types::Gate;
use crate::types::quoted::{items, unquoted};

/// Validation tags of the values of a field.
#[derive(Clone, Debug, Default)]
pub struct Tags {
    /// Tags of the field itself, in the order in which they are checked.
    pub own: Vec<Tag>,
    /// Tags of each item of a list or each value of a map: `+each:...`.
    pub each: Vec<Tag>,
    /// Tags of each key of a map: `+keys:...`.
    pub keys: Vec<Tag>,
    /// Error detail for a value that differs from the old one, if it is immutable: `+immutable`.
    pub immutable: Option<SmolStr>,
    /// True if it is one of the fields of which at most one may be set: `+unionMember`.
    pub union_member: bool,
    /// Field in which the items of a list must differ; for texts, the items themselves: `+distinct(name)`. It is
    /// checked after the items.
    pub distinct: Option<SmolStr>,
    /// Feature gate without which it does not exist: `+gate(...)`. Boxed, since few fields have one.
    pub gate: Option<Box<Gate>>,
}

impl Tags {
    /// Returns true if there are any tags for the values.
    pub(crate) fn holds(&self) -> bool {
        let of_values = [&self.own, &self.each, &self.keys];
        of_values.iter().any(|tags| !tags.is_empty()) || self.union_member || self.distinct.is_some()
    }

    /// Adds a tag in the form of a table, without its `+`.
    pub(crate) fn read(&mut self, tag: &str) -> Result<(), &'static str> {
        if let Some(tag) = tag.strip_prefix("each:") {
            self.each.push(Tag::read(tag)?);
        } else if let Some(tag) = tag.strip_prefix("keys:") {
            self.keys.push(Tag::read(tag)?);
        } else {
            match split(tag) {
                ("immutable", inside) => self.immutable = Some(text_or(inside, "field is immutable")?),
                ("unionMember", _) => self.union_member = true,
                ("distinct", inside) => self.distinct = Some(SmolStr::new(inside)),
                ("gate", inside) => self.gate = Some(Box::new(Gate::read(inside)?)),
                _ => self.own.push(Tag::read(tag)?),
            }
        }
        Ok(())
    }
}

/// A validation tag of a value.
#[derive(Clone, Debug)]
pub enum Tag {
    /// The value must be present: set for a pointer, otherwise neither empty nor zero. If it is missing, no other error
    /// is reported for it. Holds the error detail, which is mostly empty.
    Required(SmolStr),
    /// A text that is set must not be empty: it is reported like a missing one, and no other error is reported for it.
    NotEmpty,
    /// The value may be empty or zero, and is then not validated. A pointer may be unset without this tag, and a text
    /// behind one may be empty with it.
    Optional,
    /// Minimum of a number, and the error detail.
    Minimum(i64, SmolStr),
    /// Maximum of a number, and the error detail.
    Maximum(i64, SmolStr),
    /// Bounds of a number, which the error reports together.
    Range(i64, i64),
    /// Supported values of a text, which the error lists in this order.
    Enum(Vec<SmolStr>),
    /// Format of a text.
    Format(&'static Format),
    /// Maximum number of items of a list or a map.
    MaxItems(usize),
    /// The same; no other error is reported for a list with more items: `+maxItems(n,shortCircuit)`.
    MaxItemsAlone(usize),
    /// Maximum length of a text in bytes, and the error detail, if it is not that of the reference's tag.
    MaxLength(usize, SmolStr),
    /// Field in which the items of a list must differ; for texts, the items themselves.
    Unique(SmolStr),
}

impl Tag {
    fn read(tag: &str) -> Result<Self, &'static str> {
        const NUMBER: &str = "no number in a tag";
        let (name, inside) = split(tag);
        let pair = || inside.split_once(',').unwrap_or((inside, ""));
        let count = || inside.parse().map_err(|_| NUMBER);
        Ok(match name {
            "required" => Self::Required(text_or(inside, "")?),
            "optional" => Self::Optional,
            "notEmpty" => Self::NotEmpty,
            "minimum" | "maximum" => {
                let bound = pair().0.parse().map_err(|_| NUMBER)?;
                let is_least = name == "minimum";
                let side = if is_least { "greater" } else { "less" };
                let usual = format!("must be {side} than or equal to {bound}");
                let said = text_or(pair().1, &usual)?;
                if is_least {
                    Self::Minimum(bound, said)
                } else {
                    Self::Maximum(bound, said)
                }
            }
            "range" => {
                let bound = |text: &str| text.parse().map_err(|_| NUMBER);
                Self::Range(bound(pair().0)?, bound(pair().1)?)
            }
            "enum" => Self::Enum(items(inside)?),
            "format" => Self::Format(Format::named(inside).ok_or("no such format")?),
            "maxItems" => match inside.strip_suffix(",shortCircuit") {
                Some(most) => Self::MaxItemsAlone(most.parse().map_err(|_| NUMBER)?),
                None => Self::MaxItems(count()?),
            },
            "maxLength" => Self::MaxLength(pair().0.parse().map_err(|_| NUMBER)?, text_or(pair().1, "")?),
            "unique" => Self::Unique(SmolStr::new(inside)),
            _ => return Err("no such tag of validation"),
        })
    }
}

/// A format of values.
pub struct Format {
    name: &'static str,
    pub(crate) check: FormatCheck,
}

/// Check of a value's format.
pub(crate) enum FormatCheck {
    /// Returns the errors of a text.
    Text(fn(&str) -> Messages),
    /// Reports the errors of the value of a field.
    Value(fn(&Field<'_, '_>, &mut Vec<FieldError>)),
}

impl Format {
    fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }

    const fn text(name: &'static str, messages: fn(&str) -> Messages) -> Self {
        let check = FormatCheck::Text(messages);
        Self { name, check }
    }

    const fn value(name: &'static str, report: fn(&Field<'_, '_>, &mut Vec<FieldError>)) -> Self {
        let check = FormatCheck::Value(report);
        Self { name, check }
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The formats that tags name: those of the reference's tags, followed by those that it only has in code.
static FORMATS: [Format; 15] = [
    Format::text("k8s-short-name", formats::dns_label),
    Format::text("k8s-long-name", formats::dns_subdomain),
    Format::text("k8s-long-name-caseless", |text| {
        formats::dns_subdomain(&text.to_lowercase())
    }),
    Format::text("k8s-label-key", formats::qualified_name),
    Format::text("k8s-label-value", formats::label_value),
    Format::text("k8s-path-segment-name", formats::path_segment),
    Format::value("k8s-resource-pool-name", resource_pool_name),
    Format::text("dns-label-1035", formats::dns_label_1035),
    Format::text("wildcard-subdomain", formats::wildcard_subdomain),
    Format::text("config-key", formats::config_key),
    Format::value("domain-prefixed-path", |field, errors| {
        errors.extend(formats::domain_prefixed_path(&field.path(), field.text()));
    }),
    Format::value("conditions", validate_conditions),
    Format::value("device-pool-name", device_pool_name),
    Format::value("labels", validate_labels),
    Format::value("label-selector", validate_label_selector),
];

/// Maximum length of the name of a device pool, in bytes.
const POOL_NAME: usize = 253;

/// Validates the name of a device pool, in the words of the reference's code.
///
/// upstream: pkg/apis/resource/validation#validatePoolName
fn device_pool_name(field: &Field<'_, '_>, errors: &mut Vec<FieldError>) {
    if field.text().len() > POOL_NAME {
        errors.push(field.too_long(POOL_NAME));
    }
    for part in field.text().split('/') {
        let messages = formats::dns_subdomain(part).into_iter();
        errors.extend(messages.map(|message| field.invalid_as(part, message)));
    }
}

/// Validates the name of a device pool: subdomains with slashes between them.
///
/// upstream: k8s.io/apimachinery/pkg/api/validate#ResourcePoolName
fn resource_pool_name(field: &Field<'_, '_>, errors: &mut Vec<FieldError>) {
    if field.text().len() > POOL_NAME {
        errors.push(field.too_long(POOL_NAME));
    }
    for (at, part) in field.text().split('/').enumerate() {
        if part.is_empty() {
            errors.push(field.invalid(format!("segment {at}: must not be empty")));
            continue;
        }
        let messages = formats::dns_subdomain(part).into_iter();
        errors.extend(messages.map(|message| field.invalid_as(part, format!("segment {at}: {message}"))));
    }
}

/// An item in the order of the checks of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderItem {
    /// A field: `name`.
    Field(SmolStr),
    /// A field that a rule may have checked, and that is not checked otherwise: `?name`.
    FieldOfRule(SmolStr),
    /// A rule in code: `@name`.
    Rule(RuleId),
}

/// Validation tags of a type as a whole.
#[derive(Clone, Debug, Default)]
pub struct TypeTags {
    /// Set of the rules in code that the orders name: `+rules(Ingress)`, before them.
    pub rules: Option<SmolStr>,
    /// Order in which the reference checks values, if it is not that of the fields: `+order(...)`.
    pub order: Vec<OrderItem>,
    /// The same order for changes: `+changes(...)`.
    pub changes: Vec<OrderItem>,
    /// Name of the members of the union in errors: `+union("handler type")`.
    pub union: Option<SmolStr>,
    /// Checks of values, in order.
    pub(crate) steps: Vec<Step>,
    /// Comparisons with the old object, in order.
    pub(crate) change_steps: Vec<Step>,
}

impl TypeTags {
    /// Adds a tag in the form of a table, without its `+`.
    pub(crate) fn read(&mut self, tag: &str, names: &RuleNames) -> Result<(), &'static str> {
        match split(tag) {
            ("rules", inside) => self.rules = Some(SmolStr::new(inside)),
            ("order", inside) => self.order = self.order_of(inside, |set, name| names.value_rule(set, name))?,
            ("changes", inside) => self.changes = self.order_of(inside, |set, name| names.change_rule(set, name))?,
            ("union", inside) => self.union = Some(text_or(inside, "")?),
            _ => return Err("no such tag of a type"),
        }
        Ok(())
    }

    /// Reads an order; `find` returns the number of a rule by its set and its name.
    fn order_of(
        &self,
        inside: &str,
        find: impl Fn(&str, &str) -> Option<RuleId>,
    ) -> Result<Vec<OrderItem>, &'static str> {
        let read = |word: &str| {
            if let Some(name) = word.strip_prefix('@') {
                let set = self.rules.as_ref().ok_or("no set of the rules of a type")?;
                return find(set, name).map(OrderItem::Rule).ok_or("no such rule of a type");
            }
            Ok(match word.strip_prefix('?') {
                Some(name) => OrderItem::FieldOfRule(name.into()),
                None => OrderItem::Field(word.into()),
            })
        };
        inside.split(',').map(read).collect()
    }
}

/// A step of the checks of a struct.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The field with this index.
    Field(u16),
    /// The rule with this number.
    Rule(RuleId),
}

/// Splits a tag into its name and the text in its brackets.
fn split(tag: &str) -> (&str, &str) {
    match tag.split_once('(') {
        Some((name, inside)) => (name, inside.strip_suffix(')').unwrap_or(inside)),
        None => (tag, ""),
    }
}

fn text_or(inside: &str, usual: &str) -> Result<SmolStr, &'static str> {
    match inside {
        "" => Ok(SmolStr::new(usual)),
        inside => unquoted(inside),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_is_none_is_refused() {
        for tag in [
            "odd",
            "maxItems(x,shortCircuit)",
            "gate",
            "minimum(x)",
            "range(1)",
            "format(odd)",
            "maxItems",
            "each:odd",
            "required(\"a)",
        ] {
            assert!(Tags::default().read(tag).is_err(), "{tag}");
        }
        assert!(TypeTags::default().read("odd", &RuleNames::NONE).is_err());
    }
}
