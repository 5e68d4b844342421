//! Results of patches of the existing object, and the changes that create one.

use holdfast_value::json_patch;

use super::*;

fn json_patch_of(operations: &str) -> Patch {
    let text = json::to_string(&tree(operations));
    Patch::Json(json_patch::Patch::parse(text.as_bytes(), &Limits::REQUEST).unwrap().0)
}

fn change(patch: Patch) -> Change {
    Change::Patch {
        patch: Ok((patch, Vec::new())),
        validation: FieldValidation::Strict,
    }
}

fn patched(existing: &Value, patch: Patch) -> Result<Staged, Error> {
    let world = world();
    update_at(&world, &target(&world, existing, ""), Some(existing), &change(patch))
}

#[test]
fn a_json_patch_whose_test_fails_is_refused_as_a_whole() {
    let existing = stored(&world(), CONFIG);
    let passes = "[{op: test, path: /data/a, value: '1'}, {op: replace, path: /data/a, value: '2'}]";
    let staged = patched(&existing, json_patch_of(passes)).unwrap();
    assert_eq!(staged.object.str_at(&["data", "a"]), Some("2"));
    let fails = "[{op: replace, path: /data/a, value: '2'}, {op: test, path: /data/a, value: '1'}]";
    let refused = kind_of(patched(&existing, json_patch_of(fails)));
    assert!(matches!(refused, ErrorKind::UnprocessablePatch), "{refused:?}");
}

#[test]
fn merge_patch_replaces_a_list_and_strategic_one_merges_it() {
    let existing = stored(&world(), DEPLOYMENT);
    let patch = tree("{spec: {template: {spec: {containers: [{name: d, image: j}]}}}}");
    let names = |patch: Patch| {
        let object = patched(&existing, patch).unwrap().object;
        let containers = object
            .at(&["spec", "template", "spec", "containers"])
            .and_then(Value::as_list)
            .unwrap()
            .clone();
        containers
            .iter()
            .map(|container| container.str_at(&["name"]).unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(Patch::Merge(patch.clone())), ["d"]);
    assert_eq!(names(Patch::Strategic(patch)), ["d", "c"]);
}

#[test]
fn a_patch_whose_result_is_no_object_of_the_kind_is_refused() {
    let existing = stored(&world(), CONFIG);
    let unreadable = kind_of(patched(&existing, Patch::Merge(tree("{data: {a: [1]}}"))));
    let ErrorKind::Invalid { kind, errors, .. } = unreadable else {
        panic!("not invalid")
    };
    assert_eq!((kind.kind.as_str(), errors[0].field.as_str()), ("", "patch"));
    let unknown = kind_of(patched(&existing, Patch::Merge(tree("{datum: {a: '1'}}"))));
    assert!(matches!(unknown, ErrorKind::Invalid { .. }), "{unknown:?}");
}

#[test]
fn findings_in_a_patch_are_warnings_with_validation_warn() {
    let world = world();
    let existing = stored(&world, CONFIG);
    let result = |validation: FieldValidation| {
        let change = Change::Patch {
            patch: Ok((Patch::Merge(tree("{datum: {a: '1'}}")), Vec::new())),
            validation,
        };
        update_at(&world, &target(&world, &existing, ""), Some(&existing), &change)
    };
    let warned = result(FieldValidation::Warn).unwrap();
    assert_eq!(warned.warnings, [r#"unknown field "datum""#]);
    assert_eq!(result(FieldValidation::Ignore).unwrap().warnings, Vec::<String>::new());
}

#[test]
fn patch_of_missing_object_is_not_found() {
    let world = world();
    let address = target(&world, &tree(CONFIG), "");
    let broken = Change::Patch {
        patch: Err(Error::bad_request("the patch cannot be read")),
        validation: FieldValidation::Strict,
    };
    for change in [change(Patch::Merge(tree("{data: {a: '1'}}"))), broken] {
        let missing = kind_of(update_at(&world, &address, None, &change));
        assert!(
            matches!(&missing, ErrorKind::NotFound(_, name) if name == "a"),
            "{missing:?}"
        );
    }
}

#[test]
fn a_put_creates_where_the_kind_lets_it_and_names_no_uid() {
    let world = world();
    let lease =
        |metadata: &str| format!("{{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {{{metadata}}}}}");
    let put_new = |text: &str| {
        let object = decoded(&world, text);
        update_at(&world, &target(&world, &object, ""), None, &put(object))
    };
    let made = put_new(&lease("name: a")).unwrap();
    assert_eq!((made.write, metadata::uid(&made.object)), (Write::Put, UID));
    let named = kind_of(put_new(&lease("name: a, uid: other")));
    assert!(matches!(named, ErrorKind::Conflict { .. }), "{named:?}");
}

#[test]
fn repeated_keys_of_an_apply_are_reported_after_its_conflicts() {
    let world = world();
    let existing = stored(&world, CONFIG);
    let mut applier = target(&world, &existing, "");
    applier.writer.manager = "applier".into();
    let applied = |text: &str, validation: FieldValidation| {
        let change = Change::Apply {
            applied: tree(text),
            findings: vec!["line 3: key \"a\" already set in map".to_owned()],
            validation,
            options: ApplyOptions::default(),
        };
        update_at(&world, &applier, Some(&existing), &change)
    };
    let conflict = kind_of(applied(&CONFIG.replace("'1'", "'2'"), FieldValidation::Strict));
    assert!(matches!(conflict, ErrorKind::ApplyConflict(_)), "{conflict:?}");
    let repeated = kind_of(applied(CONFIG, FieldValidation::Strict));
    let ErrorKind::BadRequest(why) = repeated else {
        panic!("{repeated:?}")
    };
    assert!(
        why.ends_with("unmarshal errors:\n  line 3: key \"a\" already set in map"),
        "{why}"
    );
    assert_eq!(applied(CONFIG, FieldValidation::Warn).unwrap().warnings.len(), 1);
}
