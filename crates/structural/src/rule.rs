//! A CEL rule as a schema states it.

use holdfast_value::{SmolStr, Value};

/// Reasons that a rule may give for an error, in the order of messages.
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// A rule in a schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// Condition that must be true, in CEL.
    pub rule: SmolStr,
    /// Error message; if empty, the message is built from the rule.
    pub message: SmolStr,
    /// CEL expression of the error message, used instead of the message if it can be evaluated; empty for none.
    pub message_expression: SmolStr,
    /// The reported reason, such as `FieldValueForbidden`.
    pub reason: Option<SmolStr>,
    /// Path of the field below that the error names, such as `.name`; empty for the value itself.
    pub field_path: SmolStr,
    /// True if `oldSelf` is optional, so that the rule also runs without an old value.
    pub optional_old_self: Option<bool>,
}

impl Rule {
    pub(crate) fn read(rule: &Value) -> Self {
        let text = |name: &str| rule.str_at(&[name]).map(SmolStr::new).unwrap_or_default();
        Self {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: rule.str_at(&["reason"]).map(SmolStr::new),
            field_path: text("fieldPath"),
            optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
        }
    }

    /// Returns the reasons that rules may give.
    pub fn reasons() -> &'static [&'static str] {
        &REASONS
    }

    /// Returns the rule in the form of the reference's messages.
    pub fn shown(&self) -> String {
        let quoted = |text: &SmolStr| Value::String(text.clone());
        let optional = self.optional_old_self.map_or(Value::Null, Value::Bool);
        format!(
            r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{optional}}}"#,
            quoted(&self.rule),
            quoted(&self.message),
            quoted(&self.message_expression),
            self.reason.as_ref().map_or(Value::Null, quoted),
            quoted(&self.field_path),
        )
    }

    /// Returns the rule's name in messages: its message, or otherwise its expression.
    pub(super) fn name(&self) -> &str {
        if self.message.is_empty() {
            self.rule.trim()
        } else {
            self.message.trim()
        }
    }

    /// Returns the error message of a rule without a message of its own.
    pub(super) fn plain_message(&self) -> String {
        if self.message.is_empty() {
            format!("failed rule: {}", self.name())
        } else {
            self.message.trim().to_owned()
        }
    }
}
