//! LimitRanges: <https://kubernetes.io/docs/concepts/policy/limit-range/>.

use std::collections::BTreeSet;
use std::collections::HashSet;

use holdfast_resource::metadata::formats::qualified_name;
use holdfast_resource::schema::quantity::Quantity;
use holdfast_resource::{Field, FieldError, Refusal, Strategy, WriteContext};
use holdfast_value::{Map, Value};

use crate::defaults::{change_items, none_if_empty};
use crate::validation::Errors;
use crate::validation::resources::{may_overcommit, quantity, validate_container_name, validate_name};

/// What only LimitRanges do.
pub(crate) struct LimitRange;

const TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];

impl Strategy for LimitRange {
    fn default_fields(&self, _version: &str, object: &mut Value) {
        let Some(spec) = object.as_map_mut().and_then(|object| object.get_mut("spec")) else {
            return;
        };
        let of_containers = |item: &Value| item.str_at(&["type"]) == Some("Container");
        change_items(spec, "limits", of_containers, default_limits);
    }

    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Refusal> {
        none_if_empty(object, &["spec", "limits"]);
        Ok(())
    }

    fn prepare_for_update(&self, _context: &WriteContext<'_>, object: &mut Value, _old: &Value) -> Result<(), Refusal> {
        none_if_empty(object, &["spec", "limits"]);
        Ok(())
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let mut errors = Errors::new();
        let mut types = HashSet::new();
        for item in spec.child("limits").items() {
            let sort = item.child("type");
            validate_type(&sort, &mut errors);
            if !types.insert(sort.text()) {
                errors.push(sort.duplicate());
            }
            validate_item(&item, sort.text(), &mut errors);
        }
        errors
    }
}

/// What is not limited by default is limited by the most; what is not requested is requested as it is limited.
fn default_limits(item: &mut Value) {
    let map = |item: &Value, key: &str| item.get(key).and_then(Value::as_map).cloned().unwrap_or_default();
    let (most, least) = (map(item, "max"), map(item, "min"));
    let mut limits = map(item, "default");
    let mut requests = map(item, "defaultRequest");
    fill(&mut limits, &most);
    fill(&mut requests, &limits);
    fill(&mut requests, &least);
    for (key, list) in [("default", limits), ("defaultRequest", requests)] {
        if !list.is_empty() {
            item.set_at(&[key], list.into());
        }
    }
}

fn fill(list: &mut Map, from: &Map) {
    for (name, amount) in from {
        if !list.contains_key(name) {
            list.insert(name.clone(), amount.clone());
        }
    }
}

fn validate_type(sort: &Field<'_, '_>, errors: &mut Errors) {
    let faults = qualified_name(sort.text());
    if !faults.is_empty() {
        errors.extend(faults.into_iter().map(|fault| sort.invalid_text(fault)));
        return;
    }
    if !sort.text().contains('/') && !TYPES.contains(&sort.text()) {
        errors.push(sort.invalid_text("must be a standard limit type or fully qualified"));
    }
}

/// `validateLimitRangeResourceName`: Pods and containers are limited in what containers may have.
fn validate_limited(sort: &str, name: &str, amount: &Field<'_, '_>, errors: &mut Errors) {
    if matches!(sort, "Pod" | "Container") {
        validate_container_name(name, amount, errors);
    } else {
        validate_name(name, amount, errors);
    }
}

fn validate_item(item: &Field<'_, '_>, sort: &str, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    let mut check = |part: &str, errors: &mut Errors| {
        for (name, amount) in item.child(part).entries() {
            names.insert(name);
            validate_limited(sort, name, &amount, errors);
        }
    };
    check("max", errors);
    check("min", errors);
    let list = |name: &'static str| item.child(name);
    if sort == "Pod" {
        for part in ["default", "defaultRequest"] {
            if !item.child(part).is_empty() {
                errors.push(item.child(part).forbidden("may not be specified when `type` is 'Pod'"));
            }
        }
    } else {
        check("default", errors);
        check("defaultRequest", errors);
    }
    if sort == "PersistentVolumeClaim" {
        let (least, most) = (list("min"), list("max"));
        if !least.entry("storage").is_set() && !most.entry("storage").is_set() {
            let limits = item.child("limits");
            errors
                .push(limits.required("either minimum or maximum storage value is required, but neither was provided"));
        }
    }
    for (name, amount) in item.child("maxLimitRequestRatio").entries() {
        names.insert(name);
        validate_limited(sort, name, &amount, errors);
    }
    let lists = [
        list("max"),
        list("min"),
        list("default"),
        list("defaultRequest"),
        list("maxLimitRequestRatio"),
    ];
    for name in names {
        validate_order(&lists, name, errors);
    }
}

/// Least, default request, default limit and most follow each other.
fn validate_order(lists: &[Field<'_, '_>; 5], name: &str, errors: &mut Errors) {
    let [most, least, limit, request, ratio] = lists.each_ref().map(|list| list.entry(name));
    let [above, below, by_limit, by_request, factor] =
        [&most, &least, &limit, &request, &ratio].map(|field| quantity(field));
    let mut ordered = |low: &Field<'_, '_>, high: &Field<'_, '_>, shown: &Field<'_, '_>, names: (&str, &str)| {
        if let (Some(lower), Some(upper)) = (quantity(low), quantity(high))
            && lower > upper
        {
            let (low_name, high_name) = names;
            errors.push(shown.invalid_as(
                low.text(),
                format!(
                    "{low_name} value {} is greater than {high_name} value {}",
                    low.text(),
                    high.text()
                ),
            ));
        }
    };
    ordered(&least, &most, &least, ("min", "max"));
    if by_request.is_some() {
        if below.is_some() && below > by_request {
            errors.push(request.invalid_as(
                request.text(),
                format!(
                    "min value {} is greater than default request value {}",
                    least.text(),
                    request.text()
                ),
            ));
        }
        if above.is_some() && by_request > above {
            errors.push(request.invalid_as(
                request.text(),
                format!(
                    "default request value {} is greater than max value {}",
                    request.text(),
                    most.text()
                ),
            ));
        }
        if by_limit.is_some() && by_request > by_limit {
            errors.push(request.invalid_as(
                request.text(),
                format!(
                    "default request value {} is greater than default limit value {}",
                    request.text(),
                    limit.text()
                ),
            ));
        }
    }
    if by_limit.is_some() {
        if below.is_some() && below > by_limit {
            errors.push(limit.invalid_as(
                least.text(),
                format!(
                    "min value {} is greater than default value {}",
                    least.text(),
                    limit.text()
                ),
            ));
        }
        if above.is_some() && by_limit > above {
            errors.push(limit.invalid_as(
                most.text(),
                format!(
                    "default value {} is greater than max value {}",
                    limit.text(),
                    most.text()
                ),
            ));
        }
    }
    if factor.is_some_and(|factor| !factor.is_at_least(1)) {
        errors.push(ratio.invalid_as(ratio.text(), format!("ratio {} is less than 1", ratio.text())));
    }
    if let (Some(factor), Some(below), Some(above)) = (factor, below, above)
        && let Some(highest) = above.ratio(below)
        && factor
            .ratio(Quantity::of_units(1))
            .is_some_and(|factor| factor > highest)
    {
        let text = ratio.text();
        errors.push(ratio.invalid_as(text, format!("ratio {text} is greater than max/min = {highest:.6}")));
    }
    if !may_overcommit(name) && by_limit.is_some() && by_request.is_some() && by_limit != by_request {
        errors.push(request.invalid_as(
            request.text(),
            format!(
                "default value {} must equal to defaultRequest value {} in {name}",
                limit.text(),
                request.text()
            ),
        ));
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    fn range(item: &str) -> String {
        format!("{{apiVersion: v1, kind: LimitRange, metadata: {{name: l}}, spec: {{limits: [{item}]}}}}")
    }

    #[test]
    fn what_is_left_open_is_limited_by_the_most() {
        let read = Harness::new().read(&range("{type: Container, max: {cpu: 2}, min: {memory: 1Mi}}"));
        assert_eq!(at(&read, "spec.limits.0.default"), r#"{"cpu":"2"}"#);
        assert_eq!(
            at(&read, "spec.limits.0.defaultRequest"),
            r#"{"cpu":"2","memory":"1Mi"}"#
        );
    }

    #[test]
    fn limits_follow_each_other() {
        let errors = Harness::new().errors(&range("{type: Pod, max: {cpu: 1}, min: {cpu: 2}}"));
        assert_eq!(
            errors,
            [r#"spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1"#]
        );
        assert_eq!(
            Harness::new().errors(&range("{type: odd}")),
            [r#"spec.limits[0].type: Invalid value: "odd": must be a standard limit type or fully qualified"#]
        );
    }
}
