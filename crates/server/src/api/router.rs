//! Routing from the path to the handler that answers.
//!
//! Requests are rejected in the order of kube-apiserver: unknown resources (404), unsupported methods (405),
//! unsupported formats of the body (415), answers that the client does not accept (406). By then the request is
//! authenticated and authorized.

use std::sync::Arc;
use std::time::SystemTime;

use holdfast_audit::Recorder;
use holdfast_authorization::User;
use holdfast_resource::{Registry, Resource, Served, Verb};
use http::{HeaderMap, Method};
use smol_str::SmolStr;
use tokio::time::Instant;

use crate::api::audit;
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::compression;
use crate::http::negotiation::{self, Format, Forms, Negotiated, PatchType, Representation};
use crate::http::request::{RawRequest, ResourceRequest};
use crate::http::request_info::{PathVerb, RequestInfo, ResourcePath};
use crate::http::response::{self, Response};
use crate::wire::body::RequestBody;
use crate::wire::fairness::WatchHold;
use crate::wire::websocket::Upgrade;

/// A request after authentication, before its resource is looked up.
pub struct Incoming {
    /// The method.
    pub method: Method,
    /// The parsed path.
    pub info: RequestInfo,
    /// The headers.
    pub headers: HeaderMap,
    /// The forms that the client accepts, and the type of a patch.
    pub negotiated: Negotiated,
    /// The user of the request.
    pub user: Arc<User>,
    /// The denial of a list or watch that requests only the objects that its user may read.
    pub(crate) denied: Option<ApiError>,
    /// The unread body.
    pub body: RequestBody,
    /// The time at which the request arrived.
    pub now: SystemTime,
    /// The deadline of the request, if it has one.
    pub deadline: Option<Instant>,
    /// The upgrade of the connection to a WebSocket, if the client requests it.
    pub upgrade: Option<Upgrade>,
    /// The request as the client sent it, if it may be passed on to a node, a pod or a service.
    pub(crate) raw: Option<Box<RawRequest>>,
    /// The resources that a watch holds, if the request is a watch.
    pub watch: WatchHold,
    /// The recorder of the audit log, if the request is audited.
    pub audit: Option<Recorder>,
    /// True if objects are served in CBOR.
    pub cbor: bool,
    /// True if the request skips admission policies and webhooks.
    pub unadmitted: bool,
}

/// The patch types that custom resources accept, as messages name them.
const CUSTOM_PATCH_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
];

/// Answers a request for a resource.
///
/// # Errors
/// If the request fails; the error is the answer to the client.
pub async fn serve_resource(
    context: &Arc<Context>,
    incoming: Incoming,
    target: ResourcePath,
) -> Result<Response, ApiError> {
    let mut registry = context.registry();
    let defined = !registry.is_built_in_group(&target.group);
    if defined
        && registry
            .served(&target.group, &target.version, &target.resource)
            .is_none()
        && context.crds.caught_up().await
    {
        registry = context.registry();
    }
    match resource_request(registry, incoming, target) {
        // Paths that no CRD serves get the same answer as any unknown path.
        Err(error) if defined && error.is_unknown_resource() => Ok(response::page_not_found()),
        request => {
            let request = request?;
            // Logs and answers of other servers are passed on as they are.
            let compress = request.verb != Verb::Watch
                && request.raw.is_none()
                && context.config.compress
                && compression::is_wanted(&request.headers);
            let audit = request.audit.clone().filter(|_| compress);
            let form = request.representation;
            let mut response = match super::handle(context, request).await {
                // The filters that reject a request before it gets here do not support this format.
                Err(error) if form.format == Format::Cbor => response::error(context.messages(), &error, &form),
                answer => answer?,
            };
            if let Some(audit) = &audit {
                // The body cannot be inspected once it is compressed.
                audit::capture(audit, &context.representation, &mut response);
            }
            Ok(if compress {
                compression::compressed(response).await
            } else {
                response
            })
        }
    }
}

/// Finds the resource that `target` names and checks that it supports the request.
///
/// # Errors
/// 404, 405, 415 or 406.
pub fn resource_request(
    registry: Arc<Registry>,
    incoming: Incoming,
    target: ResourcePath,
) -> Result<ResourceRequest, ApiError> {
    let Incoming {
        method,
        info,
        headers,
        negotiated,
        user,
        denied,
        body,
        now,
        deadline,
        upgrade,
        raw,
        watch,
        audit,
        cbor,
        unadmitted,
    } = incoming;
    let place = Route::find(&registry, &target)?;
    let verb = place.verb(&method, &info).map_err(|error| place.rejected(error))?;
    let connecter = place.served.resource.capabilities.connecter(&place.subresource);
    let connects = connecter.is_some_and(|connecter| connecter.connects());
    if verb == Verb::Patch && !connects {
        check_patch_type(&negotiated, cbor, &place.served.resource).map_err(|error| place.rejected(error))?;
    }
    let watchable = place.name.is_empty() && matches!(verb, Verb::List | Verb::Watch);
    let produced: &[&str] = match connecter {
        Some(_) => negotiation::log_types(cbor),
        None if watchable => negotiation::named_watch_types(cbor),
        None => negotiation::named_types(cbor),
    };
    // The endpoint of a connection determines the form of its answer.
    let representation = if connects {
        Representation::default()
    } else {
        // Built-in routes declare their answers' media types; those of CRDs do not.
        if place.served.resource.conventions.fixed_routes {
            negotiation::check_acceptable(&headers, produced)?;
        }
        place.check_named(verb)?;
        let chosen = negotiated.object(place.forms(cbor));
        chosen.map_err(|error| error.with_warnings(place.deprecation()))?
    };
    let Route {
        served,
        namespace,
        name,
        subresource,
        ..
    } = place;
    // A POST to the path of a custom resource's object also creates in its collection.
    let name = name_of(name, verb, &subresource);
    Ok(ResourceRequest {
        registry,
        served,
        verb,
        namespace,
        name,
        subresource,
        query: info.query,
        headers,
        user,
        denied,
        negotiated,
        representation,
        body,
        rest: rest_of(&info.path, target.rest),
        now,
        deadline,
        upgrade,
        raw,
        watch,
        audit,
        cbor,
        unadmitted,
    })
}

/// Checks that the resource accepts patches of the body's type.
///
/// upstream: k8s.io/apiserver/pkg/endpoints/handlers#PatchResource
fn check_patch_type(negotiated: &Negotiated, cbor: bool, resource: &Resource) -> Result<(), ApiError> {
    let patch_type = negotiated.patch_type();
    if resource.conventions.strategic_merge {
        return patch_type.map(drop);
    }
    match patch_type {
        Ok(patch_type) if patch_type != PatchType::Strategic => Ok(()),
        _ if cbor => Err(ApiError::unsupported_body_type(&CUSTOM_PATCH_TYPES)),
        _ => Err(ApiError::unsupported_body_type(&CUSTOM_PATCH_TYPES[..3])),
    }
}

/// Returns the name of the requested object; empty if the request creates one.
fn name_of(name: SmolStr, verb: Verb, subresource: &str) -> SmolStr {
    if verb == Verb::Create && subresource.is_empty() {
        SmolStr::default()
    } else {
        name
    }
}

/// Returns the rest of `path` after a subresource, including the slashes around it.
fn rest_of(path: &str, rest: String) -> String {
    match (rest.as_str(), path.ends_with('/')) {
        ("", false) => rest,
        ("", true) => "/".to_owned(),
        (_, false) => format!("/{rest}"),
        (_, true) => format!("/{rest}/"),
    }
}

/// The subresource whose path may continue with any text.
const PROXY: &str = "proxy";

/// The subresources that can be requested as tables, too.
const SUBRESOURCES_WITH_ROWS: [&str; 2] = ["status", "scale"];

/// The served resource or subresource that a path addresses.
struct Route {
    served: Served,
    namespace: SmolStr,
    name: SmolStr,
    subresource: SmolStr,
    /// True if the request addresses the objects of all namespaces.
    everywhere: bool,
    path_verb: Option<PathVerb>,
}

impl Route {
    fn find(registry: &Registry, target: &ResourcePath) -> Result<Self, ApiError> {
        let served = registry
            .served(&target.group, &target.version, &target.resource)
            .ok_or_else(ApiError::unknown_resource)?;
        // The path of a namespace names it in both places, but the object itself has no namespace.
        let namespace = if target.of_namespace {
            SmolStr::default()
        } else {
            target.namespace.clone()
        };
        let defined = !served.resource.conventions.fixed_routes;
        // Built-in routes match the literal path; those of CRDs match the namespace that it names.
        let within = if defined {
            !namespace.is_empty()
        } else {
            target.in_namespace
        };
        let everywhere = served.resource.namespaced() && !within;
        let place = Self {
            served: served.clone(),
            namespace,
            name: target.name.clone(),
            subresource: target.subresource.clone(),
            everywhere,
            path_verb: target.path_verb,
        };
        let scope_fits = if served.resource.namespaced() {
            within || target.name.is_empty() && target.subresource.is_empty()
        } else {
            !within
        };
        let known = target.subresource.is_empty() || served.version().subresource(&target.subresource).is_some();
        if scope_fits && !known && defined {
            let resource = served.resource.group_resource();
            return Err(ApiError::not_found(&resource, &target.name));
        }
        // The path after a proxy is part of the forwarded request. The handler of custom resources ignores the path
        // after a subresource.
        let below = defined && !target.subresource.is_empty();
        let complete = target.rest.is_empty() || target.subresource == PROXY || below;
        if !scope_fits || !known || !complete || !defined && !place.has_route() {
            return Err(ApiError::unknown_resource());
        }
        Ok(place)
    }

    /// Returns true if a built-in resource has a route for this path, with any method.
    fn has_route(&self) -> bool {
        let verbs = &self.served.version().verbs;
        let watched = verbs.contains(&Verb::Watch);
        match self.path_verb {
            Some(PathVerb::Proxy) => false,
            Some(PathVerb::Watch) => watched && self.subresource.is_empty(),
            None if self.everywhere => watched || verbs.contains(&Verb::List),
            None => self.name.is_empty() || !self.subresource.is_empty() || verbs.iter().any(names_an_object),
        }
    }

    /// Returns the deprecation warning of the version, if it is deprecated. It is sent when the form of the answer is
    /// rejected.
    fn deprecation(&self) -> Vec<String> {
        self.served
            .version()
            .deprecation
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// Adds warnings to a rejection before the verb's handler: for custom resources, the handler that warns runs before
    /// any rejection.
    fn rejected(&self, error: ApiError) -> ApiError {
        match self.served.resource.conventions.fixed_routes {
            true => error,
            false => error.with_warnings(self.deprecation()),
        }
    }

    /// Returns the forms in which objects are served here.
    fn forms(&self, cbor: bool) -> Forms {
        let of_object = self.subresource.is_empty();
        // Resources that only support POST have no rows; of subresources, only a few have them.
        let readable = self.served.version().verbs.contains(&Verb::Get);
        Forms {
            cbor,
            protobuf: self.served.resource.rules.protobuf,
            tables: of_object && readable || SUBRESOURCES_WITH_ROWS.contains(&self.subresource.as_str()),
        }
    }

    /// Returns the verb of the request, if it is supported here.
    fn verb(&self, method: &Method, info: &RequestInfo) -> Result<Verb, ApiError> {
        if self.served.resource.conventions.fixed_routes {
            self.verb_of_route(method, info)
        } else {
            self.verb_of_definition(&info.verb)
        }
    }

    /// Returns the verb of a method at the path of a built-in resource.
    fn verb_of_route(&self, method: &Method, info: &RequestInfo) -> Result<Verb, ApiError> {
        let of_collection = self.name.is_empty() && self.subresource.is_empty();
        let read_by_name = if self.path_verb.is_some() {
            Verb::Watch
        } else {
            Verb::Get
        };
        let verb = match method.as_str() {
            "GET" if of_collection && info.verb == "watch" => Verb::Watch,
            "GET" if of_collection => Verb::List,
            "GET" => read_by_name,
            // Only a proxy accepts every method that can be forwarded.
            "HEAD" | "OPTIONS" if self.subresource == PROXY => Verb::Get,
            _ if self.path_verb.is_some() => return Err(ApiError::method_not_allowed()),
            "POST" => Verb::Create,
            "PUT" => Verb::Update,
            "PATCH" => Verb::Patch,
            "DELETE" if of_collection => Verb::DeleteCollection,
            "DELETE" => Verb::Delete,
            _ => return Err(ApiError::method_not_allowed()),
        };
        let verbs = &self.served.version().verbs;
        let allowed = match self.served.version().subresource(&self.subresource) {
            Some(subresource) => subresource.verbs.contains(&verb),
            // A resource that can be listed but not watched is rejected later, with a message of its own.
            None if verb == Verb::Watch => verbs.contains(&Verb::List),
            None => {
                let reads = verb == Verb::List;
                verbs.contains(&verb) && (reads || !self.everywhere) && self.addresses(verb)
            }
        };
        if allowed {
            Ok(verb)
        } else {
            Err(ApiError::method_not_allowed())
        }
    }

    /// Returns the verb of a custom resource for a verb of access rules: one handler serves all of its paths.
    fn verb_of_definition(&self, named: &str) -> Result<Verb, ApiError> {
        let reads = matches!(named, "list" | "watch");
        if self.everywhere && !reads {
            return Err(ApiError::unknown_resource());
        }
        let verb = Verb::from_name(named);
        let verbs = match self.served.version().subresource(&self.subresource) {
            Some(subresource) => &subresource.verbs,
            None => &self.served.version().verbs,
        };
        verb.filter(|verb| verbs.contains(verb)).ok_or_else(|| {
            let resource = self.served.resource.group_resource();
            ApiError::method_not_supported(&resource, named)
        })
    }

    /// Returns true if the verb fits the target of the path: an object or a collection.
    fn addresses(&self, verb: Verb) -> bool {
        match verb {
            Verb::Create | Verb::List | Verb::DeleteCollection => self.name.is_empty(),
            Verb::Watch => true,
            verb => names_an_object(&verb) && !self.name.is_empty(),
        }
    }

    /// Rejects a verb for one object if the path names none.
    fn check_named(&self, verb: Verb) -> Result<(), ApiError> {
        if self.name.is_empty() && (!self.subresource.is_empty() || names_an_object(&verb)) {
            return Err(ApiError::bad_request("name must be provided"));
        }
        Ok(())
    }
}

/// Returns true if the verb applies to single objects.
fn names_an_object(verb: &Verb) -> bool {
    matches!(verb, Verb::Get | Verb::Update | Verb::Patch | Verb::Delete)
}
