//! Filters of the user: authentication, impersonation and authorization.

use std::sync::Arc;
use std::time::Duration;

use holdfast_audit::Layer;
use holdfast_authorization::{Authorization, Authorizer, User, Verdict};
use holdfast_proto::Messages;
use holdfast_resource::access::TokenAuthenticator;
use http::Version;
use tokio::time::Instant;

use super::audit::AuditLog;
use super::{Completion, Exchange, Filter, Step};
use crate::http::ApiError;
use crate::http::response::{self, Response};
use crate::identity::authorization::Rejection;
use crate::identity::{
    self, Authenticated, Authentication, Authenticator, ClientCertificate, ConnectionCredentials, Impersonation,
    Judged, authorization,
};
use crate::metrics::Identities;
use crate::operations::audit;

/// Maximum wait of a request without a time limit for other servers to authenticate its token.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Filter that authenticates a request by its certificate or its headers.
pub(super) struct WithAuthentication<'a> {
    pub(super) authenticator: &'a Authenticator,
    pub(super) tokens: &'a dyn TokenAuthenticator,
    pub(super) counters: &'a Identities,
    /// True if an HTTP/2 connection ends with its first request of an unauthenticated client.
    pub(super) ends_connections: bool,
    pub(super) audit_log: AuditLog<'a>,
    pub(super) serializer: &'a Messages,
}

impl WithAuthentication<'_> {
    fn begin(&self, exchange: &mut Exchange<'_>) -> Authentication {
        if let Some(ClientCertificate::User(_, Some(until))) = exchange.certificate {
            self.counters.certificate(*until, exchange.received);
        }
        let connection = ConnectionCredentials {
            certificate: exchange.certificate,
            now: exchange.received,
        };
        let head = &mut exchange.head;
        self.authenticator
            .begin(self.tokens, &mut head.headers, &exchange.info.path, connection)
    }

    /// Counts the outcome of an authentication, and sets the user of the request or answers it.
    fn conclude<'f>(&'f self, exchange: &'f mut Exchange<'_>, outcome: Result<Authenticated, ApiError>) -> Step<'f> {
        match &outcome {
            Ok(authenticated) => self.counters.authenticated(&authenticated.user.name),
            Err(_) => self.counters.unauthenticated(),
        }
        let is_unknown = outcome
            .as_ref()
            .map_or(true, |known| identity::is_anonymous(&known.user));
        exchange.is_last |= is_unknown && self.ends_connections && exchange.head.version == Version::HTTP_2;
        match outcome {
            Ok(Authenticated {
                user,
                annotations,
                warning,
            }) => {
                exchange.user = Some(user);
                exchange.annotations = annotations;
                if warning.is_some() {
                    exchange.credentials_warning = warning;
                }
                Step::Pass
            }
            Err(error) => {
                let response = exchange.rejection(self.serializer, &error);
                self.audit_log.reject(exchange, attempted(exchange), response)
            }
        }
    }
}

fn attempted(exchange: &Exchange<'_>) -> String {
    audit::attempted(&exchange.head, &exchange.info, exchange.certificate)
}

/// Returns the warning about the credentials of a request, unless its certificate names the user.
fn warning(exchange: &Exchange<'_>) -> Option<String> {
    let has_user = matches!(exchange.certificate, Some(ClientCertificate::User(..)));
    identity::warning(&exchange.head.headers).filter(|_| !has_user)
}

impl Filter for WithAuthentication<'_> {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        exchange.credentials_warning = warning(exchange);
        match self.begin(exchange) {
            Authentication::Done(outcome) => self.conclude(exchange, outcome),
            Authentication::Pending(token) => Step::Wait(Box::pin(async move {
                let limit = exchange.time_limit.unwrap_or(MAX_WAIT);
                let asked = token.ask(self.tokens, &mut exchange.head.headers);
                let answered = tokio::time::timeout(limit, asked).await;
                let outcome = answered.unwrap_or_else(|_| Err(ApiError::unauthorized()));
                self.conclude(exchange, outcome).finished().await
            })),
        }
    }

    fn response<'f>(&'f self, exchange: &'f mut Exchange<'_>, response: &'f mut Response) -> Completion<'f> {
        if let Some(warning) = exchange.credentials_warning.take() {
            response::add_warnings(response.headers_mut(), &[warning]);
        }
        Completion::Done
    }
}

/// Filter that replaces the user of a request by the one that its headers impersonate.
pub(super) struct WithImpersonation<'a> {
    pub(super) impersonation: &'a Impersonation,
    pub(super) authorizer: &'a dyn Authorizer,
    pub(super) serializer: &'a Messages,
}

impl WithImpersonation<'_> {
    fn effective_user(&self, exchange: &Exchange<'_>) -> Result<Arc<User>, ApiError> {
        let user = Arc::clone(exchange.user()?);
        let Judged { user, impersonated } = exchange.timed(Layer::Impersonation, || {
            let (headers, attributes) = (&exchange.head.headers, exchange.info.attributes());
            self.impersonation.judge(user, headers, self.authorizer, &attributes)
        })?;
        if let (Some(recorder), Some(constraint)) = (exchange.recorder(), impersonated) {
            recorder.impersonated(&user, constraint);
        }
        Ok(user)
    }
}

impl Filter for WithImpersonation<'_> {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        match self.effective_user(exchange) {
            Ok(user) => {
                exchange.user = Some(user);
                Step::Pass
            }
            Err(error) => Step::rejection(exchange, self.serializer, &error),
        }
    }
}

/// Filter that rejects requests that the authorizer does not allow.
pub(super) struct WithAuthorization<'a> {
    pub(super) authorizer: &'a dyn Authorizer,
    pub(super) counters: &'a Identities,
    pub(super) serializer: &'a Messages,
}

impl WithAuthorization<'_> {
    fn start(&self, exchange: &Exchange<'_>) -> Result<Verdict, ApiError> {
        let (user, info, method) = (exchange.user()?, &exchange.info, &exchange.head.method);
        Ok(exchange.timed(Layer::Authorization, || {
            authorization::start(self.authorizer, user, info, method)
        }))
    }

    /// Counts the answer, and lets the request pass or rejects it.
    fn conclude(&self, exchange: &mut Exchange<'_>, answer: &Authorization) -> Step<'static> {
        self.counters.authorized(answer);
        if !answer.allows() && answer.error.is_none() && exchange.info.may_be_restricted() {
            // The handler knows the objects. It reports its decision to the audit log.
            let outcome = exchange
                .user()
                .map(|user| authorization::conclude(answer, user, &exchange.info, &exchange.head.method, None));
            if let Ok(Err(Rejection::Forbidden(denial))) = outcome {
                exchange.denied = Some(denial);
                return Step::Pass;
            }
        }
        let user = match exchange.user() {
            Ok(user) => user,
            Err(error) => return Step::rejection(exchange, self.serializer, &error),
        };
        let (info, method) = (&exchange.info, &exchange.head.method);
        match authorization::conclude(answer, user, info, method, exchange.recorder()) {
            Ok(()) => Step::Pass,
            Err(Rejection::Forbidden(error)) => Step::rejection(exchange, self.serializer, &error),
            Err(Rejection::Failed(why)) => Step::answer(response::internal_error(&exchange.head.uri, &why)),
        }
    }
}

impl Filter for WithAuthorization<'_> {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        let pending = match self.start(exchange) {
            Ok(Verdict::Decided(answer)) => return self.conclude(exchange, &answer),
            Ok(Verdict::Ask(pending)) => pending,
            Err(error) => return Step::rejection(exchange, self.serializer, &error),
        };
        Step::Wait(Box::pin(async move {
            let began = Instant::now();
            let answer = pending.await;
            if let Some(recorder) = exchange.recorder() {
                recorder.took(Layer::Authorization, began.elapsed());
            }
            self.conclude(exchange, &answer).finished().await
        }))
    }
}

#[cfg(test)]
mod tests {
    use holdfast_authorization::{AlwaysAllow, AlwaysDeny};
    use http::header::WARNING;

    use super::super::arrival::WithRequestInfo;
    use super::super::testing::{Reply, World, exchange, with_header};
    use super::*;
    use crate::identity::Tokens;

    fn authentication<'a>(
        world: &'a World,
        authenticator: &'a Authenticator,
        tokens: &'a Tokens,
    ) -> WithAuthentication<'a> {
        WithAuthentication {
            authenticator,
            tokens,
            counters: world.metrics.identities(),
            ends_connections: true,
            audit_log: world.audit_log(),
            serializer: world.serializer(),
        }
    }

    #[tokio::test]
    async fn request_without_valid_credentials_is_rejected() {
        let (world, authenticator, tokens) = (World::default(), Authenticator::default(), Tokens::new([]));
        let handler = Reply::UNREACHABLE.behind(authentication(&world, &authenticator, &tokens));
        let mut request = with_header("GET", "/api", "authorization", "Bearer  spaced");
        let answer = handler.handle(&mut request).await;
        assert_eq!(answer.status(), 401);
        assert!(answer.headers().contains_key(WARNING), "of the ignored token");
        assert!(!request.is_last, "HTTP/1.1 keeps its connection");
        request.head.version = Version::HTTP_2;
        handler.handle(&mut request).await;
        assert!(request.is_last);
    }

    #[tokio::test]
    async fn request_without_credentials_is_anonymous_if_allowed() {
        let authenticator = Authenticator {
            anonymous: true,
            ..Authenticator::default()
        };
        let (world, tokens) = (World::default(), Tokens::new([]));
        let handler = Reply::OK.behind(authentication(&world, &authenticator, &tokens));
        let mut request = exchange("GET", "/api");
        assert_eq!(handler.handle(&mut request).await.status(), 200);
        assert_eq!(request.user.unwrap().name, "system:anonymous");
    }

    #[tokio::test]
    async fn user_of_certificate_passes() {
        let (world, authenticator, tokens) = (World::default(), Authenticator::default(), Tokens::new([]));
        let handler = Reply::OK.behind(authentication(&world, &authenticator, &tokens));
        let certificate = ClientCertificate::User(World::user("alice"), None);
        let mut request = exchange("GET", "/api");
        request.certificate = Some(&certificate);
        assert_eq!(handler.handle(&mut request).await.status(), 200);
        assert_eq!(request.user.unwrap().name, "alice");
    }

    #[tokio::test]
    async fn impersonated_user_replaces_the_sender_if_allowed() {
        let (world, impersonation) = (World::default(), Impersonation::new(false));
        for (authorizer, code, name) in [
            (&AlwaysAllow as &dyn Authorizer, 200, "bob"),
            (&AlwaysDeny as &dyn Authorizer, 403, "alice"),
        ] {
            let handler = Reply::OK.behind(WithImpersonation {
                impersonation: &impersonation,
                authorizer,
                serializer: world.serializer(),
            });
            let mut request = with_header("GET", "/api", "impersonate-user", "bob");
            request.user = Some(World::user("alice"));
            assert_eq!(handler.handle(&mut request).await.status(), code);
            assert_eq!(request.user.unwrap().name, name);
        }
    }

    #[tokio::test]
    async fn denied_request_reaches_no_handler() {
        let world = World::default();
        let authorization = |authorizer| WithAuthorization {
            authorizer,
            counters: world.metrics.identities(),
            serializer: world.serializer(),
        };
        let denied = Reply::UNREACHABLE
            .behind(authorization(&AlwaysDeny))
            .behind(WithRequestInfo {
                cbor: false,
                own_apis: true,
            });
        let mut request = exchange("GET", "/api/v1/pods");
        request.user = Some(World::user("alice"));
        assert_eq!(denied.handle(&mut request).await.status(), 403);
        let allowed = Reply::OK.behind(authorization(&AlwaysAllow));
        assert_eq!(allowed.handle(&mut request).await.status(), 200);
        request.user = None;
        assert_eq!(
            allowed.handle(&mut request).await.status(),
            401,
            "nobody is not everybody"
        );
    }
}
