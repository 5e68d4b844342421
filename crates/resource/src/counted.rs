//! Counting of the objects of a resource by quotas; see [`crate::quota`] for the rules.

use std::time::SystemTime;

use holdfast_gotext::quantity::Quantity;
use holdfast_schema::Field;
use holdfast_value::Value;

use crate::descriptor::Resource;
use crate::quota::{Amounts, QuotaUsage};

/// Objects of a resource, in the form in which quotas count them.
#[derive(Clone, Copy)]
pub struct Counted<'r> {
    resource: &'r Resource,
}

impl<'r> Counted<'r> {
    /// Returns the objects of `resource`; `None` if quotas do not count them.
    pub fn for_resource(resource: &'r Resource) -> Option<Self> {
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
        let one = Quantity::from_units(1);
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
                let values: Vec<&str> = wanted
                    .child("values")
                    .slice()
                    .iter()
                    .filter_map(Value::as_str)
                    .collect();
                is_within(scope.text(), operator.text(), &values)
            })
    }
}
