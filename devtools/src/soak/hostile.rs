//! Hostile and faulty clients. Their responses do not matter; that others are served does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use conformance::{Target, USER_TOKEN};
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};

use super::objects::COLLECTION;
use super::random::Random;

/// The collection of objects with defaults that multiply.
pub(super) const DEFAULTING: &str = "/apis/soak.example.com/v1/namespaces/soak/defaultings";
/// Time limit of one attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(4);

/// The kinds of attempts.
const ATTEMPTS: [Attempt; 10] = [
    Attempt::ZeroWindow,
    Attempt::Unread,
    Attempt::SlowBody,
    Attempt::BrokenHead,
    Attempt::PartialHead,
    Attempt::HangUp,
    Attempt::Defaults,
    Attempt::DeepBody,
    Attempt::WidePatch,
    Attempt::ApplyOptions,
];

/// Forms of long responses.
const FORMS: [&str; 6] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
];

#[derive(Clone, Copy, Debug)]
pub(super) enum Attempt {
    /// Many large responses of one form over HTTP/2, with a window of zero bytes.
    ZeroWindow,
    /// Lists that are requested and not read.
    Unread,
    /// A body that comes a byte at a time.
    SlowBody,
    /// Request heads that are not HTTP, or too large.
    BrokenHead,
    /// Large request heads without an end.
    PartialHead,
    /// Connections that end in the middle of everything.
    HangUp,
    /// A small body that defaults make large.
    Defaults,
    /// A body that nests.
    DeepBody,
    /// Patches that are expensive.
    WidePatch,
    /// Applies with many paths in their options.
    ApplyOptions,
}

/// Past and current attempts of hostile clients.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    pub(super) done: u64,
    /// Current attempt of each of them.
    pub(super) under_way: BTreeMap<u64, Attempt>,
}

/// Does harm until it is ended.
pub(super) async fn run(number: u64, target: Target, mut random: Random, attempts: Arc<Mutex<Attempts>>) {
    loop {
        let kind = random.one_of(&ATTEMPTS).copied().unwrap_or(Attempt::HangUp);
        attempts.lock().under_way.insert(number, kind);
        // Such clients are expected to fail.
        let _ = timeout(ATTEMPT_TIMEOUT, attempt(kind, &target, &mut random)).await;
        attempts.lock().done += 1;
        // If the server is down, connecting fails at once.
        sleep(Duration::from_millis(10)).await;
    }
}

async fn attempt(kind: Attempt, target: &Target, random: &mut Random) -> Result<()> {
    match kind {
        Attempt::ZeroWindow => zero_window(target, random).await,
        Attempt::Unread => unread(target).await,
        Attempt::SlowBody => slow_body(target, random).await,
        Attempt::BrokenHead => broken_head(target, random).await,
        Attempt::PartialHead => partial_head(target).await,
        Attempt::HangUp => hang_up(target, random).await,
        Attempt::Defaults => post(target, DEFAULTING, &defaults(random)).await,
        Attempt::DeepBody => post(target, COLLECTION, &deep(random)).await,
        Attempt::WidePatch => wide_patch(target, random).await,
        Attempt::ApplyOptions => apply_options(target, random).await,
    }
}

async fn zero_window(target: &Target, random: &mut Random) -> Result<()> {
    let form = random.one_of(&FORMS).copied().unwrap_or("application/json");
    let connection = target.connect_http2_with_window(0).await?;
    let mut held = Vec::new();
    for (path, accept) in [
        ("/openapi/v2", "application/json"),
        ("/api/v1/configmaps", form),
        ("/api/v1/configmaps?watch=true", "application/json"),
    ]
    .repeat(20)
    {
        held.push(connection.clone().get(path, accept).await?);
    }
    sleep(ATTEMPT_TIMEOUT).await;
    Ok(())
}

async fn unread(target: &Target) -> Result<()> {
    let mut stream = target.raw().await?;
    let request = request("GET", "/openapi/v2", "");
    stream.write_all(request.repeat(5).as_bytes()).await?;
    sleep(ATTEMPT_TIMEOUT).await;
    Ok(())
}

async fn slow_body(target: &Target, random: &mut Random) -> Result<()> {
    let mut stream = target.raw().await?;
    let length = 1_000 + random.below(1 << 20);
    let head = request(
        "POST",
        COLLECTION,
        &format!("content-type: application/json\r\ncontent-length: {length}\r\n"),
    );
    stream.write_all(head.as_bytes()).await?;
    loop {
        stream.write_all(b"{").await?;
        stream.flush().await?;
        sleep(Duration::from_millis(50)).await;
    }
}

async fn broken_head(target: &Target, random: &mut Random) -> Result<()> {
    let heads = [
        "GET\r\n\r\n".to_owned(),
        request("GET", "/api/v1/../../%2e%2e/%00", ""),
        request("GET", &format!("/{}", "a".repeat(100_000)), ""),
        request("GET", "/version", &"x-filler: y\r\n".repeat(5_000)),
        request("GET", "/version", "impersonate-user: jos\u{e9}\r\n"),
        request("POST", COLLECTION, "content-length: 99999999999999999999\r\n"),
        request("POST", COLLECTION, "transfer-encoding: chunked\r\n") + "ffffffffffffffff\r\n",
        (0..2_000).map(|_| char::from((random.below(127) + 1) as u8)).collect(),
    ];
    let Some(head) = random.one_of(&heads) else {
        return Ok(());
    };
    let mut stream = target.raw().await?;
    stream.write_all(head.as_bytes()).await?;
    let mut answer = [0; 4096];
    let _length = stream.read(&mut answer).await?;
    Ok(())
}

async fn partial_head(target: &Target) -> Result<()> {
    let mut stream = target.raw().await?;
    let head = format!(
        "GET /livez HTTP/1.1\r\nhost: localhost\r\nx-filler: {}",
        "a".repeat(100_000)
    );
    stream.write_all(head.as_bytes()).await?;
    sleep(ATTEMPT_TIMEOUT).await;
    Ok(())
}

async fn apply_options(target: &Target, random: &mut Random) -> Result<()> {
    let option = random.one_of(&["forceFields", "unset"]).copied().unwrap_or("unset");
    let paths = |from: u64| {
        (from..from + 64)
            .map(|at| format!(".data.k{at}"))
            .collect::<Vec<_>>()
            .join(",")
    };
    let options: String = (0..64).map(|at| format!("&{option}={}", paths(64 * at))).collect();
    let data: serde_json::Map<_, _> = (0..4000).map(|at| (format!("k{at}"), json!("x"))).collect();
    let data = if option == "unset" {
        serde_json::Map::new()
    } else {
        data
    };
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared-0"}, "data": data});
    let path = format!("{COLLECTION}/shared-0?fieldManager=hostile&dryRun=All&conflictDetails=true{options}");
    let mut connection = target.connect().await?;
    connection
        .ask(
            Method::PATCH,
            &path,
            "application/apply-patch+yaml",
            Bytes::from(body.to_string()),
        )
        .await?;
    Ok(())
}

async fn hang_up(target: &Target, random: &mut Random) -> Result<()> {
    let mut stream = target.raw().await?;
    let watch = format!("{COLLECTION}?watch=true");
    let path = random.one_of(&[COLLECTION, watch.as_str(), "/openapi/v2"]).copied();
    let request = request("GET", path.unwrap_or(COLLECTION), "");
    let cut = 1 + random.below(request.len() as u64) as usize;
    let sent = if random.below(2) == 0 { request.len() } else { cut };
    stream
        .write_all(request.as_bytes().get(..sent).unwrap_or_default())
        .await?;
    stream.flush().await?;
    sleep(Duration::from_millis(random.below(20))).await;
    Ok(())
}

async fn wide_patch(target: &Target, random: &mut Random) -> Result<()> {
    let count = 1 + random.below(8_000);
    let patches = [
        ("application/json-patch+json", json_patch(count)),
        ("application/strategic-merge-patch+json", strategic_patch(count)),
    ];
    let Some((media_type, patch)) = random.one_of(&patches) else {
        return Ok(());
    };
    let path = format!("{COLLECTION}/shared-0?dryRun=All");
    let mut connection = target.connect().await?;
    connection
        .ask(Method::PATCH, &path, media_type, Bytes::from(patch.to_string()))
        .await?;
    Ok(())
}

fn json_patch(count: u64) -> Value {
    let insert = |n| json!({"op": "add", "path": "/metadata/finalizers/0", "value": format!("soak.example.com/{n}")});
    let begin = json!({"op": "add", "path": "/metadata/finalizers", "value": []});
    std::iter::once(begin).chain((0..count).map(insert)).collect()
}

fn strategic_patch(count: u64) -> Value {
    let names: Value = (0..count).map(|n| json!(format!("soak.example.com/{n}"))).collect();
    json!({"metadata": {"$deleteFromPrimitiveList/finalizers": names}})
}

fn defaults(random: &mut Random) -> Value {
    let items: Value = (0..1 + random.below(60_000)).map(|_| json!({})).collect();
    let metadata = json!({"generateName": "soak-"});
    json!({"apiVersion": "soak.example.com/v1", "kind": "Defaulting", "metadata": metadata, "items": items})
}

fn deep(random: &mut Random) -> Value {
    // This is built as text, since a value that nests so deep cannot be built here either.
    let depth = 1 + random.below(200_000) as usize;
    Value::String("[".repeat(depth))
}

async fn post(target: &Target, path: &str, body: &Value) -> Result<()> {
    let mut connection = target.connect().await?;
    // A string is sent unchanged, for bodies that are not JSON.
    let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
    let path = format!("{path}?dryRun=All");
    connection
        .ask(Method::POST, &path, "application/json", Bytes::from(text))
        .await?;
    Ok(())
}

fn request(method: &str, path: &str, headers: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {USER_TOKEN}\r\n{headers}\r\n")
}

/// Returns the role binding that grants the hostile user everything: one without permissions does no harm.
pub(super) fn rights() -> Value {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
    let user = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"});
    let metadata = json!({"name": "hostile"});
    let version = "rbac.authorization.k8s.io/v1";
    json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": metadata, "roleRef": role, "subjects": [user]})
}

/// Returns the CRD whose defaults multiply.
pub(super) fn crd() -> Value {
    let text = json!({"type": "string", "default": "x".repeat(5_000)});
    let item = json!({"type": "object", "properties": {"text": text}});
    let schema = json!({"type": "object", "properties": {"items": {"type": "array", "items": item}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let names = json!({"plural": "defaultings", "singular": "defaulting", "kind": "Defaulting"});
    let spec = json!({"group": "soak.example.com", "scope": "Namespaced", "names": names, "versions": [version]});
    let metadata = json!({"name": "defaultings.soak.example.com"});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec})
}
