//! Amounts of resources: which names they may have and which quantities make sense.

use holdfast_resource::Field;
use holdfast_resource::metadata::formats::qualified_name;
use holdfast_resource::schema::quantity::Quantity;

use super::Errors;

/// Names that resource lists may use without a domain.
const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Names that containers may use without a domain.
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Names whose amounts are whole numbers.
const WHOLE: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// The quantity at a field, if a well-formed one is there.
pub(crate) fn quantity(field: &Field<'_, '_>) -> Option<Quantity> {
    match field.value()? {
        holdfast_value::Value::String(text) => Quantity::parse(text).ok(),
        holdfast_value::Value::Int(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// Whether a quantity below zero stands here.
pub(crate) fn is_negative(field: &Field<'_, '_>) -> bool {
    quantity(field).is_some_and(|quantity| quantity.is_negative())
}

fn is_hugepages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether the name belongs to Kubernetes itself.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether the name is of a device or the like that some domain defines.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether requests may be lower than limits.
fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_hugepages(name)
}

/// Whether a name needs no domain in any list of resources.
pub(crate) fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || is_hugepages(name) || name.starts_with("requests.hugepages-")
}

/// Reports a name that is neither standard nor qualified. Says whether it was well-formed.
pub(crate) fn validate_name(name: &str, field: &Field<'_, '_>, errors: &mut Errors) -> bool {
    let faults = qualified_name(name);
    let malformed = !faults.is_empty();
    errors.extend(faults.into_iter().map(|fault| field.invalid_as(name, fault)));
    if malformed {
        return false;
    }
    if !name.contains('/') && !is_standard(name) {
        errors.push(field.invalid_as(name, "must be a standard resource type or fully qualified"));
    }
    true
}

fn validate_container_name(name: &str, field: &Field<'_, '_>, errors: &mut Errors) {
    validate_name(name, field, errors);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !is_hugepages(name) {
            errors.push(field.invalid_as(name, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(field.invalid_as(name, "doesn't follow extended resource name standard"));
    }
}

/// Reports an amount below zero, or a fraction of what comes in whole numbers.
pub(crate) fn validate_amount(name: &str, amount: &Field<'_, '_>, errors: &mut Errors) {
    let Some(quantity) = quantity(amount) else {
        return;
    };
    if quantity.is_negative() {
        errors.push(amount.invalid("must be greater than or equal to 0"));
    }
    if (WHOLE.contains(&name) || is_extended(name)) && !quantity.is_whole() {
        errors.push(amount.invalid("must be an integer"));
    }
}

/// Checks what a container may take and asks for.
pub(crate) fn validate_container_resources(resources: &Field<'_, '_>, errors: &mut Errors) {
    let (limits, requests) = (resources.child("limits"), resources.child("requests"));
    let (mut basic, mut huge) = (false, false);
    for (name, limit) in limits.entries() {
        validate_container_name(name, &limit, errors);
        validate_amount(name, &limit, errors);
        huge |= is_hugepages(name);
        basic |= matches!(name, "cpu" | "memory");
    }
    for (name, request) in requests.entries() {
        validate_container_name(name, &request, errors);
        validate_amount(name, &request, errors);
        huge |= is_hugepages(name);
        basic |= matches!(name, "cpu" | "memory");
        let limit = limits.entry(name);
        match (quantity(&request), quantity(&limit)) {
            (Some(asked), Some(most)) if !may_overcommit(name) && asked != most => {
                let limit = limit.text();
                errors.push(requests.invalid_as(request.text(), format!("must be equal to {name} limit of {limit}")));
            }
            (Some(asked), Some(most)) if asked > most => {
                let limit = limit.text();
                let fault = format!("must be less than or equal to {name} limit of {limit}");
                errors.push(requests.invalid_as(request.text(), fault));
            }
            (Some(_), None) if !may_overcommit(name) => {
                errors.push(limits.required("Limit must be set for non overcommitable resources"));
            }
            _ => {}
        }
    }
    if huge && !basic {
        errors.push(resources.forbidden("HugePages require cpu or memory"));
    }
}

/// Checks what the sandbox of a Pod takes beside its containers.
pub(crate) fn validate_overhead(overhead: &Field<'_, '_>, errors: &mut Errors) {
    if !overhead.is_set() {
        return;
    }
    // The reference checks it as the limits of a container.
    let limits = overhead.shown_as("limits");
    for (name, amount) in limits.entries() {
        validate_container_name(name, &amount, errors);
        validate_amount(name, &amount, errors);
    }
}

/// Checks by what a selected resource is divided.
pub(crate) fn validate_divisor(resource: &str, divisor: &Field<'_, '_>, errors: &mut Errors) {
    const OF_BYTES: [&str; 13] = [
        "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
    ];
    let text = divisor.text();
    if text.is_empty() || text == "0" {
        return;
    }
    if resource.ends_with(".cpu") {
        if !matches!(text, "1" | "1m") {
            errors.push(divisor.invalid_as(
                "divisor",
                "only divisor's values 1m and 1 are supported with the cpu resource",
            ));
        }
    } else if !OF_BYTES.contains(&text) {
        let kind = resource.rsplit('.').next().unwrap_or_default();
        let kind = if kind.starts_with("hugepages-") {
            "hugepages"
        } else {
            kind
        };
        errors.push(divisor.invalid_as(
            "divisor",
            format!(
                "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the {kind} \
                 resource"
            ),
        ));
    }
}

/// Tells of amounts of memory and storage that are no whole number of bytes.
pub(crate) fn fractional_bytes(list: &Field<'_, '_>, warnings: &mut Vec<String>) {
    for name in ["memory", "ephemeral-storage", "storage"] {
        let amount = list.entry(name);
        if quantity(&amount).is_some_and(|quantity| !quantity.is_whole()) {
            warnings.push(format!(
                "{}: fractional byte value \"{}\" is invalid, must be an integer",
                amount.path(),
                amount.text()
            ));
        }
    }
}
