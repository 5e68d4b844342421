//! The encoding of watch events, and the event types of changes for a watch with selectors.

use std::sync::Arc;

use bytes::Bytes;
use holdfast_proto::{Messages, write_watch_event};
use holdfast_store::EventKind;
use holdfast_value::{Limits, SmolStr, Value, cbor, json};

use crate::http::ApiError;
use crate::http::negotiation::{Format, View};
use crate::http::protobuf;
use crate::http::query::Query;
use crate::objects::{self, Entry, Objects, Selection};
use crate::objects::{Converted, EventForm, EventType};
use crate::read::Context;
use crate::read::items::ListItem;
use crate::representation::conversion;
use crate::representation::table::Rows;
use crate::representation::{self, RequestedVersion, Tree};

type Event = holdfast_store::Event<Objects>;

/// The selection and the form of the events of a watch.
pub(crate) struct WatchEncoder {
    /// The context that requests share.
    pub(crate) context: Arc<Context>,
    /// The requested version.
    pub(crate) requested: RequestedVersion,
    /// The selected objects.
    pub(crate) selection: Selection,
    /// The form of the events.
    pub(crate) form: EventForm,
    /// True if the columns of a table were sent already.
    pub(crate) columns_sent: bool,
}

impl WatchEncoder {
    /// Returns the frame of a change; `None` if the watch does not select it. An object that becomes selected is ADDED,
    /// one that is no longer selected is DELETED.
    ///
    /// # Errors
    /// If the object cannot be decrypted, or cannot be represented in this form.
    pub(crate) async fn change(&mut self, event: &Event) -> Result<Option<Bytes>, ApiError> {
        if !self.selection.may_show(&self.requested.resource, event.current().key()) {
            return Ok(None);
        }
        // Without the error, the watch would show an object that can no longer be decrypted as DELETED.
        if event.kind() != EventKind::Delete {
            objects::check_transformable(event.current())?;
        }
        if !self.may_wait() {
            return self.frame_of_change(event, None);
        }
        Box::pin(self.change_by_webhook(event)).await
    }

    /// Returns true if a change may have to wait for a webhook.
    pub(crate) fn may_wait(&self) -> bool {
        self.requested.may_need_webhook()
    }

    async fn change_by_webhook(&mut self, event: &Event) -> Result<Option<Bytes>, ApiError> {
        // A watch of everything needs no previous object.
        let with_previous = !self.selection.is_everything();
        let previous = event.previous().filter(|_| with_previous);
        let concerned = [Some(event.current()), previous];
        if !concerned
            .into_iter()
            .flatten()
            .any(|entry| self.requested.needs_webhook(entry))
        {
            return self.frame_of_change(event, None);
        }
        let first_of_table = matches!(self.form.view, View::Table(_)) && !self.columns_sent;
        if !with_previous && !first_of_table {
            let kept = self
                .context
                .frames
                .kept(event.encodings(), type_for_all(event), &self.form);
            if kept.is_some() {
                return Ok(kept);
            }
        }
        let conversion = event.encodings().conversion(&self.form, with_previous);
        let outcome = conversion.get_or_init(|| self.convert(event.current(), previous)).await;
        let converted = outcome.as_ref().map_err(Clone::clone)?;
        self.frame_of_change(event, Some(converted))
    }

    async fn convert(&self, current: &Entry, previous: Option<&Arc<Entry>>) -> Result<Converted, ApiError> {
        let entries: Vec<&Entry> = [Some(current), previous.map(AsRef::as_ref)]
            .into_iter()
            .flatten()
            .collect();
        let outcome = conversion::stored(&self.context.representation, &self.requested, &entries).await;
        let mut trees = outcome?.into_iter();
        Ok(Converted {
            current: trees.next().unwrap_or_default(),
            previous: trees.next(),
        })
    }

    fn frame_of_change(&mut self, event: &Event, converted: Option<&Converted>) -> Result<Option<Bytes>, ApiError> {
        let resource = &self.requested.resource;
        let selected = |entry: &Entry, converted: Option<&Value>| match converted {
            Some(tree) => self.selection.selects_converted(resource, entry, tree),
            None => self.selection.selects(resource, entry),
        };
        let (now, then) = match converted {
            Some(converted) => (Some(&converted.current), converted.previous.as_ref()),
            None => (None, None),
        };
        let before = event.previous().is_some_and(|previous| selected(previous, then));
        let removed = event.kind() == EventKind::Delete;
        let after = !removed && selected(event.current(), now);
        let event_type = match (before, after) {
            (false, false) => return Ok(None),
            (false, true) => EventType::Added,
            (true, true) => EventType::Modified,
            (true, false) if removed => EventType::Deleted,
            (true, false) => EventType::Left,
        };
        let with_columns = self.with_columns();
        let encode = || match event_type {
            EventType::Left => self.left(event, then, with_columns),
            _ => self.object(event_type, event.current(), now, with_columns),
        };
        if with_columns {
            // The first frame of a table also contains the columns, so it is not shared.
            return encode().map(Some);
        }
        let frames = &self.context.frames;
        frames
            .frame(event.encodings(), event_type, &self.form, encode)
            .map(Some)
    }

    /// Returns the frame of a selected object that exists when the watch begins.
    ///
    /// # Errors
    /// If the object cannot be represented in this form.
    pub(crate) fn object_at_start(&mut self, item: &ListItem) -> Result<Bytes, ApiError> {
        let with_columns = self.with_columns();
        self.object(EventType::Added, &item.entry, item.converted.as_ref(), with_columns)
    }

    /// Returns the frame of a bookmark at `revision`; the one after the initial events is annotated. It contains the
    /// zero value of the kind in the form of the other events.
    ///
    /// # Errors
    /// If it cannot be represented in this form.
    pub(crate) fn bookmark(&mut self, revision: u64, after_initial_events: bool) -> Result<Bytes, ApiError> {
        let mut object = self.requested.zero(&self.context.representation.types);
        let mut metadata = Value::empty_map();
        metadata.set_at(&["resourceVersion"], revision.to_string().into());
        if after_initial_events {
            metadata.set_at(&["annotations", "k8s.io/initial-events-end"], "true".into());
        }
        object.set_at(&["metadata"], metadata);
        let with_columns = self.with_columns();
        self.viewed(EventType::Bookmark, Tree::Converted(&object), with_columns)
    }

    /// Returns the frame of an error, after which the watch ends.
    pub(crate) fn error(&self, rejection: &ApiError) -> Bytes {
        let mut rejection = rejection.clone();
        if rejection.reason().is_empty() {
            rejection.status_mut().reason = SmolStr::new_static("InternalError");
        }
        error(&self.context.representation.messages, self.form.format, &rejection)
    }

    /// Returns true if the next frame has the columns of a table, which is only the first one.
    fn with_columns(&mut self) -> bool {
        matches!(self.form.view, View::Table(_)) && !std::mem::replace(&mut self.columns_sent, true)
    }

    fn frame(&self, event_type: &str, object: &[u8]) -> Result<Bytes, ApiError> {
        frame(
            &self.context.representation.messages,
            self.form.format,
            event_type,
            object,
        )
    }

    /// Returns the frame of an object; `converted` is set if a webhook converted it.
    fn object(
        &self,
        event_type: EventType,
        entry: &Entry,
        converted: Option<&Value>,
        with_columns: bool,
    ) -> Result<Bytes, ApiError> {
        if let Some(tree) = converted {
            return self.viewed(event_type, Tree::Converted(tree), with_columns);
        }
        if self.form.view == View::Whole {
            return self.frame(
                event_type.name(),
                &self.requested.bytes(&self.context.representation.types, entry)?,
            );
        }
        if let View::PartialObject(version) = self.form.view
            && let Some(metadata) = self.requested.metadata_text(entry)
        {
            let mut json = Vec::with_capacity(metadata.len() + 128);
            representation::write_partial(
                &self.context.representation.types,
                &Value::Null,
                Some(&metadata),
                version,
                &mut json,
            );
            return self.frame(event_type.name(), &json);
        }
        self.viewed(event_type, Tree::Stored(&objects::tree(entry)), with_columns)
    }

    fn left(&self, event: &Event, converted: Option<&Value>, with_columns: bool) -> Result<Bytes, ApiError> {
        let previous = event.previous().unwrap_or_else(|| event.current());
        let mut tree = converted.cloned().unwrap_or_else(|| objects::tree(previous));
        let revision = event.revision().to_string();
        tree.set_at(&["metadata", "resourceVersion"], revision.into());
        let tree = match converted {
            Some(_) => Tree::Converted(&tree),
            None => Tree::Stored(&tree),
        };
        self.viewed(EventType::Left, tree, with_columns)
    }

    fn viewed(&self, event_type: EventType, tree: Tree<'_>, with_columns: bool) -> Result<Bytes, ApiError> {
        let (context, requested) = (&*self.context.representation, &self.requested);
        let json = match self.form.view {
            View::Table(version) => {
                let rows = Rows::new(context, requested, self.form.include, version);
                representation::table_of_one(&rows, tree, with_columns)?
            }
            view => representation::view(context, requested, &Query::default(), view, tree)?,
        };
        self.frame(event_type.name(), &json)
    }
}

/// Returns the type of an event for a watch without selectors.
fn type_for_all(event: &Event) -> EventType {
    match (event.kind(), event.previous()) {
        (EventKind::Delete, _) => EventType::Deleted,
        (_, Some(_)) => EventType::Modified,
        (_, None) => EventType::Added,
    }
}

/// Returns the frame of an error, after which the watch ends.
pub(crate) fn error(messages: &Messages, format: Format, error: &ApiError) -> Bytes {
    // A Status can be encoded in any form.
    frame(messages, format, "ERROR", &error.to_json()).unwrap_or_default()
}

/// Returns the frame of an event with the object whose JSON is `object`.
fn frame(messages: &Messages, format: Format, event_type: &str, object: &[u8]) -> Result<Bytes, ApiError> {
    match format {
        Format::Protobuf => {
            let object = protobuf::from_json(messages, object)?;
            let mut frame = Vec::new();
            write_watch_event(event_type, &object, &mut frame);
            Ok(frame.into())
        }
        Format::Cbor => {
            let object =
                json::parse(object, &Limits::TRUSTED).map_err(|error| ApiError::internal(error.to_string()))?;
            Ok(cbor_frame(event_type, &object))
        }
        _ => Ok(json_frame(event_type, object)),
    }
}

/// Returns the event as CBOR, in which the object is encoded like a separate document.
fn cbor_frame(event_type: &str, object: &Value) -> Bytes {
    let mut frame = cbor::SELF_DESCRIBED.to_vec();
    // A map of two entries.
    frame.push(0xa2);
    cbor::write_item(&"type".into(), &mut frame);
    cbor::write_item(&event_type.into(), &mut frame);
    cbor::write_item(&"object".into(), &mut frame);
    cbor::write(object, &mut frame);
    frame.into()
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
