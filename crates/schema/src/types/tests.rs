//! Tests over the table of the built-in types, against the corpus and the facts if these exist.

use holdfast_merge::SchemaBuilder;
use holdfast_table_source::{Source, type_lines};
use holdfast_value::{Error, Growth, Limits, Value, json, yaml};
use test_support::{needs, shared};

use super::*;
use crate::parts::StoredFacts;

/// Returns the table of the built-in types.
pub(crate) fn builtin() -> TypeTable {
    let text = include_str!("../../../kind-tables/tables/types.toml");
    TypeTable::parse(&type_lines(&Source::new("types.toml", text)).unwrap()).unwrap()
}

#[needs(shared)]
#[test]
fn the_merge_schema_is_that_of_the_reference() {
    let path = shared("corpus/smd/schemas/e100f5ba30.yaml");
    let text = std::fs::read(path).unwrap();
    let document = yaml::parse(&text, &Limits::TRUSTED).unwrap();
    let table = builtin();
    for known in document.get("types").unwrap().as_list().unwrap() {
        let name = known.str_at(&["name"]).unwrap();
        let Some(id) = table.id(name) else {
            assert!(name.starts_with("__untyped_"), "{name}");
            continue;
        };
        // Servers read this type from a document that gives it no single type, so that any value passes until it is
        // decoded.
        if matches!(table.get(id).kind, TypeKind::Scalar(Scalar::IntOrString)) {
            assert!(merge::type_spec(&table, table.get(id)).map.is_some());
            continue;
        }
        let mut alone = Value::empty_map();
        alone.set_at(&["types"], Value::from(vec![known.clone()]));
        let known = SchemaBuilder::read(&alone).unwrap();
        let mut ours = SchemaBuilder::new();
        ours.define(name, merge::type_spec(&table, table.get(id)));
        assert_eq!(format!("{ours:#?}"), format!("{known:#?}"));
    }
}

fn object(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
}

fn decoded(of: &str, text: &str) -> Result<(String, Vec<String>), DecodeError> {
    let table = builtin();
    let decoded = decode(&table, table.id(of).unwrap(), &object(text))?;
    let unknown = decoded.unknown.iter().map(UnknownField::to_string).collect();
    Ok((json::to_string(&decoded.value), unknown))
}

#[test]
fn the_zero_time_is_none_however_it_is_written() {
    let name = "io.k8s.api.resource.v1.DeviceTaint";
    for zero in ["0001-01-01T00:00:00Z", "0001-01-01T01:00:00+01:00"] {
        let (value, _) = decoded(name, &format!(r#"{{"effect":"None","key":"k","timeAdded":"{zero}"}}"#)).unwrap();
        assert_eq!(value, r#"{"effect":"None","key":"k","timeAdded":null}"#, "{zero}");
    }
}

#[test]
fn custom_decoder_error_precedes_type_error() {
    let error = |of, text| decoded(of, text).unwrap_err().to_string();
    let both = r#"{"data":5,"metadata":{"creationTimestamp":"x","name":7}}"#;
    assert!(error(CONFIG_MAP, both).starts_with("parsing time \"x\""));
    let quantity = r#"{"metadata":3,"spec":{"containers":[{"resources":{"limits":{"cpu":"1i"}},"env":"A"}]}}"#;
    assert_eq!(error(POD, quantity), "unable to parse quantity's suffix");
    let neither = r#"{"binaryData":{"a":"-"},"metadata":{"name":7}}"#;
    assert_eq!(error(CONFIG_MAP, neither), "illegal base64 data at input byte 0");
}

const POD: &str = "io.k8s.api.core.v1.Pod";
const DEPLOYMENT: &str = "io.k8s.api.apps.v1.Deployment";
const CONFIG_MAP: &str = "io.k8s.api.core.v1.ConfigMap";

#[needs(shared)]
#[test]
fn every_served_kind_reads_back_as_it_was_written() {
    let folder = shared("facts/roundtrip");
    let table = builtin();
    let (mut read, mut failures) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let value = object(&std::fs::read_to_string(&path).unwrap());
        let Some(group_version) = value
            .str_at(&["apiVersion"])
            .and_then(crate::names::GroupVersion::parse)
        else {
            continue;
        };
        let kind = value.str_at(&["kind"]).unwrap().into();
        let Some(of) = table.id_of_kind(&crate::names::GroupVersionKind { group_version, kind }) else {
            continue;
        };
        read += 1;
        match decode(&table, of, &value) {
            Ok(decoded) if decoded.unknown.is_empty() && decoded.value == value => {}
            Ok(decoded) => failures.push(format!(
                "{path:?}: {:?}\n{}\n{}",
                decoded.unknown,
                json::to_string(&value),
                json::to_string(&decoded.value)
            )),
            Err(error) => failures.push(format!("{path:?}: {error}")),
        }
    }
    assert!(read > 60, "{read}");
    assert!(
        failures.is_empty(),
        "{} of {read}: {}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn zero_values_go_where_the_type_leaves_them_out() {
    let text = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"creationTimestamp":null,"labels":{}},"spec":{
        "minReadySeconds":0,"paused":false,"replicas":0,"selector":{},"strategy":{},"template":{"spec":{"containers":[
        {"name":"","args":[],"resources":{"limits":{}}}]}}}}"#;
    let (object, unknown) = decoded(DEPLOYMENT, text).unwrap();
    assert_eq!(
        object,
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{},"spec":{"replicas":0,"selector":{},"strategy":{},"#
            .to_owned()
            + r#""template":{"metadata":{},"spec":{"containers":[{"name":"","resources":{}}]}}},"status":{}}"#
    );
    assert!(unknown.is_empty());
}

#[test]
fn null_is_not_set() {
    let text = r#"{"data":{"a":null},"immutable":null,"metadata":null}"#;
    assert_eq!(
        decoded(CONFIG_MAP, text).unwrap().0,
        r#"{"data":{"a":""},"metadata":{}}"#
    );
    let (object, _) = decoded(POD, r#"{"spec":{"containers":null,"nodeName":null}}"#).unwrap();
    assert_eq!(object, r#"{"metadata":{},"spec":{"containers":null},"status":{}}"#);
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let text = r#"{"spec":{"containers":[{"name":"a"},{"name":"b","imagePull":1}],"odd":{}},"extra":1}"#;
    let (object, unknown) = decoded(POD, text).unwrap();
    assert_eq!(
        object,
        r#"{"metadata":{},"spec":{"containers":[{"name":"a","resources":{}},{"name":"b","resources":{}}]},"status":{}}"#
    );
    assert_eq!(
        unknown,
        [
            r#"unknown field "extra""#,
            r#"unknown field "spec.containers[1].imagePull""#,
            r#"unknown field "spec.odd""#
        ]
    );
}

#[test]
fn a_value_of_the_wrong_type_is_named_as_the_reference_names_it() {
    for (of, text, message) in [
        (
            CONFIG_MAP,
            r#"{"data":[]}"#,
            "array into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            CONFIG_MAP,
            r#"{"data":{"a":1}}"#,
            "number into Go struct field ConfigMap.data of type string",
        ),
        (
            CONFIG_MAP,
            r#"{"metadata":{"name":1}}"#,
            "number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (CONFIG_MAP, "[]", "array into Go value of type v1.ConfigMap"),
        (
            DEPLOYMENT,
            r#"{"spec":{"replicas":3000000000}}"#,
            "number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            DEPLOYMENT,
            r#"{"spec":{"strategy":{"rollingUpdate":{"maxSurge":true}}}}"#,
            "bool into Go value of type int32",
        ),
        (
            POD,
            r#"{"spec":{"containers":{}}}"#,
            "object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
    ] {
        let error = decoded(of, text).unwrap_err();
        assert_eq!(error.to_string(), format!("json: cannot unmarshal {message}"));
    }
    let error = decoded(CONFIG_MAP, r#"{"binaryData":{"a":"!"}}"#).unwrap_err();
    assert_eq!(error.to_string(), "illegal base64 data at input byte 0");
    let error = decoded(CONFIG_MAP, r#"{"metadata":{"creationTimestamp":"yesterday"}}"#).unwrap_err();
    assert!(error.to_string().starts_with("parsing time \"yesterday\" as "));
}

#[test]
fn amounts_times_and_bytes_are_brought_into_their_form() {
    let text = r#"{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":0.5,"memory":"1024Mi","x":2}}}]},
        "status":{"startTime":"2026-11-21T05:00:00+01:00"}}"#;
    let (object, _) = decoded(POD, text).unwrap();
    assert!(
        object.contains(r#""limits":{"cpu":"500m","memory":"1Gi","x":"2"}"#),
        "{object}"
    );
    assert!(object.contains(r#""startTime":"2026-11-21T04:00:00Z""#), "{object}");
    let (object, _) = decoded(CONFIG_MAP, r#"{"binaryData":{"a":"YW\nJj"}}"#).unwrap();
    assert_eq!(object, r#"{"binaryData":{"a":"YWJj"},"metadata":{}}"#);
}

#[test]
fn bytes_may_be_written_as_numbers_or_left_out() {
    let read = |text: &str| {
        decoded(CONFIG_MAP, text)
            .map(|(text, _)| text)
            .map_err(|error| error.to_string())
    };
    let binary = |data: &str| format!(r#"{{"binaryData":{{"k":{data}}}}}"#);
    assert_eq!(read(&binary("[104,105]")).unwrap(), read(&binary(r#""aGk=""#)).unwrap());
    assert!(read(&binary("null")).unwrap().contains(r#""k":"""#));
    assert_eq!(
        read(&binary("[256]")).unwrap_err(),
        "json: cannot unmarshal number 256 into Go struct field ConfigMap.binaryData of type uint8"
    );
    let overhead = |cpu: &str| {
        decoded(POD, &format!(r#"{{"spec":{{"overhead":{{"cpu":{cpu}}}}}}}"#))
            .unwrap()
            .0
    };
    assert!(overhead(r#""1 ""#).contains(r#""cpu":"1""#));
    assert!(overhead(r#""0.5m""#).contains(r#""cpu":"1m""#));
}

#[test]
fn decoding_of_canonical_object_shares_it() {
    let table = builtin();
    let value = object(r#"{"metadata":{},"spec":{"containers":[{"name":"a","resources":{}}]},"status":{}}"#);
    let decoded = decode(&table, table.id(POD).unwrap(), &value).unwrap().value;
    assert!(decoded.as_map().unwrap().same(value.as_map().unwrap()));
}

#[test]
fn schemas_within_schemas_lose_unknown_fields_silently() {
    let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let text =
        r#"{"additionalProperties":{"odd":1,"type":"string"},"items":[{"odd":1}],"odd":1,"default":{"odd":null}}"#;
    let (object, unknown) = decoded(name, text).unwrap();
    assert_eq!(
        object,
        r#"{"additionalProperties":{"type":"string"},"default":{"odd":null},"items":[{}]}"#
    );
    assert_eq!(unknown, [r#"unknown field "odd""#]);
    let error = decoded(name, r#"{"additionalProperties":1}"#).unwrap_err();
    assert_eq!(error, DecodeError::SchemaOrBool);
}

fn defaulted(of: &str, text: &str) -> String {
    let table = builtin();
    let id = table.id(of).unwrap();
    let decoded = decode(&table, id, &object(text)).unwrap().value;
    let filled = with_defaults(&table, id, &decoded, &mut Growth::default()).unwrap();
    json::to_string(&filled.unwrap_or(decoded))
}

#[test]
fn defaults_are_filled_in_wherever_their_type_stands() {
    let text =
        r#"{"spec":{"replicas":0,"template":{"spec":{"containers":[{"name":"a","ports":[{"containerPort":1}]}]}}}}"#;
    assert_eq!(
        defaulted(DEPLOYMENT, text),
        r#"{"metadata":{},"spec":{"progressDeadlineSeconds":600,"replicas":0,"revisionHistoryLimit":10,"selector":null,"#
            .to_owned()
            + r#""strategy":{"type":"RollingUpdate"},"template":{"metadata":{},"spec":{"containers":[{"name":"a","#
            + r#""ports":[{"containerPort":1,"protocol":"TCP"}],"resources":{},"terminationMessagePath":"/dev/termination-log","#
            + r#""terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","#
            + r#""schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}},"status":{}}"#
    );
}

#[test]
fn a_zero_that_is_nothing_to_the_type_takes_the_default() {
    let flow = "io.k8s.api.flowcontrol.v1.FlowSchemaSpec";
    assert!(defaulted(flow, r#"{"matchingPrecedence":0}"#).contains(r#""matchingPrecedence":1000"#));
    assert!(defaulted(flow, r#"{"matchingPrecedence":7}"#).contains(r#""matchingPrecedence":7"#));
}

#[test]
fn a_cron_job_defaults_the_pods_of_its_jobs_and_not_the_jobs() {
    let text = r#"{"jobTemplate":{"spec":{"template":{"spec":{"containers":[]}}}}}"#;
    let spec = defaulted("io.k8s.api.batch.v1.CronJobSpec", text);
    assert!(!spec.contains("completionMode"), "{spec}");
    assert!(spec.contains("terminationGracePeriodSeconds"), "{spec}");
}

#[test]
fn parts_shared_with_base_are_skipped() {
    let table = builtin();
    let id = table.id(DEPLOYMENT).unwrap();
    let text = r#"{"metadata":{"x":1},"spec":{"replicas":3,"template":{"spec":{"x":1,"containers":[{"name":"a"}]}}}}"#;
    let stored = Provenance::from_store(StoredFacts::default().in_form_of_type()).in_requested_form();
    let base = object(text);
    let mut changed = base.clone();
    changed.set_at(&["spec", "replicas"], 4.into());
    let unknown = |provenance| {
        let decoded = decode_from(&table, id, &changed, provenance).unwrap();
        let unknown = decoded.unknown.iter().map(|field| field.path.clone());
        unknown.collect::<Vec<_>>()
    };
    assert_eq!(unknown(Provenance::apply()), ["metadata.x", "spec.template.spec.x"]);
    assert!(unknown(Provenance::apply().changing(&base, stored)).is_empty());
    let equal = object(text);
    let other = Provenance::apply().changing(&equal, stored);
    assert_eq!(unknown(other).len(), 2, "it is equal, and yet another");
    let filled = |provenance| {
        let filled = with_defaults_from(&table, id, &changed, provenance, &mut Growth::default());
        filled.unwrap().unwrap()
    };
    let policy = |object: Value| object.at(&["spec", "template", "spec", "dnsPolicy"]).cloned();
    assert_eq!(policy(filled(Provenance::apply())), Some("ClusterFirst".into()));
    assert_eq!(policy(filled(Provenance::apply().changing(&base, stored))), None);
}

#[test]
fn object_with_defaults_is_unchanged() {
    let table = builtin();
    let id = table.id(DEPLOYMENT).unwrap();
    let text = r#"{"spec":{"template":{"spec":{"containers":[{"name":"a"}]}}}}"#;
    let once = object(&defaulted(DEPLOYMENT, text));
    assert_eq!(with_defaults(&table, id, &once, &mut Growth::default()), Ok(None));
    let mut growth = Growth::new(10);
    let limit = 10;
    assert_eq!(
        with_defaults(&table, id, &object(text), &mut growth),
        Err(Error::Overgrown { limit })
    );
}

#[test]
fn a_visitor_finds_values_of_a_type_wherever_they_stand() {
    let table = builtin();
    let wanted = ["io.k8s.api.core.v1.Container", "io.k8s.api.core.v1.EphemeralContainer"];
    let visitor = TypeVisitor::new(&table, table.id(POD).unwrap(), &wanted);
    let mut pod = object(
        r#"{"spec":{"containers":[{"name":"a"},{"name":"b"}],"initContainers":[{"name":"c"}],
            "ephemeralContainers":[{"name":"d"}],"volumes":[{"name":"e"}]}}"#,
    );
    let mut names = Vec::new();
    visitor.visit(&table, &mut pod, &mut |_, container| {
        names.push(container.str_at(&["name"]).unwrap().to_owned());
        container.set_at(&["image"], "x".into());
    });
    names.sort();
    assert_eq!(names, ["a", "b", "c", "d"]);
    assert_eq!(json::to_string(&pod).matches("image").count(), 4);
}

#[test]
fn empty_value_of_never_omitted_field_is_kept() {
    let policy = "io.k8s.api.networking.v1.NetworkPolicySpec";
    assert_eq!(
        decoded(policy, r#"{"podSelector":{}}"#).unwrap().0,
        r#"{"podSelector":{}}"#
    );
    let role = "io.k8s.api.rbac.v1.Role";
    assert_eq!(
        decoded(role, r#"{"rules":[]}"#).unwrap().0,
        r#"{"metadata":{},"rules":[]}"#
    );
}

/// Returns the text without the whitespace between its tokens.
fn minified(text: &str) -> String {
    let (mut out, mut quoted, mut escaped) = (String::with_capacity(text.len()), false, false);
    for letter in text.chars() {
        if quoted || !letter.is_ascii_whitespace() {
            out.push(letter);
        }
        quoted ^= letter == '"' && !escaped;
        escaped = quoted && letter == '\\' && !escaped;
    }
    out
}

#[needs(shared)]
#[test]
fn objects_are_written_in_the_order_of_the_reference() {
    let folder = shared("facts/roundtrip");
    let table = builtin();
    let (mut written, mut failures) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let value = object(&text);
        let kind = value.str_at(&["kind"]).unwrap_or_default().into();
        let group_version = value
            .str_at(&["apiVersion"])
            .and_then(crate::names::GroupVersion::parse);
        let kind = group_version.map(|group_version| crate::names::GroupVersionKind { group_version, kind });
        let Some(kind) = kind.and_then(|kind| table.id_of_kind(&kind)) else {
            continue;
        };
        written += 1;
        let mut out = Vec::new();
        write_json(&table, Some(&Shape::Ref(kind)), &value, &mut out);
        let (out, expected) = (String::from_utf8(out).unwrap(), minified(&text));
        if out != expected {
            let same = out.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
            let part = |text: &str| {
                text.get(same.saturating_sub(60)..same + 60)
                    .unwrap_or_default()
                    .to_owned()
            };
            failures.push(format!("{path:?}: {} is not {}", part(&out), part(&expected)));
        }
    }
    assert!(written > 60, "{written}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn decode_tree_follows_the_unstructured_converter() {
    let table = builtin();
    let decode = |of: &str, text: &str| match decode_tree(&table, table.id(of).unwrap(), &object(text)) {
        Ok(decoded) => json::to_string(&decoded.value),
        Err(error) => error.to_string(),
    };
    for (of, text, outcome) in [
        (CONFIG_MAP, r#"{"data":"x"}"#, "cannot restore map from string"),
        (CONFIG_MAP, r#"{"data":[]}"#, "cannot restore map from slice"),
        (CONFIG_MAP, r#"{"data":{"a":1}}"#, "cannot convert int64 to string"),
        (CONFIG_MAP, r#"{"data":{"a":1.5}}"#, "unrecognized type: string"),
        (CONFIG_MAP, r#"{"metadata":"x"}"#, "cannot restore struct from: string"),
        (
            CONFIG_MAP,
            r#"{"binaryData":{"a":"YWJjq"}}"#,
            "error decoding from json: illegal base64 data at input byte 4",
        ),
        (POD, r#"{"spec":{"containers":{}}}"#, "cannot restore slice from map"),
        (
            DEPLOYMENT,
            r#"{"spec":{"replicas":1.5}}"#,
            "cannot convert float64 to int32",
        ),
        (DEPLOYMENT, r#"{"spec":{"replicas":true}}"#, "unrecognized type: int32"),
        // The first error counts, in the order of the struct and not of the names.
        (
            CONFIG_MAP,
            r#"{"binaryData":{"a":1},"data":{"a":1},"metadata":{"finalizers":1,"name":1}}"#,
            "cannot convert int64 to string",
        ),
        (
            CONFIG_MAP,
            r#"{"binaryData":{"a":1},"metadata":{"finalizers":true}}"#,
            "cannot restore slice from bool",
        ),
        (
            DEPLOYMENT,
            r#"{"spec":{"strategy":{"rollingUpdate":{"maxSurge":1.5}}}}"#,
            "json: cannot unmarshal number 1.5 into Go value of type int32",
        ),
    ] {
        assert_eq!(decode(of, text), outcome, "{text}");
    }
    assert!(decode(DEPLOYMENT, r#"{"spec":{"replicas":3.0}}"#).contains(r#""replicas":3"#));
    assert!(decode(DEPLOYMENT, r#"{"spec":{"replicas":4294967299}}"#).contains(r#""replicas":3"#));
    let surge = decode(
        DEPLOYMENT,
        r#"{"spec":{"strategy":{"rollingUpdate":{"maxSurge":3.0}}}}"#,
    );
    assert!(surge.contains(r#""maxSurge":3}"#), "{surge}");
    assert!(decode(CONFIG_MAP, r#"{"binaryData":{"a":[1],"b":[]}}"#).contains(r#""binaryData":{"a":"AQ==","b":""}"#));
}
