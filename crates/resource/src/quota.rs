//! Counting by quotas (<https://kubernetes.io/docs/concepts/policy/resource-quotas/>): every object of a namespace by
//! its number, and by the resources that its kind reports as used. The admission plugin charges by these rules, and the
//! quota controller counts by them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use holdfast_gotext::quantity::Quantity;
use holdfast_value::Value;

use crate::{Field, Resource};

/// Amounts by the name of the counted resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// Rules by which quotas count the objects of a kind. By default they count only `count/PLURAL.GROUP`.
#[derive(Clone, Default)]
pub struct QuotaRules {
    /// True if quotas ignore the objects.
    pub exempt: bool,
    /// True if the plural name also counts the objects.
    pub plain_name: bool,
    /// Usage of the objects beyond their number.
    pub usage: Option<Arc<dyn QuotaUsage>>,
}

/// Usage of objects of a kind beyond their number.
pub trait QuotaUsage: Send + Sync {
    /// Returns true if the objects may use a resource of that name.
    fn takes(&self, name: &str) -> bool;

    /// Adds the usage of `object` to `usage`.
    fn add(&self, object: &Value, usage: &mut Amounts);

    /// Returns the subresource whose updates change the usage of an object; empty for the object itself.
    fn changed_by(&self) -> &'static str {
        ""
    }

    /// Returns true if a change of the object itself moves it to quotas of another scope, which then count it like a
    /// new one.
    fn changes_scope(&self, object: &Value, old: &Value) -> bool {
        let _ = (object, old);
        false
    }

    /// Returns true if objects may finish before they are deleted, and then count only by their number.
    fn may_end(&self) -> bool {
        false
    }

    /// Returns true if an object has finished.
    fn has_ended(&self, object: &Value, now: SystemTime) -> bool {
        let _ = (object, now);
        false
    }

    /// Returns true if an object is within a scope of a quota; `operator` and `values` are those of a scope selector.
    fn is_within(&self, object: &Value, scope: &str, operator: &str, values: &[&str]) -> bool {
        let _ = (object, scope, operator, values);
        false
    }

    /// Returns the resources that `object` must specify because a quota counts `counted`, and does not; as text.
    fn unstated(&self, counted: &[&str], object: &Value) -> Option<String> {
        let _ = (counted, object);
        None
    }
}

/// Objects of a resource, in the form in which quotas count them.
#[derive(Clone, Copy)]
pub struct Counted<'r> {
    resource: &'r Resource,
}

impl<'r> Counted<'r> {
    /// Returns the objects of `resource`; `None` if quotas do not count them.
    pub fn of(resource: &'r Resource) -> Option<Self> {
        let counted = resource.namespaced() && resource.storage.is_some() && !resource.capabilities.quota.exempt;
        counted.then_some(Self { resource })
    }

    /// Returns true if these are the objects of that group and plural name.
    pub fn is_of(&self, group: &str, plural: &str) -> bool {
        self.resource.group == group && self.resource.plural == plural
    }

    /// Returns the usage of the objects beyond their number.
    pub fn beyond_number(&self) -> Option<&'r dyn QuotaUsage> {
        self.resource.capabilities.quota.usage.as_deref()
    }

    fn has_plain_name(&self) -> bool {
        self.resource.capabilities.quota.plain_name
    }

    /// Returns true if `name` counts these objects.
    pub fn is_number(&self, name: &str) -> bool {
        let (group, plural) = (self.resource.group.as_str(), self.resource.plural.as_str());
        match name.strip_prefix("count/") {
            Some(counted) if group.is_empty() => counted == plural,
            Some(counted) => counted
                .strip_prefix(plural)
                .and_then(|rest| rest.strip_prefix('.'))
                .is_some_and(|rest| rest == group),
            None => self.has_plain_name() && name == plural,
        }
    }

    /// Returns true if `name` counts all objects, finished or not. The plain name counts those that have not finished.
    pub fn is_number_of_all(&self, name: &str) -> bool {
        let may_end = self.beyond_number().is_some_and(|usage| usage.may_end());
        self.is_number(name) && (!may_end || name.starts_with("count/"))
    }

    /// Returns the names by which the number of objects is counted.
    fn numbers(&self) -> impl Iterator<Item = String> {
        let (group, plural) = (&self.resource.group, &self.resource.plural);
        let qualified = match group.as_str() {
            "" => format!("count/{plural}"),
            group => format!("count/{plural}.{group}"),
        };
        let plain = self.has_plain_name().then(|| plural.to_string());
        [Some(qualified), plain].into_iter().flatten()
    }

    /// Returns true if these objects may use a resource of that name.
    pub fn takes(&self, name: &str) -> bool {
        self.is_number(name) || self.beyond_number().is_some_and(|usage| usage.takes(name))
    }

    /// Returns the usage of an object at the time `now`. Finished objects count only by their number.
    pub fn usage(&self, object: &Value, now: SystemTime) -> Amounts {
        let one = Quantity::of_units(1);
        let mut usage: Amounts = self.numbers().map(|name| (name, one)).collect();
        match self.beyond_number() {
            Some(beyond) if beyond.has_ended(object, now) => usage.retain(|name, _| name.starts_with("count/")),
            Some(beyond) => beyond.add(object, &mut usage),
            None => {}
        }
        usage
    }

    /// Returns true if an object is within all scopes of a quota.
    pub fn is_within_scopes_of(&self, quota: &Value, object: &Value) -> bool {
        let root = Field::root(quota);
        let spec = root.child("spec");
        let selector = spec.child("scopeSelector");
        let is_within = |scope: &str, operator: &str, values: &[&str]| {
            let usage = self.beyond_number();
            usage.is_some_and(|usage| usage.is_within(object, scope, operator, values))
        };
        let named = spec
            .child("scopes")
            .items()
            .all(|scope| is_within(scope.text(), "Exists", &[]));
        named
            && selector.child("matchExpressions").items().all(|wanted| {
                let (scope, operator) = (wanted.child("scopeName"), wanted.child("operator"));
                let values = wanted.child("values");
                let values: Vec<&str> = values.slice().iter().filter_map(Value::as_str).collect();
                is_within(scope.text(), operator.text(), &values)
            })
    }
}

/// Returns the limits in the specification of a quota.
pub fn limits(quota: &Value) -> Amounts {
    amounts(&Field::root(quota).child("spec").child("hard"))
}

/// Returns the limits in force and the usage, as far as it has been counted.
pub fn status(quota: &Value) -> (Amounts, Amounts) {
    let root = Field::root(quota);
    let status = root.child("status");
    (amounts(&status.child("hard")), amounts(&status.child("used")))
}

/// Returns true if a quota only counts within scopes.
pub fn has_scopes(quota: &Value) -> bool {
    let root = Field::root(quota);
    let spec = root.child("spec");
    !spec.child("scopes").is_empty() || !spec.child("scopeSelector").child("matchExpressions").is_empty()
}

/// Returns the quantity at a field, if it is well-formed.
pub fn quantity(field: &Field<'_, '_>) -> Option<Quantity> {
    match field.value()? {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Int(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// Returns the amounts in a list of resources; malformed quantities are left out.
pub fn amounts(list: &Field<'_, '_>) -> Amounts {
    let entries = list.entries();
    entries
        .filter_map(|(name, field)| Some((name.to_owned(), quantity(&field)?)))
        .collect()
}

/// Adds `more` to `to`.
pub fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        to.entry(name.clone())
            .and_modify(|sum| *sum = sum.plus(*amount))
            .or_insert(*amount);
    }
}
