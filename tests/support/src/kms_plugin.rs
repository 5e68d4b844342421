//! A plugin of a key management service (KMS version 2), on a Unix socket, whose state tests change.
//!
//! It "encrypts" by adding the first byte of the key's name to each byte, which is enough to tell keys apart.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use prost::Message;

use crate::grpc_server::{Failure, GrpcServer};

/// A running plugin. It ends when this is dropped.
pub struct KmsPlugin {
    state: Arc<Mutex<PluginState>>,
    _server: GrpcServer,
}

/// State of a plugin.
#[derive(Clone, Debug)]
pub struct PluginState {
    /// Key that encrypts.
    pub key_id: String,
    /// Health that it reports.
    pub healthz: String,
    /// Version that it reports.
    pub version: String,
    /// Number of calls of each method.
    pub calls: BTreeMap<String, usize>,
}

/// Fields of all messages. The tags of the requests and responses differ, so one message per shape.
#[derive(Clone, PartialEq, Message)]
struct StatusResponse {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    healthz: String,
    #[prost(string, tag = "3")]
    key_id: String,
}

#[derive(Clone, PartialEq, Message)]
struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "3")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
}

/// Annotation that the plugin stores with each value, and requires when it decrypts.
const ANNOTATION: (&str, &[u8]) = ("version.kms.example.com", b"1");

impl KmsPlugin {
    /// Starts a plugin with the key `key_id`.
    ///
    /// # Errors
    /// If it cannot listen on the socket.
    pub fn start(socket: &Path, key_id: &str) -> io::Result<Self> {
        let state = Arc::new(Mutex::new(PluginState {
            key_id: key_id.to_owned(),
            healthz: "ok".to_owned(),
            version: "v2".to_owned(),
            calls: BTreeMap::new(),
        }));
        let shared = Arc::clone(&state);
        let server = GrpcServer::on_socket(socket, move |method, message| {
            let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
            *state.calls.entry(method.to_owned()).or_default() += 1;
            respond(method, message, &state).map_err(Failure::from)
        })?;
        Ok(Self { state, _server: server })
    }

    /// Changes or reads its state.
    pub fn with<T>(&self, change: impl FnOnce(&mut PluginState) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of calls of a method.
    pub fn calls(&self, method: &str) -> usize {
        self.with(|state| state.calls.get(method).copied().unwrap_or_default())
    }
}

fn respond(method: &str, message: &[u8], state: &PluginState) -> Result<Vec<u8>, String> {
    let unreadable = |error: prost::DecodeError| error.to_string();
    match method {
        "Status" => Ok(StatusResponse {
            version: state.version.clone(),
            healthz: state.healthz.clone(),
            key_id: state.key_id.clone(),
        }
        .encode_to_vec()),
        "Encrypt" => {
            let request = EncryptRequest::decode(message).map_err(unreadable)?;
            let shift = shift_of(&state.key_id);
            Ok(EncryptResponse {
                ciphertext: request.plaintext.iter().map(|byte| byte.wrapping_add(shift)).collect(),
                key_id: state.key_id.clone(),
                annotations: BTreeMap::from([(ANNOTATION.0.to_owned(), ANNOTATION.1.to_vec())]),
            }
            .encode_to_vec())
        }
        "Decrypt" => {
            let request = DecryptRequest::decode(message).map_err(unreadable)?;
            if request.annotations.get(ANNOTATION.0).map(Vec::as_slice) != Some(ANNOTATION.1) {
                return Err("the annotation is missing".to_owned());
            }
            let shift = shift_of(&request.key_id);
            let plaintext = request.ciphertext.iter().map(|byte| byte.wrapping_sub(shift));
            Ok(DecryptResponse {
                plaintext: plaintext.collect(),
            }
            .encode_to_vec())
        }
        other => Err(format!("there is no method {other}")),
    }
}

fn shift_of(key_id: &str) -> u8 {
    key_id.bytes().next().unwrap_or_default()
}
