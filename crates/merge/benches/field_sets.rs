//! Benchmark of the algebra and the text form of random field sets, like the reference's own. The paths to insert are
//! made before timing.

#![allow(clippy::unwrap_used, clippy::print_stderr)] // A benchmark may stop at anything unexpected.

mod corpus;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use holdfast_merge::{Path, PathElement, Set};
use holdfast_value::Value;

/// Path elements to use if the reference's are not available.
const ELEMENTS: [&str; 12] = [
    "f:spec",
    "f:aab",
    "f:abcdefghijklmnopqrstuvwxyz",
    "k:{\"name\":\"first\"}",
    "k:{\"name\":\"second\"}",
    "k:{\"port\":443,\"protocol\":\"tcp\"}",
    "k:{\"name\":\"你好\"}",
    "v:1",
    "v:\"string with spaces\"",
    "v:true",
    "i:0",
    "i:100",
];

/// A generator of random numbers: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The upper half of the product of a random 32-bit number and the bound.
        (((self.0 >> 32) * bound as u64) >> 32) as usize
    }
}

/// Parameters of random sets.
struct Shape {
    alphabet: Vec<PathElement>,
    size: usize,
    /// Range of path lengths: the smallest, and one more than the largest.
    lengths: (usize, usize),
}

impl Shape {
    fn path(&self, random: &mut Random) -> Path {
        let length = self.lengths.0 + random.below(self.lengths.1 - self.lengths.0);
        (0..length)
            .map(|_| self.alphabet[random.below(self.alphabet.len())].clone())
            .collect()
    }

    fn set(&self, random: &mut Random) -> Set {
        self.paths(random).collect()
    }

    fn paths(&self, random: &mut Random) -> impl Iterator<Item = Path> {
        (0..self.size).map(|_| self.path(random))
    }
}

fn shapes() -> Vec<Shape> {
    let Some(directory) = corpus::directory() else {
        let alphabet: Vec<_> = ELEMENTS.iter().map(|text| PathElement::parse(text).unwrap()).collect();
        return vec![Shape {
            alphabet,
            size: 100,
            lengths: (3, 6),
        }];
    };
    let definitions = corpus::read(&directory.join("bench.json"));
    let list = |name: &str| {
        definitions
            .at(&["fieldset", name])
            .and_then(Value::as_list)
            .unwrap()
            .to_vec()
    };
    let alphabet: Vec<_> = list("alphabet")
        .iter()
        .map(|text| PathElement::parse(text.as_str().unwrap()).unwrap())
        .collect();
    list("cases")
        .iter()
        .map(|case| {
            let number = |name: &str| usize::try_from(case.get(name).and_then(Value::as_i64).unwrap()).unwrap();
            Shape {
                alphabet: alphabet.clone(),
                size: number("size"),
                lengths: (number("minPathLen"), number("maxPathLen")),
            }
        })
        .collect()
}

type Operation = fn(&Set, &Set) -> Set;

fn field_sets(criterion: &mut Criterion) {
    for shape in shapes() {
        let mut group = criterion.benchmark_group(format!("field set of {}", shape.size));
        let mut random = Random(0x5eed);
        let operands: Vec<_> = (0..500).map(|_| shape.set(&mut random)).collect();
        let texts: Vec<_> = operands.iter().map(Set::to_fields_v1).collect();
        let trees: Vec<_> = operands.iter().map(Set::to_fields_v1_value).collect();
        group.bench_function("insert", |bencher| {
            let paths = || shape.paths(&mut random).collect::<Vec<_>>();
            bencher.iter_batched(paths, Set::from_iter, BatchSize::SmallInput);
        });
        group.bench_function("has", |bencher| {
            bencher.iter(|| operands[random.below(500)].has(&shape.path(&mut random)));
        });
        group.bench_function("serialize", |bencher| {
            bencher.iter(|| operands[random.below(500)].to_fields_v1())
        });
        group.bench_function("deserialize", |bencher| {
            bencher.iter(|| Set::from_fields_v1(texts[random.below(500)].as_bytes()).unwrap());
        });
        group.bench_function("to tree", |bencher| {
            bencher.iter(|| operands[random.below(500)].to_fields_v1_value());
        });
        group.bench_function("from tree", |bencher| {
            bencher.iter(|| Set::from_fields_v1_value(&trees[random.below(500)]).unwrap());
        });
        group.bench_function("leaves", |bencher| {
            bencher.iter(|| operands[random.below(500)].leaves())
        });
        let pairs: [(&str, Operation); 4] = [
            ("union", Set::union),
            ("intersection", Set::intersection),
            ("difference", Set::difference),
            ("recursive difference", Set::recursive_difference),
        ];
        for (name, operation) in pairs {
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    let (a, b) = (&operands[random.below(500)], &operands[random.below(500)]);
                    black_box(operation(a, b))
                });
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .sample_size(20);
    targets = field_sets
}
criterion_main!(benches);
