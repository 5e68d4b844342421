//! Resource amounts: valid names and quantities.

use std::collections::{BTreeSet, HashMap};

use holdfast_gotext::quantity::{ExactQuantity, Quantity};
pub(crate) use holdfast_resource::quota::quantity;
use holdfast_schema::metadata::formats::{dns_label, qualified_name};
use holdfast_schema::{Field, FieldError};

use super::{Errors, report};
use crate::pod_resources::of_containers;

/// Resource names that containers may use without a domain.
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Name under which quotas count the storage of all claims.
pub(crate) const CLAIMED_STORAGE: &str = "requests.storage";

/// Names under which quotas count parts of Services.
pub(crate) const OF_SERVICES: [&str; 2] = ["services.nodeports", "services.loadbalancers"];

/// Kinds that quotas count by their plural names.
const KINDS: [&str; 7] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
];

/// Returns true if quotas sum the resource over Pods: a container resource, optionally as `requests.` or `limits.`.
pub(crate) fn is_counted_of_pods(name: &str) -> bool {
    let part = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits."));
    OF_CONTAINERS.contains(&part.unwrap_or(name))
}

/// Returns true if quotas count objects or ports under the name, so that its amounts are integers.
fn is_counted(name: &str) -> bool {
    KINDS.contains(&name) || OF_SERVICES.contains(&name)
}

/// Returns true if the field has a negative quantity.
pub(crate) fn is_negative(field: &Field<'_, '_>) -> bool {
    quantity(field).is_some_and(|quantity| quantity.is_negative())
}

fn is_hugepages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Returns true if the name belongs to Kubernetes itself.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Returns true if the name is that of an extended resource, which some domain defines.
pub fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && qualified_name(&format!("requests.{name}")).is_empty()
}

/// Returns true if requests may be lower than limits.
pub(crate) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_hugepages(name)
}

/// Returns true if a name needs no domain in quotas.
///
/// upstream: pkg/apis/core/helper#IsStandardQuotaResourceName
pub(crate) fn is_standard_for_quota(name: &str) -> bool {
    is_counted_of_pods(name)
        || is_counted(name)
        || name == CLAIMED_STORAGE
        || is_hugepages(name)
        || name.starts_with("requests.hugepages-")
}

/// Returns true if a name needs no domain in any list of resources.
pub(crate) fn is_standard(name: &str) -> bool {
    is_standard_for_quota(name) || name == "storage"
}

/// Reports a name that is neither standard nor qualified. Returns true if its format is valid.
///
/// upstream: pkg/apis/core/validation#validateResourceName
pub(crate) fn validate_name(name: &str, field: &Field<'_, '_>, errors: &mut Errors) -> bool {
    let messages = qualified_name(name);
    let malformed = !messages.is_empty();
    errors.extend(messages.into_iter().map(|message| field.invalid_as(name, message)));
    if malformed {
        return false;
    }
    if !name.contains('/') && !is_standard(name) {
        errors.push(field.invalid_as(name, "must be a standard resource type or fully qualified"));
    }
    true
}

/// Validates the name of a container resource.
///
/// upstream: pkg/apis/core/validation#validateContainerResourceName
pub(crate) fn validate_container_name(name: &str, field: &Field<'_, '_>, errors: &mut Errors) {
    validate_name(name, field, errors);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !is_hugepages(name) {
            errors.push(field.invalid_as(name, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(field.invalid_as(name, "doesn't follow extended resource name standard"));
    }
}

/// Reports a negative amount, or a fraction of a resource that only has integers.
///
/// upstream: pkg/apis/core/validation#ValidateResourceQuantityValue
pub(crate) fn validate_amount(name: &str, amount: &Field<'_, '_>, errors: &mut Errors) {
    let Some(quantity) = quantity(amount) else {
        return;
    };
    if quantity.is_negative() {
        errors.push(amount.invalid("must be greater than or equal to 0"));
    }
    if (is_counted(name) || is_extended(name)) && is_fraction(amount.text()) {
        errors.push(amount.invalid("must be an integer"));
    }
}

/// Returns true if the reference considers an amount a fraction. It computes thousandths in 64 bits, so that either
/// result is possible for amounts that do not fit.
fn is_fraction(amount: &str) -> bool {
    ExactQuantity::parse(amount).is_ok_and(|quantity| quantity.thousandths() % 1000 != 0)
}

/// Names of the resource claims of a Pod, which its containers may use.
#[derive(Default)]
pub(crate) struct ClaimNames<'v>(BTreeSet<&'v str>);

impl<'v> ClaimNames<'v> {
    /// Reads the names of `spec.resourceClaims`.
    pub(crate) fn from_field(claims: &Field<'v, '_>) -> Self {
        let names = claims.slice().iter().filter_map(|claim| claim.str_at(&["name"]));
        Self(names.filter(|name| !name.is_empty()).collect())
    }

    /// Validates the claims that a container references.
    ///
    /// upstream: pkg/apis/core/validation#validateResourceClaimNames
    fn validate(&self, claims: &Field<'_, '_>, errors: &mut Errors) {
        // The requests of each claim that are referenced; an empty text means all of them.
        let mut seen: HashMap<&str, Vec<&str>> = HashMap::new();
        for claim in claims.items() {
            let (name, request) = (claim.child("name").text(), claim.child("request"));
            if name.is_empty() {
                errors.push(claim.required(""));
                continue;
            }
            let before = seen.entry(name).or_default();
            if before.contains(&"") {
                errors.push(FieldError::duplicate(&claim.path(), name));
            } else {
                if !request.text().is_empty() {
                    report(&request, dns_label(request.text()), errors);
                }
                if request.text().is_empty() {
                    errors.extend(before.iter().map(|_| FieldError::duplicate(&claim.path(), name)));
                } else if before.contains(&request.text()) {
                    let both = format!("{name}/{}", request.text());
                    errors.push(FieldError::duplicate(&claim.path(), both));
                }
                before.push(request.text());
            }
            if !self.0.contains(name) {
                let listed: Vec<&str> = self.0.iter().copied().collect();
                let known = match listed.as_slice() {
                    [] => " which is empty".to_owned(),
                    names => format!(": {}", names.join(", ")),
                };
                let detail = format!("must be one of the names in pod.spec.resourceClaims{known}");
                errors.push(FieldError::not_found(&claim.path(), name).with_detail(detail));
            }
        }
    }
}

/// Validates the resources of a container.
///
/// upstream: pkg/apis/core/validation#ValidateContainerResourceRequirements
pub(crate) fn validate_container_resources(resources: &Field<'_, '_>, claims: &ClaimNames<'_>, errors: &mut Errors) {
    validate_requirements(resources, validate_container_name, errors);
    claims.validate(&resources.child("claims"), errors);
}

/// Validates the resources of a container or the pod-level resources.
///
/// upstream: pkg/apis/core/validation#validateResourceRequirements
fn validate_requirements(
    resources: &Field<'_, '_>,
    check_name: fn(&str, &Field<'_, '_>, &mut Errors),
    errors: &mut Errors,
) {
    let (limits, requests) = (resources.child("limits"), resources.child("requests"));
    let (mut basic, mut huge) = validate_limits(&limits, check_name, errors);
    for (name, request) in requests.entries() {
        check_name(name, &request, errors);
        validate_amount(name, &request, errors);
        validate_request(name, &request, &limits, &requests, errors);
        validate_pages(name, &request, errors);
        huge |= is_hugepages(name);
        basic |= matches!(name, "cpu" | "memory");
    }
    if huge && !basic {
        errors.push(resources.forbidden("HugePages require cpu or memory"));
    }
}

/// Validates limits. Returns two flags: they contain cpu or memory, and they contain huge pages.
///
/// upstream: pkg/apis/core/validation#validateResourceRequirements
fn validate_limits(
    limits: &Field<'_, '_>,
    check_name: fn(&str, &Field<'_, '_>, &mut Errors),
    errors: &mut Errors,
) -> (bool, bool) {
    let (mut basic, mut huge) = (false, false);
    for (name, limit) in limits.entries() {
        check_name(name, &limit, errors);
        validate_amount(name, &limit, errors);
        validate_pages(name, &limit, errors);
        huge |= is_hugepages(name);
        basic |= matches!(name, "cpu" | "memory");
    }
    (basic, huge)
}

/// upstream: pkg/apis/core/validation#validateResourceRequirements
fn validate_request(
    name: &str,
    request: &Field<'_, '_>,
    limits: &Field<'_, '_>,
    requests: &Field<'_, '_>,
    errors: &mut Errors,
) {
    let limit = limits.entry(name);
    let message = match (quantity(request), quantity(&limit)) {
        (Some(requested), Some(most)) if !may_overcommit(name) && requested != most => "equal to",
        (Some(requested), Some(most)) if requested > most => "less than or equal to",
        (Some(_), None) if !may_overcommit(name) => {
            errors.push(limits.required("Limit must be set for non overcommitable resources"));
            return;
        }
        _ => return,
    };
    let limit = limit.text();
    errors.push(requests.invalid_as(request.text(), format!("must be {message} {name} limit of {limit}")));
}

/// Validates that huge pages are requested in whole pages.
///
/// upstream: pkg/apis/core/validation#validateResourceQuantityHugePageValue
fn validate_pages(name: &str, amount: &Field<'_, '_>, errors: &mut Errors) {
    let Some(size) = name.strip_prefix("hugepages-") else {
        return;
    };
    let size = Quantity::parse(size)
        .ok()
        .filter(|size| size.is_positive() && size.is_whole());
    let whole = match (quantity(amount), size) {
        (Some(amount), Some(size)) => amount.units() % size.units() == 0,
        _ => false,
    };
    if !whole {
        let text = amount.text();
        errors.push(amount.invalid(format!("{text} is not positive integer multiple of {name}")));
    }
}

/// Validates the name of a pod-level resource.
///
/// upstream: pkg/apis/core/validation#validatePodResourceName
fn validate_pod_name(name: &str, field: &Field<'_, '_>, errors: &mut Errors) {
    let before = errors.len();
    validate_name(name, field, errors);
    if errors.len() == before && !is_of_pods(name) {
        errors.push(FieldError::not_supported(
            &field.path(),
            name,
            &["cpu", "hugepages-", "memory"],
        ));
    }
}

/// Returns true if the resource can be set at pod level.
pub(crate) fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_hugepages(name)
}

/// Validates pod-level resources, and that the containers stay within them.
///
/// upstream: pkg/apis/core/validation#validatePodResources
pub(crate) fn validate_pod_resources(spec: &Field<'_, '_>, names: &ClaimNames<'_>, errors: &mut Errors) {
    let resources = spec.child("resources");
    if !resources.is_set() {
        return;
    }
    let claims = resources.child("claims");
    if claims.is_set() {
        errors.push(claims.forbidden("claims may not be set for Resources at pod-level"));
    }
    validate_requirements(&resources, validate_pod_name, errors);
    names.validate(&claims, errors);
    let requests = resources.child("requests");
    for (name, sum) in of_containers(spec, "requests") {
        let of_pod = requests.entry(&name);
        // Resources that are not set at pod level are not compared.
        if quantity(&of_pod).is_some_and(|most| sum > most) {
            let sum = only_request(spec, &name).map_or_else(|| sum.to_string(), str::to_owned);
            errors.push(of_pod.invalid_as(
                of_pod.text(),
                format!("must be greater than or equal to aggregate container requests of {sum}"),
            ));
        }
    }
    validate_limits_within(spec, &resources, errors);
}

/// Returns the text of a request that only one container has: it is not a sum, so its format is kept.
fn only_request<'v>(spec: &Field<'v, '_>, name: &str) -> Option<&'v str> {
    let mut found = None;
    for list in ["containers", "initContainers"] {
        for container in spec.child(list).items() {
            let own = container.child("resources");
            let requests = own.child("requests");
            let text = requests.entry(name).text();
            if !text.is_empty() && found.replace(text).is_some() {
                return None;
            }
        }
    }
    found
}

/// upstream: pkg/apis/core/validation#validatePodResourceConsistency
fn validate_limits_within(spec: &Field<'_, '_>, resources: &Field<'_, '_>, errors: &mut Errors) {
    let limits = resources.child("limits");
    for (at, container) in spec.child("containers").items().enumerate() {
        let own = container.child("resources");
        for (name, limit) in own.child("limits").entries() {
            let most = limits.entry(name);
            if let (Some(amount), Some(of_pod)) = (quantity(&limit), quantity(&most))
                && amount > of_pod
            {
                let place = resources.path().child("containers").index(at).key(name).child("limits");
                let most = most.text();
                let message = format!("must be less than or equal to pod limits of {most}");
                errors.push(FieldError::invalid(&place, limit.text(), message));
            }
        }
    }
}

/// Validates the overhead of the sandbox of a Pod.
///
/// upstream: pkg/apis/core/validation#validateOverhead
pub(crate) fn validate_overhead(overhead: &Field<'_, '_>, errors: &mut Errors) {
    if !overhead.is_set() {
        return;
    }
    // The reference validates it like the limits of a container.
    let limits = overhead.shown_as("limits");
    let (basic, huge) = validate_limits(&limits, validate_container_name, errors);
    if huge && !basic {
        errors.push(overhead.forbidden("HugePages require cpu or memory"));
    }
}

/// Validates the divisor of a selected resource.
///
/// upstream: pkg/apis/core/validation#validateContainerResourceDivisor
pub(crate) fn validate_divisor(resource: &str, divisor: &Field<'_, '_>, errors: &mut Errors) {
    const OF_BYTES: [&str; 13] = [
        "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
    ];
    if quantity(divisor).is_none_or(|amount| amount.is_zero()) {
        return;
    }
    let Some(part) = resource.strip_prefix("limits.").or(resource.strip_prefix("requests.")) else {
        return;
    };
    let (supported, values, kind): (&[&str], _, _) = match part {
        "cpu" => (&["1", "1m"], "1m and 1", "cpu"),
        "memory" => (&OF_BYTES, BYTES, "memory"),
        "ephemeral-storage" => (&OF_BYTES, BYTES, "local ephemeral storage"),
        pages if pages.starts_with("hugepages-") => (&OF_BYTES, BYTES, "hugepages"),
        _ => return,
    };
    if !supported.contains(&divisor.text()) {
        // The reference prints the resource as the invalid value.
        let message = format!("only divisor's values {values} are supported with the {kind} resource");
        errors.push(divisor.invalid_as(resource, message));
    }
}

const BYTES: &str = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";

/// Adds a warning about a fractional number of bytes.
pub(crate) fn fractional_bytes(list: &Field<'_, '_>, name: &str, warnings: &mut Vec<String>) {
    let amount = list.entry(name);
    let Some(text) = Some(amount.text()).filter(|text| !text.is_empty()) else {
        return;
    };
    if is_fraction(text) {
        let place = amount.path();
        warnings.push(format!(
            "{place}: fractional byte value \"{text}\" is invalid, must be an integer"
        ));
    }
}

/// Adds the warnings about a claim specification.
///
/// upstream: pkg/api/persistentvolumeclaim#GetWarningsForPersistentVolumeClaimSpec
pub(crate) fn fractional_claim(spec: &Field<'_, '_>, warnings: &mut Vec<String>) {
    let resources = spec.child("resources");
    for list in ["requests", "limits"] {
        fractional_bytes(&resources.child(list), "storage", warnings);
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn claim_is_referenced_as_whole_or_once_per_request() {
        let errors = |claims: &str| {
            let pod = format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {{resourceClaims: [{{name: r, resourceClaimName: x}}], \
                 containers: [{{name: c, image: i, resources: {{claims: [{claims}]}}}}]}}}}"
            );
            Harness::new().errors(&pod)
        };
        let repeated = |shown: &str| {
            vec![format!(
                "spec.containers[0].resources.claims[1]: Duplicate value: {shown:?}"
            )]
        };
        assert_eq!(
            errors("{name: r, request: a}, {name: r, request: b}"),
            Vec::<String>::new()
        );
        assert_eq!(errors("{name: r, request: a}, {name: r, request: a}"), repeated("r/a"));
        assert_eq!(errors("{name: r, request: a}, {name: r}"), repeated("r"));
        assert_eq!(errors("{name: r}, {name: r, request: A_}"), repeated("r"));
    }
}
