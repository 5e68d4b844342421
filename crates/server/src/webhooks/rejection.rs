//! What the client is told of a write that a webhook refuses.

use holdfast_resource::Field;
use holdfast_value::{SmolStr, Value};
use http::StatusCode;

use crate::http::ApiError;
use crate::http::status::{Cause, Details};

/// The refusal by the webhook of that name, with the `Status` that it gives, if any.
pub(crate) fn rejection(webhook: &str, status: Option<&Value>) -> ApiError {
    let root = Field::placed(status, "");
    let code = root.child("code").number().unwrap_or_default();
    let code = u16::try_from(code).ok().filter(|code| (400..=999).contains(code));
    let code = code
        .and_then(|code| StatusCode::from_u16(code).ok())
        .unwrap_or(StatusCode::BAD_REQUEST);
    let text = |name: &str| root.child(name).text();
    let denied = format!("admission webhook {webhook:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let details = root.child("details");
    let details = details.is_set().then(|| of_status(&details));
    ApiError::new(code, SmolStr::new(text("reason")), message, details)
}

fn of_status(details: &Field<'_, '_>) -> Details {
    let of = |field: &Field<'_, '_>, name: &str| field.child(name).text().to_owned();
    let causes = details.child("causes");
    let causes = causes.items().map(|cause| Cause {
        reason: of(&cause, "reason"),
        message: of(&cause, "message"),
        field: of(&cause, "field"),
    });
    let retry = details.child("retryAfterSeconds").number();
    Details {
        name: of(details, "name"),
        group: of(details, "group").into(),
        kind: of(details, "kind").into(),
        uid: of(details, "uid"),
        causes: causes.collect(),
        retry_after_seconds: retry
            .and_then(|seconds| u32::try_from(seconds).ok())
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    fn told(status: &str) -> (u16, String, String) {
        let status = json::parse(status.as_bytes(), &Limits::TRUSTED).unwrap();
        let error = rejection("a.b.c", Some(&status));
        (error.code().as_u16(), error.reason().to_owned(), error.to_string())
    }

    #[test]
    fn a_refusal_has_the_code_and_the_words_of_the_webhook() {
        let denied = "admission webhook \"a.b.c\" denied the request";
        assert_eq!(
            rejection("a.b.c", None).to_string(),
            format!("{denied} without explanation")
        );
        let odd = told(r#"{"code":422,"reason":"Invalid","message":"odd"}"#);
        assert_eq!(odd, (422, "Invalid".to_owned(), format!("{denied}: odd")));
        let reason = told(r#"{"status":"Success","code":200,"reason":"Conflict"}"#);
        assert_eq!(reason, (400, "Conflict".to_owned(), format!("{denied}: Conflict")));
    }
}
