//! Tables in TOML, with the file and the line of each value for errors.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value of a table.
pub type Value<'t> = Spanned<DeValue<'t>>;

/// A table with its values.
pub type Table<'t> = DeTable<'t>;

/// Text of a file, with its name for errors.
pub struct Source {
    name: String,
    text: String,
}

impl Source {
    /// Returns a source with that text; errors begin with `name`.
    pub fn new(name: &str, text: &str) -> Self {
        Self {
            name: name.to_owned(),
            text: text.to_owned(),
        }
    }

    /// Reads the file at `path` in the current folder, which is that of the crate if a build script calls.
    ///
    /// # Errors
    /// If the file cannot be read, with its name.
    pub fn read(crate_name: &str, path: &Path) -> Result<Self, String> {
        let name = format!("crates/{crate_name}/{}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        Ok(Self { name, text })
    }

    /// Returns the table in the file.
    ///
    /// # Errors
    /// If the file is no TOML.
    pub fn parse(&self) -> Result<Table<'_>, String> {
        match DeTable::parse(&self.text) {
            Ok(table) => Ok(table.into_inner()),
            Err(error) => Err(self.error_at(error.span().unwrap_or_default().start, error.message())),
        }
    }

    /// Returns the file and the line of a byte: `crates/kind-tables/tables/tags.toml:12`.
    pub fn place(&self, at: usize) -> String {
        let before = self.text.bytes().take(at);
        let line = before.filter(|byte| *byte == b'\n').count() + 1;
        format!("{}:{line}", self.name)
    }

    /// Returns an error at a byte.
    pub fn error_at(&self, at: usize, error: &str) -> String {
        format!("{}: {error}", self.place(at))
    }

    /// Returns an error at a value.
    pub fn error(&self, value: &Value<'_>, error: &str) -> String {
        self.error_at(value.span().start, error)
    }

    /// Returns a value as a table.
    ///
    /// # Errors
    /// If it is none.
    pub fn table<'v, 't>(&self, value: &'v Value<'t>) -> Result<&'v Table<'t>, String> {
        let table = value.get_ref().as_table();
        table.ok_or_else(|| self.error(value, "this is no table"))
    }

    /// Returns the value of a key of `table`, which is the value `of`.
    ///
    /// # Errors
    /// If the table has no such key.
    pub fn get<'v, 't>(&self, of: &Value<'_>, table: &'v Table<'t>, key: &str) -> Result<&'v Value<'t>, String> {
        table
            .get(key)
            .ok_or_else(|| self.error(of, &format!("there is no `{key}`")))
    }

    /// Checks that a table has no other keys than these.
    ///
    /// # Errors
    /// If it has another key.
    pub fn check_keys(&self, table: &Table<'_>, keys: &[&str]) -> Result<(), String> {
        let odd = table.keys().find(|key| !keys.contains(&key.get_ref().as_ref()));
        odd.map_or(Ok(()), |key| {
            Err(self.error_at(key.span().start, &format!("unknown key `{}`", key.get_ref())))
        })
    }

    /// Returns a value as a boolean.
    ///
    /// # Errors
    /// If it is none.
    pub fn flag(&self, value: &Value<'_>) -> Result<bool, String> {
        let flag = value.get_ref().as_bool();
        flag.ok_or_else(|| self.error(value, "this is neither true nor false"))
    }

    /// Returns a value as a text.
    ///
    /// # Errors
    /// If it is none.
    pub fn text<'v>(&self, value: &'v Value<'_>) -> Result<&'v str, String> {
        let text = value.get_ref().as_str();
        text.ok_or_else(|| self.error(value, "this is no text"))
    }

    /// Returns a value as a list of texts.
    ///
    /// # Errors
    /// If it is none.
    pub fn texts(&self, value: &Value<'_>) -> Result<Vec<String>, String> {
        self.list(value)?
            .iter()
            .map(|item| self.text(item).map(str::to_owned))
            .collect()
    }

    /// Returns a value as a list.
    ///
    /// # Errors
    /// If it is none.
    pub fn list<'v, 't>(&self, value: &'v Value<'t>) -> Result<&'v [Value<'t>], String> {
        let items = value.get_ref().as_array();
        items
            .map(|items| &**items)
            .ok_or_else(|| self.error(value, "this is no list"))
    }

    /// Returns the text of an optional key.
    ///
    /// # Errors
    /// If the value is no text.
    pub fn optional_text<'v>(&self, table: &'v Table<'_>, key: &str) -> Result<Option<&'v str>, String> {
        table.get(key).map(|value| self.text(value)).transpose()
    }

    /// Returns the texts of an optional key, joined by commas; `None` without the key.
    ///
    /// # Errors
    /// If the value is no list of texts.
    pub fn joined_texts(&self, table: &Table<'_>, key: &str) -> Result<Option<String>, String> {
        table.get(key).map(|value| Ok(self.texts(value)?.join(","))).transpose()
    }

    /// Returns true if an optional key is true.
    ///
    /// # Errors
    /// If the value is neither true nor false.
    pub fn is_set(&self, table: &Table<'_>, key: &str) -> Result<bool, String> {
        table.get(key).map_or(Ok(false), |value| self.flag(value))
    }
}

/// Returns the keys and values of a table in the order of the file.
pub(crate) fn in_order<'v, 't>(table: &'v Table<'t>) -> Vec<(&'v str, usize, &'v Value<'t>)> {
    let mut rows: Vec<(&str, usize, &Value<'t>)> = table
        .iter()
        .map(|(key, value)| (key.get_ref().as_ref(), key.span().start, value))
        .collect();
    rows.sort_by_key(|(_, at, _)| *at);
    rows
}
