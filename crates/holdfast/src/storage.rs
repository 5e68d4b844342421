//! kube-apiserver's flags for storage. With `--etcd-servers` objects are stored in etcd, otherwise in the data
//! directory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use arc_swap::ArcSwap;
use clap::{ArgAction, Args};
use holdfast_at_rest::encryption::{EncryptedCodec, Encryption};
use holdfast_at_rest::{OlderKind, StorageCodec};
use holdfast_gotext::duration;
use holdfast_kind_tables::apis::Apis;
use holdfast_resource::{Encoding, Registry};
use holdfast_schema::GroupResource;
use holdfast_server::metrics::EtcdCalls;
use holdfast_store::{Codec, Connection, EtcdConfig, HistoryLimits, Key};

use crate::egress::{Egress, EtcdDialer};
use crate::encryption::EncryptionFlags;
use crate::files;

/// The media types that objects may be kept in.
const MEDIA_TYPES: [&str; 2] = [JSON, PROTOBUF];
const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Flags about storage.
#[derive(Clone, Debug, Args)]
pub(crate) struct StorageFlags {
    /// URLs of the members of the etcd in which to store objects instead of the data directory, such as
    /// http://127.0.0.1:2379 or unix:///run/etcd.sock
    #[arg(long, value_name = "URLS", value_delimiter = ',')]
    pub(crate) etcd_servers: Vec<String>,

    /// Certificate authorities to verify etcd's certificates (PEM). The default is the authorities of the system
    #[arg(long, value_name = "FILE")]
    pub(crate) etcd_cafile: Option<PathBuf>,

    /// Client certificate for connections to etcd (PEM)
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub(crate) etcd_certfile: Option<PathBuf>,

    /// Private key of --etcd-certfile (PEM)
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub(crate) etcd_keyfile: Option<PathBuf>,

    /// Prefix of all keys in etcd
    #[arg(long, value_name = "PREFIX", default_value = "/registry")]
    pub(crate) etcd_prefix: String,

    /// Interval of compaction requests to etcd. 0 disables compaction by this server
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse_from_zero)]
    pub(crate) etcd_compaction_interval: Duration,

    /// Accepted for compatibility with kube-apiserver; has no effect. Objects are counted whenever metrics are read
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_from_zero)]
    pub(crate) etcd_count_metric_poll_period: Option<Duration>,

    /// Interval of requests to etcd for the size of its database; 0 disables them
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse_from_zero)]
    pub(crate) etcd_db_metric_poll_interval: Duration,

    /// Timeout of the etcd health check
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::parse_from_zero)]
    pub(crate) etcd_healthcheck_timeout: Duration,

    /// Timeout of the etcd readiness check
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::parse_from_zero)]
    pub(crate) etcd_readycheck_timeout: Duration,

    /// Other etcd servers for some built-in resources, as group/resource#url;url. Their objects have separate resource
    /// versions
    #[arg(long, value_name = "OVERRIDES", value_delimiter = ',')]
    pub(crate) etcd_servers_overrides: Vec<String>,

    /// Time to retain events
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse_from_zero)]
    pub(crate) event_ttl: Duration,

    /// Time for which earlier versions of objects remain readable: by their resource version, by watches, and in the history
    /// of an object. At least five minutes. The server keeps them in memory
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse_from_zero)]
    pub(crate) history_retention: Duration,

    /// Approximate size of the earlier versions in bytes, beyond which the oldest are dropped. At least 128 MiB
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) history_retention_bytes: usize,

    /// Time in seconds for which new events reuse an etcd lease
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) lease_reuse_duration_seconds: u32,

    /// Media type of built-in objects in etcd
    #[arg(long, value_name = "TYPE", default_value = PROTOBUF)]
    pub(crate) storage_media_type: String,

    /// Storage backend. Only etcd3 is accepted
    #[arg(long, value_name = "NAME")]
    pub(crate) storage_backend: Option<String>,

    /// Accepted for compatibility with kube-apiserver; has no effect. Reads are always served from memory
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true",
          require_equals = true)]
    pub(crate) watch_cache: Option<bool>,

    /// Accepted for compatibility with kube-apiserver; has no effect. The length of the watch history is a period of
    /// time
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    pub(crate) watch_cache_sizes: Vec<String>,

    /// Accepted for compatibility with kube-apiserver; has no effect
    #[arg(long, value_name = "SIZE")]
    pub(crate) default_watch_cache_size: Option<u32>,

    /// Number of objects that a DeleteCollection request deletes concurrently in etcd
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) delete_collection_workers: usize,

    /// Accepted for compatibility with kube-apiserver; has no effect. --controllers enables the garbage collector
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true",
          require_equals = true)]
    pub(crate) enable_garbage_collector: Option<bool>,

    /// Encryption at rest
    #[command(flatten)]
    pub(crate) encryption: EncryptionFlags,
}

impl StorageFlags {
    /// Rejects values that kube-apiserver rejects, and values whose meaning there has no counterpart here.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(backend) = self
            .storage_backend
            .as_deref()
            .filter(|name| !["", "etcd3"].contains(name))
        {
            bail!(
                "--storage-backend {backend:?} invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'"
            );
        }
        let media_type = self.storage_media_type.as_str();
        if !MEDIA_TYPES.contains(&media_type) {
            bail!(
                "--storage-media-type {media_type:?} invalid, allowed values: {}",
                MEDIA_TYPES.join(", ")
            );
        }
        self.encryption.check()?;
        if self.etcd_servers.is_empty() && !self.etcd_servers_overrides.is_empty() {
            bail!("--etcd-servers-overrides needs --etcd-servers");
        }
        for entry in &self.etcd_servers_overrides {
            Override::parse(entry)?;
        }
        for entry in &self.watch_cache_sizes {
            check_cache_size(entry)?;
        }
        Ok(())
    }

    /// Returns the bounds of the history.
    pub(crate) fn history_limits(&self) -> HistoryLimits {
        let least = HistoryLimits::default();
        HistoryLimits {
            age: self.history_retention.max(least.age),
            bytes: self.history_retention_bytes.max(least.bytes),
        }
    }

    /// Returns the names of the set flags that have no effect.
    pub(crate) fn unused(&self) -> Vec<&'static str> {
        let chosen = [
            (
                self.etcd_count_metric_poll_period.is_some(),
                "etcd-count-metric-poll-period",
            ),
            (self.watch_cache.is_some(), "watch-cache"),
            (!self.watch_cache_sizes.is_empty(), "watch-cache-sizes"),
            (self.default_watch_cache_size.is_some(), "default-watch-cache-size"),
            (self.enable_garbage_collector.is_some(), "enable-garbage-collector"),
        ];
        chosen
            .iter()
            .filter(|(chosen, _)| *chosen)
            .map(|(_, name)| *name)
            .collect()
    }

    /// Returns the storage codec for the objects of the resources of `registry`, which are built in.
    fn kept(&self, registry: Registry, apis: &Apis) -> Result<StorageCodec> {
        let types = holdfast_kind_tables::types_at_rest(apis).context("cannot read the table of types")?;
        let older = holdfast_kind_tables::older_kinds().map(|(api_version, kind, like)| OlderKind {
            api_version,
            kind,
            like,
        });
        let encoding = match self.storage_media_type.as_str() {
            JSON => Encoding::Json,
            _ => Encoding::Protobuf,
        };
        Ok(StorageCodec::new(registry, Arc::new(types), older).with_encoding(encoding))
    }

    /// Returns the configurations of etcd for objects of `registry` and of resources that CRDs add to it, and the
    /// counters of its calls. Returns `None` if objects are stored in the data directory.
    pub(crate) fn etcd(
        &self,
        registry: &Arc<ArcSwap<Registry>>,
        apis: &Apis,
        encryption: Option<&Arc<Encryption>>,
        egress: Option<&Egress>,
    ) -> Result<Option<Clusters>> {
        if self.etcd_servers.is_empty() {
            return Ok(None);
        }
        let identity = match (&self.etcd_certfile, &self.etcd_keyfile) {
            (Some(certificate), Some(key)) => Some((files::read(certificate)?, files::read(key)?)),
            _ => None,
        };
        let connection = Connection {
            servers: self.etcd_servers.clone(),
            authorities: self.etcd_cafile.as_deref().map(files::read).transpose()?,
            identity,
            dialer: EtcdDialer::for_egress(egress),
        };
        let calls = EtcdCalls::new(Arc::clone(registry)).context("cannot set up metrics")?;
        let registry = Registry::clone(&registry.load());
        let overrides = self.overrides(&registry)?;
        let plain = Arc::new(self.kept(registry, apis)?);
        let codec: Arc<dyn Codec> = match encryption {
            Some(encryption) => Arc::new(EncryptedCodec::new(plain, Arc::clone(encryption), &self.etcd_prefix)),
            None => plain,
        };
        let config = |connection, cluster| EtcdConfig {
            prefix: self.etcd_prefix.clone(),
            compaction_interval: self.etcd_compaction_interval,
            history: self.history_limits(),
            life: self.event_ttl,
            lease_reuse: Duration::from_secs(self.lease_reuse_duration_seconds.into()),
            health_timeout: self.etcd_healthcheck_timeout,
            readiness_timeout: self.etcd_readycheck_timeout,
            size_interval: self.etcd_db_metric_poll_interval,
            observer: Box::new(calls.of_cluster(cluster)),
            ..EtcdConfig::new(connection, Arc::clone(&codec))
        };
        let main = EtcdConfig {
            without: overrides.iter().map(|other| other.prefix.clone()).collect(),
            ..config(connection.clone(), 0)
        };
        let elsewhere = overrides.into_iter().map(|other| {
            let connection = Connection {
                servers: other.servers,
                ..connection.clone()
            };
            let config = EtcdConfig {
                only: Some(other.prefix.clone()),
                ..config(connection, other.cluster + 1)
            };
            Elsewhere {
                prefix: other.prefix,
                cluster: other.cluster,
                config,
            }
        });
        let elsewhere = elsewhere.collect();
        Ok(Some(Clusters { main, elsewhere, calls }))
    }

    /// Returns the stores in other etcd clusters. Resources that are not built in stay in the main one, as in the
    /// reference.
    fn overrides(&self, registry: &Registry) -> Result<Vec<Overridden>> {
        let sorted = |servers: &[String]| {
            let mut servers = servers.to_vec();
            servers.sort_unstable();
            servers
        };
        let own = sorted(&self.etcd_servers);
        let (mut overrides, mut clusters) = (Vec::<Overridden>::new(), Vec::new());
        for entry in &self.etcd_servers_overrides {
            let Override { resource, servers } = Override::parse(entry)?;
            let storage = registry.resource(&resource).and_then(|found| found.storage.as_ref());
            let Some(storage) = storage else {
                tracing::warn!(%resource, "--etcd-servers-overrides names no built-in resource");
                continue;
            };
            let prefix = Key::from(storage.prefix.as_str());
            // The last entry applies.
            overrides.retain(|known| known.prefix != prefix);
            let of_cluster = sorted(&servers);
            if of_cluster == own {
                continue;
            }
            let cluster = clusters
                .iter()
                .position(|known| *known == of_cluster)
                .unwrap_or_else(|| {
                    clusters.push(of_cluster);
                    clusters.len() - 1
                });
            overrides.push(Overridden {
                prefix,
                servers,
                cluster,
            });
        }
        Ok(overrides)
    }
}

/// etcd clusters of the objects.
pub(crate) struct Clusters {
    /// Configuration of the cluster of all other objects.
    pub(crate) main: EtcdConfig,
    pub(crate) elsewhere: Vec<Elsewhere>,
    pub(crate) calls: EtcdCalls,
}

/// Another etcd for the objects of one resource.
pub(crate) struct Elsewhere {
    /// Prefix of their keys.
    pub(crate) prefix: Key,
    /// Index of their cluster in the other clusters.
    pub(crate) cluster: usize,
    pub(crate) config: EtcdConfig,
}

/// Resource whose objects are in another etcd.
struct Overridden {
    /// Prefix of their keys.
    prefix: Key,
    servers: Vec<String>,
    /// Index of their cluster in the other clusters.
    cluster: usize,
}

/// Entry of `--etcd-servers-overrides`.
struct Override {
    resource: GroupResource,
    servers: Vec<String>,
}

impl Override {
    fn parse(entry: &str) -> Result<Self> {
        let read = || {
            let (resource, servers) = entry.split_once('#')?;
            let (group, resource) = resource.split_once('/')?;
            let servers: Vec<String> = servers.split(';').map(str::to_owned).collect();
            let is_whole = !servers.iter().any(|server| server.is_empty() || server.contains('#'));
            (is_whole && !resource.contains('/')).then(|| Self {
                resource: GroupResource {
                    group: group.into(),
                    resource: resource.into(),
                },
                servers,
            })
        };
        read().context(
            "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, semicolon separated",
        )
    }
}

/// Rejects text that does not have the form `resource[.group]#size`.
fn check_cache_size(entry: &str) -> Result<()> {
    let Some((_, size)) = entry.split_once('#') else {
        bail!("--watch-cache-sizes invalid: invalid value of watch cache size: {entry}");
    };
    match size.parse::<i64>() {
        Ok(0..) => Ok(()),
        Ok(_) => bail!("--watch-cache-sizes invalid: watch cache size cannot be negative: {entry}"),
        Err(_) => bail!("--watch-cache-sizes invalid: invalid size of watch cache size: {entry}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use std::sync::Arc;

    use arc_swap::ArcSwap;
    use clap::Parser as _;
    use holdfast_kind_tables::apis::Apis;

    use crate::flags::Arguments;

    fn checked(flags: &[&str]) -> Result<(), String> {
        let arguments = Arguments::try_parse_from(["holdfast"].iter().chain(flags));
        let flags = arguments.map_err(|error| error.to_string())?.serve.storage;
        let registry = Arc::default();
        flags
            .check()
            .and_then(|()| flags.etcd(&registry, &Apis::default(), None, None).map(drop))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn flags_of_kube_apiserver_are_taken() {
        for flags in [
            &[][..],
            &[
                "--storage-backend=etcd3",
                "--storage-media-type=application/vnd.kubernetes.protobuf",
            ],
            &[
                "--etcd-servers=http://a:1,http://b:1",
                "--etcd-servers-overrides=/events#http://b:1;http://a:1",
            ],
            &[
                "--watch-cache=false",
                "--watch-cache-sizes=pods#5,nodes#0",
                "--event-ttl=30m",
                "--etcd-compaction-interval=0",
            ],
        ] {
            assert_eq!(checked(flags), Ok(()), "{flags:?}");
        }
    }

    #[test]
    fn values_without_sense_end_the_start() {
        for flag in [
            "--storage-backend=etcd2",
            "--storage-media-type=text/plain",
            "--etcd-servers-overrides=events",
            "--etcd-servers-overrides=/events#http://c:1;",
            "--etcd-servers-overrides=a/b/c#http://c:1",
            "--etcd-servers-overrides=/events#http://c:1#http://d:1",
            "--watch-cache-sizes=pods",
            "--watch-cache-sizes=pods#-1",
            "--event-ttl=soon",
            "--etcd-certfile=a",
        ] {
            assert!(checked(&["--etcd-servers=http://a:1", flag]).is_err(), "{flag}");
        }
        assert!(checked(&["--etcd-servers-overrides=/events#http://c:1"]).is_err());
        assert!(checked(&["--etcd-servers=http://a:1", "--etcd-cafile=/nowhere/ca.pem"]).is_err());
    }

    #[test]
    fn resources_are_sent_to_other_servers() {
        let flags = "/events#http://c:1;http://b:1,apps/deployments#http://b:1;http://c:1,/pods#http://a:1,x.io/none#http://c:1";
        let flag = format!("--etcd-servers-overrides={flags}");
        let arguments = Arguments::try_parse_from(["holdfast", "--etcd-servers=http://a:1", &flag]).unwrap();
        let built_in = holdfast_kinds::registry(&holdfast_kinds::Config::default()).unwrap();
        let registry = Arc::new(ArcSwap::from_pointee(built_in));
        let clusters = arguments
            .serve
            .storage
            .etcd(&registry, &Apis::default(), None, None)
            .unwrap()
            .unwrap();
        let keys: Vec<_> = clusters
            .elsewhere
            .iter()
            .map(|other| (other.prefix.to_string(), other.cluster))
            .collect();
        assert_eq!(
            keys,
            [
                ("/registry/events/".to_owned(), 0),
                ("/registry/deployments/".to_owned(), 0)
            ]
        );
        assert_eq!(clusters.main.without.len(), 2);
    }
}
