//! Values in TOML.

/// Returns a text in quotes. The escapes of JSON are also those of TOML.
pub(super) fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns a list of texts on one line.
pub(super) fn list<T: AsRef<str>>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(|item| text(item.as_ref())).collect();
    format!("[{}]", items.join(", "))
}
