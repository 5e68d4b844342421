//! Compile errors as users see them.

use holdfast_cel::{CompileError, DeclType, Environment, ListType, Type};

use crate::support::{compile_error, fields};

fn schema() -> DeclType {
    fields([
        ("a", DeclType::string(None)),
        ("n", DeclType::int()),
        ("l", DeclType::list(DeclType::string(None), None, ListType::Atomic)),
        ("any", DeclType::opaque()),
    ])
}

/// Asserts that `expression` is rejected with `message` at `column` of the first line.
fn rejected(expression: &str, column: usize, message: &str) {
    let mark = ".".repeat(column - 1);
    let expected = format!("compilation failed: ERROR: <input>:1:{column}: {message}\n | {expression}\n | {mark}^");
    assert_eq!(compile_error(&schema(), expression), expected);
}

#[test]
fn unknown_name_is_reported_with_position() {
    rejected("self.b == 'x'", 5, "undefined field 'b'");
    rejected("nothing", 1, "undeclared reference to 'nothing' (in container '')");
    rejected(
        "self.a.nofunc()",
        14,
        "undeclared reference to 'nofunc' (in container '')",
    );
    rejected("nofunc(1)", 7, "undeclared reference to 'nofunc' (in container '')");
    rejected("has(self.b)", 4, "undefined field 'b'");
    rejected(".b", 2, "undeclared reference to '.b' (in container '')");
    rejected(
        "kubernetes.Quantity == type(1)",
        1,
        "undeclared reference to 'kubernetes' (in container '')",
    );
    let types = "found no matching overload for '_==_' applied to '(type(type), string)'";
    rejected("type == 'string'", 6, types);
    rejected("self.any.z == 1", 9, "undefined field 'z'");
    rejected("self.a.b == 1", 7, "type 'string' does not support field selection");
    let reported = compile_error(&schema(), "cel.bind(x, 1, x)");
    assert!(
        reported.contains("<input>:1:1: undeclared reference to 'cel' (in container '')"),
        "{reported}"
    );
}

#[test]
fn error_in_duplicated_macro_target_is_reported_twice() {
    let once = "ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')\n | nothing.optMap(x, x).hasValue()\n | ^";
    let reported = compile_error(&schema(), "nothing.optMap(x, x).hasValue()");
    assert_eq!(reported, format!("compilation failed: {once}\n{once}"));
}

#[test]
fn behind_a_question_mark_an_element_is_expected() {
    let reported = compile_error(&schema(), "[?]");
    assert!(
        reported.contains("mismatched input ']' expecting {'[', '{', '(', '.', '-', '!', 'true'"),
        "{reported}"
    );
}

#[test]
fn several_errors_are_reported_in_order_of_their_places() {
    let reported = compile_error(&schema(), "self.b == nothing");
    let expected = "compilation failed: ERROR: <input>:1:5: undefined field 'b'\n | self.b == nothing\n | ....^\n\
                    ERROR: <input>:1:11: undeclared reference to 'nothing' (in container '')\n | self.b == nothing\n | ..........^";
    assert_eq!(reported, expected);
}

#[test]
fn type_mismatch_names_function_and_arguments() {
    rejected(
        "self.a == 1",
        8,
        "found no matching overload for '_==_' applied to '(string, int)'",
    );
    rejected(
        "self.l.all(x, x > 1)",
        17,
        "found no matching overload for '_>_' applied to '(string, int)'",
    );
    rejected(
        "self.n + 'a' == 'b'",
        8,
        "found no matching overload for '_+_' applied to '(int, string)'",
    );
    rejected(
        "'a' in self",
        5,
        "found no matching overload for '@in' applied to '(string, selfType1)'",
    );
    rejected(
        "self.a.reverse() == 'x'",
        15,
        "found no matching overload for 'reverse' applied to 'string.()'",
    );
    rejected(
        "size(1) == 1",
        5,
        "found no matching overload for 'size' applied to '(int)'",
    );
    rejected("[1, 'a'] == []", 5, "expected type 'int' but found 'string'");
    rejected("true || null", 9, "expected type 'bool' but found 'null'");
    rejected(
        "[] == 1",
        4,
        "found no matching overload for '_==_' applied to '(list(dyn), int)'",
    );
    rejected("duration(-1)", 10, "invalid duration argument");
    rejected("'a'.matches('a**')", 13, "invalid matches argument");
    rejected(
        "'%d'.format(['a'])",
        14,
        "error during formatting: decimal clause can only be used on integers, was given string",
    );
    rejected(
        "'%a'.format([1])",
        12,
        "could not parse formatting clause: unrecognized formatting clause \"a\"",
    );
    rejected(
        "'%d'.format([1, 2])",
        12,
        "too many arguments supplied to string.format (expected 1, got 2)",
    );
    rejected(
        "[1].all(__result__, true)",
        9,
        "iteration variable overwrites accumulator variable",
    );
    rejected("self.l.all(x, x)", 15, "expected type 'bool' but found 'string'");
    let range = "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)";
    rejected("self.n.all(x, true)", 5, range);
    // The parts below are checked nevertheless.
    let errors = compile_error(&schema(), "self.n.all(x, 'a' < 1)");
    let below = "<input>:1:19: found no matching overload for '_<_' applied to '(string, int)'";
    assert!(errors.contains(range) && errors.contains(below), "{errors}");
    rejected(
        "self.n ? 1 : 2",
        8,
        "found no matching overload for '_?_:_' applied to '(int, int, int)'",
    );
}

#[test]
fn syntax_errors_are_those_of_the_generated_parser_of_cel_go() {
    let operand = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
    let end = |expression: &str| {
        let column = expression.len() + 1;
        rejected(
            expression,
            column,
            &format!("Syntax error: mismatched input '<EOF>' expecting {operand}"),
        );
    };
    end("self.a ==");
    end("a &&");
    end("Object{data:");
    rejected("self.a 1", 8, "Syntax error: extraneous input '1' expecting <EOF>");
    rejected("(self.a", 8, "Syntax error: missing ')' at '<EOF>'");
    rejected("{1:2,", 6, "Syntax error: missing '}' at '<EOF>'");
    rejected("[1 2]", 4, "Syntax error: extraneous input '2' expecting {']', ','}");
    rejected("[1,,2]", 4, "Syntax error: mismatched input ',' expecting ']'");
    rejected("{,1:2}", 3, "Syntax error: mismatched input '1' expecting '}'");
    rejected("Foo{a:1,2}", 9, "Syntax error: extraneous input '2' expecting '}'");
    rejected(
        "size(,)",
        6,
        "Syntax error: extraneous input ',' expecting {'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, \
         NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
    );
    rejected(
        "!",
        2,
        &format!("Syntax error: extraneous input '<EOF>' expecting {operand}"),
    );
    rejected("!-self.n", 3, "Syntax error: no viable alternative at input '-self'");
    rejected("-!true", 2, "Syntax error: no viable alternative at input '-!'");
    for (expression, expected) in [
        (
            "1 + +",
            [
                "<input>:1:5: Syntax error: mismatched input '+'",
                "<input>:1:6: Syntax error: mismatched input '<EOF>'",
            ],
        ),
        (
            "in",
            [
                "<input>:1:1: Syntax error: mismatched input 'in'",
                "<input>:1:3: Syntax error: mismatched input '<EOF>'",
            ],
        ),
        (
            "self.in",
            [
                "<input>:1:6: Syntax error: no viable alternative at input '.in'",
                "<input>:1:8: Syntax error: mismatched",
            ],
        ),
    ] {
        let errors = compile_error(&schema(), expression);
        assert!(
            expected.iter().all(|one| errors.contains(one)),
            "{expression}: {errors}"
        );
    }
    let twice = compile_error(&schema(), "-)");
    assert!(
        twice.contains("<input>:1:2: Syntax error: no viable alternative at input '-)'")
            && twice.contains(&format!(
                "<input>:1:2: Syntax error: mismatched input ')' expecting {operand}"
            )),
        "{twice}"
    );
    rejected("[1,", 4, "Syntax error: missing ']' at '<EOF>'");
    rejected(
        "1 + + 2",
        5,
        &format!("Syntax error: extraneous input '+' expecting {operand}"),
    );
    rejected(
        "a.b(1,)",
        7,
        &format!("Syntax error: mismatched input ')' expecting {operand}"),
    );
    rejected("Foo{a:1, b}", 11, "Syntax error: mismatched input '}' expecting ':'");
    rejected("{1:2", 5, "Syntax error: mismatched input '<EOF>' expecting {'}', ','}");
    rejected("a.'x'", 3, "Syntax error: no viable alternative at input '.'x''");
    rejected("99999999999999999999", 1, "invalid int literal");
    rejected("has(a)", 5, "invalid argument to has() macro");
    rejected("self.l.all(x.y, true)", 13, "argument must be a simple name");
    rejected("for", 1, "reserved identifier: for");
    let assigned = compile_error(&schema(), "self.a = 1");
    let expected = "compilation failed: ERROR: <input>:1:8: Syntax error: token recognition error at: '= '\n | self.a = 1\n | .......^\n\
                    ERROR: <input>:1:10: Syntax error: extraneous input '1' expecting <EOF>\n | self.a = 1\n | .........^";
    assert_eq!(assigned, expected);
}

#[test]
fn error_marker_is_below_position_in_its_line() {
    let reported = compile_error(&schema(), "self.a == 'ä' &&\n\tself.n == 'ö'");
    let expected = "compilation failed: ERROR: <input>:2:9: found no matching overload for '_==_' applied to '(int, string)'\n | \
                    \x20self.n == 'ö'\n | ........^";
    assert_eq!(reported, expected);
}

#[test]
fn invalid_literal_is_rejected_at_compile_time() {
    rejected("duration('x') == duration('1s')", 10, "invalid duration argument");
    rejected("timestamp('x') == timestamp(0)", 11, "invalid timestamp argument");
    rejected("self.a.matches('(')", 16, "invalid matches argument");
}

#[test]
fn expression_of_wrong_type_is_rejected() {
    let environment = Environment::new().with_variable("object", Type::Dyn);
    let rejected = |expression: &str, expected: &[Type]| {
        let error = environment.compile(expression, expected).map(|_| ()).err();
        error.map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(
        rejected("object.metadata.name", &[Type::Bool]),
        "must evaluate to bool but got dyn"
    );
    assert_eq!(rejected("1", &[Type::String]), "must evaluate to string but got int");
    assert_eq!(
        rejected("1", &[Type::String, Type::Null]),
        "must evaluate to one of [string null_type] but got int"
    );
    assert_eq!(rejected("object.a == 1", &[Type::Bool]), "");
    let error = environment.compile("[1]", &[Type::Bool]).map(|_| ()).err();
    assert!(matches!(error, Some(CompileError::Output { actual, .. }) if actual.to_string() == "list(int)"));
}

#[test]
fn old_values_are_of_the_type_of_the_new_ones_or_optional() {
    let schema = std::sync::Arc::new(schema());
    let plain = Environment::new().with_object("self", schema.clone());
    assert!(plain.compile("self == oldSelf", &[]).is_err());
    let rule = plain
        .clone()
        .with_old_self(false)
        .compile("self.n >= oldSelf.n", &[Type::Bool]);
    assert!(rule.is_ok_and(|rule| rule.uses("oldSelf")));
    let optional = plain.with_old_self(true);
    assert!(optional.compile("oldSelf.n == 1", &[]).is_err());
    let rule = optional.compile("!oldSelf.hasValue() || oldSelf.value().n <= self.n", &[Type::Bool]);
    assert!(rule.is_ok());
    assert!(
        optional
            .compile("oldSelf.?n.orValue(0) == 0", &[Type::Bool])
            .is_ok_and(|rule| !rule.uses("self"))
    );
}
