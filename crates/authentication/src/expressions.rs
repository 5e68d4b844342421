//! CEL expressions over the claims of a token and over the resulting user.

use std::sync::{Arc, LazyLock};

use holdfast_authorization::User;
use holdfast_cel::{
    Activation, Budget, CelValue, CompileError, DeclField, DeclType, Environment, EvaluationError, ListType, ListValue,
    Program, Type,
};
use holdfast_value::{List, Map, SmolStr, Value};

const CLAIMS: &str = "claims";
const USER: &str = "user";

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    text: String,
    program: Program,
}

impl Expression {
    /// Returns the text of the expression.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the value of the expression.
    ///
    /// # Errors
    /// If the evaluation fails or costs too much.
    ///
    /// upstream: k8s.io/apiserver/pkg/authentication/cel#mapper.eval
    pub(crate) fn evaluate(&self, activation: &Activation) -> Result<CelValue, String> {
        let value = self.program.evaluate(activation, &mut Budget::default());
        value.map_err(|error| format!("expression '{}' resulted in error: {error}", self.text))
    }
}

/// Compiler of expressions.
pub(crate) struct Compiler {
    claims: Environment,
    user: Environment,
}

static COMPILER: LazyLock<Compiler> = LazyLock::new(Compiler::new);

/// Returns the compiler of all expressions.
pub(crate) fn compiler() -> &'static Compiler {
    &COMPILER
}

impl Compiler {
    fn new() -> Self {
        let claims = Environment::new().with_variable(CLAIMS, Type::map(Type::String, Type::Dyn));
        let user = Environment::new().with_named_object(USER, "kubernetes.UserInfo", user_type());
        Self {
            claims: claims.with_unescaped_fields(),
            user: user.with_unescaped_fields(),
        }
    }

    /// Compiles an expression over claims with a value of any type.
    pub(crate) fn claims_mapping(&self, text: &str) -> Result<Expression, String> {
        compile(&self.claims, text, &[])
    }

    /// Compiles a condition over claims.
    pub(crate) fn claims_condition(&self, text: &str) -> Result<Expression, String> {
        compile(&self.claims, text, &[Type::Bool])
    }

    /// Compiles a condition over a user.
    pub(crate) fn user_condition(&self, text: &str) -> Result<Expression, String> {
        compile(&self.user, text, &[Type::Bool])
    }
}

/// upstream: k8s.io/apiserver/pkg/authentication/cel#compiler.compile
fn compile(environment: &Environment, text: &str, expected: &[Type]) -> Result<Expression, String> {
    let compiled = environment.compile(text, expected).map_err(|error| match error {
        CompileError::Output { .. } => "must evaluate to bool".to_owned(),
        error => error.to_string(),
    });
    Ok(Expression {
        text: text.to_owned(),
        program: compiled?,
    })
}

/// Returns the type of the variable `user`.
fn user_type() -> Arc<DeclType> {
    let text = || DeclType::string(None);
    let texts = || DeclType::list(text(), None, ListType::Atomic);
    let fields = [
        DeclField::new("username", text(), false),
        DeclField::new("uid", text(), false),
        DeclField::new("groups", texts(), false),
        DeclField::new("extra", DeclType::map(texts(), None), false),
    ];
    Arc::new(DeclType::object(fields.into_iter().flatten()))
}

/// Returns the variable `claims`. As in the reference, all numbers are floats.
pub(crate) fn claims_activation(claims: &Value) -> Activation {
    Activation::new(&compiler().claims).with(CLAIMS, CelValue::untyped(&floats(claims)))
}

/// Returns the value with floats for all numbers, as Go decodes JSON.
fn floats(value: &Value) -> Value {
    match value {
        Value::Int(number) => Value::Float(*number as f64),
        Value::UInt(number) => Value::Float(*number as f64),
        Value::List(items) => Value::List(items.iter().map(floats).collect::<List>()),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| (key.clone(), floats(value)));
            Value::Map(entries.collect::<Map>())
        }
        other => other.clone(),
    }
}

/// Returns the variable `user`.
///
/// # Errors
/// If the user does not have the type of the variable, which is a bug of this code.
pub(crate) fn user_activation(user: &User) -> Result<Activation, EvaluationError> {
    let texts = |texts: &[SmolStr]| Value::List(texts.iter().map(|text| Value::from(text.clone())).collect::<List>());
    let extra = user.extra.iter().map(|(key, values)| (key.clone(), texts(values)));
    let mut value = Map::new();
    value.insert("username", user.name.clone());
    value.insert("uid", user.uid.clone());
    value.insert("groups", texts(&user.groups));
    value.insert("extra", Value::Map(extra.collect::<Map>()));
    let value = CelValue::typed(&Value::Map(value), &user_type())?;
    Ok(Activation::new(&compiler().user).with(USER, value))
}

/// Returns a text or a list of texts without empty ones; null counts as none.
///
/// upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/oidc#convertCELValueToStringList
pub(crate) fn texts(value: &CelValue) -> Result<Vec<SmolStr>, String> {
    let mismatch = || "expression must return a string or a list of strings".to_owned();
    let mut texts: Vec<SmolStr> = match value {
        CelValue::Null => Vec::new(),
        CelValue::String(text) => vec![text.clone()],
        CelValue::List(ListValue::Data(items, _)) => {
            let items = items.iter().map(|item| item.as_str().map(SmolStr::new));
            items.collect::<Option<_>>().ok_or_else(mismatch)?
        }
        CelValue::List(ListValue::Built(items)) => {
            let items = items.iter().map(|item| item.as_str().map(SmolStr::new));
            items.collect::<Option<_>>().ok_or_else(mismatch)?
        }
        _ => return Err(mismatch()),
    };
    texts.retain(|text| !text.is_empty());
    Ok(texts)
}
