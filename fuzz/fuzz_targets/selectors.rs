#![no_main]

use holdfast_resource::FieldSelector;
use holdfast_resource::selector::LabelSelector;

const LABELS: [(&str, &str); 3] = [("app", "web"), ("tier", "5"), ("a.b/c", "")];

fn label(key: &str) -> Option<&'static str> {
    let found = LABELS.iter().find(|(name, _)| *name == key);
    found.map(|(_, value)| *value)
}

fn field(name: &str) -> &'static str {
    match name {
        "metadata.name" => "web",
        "metadata.namespace" => "default",
        _ => "",
    }
}

// Two selectors in one match what both match.
libfuzzer_sys::fuzz_target!(|text: &str| {
    let (one, other) = text.split_once('\n').unwrap_or((text, ""));
    let both = format!("{one},{other}");
    if let (Ok(one), Ok(other)) = (LabelSelector::parse(one), LabelSelector::parse(other))
        && !one.is_empty()
        && !other.is_empty()
    {
        let both = LabelSelector::parse(&both).expect("two selectors are one");
        assert_eq!(both.matches(label), one.matches(label) && other.matches(label));
    }
    if let (Ok(one), Ok(other)) = (FieldSelector::parse(one), FieldSelector::parse(other)) {
        let both = FieldSelector::parse(&both).expect("two selectors are one");
        assert_eq!(both.matches(field), one.matches(field) && other.matches(field));
        assert!(one.name().is_none_or(|name| name == "web" || !one.matches(field)));
    }
});
