//! The one ordered check of objects by the [validation tags](crate::types::Tag) of their types.
//!
//! A walk visits the fields of a struct in the order of the reference: that of the fields, or that of the type's order
//! tag (`+order(...)`). It reports errors by the tags, descends into structs, lists and maps, and calls the kind's own
//! [`Rules`] where the order names one (`@rule`), so that errors of code and of tags have one order. Immutability is a
//! second walk, since the reference mostly checks it before or after all values.
//!
//! The walk visits only fields with tags, and allocates nothing while there is no error.
//!
//! # Giving a kind its validation tags
//! 1. Write the tags of its fields into `kind-tables/tables/tags.toml`. The build adds them to the table of types.
//! 2. A status is validated only in writes to the subresource `status`, all other fields only in other writes.
//! 3. If tags cover everything, `Strategy::validate` and `validate_update` need no code: they walk values, then changes.
//!    If code is needed too, name a rule for each of the reference's functions in the order of the type, and the set of
//!    its rules: `rules = "Ingress"`, `order = ["@backends", "rules"]`. The build generates the enum `IngressRule`. Implement
//!    [`Rules`] for it, and return the implementation from `Strategy::rules`, or call `WriteContext::check` with the one
//!    of a write. Rules of `changes = ["@name"]` are an `IngressChange`, and [`Changes`] implements them.
//! 4. If a rule has to pass down its knowledge (such as the volumes of a Pod to its containers), the order names the
//!    rule instead of the field, and the rule walks the field with rules of its own: [`Check::field`].

mod rules;

use std::ops::Deref;

use holdfast_value::{SeenValues, SmolStr, Value};

use crate::field::Field;
use crate::field_error::FieldError;
use crate::metadata::labels::invalid_selector;
use crate::names::{GroupVersion, GroupVersionKind};
use crate::parts::{Fact, Parts};
use crate::same::same;
use crate::types::{self, FormatCheck, Provenance, Shape, Step, Tag, TypeId, TypeTable};

pub use rules::{AnyChanges, AnyRules, Changes, NoRules, Rules};

/// The write of an object that is validated.
#[derive(Clone, Copy)]
pub struct Validation<'v, 'a> {
    /// The object, in the version of the type.
    pub object: &'v Value,
    /// The object that it replaces; `None` for a new object.
    pub old: Option<&'v Value>,
    /// The subresource that is written to, if any.
    pub subresource: Option<&'a str>,
    /// Checks of the values in code. Custom types have no such rules.
    pub rules: &'a dyn AnyRules<'v>,
    /// Checks of the changes in code.
    pub changes: &'a dyn AnyChanges<'v>,
    /// Provenance of the object.
    pub provenance: Provenance<'a>,
    /// Facts about parts of the object.
    pub parts: Option<&'a Parts<'a>>,
}

/// A struct within an object, and its type.
#[derive(Clone, Copy)]
pub struct Part<'v, 'p> {
    of: TypeId,
    field: Field<'v, 'p>,
}

impl<'v> Part<'v, '_> {
    /// Returns a struct of the same type with the path of `field`, for errors that the reference reports elsewhere.
    pub fn shown_at<'s>(&self, field: Field<'v, 's>) -> Part<'v, 's> {
        Part { of: self.of, field }
    }
}

impl<'v, 'p> Deref for Part<'v, 'p> {
    type Target = Field<'v, 'p>;

    fn deref(&self) -> &Self::Target {
        &self.field
    }
}

/// A running check: the types and the validation errors so far.
pub struct Check<'t> {
    types: &'t TypeTable,
    /// Provenance of the object.
    pub provenance: Provenance<'t>,
    /// Validation errors, in the order of the checks.
    pub errors: Vec<FieldError>,
    /// Facts about parts of the object.
    pub parts: Option<&'t Parts<'t>>,
}

impl<'t> Check<'t> {
    /// Creates a check by these types.
    pub fn new(types: &'t TypeTable) -> Self {
        Self {
            types,
            provenance: Provenance::from_tree(),
            errors: Vec::new(),
            parts: None,
        }
    }

    /// Validates a part whose validity depends only on its own content, unless it is known to be valid; see
    /// `Capabilities::parts`.
    pub fn independent_part(&mut self, part: &Field<'_, '_>, check: impl FnOnce(&mut Self)) {
        // Fields given as empty count only in this write.
        let parts = self.parts.filter(|_| !self.provenance.has_empties());
        if parts.is_some_and(|parts| parts.knows(Fact::Right, part)) {
            return;
        }
        let before = self.errors.len();
        check(self);
        if let Some(parts) = parts.filter(|_| self.errors.len() == before) {
            parts.found(Fact::Right, part);
        }
    }

    /// Returns true if a field is set, or is given as empty.
    pub fn is_given(&self, field: &Field<'_, '_>) -> bool {
        field.is_set() || self.provenance.empty_at(field).is_some()
    }

    /// Returns an object as a struct of its kind; `None` if the types do not know it.
    pub fn root<'v>(&self, object: &'v Value) -> Option<Part<'v, 'v>> {
        let kind = GroupVersionKind {
            group_version: GroupVersion::parse(object.str_at(&["apiVersion"])?)?,
            kind: SmolStr::new(object.str_at(&["kind"])?),
        };
        let (of, field) = (self.types.id_of_kind(&kind)?, Field::root(object));
        Some(Part { of, field })
    }

    /// Returns a struct of the type with that definition name, such as `io.k8s.api.core.v1.PodSpec`.
    pub fn part<'v, 'p>(&self, of: &str, field: Field<'v, 'p>) -> Option<Part<'v, 'p>> {
        let ty = self.types.id(of)?;
        Some(Part { of: ty, field })
    }

    /// Returns the struct in the field `name` of `part`.
    pub fn child<'v, 's>(&self, part: &'s Part<'v, '_>, name: &'s str) -> Option<Part<'v, 's>> {
        let field = self.types.get(part.of).field(name)?;
        let Shape::Ref(of) = field.shape else { return None };
        let field = part.field.child(name);
        Some(Part { of, field })
    }

    /// Returns the structs in the list field `name` of `part`, with the paths of the items of `list`, which is that
    /// field.
    pub fn items<'v, 's>(
        &self,
        part: &Part<'v, '_>,
        name: &str,
        list: &'s Field<'v, 's>,
    ) -> impl Iterator<Item = Part<'v, 's>> + use<'v, 's> {
        let ty = match self.types.get(part.of).field(name).map(|field| &field.shape) {
            Some(Shape::List(item)) => match **item {
                Shape::Ref(of) => Some(of),
                _ => None,
            },
            _ => None,
        };
        ty.into_iter()
            .flat_map(move |ty| list.items().map(move |field| Part { of: ty, field }))
    }

    /// Checks the values of an object in a write to `subresource`.
    pub fn object<'v>(&mut self, object: &'v Value, subresource: Option<&str>, rules: &dyn AnyRules<'v>) {
        if let Some(root) = self.root(object) {
            self.root_values(&root, subresource, rules);
        }
    }

    /// Checks a write of an object of the type `of`: its values, and then its changes.
    pub(crate) fn written<'v>(&mut self, of: TypeId, write: &Validation<'v, '_>) {
        let part = |object| Part {
            of,
            field: Field::root(object),
        };
        let root = part(write.object);
        self.root_values(&root, write.subresource, write.rules);
        if let Some(old) = write.old {
            self.root_changes(&root, &part(old), write.subresource, write.changes);
        }
    }

    fn root_values<'v>(&mut self, root: &Part<'v, '_>, subresource: Option<&str>, rules: &dyn AnyRules<'v>) {
        let types = self.types;
        for step in &types.get(root.of).tags.steps {
            if self.is_written(root, step, subresource) {
                self.step(root, step, rules);
            }
        }
    }

    /// Checks the changes of an object from `old`, whose type it has, in a write to `subresource`.
    pub fn object_changes<'v>(
        &mut self,
        object: &'v Value,
        old: &'v Value,
        subresource: Option<&str>,
        changes: &dyn AnyChanges<'v>,
    ) {
        if let Some(root) = self.root(object) {
            let field = Field::root(old);
            self.root_changes(&root, &Part { field, ..root }, subresource, changes);
        }
    }

    fn root_changes<'v>(
        &mut self,
        root: &Part<'v, '_>,
        old: &Part<'v, '_>,
        subresource: Option<&str>,
        changes: &dyn AnyChanges<'v>,
    ) {
        let types = self.types;
        for step in &types.get(root.of).tags.change_steps {
            if self.is_written(root, step, subresource) {
                self.change_step(root, old, step, changes);
            }
        }
    }

    /// Returns true if a write to `subresource` touches the field that a step checks.
    fn is_written(&self, root: &Part<'_, '_>, step: &Step, subresource: Option<&str>) -> bool {
        let field = self.types.get(root.of).looked_at(step);
        let is_status = field.is_some_and(|field| field.name == "status");
        is_status == (subresource == Some("status"))
    }

    /// Checks the values of a struct.
    pub fn values<'v>(&mut self, part: &Part<'v, '_>, rules: &dyn AnyRules<'v>) {
        let types = self.types;
        let tags = &types.get(part.of).tags;
        if let Some(what) = &tags.union {
            self.union(part, what, rules);
            return;
        }
        for step in &tags.steps {
            self.step(part, step, rules);
        }
    }

    /// Checks the changes of a struct from `old`.
    pub fn changes<'v>(&mut self, part: &Part<'v, '_>, old: &Part<'v, '_>, changes: &dyn AnyChanges<'v>) {
        let types = self.types;
        for step in &types.get(part.of).tags.change_steps {
            self.change_step(part, old, step, changes);
        }
    }

    /// Checks one field of a struct and what is below it.
    pub fn field<'v>(&mut self, part: &Part<'v, '_>, name: &str, rules: &dyn AnyRules<'v>) {
        let types = self.types;
        if let Some(of) = types.get(part.of).field(name) {
            self.one_field(part, of, rules);
        }
    }

    /// Reports that the caller passed rules of another set than that of the type. The build checks this for all types
    /// that a check reaches from the type of its caller.
    fn other_rules(&mut self, part: &Part<'_, '_>) {
        let detail = format!("the rules of {} are of another set", self.types.get(part.of).name);
        self.errors.push(FieldError::internal(&part.path(), detail));
    }

    fn step<'v>(&mut self, part: &Part<'v, '_>, step: &Step, rules: &dyn AnyRules<'v>) {
        let types = self.types;
        match step {
            Step::Rule(id) => rules.run_rule(*id, part, self),
            Step::Field(_) => {
                if let Some(of) = types.get(part.of).looked_at(step) {
                    self.one_field(part, of, rules);
                }
            }
        }
    }

    /// Checks a struct of which one member must be set: a second member is rejected and not checked.
    fn union<'v>(&mut self, part: &Part<'v, '_>, what: &str, rules: &dyn AnyRules<'v>) {
        let types = self.types;
        let ty = types.get(part.of);
        let is_member = |step: &Step| ty.looked_at(step).is_some_and(|field| field.tags.union_member);
        let last_member = ty.tags.steps.iter().rposition(is_member);
        let mut found = false;
        for (at, step) in ty.tags.steps.iter().enumerate() {
            match ty.looked_at(step).filter(|field| field.tags.union_member) {
                None => self.step(part, step, rules),
                Some(member) => {
                    let member = part.child(&member.name);
                    if member.is_set() && found {
                        let detail = format!("may not specify more than 1 {what}");
                        self.errors.push(member.forbidden(detail));
                    } else if member.is_set() {
                        found = true;
                        self.step(part, step, rules);
                    }
                }
            }
            if Some(at) == last_member && !found {
                let detail = format!("must specify a {what}");
                self.errors.push(part.required(detail));
            }
        }
    }

    fn one_field<'v>(&mut self, part: &Part<'v, '_>, of: &types::Field, rules: &dyn AnyRules<'v>) {
        let field = part.field.child(&of.name);
        if !self.own_tags(&field, &of.tags.own, &of.shape, of.pointer) {
            return;
        }
        self.tags_below(&field, of);
        self.below(&field, &of.shape, of.pointer, rules);
        if let Some(key) = &of.tags.distinct {
            self.distinct(&field, key);
        }
    }

    /// Reports the items of a list that repeat the key of an earlier item, even if the key is empty.
    pub fn distinct(&mut self, field: &Field<'_, '_>, key: &str) {
        let mut seen = SeenValues::new();
        for item in field.items() {
            let key = if key.is_empty() {
                item.text()
            } else {
                item.child(key).text()
            };
            if !seen.insert(key) {
                self.errors.push(FieldError::duplicate(&item.path(), key));
            }
        }
    }

    /// Checks the tags of the items or of the entries of a field.
    fn tags_below(&mut self, field: &Field<'_, '_>, of: &types::Field) {
        let (Shape::List(inner) | Shape::Map(inner)) = &of.shape else {
            return;
        };
        if !of.tags.keys.is_empty() {
            for (key, _) in field.entries() {
                let key = Value::from(key);
                let path = field.path();
                let key = Field::placed(Some(&key), path.as_str());
                self.own_tags(&key, &of.tags.keys, &Shape::String, false);
            }
        }
        if of.tags.each.is_empty() {
            return;
        }
        for item in field.items() {
            self.own_tags(&item, &of.tags.each, inner, false);
        }
        for (_, entry) in field.entries() {
            self.own_tags(&entry, &of.tags.each, inner, false);
        }
    }

    /// Descends into the structs below a field.
    fn below<'v>(&mut self, field: &Field<'v, '_>, shape: &Shape, pointer: bool, rules: &dyn AnyRules<'v>) {
        match shape {
            Shape::Ref(of) if field.is_set() || !pointer => {
                let part = Part { of: *of, field: *field };
                self.values(&part, rules);
            }
            Shape::List(inner) if matches!(**inner, Shape::Ref(_)) => {
                for item in field.items() {
                    self.below(&item, inner, false, rules);
                }
            }
            Shape::Map(inner) if matches!(**inner, Shape::Ref(_)) => {
                for (_, entry) in field.entries() {
                    self.below(&entry, inner, false, rules);
                }
            }
            _ => {}
        }
    }

    /// Reports errors by the tags of a field, and returns true if the values below it need validation.
    fn own_tags(&mut self, field: &Field<'_, '_>, tags: &[Tag], shape: &Shape, pointer: bool) -> bool {
        if tags.is_empty() {
            return true;
        }
        let missing = is_missing(field, shape, pointer);
        for tag in tags {
            match tag {
                Tag::Required(detail) if missing => {
                    self.errors.push(field.required(detail.as_str()));
                    return false;
                }
                Tag::NotEmpty if field.is_set() && field.text().is_empty() => {
                    self.errors.push(field.required(""));
                    return false;
                }
                Tag::MaxItemsAlone(most) if field.len() > *most => {
                    self.errors.push(field.too_many(*most));
                    return false;
                }
                Tag::Optional if missing || matches!(shape, Shape::String) && field.text().is_empty() => return false,
                // An unset pointer has nothing to validate.
                _ if pointer && missing => return false,
                tag => self.errors.extend(error(field, tag)),
            }
            match tag {
                Tag::Format(format) => self.format(field, &format.check),
                Tag::Unique(key) => self.unique(field, key),
                _ => {}
            }
        }
        true
    }

    fn format(&mut self, field: &Field<'_, '_>, format: &FormatCheck) {
        match format {
            FormatCheck::Value(report) => report(field, &mut self.errors),
            FormatCheck::Text(messages) => {
                let messages = messages(field.text());
                self.errors
                    .extend(messages.into_iter().map(|message| field.invalid_text(message)));
            }
        }
    }

    /// Reports the repeated items of a list.
    fn unique(&mut self, field: &Field<'_, '_>, key: &str) {
        let mut seen = SeenValues::new();
        for item in field.items() {
            let named = if key.is_empty() { item } else { item.child(key) };
            if !named.text().is_empty() && !seen.insert(named.text()) {
                let error = named.duplicate();
                self.errors.push(error);
            }
        }
    }

    fn change_step<'v>(&mut self, part: &Part<'v, '_>, old: &Part<'v, '_>, step: &Step, changes: &dyn AnyChanges<'v>) {
        let types = self.types;
        if let Step::Rule(id) = step {
            changes.run_change(*id, part, old, self);
        }
        let Some(of) = types.get(part.of).looked_at(step) else {
            return;
        };
        let (new, old) = (part.field.child(&of.name), old.field.child(&of.name));
        if let Some(detail) = &of.tags.immutable
            && !same(new.value(), old.value())
        {
            let error = self.changed(&new, of, detail);
            self.errors.push(error);
        }
        if let Shape::Ref(id) = of.shape
            && (new.is_set() || old.is_set())
        {
            let (new, old) = (Part { of: id, field: new }, Part { of: id, field: old });
            self.changes(&new, &old, changes);
        }
    }

    /// Returns the error that a field was changed, with its value in the form that the reference uses for its type.
    fn changed(&self, field: &Field<'_, '_>, of: &types::Field, detail: &str) -> FieldError {
        match &of.shape {
            Shape::String if !of.pointer => field.invalid_text(detail),
            Shape::Int32 | Shape::Int64 if !of.pointer => field.invalid_number(detail),
            Shape::Ref(id) if self.types.get(*id).short_name() == "LabelSelector" => invalid_selector(field, detail),
            _ => field.invalid(detail),
        }
    }
}

/// Returns true if a field is not set. For a field that is not a pointer in the reference, that includes empty and zero
/// values.
fn is_missing(field: &Field<'_, '_>, shape: &Shape, pointer: bool) -> bool {
    match shape {
        Shape::List(_) | Shape::Map(_) => field.is_empty(),
        _ if pointer => !field.is_set(),
        Shape::String | Shape::Bytes => field.text().is_empty(),
        Shape::Int32 | Shape::Int64 => field.number().unwrap_or_default() == 0,
        Shape::Bool => !field.is_true(),
        _ => !field.is_set(),
    }
}

/// Returns the validation error of a field by a tag of a single value.
fn error(field: &Field<'_, '_>, tag: &Tag) -> Option<FieldError> {
    let number = || field.number().unwrap_or_default();
    match tag {
        Tag::Minimum(least, said) => (number() < *least).then(|| field.invalid_number(said.as_str())),
        Tag::Maximum(most, said) => (number() > *most).then(|| field.invalid_number(said.as_str())),
        Tag::Range(least, most) => (!(*least..=*most).contains(&number()))
            .then(|| field.invalid_number(format!("must be between {least} and {most}, inclusive"))),
        Tag::Enum(supported) => (!supported.iter().any(|one| one == field.text())).then(|| {
            let supported: Vec<&str> = supported.iter().map(SmolStr::as_str).collect();
            field.not_supported(&supported)
        }),
        Tag::MaxItems(most) => (field.len() > *most).then(|| field.too_many(*most)),
        Tag::MaxLength(most, said) => (field.text().len() > *most).then(|| match said.as_str() {
            "" => field.too_long(*most),
            said => field.invalid_as("", said),
        }),
        Tag::Required(_) | Tag::NotEmpty | Tag::Optional | Tag::MaxItemsAlone(_) | Tag::Format(_) | Tag::Unique(_) => {
            None
        }
    }
}

#[cfg(test)]
mod tests;
