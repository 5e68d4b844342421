//! Validation of changes of the status of a Pod.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;

use holdfast_kind_tables::features::{Feature, Features};
use holdfast_resource::WriteContext;
use holdfast_resource::table::items;
use holdfast_schema::metadata::formats::{dns_label, dns_subdomain, qualified_name};
use holdfast_schema::{Check, Field, FieldError, NoRules, Part};
use holdfast_value::Value;

use crate::defaults::is_zero;
use crate::validation::addresses::{Reading, address_warning, lenient_address};
use crate::validation::{Errors, report};

const STATUSES: [&str; 3] = [
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
];

/// Keeps the `observedGeneration` of the status and of its conditions if a write omits it.
///
/// upstream: pkg/registry/core/pod#preserveOldObservedGeneration
pub(super) fn keep_observed_generations(object: &mut Value, old: &Value) {
    const FIELD: &str = "observedGeneration";
    let (Some(status), Some(before)) = (object.at_mut(&["status"]), old.get("status")) else {
        return;
    };
    if is_zero(status.get(FIELD))
        && let Some(generation) = before.get(FIELD)
    {
        status.set_at(&[FIELD], generation.clone());
    }
    let (now, before) = (items(status, &["conditions"]), items(before, &["conditions"]));
    let is_lost = now.iter().any(|condition| is_zero(condition.get(FIELD)))
        && before.iter().any(|condition| condition.get(FIELD).is_some());
    if !is_lost {
        return;
    }
    // Conditions may share a type: they are matched in order.
    let mut known: HashMap<&str, VecDeque<Option<&Value>>> = HashMap::new();
    for condition in before {
        known
            .entry(type_of(condition))
            .or_default()
            .push_back(condition.get(FIELD));
    }
    let list = status.at_mut(&["conditions"]).and_then(Value::as_list_mut);
    for condition in list.into_iter().flat_map(|list| list.make_mut()) {
        let generation = known
            .get_mut(type_of(condition))
            .and_then(VecDeque::pop_front)
            .flatten();
        if let Some(generation) = generation
            && is_zero(condition.get(FIELD))
        {
            condition.set_at(&[FIELD], generation.clone());
        }
    }
}

fn type_of(condition: &Value) -> &str {
    condition.str_at(&["type"]).unwrap_or_default()
}

/// Validates an update of the status of a Pod.
///
/// upstream: pkg/apis/core/validation#ValidatePodStatusUpdate
pub(super) fn validate_status_update(
    context: &WriteContext<'_>,
    features: Features,
    object: &Value,
    old: &Value,
) -> Errors {
    let mut check = context.new_check();
    let (Some(new), Some(old)) = (check.root(object), check.root(old)) else {
        return check.errors;
    };
    let (Some(status), Some(old_status)) = (check.child(&new, "status"), check.child(&old, "status")) else {
        return check.errors;
    };
    let errors = &mut check.errors;
    let (spec, old_spec) = (new.child("spec"), old.child("spec"));
    validate_conditions(&status, errors);
    if spec.child("nodeName").text() != old_spec.child("nodeName").text() {
        let shown = status.child("nodeName");
        errors.push(shown.forbidden("may not be changed directly"));
    }
    let bound =
        features.has(Feature::ClearingNominatedNodeNameAfterBinding) && !spec.child("nodeName").text().is_empty();
    validate_nomination(&status, &old_status, bound, errors);
    check.changes(&status, &old_status, &NoRules);
    let errors = &mut check.errors;
    let policy = old_spec.child("restartPolicy").text();
    for (list, policy) in STATUSES.into_iter().zip([policy, policy, "Never"]) {
        let containers = old_spec.child(match list {
            "containerStatuses" => "containers",
            "initContainerStatuses" => "initContainers",
            _ => "ephemeralContainers",
        });
        validate_restarts(
            &status.child(list),
            &old_status.child(list),
            policy,
            &containers,
            errors,
        );
    }
    validate_claim_statuses(
        &status.child("resourceClaimStatuses"),
        &spec.child("resourceClaims"),
        errors,
    );
    validate_extended_claim(&status, &spec, &mut check);
    let errors = &mut check.errors;
    let reading = Reading::for_features(features);
    validate_pod_ips(&status.child("podIPs"), &old_status.child("podIPs"), reading, errors);
    validate_host_ips(&status, &old_status, reading, errors);
    for list in STATUSES {
        validate_users(&status, list, &spec.child("os"), &mut check);
    }
    let errors = &mut check.errors;
    validate_devices(&status.child("containerStatuses"), &spec.child("containers"), errors);
    validate_devices(
        &status.child("initContainerStatuses"),
        &spec.child("initContainers"),
        errors,
    );
    for one in status.child("ephemeralContainerStatuses").items() {
        let devices = one.child("allocatedResourcesStatus");
        if !devices.is_empty() {
            errors.push(devices.forbidden("must not be specified in container status"));
        }
    }
    check.errors
}

/// Returns warnings about addresses in a status.
///
/// upstream: pkg/registry/core/pod#podStatusStrategy.WarningsOnUpdate
pub(super) fn status_warnings(pod: &Field<'_, '_>, old: &Field<'_, '_>) -> Vec<String> {
    let (status, old) = (pod.child("status"), old.child("status"));
    let mut warnings = Vec::new();
    for list in ["podIPs", "hostIPs"] {
        let (now, before) = (status.child(list), old.child(list));
        if now.value() == before.value() {
            continue;
        }
        for one in now.items() {
            warnings.extend(address_warning(&one.child("ip")));
        }
    }
    warnings
}

/// Validates the conditions of a Pod.
///
/// upstream: pkg/apis/core/validation#validatePodConditions
fn validate_conditions(status: &Field<'_, '_>, errors: &mut Errors) {
    for condition in status.child("conditions").items() {
        not_negative_generation(&condition, errors);
        let type_name = condition.child("type").text();
        if matches!(type_name, "PodScheduled" | "Ready" | "Initialized") {
            continue;
        }
        let shown = condition.child("Type");
        let details = qualified_name(type_name);
        errors.extend(details.into_iter().map(|detail| shown.invalid_as(type_name, detail)));
    }
    not_negative_generation(status, errors);
}

fn not_negative_generation(parent: &Field<'_, '_>, errors: &mut Errors) {
    let generation = parent.child("observedGeneration");
    if generation.number().is_some_and(|generation| generation < 0) {
        errors.push(generation.invalid("must be a non-negative integer"));
    }
}

/// upstream: pkg/apis/core/validation#ValidatePodStatusUpdate
fn validate_nomination(status: &Field<'_, '_>, old: &Field<'_, '_>, bound: bool, errors: &mut Errors) {
    let (nominated, before) = (status.child("nominatedNodeName"), old.child("nominatedNodeName"));
    if nominated.text() == before.text() || nominated.text().is_empty() {
        return;
    }
    report(&nominated, dns_subdomain(nominated.text()), errors);
    if bound {
        errors.push(nominated.forbidden("may not be set on pods that are already bound to a node"));
    }
}

/// Validates that a terminated container only runs again if its restart rules, its policy or the Pod's policy restart
/// it.
///
/// upstream: pkg/apis/core/validation#ValidateContainerStateTransition
fn validate_restarts(
    new: &Field<'_, '_>,
    old: &Field<'_, '_>,
    policy: &str,
    containers: &Field<'_, '_>,
    errors: &mut Errors,
) {
    let runs: HashSet<&str> = new
        .slice()
        .iter()
        .filter(|status| status.at(&["state", "terminated"]).is_none_or(Value::is_null))
        .map(|status| status.str_at(&["name"]).unwrap_or_default())
        .collect();
    for before in old.items() {
        let state = before.child("state");
        let ended = state.child("terminated");
        let name = before.child("name").text();
        if !ended.is_set() || !runs.contains(name) {
            continue;
        }
        let code = ended.child("exitCode").number().unwrap_or_default();
        let container = containers
            .slice()
            .iter()
            .find(|container| container.str_at(&["name"]) == Some(name));
        if !is_restarted(container, policy, code) {
            // The path has the index in the old list, under the name of the new list.
            errors.push(state.forbidden("may not be transitioned to non-terminated state"));
        }
    }
}

/// Returns true if a container that exited with `code` is restarted: by its rules, its own policy, or its Pod's policy.
fn is_restarted(container: Option<&Value>, of_pod: &str, code: i64) -> bool {
    let container = Field::placed(container, "");
    for rule in container.child("restartPolicyRules").items() {
        let codes = rule.child("exitCodes");
        let listed = codes
            .child("values")
            .slice()
            .iter()
            .any(|value| value.as_i64() == Some(code));
        if listed == (codes.child("operator").text() == "In") {
            return true;
        }
    }
    let own = container.child("restartPolicy");
    match if own.is_set() { own.text() } else { of_pod } {
        "Always" => true,
        "OnFailure" => code != 0,
        _ => false,
    }
}

/// Validates the statuses of the resource claims of a Pod.
///
/// upstream: pkg/apis/core/validation#validatePodResourceClaimStatuses
fn validate_claim_statuses(statuses: &Field<'_, '_>, claims: &Field<'_, '_>, errors: &mut Errors) {
    let known: HashSet<&str> = claims
        .slice()
        .iter()
        .filter_map(|claim| claim.str_at(&["name"]))
        .collect();
    let mut seen = HashSet::new();
    for status in statuses.items() {
        let name = status.child("name");
        if !known.contains(name.text()) {
            errors.push(name.invalid_text("must match the name of an entry in `spec.resourceClaims`"));
        }
        if !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
        let claim = status.child("resourceClaimName");
        if claim.is_set() {
            report(&claim, dns_subdomain(claim.text()), errors);
        }
    }
}

/// Validates the status of the claim for extended resources of a Pod.
///
/// upstream: pkg/apis/core/validation#validatePodExtendedResourceClaimStatus
fn validate_extended_claim(pod: &Part<'_, '_>, spec: &Field<'_, '_>, check: &mut Check<'_>) {
    let status = check.child(pod, "extendedResourceClaimStatus");
    let Some(status) = status.filter(|status| status.is_set()) else {
        return;
    };
    let errors = &mut check.errors;
    let mut containers = HashSet::new();
    for list in ["initContainers", "containers"] {
        let list = spec.child(list);
        containers.extend(list.slice().iter().filter_map(|container| container.str_at(&["name"])));
    }
    let mappings = status.child("requestMappings");
    if mappings.is_empty() {
        errors.push(mappings.required("at least one request mapping is required"));
    }
    let (mut names, mut resources, mut requests) = (HashSet::new(), HashSet::new(), HashSet::new());
    for mapping in mappings.items() {
        let (name, resource, request) = (
            mapping.child("containerName"),
            mapping.child("resourceName"),
            mapping.child("requestName"),
        );
        if !containers.contains(name.text()) {
            errors.push(
                name.invalid_text(
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name",
                ),
            );
        }
        for (field, seen) in [(name, &mut names), (resource, &mut resources), (request, &mut requests)] {
            if !seen.insert(field.text()) {
                errors.push(field.duplicate());
            }
        }
        // The reference omits the mapping from this path.
        let shown = status.child("requestName");
        let details = dns_label(request.text());
        errors.extend(
            details
                .into_iter()
                .map(|detail| shown.invalid_as(request.text(), detail)),
        );
    }
    check.field(&status, "resourceClaimName", &NoRules);
}

const ONE_OF_EACH: &str = "may specify no more than one IP for each IP family";

/// Validates the addresses of a Pod.
///
/// upstream: pkg/apis/core/validation#validatePodIPs
fn validate_pod_ips(addresses: &Field<'_, '_>, old: &Field<'_, '_>, reading: Reading, errors: &mut Errors) {
    validate_each(addresses, old, reading, errors);
    if addresses.len() < 2 {
        return;
    }
    validate_families(addresses, errors);
}

/// Reports invalid addresses that the old list does not contain.
///
/// upstream: pkg/apis/core/validation#validatePodIPs
fn validate_each(addresses: &Field<'_, '_>, old: &Field<'_, '_>, reading: Reading, errors: &mut Errors) {
    for one in addresses.items() {
        let path = one.path();
        let shown = shown_at_item(&one, path.as_str());
        if !old.items().any(|before| before.child("ip").text() == shown.text()) {
            reading.address(&shown, errors);
        }
    }
}

/// Returns the address of an item, reported at the path of the item itself.
fn shown_at_item<'v, 'p>(item: &Field<'v, '_>, place: &'p str) -> Field<'v, 'p> {
    Field::placed(item.child("ip").value(), place)
}

/// Validates that there is at most one IPv4 and one IPv6 address.
///
/// upstream: pkg/apis/core/validation#validatePodIPs
fn validate_families(addresses: &Field<'_, '_>, errors: &mut Errors) {
    let mut families = HashSet::new();
    let mut unreadable = false;
    for (at, one) in addresses.items().enumerate() {
        let text = one.child("ip").text();
        // An IPv4-mapped IPv6 address counts as IPv4.
        match lenient_address(text).map(|address| address.to_canonical()) {
            Some(IpAddr::V4(_)) => drop(families.insert("IPv4")),
            Some(IpAddr::V6(_)) => drop(families.insert("IPv6")),
            None => {
                unreadable = true;
                errors.push(FieldError::internal(
                    &addresses.path(),
                    format!("failed to check for dual stack with error:invalid IP[{at}]: {text}"),
                ));
                break;
            }
        }
    }
    if unreadable || families.len() < 2 || addresses.len() > 2 {
        // The reference prints its own structs here.
        let shown = addresses.items().map(|one| {
            let mut shown = Value::empty_map();
            shown.set_at(&["IP"], one.child("ip").text().into());
            shown
        });
        let shown: Vec<Value> = shown.collect();
        errors.push(addresses.invalid_as(Value::from(shown), ONE_OF_EACH));
    }
}

/// Validates the host addresses of a Pod.
///
/// upstream: pkg/apis/core/validation#validateHostIPs
fn validate_host_ips(status: &Field<'_, '_>, old: &Field<'_, '_>, reading: Reading, errors: &mut Errors) {
    let addresses = status.child("hostIPs");
    let Some(first) = addresses.items().next() else {
        return;
    };
    let first = first.child("ip");
    if status.child("hostIP").text() != first.text() {
        errors.push(first.invalid_text("must be equal to `hostIP`"));
    }
    validate_each(&addresses, &old.child("hostIPs"), reading, errors);
    if addresses.len() > 1 {
        validate_families(&addresses, errors);
    }
}

/// Validates the users in the statuses of containers.
///
/// upstream: pkg/apis/core/validation#validateContainerStatusUsers
fn validate_users(pod: &Part<'_, '_>, list: &str, os: &Field<'_, '_>, check: &mut Check<'_>) {
    let windows = os.child("name").text() == "windows";
    let statuses = pod.child(list);
    for status in check.items(pod, list, &statuses) {
        let Some(user) = check.child(&status, "user") else {
            return;
        };
        let linux = user.child("linux");
        if windows && linux.is_set() {
            check.errors.push(linux.forbidden("cannot be set for a windows pod"));
        } else {
            check.field(&user, "linux", &NoRules);
        }
    }
}

const MESSAGE: usize = 1024;

/// Validates the statuses of the allocated resources of containers.
///
/// upstream: pkg/apis/core/validation#validateContainerStatusAllocatedResourcesStatus
fn validate_devices(statuses: &Field<'_, '_>, containers: &Field<'_, '_>, errors: &mut Errors) {
    for status in statuses.items() {
        let name = status.child("name").text();
        let named = |one: &&Value| one.str_at(&["name"]) == Some(name);
        let Some(container) = containers.slice().iter().find(named).map(Field::root) else {
            continue;
        };
        for device in status.child("allocatedResourcesStatus").items() {
            let name = device.child("name");
            match name.text().strip_prefix("claim:") {
                Some(claim) if !claims(&container, claim) => {
                    errors.push(name.invalid(
                        "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or \
                         'claim:<claimName>' if request is empty",
                    ));
                }
                None if !requests(&container, name.text()) => {
                    errors.push(name.invalid_text("must match one of the container's resource requests"));
                }
                _ => {}
            }
            validate_health(&device.child("resources"), errors);
        }
    }
}

fn requests(container: &Field<'_, '_>, name: &str) -> bool {
    let resources = container.child("resources");
    resources.child("requests").entry(name).is_set()
}

fn claims(container: &Field<'_, '_>, claim: &str) -> bool {
    let resources = container.child("resources");
    let claims = resources.child("claims");
    claims.slice().iter().any(|one| {
        let (name, request) = (one.str_at(&["name"]), one.str_at(&["request"]).unwrap_or_default());
        let name = name.unwrap_or_default();
        match request {
            "" => claim == name,
            request => claim.split_once('/') == Some((name, request)),
        }
    })
}

/// upstream: pkg/apis/core/validation#validateContainerStatusAllocatedResourcesStatus
fn validate_health(resources: &Field<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for resource in resources.items() {
        let (health, message, id) = (
            resource.child("health"),
            resource.child("message"),
            resource.child("resourceID"),
        );
        if !matches!(health.text(), "Healthy" | "Unhealthy" | "Unknown") {
            errors.push(health.not_supported(&["Healthy", "Unhealthy", "Unknown"]));
        }
        if message.is_set() && message.text().is_empty() {
            errors.push(message.required("must be non-empty if specified"));
        }
        if message.text().len() > MESSAGE {
            errors.push(message.too_long(MESSAGE));
        }
        if !seen.insert(id.text()) {
            errors.push(id.duplicate());
        }
    }
}
