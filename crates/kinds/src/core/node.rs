//! Nodes: <https://kubernetes.io/docs/concepts/architecture/nodes/>.

use std::collections::HashSet;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, in_order};
use holdfast_resource::table::{NamedCell, condition, items, scalar_text};
use holdfast_resource::{ConnectParameter, Connecter, Connection, ExchangeKind, Rejection, Strategy, WriteContext};
use holdfast_schema::metadata::formats::{label_value, qualified_name};
use holdfast_schema::{Field, FieldError, FieldPath, UpdateOrder};
use holdfast_value::Value;

use super::kubelet::{Kubelets, ProxyTarget, proxied_path};
use crate::config::Config;
use crate::defaults::{is_zero, set_missing_at};
use crate::kind::kind;
use crate::pod_spec::validate_taint_effect;
use crate::validation::addresses::{Reading, block_warning, lenient_block};
use crate::validation::resources::validate_amount;
use crate::validation::{Errors, read_json, repeated, same};

/// Rules of Nodes only.
pub(crate) struct Node {
    /// Strictness of parsing of Pod CIDRs.
    pub(crate) reading: Reading,
}

/// Proxy to a node.
struct Proxy(Kubelets);

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(Node {
        reading: Reading::for_features(config.features),
    })
    .connects("proxy", Proxy(Kubelets::new(config)))
    .cells(CELLS)
    .ends_tokens("node", "node")
    .keeps_reset_fields_at_creation()
    .metadata_checks(in_order(UpdateOrder::ObjectFirst, COMMON_CHECKS))
    .done()
}

impl Connecter for Proxy {
    fn parameters(&self) -> &'static [ConnectParameter] {
        const { &super::proxy_parameters("The path to ask the node for.") }
    }

    fn connect(&self, context: &WriteContext<'_>, options: &Value) -> Connection {
        self.destination(context, options).unwrap_or_else(Connection::Refused)
    }
}

impl Proxy {
    /// Returns the destination of a request: the kubelet, unless another port is requested.
    ///
    /// upstream: pkg/registry/core/node#ResourceLocation
    fn destination(&self, context: &WriteContext<'_>, options: &Value) -> Result<Connection, Rejection> {
        let target = ProxyTarget::parse(context.name, "node")?;
        let found = context.lookup.get(&super::of_core("nodes"), "", target.name);
        let node = found.ok_or_else(|| Rejection::NotFound {
            resource: super::of_core("nodes"),
            name: target.name.to_owned(),
        })?;
        let kubelet = self.0.find(&node)?;
        if target.port.is_empty() || target.port == kubelet.port.to_string() {
            let exchange = ExchangeKind::Proxy { checks_addresses: true };
            return Ok(kubelet.destination(proxied_path(options), Vec::new(), exchange));
        }
        target.destination(kubelet.host, target.port, options, true)
    }
}

impl Strategy for Node {
    /// upstream: pkg/apis/core/v1#SetDefaults_NodeStatus
    fn default_fields(&self, _version: &str, object: &mut Value) {
        if let Some(capacity) = object
            .at(&["status", "capacity"])
            .filter(|capacity| !is_zero(Some(capacity)))
        {
            let capacity = capacity.clone();
            set_missing_at(object, &["status"], "allocatable", || capacity);
        }
        // The older field mirrors the first item of the newer list.
        let one = object
            .at(&["spec", "podCIDR"])
            .filter(|one| !is_zero(Some(one)))
            .cloned();
        let list = object.at(&["spec", "podCIDRs"]).and_then(Value::as_list);
        match (one, list.and_then(|list| list.first()).cloned()) {
            // If the two differ, the older field wins.
            (Some(one), first) if first.as_ref() != Some(&one) => {
                object.set_at(&["spec", "podCIDRs"], vec![one].into())
            }
            (None, Some(first)) => object.set_at(&["spec", "podCIDR"], first),
            _ => {}
        }
    }

    /// upstream: pkg/registry/core/node#nodeStrategy.PrepareForCreate
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        for field in CONFIGURATION {
            object.remove_at(&field);
        }
        Ok(())
    }

    /// upstream: pkg/registry/core/node#nodeStrategy.PrepareForUpdate
    fn prepare_for_update(
        &self,
        _context: &WriteContext<'_>,
        object: &mut Value,
        old: &Value,
    ) -> Result<(), Rejection> {
        for field in CONFIGURATION {
            if old.at(&field).is_none() {
                object.remove_at(&field);
            }
        }
        Ok(())
    }

    /// upstream: pkg/registry/core/node#nodeStrategy.Validate
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validate_node(&Field::root(object), self.reading, &mut errors);
        errors
    }

    /// upstream: pkg/registry/core/node#nodeStrategy.ValidateUpdate
    /// upstream: pkg/registry/core/node#nodeStatusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        let (root, old_root) = (Field::root(object), Field::root(old));
        if context.subresource.is_none() {
            validate_node(&root, self.reading, &mut errors);
        }
        errors.extend(context.rest_of_metadata(object, old));
        validate_node_update(&root, &old_root, &mut errors);
        errors
    }

    /// Returns the warnings about a node.
    ///
    /// upstream: pkg/registry/core/node#nodeStrategy.WarningsOnCreate
    /// upstream: pkg/registry/core/node#nodeStrategy.WarningsOnUpdate
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if context.subresource.is_some() {
            return warnings;
        }
        let root = Field::root(object);
        let spec = root.child("spec");
        if spec.child("configSource").is_set() {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !spec.child("externalID").text().is_empty() {
            warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
        }
        let blocks = spec.child("podCIDRs");
        warnings.extend(blocks.items().filter_map(|block| block_warning(&block)));
        warnings
    }
}

/// Fields that configured kubelets in earlier releases. They are dropped unless the existing object has them.
const CONFIGURATION: [[&str; 2]; 2] = [["spec", "configSource"], ["status", "config"]];

const TAINTS: &str = "scheduler.alpha.kubernetes.io/taints";
const AVOIDS: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";

/// Validates a node.
///
/// upstream: pkg/apis/core/validation#ValidateNode
fn validate_node(node: &Field<'_, '_>, reading: Reading, errors: &mut Errors) {
    validate_annotations(node, errors);
    validate_own_taints(node, errors);
    validate_resources(node, errors);
    let status = node.child("status");
    let capacity = node
        .value()
        .and_then(|node| node.at(&["status", "nodeInfo", "swap", "capacity"]));
    let swap = Field::placed(capacity, "metadata.nodeSwapStatus.capacity");
    if swap.number().is_some_and(|capacity| capacity <= 0) {
        errors.push(swap.invalid("must be greater than zero"));
    }
    validate_features(&status.child("declaredFeatures"), errors);
    let spec = node.child("spec");
    let blocks = spec.child("podCIDRs");
    for one in blocks.items() {
        reading.block(&one, errors);
    }
    if blocks.len() > 1 {
        validate_families(&blocks, errors);
    }
}

/// Validates that there is at most one CIDR of each family.
///
/// upstream: pkg/apis/core/validation#ValidateNode
fn validate_families(blocks: &Field<'_, '_>, errors: &mut Errors) {
    let mut families = HashSet::new();
    let mut unreadable = false;
    for (at, one) in blocks.items().enumerate() {
        match lenient_block(one.text()) {
            Some(block) => drop(families.insert(block.is_ipv4())),
            None => {
                unreadable = true;
                let text = one.text();
                errors.push(FieldError::internal(
                    &blocks.path(),
                    format!(
                        "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{at}]: <nil> (invalid CIDR \
                         address: {text})"
                    ),
                ));
                break;
            }
        }
    }
    if unreadable || families.len() < 2 || blocks.len() > 2 {
        errors.push(blocks.invalid("may specify no more than one CIDR for each IP family"));
    }
}

/// Validates an update of a node.
///
/// upstream: pkg/apis/core/validation#ValidateNodeUpdate
fn validate_node_update(node: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    validate_annotations(node, errors);
    validate_resources(node, errors);
    let (spec, old_spec) = (node.child("spec"), old.child("spec"));
    let status = node.child("status");
    validate_features(&status.child("declaredFeatures"), errors);
    let mut seen = HashSet::new();
    for address in status.child("addresses").items() {
        let [type_name, text] = ["type", "address"].map(|part| address.child(part).text());
        if !seen.insert((type_name, text)) {
            let [type_name, text] = [type_name, text].map(Value::from);
            errors.push(repeated(
                &address,
                format!("{{\"Type\":{type_name},\"Address\":{text}}}"),
            ));
        }
    }
    for (part, shown) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        let (new, old) = (spec.child(part), old_spec.child(part));
        if is_zero(old.value()) || same(new.value(), old.value()) {
            continue;
        }
        let changed = match part {
            "podCIDRs" if new.len() == old.len() => new
                .items()
                .zip(old.items())
                .filter(|(a, b)| a.text() != b.text())
                .count(),
            _ => 1,
        };
        for _ in 0..changed {
            let detail = format!("node updates may not change {shown} except from \"\" to valid");
            errors.push(new.forbidden(detail));
        }
    }
    validate_own_taints(node, errors);
    let external = spec.child("externalID");
    if external.text() != old_spec.child("externalID").text() {
        errors.push(external.forbidden("may not be updated"));
    }
}

/// Validates the taints, which the reference reports below the metadata.
///
/// upstream: pkg/apis/core/validation#ValidateNode
fn validate_own_taints(node: &Field<'_, '_>, errors: &mut Errors) {
    let spec = node.child("spec");
    let taints = spec.child("taints");
    validate_taints(&Field::placed(taints.value(), "metadata.taints"), errors);
}

/// Validates the annotations of a node.
///
/// upstream: pkg/apis/core/validation#ValidateNodeSpecificAnnotations
fn validate_annotations(node: &Field<'_, '_>, errors: &mut Errors) {
    let metadata = node.child("metadata");
    let annotations = metadata.child("annotations");
    let place = annotations.path();
    let taints = annotations.entry(TAINTS).text();
    if !taints.is_empty() {
        match read_json(taints) {
            Err(message) => errors.push(annotations.invalid_as(TAINTS, message)),
            Ok(taints) => validate_taints(&Field::placed(Some(&taints), place.child(TAINTS).as_str()), errors),
        }
    }
    let avoids = annotations.entry(AVOIDS).text();
    if !avoids.is_empty() {
        match read_json(avoids) {
            Err(message) => errors.push(FieldError::invalid(&place.child("AvoidPods"), AVOIDS, message)),
            Ok(avoids) => validate_avoids(&avoids, &place.child(AVOIDS), errors),
        }
    }
}

/// upstream: pkg/apis/core/validation#validatePreferAvoidPodsEntry
fn validate_avoids(avoids: &Value, place: &FieldPath, errors: &mut Errors) {
    let list = Field::placed(avoids.get("preferAvoidPods"), place.as_str());
    for avoid in list.items() {
        let signature = avoid.child("podSignature");
        let controller = signature.child("podController");
        let shown = avoid.path().child("PodSignature");
        if !controller.is_set() {
            errors.push(FieldError::required(&shown, ""));
        } else if !controller.child("controller").is_true() {
            let shown = shown.child("PodController").child("Controller");
            errors.push(FieldError::invalid(&shown, false, "must point to a controller"));
        }
    }
}

/// Validates resources. The reference prints the name of a resource like a field.
///
/// upstream: pkg/apis/core/validation#ValidateNodeResources
fn validate_resources(node: &Field<'_, '_>, errors: &mut Errors) {
    let status = node.child("status");
    for list in ["capacity", "allocatable"] {
        let list = status.child(list);
        for (name, amount) in list.entries() {
            let place = list.path().child(name);
            validate_amount(name, &Field::placed(amount.value(), place.as_str()), errors);
        }
    }
}

/// Validates the declared features of a node: sorted names without duplicates.
///
/// upstream: pkg/apis/core/validation#validateNodeDeclaredFeatureName
fn validate_features(features: &Field<'_, '_>, errors: &mut Errors) {
    let mut last: Option<&str> = None;
    for feature in features.items() {
        let name = feature.text();
        match last {
            Some(before) if before == name => errors.push(feature.duplicate()),
            Some(before) if before > name => errors.push(feature.invalid("list must be sorted alphabetically")),
            _ => {}
        }
        last = Some(name);
        if !is_feature(name) {
            errors.push(feature.invalid_text(format!(
                "invalid feature name {name:?}: must start with an UpperCamelCase segment, with subsequent segments separated \
                 by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            )));
        }
    }
}

fn is_feature(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.split('/').all(|part| {
            part.starts_with(|first: char| first.is_ascii_alphabetic())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
}

/// upstream: pkg/apis/core/validation#validateNodeTaints
fn validate_taints(taints: &Field<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for taint in taints.items() {
        let (key, value, effect) = (taint.child("key"), taint.child("value"), taint.child("effect"));
        let messages = qualified_name(key.text());
        errors.extend(messages.into_iter().map(|message| key.invalid_text(message)));
        let messages = label_value(value.text());
        if !messages.is_empty() {
            errors.push(value.invalid_text(messages.join(";")));
        }
        validate_taint_effect(&effect, errors);
        if !seen.insert((key.text(), effect.text())) {
            let [key, value, effect] = [key, value, effect].map(|part| Value::from(part.text()));
            let added = taint.child("timeAdded").value().cloned().unwrap_or_default();
            let shown = format!("{{\"Key\":{key},\"Value\":{value},\"Effect\":{effect},\"TimeAdded\":{added}}}");
            errors.push(repeated(
                &taint,
                format!("{shown}: taints must be unique by key and effect pair"),
            ));
        }
    }
}

/// Table cells that show more than the value at one path.
pub(super) const CELLS: &[NamedCell] = &[
    ("node-external-ip", |object, _| node_address(object, "ExternalIP")),
    ("node-internal-ip", |object, _| node_address(object, "InternalIP")),
    ("node-kernel", |object, _| node_kernel(object)),
    ("node-roles", |object, _| node_roles(object)),
    ("node-status", |object, _| node_status(object)),
];

fn node_address(node: &Value, type_name: &str) -> Value {
    let mut addresses = items(node, &["status", "addresses"]).iter();
    let address = addresses.find(|address| address.str_at(&["type"]) == Some(type_name));
    address
        .and_then(|address| address.str_at(&["address"]))
        .unwrap_or("<none>")
        .into()
}

fn node_kernel(node: &Value) -> Value {
    let text = |field| node.str_at(&["status", "nodeInfo", field]).unwrap_or_default();
    match (text("kernelVersion"), text("architecture")) {
        ("", "") => "<unknown>".into(),
        ("", architecture) => format!("<unknown> ({architecture})").into(),
        (version, "") => version.into(),
        (version, architecture) => format!("{version} ({architecture})").into(),
    }
}

fn node_roles(node: &Value) -> Value {
    let labels = node.at(&["metadata", "labels"]).and_then(Value::as_map);
    let role = |(key, value): &(holdfast_value::SmolStr, Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) if !role.is_empty() => Some(role.to_owned()),
        _ if key == "kubernetes.io/role" => Some(scalar_text(value)).filter(|role| !role.is_empty()),
        _ => None,
    };
    let mut roles: Vec<String> = labels.into_iter().flatten().filter_map(role).collect();
    roles.sort();
    roles.dedup();
    if roles.is_empty() {
        "<none>".into()
    } else {
        roles.join(",").into()
    }
}

fn node_status(node: &Value) -> Value {
    let ready = condition(node, "Ready").and_then(|ready| ready.str_at(&["status"]));
    let status = match ready {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    match node.at(&["spec", "unschedulable"]).and_then(Value::as_bool) {
        Some(true) => format!("{status},SchedulingDisabled").into(),
        _ => status.into(),
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    #[test]
    fn a_node_without_addresses_cannot_be_reached() {
        let connect = |addresses: &str| {
            let node = format!(
                "{{apiVersion: v1, kind: Node, metadata: {{name: one}}, status: {{addresses: [{addresses}]}}}}"
            );
            Harness::new().with(&node).connect("nodes", "proxy", "one", None)
        };
        assert!(connect("").contains("no preferred addresses found; known addresses: []"));
        assert!(connect("{type: Other, address: a}").contains("known addresses: [{Other a}]"));
        assert!(connect("{type: InternalIP, address: 10.0.0.1}").contains("10.0.0.1"));
    }

    #[test]
    fn odd_specification_warns_on_every_write() {
        let node = "{apiVersion: v1, kind: Node, metadata: {name: one}, spec: {externalID: x, configSource: {configMap: {}}, \
                    podCIDRs: ['2001:DB8::/64']}}";
        let expected = [
            "spec.configSource: the feature is removed",
            "spec.externalID: this field is deprecated, and is unused by Kubernetes",
            "spec.podCIDRs[0]: IPv6 CIDR value \"2001:DB8::/64\" should be in RFC 5952 canonical format (\"2001:db8::/64\")",
        ];
        let harness = Harness::new();
        assert_eq!(harness.update_warnings(node, node), expected);
        assert!(harness.subresource_warnings("status", node).is_empty());
    }

    #[test]
    fn blocks_and_amounts_are_mirrored() {
        let created = Harness::new().create(
            "{apiVersion: v1, kind: Node, metadata: {name: one}, spec: {podCIDR: 10.1.0.0/24}, status: {capacity: {cpu: 2}}}",
        );
        assert_eq!(at(&created, "spec.podCIDRs"), r#"["10.1.0.0/24"]"#);
        assert_eq!(at(&created, "status.allocatable"), r#"{"cpu":"2"}"#);
    }

    #[test]
    fn node_status_is_validated_on_create() {
        let node = "{apiVersion: v1, kind: Node, metadata: {name: one}, spec: {configSource: {configMap: {}}}, \
                    status: {config: {error: x}, declaredFeatures: [B, A/1], nodeInfo: {swap: {capacity: 0}}}}";
        let errors = Harness::new().errors(node);
        assert_eq!(errors.len(), 3, "{errors:?}");
        assert_eq!(
            errors[0],
            "metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero"
        );
        assert!(errors[1].starts_with("status.declaredFeatures[1]: Invalid value: \"A/1\": list must be sorted"));
        assert!(errors[2].starts_with("status.declaredFeatures[1]: Invalid value: \"A/1\": invalid feature name"));
        let node = node.replace("[B, A/1]", "[A]").replace("capacity: 0", "capacity: 1");
        let created = Harness::new().create(&node);
        assert_eq!(at(&created, "status.config"), "nothing");
        assert_eq!(at(&created, "spec.configSource"), "nothing");
    }

    #[test]
    fn taints_are_distinguished_by_key_and_effect() {
        let errors = Harness::new().errors(
            "{apiVersion: v1, kind: Node, metadata: {name: one}, spec: {taints: [{key: a, effect: NoSchedule}, \
             {key: a, effect: NoExecute}, {key: a, value: x, effect: NoSchedule}, {key: b, effect: Odd}]}}",
        );
        assert_eq!(
            errors,
            [
                r#"metadata.taints[2]: Duplicate value: {"Key":"a","Value":"x","Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and effect pair"#,
                r#"metadata.taints[3].effect: Unsupported value: "Odd": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
            ]
        );
    }
}
