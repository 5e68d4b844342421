//! Encryption of stored values, compatible with kube-apiserver's `--encryption-provider-config`.
//!
//! [`Encryption`] selects the providers of a value by the resource of its key. As a
//! [`Transformer`](holdfast_store::Transformer) it encrypts the values of the embedded store; [`EncryptedCodec`] puts it
//! around the codec of an etcd. The bytes are those of kube-apiserver: a prefix such as `k8s:enc:aescbc:v1:key1:`, and the
//! encrypted value, with its path in etcd as authenticated data if the method has any.
//!
//! Decrypted values are in memory only. Secrets of a configuration stay in memory too, in their ciphers.

mod aes;
mod cipher;
mod configuration;
mod encrypted_codec;
#[expect(clippy::module_inception, reason = "the type that the module is about")]
mod encryption;
mod forms;
mod kms;
mod providers;
mod rules;
mod secretbox;
#[cfg(test)]
mod tests;
mod validation;

pub use configuration::{Configuration, Key, KmsConfiguration, ProviderConfiguration, ResourceRule};
pub use encrypted_codec::EncryptedCodec;
pub use encryption::{ConfigurationDigest, ConfigurationError, Encryption, EncryptionUpdate, KmsCheck};
pub use validation::validate;
