//! Address families of a Service, and the addresses that belong to them.
//!
//! The reference validates these first: a Service with an error here is rejected without any further checks.

use std::collections::HashSet;
use std::net::IpAddr;

use holdfast_schema::{Field, FieldError};
use holdfast_value::Value;

use super::{is_external, is_headless, texts_at};
use crate::defaults::is_zero;
use crate::validation::addresses::{Reading, lenient_address};
use crate::validation::{Errors, same, set_one_of};

const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const DUAL: &str = "must be 'RequireDualStack' or 'PreferDualStack' when multiple";

/// Validates that addresses, families and policy are consistent.
///
/// upstream: pkg/apis/core/validation#ValidateServiceClusterIPsRelatedFields
pub(super) fn validate_addresses(spec: &Field<'_, '_>, old: &Field<'_, '_>, reading: Reading, errors: &mut Errors) {
    if spec.child("type").text() == "ExternalName" {
        return;
    }
    let (ip, ips, families) = (
        spec.child("clusterIP"),
        spec.child("clusterIPs"),
        spec.child("ipFamilies"),
    );
    validate_first(&ip, &ips, errors);
    let mut seen = HashSet::new();
    for family in families.items() {
        if !FAMILIES.contains(&family.text()) {
            errors.push(family.not_supported(&FAMILIES));
        }
        if !seen.insert(family.text()) {
            errors.push(family.duplicate());
        }
    }
    set_one_of(&spec.child("ipFamilyPolicy"), &POLICIES, errors);
    let valid = validate_forms(&ips, &old.child("clusterIPs"), reading, errors);
    if ips.len() > 2 {
        errors.push(ips.invalid("may only hold up to 2 values"));
    }
    if valid {
        validate_kinds(&ips, &families, errors);
    }
}

/// Validates that the list of addresses begins with the single one, the only one that older clients know.
///
/// upstream: pkg/apis/core/validation#ValidateServiceClusterIPsRelatedFields
fn validate_first(ip: &Field<'_, '_>, ips: &Field<'_, '_>, errors: &mut Errors) {
    match (ip.text(), ips.slice().first()) {
        ("", None) => {}
        ("", Some(_)) => errors.push(ips.invalid("must be empty when `clusterIP` is not specified")),
        (_, None) => errors.push(ips.required("")),
        (ip, Some(first)) if first.as_str() != Some(ip) => {
            errors.push(ips.invalid("first value must match `clusterIP`"));
        }
        _ => {}
    }
}

/// Reports invalid addresses. Returns true if all are valid, or there is none on purpose.
///
/// upstream: pkg/apis/core/validation#ValidateServiceClusterIPsRelatedFields
fn validate_forms(ips: &Field<'_, '_>, old: &Field<'_, '_>, reading: Reading, errors: &mut Errors) -> bool {
    let before = errors.len();
    for (at, one) in ips.items().enumerate() {
        if at > 0 || one.text() != "None" {
            reading.kept_or_address(&one, old, errors);
        } else if ips.len() > 1 {
            errors.push(ips.invalid("'None' must be the first and only value"));
        }
    }
    errors.len() == before
}

/// Reports two addresses of one family, and addresses whose family is not the one that the Service lists for them.
///
/// upstream: pkg/apis/core/validation#ValidateServiceClusterIPsRelatedFields
fn validate_kinds(ips: &Field<'_, '_>, families: &Field<'_, '_>, errors: &mut Errors) {
    if ips.slice().first().and_then(Value::as_str) == Some("None") {
        return;
    }
    let of_ips: HashSet<&str> = ips.items().map(|ip| family_of(ip.text())).collect();
    if ips.len() > 1 && of_ips.len() < 2 {
        errors.push(ips.invalid("may specify no more than one IP for each IP family"));
    }
    for (at, (ip, family)) in ips.items().zip(families.items()).enumerate() {
        if FAMILIES.contains(&family.text()) && family.text() != family_of(ip.text()) {
            let article = format!("expected an {} value as indicated by `ipFamilies[{at}]`", family.text());
            errors.push(ip.invalid(article));
        }
    }
}

fn family_of(ip: &str) -> &'static str {
    match lenient_address(ip) {
        Some(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_none() => "IPv6",
        _ => "IPv4",
    }
}

/// Sets the families and the policy of a Service that omits them. `served` are the families of the cluster, the default
/// one first.
///
/// upstream: pkg/registry/core/service/storage#Allocators.initIPFamilyFields
///
/// # Errors
/// If the Service cannot have addresses, with the reasons.
pub(super) fn complete(
    object: &mut Value,
    old: Option<&Value>,
    served: &[&'static str],
    reading: Reading,
) -> Result<(), Errors> {
    if is_external(object) || old.is_some_and(|old| keeps_preferring(object, old)) {
        return Ok(());
    }
    if policy(object).is_none() {
        let inferred = default_policy(object, old).to_owned();
        object.set_at(&["spec", "ipFamilyPolicy"], inferred.into());
    }
    let mut errors = Errors::new();
    let old_spec = Field::placed(old.and_then(|old| old.get("spec")), "spec");
    validate_addresses(&Field::root(object).child("spec"), &old_spec, reading, &mut errors);
    refuse(std::mem::take(&mut errors))?;
    if let Some(old) = old {
        fit_to_policy(object, old, &mut errors);
    }
    validate_single(&Field::root(object).child("spec"), &mut errors);
    let mut families = texts_at(object, "ipFamilies");
    infer(&Field::root(object).child("spec"), served, &mut families, &mut errors);
    refuse(std::mem::take(&mut errors))?;
    if is_headless(object) && is_zero(object.at(&["spec", "selector"])) {
        any_families(object, served, &mut families);
    } else {
        validate_served(&Field::root(object).child("spec"), served, &families, &mut errors);
        refuse(errors)?;
        if families.is_empty() {
            families.extend(served.first().map(|&family| family.to_owned()));
        }
        let is_dual_stack = served.len() == 2 && policy(object) != Some("SingleStack");
        if let [only] = &families[..]
            && is_dual_stack
        {
            families.push(other_family(only).to_owned());
        }
    }
    let families: Vec<Value> = families.into_iter().map(Value::from).collect();
    object.set_at(&["spec", "ipFamilies"], families.into());
    Ok(())
}

/// Sets the families of a Service that was stored before the field existed to those of its addresses.
pub(super) fn infer_for_old(object: &mut Value) {
    if is_external(object) || policy(object).is_some() || !is_zero(object.at(&["spec", "ipFamilies"])) {
        return;
    }
    let families: Vec<Value> = if is_headless(object) {
        match is_zero(object.at(&["spec", "selector"])) {
            true => vec!["IPv4".into(), "IPv6".into()],
            false => vec!["IPv4".into()],
        }
    } else {
        let addresses = texts_at(object, "clusterIPs");
        let family = |address: &String| if address.contains(':') { "IPv6" } else { "IPv4" };
        addresses.iter().map(|address| family(address).into()).collect()
    };
    let policy = match families.len() {
        0 => return,
        1 => "SingleStack",
        _ => "RequireDualStack",
    };
    object.set_at(&["spec", "ipFamilies"], families.into());
    object.set_at(&["spec", "ipFamilyPolicy"], policy.into());
}

fn refuse(errors: Errors) -> Result<(), Errors> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn policy(object: &Value) -> Option<&str> {
    object.str_at(&["spec", "ipFamilyPolicy"])
}

fn unchanged(object: &Value, old: &Value, part: &str) -> bool {
    same(object.at(&["spec", part]), old.at(&["spec", part]))
}

/// Returns true if a PreferDualStack Service is unchanged: it does not gain or lose a family because the cluster did.
pub(super) fn keeps_preferring(object: &Value, old: &Value) -> bool {
    policy(object) == Some("PreferDualStack")
        && ["ipFamilyPolicy", "type", "clusterIPs", "ipFamilies"]
            .iter()
            .all(|part| unchanged(object, old, part))
}

/// upstream: pkg/registry/core/service/storage#Allocators.initIPFamilyFields
fn default_policy<'v>(object: &Value, old: Option<&'v Value>) -> &'v str {
    match old.and_then(policy) {
        Some(before) => before,
        // The endpoint addresses of a headless Service without a selector are unknown.
        None if is_headless(object) && is_zero(object.at(&["spec", "selector"])) => "RequireDualStack",
        None => "SingleStack",
    }
}

/// Releases the secondary address and family when the policy changes to one family, and rejects any other release.
///
/// upstream: pkg/registry/core/service/storage#Allocators.initIPFamilyFields
#[expect(clippy::indexing_slicing, reason = "looked at where it is not empty alone")]
fn fit_to_policy(object: &mut Value, old: &Value, errors: &mut Errors) {
    let single = policy(object) == Some("SingleStack");
    for (part, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let (now, before) = (texts_at(object, part), texts_at(old, part));
        if single && now.len() > 1 && now == before {
            object.set_at(&["spec", part], vec![Value::from(now[0].as_str())].into());
        } else if !single && !now.is_empty() && now.len() < before.len() {
            let root = Field::root(object);
            let spec = root.child("spec");
            let why = format!("must be 'SingleStack' to release the secondary {what}");
            errors.push(spec.child("ipFamilyPolicy").invalid(why));
        }
    }
}

/// upstream: pkg/registry/core/service/storage#Allocators.initIPFamilyFields
fn validate_single(spec: &Field<'_, '_>, errors: &mut Errors) {
    let policy = spec.child("ipFamilyPolicy");
    if policy.text() != "SingleStack" {
        return;
    }
    for (part, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if spec.child(part).len() == 2 {
            errors.push(policy.invalid(format!("{DUAL} {what} are specified")));
        }
    }
}

/// Adds the families of addresses for which the Service lists none.
///
/// upstream: pkg/registry/core/service/storage#Allocators.initIPFamilyFields
fn infer(spec: &Field<'_, '_>, served: &[&str], families: &mut Vec<String>, errors: &mut Errors) {
    let ips = spec.child("clusterIPs");
    for (at, ip) in ips.items().enumerate().take_while(|(_, ip)| ip.text() != "None") {
        let family = family_of(ip.text());
        if at < families.len() {
            continue;
        }
        if served.contains(&family) {
            families.push(family.to_owned());
        } else {
            let shown = ips.value().cloned().unwrap_or_default();
            errors.push(FieldError::invalid(
                &ip.path(),
                shown,
                format!("{family} is not configured on this cluster"),
            ));
        }
    }
}

/// Completes the families of a headless Service without a selector, which may have families that the cluster lacks.
fn any_families(object: &Value, served: &[&str], families: &mut Vec<String>) {
    if families.is_empty() {
        families.extend(served.first().map(|&family| family.to_owned()));
    }
    if let [only] = &families[..]
        && policy(object) != Some("SingleStack")
    {
        families.push(other_family(only).to_owned());
    }
}

fn other_family(family: &str) -> &'static str {
    if family == "IPv4" { "IPv6" } else { "IPv4" }
}

/// upstream: pkg/registry/core/service/storage#Allocators.initIPFamilyFields
fn validate_served(spec: &Field<'_, '_>, served: &[&str], families: &[String], errors: &mut Errors) {
    let policy = spec.child("ipFamilyPolicy");
    if policy.text() == "RequireDualStack" && served.len() < 2 {
        errors.push(policy.invalid("this cluster is not configured for dual-stack services"));
    }
    let place = spec.path().child("ipFamilies");
    for (at, family) in families.iter().enumerate() {
        if served.contains(&family.as_str()) {
            continue;
        }
        errors.push(FieldError::invalid(
            &place.index(at),
            family.as_str(),
            "not configured on this cluster",
        ));
    }
}

/// Reports changes of assigned addresses.
///
/// upstream: pkg/apis/core/validation#validateUpgradeDowngradeClusterIPs
#[expect(clippy::indexing_slicing, reason = "looked at where it is not empty alone")]
pub(super) fn validate_kept_addresses(object: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let headless = |spec: &Field<'_, '_>| is_none(spec.child("clusterIPs").slice());
    if headless(object) && headless(old) {
        return;
    }
    let (ips, before) = (object.child("clusterIPs"), old.child("clusterIPs"));
    let changed = |at: usize| {
        let shown = ips.value().cloned().unwrap_or_default();
        FieldError::invalid(&ips.path().index(at), shown, "may not change once set")
    };
    let (now, was) = (ips.slice(), before.slice());
    if now.len() == was.len() {
        let differing = now.iter().zip(was).enumerate().filter(|(_, (now, was))| now != was);
        errors.extend(differing.map(|(at, _)| changed(at)));
        return;
    }
    if now.is_empty() {
        let shown = ips.value().cloned().unwrap_or_default();
        errors.push(FieldError::invalid(
            &ips.path().index(0),
            shown,
            "primary clusterIP can not be unset",
        ));
    } else if !was.is_empty() && now[0] != was[0] {
        errors.push(changed(0));
    }
    if was.len() > now.len() && now.len() == 1 {
        validate_release(object, "clusterIP", errors);
    }
}

/// Reports changes of assigned families.
///
/// upstream: pkg/apis/core/validation#validateUpgradeDowngradeIPFamilies
#[expect(clippy::indexing_slicing, reason = "looked at where it is not empty alone")]
pub(super) fn validate_kept_families(object: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let headless = |spec: &Field<'_, '_>| is_none(spec.child("clusterIPs").slice());
    if headless(object) || headless(old) {
        return;
    }
    let (families, before) = (object.child("ipFamilies"), old.child("ipFamilies"));
    let (now, was) = (families.slice(), before.slice());
    let place = families.path().index(0);
    let shown = |list: &Field<'_, '_>| list.value().cloned().unwrap_or_default();
    if now.len() == was.len() {
        let differing = now.iter().zip(was).filter(|(now, was)| now != was);
        errors.extend(differing.map(|_| FieldError::invalid(&place, shown(&families), "may not change once set")));
        return;
    }
    let ips = object.child("clusterIPs");
    if was.len() > now.len() && ips.is_empty() {
        let why = "primary ipFamily can not be unset";
        errors.push(FieldError::invalid(&place, shown(&families), why));
    }
    if !now.is_empty() && !was.is_empty() && now[0] != was[0] {
        // The reference prints the addresses here.
        errors.push(FieldError::invalid(&place, shown(&ips), "may not change once set"));
    }
    if was.len() > now.len() && now.len() == 1 {
        validate_release(object, "ipFamily", errors);
    }
}

/// upstream: pkg/apis/core/validation#validateUpgradeDowngradeClusterIPs
/// upstream: pkg/apis/core/validation#validateUpgradeDowngradeIPFamilies
fn validate_release(spec: &Field<'_, '_>, what: &str, errors: &mut Errors) {
    let policy = spec.child("ipFamilyPolicy");
    if policy.text() != "SingleStack" {
        let why = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        errors.push(policy.invalid(why));
    }
}

fn is_none(ips: &[Value]) -> bool {
    matches!(ips, [only] if only.as_str() == Some("None"))
}
