//! Functions of the language and of its libraries: names, signatures and costs.
//!
//! Each library declares its functions in a table of [`Function`]s. The signatures have the form of the documentation
//! (`string.(int) string` is a member function of a string).

use smol_str::SmolStr;

use crate::error::EvaluationError;
use crate::extension::NAMED_TYPES;
use crate::regex_cache::RegexCache;
use crate::types::{Type, json_patch};
use crate::value::{CelValue, Outcome};

/// Environment of a function call in addition to its arguments.
pub(crate) struct Context<'a> {
    pub(crate) regexes: &'a RegexCache,
    /// Remaining cost of the call. Functions with large results check it before they create them.
    pub(crate) allowance: u64,
}

/// Implementation of a function. The receiver, if any, is the first argument.
pub(crate) type Call = fn(&Context<'_>, &[CelValue]) -> Outcome;

/// Function as declared by a library.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) call: Call,
    pub(crate) cost: Cost,
    pub(crate) signatures: &'static [&'static str],
}

/// Cost rule of a function, for the estimate and for the evaluation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cost {
    /// Fixed number of units.
    Fixed(u64),
    /// A scan of the text in the first argument or the receiver.
    Traverse,
    /// A scan of the text and another one of the parsed form.
    TraverseTwice,
    /// A scan with a result as long as the text.
    SameSize,
    Replace,
    Split,
    Join,
    Find,
    Matches,
    Contains,
    /// `startsWith` and `endsWith`.
    Affix,
    /// A comparison with each element of a list, or a search in a text.
    Elements,
    StringToBytes,
    BytesToString,
    Quote,
    Format,
    Validate,
    ContainsIp,
    ContainsCidr,
    Slice,
    Range,
    Reverse,
    Flatten,
    Distinct,
    Sort,
    /// A comparison of all pairs of elements, repeated this many times.
    Sets(u64),
}

/// Overload of a function.
#[derive(Debug, Clone)]
pub(crate) struct Overload {
    pub(crate) member: bool,
    /// Parameter types; for a member the receiver comes first.
    pub(crate) params: Vec<Type>,
    pub(crate) result: Type,
}

/// Function with parsed signatures.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) name: &'static str,
    pub(crate) call: Call,
    pub(crate) cost: Cost,
    pub(crate) overloads: Vec<Overload>,
    /// True if it is available only in mutating policies.
    pub(crate) mutation: bool,
}

impl EvaluationError {
    /// Adds the function or operator `name` and its arguments to the error.
    pub(crate) fn for_call(self, name: &str, args: &[CelValue]) -> Self {
        if self != EvaluationError::NoSuchOverload {
            return self;
        }
        // The reference selects this function by the value's capabilities rather than its type.
        if name == "size" {
            return EvaluationError::NoSuchOverloadOf(name.into());
        }
        let types: Vec<_> = args.iter().map(CelValue::type_name).collect();
        EvaluationError::NoSuchOverloadOf(format!("{name}({})", types.join(", ")).into())
    }
}

/// Parses `receiver.(a, b) result` or `(a, b) result`.
pub(crate) fn overload(signature: &str) -> Option<Overload> {
    let mut reader = Reader { rest: signature };
    let member = !signature.starts_with('(');
    let mut params = Vec::new();
    if member {
        params.push(reader.a_type()?);
        reader.eat('.')?;
    }
    reader.eat('(')?;
    while reader.eat(')').is_none() {
        params.push(reader.a_type()?);
        reader.eat(',');
    }
    let result = reader.a_type()?;
    Some(Overload { member, params, result })
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn eat(&mut self, character: char) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(character)?;
        self.rest = self.rest.trim_start();
        Some(())
    }

    fn a_type(&mut self) -> Option<Type> {
        let rest = self.rest.trim_start();
        let length = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let (word, rest) = rest.split_at(length);
        self.rest = rest;
        Some(match word {
            "list" => Type::list(self.inner()?),
            "optional" => Type::optional(self.inner()?),
            "type" => Type::Type(self.inner()?.into()),
            "map" => {
                self.eat('(')?;
                let keys = self.a_type()?;
                self.eat(',')?;
                let values = self.a_type()?;
                self.eat(')')?;
                Type::map(keys, values)
            }
            "null" => Type::Null,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "duration" => Type::Duration,
            "timestamp" => Type::Timestamp,
            "dyn" => Type::Dyn,
            name => match NAMED_TYPES.iter().find(|(short, _)| *short == name) {
                Some((_, full)) => Type::Named(full),
                None => Type::Param(SmolStr::new(name)),
            },
        })
    }

    fn inner(&mut self) -> Option<Type> {
        self.eat('(')?;
        let inner = self.a_type()?;
        self.eat(')')?;
        Some(inner)
    }
}

/// Returns the type of this name, if there is one.
pub(crate) fn type_by_name(name: &str, mutation: bool) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "type" => Type::Type(Type::Dyn.into()),
        "optional_type" => Type::optional(Type::Dyn),
        "duration" | "google.protobuf.Duration" => Type::Duration,
        "timestamp" | "google.protobuf.Timestamp" => Type::Timestamp,
        "JSONPatch" if mutation => json_patch(),
        name if mutation && (name == "Object" || name.starts_with("Object.")) => Type::any_object(name),
        // Expressions cannot name the other types of the libraries.
        "net.IP" => Type::Named("net.IP"),
        "net.CIDR" => Type::Named("net.CIDR"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_names_receiver_arguments_and_result() {
        let read = overload("list(T).(int, map(string, T)) optional(T)");
        let shown = read.map(|overload| {
            let params: Vec<String> = overload.params.iter().map(Type::to_string).collect();
            (overload.member, params.join("; "), overload.result.to_string())
        });
        let expected = (
            true,
            "list(T); int; map(string, T)".to_owned(),
            "optional_type(T)".to_owned(),
        );
        assert_eq!(shown, Some(expected));
    }
}
