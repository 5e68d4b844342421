//! Automaton that runs a pattern character by character with all threads in parallel (Pike's algorithm). It needs
//! little memory for large classes, and time proportional to the size of the pattern and the length of the text.

use regex_syntax::hir::{ClassUnicode, Look};

use super::tree::{Kind, Node};

enum Instruction<'a> {
    Class(&'a ClassUnicode),
    Character(char),
    Look(Look),
    /// Continues at the first target, then at the second.
    Split(usize, usize),
    Jump(usize),
    Match,
}

/// Pattern as instructions.
pub(super) struct Automaton<'a> {
    program: Vec<Instruction<'a>>,
}

/// Threads in order of preference: the instruction and the start in the text of each.
#[derive(Default)]
struct Threads {
    order: Vec<(usize, usize)>,
    /// For each instruction, one more than the position in the text at which it was last added.
    seen: Vec<usize>,
}

impl<'a> Automaton<'a> {
    pub(super) fn new(root: &'a Node) -> Self {
        let mut program = Vec::new();
        emit(&mut program, root);
        program.push(Instruction::Match);
        Self { program }
    }

    /// Returns at most `most` matches in `text`, which do not overlap. An empty match is never adjacent to the previous
    /// one.
    pub(super) fn find_all<'t>(&self, text: &'t str, most: usize) -> Vec<&'t str> {
        let (mut found, mut at, mut last_end) = (Vec::new(), 0, None);
        while found.len() < most
            && at <= text.len()
            && let Some((start, end)) = self.find_at(text, at)
        {
            if start < end || last_end != Some(end) {
                found.push(&text[start..end]);
            }
            last_end = Some(end);
            let step = text[end..].chars().next().map_or(1, char::len_utf8);
            at = if start == end { end + step } else { end };
        }
        found
    }

    /// Returns the range of the first match at or after `from`.
    #[expect(clippy::indexing_slicing, reason = "instructions name instructions of their program")]
    pub(super) fn find_at(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        let (mut now, mut next) = (self.threads(), self.threads());
        let (mut found, mut at) = (None, from);
        loop {
            if found.is_none() {
                self.add(&mut now, 0, at, text, at);
            }
            let character = text[at..].chars().next();
            for (instruction, start) in now.order.drain(..) {
                let goes_on = match &self.program[instruction] {
                    Instruction::Class(class) => character.is_some_and(|character| holds(class, character)),
                    Instruction::Character(wanted) => character == Some(*wanted),
                    Instruction::Match => {
                        // Later threads have lower preference.
                        found = Some((start, at));
                        break;
                    }
                    _ => false,
                };
                if goes_on {
                    let after = at + character.map_or(0, char::len_utf8);
                    self.add(&mut next, instruction + 1, start, text, after);
                }
            }
            std::mem::swap(&mut now, &mut next);
            let Some(character) = character else { return found };
            at += character.len_utf8();
            if now.order.is_empty() && found.is_some() {
                return found;
            }
        }
    }

    fn threads(&self) -> Threads {
        Threads {
            order: Vec::new(),
            seen: vec![0; self.program.len()],
        }
    }

    /// Adds the thread at `first` and the instructions reachable without a character, in order of preference.
    #[expect(clippy::indexing_slicing, reason = "instructions name instructions of their program")]
    fn add(&self, threads: &mut Threads, first: usize, start: usize, text: &str, at: usize) {
        let mut waiting = vec![first];
        while let Some(instruction) = waiting.pop() {
            if std::mem::replace(&mut threads.seen[instruction], at + 1) == at + 1 {
                continue;
            }
            match &self.program[instruction] {
                Instruction::Split(first, second) => waiting.extend([*second, *first]),
                Instruction::Jump(to) => waiting.push(*to),
                Instruction::Look(look) => {
                    if looks(*look, text, at) {
                        waiting.push(instruction + 1);
                    }
                }
                _ => threads.order.push((instruction, start)),
            }
        }
    }
}

#[expect(clippy::indexing_slicing, reason = "instructions name instructions of their program")]
fn holds(class: &ClassUnicode, character: char) -> bool {
    let ranges = class.ranges();
    let after = ranges.partition_point(|range| range.start() <= character);
    after > 0 && ranges[after - 1].end() >= character
}

fn looks(look: Look, text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let before = at.checked_sub(1).and_then(|before| bytes.get(before)).copied();
    let after = bytes.get(at).copied();
    let is_word = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match look {
        Look::Start => before.is_none(),
        Look::End => after.is_none(),
        Look::StartLF => before.is_none_or(|byte| byte == b'\n'),
        Look::EndLF => after.is_none_or(|byte| byte == b'\n'),
        Look::WordAscii => is_word(before) != is_word(after),
        Look::WordAsciiNegate => is_word(before) == is_word(after),
        // The parser creates no others.
        _ => false,
    }
}

fn emit<'a>(program: &mut Vec<Instruction<'a>>, node: &'a Node) {
    match &node.kind {
        Kind::Class(class) => program.push(Instruction::Class(class)),
        Kind::Literal(text) => program.extend(text.chars().map(Instruction::Character)),
        Kind::Look(look) => program.push(Instruction::Look(*look)),
        Kind::Capture(sub) => emit(program, sub),
        Kind::Concat(nodes) => nodes.iter().for_each(|node| emit(program, node)),
        Kind::Alternate(nodes) => emit_alternate(program, nodes),
        Kind::Repeat { sub, min, max, greedy } => emit_repeat(program, sub, *min, *max, *greedy),
    }
}

#[expect(clippy::indexing_slicing, reason = "instructions name instructions of their program")]
fn emit_alternate<'a>(program: &mut Vec<Instruction<'a>>, nodes: &'a [Node]) {
    let mut jumps = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let split = program.len();
        if index + 1 < nodes.len() {
            program.push(Instruction::Jump(0));
        }
        emit(program, node);
        if index + 1 < nodes.len() {
            jumps.push(program.len());
            program.push(Instruction::Jump(0));
            program[split] = Instruction::Split(split + 1, program.len());
        }
    }
    let end = program.len();
    for jump in jumps {
        program[jump] = Instruction::Jump(end);
    }
}

fn split(greedy: bool, inside: usize, outside: usize) -> Instruction<'static> {
    if greedy {
        Instruction::Split(inside, outside)
    } else {
        Instruction::Split(outside, inside)
    }
}

#[expect(clippy::indexing_slicing, reason = "instructions name instructions of their program")]
fn emit_repeat<'a>(program: &mut Vec<Instruction<'a>>, sub: &'a Node, min: u32, max: Option<u32>, greedy: bool) {
    for _ in 0..min {
        emit(program, sub);
    }
    let mut leaves = Vec::new();
    for _ in min..max.unwrap_or(min + 1) {
        leaves.push(program.len());
        program.push(Instruction::Jump(0));
        emit(program, sub);
    }
    if let (None, Some(again)) = (max, leaves.last()) {
        program.push(Instruction::Jump(*again));
    }
    let end = program.len();
    for leave in leaves {
        program[leave] = split(greedy, leave + 1, end);
    }
}
