//! Hostile expressions must not harm the server: not by their depth, length or type sizes, nor by the memory and time
//! of their evaluation.

use std::sync::Arc;

use holdfast_cel::{Activation, Budget, CelValue, DeclType, Environment, ListType, Type};
use holdfast_value::{Growth, Limits, json};

use crate::support::fields;

fn environment() -> (Environment, CelValue) {
    let schema = Arc::new(fields([
        ("a", DeclType::string(None)),
        ("n", DeclType::int()),
        ("l", DeclType::list(DeclType::string(None), None, ListType::Set)),
        ("m", DeclType::map(DeclType::int(), None)),
        ("when", DeclType::date_time()),
    ]));
    let text = br#"{"a": "text", "n": 3, "l": ["x", "y"], "m": {"k": 1}, "when": "2024-01-01T00:00:00Z"}"#;
    let object = json::parse(text, &Limits::default()).unwrap_or_default();
    let own = CelValue::typed(&object, &schema).unwrap_or(CelValue::Null);
    let environment = Environment::new()
        .with_object("self", schema)
        .with_variable("any", Type::Dyn)
        .with_mutation()
        .with_bindings();
    (environment, own)
}

/// Compiles and, if that succeeds, evaluates.
fn try_it(world: &(Environment, CelValue), expression: &str) {
    let (environment, own) = world;
    if let Ok(program) = environment.compile(expression, &[]) {
        let activation = Activation::new(environment)
            .with("self", own.clone())
            .with("any", own.clone());
        let outcome = program.evaluate(&activation, &mut Budget::default());
        if let Ok(value) = outcome {
            let _ = value.to_value(&mut Growth::default());
        }
    }
}

/// Runs with the stack of a worker thread of the server.
fn on_a_worker(work: impl FnOnce() + Send + 'static) {
    let worker = std::thread::Builder::new().stack_size(2 << 20).spawn(work);
    worker.map(|worker| worker.join().unwrap()).unwrap();
}

#[test]
fn depth_is_bounded_whatever_it_is_made_of() {
    on_a_worker(|| {
        let environment = environment();
        for depth in [40, 120, 240, 260, 5_000, 30_000] {
            let repeat = |text: &str| text.repeat(depth);
            for expression in [
                format!("{}1{}", repeat("("), repeat(")")),
                format!("{}1{}", repeat("["), repeat("]")),
                format!("{}1{}", repeat("{1:"), repeat("}")),
                format!("any{}", repeat(".a")),
                format!("any{}", repeat("[0]")),
                format!("any{}", repeat(".f()")),
                format!("1{}", repeat("+1")),
                format!("{}1", repeat("1?1:")),
                format!("{}1", repeat("true?1:")),
                format!("{}true", repeat("!")),
                format!("{}true{}", repeat("!("), repeat(")")),
                format!("{}true{}", repeat("[1].all(x,"), repeat(")")),
                format!("{}[1]{}", repeat("[1].map(x,"), repeat(")")),
                format!("{}1{}", repeat("size("), repeat(")")),
                format!("true{}", repeat("&&true")),
                format!("{}1{}", repeat("cel.bind(x,1,"), repeat(")")),
                format!("{}1{}", repeat("Object{a:"), repeat("}")),
                repeat("("),
                repeat("["),
                repeat("a."),
                repeat("-!"),
                repeat("/-"),
                format!("{}{}", "(".repeat(depth.min(120)), repeat("-!")),
            ] {
                try_it(&environment, &expression);
            }
        }
    });
}

#[test]
fn deep_values_within_bounds_still_evaluate() {
    on_a_worker(|| {
        let (environment, _) = environment();
        let expression = format!("{}1{}", "(".repeat(120), ")".repeat(120));
        assert!(environment.compile(&expression, &[]).is_ok());
        let chain = format!("true{}", " && true".repeat(5_000));
        let program = environment.compile(&chain, &[Type::Bool]);
        let outcome = program.map(|program| program.evaluate(&Activation::new(&environment), &mut Budget::default()));
        assert!(matches!(outcome, Ok(Ok(CelValue::Bool(true)))));
    });
}

#[test]
fn types_cannot_grow_without_bound() {
    let environment = environment();
    let mut expression = "[1]".to_owned();
    for _ in 0..100 {
        expression.push_str(".map(x, {x: x})");
    }
    try_it(&environment, &expression);
    let mut nested = "1".to_owned();
    for _ in 0..100 {
        nested = format!("cel.bind(a, {nested}, {{a: a}})");
    }
    try_it(&environment, &nested);
}

#[test]
fn results_are_bounded_in_memory_and_time() {
    let environment = environment();
    let long = "x".repeat(50_000);
    for expression in [
        format!("'{long}'.replace('', '{}').size()", &long[..40_000]),
        "lists.range(900000).map(x, lists.range(900000)).size()".to_owned(),
        "lists.range(9223372036854775807).size()".to_owned(),
        "lists.range(1000).map(x, 'aaaaaaaaaa').join('bbbbbbbbbb').replace('', 'cccccccccc').size()".to_owned(),
        "'%.999999999f'.format([1.5])".to_owned(),
        "'%.1000f'.format([1.5]).size()".to_owned(),
        "lists.range(100000).distinct().size()".to_owned(),
        "sets.contains(lists.range(100000), lists.range(100000))".to_owned(),
        "lists.range(900000).sort().size()".to_owned(),
        "'a'.matches('((a{1000}){1000}){1000}')".to_owned(),
        "self.a.matches('(' + '((a{1000}){1000}){1000}' + ')')".to_owned(),
        format!("'{long}'.split('').map(c, c + c).join('').size()"),
        "timestamp('9999-12-31T23:59:59Z') + duration('9223372036s')".to_owned(),
        "-(-9223372036854775807 - 1)".to_owned(),
        "(-9223372036854775807 - 1) / -1".to_owned(),
        "(-9223372036854775807 - 1) % -1".to_owned(),
        "timestamp(-9223372036854775807 - 1)".to_owned(),
        "timestamp(0) - duration(-9223372036854775807 - 1)".to_owned(),
        "quantity('99999999999999999999999999999999999999999999E').add(quantity('99999E'))".to_owned(),
        "quantity('1e999999999')".to_owned(),
        "quantity('1e-999999999')".to_owned(),
        "'abc'.substring(-9223372036854775807 - 1)".to_owned(),
        "[1].slice(9223372036854775807, 9223372036854775807)".to_owned(),
        "[1][9223372036854775807]".to_owned(),
        "duration('9223372036854775807ns') + duration('1ns')".to_owned(),
    ] {
        try_it(&environment, &expression);
    }
}

/// Random numbers that are the same in every run.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

const SEEDS: [&str; 24] = [
    "!has(self.min) || self.n <= 5 && self.a != 'x'",
    "self.l.all(x, x.startsWith('a')) || self.l.exists_one(y, y == 'b')",
    "self.m.map(k, self.m[k] * 2).sum() > 1",
    "{'a': 1, ?'b': optional.none()}.transformMap(k, v, v > 0, v + 1)",
    "[1, 2, 3].filter(x, x > 1).sortBy(x, -x).slice(0, 1)",
    "'%s %d %.2f %x'.format(['a', 1, 1.5, 255])",
    "timestamp('2024-01-01T00:00:00Z').getHours('+01:00') + duration('1h30m').getMinutes()",
    "self.when - timestamp(0) > duration('1s')",
    "url('https://a:80/b?c=d').getQuery()['c'][0]",
    "cidr('10.0.0.0/8').containsIP(ip('10.1.1.1')) && isIP('::1')",
    "quantity('1.5Gi').sub(quantity('100m')).compareTo(quantity('1'))",
    "semver('1.2.3-rc.1+b').isLessThan(semver('2.0.0'))",
    "'a1b2'.findAll('[0-9]+', 1).join(',').matches('^\\\\d$')",
    "any.?x[?'y'].orValue('z') in ['a', 'b'] ? 1 : 2",
    "Object{metadata: Object.metadata{labels: {'a': 'b'}}, ?x: optional.of(1)}",
    "[JSONPatch{op: 'add', path: '/' + jsonpatch.escapeKey('a/b'), value: [1, null, 2.5]}]",
    "cel.bind(x, self.l + ['z'], x.size() * x.size())",
    "optional.of(self.a).optMap(v, v.upperAscii().reverse())",
    "b'\\xff\\x00' + bytes('ä') == b'''abc''' || r'\\d' != \"\\u00e4\\U0001F600\"",
    "-0x7fffffffffffffff - 1 + int(1e18) % 7 / 3 - int(uint(5))",
    "format.dns1123Label().validate(self.a).hasValue() && format.named('uri').hasValue()",
    "sets.equivalent([1, 2], lists.range(3)) || [[1], [2]].flatten().distinct() == []",
    "type(self.n) == int && type(type(1)) == type && dyn(self) == dyn(any)",
    "self.a.replace('t', '', 1).split('', 2).map(c, c.charAt(0)).isSorted()",
];

const PIECES: [&str; 40] = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    "?",
    ":",
    ",",
    "'",
    "\"",
    "\\",
    "`",
    "&&",
    "||",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "==",
    "in",
    "self",
    "any",
    "x",
    "1",
    "1u",
    "1.5e308",
    "null",
    "true",
    "ä",
    "\u{0}",
    "\n",
    "//",
    ".?a",
    "[?0]",
    ".all(x, x)",
    "'''",
];

#[test]
fn mutated_expressions_do_no_harm() {
    on_a_worker(|| {
        let environment = environment();
        let mut random = Seeded(7);
        for round in 0..6_000 {
            let mut text: Vec<char> = SEEDS[round % SEEDS.len()].chars().collect();
            for _ in 0..=random.below(4) {
                let at = random.below(text.len() + 1);
                match random.below(4) {
                    0 if at < text.len() => drop(text.remove(at)),
                    1 => {
                        let piece = PIECES[random.below(PIECES.len())];
                        text.splice(at..at, piece.chars());
                    }
                    2 => {
                        // Insert a part of another expression.
                        let other: Vec<char> = SEEDS[random.below(SEEDS.len())].chars().collect();
                        let from = random.below(other.len());
                        let to = from + random.below(other.len() - from);
                        text.splice(at..at, other[from..to].iter().copied());
                    }
                    _ => text.truncate(at.max(1)),
                }
            }
            let expression: String = text.into_iter().collect();
            try_it(&environment, &expression);
        }
    });
}
