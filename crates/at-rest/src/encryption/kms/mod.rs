//! Providers whose keys a plugin of a key management service encrypts (KMS version 2). A seed for the keys of values is
//! encrypted by the plugin and stored with each value.
//!
//! <https://kubernetes.io/docs/tasks/administer-cluster/kms-provider/>

mod client;
mod object;
mod proto;
mod provider;

pub(super) use provider::{KmsEvents, KmsProvider};
