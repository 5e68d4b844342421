use std::sync::OnceLock;

use holdfast_value::Value;

use crate::options::{DeleteOptions, WriteOptions};

/// Admission attributes of a write: the input of policies and webhooks other than the objects.
pub(crate) struct Attributes<'a> {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub(crate) operation: &'static str,
    /// The name of the object.
    pub(crate) name: &'a str,
    /// The options of the write as the client sent them.
    sent: Options<'a>,
    /// Options as an object, created on demand.
    options: OnceLock<Value>,
}

/// Options of a write.
#[derive(Clone, Copy)]
pub(crate) enum Options<'a> {
    /// Of a creation or a change: an object of that kind.
    Write(&'a WriteOptions, &'static str),
    Delete(&'a DeleteOptions),
    /// No options.
    Nothing,
}

impl<'a> Attributes<'a> {
    pub(crate) fn new(operation: &'static str, name: &'a str, sent: Options<'a>) -> Self {
        Self {
            operation,
            name,
            sent,
            options: OnceLock::new(),
        }
    }

    /// Returns the options of the write as an object.
    pub(crate) fn options(&self) -> &Value {
        self.options.get_or_init(|| match self.sent {
            Options::Write(options, kind) => options.to_object(kind),
            Options::Delete(options) => options.to_object(),
            Options::Nothing => Value::Null,
        })
    }
}
