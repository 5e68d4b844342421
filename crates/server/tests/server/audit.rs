//! The audit of a request that panics: the panic fails only that request, and the audit log records it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::support::{CONFIG_MAPS, Server, config_map};
use holdfast_admission::{AdmissionPlugin, Interest};
use holdfast_audit::sink::log::{Format, Retention, Target};
use holdfast_audit::sink::{BackendConfig, Batching};
use holdfast_audit::{Auditor, Level, Mode, Observer, Policy, Sink};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_value::Value as Tree;
use serde_json::Value;

/// An admission plugin that panics at every creation of a ConfigMap.
struct Fails;

impl AdmissionPlugin for Fails {
    fn name(&self) -> &'static str {
        "Fails"
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_objects("", "configmaps", &[Operation::Create])] }
    }

    fn mutate(
        &self,
        _context: &WriteContext<'_>,
        _object: Option<&mut Tree>,
        _old: Option<&Tree>,
    ) -> Result<(), Rejection> {
        panic!("on purpose")
    }
}

struct Uncounted;

impl Observer for Uncounted {
    fn judged(&self, _level: Level) {}
    fn emitted(&self) {}
    fn failed(&self, _plugin: &'static str, _events: usize) {}
    fn rejected(&self) {}
}

fn auditor(folder: &tempfile::TempDir) -> Arc<Auditor> {
    let observer: Arc<dyn Observer> = Arc::new(Uncounted);
    let mut sink = Sink::new(Arc::clone(&observer));
    let target = Target::Rotating(Retention {
        path: folder.path().join("audit.log"),
        max_bytes: 1 << 20,
        max_age_days: 1,
        max_backups: 1,
        compress: false,
    });
    let config = BackendConfig {
        mode: Mode::Blocking,
        batching: Batching {
            buffer_size: 1,
            max_size: 1,
            max_wait: Duration::ZERO,
            throttle: None,
        },
        truncation: None,
    };
    drop(sink.add_log(target.open().unwrap(), Format::Json, &config).unwrap());
    let text = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}";
    let policy = Policy::read(text.as_bytes()).unwrap();
    Arc::new(Auditor::new(policy, sink, observer, SystemTime::now))
}

#[tokio::test]
async fn panic_is_audited_in_its_own_stage_and_others_continue() {
    let folder = tempfile::tempdir().unwrap();
    let auditor = auditor(&folder);
    let mut server = Server::start_with_plugin(Fails).await;
    Arc::get_mut(&mut server.service).unwrap().auditor = Some(Arc::clone(&auditor));
    let failed = server.post(CONFIG_MAPS, &config_map("a", "b")).await;
    assert_eq!(
        (failed.code, failed.at("/reason").as_str()),
        (500, Some("InternalError"))
    );
    assert_eq!(server.get(CONFIG_MAPS).await.code, 200);
    auditor.close(Duration::from_secs(60)).await;
    let log = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let stages = |verb: &str| {
        let events = events.iter().filter(|event| event["verb"] == verb);
        events
            .map(|event| event["stage"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(stages("create"), ["RequestReceived", "Panic"]);
    assert_eq!(stages("list"), ["RequestReceived", "ResponseComplete"]);
    let panicked = events.iter().find(|event| event["stage"] == "Panic").unwrap();
    assert_eq!(panicked["responseStatus"]["code"], 500);
    assert_eq!(panicked["responseStatus"]["message"], "APIServer panic'd: on purpose");
}
