//! Objects that the reference wrote in JSON and in protobuf, one of each kind, with every field set: each form is
//! decoded and must encode to the other. Skipped if the shared data are not available.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use holdfast_kind_tables::apis::Apis;
use holdfast_proto::{Envelope, Messages, write_envelope};
use holdfast_schema::types::{self, TypeId};
use holdfast_schema::{GroupVersion, GroupVersionKind};
use holdfast_value::{Limits, SmolStr, Value, json};
use test_support::{needs, shared};

/// Object of the reference in its two forms.
struct Sample {
    name: String,
    json: Value,
    protobuf: Vec<u8>,
}

impl Sample {
    /// Returns the kind from the file name.
    fn kind(&self) -> GroupVersionKind {
        let mut words = self.name.rsplitn(3, '.');
        let mut word = || words.next().unwrap();
        let (kind, version, group) = (SmolStr::new(word()), word(), word());
        let group = if group == "core" { "" } else { group };
        GroupVersionKind {
            group_version: GroupVersion::new(group, version),
            kind,
        }
    }
}

fn samples(folder: &Path) -> Vec<Sample> {
    let mut found: Vec<Sample> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pb"))
        .map(|path| Sample {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            json: json::parse(&std::fs::read(path.with_extension("json")).unwrap(), &Limits::TRUSTED).unwrap(),
            protobuf: std::fs::read(&path).unwrap(),
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Returns an error that describes the differences between the two forms of an object.
fn check(messages: &Messages, of: TypeId, sample: &Sample) -> Result<(), String> {
    let expected = types::decode(messages.types(), of, &sample.json).map_err(|error| error.to_string())?;
    if let Some(unknown) = expected.unknown.first() {
        return Err(unknown.to_string());
    }
    let envelope = Envelope::read(&sample.protobuf).map_err(|error| error.to_string())?;
    let mut read = messages
        .decode(of, envelope.message, &Limits::REQUEST)
        .map_err(|error| format!("reading: {error}"))?;
    for (name, text) in [("apiVersion", &envelope.api_version), ("kind", &envelope.kind)] {
        // Watch events have neither.
        if !text.is_empty() {
            read.set_at(&[name], Value::from(&**text));
        }
    }
    if read != expected.value {
        return Err(format!("read as\n{read}\ninstead of\n{}", expected.value));
    }
    let mut message = Vec::new();
    messages
        .encode(of, &expected.value, &mut message)
        .map_err(|error| format!("writing: {error}"))?;
    let mut written = Vec::new();
    write_envelope(&envelope.api_version, &envelope.kind, &message, &mut written);
    if written != sample.protobuf {
        let at = written.iter().zip(&sample.protobuf).take_while(|(a, b)| a == b).count();
        let around = |bytes: &[u8]| {
            bytes[at.saturating_sub(40)..(at + 40).min(bytes.len())]
                .escape_ascii()
                .to_string()
        };
        return Err(format!(
            "written otherwise from byte {at}:\n{}\ninstead of\n{}",
            around(&written),
            around(&sample.protobuf)
        ));
    }
    Ok(())
}

#[needs(shared)]
#[test]
fn objects_of_every_kind_match_reference() {
    let folder = shared("facts/roundtrip");
    let all = Apis::set(&["api/all=true".to_owned()]).unwrap();
    let messages = Messages::new(Arc::new(holdfast_kind_tables::types_of(&all).unwrap()));
    let (mut same, mut passed_over, mut odd) = (0, BTreeMap::<SmolStr, Vec<String>>::new(), Vec::new());
    for sample in samples(&folder) {
        let kind = sample.kind();
        let Some(of) = messages.types().id_of_kind(&kind) else {
            let kinds = passed_over.entry(kind.group_version.api_version()).or_default();
            kinds.push(kind.kind.to_string());
            continue;
        };
        match check(&messages, of, &sample) {
            Ok(()) => same += 1,
            Err(difference) => odd.push(format!("{}: {difference}", sample.name)),
        }
    }
    println!("{same} the same both ways; passed over, since the table of types has them not:");
    for (api_version, kinds) in &passed_over {
        println!("  {api_version}: {}", kinds.join(", "));
    }
    assert!(odd.is_empty(), "{} differ:\n{}", odd.len(), odd.join("\n\n"));
    assert!(same > 0);
}
