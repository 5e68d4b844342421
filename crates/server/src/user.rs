//! Who makes a request.

pub use holdfast_authorization::{AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};
