//! Filter of the endpoints for tests: it applies the faults that a test asks for.

use std::time::Duration;

use holdfast_proto::Messages;
use holdfast_schema::GroupResource;

use super::{Completion, Exchange, Filter, Step};
use crate::http::ApiError;
use crate::http::headers;
use crate::http::response::Response;
use crate::http::status::{RETRY_SECONDS, TOO_MANY};
use crate::identity::CREDENTIAL;
use crate::operations::testing::{self, Testing};
use crate::runtime::faults::{Action, Fault, FaultRequest, Faults, RequestFaults};
use crate::wire::fairness::WatchTesting;

/// Message of an error that a fault causes, if the rule has none and no usual one exists.
const MESSAGE: &str = "a fault of /testing/faults";

/// Filter that delays requests and answers them with errors, if the server has endpoints for tests.
pub(super) struct WithFaults<'a> {
    pub(super) testing: Option<&'a Testing>,
    pub(super) serializer: &'a Messages,
}

impl WithFaults<'_> {
    fn apply<'f>(&'f self, testing: &Testing, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        if exchange.info.path.starts_with(testing::FOLDER) {
            // A fault must not prevent its own deletion.
            return Step::Pass;
        }
        let found = of_request(&testing.faults, exchange);
        exchange.faults_after_write = found.after_write;
        if exchange.info.verb == "watch" {
            exchange.watch.set_testing(WatchTesting {
                fault: found.watch,
                pass: testing.checkpoints.gate.pass(),
                advances: testing.clock.advances(),
            });
        }
        let error = found.answer.map(|fault| error(&fault, exchange));
        let latency = found.latency;
        if latency.is_zero() {
            return match error {
                Some(error) => Step::rejection(exchange, self.serializer, &error),
                None => Step::Pass,
            };
        }
        Step::Wait(Box::pin(async move {
            self.wait(latency).await;
            error.map(|error| exchange.rejection(self.serializer, &error))
        }))
    }

    async fn wait(&self, latency: Duration) {
        tokio::time::sleep(latency).await;
    }
}

impl Filter for WithFaults<'_> {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        match self.testing {
            Some(testing) => self.apply(testing, exchange),
            None => Step::Pass,
        }
    }

    fn response<'f>(&'f self, exchange: &'f mut Exchange<'_>, response: &'f mut Response) -> Completion<'f> {
        if !exchange.faults_after_write.is_empty() && response.status().is_success() {
            let faults = std::mem::take(&mut exchange.faults_after_write);
            if faults.iter().any(|fault| fault.fires()) {
                *response = exchange.rejection(self.serializer, &ApiError::out_of_time());
            }
        }
        Completion::Done
    }
}

fn of_request(faults: &Faults, exchange: &Exchange<'_>) -> RequestFaults {
    let agent = exchange.user_agent.as_ref().map(headers::lossy).unwrap_or_default();
    let user = exchange.user.as_deref();
    let credentials = user.and_then(|user| user.extra.iter().find(|(key, _)| key == CREDENTIAL));
    let mut request = FaultRequest {
        verb: &exchange.info.verb,
        user: user.map_or("", |user| &user.name),
        credentials: credentials.map_or(&[], |(_, ids)| ids),
        user_agent: &agent,
        is_own: exchange.is_own(),
        ..FaultRequest::default()
    };
    if let Some(target) = &exchange.info.resource {
        request.group = &target.group;
        request.resource = &target.resource;
        request.subresource = &target.subresource;
        // The path of a namespace names no scope.
        request.namespace = if target.of_namespace { "" } else { &target.namespace };
        request.name = &target.name;
    }
    faults.of_request(&request)
}

/// Returns the error of a fault.
fn error(fault: &Fault, exchange: &Exchange<'_>) -> ApiError {
    let Action::Error {
        code,
        message,
        retry_after_seconds,
    } = fault.action()
    else {
        return ApiError::unauthorized();
    };
    let retry = retry_after_seconds.unwrap_or_default();
    let text = |usual: &str| message.clone().unwrap_or_else(|| usual.to_owned());
    match code {
        409 => {
            let target = exchange.info.resource.clone().unwrap_or_default();
            let resource = GroupResource {
                group: target.group,
                resource: target.resource,
            };
            match message {
                Some(message) => ApiError::conflict(&resource, &target.name, message),
                None => ApiError::modified(&resource, &target.name),
            }
        }
        429 => ApiError::too_many_requests(text(TOO_MANY), retry_after_seconds.unwrap_or(RETRY_SECONDS)),
        503 => ApiError::unavailable(text(MESSAGE)).with_advice(retry),
        504 => match message {
            Some(message) => ApiError::timeout(message.clone(), retry),
            None => ApiError::out_of_time().with_advice(retry),
        },
        _ => ApiError::internal(text(MESSAGE)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::StatusCode;
    use http::header::RETRY_AFTER;
    use http_body_util::BodyExt as _;
    use serde_json::Value;

    use super::super::arrival::WithRequestInfo;
    use super::super::testing::{Reply, World, exchange};
    use super::*;

    const UPDATE: &str = "/apis/apps/v1/namespaces/a/deployments/web";

    fn faults(rules: &[&str]) -> Testing {
        let faults = Faults::new(0);
        for rule in rules {
            faults.add(serde_json::from_str(rule).unwrap()).unwrap();
        }
        Testing {
            faults: Arc::new(faults),
            checkpoints: Arc::default(),
            clock: Arc::default(),
            forks: Arc::default(),
            timeline: Arc::default(),
        }
    }

    async fn ask(testing: &Testing, reply: Reply, method: &str, uri: &str) -> Response {
        let world = World::default();
        let handler = reply
            .behind(WithFaults {
                testing: Some(testing),
                serializer: world.serializer(),
            })
            .behind(WithRequestInfo {
                cbor: false,
                own_apis: true,
            });
        let mut request = exchange(method, uri);
        request.user = Some(World::user("alice"));
        handler.handle(&mut request).await
    }

    async fn document(answer: Response) -> Value {
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    #[tokio::test]
    async fn error_has_the_status_of_its_code() {
        for (action, code, reason, retry) in [
            (r#"{"code":409}"#, 409, "Conflict", None),
            (r#"{"code":429}"#, 429, "TooManyRequests", Some("1")),
            (
                r#"{"code":429,"retryAfterSeconds":7}"#,
                429,
                "TooManyRequests",
                Some("7"),
            ),
            (r#"{"code":500,"message":"disk"}"#, 500, "InternalError", None),
            (
                r#"{"code":503,"retryAfterSeconds":2}"#,
                503,
                "ServiceUnavailable",
                Some("2"),
            ),
            (r#"{"code":504}"#, 504, "Timeout", None),
        ] {
            let faults = faults(&[&format!(r#"{{"action":{{"error":{action}}}}}"#)]);
            let answer = ask(&faults, Reply::UNREACHABLE, "PUT", UPDATE).await;
            assert_eq!(answer.status(), code, "{action}");
            let header = answer.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap());
            assert_eq!(header, retry, "{action}");
            assert_eq!(document(answer).await["reason"], reason, "{action}");
        }
    }

    #[tokio::test]
    async fn conflict_names_the_object() {
        let faults = faults(&[r#"{"action":{"error":{"code":409}}}"#]);
        let status = document(ask(&faults, Reply::UNREACHABLE, "PUT", UPDATE).await).await;
        let text = status["message"].as_str().unwrap();
        let expected = "Operation cannot be fulfilled on deployments.apps \"web\": the object has been modified; please \
                        apply your changes to the latest version and try again";
        assert_eq!(text, expected);
    }

    #[tokio::test]
    async fn timeout_replaces_only_successful_writes() {
        let rule = r#"{"count":1,"action":{"timeoutAfterWrite":{}}}"#;
        let faults = faults(&[rule]);
        let conflict = Reply(StatusCode::CONFLICT);
        assert_eq!(ask(&faults, conflict, "PUT", UPDATE).await.status(), 409);
        assert_eq!(ask(&faults, Reply::OK, "GET", UPDATE).await.status(), 200);
        let answer = ask(&faults, Reply::OK, "PUT", UPDATE).await;
        assert_eq!(answer.status(), 504);
        assert_eq!(document(answer).await["reason"], "Timeout");
        assert_eq!(ask(&faults, Reply::OK, "PUT", UPDATE).await.status(), 200);
    }

    #[tokio::test(start_paused = true)]
    async fn latency_delays_the_handler() {
        let faults = faults(&[r#"{"action":{"latency":{"duration":"30s"}}}"#]);
        let began = tokio::time::Instant::now();
        assert_eq!(ask(&faults, Reply::OK, "GET", UPDATE).await.status(), 200);
        assert_eq!(began.elapsed().as_secs(), 30);
        assert_eq!(ask(&faults, Reply::OK, "GET", "/healthz").await.status(), 200);
        assert_eq!(began.elapsed().as_secs(), 30);
    }

    #[tokio::test]
    async fn expired_token_leaves_the_testing_endpoints() {
        let faults = faults(&[r#"{"match":{"user":"alice"},"action":{"tokenExpired":{}}}"#]);
        assert_eq!(ask(&faults, Reply::UNREACHABLE, "GET", "/version").await.status(), 401);
        assert_eq!(ask(&faults, Reply::UNREACHABLE, "GET", UPDATE).await.status(), 401);
        assert_eq!(ask(&faults, Reply::OK, "DELETE", "/testing/faults").await.status(), 200);
    }
}
