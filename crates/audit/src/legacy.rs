//! Event as one line of text: the log format `legacy`.

use std::fmt::Write as _;

use holdfast_gotext::quote::quote;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_value::SmolStr;

use crate::{Event, Stage};

/// Returns the line of an event.
pub(crate) fn line(event: &Event, stage: Stage) -> String {
    let head = &event.head;
    let user = head.user.as_ref().filter(|user| !user.name.is_empty());
    let name = user.map_or("<none>", |user| user.name.as_str());
    let user_with_groups = user.filter(|user| !user.groups.is_empty());
    let groups = user_with_groups.map_or_else(|| "<none>".to_owned(), |user| quoted(&user.groups));
    let impersonated = event.impersonated.as_ref();
    let as_user = impersonated.map_or("<self>", |user| user.name.as_str());
    let as_groups = impersonated.map_or_else(|| "<lookup>".to_owned(), |user| quoted(&user.groups));
    let object_namespace = head.object.as_ref().map(|object| object.namespace.as_str());
    let namespace = object_namespace.filter(|name| !name.is_empty()).unwrap_or("<none>");
    let status = event.status.as_ref();
    let response = status.map_or_else(|| "<deferred>".to_owned(), |status| status.code.to_string());
    let first_ip = head.source_ips.first();
    let address = first_ip.map_or_else(|| "<unknown>".to_owned(), ToString::to_string);
    let mut line = time(Timestamp::from(head.received));
    line.push_str(" AUDIT:");
    for (key, text) in [
        ("id", head.audit_id.as_str()),
        ("stage", stage.name()),
        ("ip", &address),
        ("method", &head.verb),
        ("user", name),
        ("groups", &groups),
        ("as", as_user),
        ("asgroups", &as_groups),
        ("user-agent", &head.user_agent),
        ("namespace", namespace),
        ("uri", &head.request_uri),
    ] {
        let _ = write!(line, " {key}={}", quote(text));
    }
    let _ = writeln!(line, " response=\"{response}\"");
    line
}

fn quoted(texts: &[SmolStr]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    quoted.join(",")
}

/// Formats a time with the necessary number of digits.
fn time(time: Timestamp) -> String {
    let whole = time.text(Precision::Seconds);
    if time.nanos == 0 {
        return whole.to_string();
    }
    let fraction = format!("{:09}", time.nanos);
    format!("{}.{}Z", whole.trim_end_matches('Z'), fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdfast_authorization::User;

    use super::*;
    use crate::event::tests::head;
    use crate::{EventHead, Level, ResponseStatus};

    #[test]
    fn a_line_has_the_most_of_an_event() {
        let mut event = Event::new(Level::Metadata, head());
        assert_eq!(
            line(&event, Stage::RequestReceived),
            "2020-09-13T12:26:40.00012Z AUDIT: id=\"id\" stage=\"RequestReceived\" ip=\"10.0.0.1\" method=\"create\" \
             user=\"alice\" groups=\"\\\"devs\\\",\\\"a\\\\\\\"b\\\"\" as=\"<self>\" asgroups=\"<lookup>\" \
             user-agent=\"agent/1\" namespace=\"n\" uri=\"/api/v1/namespaces/n/pods?a=1&b=2\" response=\"<deferred>\"\n"
        );
        event.impersonated = Some(Arc::new(User {
            name: "bob".into(),
            groups: vec!["g".into()],
            ..User::default()
        }));
        event.status = Some(ResponseStatus {
            code: 201,
            ..ResponseStatus::default()
        });
        let text = line(&event, Stage::ResponseComplete);
        assert!(text.contains(" as=\"bob\" asgroups=\"\\\"g\\\"\" "), "{text}");
        assert!(text.ends_with(" response=\"201\"\n"), "{text}");
    }

    #[test]
    fn legacy_line_marks_unknown_fields() {
        let head = EventHead {
            user: None,
            source_ips: Vec::new(),
            object: None,
            ..head()
        };
        let text = line(&Event::new(Level::Metadata, head), Stage::Panic);
        assert!(text.contains(" ip=\"<unknown>\" "), "{text}");
        assert!(text.contains(" user=\"<none>\" groups=\"<none>\" "), "{text}");
        assert!(text.contains(" namespace=\"<none>\" "), "{text}");
    }
}
