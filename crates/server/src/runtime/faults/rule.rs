//! The rule of a fault: the requests that it matches, and the action.

use std::time::Duration;

use holdfast_gotext::duration;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

/// Maximum length of a text of a rule in bytes.
const MAX_TEXT_BYTES: usize = 1024;

/// Maximum number of verbs of a rule.
const MAX_VERBS: usize = 16;

/// Maximum delay of a request or an event.
pub const MAX_DELAY: Duration = Duration::from_secs(60);

/// Maximum of the advised delay of a retry in seconds.
const MAX_RETRY_SECONDS: u32 = 24 * 60 * 60;

/// Rule of a fault, as clients write it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// Requests or webhook calls that the fault concerns.
    #[serde(default, rename = "match")]
    pub selector: Selector,
    /// Number of matching requests that pass before the fault fires.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skip: u64,
    /// Maximum number of times that the fault fires; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Probability with which a matching request gets the fault, from 0 to 1.
    #[serde(default = "always", skip_serializing_if = "is_always")]
    pub probability: f64,
    /// Seed of the choices by probability; `None` for one from the seed of the server and the ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Effect of the fault.
    pub action: Action,
}

fn always() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_always(probability: &f64) -> bool {
    *probability >= 1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Requests for resources that a fault concerns. A field that is absent matches everything.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Selector {
    /// Verbs of the API, such as `update`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<SmolStr>,
    /// Group; the empty text is the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<SmolStr>,
    /// Plural name of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<SmolStr>,
    /// Subresource; the empty text is the object itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresource: Option<SmolStr>,
    /// Namespace; the empty text is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<SmolStr>,
    /// Name of the object in the path; the empty text is a collection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<SmolStr>,
    /// Name of the effective user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<SmolStr>,
    /// ID of the credential, as `authentication.kubernetes.io/credential-id` names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential_id: Option<SmolStr>,
    /// Part of the `User-Agent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<SmolStr>,
    /// Name of the webhook configuration. Only for `webhookUnavailable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_configuration: Option<SmolStr>,
    /// Name of the webhook. Only for `webhookUnavailable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<SmolStr>,
}

/// Effect of a fault.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Action {
    /// The request fails before its handler.
    Error {
        /// Status code: 409, 429, 500, 503 or 504.
        code: u16,
        /// Message; the usual one of the code if it is absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Advised delay of a retry; not for 409 and 500. A 429 advises 1 second if it is absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_seconds: Option<u32>,
    },
    /// The write is done, and its client gets a timeout.
    TimeoutAfterWrite {},
    /// The request waits before its handler.
    Latency {
        /// Time of the wait.
        duration: Delay,
    },
    /// The watch breaks or lags.
    Watch(WatchAction),
    /// The call of the webhook fails like a refused connection.
    WebhookUnavailable {},
    /// The credential of the client is no longer valid.
    TokenExpired {},
}

/// Effect of a fault on a watch.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum WatchAction {
    /// The watch ends.
    End {
        /// Number of events that are sent before, initial events and bookmarks included.
        #[serde(default)]
        after_events: u32,
    },
    /// The watch gets the error 410 and ends.
    Expired {
        /// Number of events that are sent before, initial events and bookmarks included.
        #[serde(default)]
        after_events: u32,
    },
    /// Each event is sent this long after it happened.
    Lag {
        /// Time between a change and its event.
        duration: Delay,
    },
}

/// Duration in the form of Go, such as `1m30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay(pub Duration);

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let nanoseconds = duration::parse(&text).map_err(serde::de::Error::custom)?;
        let delay = u64::try_from(nanoseconds).map(Duration::from_nanos);
        delay
            .map(Self)
            .map_err(|_| serde::de::Error::custom("a duration must not be negative"))
    }
}

impl Serialize for Delay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&duration::text(self.0))
    }
}

impl Rule {
    /// Checks the rule.
    ///
    /// # Errors
    /// The first problem.
    pub fn check(&self) -> Result<(), String> {
        self.selector.check()?;
        if !(0.0..=1.0).contains(&self.probability) {
            return Err("probability must be between 0 and 1".to_owned());
        }
        let names_webhook = self.selector.webhook.is_some() || self.selector.webhook_configuration.is_some();
        let too_long = format!("duration must be at most {}", duration::text(MAX_DELAY));
        match &self.action {
            Action::WebhookUnavailable {} if self.selector.has_request_fields() => Err(
                "match must only contain webhookConfiguration and webhook if the action is webhookUnavailable"
                    .to_owned(),
            ),
            Action::WebhookUnavailable {} => Ok(()),
            _ if names_webhook => Err(
                "match must not contain webhookConfiguration or webhook unless the action is webhookUnavailable"
                    .to_owned(),
            ),
            Action::Error {
                code,
                message,
                retry_after_seconds,
            } => {
                if !matches!(code, 409 | 429 | 500 | 503 | 504) {
                    return Err("code must be 409, 429, 500, 503 or 504".to_owned());
                }
                if retry_after_seconds.is_some_and(|seconds| seconds > MAX_RETRY_SECONDS) {
                    return Err(format!("retryAfterSeconds must be at most {MAX_RETRY_SECONDS}"));
                }
                if retry_after_seconds.is_some() && matches!(code, 409 | 500) {
                    return Err(format!("retryAfterSeconds does not belong to code {code}"));
                }
                check_text("message", message.as_deref().unwrap_or_default())
            }
            Action::Latency { duration } | Action::Watch(WatchAction::Lag { duration }) if duration.0 > MAX_DELAY => {
                Err(too_long)
            }
            Action::TokenExpired {} if self.selector.user.is_none() && self.selector.credential_id.is_none() => {
                Err("match must contain user or credentialId if the action is tokenExpired".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn check_text(field: &str, text: &str) -> Result<(), String> {
    match text.len() > MAX_TEXT_BYTES {
        true => Err(format!("{field} must have at most {MAX_TEXT_BYTES} bytes")),
        false => Ok(()),
    }
}

impl Selector {
    fn request_fields(&self) -> [(&'static str, Option<&SmolStr>); 8] {
        [
            ("group", self.group.as_ref()),
            ("resource", self.resource.as_ref()),
            ("subresource", self.subresource.as_ref()),
            ("namespace", self.namespace.as_ref()),
            ("name", self.name.as_ref()),
            ("user", self.user.as_ref()),
            ("credentialId", self.credential_id.as_ref()),
            ("userAgent", self.user_agent.as_ref()),
        ]
    }

    fn has_request_fields(&self) -> bool {
        !self.verbs.is_empty() || self.request_fields().iter().any(|(_, text)| text.is_some())
    }

    fn check(&self) -> Result<(), String> {
        if self.verbs.len() > MAX_VERBS {
            return Err(format!("verbs must have at most {MAX_VERBS} items"));
        }
        let webhooks = [
            ("webhookConfiguration", self.webhook_configuration.as_ref()),
            ("webhook", self.webhook.as_ref()),
        ];
        let fields = self.request_fields().into_iter().chain(webhooks);
        let verbs = self.verbs.iter().map(|verb| ("verbs", Some(verb)));
        for (field, text) in fields.chain(verbs) {
            check_text(field, text.map_or("", SmolStr::as_str))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(text: &str) -> String {
        let rule: Result<Rule, _> = serde_json::from_str(text);
        rule.map_err(|error| error.to_string())
            .and_then(|rule| rule.check())
            .err()
            .unwrap_or_default()
    }

    #[test]
    fn rule_is_written_as_it_was_read() {
        for text in [
            r#"{"match":{"verbs":["update"],"group":"apps","resource":"deployments"},"skip":2,"count":1,"action":{"error":{"code":409}}}"#,
            r#"{"match":{"userAgent":"kubelet"},"probability":0.5,"seed":7,"action":{"latency":{"duration":"1.5s"}}}"#,
            r#"{"match":{},"action":{"watch":{"expired":{"afterEvents":3}}}}"#,
            r#"{"match":{"webhookConfiguration":"a"},"action":{"webhookUnavailable":{}}}"#,
        ] {
            let rule: Rule = serde_json::from_str(text).unwrap();
            assert_eq!(rule.check(), Ok(()), "{text}");
            assert_eq!(serde_json::to_string(&rule).unwrap(), text);
        }
    }

    #[test]
    fn invalid_rule_is_rejected() {
        for (text, part) in [
            (r#"{"match":{}}"#, "missing field `action`"),
            (r#"{"action":{"error":{"code":200}}}"#, "code must be"),
            (
                r#"{"action":{"error":{"code":409,"retryAfterSeconds":1}}}"#,
                "retryAfterSeconds",
            ),
            (r#"{"action":{"latency":{"duration":"61s"}}}"#, "at most 1m0s"),
            (r#"{"action":{"latency":{"duration":"-1s"}}}"#, "negative"),
            (r#"{"action":{"latency":{"duration":"soon"}}}"#, "duration"),
            (r#"{"action":{"watch":{"lag":{"duration":"2m"}}}}"#, "at most 1m0s"),
            (r#"{"action":{"tokenExpired":{}}}"#, "user or credentialId"),
            (
                r#"{"match":{"webhook":"a"},"action":{"timeoutAfterWrite":{}}}"#,
                "webhook",
            ),
            (
                r#"{"match":{"user":"a"},"action":{"webhookUnavailable":{}}}"#,
                "must only contain",
            ),
            (
                r#"{"match":{"colour":"a"},"action":{"timeoutAfterWrite":{}}}"#,
                "unknown field",
            ),
            (
                r#"{"probability":2,"action":{"timeoutAfterWrite":{}}}"#,
                "between 0 and 1",
            ),
            (r#"{"action":{"explode":{}}}"#, "unknown variant"),
        ] {
            let error = error_of(text);
            assert!(error.contains(part), "{text}: {error}");
        }
        let long = format!(
            r#"{{"match":{{"name":"{}"}},"action":{{"timeoutAfterWrite":{{}}}}}}"#,
            "x".repeat(1025)
        );
        assert!(error_of(&long).contains("name must have at most 1024 bytes"));
        let verbs = vec![r#""get""#; 17].join(",");
        let many = format!(r#"{{"match":{{"verbs":[{verbs}]}},"action":{{"timeoutAfterWrite":{{}}}}}}"#);
        assert!(error_of(&many).contains("at most 16 items"));
    }
}
