//! Objects in kube-apiserver's etcd, compared with the objects that its API returns: both directions are exact. Skipped
//! if the shared data are not available.
//!
//! `passing.txt` lists the keys whose entries are exact in both directions, so that none is lost; `HOLDFAST_BLESS=1`
//! updates it.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used)] // A failure names the key.

mod invariants;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_at_rest::{OlderKind, StorageCodec};
use holdfast_kinds::Config;
use holdfast_value::{Limits, Value, json};
use test_support::{needs, shared};

fn codec() -> StorageCodec {
    codec_with(&Config::default())
}

fn codec_with(config: &Config) -> StorageCodec {
    let older = holdfast_kind_tables::older_kinds().map(|(api_version, kind, like)| OlderKind {
        api_version,
        kind,
        like,
    });
    let types = Arc::new(holdfast_kind_tables::types_at_rest(&config.apis).unwrap());
    StorageCodec::new(holdfast_kinds::registry(config).unwrap(), types, older)
}

/// Entry of the reference's etcd.
struct Stored {
    key: String,
    bytes: Vec<u8>,
    /// Object that the API returns for it, if any.
    object: Option<Value>,
    leased: bool,
}

impl Stored {
    /// Returns the object in the storage version. The API's form of a custom object depends on its CRD, which may prune
    /// it or convert it with a webhook; for these the stored object is used.
    fn expected(&self) -> Option<Value> {
        let object = self.object.as_ref()?;
        match self
            .key
            .split('/')
            .nth(2)
            .is_some_and(|group| group.ends_with(".example.com"))
        {
            true => {
                let mut object = json::parse(&self.bytes, &Limits::TRUSTED).unwrap();
                object.set_at(&["metadata", "resourceVersion"], "1".into());
                Some(object)
            }
            false => Some(object.clone()),
        }
    }
}

fn entries() -> Vec<Stored> {
    let mut entries = Vec::new();
    for file in ["initial", "objects", "custom"] {
        let text = std::fs::read_to_string(shared(&format!("corpus/storage/{file}.jsonl"))).unwrap();
        for line in text.lines() {
            let entry = json::parse(line.as_bytes(), &Limits::TRUSTED).unwrap();
            entries.push(Stored {
                key: entry.str_at(&["key"]).unwrap().to_owned(),
                bytes: STANDARD.decode(entry.str_at(&["value"]).unwrap()).unwrap(),
                object: entry.get("object").filter(|object| !object.is_null()).cloned(),
                leased: entry.get("lease").and_then(Value::as_bool) == Some(true),
            });
        }
    }
    entries
}

/// Returns the entry that `stored` replaced: all versions of each object are recorded, from its creation on.
fn before<'a>(entries: &'a [Stored], stored: &Stored) -> Option<&'a Stored> {
    let uid = |stored: &Stored| Some(stored.object.as_ref()?.str_at(&["metadata", "uid"])?.to_owned());
    let last = entries.iter().rfind(|entry| entry.key == stored.key)?;
    (uid(last) == uid(stored)).then_some(last)
}

/// Reads a stored entry and compares it with the API's object.
fn reads(codec: &StorageCodec, stored: &Stored) -> Result<(), String> {
    let served = codec
        .from_rest(stored.key.as_bytes(), &stored.bytes)
        .map_err(|detail| format!("reading: {detail}"))?;
    let Some(mut expected) = stored.expected() else {
        return Ok(());
    };
    expected.set_at(&["metadata", "resourceVersion"], "".into());
    let read = json::parse(served.bytes(), &Limits::TRUSTED).map_err(|error| error.to_string())?;
    match read == expected {
        true => Ok(()),
        false => Err(format!("read as\n{read}\ninstead of\n{expected}")),
    }
}

/// Writes the API's object (or the object that was read, if the API returns none) and compares it with the stored
/// entry.
fn writes(codec: &StorageCodec, stored: &Stored, old: Option<&Stored>) -> Result<(), String> {
    let decoded = match stored.expected() {
        Some(object) => holdfast_store::Value::plain(json::to_string(&object)),
        None => codec
            .from_rest(stored.key.as_bytes(), &stored.bytes)
            .map_err(|detail| format!("reading: {detail}"))?,
    };
    let served = with_room(decoded);
    let old = old.and_then(Stored::expected).map(|old| json::to_string(&old));
    let written = codec
        .to_rest(stored.key.as_bytes(), &served, old.as_deref().map(str::as_bytes))
        .map_err(|detail| format!("writing: {detail}"))?;
    if written == stored.bytes {
        return Ok(());
    }
    let at = written.iter().zip(&stored.bytes).take_while(|(a, b)| a == b).count();
    let around = |bytes: &[u8]| {
        bytes[at.saturating_sub(60)..(at + 60).min(bytes.len())]
            .escape_ascii()
            .to_string()
    };
    Err(format!(
        "written\n{}\ninstead of\n{}",
        around(&written),
        around(&stored.bytes)
    ))
}

/// Returns the object with an empty revision, as the store holds it.
fn with_room(served: holdfast_store::Value) -> holdfast_store::Value {
    const NAME: &str = r#""resourceVersion":""#;
    let text = std::str::from_utf8(served.bytes()).unwrap();
    let metadata = text.find(r#""metadata":{"#).unwrap_or_default();
    let Some(at) = text[metadata..].find(NAME).map(|at| metadata + at + NAME.len()) else {
        return served;
    };
    let digits = text[at..].find('"').unwrap();
    let bytes = [&text[..at], &text[at + digits..]].concat();
    holdfast_store::Value::object(bytes, at as u32)
}

fn list() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/passing.txt")
}

#[needs(shared)]
#[test]
fn reference_objects_round_trip_exactly() {
    let codec = codec();
    let mut failing: BTreeMap<String, String> = BTreeMap::new();
    let mut counts: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let entries = entries();
    for (at, stored) in entries.iter().enumerate() {
        let name = format!("{} {}", at, stored.key);
        let (read, written) = (
            reads(&codec, stored),
            writes(&codec, stored, before(&entries[..at], stored)),
        );
        let segment = stored.key.split('/').nth(2).unwrap_or_default();
        let family = if segment.ends_with(".example.com") {
            "custom"
        } else {
            segment
        };
        let count = counts.entry(family.to_owned()).or_default();
        count[0] += 1;
        count[1] += usize::from(read.is_ok());
        count[2] += usize::from(written.is_ok());
        if let Err(detail) = read.and(written) {
            failing.insert(name, detail);
        }
    }
    for (family, [all, read, written]) in &counts {
        println!("{family}: {all} entries, {read} read, {written} written");
    }
    for (name, detail) in &failing {
        println!("{name}: {detail}\n");
    }
    let passing: BTreeSet<String> = (0..entries.len())
        .map(|at| format!("{} {}", at, entries[at].key))
        .filter(|name| !failing.contains_key(name))
        .collect();
    println!("{} of {} are exact", passing.len(), entries.len());
    if std::env::var_os("HOLDFAST_BLESS").is_some() {
        let names: Vec<&str> = passing.iter().map(String::as_str).collect();
        std::fs::write(list(), names.join("\n") + "\n").unwrap();
    }
    let known = std::fs::read_to_string(list()).unwrap_or_default();
    let lost: Vec<&str> = known.lines().filter(|name| !passing.contains(*name)).collect();
    assert!(lost.is_empty(), "no longer exact: {lost:?}");
}

/// Copies each object from the reference's form to the served one and back, as a copy to a data directory and back does.
#[needs(shared)]
#[test]
fn copied_objects_keep_their_bytes() {
    use holdfast_kind_tables::apis::Apis;

    let everything = Config {
        apis: Apis::set(&["api/all=true".to_owned()]).unwrap(),
        ..Config::default()
    };
    let codec = codec_with(&everything);
    let mut failing = Vec::new();
    let entries = entries();
    for (at, stored) in entries.iter().enumerate() {
        let key = stored.key.as_bytes();
        // A copy writes an updated object twice: the second write replaces the first.
        let is_updated = before(&entries[..at], stored).is_some();
        let back = codec.from_rest(key, &stored.bytes).and_then(|served| {
            let old = is_updated.then(|| served.bytes().clone());
            codec.to_rest(key, &served, old.as_deref())
        });
        match back {
            Ok(back) if back == stored.bytes => {}
            Ok(back) => failing.push(format!(
                "{at} {}:\n{}\ninstead of\n{}",
                stored.key,
                back.escape_ascii(),
                stored.bytes.escape_ascii()
            )),
            Err(detail) => failing.push(format!("{at} {}: {detail}", stored.key)),
        }
    }
    assert!(
        failing.is_empty(),
        "{} change:\n{}",
        failing.len(),
        failing.join("\n\n")
    );
}

#[test]
fn copied_objects_gain_and_lose_nothing() {
    let codec = codec();
    for (key, stored) in [
        // Behind a feature gate that is off, with and without a value.
        (
            "/registry/csidrivers/a",
            r#"{"kind":"CSIDriver","apiVersion":"storage.k8s.io/v1","metadata":{"name":"a"},"spec":{"attachRequired":true,"podInfoOnMount":false,"volumeLifecycleModes":["Persistent"],"storageCapacity":false,"fsGroupPolicy":"ReadWriteOnceWithFSType","requiresRepublish":false,"seLinuxMount":false}}"#,
        ),
        (
            "/registry/csidrivers/b",
            r#"{"kind":"CSIDriver","apiVersion":"storage.k8s.io/v1","metadata":{"name":"b"},"spec":{"attachRequired":true,"podInfoOnMount":false,"volumeLifecycleModes":["Persistent"],"storageCapacity":false,"fsGroupPolicy":"ReadWriteOnceWithFSType","requiresRepublish":false,"seLinuxMount":false,"preventPodSchedulingIfMissing":true}}"#,
        ),
        (
            "/registry/controllerrevisions/a/b",
            r#"{"kind":"ControllerRevision","apiVersion":"apps/v1","metadata":{"name":"b","namespace":"a"},"data":{"z":1.0,"a":{"c":1,"b":2}},"revision":1}"#,
        ),
    ] {
        // Protobuf in which the raw extension has its text, as a server wrote it.
        let served = holdfast_store::Value::plain(stored);
        let in_protobuf = codec.to_rest(key.as_bytes(), &served, None).unwrap();
        let back = codec.from_rest(key.as_bytes(), &in_protobuf).unwrap();
        let again = codec.to_rest(key.as_bytes(), &back, None).unwrap();
        assert_eq!(
            again.escape_ascii().to_string(),
            in_protobuf.escape_ascii().to_string(),
            "{key}"
        );
        let text = std::str::from_utf8(back.bytes()).unwrap();
        let behind_metadata = stored.split_once("},").unwrap().1;
        // The form of a raw extension is noted by white space.
        let object = text.trim_end();
        assert!(
            object.ends_with(behind_metadata),
            "{object} ends with {behind_metadata}"
        );
    }
}

#[test]
fn copied_raw_extension_keeps_its_layout() {
    let codec = codec();
    let key = b"/registry/controllerrevisions/a/b";
    const DATA: &str = r#"{ "z": 1.0, "a":"<b> & \u003c" }"#;
    let sent = format!(
        r#"{{"kind":"ControllerRevision","apiVersion":"apps/v1","metadata":{{"name":"b","namespace":"a"}},"data":{DATA},"revision":1}}"#
    );
    let stored = codec.to_rest(key, &holdfast_store::Value::plain(sent), None).unwrap();
    assert!(contains(&stored, DATA.as_bytes()));
    let served = codec.from_rest(key, &stored).unwrap();
    let compact = r#""data":{"z":1.0,"a":"\u003cb\u003e \u0026 \u003c"},"revision":1}"#;
    assert!(contains(served.bytes(), compact.as_bytes()));
    assert_eq!(codec.to_rest(key, &served, None).unwrap(), stored);
}

/// Returns true if `bytes` contain `part`.
fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn copied_external_name_keeps_its_hidden_policy() {
    let codec = codec();
    let key = b"/registry/services/specs/a/b";
    let service = |more: &str| {
        format!(
            r#"{{"kind":"Service","apiVersion":"v1","metadata":{{"name":"b","namespace":"a"}},"spec":{{"type":"ExternalName","externalName":"a.example.com","sessionAffinity":"None"{more}}},"status":{{"loadBalancer":{{}}}}}}"#
        )
    };
    let stored = |more: &str| {
        let served = holdfast_store::Value::plain(service(more));
        codec.to_rest(key, &served, None).unwrap()
    };
    for policy in [
        "",
        r#","internalTrafficPolicy":"Cluster""#,
        r#","internalTrafficPolicy":"Local""#,
    ] {
        let stored = stored(policy);
        let served = codec.from_rest(key, &stored).unwrap();
        assert!(!contains(served.bytes(), b"internalTrafficPolicy"));
        assert_eq!(codec.to_rest(key, &served, None).unwrap(), stored, "{policy}");
    }
}

#[needs(shared)]
#[test]
fn events_and_server_leases_expire() {
    use holdfast_store::{Codec as _, TimeToLive};

    let codec = codec();
    for stored in entries() {
        let life = match (stored.leased, stored.object.is_some()) {
            (true, true) => TimeToLive::Event,
            (true, false) => TimeToLive::Seconds(15),
            (false, _) => TimeToLive::Unlimited,
        };
        assert_eq!(codec.time_to_live(stored.key.as_bytes()), life, "{}", stored.key);
    }
}

/// Returns the key of a kind's objects, by its plural name or another name of the reference.
fn key_of(stored_version: &str, kind: &str) -> Option<String> {
    let registry = holdfast_kinds::registry(&Config::default()).unwrap();
    let of_kind = |resource: &&Arc<holdfast_resource::Resource>| resource.kind == kind;
    let group = stored_version.split('/').next().unwrap();
    let found = registry
        .resources()
        .filter(of_kind)
        .find(|resource| resource.group == group)
        .or_else(|| registry.resources().find(of_kind))?;
    Some(found.storage.as_ref()?.key("ns", "name"))
}

#[needs(shared)]
#[test]
fn objects_of_older_versions_are_read_as_those_of_today() {
    let codec = codec();
    let types = holdfast_kind_tables::types_at_rest(&Config::default().apis).unwrap();
    let of_types = types.iter().flat_map(|(_, of)| &of.kinds);
    let own = of_types
        .filter(|kind| kind.group_version.version.contains("beta") || kind.group_version.version.contains("alpha"))
        .map(|kind| (kind.group_version.api_version().to_string(), kind.kind.to_string()));
    let like =
        holdfast_kind_tables::older_kinds().map(|(api_version, kind, _)| (api_version.to_owned(), kind.to_owned()));
    let mut read = 0;
    let mut odd = Vec::new();
    for (api_version, kind) in own.chain(like) {
        let name = format!("{}.{kind}", api_version.replace('/', "."));
        let path = shared("facts/roundtrip").join(format!("{name}.pb"));
        let (Some(key), Ok(bytes)) = (key_of(&api_version, &kind), std::fs::read(path)) else {
            continue;
        };
        let served = match codec.from_rest(key.as_bytes(), &bytes) {
            Ok(served) => json::parse(served.bytes(), &Limits::TRUSTED).unwrap(),
            Err(detail) => {
                odd.push(format!("{name}: {detail}"));
                continue;
            }
        };
        // The reference sets each field to a value derived from its name, so the object of the current version is the
        // same.
        let api_version = served.str_at(&["apiVersion"]).unwrap();
        let today = if api_version.contains('/') {
            api_version.replace('/', ".")
        } else {
            format!("core.{api_version}")
        };
        let path = shared("facts/roundtrip").join(format!("{today}.{kind}.json"));
        let mut expected = json::parse(&std::fs::read(path).unwrap(), &Limits::TRUSTED).unwrap();
        expected.set_at(&["metadata", "resourceVersion"], "".into());
        read += 1;
        let mut differences = Vec::new();
        differ("", &served, &expected, &mut differences);
        odd.extend(differences.iter().map(|difference| format!("{name}: {difference}")));
    }
    println!("{read} kinds of older versions");
    let known =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/older.txt")).unwrap_or_default();
    let known: BTreeSet<&str> = known.lines().filter(|line| !line.starts_with('#')).collect();
    let unknown: Vec<&String> = odd.iter().filter(|line| !known.contains(line.as_str())).collect();
    for line in &odd {
        println!("{line}");
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(read > 50);
}

/// Collects the differences between two trees.
fn differ(path: &str, found: &Value, expected: &Value, out: &mut Vec<String>) {
    match (found, expected) {
        (Value::Map(a), Value::Map(b)) => {
            let names: BTreeSet<&str> = a.iter().chain(b.iter()).map(|(name, _)| name.as_str()).collect();
            for name in names {
                let path = format!("{path}.{name}");
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => differ(&path, a, b, out),
                    (Some(a), None) => out.push(format!("{path} is {a}")),
                    (None, _) => out.push(format!("{path} is missing")),
                }
            }
        }
        (Value::List(a), Value::List(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b.iter()).enumerate() {
                differ(&format!("{path}[{at}]"), a, b, out);
            }
        }
        (a, b) if a != b => out.push(format!("{path} is {a} and not {b}")),
        _ => {}
    }
}

#[test]
fn unreadable_object_is_reported_by_key() {
    use holdfast_store::Codec as _;

    let codec = codec();
    for (key, bytes, message) in [
        (
            "/registry/pods/a/b",
            &b"k8s\0\x0a\x09\x0a\x02v2\x12\x03Pod\x12\x00"[..],
            "/registry/pods/a/b: no kind \"Pod\" is registered for version \"v2\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
        ),
        ("/registry/pods/a/b", b"k8s\0\x0a", "/registry/pods/a/b: unexpected EOF"),
        (
            "/registry/pods/a/b",
            b"k8s\0\x0a\x0d\x0a\x02v1\x12\x07Service\x12\x00",
            "/registry/pods/a/b: an object of kind Service is stored at a key of kind Pod",
        ),
        (
            "/registry/a.io/as/b",
            br#"{"kind":"A"}"#,
            "/registry/a.io/as/b: Object 'apiVersion' is missing",
        ),
    ] {
        let error = codec.decode(key.as_bytes(), bytes).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert!(json::parse(error.placeholder(b"", None).bytes(), &Limits::TRUSTED).is_err());
    }
}

#[test]
fn unserved_object_is_passed_unchanged() {
    let codec = codec();
    let unknown = b"k8s\0\x0a\x10\x0a\x02v1\x12\x0aClusterFoo\x12\x00";
    let served = codec.from_rest(b"/registry/clusterfoos/a", unknown).unwrap();
    assert_eq!(served.bytes(), &unknown[..]);
    assert_eq!(
        codec.to_rest(b"/registry/clusterfoos/a", &served, None).unwrap(),
        unknown
    );
}

#[test]
fn newer_fields_get_their_defaults() {
    // A Pod with only containers, as JSON, which servers once wrote.
    let codec = codec();
    let old = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let served = codec.from_rest(b"/registry/pods/b/a", old).unwrap();
    let object = json::parse(served.bytes(), &Limits::TRUSTED).unwrap();
    assert_eq!(object.str_at(&["spec", "restartPolicy"]), Some("Always"));
    assert_eq!(object.str_at(&["spec", "schedulerName"]), Some("default-scheduler"));
}

#[test]
fn objects_are_kept_as_json_on_request() {
    let codec = codec().with_encoding(holdfast_resource::Encoding::Json);
    let key = b"/registry/configmaps/a/b";
    let json = "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"b\",\"namespace\":\"a\"},\"data\":{\"k\":\"v\"}}\n";
    let served = codec.from_rest(key, json.as_bytes()).unwrap();
    assert_eq!(codec.to_rest(key, &served, None).unwrap(), json.as_bytes());
    let in_protobuf = self::codec().to_rest(key, &served, None).unwrap();
    assert_eq!(codec.from_rest(key, &in_protobuf).unwrap(), served);
}

/// Any bytes in etcd are read or rejected, and an object that was read is unchanged after it is written again.
#[needs(shared)]
#[test]
fn mutated_object_is_read_or_rejected() {
    let codec = codec();
    let mut state = 0x9E37_79B9_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    let (mut read, mut rejected) = (0, 0);
    for stored in entries().iter().step_by(7) {
        for _ in 0..4 {
            let mut bytes = stored.bytes.clone();
            match random(3) {
                0 => bytes.truncate(random(bytes.len())),
                1 => {
                    let at = random(bytes.len());
                    bytes.remove(at);
                }
                _ => {
                    let at = random(bytes.len());
                    bytes[at] = random(256) as u8;
                }
            }
            match invariants::entry(&codec, stored.key.as_bytes(), &bytes) {
                true => read += 1,
                false => rejected += 1,
            }
        }
    }
    assert!(read > 100 && rejected > 100, "{read} read, {rejected} refused");
}
