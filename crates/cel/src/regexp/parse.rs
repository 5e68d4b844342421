//! Go's syntax of regular expressions (<https://pkg.go.dev/regexp/syntax>), with its errors.

use regex_syntax::hir::{ClassUnicode, Look};

use super::classes::{any, class_from, escape, posix_class, range, unicode_class};
use super::tree::Node;

/// Maximum count of a repetition, also as a product of nested ones.
const MAX_REPEAT: u64 = 1000;

/// Maximum height of a tree.
const MAX_HEIGHT: u32 = 1000;

/// Maximum number of instructions of a pattern. Go allows three times as many; a match may need memory for each.
const MAX_SIZE: u64 = 1 << 20;

/// Maximum number of range limits in all classes of a pattern. Go allows more; see [`MAX_SIZE`].
const MAX_RUNES: usize = 1 << 21;

/// Flags that a group may set.
#[derive(Clone, Copy)]
struct Flags {
    fold: bool,
    one_line: bool,
    dot_newline: bool,
    ungreedy: bool,
}

/// Counts of a repetition; `counted` is false for `*`, `+` and `?`.
struct RepeatCounts {
    min: u32,
    max: Option<u32>,
    counted: bool,
}

/// Open group.
struct Group {
    /// Flags to restore at its end.
    flags: Flags,
    captures: bool,
    alternatives: Vec<Node>,
    row: Vec<Node>,
}

impl Group {
    fn new(flags: Flags, captures: bool) -> Self {
        Self {
            flags,
            captures,
            alternatives: Vec::new(),
            row: Vec::new(),
        }
    }
}

/// Error message, and the part of the pattern that it concerns.
pub(super) struct Error<'a>(pub(super) &'static str, pub(super) &'a str);

pub(super) type Parsed<'a, T> = Result<T, Error<'a>>;

const TOO_DEEP: &str = "expression nests too deeply";
const TOO_LARGE: &str = "expression too large";
const MISSING_PAREN: &str = "missing closing )";
const UNEXPECTED_PAREN: &str = "unexpected )";
pub(super) const BAD_ESCAPE: &str = "invalid escape sequence";
pub(super) const BAD_RANGE: &str = "invalid character class range";
const BAD_REPEAT: &str = "invalid repeat count";
const BAD_NAME: &str = "invalid named capture";
const BAD_PERL: &str = "invalid or unsupported Perl syntax";
const BAD_NESTED_REPEAT: &str = "invalid nested repetition operator";
const MISSING_ARGUMENT: &str = "missing argument to repetition operator";
pub(super) const MISSING_BRACKET: &str = "missing closing ]";
pub(super) const TRAILING_BACKSLASH: &str = "trailing backslash at end of expression";

/// Parses `pattern`.
pub(super) fn parse(pattern: &str) -> Result<Node, String> {
    Parser::new(pattern)
        .pattern()
        .map_err(|Error(message, part)| format!("error parsing regexp: {message}: `{part}`"))
}

struct Parser<'a> {
    whole: &'a str,
    rest: &'a str,
    flags: Flags,
    outer: Vec<Group>,
    group: Group,
    runes: usize,
}

/// Returns the part of `from` before `rest`.
pub(super) fn until<'a>(from: &'a str, rest: &str) -> &'a str {
    &from[..from.len() - rest.len()]
}

pub(super) fn first(text: &str) -> Option<(char, &str)> {
    let mut characters = text.chars();
    characters.next().map(|character| (character, characters.as_str()))
}

impl<'a> Parser<'a> {
    fn new(whole: &'a str) -> Self {
        let flags = Flags {
            fold: false,
            one_line: true,
            dot_newline: false,
            ungreedy: false,
        };
        Self {
            whole,
            rest: whole,
            flags,
            outer: Vec::new(),
            group: Group::new(flags, false),
            runes: 0,
        }
    }

    fn pattern(mut self) -> Parsed<'a, Node> {
        // The repetition that the last step parsed, if any.
        let mut repeated: Option<&'a str> = None;
        while let Some((character, after)) = first(self.rest) {
            let before = self.rest;
            repeated = match character {
                '*' | '+' | '?' => {
                    let (min, max) = match character {
                        '*' => (0, None),
                        '+' => (1, None),
                        _ => (0, Some(1)),
                    };
                    self.repeat(
                        RepeatCounts {
                            min,
                            max,
                            counted: false,
                        },
                        before,
                        after,
                        repeated,
                    )?;
                    Some(before)
                }
                '{' => match counts(before) {
                    Some((counts, after)) => {
                        let (min, max) = counts.ok_or(Error(BAD_REPEAT, until(before, after)))?;
                        self.repeat(
                            RepeatCounts {
                                min,
                                max,
                                counted: true,
                            },
                            before,
                            after,
                            repeated,
                        )?;
                        Some(before)
                    }
                    None => {
                        self.literal('{', after)?;
                        None
                    }
                },
                _ => {
                    self.step(character, after)?;
                    None
                }
            };
        }
        let root = self.close_alternatives()?;
        if !self.outer.is_empty() {
            return Err(Error(MISSING_PAREN, self.whole));
        }
        Ok(root)
    }

    fn step(&mut self, character: char, after: &'a str) -> Parsed<'a, ()> {
        match character {
            '(' if after.starts_with('?') => self.perl_group(),
            '(' => {
                self.open(true);
                self.rest = after;
                Ok(())
            }
            ')' => self.close(after),
            '|' => {
                let row = std::mem::take(&mut self.group.row);
                let alternative = self.limited(Node::concat(row))?;
                self.group.alternatives.push(alternative);
                self.rest = after;
                Ok(())
            }
            '^' => self.look(
                if self.flags.one_line {
                    Look::Start
                } else {
                    Look::StartLF
                },
                after,
            ),
            '$' => self.look(if self.flags.one_line { Look::End } else { Look::EndLF }, after),
            '.' if self.flags.dot_newline => self.class(any(), after),
            '.' => {
                let mut class = class_from([('\n', '\n')]);
                class.negate();
                self.class(class, after)
            }
            '[' => self.brackets(after),
            '\\' => self.backslash(after),
            other => self.literal(other, after),
        }
    }

    /// Rejects a node that is too deep or too large.
    fn limited(&self, node: Node) -> Parsed<'a, Node> {
        if node.height() > MAX_HEIGHT {
            return Err(Error(TOO_DEEP, self.whole));
        }
        if node.size() > MAX_SIZE || self.runes > MAX_RUNES {
            return Err(Error(TOO_LARGE, self.whole));
        }
        Ok(node)
    }

    fn push(&mut self, node: Node, after: &'a str) -> Parsed<'a, ()> {
        let node = self.limited(node)?;
        self.group.row.push(node);
        self.rest = after;
        Ok(())
    }

    fn look(&mut self, look: Look, after: &'a str) -> Parsed<'a, ()> {
        self.push(Node::look(look), after)
    }

    fn class(&mut self, class: ClassUnicode, after: &'a str) -> Parsed<'a, ()> {
        self.runes += 2 * class.ranges().len();
        self.push(Node::class(class), after)
    }

    fn literal(&mut self, character: char, after: &'a str) -> Parsed<'a, ()> {
        if self.flags.fold {
            let mut class = class_from([(character, character)]);
            class.case_fold_simple();
            if class.ranges().len() > 1 {
                return self.class(class, after);
            }
        }
        self.push(Node::literal(character), after)
    }

    fn repeat(
        &mut self,
        counts: RepeatCounts,
        before: &'a str,
        mut after: &'a str,
        last: Option<&'a str>,
    ) -> Parsed<'a, ()> {
        let RepeatCounts { min, max, counted } = counts;
        let mut greedy = !self.flags.ungreedy;
        if let Some(rest) = after.strip_prefix('?') {
            greedy = !greedy;
            after = rest;
        }
        if let Some(last) = last {
            return Err(Error(BAD_NESTED_REPEAT, until(last, after)));
        }
        let Some(sub) = self.group.row.pop() else {
            return Err(Error(MISSING_ARGUMENT, until(before, after)));
        };
        let node = self.limited(Node::repeat(sub, min, max, greedy, counted))?;
        if counted && (min >= 2 || max.is_some_and(|max| max >= 2)) && node.repeats() > MAX_REPEAT {
            return Err(Error(BAD_REPEAT, until(before, after)));
        }
        self.push(node, after)
    }

    fn open(&mut self, captures: bool) {
        let group = std::mem::replace(&mut self.group, Group::new(self.flags, captures));
        self.outer.push(group);
    }

    /// Combines the content of the group into one node.
    fn close_alternatives(&mut self) -> Parsed<'a, Node> {
        let row = std::mem::take(&mut self.group.row);
        let last = self.limited(Node::concat(row))?;
        let mut alternatives = std::mem::take(&mut self.group.alternatives);
        alternatives.push(last);
        self.limited(Node::alternate(alternatives))
    }

    fn close(&mut self, after: &'a str) -> Parsed<'a, ()> {
        let inner = self.close_alternatives()?;
        let Some(outer) = self.outer.pop() else {
            return Err(Error(UNEXPECTED_PAREN, self.whole));
        };
        let closed = std::mem::replace(&mut self.group, outer);
        self.flags = closed.flags;
        let node = if closed.captures { Node::capture(inner) } else { inner };
        self.push(node, after)
    }

    /// Parses `(?P<name>`, `(?<name>`, `(?flags)` and `(?flags:`.
    fn perl_group(&mut self) -> Parsed<'a, ()> {
        let whole = self.rest;
        for (opening, shortest) in [("(?P<", 4), ("(?<", 3)] {
            if whole.starts_with(opening) && whole.len() > shortest {
                let Some(end) = whole.find('>') else {
                    return Err(Error(BAD_NAME, whole));
                };
                let name = &whole[opening.len()..end];
                if name.is_empty() || !name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) {
                    return Err(Error(BAD_NAME, &whole[..=end]));
                }
                self.open(true);
                self.rest = &whole[end + 1..];
                return Ok(());
            }
        }
        self.flag_group(whole)
    }

    fn flag_group(&mut self, whole: &'a str) -> Parsed<'a, ()> {
        let (mut flags, mut negated, mut saw_flag) = (self.flags, false, false);
        let mut rest = &whole[2..];
        while let Some((character, after)) = first(rest) {
            rest = after;
            match character {
                'i' => flags.fold = !negated,
                'm' => flags.one_line = negated,
                's' => flags.dot_newline = !negated,
                'U' => flags.ungreedy = !negated,
                '-' if !negated => {
                    (negated, saw_flag) = (true, false);
                    continue;
                }
                ':' | ')' if !negated || saw_flag => {
                    if character == ':' {
                        self.open(false);
                    }
                    self.flags = flags;
                    self.rest = rest;
                    return Ok(());
                }
                _ => break,
            }
            saw_flag = true;
        }
        Err(Error(BAD_PERL, until(whole, rest)))
    }

    fn backslash(&mut self, after: &'a str) -> Parsed<'a, ()> {
        let whole = self.rest;
        if let Some((character, rest)) = first(after) {
            match character {
                'A' => return self.look(Look::Start, rest),
                'b' => return self.look(Look::WordAscii, rest),
                'B' => return self.look(Look::WordAsciiNegate, rest),
                'z' => return self.look(Look::End, rest),
                'C' => return Err(Error(BAD_ESCAPE, until(whole, rest))),
                'Q' => {
                    let (quoted, rest) = rest.split_once("\\E").unwrap_or((rest, ""));
                    for character in quoted.chars() {
                        self.literal(character, rest)?;
                    }
                    self.rest = rest;
                    return Ok(());
                }
                _ => {}
            }
        }
        match self.class_escape(whole)? {
            Some((class, rest)) => self.class(class, rest),
            None => {
                let (character, rest) = escape(whole)?;
                self.literal(character, rest)
            }
        }
    }

    /// Parses a class that begins with a backslash, in brackets or outside: `\d`, `\pL`.
    fn class_escape(&self, text: &'a str) -> Parsed<'a, Option<(ClassUnicode, &'a str)>> {
        let Some((kind, rest)) = text.strip_prefix('\\').and_then(first) else {
            return Ok(None);
        };
        let negated = kind.is_ascii_uppercase();
        let (mut class, rest) = match kind {
            'd' | 'D' => (class_from([('0', '9')]), rest),
            's' | 'S' => (class_from([('\t', '\n'), ('\x0c', '\r'), (' ', ' ')]), rest),
            'w' | 'W' => (class_from([('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')]), rest),
            'p' | 'P' => unicode_class(text, rest)?,
            _ => return Ok(None),
        };
        if self.flags.fold {
            class.case_fold_simple();
        }
        if negated {
            class.negate();
        }
        Ok(Some((class, rest)))
    }

    fn brackets(&mut self, after: &'a str) -> Parsed<'a, ()> {
        let whole = self.rest;
        let (negated, mut rest) = match after.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, after),
        };
        let mut class = ClassUnicode::empty();
        let mut ranges = Vec::new();
        // A leading bracket is a literal.
        let mut is_first = true;
        while is_first || !rest.starts_with(']') {
            is_first = false;
            if let Some((named, after)) = self.named_class(rest)? {
                class.union(&named);
                rest = after;
            } else if let Some((escaped, after)) = self.class_escape(rest)? {
                class.union(&escaped);
                rest = after;
            } else {
                let (range, after) = range(rest, whole)?;
                ranges.push(range);
                rest = after;
            }
        }
        let mut singles = ClassUnicode::new(ranges);
        if self.flags.fold {
            singles.case_fold_simple();
        }
        class.union(&singles);
        if negated {
            class.negate();
        }
        self.class(class, &rest[1..])
    }

    /// Parses `[:alpha:]` within brackets.
    fn named_class(&self, text: &'a str) -> Parsed<'a, Option<(ClassUnicode, &'a str)>> {
        let Some((name, rest)) = text.strip_prefix("[:").and_then(|text| text.split_once(":]")) else {
            return Ok(None);
        };
        let (negated, plain) = match name.strip_prefix('^') {
            Some(plain) => (true, plain),
            None => (false, name),
        };
        let Some(mut class) = posix_class(plain) else {
            return Err(Error(BAD_RANGE, until(text, rest)));
        };
        if self.flags.fold {
            class.case_fold_simple();
        }
        if negated {
            class.negate();
        }
        Ok(Some((class, rest)))
    }
}

/// Parses the counts of `{2}`, `{2,}` or `{2,3}`; returns them with the rest. `None` counts are too large or in the
/// wrong order. Any other brace is a literal.
#[allow(clippy::type_complexity)]
fn counts(text: &str) -> Option<(Option<(u32, Option<u32>)>, &str)> {
    let (min, rest) = count(text.strip_prefix('{')?)?;
    let (max, rest) = match rest.strip_prefix(',') {
        None => (Some(min), rest),
        Some(rest) if rest.starts_with('}') => (None, rest),
        Some(rest) => {
            let (max, rest) = count(rest)?;
            (Some(max), rest)
        }
    };
    let rest = rest.strip_prefix('}')?;
    let most = max.unwrap_or(min).max(min);
    let valid = u64::from(most) <= MAX_REPEAT && max.is_none_or(|max| min <= max);
    Some((valid.then_some((min, max)), rest))
}

fn count(text: &str) -> Option<(u32, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(length);
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().unwrap_or(u32::MAX), rest))
}
