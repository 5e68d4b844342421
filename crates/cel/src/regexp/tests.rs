use super::*;

fn message(pattern: &str) -> String {
    check_pattern(pattern)
        .err()
        .and_then(|message| message.strip_prefix("error parsing regexp: ").map(str::to_owned))
        .unwrap_or_default()
}

fn memory() -> PatternMemory {
    PatternMemory::new(256 << 20)
}

/// Returns the compiled pattern.
fn compiled(pattern: &str) -> Pattern {
    let pattern = Pattern::compile(pattern, &memory()).unwrap();
    let compiled = Compiled::new(&pattern.root, &memory()).map(Box::new);
    pattern.compiled.set(compiled).unwrap();
    pattern
}

#[test]
fn a_pattern_is_compiled_when_it_pays() {
    let name = Pattern::compile("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", &memory()).unwrap();
    assert!(name.is_match("web-0") && name.compiled.get().is_none());
    let uses = (0..1000).take_while(|_| name.compiled_for("web-0").is_none()).count();
    assert!((10..1000).contains(&uses), "{uses}");
    // A long text would need many steps at once.
    let long = Pattern::compile("(?:a?){100}b", &memory()).unwrap();
    assert!(!long.is_match(&"a".repeat(10_000)) && long.compiled.get().is_some());
    // A pattern without memory is not compiled, either.
    let alone = Pattern::compile("^[a-z0-9]+$", &PatternMemory::default()).unwrap();
    assert!((0..1000).all(|_| alone.is_match("web0")) && alone.compiled.get().is_none());
    // Many patterns that are expensive to compile and used once are not compiled.
    let dear = Pattern::compile(r"^\pL{1,63}$", &memory()).unwrap();
    assert!((0..20).all(|_| dear.is_match("é") && dear.compiled.get().is_none()));
}

#[test]
fn patterns_mean_what_they_mean_in_go() {
    let cases = [
        (r"^\d+$", "12", true),
        (r"^\d+$", "١٢", false),
        (r"^\w$", "ä", false),
        (r"\bcat\b", "a cat", true),
        (r"^\Qa.b\E$", "a.b", true),
        (r"^\Qa.b\E$", "axb", false),
        (r"^\Qab\E{2}$", "abb", true),
        (r"^[\w.]+$", "a.b", true),
        (r"^[[:alpha:]]+$", "ab", true),
        (r"^[[:^alpha:]]+$", "ab", false),
        (r"^[]a]+$", "]a", true),
        (r"^[\w-]+$", "a-b", true),
        (r"^[^\s]+$", "a b", false),
        (r"^[a&&b]+$", "&", true),
        (r"b\b", "ab!", true),
        (r"^[a[]+$", "[a", true),
        (r"(?i)ABC", "abc", true),
        (r"(?i:a)B", "AB", true),
        (r"(?i:a)B", "Ab", false),
        (r"^a\z", "a", true),
        (r"a{,2}", "a{,2}", true),
        (r"^a{0}$", "", true),
        (r"(?m)^b$", "a\nb", true),
        (r"^b$", "a\nb", false),
        (r"a.b", "a\nb", false),
        (r"(?s)a.b", "a\nb", true),
        (r"^\p{Greek}\pL\PL$", "αb1", true),
        (r"^\x41\x{1F600}\101$", "A😀A", true),
        (r"^(?P<year>\d{4})(?<month>-\d\d)$", "2024-01", true),
        (r"^(a|b|)c$", "c", true),
    ];
    for (pattern, subject, expected) in cases {
        for regex in [Pattern::compile(pattern, &memory()).unwrap(), compiled(pattern)] {
            assert_eq!(regex.is_match(subject), expected, "{pattern} {subject}");
        }
    }
}

#[test]
fn invalid_pattern_gives_go_error() {
    for (pattern, expected) in [
        ("(", "missing closing ): `(`"),
        ("[a", "missing closing ]: `[a`"),
        ("a)", "unexpected ): `a)`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a|+?", "missing argument to repetition operator: `+?`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2}{3}?b", "invalid nested repetition operator: `{2}{3}?`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        (r"[\b]", r"invalid escape sequence: `\b`"),
        (r"\xg1", r"invalid escape sequence: `\xg1`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("[[:nope:]]", "invalid character class range: `[:nope:]`"),
        (r"\p{Nope}", r"invalid character class range: `\p{Nope}`"),
        ("(?P<a b>x)", "invalid named capture: `(?P<a b>`"),
        ("(?P<a", "invalid named capture: `(?P<a`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        ("(?:a{1000}){2}", "invalid repeat count: `{2}`"),
        ("((a{10}){10}){10}", ""),
    ] {
        assert_eq!(message(pattern), expected, "{pattern}");
    }
}

#[test]
fn depth_size_and_classes_have_bounds() {
    let nested = |open: &str, close: &str, times: usize| format!("{}a{}", open.repeat(times), close.repeat(times));
    assert_eq!(message(&nested("(", ")", 999)), "");
    assert!(message(&nested("(", ")", 1001)).starts_with("expression nests too deeply"));
    assert_eq!(message(&nested("(?:", ")", 20_000)), "");
    assert!(message(&"(?:.{1000})".repeat(2_000)).starts_with("expression too large"));
    assert!(message(&r"\pL".repeat(100_000)).starts_with("expression too large"));
}

#[test]
fn patterns_are_compiled_while_memory_is_left() {
    let small = PatternMemory::new(1 << 20);
    let root = parse::parse("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$").unwrap();
    let mut kept = Vec::new();
    while let Some(compiled) = Compiled::new(&root, &small) {
        assert!(compiled.regex.is_match("web-0"));
        kept.push(compiled);
    }
    assert!((2..=8).contains(&kept.len()), "{}", kept.len());
    kept.pop();
    assert!(Compiled::new(&root, &small).is_some());
}

#[test]
fn patterns_that_are_large_when_compiled_match_all_the_same() {
    let large = Pattern::compile(r"^(?:\pL{1,500}-)+[^\PLx]{500}$", &memory()).unwrap();
    assert!(Compiled::new(&large.root, &memory()).is_none());
    let word = "é".repeat(500);
    assert!(large.is_match(&format!("{word}-{word}-{word}")));
    assert!(!large.is_match(&format!("{word}-{word}-x{word}")));
    let deep = Pattern::compile(&format!("{}b{}", "(?:a".repeat(300), ")?".repeat(300)), &memory()).unwrap();
    assert!(Compiled::new(&deep.root, &memory()).is_none());
    assert!(deep.is_match(&"a".repeat(300)));
}

#[test]
fn both_engines_find_the_same() {
    for pattern in [
        "a*?",
        "a+b?",
        "(a|ab)(c|bcd)",
        "a{2,3}?",
        "x*",
        r"\b",
        "(?:a|b)*c",
        "(a*)*",
        "^a|b$",
        r"\B",
        "é+|z",
        "(?:)",
    ] {
        for text in ["", "aaab", "abcd", "ab cdé", "éézé", "bac\nab"] {
            let (stepwise, compiled) = (Pattern::compile(pattern, &memory()).unwrap(), compiled(pattern));
            assert!(compiled.compiled_for(text).is_some() && stepwise.compiled_for(text).is_none());
            assert_eq!(
                compiled.find_all(text, 9),
                stepwise.find_all(text, 9),
                "{pattern} {text}"
            );
        }
    }
}
