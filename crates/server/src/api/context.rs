//! What the handlers of all requests share. Everything comes in by argument; nothing is global.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use holdfast_admission::AdmissionChain;
use holdfast_admission::policies::Policies;
use holdfast_authorization::Authorizer;
use holdfast_proto::Messages;
use holdfast_resource::Registry;
use holdfast_resource::access::{Access, TokenAuthenticator, TokenIssuer};
use holdfast_resource::schema::TypeTable;

use crate::metrics::Metrics;
use crate::objects::FrameCache;
use crate::objects::Store;
use crate::objects::Trees;
use crate::objects::definitions::Definitions;
use crate::runtime::background::Background;
use crate::runtime::shutdown::Shutdown;
use crate::runtime::{Clock, Identifiers};
use crate::webhooks::Webhooks;
use crate::write::decode::BodyTypes;
use crate::write::{FieldManagers, Turns};

/// What the handlers of all requests share.
pub struct Context {
    /// The resources that are served now. A request takes one snapshot and keeps it to its end.
    pub registry: Arc<ArcSwap<Registry>>,
    /// How far the resources that are served follow the objects that define them.
    pub definitions: Arc<Definitions>,
    /// The objects.
    pub store: Arc<Store>,
    /// The types of the built-in kinds, and who owns what in objects.
    pub field_managers: FieldManagers,
    /// The protobuf messages of the built-in types.
    pub messages: Messages,
    /// The parsed objects that are at hand.
    pub trees: Trees,
    /// Who writes to which object next.
    pub turns: Turns,
    /// Events that were encoded for watches.
    pub frames: FrameCache,
    /// What every write passes through.
    pub admission: AdmissionChain,
    /// The admission policies that writes pass through after that.
    pub policies: Arc<Policies>,
    /// The webhooks that writes pass through after that, and how they are called.
    pub webhooks: Webhooks,
    /// What users may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// Whose bearer tokens are.
    pub tokens: Arc<dyn TokenAuthenticator>,
    /// Who makes tokens for service accounts.
    pub issuer: Arc<dyn TokenIssuer>,
    /// Where uids and the ends of generated names come from.
    pub identifiers: Arc<dyn Identifiers>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// How far the end of the server has come; what has no end of its own ends with it.
    pub shutdown: Shutdown,
    /// The tasks that run for as long as the server serves.
    pub background: Background,
    /// What was decided at start.
    pub config: Config,
}

impl Context {
    /// The resources that are served now.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.load_full()
    }

    /// What users may do, and whose tokens are.
    pub fn access(&self) -> Access<'_> {
        Access {
            authorizer: self.authorizer.as_ref(),
            tokens: self.tokens.as_ref(),
            issuer: self.issuer.as_ref(),
        }
    }

    /// The types of the built-in kinds.
    pub fn types(&self) -> &Arc<TypeTable> {
        self.field_managers.types().table()
    }

    /// The protobuf messages of the types of the kinds.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// The types of the built-in kinds, in both forms that bodies come in.
    pub(crate) fn body_types(&self) -> BodyTypes<'_> {
        BodyTypes {
            kinds: self.field_managers.types(),
            messages: &self.messages,
        }
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
