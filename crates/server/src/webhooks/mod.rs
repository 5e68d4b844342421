//! The client that webhooks are called with: HTTPS to URLs and to services of the cluster, with bounds on sizes and times.
//!
//! There is one pool of connections for each set of authorities, in which connections are kept by address; no redirect is
//! followed.

mod connector;
mod rejection;
mod services;

use std::collections::HashMap;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use holdfast_kinds::webhooks::{Webhook, Webhooks as Configured};
use holdfast_resource::Registry;
use holdfast_value::{Limits, json};
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;

use crate::go_duration;
use crate::objects::Store;
use connector::Connector;
use services::Services;

pub(crate) use rejection::rejection;

/// The webhooks of admission, and how they are called.
pub struct Webhooks {
    configured: Arc<Configured>,
    services: Arc<Services>,
    clients: Mutex<HashMap<Option<Arc<[u8]>>, HttpClient>>,
}

type HttpClient = Client<Connector, Full<Bytes>>;

/// How many sets of authorities have pools at a time.
const POOLS: usize = 256;

/// The most bytes of an answer.
const ANSWER_BYTES: usize = 16 << 20;

/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(90);

impl Webhooks {
    /// Calls the webhooks of `configured`; the services among them are those of `store`.
    pub fn new(configured: Arc<Configured>, store: Arc<Store>, registry: Arc<ArcSwap<Registry>>) -> Self {
        Self {
            configured,
            services: Arc::new(Services { store, registry }),
            clients: Mutex::default(),
        }
    }

    /// The webhooks that are configured.
    pub(crate) fn configured(&self) -> &Configured {
        &self.configured
    }

    /// Sends a review and reads the answer.
    ///
    /// # Errors
    /// Why there is none, in the words that clients see.
    pub(crate) async fn call(&self, webhook: &Webhook, review: Vec<u8>) -> Result<Bytes, String> {
        let url = format!(
            "{}?timeout={}",
            webhook.address.url(),
            go_duration::text(webhook.timeout)
        );
        let failed = |why: &str| format!("Post {url:?}: {why}");
        let client = self.client(webhook.authorities.as_ref()).map_err(|why| failed(&why))?;
        let request = Request::post(&url)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, "kube-apiserver-admission")
            .body(Full::new(Bytes::from(review)))
            .map_err(|error| failed(&error.to_string()))?;
        let exchange = async {
            let answer = client.request(request).await.map_err(|error| failed(&told(&error)))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| failed(&error.to_string()))?.to_bytes();
            if (200..=206).contains(&status.as_u16()) {
                Ok(body)
            } else {
                Err(refusal(status, &body))
            }
        };
        match tokio::time::timeout(webhook.timeout, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(failed("context deadline exceeded")),
        }
    }

    fn client(&self, authorities: Option<&Arc<[u8]>>) -> Result<HttpClient, String> {
        let mut clients = self.clients.lock();
        let key = authorities.cloned();
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let connector = Connector::new(authorities.map(AsRef::as_ref), Arc::clone(&self.services))?;
        let client: HttpClient = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        if clients.len() >= POOLS {
            clients.clear();
        }
        clients.insert(key, client.clone());
        Ok(client)
    }
}

/// The innermost cause of a failed exchange.
fn told(error: &ClientError) -> String {
    let mut cause = error.source();
    let mut text = error.to_string();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}

/// What an answer of another code than success says, in the words of the reference's client.
fn refusal(code: StatusCode, body: &[u8]) -> String {
    if let Ok(status) = json::parse(body, &Limits::REQUEST)
        && status.str_at(&["kind"]) == Some("Status")
        && status.str_at(&["status"]) != Some("Success")
        && let Some(message) = status.str_at(&["message"])
    {
        return message.to_owned();
    }
    let said = String::from_utf8_lossy(&body[..body.len().min(2048)]);
    let said = said.trim();
    let message = match code.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 406 | 415 if !said.is_empty() => said,
        403 => "forbidden",
        406 | 415 => "unknown",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        number if number >= 500 => {
            return format!("an error on the server ({said:?}) has prevented the request from succeeding");
        }
        number => {
            return format!("the server responded with the status code {number} but did not return more information");
        }
    };
    message.to_owned()
}
