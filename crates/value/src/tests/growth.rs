use crate::error::Error;
use crate::growth::Growth;
use crate::json;
use crate::limits::Limits;
use crate::tree::Value;

#[test]
fn draw_value_counts_json_bytes() {
    for text in [
        "null",
        "[]",
        "{}",
        r#"[1,-20,1.5,1e300,18446744073709551615,true,false,null]"#,
        r#"{"a":{"b":["c",{}]},"d":"é\ufffd","â":""}"#,
    ] {
        let value = json::parse(text.as_bytes(), &Limits::default()).unwrap();
        let length = json::to_vec(&value).len();
        assert_eq!(json::length(&value), length);
        assert_eq!(Growth::new(length).draw_value(&value), Ok(()), "{text}");
        let limit = length - 1;
        assert_eq!(Growth::new(limit).draw_value(&value), Err(Error::Overgrown { limit }));
    }
}

#[test]
fn escapes_are_not_counted() {
    let value = Value::from("<\n\u{2028}");
    assert_eq!(Growth::new("<\n\u{2028}".len() + 2).draw_value(&value), Ok(()));
}

#[test]
fn shared_subtrees_count_each_time() {
    let mut value = Value::from("x".repeat(1000));
    for _ in 0..40 {
        value = Value::from(vec![value.clone(), value]);
    }
    // The expanded text would have 2^40 kilobytes.
    let limit = Growth::OBJECT;
    assert_eq!(Growth::default().draw_value(&value), Err(Error::Overgrown { limit }));
}
