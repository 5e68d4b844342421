//! Counting by quotas (<https://kubernetes.io/docs/concepts/policy/resource-quotas/>): every object of a namespace by
//! its number, and by the resources that its kind reports as used. The admission plugin charges by these rules, and the
//! quota controller counts by them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use holdfast_gotext::quantity::Quantity;
use holdfast_value::Value;

use holdfast_schema::Field;

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
