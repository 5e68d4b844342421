//! Functions with regular expressions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use smol_str::SmolStr;

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::functions::{Context, Cost, Function};
use crate::regexp::{Pattern, PatternMemory};
use crate::value::{CelValue, Outcome};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "find",
        call: find,
        cost: Cost::Find,
        signatures: &["string.(string) string"],
    },
    Function {
        name: "findAll",
        call: find_all,
        cost: Cost::Find,
        signatures: &["string.(string) list(string)", "string.(string, int) list(string)"],
    },
];

/// Maximum number of cached patterns.
const MAX_CACHED_PATTERNS: usize = 256;

/// Cache of compiled patterns. When it is full, all are dropped.
#[derive(Debug, Default)]
pub(crate) struct RegexCache {
    /// Memory for compiled patterns.
    pub(crate) memory: PatternMemory,
    compiled: Mutex<HashMap<SmolStr, Arc<Pattern>>>,
}

impl RegexCache {
    /// Creates a cache of patterns that are compiled with memory from `memory`.
    pub(crate) fn sharing(memory: PatternMemory) -> Self {
        Self {
            memory,
            ..Self::default()
        }
    }

    /// Returns the compiled `pattern`.
    pub(crate) fn get(&self, pattern: &str) -> Outcome<Arc<Pattern>> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = compiled.get(pattern) {
            return Ok(found.clone());
        }
        let regex = Arc::new(Pattern::compile(pattern, &self.memory).map_err(EvaluationError::failed)?);
        if compiled.len() >= MAX_CACHED_PATTERNS {
            compiled.clear();
        }
        compiled.insert(SmolStr::new(pattern), regex.clone());
        Ok(regex)
    }
}

fn subject_and_pattern(args: &[CelValue]) -> Outcome<(&str, &str)> {
    match args {
        [CelValue::String(subject), CelValue::String(pattern), ..] => Ok((subject, pattern)),
        _ => Err(NoSuchOverload),
    }
}

/// Evaluates `subject.matches(pattern)`.
pub(crate) fn matches(context: &Context<'_>, args: &[CelValue]) -> Outcome {
    let (subject, pattern) = subject_and_pattern(args)?;
    Ok(CelValue::Bool(context.regexes.get(pattern)?.is_match(subject)))
}

fn find(context: &Context<'_>, args: &[CelValue]) -> Outcome {
    let (subject, pattern) = subject_and_pattern(args)?;
    let regex = context
        .regexes
        .get(pattern)
        .map_err(|error| EvaluationError::failed(format!("Illegal regex: {error}")))?;
    Ok(CelValue::String(SmolStr::new(regex.find(subject).unwrap_or_default())))
}

fn find_all(context: &Context<'_>, args: &[CelValue]) -> Outcome {
    let (subject, pattern) = subject_and_pattern(args)?;
    let most = match args.get(2) {
        None => usize::MAX,
        // A negative limit means no limit.
        Some(CelValue::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
        Some(_) => return Err(NoSuchOverload),
    };
    let regex = context
        .regexes
        .get(pattern)
        .map_err(|error| EvaluationError::failed(format!("Illegal regex: {error}")))?;
    let found = regex.find_all(subject, most).into_iter();
    Ok(CelValue::list(
        found.map(|found| CelValue::String(SmolStr::new(found))).collect(),
    ))
}
