//! Address of a webhook: a URL or a service.

use holdfast_gotext::url;
use holdfast_schema::Field;
use holdfast_schema::metadata::formats::dns_subdomain;

use crate::validation::Errors;

const FORM: &str = "desired format: https://host[/path]";

/// Validates the client configuration of a webhook.
///
/// upstream: pkg/apis/admissionregistration/validation#validateValidatingWebhook
/// upstream: pkg/apis/admissionregistration/validation#validateMutatingWebhook
pub(crate) fn validate(client: &Field<'_, '_>, errors: &mut Errors) {
    let (url, service) = (client.child("url"), client.child("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => validate_url(&url, errors),
        (false, true) => validate_service(&service, errors),
        _ => errors.push(client.required("exactly one of url or service is required")),
    }
}

/// upstream: k8s.io/apiserver/pkg/util/webhook#ValidateWebhookURL
fn validate_url(field: &Field<'_, '_>, errors: &mut Errors) {
    let url = match url::parse(field.text()) {
        Ok(url) => url,
        Err(why) => {
            errors.push(field.required(format!("url must be a valid URL: {why}; {FORM}")));
            return;
        }
    };
    if url.scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme; {FORM}");
        errors.push(field.invalid_as(url.scheme, detail));
    }
    if url.host.is_empty() {
        errors.push(field.invalid_as("", format!("host must be specified; {FORM}")));
    }
    if let Some(user) = url.user {
        errors.push(field.invalid_as(user, "user information is not permitted in the URL"));
    }
    let refused = [
        (url.fragment, "fragments are not permitted in the URL"),
        (url.query, "query parameters are not permitted in the URL"),
    ];
    for (part, detail) in refused.into_iter().filter(|(part, _)| !part.is_empty()) {
        errors.push(field.invalid_as(part, detail));
    }
}

/// upstream: k8s.io/apiserver/pkg/util/webhook#ValidateWebhookService
fn validate_service(service: &Field<'_, '_>, errors: &mut Errors) {
    // The reference swaps the two fields when it reports the missing one.
    for (name, missing) in [("namespace", "name"), ("name", "namespace")] {
        if service.child(name).text().is_empty() {
            errors.push(service.child(missing).required(""));
        }
    }
    let port = service.child("port");
    let number = port.number().unwrap_or_default();
    if !(1..=65535).contains(&number) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(port.invalid_as(number, detail));
    }
    let path = service.child("path");
    if path.is_set() {
        validate_path(&path, errors);
    }
}

/// upstream: k8s.io/apiserver/pkg/util/webhook#ValidateWebhookService
fn validate_path(path: &Field<'_, '_>, errors: &mut Errors) {
    let text = path.text();
    if matches!(text, "" | "/") {
        return;
    }
    if text == "//" {
        errors.push(path.invalid("segment[0] may not be empty"));
        return;
    }
    if !text.starts_with('/') {
        errors.push(path.invalid("must start with a '/'"));
    }
    // The first byte is treated as the missing slash. The remaining bytes of a longer character are not a valid name.
    let tail = text.get(1..).unwrap_or(text);
    let rest = tail.strip_suffix('/').unwrap_or(tail);
    for (at, segment) in rest.split('/').enumerate() {
        if segment.is_empty() {
            errors.push(path.invalid(format!("segment[{at}] may not be empty")));
            continue;
        }
        for message in dns_subdomain(segment) {
            errors.push(path.invalid(format!("segment[{at}]: {message}")));
        }
    }
}
