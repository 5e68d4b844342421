//! What an event holds, and its JSON (`Event` of audit.k8s.io/v1).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use holdfast_authorization::User;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_value::{SmolStr, json};

use crate::{Level, Stage};

/// What is known of a request as soon as it is audited.
#[derive(Clone, Debug)]
pub struct EventHead {
    /// The identifier of the request, which all of its events share.
    pub audit_id: String,
    /// Path and query, as the client sent them.
    pub request_uri: String,
    /// The verb of the API, or the method in small letters.
    pub verb: SmolStr,
    /// The user, where it is known.
    pub user: Option<Arc<User>>,
    /// The addresses that the request came through, that of the connection last.
    pub source_ips: Vec<IpAddr>,
    /// What the client says that it is.
    pub user_agent: String,
    /// What the request is about, where that is a resource.
    pub object: Option<ObjectReference>,
    /// When the request came.
    pub received: SystemTime,
}

/// What a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectReference {
    /// The plural name of the resource.
    pub resource: SmolStr,
    /// The namespace.
    pub namespace: SmolStr,
    /// The name of the object.
    pub name: SmolStr,
    /// The uid that the request states.
    pub uid: SmolStr,
    /// The group; empty for the core group.
    pub group: SmolStr,
    /// The version.
    pub version: SmolStr,
    /// The resource version that the request states.
    pub resource_version: SmolStr,
    /// The subresource.
    pub subresource: SmolStr,
}

/// How a request ended: the code, and what a `Status` says besides where the answer is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseStatus {
    /// `Success` or `Failure`.
    pub status: SmolStr,
    /// Why, for people.
    pub message: String,
    /// Why, in one word.
    pub reason: SmolStr,
    /// The details, as JSON.
    pub details: Option<Bytes>,
    /// The code of the answer.
    pub code: u16,
}

/// What is known of a request.
#[derive(Clone, Debug)]
pub struct Event {
    /// How much of the request it contains.
    pub level: Level,
    /// What is known from the beginning.
    pub head: EventHead,
    /// The user that the request impersonates, if any.
    pub impersonated: Option<Arc<User>>,
    /// The verb by which the impersonation was allowed, where it was constrained.
    pub constraint: String,
    /// How the request ended.
    pub status: Option<ResponseStatus>,
    /// The body of the request, as JSON.
    pub request_object: Option<Bytes>,
    /// The answer, as JSON.
    pub response_object: Option<Bytes>,
    /// What others say of the request, each key once.
    pub annotations: Vec<(SmolStr, String)>,
}

/// What an encoded event begins with. Within lists events do not state their kind.
pub(crate) const IDENTITY: &str = r#""kind":"Event","apiVersion":"audit.k8s.io/v1","#;

/// The annotation of an event from which objects were taken out, as it was too large.
pub(crate) const TRUNCATED: &str = "audit.k8s.io/truncated";

impl Event {
    /// An event of a request of which no more than `head` is known.
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

    /// Sets an annotation. The first value of a key stays.
    pub fn annotate(&mut self, key: &str, value: String) {
        if self.annotations.iter().all(|(known, _)| known != key) {
            self.annotations.push((SmolStr::new(key), value));
        }
    }

    /// Writes the event of `stage` at the time `now` as a line of JSON.
    pub(crate) fn write(&self, stage: Stage, now: SystemTime, out: &mut Vec<u8>) {
        self.write_with(stage, now, false, out);
    }

    /// The same without the objects, and with an annotation that says so.
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

/// A member whose name is written with what stands before it; nothing where it is empty.
fn text_member(out: &mut Vec<u8>, name: &str, text: &str) {
    if !text.is_empty() {
        raw(out, name);
        json::write_string(text, out);
    }
}

/// Members of an object, of which those that are empty are left out.
fn text_members<'a>(out: &mut Vec<u8>, members: impl IntoIterator<Item = (&'a str, &'a str)>) {
    for (name, text) in members {
        if text.is_empty() {
            continue;
        }
        member(out, name);
        json::write_string(text, out);
    }
}

/// The name of the next member of an object.
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
    fn what_is_cut_short_has_no_objects_and_says_so() {
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
