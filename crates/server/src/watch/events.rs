//! How one event of a watch is written, and which event a change is for a watcher that selects objects.

use std::sync::Arc;

use bytes::Bytes;
use holdfast_proto::{Messages, write_watch_event};
use holdfast_store::EventKind;

use crate::ApiError;
use crate::handlers::representation::{self, Shown};
use crate::negotiation::{Format, View};
use crate::objects::{self, Entry, Objects, Selection};
use crate::protobuf;
use crate::query::Query;
use crate::state::Context;

type Event = holdfast_store::Event<Objects>;

/// The types of events that show objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    /// The object is there now.
    Added,
    /// It has changed.
    Modified,
    /// It is gone.
    Deleted,
}

impl EventType {
    const fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// What a watcher sees: which objects, and in which form.
pub(crate) struct Framing {
    /// What the requests share.
    pub(crate) context: Arc<Context>,
    /// The version that is shown.
    pub(crate) shown: Shown,
    /// Which objects.
    pub(crate) selection: Selection,
    /// What is shown of an object.
    pub(crate) view: View,
    /// How events are written: JSON or protobuf.
    pub(crate) format: Format,
    /// The parameters of the request, some of which say what tables hold.
    pub(crate) query: Query,
    /// Whether the columns of a table were told already.
    pub(crate) columns_told: bool,
}

impl Framing {
    /// The frame of a change; `None` where the watcher is not to see it. An object that comes to be selected is ADDED, one
    /// that is no longer selected DELETED.
    ///
    /// # Errors
    /// Where the object cannot be shown in this form.
    pub(crate) fn change(&mut self, event: &Event) -> Result<Option<Bytes>, ApiError> {
        let resource = &self.shown.resource;
        let selected = |entry: &Entry| self.selection.selects(resource, entry);
        let before = event.previous().is_some_and(|previous| selected(previous));
        let after = event.kind() != EventKind::Delete && selected(event.current());
        let event_type = match (before, after) {
            (false, false) => return Ok(None),
            (false, true) => EventType::Added,
            (true, true) => EventType::Modified,
            (true, false) => EventType::Deleted,
        };
        // An object that leaves the selection is shown as it was, at the revision at which it left.
        if event_type == EventType::Deleted && event.kind() != EventKind::Delete {
            return self.left(event).map(Some);
        }
        if self.view == View::Whole && self.shown.stored_as_shown() {
            let (place, object) = (event_type as usize, event.current().bytes());
            let frame = match self.format {
                Format::Protobuf => {
                    let encode = || self.frame(event_type.name(), object);
                    event.encodings().get_protobuf(place, encode)?
                }
                _ => event.encodings().get(place, || json_frame(event_type.name(), object)),
            };
            return Ok(Some(frame));
        }
        self.object(event_type, event.current()).map(Some)
    }

    /// The frame of an object that is there when the watch begins.
    ///
    /// # Errors
    /// Where the object cannot be shown in this form.
    pub(crate) fn initial(&mut self, entry: &Entry) -> Result<Option<Bytes>, ApiError> {
        if !self.selection.selects(&self.shown.resource, entry) {
            return Ok(None);
        }
        self.object(EventType::Added, entry).map(Some)
    }

    /// The frame of a bookmark at `revision`; the one behind the initial events says so.
    ///
    /// # Errors
    /// Where it cannot be shown in this form.
    pub(crate) fn bookmark(&self, revision: u64, after_initial_events: bool) -> Result<Bytes, ApiError> {
        let annotations = if after_initial_events {
            r#","annotations":{"k8s.io/initial-events-end":"true"}"#
        } else {
            ""
        };
        let metadata = format!("{{\"resourceVersion\":\"{revision}\"{annotations}}}");
        let object = match self.view {
            View::Table(version) => format!(
                "{{\"kind\":\"Table\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"columnDefinitions\":null,\"rows\":null}}",
                version.api_version()
            ),
            View::PartialObject(version) | View::PartialList(version) => format!(
                "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"{}\",\"metadata\":{metadata}}}",
                version.api_version()
            ),
            View::Whole => {
                let (kind, api_version) = (&self.shown.kind, &self.shown.api_version);
                format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata}}}")
            }
        };
        self.frame("BOOKMARK", object.as_bytes())
    }

    fn frame(&self, event_type: &str, object: &[u8]) -> Result<Bytes, ApiError> {
        frame(self.context.messages(), self.format, event_type, object)
    }

    fn object(&mut self, event_type: EventType, entry: &Entry) -> Result<Bytes, ApiError> {
        if self.view == View::Whole {
            return self.frame(event_type.name(), &self.shown.bytes(entry)?);
        }
        self.viewed(event_type, &objects::tree(entry))
    }

    fn left(&mut self, event: &Event) -> Result<Bytes, ApiError> {
        let previous = event.previous().unwrap_or_else(|| event.current());
        let mut tree = objects::tree(previous);
        let revision = event.revision().to_string();
        tree.set_at(&["metadata", "resourceVersion"], revision.into());
        self.viewed(EventType::Deleted, &tree)
    }

    fn viewed(&mut self, event_type: EventType, tree: &holdfast_value::Value) -> Result<Bytes, ApiError> {
        let json = match self.view {
            View::Table(version) => representation::row_of_watch(
                &self.context,
                &self.shown,
                &self.query,
                version,
                !std::mem::replace(&mut self.columns_told, true),
                tree,
            )?,
            view => representation::view(&self.context, &self.shown, &self.query, view, tree)?,
        };
        self.frame(event_type.name(), &json)
    }
}

/// The frame of an error, after which the watch ends.
pub(crate) fn error(messages: &Messages, format: Format, error: &ApiError) -> Bytes {
    // A Status has any form.
    frame(messages, format, "ERROR", &error.to_json()).unwrap_or_default()
}

/// The frame of an event that shows the object whose JSON is `object`.
fn frame(messages: &Messages, format: Format, event_type: &str, object: &[u8]) -> Result<Bytes, ApiError> {
    match format {
        Format::Protobuf => {
            let object = protobuf::from_json(messages, object)?;
            let mut frame = Vec::new();
            write_watch_event(event_type, &object, &mut frame);
            Ok(frame.into())
        }
        _ => Ok(json_frame(event_type, object)),
    }
}

fn json_frame(event_type: &str, object: &[u8]) -> Bytes {
    let mut frame = Vec::with_capacity(object.len() + 40);
    frame.extend_from_slice(b"{\"type\":\"");
    frame.extend_from_slice(event_type.as_bytes());
    frame.extend_from_slice(b"\",\"object\":");
    frame.extend_from_slice(object);
    frame.extend_from_slice(b"}\n");
    frame.into()
}
