//! Changes of the types of the API: fields, and the tags of types and fields.

use std::collections::{BTreeMap, BTreeSet};

use super::inventory::{Field, Inventory, Type};

/// Changes by package.
pub(super) type ByPackage<'a> = BTreeMap<&'a str, Vec<String>>;

/// Splits the name of a type into its package and its name.
pub(super) fn split(symbol: &str) -> (&str, &str) {
    symbol.split_once('#').unwrap_or(("", symbol))
}

/// Returns the types and fields that were added, removed, renamed or changed.
pub(super) fn fields<'a>(before: &'a Inventory, after: &'a Inventory) -> ByPackage<'a> {
    let mut changes = ByPackage::new();
    for (symbol, new) in &after.types {
        let (package, name) = split(symbol);
        let lines = changes.entry(package).or_default();
        match before.types.get(symbol) {
            None => lines.push(new_type(name, new)),
            Some(old) => lines.extend(changed_fields(name, old, new)),
        }
    }
    for symbol in before.types.keys().filter(|symbol| !after.types.contains_key(*symbol)) {
        let (package, name) = split(symbol);
        changes
            .entry(package)
            .or_default()
            .push(format!("type `{name}` removed"));
    }
    changes.retain(|_, lines| !lines.is_empty());
    changes
}

fn new_type(name: &str, new: &Type) -> String {
    let fields: Vec<String> = new.fields.iter().map(|field| format!("`{}`", shown(field))).collect();
    match fields.is_empty() {
        true => format!("type `{name}` added"),
        false => format!("type `{name}` added: {}", fields.join(", ")),
    }
}

/// Returns the name of a field in JSON, or the Go name of an inlined one.
fn shown(field: &Field) -> &str {
    match field.json.is_empty() {
        true => &field.name,
        false => &field.json,
    }
}

/// Returns the number and name in protobuf and the Go type of a field.
fn description(field: &Field) -> String {
    match field.protobuf.is_empty() {
        true => format!("`{}`", field.go_type),
        false => format!("protobuf `{}`, `{}`", field.protobuf, field.go_type),
    }
}

/// Returns the number of a field in protobuf, which a renamed field keeps.
fn number(field: &Field) -> Option<&str> {
    field.protobuf.split(' ').next().filter(|number| !number.is_empty())
}

fn changed_fields(name: &str, old: &Type, new: &Type) -> Vec<String> {
    let has = |fields: &[Field], wanted: &Field| fields.iter().any(|field| field.name == wanted.name);
    let mut removed: Vec<&Field> = old.fields.iter().filter(|field| !has(&new.fields, field)).collect();
    let mut lines = Vec::new();
    for field in &new.fields {
        if let Some(before) = old.fields.iter().find(|before| before.name == field.name) {
            lines.extend(changed_field(name, before, field));
            continue;
        }
        let same = |before: &&Field| number(before).is_some() && number(before) == number(field);
        if let Some(index) = removed.iter().position(same) {
            let before = removed.remove(index);
            lines.push(format!(
                "`{name}.{}` renamed to `{}`: {}",
                shown(before),
                shown(field),
                description(field)
            ));
        } else {
            lines.push(format!("`{name}.{}` added: {}", shown(field), description(field)));
        }
    }
    let removed = removed.into_iter();
    lines.extend(removed.map(|field| format!("`{name}.{}` removed: {}", shown(field), description(field))));
    lines
}

fn changed_field(name: &str, old: &Field, new: &Field) -> Option<String> {
    let parts = [
        ("JSON", &old.json, &new.json),
        ("protobuf", &old.protobuf, &new.protobuf),
        ("type", &old.go_type, &new.go_type),
    ];
    let changed: Vec<String> = parts
        .iter()
        .filter(|(_, old, new)| old != new)
        .map(|(part, old, new)| format!("{part} `{old}` → `{new}`"))
        .collect();
    (!changed.is_empty()).then(|| format!("`{name}.{}` changed: {}", shown(new), changed.join(", ")))
}

/// Returns the tags that were added to or removed from types and fields which both releases have.
pub(super) fn tags<'a>(before: &'a Inventory, after: &'a Inventory) -> ByPackage<'a> {
    let mut changes = ByPackage::new();
    for (symbol, new) in &after.types {
        let Some(old) = before.types.get(symbol) else {
            continue;
        };
        let (package, name) = split(symbol);
        let mut lines = Vec::new();
        lines.extend(changed_tags(name, &old.tags, &new.tags));
        for field in &new.fields {
            let kept = old.fields.iter().find(|before| before.name == field.name);
            let before = kept.map_or(&[][..], |before| &before.tags);
            lines.extend(changed_tags(&format!("{name}.{}", shown(field)), before, &field.tags));
        }
        if !lines.is_empty() {
            changes.entry(package).or_default().extend(lines);
        }
    }
    changes
}

fn changed_tags(name: &str, old: &[String], new: &[String]) -> Option<String> {
    let (old, new): (BTreeSet<&String>, BTreeSet<&String>) = (old.iter().collect(), new.iter().collect());
    let list = |tags: Vec<&&String>| {
        let tags: Vec<String> = tags.iter().map(|tag| format!("`{tag}`")).collect();
        tags.join(", ")
    };
    let mut parts = Vec::new();
    let added: Vec<_> = new.difference(&old).collect();
    if !added.is_empty() {
        parts.push(format!("added {}", list(added)));
    }
    let removed: Vec<_> = old.difference(&new).collect();
    if !removed.is_empty() {
        parts.push(format!("removed {}", list(removed)));
    }
    (!parts.is_empty()).then(|| format!("`{name}`: {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, protobuf: &str, go_type: &str) -> Field {
        Field {
            name: name.to_owned(),
            json: name.to_lowercase(),
            protobuf: protobuf.to_owned(),
            go_type: go_type.to_owned(),
            tags: Vec::new(),
        }
    }

    fn with(fields: Vec<Field>) -> Type {
        Type {
            tags: Vec::new(),
            fields,
        }
    }

    #[test]
    fn field_with_the_number_of_a_removed_one_is_renamed() {
        let old = with(vec![field("Old", "1 old", "string"), field("Gone", "2 gone", "string")]);
        let new = with(vec![field("New", "1 new", "string"), field("More", "3 more", "bool")]);
        assert_eq!(
            changed_fields("T", &old, &new),
            [
                "`T.old` renamed to `new`: protobuf `1 new`, `string`",
                "`T.more` added: protobuf `3 more`, `bool`",
                "`T.gone` removed: protobuf `2 gone`, `string`",
            ]
        );
    }

    #[test]
    fn fields_without_protobuf_are_never_renamed() {
        let (old, new) = (
            with(vec![field("Old", "", "string")]),
            with(vec![field("New", "", "string")]),
        );
        assert_eq!(
            changed_fields("T", &old, &new),
            ["`T.new` added: `string`", "`T.old` removed: `string`"]
        );
    }

    #[test]
    fn order_of_tags_does_not_matter() {
        let tags = |list: &[&str]| list.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
        assert_eq!(changed_tags("T.a", &tags(&["+a", "+b"]), &tags(&["+b", "+a"])), None);
        let changed = changed_tags("T.a", &tags(&["+a"]), &tags(&["+b"]));
        assert_eq!(changed.as_deref(), Some("`T.a`: added `+b`; removed `+a`"));
    }
}
