//! Runs the checks of the fuzz targets on thousands of seeded mutations of sample texts, in about a second.

use crate::invariants;

const JSON: &[&str] = &[
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"a":"b"}},"data":{"k":"v","k":"w"}}"#,
    r#"[1,-0,1.5,1e3,-2.5E-7,18446744073709551615,18446744073709551616,true,false,null,"",[],{}]"#,
    r#"{"text":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude80\ud800<>& 🚀\u2028","":{" ":"x "},"a\nb":["yes","1","~","- a","a: b #c"]}"#,
    "[[[[[[[[]]]]]]],{\"a\":{\"a\":{\"a\":{}}}}]",
];

const YAML: &[&str] = &[
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: &l {a: b}}\ndata:\n  a: yes\n  b: |+\n    x\n\n  c: >-\n    y\n    z\n",
    "---\n- &a [1, 0x1f, 1_000, .5, ~, on]\n- *a\n- {<<: {a: 1}, b: 2}\n- ? complex\n  : 'it''s'\n- \"a\\tb\\x41\\\n  c\"\n...\n",
    "a: !!str 1\nb: !!binary aGk=\nc: ! x\n# comment\n1: 2\n2024-01-02: t\n\td: e\n",
    "x:\n- - a\n  - b: c\n    d: 'e\n\n      f'\n- |2-\n   g\n",
];

const PATCHES: &[&str] = &[
    "{\"a\":{\"b\":[1,2,{\"c\":null}]},\"d\":\"e\"}\n[{\"op\":\"add\",\"path\":\"/a/b/-\",\"value\":{\"x\":[]}},{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/a/y\"}]",
    "{\"a\":[1,2,3]}\n[{\"op\":\"move\",\"from\":\"/a/0\",\"path\":\"/b\"},{\"op\":\"test\",\"path\":\"/a/-1\",\"value\":3},{\"op\":\"remove\",\"path\":\"/a/01\"}]",
    "{\"a\":{\"b\":{}},\"c\":[{}]}\n{\"a\":{\"b\":null,\"x\":[null,{\"y\":null}]},\"c\":{\"z\":1}}",
];

/// Small random number generator (xorshift), so that each run uses the same bytes.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

/// Bytes that are significant to one of the readers.
const SIGNIFICANT: &[u8] = b"{}[]:,\"'\\/ \n\t\r-?#&*!|>%@`~.<=0123456789eE+xyntu_\0\x7f\xc2\x80\xe2\xff\xef\xbb\xbf";

fn mutate(text: &str, numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len() + 1);
        let byte = SIGNIFICANT[numbers.below(SIGNIFICANT.len())];
        match numbers.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, byte),
            2 if at < bytes.len() => bytes[at] = byte,
            3 if at < bytes.len() => drop(bytes.remove(at)),
            4 => {
                let end = (at + numbers.below(20)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = numbers.below(bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            _ => {
                let end = (at + numbers.below(8)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
    }
    bytes
}

fn run(samples: &[&str], rounds: usize, check: fn(&[u8])) {
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    for sample in samples {
        check(sample.as_bytes());
        for _ in 0..rounds {
            let bytes = mutate(sample, &mut numbers);
            if std::panic::catch_unwind(|| check(&bytes)).is_err() {
                panic!("fails for {:?}", String::from_utf8_lossy(&bytes));
            }
        }
    }
}

#[test]
fn mutated_json_does_no_harm() {
    run(JSON, 1500, invariants::json);
    run(YAML, 100, invariants::json);
}

#[test]
fn mutated_yaml_does_no_harm() {
    run(YAML, 1500, invariants::yaml);
    run(JSON, 300, invariants::yaml);
}

#[test]
fn mutated_patches_do_no_harm() {
    run(PATCHES, 1500, invariants::json_patch);
}
