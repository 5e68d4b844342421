//! An external signer of service account tokens (`externaljwt.v1`), on a Unix socket, whose answers tests set.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use prost::Message;

use crate::grpc_server::{Failure, GrpcServer};

/// A running signer. It ends when this is dropped.
pub struct TokenSigner {
    state: Arc<Mutex<SignerState>>,
    _server: GrpcServer,
}

/// Function that returns the header and the signature for claims, all of them in Base64.
pub type Sign = Arc<dyn Fn(&str) -> Result<(String, String), String> + Send + Sync>;

/// State of a signer.
#[derive(Clone)]
pub struct SignerState {
    /// Keys that it publishes.
    pub keys: Vec<PublishedKey>,
    /// Time of the keys in seconds.
    pub data_seconds: i64,
    /// Interval at which servers fetch the keys.
    pub refresh_hint_seconds: i64,
    /// Maximum lifetime of tokens.
    pub max_token_expiration_seconds: i64,
    /// Signs tokens.
    pub sign: Sign,
    /// Number of calls of each method.
    pub calls: BTreeMap<String, usize>,
}

/// A key that a signer publishes.
#[derive(Clone, PartialEq, Message)]
pub struct PublishedKey {
    /// Id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// DER of the `SubjectPublicKeyInfo`.
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
    /// True if the key only verifies tokens.
    #[prost(bool, tag = "3")]
    pub is_excluded: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Timestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
struct FetchKeysResponse {
    #[prost(message, repeated, tag = "1")]
    keys: Vec<PublishedKey>,
    #[prost(message, optional, tag = "2")]
    data_timestamp: Option<Timestamp>,
    #[prost(int64, tag = "3")]
    refresh_hint_seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
struct MetadataResponse {
    #[prost(int64, tag = "1")]
    max_token_expiration_seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
struct SignRequest {
    #[prost(string, tag = "1")]
    claims: String,
}

#[derive(Clone, PartialEq, Message)]
struct SignResponse {
    #[prost(string, tag = "1")]
    header: String,
    #[prost(string, tag = "2")]
    signature: String,
}

impl TokenSigner {
    /// Starts a signer.
    ///
    /// # Errors
    /// If it cannot listen on the socket.
    pub fn start(socket: &Path, state: SignerState) -> io::Result<Self> {
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let server = GrpcServer::on_socket(socket, move |method, message| {
            let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
            *state.calls.entry(method.to_owned()).or_default() += 1;
            respond(method, message, &state).map_err(Failure::from)
        })?;
        Ok(Self { state, _server: server })
    }

    /// Changes or reads its state.
    pub fn with<T>(&self, change: impl FnOnce(&mut SignerState) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of calls of a method.
    pub fn calls(&self, method: &str) -> usize {
        self.with(|state| state.calls.get(method).copied().unwrap_or_default())
    }
}

fn respond(method: &str, message: &[u8], state: &SignerState) -> Result<Vec<u8>, String> {
    match method {
        "Sign" => {
            let request = SignRequest::decode(message).map_err(|error| error.to_string())?;
            let (header, signature) = (state.sign)(&request.claims)?;
            Ok(SignResponse { header, signature }.encode_to_vec())
        }
        "FetchKeys" => Ok(FetchKeysResponse {
            keys: state.keys.clone(),
            data_timestamp: Some(Timestamp {
                seconds: state.data_seconds,
            }),
            refresh_hint_seconds: state.refresh_hint_seconds,
        }
        .encode_to_vec()),
        "Metadata" => Ok(MetadataResponse {
            max_token_expiration_seconds: state.max_token_expiration_seconds,
        }
        .encode_to_vec()),
        other => Err(format!("there is no method {other}")),
    }
}
