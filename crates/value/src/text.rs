//! Values in Go's print formats.

use std::fmt::{self, Display, Formatter};

use holdfast_gotext::number::general;
use holdfast_gotext::quote::quote;

use crate::tree::{List, Value};

/// Form of Go's verb `%v`: `map[image:nginx ports:[80 443]]`.
///
/// ```
/// use holdfast_value::{Limits, text::Plain, yaml};
///
/// let value = yaml::parse(b"{image: nginx, ports: [80, 443]}", &Limits::REQUEST)?;
/// assert_eq!(Plain(&value).to_string(), "map[image:nginx ports:[80 443]]");
/// # Ok::<(), holdfast_value::Error>(())
/// ```
pub struct Plain<'a>(pub &'a Value);

impl Display for Plain<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => out.write_str("<nil>"),
            Value::Float(number) => out.write_str(&general(*number)),
            // Go does not represent these numbers as integers.
            Value::UInt(number) => out.write_str(&general(*number as f64)),
            Value::String(text) => out.write_str(text),
            Value::List(items) => PlainList(items).fmt(out),
            Value::Map(entries) => {
                out.write_str("map[")?;
                for (at, (key, value)) in entries.iter().enumerate() {
                    let gap = if at == 0 { "" } else { " " };
                    write!(out, "{gap}{key}:{}", Plain(value))?;
                }
                out.write_str("]")
            }
            Value::Bool(_) | Value::Int(_) => self.0.fmt(out),
        }
    }
}

/// Form of Go's verb `%v` for a list: `[80 443]`.
///
/// ```
/// use holdfast_value::{List, Value, text::PlainList};
///
/// let ports: List = [80, 443].into_iter().map(Value::from).collect();
/// assert_eq!(PlainList(&ports).to_string(), "[80 443]");
/// ```
pub struct PlainList<'a>(pub &'a List);

impl Display for PlainList<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("[")?;
        for (at, item) in self.0.iter().enumerate() {
            let gap = if at == 0 { "" } else { " " };
            write!(out, "{gap}{}", Plain(item))?;
        }
        out.write_str("]")
    }
}

/// Form of Go's verb `%#v`: the value in Go syntax.
///
/// ```
/// use holdfast_value::{Limits, text::Syntax, yaml};
///
/// let value = yaml::parse(b"{image: nginx}", &Limits::REQUEST)?;
/// assert_eq!(Syntax(&value).to_string(), r#"map[string]interface {}{"image":"nginx"}"#);
/// # Ok::<(), holdfast_value::Error>(())
/// ```
pub struct Syntax<'a>(pub &'a Value);

impl Display for Syntax<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => out.write_str("interface {}(nil)"),
            Value::String(text) => out.write_str(&quote(text)),
            Value::List(items) => {
                out.write_str("[]interface {}{")?;
                for (at, item) in items.iter().enumerate() {
                    let gap = if at == 0 { "" } else { ", " };
                    write!(out, "{gap}{}", Syntax(item))?;
                }
                out.write_str("}")
            }
            Value::Map(entries) => {
                out.write_str("map[string]interface {}{")?;
                for (at, (key, value)) in entries.iter().enumerate() {
                    let gap = if at == 0 { "" } else { ", " };
                    write!(out, "{gap}{}:{}", quote(key), Syntax(value))?;
                }
                out.write_str("}")
            }
            Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) => Plain(self.0).fmt(out),
        }
    }
}

impl Value {
    /// Returns the output of Go's verb `%T`: the Go type that holds the value.
    pub fn go_type(&self) -> &'static str {
        match self {
            Value::Null => "<nil>",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int64",
            Value::UInt(_) => "uint64",
            Value::Float(_) => "float64",
            Value::String(_) => "string",
            Value::List(_) => "[]interface {}",
            Value::Map(_) => "map[string]interface {}",
        }
    }

    /// Formats the value as the structured-merge reference does in its messages: strings quoted as in Go, floats in
    /// Go's general form, lists in brackets, and maps as consecutive `key=value` pairs.
    pub fn to_printed(&self) -> String {
        match self {
            Value::Float(float) => general(*float),
            Value::String(text) => quote(text),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(Value::to_printed).collect();
                format!("[{}]", items.join(","))
            }
            Value::Map(entries) => entries
                .iter()
                .map(|(key, value)| format!("{key}={}", value.to_printed()))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::UInt(_) => self.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::limits::Limits;

    #[test]
    fn values_are_printed_as_go_prints_them() {
        let text = r#"{"a":[1,1.5,1e6,"x y",[]],"b":null,"c":{"d":true},"e":18446744073709551615}"#;
        let value = json::parse(text.as_bytes(), &Limits::default()).unwrap();
        assert_eq!(
            Plain(&value).to_string(),
            "map[a:[1 1.5 1e+06 x y []] b:<nil> c:map[d:true] e:1.8446744073709552e+19]"
        );
        assert_eq!(
            Syntax(&value).to_string(),
            r#"map[string]interface {}{"a":[]interface {}{1, 1.5, 1e+06, "x y", []interface {}{}}, "b":interface {}(nil), "c":map[string]interface {}{"d":true}, "e":1.8446744073709552e+19}"#
        );
    }

    #[test]
    fn values_are_printed_as_in_messages_of_the_reference() {
        let value = json::parse(br#"{"a":[1,1.5,1e6,"x"],"b":null,"c":{}}"#, &Limits::default()).unwrap();
        assert_eq!(value.to_printed(), r#"a=[1,1.5,1e+06,"x"]b=nullc="#);
    }
}
