//! The ConfigMap `extension-apiserver-authentication` of `kube-system`: it tells aggregated servers which client
//! certificates to trust, and in which headers this server names users
//! (<https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/>).
//!
//! If several servers share a store, it contains the values of all of them.

use std::sync::Arc;
use std::time::Duration;

use holdfast_resource::Resource;
use holdfast_schema::metadata::new_object;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, RequestError};
use holdfast_server::wire::certificates;
use holdfast_server::wire::pem_source::PemSource;
use holdfast_value::{Limits, Value, json};
use tokio::time::Instant;

use crate::apiserver::put;
use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// Interval at which the files are read.
const PERIOD: Duration = Duration::from_secs(60);

/// Information about this server for aggregated servers.
#[derive(Clone, Debug, Default)]
pub struct ClusterTrust {
    /// Authorities of client certificates, in PEM.
    pub client_authorities: Vec<PemSource>,
    /// Authorities of front proxies, in PEM; without them the headers are omitted.
    pub proxy_authorities: Option<PemSource>,
    /// Common names that front proxies may have; any name if empty.
    pub allowed_names: Vec<String>,
    /// Headers of user names.
    pub username_headers: Vec<String>,
    /// Headers of uids.
    pub uid_headers: Vec<String>,
    /// Headers of groups.
    pub group_headers: Vec<String>,
    /// Prefixes of the headers of extra values.
    pub extra_header_prefixes: Vec<String>,
}

/// Maintains the ConfigMap until the server ends.
pub(crate) async fn run(client: Client, trust: Option<Arc<ClusterTrust>>) {
    let (Some(trust), Some(config_maps)) = (trust, client.resource("", "configmaps")) else {
        return client.shutdown().closing().await;
    };
    let controller = Trust {
        client: client.clone(),
        config_maps,
        trust,
    };
    reconcile::run(client, controller).await;
}

struct Trust {
    client: Client,
    config_maps: Arc<Resource>,
    trust: Arc<ClusterTrust>,
}

impl Reconcile for Trust {
    /// There is only one ConfigMap.
    type Item = ();
    type Outcome = ();

    const NAME: &'static str = "cluster-authentication-trust-controller";
    const QUEUE: &'static str = "cluster_authentication_trust_controller";
    const PARALLEL: usize = 1;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        client.watch(&self.config_maps)
    }

    fn seen(&mut self, _object: &Object, _queue: &mut Queue<()>) {}

    fn all_seen(&mut self, queue: &mut Queue<()>) {
        queue.push(());
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<()>) {
        let object = change.current();
        if object.name() == NAME && object.namespace(&self.config_maps) == NAMESPACE {
            queue.push(());
        }
    }

    fn work(&mut self, (): &(), _queue: &mut Queue<()>) -> Option<Work<()>> {
        let there = self
            .client
            .get(&self.config_maps, NAMESPACE, NAME)
            .map(|object| object.tree());
        let (client, trust) = (self.client.clone(), Arc::clone(&self.trust));
        let config_maps = Arc::clone(&self.config_maps);
        Some(Box::pin(async move {
            let next = next(&trust, there.as_ref(), &client).map_err(unreadable)?;
            let Some(next) = next else { return Ok(()) };
            put(&client, &config_maps, there.is_none(), &next).await.map(drop)
        }))
    }

    fn finished(&mut self, (): &(), (): (), queue: &mut Queue<()>) {
        queue.push_at((), Instant::now() + PERIOD);
    }
}

fn unreadable(why: String) -> RequestError {
    RequestError {
        code: 500,
        reason: "InternalError".into(),
        message: format!("the ConfigMap {NAMESPACE}/{NAME} cannot be written: {why}"),
    }
}

/// Returns the new ConfigMap if the stored one differs.
fn next(trust: &ClusterTrust, there: Option<&Value>, client: &Client) -> Result<Option<Value>, String> {
    let read = |source: &PemSource| {
        let unreadable = |error: &dyn std::fmt::Display| format!("cannot read {source}: {error}");
        let text = source.read().map_err(|error| unreadable(&error))?;
        String::from_utf8(text.into_owned()).map_err(|error| unreadable(&error))
    };
    let own: Vec<String> = trust.client_authorities.iter().map(read).collect::<Result<_, _>>()?;
    let proxies = trust.proxy_authorities.as_ref().map(read).transpose()?;
    let published = |key: &str| there.and_then(|there| there.str_at(&["data", key])).unwrap_or_default();
    let bundle = |key: &str, own: &[String]| {
        let texts: Vec<&str> = [published(key)]
            .into_iter()
            .chain(own.iter().map(String::as_str))
            .collect();
        certificates::joined(&texts, client.time())
    };
    let mut data = Value::empty_map();
    let mut set = |key: &str, text: String| data.set_at(&[key], text.into());
    let clients = bundle("client-ca-file", &own)?;
    if !clients.is_empty() {
        set("client-ca-file", clients);
    }
    let proxies = bundle("requestheader-client-ca-file", proxies.as_slice())?;
    if !proxies.is_empty() {
        set("requestheader-client-ca-file", proxies);
        for (key, own) in [
            ("requestheader-username-headers", &trust.username_headers),
            ("requestheader-uid-headers", &trust.uid_headers),
            ("requestheader-group-headers", &trust.group_headers),
            ("requestheader-extra-headers-prefix", &trust.extra_header_prefixes),
            ("requestheader-allowed-names", &trust.allowed_names),
        ] {
            let names = joined(published(key), own)?;
            if key != "requestheader-uid-headers" || names != "[]" {
                set(key, names);
            }
        }
    }
    let before = there.and_then(|there| there.get("data"));
    if before.unwrap_or(&Value::empty_map()) == &data {
        return Ok(None);
    }
    let mut next = there
        .cloned()
        .unwrap_or_else(|| new_object("v1", "ConfigMap", NAMESPACE, NAME));
    next.set_at(&["data"], data);
    Ok(Some(next))
}

/// Returns the union of a JSON list of strings and `more`, as a JSON list.
fn joined(published: &str, more: &[String]) -> Result<String, String> {
    let mut all: Vec<Value> = match published {
        "" => Vec::new(),
        published => {
            let published = json::parse(published.as_bytes(), &Limits::REQUEST).map_err(|error| error.to_string())?;
            let list = published
                .as_list()
                .filter(|list| list.iter().all(|text| text.as_str().is_some()));
            list.ok_or("a list of texts is expected")?.to_vec()
        }
    };
    for text in more {
        let text = Value::from(text.as_str());
        if !all.contains(&text) {
            all.push(text);
        }
    }
    Ok(json::to_string(&all.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_other_servers_are_kept_without_duplicates() {
        let own = ["X-Remote-User".to_owned(), "X-Own".to_owned()];
        assert_eq!(joined("", &own).unwrap(), r#"["X-Remote-User","X-Own"]"#);
        assert_eq!(
            joined(r#"["X-Other","X-Own"]"#, &own).unwrap(),
            r#"["X-Other","X-Own","X-Remote-User"]"#
        );
        assert_eq!(joined("", &[]).unwrap(), "[]");
        assert!(joined("{}", &own).is_err() && joined("[1]", &own).is_err());
    }
}
