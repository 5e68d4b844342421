//! Operations and paths in both forms of OpenAPI.

use holdfast_schema::GroupVersionKind;
use holdfast_value::{Map, SmolStr, Value};

use super::parameters::Parameter;
use super::schemas::kind_entry;
use super::{Form, object, texts};

/// All operations on one path.
pub(super) struct PathItem {
    pub(super) path: String,
    /// Parameters of every operation on it.
    pub(super) parameters: Vec<Parameter>,
    /// Kind whose name is in the path, for the description of the parameter `name`.
    pub(super) named: SmolStr,
    pub(super) operations: Vec<Operation>,
}

/// Operation of a method on a path.
pub(super) struct Operation {
    /// HTTP method, in lower case.
    pub(super) method: &'static str,
    pub(super) id: String,
    pub(super) tag: SmolStr,
    pub(super) description: String,
    /// Action in the access rules; `None` if the path is not a resource.
    pub(super) action: Option<&'static str>,
    /// Kind of the request or response body; `None` if the path is not a resource.
    pub(super) kind: Option<GroupVersionKind>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Body,
    /// Status codes of success.
    pub(super) statuses: &'static [u16],
    pub(super) answer: Answer,
    /// True if it is one of a custom resource.
    pub(super) custom: bool,
}

/// Body of a request.
pub(super) enum Body {
    /// Nothing.
    None,
    /// An object of a type.
    Object {
        /// The definition name.
        of: SmolStr,
        /// The media types.
        media: &'static [&'static str],
        /// True if it is required.
        required: bool,
    },
    /// A patch in any of these media types, of the type `Patch`.
    Patch(&'static [&'static str]),
}

/// Body of a response.
pub(super) enum Answer {
    /// An object of a type in any of these media types.
    Object {
        /// The definition name.
        of: SmolStr,
        /// The media types.
        media: &'static [&'static str],
    },
    /// Text or a stream, in any of these media types.
    Text(&'static [&'static str]),
}

/// The definition name of patches.
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

impl PathItem {
    pub(super) fn write(&self, form: Form) -> Value {
        let mut item = Map::new();
        if !self.parameters.is_empty() {
            item.insert("parameters", parameters(&self.parameters, &self.named, form));
        }
        for operation in &self.operations {
            item.insert(operation.method, operation.write(&self.named, form));
        }
        Value::Map(item)
    }
}

impl Operation {
    fn write(&self, named: &str, form: Form) -> Value {
        let mut out = Map::new();
        out.insert("tags", texts([&self.tag]));
        out.insert("description", self.description.clone());
        out.insert("operationId", self.id.clone());
        if let Some(action) = self.action {
            out.insert("x-kubernetes-action", action);
        }
        if let Some(kind) = &self.kind {
            out.insert("x-kubernetes-group-version-kind", kind_entry(kind));
        }
        let mut sent = match parameters(&self.parameters, named, form) {
            Value::List(list) => list.to_vec(),
            _ => Vec::new(),
        };
        match form {
            Form::V2 => {
                if let Some(body) = self.body_v2() {
                    sent.insert(0, body);
                }
                let consumed: &[&str] = match &self.body {
                    Body::Patch(media) | Body::Object { media, .. } => media,
                    Body::None if self.action.is_none() || self.custom => self.answer.media(),
                    Body::None => &["*/*"][..],
                };
                out.insert("consumes", texts(consumed));
                out.insert("produces", texts(self.answer.media()));
                out.insert("schemes", texts(["https"]));
            }
            Form::V3 => {
                if let Some(body) = self.body_v3() {
                    out.insert("requestBody", body);
                }
            }
        }
        if !sent.is_empty() {
            out.insert("parameters", sent);
        }
        out.insert("responses", self.responses(form));
        Value::Map(out)
    }

    fn body_v2(&self) -> Option<Value> {
        let (of, required) = match &self.body {
            Body::None => return None,
            Body::Object { of, required, .. } => (of.as_str(), *required),
            Body::Patch(_) => (PATCH, true),
        };
        let mut body = Map::new();
        body.insert("name", "body");
        body.insert("in", "body");
        body.insert("schema", Form::V2.reference(of));
        if required {
            body.insert("required", true);
        }
        Some(Value::Map(body))
    }

    fn body_v3(&self) -> Option<Value> {
        let (of, media, required) = match &self.body {
            Body::None => return None,
            Body::Object { of, media, required } => (of.as_str(), *media, *required),
            Body::Patch(media) => (PATCH, *media, true),
        };
        let mut body = Map::new();
        body.insert("content", content(media, &Form::V3.reference(of)));
        if required {
            body.insert("required", true);
        }
        Some(Value::Map(body))
    }

    fn responses(&self, form: Form) -> Value {
        let schema = match &self.answer {
            Answer::Object { of, .. } => form.reference(of),
            Answer::Text(_) => object([("type", Value::from("string"))]),
        };
        let mut responses = Map::new();
        for status in self.statuses {
            let description = match status {
                201 => "Created",
                202 => "Accepted",
                _ => "OK",
            };
            let mut response = Map::new();
            response.insert("description", description);
            match form {
                Form::V2 => response.insert("schema", schema.clone()),
                Form::V3 => response.insert("content", content(self.answer.media(), &schema)),
            };
            responses.insert(status.to_string(), response);
        }
        responses.insert("401", object([("description", Value::from("Unauthorized"))]));
        Value::Map(responses)
    }
}

impl Answer {
    fn media(&self) -> &'static [&'static str] {
        match self {
            Answer::Object { media, .. } | Answer::Text(media) => media,
        }
    }
}

fn content(media: &[&'static str], schema: &Value) -> Value {
    let entries = media.iter().map(|media| {
        let entry = object([("schema", schema.clone())]);
        (SmolStr::new_static(media), entry)
    });
    Value::Map(entries.collect())
}

fn parameters(parameters: &[Parameter], named: &str, form: Form) -> Value {
    let write = |parameter: &Parameter| {
        let mut out = Map::new();
        out.insert("name", parameter.name);
        out.insert("in", if parameter.in_path { "path" } else { "query" });
        let description = match parameter.description {
            "" => format!("name of the {named}"),
            words => words.to_owned(),
        };
        out.insert("description", description);
        if parameter.in_path {
            out.insert("required", true);
        }
        match form {
            Form::V2 => {
                out.insert("type", parameter.of);
                out.insert("uniqueItems", true);
            }
            Form::V3 => {
                let schema = object([("type", Value::from(parameter.of)), ("uniqueItems", Value::Bool(true))]);
                out.insert("schema", schema);
            }
        }
        Value::Map(out)
    };
    Value::from(parameters.iter().map(write).collect::<Vec<_>>())
}
