//! IPAddresses: objects named by the addresses that Services hold.

use std::net::IpAddr as Address;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, in_order};
use holdfast_resource::table::NamedCell;
use holdfast_resource::{InitialObjects, Strategy, WriteContext};
use holdfast_schema::metadata::formats::Messages;
use holdfast_schema::metadata::new_object;
use holdfast_schema::{Field, FieldError, NoRules, UpdateOrder};
use holdfast_value::Value;

use crate::config::Config;
use crate::kind::kind;
use crate::validation::addresses::canonical_address_errors;
use crate::validation::{Errors, optional_text};

/// Strategy of IPAddresses.
pub(crate) struct IpAddress {
    /// Address of the service `kubernetes`.
    pub(crate) first: Address,
}

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(IpAddress {
        first: config.service_cidr.nth(1),
    })
    .initial_objects()
    .named_by(name_errors)
    .cells(CELLS)
    .metadata_checks(in_order(UpdateOrder::ObjectFirst, COMMON_CHECKS))
    .converts_by(config, super::GROUP, super::VERSIONS)
    .done()
}

impl Strategy for IpAddress {
    /// upstream: pkg/registry/networking/ipaddress#ipAddressStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let metadata = root.child("metadata");
        let mut errors = Errors::new();
        optional_text(&metadata.child("name"), |name| name_errors(object, name), &mut errors);
        errors.extend(self.validate(context, object));
        errors.extend(context.rest_of_metadata(object, old));
        errors.extend(context.check_changes(object, old, &NoRules));
        errors
    }
}

impl InitialObjects for IpAddress {
    /// Returns the address of the service that exists from the start.
    fn initial_objects(&self) -> Vec<Value> {
        let mut object = new_object("networking.k8s.io/v1", "IPAddress", "", &self.first.to_string());
        let family = if self.first.is_ipv4() { "IPv4" } else { "IPv6" };
        for (label, value) in [
            ("ipaddress.kubernetes.io/ip-family", family),
            ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io"),
        ] {
            object.set_at(&["metadata", "labels", label], value.into());
        }
        for (field, value) in [
            ("group", ""),
            ("resource", "services"),
            ("namespace", "default"),
            ("name", "kubernetes"),
        ] {
            object.set_at(&["spec", "parentRef", field], value.into());
        }
        vec![object]
    }
}

/// Validates that the name is an address in canonical form.
pub(super) fn name_errors(_object: &Value, name: &str) -> Messages {
    canonical_address_errors(name)
}

/// Table cells that are not just the value at a path.
pub(super) const CELLS: &[NamedCell] = &[("parent-reference", |object, _| parent_reference(object))];

/// Returns the owner of an address as `RESOURCE[.GROUP][/NAMESPACE]/NAME`.
fn parent_reference(address: &Value) -> Value {
    let Some(parent) = address.at(&["spec", "parentRef"]).filter(|found| !found.is_null()) else {
        return "<none>".into();
    };
    let text = |field| parent.str_at(&[field]).unwrap_or_default();
    let mut shown = text("resource").to_lowercase();
    if !text("group").is_empty() {
        shown.push('.');
        shown.push_str(&text("group").to_lowercase());
    }
    for part in [text("namespace"), text("name")] {
        if !part.is_empty() {
            shown.push('/');
            shown.push_str(part);
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn address(name: &str, parent: &str) -> String {
        format!(
            "{{apiVersion: networking.k8s.io/v1, kind: IPAddress, metadata: {{name: '{name}'}}, spec: {{parentRef: \
             {{{parent}}}}}}}"
        )
    }

    const SERVICE: &str = "resource: services, name: s";

    #[test]
    fn a_name_is_an_address_as_it_is_written_everywhere() {
        let messages = |name: &str| {
            let object = address(name, SERVICE);
            Harness::new().update_errors(&object, &object).len()
        };
        for name in ["1.2.3.4", "2001:db8::1"] {
            assert_eq!(messages(name), 0, "{name}");
        }
        for name in [
            "x",
            "1.2.3.4/24",
            "fe80::1%eth0",
            "010.1.2.3",
            "2001:DB8::1",
            "::ffff:1.2.3.4",
        ] {
            assert_eq!(messages(name), 1, "{name}");
        }
    }

    #[test]
    fn the_parent_has_names_that_can_stand_in_a_path_and_stays() {
        let old = address("1.2.3.4", SERVICE);
        let errors =
            Harness::new().update_errors(&old, &address("1.2.3.4", "group: Bad_, resource: '..', name: 'a%b'"));
        let fields: Vec<&str> = errors.iter().filter_map(|error| error.split(": ").next()).collect();
        let parent = "spec.parentRef";
        assert_eq!(
            fields,
            [
                "spec.parentRef.group",
                "spec.parentRef.resource",
                "spec.parentRef.name",
                parent
            ]
        );
    }
}
