//! Regular expressions as the package `regexp` of Go reads them.
//!
//! [`parse`] knows the syntax with its errors and bounds. A read pattern runs on the machine in [`automaton`], which takes
//! one step for each character and is made anew for each text. Once that has taken about as much time as compilation does,
//! the pattern is compiled for the automata of `regex-automata`: a caller with many patterns pays for none that is hardly
//! used. Where those would take much memory (classes of many characters repeated often, deep nesting), or those of all patterns
//! together take much already, it stays as it is.

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

/// The most memory that one compiled pattern may take, in bytes.
const COMPILED_SIZE: usize = 1 << 20;

/// The least memory that the states take which `regex-automata` makes while it matches, and how much it is for a state of the
/// pattern, in bytes. [`COMPILED_SIZE`] is the most.
const LEAST_LAZY_SIZE: usize = 64 << 10;
const LAZY_SIZE_OF_STATE: usize = 512;

/// How deep a tree may be that `regex-automata` compiles: it recurs.
const COMPILED_HEIGHT: u32 = 64;

/// A regular expression in Go's syntax.
#[derive(Debug)]
pub struct Pattern {
    root: Node,
    /// Where the compiled pattern is kept.
    memory: PatternMemory,
    /// What the step-by-step machine has cost so far.
    steps: AtomicU64,
    /// Made when it pays; `None` where that takes too much memory.
    compiled: OnceLock<Option<Box<Compiled>>>,
}

/// The automata of a pattern.
#[derive(Debug)]
struct Compiled {
    regex: meta::Regex,
    /// The memory that they take.
    _share: Share,
}

/// Compilation costs as much as this many steps, and for each state as many more; never more than [`MOST_STEPS`], as it
/// stops at [`COMPILED_SIZE`].
const LEAST_STEPS: u64 = 2_000;
const STEPS_OF_STATE: u64 = 16;
const MOST_STEPS: u64 = 400_000;

/// Texts up to this length, in bytes, are taken to keep few threads of the machine busy.
const SHORT: usize = 256;

/// Whether `pattern` is a regular expression in Go's syntax and within the bounds of RE2. Takes time in proportion to its
/// length.
///
/// # Errors
/// Why it is not, in the words of Go (`error parsing regexp: …`).
pub fn check_pattern(pattern: &str) -> Result<(), String> {
    parse::parse(pattern).map(drop)
}

impl Pattern {
    /// Reads a regular expression in Go's syntax, which is compiled into `memory` when that pays.
    ///
    /// # Errors
    /// Why it cannot be read, in the words of Go (`error parsing regexp: …`).
    pub fn compile(pattern: &str, memory: &PatternMemory) -> Result<Self, String> {
        Ok(Self {
            root: parse::parse(pattern)?,
            memory: memory.clone(),
            steps: AtomicU64::new(0),
            compiled: OnceLock::new(),
        })
    }

    /// The automata for a match in `text`; `None` where it is found step by step.
    fn compiled_for(&self, text: &str) -> Option<&meta::Regex> {
        if let Some(compiled) = self.compiled.get() {
            return compiled.as_deref().map(|compiled| &compiled.regex);
        }
        if !self.memory.is_some() {
            return None;
        }
        let (size, length) = (self.root.size(), text.len() as u64);
        let threads = if text.len() <= SHORT { size.min(4) } else { size };
        let steps = size.saturating_add(length.saturating_mul(threads));
        let before = self.steps.fetch_add(steps, Ordering::Relaxed);
        let compilation = LEAST_STEPS.saturating_add(self.root.states().saturating_mul(STEPS_OF_STATE));
        if before.saturating_add(steps) < compilation.min(MOST_STEPS) {
            return None;
        }
        let compiled = self
            .compiled
            .get_or_init(|| Compiled::new(&self.root, &self.memory).map(Box::new));
        compiled.as_deref().map(|compiled| &compiled.regex)
    }

    /// Whether the pattern matches anywhere in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        match self.compiled_for(text) {
            Some(regex) => regex.is_match(text),
            None => Automaton::new(&self.root).find_at(text, 0).is_some(),
        }
    }

    /// The first match in `text`.
    pub(crate) fn find<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.find_all(text, 1).pop()
    }

    /// At most `most` matches in `text`, which do not overlap.
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
    /// Compiles a pattern; `None` where that takes too much, or more than `memory` has.
    fn new(root: &Node, memory: &PatternMemory) -> Option<Self> {
        if root.height() > COMPILED_HEIGHT {
            return None;
        }
        let states = usize::try_from(root.states()).unwrap_or(usize::MAX);
        let lazy = states.saturating_mul(LAZY_SIZE_OF_STATE);
        let lazy = lazy.clamp(LEAST_LAZY_SIZE, COMPILED_SIZE);
        let config = meta::Config::new()
            .nfa_size_limit(Some(COMPILED_SIZE))
            .onepass_size_limit(Some(COMPILED_SIZE))
            .hybrid_cache_capacity(lazy);
        let mut builder = meta::Builder::new();
        let regex = builder.configure(config).build_from_hir(&root.to_hir()).ok()?;
        // States are made for both directions.
        let share = memory.take(regex.memory_usage() + 2 * lazy)?;
        Some(Self { regex, _share: share })
    }
}

#[cfg(test)]
mod tests;
