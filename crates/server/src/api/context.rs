//! The state that the handlers of all requests share. All of it is passed as arguments; nothing is global.

use std::sync::Arc;
use std::time::Duration;

use holdfast_admission::AdmissionChain;
use holdfast_proto::Messages;
use holdfast_resource::Registry;
use holdfast_resource::access::TokenIssuer;
use tokio::sync::Semaphore;

use crate::http::options::ListRules;
use crate::nodes::NodeConnections;
use crate::objects::crd_registry::CrdRegistry;
use crate::objects::{EventCache, Trees};
pub use crate::representation::Shared;
use crate::runtime::background::Background;
use crate::runtime::shutdown::Shutdown;
use crate::webhooks::Webhooks;
use crate::write::{FieldManagers, Fingerprints, SizeLimit, Turns};
use crate::{read, representation, write};

/// The parts from which a server is built.
pub struct Parts {
    /// The state that all layers share.
    pub shared: Shared,
    /// The field managers and the types of the kinds.
    pub field_managers: FieldManagers,
    /// The admission plugins.
    pub admission: AdmissionChain,
    /// The admission webhooks and their client.
    pub webhooks: Webhooks,
    /// The connections to kubelets and pods.
    pub nodes: NodeConnections,
    /// The issuer of service account tokens.
    pub issuer: Arc<dyn TokenIssuer>,
    /// The shutdown phase of the server.
    pub shutdown: Shutdown,
    /// The tasks that run for as long as the server serves.
    pub background: Background,
    /// The configuration at start.
    pub config: Config,
}

/// The state that the handlers of all requests share: the contexts of reads, writes and answers, built once.
pub struct Context {
    /// The state that all layers share.
    pub shared: Shared,
    /// The context of reads.
    pub read: Arc<read::Context>,
    /// The context of writes.
    pub write: Arc<write::Context>,
    /// The context of the representation of objects.
    pub representation: Arc<representation::Context>,
    /// The connections to kubelets and pods.
    pub nodes: NodeConnections,
    /// The progress of the served resources in following the CRDs.
    pub crds: Arc<CrdRegistry>,
    /// The shutdown phase of the server.
    pub shutdown: Shutdown,
    /// The tasks that run for as long as the server serves.
    pub background: Background,
    /// Permits of the clients that watch diffs.
    pub diff_watches: Arc<Semaphore>,
    /// The configuration at start.
    pub config: Config,
}

/// Maximum number of clients that watch diffs at a time.
const MAX_DIFF_WATCHES: usize = 64;

impl Context {
    /// Builds the context from the parts of a server.
    pub fn new(parts: Parts) -> Self {
        let types = Arc::clone(parts.field_managers.types().table());
        let crd_registry = CrdRegistry::new(Arc::clone(&parts.shared.registry), Arc::clone(&parts.shared.store));
        let crds = Arc::new(crd_registry);
        let representation = Arc::new(representation::Context {
            messages: Messages::new(Arc::clone(&types)),
            types,
            webhooks: Arc::clone(parts.webhooks.client()),
            shared: parts.shared.clone(),
        });
        let read = read::Context {
            shared: parts.shared.clone(),
            crds: Arc::clone(&crds),
            representation: Arc::clone(&representation),
            frames: EventCache::default(),
            shutdown: parts.shutdown.clone(),
        };
        let write = write::Context {
            shared: parts.shared.clone(),
            crds: Arc::clone(&crds),
            field_managers: parts.field_managers,
            trees: Trees::default(),
            turns: Turns::default(),
            fingerprints: Fingerprints::default(),
            admission: parts.admission,
            webhooks: parts.webhooks,
            issuer: parts.issuer,
            representation: Arc::clone(&representation),
            size_limit: parts.config.size_limit,
        };
        Self {
            shared: parts.shared,
            read: Arc::new(read),
            write: Arc::new(write),
            representation,
            nodes: parts.nodes,
            crds,
            shutdown: parts.shutdown,
            background: parts.background,
            diff_watches: Arc::new(Semaphore::new(MAX_DIFF_WATCHES)),
            config: parts.config,
        }
    }

    /// Returns the currently served resources.
    pub fn registry(&self) -> Arc<Registry> {
        self.shared.registry.load_full()
    }

    /// Returns the protobuf messages of the types of the kinds.
    pub fn messages(&self) -> &Messages {
        &self.representation.messages
    }
}

/// The configuration at start, which holds for all requests.
#[derive(Clone, Debug)]
pub struct Config {
    /// The time limit of a request other than a watch.
    pub request_timeout: Duration,
    /// The minimum duration of a watch without a timeout. It ends after this time or up to twice as long, so that not
    /// all watches end at once.
    pub min_watch_timeout: Duration,
    /// The number of objects of a collection that are deleted concurrently if other servers write to the same store.
    pub deletion_workers: usize,
    /// The size limit of an object.
    pub size_limit: SizeLimit,
    /// The rules for the options of lists and watches.
    pub lists: ListRules,
    /// True if objects that cannot be read may be deleted.
    pub unsafe_deletion: bool,
    /// True if objects are served in CBOR.
    pub cbor: bool,
    /// True if large answers are compressed for clients that accept it.
    pub compress: bool,
    /// True if the server serves the API group `holdfast.dev`, which kube-apiserver does not have.
    pub own_apis: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(60),
            min_watch_timeout: Duration::from_secs(1800),
            deletion_workers: 1,
            size_limit: SizeLimit::ETCD_REQUEST,
            lists: ListRules::default(),
            unsafe_deletion: false,
            cbor: false,
            compress: true,
            own_apis: true,
        }
    }
}
