//! Who makes a request.

pub use holdfast_resource::access::{AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};
