//! Writers: several managers that create, apply, update, patch and delete objects, some of which they share.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use conformance::{Connection, Target};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::ledger::Ledger;
use super::objects::{self, COLLECTION, config_map, key, member, path, text};
use super::random::Random;

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";

/// Objects that each writer has to itself.
pub(super) const OWN: u64 = 12;
/// Objects that all write.
pub(super) const SHARED: u64 = 3;

pub(super) struct Writer {
    pub(super) number: u64,
    pub(super) target: Target,
    pub(super) ledger: Arc<Mutex<Ledger>>,
    pub(super) random: Random,
    /// True if the store may be unable to report the result of a write.
    pub(super) may_be_unsure: bool,
    /// True if the server is stopped at the end of the round: the writer does not wait for its last response.
    pub(super) server_ends: bool,
    /// Signal to stop.
    pub(super) stop: watch::Receiver<bool>,
}

/// A write that was chosen.
struct Write {
    object: String,
    method: Method,
    path: String,
    media_type: &'static str,
    body: Value,
    /// Value of the writer's member afterwards.
    state: Option<u64>,
}

impl Writer {
    /// Writes until it should stop, or the connection breaks because the server is killed. An unexpected response is an
    /// error.
    pub(super) async fn run(mut self) -> Result<()> {
        let Ok(mut connection) = self.target.connect().await else {
            return Ok(());
        };
        let mut stop = self.stop.clone();
        while !*self.stop.borrow() {
            let write = self.choose();
            if self.ledger.lock().is_unsure(&key(&write.object, &member(self.number))) {
                tokio::task::yield_now().await;
                continue;
            }
            let server_ends = self.server_ends;
            let written = tokio::select! {
                written = self.write(&mut connection, write) => written?,
                // The result of the current write stays unknown.
                _ = stop.wait_for(|stop| *stop), if server_ends => return Ok(()),
            };
            if !written {
                return Ok(());
            }
        }
        Ok(())
    }

    fn choose(&mut self) -> Write {
        if self.random.below(4) == 0 {
            let object = format!("shared-{}", self.random.below(SHARED));
            return if self.random.below(2) == 0 {
                self.apply(object)
            } else {
                self.merge_patch(object)
            };
        }
        let object = format!("own-{}-{}", self.number, self.random.below(OWN));
        let there = self.ledger.lock().state(&key(&object, &member(self.number))).is_some();
        match (there, self.random.below(8)) {
            (true, 0) => self.delete(object),
            (true, 1 | 2) => self.update(object),
            (true, 3 | 4) => self.merge_patch(object),
            (false, 0..=3) => self.create(object),
            _ => self.apply(object),
        }
    }

    fn padding(&mut self) -> usize {
        let sizes = [0, 40, 700, 4_000, 20_000];
        self.random.one_of(&sizes).copied().unwrap_or_default()
    }

    /// Returns a write of the whole object.
    fn whole(&mut self, object: String, method: Method, path: String, media_type: &'static str) -> Write {
        let (value, padding) = (self.random.below(1 << 40), self.padding());
        let body = config_map(&object, &member(self.number), value, padding);
        let state = Some(value);
        Write {
            object,
            method,
            path,
            media_type,
            body,
            state,
        }
    }

    fn create(&mut self, object: String) -> Write {
        self.whole(object, Method::POST, COLLECTION.to_owned(), JSON)
    }

    fn update(&mut self, object: String) -> Write {
        let path = path(&object);
        self.whole(object, Method::PUT, path, JSON)
    }

    fn apply(&mut self, object: String) -> Write {
        let path = format!("{}?fieldManager=writer-{}&force=true", path(&object), self.number);
        self.whole(object, Method::PATCH, path, APPLY)
    }

    /// Returns a patch of an object that may not exist any more, or not yet: then it is rejected.
    fn merge_patch(&mut self, object: String) -> Write {
        let value = self.random.below(1 << 40);
        Write {
            method: Method::PATCH,
            path: path(&object),
            media_type: MERGE,
            body: json!({"data": {member(self.number): value.to_string()}}),
            state: Some(value),
            object,
        }
    }

    fn delete(&mut self, object: String) -> Write {
        Write {
            method: Method::DELETE,
            path: path(&object),
            media_type: JSON,
            body: json!({"kind": "DeleteOptions", "apiVersion": "v1"}),
            state: None,
            object,
        }
    }

    /// Sends a write and records its result; returns true if the connection is still open.
    async fn write(&mut self, connection: &mut Connection, write: Write) -> Result<bool> {
        let key = key(&write.object, &member(self.number));
        self.ledger.lock().attempt(&key, write.state);
        let (method, body) = (write.method.clone(), text(&write.body));
        let Ok((status, answer)) = connection.ask(method, &write.path, write.media_type, body).await else {
            return Ok(false);
        };
        if status.is_success() {
            let answer: Value = serde_json::from_slice(&answer).context("the answer to a write")?;
            let revision = objects::revision(&answer);
            self.ledger.lock().acknowledged(&key, &write.object, revision);
            return Ok(true);
        }
        self.rejected(&key, &write, status, &answer)
    }

    /// Handles a rejected write. Servers that end or have no space, and patches of missing objects, may cause
    /// rejections. Returns true if the writer may continue.
    fn rejected(&self, key: &str, write: &Write, status: StatusCode, answer: &[u8]) -> Result<bool> {
        let known = match status {
            StatusCode::TOO_MANY_REQUESTS => true,
            StatusCode::NOT_FOUND => write.media_type == MERGE,
            _ => false,
        };
        if known {
            self.ledger.lock().rejected(key);
            return Ok(true);
        }
        // If the server cannot report the result, the object may exist or not: nothing more is sent for this key.
        if self.may_be_unsure && status.is_server_error() {
            self.ledger.lock().unsure(key);
            return Ok(true);
        }
        if status == StatusCode::SERVICE_UNAVAILABLE || status == StatusCode::GATEWAY_TIMEOUT {
            return Ok(false);
        }
        bail!(
            "{} {}: {status}: {}",
            write.method,
            write.path,
            String::from_utf8_lossy(answer)
        );
    }
}
