//! Incremental writing of the document of version 2.

use holdfast_value::{Map, SmolStr, Value, json};

/// A writer of the parts of a document.
pub(super) trait Parts {
    /// Returns the bytes that a part of the member adds.
    fn part(&mut self, member: &'static str, part: &Value) -> Vec<u8>;
    /// Returns the bytes after the last part.
    fn end(self) -> Vec<u8>;
}

/// A JSON object whose members are joined from their parts.
#[derive(Default)]
pub(super) struct Joined {
    /// The last written member, which is open if it is a map.
    member: &'static str,
    open: bool,
    /// True if it holds anything yet.
    filled: bool,
}

impl Parts for Joined {
    #[expect(clippy::indexing_slicing, reason = "an object is written between two braces")]
    fn part(&mut self, member: &'static str, part: &Value) -> Vec<u8> {
        let mut text = Vec::new();
        if member != self.member {
            if self.open {
                text.push(b'}');
            }
            text.push(if self.member.is_empty() { b'{' } else { b',' });
            text.extend_from_slice(format!("\"{member}\":").as_bytes());
            self.open = part.as_map().is_some();
            if self.open {
                text.push(b'{');
            }
            (self.member, self.filled) = (member, false);
        }
        let written = json::to_vec(part);
        if !self.open {
            text.extend_from_slice(&written);
        } else if written.len() > 2 {
            if self.filled {
                text.push(b',');
            }
            self.filled = true;
            // The entries without the braces.
            text.extend_from_slice(&written[1..written.len() - 1]);
        }
        text
    }

    fn end(self) -> Vec<u8> {
        match (self.member, self.open) {
            ("", _) => b"{}".to_vec(),
            (_, true) => b"}}".to_vec(),
            (_, false) => b"}".to_vec(),
        }
    }
}

/// The protobuf form: consecutive messages are merged into one, and so are those within them.
pub(super) struct Messages;

impl Parts for Messages {
    fn part(&mut self, member: &'static str, part: &Value) -> Vec<u8> {
        let document: Map = [(SmolStr::new_static(member), part.clone())].into_iter().collect();
        holdfast_proto::openapi_v2(&Value::Map(document))
    }

    fn end(self) -> Vec<u8> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_document_make_one() {
        let map = |name: &str| {
            let mut map = Value::empty_map();
            map.set_at(&[name], Value::empty_map());
            map
        };
        let parts = [
            ("swagger", Value::from("2.0")),
            ("paths", Value::empty_map()),
            ("paths", map("/a")),
            ("paths", Value::empty_map()),
            ("paths", map("/b")),
            ("security", Value::from(vec![Value::from(1)])),
            ("definitions", map("c")),
        ];
        let mut joined = Joined::default();
        let mut text: Vec<u8> = parts
            .iter()
            .flat_map(|(member, part)| joined.part(member, part))
            .collect();
        text.extend(joined.end());
        let wanted = r#"{"swagger":"2.0","paths":{"/a":{},"/b":{}},"security":[1],"definitions":{"c":{}}}"#;
        assert_eq!(String::from_utf8(text).unwrap(), wanted);
        assert_eq!(Joined::default().end(), b"{}");
    }
}
