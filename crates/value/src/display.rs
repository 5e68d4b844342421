use std::fmt;

use crate::Value;

/// Compact JSON, as it stands in messages.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(flag) => write!(f, "{flag}"),
            Value::Int(number) => write!(f, "{number}"),
            Value::UInt(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number}"),
            Value::String(text) => write!(f, "{text:?}"),
            Value::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at == 0 { "" } else { "," })?;
                }
                f.write_str("]")
            }
            Value::Map(entries) => {
                f.write_str("{")?;
                for (at, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{key:?}:{value}", if at == 0 { "" } else { "," })?;
                }
                f.write_str("}")
            }
        }
    }
}
