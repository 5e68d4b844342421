//! Content of an event, and its JSON (`Event` of audit.k8s.io/v1).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use holdfast_authorization::User;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_value::{SmolStr, json};

use crate::{Level, Stage};

/// Part of an event that is known when the audit of a request begins.
#[derive(Clone, Debug)]
pub struct EventHead {
    /// Identifier of the request, shared by all of its events.
    pub audit_id: String,
    /// Path and query as sent by the client.
    pub request_uri: String,
    /// Verb of the API, or the method in lower case.
    pub verb: SmolStr,
    /// Authenticated user, if known.
    pub user: Option<Arc<User>>,
    /// Addresses that the request came through; the last is that of the connection.
    pub source_ips: Vec<IpAddr>,
    /// User-Agent of the client.
    pub user_agent: String,
    /// Target of the request, if it is a resource.
    pub object: Option<ObjectReference>,
    /// Time of arrival.
    pub received: SystemTime,
}

/// Target of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectReference {
    /// Plural name of the resource.
    pub resource: SmolStr,
    /// Namespace.
    pub namespace: SmolStr,
    /// Name of the object.
    pub name: SmolStr,
    /// Uid in the request.
    pub uid: SmolStr,
    /// API group; empty for the core group.
    pub group: SmolStr,
    /// Version.
    pub version: SmolStr,
    /// Resource version in the request.
    pub resource_version: SmolStr,
    /// Subresource.
    pub subresource: SmolStr,
}

/// Status of a response: the code, and the fields of a `Status` if the response is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseStatus {
    /// `Success` or `Failure`.
    pub status: SmolStr,
    /// Human-readable message.
    pub message: String,
    /// Reason in one word.
    pub reason: SmolStr,
    /// Details as JSON.
    pub details: Option<Bytes>,
    /// Code of the response.
    pub code: u16,
}

/// Audit event of a request.
#[derive(Clone, Debug)]
pub struct Event {
    /// Level of detail.
    pub level: Level,
    /// Part that is known from the beginning.
    pub head: EventHead,
    /// Impersonated user, if any.
    pub impersonated: Option<Arc<User>>,
    /// Verb that allowed a constrained impersonation.
    pub constraint: String,
    /// Status of the response.
    pub status: Option<ResponseStatus>,
    /// Body of the request as JSON.
    pub request_object: Option<Bytes>,
    /// Response as JSON.
    pub response_object: Option<Bytes>,
    /// Annotations, each key once.
    pub annotations: Vec<(SmolStr, String)>,
}

/// Prefix of an encoded event. Events in lists have no kind.
pub(crate) const IDENTITY: &str = r#""kind":"Event","apiVersion":"audit.k8s.io/v1","#;

/// Annotation of an event whose objects were removed because it was too large.
pub(crate) const TRUNCATED: &str = "audit.k8s.io/truncated";

impl Event {
    /// Creates an event for which only `head` is known.
    pub fn new(level: Level, head: EventHead) -> Self {
        Self {
            level,
            head,
            impersonated: None,
            constraint: String::new(),
            status: None,
            request_object: None,
            response_object: None,
            annotations: Vec::new(),
        }
    }

    /// Sets an annotation. An existing value is kept.
    pub fn annotate(&mut self, key: &str, value: String) {
        if self.annotations.iter().all(|(known, _)| known != key) {
            self.annotations.push((SmolStr::new(key), value));
        }
    }

    /// Writes the event of `stage` at the time `now` as a line of JSON.
    pub(crate) fn write(&self, stage: Stage, now: SystemTime, out: &mut Vec<u8>) {
        self.write_with(stage, now, false, out);
    }

    /// Writes the event without the objects, and with an annotation about that.
    pub(crate) fn write_truncated(&self, stage: Stage, now: SystemTime, out: &mut Vec<u8>) {
        self.write_with(stage, now, true, out);
    }

    fn write_with(&self, stage: Stage, now: SystemTime, truncated: bool, out: &mut Vec<u8>) {
        let head = &self.head;
        raw(out, "{");
        raw(out, IDENTITY);
        raw(out, "\"level\":\"");
        raw(out, self.level.name());
        raw(out, "\",\"auditID\":");
        json::write_string(&head.audit_id, out);
        raw(out, ",\"stage\":\"");
        raw(out, stage.name());
        raw(out, "\",\"requestURI\":");
        json::write_string(&head.request_uri, out);
        raw(out, ",\"verb\":");
        json::write_string(&head.verb, out);
        raw(out, ",\"user\":");
        match &head.user {
            Some(user) => write_user(user, out),
            None => raw(out, "{}"),
        }
        if let Some(user) = &self.impersonated {
            raw(out, ",\"impersonatedUser\":");
            write_user(user, out);
        }
        if !self.constraint.is_empty() {
            raw(out, ",\"authenticationMetadata\":{\"impersonationConstraint\":");
            json::write_string(&self.constraint, out);
            raw(out, "}");
        }
        write_addresses(&head.source_ips, out);
        text_member(out, ",\"userAgent\":", &head.user_agent);
        if let Some(object) = &head.object {
            raw(out, ",\"objectRef\":");
            write_reference(object, out);
        }
        if let Some(status) = &self.status {
            raw(out, ",\"responseStatus\":");
            write_status(status, out);
        }
        let objects = [
            (",\"requestObject\":", &self.request_object),
            (",\"responseObject\":", &self.response_object),
        ];
        for (name, object) in objects {
            if let Some(object) = object.as_ref().filter(|_| !truncated) {
                raw(out, name);
                out.extend_from_slice(object);
            }
        }
        raw(out, ",\"requestReceivedTimestamp\":\"");
        raw(out, &Timestamp::from(head.received).text(Precision::Micros));
        raw(out, "\",\"stageTimestamp\":\"");
        raw(out, &Timestamp::from(now).text(Precision::Micros));
        raw(out, "\"");
        self.write_annotations(truncated, out);
        raw(out, "}\n");
    }

    fn write_annotations(&self, truncated: bool, out: &mut Vec<u8>) {
        let mut entries: Vec<(&str, &str)> = Vec::with_capacity(self.annotations.len() + 1);
        entries.extend(
            self.annotations
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str())),
        );
        if truncated {
            entries.push((TRUNCATED, "true"));
        }
        if entries.is_empty() {
            return;
        }
        entries.sort_unstable();
        raw(out, ",\"annotations\":{");
        for (at, (key, value)) in entries.into_iter().enumerate() {
            raw(out, if at == 0 { "" } else { "," });
            json::write_string(key, out);
            raw(out, ":");
            json::write_string(value, out);
        }
        raw(out, "}");
    }
}

fn raw(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Writes a member unless it is empty. `name` includes the punctuation before it.
fn text_member(out: &mut Vec<u8>, name: &str, text: &str) {
    if !text.is_empty() {
        raw(out, name);
        json::write_string(text, out);
    }
}

/// Writes the members of an object that are not empty.
fn text_members<'a>(out: &mut Vec<u8>, members: impl IntoIterator<Item = (&'a str, &'a str)>) {
    for (name, text) in members {
        if text.is_empty() {
            continue;
        }
        member(out, name);
        json::write_string(text, out);
    }
}

/// Writes the name of the next member of an object.
fn member(out: &mut Vec<u8>, name: &str) {
    raw(out, if out.ends_with(b"{") { "\"" } else { ",\"" });
    raw(out, name);
    raw(out, "\":");
}

fn write_list<'a>(texts: impl Iterator<Item = &'a SmolStr>, out: &mut Vec<u8>) {
    raw(out, "[");
    for (at, text) in texts.enumerate() {
        raw(out, if at == 0 { "" } else { "," });
        json::write_string(text, out);
    }
    raw(out, "]");
}

fn write_user(user: &User, out: &mut Vec<u8>) {
    raw(out, "{");
    text_members(out, [("username", user.name.as_str()), ("uid", user.uid.as_str())]);
    if !user.groups.is_empty() {
        member(out, "groups");
        write_list(user.groups.iter(), out);
    }
    if !user.extra.is_empty() {
        member(out, "extra");
        raw(out, "{");
        let mut extra: Vec<&(SmolStr, Vec<SmolStr>)> = user.extra.iter().collect();
        extra.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (at, (key, values)) in extra.into_iter().enumerate() {
            raw(out, if at == 0 { "" } else { "," });
            json::write_string(key, out);
            raw(out, ":");
            write_list(values.iter(), out);
        }
        raw(out, "}");
    }
    raw(out, "}");
}

fn write_addresses(addresses: &[IpAddr], out: &mut Vec<u8>) {
    use std::io::Write as _;
    if addresses.is_empty() {
        return;
    }
    raw(out, ",\"sourceIPs\":[");
    for (at, address) in addresses.iter().enumerate() {
        raw(out, if at == 0 { "\"" } else { ",\"" });
        // Writing to memory does not fail.
        let _ = write!(out, "{address}");
        raw(out, "\"");
    }
    raw(out, "]");
}

fn write_reference(object: &ObjectReference, out: &mut Vec<u8>) {
    raw(out, "{");
    let members = [
        ("resource", &object.resource),
        ("namespace", &object.namespace),
        ("name", &object.name),
        ("uid", &object.uid),
        ("apiGroup", &object.group),
        ("apiVersion", &object.version),
        ("resourceVersion", &object.resource_version),
        ("subresource", &object.subresource),
    ];
    text_members(out, members.map(|(name, text)| (name, text.as_str())));
    raw(out, "}");
}

fn write_status(status: &ResponseStatus, out: &mut Vec<u8>) {
    raw(out, "{\"metadata\":{}");
    text_member(out, ",\"status\":", &status.status);
    text_member(out, ",\"message\":", &status.message);
    text_member(out, ",\"reason\":", &status.reason);
    if let Some(details) = &status.details {
        raw(out, ",\"details\":");
        out.extend_from_slice(details);
    }
    if status.code != 0 {
        raw(out, ",\"code\":");
        raw(out, &status.code.to_string());
    }
    raw(out, "}");
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    pub(crate) fn head() -> EventHead {
        let user = User {
            name: "alice".into(),
            groups: vec!["devs".into(), "a\"b".into()],
            ..User::default()
        };
        EventHead {
            audit_id: "id".to_owned(),
            request_uri: "/api/v1/namespaces/n/pods?a=1&b=2".to_owned(),
            verb: "create".into(),
            user: Some(Arc::new(user)),
            source_ips: vec![IpAddr::from([10, 0, 0, 1]), IpAddr::from([127, 0, 0, 1])],
            user_agent: "agent/1".to_owned(),
            object: Some(ObjectReference {
                resource: "pods".into(),
                namespace: "n".into(),
                version: "v1".into(),
                ..ObjectReference::default()
            }),
            received: UNIX_EPOCH + Duration::from_micros(1_600_000_000_000_120),
        }
    }

    fn written(event: &Event, stage: Stage) -> String {
        let mut out = Vec::new();
        event.write(stage, UNIX_EPOCH + Duration::from_secs(1_600_000_001), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_event_has_the_members_of_the_reference_in_its_order() {
        let mut event = Event::new(Level::RequestResponse, head());
        assert_eq!(
            written(&event, Stage::RequestReceived),
            "{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",\"level\":\"RequestResponse\",\"auditID\":\"id\",\
             \"stage\":\"RequestReceived\",\"requestURI\":\"/api/v1/namespaces/n/pods?a=1\\u0026b=2\",\"verb\":\"create\",\
             \"user\":{\"username\":\"alice\",\"groups\":[\"devs\",\"a\\\"b\"]},\"sourceIPs\":[\"10.0.0.1\",\"127.0.0.1\"],\
             \"userAgent\":\"agent/1\",\"objectRef\":{\"resource\":\"pods\",\"namespace\":\"n\",\"apiVersion\":\"v1\"},\
             \"requestReceivedTimestamp\":\"2020-09-13T12:26:40.000120Z\",\"stageTimestamp\":\
             \"2020-09-13T12:26:41.000000Z\"}\n"
        );
        event.impersonated = Some(Arc::new(User {
            name: "bob".into(),
            extra: vec![("z".into(), vec!["1".into()]), ("a".into(), vec![])],
            ..User::default()
        }));
        event.constraint = "impersonate:user-info".to_owned();
        event.status = Some(ResponseStatus {
            status: "Failure".into(),
            message: "no".to_owned(),
            reason: "Forbidden".into(),
            details: Some(Bytes::from_static(b"{}")),
            code: 403,
        });
        event.request_object = Some(Bytes::from_static(b"{\"a\":1}"));
        event.response_object = Some(Bytes::from_static(b"{\"b\":2}"));
        event.annotate("z", "1".to_owned());
        event.annotate("a", String::new());
        event.annotate("z", "2".to_owned());
        let text = written(&event, Stage::ResponseComplete);
        let (_, tail) = text.split_once("\"impersonatedUser\":").unwrap();
        assert_eq!(
            tail.replace(char::is_whitespace, ""),
            "{\"username\":\"bob\",\"extra\":{\"a\":[],\"z\":[\"1\"]}},\"authenticationMetadata\":\
             {\"impersonationConstraint\":\"impersonate:user-info\"},\"sourceIPs\":[\"10.0.0.1\",\"127.0.0.1\"],\
             \"userAgent\":\"agent/1\",\"objectRef\":{\"resource\":\"pods\",\"namespace\":\"n\",\"apiVersion\":\"v1\"},\
             \"responseStatus\":{\"metadata\":{},\"status\":\"Failure\",\"message\":\"no\",\"reason\":\"Forbidden\",\
             \"details\":{},\"code\":403},\"requestObject\":{\"a\":1},\"responseObject\":{\"b\":2},\
             \"requestReceivedTimestamp\":\"2020-09-13T12:26:40.000120Z\",\"stageTimestamp\":\
             \"2020-09-13T12:26:41.000000Z\",\"annotations\":{\"a\":\"\",\"z\":\"1\"}}"
        );
    }

    #[test]
    fn no_user_is_an_empty_user() {
        let event = Event::new(Level::Metadata, EventHead { user: None, ..head() });
        assert!(written(&event, Stage::ResponseStarted).contains("\"user\":{},"));
    }

    #[test]
    fn truncated_event_has_no_objects_but_annotation() {
        let mut event = Event::new(Level::Request, head());
        event.request_object = Some(Bytes::from_static(b"{\"a\":1}"));
        let mut out = Vec::new();
        event.write_truncated(Stage::ResponseComplete, UNIX_EPOCH, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains("requestObject"), "{text}");
        assert!(
            text.ends_with("\"annotations\":{\"audit.k8s.io/truncated\":\"true\"}}\n"),
            "{text}"
        );
    }
}
