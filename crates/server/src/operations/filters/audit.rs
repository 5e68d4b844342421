//! Filter of the audit log.

use std::sync::Arc;

use holdfast_audit::{Auditor, Layer};
use holdfast_resource::AuditAnnotations as _;

use super::{Completion, Exchange, Filter, Step};
use crate::http::response::{self, Response};
use crate::operations::audit::AuditRecord;
use crate::representation;

/// The audit log, if it is enabled.
#[derive(Clone, Copy)]
pub(super) struct AuditLog<'a> {
    pub(super) auditor: Option<&'a Arc<Auditor>>,
    pub(super) context: &'a representation::Context,
}

impl AuditLog<'_> {
    /// Records a request that is rejected before its user is authenticated, and returns its answer; `message` is recorded if
    /// `response` has none.
    pub(super) fn reject<'f>(self, exchange: &'f Exchange<'_>, message: String, mut response: Response) -> Step<'f>
    where
        Self: 'f,
    {
        let record = self
            .auditor
            .and_then(|auditor| AuditRecord::begin(auditor, None, exchange));
        let Some(mut record) = record else {
            return Step::answer(response);
        };
        record.reject(message);
        Step::Wait(Box::pin(async move {
            record.responded(self.context, exchange, &mut response).await;
            Some(response)
        }))
    }
}

/// Filter that records a request, from its authentication to its answer, if the policy audits it.
pub(super) struct WithAudit<'a> {
    pub(super) log: AuditLog<'a>,
}

impl WithAudit<'_> {
    /// Begins the record of a request, if the policy audits it.
    fn begin(&self, exchange: &mut Exchange<'_>) {
        let Some(auditor) = self.log.auditor else { return };
        exchange.audit = AuditRecord::begin(auditor, exchange.user.as_ref(), exchange);
        let Some(record) = &exchange.audit else { return };
        record
            .recorder()
            .took(Layer::Authentication, exchange.started.elapsed());
        for (key, value) in std::mem::take(&mut exchange.annotations) {
            record.recorder().annotate(key, value);
        }
    }
}

impl Filter for WithAudit<'_> {
    /// Rejects a request whose first event cannot be written.
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        self.begin(exchange);
        let (uri, audit) = (&exchange.head.uri, &exchange.audit);
        let Some(record) = audit else { return Step::Pass };
        Step::Wait(Box::pin(async move {
            let is_written = record.received().await;
            (!is_written).then(|| response::internal_error(uri, "failed to store audit event"))
        }))
    }

    fn response<'f>(&'f self, exchange: &'f mut Exchange<'_>, response: &'f mut Response) -> Completion<'f> {
        match exchange.audit.take() {
            Some(record) => Completion::Wait(Box::pin(record.responded(self.log.context, exchange, response))),
            None => Completion::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use holdfast_audit::sink::log::{Format, Retention, Target};
    use holdfast_audit::sink::{BackendConfig, Batching};
    use holdfast_audit::{Level, Mode, Observer, Policy, Sink};

    use super::super::Handler as _;
    use super::super::arrival::WithRequestInfo;
    use super::super::testing::{Reply, World, exchange};
    use super::*;

    struct Uncounted;

    impl Observer for Uncounted {
        fn judged(&self, _level: Level) {}
        fn emitted(&self) {}
        fn failed(&self, _plugin: &'static str, _events: usize) {}
        fn rejected(&self) {}
    }

    /// An audit log in a folder of its own, which records the metadata of requests other than health checks.
    struct Log {
        auditor: Arc<Auditor>,
        folder: tempfile::TempDir,
    }

    impl Log {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
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
            let text = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: \
                          [{level: None, nonResourceURLs: [/livez]}, {level: Metadata}]}";
            let policy = Policy::read(text.as_bytes()).unwrap();
            Self {
                auditor: Arc::new(Auditor::new(policy, sink, observer, SystemTime::now)),
                folder,
            }
        }

        /// Closes the log and returns its stages with their codes.
        async fn stages(self) -> Vec<(String, u64)> {
            self.auditor.close(Duration::from_secs(60)).await;
            let text = std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap();
            let stage = |line: &str| {
                let event: serde_json::Value = serde_json::from_str(line).unwrap();
                let code = event["responseStatus"]["code"].as_u64();
                (event["stage"].as_str().unwrap().to_owned(), code.unwrap_or_default())
            };
            text.lines().map(stage).collect()
        }
    }

    #[tokio::test]
    async fn audited_request_is_recorded_with_its_answer() {
        let (world, log) = (World::default(), Log::new());
        let audit_log = AuditLog {
            auditor: Some(&log.auditor),
            ..world.audit_log()
        };
        let handler = Reply::OK.behind(WithAudit { log: audit_log }).behind(WithRequestInfo {
            cbor: false,
            own_apis: true,
        });
        for uri in ["/api/v1/pods", "/livez"] {
            let mut request = exchange("GET", uri);
            request.user = Some(World::user("alice"));
            assert_eq!(handler.handle(&mut request).await.status(), 200);
            assert!(request.audit.is_none(), "the record is complete");
        }
        drop(handler);
        let stages = [("RequestReceived", 0), ("ResponseComplete", 200)];
        assert_eq!(log.stages().await, stages.map(|(stage, code)| (stage.to_owned(), code)));
    }

    #[tokio::test]
    async fn rejection_before_authentication_is_recorded_once() {
        let (world, log) = (World::default(), Log::new());
        let audit_log = AuditLog {
            auditor: Some(&log.auditor),
            ..world.audit_log()
        };
        let answer = Reply::UNREACHABLE.handle(&mut exchange("GET", "/api")).await;
        let request = exchange("GET", "/api");
        let step = audit_log.reject(&request, "no credentials".to_owned(), answer);
        assert_eq!(step.finished().await.unwrap().status(), 418);
        let stages = log.stages().await;
        assert!(stages.len() == 1 && stages[0].1 == 418, "{stages:?}");
    }
}
