//! Service accounts as users (<https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/>).

use holdfast_value::SmolStr;

/// Prefix of every service account's name.
const PREFIX: &str = "system:serviceaccount:";

/// Group of all service accounts.
const ALL: &str = "system:serviceaccounts";

/// Returns the user name of the service account `name` in `namespace`.
///
/// ```
/// use holdfast_authorization::{service_account_groups, service_account_user};
///
/// assert_eq!(service_account_user("default", "robot"), "system:serviceaccount:default:robot");
/// assert!(service_account_groups("default").contains(&"system:serviceaccounts".into()));
/// ```
pub fn service_account_user(namespace: &str, name: &str) -> SmolStr {
    format!("{PREFIX}{namespace}:{name}").into()
}

/// Returns the namespace and name of the service account that `user` has the form of. The parts may still be invalid
/// names.
///
/// ```
/// use holdfast_authorization::service_account_of;
///
/// assert_eq!(service_account_of("system:serviceaccount:default:robot"), Some(("default", "robot")));
/// assert_eq!(service_account_of("alice"), None);
/// ```
pub fn service_account_of(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix(PREFIX)?.split_once(':')
}

/// Returns the groups of every service account in `namespace`, except the group of all authenticated users.
pub fn service_account_groups(namespace: &str) -> [SmolStr; 2] {
    [SmolStr::new_static(ALL), format!("{ALL}:{namespace}").into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_groups_are_those_of_the_reference() {
        assert_eq!(service_account_user("ns", "a"), "system:serviceaccount:ns:a");
        assert_eq!(
            service_account_groups("ns"),
            ["system:serviceaccounts", "system:serviceaccounts:ns"]
        );
    }

    #[test]
    fn a_name_is_read_as_it_is_made() {
        assert_eq!(
            service_account_of(&service_account_user("ns", "a:b")),
            Some(("ns", "a:b"))
        );
        for other in [
            "alice",
            "system:serviceaccount",
            "system:serviceaccount:ns",
            "system:serviceaccounts:ns:a",
        ] {
            assert_eq!(service_account_of(other), None, "{other}");
        }
    }
}
