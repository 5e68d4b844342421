//! Clients that list in pages and watch.

use std::sync::Arc;

use http_body_util::BodyExt as _;
use serde_json::Value;

use super::PAUSE;
use super::history::{CONFIG_MAPS, History, Version};
use super::server::{Call, Server};
use crate::PlantedBug;
use crate::world::{Violation, ensure};

const PATH: &str = "/api/v1/configmaps";
/// Maximum number of lists of one client.
const MAX_LISTS: u64 = 4;

/// Lists all ConfigMaps in pages.
pub(super) async fn list(server: Arc<Server>) {
    let world = &server.world;
    for _ in 0..1 + world.below(MAX_LISTS) {
        world.pause(PAUSE).await;
        let limit = 1 + world.below(4);
        let (mut version, mut names, mut token) = (String::new(), Vec::new(), String::new());
        loop {
            let path = format!("{PATH}?limit={limit}&continue={token}");
            let Some(answer) = server.send(&Call::get(path), &[200, 410]).await else {
                return;
            };
            if answer.code != 200 {
                break;
            }
            let shown = answer.text("/metadata/resourceVersion");
            if version.is_empty() {
                version = shown.to_owned();
            }
            if version != shown {
                return world.report(format!("a page of the list at {version} is one of {shown}"));
            }
            let items = answer.at("/items").as_array();
            names.extend(items.into_iter().flatten().map(address));
            token = answer.text("/metadata/continue").to_owned();
            if token.is_empty() {
                let checked = server.check(|history| check_list(history, &version, &names));
                if checked.is_none() {
                    return;
                }
                break;
            }
            world.pause(PAUSE).await;
        }
    }
}

/// Returns the namespace, name and version of an object.
fn address(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!(
        "{}/{}@{}",
        text("/metadata/namespace"),
        text("/metadata/name"),
        text("/metadata/resourceVersion")
    )
}

/// Checks that a list shows the state at its version.
fn check_list(history: &History, version: &str, names: &[String]) -> Result<(), Violation> {
    let revision = version.parse().unwrap_or_default();
    let expected = history.state_at(revision, CONFIG_MAPS);
    ensure!(
        names == expected,
        "the list at {version} is {names:?} instead of {expected:?}"
    );
    Ok(())
}

/// Watches all ConfigMaps until the server ends or the watch is too slow.
pub(super) async fn watch(server: Arc<Server>) {
    let world = &server.world;
    world.pause(PAUSE).await;
    let mut revision = server.service.context.shared.store.revision();
    let is_slow = world.once_in(3);
    loop {
        let path = format!("{PATH}?watch=true&resourceVersion={revision}&allowWatchBookmarks=true");
        let Some(response) = server.respond(&Call::get(path)).await else {
            return;
        };
        if server.service.context.shutdown.is_closing() {
            return;
        }
        let mut body = response.into_body();
        let mut text = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(data) = frame.into_data() else { continue };
            text.extend_from_slice(&data);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                if world.has_bug(PlantedBug::SkipsEvents) && world.once_in(20) {
                    continue;
                }
                let event: Value = serde_json::from_slice(&line).unwrap_or_default();
                world.note(format!("watch: {} {}", event["type"], address(&event["object"])));
                let checked = server.check(|history| check_event(history, &event, revision));
                match checked {
                    Some(Shown::Event(shown)) => revision = shown,
                    Some(Shown::TooOld) => {
                        let oldest = server.service.context.shared.store.oldest_revision();
                        if oldest <= revision {
                            world.report(format!(
                                "410 to a watch from {revision}, the history begins at {oldest}"
                            ));
                            return;
                        }
                        revision = server.service.context.shared.store.revision();
                    }
                    None => return,
                }
            }
            if is_slow {
                world.pause(PAUSE * 50).await;
            }
        }
        if server.service.context.shutdown.is_closing() {
            server.check(|history| {
                let missed = history
                    .after(revision)
                    .iter()
                    .find(|version| version.key.starts_with(CONFIG_MAPS));
                ensure!(
                    missed.is_none() || is_slow,
                    "a watch at {revision} did not get {missed:?}"
                );
                Ok(())
            });
            return;
        }
        world.pause(PAUSE).await;
    }
}

/// Content of a frame of a watch.
enum Shown {
    /// Event or bookmark of this revision.
    Event(u64),
    /// Error 410.
    TooOld,
}

/// Checks that an event is the next one after `revision`.
fn check_event(history: &History, event: &Value, revision: u64) -> Result<Shown, Violation> {
    let version = event
        .pointer("/object/metadata/resourceVersion")
        .and_then(Value::as_str);
    let shown: u64 = version.and_then(|version| version.parse().ok()).unwrap_or_default();
    let next = history
        .after(revision)
        .iter()
        .find(|version| version.key.starts_with(CONFIG_MAPS));
    match event["type"].as_str() {
        Some("ERROR") if event.pointer("/object/code") == Some(&Value::from(410)) => Ok(Shown::TooOld),
        Some("BOOKMARK") => {
            ensure!(
                next.is_none_or(|next| next.revision > shown) && shown <= history.revision(),
                "a bookmark of {shown} after {revision} precedes {next:?}"
            );
            Ok(Shown::Event(shown.max(revision)))
        }
        Some(kind) => {
            let expected = next.map(|next| (event_type(next), next.revision));
            ensure!(
                expected == Some((kind, shown)),
                "a watch at {revision} got {kind} {} instead of {expected:?}",
                address(&event["object"])
            );
            Ok(Shown::Event(shown))
        }
        None => Err(Violation::new(format!("a frame of a watch is no event: {event}"))),
    }
}

fn event_type(version: &Version) -> &'static str {
    match (version.deleted, version.created) {
        (true, _) => "DELETED",
        (false, true) => "ADDED",
        (false, false) => "MODIFIED",
    }
}
