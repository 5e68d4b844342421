//! From the path to the code that answers.
//!
//! The order of refusals is that of kube-apiserver: what the path does not have (404), what cannot be done with it (405),
//! bodies that it does not read (415), answers that the client would not take (406). By then authentication and
//! authorization have said yes.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use holdfast_audit::Recorder;
use holdfast_authorization::User;
use holdfast_resource::{Registry, Resource, Served, Verb};
use http::{HeaderMap, Method};
use smol_str::SmolStr;

use crate::api::audit;
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::compression;
use crate::http::negotiation::{self, Format, Forms, PatchType, Representation};
use crate::http::request::ResourceRequest;
use crate::http::request_info::{PathVerb, RequestInfo, ResourcePath};
use crate::http::response::{self, Response};
use crate::wire::body::RequestBody;
use crate::wire::fairness::WatchHold;
use crate::wire::websocket::Upgrade;

/// A request after authentication, before anything is known of its resource.
pub struct Incoming {
    /// The method.
    pub method: Method,
    /// What the path says.
    pub info: RequestInfo,
    /// The headers.
    pub headers: HeaderMap,
    /// The user who makes the request.
    pub user: Arc<User>,
    /// The body, not read yet.
    pub body: RequestBody,
    /// When the request came.
    pub now: SystemTime,
    /// The deadline of the request, if it has one.
    pub deadline: Option<Instant>,
    /// How the connection becomes a WebSocket, where the client asks for one.
    pub upgrade: Option<Upgrade>,
    /// What it holds if it is a watch.
    pub watch: WatchHold,
    /// What is gathered for the audit log, where the request is audited.
    pub audit: Option<Recorder>,
    /// Whether objects are served in CBOR.
    pub cbor: bool,
    /// Whether policies and webhooks have no say in it.
    pub unadmitted: bool,
}

/// The patches that custom resources take, as messages name them.
const CUSTOM_PATCH_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
];

/// Answers a request for a resource.
///
/// # Errors
/// The failure, as the client gets it.
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
        && context.definitions.caught_up().await
    {
        registry = context.registry();
    }
    match resource_request(registry, incoming, target) {
        // Paths that no definition knows are not found as those that nothing knows.
        Err(error) if defined && error.is_unknown_resource() => Ok(response::page_not_found()),
        request => {
            let request = request?;
            let compress =
                request.verb != Verb::Watch && context.config.compress && compression::is_wanted(&request.headers);
            let audit = request.audit.clone().filter(|_| compress);
            let form = request.representation;
            let mut response = match super::handle(context, request).await {
                // What refuses a request before it gets here does not know this format.
                Err(error) if form.format == Format::Cbor => response::error(context.messages(), &error, &form),
                answer => answer?,
            };
            if let Some(audit) = &audit {
                // What is compressed cannot be read any more.
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

/// Finds the resource that `target` names and checks that what is requested can be done with it.
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
        watch,
        audit,
        cbor,
        unadmitted,
    } = incoming;
    let place = Route::find(&registry, &target)?;
    let verb = place.verb(&method, &info).map_err(|error| place.refused(error))?;
    let connecter = place.served.resource.capabilities.connecter(&place.subresource);
    let connects = connecter.is_some_and(|connecter| connecter.connects());
    if verb == Verb::Patch && !connects {
        check_patch_type(&headers, cbor, &place.served.resource).map_err(|error| place.refused(error))?;
    }
    let watchable = place.name.is_empty() && matches!(verb, Verb::List | Verb::Watch);
    let produced: &[&str] = match connecter {
        Some(_) => negotiation::log_types(cbor),
        None if watchable => negotiation::named_watch_types(cbor),
        None => negotiation::named_types(cbor),
    };
    // What is connected through is answered by others, in forms of their own.
    let representation = if connects {
        Representation::default()
    } else {
        // Routes of the table say what they answer in; what definitions serve has none.
        if place.served.resource.conventions.fixed_routes {
            negotiation::check_acceptable(&headers, produced)?;
        }
        place.check_named(verb)?;
        let negotiated = Representation::of_object(&headers, &info.query, place.forms(cbor));
        negotiated.map_err(|error| error.with_warnings(place.deprecation()))?
    };
    let Route {
        served,
        namespace,
        name,
        subresource,
        ..
    } = place;
    // A definition's collection is made in from below it as well.
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
        representation,
        body,
        rest: rest_of(&info.path, target.rest),
        now,
        deadline,
        upgrade,
        watch,
        audit,
        cbor,
        unadmitted,
    })
}

/// Checks that objects of the resource take a patch of the type that the body is.
fn check_patch_type(headers: &HeaderMap, cbor: bool, resource: &Resource) -> Result<(), ApiError> {
    let patch_type = negotiation::patch_type(headers, cbor);
    if resource.conventions.strategic_merge {
        return patch_type.map(drop);
    }
    match patch_type {
        Ok(patch_type) if patch_type != PatchType::Strategic => Ok(()),
        _ if cbor => Err(ApiError::unsupported_body_type(&CUSTOM_PATCH_TYPES)),
        _ => Err(ApiError::unsupported_body_type(&CUSTOM_PATCH_TYPES[..3])),
    }
}

/// The name of the object that a request is about; none where it makes one.
fn name_of(name: SmolStr, verb: Verb, subresource: &str) -> SmolStr {
    if verb == Verb::Create && subresource.is_empty() {
        SmolStr::default()
    } else {
        name
    }
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
struct Route {
    served: Served,
    namespace: SmolStr,
    name: SmolStr,
    subresource: SmolStr,
    /// Whether this is about the objects of all namespaces.
    everywhere: bool,
    path_verb: Option<PathVerb>,
}

impl Route {
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
        let defined = !served.resource.conventions.fixed_routes;
        // Routes are matched by what stands in the path, definitions by what that names.
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
        // What stands behind a proxy in a path is part of the request that is handed on.
        // Definitions look no further than the subresource.
        let below = defined && !target.subresource.is_empty();
        let complete = target.rest.is_empty() || target.subresource == PROXY || below;
        if !scope_fits || !known || !complete || !defined && !place.has_route() {
            return Err(ApiError::unknown_resource());
        }
        Ok(place)
    }

    /// Whether a built-in resource has a route for this path, of whatever method.
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

    /// That the version is deprecated, if it is: what a refusal of the form of the answer warns of.
    fn deprecation(&self) -> Vec<String> {
        self.served
            .version()
            .deprecation
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// A refusal ahead of the handler of the verb: custom resources have no router before the handler that warns.
    fn refused(&self, error: ApiError) -> ApiError {
        match self.served.resource.conventions.fixed_routes {
            true => error,
            false => error.with_warnings(self.deprecation()),
        }
    }

    /// In which forms objects are shown here.
    fn forms(&self, cbor: bool) -> Forms {
        let of_object = self.subresource.is_empty();
        // What is answered to a POST alone has no rows, and of subresources those do that people look at.
        let readable = self.served.version().verbs.contains(&Verb::Get);
        Forms {
            cbor,
            protobuf: self.served.resource.rules.protobuf,
            tables: of_object && readable || SUBRESOURCES_WITH_ROWS.contains(&self.subresource.as_str()),
        }
    }

    /// What is to be done, if it can be done here.
    fn verb(&self, method: &Method, info: &RequestInfo) -> Result<Verb, ApiError> {
        if self.served.resource.conventions.fixed_routes {
            self.verb_of_route(method, info)
        } else {
            self.verb_of_definition(&info.verb)
        }
    }

    /// What a method means at the address of a built-in resource.
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
            // Of all addresses a proxy alone takes every method that it can hand on.
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
            // What can be listed but not watched refuses in its own words.
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

    /// What a verb of access rules means for a defined resource: one handler takes whatever stands at its paths.
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

    /// Whether the verb goes with what the path names: an object or a collection.
    fn addresses(&self, verb: Verb) -> bool {
        match verb {
            Verb::Create | Verb::List | Verb::DeleteCollection => self.name.is_empty(),
            Verb::Watch => true,
            verb => names_an_object(&verb) && !self.name.is_empty(),
        }
    }

    /// Refuses what is about one object where the path names none.
    fn check_named(&self, verb: Verb) -> Result<(), ApiError> {
        if self.name.is_empty() && (!self.subresource.is_empty() || names_an_object(&verb)) {
            return Err(ApiError::bad_request("name must be provided"));
        }
        Ok(())
    }
}

/// Whether the verb is one of single objects.
fn names_an_object(verb: &Verb) -> bool {
    matches!(verb, Verb::Get | Verb::Update | Verb::Patch | Verb::Delete)
}
