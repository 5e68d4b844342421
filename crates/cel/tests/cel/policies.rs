//! Features of admission policies: untyped objects, and variables that use one another.

use holdfast_cel::{Activation, Budget, CelValue, CompositionBuilder, Environment, Type, limits};
use holdfast_value::{Growth, Limits, json};

fn object(text: &str) -> CelValue {
    CelValue::untyped(&json::parse(text.as_bytes(), &Limits::default()).unwrap_or_default())
}

fn environment() -> Environment {
    Environment::new().with_variable("object", Type::Dyn)
}

#[test]
fn objects_of_requests_are_read_without_a_schema() {
    let cases = [
        ("!has(object.data) || !('a' in object.data)", Ok(false)),
        ("object.metadata.?labels['x'].orValue('') == 'yes'", Ok(false)),
        (
            "!object.metadata.?labels['who'].hasValue() || 'a' == object.metadata.labels.who",
            Ok(true),
        ),
        ("object == null || object.metadata.name != 'probe'", Ok(true)),
        ("object.data.none == 'x'", Err("no such key: none")),
        ("object.?data.hook.orValue('none yet') == 'none yet'", Ok(true)),
        ("object.data.map(k, k).join(',') == 'a,b'", Ok(true)),
        ("size(object.data) <= 2", Ok(true)),
    ];
    let value = object(r#"{"metadata": {"name": "x"}, "data": {"a": "1", "b": "2"}}"#);
    for (expression, expected) in cases {
        let environment = environment();
        let program = environment
            .compile(expression, &[Type::Bool])
            .unwrap_or_else(|error| panic!("{expression}: {error}"));
        let activation = Activation::new(&environment).with("object", value.clone());
        let outcome = program
            .evaluate(&activation, &mut Budget::default())
            .map(|value| value.as_bool())
            .map_err(|error| error.to_string());
        assert_eq!(outcome, expected.map(Some).map_err(str::to_owned), "{expression}");
    }
}

#[test]
fn value_without_fields_gives_no_such_key() {
    let cases = [
        ("has(object.metadata)", Ok(false)),
        ("has(dyn(1).invalid)", Ok(false)),
        ("has(dyn([]).invalid)", Err("unsupported index type 'string' in list")),
        ("has(object.metadata.name)", Err("no such key: metadata")),
    ];
    for (expression, expected) in cases {
        let environment = environment();
        let program = environment
            .compile(expression, &[Type::Bool])
            .unwrap_or_else(|error| panic!("{expression}: {error}"));
        let activation = Activation::new(&environment).with("object", CelValue::Null);
        let outcome = program
            .evaluate(&activation, &mut Budget::default())
            .map(|value| value.as_bool())
            .map_err(|error| error.to_string());
        assert_eq!(outcome, expected.map(Some).map_err(str::to_owned), "{expression}");
    }
}

#[test]
fn a_missing_object_is_null() {
    let environment = environment();
    let program = environment.compile("object == null || object.metadata.name != 'probe'", &[]);
    let activation = Activation::new(&environment).with("object", CelValue::Null);
    let outcome = program.map(|program| program.evaluate(&activation, &mut Budget::default()));
    assert!(matches!(outcome, Ok(Ok(CelValue::Bool(true)))));
}

/// Evaluates `expression` with the variables of a policy over `object`.
fn with_variables(value: &str, expression: &str) -> Result<String, String> {
    let mut builder = CompositionBuilder::new(&environment());
    for (name, expression) in [
        ("list", "'n' in object.data ? object.data.n.split(',') : []"),
        ("nums", "variables.list.map(x, int(x))"),
        ("total", "variables.nums.sum()"),
    ] {
        builder.add(name, expression).map_err(|error| error.to_string())?;
    }
    let (environment, composition) = builder.finish();
    let program = environment
        .compile(expression, &[])
        .map_err(|error| error.to_string())?;
    let mut activation = Activation::new(&environment).with("object", object(value));
    composition.bind(&mut activation);
    let mut budget = Budget::default();
    let outcome = program
        .evaluate(&activation, &mut budget)
        .map_err(|error| error.to_string())?;
    assert!(budget.remaining() < limits::PER_REQUEST - 10, "variables cost too");
    Ok(outcome
        .to_value(&mut Growth::default())
        .map_or_else(|error| error.to_string(), |value| value.to_string()))
}

#[test]
fn variables_use_those_before_them() {
    let sum = with_variables(
        r#"{"data": {"n": "2,4"}}"#,
        "'sum ' + string(variables.total) + ' of ' + variables.list.join('+')",
    );
    assert_eq!(sum.as_deref(), Ok("\"sum 6 of 2+4\""));
    let unknown = with_variables("{}", "variables.none == 1");
    assert!(unknown.is_err_and(|error| error.contains("undefined field 'none'")));
}

#[test]
fn an_error_in_a_variable_names_the_way_to_it() {
    let expected = "composited variable \"total\" fails to evaluate: composited variable \"nums\" fails to evaluate: \
                    type conversion error from 'string' to 'int'";
    assert_eq!(
        with_variables(r#"{"data": {"n": "x"}}"#, "variables.total <= 5")
            .err()
            .as_deref(),
        Some(expected)
    );
    let missing = with_variables("{}", "variables.total <= 5").err().unwrap_or_default();
    assert!(
        missing.ends_with("composited variable \"list\" fails to evaluate: no such key: data"),
        "{missing}"
    );
}

#[test]
fn a_variable_may_not_use_a_later_one() {
    let mut builder = CompositionBuilder::new(&environment());
    let early = builder.add("x", "variables.y").err().map(|error| error.to_string());
    assert!(early.is_some_and(|error| error.contains("undefined field 'y'")));
    assert!(builder.add("y", "1").is_ok());
}

#[test]
fn variables_in_a_long_chain_end_in_an_error_and_not_in_a_crash() {
    let mut builder = CompositionBuilder::new(&environment());
    assert!(builder.add("v0", "1").is_ok());
    for at in 1..2000 {
        assert!(
            builder
                .add(&format!("v{at}"), &format!("variables.v{} + 1", at - 1))
                .is_ok()
        );
    }
    let (environment, composition) = builder.finish();
    let program = environment.compile("variables.v1999 > 0", &[]);
    let mut activation = Activation::new(&environment);
    composition.bind(&mut activation);
    let outcome = program.map(|program| program.evaluate(&activation, &mut Budget::default()));
    assert!(matches!(outcome, Ok(Err(_))));
}

#[test]
fn a_variable_out_of_reach_keeps_the_places_of_those_after_it() {
    let both = environment()
        .with_variable("authorizer", Type::Dyn)
        .with_variable("request", Type::Dyn);
    let less = both.clone().without_variable("authorizer");
    let rejected = less
        .compile("authorizer == null", &[])
        .err()
        .map(|error| error.to_string());
    assert!(rejected.is_some_and(|error| error.contains("undeclared reference to 'authorizer'")));
    let activation = Activation::new(&both).with("request", object("{\"a\": 1}"));
    let program = less.compile("request.a == 1", &[Type::Bool]);
    let outcome = program.map(|program| program.evaluate(&activation, &mut Budget::default()));
    assert!(matches!(outcome, Ok(Ok(CelValue::Bool(true)))));
}
