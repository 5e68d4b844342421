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
            live_is_valid: self.checked >= Checked::Valid,
            config_is_unique: config.checked == Checked::Unique,
            errors: Errors::default(),
        };
        let merged = merger.node(self.type_ref, Some(&self.value), Some(&config.value));
        merger.errors.result()?;
        let checked = match (self.checked, config.checked) {
            (Checked::No, _) | (_, Checked::No) => Checked::No,
            // Duplicates in the existing value are kept if the configuration does not contain their key.
            (live, _) => live,
        };
        Ok(self.with_value(merged.unwrap_or_default(), checked))
    }
}

struct Merger<'a> {
    schema: &'a Schema,
    /// True if an existing subtree merged with nothing is unchanged.
    live_is_valid: bool,
    /// True if a subtree of the configuration merged with nothing, or with itself, is unchanged.
    config_is_unique: bool,
    errors: Errors,
}

impl Merger<'_> {
    /// Merges two nodes, one of which may be absent. `None` if nothing remains.
    fn node(&mut self, type_ref: TypeRef, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
        match (live, config) {
            (None, Some(config)) if self.config_is_unique => return Some(config.clone()),
            (Some(live), None) if self.live_is_valid => return Some(live.clone()),
            (Some(live), Some(config)) if self.config_is_unique && same(live, config) => return Some(live.clone()),
            _ => {}
        }
        let resolved = self.schema.resolve(type_ref);
        if resolved.missing {
            self.errors.push(unusable(resolved));
            return None;
        }
        let live_kinds = live.map_or(resolved.kinds(), |live| deduce(resolved, live));
        let config_kinds = config.map_or(live_kinds, |config| deduce(resolved, config));
        if live.is_some() && live_kinds != config_kinds && !self.live_is_valid {
            // The existing value is of another kind and is replaced, but its validation errors are still reported.
            self.as_kind(resolved, first_kind(live_kinds), live, config);
        }
        self.as_kind(resolved, first_kind(config_kinds), live, config)
    }

    fn as_kind(
        &mut self,
        of: &crate::schema::Type,
        kind: Option<Kind>,
        live: Option<&Value>,
        config: Option<&Value>,
    ) -> Option<Value> {
        match (kind, &of.map, &of.scalar, &of.list) {
            (Some(Kind::Map), Some(map), ..) => self.map(map, live, config),
            (Some(Kind::Scalar), _, Some(scalar), _) => self.scalar(scalar, live, config),
            (Some(Kind::List), _, _, Some(list)) => self.list(list, live, config),
            _ => {
                self.errors.push(unusable(of));
                None
            }
        }
    }

    fn scalar(&mut self, scalar: &Scalar, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
        if let (Some(live), Some(config)) = (live, config)
            && let (Some(live), Some(config)) = (
                scalar_error(scalar, live, "lhs: "),
                scalar_error(scalar, config, "rhs: "),
            )
        {
            self.errors.push(live);
            self.errors.push(config);
            return None;
        }
        leaf(live, config)
    }

    fn map(&mut self, map: &MapType, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
        let live_map = live.and_then(Value::as_map);
        let config_map = config.and_then(Value::as_map);
        let live_entries: &[Entry] = live_map.map_or(&[], |map| map);
        let config_entries: &[Entry] = config_map.map_or(&[], |map| map);
        if map.atomic || (live_entries.is_empty() && config_entries.is_empty()) {
            return leaf(live, config);
        }
        if live_entries.is_empty() && self.config_is_unique {
            return config.cloned();
        }
        let merged = self.entries(map, live_entries, config_entries);
        match (merged, live) {
            (Merged::AsLive, Some(live)) => Some(live.clone()),
            (Merged::AsLive, None) => None,
            (Merged::Changed(entries), _) if entries.is_empty() => None,
            (Merged::Changed(entries), _) => Some(Value::Map(Map::from_sorted(entries))),
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the side that provides the next item is not empty"
    )]
    fn entries(&mut self, map: &MapType, mut live: &[Entry], mut config: &[Entry]) -> Merged<Entry> {
        let mut fields = map.cursor();
        let mut out = Output::new(live);
        loop {
            let order = match (live.first(), config.first()) {
                (None, None) => return out.finish(),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((live, _)), Some((config, _))) => live.as_str().cmp(config.as_str()),
            };
            let live_entry = live.first().filter(|_| order.is_le());
            let config_entry = config.first().filter(|_| order.is_ge());
            let Some((key, _)) = live_entry.or(config_entry) else {
                return out.finish();
            };
            // Most entries are unchanged, whatever their type.
            let stays = match (live_entry, config_entry) {
                (Some((_, live)), Some((_, config))) => self.config_is_unique && same(live, config),
                (Some(_), None) => self.live_is_valid,
                _ => false,
            };
            if stays {
                out.keep();
                live = live.get(1..).unwrap_or_default();
                config = &config[usize::from(order.is_ge())..];
                continue;
            }
            let below = fields.find(key).map_or(map.element, |field| field.type_ref);
            let before = self.errors.count();
            let merged = self.node(
                below,
                live_entry.map(|(_, value)| value),
                config_entry.map(|(_, value)| value),
            );
            self.errors.prefix(before, || PathElement::Field(key.clone()));
            match (merged, live_entry) {
                (Some(merged), Some((_, live))) if same(&merged, live) => out.keep(),
                (Some(merged), _) => out.push((key.clone(), merged), live_entry.is_some()),
                (None, _) => out.skip(live_entry.is_some()),
            }
            live = &live[usize::from(order.is_le())..];
            config = &config[usize::from(order.is_ge())..];
        }
    }

    fn list(&mut self, list: &ListType, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
        let live_items: &[Value] = live.and_then(Value::as_list).map_or(&[], |list| list);
        let config_items: &[Value] = config.and_then(Value::as_list).map_or(&[], |list| list);
        if list.is_atomic() || (live_items.is_empty() && config_items.is_empty()) {
            return leaf(live, config);
        }
        if live_items.is_empty() && self.config_is_unique {
            return config.cloned();
        }
        let merged = match (names(list, live_items), names(list, config_items)) {
            (Ok(live_names), Ok(config_names)) => {
                if !self.config_is_unique && !all_differ(&config_names) {
                    duplicate_errors(list, &config_names)
                        .into_iter()
                        .for_each(|error| self.errors.push(error));
                    return None;
                }
                match same_names(&live_names, &config_names) {
                    // The configuration has each key once, so the existing list has, too.
                    true => self.pairs(list, &live_names, live_items, config_items),
                    false => self.items(
                        list,
                        NamedItems {
                            names: &live_names,
                            items: live_items,
                        },
                        NamedItems {
                            names: &config_names,
                            items: config_items,
                        },
                    ),
                }
            }
            (live_names, config_names) => {
                self.errors.0.extend(config_names.err());
                self.errors.0.extend(live_names.err());
                return None;
            }
        };
        match (merged, live) {
            (Merged::AsLive, Some(live)) => Some(live.clone()),
            (Merged::AsLive, None) => None,
            (Merged::Changed(items), _) if items.is_empty() => None,
            (Merged::Changed(items), _) => Some(Value::List(List::from(items))),
        }
    }

    /// Merges lists whose items have the same keys in the same order.
    fn pairs(&mut self, list: &ListType, names: &[Name<'_>], live: &[Value], config: &[Value]) -> Merged<Value> {
        let mut out = Output::new(live);
        for ((_, live), config) in names.iter().zip(live).zip(config) {
            self.item(list, &mut out, Some(live), Some(live), Some(config));
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
            names: live_names,
            items: live,
        } = left;
        let NamedItems {
            names: config_names,
            items: config,
        } = right;
        let groups = Groups::new(live_names, config_names);
        let live_at = groups.positions(&groups.left);
        let config_at = groups.positions(&groups.right);
        // The existing item that matches a configuration item. A key that occurs more than once in the existing list
        // has no match but null.
        let partner = |group: usize| match live_at[group].as_slice() {
            [] => None,
            [at] => Some(&live[*at]),
            [_, _, ..] => Some(&Value::Null),
        };
        let mut shared = groups.right.iter().copied().filter(|group| !live_at[*group].is_empty());
        let mut next_shared = shared.next();
        let mut merged = vec![false; groups.count];
        let mut out = Output::new(live);
        let (mut l, mut c) = (0, 0);
        while l < live.len() || c < config.len() {
            let at_live = groups.left.get(l).copied();
            let at_config = groups.right.get(c).copied();
            if let (Some(live_group), Some(config_group)) = (at_live, at_config) {
                if live_group == config_group {
                    merged[live_group] = true;
                    self.item(list, &mut out, Some(&live[l]), partner(live_group), Some(&config[c]));
                    (l, c) = (l + 1, c + 1);
                    next_shared = shared.next();
                    continue;
                }
                let is_shared = !config_at[live_group].is_empty();
                if is_shared && next_shared.is_some_and(|next| next != live_group) {
                    out.skip(true);
                    l += 1;
                    continue;
                }
            }
            if let Some(live_group) = at_live {
                if config_at[live_group].is_empty() {
                    self.item(list, &mut out, Some(&live[l]), Some(&live[l]), None);
                    l += 1;
                    continue;
                }
                if merged[live_group] {
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
        live: Option<&Value>,
        config: Option<&Value>,
    ) {
        let before = self.errors.count();
        let merged = self.node(list.element, live, config);
        self.errors.forget(before);
        match (merged, in_place) {
            (Some(merged), Some(in_place)) if same(&merged, in_place) => out.keep(),
            (Some(merged), _) => out.push(merged, in_place.is_some()),
            (None, _) => out.skip(in_place.is_some()),
        }
    }
}

/// Returns the configuration's leaf if it has one; reuses the existing value's memory if both are identical.
fn leaf(live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    match (live, config) {
        (Some(live), Some(config)) if !identical(live, config) => Some(config.clone()),
        (Some(live), _) => Some(live.clone()),
        (None, config) => config.cloned(),
    }
}

/// Parts of a merged container.
enum Merged<T> {
    /// Exactly the parts of the existing container.
    AsLive,
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
    live: &'a [T],
    /// Number of existing parts that have been passed.
    passed: usize,
    changed: Option<Vec<T>>,
}

impl<'a, T: Clone> Output<'a, T> {
    fn new(live: &'a [T]) -> Self {
        Self {
            live,
            passed: 0,
            changed: None,
        }
    }

    /// Keeps an existing part unchanged.
    #[expect(clippy::indexing_slicing, reason = "no more is skipped than there is")]
    fn keep(&mut self) {
        if let Some(out) = &mut self.changed {
            out.push(self.live[self.passed].clone());
        }
        self.passed += 1;
    }

    /// Omits an existing part, if there is one here.
    fn skip(&mut self, live: bool) {
        if live {
            self.change();
            self.passed += 1;
        }
    }

    /// Adds a part, in exchange for an existing part if there is one here.
    fn push(&mut self, part: T, live: bool) {
        self.change().push(part);
        self.passed += usize::from(live);
    }

    #[expect(clippy::indexing_slicing, reason = "no more is skipped than there is")]
    fn change(&mut self) -> &mut Vec<T> {
        let (live, passed) = (self.live, self.passed);
        self.changed.get_or_insert_with(|| {
            let mut out = Vec::with_capacity(live.len() + 4);
            out.extend_from_slice(&live[..passed]);
            out
        })
    }

    fn finish(self) -> Merged<T> {
        match self.changed {
            Some(out) => Merged::Changed(out),
            None if self.passed == self.live.len() && !self.live.is_empty() => Merged::AsLive,
            None => Merged::Changed(Vec::new()),
        }
    }
}
