//! Compares the store with the simplest possible model: a list of maps, one for each revision.
use std::collections::BTreeMap;

use holdfast_store::{CommitError, Config, EventKind, Op, Revision, Snapshot, Store, Transaction, Value};
use proptest::prelude::*;
use tokio::runtime::Runtime;

/// Few keys, so that operations collide; with and without tables, some a prefix of others.
const KEYS: [&str; 10] = [
    "/registry/pods/a/x",
    "/registry/pods/a/y",
    "/registry/pods/ab/x",
    "/registry/pods/b/x",
    "/registry/services/specs/a/x",
    "/registry/services/endpoints/a/x",
    "/registry/example.com/widgets/a/x",
    "/registry/pods",
    "/registry",
    "other",
];

const PREFIXES: [&str; 9] = [
    "",
    "/",
    "/registry/",
    "/registry/pods/",
    "/registry/pods/a",
    "/registry/pods/a/",
    "/registry/pods/a/x",
    "/registry/services/",
    "o",
];

#[derive(Clone, Debug)]
enum Step {
    Commit {
        guards: Vec<(usize, Guarded)>,
        ops: BTreeMap<usize, Option<String>>,
    },
    Reopen,
}

#[derive(Clone, Copy, Debug)]
enum Guarded {
    /// The current revision of the key.
    Right,
    Absent,
    Stale,
}

fn step() -> impl Strategy<Value = Step> {
    let guarded = prop_oneof![6 => Just(Guarded::Right), 1 => Just(Guarded::Absent), 1 => Just(Guarded::Stale)];
    let guards = prop::collection::vec((0..KEYS.len(), guarded), 0..3);
    let ops = prop::collection::btree_map(0..KEYS.len(), prop::option::weighted(0.7, "[a-z]{0,8}"), 0..4);
    prop_oneof![
        20 => (guards, ops).prop_map(|(guards, ops)| Step::Commit { guards, ops }),
        1 => Just(Step::Reopen),
    ]
}

/// Key to (text, revision of modification, revision of creation).
type Contents = BTreeMap<&'static str, (String, Revision, Revision)>;

struct Model {
    /// Contents at each revision from 1 on.
    history: Vec<Contents>,
    /// Revision, key, kind, and the bytes in the event.
    events: Vec<(Revision, &'static str, EventKind, String)>,
}

impl Model {
    fn new() -> Self {
        Self {
            history: vec![Contents::new()],
            events: Vec::new(),
        }
    }

    fn revision(&self) -> Revision {
        self.history.len() as Revision
    }

    fn now(&self) -> &Contents {
        &self.history[self.history.len() - 1]
    }

    fn mod_revision(&self, key: &str) -> Revision {
        self.now().get(key).map_or(0, |(_, revision, _)| *revision)
    }

    /// Returns the transaction's revision, or the key whose guard fails.
    fn commit(
        &mut self,
        guards: &[(&str, Revision)],
        ops: &[(&'static str, Option<String>)],
    ) -> Result<Revision, String> {
        if let Some((key, _)) = guards
            .iter()
            .find(|(key, expected)| self.mod_revision(key) != *expected)
        {
            return Err((*key).to_owned());
        }
        let revision = self.revision() + 1;
        let mut contents = self.now().clone();
        let before = self.events.len();
        for (key, text) in ops {
            match text {
                Some(text) => {
                    let created = contents.get(key).map_or(revision, |(_, _, created)| *created);
                    contents.insert(key, (text.clone(), revision, created));
                    self.events
                        .push((revision, key, EventKind::Put, served(text, revision)));
                }
                None => {
                    if let Some((text, ..)) = contents.remove(key) {
                        self.events
                            .push((revision, key, EventKind::Delete, served(&text, revision)));
                    }
                }
            }
        }
        if self.events.len() > before {
            self.history.push(contents);
        }
        Ok(self.revision())
    }
}

fn served(text: &str, revision: Revision) -> String {
    format!("<{revision}>{text}")
}

fn value(text: &str) -> Value {
    Value::object(format!("<>{text}"), 1)
}

fn contents(snapshot: &Snapshot<()>, prefix: &str) -> Vec<(String, String, Revision, Revision)> {
    let texts = snapshot.range(prefix.as_bytes()).map(|entry| {
        let bytes = String::from_utf8(entry.bytes().to_vec()).unwrap();
        (
            entry.key().to_string(),
            bytes,
            entry.mod_revision(),
            entry.create_revision(),
        )
    });
    texts.collect()
}

fn expected(contents: &Contents, prefix: &str) -> Vec<(String, String, Revision, Revision)> {
    let of_prefix = contents.iter().filter(|(key, _)| key.starts_with(prefix));
    of_prefix
        .map(|(key, (text, modified, created))| ((*key).to_owned(), served(text, *modified), *modified, *created))
        .collect()
}

fn check(store: &Store<()>, model: &Model) {
    assert_eq!(store.revision(), model.revision());
    for (at, of_revision) in (1..).zip(&model.history) {
        let snapshot = store.snapshot_at(at).unwrap();
        assert_eq!(snapshot.revision(), at);
        assert_eq!(contents(&snapshot, ""), expected(of_revision, ""), "at {at}");
    }
    let snapshot = store.snapshot();
    for prefix in PREFIXES {
        let of_prefix = expected(model.now(), prefix);
        assert_eq!(contents(&snapshot, prefix), of_prefix, "{prefix}");
        assert_eq!(snapshot.count(prefix.as_bytes()), of_prefix.len());
        for key in KEYS {
            let after = of_prefix.iter().filter(|(other, ..)| other.as_str() > key).count();
            let from = of_prefix.iter().filter(|(other, ..)| other.as_str() >= key).count();
            let (prefix, key) = (prefix.as_bytes(), key.as_bytes());
            assert_eq!(snapshot.range_after(prefix, key).count(), after, "{key:?}");
            assert_eq!(snapshot.range_from(prefix, key).count(), from, "{key:?}");
        }
        for after in [1, model.revision() / 2, model.revision()].map(|after| after.max(1)) {
            let mut watcher = store.watch(prefix, after).unwrap();
            let seen = std::iter::from_fn(|| watcher.try_next().unwrap()).map(|event| {
                let bytes = String::from_utf8(event.current().bytes().to_vec()).unwrap();
                (event.revision(), event.key().to_string(), event.kind(), bytes)
            });
            let wanted = model
                .events
                .iter()
                .filter(|(revision, key, ..)| *revision > after && key.starts_with(prefix));
            let wanted =
                wanted.map(|(revision, key, kind, bytes)| (*revision, (*key).to_owned(), *kind, bytes.clone()));
            assert_eq!(
                seen.collect::<Vec<_>>(),
                wanted.collect::<Vec<_>>(),
                "{prefix} after {after}"
            );
        }
    }
    for key in KEYS {
        assert_eq!(
            snapshot.get(key.as_bytes()).map_or(0, |entry| entry.mod_revision()),
            model.mod_revision(key)
        );
    }
}

fn run(steps: Vec<Step>) {
    let runtime = Runtime::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(Config::new(directory.path()), ()).unwrap();
    let mut model = Model::new();
    for step in steps {
        match step {
            Step::Reopen => {
                runtime.block_on(store.close()).unwrap();
                store = Store::open(Config::new(directory.path()), ()).unwrap();
                check(&store, &model);
            }
            Step::Commit { guards, ops } => {
                let guards: Vec<_> = guards
                    .into_iter()
                    .map(|(key, guarded)| {
                        let right = model.mod_revision(KEYS[key]);
                        let expected = match guarded {
                            Guarded::Right => right,
                            Guarded::Absent => 0,
                            Guarded::Stale => right + 1,
                        };
                        (KEYS[key], expected)
                    })
                    .collect();
                let ops: Vec<_> = ops.into_iter().map(|(key, text)| (KEYS[key], text)).collect();
                let mut transaction = Transaction::new();
                for (key, expected) in &guards {
                    transaction = transaction.guard(*key, *expected);
                }
                for (key, text) in &ops {
                    transaction.ops.push(match text {
                        Some(text) => Op::Put {
                            key: (*key).into(),
                            value: value(text),
                            index: None,
                        },
                        None => Op::Delete {
                            key: (*key).into(),
                            last: None,
                        },
                    });
                }
                match (runtime.block_on(store.commit(transaction)), model.commit(&guards, &ops)) {
                    (Ok(committed), Ok(revision)) => assert_eq!(committed.revision, revision),
                    (Err(CommitError::GuardFailed { key, current, .. }), Err(failed)) => {
                        assert_eq!(
                            (key.to_string(), current),
                            (failed.clone(), model.mod_revision(&failed))
                        );
                    }
                    (store, model) => panic!("the store says {store:?}, the model {model:?}"),
                }
            }
        }
    }
    check(&store, &model);
    runtime.block_on(store.close()).unwrap();
    check(&Store::open(Config::new(directory.path()), ()).unwrap(), &model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_does_what_the_model_does(steps in prop::collection::vec(step(), 0..60)) {
        run(steps);
    }
}

#[test]
#[ignore = "slow: 500 cases of up to 200 steps"]
fn the_store_does_what_the_model_does_at_length() {
    let config = ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(steps in prop::collection::vec(step(), 0..200))| run(steps));
}
