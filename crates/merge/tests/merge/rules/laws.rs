//! Laws that hold for all values, valid or not.

use holdfast_merge::{Duplicates, IdentityConverter, KeyFields, Managers, Set, Typed, UpdaterBuilder, fields_v1_text};
use holdfast_value::{SmolStr, Value, json};
use proptest::prelude::*;

use crate::rules::scenario::thing;

/// Values that often, but not always, fit the type of the field they are given to.
fn any_thing() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        Just(Value::from(true)),
        (0..3_i64).prop_map(Value::from),
        "[ab]".prop_map(Value::from),
    ];
    let text = prop_oneof![8 => "[ab]".prop_map(Value::from), 1 => scalar.clone()];
    let map = prop::collection::vec(("[abc]", text.clone()), 0..3).prop_map(to_map);
    let list = prop::collection::vec(text.clone(), 0..4).prop_map(Value::from);
    let named =
        (text.clone(), prop::option::of(0..3_i64), prop::option::of(map.clone())).prop_map(|(name, value, options)| {
            let value = value.map(|value| ("value".to_owned(), Value::from(value)));
            let options = options.map(|options| ("options".to_owned(), options));
            to_map(
                [("name".to_owned(), name)]
                    .into_iter()
                    .chain(value)
                    .chain(options)
                    .collect(),
            )
        });
    let port = (prop::option::of(0..3_i64), prop::option::of("TCP|UDP")).prop_map(|(port, protocol)| {
        let port = port.map(|port| ("port".to_owned(), Value::from(port)));
        let protocol = protocol.map(|protocol| ("protocol".to_owned(), Value::from(protocol)));
        to_map(port.into_iter().chain(protocol).collect())
    });
    let item = prop_oneof![20 => named, 1 => scalar.clone()];
    let port = prop_oneof![20 => port, 1 => scalar.clone()];
    let leaf = prop_oneof![
        ("text|any", text.clone()),
        (
            Just("number".to_owned()),
            prop_oneof![(0..3_i64).prop_map(Value::from), (0.0..2.0_f64).prop_map(Value::Float)]
        ),
        ("labels|annotations|free", map),
        ("tags|args|free", list),
        (
            Just("items".to_owned()),
            prop::collection::vec(item, 0..4).prop_map(Value::from)
        ),
        (
            Just("ports".to_owned()),
            prop::collection::vec(port, 0..4).prop_map(Value::from)
        ),
        ("text|number|labels|tags|items|free|extra", scalar),
    ];
    let flat = prop::collection::vec(leaf.clone(), 0..6).prop_map(to_map);
    flat.prop_recursive(3, 24, 4, move |inner| {
        let nested = ("inner|block|free", inner);
        prop::collection::vec(prop_oneof![2 => leaf.clone(), 1 => nested], 0..6).prop_map(to_map)
    })
}

fn to_map(entries: Vec<(String, Value)>) -> Value {
    Value::Map(
        entries
            .into_iter()
            .map(|(key, value)| (SmolStr::from(key), value))
            .collect(),
    )
}

fn typed(value: &Value) -> Typed {
    let example = thing("null");
    Typed::unchecked(value.clone(), example.schema().clone(), example.type_ref())
}

/// Returns the value as a validated one, if it is valid.
fn checked(value: &Value) -> Option<Typed> {
    let example = thing("null");
    Typed::new(
        value.clone(),
        example.schema().clone(),
        example.type_ref(),
        Duplicates::Rejected,
    )
    .ok()
}

/// Returns the value as a validated one that may have items with the same key.
fn allowed(value: &Value) -> Option<Typed> {
    let example = thing("null");
    Typed::new(
        value.clone(),
        example.schema().clone(),
        example.type_ref(),
        Duplicates::Allowed,
    )
    .ok()
}

/// Numbers are ordered by value in sets, but by their texts in objects.
#[test]
fn owned_text_in_other_order_is_sorted_by_name() {
    let port = |port: i64| {
        to_map(vec![
            ("port".to_owned(), port.into()),
            ("protocol".to_owned(), "TCP".into()),
        ])
    };
    for (ports, sorted) in [(vec![port(2), port(10)], false), (vec![port(10), port(20)], true)] {
        // The last list is in order.
        let tags = Value::from(vec![Value::from("a"), Value::from("b")]);
        let value = checked(&to_map(vec![
            ("ports".to_owned(), ports.into()),
            ("tags".to_owned(), tags),
        ]))
        .unwrap();
        let text = value.to_applied_fields_v1(&Set::new()).unwrap();
        let set = value.to_field_set().unwrap();
        assert_eq!(json::to_string(&text), json::to_string(&set.to_fields_v1_value()));
        let as_in_sets = std::str::from_utf8(fields_v1_text(&text).unwrap()).unwrap();
        assert_eq!(json::to_string(&text) == as_in_sets, sorted, "{as_in_sets}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn nothing_panics_and_sets_are_well_formed(a in any_thing(), b in any_thing()) {
        let (a, b) = (typed(&a), typed(&b));
        let _ = a.merge(&b);
        let _ = a.compare(&b);
        if let Ok(set) = b.to_field_set() {
            let _ = a.remove_items(&set);
            let _ = a.extract_items(&set, KeyFields::Appended);
            let _ = a.reconcile_field_set_with_schema(&set);
        }
    }

    #[test]
    fn validated_values_give_same_results(a in any_thing(), b in any_thing()) {
        if let (Some(a_checked), Some(b_checked)) = (checked(&a), checked(&b)) {
            let (a, b) = (typed(&a), typed(&b));
            let unchecked = a.merge(&b).unwrap();
            let merged = a_checked.merge(&b_checked).unwrap();
            prop_assert_eq!(unchecked.value(), merged.value());
            prop_assert!(unchecked.validate(Duplicates::Rejected).is_ok());
            prop_assert_eq!(a.compare(&b).unwrap(), a_checked.compare(&b_checked).unwrap());
            // A merged value shares its unchanged parts with its sides.
            prop_assert_eq!(a_checked.compare(&merged).unwrap(), a.compare(&typed(merged.value())).unwrap());
        }
    }

    #[test]
    fn new_applied_equals_validation_and_field_set(value in any_thing(), but in any_thing()) {
        let but = checked(&but).map(|but| but.to_field_set().unwrap()).unwrap_or_default();
        let unchecked = typed(&value);
        let applied = Typed::new_applied(value.clone(), unchecked.schema().clone(), unchecked.type_ref(), &but);
        match checked(&value) {
            Some(checked) => {
                let (typed, fields) = applied.unwrap();
                prop_assert_eq!(typed.value(), &value);
                prop_assert_eq!(fields, checked.to_applied_fields_v1(&but));
            }
            None => {
                let errors = unchecked.validate(Duplicates::Rejected).err();
                prop_assert!(errors.is_some() && applied.err() == errors);
            }
        }
    }

    #[test]
    fn invalid_change_has_no_fields_text(a in any_thing(), b in any_thing(), ignored in any_thing()) {
        if let (Some(a), None, Some(ignored)) = (checked(&a), allowed(&b), checked(&ignored)) {
            let ignored = ignored.to_field_set().unwrap();
            prop_assert_eq!(typed(&b).to_changed_fields_v1(&a, &Set::new(), &ignored), None);
        }
    }

    #[test]
    fn the_text_of_what_is_owned_is_that_of_its_set(
        a in any_thing(), b in any_thing(), but in any_thing(), ignored in any_thing(),
    ) {
        if let (Some(a), Some(b), Some(but), Some(ignored)) = (checked(&a), checked(&b), checked(&but), checked(&ignored)) {
            let ignored = ignored.to_field_set().unwrap();
            let but = but.to_field_set().unwrap();
            let applied = b.to_applied_fields_v1(&but);
            let set = b.to_field_set().unwrap().difference(&but);
            // Only items of lists may require the set.
            prop_assert!(applied.is_some() || json::to_string(b.value()).contains('['));
            let changed = b.to_changed_fields_v1(&a, &but, &ignored);
            prop_assert_eq!(&typed(b.value()).to_changed_fields_v1(&a, &but, &ignored), &changed);
            let comparison = a.compare(&b).unwrap();
            let changes = comparison.added.union(&comparison.modified).recursive_difference(&ignored).difference(&but);
            for (text, set) in [(applied, set), (changed, changes)] {
                let Some(text) = text else { continue };
                let made = set.to_fields_v1_value();
                prop_assert_eq!(fields_v1_text(&text), fields_v1_text(&made));
                prop_assert_eq!(&text, &made);
                prop_assert_eq!(json::length(&text), json::length(&made));
                prop_assert_eq!(json::to_string(&text), json::to_string(&made));
                prop_assert_eq!(&Set::from_fields_v1_value(&text).unwrap(), &set);
            }
        }
    }

    #[test]
    fn comparing_backwards_swaps_what_came_and_what_went(a in any_thing(), b in any_thing()) {
        if let (Some(a), Some(b)) = (checked(&a), checked(&b)) {
            let (there, back) = (a.compare(&b).unwrap(), b.compare(&a).unwrap());
            prop_assert_eq!(&there.added, &back.removed);
            prop_assert_eq!(&there.modified, &back.modified);
            prop_assert!(a.compare(&a).unwrap().is_same());
        }
    }

    #[test]
    fn applying_again_changes_nothing(existing in any_thing(), config in any_thing()) {
        if let (Some(existing), Some(config)) = (checked(&existing), checked(&config)) {
            let updater = UpdaterBuilder::new(IdentityConverter).build();
            let nothing = Typed::trusted(Value::Null, existing.schema().clone(), existing.type_ref());
            let (existing, managers) = updater.update(&nothing, &existing, "v1", Managers::new(), "updater").unwrap();
            let first = updater.apply(&existing, &config, "v1", managers, "applier", true).unwrap();
            let existing = first.object.unwrap_or(existing);
            let again = updater.apply(&existing, &config, "v1", first.managers.clone(), "applier", false).unwrap();
            prop_assert!(again.object.is_none());
            prop_assert_eq!(&again.managers, &first.managers);
            // Another manager with the same configuration owns the same fields.
            let other = updater.apply(&existing, &config, "v1", first.managers.clone(), "other", false).unwrap();
            prop_assert!(other.object.is_none());
            let owned = |managers: &Managers, name: &str| managers.get(name).map(|owned| owned.set.clone());
            prop_assert_eq!(owned(&other.managers, "other"), owned(&first.managers, "applier"));
        }
    }
}
