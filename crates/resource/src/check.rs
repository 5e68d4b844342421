//! The one ordered check of objects by the [marks](crate::schema::Mark) of their types.
//!
//! A walk looks at the fields of a struct in the order in which the reference does: that of the fields, or that which the type
//! says (`+order(...)`). It reports what the marks say, goes into the structs, lists and maps below, and calls the kind's own
//! [`Rules`] where the order names one (`@rule`), so that what code says and what marks say come in one order. What may not
//! change is a second walk, since the reference mostly looks at it before or after all values.
//!
//! Only what has marks is walked, and nothing is allocated while nothing is wrong.
//!
//! # Giving a kind its marks
//! 1. Write what can be said of its fields into `kinds/src/tables/marks.txt`, and have `cargo xtask generate --marks` bring it
//!    into `types.txt`.
//! 2. A status is looked at in writes to the subresource `status` alone, all else in other writes alone.
//! 3. Where marks say everything, [`Strategy::validate`](crate::Strategy::validate) and `validate_update` need no code: they
//!    walk values, then changes. Where code says something too, implement [`Rules`], one rule for each of the reference's
//!    functions, and return them from [`Strategy::rules`](crate::Strategy::rules), or call
//!    [`WriteContext::check`](crate::WriteContext::check) with those of one write.
//! 4. A rule that has to hand down what it knows (such as the volumes of a Pod to its containers) names itself in the order
//!    in place of a field, and walks the field with rules of its own: [`Check::field`].

use std::ops::Deref;

use holdfast_value::{Seen, SmolStr, Value};

use crate::metadata::labels::invalid_selector;
use crate::schema::{self, EmptyField, FormatCheck, Mark, Shape, Step, TypeId, TypeTable};
use crate::{Field, FieldError, GroupVersion, GroupVersionKind, Validation, same};

/// What a kind checks in code, under the names by which the orders of types call it.
pub trait Rules<'v> {
    /// Checks what no mark says of the struct at `part`.
    fn rule(&self, name: &str, part: &Part<'v, '_>, check: &mut Check<'_>) {
        check.unknown_rule(name, part);
    }

    /// Checks what of the struct at `part` may not differ from `old` in a way that no mark says.
    fn change(&self, name: &str, part: &Part<'v, '_>, old: &Part<'v, '_>, check: &mut Check<'_>) {
        let _ = old;
        check.unknown_rule(name, part);
    }
}

/// For kinds of which marks say everything.
pub struct NoRules;

impl Rules<'_> for NoRules {}

/// A struct within an object, and its type.
#[derive(Clone, Copy)]
pub struct Part<'v, 'p> {
    of: TypeId,
    field: Field<'v, 'p>,
}

impl<'v> Part<'v, '_> {
    /// A struct of the same type that is reported at the place of `field`, for what the reference reports elsewhere.
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

/// A check under way: what is known of types, and what was found wrong so far.
pub struct Check<'t> {
    types: &'t TypeTable,
    /// What the request gives as empty and the object does not hold for that.
    pub empties: &'t [EmptyField],
    /// What is wrong, in the order of the checks.
    pub errors: Vec<FieldError>,
}

impl<'t> Check<'t> {
    /// A check by these types.
    pub fn new(types: &'t TypeTable) -> Self {
        Self {
            types,
            empties: &[],
            errors: Vec::new(),
        }
    }

    /// An object, by its kind; `None` for one that the types do not know.
    pub fn root<'v>(&self, object: &'v Value) -> Option<Part<'v, 'v>> {
        let kind = GroupVersionKind {
            group_version: GroupVersion::parse(object.str_at(&["apiVersion"])?)?,
            kind: SmolStr::new(object.str_at(&["kind"])?),
        };
        let (of, field) = (self.types.id_of_kind(&kind)?, Field::root(object));
        Some(Part { of, field })
    }

    /// A struct of the type of that definition name, such as `io.k8s.api.core.v1.PodSpec`.
    pub fn part<'v, 'p>(&self, of: &str, field: Field<'v, 'p>) -> Option<Part<'v, 'p>> {
        let of = self.types.id(of)?;
        Some(Part { of, field })
    }

    /// The struct in the field `name` of `part`.
    pub fn child<'v, 's>(&self, part: &'s Part<'v, '_>, name: &'s str) -> Option<Part<'v, 's>> {
        let field = self.types.get(part.of).field(name)?;
        let Shape::Ref(of) = field.shape else { return None };
        let field = part.field.child(name);
        Some(Part { of, field })
    }

    /// The structs in the list in the field `name` of `part`, shown as the items of `list`, which is that field.
    pub fn items<'v, 's>(
        &self,
        part: &Part<'v, '_>,
        name: &str,
        list: &'s Field<'v, 's>,
    ) -> impl Iterator<Item = Part<'v, 's>> + use<'v, 's> {
        let of = match self.types.get(part.of).field(name).map(|field| &field.shape) {
            Some(Shape::List(item)) => match **item {
                Shape::Ref(of) => Some(of),
                _ => None,
            },
            _ => None,
        };
        of.into_iter()
            .flat_map(move |of| list.items().map(move |field| Part { of, field }))
    }

    /// Checks the values of an object in a write to `subresource`.
    pub fn object<'v>(&mut self, object: &'v Value, subresource: Option<&str>, rules: &dyn Rules<'v>) {
        if let Some(root) = self.root(object) {
            self.root_values(&root, subresource, rules);
        }
    }

    /// Checks a write of an object of the type `of`: its values, and then what may not change.
    pub(crate) fn written<'v>(&mut self, of: TypeId, write: &Validation<'v, '_>) {
        let part = |object| Part {
            of,
            field: Field::root(object),
        };
        let root = part(write.object);
        self.root_values(&root, write.subresource, write.rules);
        if let Some(old) = write.old {
            self.root_changes(&root, &part(old), write.subresource, write.rules);
        }
    }

    fn root_values<'v>(&mut self, root: &Part<'v, '_>, subresource: Option<&str>, rules: &dyn Rules<'v>) {
        let types = self.types;
        for step in &types.get(root.of).marks.steps {
            if self.is_written(root, step, subresource) {
                self.step(root, step, rules);
            }
        }
    }

    /// Checks what may not change of an object, which `old` has the type of, in a write to `subresource`.
    pub fn object_changes<'v>(
        &mut self,
        object: &'v Value,
        old: &'v Value,
        subresource: Option<&str>,
        rules: &dyn Rules<'v>,
    ) {
        if let Some(root) = self.root(object) {
            let field = Field::root(old);
            self.root_changes(&root, &Part { field, ..root }, subresource, rules);
        }
    }

    fn root_changes<'v>(
        &mut self,
        root: &Part<'v, '_>,
        old: &Part<'v, '_>,
        subresource: Option<&str>,
        rules: &dyn Rules<'v>,
    ) {
        let types = self.types;
        for step in &types.get(root.of).marks.change_steps {
            if self.is_written(root, step, subresource) {
                self.change_step(root, old, step, rules);
            }
        }
    }

    /// Whether a write to `subresource` touches what a step looks at.
    fn is_written(&self, root: &Part<'_, '_>, step: &Step, subresource: Option<&str>) -> bool {
        let field = self.types.get(root.of).looked_at(step);
        let is_status = field.is_some_and(|field| field.name == "status");
        is_status == (subresource == Some("status"))
    }

    /// Checks the values of a struct.
    pub fn values<'v>(&mut self, part: &Part<'v, '_>, rules: &dyn Rules<'v>) {
        let types = self.types;
        let marks = &types.get(part.of).marks;
        if let Some(what) = &marks.union {
            self.union(part, what, rules);
            return;
        }
        for step in &marks.steps {
            self.step(part, step, rules);
        }
    }

    /// Checks what of a struct may not differ from `old`.
    pub fn changes<'v>(&mut self, part: &Part<'v, '_>, old: &Part<'v, '_>, rules: &dyn Rules<'v>) {
        let types = self.types;
        for step in &types.get(part.of).marks.change_steps {
            self.change_step(part, old, step, rules);
        }
    }

    /// Checks one field of a struct and what is below it.
    pub fn field<'v>(&mut self, part: &Part<'v, '_>, name: &str, rules: &dyn Rules<'v>) {
        let types = self.types;
        if let Some(of) = types.get(part.of).field(name) {
            self.one_field(part, of, rules);
        }
    }

    /// Says that a type names a rule that its kind lacks.
    pub fn unknown_rule(&mut self, name: &str, part: &Part<'_, '_>) {
        let detail = format!("there is no rule {name}");
        self.errors.push(FieldError::internal(&part.path(), detail));
    }

    fn step<'v>(&mut self, part: &Part<'v, '_>, step: &Step, rules: &dyn Rules<'v>) {
        let types = self.types;
        match step {
            Step::Rule(name) => rules.rule(name, part, self),
            Step::Field(_) => {
                if let Some(of) = types.get(part.of).looked_at(step) {
                    self.one_field(part, of, rules);
                }
            }
        }
    }

    /// Checks a struct of which one member is to be set: a second one is refused and not looked at.
    fn union<'v>(&mut self, part: &Part<'v, '_>, what: &str, rules: &dyn Rules<'v>) {
        let types = self.types;
        let of = types.get(part.of);
        let is_member = |step: &Step| of.looked_at(step).is_some_and(|field| field.marks.union_member);
        let last_member = of.marks.steps.iter().rposition(is_member);
        let mut found = false;
        for (at, step) in of.marks.steps.iter().enumerate() {
            match of.looked_at(step).filter(|field| field.marks.union_member) {
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

    fn one_field<'v>(&mut self, part: &Part<'v, '_>, of: &schema::Field, rules: &dyn Rules<'v>) {
        let field = part.field.child(&of.name);
        if !self.own_marks(&field, &of.marks.own, &of.shape, of.pointer) {
            return;
        }
        self.marks_below(&field, of);
        self.below(&field, &of.shape, of.pointer, rules);
        if let Some(key) = &of.marks.distinct {
            self.distinct(&field, key);
        }
    }

    /// Reports the items of a list whose key stands there a second time, even where it is empty.
    pub fn distinct(&mut self, field: &Field<'_, '_>, key: &str) {
        let mut seen = Seen::new();
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

    /// The marks of the items or of the entries of a field.
    fn marks_below(&mut self, field: &Field<'_, '_>, of: &schema::Field) {
        let (Shape::List(inner) | Shape::Map(inner)) = &of.shape else {
            return;
        };
        if !of.marks.keys.is_empty() {
            for (key, _) in field.entries() {
                let key = Value::from(key);
                let path = field.path();
                let key = Field::placed(Some(&key), path.as_str());
                self.own_marks(&key, &of.marks.keys, &Shape::String, false);
            }
        }
        if of.marks.each.is_empty() {
            return;
        }
        for item in field.items() {
            self.own_marks(&item, &of.marks.each, inner, false);
        }
        for (_, entry) in field.entries() {
            self.own_marks(&entry, &of.marks.each, inner, false);
        }
    }

    /// Goes into the structs below a field.
    fn below<'v>(&mut self, field: &Field<'v, '_>, shape: &Shape, pointer: bool, rules: &dyn Rules<'v>) {
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

    /// Reports what marks say of a field, and says whether what is below it is worth a look.
    fn own_marks(&mut self, field: &Field<'_, '_>, marks: &[Mark], shape: &Shape, pointer: bool) -> bool {
        if marks.is_empty() {
            return true;
        }
        let missing = is_missing(field, shape, pointer);
        for mark in marks {
            match mark {
                Mark::Required(detail) if missing => {
                    self.errors.push(field.required(detail.as_str()));
                    return false;
                }
                Mark::NotEmpty if field.is_set() && field.text().is_empty() => {
                    self.errors.push(field.required(""));
                    return false;
                }
                Mark::MaxItemsAlone(most) if field.len() > *most => {
                    self.errors.push(field.too_many(*most));
                    return false;
                }
                Mark::Optional if missing || matches!(shape, Shape::String) && field.text().is_empty() => return false,
                // A pointer that is not set is nothing that anything could be said of.
                _ if pointer && missing => return false,
                mark => self.errors.extend(fault(field, mark)),
            }
            match mark {
                Mark::Format(format) => self.format(field, &format.check),
                Mark::Unique(key) => self.unique(field, key),
                _ => {}
            }
        }
        true
    }

    fn format(&mut self, field: &Field<'_, '_>, format: &FormatCheck) {
        match format {
            FormatCheck::Value(report) => report(field, &mut self.errors),
            FormatCheck::Text(faults) => {
                let faults = faults(field.text());
                self.errors
                    .extend(faults.into_iter().map(|fault| field.invalid_text(fault)));
            }
        }
    }

    /// Reports the items of a list that are there a second time.
    fn unique(&mut self, field: &Field<'_, '_>, key: &str) {
        let mut seen = Seen::new();
        for item in field.items() {
            let named = if key.is_empty() { item } else { item.child(key) };
            if !named.text().is_empty() && !seen.insert(named.text()) {
                let error = named.duplicate();
                self.errors.push(error);
            }
        }
    }

    fn change_step<'v>(&mut self, part: &Part<'v, '_>, old: &Part<'v, '_>, step: &Step, rules: &dyn Rules<'v>) {
        let types = self.types;
        if let Step::Rule(name) = step {
            rules.change(name, part, old, self);
        }
        let Some(of) = types.get(part.of).looked_at(step) else {
            return;
        };
        let (new, old) = (part.field.child(&of.name), old.field.child(&of.name));
        if let Some(detail) = &of.marks.immutable
            && !same(new.value(), old.value())
        {
            let error = self.changed(&new, of, detail);
            self.errors.push(error);
        }
        if let Shape::Ref(id) = of.shape
            && (new.is_set() || old.is_set())
        {
            let (new, old) = (Part { of: id, field: new }, Part { of: id, field: old });
            self.changes(&new, &old, rules);
        }
    }

    /// That a field was changed, with its value shown as the reference shows one of its type.
    fn changed(&self, field: &Field<'_, '_>, of: &schema::Field, detail: &str) -> FieldError {
        match &of.shape {
            Shape::String if !of.pointer => field.invalid_text(detail),
            Shape::Int32 | Shape::Int64 if !of.pointer => field.invalid_number(detail),
            Shape::Ref(id) if self.types.get(*id).short_name() == "LabelSelector" => invalid_selector(field, detail),
            _ => field.invalid(detail),
        }
    }
}

/// Whether a field is not set, which for what is no pointer in the reference is the same as empty or zero.
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

/// What a mark of a single value has against it.
fn fault(field: &Field<'_, '_>, mark: &Mark) -> Option<FieldError> {
    let number = || field.number().unwrap_or_default();
    match mark {
        Mark::Minimum(least, said) => (number() < *least).then(|| field.invalid_number(said.as_str())),
        Mark::Maximum(most, said) => (number() > *most).then(|| field.invalid_number(said.as_str())),
        Mark::Range(least, most) => (!(*least..=*most).contains(&number()))
            .then(|| field.invalid_number(format!("must be between {least} and {most}, inclusive"))),
        Mark::Enum(supported) => (!supported.iter().any(|one| one == field.text())).then(|| {
            let supported: Vec<&str> = supported.iter().map(SmolStr::as_str).collect();
            field.not_supported(&supported)
        }),
        Mark::MaxItems(most) => (field.len() > *most).then(|| field.too_many(*most)),
        Mark::MaxLength(most, said) => (field.text().len() > *most).then(|| match said.as_str() {
            "" => field.too_long(*most),
            said => field.invalid_as("", said),
        }),
        Mark::Required(_)
        | Mark::NotEmpty
        | Mark::Optional
        | Mark::MaxItemsAlone(_)
        | Mark::Format(_)
        | Mark::Unique(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    const TYPES: &str = r#"
type a.Thing struct kind(a/v1/Thing)
  apiVersion string -
  kind string -
  spec a.Spec 1
  status a.Status 2

type a.Spec struct +order(@first,sources,mode,count,name,codes,limits,selector,@last) +changes(name,@grown,count)
  mode string 1 +required +enum(On,Off)
  name string 2 +optional +format(k8s-short-name) +immutable
  count int32 3 pointer +minimum(1,must~be~greater~than~0) +maximum(9) +immutable(stays)
  codes []int32 4 +maxItems(2) +each:range(0,5)
  limits {}string 5 +keys:format(k8s-short-name) +each:maxLength(3)
  sources []a.Source 6 +required(a~source) +unique(name)
  selector a.LabelSelector 7 pointer +format(label-selector)

type a.LabelSelector struct
  matchLabels {}string 1

type a.Source struct +union(kind~of~source)
  name string 1 +required
  file a.File 2 pointer +unionMember
  text a.Text 3 pointer +unionMember
  inner []a.Source 4 +maxItems(2,alone) +distinct(name)

type a.File struct
  path string 1 +required

type a.Text struct
  text string 1

type a.Status struct
  ready int32 1 +minimum(0)
"#;

    struct FirstAndLast;

    impl<'v> Rules<'v> for FirstAndLast {
        fn rule(&self, name: &str, part: &Part<'v, '_>, check: &mut Check<'_>) {
            match name {
                "first" | "last" => check.errors.push(part.required(name)),
                _ => check.unknown_rule(name, part),
            }
        }

        fn change(&self, _name: &str, part: &Part<'v, '_>, old: &Part<'v, '_>, check: &mut Check<'_>) {
            if part.child("codes").len() < old.child("codes").len() {
                check.errors.push(part.child("codes").forbidden("only grows"));
            }
        }
    }

    fn read(spec: &str) -> Value {
        let text = format!(r#"{{"apiVersion":"a/v1","kind":"Thing","spec":{{{spec}}},"status":{{"ready":-1}}}}"#);
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    fn texts(check: Check<'_>) -> Vec<String> {
        check.errors.iter().map(ToString::to_string).collect()
    }

    fn of(spec: &str) -> Vec<String> {
        let types = TypeTable::parse(TYPES).unwrap();
        let mut check = Check::new(&types);
        check.object(&read(spec), None, &FirstAndLast);
        let mut found = texts(check);
        assert_eq!(found.remove(0), "spec: Required value: first");
        assert_eq!(found.pop().unwrap(), "spec: Required value: last");
        found
    }

    #[test]
    fn errors_come_in_the_order_of_the_type() {
        assert_eq!(
            of(r#""count":0,"codes":[1,7],"limits":{"A":"long"},"name":"B""#),
            [
                "spec.sources: Required value: a source",
                "spec.mode: Required value",
                "spec.count: Invalid value: 0: must be greater than 0",
                "spec.name: Invalid value: \"B\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
                 or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                 validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.codes[1]: Invalid value: 7: must be between 0 and 5, inclusive",
                "spec.limits: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric \
                 characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex \
                 used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.limits[A]: Too long: may not be more than 3 bytes",
            ]
        );
    }

    #[test]
    fn what_is_right_or_may_be_missing_is_not_reported() {
        let spec = r#""mode":"On","count":1,"codes":[0,5],"sources":[{"name":"a","text":{}}]"#;
        assert!(of(spec).is_empty());
        let odd = spec
            .replace("On", "on")
            .replace(":1,", ":10,")
            .replace("[0,5]", "[0,5,1]");
        assert_eq!(
            of(&odd),
            [
                "spec.mode: Unsupported value: \"on\": supported values: \"On\", \"Off\"",
                "spec.count: Invalid value: 10: must be less than or equal to 9",
                "spec.codes: Too many: 3: must have at most 2 items",
            ]
        );
    }

    #[test]
    fn one_member_of_a_union_is_looked_at() {
        let sources = r#"{"name":"a","file":{}},{"name":"a","text":{},"file":{"path":"p"},"inner":[{}]},{"name":"b"}"#;
        assert_eq!(
            of(&format!(r#""mode":"On","sources":[{sources}]"#)),
            [
                "spec.sources[1].name: Duplicate value: \"a\"",
                "spec.sources[0].file.path: Required value",
                "spec.sources[1].text: Forbidden: may not specify more than 1 kind of source",
                "spec.sources[1].inner[0].name: Required value",
                "spec.sources[1].inner[0]: Required value: must specify a kind of source",
                "spec.sources[2]: Required value: must specify a kind of source",
            ]
        );
    }

    #[test]
    fn items_differ_unless_there_are_too_many() {
        let inner = |items: &str| {
            of(&format!(
                r#""mode":"On","sources":[{{"name":"a","text":{{}},"inner":[{items}]}}]"#
            ))
        };
        let one = r#"{"name":"i","text":{}}"#;
        assert!(inner(one).is_empty());
        assert_eq!(
            inner(&format!("{one},{}", one.replace("{}", "{},\"file\":{}"))),
            [
                "spec.sources[0].inner[1].file.path: Required value",
                "spec.sources[0].inner[1].text: Forbidden: may not specify more than 1 kind of source",
                "spec.sources[0].inner[1]: Duplicate value: \"i\"",
            ]
        );
        assert_eq!(
            inner(&format!("{one},{one},{{}}")),
            ["spec.sources[0].inner: Too many: 3: must have at most 2 items"]
        );
    }

    #[test]
    fn a_status_is_looked_at_in_writes_to_it_alone() {
        let types = TypeTable::parse(TYPES).unwrap();
        let mut check = Check::new(&types);
        check.object(&read(""), Some("status"), &NoRules);
        assert_eq!(
            texts(check),
            ["status.ready: Invalid value: -1: must be greater than or equal to 0"]
        );
    }

    #[test]
    fn changes_have_an_order_of_their_own() {
        let types = TypeTable::parse(TYPES).unwrap();
        let changes = |new: &str, old: &str, subresource| {
            let mut check = Check::new(&types);
            let (new, old) = (read(new), read(old));
            check.object_changes(&new, &old, subresource, &FirstAndLast);
            texts(check)
        };
        let (new, old) = (r#""count":2"#, r#""name":"a","codes":[1]"#);
        assert_eq!(
            changes(new, old, None),
            [
                "spec.name: Invalid value: \"\": field is immutable",
                "spec.codes: Forbidden: only grows",
                "spec.count: Invalid value: 2: stays",
            ]
        );
        assert!(changes(new, old, Some("status")).is_empty());
        assert!(changes(r#""codes":[]"#, "", None).is_empty());
    }

    #[test]
    fn a_rule_that_nobody_has_is_an_error() {
        let types = TypeTable::parse(TYPES).unwrap();
        let mut check = Check::new(&types);
        check.object(
            &read(r#""mode":"On","sources":[{"name":"a","text":{}}]"#),
            None,
            &NoRules,
        );
        let rules = ["first", "last"].map(|name| format!("spec: Internal error: there is no rule {name}"));
        assert_eq!(texts(check), rules);
    }
}
