//! Tables in TOML, with the file and the line of each value for errors.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value of a table.
pub(crate) type Value<'t> = Spanned<DeValue<'t>>;

/// A table with its values.
pub(crate) type Table<'t> = DeTable<'t>;

/// Text of a file.
pub(crate) struct Source {
    name: String,
    text: String,
}

impl Source {
    /// Reads the file of that name in the folder of tables.
    pub(crate) fn read(tables: &Path, name: &str) -> Result<Self, String> {
        let name = format!("crates/kind-tables/{}", tables.join(name).display());
        let path = Path::new(&name)
            .strip_prefix("crates/kind-tables")
            .map_err(|error| error.to_string())?;
        let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        Ok(Self { name, text })
    }

    /// Returns the table in the file.
    pub(crate) fn parse(&self) -> Result<Table<'_>, String> {
        match DeTable::parse(&self.text) {
            Ok(table) => Ok(table.into_inner()),
            Err(error) => Err(self.error_at(error.span().unwrap_or_default().start, error.message())),
        }
    }

    /// Returns the file and the line of a byte: `crates/kind-tables/tables/tags.toml:12`.
    pub(crate) fn place(&self, at: usize) -> String {
        let before = self.text.bytes().take(at);
        let line = before.filter(|byte| *byte == b'\n').count() + 1;
        format!("{}:{line}", self.name)
    }

    /// Returns an error at a byte.
    pub(crate) fn error_at(&self, at: usize, error: &str) -> String {
        format!("{}: {error}", self.place(at))
    }

    /// Returns an error at a value.
    pub(crate) fn error(&self, value: &Value<'_>, error: &str) -> String {
        self.error_at(value.span().start, error)
    }

    /// Returns a value as a table.
    pub(crate) fn table<'v, 't>(&self, value: &'v Value<'t>) -> Result<&'v Table<'t>, String> {
        let table = value.get_ref().as_table();
        table.ok_or_else(|| self.error(value, "this is no table"))
    }

    /// Returns the value of a key of `table`, which is the value `of`.
    pub(crate) fn get<'v, 't>(&self, of: &Value<'_>, table: &'v Table<'t>, key: &str) -> Result<&'v Value<'t>, String> {
        table
            .get(key)
            .ok_or_else(|| self.error(of, &format!("there is no `{key}`")))
    }

    /// Checks that a table has no other keys than these.
    pub(crate) fn check_keys(&self, table: &Table<'_>, keys: &[&str]) -> Result<(), String> {
        let odd = table.keys().find(|key| !keys.contains(&key.get_ref().as_ref()));
        odd.map_or(Ok(()), |key| {
            Err(self.error_at(key.span().start, &format!("unknown key `{}`", key.get_ref())))
        })
    }

    /// Returns a value as a boolean.
    pub(crate) fn flag(&self, value: &Value<'_>) -> Result<bool, String> {
        let flag = value.get_ref().as_bool();
        flag.ok_or_else(|| self.error(value, "this is neither true nor false"))
    }

    /// Returns a value as a text.
    pub(crate) fn text<'v>(&self, value: &'v Value<'_>) -> Result<&'v str, String> {
        let text = value.get_ref().as_str();
        text.ok_or_else(|| self.error(value, "this is no text"))
    }

    /// Returns a value as a list of texts.
    pub(crate) fn texts(&self, value: &Value<'_>) -> Result<Vec<String>, String> {
        let items = value
            .get_ref()
            .as_array()
            .ok_or_else(|| self.error(value, "this is no list"))?;
        items.iter().map(|item| self.text(item).map(str::to_owned)).collect()
    }
}
