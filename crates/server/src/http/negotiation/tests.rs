use http::header::HeaderValue;

use super::content_type::patch_type;
use super::*;

const ALL: Forms = Forms {
    cbor: false,
    protobuf: true,
    tables: true,
};

#[test]
fn resource_without_rows_is_not_served_as_table() {
    const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let form = |accept: &str| {
        let forms = Forms { tables: false, ..ALL };
        negotiated(&headers(accept)).object(forms)
    };
    assert_eq!(form(TABLE).unwrap_err().code(), 406);
    assert_eq!(form(&format!("{TABLE},application/json")).unwrap().view, View::Whole);
}

fn negotiated(headers: &HeaderMap) -> Negotiated {
    Negotiated::new(&Method::GET, headers, &Query::default(), false)
}

fn headers(accept: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_str(accept).unwrap());
    headers
}

fn object(accept: &str) -> Option<(Format, View)> {
    let form = negotiated(&headers(accept)).object(ALL).ok()?;
    Some((form.format, form.view))
}

#[test]
fn the_first_clause_that_can_be_served_wins() {
    const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let table = Some((Format::Json, View::Table(MetaVersion::V1)));
    let whole = Some((Format::Json, View::Whole));
    let cases = [
        ("", whole),
        ("*/*", whole),
        ("application/yaml", Some((Format::Yaml, View::Whole))),
        (TABLE, table),
        ("application/json;as=Table;v=v1;g=meta.k8s.io, application/json", table),
        ("application/json;as=Gadget;g=meta.k8s.io;v=v1, application/json", whole),
        ("application/json;as=Gadget;g=meta.k8s.io;v=v1", None),
        ("application/json;as=Table;g=meta.k8s.io;v=v9", None),
        ("application/json;as=Table;g=example.org;v=v1", None),
        ("application/json;q=0.1, text/html;q=0.9", whole),
        (
            "application/json;q=0.1, application/yaml",
            Some((Format::Yaml, View::Whole)),
        ),
        ("*/*, application/yaml", Some((Format::Yaml, View::Whole))),
        (
            "application/vnd.kubernetes.protobuf,application/json",
            Some((Format::Protobuf, View::Whole)),
        ),
        (
            "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json",
            whole,
        ),
        (
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1",
            Some((Format::Json, View::PartialObject(MetaVersion::V1Beta1))),
        ),
    ];
    for (accept, expected) in cases {
        assert_eq!(object(accept), expected, "{accept}");
    }
}

#[test]
fn a_clause_is_read_as_far_as_it_is_one() {
    let whole = Some((Format::Json, View::Whole));
    let cases = [
        ("application/json;as", whole),
        ("application/json;as=", whole),
        ("application/json;as=a=b", whole),
        (",,application/json", whole),
        (
            "application/json;q=many, application/yaml",
            Some((Format::Yaml, View::Whole)),
        ),
        // A wildcard after a type precedes it by its quality; a wildcard before a type does not.
        ("application/yaml;q=0.1, */*;q=0.9", whole),
        ("*/*;q=0.9, application/yaml;q=0.1", Some((Format::Yaml, View::Whole))),
        ("*", whole),
        ("*/json", None),
        ("json", None),
        (";", None),
        ("a/b/c", None),
        ("application/json;stream=watch", whole),
        ("application/yaml;stream=watch", None),
        ("application/json;stream=other", None),
        ("application/json;sv=v1", None),
    ];
    for (accept, expected) in cases {
        assert_eq!(object(accept), expected, "{accept}");
    }
    let form = negotiated(&headers("application/json;pretty=1")).object(ALL).unwrap();
    assert!(form.pretty);
}

#[test]
fn error_uses_first_clause_that_requests_only_a_format() {
    const TABLE: &str = ";as=Table;g=meta.k8s.io;v=v1";
    let form = |accept: &str| {
        let form = negotiated(&headers(accept)).errors();
        (form.format, form.pretty)
    };
    for accept in ["application/yaml", &format!("application/json{TABLE},application/yaml")] {
        assert_eq!(form(accept), (Format::Yaml, false), "{accept}");
    }
    for accept in [&format!("application/yaml{TABLE}"), "text/html"] {
        assert_eq!(form(accept), (Format::Json, true), "{accept}");
    }
}

#[test]
fn content_type_with_invalid_parameters_has_no_format() {
    let format = |text: &str| {
        let value = HeaderValue::from_str(text).unwrap();
        body_format(&HeaderMap::from_iter([(header::CONTENT_TYPE, value)]), false).ok()
    };
    for text in [
        "application/json",
        "application/json;",
        "application/json; charset=latin1",
        "",
    ] {
        assert_eq!(format(text), Some(Format::Json), "{text}");
    }
    for text in [
        "application/json; foo",
        "application/json; a=",
        "application/json;;a=b",
        ";a=b",
    ] {
        assert_eq!(format(text), None, "{text}");
    }
}

#[test]
fn object_without_protobuf_form_uses_the_next_choice() {
    let form = |accept: &str| negotiated(&headers(accept)).object(Forms { protobuf: false, ..ALL });
    let format = |accept: &str| form(accept).map(|form| form.format).ok();
    assert_eq!(format("application/vnd.kubernetes.protobuf"), None);
    assert_eq!(
        format("application/vnd.kubernetes.protobuf, application/json"),
        Some(Format::Json)
    );
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    assert_eq!(format(metadata), Some(Format::Protobuf));
    let document = negotiated(&headers(metadata)).document();
    assert!(document.is_err(), "a document can only be shown whole");
}

#[test]
fn managed_fields_are_dropped_if_the_served_clause_drops_them() {
    for (accept, drops) in [
        ("application/json", false),
        ("application/json;drop=metadata.managedFields", true),
        ("application/json; drop=metadata.managedFields", true),
        (
            "application/json;drop=metadata.annotations+metadata.managedFields",
            true,
        ),
        ("application/json;drop=metadata.annotations", false),
        ("application/json;drop=", false),
        (
            "application/yaml;drop=metadata.managedFields;q=0.5, application/json",
            false,
        ),
        (
            "application/json;as=Table;g=meta.k8s.io;v=v1;drop=metadata.managedFields",
            true,
        ),
    ] {
        let form = negotiated(&headers(accept)).object(ALL).unwrap();
        assert_eq!(form.drops_managed_fields, drops, "{accept}");
    }
}

#[test]
fn the_router_knows_bare_types_alone() {
    let cases = [
        ("text/html", false),
        ("application/*", false),
        ("text/html, application/json", true),
        ("application/json;q=0.1", true),
        ("*/*;q=0.1", true),
        ("", true),
    ];
    for (accept, acceptable) in cases {
        assert_eq!(
            check_acceptable(&headers(accept), &NAMED_TYPES).is_ok(),
            acceptable,
            "{accept}"
        );
    }
    let error = check_acceptable(&headers("text/html"), &NAMED_TYPES).unwrap_err();
    assert_eq!(
        error.to_string(),
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf"
    );
}

#[test]
fn patch_types_are_exact_but_for_parameters() {
    let type_of = |text: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(text).unwrap());
        patch_type(&headers, false)
    };
    assert_eq!(
        type_of("application/apply-patch+yaml; charset=utf-8"),
        Some(PatchType::Apply)
    );
    assert_eq!(type_of("Application/Apply-Patch+YAML"), None);
    assert_eq!(type_of("application/json"), None);
    assert_eq!(patch_type(&HeaderMap::new(), false), None);
}

#[test]
fn headers_that_are_no_text_are_not_those_that_are_missing() {
    let headers_with = |name: header::HeaderName, bytes: &[u8]| {
        HeaderMap::from_iter([(name, HeaderValue::from_bytes(bytes).unwrap())])
    };
    let accept = headers_with(header::ACCEPT, b"application/json\xff");
    assert!(check_acceptable(&accept, &NAMED_TYPES).is_err());
    assert!(negotiated(&accept).object(ALL).is_err());
    for bytes in [&b"application/\xff"[..], b";charset=utf-8", b"application/jso\xc3\xb1"] {
        let body = headers_with(header::CONTENT_TYPE, bytes);
        assert_eq!(body_format(&body, false).unwrap_err().code().as_u16(), 415);
        assert_eq!(patch_type(&body, false), None);
    }
    let parameters = headers_with(header::CONTENT_TYPE, b"application/yaml; by=jos\xc3\xa9");
    assert_eq!(body_format(&parameters, false).ok(), Some(Format::Yaml));
}

#[test]
fn pretty_follows_the_parameter_before_the_agent() {
    let mut headers = HeaderMap::new();
    headers.insert(header::USER_AGENT, HeaderValue::from_static("curl/8.1"));
    assert!(pretty(&headers, &Query::default()));
    assert!(!pretty(&headers, &Query::parse("pretty=false")));
    assert!(pretty(&HeaderMap::new(), &Query::parse("pretty=1")));
    assert!(!pretty(&HeaderMap::new(), &Query::parse("pretty=yes")));
}

#[test]
fn cbor_is_there_where_it_is_served() {
    let chosen = |accept, cbor| {
        let forms = Forms { cbor, ..ALL };
        let form = negotiated(&headers(accept)).object(forms).ok()?;
        Some((form.format, form.view))
    };
    assert_eq!(chosen("application/cbor", true), Some((Format::Cbor, View::Whole)));
    assert_eq!(chosen("application/cbor", false), None);
    assert_eq!(
        chosen("application/cbor, */*", false),
        Some((Format::Json, View::Whole))
    );
    assert_eq!(chosen("application/*", true), Some((Format::Json, View::Whole)));
    let table = "application/cbor;as=Table;v=v1;g=meta.k8s.io";
    assert_eq!(chosen(table, true), None);
    let metadata = "application/cbor;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let partial = View::PartialObject(MetaVersion::V1);
    assert_eq!(chosen(metadata, true), Some((Format::Cbor, partial)));
    let body =
        |media_type: &'static str| HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(media_type))]);
    for (cbor, read) in [(true, Some(Format::Cbor)), (false, None)] {
        assert_eq!(body_format(&body("application/cbor"), cbor).ok(), read);
        let applies = patch_type(&body("application/apply-patch+cbor"), cbor).is_some_and(PatchType::applies);
        assert_eq!(applies, cbor);
    }
    let document = negotiated(&headers("application/cbor")).document();
    assert!(document.is_err());
}

#[test]
fn patch_type_is_read_from_patches_only() {
    let headers = HeaderMap::from_iter([(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/apply-patch+yaml"),
    )]);
    let negotiated = |method| Negotiated::new(&method, &headers, &Query::default(), false);
    assert_eq!(negotiated(Method::PATCH).patch_type().ok(), Some(PatchType::Apply));
    assert!(negotiated(Method::PATCH).applies() && !negotiated(Method::POST).applies());
    let error = Negotiated::default().patch_type().unwrap_err();
    assert_eq!(error.code().as_u16(), 415);
}
