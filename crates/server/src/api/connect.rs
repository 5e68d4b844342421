//! Requests to a node, a pod or a service: proxies, logs, commands. Admission and the kind decide about the request; then
//! it is passed on.

use holdfast_gotext::number::parse_uint;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::{ConnectParameter, Connecter, Connection, ParameterForm};
use holdfast_value::{Map, Value};
use holdfast_writes::WriteOptions;
use http::StatusCode;

use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::negotiation::View;
use crate::http::options;
use crate::http::request::ResourceRequest;
use crate::http::response::{self, Response};
use crate::nodes::Client;
use crate::wire::body::{RequestBody, ResponseBody};
use crate::write;

/// Answers a request to a subresource for connections.
///
/// upstream: k8s.io/apiserver/pkg/endpoints/handlers#ConnectResource
///
/// # Errors
/// The reason why no connection can be established.
pub(super) async fn connect(
    context: &Context,
    mut request: ResourceRequest,
    connecter: &dyn Connecter,
) -> Result<Response, ApiError> {
    if connecter.connects() && request.query.get("dryRun").is_some() {
        return Err(ApiError::bad_request("dryRun is not supported"));
    }
    let target = write::target(&request, WriteOptions::default());
    let mut options = Map::new();
    options.insert("kind", target.body.kind.as_str());
    options.insert("apiVersion", target.body.api_version.as_str());
    for parameter in connecter.parameters() {
        if let Some(value) = option_of(&request, parameter)? {
            options.insert(parameter.name, value);
        }
    }
    let connected = write::connect(&context.write, &target, request.verb, connecter, Value::Map(options));
    let (connection, warnings) = connected.await?;
    match connection {
        Connection::Open(destination) => {
            if !connecter.connects() {
                check_view(request.representation.view)?;
            }
            let Some(raw) = request.raw.take() else {
                return Err(ApiError::bad_request("a connection is required"));
            };
            let client = Client {
                raw: *raw,
                headers: std::mem::take(&mut request.headers),
                body: std::mem::replace(&mut request.body, RequestBody::from_bytes("")),
                name: &request.name,
                shutdown: &context.shutdown,
            };
            let opened = context.nodes.open(*destination, client).await;
            let mut answer = opened.map_err(|error| error.with_warnings(warnings.clone()))?;
            response::add_warnings(answer.headers_mut(), &warnings);
            Ok(answer)
        }
        Connection::Nothing => {
            check_view(request.representation.view)?;
            let mut answer = Response::new(ResponseBody::empty());
            *answer.status_mut() = StatusCode::NO_CONTENT;
            response::add_warnings(answer.headers_mut(), &warnings);
            Ok(answer)
        }
        Connection::Refused(rejection) => {
            let resource = &request.served.resource;
            let (named, kind) = (resource.group_resource(), resource.stored_kind());
            Err(ApiError::rejection(rejection, &named, &kind, &request.name).with_warnings(warnings))
        }
    }
}

/// Rejects a request for a stream in the form of an object.
fn check_view(view: View) -> Result<(), ApiError> {
    match view {
        View::Whole | View::Table(_) => Ok(()),
        View::PartialObject(_) => Err(ApiError::unclassified(
            "object does not implement the Object interfaces",
        )),
        View::PartialList(_) => Err(ApiError::not_acceptable(
            "you requested PartialObjectMetadataList, but the requested object is not a list (*rest.LocationStreamer)",
        )),
    }
}

/// Returns the value of the option that a query parameter sets; `None` if the option is omitted.
fn option_of(request: &ResourceRequest, parameter: &ConnectParameter) -> Result<Option<Value>, ApiError> {
    let first = request.query.all(parameter.name).next();
    Ok(match parameter.form {
        ParameterForm::Flag => first.is_some_and(options::reads_as_true).then_some(Value::Bool(true)),
        ParameterForm::Number => first.map(options::whole_number).transpose()?.map(Value::from),
        ParameterForm::Ports => ports(request.query.all(parameter.name))?,
        ParameterForm::Path => Some(request.rest.as_str())
            .filter(|rest| !rest.is_empty())
            .map(Value::from),
        ParameterForm::Text => first.filter(|text| !text.is_empty()).map(Value::from),
        ParameterForm::Time => first
            .filter(|text| !matches!(*text, "" | "null"))
            .map(time)
            .transpose()?,
        ParameterForm::Texts => {
            let texts: Vec<Value> = request.query.all(parameter.name).map(Value::from).collect();
            Some(if texts.is_empty() { Value::Null } else { texts.into() })
        }
    })
}

/// Returns the time of a text, in the format of objects.
fn time(text: &str) -> Result<Value, ApiError> {
    let parsed = Timestamp::parse(text, Precision::Seconds);
    let time = parsed.map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok(time.text(Precision::Seconds).into())
}

fn ports<'q>(texts: impl Iterator<Item = &'q str>) -> Result<Option<Value>, ApiError> {
    let mut ports = Vec::new();
    for text in texts.flat_map(|text| text.split(',')) {
        let port: u16 =
            parse_uint(text).map_err(|why| ApiError::bad_request(format!("cannot convert to []int32: {why}")))?;
        ports.push(Value::from(i64::from(port)));
    }
    Ok((!ports.is_empty()).then(|| ports.into()))
}
