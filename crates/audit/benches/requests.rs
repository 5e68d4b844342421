//! Benchmark of auditing a request: the processor time of all threads for the two events of a request at the level
//! `Metadata`.
#![allow(clippy::disallowed_methods, reason = "tests measure the time of the system")]
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark")]

use std::fs;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_audit::sink::log::{Format, Retention, Target};
use holdfast_audit::sink::{BackendConfig, Batching};
use holdfast_audit::{Auditor, EventHead, Level, Mode, ObjectReference, Observer, Policy, ResponseStatus, Sink, Stage};
use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget, User};
use holdfast_resource::AuditAnnotations as _;

struct Uncounted;

impl Observer for Uncounted {
    fn judged(&self, _level: Level) {}
    fn emitted(&self) {}
    fn failed(&self, _plugin: &'static str, _events: usize) {}
    fn rejected(&self) {}
}

const REQUESTS: u32 = 200_000;

/// Returns the processor time of this process so far, user and system.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, behind_name) = stat.rsplit_once(')').unwrap();
    let ticks = behind_name.split_whitespace().skip(11).take(2);
    Duration::from_millis(ticks.map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum())
}

fn auditor(folder: &tempfile::TempDir, mode: Mode) -> Arc<Auditor> {
    let observer: Arc<dyn Observer> = Arc::new(Uncounted);
    let mut sink = Sink::new(Arc::clone(&observer));
    let target = Target::Rotating(Retention {
        path: folder.path().join("audit.log"),
        max_bytes: 100 << 20,
        max_age_days: 366,
        max_backups: 1,
        compress: false,
    });
    let config = BackendConfig {
        mode,
        batching: Batching {
            buffer_size: 10_000_000,
            max_size: 1,
            max_wait: Duration::ZERO,
            throttle: None,
        },
        truncation: None,
    };
    drop(sink.add_log(target.open().unwrap(), Format::Json, &config).unwrap());
    let text = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: None, users: [x]}, {level: Metadata}]}";
    let policy = Policy::read(text.as_bytes()).unwrap();
    Arc::new(Auditor::new(policy, sink, observer, SystemTime::now))
}

async fn request(auditor: &Arc<Auditor>, user: &Arc<User>) {
    let target = ResourceTarget {
        version: "v1",
        resource: "configmaps",
        namespace: "default",
        name: "some-config-map",
        ..ResourceTarget::default()
    };
    let attributes = Attributes {
        verb: "get",
        target: AccessTarget::Resource(target),
    };
    let decision = auditor.judge(Some(user), &attributes).unwrap();
    let head = EventHead {
        audit_id: "11111111-2222-4333-8444-555555555555".to_owned(),
        request_uri: "/api/v1/namespaces/default/configmaps/some-config-map".to_owned(),
        verb: "get".into(),
        user: Some(Arc::clone(user)),
        source_ips: vec![IpAddr::from([127, 0, 0, 1])],
        user_agent: "kubectl/v1.36.3 (linux/amd64) kubernetes/0123456".to_owned(),
        object: Some(ObjectReference {
            resource: target.resource.into(),
            namespace: target.namespace.into(),
            name: target.name.into(),
            version: target.version.into(),
            ..ObjectReference::default()
        }),
        received: SystemTime::now(),
    };
    let recorder = auditor.record(decision, head, tokio::time::Instant::now());
    assert!(recorder.emit(Stage::RequestReceived).finished().await);
    recorder.annotate("authorization.k8s.io/decision", "allow".to_owned());
    recorder.annotate("authorization.k8s.io/reason", String::new());
    let status = ResponseStatus {
        code: 200,
        ..ResponseStatus::default()
    };
    recorder.responded(status, None);
    assert!(recorder.complete().finished().await);
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let user = Arc::new(User {
        name: "system:serviceaccount:default:robot".into(),
        uid: "11111111-2222-4333-8444-555555555555".into(),
        groups: vec!["system:serviceaccounts".into(), "system:authenticated".into()],
        extra: Vec::new(),
    });
    for (mode, name) in Mode::ALL {
        let folder = tempfile::tempdir().unwrap();
        let auditor = auditor(&folder, mode);
        let began = cpu();
        for _ in 0..REQUESTS {
            request(&auditor, &user).await;
        }
        auditor.close(Duration::from_secs(60)).await;
        let micros = (cpu() - began).as_secs_f64() * 1e6 / f64::from(REQUESTS);
        println!("{name}: {micros:.2} \u{b5}s of processor time a request");
    }
}
