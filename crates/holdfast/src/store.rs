//! Opening the store: the embedded one, or etcd.

use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use arc_swap::ArcSwap;
use futures_util::future::try_join_all;
use holdfast_at_rest::encryption::Encryption;
use holdfast_kind_tables::apis::Apis;
use holdfast_resource::Registry;
use holdfast_server::metrics::EtcdCalls;
use holdfast_server::objects::{Objects, Snapshot, Store};
use holdfast_store::{Clock, CodecError, ENCRYPTED_WITHOUT_PROVIDER, Etcd, EtcdConfig, OpenError, Transformer};

use crate::egress::Egress;
use crate::encryption::{Decode, decode_stored};
use crate::files;
use crate::flags::Serve;

async fn open_etcd(config: EtcdConfig, registry: &Arc<ArcSwap<Registry>>) -> Result<Store> {
    let opened = Etcd::open(config, Objects::new(Arc::clone(registry))).await;
    let (state, engine) = opened.context("cannot open the store")?;
    Ok(Store::with_engine(state, Box::new(engine)))
}

/// etcd clusters below a store.
pub(crate) struct Clusters {
    /// The counters of their calls.
    pub(crate) calls: EtcdCalls,
    /// Index of the other cluster that holds each additional store.
    pub(crate) overrides: Vec<usize>,
}

/// An open store.
pub(crate) struct Opened {
    /// The store.
    pub(crate) store: Arc<Store>,
    /// etcd clusters below the store; `None` for an embedded one.
    pub(crate) clusters: Option<Clusters>,
    /// Encryption at rest, if it is configured.
    pub(crate) encryption: Option<Arc<Encryption>>,
    /// Function that decodes stored values that could not be decrypted when they were read.
    pub(crate) decode: Arc<Decode>,
}

/// Files of the embedded store. They contain all objects, Secrets included.
const STORE_FILES: [&str; 5] = ["store.db", "store.db-wal", "store.db-shm", "acknowledged", "lock"];

/// Opens the store. An embedded one uses `clock`. A store in memory begins with `first`, if it is set. etcd is reached
/// through the proxy of `egress`.
pub(crate) async fn open(
    flags: &Serve,
    registry: &Arc<ArcSwap<Registry>>,
    apis: &Apis,
    clock: Arc<dyn Clock>,
    first: Option<&Snapshot>,
    egress: Option<&Egress>,
) -> Result<Opened> {
    flags.storage.check()?;
    let encryption = flags.storage.encryption.open(&registry.load())?;
    if let Some(clusters) = flags.storage.etcd(registry, apis, encryption.as_ref(), egress)? {
        let codec = Arc::clone(&clusters.main.codec);
        let decode: Arc<Decode> = Arc::new(move |key, value| codec.decode(key, value.stored));
        let overrides = clusters.elsewhere.iter().map(|other| other.cluster).collect();
        let elsewhere = clusters
            .elsewhere
            .into_iter()
            .map(async |other| anyhow::Ok((other.prefix, open_etcd(other.config, registry).await?)));
        let (store, elsewhere) = tokio::try_join!(open_etcd(clusters.main, registry), try_join_all(elsewhere))?;
        let calls = clusters.calls;
        let store = Arc::new(store.with_overrides(elsewhere));
        let clusters = Some(Clusters { calls, overrides });
        return Ok(Opened {
            store,
            clusters,
            encryption,
            decode,
        });
    }
    if flags.in_memory {
        let (history, objects) = (flags.storage.history_limits(), Objects::new(Arc::clone(registry)));
        let store = match first {
            Some(snapshot) => Store::in_memory_from(snapshot, history, clock, objects),
            None => Store::in_memory(history, clock, objects),
        };
        return Ok(Opened {
            store: Arc::new(store),
            clusters: None,
            decode: Arc::new(|key, _| Err(CodecError::untransformable(key, ENCRYPTED_WITHOUT_PROVIDER))),
            encryption: None,
        });
    }
    let config = holdfast_store::Config {
        accept_data_loss: flags.accept_data_loss,
        sync: !flags.unsafe_no_fsync,
        history: flags.storage.history_limits(),
        clock,
        transformer: encryption.clone().map(|encryption| encryption as Arc<dyn Transformer>),
        ..holdfast_store::Config::new(&flags.data_dir)
    };
    let opened = Store::open(config, Objects::new(Arc::clone(registry)));
    let described = opened.map_err(|error| match error {
        OpenError::Damaged { .. } => anyhow!(
            "{error}. Nothing was changed: bring back a backup, or start with --accept-data-loss to go on with what can \
             still be read"
        ),
        other => other.into(),
    });
    let store = described.context("cannot open the store")?;
    for name in STORE_FILES {
        files::restrict(&flags.data_dir.join(name));
    }
    Ok(Opened {
        store: Arc::new(store),
        clusters: None,
        decode: match &encryption {
            Some(encryption) => decode_stored(encryption),
            None => Arc::new(|key, _| Err(CodecError::untransformable(key, ENCRYPTED_WITHOUT_PROVIDER))),
        },
        encryption,
    })
}
