//! Tree of a parsed pattern.

use regex_syntax::hir::{Class, ClassUnicode, Hir, Look, Repetition};

/// Part of a pattern.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    height: u32,
    /// Number of instructions in RE2.
    size: u64,
    /// Largest product of repeat counts on a path to a leaf.
    repeats: u64,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// Any one character of a class.
    Class(ClassUnicode),
    /// These characters in sequence.
    Literal(String),
    Look(Look),
    Capture(Box<Node>),
    Repeat {
        sub: Box<Node>,
        min: u32,
        max: Option<u32>,
        greedy: bool,
    },
    Concat(Vec<Node>),
    Alternate(Vec<Node>),
}

impl Node {
    fn made(kind: Kind, below: &[&Node], size: u64, repeats: u64) -> Self {
        let height = 1 + below.iter().map(|node| node.height).max().unwrap_or(0);
        Self {
            kind,
            height,
            size: size.max(1),
            repeats,
        }
    }

    pub(super) fn class(class: ClassUnicode) -> Self {
        Self::made(Kind::Class(class), &[], 1, 1)
    }

    pub(super) fn literal(character: char) -> Self {
        Self::made(Kind::Literal(character.to_string()), &[], 1, 1)
    }

    pub(super) fn look(look: Look) -> Self {
        Self::made(Kind::Look(look), &[], 1, 1)
    }

    pub(super) fn capture(sub: Node) -> Self {
        let (height, size, repeats) = (sub.height + 1, sub.size + 2, sub.repeats);
        Self {
            kind: Kind::Capture(Box::new(sub)),
            height,
            size,
            repeats,
        }
    }

    /// Creates `sub{min,max}`, or one of `*`, `+` and `?` if `counted` is not set.
    pub(super) fn repeat(sub: Node, min: u32, max: Option<u32>, greedy: bool, counted: bool) -> Self {
        let (least, below) = (u64::from(min), sub.size);
        let size = match max {
            None if min == 0 => 2 + below,
            None => 1 + least * below,
            Some(most) => u64::from(most) * below + u64::from(most - min),
        };
        let repeats = match (counted, max) {
            (false, _) | (true, None) if min == 0 || !counted => sub.repeats,
            (_, None) => least * sub.repeats,
            (_, Some(most)) => u64::from(most) * sub.repeats,
        };
        let height = sub.height + 1;
        let kind = Kind::Repeat {
            sub: Box::new(sub),
            min,
            max,
            greedy,
        };
        Self {
            kind,
            height,
            size: size.max(1),
            repeats,
        }
    }

    /// Creates a sequence of nodes; adjacent characters are combined.
    pub(super) fn concat(mut nodes: Vec<Node>) -> Self {
        if nodes.len() == 1
            && let Some(only) = nodes.pop()
        {
            return only;
        }
        let mut joined: Vec<Node> = Vec::with_capacity(nodes.len());
        for node in nodes {
            if let Kind::Literal(text) = &node.kind
                && let Some(last) = joined.last_mut()
                && let Kind::Literal(before) = &mut last.kind
            {
                before.push_str(text);
                last.size += node.size;
                continue;
            }
            match node.kind {
                Kind::Concat(parts) => joined.extend(parts),
                _ => joined.push(node),
            }
        }
        if joined.len() == 1
            && let Some(only) = joined.pop()
        {
            return only;
        }
        let size = joined.iter().map(|node| node.size).sum();
        Self::many(Kind::Concat, joined, size)
    }

    /// Creates a choice of nodes; the first match wins.
    pub(super) fn alternate(mut nodes: Vec<Node>) -> Self {
        if nodes.len() == 1
            && let Some(only) = nodes.pop()
        {
            return only;
        }
        let mut flat = Vec::with_capacity(nodes.len());
        for node in nodes {
            match node.kind {
                Kind::Alternate(parts) => flat.extend(parts),
                _ => flat.push(node),
            }
        }
        let size = flat.iter().map(|node| node.size + 1).sum::<u64>() - 1;
        Self::many(Kind::Alternate, flat, size)
    }

    fn many(kind: fn(Vec<Node>) -> Kind, nodes: Vec<Node>, size: u64) -> Self {
        let height = 1 + nodes.iter().map(|node| node.height).max().unwrap_or(0);
        let repeats = nodes.iter().map(|node| node.repeats).max().unwrap_or(1);
        Self {
            kind: kind(nodes),
            height,
            size: size.max(1),
            repeats,
        }
    }

    pub(super) fn height(&self) -> u32 {
        self.height
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the approximate number of states of an automaton over bytes: classes of many ranges have many.
    pub(super) fn states(&self) -> u64 {
        let all = |nodes: &[Node]| nodes.iter().map(Node::states).fold(1, u64::saturating_add);
        match &self.kind {
            Kind::Class(class) => 1 + 2 * class.ranges().len() as u64,
            Kind::Literal(text) => text.len() as u64,
            Kind::Look(_) => 1,
            Kind::Capture(sub) => sub.states().saturating_add(2),
            Kind::Repeat { sub, min, max, .. } => {
                let times = max.unwrap_or(*min).max(*min).max(1);
                sub.states().saturating_mul(times.into()).saturating_add(1)
            }
            Kind::Concat(nodes) | Kind::Alternate(nodes) => all(nodes),
        }
    }

    pub(super) fn repeats(&self) -> u64 {
        self.repeats
    }

    /// Converts the tree for `regex-automata`. Groups are omitted, because no caller reads their content.
    pub(super) fn to_hir(&self) -> Hir {
        match &self.kind {
            Kind::Class(class) => Hir::class(Class::Unicode(class.clone())),
            Kind::Literal(text) => Hir::literal(text.as_bytes()),
            Kind::Look(look) => Hir::look(*look),
            Kind::Capture(sub) => sub.to_hir(),
            Kind::Repeat { sub, min, max, greedy } => Hir::repetition(Repetition {
                min: *min,
                max: *max,
                greedy: *greedy,
                sub: Box::new(sub.to_hir()),
            }),
            Kind::Concat(nodes) => Hir::concat(nodes.iter().map(Node::to_hir).collect()),
            Kind::Alternate(nodes) => Hir::alternation(nodes.iter().map(Node::to_hir).collect()),
        }
    }
}
