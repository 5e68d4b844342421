//! Default roles and bindings of a cluster.
//!
//! ```toml
//! [[roles]]
//! name = "system:kube-dns"
//! subjects = [{ ServiceAccount = "kube-system/kube-dns" }]
//! rules = [
//!     { verbs = ["list", "watch"], groups = "core", resources = ["endpoints", "services"] },
//! ]
//! ```
//! The header of the table describes the keys. A list of one text may be that text.

use std::fmt::Write as _;

use crate::source::{Source, Table, Value};

const ROLE_KEYS: [&str; 8] = [
    "name",
    "controller",
    "namespace",
    "labels",
    "aggregate",
    "subjects",
    "bindings",
    "rules",
];

/// Returns a line for each role (`role NAME [LABEL…]`, `role NAME in NAMESPACE` or `controller NAME`) and below it one for each
/// rule and binding.
///
/// # Errors
/// If a value has an unknown form, with file and line.
pub fn role_lines(source: &Source) -> Result<String, String> {
    let table = source.parse()?;
    source.check_keys(&table, &["roles"])?;
    let mut lines = String::new();
    for role in items(source, &table, "roles")? {
        role_block(source, role, &mut lines)?;
    }
    Ok(lines)
}

fn role_block(source: &Source, value: &Value<'_>, lines: &mut String) -> Result<(), String> {
    let role = source.table(value)?;
    source.check_keys(role, &ROLE_KEYS)?;
    match source.optional_text(role, "controller")? {
        Some(controller) => lines.extend(["controller ", controller]),
        None => lines.extend(["role ", source.text(source.get(value, role, "name")?)?]),
    }
    if let Some(namespace) = source.optional_text(role, "namespace")? {
        lines.extend([" in ", namespace]);
    }
    for label in role
        .get("labels")
        .map_or(Ok(Vec::new()), |labels| source.texts(labels))?
    {
        lines.extend([" ", &label]);
    }
    lines.push('\n');
    if let Some(label) = source.optional_text(role, "aggregate")? {
        let _ = writeln!(lines, "  aggregate {label}");
    }
    for rule in items(source, role, "rules")? {
        let _ = writeln!(lines, "  {}", rule_words(source, rule)?);
    }
    if let Some(of) = role.get("subjects") {
        let _ = writeln!(lines, "  bind{}", subjects(source, of)?);
    }
    for value in items(source, role, "bindings")? {
        let binding = source.table(value)?;
        source.check_keys(binding, &["name", "subjects"])?;
        let name = source.text(source.get(value, binding, "name")?)?;
        let bound = source.get(value, binding, "subjects")?;
        let _ = writeln!(lines, "  bind-as {name}{}", subjects(source, bound)?);
    }
    Ok(())
}

/// Returns a word for each subject: ` KIND=NAME`.
fn subjects(source: &Source, value: &Value<'_>) -> Result<String, String> {
    let mut words = String::new();
    for subject in source.list(value)? {
        for (kind, name) in source.table(subject)? {
            if !["User", "Group", "ServiceAccount"].contains(&kind.get_ref().as_ref()) {
                return Err(source.error_at(kind.span().start, "a subject is a User, a Group or a ServiceAccount"));
            }
            let _ = write!(words, " {}={}", kind.get_ref(), source.text(name)?);
        }
    }
    Ok(words)
}

/// Returns the words of a rule: `[if GATE] VERBS GROUPS RESOURCES [NAMES]`, `[if GATE] VERBS urls PATHS` or `events`.
fn rule_words(source: &Source, value: &Value<'_>) -> Result<String, String> {
    let rule = source.table(value)?;
    let mut words = Vec::new();
    if let Some(gate) = source.optional_text(rule, "gate")? {
        words.extend(["if".to_owned(), gate.to_owned()]);
    }
    let part = |key: &str| one_or_more(source, source.get(value, rule, key)?);
    if source.is_set(rule, "events")? {
        source.check_keys(rule, &["events", "gate"])?;
        words.push("events".to_owned());
    } else if rule.contains_key("urls") {
        source.check_keys(rule, &["verbs", "urls", "gate"])?;
        words.extend([part("verbs")?, "urls".to_owned(), part("urls")?]);
    } else {
        source.check_keys(rule, &["verbs", "groups", "resources", "names", "gate"])?;
        words.extend([part("verbs")?, part("groups")?, part("resources")?]);
        words.extend(rule.get("names").map(|names| one_or_more(source, names)).transpose()?);
    }
    Ok(words.join(" "))
}

/// Returns a text, or the texts of a list joined by commas.
fn one_or_more(source: &Source, value: &Value<'_>) -> Result<String, String> {
    match value.get_ref().as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Ok(source.texts(value)?.join(",")),
    }
}

/// Returns the items of an optional list.
fn items<'v, 't>(source: &Source, table: &'v Table<'t>, key: &str) -> Result<&'v [Value<'t>], String> {
    table.get(key).map_or(Ok(&[]), |value| source.list(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_are_words_of_the_lines() {
        let text = r#"
[[roles]]
name = "edit"
labels = ["to-admin"]
aggregate = "to-edit"

[[roles]]
name = "reader"
namespace = "kube-system"
subjects = []
rules = [
    { verbs = ["get", "list"], groups = "core", resources = "pods", names = "a" },
    { verbs = "get", urls = ["/livez", "/readyz"] },
    { events = true, gate = "Events" },
]

[[roles.bindings]]
name = "other"
subjects = [{ User = "u" }, { ServiceAccount = "kube-system/s" }]

[[roles]]
controller = "job-controller"
"#;
        let expected = "role edit to-admin
  aggregate to-edit
role reader in kube-system
  get,list core pods a
  get urls /livez,/readyz
  if Events events
  bind
  bind-as other User=u ServiceAccount=kube-system/s
controller job-controller
";
        assert_eq!(role_lines(&Source::new("b.toml", text)).as_deref(), Ok(expected));
    }

    #[test]
    fn error_names_file_and_line() {
        for (text, error) in [
            (
                "[[roles]]\nname = \"a\"\nsubjects = [\n    { Robot = \"r\" }]",
                "b.toml:4: a subject is a User, a Group or a ServiceAccount",
            ),
            (
                "[[roles]]\nname = \"a\"\nrules = [{ events = true, verbs = \"get\" }]",
                "b.toml:3: unknown key `verbs`",
            ),
            ("[[roles]]\n", "b.toml:1: there is no `name`"),
        ] {
            assert_eq!(role_lines(&Source::new("b.toml", text)).unwrap_err(), error);
        }
    }
}
