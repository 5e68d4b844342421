//! Who makes a request.

use smol_str::SmolStr;

/// The user that a request was authenticated as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, such as `alice` or `system:serviceaccount:default:robot`.
    pub name: SmolStr,
    /// An identifier that outlives the name; may be empty.
    pub uid: SmolStr,
    /// The groups, `system:authenticated` among them.
    pub groups: Vec<SmolStr>,
    /// What else the authenticator knows: keys and their values.
    pub extra: Vec<(SmolStr, Vec<SmolStr>)>,
}

/// The group of everybody who was authenticated.
pub const AUTHENTICATED: &str = "system:authenticated";

/// The group of everybody who was not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";

impl User {
    /// Whether the user is in `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|member| member == group)
    }
}
