//! Messages of the plugin's API, and of stored values.

use std::collections::BTreeMap;

/// A value as it is stored.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EncryptedObject {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) encrypted_data: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) key_id: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) encrypted_dek_source: Vec<u8>,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
    /// Use of the decrypted source: [`KEY`] or [`SEED`].
    #[prost(int32, tag = "5")]
    pub(super) encrypted_dek_source_type: i32,
}

/// The source is a key of AES-GCM. Early servers of version 2 wrote such values.
pub(super) const KEY: i32 = 0;
/// The source is a seed from which the keys of values are derived.
pub(super) const SEED: i32 = 1;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StatusResponse {
    #[prost(string, tag = "1")]
    pub(super) version: String,
    #[prost(string, tag = "2")]
    pub(super) healthz: String,
    #[prost(string, tag = "3")]
    pub(super) key_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) uid: String,
    #[prost(string, tag = "3")]
    pub(super) key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) plaintext: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) uid: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
}
