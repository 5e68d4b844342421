//! Regular expressions with the syntax of Go's package `regexp`.
//!
//! [`parse`] implements the syntax with its errors and limits. A parsed pattern runs on the [`automaton`], which needs
//! one step per character and is created for each text. Once that has cost about as much as compilation, the pattern is
//! compiled for the automata of `regex-automata`: callers with many patterns do not pay for rarely used ones. Patterns
//! whose automata would need much memory (repeated classes of many characters, deep nesting), and all patterns once the
//! shared memory is exhausted, are not compiled.

mod automaton;
mod classes;
mod memory;
mod parse;
mod tree;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use regex_automata::meta;

use self::automaton::Automaton;
pub use self::memory::PatternMemory;
use self::memory::Share;
use self::tree::Node;

/// Maximum memory of one compiled pattern in bytes.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// Minimum memory of the states that `regex-automata` creates while matching, and the memory for each state of the
/// pattern, in bytes. The maximum is [`MAX_COMPILED_BYTES`].
const MIN_LAZY_BYTES: usize = 64 << 10;
const LAZY_SIZE_OF_STATE: usize = 512;

/// Maximum height of a tree that is compiled, because `regex-automata` is recursive.
const MAX_COMPILED_HEIGHT: u32 = 64;

/// Regular expression in Go's syntax.
///
/// ```
/// use holdfast_cel::{Pattern, PatternMemory};
///
/// let pattern = Pattern::compile(r"v\d+", &PatternMemory::default())?;
/// assert!(pattern.is_match("apps/v1"));
/// assert!(!pattern.is_match("apps"));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct Pattern {
    root: Node,
    /// Memory budget of the compiled pattern.
    memory: PatternMemory,
    /// Number of steps of the step-by-step automaton so far.
    steps: AtomicU64,
    /// Compiled when it pays; `None` if that needs too much memory.
    compiled: OnceLock<Option<Box<Compiled>>>,
}

/// Automata of a pattern.
#[derive(Debug)]
struct Compiled {
    regex: meta::Regex,
    /// Memory that they occupy.
    _share: Share,
}

/// Cost of compilation in steps, plus a number for each state. Never more than [`MAX_COMPILATION_STEPS`], because
/// compilation stops at [`MAX_COMPILED_BYTES`].
const MIN_COMPILATION_STEPS: u64 = 2_000;
const STEPS_OF_STATE: u64 = 16;
const MAX_COMPILATION_STEPS: u64 = 400_000;

/// Length in bytes up to which texts are assumed to keep few threads busy.
const SHORT_TEXT_BYTES: usize = 256;

/// Checks that `pattern` is a regular expression in Go's syntax and within the limits of RE2, in time proportional to
/// its length.
///
/// ```
/// use holdfast_cel::check_pattern;
///
/// assert!(check_pattern("^[a-z]+$").is_ok());
/// assert_eq!(check_pattern("a**").unwrap_err(), "error parsing regexp: invalid nested repetition operator: `**`");
/// ```
///
/// # Errors
/// Returns Go's message (`error parsing regexp: …`).
pub fn check_pattern(pattern: &str) -> Result<(), String> {
    parse::parse(pattern).map(drop)
}

impl Pattern {
    /// Parses a regular expression in Go's syntax, which is compiled with memory from `memory` when that pays.
    ///
    /// # Errors
    /// Returns Go's message (`error parsing regexp: …`).
    pub fn compile(pattern: &str, memory: &PatternMemory) -> Result<Self, String> {
        Ok(Self {
            root: parse::parse(pattern)?,
            memory: memory.clone(),
            steps: AtomicU64::new(0),
            compiled: OnceLock::new(),
        })
    }

    /// Returns the automata for a match in `text`; `None` to match step by step.
    fn compiled_for(&self, text: &str) -> Option<&meta::Regex> {
        if let Some(compiled) = self.compiled.get() {
            return compiled.as_deref().map(|compiled| &compiled.regex);
        }
        if !self.memory.is_some() {
            return None;
        }
        let (size, length) = (self.root.size(), text.len() as u64);
        let threads = if text.len() <= SHORT_TEXT_BYTES {
            size.min(4)
        } else {
            size
        };
        let steps = size.saturating_add(length.saturating_mul(threads));
        let before = self.steps.fetch_add(steps, Ordering::Relaxed);
        let compilation = MIN_COMPILATION_STEPS.saturating_add(self.root.states().saturating_mul(STEPS_OF_STATE));
        if before.saturating_add(steps) < compilation.min(MAX_COMPILATION_STEPS) {
            return None;
        }
        let compiled = self
            .compiled
            .get_or_init(|| Compiled::new(&self.root, &self.memory).map(Box::new));
        compiled.as_deref().map(|compiled| &compiled.regex)
    }

    /// True if the pattern matches anywhere in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        match self.compiled_for(text) {
            Some(regex) => regex.is_match(text),
            None => Automaton::new(&self.root).find_at(text, 0).is_some(),
        }
    }

    /// Returns the first match in `text`.
    pub(crate) fn find<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.find_all(text, 1).pop()
    }

    /// Returns at most `most` matches in `text`, which do not overlap.
    pub(crate) fn find_all<'a>(&self, text: &'a str, most: usize) -> Vec<&'a str> {
        match self.compiled_for(text) {
            Some(regex) => {
                let found = regex.find_iter(text).take(most);
                found.map(|found| &text[found.range()]).collect()
            }
            None => Automaton::new(&self.root).find_all(text, most),
        }
    }
}

impl Compiled {
    /// Compiles a pattern; `None` if that exceeds its limits, or the rest of `memory`.
    fn new(root: &Node, memory: &PatternMemory) -> Option<Self> {
        if root.height() > MAX_COMPILED_HEIGHT {
            return None;
        }
        let states = usize::try_from(root.states()).unwrap_or(usize::MAX);
        let estimated = states.saturating_mul(LAZY_SIZE_OF_STATE);
        let lazy = estimated.clamp(MIN_LAZY_BYTES, MAX_COMPILED_BYTES);
        let config = meta::Config::new()
            .nfa_size_limit(Some(MAX_COMPILED_BYTES))
            .onepass_size_limit(Some(MAX_COMPILED_BYTES))
            .hybrid_cache_capacity(lazy);
        let mut builder = meta::Builder::new();
        let regex = builder.configure(config).build_from_hir(&root.to_hir()).ok()?;
        // States are created for both directions.
        let share = memory.take(regex.memory_usage() + 2 * lazy)?;
        Some(Self { regex, _share: share })
    }
}

#[cfg(test)]
mod tests;
