//! Fields that exist only with a feature gate: `+gate(Name)` on a field.
//!
//! While the gate is off, a write loses the field, unless the object that it changes already uses the feature
//! (`DropDisabledFields` of the reference's strategies). [`TypeTable::disable`] sets the disabled gates once; a write
//! then only visits fields whose gate is off, so that enabled gates cost nothing.

use holdfast_value::{SmolStr, Value};

use crate::types::{Field, Shape, TableError, Type, TypeId, TypeTable};

/// The gate of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: SmolStr,
    /// True if an object keeps the field only if the old object has it at the same path. Otherwise it keeps all fields
    /// of a gate if the old object has any of them: `+gate(Name,inPlace)`.
    pub in_place: bool,
    /// True if the struct that holds the field is removed with it, if it holds nothing else: `+gate(Name,withHolder)`.
    pub with_holder: bool,
    /// The value that needs no gate: `+gate(Name,unless=Value)`.
    pub unless: Option<SmolStr>,
}

impl Gate {
    pub(crate) fn read(inside: &str) -> Result<Self, &'static str> {
        let mut words = inside.split(',');
        let mut gate = Self {
            name: words
                .next()
                .filter(|name| !name.is_empty())
                .ok_or("no name of a gate")?
                .into(),
            in_place: false,
            with_holder: false,
            unless: None,
        };
        for word in words {
            match word {
                "inPlace" => gate.in_place = true,
                "withHolder" => gate.with_holder = true,
                word => match word.strip_prefix("unless=") {
                    Some(value) => gate.unless = Some(value.into()),
                    None => return Err("neither inPlace, withHolder nor unless"),
                },
            }
        }
        Ok(gate)
    }
}

/// Gates that are off, one bit each.
type Gates = u128;

/// A field that is disabled, or that leads to one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DisabledField {
    /// Its index among the fields of the type.
    at: u16,
    /// Bit of its own gate; 0 if that is on, or if it has none.
    gate: Gates,
    /// True if a disabled field is below it.
    leads: bool,
}

impl TypeTable {
    /// Returns the same table with the gates off for which `is_off` returns true.
    ///
    /// # Errors
    /// [`TableError::TooManyGates`].
    pub fn disable(mut self, is_off: impl Fn(&str) -> bool) -> Result<Self, TableError> {
        let gates = self
            .types
            .iter()
            .flat_map(Type::fields)
            .filter_map(|field| field.tags.gate.as_ref());
        let mut off: Vec<SmolStr> = gates
            .map(|gate| gate.name.clone())
            .filter(|name| is_off(name))
            .collect();
        off.sort();
        off.dedup();
        if off.len() > Gates::BITS as usize {
            return Err(TableError::TooManyGates(off.len()));
        }
        let bit = |field: &Field| {
            let gate = field.tags.gate.as_ref()?;
            let at = off.binary_search(&gate.name).ok()?;
            Some(1 << at)
        };
        // Types may be recursive, so the search for leading fields iterates until nothing new is found.
        let mut grew = true;
        while grew {
            grew = false;
            for at in 0..self.types.len() {
                let disabled = self.disabled_fields(TypeId(at as u32), &bit);
                if let Some(of) = self.types.get_mut(at)
                    && leading(&disabled) > leading(&of.disabled)
                {
                    of.disabled = disabled;
                    grew = true;
                }
            }
        }
        Ok(self)
    }

    fn disabled_fields(&self, of: TypeId, bit: &dyn Fn(&Field) -> Option<Gates>) -> Vec<DisabledField> {
        let fields = (0u16..).zip(self.get(of).fields());
        let disabled = fields.map(|(at, field)| DisabledField {
            at,
            gate: bit(field).unwrap_or_default(),
            leads: self.leads_to_disabled(&field.shape),
        });
        disabled.filter(|field| field.gate != 0 || field.leads).collect()
    }

    fn leads_to_disabled(&self, shape: &Shape) -> bool {
        shape.type_id().is_some_and(|id| !self.get(id).disabled.is_empty())
    }

    /// Drops the fields of an object whose gates are off, unless `old`, which it replaces, uses them.
    pub(crate) fn drop_disabled(&self, of: TypeId, object: &mut Value, old: Option<&Value>) {
        if self.used(of, object) != 0 {
            let kept = old.map_or(0, |old| self.used(of, old));
            self.drop_from(of, object, old, kept);
        }
    }

    /// Returns the disabled gates whose fields a struct has, at any depth.
    fn used(&self, of: TypeId, value: &Value) -> Gates {
        let ty = self.get(of);
        let mut used = 0;
        for (disabled, field) in ty.disabled_fields() {
            let Some(value) = set(value, field) else { continue };
            used |= disabled.gate;
            if disabled.leads {
                used |= self.used_in(&field.shape, value);
            }
        }
        used
    }

    fn used_in(&self, shape: &Shape, value: &Value) -> Gates {
        match (shape, value) {
            (Shape::Ref(of), value) => self.used(*of, value),
            (Shape::List(inner), Value::List(list)) => {
                list.iter().fold(0, |used, item| used | self.used_in(inner, item))
            }
            (Shape::Map(inner), Value::Map(map)) => {
                map.iter().fold(0, |used, (_, entry)| used | self.used_in(inner, entry))
            }
            _ => 0,
        }
    }

    /// Drops disabled fields except those of the gates `kept`. Returns true if the struct is to be removed too.
    fn drop_from(&self, of: TypeId, value: &mut Value, old: Option<&Value>, kept: Gates) -> bool {
        let ty = self.get(of);
        let mut is_left_empty = false;
        for (disabled, field) in ty.disabled_fields() {
            let Some(there) = set(value, field) else { continue };
            let before = old.and_then(|old| set(old, field));
            match field.tags.gate.as_ref().filter(|_| disabled.gate != 0) {
                Some(gate) if gate.in_place && before.is_none() || !gate.in_place && kept & disabled.gate == 0 => {
                    self.unset_field(value, field);
                    is_left_empty |= gate.with_holder && value.as_map().is_some_and(|map| map.is_empty());
                }
                _ if disabled.leads && self.used_in(&field.shape, there) != 0 => {
                    let within = value.as_map_mut().and_then(|map| map.get_mut(&field.name));
                    if within.is_some_and(|within| self.drop_within(&field.shape, within, before, kept)) {
                        self.unset_field(value, field);
                    }
                }
                _ => {}
            }
        }
        is_left_empty
    }

    fn drop_within(&self, shape: &Shape, value: &mut Value, old: Option<&Value>, kept: Gates) -> bool {
        match (shape, value) {
            (Shape::Ref(of), value) => return self.drop_from(*of, value, old, kept),
            (Shape::List(inner), Value::List(list)) => {
                let old = old.and_then(Value::as_list);
                for (at, item) in list.make_mut().iter_mut().enumerate() {
                    self.drop_within(inner, item, old.and_then(|old| old.get(at)), kept);
                }
            }
            (Shape::Map(inner), Value::Map(map)) => {
                for (key, entry) in map.values_mut() {
                    self.drop_within(inner, entry, old.and_then(|old| old.get(key)), kept);
                }
            }
            _ => {}
        }
        false
    }

    /// Resets a field to its unset form.
    fn unset_field(&self, value: &mut Value, field: &Field) {
        match self.unset(field) {
            Some(unset) => value.set_at(&[&field.name], unset),
            None => {
                value.remove_at(&[&field.name]);
            }
        }
    }
}

impl Type {
    /// Returns the fields that are disabled or lead to such fields.
    fn disabled_fields(&self) -> impl Iterator<Item = (&DisabledField, &Field)> {
        let field = |disabled: &DisabledField| self.fields().get(usize::from(disabled.at));
        self.disabled
            .iter()
            .filter_map(move |disabled| Some((disabled, field(disabled)?)))
    }
}

/// Returns the numbers of disabled fields and of those that lead to one.
fn leading(fields: &[DisabledField]) -> (usize, usize) {
    (fields.len(), fields.iter().filter(|field| field.leads).count())
}

/// Returns the value of a field, if that value needs the field's gate.
fn set<'v>(value: &'v Value, field: &Field) -> Option<&'v Value> {
    let needless = field.tags.gate.as_ref().and_then(|gate| gate.unless.as_deref());
    let found = value.get(&field.name).filter(|value| !value.is_null())?;
    Some(found).filter(|value| needless.is_none() || value.as_str() != needless)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    const TYPES: &str = "
type a.Spec struct
  plain string 1
  all string 2 +gate(Old)
  part a.Part 3 pointer
  parts []a.Part 4 +gate(Whole)
  named {}a.Part 5
  rest string 6 never +gate(New)

type a.Part struct
  x string 1 +gate(New)
  y string 2 +gate(Placed,inPlace)
  z string 3 +gate(New,withHolder)
  w string 5 +gate(New,unless=plain)
  inner []a.Part 4
";

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    /// Returns the rest of an object if the gates `New` and `Placed` are off.
    fn left(object: &str, old: Option<&str>) -> String {
        let table = TypeTable::parse(TYPES)
            .unwrap()
            .disable(|gate| ["New", "Placed"].contains(&gate))
            .unwrap();
        let mut object = value(object);
        let old = old.map(value);
        table.drop_disabled(table.id("a.Spec").unwrap(), &mut object, old.as_ref());
        json::to_string(&object)
    }

    #[test]
    fn fields_whose_gate_is_off_go_at_any_depth() {
        let inner = r#"{"inner":[{"x":"1","y":"2"},{}],"y":"3"}"#;
        let object = format!(r#"{{"all":"o","named":{{"n":{inner}}},"parts":[{inner}],"plain":"p","rest":"r"}}"#);
        assert_eq!(
            left(&object, None),
            r#"{"all":"o","named":{"n":{"inner":[{},{}]}},"parts":[{"inner":[{},{}]}],"plain":"p","rest":""}"#
        );
    }

    #[test]
    fn an_object_that_uses_a_gate_keeps_all_its_fields() {
        let object = r#"{"part":{"x":"1","y":"2"},"parts":[{"x":"3"}]}"#;
        assert_eq!(
            left(object, Some(r#"{"named":{"n":{"x":"0"}}}"#)),
            r#"{"part":{"x":"1"},"parts":[{"x":"3"}]}"#
        );
    }

    #[test]
    fn in_place_gate_keeps_fields_by_path_only() {
        let object = r#"{"named":{"a":{"y":"1"},"b":{"y":"1"}},"parts":[{"y":"1"},{"y":"2"}]}"#;
        assert_eq!(
            left(object, Some(r#"{"named":{"b":{"y":"0"}},"parts":[{},{"y":"0"}]}"#)),
            r#"{"named":{"a":{},"b":{"y":"1"}},"parts":[{},{"y":"2"}]}"#
        );
    }

    #[test]
    fn a_struct_goes_with_its_last_field() {
        assert_eq!(left(r#"{"part":{"z":"1"},"plain":"p"}"#, None), r#"{"plain":"p"}"#);
        assert_eq!(left(r#"{"part":{"x":"1"}}"#, None), r#"{"part":{}}"#);
    }

    #[test]
    fn one_value_may_need_no_gate() {
        let object = r#"{"parts":[{"w":"plain"},{"w":"other"}]}"#;
        assert_eq!(left(object, None), r#"{"parts":[{"w":"plain"},{}]}"#);
        assert_eq!(left(object, Some(r#"{"part":{"w":"other"}}"#)), object);
        assert_eq!(
            left(object, Some(r#"{"part":{"w":"plain"}}"#)),
            r#"{"parts":[{"w":"plain"},{}]}"#
        );
    }

    #[test]
    fn gates_that_are_on_leave_nothing_to_look_at() {
        let table = TypeTable::parse(TYPES).unwrap().disable(|_| false).unwrap();
        assert!(table.iter().all(|(_, of)| of.disabled.is_empty()));
    }

    #[test]
    fn a_mark_names_a_gate() {
        assert_eq!(Gate::read("A,inPlace").map(|gate| gate.in_place), Ok(true));
        assert!(Gate::read("").is_err() && Gate::read("A,odd").is_err());
    }
}
