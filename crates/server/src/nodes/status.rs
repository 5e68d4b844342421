//! Errors of kubelets, and ends of commands, as a `Status`.

use holdfast_gotext::quote::quote;
use holdfast_schema::GroupResource;
use http::StatusCode;
use serde_json::{Value, json};

use crate::http::ApiError;
use crate::http::status::Details;

/// Returns the error for an answer of another server with that code and text.
///
/// upstream: k8s.io/apimachinery/pkg/api/errors#NewGenericServerResponse
pub(super) fn of_other_server(code: StatusCode, resource: &'static str, name: &str, text: &str) -> ApiError {
    const NOT_ACCEPTABLE: &str = "the server was unable to respond with a content type that the client supports";
    let number = code.as_u16();
    let (reason, message) = match number {
        401 => (
            "Unauthorized",
            "the server has asked for the client to provide credentials",
        ),
        403 => ("Forbidden", text),
        404 => ("NotFound", "the server could not find the requested resource"),
        405 => (
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ),
        406 if matches!(text, "" | "unknown") => ("NotAcceptable", NOT_ACCEPTABLE),
        406 => ("NotAcceptable", text),
        409 => ("Conflict", "the server reported a conflict"),
        415 => ("UnsupportedMediaType", text),
        422 => (
            "Invalid",
            "the server rejected our request due to an error in our request",
        ),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => (
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        500.. => (
            "InternalError",
            &*format!(
                "an error on the server ({}) has prevented the request from succeeding",
                quote(text)
            ),
        ),
        _ => (
            "",
            &*format!("the server responded with the status code {number} but did not return more information"),
        ),
    };
    let group_resource = GroupResource {
        group: "".into(),
        resource: resource.into(),
    };
    let details = Details::new(&group_resource, name);
    ApiError::new(code, reason, format!("{message} ( {resource} {name})"), Some(details))
}

/// End of a command in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommandEnd {
    /// The command succeeded.
    Success,
    /// The command ended with this exit code.
    ExitCode(u8),
    /// The command did not run to its end, for this reason.
    Failed(String),
}

impl CommandEnd {
    /// Returns the `Status` for the error channel of the client.
    ///
    /// upstream: k8s.io/apiserver/pkg/util/proxy#codeExitToStatusError
    pub(super) fn to_json(&self) -> Vec<u8> {
        let status = match self {
            Self::Success => json!({"metadata": {}, "status": "Success"}),
            Self::ExitCode(code) => json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("command terminated with non-zero exit code: command terminated with exit code {code}"),
                "reason": NON_ZERO_EXIT_CODE,
                "details": {"causes": [{"reason": EXIT_CODE, "message": code.to_string()}]},
            }),
            Self::Failed(why) => return ApiError::internal(why.as_str()).to_json(),
        };
        status.to_string().into_bytes()
    }
}

const NON_ZERO_EXIT_CODE: &str = "NonZeroExitCode";
const EXIT_CODE: &str = "ExitCode";

/// Returns the end of a command from the content of the error stream of a SPDY connection with that protocol.
///
/// upstream: k8s.io/client-go/tools/remotecommand#errorDecoderV4.decode
pub(super) fn of_command(protocol: &str, text: &[u8]) -> CommandEnd {
    if text.is_empty() {
        return CommandEnd::Success;
    }
    let shown = String::from_utf8_lossy(text);
    if !matches!(protocol, "v4.channel.k8s.io" | "v5.channel.k8s.io") {
        return CommandEnd::Failed(format!("error executing remote command: {shown}"));
    }
    let violated = |why: String| CommandEnd::Failed(format!("error stream protocol error: {why}"));
    let status: Value = match serde_json::from_slice(text) {
        Ok(status) => status,
        Err(error) => return violated(format!("{error} in {}", quote(&shown))),
    };
    let field = |name: &str| status.get(name).and_then(Value::as_str).unwrap_or_default();
    match field("status") {
        "Success" => CommandEnd::Success,
        "Failure" if field("reason") == NON_ZERO_EXIT_CODE => exit_code(&status).unwrap_or_else(violated),
        "Failure" => CommandEnd::Failed(field("message").to_owned()),
        _ => violated("unknown error".to_owned()),
    }
}

/// Returns the exit code in the details of a `Status`.
fn exit_code(status: &Value) -> Result<CommandEnd, String> {
    let given = status.get("details").filter(|details| !details.is_null());
    let details = given.ok_or("details must be set")?;
    let causes = details
        .get("causes")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let text = |cause: &Value, name: &str| cause.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let cause = causes.iter().find(|cause| text(cause, "reason") == EXIT_CODE);
    let code = text(cause.ok_or_else(|| format!("no {EXIT_CODE} cause given"))?, "message");
    let number = code.parse();
    number
        .map(CommandEnd::ExitCode)
        .map_err(|_| format!("invalid exit code value {}", quote(&code)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_kubelet_names_the_log() {
        let error = of_other_server(StatusCode::NOT_FOUND, "pods/log", "p", "gone");
        let message = "the server could not find the requested resource ( pods/log p)";
        assert_eq!((error.reason(), error.status().message.as_str()), ("NotFound", message));
        let error = of_other_server(StatusCode::BAD_GATEWAY, "pods/log", "p", "bad");
        let message = "an error on the server (\"bad\") has prevented the request from succeeding ( pods/log p)";
        assert_eq!(error.status().message, message);
        let error = of_other_server(StatusCode::IM_A_TEAPOT, "pods/log", "p", "");
        assert!(error.status().message.contains("status code 418"));
    }

    #[test]
    fn end_of_command_is_its_exit_code_or_the_reason() {
        const V4: &str = "v4.channel.k8s.io";
        let failed = |why: &str| CommandEnd::Failed(why.to_owned());
        for (protocol, text, expected) in [
            (V4, "", CommandEnd::Success),
            (V4, r#"{"status":"Success"}"#, CommandEnd::Success),
            (
                V4,
                r#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#,
                CommandEnd::ExitCode(3),
            ),
            (V4, r#"{"status":"Failure","message":"no shell"}"#, failed("no shell")),
            (
                V4,
                r#"{"status":"Failure","reason":"NonZeroExitCode"}"#,
                failed("error stream protocol error: details must be set"),
            ),
            (V4, "{}", failed("error stream protocol error: unknown error")),
            (
                "channel.k8s.io",
                "no shell",
                failed("error executing remote command: no shell"),
            ),
        ] {
            assert_eq!(of_command(protocol, text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn exit_code_is_a_cause_of_the_status() {
        let status: Value = serde_json::from_slice(&CommandEnd::ExitCode(3).to_json()).unwrap();
        assert_eq!(
            status["details"]["causes"][0],
            json!({"reason": "ExitCode", "message": "3"})
        );
        let status: Value = serde_json::from_slice(&CommandEnd::Failed("why".to_owned()).to_json()).unwrap();
        assert_eq!(status["message"], "Internal error occurred: why");
        assert_eq!(status["code"], 500);
    }
}
