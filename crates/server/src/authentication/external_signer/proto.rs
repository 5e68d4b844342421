//! Messages of the signer's API, `externaljwt.v1`.

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SignJwtRequest {
    /// Claims in Base64.
    #[prost(string, tag = "1")]
    pub(super) claims: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SignJwtResponse {
    /// Header in Base64.
    #[prost(string, tag = "1")]
    pub(super) header: String,
    /// Signature in Base64.
    #[prost(string, tag = "2")]
    pub(super) signature: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FetchKeysRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FetchKeysResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) keys: Vec<Key>,
    /// Time at which the signer read the keys.
    #[prost(message, optional, tag = "2")]
    pub(super) data_timestamp: Option<Timestamp>,
    #[prost(int64, tag = "3")]
    pub(super) refresh_hint_seconds: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Key {
    #[prost(string, tag = "1")]
    pub(super) key_id: String,
    /// DER of the `SubjectPublicKeyInfo`.
    #[prost(bytes = "vec", tag = "2")]
    pub(super) key: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub(super) exclude_from_oidc_discovery: bool,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

impl Timestamp {
    /// Time of 0001-01-01 in seconds.
    const MIN_SECONDS: i64 = -62_135_596_800;
    /// Time of the last second of the year 9999.
    const MAX_SECONDS: i64 = 253_402_300_799;

    /// Checks the range of a time.
    pub(super) fn check(self) -> Result<(), String> {
        let Self { seconds, nanos } = self;
        match seconds {
            ..Self::MIN_SECONDS => Err(format!("timestamp (seconds:{seconds}) before 0001-01-01")),
            Self::MIN_SECONDS..=Self::MAX_SECONDS if (0..1_000_000_000).contains(&nanos) => Ok(()),
            Self::MIN_SECONDS..=Self::MAX_SECONDS => Err(format!("timestamp (nanos:{nanos}) has out-of-range nanos")),
            _ => Err(format!("timestamp (seconds:{seconds}) after 9999-12-31")),
        }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MetadataRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MetadataResponse {
    #[prost(int64, tag = "1")]
    pub(super) max_token_expiration_seconds: i64,
}
