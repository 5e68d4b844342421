//! The libraries that Kubernetes adds to the language.

use std::sync::{Arc, Mutex};

use crate::support::{all_true, evaluate, evaluate_in, evaluate_on, fields};
use holdfast_cel::{Authorizer, CelValue, Decision, DeclType, Environment, Question, ResourceSubject, Subject, Type};
use holdfast_value::Growth;

#[test]
fn texts_have_their_extended_functions() {
    all_true(&[
        "'abc'.charAt(0) == 'a' && 'abc'.charAt(3) == ''",
        "'abcb'.indexOf('b') == 1 && 'abcb'.indexOf('b', 2) == 3 && 'abcb'.lastIndexOf('b') == 3",
        "'äbä'.indexOf('ä', 1) == 2 && 'abcb'.lastIndexOf('b', 2) == 1 && 'abc'.indexOf('x') == -1",
        "'ABC'.lowerAscii() == 'abc' && 'abcä'.upperAscii() == 'ABCä'",
        "'aa'.replace('a', 'b', 1) == 'ba' && 'aa'.replace('a', 'b') == 'bb' && 'ab'.replace('', '-') == '-a-b-'",
        "'a,b'.split(',') == ['a', 'b'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'ab'.split('') == ['a', 'b']",
        "'a,b'.split(',', 0) == [] && 'a'.split(',', 1) == ['a']",
        "''.indexOf('zz', 2) == -1 && 'a'.lastIndexOf('a', 5) == -1",
        "'abcd'.substring(1, 3) == 'bc' && 'abcd'.substring(2) == 'cd'",
        "'  x '.trim() == 'x' && ['a', 'b'].join('-') == 'a-b' && ['a', 'b'].join() == 'ab'",
        "'%s is %d, %.2f, %x, %b, %%'.format([dyn('a'), 5, 1.5, 255, 5]) == 'a is 5, 1.50, ff, 101, %'",
        "'%s %s'.format([dyn([1, 2]), {'k': 'v'}]) == '[1, 2] {\"k\":\"v\"}'",
        "'%e'.format([1234.5]) == '1.234500×10⁰³' && '%s %s'.format([1e7, [1.5]]) == '1e+07 [1.500000]' && '%X'.format(['hi']) == '6869' && '%o'.format([8]) == '10'",
        "strings.quote('a\"b\\n') == '\"a\\\\\"b\\\\n\"'",
        "'abc'.startsWith('ab') && 'abc'.endsWith('bc') && 'abc'.contains('b')",
        "'abc'.matches('^[a-c]+$') && matches('1', '^\\\\d$')",
    ]);
    assert_eq!(
        evaluate("'a'.charAt(5)").err().as_deref(),
        Some("index out of range: 5")
    );
    let range = evaluate("'abc'.substring(2, 1)");
    assert_eq!(
        range.err().as_deref(),
        Some("invalid substring range. start: 2, end: 1")
    );
}

#[test]
fn lists_have_the_functions_of_kubernetes_and_of_cel() {
    all_true(&[
        "[1, 2].isSorted() && !['b', 'a'].isSorted() && [1, 2].sum() == 3 && [1.5, 2.0].sum() == 3.5",
        "[duration('1m'), duration('1m')].sum() == duration('2m')",
        "[2, 1].min() == 1 && ['a', 'b'].max() == 'b' && [1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2",
        "[1, 2, 3].slice(1, 2) == [2] && [[1], [2, 3]].flatten() == [1, 2, 3] && [[dyn(1), dyn([2])]].flatten(1) == [dyn(1), dyn([2])]",
        "[3, 1, 2].sort() == [1, 2, 3] && ['b', 'a'].sort() == ['a', 'b'] && [1, 1, 2].distinct() == [1, 2]",
        "[1, 2].reverse() == [2, 1] && lists.range(3) == [0, 1, 2] && lists.range(-1) == []",
        "sets.contains([1, 2], [2]) && !sets.contains([1], [2]) && sets.equivalent([1, 2, 1], [2, 1])",
        "sets.intersects([1], [1, 2]) && !sets.intersects([1], [])",
    ]);
    for (expression, message) in [
        ("[0].filter(x, x > 0).min()", "min called on empty list"),
        ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
        (
            "[1].slice(-1, 0)",
            "cannot slice(-1, 0), negative indexes not supported",
        ),
        ("[dyn(1), dyn('a')].sort()", "list elements must have the same type"),
    ] {
        assert_eq!(evaluate(expression).err().as_deref(), Some(message), "{expression}");
    }
}

#[test]
fn patterns_find_what_matches() {
    all_true(&[
        "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('[0-9]') == ''",
        "'1a2b3'.findAll('[0-9]') == ['1', '2', '3'] && '1a2'.findAll('[0-9]', 1) == ['1']",
    ]);
    let broken = evaluate("'a'.matches('(' + '')");
    assert_eq!(
        broken.err().as_deref(),
        Some("error parsing regexp: missing closing ): `(`")
    );
}

#[test]
fn urls_addresses_and_ranges_are_understood() {
    all_true(&[
        "isURL('https://a/b') && !isURL('not a url') && url('https://a:80/x?k=v').getHost() == 'a:80'",
        "url('https://a:80/x').getPort() == '80' && url('https://a/').getPort() == '' && url('/x').getScheme() == ''",
        "url('https://a/?k=v&k=w').getQuery()['k'] == ['v', 'w'] && url('https://a/a b').getEscapedPath() == '/a%20b'",
        "url('https://a/') == url('https://a/') && type(url('/')) == type(url('/a'))",
        "isIP('1.2.3.4') && !isIP('1.2.3') && !isIP('::ffff:1.2.3.4') && ip('::1').family() == 6",
        "ip('127.0.0.1').isLoopback() && ip('0.0.0.0').isUnspecified() && ip('8.8.8.8').isGlobalUnicast()",
        "ip('224.0.0.1').isLinkLocalMulticast() && ip('fe80::1').isLinkLocalUnicast()",
        "ip.isCanonical('::1') && !ip.isCanonical('0:0::1') && string(ip('::1')) == '::1'",
        "isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/33')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.0.0.0/8').containsCIDR(cidr('10.0.0.0/7'))",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8",
        "cidr('10.0.0.1/8').ip() == ip('10.0.0.1') && string(cidr('::/0')) == '::/0'",
    ]);
}

#[test]
fn quantities_versions_and_formats_are_understood() {
    all_true(&[
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('100m').isLessThan(quantity('1'))",
        "quantity('1').add(quantity('500m')).compareTo(quantity('1500m')) == 0 && quantity('2').sub(1) == quantity('1')",
        "isQuantity('1.5Gi') && !isQuantity('1x') && quantity('5k').asInteger() == 5000 && sign(quantity('-1')) == -1",
        "quantity('50m').asApproximateFloat() == 0.05 && !quantity('50m').isInteger() && quantity('1k') == quantity('1000')",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('v1.2', true).patch() == 0 && !isSemver('v1')",
        "semver('1.0.0-rc.1').compareTo(semver('1.0.0')) == -1 && semver('1.2.3').major() == 1",
        "!format.dns1123Label().validate('my-name').hasValue() && format.dns1123Label().validate('My').value().size() == 1",
        "format.named('uuid').hasValue() && !format.named('none').hasValue()",
    ]);
    let wrong = evaluate("quantity('50m').asInteger()");
    assert_eq!(wrong.err().as_deref(), Some("cannot convert value to integer"));
}

/// Authorizer that allows `get` and records its checks.
#[derive(Debug, Default)]
struct Recorder {
    questions: Mutex<Vec<Question>>,
}

impl Authorizer for Recorder {
    fn authorize(&self, question: &Question) -> Decision {
        self.questions.lock().unwrap().push(question.clone());
        Decision {
            allowed: question.verb == "get",
            reason: "because".to_owned(),
            error: (question.verb == "fail").then(|| "broken".to_owned()),
        }
    }
}

#[test]
fn dotted_variable_wins_over_its_prefix() {
    let recorder = Arc::new(Recorder::default());
    let environment = Environment::new()
        .with_variable("authorizer", Type::authorizer())
        .with_variable("authorizer.requestResource", Type::resource_check());
    let subject = ResourceSubject {
        resource: "pods".into(),
        ..ResourceSubject::default()
    };
    let values = [
        ("authorizer", CelValue::authorizer(recorder.clone())),
        (
            "authorizer.requestResource",
            CelValue::resource_check(recorder.clone(), subject),
        ),
    ];
    let of_request =
        "authorizer.requestResource.check('get').allowed() && authorizer.path('/x').check('get').allowed()";
    let outcome = evaluate_in(&environment, &values, of_request);
    assert_eq!(outcome.map(|value| value.as_bool()), Ok(Some(true)));
    assert_eq!(recorder.questions.lock().unwrap().len(), 2);
}

#[test]
fn authorizer_receives_attributes_of_check() {
    let recorder = Arc::new(Recorder::default());
    let environment =
        Environment::new().with_variable("authorizer", Type::Named("kubernetes.authorization.Authorizer"));
    let values = [("authorizer", CelValue::authorizer(recorder.clone()))];
    for (expression, expected) in [
        (
            "authorizer.group('apps').resource('deployments').subresource('scale').namespace('ns').name('x').check('get').allowed()",
            true,
        ),
        ("authorizer.path('/healthz').check('get').allowed()", true),
        (
            "authorizer.serviceAccount('ns', 'sa').group('').resource('pods').check('list').allowed()",
            false,
        ),
        ("authorizer.group('').resource('pods').check('fail').errored()", true),
        (
            "authorizer.group('').resource('pods').fieldSelector('a=b').labelSelector('c').check('get').reason() == 'because'",
            true,
        ),
    ] {
        let outcome = evaluate_in(&environment, &values, expression);
        assert_eq!(outcome.map(|value| value.as_bool()), Ok(Some(expected)), "{expression}");
    }
    let questions = recorder.questions.lock().unwrap().clone();
    assert_eq!(
        questions[0].subject,
        Subject::Resource(ResourceSubject {
            group: "apps".into(),
            resource: "deployments".into(),
            subresource: "scale".into(),
            namespace: "ns".into(),
            name: "x".into(),
            ..ResourceSubject::default()
        })
    );
    assert_eq!(questions[1].subject, Subject::Path("/healthz".into()));
    assert_eq!(questions[2].service_account, Some(("ns".into(), "sa".into())));
    // A third check in one expression exceeds its budget.
    let dear = "[1, 2, 3].all(x, authorizer.path('/').check('get').allowed())";
    let outcome = evaluate_in(&environment, &values, dear);
    assert_eq!(
        outcome.err().as_deref(),
        Some("operation cancelled: actual cost limit exceeded")
    );
}

#[test]
fn mutations_build_objects_and_patches() {
    let environment = Environment::new().with_mutation();
    let shown = |expression: &str| {
        let value = evaluate_in(&environment, &[], expression)?;
        value
            .to_value(&mut Growth::default())
            .map(|value| value.to_string())
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        shown("Object{metadata: Object.metadata{labels: {'a': 'b'}}, data: {'x': 'y'}}").as_deref(),
        Ok(r#"{"data":{"x":"y"},"metadata":{"labels":{"a":"b"}}}"#)
    );
    assert_eq!(
        shown("[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/c~d'), value: 1}]").as_deref(),
        Ok(r#"[{"op":"add","path":"/a/b~1c~0d","value":1}]"#)
    );
    let program = environment.compile("[JSONPatch{op: 'remove', path: '/a'}]", &[Type::json_patches()]);
    assert!(program.is_ok());
    let rejected = environment.compile("1", &[Type::apply_object()]).map(|_| ());
    assert_eq!(
        rejected.err().map(|error| error.to_string()).as_deref(),
        Some("must evaluate to Object but got int")
    );
    let rejected = environment.compile("'x'", &[Type::json_patches()]).map(|_| ());
    assert_eq!(
        rejected.err().map(|error| error.to_string()).as_deref(),
        Some("must evaluate to list(JSONPatch) but got string")
    );
    assert!(Environment::new().compile("Object{}", &[]).is_err());
}

#[test]
fn a_declared_quantity_is_read_as_one() {
    let schema = fields([("memory", DeclType::quantity())]);
    let rule = "self.memory.compareTo(quantity('10Gi')) >= 0";
    let outcome = |object: &str| evaluate_on(&schema, object, rule).map(|value| value.as_bool());
    assert_eq!(outcome(r#"{"memory": "12Gi"}"#), Ok(Some(true)));
    assert_eq!(outcome(r#"{"memory": "12G"}"#), Ok(Some(true)));
    assert_eq!(outcome(r#"{"memory": "1G"}"#), Ok(Some(false)));
    assert!(outcome(r#"{"memory": "much"}"#).is_err());
}
