//! Merge of a configuration into an existing value.

use std::cmp::Ordering;

use holdfast_value::{Entry, List, Map, Value};

use super::items::{Groups, Name, all_differ, duplicate_errors, names, same_names};
use super::validate::scalar_error;
use super::{Checked, Errors, Kind, Typed, ValidationErrors, deduce, first_kind, identical, same, unusable};
use crate::PathElement;
use crate::schema::{ListType, MapType, Scalar, Schema, TypeRef};

impl Typed {
    /// Merges a configuration into this value: leaves of the configuration win, nothing is removed, and shared list
    /// items are in the configuration's order. Unchanged parts are shared with this value.
    ///
    /// ```
    /// use holdfast_merge::Typed;
    /// use holdfast_value::{Limits, json};
    ///
    /// let typed = |text: &str| Typed::deduced(json::parse(text.as_bytes(), &Limits::REQUEST).unwrap());
    ///
    /// let merged = typed(r#"{"a":1,"b":{"c":2}}"#).merge(&typed(r#"{"b":{"d":3}}"#))?;
    /// assert_eq!(json::to_string(merged.value()), r#"{"a":1,"b":{"c":2,"d":3}}"#);
    /// # Ok::<(), holdfast_merge::ValidationErrors>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the types differ, if the configuration has two items with the same key, or if either side does not fit
    /// the type.
    pub fn merge(&self, config: &Typed) -> Result<Typed, ValidationErrors> {
        self.require_type_of(config)?;
        let mut merger = Merger {
            schema: &self.schema,
            existing_is_valid: self.checked >= Checked::Valid,
            config_is_unique: config.checked == Checked::Unique,
            errors: Errors::default(),
        };
        let merged = merger.node(self.type_ref, Some(&self.value), Some(&config.value));
        merger.errors.result()?;
        let checked = match (self.checked, config.checked) {
            (Checked::No, _) | (_, Checked::No) => Checked::No,
            // Duplicates in the existing value are kept if the configuration does not contain their key.
            (existing, _) => existing,
        };
        Ok(self.with_value(merged.unwrap_or_default(), checked))
    }
}

struct Merger<'a> {
    schema: &'a Schema,
    /// True if an existing subtree merged with nothing is unchanged.
    existing_is_valid: bool,
    /// True if a subtree of the configuration merged with nothing, or with itself, is unchanged.
    config_is_unique: bool,
    errors: Errors,
}

impl Merger<'_> {
    /// Merges two nodes, one of which may be absent. `None` if nothing remains.
    fn node(&mut self, type_ref: TypeRef, existing: Option<&Value>, config: Option<&Value>) -> Option<Value> {
        match (existing, config) {
            (None, Some(config)) if self.config_is_unique => return Some(config.clone()),
            (Some(existing), None) if self.existing_is_valid => return Some(existing.clone()),
            (Some(existing), Some(config)) if self.config_is_unique && same(existing, config) => {
                return Some(existing.clone());
            }
            _ => {}
        }
        let resolved = self.schema.resolve(type_ref);
        if resolved.missing {
            self.errors.push(unusable(resolved));
            return None;
        }
        let existing_kinds = existing.map_or(resolved.kinds(), |existing| deduce(resolved, existing));
        let config_kinds = config.map_or(existing_kinds, |config| deduce(resolved, config));
        if existing.is_some() && existing_kinds != config_kinds && !self.existing_is_valid {
            // The existing value is of another kind and is replaced, but its validation errors are still reported.
            self.as_kind(resolved, first_kind(existing_kinds), existing, config);
        }
        self.as_kind(resolved, first_kind(config_kinds), existing, config)
    }

    fn as_kind(
        &mut self,
        of: &crate::schema::Type,
        kind: Option<Kind>,
        existing: Option<&Value>,
        config: Option<&Value>,
    ) -> Option<Value> {
        match (kind, &of.map, &of.scalar, &of.list) {
            (Some(Kind::Map), Some(map), ..) => self.map(map, existing, config),
            (Some(Kind::Scalar), _, Some(scalar), _) => self.scalar(scalar, existing, config),
            (Some(Kind::List), _, _, Some(list)) => self.list(list, existing, config),
            _ => {
                self.errors.push(unusable(of));
                None
            }
        }
    }

    fn scalar(&mut self, scalar: &Scalar, existing: Option<&Value>, config: Option<&Value>) -> Option<Value> {
        if let (Some(existing), Some(config)) = (existing, config)
            && let (Some(existing), Some(config)) = (
                scalar_error(scalar, existing, "lhs: "),
                scalar_error(scalar, config, "rhs: "),
            )
        {
            self.errors.push(existing);
            self.errors.push(config);
            return None;
        }
        leaf(existing, config)
    }

    fn map(&mut self, map: &MapType, existing: Option<&Value>, config: Option<&Value>) -> Option<Value> {
        let existing_map = existing.and_then(Value::as_map);
        let config_map = config.and_then(Value::as_map);
        let existing_entries: &[Entry] = existing_map.map_or(&[], |map| map);
        let config_entries: &[Entry] = config_map.map_or(&[], |map| map);
        if map.atomic || (existing_entries.is_empty() && config_entries.is_empty()) {
            return leaf(existing, config);
        }
        if existing_entries.is_empty() && self.config_is_unique {
            return config.cloned();
        }
        let merged = self.entries(map, existing_entries, config_entries);
        match (merged, existing) {
            (Merged::AsExisting, Some(existing)) => Some(existing.clone()),
            (Merged::AsExisting, None) => None,
            (Merged::Changed(entries), _) if entries.is_empty() => None,
            (Merged::Changed(entries), _) => Some(Value::Map(Map::from_sorted(entries))),
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the side that provides the next item is not empty"
    )]
    fn entries(&mut self, map: &MapType, mut existing: &[Entry], mut config: &[Entry]) -> Merged<Entry> {
        let mut fields = map.cursor();
        let mut out = Output::new(existing);
        loop {
            let order = match (existing.first(), config.first()) {
                (None, None) => return out.finish(),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((existing, _)), Some((config, _))) => existing.as_str().cmp(config.as_str()),
            };
            let existing_entry = existing.first().filter(|_| order.is_le());
            let config_entry = config.first().filter(|_| order.is_ge());
            let Some((key, _)) = existing_entry.or(config_entry) else {
                return out.finish();
            };
            // Most entries are unchanged, whatever their type.
            let stays = match (existing_entry, config_entry) {
                (Some((_, existing)), Some((_, config))) => self.config_is_unique && same(existing, config),
                (Some(_), None) => self.existing_is_valid,
                _ => false,
            };
            if stays {
                out.keep();
                existing = existing.get(1..).unwrap_or_default();
                config = &config[usize::from(order.is_ge())..];
                continue;
            }
            let below = fields.find(key).map_or(map.element, |field| field.type_ref);
            let before = self.errors.count();
            let merged = self.node(
                below,
                existing_entry.map(|(_, value)| value),
                config_entry.map(|(_, value)| value),
            );
            self.errors.prefix(before, || PathElement::Field(key.clone()));
            match (merged, existing_entry) {
                (Some(merged), Some((_, existing))) if same(&merged, existing) => out.keep(),
                (Some(merged), _) => out.push((key.clone(), merged), existing_entry.is_some()),
                (None, _) => out.skip(existing_entry.is_some()),
            }
            existing = &existing[usize::from(order.is_le())..];
            config = &config[usize::from(order.is_ge())..];
        }
    }

    fn list(&mut self, list: &ListType, existing: Option<&Value>, config: Option<&Value>) -> Option<Value> {
        let existing_items: &[Value] = existing.and_then(Value::as_list).map_or(&[], |list| list);
        let config_items: &[Value] = config.and_then(Value::as_list).map_or(&[], |list| list);
        if list.is_atomic() || (existing_items.is_empty() && config_items.is_empty()) {
            return leaf(existing, config);
        }
        if existing_items.is_empty() && self.config_is_unique {
            return config.cloned();
        }
        let merged = match (names(list, existing_items), names(list, config_items)) {
            (Ok(existing_names), Ok(config_names)) => {
                if !self.config_is_unique && !all_differ(&config_names) {
                    duplicate_errors(list, &config_names)
                        .into_iter()
                        .for_each(|error| self.errors.push(error));
                    return None;
                }
                match same_names(&existing_names, &config_names) {
                    // The configuration has each key once, so the existing list has, too.
                    true => self.pairs(list, &existing_names, existing_items, config_items),
                    false => self.items(
                        list,
                        NamedItems {
                            names: &existing_names,
                            items: existing_items,
                        },
                        NamedItems {
                            names: &config_names,
                            items: config_items,
                        },
                    ),
                }
            }
            (existing_names, config_names) => {
                self.errors.0.extend(config_names.err());
                self.errors.0.extend(existing_names.err());
                return None;
            }
        };
        match (merged, existing) {
            (Merged::AsExisting, Some(existing)) => Some(existing.clone()),
            (Merged::AsExisting, None) => None,
            (Merged::Changed(items), _) if items.is_empty() => None,
            (Merged::Changed(items), _) => Some(Value::List(List::from(items))),
        }
    }

    /// Merges lists whose items have the same keys in the same order.
    fn pairs(&mut self, list: &ListType, names: &[Name<'_>], existing: &[Value], config: &[Value]) -> Merged<Value> {
        let mut out = Output::new(existing);
        for ((_, existing), config) in names.iter().zip(existing).zip(config) {
            self.item(list, &mut out, Some(existing), Some(existing), Some(config));
        }
        out.finish()
    }

    /// Merges two lists with a cursor on each. Shared items are in the configuration's order, and items that only the
    /// existing list has stay near their neighbours.
    #[expect(
        clippy::indexing_slicing,
        reason = "groups are numbered from zero, and hold indices of items"
    )]
    fn items<'n>(&mut self, list: &ListType, left: NamedItems<'_, 'n>, right: NamedItems<'_, 'n>) -> Merged<Value> {
        let NamedItems {
            names: existing_names,
            items: existing,
        } = left;
        let NamedItems {
            names: config_names,
            items: config,
        } = right;
        let groups = Groups::new(existing_names, config_names);
        let existing_at = groups.positions(&groups.left);
        let config_at = groups.positions(&groups.right);
        // The existing item that matches a configuration item. A key that occurs more than once in the existing list
        // has no match but null.
        let partner = |group: usize| match existing_at[group].as_slice() {
            [] => None,
            [at] => Some(&existing[*at]),
            [_, _, ..] => Some(&Value::Null),
        };
        let mut shared = groups
            .right
            .iter()
            .copied()
            .filter(|group| !existing_at[*group].is_empty());
        let mut next_shared = shared.next();
        let mut merged = vec![false; groups.count];
        let mut out = Output::new(existing);
        let (mut l, mut c) = (0, 0);
        while l < existing.len() || c < config.len() {
            let at_live = groups.left.get(l).copied();
            let at_config = groups.right.get(c).copied();
            if let (Some(existing_group), Some(config_group)) = (at_live, at_config) {
                if existing_group == config_group {
                    merged[existing_group] = true;
                    self.item(
                        list,
                        &mut out,
                        Some(&existing[l]),
                        partner(existing_group),
                        Some(&config[c]),
                    );
                    (l, c) = (l + 1, c + 1);
                    next_shared = shared.next();
                    continue;
                }
                let is_shared = !config_at[existing_group].is_empty();
                if is_shared && next_shared.is_some_and(|next| next != existing_group) {
                    out.skip(true);
                    l += 1;
                    continue;
                }
            }
            if let Some(existing_group) = at_live {
                if config_at[existing_group].is_empty() {
                    self.item(list, &mut out, Some(&existing[l]), Some(&existing[l]), None);
                    l += 1;
                    continue;
                }
                if merged[existing_group] {
                    out.skip(true);
                    l += 1;
                }
            }
            if let Some(group) = at_config {
                merged[group] = true;
                self.item(list, &mut out, None, partner(group), Some(&config[c]));
                c += 1;
                if next_shared == Some(group) {
                    next_shared = shared.next();
                }
            }
        }
        out.finish()
    }

    /// Merges an item and appends it. `in_place` is the existing item at the position of the merged one. As in the
    /// reference, validation errors within list items are not reported; the item then lacks the invalid part.
    fn item(
        &mut self,
        list: &ListType,
        out: &mut Output<'_, Value>,
        in_place: Option<&Value>,
        existing: Option<&Value>,
        config: Option<&Value>,
    ) {
        let before = self.errors.count();
        let merged = self.node(list.element, existing, config);
        self.errors.forget(before);
        match (merged, in_place) {
            (Some(merged), Some(in_place)) if same(&merged, in_place) => out.keep(),
            (Some(merged), _) => out.push(merged, in_place.is_some()),
            (None, _) => out.skip(in_place.is_some()),
        }
    }
}

/// Returns the configuration's leaf if it has one; reuses the existing value's memory if both are identical.
fn leaf(existing: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    match (existing, config) {
        (Some(existing), Some(config)) if !identical(existing, config) => Some(config.clone()),
        (Some(existing), _) => Some(existing.clone()),
        (None, config) => config.cloned(),
    }
}

/// Parts of a merged container.
enum Merged<T> {
    /// Exactly the parts of the existing container.
    AsExisting,
    Changed(Vec<T>),
}

/// Items of a list with their keys.
#[derive(Clone, Copy)]
struct NamedItems<'a, 'n> {
    names: &'a [Name<'n>],
    items: &'a [Value],
}

/// Collector of a merged container's parts, which copies those of the existing container only at the first difference.
struct Output<'a, T> {
    existing: &'a [T],
    /// Number of existing parts that have been passed.
    passed: usize,
    changed: Option<Vec<T>>,
}

impl<'a, T: Clone> Output<'a, T> {
    fn new(existing: &'a [T]) -> Self {
        Self {
            existing,
            passed: 0,
            changed: None,
        }
    }

    /// Keeps an existing part unchanged.
    #[expect(clippy::indexing_slicing, reason = "no more is skipped than there is")]
    fn keep(&mut self) {
        if let Some(out) = &mut self.changed {
            out.push(self.existing[self.passed].clone());
        }
        self.passed += 1;
    }

    /// Omits an existing part, if there is one here.
    fn skip(&mut self, existing: bool) {
        if existing {
            self.change();
            self.passed += 1;
        }
    }

    /// Adds a part, in exchange for an existing part if there is one here.
    fn push(&mut self, part: T, existing: bool) {
        self.change().push(part);
        self.passed += usize::from(existing);
    }

    #[expect(clippy::indexing_slicing, reason = "no more is skipped than there is")]
    fn change(&mut self) -> &mut Vec<T> {
        let (existing, passed) = (self.existing, self.passed);
        self.changed.get_or_insert_with(|| {
            let mut out = Vec::with_capacity(existing.len() + 4);
            out.extend_from_slice(&existing[..passed]);
            out
        })
    }

    fn finish(self) -> Merged<T> {
        match self.changed {
            Some(out) => Merged::Changed(out),
            None if self.passed == self.existing.len() && !self.existing.is_empty() => Merged::AsExisting,
            None => Merged::Changed(Vec::new()),
        }
    }
}
