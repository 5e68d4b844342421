#![no_main]

use std::sync::LazyLock;

use holdfast_cel::{Activation, Budget, CelValue, Environment, Type, check_pattern};
use holdfast_value::{Limits, json};

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    Environment::new()
        .with_variable("self", Type::Dyn)
        .with_old_self(true)
        .with_mutation()
        .with_bindings()
});

const OBJECT: &str = r#"{"a":1,"b":[1,2,3],"c":{"d":"text","e":1.5},"f":null,"g":true}"#;

// An expression that compiles has the same result each time, within its budget.
libfuzzer_sys::fuzz_target!(|expression: &str| {
    let _ = check_pattern(expression);
    let Ok(program) = ENVIRONMENT.compile(expression, &[]) else {
        return;
    };
    let object = json::parse(OBJECT.as_bytes(), &Limits::default()).unwrap();
    let activation = Activation::new(&ENVIRONMENT).with("self", CelValue::untyped(&object));
    let evaluate = || {
        let mut budget = Budget::new(100_000, 100_000);
        let outcome = program.evaluate(&activation, &mut budget);
        (format!("{outcome:?}"), budget.remaining())
    };
    assert_eq!(evaluate(), evaluate());
    let estimate = program.estimate_cost();
    assert!(estimate.min <= estimate.max);
});
