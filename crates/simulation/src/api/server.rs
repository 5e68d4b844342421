//! A server without sockets on a simulated disk, and the requests to it.

use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use holdfast_admission::AdmissionChain;
use holdfast_authorization::{Authorizer, Chain};
use holdfast_controllers::{ControllerContext, Elections, Selection};
use holdfast_server::api::context::{Config, Context, Parts, Shared};
use holdfast_server::identity::{Authenticator, Impersonation, TokenFile};
use holdfast_server::metrics::Metrics;
use holdfast_server::nodes::NodeConnections;
use holdfast_server::objects::Objects;
use holdfast_server::operations::health::Health;
use holdfast_server::operations::paths::Paths;
use holdfast_server::operations::service::Service;
use holdfast_server::operations::start;
use holdfast_server::runtime::shutdown::ShutdownTrigger;
use holdfast_server::runtime::{Clock, Identifiers};
use holdfast_server::webhooks::Webhooks;
use holdfast_server::wire::body::{RequestBody, ResponseBody};
use holdfast_server::write::FieldManagers;
use holdfast_store::{HistoryLimits, testing};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::Value;

use super::history::History;
use super::pause_writer;
use crate::disk::SimulatedDisk;
use crate::world::{START, Violation, ensure};
use crate::{PlantedBug, World};

/// Controllers that run next to the ones that always run.
const CONTROLLERS: [&str; 2] = ["namespace-controller", "garbage-collector-controller"];

/// Letters and digits of the suffixes of generated names.
const SUFFIX_LETTERS: [char; 8] = ['b', 'c', 'd', 'f', '4', '5', '6', '7'];

impl Clock for World {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + START + self.time()
    }
}

impl Identifiers for World {
    fn uid(&self) -> String {
        let (high, low) = (self.below(u64::MAX), self.below(u64::MAX));
        format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            high >> 32,
            high & 0xffff,
            (high >> 16) & 0xfff,
            low >> 52,
            low & 0xffff_ffff_ffff
        )
    }

    fn name_suffix(&self) -> String {
        (0..5).map(|_| self.pick(&SUFFIX_LETTERS, 'x')).collect()
    }
}

/// A running server.
pub(super) struct Server {
    pub(super) world: Arc<World>,
    pub(super) service: Arc<Service>,
    pub(super) history: Arc<Mutex<History>>,
    /// Ends the tasks of the server.
    pub(super) shutdown: ShutdownTrigger,
    /// True if the disk may fail.
    pub(super) may_fail: bool,
}

/// An answer whose body has been read completely.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) body: Value,
}

impl Answer {
    /// Returns the value at a JSON pointer.
    pub(super) fn at(&self, pointer: &str) -> &Value {
        self.body.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// Returns the text at a JSON pointer; empty if there is none.
    pub(super) fn text(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    /// Returns true if a write may or may not have happened.
    pub(super) fn is_unknown(&self) -> bool {
        self.code >= 500
    }
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) content_type: &'static str,
    pub(super) body: String,
}

impl Call {
    pub(super) fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path, "", String::new())
    }

    pub(super) fn post(path: impl Into<String>, body: &Value) -> Self {
        Self::new("POST", path, "application/json", body.to_string())
    }

    pub(super) fn put(path: impl Into<String>, body: &Value) -> Self {
        Self::new("PUT", path, "application/json", body.to_string())
    }

    pub(super) fn merge_patch(path: impl Into<String>, body: &Value) -> Self {
        Self::new("PATCH", path, "application/merge-patch+json", body.to_string())
    }

    pub(super) fn apply(path: impl Into<String>, body: &Value) -> Self {
        Self::new("PATCH", path, "application/apply-patch+yaml", body.to_string())
    }

    pub(super) fn delete(path: impl Into<String>, options: &Value) -> Self {
        Self::new("DELETE", path, "application/json", options.to_string())
    }

    fn new(method: &'static str, path: impl Into<String>, content_type: &'static str, body: String) -> Self {
        Self {
            method,
            path: path.into(),
            content_type,
            body,
        }
    }
}

impl Server {
    /// Opens the disk and starts a server with its controllers.
    pub(super) async fn start(
        world: &Arc<World>,
        disk: &SimulatedDisk,
        history: &Arc<Mutex<History>>,
        limits: HistoryLimits,
        may_fail: bool,
    ) -> Result<Arc<Self>, Violation> {
        let kinds = holdfast_kinds::Config::default();
        let built_in = holdfast_kinds::registry(&kinds).map_err(broken)?;
        let registry = Arc::new(ArcSwap::from_pointee(built_in));
        let types = Arc::clone(registry.load().types());
        let objects = Objects::new(Arc::clone(&registry));
        let clock = Arc::clone(world) as Arc<dyn holdfast_store::Clock>;
        let opened = disk.open(|disk, content| testing::open(disk, content, limits, clock, objects));
        let (store, writer) = opened.map_err(broken)?;
        let store = Arc::new(store);
        history.lock().reopen(&store)?;
        let observer = (Arc::clone(world), Arc::clone(&store), Arc::clone(history));
        tokio::spawn(writer.run(move || {
            let (world, store, history) = &observer;
            pause_writer(Arc::clone(world), Arc::clone(store), Arc::clone(history))
        }));
        let shutdown = ShutdownTrigger::new();
        let context = Arc::new(Context::new(Parts {
            shared: Shared {
                registry: Arc::clone(&registry),
                store: Arc::clone(&store),
                policies: Arc::clone(&kinds.policies),
                authorizer: Arc::new(Chain::new([Arc::clone(&kinds.policy) as Arc<dyn Authorizer>])),
                tokens: Arc::new(TokenFile::parse("token,admin,uid,system:masters").map_err(broken)?),
                identifiers: Arc::clone(world) as Arc<dyn Identifiers>,
                clock: Arc::clone(world) as Arc<dyn Clock>,
                metrics: Arc::new(Metrics::new().map_err(broken)?),
            },
            field_managers: FieldManagers::new(types),
            webhooks: Webhooks::new(Arc::clone(&kinds.webhooks), Arc::clone(&store), Arc::clone(&registry)),
            nodes: NodeConnections::new(None, None, None).map_err(broken)?,
            issuer: Arc::new(holdfast_resource::access::NoTokens),
            admission: AdmissionChain::new(holdfast_admission_plugins::plugins()),
            shutdown: shutdown.shutdown(),
            background: Default::default(),
            config: Config::default(),
        }));
        while let Err(error) = start(&context).await {
            ensure!(may_fail, "the server does not start: {error:?}");
            world.note("the server starts again");
            world.pause(super::PAUSE).await;
        }
        let metrics = Arc::clone(&context.shared.metrics);
        let in_flight = Arc::default();
        let paths = Paths::new(registry, Health::new(), "localhost:6443", &**world)
            .with_metrics(metrics, Arc::clone(&in_flight));
        let service = Arc::new(Service {
            context,
            authenticator: Authenticator::default(),
            impersonation: Impersonation::default(),
            paths,
            in_flight,
            fairness: None,
            auditor: None,
            browsers: None,
            go_away: None,
            drain: None,
            ends_unauthenticated_connections: true,
            tracer: None,
            storage_versions: None,
            page: None,
            testing: None,
            timeline: None,
        });
        let selected: &[&str] = match world.has_bug(PlantedBug::RunsNoControllers) {
            true => &[],
            false => &CONTROLLERS,
        };
        let selection = Selection::parse(selected).map_err(broken)?;
        selection.run(&service, &ControllerContext::default(), Elections::default());
        Ok(Arc::new(Self {
            world: Arc::clone(world),
            service,
            history: Arc::clone(history),
            shutdown,
            may_fail,
        }))
    }

    /// Brings the history up to date and runs a check against it. A violation ends the simulation.
    pub(super) fn check<T>(&self, check: impl FnOnce(&mut History) -> Result<T, Violation>) -> Option<T> {
        let mut history = self.history.lock();
        let observed = history.observe(&self.service.context.shared.store);
        match observed.and_then(|()| check(&mut history)) {
            Ok(result) => Some(result),
            Err(violation) => {
                self.world.report(violation.to_string());
                None
            }
        }
    }

    /// Starts a request, and returns the head and the body of its answer.
    pub(super) async fn respond(&self, call: &Call) -> Option<http::Response<ResponseBody>> {
        let mut request = http::Request::builder()
            .method(call.method)
            .uri(&call.path)
            .header("Authorization", "Bearer token")
            .header("User-Agent", "simulation/1")
            .header("Accept", "application/json");
        if !call.content_type.is_empty() {
            request = request.header("Content-Type", call.content_type);
        }
        match request.body(RequestBody::from_bytes(call.body.clone().into_bytes())) {
            Ok(request) => Some(self.service.respond(request, None, None).await),
            Err(error) => {
                self.world.report(format!("a request cannot be built: {error}"));
                None
            }
        }
    }

    /// Sends a request and reads its answer. An answer with one of the `expected` codes is fine, and so is the answer
    /// that the storage failed if it may fail. `None` if the simulation has found a violation.
    pub(super) async fn send(&self, call: &Call, expected: &[u16]) -> Option<Answer> {
        let response = self.respond(call).await?;
        let code = response.status().as_u16();
        let bytes = match response.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => {
                self.world.report(format!("{} {}: {error}", call.method, call.path));
                return None;
            }
        };
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        let answer = Answer { code, body };
        let (version, message) = (answer.text("/metadata/resourceVersion"), answer.text("/message"));
        self.world
            .note(format!("{} {}: {code} {version} {message}", call.method, call.path));
        let is_expected = expected.contains(&code) || self.may_fail && code >= 500;
        if !is_expected {
            self.world
                .report(format!("nothing explains {code} to {call:?}: {}", answer.body));
            return None;
        }
        self.check(|history| history.check_answer(call, &answer))?;
        Some(answer)
    }
}

fn broken(error: impl std::fmt::Display) -> Violation {
    Violation::new(error.to_string())
}
