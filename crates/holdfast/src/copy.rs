//! `holdfast copy`: all objects from one store to another, while no server has either of them.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use arc_swap::ArcSwap;
use bytes::Bytes;
use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use holdfast_at_rest::encryption::Encryption;
use holdfast_kind_tables::apis::Apis;
use holdfast_server::objects::{Entry, Objects, Snapshot, Store};
use holdfast_store::{
    Codec, CodecError, CommitError, ENCRYPTED_WITHOUT_PROVIDER, Etcd, Image, OpenError, Revision, StoredForm,
    TimeToLive, Transaction, Transformer as _, Value, image_of_snapshot, is_encrypted,
};
use holdfast_value::{Limits, json};
use parking_lot::Mutex;

use crate::flags::{LogFormat, ports};
use crate::progress::Progress;
use crate::storage::StorageFlags;
use crate::{compatible, logging};

/// Source and target of a copy.
#[derive(Debug, Args)]
pub(crate) struct CopyFlags {
    /// Data directory, or comma-separated URLs of the members of the etcd, to copy from
    #[arg(long, value_name = "DIR|URLS", value_parser = location)]
    from: StoreLocation,

    /// Data directory or etcd to copy to. It must be empty except for objects from an earlier attempt
    #[arg(long, value_name = "DIR|URLS", value_parser = location)]
    to: StoreLocation,

    /// Port range for Services with NodePort visibility, as in the flags of the servers of an etcd
    #[arg(long, value_name = "FROM-TO", default_value = "30000-32767", value_parser = ports)]
    service_node_port_range: RangeInclusive<u16>,

    /// File with the providers that decrypt what is copied, if it differs from --encryption-provider-config
    #[arg(long, value_name = "FILE")]
    from_encryption_provider_config: Option<PathBuf>,

    /// File with the providers that encrypt the copy, if it differs from --encryption-provider-config
    #[arg(long, value_name = "FILE")]
    to_encryption_provider_config: Option<PathBuf>,

    /// Connection to etcd
    #[command(flatten)]
    storage: StorageFlags,
}

impl CopyFlags {
    /// Returns the encryption of the source and of the target.
    fn encryption(&self) -> Result<[Option<Arc<Encryption>>; 2]> {
        let files = [
            &self.from_encryption_provider_config,
            &self.to_encryption_provider_config,
        ];
        let flags = files.map(|file| self.storage.encryption.with_file(file.as_ref()));
        if flags.iter().all(|flags| flags.encryption_provider_config.is_none()) {
            return Ok([None, None]);
        }
        let registry = holdfast_kinds::registry(&self.kinds()?).context("cannot read the built-in kinds")?;
        let [from, to] = flags.map(|flags| flags.open(&registry));
        Ok([from?, to?])
    }

    /// Returns the configuration of all kinds: all served objects are copied. Feature gates keep their defaults: an
    /// enabled gate adds defaults to objects.
    fn kinds(&self) -> Result<holdfast_kinds::Config> {
        Ok(holdfast_kinds::Config {
            node_ports: self.service_node_port_range.clone(),
            apis: Apis::set(&["api/all=true".to_owned()])?,
            ..holdfast_kinds::Config::default()
        })
    }
}

/// Location of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StoreLocation {
    Directory(PathBuf),
    Etcd(Vec<String>),
}

#[expect(clippy::unnecessary_wraps, reason = "what clap takes as a parser")]
fn location(text: &str) -> Result<StoreLocation, String> {
    let is_url = ["http://", "https://", "unix:", "unixs:"];
    Ok(match is_url.iter().any(|scheme| text.starts_with(scheme)) {
        true => StoreLocation::Etcd(text.split(',').map(str::to_owned).collect()),
        false => StoreLocation::Directory(text.into()),
    })
}

/// Key prefixes of entries that running servers store about themselves, and of entries that writing the objects
/// recreates.
const OF_SERVERS: [&str; 3] = [
    "/registry/masterleases/",
    "/registry/peerserverleases/",
    "/registry/ranges/",
];
/// Prefix of the objects that Services claim when they are written.
const CLAIMS: &str = "/registry/ipaddresses/";
/// The owner of a claim.
const CLAIMANTS: &str = "/registry/services/specs/";

/// Maximum number of objects in one transaction, and approximate maximum of bytes: the default limits of etcd.
const BATCH: usize = 128;
const BATCH_BYTES: usize = 1 << 20;
/// Maximum number of concurrent transactions.
const PARALLEL: usize = 4;

pub(crate) fn run(flags: &CopyFlags) -> Result<()> {
    let [from_encryption, to_encryption] = flags.encryption()?;
    if let (StoreLocation::Directory(from), StoreLocation::Directory(to)) = (&flags.from, &flags.to) {
        return between_directories(from, to, &Recoding::new(from_encryption, to_encryption));
    }
    ensure!(
        flags.storage.etcd_servers.is_empty(),
        "--from and --to say which etcd is meant, not --etcd-servers"
    );
    ensure!(
        flags.storage.etcd_servers_overrides.is_empty(),
        "one etcd is copied at a time: --etcd-servers-overrides has no meaning here"
    );
    // Logs while it waits for etcd.
    logging::start(LogFormat::Text, 0);
    flags.storage.check()?;
    compatible::report(flags.storage.unused());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(with_etcd(flags, Recoding::new(from_encryption, to_encryption)))
}

/// Change of the stored bytes between two stores.
struct Recoding {
    from: Option<Arc<Encryption>>,
    to: Option<Arc<Encryption>>,
}

impl Recoding {
    fn new(from: Option<Arc<Encryption>>, to: Option<Arc<Encryption>>) -> Self {
        Self { from, to }
    }

    /// Returns the plain bytes of a stored value.
    fn plain(&self, key: &[u8], stored: &[u8]) -> Result<Vec<u8>, CodecError> {
        let opened = match &self.from {
            Some(encryption) => encryption.transform_from_storage(key, stored)?,
            None if is_encrypted(stored) => {
                return Err(CodecError::untransformable(key, ENCRYPTED_WITHOUT_PROVIDER));
            }
            None => None,
        };
        Ok(opened.map_or_else(|| stored.to_vec(), |opened| opened.bytes))
    }

    /// Returns the bytes to store for plain ones, if they differ.
    fn sealed(&self, key: &[u8], plain: &[u8]) -> Result<Option<Vec<u8>>, CodecError> {
        let Some(encryption) = &self.to else { return Ok(None) };
        Ok(encryption.transform_to_storage(key, plain)?.map(|sealed| sealed.bytes))
    }

    /// Returns the decryption of the target.
    fn of_target(&self) -> Self {
        Self::new(self.to.clone(), None)
    }

    /// Returns true if both stores hold the same bytes.
    fn is_none(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }
}

async fn with_etcd(flags: &CopyFlags, recoding: Recoding) -> Result<()> {
    match (&flags.from, &flags.to) {
        (StoreLocation::Directory(from), StoreLocation::Directory(to)) => between_directories(from, to, &recoding),
        (StoreLocation::Directory(from), StoreLocation::Etcd(to)) => {
            // The image holds the lock of the directory.
            let image = Image::of_idle_directory(from)?;
            to_etcd(&of_image(&image, &recoding)?, flags, to, &recoding).await
        }
        (StoreLocation::Etcd(from), StoreLocation::Directory(to)) => {
            let opened = open(flags, from, recoding.from.as_ref()).await?;
            to_directory(&opened, to, &recoding)
        }
        (StoreLocation::Etcd(from), StoreLocation::Etcd(to)) => {
            let opened = open(flags, from, recoding.from.as_ref()).await?;
            let objects = of_store(&opened)?;
            to_etcd(&objects, flags, to, &recoding).await
        }
    }
}

/// An etcd that is open.
struct Opened {
    store: Store,
    codec: Arc<UpdateRecorder>,
}

/// Codec that records the objects that etcd stores in the form of updated objects, with the fields that defaulting adds
/// to a new object on every read. Revisions do not show this if a mirror or a restore wrote the objects.
struct UpdateRecorder {
    codec: Arc<dyn Codec>,
    updated: Mutex<HashSet<Vec<u8>>>,
}

impl UpdateRecorder {
    fn new(codec: Arc<dyn Codec>) -> Self {
        let updated = Mutex::default();
        Self { codec, updated }
    }

    /// Returns true if the stored bytes are those of an updated object.
    fn is_updated_form(&self, key: &[u8], value: &Value, stored: &[u8]) -> bool {
        let is_encoded = |old: Option<&Bytes>| self.codec.encode(key, value, old).is_ok_and(|bytes| bytes == stored);
        !is_encoded(None) && is_encoded(Some(&Bytes::copy_from_slice(stored)))
    }

    /// Returns true if an entry, or the object that was read for it, was updated after its creation.
    fn is_updated(&self, entry: &Entry) -> bool {
        is_updated(entry) || self.has(entry.key())
    }

    fn has(&self, key: &[u8]) -> bool {
        self.updated.lock().contains(key)
    }
}

impl Codec for UpdateRecorder {
    fn encode(&self, key: &[u8], value: &Value, old: Option<&Bytes>) -> Result<Bytes, CodecError> {
        self.codec.encode(key, value, old)
    }

    fn encode_in_form(
        &self,
        key: &[u8],
        value: &Value,
        old: Option<&Bytes>,
    ) -> Result<(Bytes, StoredForm), CodecError> {
        self.codec.encode_in_form(key, value, old)
    }

    fn form_of(&self, key: &[u8]) -> StoredForm {
        self.codec.form_of(key)
    }

    fn decode(&self, key: &[u8], stored: &[u8]) -> Result<Value, CodecError> {
        let value = self.codec.decode(key, stored)?;
        let is_updated = self.is_updated_form(key, &value, stored);
        let mut updated = self.updated.lock();
        match is_updated {
            true => updated.insert(key.to_vec()),
            false => updated.remove(key),
        };
        drop(updated);
        Ok(value)
    }

    fn time_to_live(&self, key: &[u8]) -> TimeToLive {
        self.codec.time_to_live(key)
    }
}

async fn open(flags: &CopyFlags, servers: &[String], encryption: Option<&Arc<Encryption>>) -> Result<Opened> {
    let kinds = flags.kinds()?;
    let built_in = holdfast_kinds::registry(&kinds).context("cannot read the built-in kinds")?;
    let registry = Arc::new(ArcSwap::from_pointee(built_in));
    let storage = StorageFlags {
        etcd_servers: servers.to_vec(),
        // The server that serves it compacts it.
        etcd_compaction_interval: std::time::Duration::ZERO,
        ..flags.storage.clone()
    };
    let mut config = storage
        .etcd(&registry, &kinds.apis, encryption, None)?
        .context("no etcd is named")?
        .main;
    let codec = Arc::new(UpdateRecorder::new(Arc::clone(&config.codec)));
    config.codec = Arc::clone(&codec) as Arc<dyn Codec>;
    let (state, engine) = Etcd::open(config, Objects::new(registry)).await?;
    let store = Store::with_engine(state, Box::new(engine));
    Ok(Opened { store, codec })
}

fn between_directories(from: &Path, to: &Path, recoding: &Recoding) -> Result<()> {
    let image = Image::of_idle_directory(from)?;
    if !recoding.is_none() {
        return recoded(&image, to, recoding);
    }
    let summary = image.summary();
    let mut progress = Progress::new("copied", summary.entries);
    let copied = image.restore(to, summary.revision, |done| progress.reached(done));
    match copied {
        Ok(_) => progress.finish(&format!(" to {}", to.display())),
        // An earlier attempt may have completed although its response arrived too late.
        Err(error @ OpenError::Occupied { .. }) => match Image::of_idle_directory(to) {
            Ok(there) if there.equals(&image)? => progress.finish(&format!(", which were in {} already", to.display())),
            _ => bail!(error),
        },
        Err(error) => bail!(error),
    }
    Ok(())
}

/// Copies the entries with other stored bytes. An earlier attempt must not have completed, because the same value is
/// never encrypted to the same bytes again.
fn recoded(image: &Image, to: &Path, recoding: &Recoding) -> Result<()> {
    let summary = image.summary();
    let mut progress = Progress::new("copied", summary.entries);
    let recode = |key: &[u8], stored: &[u8]| {
        let plain = recoding.plain(key, stored).map_err(|error| error.why)?;
        let sealed = recoding.sealed(key, &plain).map_err(|error| error.why)?;
        Ok(Some(sealed.unwrap_or(plain)))
    };
    image.restore_recoded(to, summary.revision, &recode, |done| progress.reached(done))?;
    progress.finish(&format!(" to {}", to.display()));
    Ok(())
}

/// An object to copy.
#[derive(PartialEq, Eq)]
struct CopiedObject {
    /// The object, without a revision.
    value: Value,
    /// True if the object was updated after its creation. etcd then holds fields that defaulting adds to a new object
    /// on every read.
    is_updated: bool,
}

/// Objects to copy, by their keys.
type Copied = HashMap<String, CopiedObject>;

/// Returns true if a key is that of an object and not of an entry that servers store about themselves.
fn is_of_clients(key: &str) -> bool {
    !OF_SERVERS.iter().any(|prefix| key.starts_with(prefix))
}

fn of_image(image: &Image, recoding: &Recoding) -> Result<Copied> {
    let mut objects = Copied::new();
    image.entries(|entry| {
        let key = std::str::from_utf8(entry.key).context("a key is no text; nothing was written")?;
        if is_of_clients(key) {
            let plain = recoding.plain(entry.key, entry.value);
            let bytes = plain.map_err(|error| anyhow!("{}; nothing was written", error.why))?;
            let value = match entry.revision_at {
                Some(at) => Value::object(bytes, at),
                None => Value::plain(bytes),
            };
            check_readable(key, value.bytes())?;
            let is_updated = entry.create_revision != entry.mod_revision;
            objects.insert(key.to_owned(), CopiedObject { value, is_updated });
        }
        anyhow::Ok(())
    })?;
    Ok(objects)
}

/// Returns the objects of an etcd that are to be copied. An unreadable object is an error and not skipped.
fn of_store(opened: &Opened) -> Result<Copied> {
    let mut objects = Copied::new();
    for entry in opened.store.snapshot().range(b"").filter(|entry| is_object(entry)) {
        let key = std::str::from_utf8(entry.key()).context("a key is no text; nothing was written")?;
        check_readable(key, entry.bytes())?;
        let object = CopiedObject {
            value: entry.value(),
            is_updated: opened.codec.is_updated(entry),
        };
        objects.insert(key.to_owned(), object);
    }
    Ok(objects)
}

fn is_updated(entry: &Entry) -> bool {
    entry.create_revision() != entry.mod_revision()
}

fn check_readable(key: &str, bytes: &[u8]) -> Result<()> {
    if let Some(why) = CodecError::of_untransformable(bytes) {
        bail!("{why}; nothing was written");
    }
    let read = json::parse(bytes, &Limits::TRUSTED);
    read.with_context(|| format!("{key} cannot be read; nothing was written"))?;
    Ok(())
}

fn is_object(entry: &Entry) -> bool {
    std::str::from_utf8(entry.key()).map_or(true, is_of_clients)
}

fn to_directory(opened: &Opened, to: &Path, recoding: &Recoding) -> Result<()> {
    let (snapshot, objects) = (opened.store.snapshot(), of_store(opened)?);
    let mut progress = Progress::new("copied", objects.len() as u64);
    let kept = |key: &[u8]| {
        objects
            .get(std::str::from_utf8(key).ok()?)
            .map(|object| object.is_updated)
    };
    let recode = |key: &[u8], plain: &[u8]| recoding.sealed(key, plain).map_err(|error| error.why);
    match image_of_snapshot(&snapshot, kept, to, &recode, |done| progress.reached(done)) {
        Ok(_) => progress.finish(&format!(" to {}", to.display())),
        Err(error @ OpenError::Occupied { .. }) => match Image::of_idle_directory(to) {
            Ok(there) if of_image(&there, &recoding.of_target())? == objects => {
                progress.finish(&format!(", which were in {} already", to.display()));
            }
            _ => bail!(error),
        },
        Err(error) => bail!(error),
    }
    Ok(())
}

async fn to_etcd(objects: &Copied, flags: &CopyFlags, servers: &[String], recoding: &Recoding) -> Result<()> {
    let Opened { store, codec } = open(flags, servers, recoding.to.as_ref()).await?;
    check_form(objects, &*codec)?;
    check_target(objects, &store.snapshot())?;
    let mut progress = Progress::new("copied", objects.len() as u64);
    let mut done = 0;
    // Objects that claim others are written last and one by one, so that the claimed objects exist unchanged.
    for (claims, most, parallel) in [(false, BATCH, PARALLEL), (true, 1, 1)] {
        let part = objects.iter().filter(|(key, _)| key.starts_with(CLAIMANTS) == claims);
        let pending = stream::iter(batches(part, most)).map(|batch| write(&store, batch));
        let mut writes = pending.buffer_unordered(parallel);
        while let Some(written) = writes.try_next().await? {
            done += written;
            progress.reached(done);
        }
    }
    store.close().await?;
    // This store returns its own writes without reading them from etcd; a second one reads what etcd has stored.
    let there = open(flags, servers, recoding.to.as_ref()).await?.store;
    let snapshot = there.snapshot();
    for (key, object) in objects {
        let found = snapshot.get(key.as_bytes());
        let entry = found.with_context(|| format!("{key} is missing in etcd; run the copy again"))?;
        ensure!(
            is_same(&entry.value(), &object.value),
            "{key} is not in etcd what it was"
        );
    }
    there.close().await?;
    progress.finish(" to etcd, and read them back");
    Ok(())
}

/// Rejects objects that would be read from etcd in a different form.
fn check_form(objects: &Copied, codec: &dyn Codec) -> Result<()> {
    for (key, object) in objects {
        let kept = codec.encode(key.as_bytes(), &object.value, None);
        let decoded = kept.and_then(|kept| codec.decode(key.as_bytes(), &kept));
        let back = decoded.context("an object has no form in etcd; nothing was written")?;
        ensure!(
            is_same(&back, &object.value),
            "{key} would not be in etcd what it is; nothing was written"
        );
    }
    Ok(())
}

/// Returns true if two values are the same object.
fn is_same(one: &Value, other: &Value) -> bool {
    let tree = |value: &Value| json::parse(value.bytes(), &Limits::TRUSTED).ok();
    one == other || tree(one).is_some_and(|one| tree(other) == Some(one))
}

/// Rejects a target store that holds any other object.
fn check_target(objects: &Copied, there: &Snapshot) -> Result<()> {
    for entry in there.range(b"") {
        let key = String::from_utf8_lossy(entry.key());
        match objects.get(&*key) {
            Some(object) => ensure!(
                is_same(&entry.value(), &object.value),
                "etcd holds another {key}; nothing was written"
            ),
            // An earlier attempt created these, or nothing refers to them.
            None => ensure!(
                key.starts_with(CLAIMS) || !is_of_clients(&key),
                "etcd holds {key}, which is not copied; nothing was written"
            ),
        }
    }
    Ok(())
}

/// Objects that are written together.
type Batch<'o> = Vec<(&'o str, &'o CopiedObject)>;

/// Splits objects into batches of at most `most` objects, fewer if they are large.
fn batches<'o>(objects: impl Iterator<Item = (&'o String, &'o CopiedObject)>, most: usize) -> Vec<Batch<'o>> {
    let (mut batches, mut batch, mut bytes) = (Vec::new(), Batch::new(), 0);
    for (key, object) in objects {
        let size = key.len() + object.value.bytes().len();
        if batch.len() == most || (bytes + size > BATCH_BYTES && !batch.is_empty()) {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += size;
        batch.push((key, object));
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}

/// An object to write, at the revision of the one that it replaces; 0 creates it.
struct Put<'o> {
    key: &'o str,
    value: &'o Value,
    expected: Revision,
}

impl<'o> Put<'o> {
    fn new(key: &'o str, object: &'o CopiedObject, expected: Revision) -> Self {
        Self {
            key,
            value: &object.value,
            expected,
        }
    }
}

/// Writes the missing objects, and writes updated ones a second time. Returns the number of objects that exist now.
async fn write(store: &Store, batch: Batch<'_>) -> Result<u64> {
    let there = store.snapshot();
    let missing = batch.iter().filter(|(key, _)| there.get(key.as_bytes()).is_none());
    put_all(store, missing.map(|(key, object)| Put::new(key, object, 0)).collect()).await?;
    let there = store.snapshot();
    let created_only = batch.iter().filter_map(|(key, object)| {
        let entry = there.get(key.as_bytes())?;
        let is_due = object.is_updated && !is_updated(entry);
        is_due.then(|| Put::new(key, object, entry.mod_revision()))
    });
    put_all(store, created_only.collect()).await?;
    Ok(batch.len() as u64)
}

/// Writes the objects in one transaction, or one by one if etcd rejects the transaction.
async fn put_all(store: &Store, puts: Vec<Put<'_>>) -> Result<()> {
    match commit(store, &puts).await {
        // The limits of an etcd may be lower.
        Err(CommitError::Refused(_)) if puts.len() > 1 => {
            for put in &puts {
                explained(commit(store, std::slice::from_ref(put)).await, put.key)?;
            }
            Ok(())
        }
        outcome => explained(outcome, puts.first().map_or("", |put| put.key)),
    }
}

async fn commit(store: &Store, puts: &[Put<'_>]) -> Result<(), CommitError> {
    if puts.is_empty() {
        return Ok(());
    }
    let add = |transaction: Transaction<Objects>, put: &Put<'_>| {
        transaction.guard(put.key, put.expected).put(put.key, put.value.clone())
    };
    let transaction = puts.iter().fold(Transaction::new(), add);
    store.commit(transaction).await.map(drop)
}

/// Adds a message to the error of a transaction that began with `key`.
fn explained(outcome: Result<(), CommitError>, key: &str) -> Result<()> {
    match outcome {
        Ok(()) => Ok(()),
        Err(CommitError::GuardFailed { key: failed, .. }) => {
            bail!("cannot write {key}: another client wrote {failed}")
        }
        Err(error) => Err(error).with_context(|| format!("cannot write {key}; run the copy again")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_directory_or_the_members_of_an_etcd() {
        assert_eq!(location("./data"), Ok(StoreLocation::Directory("./data".into())));
        let members = ["http://a:1", "http://b:1"].map(str::to_owned).to_vec();
        assert_eq!(location("http://a:1,http://b:1"), Ok(StoreLocation::Etcd(members)));
    }

    #[test]
    fn many_small_objects_or_few_large_ones_are_written_together() {
        let sizes = |each: usize, number: usize| -> Vec<usize> {
            let objects: Copied = (0..number)
                .map(|at| {
                    let object = CopiedObject {
                        value: Value::plain(vec![b'x'; each]),
                        is_updated: false,
                    };
                    (format!("/registry/a/{at:04}"), object)
                })
                .collect();
            batches(objects.iter(), BATCH).iter().map(Vec::len).collect()
        };
        assert_eq!(sizes(10, 300), [128, 128, 44]);
        assert_eq!(sizes(400_000, 5), [2, 2, 1]);
        assert_eq!(sizes(2_000_000, 2), [1, 1]);
        assert!(sizes(1, 0).is_empty());
    }
}
