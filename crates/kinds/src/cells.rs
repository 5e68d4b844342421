//! Table cells that several kinds share.

use std::time::SystemTime;

use holdfast_resource::table::items;
use holdfast_value::Value;

/// Returns the phase of an object, or `Terminating` if it is being deleted.
pub(crate) fn phase_or_terminating(object: &Value, _now: SystemTime) -> Value {
    match object.at(&["metadata", "deletionTimestamp"]) {
        Some(_) => "Terminating".into(),
        None => object.str_at(&["status", "phase"]).unwrap_or_default().into(),
    }
}

/// Returns the class of a volume or of a claim, from the older annotation or from the field.
pub(crate) fn storage_class(object: &Value, _now: SystemTime) -> Value {
    const BETA: [&str; 3] = ["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"];
    let class = object
        .str_at(&BETA)
        .or_else(|| object.str_at(&["spec", "storageClassName"]));
    class.unwrap_or_default().into()
}

/// Returns the access modes at `path` by their abbreviations.
pub(crate) fn access_modes(object: &Value, path: &[&str]) -> Value {
    const MODES: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let listed = items(object, path);
    let short = MODES
        .iter()
        .filter(|(mode, _)| listed.iter().any(|item| item.as_str() == Some(mode)));
    short.map(|(_, short)| *short).collect::<Vec<_>>().join(",").into()
}

/// Returns the name of a class, followed by `(default)` if it is the default.
///
/// upstream: pkg/printers/internalversion#printStorageClass
pub(crate) fn default_class(class: &Value, annotations: &[&str]) -> Value {
    let name = class.str_at(&["metadata", "name"]).unwrap_or_default();
    let is_default = |key: &&str| class.str_at(&["metadata", "annotations", key]) == Some("true");
    if annotations.iter().any(is_default) {
        format!("{name} (default)").into()
    } else {
        name.into()
    }
}

/// Returns the addresses of a load balancer.
pub(crate) fn ingress_addresses(object: &Value) -> Vec<String> {
    let points = items(object, &["status", "loadBalancer", "ingress"]);
    let address = |point: &Value| {
        let ip = point.str_at(&["ip"]).filter(|ip| !ip.is_empty());
        ip.or_else(|| point.str_at(&["hostname"])).map(str::to_owned)
    };
    let mut addresses: Vec<String> = points.iter().filter_map(address).collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

/// Number of texts in the result of [`first_of`].
const SHOWN: usize = 3;

/// Returns the first few of many texts, and the number of the others.
pub(crate) fn first_of(all: &[String]) -> String {
    let shown = all.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(",");
    match all.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}
