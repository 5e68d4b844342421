//! Macros that iterate over a range: `all`, `map` and the others.
//!
//! The cost of each equals that of the loop that the reference expands it to, step by step; the estimate uses the same
//! figures.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Frame;
use crate::cost::{LIST, MAP};
use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::library::lists::sort_by_keys;
use crate::node::{FoldNode, Node};
use crate::syntax::FoldKind;
use crate::value::{CelValue, MapKey, MapValue, Outcome};

/// Decision to continue or end an iteration.
enum Step {
    On,
    Done,
}

/// Intermediate results of an iteration.
#[derive(Default)]
struct Gathered {
    list: Vec<CelValue>,
    keys: Vec<CelValue>,
    map: BTreeMap<MapKey, CelValue>,
    count: u64,
    /// Result of `all` or `exists`, once it is certain.
    decided: Option<bool>,
    /// First error, which another element may still outweigh.
    error: Option<EvaluationError>,
}

impl Frame<'_, '_> {
    pub(crate) fn fold(&mut self, fold: &FoldNode) -> Outcome {
        let range = self.eval(&fold.range)?;
        let (begin, end) = match fold.kind {
            FoldKind::All | FoldKind::Exists => (0, 1),
            FoldKind::ExistsOne => (0, 2),
            FoldKind::Map | FoldKind::Filter => (LIST, 1),
            FoldKind::TransformMap | FoldKind::TransformMapEntry => (MAP, 1),
            FoldKind::SortBy => (2 * LIST + 2, 1),
        };
        self.charge(begin)?;
        let mut gathered = Gathered::default();
        self.walk(fold, &range, &mut gathered)?;
        self.charge(end)?;
        self.finish(fold.kind, gathered)
    }

    fn walk(&mut self, fold: &FoldNode, range: &CelValue, gathered: &mut Gathered) -> Outcome<()> {
        match range {
            CelValue::List(list) => {
                for at in 0..list.len() {
                    let item = list.get(at)?;
                    let (first, second) = if fold.two {
                        (CelValue::Int(at as i64), Some(item))
                    } else {
                        (item, None)
                    };
                    if let Step::Done = self.visit(fold, first, second, gathered)? {
                        break;
                    }
                }
            }
            CelValue::Map(map) => {
                for (key, value) in map.entries() {
                    let second = if fold.two { Some(value?) } else { None };
                    if let Step::Done = self.visit(fold, key, second, gathered)? {
                        break;
                    }
                }
            }
            _ => return Err(NoSuchOverload),
        }
        Ok(())
    }

    /// Visits one element with its variables set.
    fn visit(
        &mut self,
        fold: &FoldNode,
        first: CelValue,
        second: Option<CelValue>,
        gathered: &mut Gathered,
    ) -> Outcome<Step> {
        self.breathe()?;
        let depth = self.locals.len();
        self.locals.push(first);
        self.locals.extend(second);
        let outcome = self.step(fold, depth, gathered);
        self.locals.truncate(depth);
        outcome
    }

    #[expect(clippy::indexing_slicing, reason = "a fold has a local at its depth")]
    fn step(&mut self, fold: &FoldNode, depth: usize, gathered: &mut Gathered) -> Outcome<Step> {
        if let Some(filter) = &fold.filter
            && !self.condition(filter)?
        {
            self.charge(1)?;
            return Ok(Step::On);
        }
        match fold.kind {
            FoldKind::All => return self.quantify(fold, 3, false, gathered),
            FoldKind::Exists => return self.quantify(fold, 4, true, gathered),
            FoldKind::ExistsOne => {
                let holds = self.condition(&fold.body)?;
                self.charge(1 + u64::from(holds))?;
                gathered.count += u64::from(holds);
            }
            FoldKind::Filter => {
                let kept = self.condition(&fold.body)?;
                self.charge(if kept { LIST + 3 } else { 1 })?;
                if kept {
                    gathered.list.push(self.locals[depth].clone());
                }
            }
            FoldKind::Map => {
                let value = self.eval(&fold.body)?;
                self.charge(LIST + 2)?;
                gathered.list.push(value);
            }
            FoldKind::SortBy => {
                let key = self.eval(&fold.body)?;
                self.charge(LIST + 2)?;
                gathered.keys.push(key);
                gathered.list.push(self.locals[depth].clone());
            }
            FoldKind::TransformMap => {
                let value = self.eval(&fold.body)?;
                self.charge(3)?;
                let key = MapKey::from_value(&self.locals[depth]).ok_or(NoSuchOverload)?;
                gathered.map.insert(key, value);
            }
            FoldKind::TransformMapEntry => {
                let CelValue::Map(entries) = self.eval(&fold.body)? else {
                    return Err(NoSuchOverload);
                };
                self.charge(2)?;
                self.insert_entries(&entries, gathered)?;
            }
        }
        Ok(Step::On)
    }

    fn insert_entries(&mut self, entries: &MapValue, gathered: &mut Gathered) -> Outcome<()> {
        for (key, value) in entries.entries() {
            let key = MapKey::from_value(&key).ok_or(NoSuchOverload)?;
            if gathered.map.contains_key(&key) {
                let shown = match &key {
                    MapKey::Bool(flag) => flag.to_string(),
                    MapKey::Int(number) => number.to_string(),
                    MapKey::Uint(number) => number.to_string(),
                    MapKey::String(text) => text.to_string(),
                };
                return Err(EvaluationError::failed(format!(
                    "insert failed: key {shown} already exists"
                )));
            }
            gathered.map.insert(key, value?);
        }
        Ok(())
    }

    fn condition(&mut self, node: &Node) -> Outcome<bool> {
        match self.eval(node)? {
            CelValue::Bool(flag) => Ok(flag),
            _ => Err(NoSuchOverload),
        }
    }

    /// Evaluates `all` or, with `decisive` set, `exists`: the decisive result of one element outweighs errors of the
    /// others.
    fn quantify(&mut self, fold: &FoldNode, units: u64, decisive: bool, gathered: &mut Gathered) -> Outcome<Step> {
        self.charge(units)?;
        match self.condition(&fold.body) {
            Ok(flag) if flag == decisive => {
                gathered.decided = Some(decisive);
                Ok(Step::Done)
            }
            Ok(_) => Ok(Step::On),
            Err(error) if error.stops() => Err(error),
            Err(error) => {
                gathered.error.get_or_insert(error);
                Ok(Step::On)
            }
        }
    }

    fn finish(&mut self, kind: FoldKind, gathered: Gathered) -> Outcome {
        match kind {
            FoldKind::All | FoldKind::Exists => match (gathered.decided, gathered.error) {
                (Some(decided), _) => Ok(CelValue::Bool(decided)),
                (None, Some(error)) => Err(error),
                (None, None) => Ok(CelValue::Bool(kind == FoldKind::All)),
            },
            FoldKind::ExistsOne => Ok(CelValue::Bool(gathered.count == 1)),
            FoldKind::Map | FoldKind::Filter => Ok(CelValue::list(gathered.list)),
            FoldKind::TransformMap | FoldKind::TransformMapEntry => {
                Ok(CelValue::Map(MapValue::Built(Arc::new(gathered.map))))
            }
            FoldKind::SortBy => {
                let size = gathered.keys.len() as u64;
                self.charge(size.saturating_mul(size).saturating_mul(2).saturating_add(LIST + 1))?;
                sort_by_keys(gathered.list, &gathered.keys)
            }
        }
    }
}
