//! Conflicts of an apply, as a server reports them.

use std::fmt;

use anyhow::{Context as _, Result, bail};
use holdfast_ownership::{Path, PathElement, PathText};
use holdfast_value::{Value, json};

use crate::terminal::printable_line;

/// Maximum number of characters of a value on the terminal.
const MAX_VALUE_CHARACTERS: usize = 400;

/// Field that an apply would change and that another manager owns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Conflict {
    /// Path of the field.
    pub(super) field: String,
    /// Description of the owner.
    owner: String,
    /// Existing value, if it is known.
    stored: Option<Value>,
    /// Text of a value that the server truncated.
    stored_truncated: Option<String>,
    /// Requested value, if it is known.
    requested: Option<Value>,
    requested_truncated: Option<String>,
}

/// Returns the conflicts in a `Status`; none if it reports another error.
pub(super) fn of_status(status: &Value) -> Vec<Conflict> {
    let list = |name: &str| {
        let list = status.at(&["details", name]).and_then(Value::as_list);
        list.into_iter().flat_map(|list| list.iter())
    };
    let text = |value: &Value, name: &str| value.str_at(&[name]).map(str::to_owned);
    let causes = list("causes").filter(|cause| cause.str_at(&["reason"]) == Some("FieldManagerConflict"));
    let mut conflicts: Vec<Conflict> = causes
        .map(|cause| {
            let message = cause.str_at(&["message"]).unwrap_or_default();
            Conflict {
                field: text(cause, "field").unwrap_or_default(),
                owner: message.strip_prefix("conflict with ").unwrap_or(message).to_owned(),
                ..Conflict::default()
            }
        })
        .collect();
    // Both lists have the same order; the second one may be shorter.
    for (conflict, details) in conflicts.iter_mut().zip(list("conflicts")) {
        if let Some(time) = details.str_at(&["time"]) {
            conflict.owner.push_str(&format!(", {time}"));
        }
        conflict.stored = details.get("stored").cloned();
        conflict.stored_truncated = text(details, "storedTruncated");
        conflict.requested = details.get("requested").cloned();
        conflict.requested_truncated = text(details, "requestedTruncated");
    }
    conflicts
}

impl Conflict {
    /// Adds the values from the existing object and from the manifest, for servers that do not report them.
    pub(super) fn fill_in(&mut self, existing: &Value, manifest: &Value) {
        self.stored = self
            .position_in(existing)
            .and_then(|path| value_at(existing, &path).cloned());
        self.requested = self
            .position_in(manifest)
            .and_then(|path| value_at(manifest, &path).cloned());
    }

    /// True if the field is one of `fields` or lies in one of them.
    pub(super) fn is_below(&self, fields: &[PathText], manifest: &Value) -> bool {
        let Some(path) = self.position_in(manifest) else {
            return fields.iter().any(|field| field.as_str() == self.field);
        };
        let mut positions = fields.iter().filter_map(|field| field.position_in(manifest));
        positions.any(|position| path.starts_with(&position))
    }

    /// Removes the field from the manifest, so that its owner keeps it.
    pub(super) fn remove_from(&self, manifest: &mut Value) -> Result<()> {
        let path = self.in_manifest(manifest)?;
        let (last, parents) = path.split_last().context("the whole object conflicts")?;
        let parent = value_at_mut(manifest, parents).context("the manifest has changed")?;
        match last {
            PathElement::Field(name) => drop(parent.as_map_mut().and_then(|map| map.remove(name))),
            PathElement::Index(position) => {
                let list = parent.as_list_mut().map(|list| list.make_mut());
                if let Some((list, position)) = list.zip(usize::try_from(*position).ok())
                    && position < list.len()
                {
                    list.remove(position);
                }
            }
            PathElement::Key(_) | PathElement::Value(_) => bail!("{} cannot be removed from the manifest", self.field),
        }
        Ok(())
    }

    /// Sets the field of the manifest to the existing value, so that both managers own it.
    pub(super) fn share_in(&self, manifest: &mut Value) -> Result<()> {
        let known = self.stored.clone();
        let stored = known.with_context(|| format!("the existing value of {} is not known", self.field))?;
        let path = self.in_manifest(manifest)?;
        *value_at_mut(manifest, &path).context("the manifest has changed")? = stored;
        Ok(())
    }

    fn in_manifest(&self, manifest: &Value) -> Result<Path> {
        let path = self.position_in(manifest);
        path.with_context(|| format!("the manifest has no field {}", self.field))
    }

    fn position_in(&self, object: &Value) -> Option<Path> {
        PathText::parse(&self.field).ok()?.position_in(object)
    }
}

/// Formats the conflict in several lines, without control characters.
impl fmt::Display for Conflict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>, truncated: &Option<String>| {
            let text = truncated.clone().or_else(|| value.as_ref().map(json::to_string));
            printable(&text.unwrap_or_else(|| "(not known)".to_owned()))
        };
        writeln!(out, "{}", printable(&self.field))?;
        writeln!(out, "  owner:     {}", printable(&self.owner))?;
        writeln!(out, "  stored:    {}", shown(&self.stored, &self.stored_truncated))?;
        write!(
            out,
            "  requested: {}",
            shown(&self.requested, &self.requested_truncated)
        )
    }
}

/// Returns the beginning of a text, in a form that cannot change the terminal.
fn printable(text: &str) -> String {
    let mut shown: String = printable_line(text).chars().take(MAX_VALUE_CHARACTERS).collect();
    if text.chars().nth(MAX_VALUE_CHARACTERS).is_some() {
        shown.push('…');
    }
    shown
}

fn value_at<'v>(value: &'v Value, path: &[PathElement]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, element| match element {
        PathElement::Field(name) => value.get(name),
        PathElement::Index(position) => value.as_list()?.get(usize::try_from(*position).ok()?),
        PathElement::Key(_) | PathElement::Value(_) => None,
    })
}

fn value_at_mut<'v>(value: &'v mut Value, path: &[PathElement]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, element| match element {
        PathElement::Field(name) => value.as_map_mut()?.get_mut(name),
        PathElement::Index(position) => value
            .as_list_mut()?
            .make_mut()
            .get_mut(usize::try_from(*position).ok()?),
        PathElement::Key(_) | PathElement::Value(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    fn object(text: &str) -> Value {
        yaml::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    const STATUS: &str = r#"{details: {causes: [
        {reason: FieldManagerConflict, field: .spec.replicas, message: 'conflict with "hpa"'},
        {reason: FieldManagerConflict, field: '.spec.c[name="x"].image', message: 'conflict with "ci" using apps/v1'},
        {reason: Other, field: .z}]}}"#;

    #[test]
    fn values_come_from_objects_if_server_has_none() {
        let mut conflicts = of_status(&object(STATUS));
        let existing = object("{spec: {replicas: 3, c: [{name: x, image: a}]}}");
        let manifest = object("{spec: {replicas: 5, c: [{name: w}, {name: x, image: \"b\\u001b\"}]}}");
        conflicts
            .iter_mut()
            .for_each(|conflict| conflict.fill_in(&existing, &manifest));
        let shown: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                ".spec.replicas\n  owner:     \"hpa\"\n  stored:    3\n  requested: 5",
                ".spec.c[name=\"x\"].image\n  owner:     \"ci\" using apps/v1\n  stored:    \"a\"\n  requested: \"b\\u001b\"",
            ]
        );
        assert!(of_status(&object("{message: no, reason: Conflict}")).is_empty());
    }

    #[test]
    fn values_of_server_are_shown_truncated() {
        let status = object(
            "{details: {causes: [{reason: FieldManagerConflict, field: .a}], conflicts: [{time: now, storedTruncated: '\"x…'}]}}",
        );
        let shown = of_status(&status).first().unwrap().to_string();
        assert_eq!(
            shown,
            ".a\n  owner:     , now\n  stored:    \"x…\n  requested: (not known)"
        );
        assert_eq!(printable(&"y".repeat(500)).chars().count(), MAX_VALUE_CHARACTERS + 1);
    }

    #[test]
    fn manifest_gives_up_or_shares_fields() {
        let mut conflicts = of_status(&object(STATUS));
        let mut manifest = object("{spec: {replicas: 5, c: [{name: x, image: b}]}}");
        let yes = PathText::parse_list(".spec.c").unwrap();
        assert!(!conflicts[0].is_below(&yes, &manifest) && conflicts[1].is_below(&yes, &manifest));
        conflicts[1].stored = Some("a".into());
        conflicts[0].remove_from(&mut manifest).unwrap();
        conflicts[1].share_in(&mut manifest).unwrap();
        assert_eq!(manifest, object("{spec: {c: [{name: x, image: a}]}}"));
        assert!(conflicts[0].remove_from(&mut manifest).is_err());
        assert!(conflicts[0].share_in(&mut manifest).is_err());
    }
}
