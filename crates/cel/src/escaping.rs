//! Property names as CEL identifiers, with the rules of Kubernetes: `x-y` becomes `x__dash__y`, and a property with the
//! name of a reserved word is wrapped in underscores (`__namespace__`).

use smol_str::SmolStr;

/// Reserved words that cannot be identifiers.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// True if `name` is a reserved word, which the parser rejects as an identifier.
pub fn is_reserved(name: &str) -> bool {
    // `true`, `false`, `null` and `in` have their own tokens and never occur here as identifiers.
    RESERVED.contains(&name)
}

/// Returns the identifier of the property `name` in expressions; `None` if CEL cannot name it.
///
/// ```
/// use holdfast_cel::escape;
///
/// assert_eq!(escape("x-y").unwrap(), "x__dash__y");
/// assert_eq!(escape("namespace").unwrap(), "__namespace__");
/// ```
pub fn escape(name: &str) -> Option<SmolStr> {
    let first = name.bytes().next()?;
    if first.is_ascii_digit() {
        return None;
    }
    if is_reserved(name) {
        return Some(SmolStr::from(format!("__{name}__")));
    }
    let mut escaped = String::new();
    let mut rest = name;
    while let Some(byte) = rest.bytes().next() {
        let (written, taken) = match byte {
            b'_' if rest.starts_with("__") => ("__underscores__", 2),
            b'.' => ("__dot__", 1),
            b'-' => ("__dash__", 1),
            b'/' => ("__slash__", 1),
            b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => (&rest[..1], 1),
            _ => return None,
        };
        escaped.push_str(written);
        rest = &rest[taken..];
    }
    Some(SmolStr::from(escaped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_names_are_escaped_for_cel() {
        let cases = [
            ("replicas", Some("replicas")),
            ("x-y", Some("x__dash__y")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("namespace", Some("__namespace__")),
            ("in", Some("__in__")),
            ("int", Some("int")),
            ("9lives", None),
            ("", None),
            ("dollar$", None),
            ("ä", None),
        ];
        for (name, expected) in cases {
            assert_eq!(escape(name).as_deref(), expected, "{name}");
        }
    }
}
