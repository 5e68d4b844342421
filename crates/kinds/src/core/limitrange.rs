//! LimitRanges: <https://kubernetes.io/docs/concepts/policy/limit-range/>.

use std::collections::BTreeSet;
use std::collections::HashSet;

use holdfast_gotext::quantity::Quantity;
use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::{Rejection, Strategy, WriteContext};
use holdfast_schema::metadata::formats::qualified_name;
use holdfast_schema::{Field, FieldError};
use holdfast_value::{Map, Value};

use crate::defaults::change_items;
use crate::kind::kind;
use crate::validation::Errors;
use crate::validation::resources::{may_overcommit, quantity, validate_container_name, validate_name};

/// Rules of LimitRanges only.
pub(crate) struct LimitRange;

const TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(LimitRange).metadata_checks(of_core(1, 0)).done()
}

impl Strategy for LimitRange {
    /// upstream: pkg/apis/core/v1#SetDefaults_LimitRangeItem
    fn default_fields(&self, _version: &str, object: &mut Value) {
        let Some(spec) = object.as_map_mut().and_then(|object| object.get_mut("spec")) else {
            return;
        };
        let of_containers = |item: &Value| item.str_at(&["type"]) == Some("Container");
        change_items(spec, "limits", of_containers, default_limits);
    }

    /// upstream: pkg/registry/core/limitrange#limitrangeStrategy.PrepareForCreate
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        let is_nameless = object.str_at(&["metadata", "name"]).unwrap_or_default().is_empty();
        let uid = object.str_at(&["metadata", "uid"]).filter(|_| is_nameless);
        if let Some((head, tail)) = uid.and_then(|uid| uid.rsplit_once('-')) {
            // A LimitRange without a name gets a unique one: here its own identifier with the end reversed.
            let name: String = head.chars().chain(['-']).chain(tail.chars().rev()).collect();
            object.set_at(&["metadata", "name"], name.as_str().into());
        }
        Ok(())
    }

    /// upstream: pkg/registry/core/limitrange#limitrangeStrategy.Validate
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let mut errors = Errors::new();
        let mut types = HashSet::new();
        for item in spec.child("limits").items() {
            let type_field = item.child("type");
            validate_type(&type_field, &mut errors);
            if !types.insert(type_field.text()) {
                errors.push(type_field.duplicate());
            }
            validate_item(&item, type_field.text(), &mut errors);
        }
        errors
    }
}

/// Sets missing default limits to the maximum, and missing default requests to the default limits or else to the
/// minimum.
///
/// upstream: pkg/apis/core/v1#SetDefaults_LimitRangeItem
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

/// upstream: pkg/apis/core/validation#validateLimitRangeTypeName
fn validate_type(type_field: &Field<'_, '_>, errors: &mut Errors) {
    let details = qualified_name(type_field.text());
    if !details.is_empty() {
        errors.extend(details.into_iter().map(|detail| type_field.invalid_text(detail)));
        return;
    }
    if !type_field.text().contains('/') && !TYPES.contains(&type_field.text()) {
        errors.push(type_field.invalid_text("must be a standard limit type or fully qualified"));
    }
}

/// Validates a resource name: limits of Pods and containers name container resources.
///
/// upstream: pkg/apis/core/validation#validateLimitRangeResourceName
fn validate_limited(type_name: &str, name: &str, amount: &Field<'_, '_>, errors: &mut Errors) {
    if matches!(type_name, "Pod" | "Container") {
        validate_container_name(name, amount, errors);
    } else {
        validate_name(name, amount, errors);
    }
}

/// upstream: pkg/apis/core/validation#ValidateLimitRange
fn validate_item(item: &Field<'_, '_>, type_name: &str, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    let mut check = |part: &str, errors: &mut Errors| {
        for (name, amount) in item.child(part).entries() {
            names.insert(name);
            validate_limited(type_name, name, &amount, errors);
        }
    };
    check("max", errors);
    check("min", errors);
    let list = |name: &'static str| item.child(name);
    if type_name == "Pod" {
        for part in ["default", "defaultRequest"] {
            if !item.child(part).is_empty() {
                errors.push(item.child(part).forbidden("may not be specified when `type` is 'Pod'"));
            }
        }
    } else {
        check("default", errors);
        check("defaultRequest", errors);
    }
    if type_name == "PersistentVolumeClaim" {
        let (least, most) = (list("min"), list("max"));
        if !least.entry("storage").is_set() && !most.entry("storage").is_set() {
            let limits = item.child("limits");
            errors
                .push(limits.required("either minimum or maximum storage value is required, but neither was provided"));
        }
    }
    for (name, amount) in item.child("maxLimitRequestRatio").entries() {
        names.insert(name);
        validate_limited(type_name, name, &amount, errors);
    }
    // Defaults that Pods must not have are not compared.
    let (limits, requests) = match type_name {
        "Pod" => (Field::root(&Value::Null), Field::root(&Value::Null)),
        _ => (list("default"), list("defaultRequest")),
    };
    let lists = [list("max"), list("min"), limits, requests, list("maxLimitRequestRatio")];
    for name in names {
        validate_order(&lists, name, errors);
    }
}

/// Validates the order: minimum, default request, default limit, maximum.
///
/// upstream: pkg/apis/core/validation#ValidateLimitRange
fn validate_order(lists: &[Field<'_, '_>; 5], name: &str, errors: &mut Errors) {
    let [most, least, limit, request, ratio] = lists.each_ref().map(|list| {
        let field = list.entry(name);
        let amount = quantity(&field);
        (field, amount)
    });
    // Two amounts with their names, the field that the error names, and the field whose text it prints.
    let orders = [
        (&least, "min", &most, "max", &least, &least),
        (&least, "min", &request, "default request", &request, &request),
        (&request, "default request", &most, "max", &request, &request),
        (&request, "default request", &limit, "default limit", &request, &request),
        (&least, "min", &limit, "default", &limit, &least),
        (&limit, "default", &most, "max", &limit, &most),
    ];
    for ((low, lower), low_name, (high, upper), high_name, (at, _), (shown, _)) in orders {
        if lower.is_some() && upper.is_some() && lower > upper {
            let (low, high) = (low.text(), high.text());
            let why = format!("{low_name} value {low} is greater than {high_name} value {high}");
            errors.push(at.invalid_as(shown.text(), why));
        }
    }
    let ((ratio, factor), (request, by_request), (limit, by_limit)) = (ratio, request, limit);
    if factor.is_some_and(|factor| !factor.is_at_least(1)) {
        errors.push(ratio.invalid_as(ratio.text(), format!("ratio {} is less than 1", ratio.text())));
    }
    if ratio.is_set() && least.0.is_set() && most.0.is_set() {
        validate_ratio(&ratio, &least.0, &most.0, errors);
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

/// Validates that the ratio is not greater than max/min. The reference computes in thousandths if they fit into 64-bit
/// integers, and else in units, truncated to 64 bits.
///
/// upstream: pkg/apis/core/validation#ValidateLimitRange
fn validate_ratio(ratio: &Field<'_, '_>, least: &Field<'_, '_>, most: &Field<'_, '_>, errors: &mut Errors) {
    const MOST_THOUSANDTHS: i64 = i64::MAX / 1000;
    let amounts = [ratio, least, most].map(|field| (field.text(), quantity(field)));
    let units = amounts.map(|(text, amount)| amount.map_or(0, |amount| held_units(text, amount)));
    let [factor, below, above] = if units.iter().all(|units| *units < MOST_THOUSANDTHS) {
        let held = |(text, amount): (&str, Quantity)| match held_units(text, amount) {
            0 if amount.is_at_least(1) => 0.0,
            _ => amount.thousandths() as f64,
        };
        let [factor, below, above] = amounts.map(|(text, amount)| amount.map_or(0.0, |amount| held((text, amount))));
        [factor / 1000.0, below, above]
    } else {
        units.map(|units| units as f64)
    };
    let highest = above / below;
    if factor > highest {
        let text = ratio.text();
        errors.push(ratio.invalid_as(text, format!("ratio {text} is greater than max/min = {highest:.6}")));
    }
}

/// Returns the whole units of an amount in 64 bits. If they do not fit, the reference keeps 0 where it parsed the
/// digits as a 64-bit integer, and else the lowest bits.
fn held_units(text: &str, amount: Quantity) -> i64 {
    const DIGITS: usize = 18;
    let units = amount.whole_units();
    let number = text.trim_start_matches(['+', '-', '0', '.']);
    let digits = number.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.');
    match i64::try_from(units) {
        Ok(units) => units,
        Err(_) if digits.filter(u8::is_ascii_digit).count() <= DIGITS => 0,
        Err(_) => units as i64,
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    fn range(item: &str) -> String {
        format!("{{apiVersion: v1, kind: LimitRange, metadata: {{name: l}}, spec: {{limits: [{item}]}}}}")
    }

    #[test]
    fn missing_default_limit_is_the_maximum() {
        let read = Harness::new().read(&range("{type: Container, max: {cpu: 2}, min: {memory: 1Mi}}"));
        assert_eq!(at(&read, "spec.limits.0.default"), r#"{"cpu":"2"}"#);
        assert_eq!(
            at(&read, "spec.limits.0.defaultRequest"),
            r#"{"cpu":"2","memory":"1Mi"}"#
        );
    }

    #[test]
    fn limits_follow_each_other() {
        assert_eq!(
            Harness::new().errors(&range("{type: Pod, max: {cpu: 1}, defaultRequest: {cpu: 2}}")),
            ["spec.limits[0].defaultRequest: Forbidden: may not be specified when `type` is 'Pod'"]
        );
        let errors = Harness::new().errors(&range("{type: Pod, max: {cpu: 1}, min: {cpu: 2}}"));
        assert_eq!(
            errors,
            [r#"spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1"#]
        );
        let ratio = |max: &str, ratio: &str| {
            let item = format!(
                "{{type: Container, max: {{cpu: '{max}'}}, min: {{cpu: 100m}}, maxLimitRequestRatio: {{cpu: '{ratio}'}}}}"
            );
            Harness::new().errors(&range(&item))
        };
        assert_eq!(ratio("1", "10"), Vec::<String>::new());
        for (max, factor, message) in [
            ("1", "10.5", "ratio 10500m is greater than max/min = 10.000000"),
            (
                "2",
                "99999999999999999999",
                "ratio 99999999999999999999 is greater than max/min = 2.000000",
            ),
            ("1e400", "10", "ratio 10 is greater than max/min = 0.000000"),
        ] {
            let errors = ratio(max, factor);
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert!(errors[0].ends_with(message), "{errors:?}");
        }
        assert_eq!(
            Harness::new().errors(&range("{type: odd}")),
            [r#"spec.limits[0].type: Invalid value: "odd": must be a standard limit type or fully qualified"#]
        );
    }
}
