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

/// Returns the property whose identifier is `escaped`; `None` if it is the identifier of no property.
///
/// ```
/// use holdfast_cel::unescape;
///
/// assert_eq!(unescape("x__dash__y").unwrap(), "x-y");
/// assert_eq!(unescape("a__unknown__b"), None);
/// ```
///
/// upstream: k8s.io/apiserver/pkg/cel#Unescape
pub fn unescape(escaped: &str) -> Option<SmolStr> {
    let mut property = String::new();
    let mut rest = escaped;
    while let Some((before, behind)) = rest.split_once("__") {
        let end = behind.find('_').filter(|end| *end > 0);
        let found = end.and_then(|end| Some((behind.get(..end)?, behind.get(end..)?.strip_prefix("__")?)));
        property.push_str(before);
        let Some((word, after)) = found else {
            // No word follows these underscores, which therefore belong to the name.
            property.push('_');
            rest = rest.get(before.len() + 1..)?;
            continue;
        };
        property.push_str(match word {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            word if is_reserved(word) && escaped.len() == word.len() + 4 => word,
            _ => return None,
        });
        rest = after;
    }
    property.push_str(rest);
    Some(SmolStr::from(property))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unescape_inverts_escape() {
        for name in ["replicas", "x-y", "a.b/c", "a__b", "namespace", "_a_b_", "_", ""] {
            assert_eq!(unescape(&escape(name).unwrap_or_default()).unwrap(), name);
        }
        for escaped in ["a__foo__b", "a__namespace__"] {
            assert_eq!(unescape(escaped), None, "{escaped}");
        }
        for literal in ["a__b", "__", "a__", "___a"] {
            assert_eq!(unescape(literal).unwrap(), literal);
        }
    }

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
