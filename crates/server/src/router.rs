//! From the path to the code that answers.
//!
//! The order of refusals is that of kube-apiserver: what the path does not have (404), what cannot be done with it (405),
//! bodies that it does not read (415), answers that the client would not take (406). By then authentication and
//! authorization have said yes.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use holdfast_authorization::User;
use holdfast_resource::{Registry, Served, Verb};
use http::{HeaderMap, Method};
use smol_str::SmolStr;

use crate::ApiError;
use crate::body::RequestBody;
use crate::compression;
use crate::handlers;
use crate::negotiation::{self, Forms, NAMED_TYPES, NAMED_WATCH_TYPES, PatchType, Representation};
use crate::request::ResourceRequest;
use crate::request_info::{RequestInfo, ResourcePath};
use crate::response::{self, Response};
use crate::state::Context;
use crate::websocket::Upgrade;

/// A request after authentication, before anything is known of its resource.
pub struct Incoming {
    /// The method.
    pub method: Method,
    /// What the path says.
    pub info: RequestInfo,
    /// The headers.
    pub headers: HeaderMap,
    /// Who asks.
    pub user: Arc<User>,
    /// The body, not read yet.
    pub body: RequestBody,
    /// When the request came.
    pub now: SystemTime,
    /// When the client is told that it took too long, if ever.
    pub deadline: Option<Instant>,
    /// How the connection becomes a WebSocket, where the client asks for one.
    pub upgrade: Option<Upgrade>,
}

/// The patches that custom resources take, as messages name them.
const CUSTOM_PATCH_TYPES: [&str; 3] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];

/// Answers a request for a resource.
///
/// # Errors
/// What the client is to be told of a failure.
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
        && context.definitions.caught_up(context).await
    {
        registry = context.registry();
    }
    match resource_request(registry, incoming, target) {
        // Paths that no definition knows are not found as those that nothing knows.
        Err(error) if defined && error.is_unknown_resource() => Ok(response::page_not_found()),
        request => {
            let request = request?;
            let compress = request.verb != Verb::Watch && compression::is_wanted(&request.headers);
            let response = handlers::handle(context, request).await?;
            Ok(if compress {
                compression::compressed(response).await
            } else {
                response
            })
        }
    }
}

/// Finds the resource that `target` names and checks that what is asked for can be done with it.
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
        user,
        body,
        now,
        deadline,
        upgrade,
    } = incoming;
    let place = Place::find(&registry, &target)?;
    let verb = place.verb(&method, &info)?;
    let connects = place.served.resource.strategy.connecter(&place.subresource).is_some();
    if verb == Verb::Patch && !connects {
        let sort = negotiation::patch_type(&headers);
        if place.served.resource.definition.is_some() {
            sort.ok()
                .filter(|sort| *sort != PatchType::Strategic)
                .ok_or_else(|| ApiError::unsupported_body_type(&CUSTOM_PATCH_TYPES))?;
        } else {
            sort?;
        }
    }
    let watchable = place.name.is_empty() && matches!(verb, Verb::List | Verb::Watch);
    let produced: &[&str] = if watchable { &NAMED_WATCH_TYPES } else { &NAMED_TYPES };
    // What is connected through is answered by others, in forms of their own.
    let representation = if connects {
        Representation::default()
    } else {
        negotiation::check_acceptable(&headers, produced)?;
        Representation::of_object(&headers, &info.query, place.forms())?
    };
    let Place {
        served,
        namespace,
        name,
        subresource,
    } = place;
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
        representation,
        body,
        rest: rest_of(&info.path, target.rest),
        now,
        deadline,
        upgrade,
    })
}

/// What stands behind a subresource in `path`, with the slashes around it.
fn rest_of(path: &str, rest: String) -> String {
    match (rest.as_str(), path.ends_with('/')) {
        ("", false) => rest,
        ("", true) => "/".to_owned(),
        (_, false) => format!("/{rest}"),
        (_, true) => format!("/{rest}/"),
    }
}

/// The subresource that takes all of a path.
const PROXY: &str = "proxy";

/// The subresources that are shown as tables, too.
const SUBRESOURCES_WITH_ROWS: [&str; 2] = ["status", "scale"];

/// Where a path leads among the resources that are served.
struct Place {
    served: Served,
    namespace: SmolStr,
    name: SmolStr,
    subresource: SmolStr,
}

impl Place {
    fn find(registry: &Registry, target: &ResourcePath) -> Result<Self, ApiError> {
        let served = registry
            .served(&target.group, &target.version, &target.resource)
            .ok_or_else(ApiError::unknown_resource)?;
        // The path of a namespace has its name in both places, but the object itself lives in none.
        let namespace = if target.of_namespace {
            SmolStr::default()
        } else {
            target.namespace.clone()
        };
        let scope_fits = match (served.resource.namespaced(), namespace.is_empty()) {
            (true, true) => target.name.is_empty(),
            (false, false) => false,
            _ => true,
        };
        let known = target.subresource.is_empty() || served.version().subresource(&target.subresource).is_some();
        let version = served.version();
        let named =
            target.name.is_empty() || !target.subresource.is_empty() || version.verbs.iter().any(names_an_object);
        if scope_fits && !known && served.resource.definition.is_some() {
            let resource = served.resource.group_resource();
            return Err(ApiError::not_found(&resource, &target.name));
        }
        // What stands behind a proxy in a path is part of the request that is handed on.
        let complete = target.rest.is_empty() || target.subresource == PROXY;
        if !scope_fits || !known || !named || !complete {
            return Err(ApiError::unknown_resource());
        }
        check_name(&target.name)?;
        Ok(Self {
            served: served.clone(),
            namespace,
            name: target.name.clone(),
            subresource: target.subresource.clone(),
        })
    }

    /// In which forms objects are shown here.
    fn forms(&self) -> Forms {
        let strategy = &self.served.resource.strategy;
        let of_object = self.subresource.is_empty();
        // What is answered to a POST alone has no rows, and of subresources those do that people look at.
        let readable = self.served.version().verbs.contains(&Verb::Get);
        Forms {
            protobuf: strategy.has_protobuf(),
            tables: of_object && readable || SUBRESOURCES_WITH_ROWS.contains(&self.subresource.as_str()),
        }
    }

    /// What is to be done, if it can be done here.
    fn verb(&self, method: &Method, info: &RequestInfo) -> Result<Verb, ApiError> {
        let everywhere = self.namespace.is_empty() && self.served.resource.namespaced();
        let reads = matches!(info.verb.as_str(), "list" | "watch");
        if everywhere && !reads && self.served.resource.definition.is_some() {
            // Definitions have no such path; built-in kinds have it, and refuse.
            return Err(ApiError::unknown_resource());
        }
        // What access rules call `get` may come as HEAD, which nothing answers.
        let named = if *method == Method::HEAD {
            None
        } else {
            Verb::from_name(&info.verb)
        };
        let verb = named.ok_or_else(ApiError::method_not_allowed)?;
        let allowed = match self.served.version().subresource(&self.subresource) {
            Some(subresource) if subresource.verbs.contains(&verb) => true,
            Some(_) if self.served.resource.definition.is_some() => {
                let resource = self.served.resource.group_resource();
                return Err(ApiError::method_not_supported(&resource, verb.name()));
            }
            Some(_) => false,
            None => self.served.version().verbs.contains(&verb) && (reads || !everywhere) && self.addresses(verb),
        };
        let verbs = &self.served.version().verbs;
        if allowed {
            Ok(verb)
        } else if verb == Verb::Watch && self.subresource.is_empty() && verbs.contains(&Verb::List) {
            // What can be listed but not watched refuses in its own words.
            Ok(verb)
        } else {
            Err(ApiError::method_not_allowed())
        }
    }

    /// Whether the verb goes with what the path names: an object or a collection.
    fn addresses(&self, verb: Verb) -> bool {
        match verb {
            Verb::Create | Verb::List | Verb::DeleteCollection => self.name.is_empty(),
            Verb::Watch => true,
            verb => names_an_object(&verb) && !self.name.is_empty(),
        }
    }
}

/// Whether the verb is one of single objects.
fn names_an_object(verb: &Verb) -> bool {
    matches!(verb, Verb::Get | Verb::Update | Verb::Patch | Verb::Delete)
}

/// Refuses names that no object can have because they mean something in paths.
fn check_name(name: &str) -> Result<(), ApiError> {
    let why = match name {
        "." => "may not be '.'",
        ".." => "may not be '..'",
        name if name.contains('%') => "may not contain '%'",
        _ => return Ok(()),
    };
    Err(ApiError::bad_request(format!(
        "Name parameter invalid: {name:?}: {why}"
    )))
}
