//! IPAddresses: the addresses that Services hold, as objects that are named by them.

use std::net::IpAddr as Address;

use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::validation::{Errors, immutable};

/// What only IPAddresses do.
pub(crate) struct IpAddress {
    /// The address of the service `kubernetes`.
    pub(crate) first: Address,
}

impl Strategy for IpAddress {
    /// The address of the service that is there from the start.
    fn initial_objects(&self) -> Vec<Value> {
        let mut object = Value::empty_map();
        object.set_at(&["apiVersion"], "networking.k8s.io/v1".into());
        object.set_at(&["kind"], "IPAddress".into());
        object.set_at(&["metadata", "name"], self.first.to_string().into());
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

    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = Errors::new();
        let metadata = root.child("metadata");
        let name = metadata.child("name");
        match context.name.parse::<Address>() {
            Err(_) => crate::validation::addresses::address(&name, &mut errors),
            Ok(Address::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
                errors.push(name.invalid("must not be an IPv4-mapped IPv6 address"));
            }
            Ok(address) if address.to_string() != context.name => {
                errors.push(name.invalid(format!("must be in canonical form (\"{address}\")")));
            }
            Ok(_) => {}
        }
        let spec = root.child("spec");
        let parent = spec.child("parentRef");
        if !parent.is_set() {
            errors.push(parent.required(""));
            return errors;
        }
        for part in ["resource", "name"] {
            let field = parent.child(part);
            if field.text().is_empty() {
                errors.push(field.required(""));
            }
        }
        errors
    }

    fn validate_update(&self, _context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old) = (Field::root(object), Field::root(old));
        let mut errors = Errors::new();
        immutable(
            &root.child("spec").child("parentRef"),
            &old.child("spec").child("parentRef"),
            &mut errors,
        );
        errors
    }
}
