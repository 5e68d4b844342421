//! IPAddresses: the addresses that Services hold, as objects that are named by them.

use std::net::IpAddr as Address;

use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::validation::{Errors, immutable};

/// What only IPAddresses do.
pub(crate) struct IpAddress;

impl Strategy for IpAddress {
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
