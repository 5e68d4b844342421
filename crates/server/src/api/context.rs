//! What the handlers of all requests share. Everything comes in by argument; nothing is global.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use holdfast_admission::AdmissionChain;
use holdfast_admission::policies::Policies;
use holdfast_authorization::Authorizer;
use holdfast_proto::Messages;
use holdfast_resource::Registry;
use holdfast_resource::access::{TokenAuthenticator, TokenIssuer};

use crate::metrics::Metrics;
use crate::objects::definitions::Definitions;
use crate::objects::{EventCache, Store, Trees};
use crate::runtime::background::Background;
use crate::runtime::shutdown::Shutdown;
use crate::runtime::{Clock, Identifiers};
use crate::webhooks::Webhooks;
use crate::write::{FieldManagers, Turns};
use crate::{read, representation, write};

/// What a server is made of.
pub struct Parts {
    /// The resources that are served now. A request takes one snapshot and keeps it to its end.
    pub registry: Arc<ArcSwap<Registry>>,
    /// The objects.
    pub store: Arc<Store>,
    /// The types of the kinds, and who owns what in their objects.
    pub field_managers: FieldManagers,
    /// The admission plugins.
    pub admission: AdmissionChain,
    /// The admission policies.
    pub policies: Arc<Policies>,
    /// The admission webhooks and their client.
    pub webhooks: Webhooks,
    /// What users may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// The users of bearer tokens.
    pub tokens: Arc<dyn TokenAuthenticator>,
    /// The maker of tokens for service accounts.
    pub issuer: Arc<dyn TokenIssuer>,
    /// The source of uids and of the ends of generated names.
    pub identifiers: Arc<dyn Identifiers>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// The counters of all that happens.
    pub metrics: Arc<Metrics>,
    /// How far the end of the server has come.
    pub shutdown: Shutdown,
    /// The tasks that run for as long as the server serves.
    pub background: Background,
    /// What was decided at start.
    pub config: Config,
}

/// What the handlers of all requests share: what reads, writes and answers need, put together once.
pub struct Context {
    /// What reads need.
    pub read: Arc<read::Context>,
    /// What writes need.
    pub write: Arc<write::Context>,
    /// What it takes to show objects.
    pub representation: Arc<representation::Context>,
    /// The resources that are served now. A request takes one snapshot and keeps it to its end.
    pub registry: Arc<ArcSwap<Registry>>,
    /// How far the resources that are served follow the objects that define them.
    pub definitions: Arc<Definitions>,
    /// The objects.
    pub store: Arc<Store>,
    /// The admission policies.
    pub policies: Arc<Policies>,
    /// What users may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// The users of bearer tokens.
    pub tokens: Arc<dyn TokenAuthenticator>,
    /// The source of the names of requests.
    pub identifiers: Arc<dyn Identifiers>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// The counters of requests.
    pub metrics: Arc<Metrics>,
    /// How far the end of the server has come.
    pub shutdown: Shutdown,
    /// The tasks that run for as long as the server serves.
    pub background: Background,
    /// What was decided at start.
    pub config: Config,
}

impl Context {
    /// Puts the parts of a server together.
    pub fn new(parts: Parts) -> Self {
        let types = Arc::clone(parts.field_managers.types().table());
        let definitions = Definitions::new(Arc::clone(&parts.registry), Arc::clone(&parts.store));
        let definitions = Arc::new(definitions);
        let representation = Arc::new(representation::Context {
            messages: Messages::new(Arc::clone(&types)),
            types,
            webhooks: Arc::clone(parts.webhooks.client()),
            identifiers: Arc::clone(&parts.identifiers),
            clock: Arc::clone(&parts.clock),
            metrics: Arc::clone(&parts.metrics),
        });
        let read = read::Context {
            store: Arc::clone(&parts.store),
            definitions: Arc::clone(&definitions),
            representation: Arc::clone(&representation),
            frames: EventCache::default(),
            shutdown: parts.shutdown.clone(),
        };
        let write = write::Context {
            registry: Arc::clone(&parts.registry),
            definitions: Arc::clone(&definitions),
            store: Arc::clone(&parts.store),
            field_managers: parts.field_managers,
            trees: Trees::default(),
            turns: Turns::default(),
            admission: parts.admission,
            policies: Arc::clone(&parts.policies),
            webhooks: parts.webhooks,
            authorizer: Arc::clone(&parts.authorizer),
            tokens: Arc::clone(&parts.tokens),
            issuer: parts.issuer,
            identifiers: Arc::clone(&parts.identifiers),
            clock: Arc::clone(&parts.clock),
            metrics: Arc::clone(&parts.metrics),
            representation: Arc::clone(&representation),
            max_object_bytes: parts.config.max_object_bytes,
        };
        Self {
            read: Arc::new(read),
            write: Arc::new(write),
            representation,
            registry: parts.registry,
            definitions,
            store: parts.store,
            policies: parts.policies,
            authorizer: parts.authorizer,
            tokens: parts.tokens,
            identifiers: parts.identifiers,
            clock: parts.clock,
            metrics: parts.metrics,
            shutdown: parts.shutdown,
            background: parts.background,
            config: parts.config,
        }
    }

    /// The resources that are served now.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.load_full()
    }

    /// The protobuf messages of the types of the kinds.
    pub fn messages(&self) -> &Messages {
        &self.representation.messages
    }
}

/// What is decided at start and holds for all requests.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long a request other than a watch may take.
    pub request_timeout: Duration,
    /// A watch that states no timeout ends after this time or up to twice as long, so that not all end at once.
    pub min_watch_timeout: Duration,
    /// The most bytes of an object as it is stored.
    pub max_object_bytes: usize,
}

/// The most bytes of an object as it is stored, unless a flag says otherwise: what etcd takes.
pub const MAX_OBJECT_BYTES: usize = 3 << 19;

impl Default for Config {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(60),
            min_watch_timeout: Duration::from_secs(1800),
            max_object_bytes: MAX_OBJECT_BYTES,
        }
    }
}
