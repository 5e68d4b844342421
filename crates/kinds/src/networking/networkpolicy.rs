//! NetworkPolicies: <https://kubernetes.io/docs/concepts/services-networking/network-policies/>.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::table::items;
use holdfast_resource::{Rejection, Strategy, WriteContext};
use holdfast_schema::{Check, Field, FieldError, Part, Rules};
use holdfast_value::{SeenValues, Value};

use crate::config::Config;
use crate::defaults::is_zero;
use crate::generation::count_given_empties;
use crate::kind::kind;
use crate::rules::NetworkPolicyRule;
use crate::validation::addresses::{Reading, block_warning, lenient_block};
use crate::validation::ports::{port_name, port_number};
use crate::validation::{Errors, report};

/// Strategy of NetworkPolicies.
pub(crate) struct NetworkPolicy {
    /// Parsing mode for IP blocks.
    pub(crate) reading: Reading,
}

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(NetworkPolicy {
        reading: Reading::for_features(config.features),
    })
    .metadata_checks(of_core(0, 1))
    .done()
}

impl Strategy for NetworkPolicy {
    /// upstream: pkg/apis/networking/v1#SetDefaults_NetworkPolicy
    fn default_fields(&self, _version: &str, object: &mut Value) {
        if object.get("spec").is_some() && is_zero(object.at(&["spec", "policyTypes"])) {
            let mut types = vec![Value::from("Ingress")];
            if !is_zero(object.at(&["spec", "egress"])) {
                types.push("Egress".into());
            }
            object.set_at(&["spec", "policyTypes"], types.into());
        }
    }

    /// upstream: pkg/registry/networking/networkpolicy#networkPolicyStrategy.PrepareForUpdate
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Rejection> {
        // An empty list of types is filled with defaults, so it is not a change.
        let mut changes = context.provenance.empties().iter().map(|empty| empty.path.as_str());
        if changes.any(|path| path != "spec.policyTypes") {
            count_given_empties(context, object, old, "spec");
        }
        Ok(())
    }

    /// upstream: pkg/registry/networking/networkpolicy#networkPolicyStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        context.check(object, &self.rules_against(None))
    }

    /// upstream: pkg/registry/networking/networkpolicy#networkPolicyStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        context.check(object, &self.rules_against(Some(old)))
    }

    /// upstream: pkg/registry/networking/networkpolicy#networkPolicyStrategy.WarningsOnCreate
    /// upstream: pkg/registry/networking/networkpolicy#networkPolicyStrategy.WarningsOnUpdate
    fn warnings(&self, _context: &WriteContext<'_>, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let mut warnings = Vec::new();
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
            for rule in spec.child(direction).items() {
                for peer in rule.child(peers).items() {
                    let addresses = peer.child("ipBlock");
                    warnings.extend(block_warning(&addresses.child("cidr")));
                    warnings.extend(addresses.child("except").items().filter_map(|one| block_warning(&one)));
                }
            }
        }
        warnings
    }
}

impl NetworkPolicy {
    /// Returns the rules for an object that replaces `old`.
    fn rules_against<'a>(&self, old: Option<&'a Value>) -> PolicyRules<'a> {
        PolicyRules {
            reading: self.reading,
            kept: old.map(blocks_of).into_iter().flatten().collect(),
        }
    }
}

/// Returns all IP blocks of a policy.
fn blocks_of(policy: &Value) -> Vec<&str> {
    let mut blocks = Vec::new();
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        let rules = items(policy, &["spec", direction]).iter();
        for peer in rules.flat_map(|rule| items(rule, &[peers])) {
            blocks.extend(peer.str_at(&["ipBlock", "cidr"]));
            blocks.extend(items(peer, &["ipBlock", "except"]).iter().filter_map(Value::as_str));
        }
    }
    blocks
}

/// Validation rules of a NetworkPolicy.
struct PolicyRules<'a> {
    reading: Reading,
    /// IP blocks of the old object. They stay valid in any position.
    kept: SeenValues<&'a str>,
}

impl<'v> Rules<'v> for PolicyRules<'_> {
    type Rule = NetworkPolicyRule;

    fn rule(&self, rule: NetworkPolicyRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        let errors = &mut check.errors;
        match rule {
            NetworkPolicyRule::PolicyTypes => validate_types(&part.child("policyTypes"), errors),
            NetworkPolicyRule::Port => validate_port(part, errors),
            NetworkPolicyRule::Peer => self.validate_peer(part, errors),
        }
    }
}

/// Validates the policy types. If there are more than two, none of them is validated.
///
/// upstream: pkg/apis/networking/validation#ValidateNetworkPolicySpec
fn validate_types(types: &Field<'_, '_>, errors: &mut Errors) {
    const TYPES: [&str; 2] = ["Ingress", "Egress"];
    if types.len() > TYPES.len() {
        errors.push(types.invalid("may not specify more than two policyTypes"));
        return;
    }
    let odd = types.items().filter(|one| !TYPES.contains(&one.text()));
    errors.extend(odd.map(|one| one.not_supported(&TYPES)));
}

/// upstream: pkg/apis/networking/validation#ValidateNetworkPolicyPort
fn validate_port(port: &Field<'_, '_>, errors: &mut Errors) {
    let (first, last) = (port.child("port"), port.child("endPort"));
    match first.value() {
        None => {
            if last.is_set() {
                errors.push(last.invalid("may not be specified when `port` is not specified"));
            }
        }
        Some(Value::String(name)) => {
            if last.is_set() {
                errors.push(last.invalid("may not be specified when `port` is non-numeric"));
            }
            report(&first, port_name(name), errors);
        }
        Some(_) => {
            port_number(&first, errors);
            if last.is_set() {
                if last.number() < first.number() {
                    // The reference shows the first port in this error.
                    let shown = first.number().unwrap_or_default();
                    errors.push(last.invalid_as(shown, "must be greater than or equal to `port`"));
                }
                port_number(&last, errors);
            }
        }
    }
}

impl PolicyRules<'_> {
    /// Checks that a peer has an IP block or selectors.
    ///
    /// upstream: pkg/apis/networking/validation#ValidateNetworkPolicyPeer
    fn validate_peer(&self, peer: &Field<'_, '_>, errors: &mut Errors) {
        let addresses = peer.child("ipBlock");
        let selects = peer.child("podSelector").is_set() || peer.child("namespaceSelector").is_set();
        if addresses.is_set() {
            self.validate_addresses(&addresses, errors);
            if selects {
                errors.push(peer.forbidden("may not specify both ipBlock and another peer"));
            }
        } else if !selects {
            errors.push(peer.required("must specify a peer"));
        }
    }

    /// upstream: pkg/apis/networking/validation#ValidateIPBlock
    fn validate_addresses(&self, addresses: &Field<'_, '_>, errors: &mut Errors) {
        let whole = addresses.child("cidr");
        if whole.text().is_empty() {
            errors.push(whole.required(""));
            return;
        }
        self.validate_block(&whole, errors);
        let Some(outer) = lenient_block(whole.text()) else {
            return;
        };
        for except in addresses.child("except").items() {
            self.validate_block(&except, errors);
            if let Some(inner) = lenient_block(except.text())
                && !inner.is_strictly_within(&outer)
            {
                errors.push(except.invalid("must be a strict subset of `cidr`"));
            }
        }
    }

    /// upstream: pkg/apis/networking/validation#ValidateIPBlock
    fn validate_block(&self, block: &Field<'_, '_>, errors: &mut Errors) {
        if !self.kept.contains(&block.text()) {
            self.reading.block(block, errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    fn policy(spec: &str) -> String {
        format!(
            "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: p}}, spec: {{podSelector: {{}}{spec}}}}}"
        )
    }

    #[test]
    fn types_follow_from_the_rules() {
        let harness = Harness::new();
        assert_eq!(at(&harness.read(&policy("")), "spec.policyTypes"), r#"["Ingress"]"#);
        assert_eq!(
            at(&harness.read(&policy(", egress: [{}]")), "spec.policyTypes"),
            r#"["Ingress","Egress"]"#
        );
    }

    #[test]
    fn the_last_port_is_not_before_the_first() {
        let ports = |ports: &str| Harness::new().errors(&policy(&format!(", ingress: [{{ports: [{{{ports}}}]}}]")));
        assert_eq!(
            ports("port: 80, endPort: 1"),
            ["spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`"]
        );
        assert_eq!(
            ports("port: 65536, endPort: 200"),
            [
                "spec.ingress[0].ports[0].port: Invalid value: 65536: must be between 1 and 65535, inclusive",
                "spec.ingress[0].ports[0].endPort: Invalid value: 65536: must be greater than or equal to `port`",
            ]
        );
    }

    #[test]
    fn blocks_are_written_as_all_write_them() {
        let peer = |cidr: &str, except: &str| {
            policy(&format!(
                ", egress: [{{to: [{{ipBlock: {{cidr: '{cidr}', except: ['{except}']}}}}]}}]"
            ))
        };
        let harness = Harness::new();
        let place = "spec.egress[0].to[0].ipBlock";
        assert_eq!(
            harness.warnings(&peer("2001:DB8::/64", "2001:db8::/65")),
            [format!(
                "{place}.cidr: IPv6 CIDR value \"2001:DB8::/64\" should be in RFC 5952 canonical format (\"2001:db8::/64\")"
            )]
        );
        let except = format!("{place}.except[0]: Invalid value: \"10.1.2.3/8\": must");
        assert_eq!(
            harness.errors(&peer("10.0.0.0/8", "10.1.2.3/8")),
            [
                format!("{except} not have bits set beyond the prefix length"),
                format!("{except} be a strict subset of `cidr`")
            ]
        );
    }

    #[test]
    fn peers_are_selected_or_addressed() {
        let harness = Harness::new();
        assert_eq!(
            harness.errors(&policy(", ingress: [{from: [{}]}]")),
            ["spec.ingress[0].from[0]: Required value: must specify a peer"]
        );
        assert_eq!(
            harness.errors(&policy(
                ", ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/9]}}]}]"
            )),
            [
                r#"spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "11.0.0.0/9": must be a strict subset of `cidr`"#
            ]
        );
    }

    #[test]
    fn empty_rules_change_generation_but_empty_types_do_not() {
        let policy = |spec: &str| {
            format!(
                "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: a}}, spec: {{podSelector: {{}}{spec}}}}}"
            )
        };
        let harness = Harness::new();
        let old = harness.create(&policy(""));
        let generation = |spec| crate::harness::at(&harness.update(&old, &policy(spec)), "metadata.generation");
        assert_eq!(
            [
                generation(""),
                generation(", ingress: []"),
                generation(", policyTypes: []")
            ],
            ["1", "2", "1"]
        );
    }
}
