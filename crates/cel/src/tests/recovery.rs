use crate::parser::{Dialect, parse};
use crate::source::describe;

/// Returns the errors of a text with their columns.
fn errors(text: &str) -> Vec<String> {
    let issues = parse(text, Dialect::Standard).err().unwrap_or_default();
    let shown = describe(text, issues);
    let errors = shown.lines().filter_map(|line| line.strip_prefix("ERROR: <input>:"));
    errors.map(str::to_owned).collect()
}

const OPERAND: &str =
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

#[test]
fn errors_behind_the_first_are_those_of_the_reference() {
    let mismatched =
        |place: &str, found: &str| format!("{place}: Syntax error: mismatched input '{found}' expecting {OPERAND}");
    let cases: [(&str, Vec<String>); 6] = [
        (
            "a.  (b)",
            vec!["1:5: Syntax error: no viable alternative at input '.  ('".to_owned()],
        ),
        (
            "- *",
            vec![
                "1:3: Syntax error: no viable alternative at input '- *'".to_owned(),
                mismatched("1:3", "*"),
                mismatched("1:4", "<EOF>"),
            ],
        ),
        (
            "func{{a}}",
            vec![
                "1:6: Syntax error: extraneous input '{' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"
                    .to_owned(),
                "1:8: Syntax error: mismatched input '}' expecting ':'".to_owned(),
                "1:9: Syntax error: extraneous input '}' expecting <EOF>".to_owned(),
            ],
        ),
        (
            "a ? b ((?))",
            vec![
                mismatched("1:9", "?"),
                mismatched("1:10", ")"),
                "1:12: Syntax error: mismatched input '<EOF>' expecting ':'".to_owned(),
            ],
        ),
        (
            "x{?.",
            vec![
                "1:3: unsupported ident kind".to_owned(),
                "1:4: Syntax error: mismatched input '.' expecting {IDENTIFIER, ESC_IDENTIFIER}".to_owned(),
            ],
        ),
        (
            "a.`b.c`()",
            vec![
                "1:3: unsupported syntax: '`'".to_owned(),
                "1:8: Syntax error: mismatched input '(' expecting <EOF>".to_owned(),
            ],
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(errors(text), expected, "{text}");
    }
}

#[test]
fn the_walk_is_bounded() {
    for text in [
        "(".repeat(2_000),
        "[a,".repeat(1_000),
        "a?".repeat(1_500),
        "- ".repeat(4_000),
        "a.b{".repeat(900),
    ] {
        assert!(!errors(&text).is_empty());
    }
}
