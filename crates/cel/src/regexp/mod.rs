//! Regular expressions as the package `regexp` of Go reads them.
//!
//! [`parse`] knows the syntax with its errors and bounds; a read pattern runs on the automata of `regex-automata`. Where
//! that would take much memory (classes of many characters repeated often, deep nesting), it runs on the machine in
//! [`automaton`], which takes one step for each character and is made anew for each text.

mod automaton;
mod parse;
mod tree;

use regex_automata::meta;

use self::automaton::Automaton;
use self::tree::Node;

/// The most memory that one compiled pattern may take, in bytes.
const COMPILED_SIZE: usize = 1 << 20;

/// How deep a tree may be that `regex-automata` compiles: it recurs.
const COMPILED_HEIGHT: u32 = 64;

/// A compiled regular expression in Go's syntax.
#[derive(Debug)]
pub struct Pattern {
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
    Compiled(Box<meta::Regex>),
    Stepwise(Node),
}

/// Whether `pattern` is a regular expression in Go's syntax and within the bounds of RE2. Takes time in proportion to its
/// length.
///
/// # Errors
/// Why it is not, in the words of Go (`error parsing regexp: …`).
pub fn check_pattern(pattern: &str) -> Result<(), String> {
    parse::parse(pattern).map(drop)
}

impl Pattern {
    /// Compiles a regular expression in Go's syntax.
    ///
    /// # Errors
    /// Why it cannot be read, in the words of Go (`error parsing regexp: …`).
    pub fn compile(pattern: &str) -> Result<Self, String> {
        let root = parse::parse(pattern)?;
        let compiled = if root.height() <= COMPILED_HEIGHT {
            let config = meta::Config::new()
                .nfa_size_limit(Some(COMPILED_SIZE))
                .onepass_size_limit(Some(COMPILED_SIZE))
                .hybrid_cache_capacity(COMPILED_SIZE);
            meta::Builder::new()
                .configure(config)
                .build_from_hir(&root.to_hir())
                .ok()
        } else {
            None
        };
        let engine = match compiled {
            Some(regex) => Engine::Compiled(Box::new(regex)),
            None => Engine::Stepwise(root),
        };
        Ok(Self { engine })
    }

    /// Whether the pattern matches anywhere in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        match &self.engine {
            Engine::Compiled(regex) => regex.is_match(text),
            Engine::Stepwise(root) => Automaton::new(root).find_at(text, 0).is_some(),
        }
    }

    /// The first match in `text`.
    pub(crate) fn find<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.find_all(text, 1).pop()
    }

    /// At most `most` matches in `text`, which do not overlap.
    pub(crate) fn find_all<'a>(&self, text: &'a str, most: usize) -> Vec<&'a str> {
        match &self.engine {
            Engine::Compiled(regex) => regex
                .find_iter(text)
                .take(most)
                .map(|found| &text[found.range()])
                .collect(),
            Engine::Stepwise(root) => Automaton::new(root).find_all(text, most),
        }
    }
}

#[cfg(test)]
mod tests;
