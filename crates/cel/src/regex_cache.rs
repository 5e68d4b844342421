//! Cache of compiled regular expressions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use smol_str::SmolStr;

use crate::error::EvaluationError;
use crate::regexp::{Pattern, PatternMemory};

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
    pub(crate) fn get(&self, pattern: &str) -> Result<Arc<Pattern>, EvaluationError> {
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
