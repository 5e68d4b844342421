//! Estimated costs of expressions, and cost limits during evaluation.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use holdfast_cel::{Activation, Budget, CelValue, DeclType, Environment, EvaluationError, ListType, limits};
use holdfast_value::{Limits, json};

use crate::support::fields;

fn estimate(schema: &DeclType, expression: &str) -> u64 {
    let environment = Environment::new().with_object("self", Arc::new(schema.clone()));
    let program = environment.compile(expression, &[]);
    program
        .map(|program| program.estimate_cost().max)
        .unwrap_or_else(|error| panic!("{expression}: {error}"))
}

fn list_of_texts(max_items: Option<u64>, max_length: Option<u64>) -> DeclType {
    let list = DeclType::list(DeclType::string(max_length), max_items, ListType::Atomic);
    fields([("l", list), ("s", DeclType::string(max_length)), ("n", DeclType::int())])
}

#[test]
fn nested_walks_multiply_by_the_bounds_of_their_lists() {
    let rule = "self.l.all(x, self.l.all(y, x == y))";
    let cost = estimate(&list_of_texts(Some(1000), Some(1000)), rule);
    assert_eq!(cost, 405_006_003);
    assert_eq!(limits::excess(cost, limits::ESTIMATED_RULE).as_deref(), Some("40.5x"));
    assert_eq!(limits::excess(cost, limits::ESTIMATED_SCHEMA).as_deref(), Some("4.1x"));
    assert!(estimate(&list_of_texts(Some(10), Some(10)), rule) < limits::ESTIMATED_RULE);
    let unbounded = estimate(&list_of_texts(None, None), rule);
    assert_eq!(
        limits::excess(unbounded, limits::ESTIMATED_RULE).as_deref(),
        Some("more than 100x")
    );
}

#[test]
fn an_unbounded_text_costs_what_fits_a_request() {
    let item = DeclType::string(None);
    let environment = Environment::new().with_object("self", Arc::new(item.clone()));
    let cost = environment
        .compile("self.contains('x')", &[])
        .map(|program| program.estimate_cost().max);
    assert_eq!(cost, Ok(314_574));
    let many = item.max_cardinality();
    assert_eq!(many, 1_048_576);
    let all = cost.map_or(0, |cost| cost.saturating_mul(many));
    assert_eq!(
        limits::excess(all, limits::ESTIMATED_RULE).as_deref(),
        Some("more than 100x")
    );
}

#[test]
fn asking_for_a_type_costs_the_longest_self() {
    let own = |decl: DeclType, rule: &str| {
        let environment = Environment::new().with_object("self", Arc::new(decl));
        let program = environment.compile(rule, &[]);
        program.map(|program| program.estimate_cost().max).unwrap_or_default()
    };
    let rule = "type(self) == int ? self < 100 : self.endsWith('%')";
    assert!(own(DeclType::int_or_string(None), rule) < limits::ESTIMATED_RULE);
    assert!(own(DeclType::int_or_string(Some(10)), rule) < 20);
    assert!(
        own(
            fields([("n", DeclType::dyn_())]),
            "type(self.n) == google.protobuf.Timestamp"
        ) < 10
    );
}

#[test]
fn a_message_that_joins_a_list_for_each_element_is_too_dear() {
    let cost = estimate(&list_of_texts(None, None), "self.l.map(x, self.l.join(x)).join('')");
    assert_eq!(
        limits::excess(cost, limits::ESTIMATED_RULE).as_deref(),
        Some("more than 100x")
    );
}

#[test]
fn each_step_costs_what_the_reference_charges() {
    let schema = list_of_texts(Some(10), Some(10));
    let cases = [
        ("true", 0),
        ("self.n == 1", 2),
        ("has(self.n)", 1),
        ("self.s == 'abc'", 3),
        ("self.s.startsWith('abc')", 3),
        ("self.s.contains('abc')", 2 + 4),
        ("self.s.matches('^a$')", 2 + 5),
        ("self.n + 1 > 0", 2 + 1 + 1),
        ("self.s + self.s == ''", 2 + 2 + 8),
        ("self.l.size() == 1", 2 + 1 + 1),
        ("self.l[0] == ''", 2 + 1),
        ("[1, 2, 3].size() == 3", 10 + 1 + 1),
        ("{'a': 1}.size() == 1", 30 + 1 + 1),
        ("ip.isCanonical(self.s)", 2 + 8),
        ("url(self.s) == url(self.s)", 6 + 6 + 4),
        ("format.uuid() == format.uuid()", 1 + 1 + 7),
        // A variable of a created list is estimated as large as `self`, which as an object has no length.
        ("[1, 2].all(x, x == x)", 10 + 1 + 2 * 5),
        ("self.n == 1 || self.n == 2", 4),
        ("self.l.isSorted()", 2 + 10 * (1 + 4)),
        ("self.l.exists(x, true)", 2 + 1 + 10 * (3 + 1)),
        ("self.l.map(x, x).size() == 1", 2 + 10 + 1 + 10 * (12 + 1) + 2),
        ("quantity('1') == quantity('1')", 3),
        ("self.l.distinct().size() == 1", 2 + 200 + 11 + 2),
    ];
    for (expression, expected) in cases {
        assert_eq!(estimate(&schema, expression), expected, "{expression}");
    }
}

fn run(expression: &str, budget: &mut Budget<'_>) -> Result<CelValue, EvaluationError> {
    let environment = Environment::new().with_object("self", Arc::new(list_of_texts(None, None)));
    let program = environment
        .compile(expression, &[])
        .unwrap_or_else(|error| panic!("{expression}: {error}"));
    let object = json::parse(br#"{"l": ["a", "b"], "s": "x", "n": 3}"#, &Limits::default());
    let value = CelValue::untyped(&object.unwrap_or_default());
    program.evaluate(&Activation::new(&environment).with("self", value), budget)
}

#[test]
fn evaluation_deducts_cost_from_budget() {
    let cases = [
        ("self.n == 1", 3),
        ("self.l.all(x, x != 'c')", 2 + 2 * (3 + 2) + 1),
        ("self.l.map(x, x).size() == 2", 2 + 10 + 2 * 13 + 1 + 2),
        ("self.s.startsWith('x')", 3),
    ];
    for (expression, cost) in cases {
        let mut budget = Budget::default();
        assert!(run(expression, &mut budget).is_ok(), "{expression}");
        assert_eq!(limits::PER_REQUEST - budget.remaining(), cost, "{expression}");
    }
}

#[test]
fn an_evaluation_that_costs_too_much_is_stopped() {
    let walk = "lists.range(2000).all(x, lists.range(2000).all(y, x + y >= 0))";
    let mut budget = Budget::default();
    assert_eq!(run(walk, &mut budget).err(), Some(EvaluationError::CostLimitExceeded));
    // No result outweighs an exhausted budget.
    let hidden = format!("{walk} || true");
    assert_eq!(
        run(&hidden, &mut Budget::default()).err(),
        Some(EvaluationError::CostLimitExceeded)
    );
    // A list that exceeds the budget is not created.
    let long = "lists.range(9000000000).size() == 1";
    assert_eq!(
        run(long, &mut Budget::default()).err(),
        Some(EvaluationError::CostLimitExceeded)
    );
    let mut small = Budget::new(limits::PER_CALL, 2);
    assert!(run("self.n == 1", &mut small).is_ok());
    assert!(small.is_exhausted() && small.remaining() == 0);
}

#[test]
fn an_evaluation_stops_when_it_is_cancelled() {
    let flag = AtomicBool::new(true);
    let mut budget = Budget::default().interrupted_by(&flag);
    assert_eq!(
        run("self.l.all(x, true)", &mut budget).err(),
        Some(EvaluationError::Interrupted)
    );
}
