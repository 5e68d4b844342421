//! Readers: each read is compared with the possible states at that time.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use conformance::Target;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use super::ledger::Ledger;
use super::objects::{self, key, member, path};
use super::random::Random;
use super::writers::{OWN, SHARED};

pub(super) struct Reader {
    pub(super) target: Target,
    pub(super) ledger: Arc<Mutex<Ledger>>,
    pub(super) random: Random,
    /// Number of writers.
    pub(super) writers: u64,
    pub(super) stop: watch::Receiver<bool>,
}

impl Reader {
    /// Reads until it should stop or the connection breaks. A read that returns an impossible state is an error.
    pub(super) async fn run(mut self) -> Result<()> {
        let Ok(mut connection) = self.target.connect().await else {
            return Ok(());
        };
        while !*self.stop.borrow() {
            let writer = self.random.below(self.writers);
            let object = match self.random.below(4) {
                0 => format!("shared-{}", self.random.below(SHARED)),
                _ => format!("own-{writer}-{}", self.random.below(OWN)),
            };
            let key = key(&object, &member(writer));
            let begun = self.ledger.lock().read_begins(&key);
            let path = path(&object);
            let answer = connection.ask(Method::GET, &path, "", Bytes::new());
            let mut stop = self.stop.clone();
            let answered = tokio::select! {
                answered = answer => answered,
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
            };
            let Ok((status, answer)) = answered else {
                return Ok(());
            };
            let found = match status {
                StatusCode::OK => {
                    let object: Value = serde_json::from_slice(&answer).context("the answer to a read")?;
                    objects::contents(&object).get(&key).copied()
                }
                StatusCode::NOT_FOUND => None,
                // The server reports that it cannot answer.
                _ => continue,
            };
            self.ledger.lock().read_ends(&key, begun, found)?;
        }
        Ok(())
    }
}
