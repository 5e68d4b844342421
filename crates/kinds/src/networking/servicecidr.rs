//! ServiceCIDRs: the IP blocks that Services get their addresses from.

use holdfast_gotext::cidr::Cidr;
use holdfast_kind_tables::Kind;
use holdfast_kind_tables::features::Feature;
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::{InitialObjects, Rejection, Strategy, WriteContext};
use holdfast_schema::metadata::new_object;
use holdfast_schema::{AnyRules, Check, Field, FieldError, Part, Rules};
use holdfast_value::Value;

use crate::config::Config;
use crate::kind::kind;
use crate::rules::ServiceCidrRule;
use crate::validation::addresses::{canonical_block, lenient_block};
use crate::validation::{Errors, immutable};

/// Strategy of ServiceCIDRs.
pub(crate) struct ServiceCidr {
    /// Blocks of the default ServiceCIDR, which the flags set.
    pub(crate) default_blocks: Vec<Cidr>,
    /// True if only writes to the status subresource change the status.
    pub(crate) wipes_status: bool,
}

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    let wipes_status = config.features.has(Feature::ServiceCIDRStatusFieldWiping);
    let cidrs = kind(ServiceCidr {
        default_blocks: config.service_cidrs().collect(),
        wipes_status,
    });
    let cidrs = match wipes_status {
        true => cidrs.empty_status(),
        false => cidrs.writes_status(),
    };
    cidrs
        .initial_objects()
        .metadata_checks(of_core(0, 1))
        .converts_by(config, super::GROUP, super::VERSIONS)
        .done()
}

impl Strategy for ServiceCidr {
    /// upstream: pkg/registry/networking/servicecidr#serviceCIDRStrategy.PrepareForCreate
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        if !self.wipes_status && object.get("status").is_none() {
            object.set_at(&["status"], Value::empty_map());
        }
        Ok(())
    }

    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    /// upstream: pkg/registry/networking/servicecidr#serviceCIDRStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old_root) = (Field::root(object), Field::root(old));
        let mut errors = Errors::new();
        let (spec, old_spec) = (root.child("spec"), old_root.child("spec"));
        let (cidrs, before) = (spec.child("cidrs"), old_spec.child("cidrs"));
        // A block of the other family may be added; existing blocks are immutable.
        let adds_the_other_family = (before.len(), cidrs.len()) == (1, 2);
        if cidrs.len() != before.len() && !adds_the_other_family {
            errors.push(cidrs.invalid("field is immutable"));
            return errors;
        }
        for (now, before) in cidrs.items().zip(before.items()) {
            immutable(&now, &before, &mut errors);
        }
        if adds_the_other_family {
            errors.extend(self.validate(context, object));
        }
        errors
    }
}

impl<'v> Rules<'v> for ServiceCidr {
    type Rule = ServiceCidrRule;

    fn rule(&self, rule: ServiceCidrRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            ServiceCidrRule::Blocks => validate_blocks(&part.child("cidrs"), &mut check.errors),
        }
    }
}

/// Reports more than one block of a family.
///
/// upstream: pkg/apis/networking/validation#ValidateServiceCIDR
fn validate_blocks(cidrs: &Field<'_, '_>, errors: &mut Errors) {
    const FAMILIES: &str = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
    if cidrs.len() > 2 {
        errors.push(cidrs.invalid("may only hold up to 2 values"));
        return;
    }
    for one in cidrs.items() {
        canonical_block(&one, errors);
    }
    let families: Vec<bool> = cidrs
        .items()
        .filter_map(|one| Some(lenient_block(one.text())?.is_ipv4_or_mapped()))
        .collect();
    if matches!(families[..], [one, other] if one == other) {
        errors.push(cidrs.invalid(FAMILIES));
    }
}

impl InitialObjects for ServiceCidr {
    fn initial_objects(&self) -> Vec<Value> {
        let mut object = new_object("networking.k8s.io/v1", "ServiceCIDR", "", "kubernetes");
        let cidrs: Vec<Value> = self
            .default_blocks
            .iter()
            .map(|block| block.to_string().into())
            .collect();
        object.set_at(&["spec", "cidrs"], cidrs.into());
        vec![object]
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn errors(blocks: &str) -> Vec<String> {
        Harness::new().errors(&format!(
            "{{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {{name: c}}, spec: {{cidrs: [{blocks}]}}}}"
        ))
    }

    #[test]
    fn blocks_are_written_as_all_write_them() {
        assert!(errors("'2001:db8::/64', '10.1.0.0/16'").is_empty());
        assert_eq!(
            errors("'2001:DB8::/64'"),
            [r#"spec.cidrs[0]: Invalid value: "2001:DB8::/64": must be in canonical form ("2001:db8::/64")"#]
        );
        assert_eq!(
            errors("'::ffff:10.0.0.0/104', '2001:db8:1::/64'"),
            [r#"spec.cidrs[0]: Invalid value: "::ffff:10.0.0.0/104": must not have an IPv4-mapped IPv6 address"#]
        );
    }

    #[test]
    fn blocks_stay_but_one_of_the_other_family_may_come() {
        let service_cidr = |blocks: &str| {
            format!(
                "{{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {{name: c}}, spec: {{cidrs: [{blocks}]}}}}"
            )
        };
        let changed = |blocks: &str| Harness::new().update_errors(&service_cidr("10.1.0.0/16"), &service_cidr(blocks));
        assert!(changed("10.1.0.0/16, '2001:db8::/64'").is_empty());
        assert_eq!(changed(""), ["spec.cidrs: Invalid value: []: field is immutable"]);
        assert_eq!(
            changed("a, b, c"),
            [r#"spec.cidrs: Invalid value: ["a","b","c"]: field is immutable"#]
        );
        assert_eq!(
            changed("a, b")[0],
            r#"spec.cidrs[0]: Invalid value: "a": field is immutable"#
        );
        assert!(changed("a, b")[1].starts_with(r#"spec.cidrs[0]: Invalid value: "a": must be a valid CIDR value"#));
    }
}
