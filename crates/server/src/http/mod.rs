//! HTTP layer of the API: paths, parameters, headers, negotiation, errors.

pub(crate) mod compression;
pub(crate) mod headers;
pub mod negotiation;
pub mod options;
pub(crate) mod protobuf;
pub mod query;
pub mod request;
pub mod request_info;
pub mod response;
pub mod status;
pub(crate) mod table;

pub use status::{ApiError, TakenName};
