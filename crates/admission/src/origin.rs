/// Source of a policy, a binding or a webhook configuration. Those from files come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A file of the server, which no client can change.
    File,
    /// An object of the API.
    Api,
}
