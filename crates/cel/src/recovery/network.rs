//! The grammar as a network of states for predictions, and as a tree of parts for the parser.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::grammar::{ALL, END_OF_RULE, Kinds, RULES, Rule, Shape, grammar, is_recursive};

/// A state of the network.
pub(super) type State = usize;

#[derive(Clone, Copy, Debug)]
pub(super) enum Edge {
    Epsilon(State),
    Token(Kinds, State),
    Call {
        rule: Rule,
        precedence: u8,
        follow: State,
    },
    Precedence(u8, State),
    /// Transition from the end of a rule to the state after one of its callers; `outermost` if that call has no
    /// precedence.
    Return {
        follow: State,
        outermost: bool,
    },
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) rule: Rule,
    pub(super) edges: Vec<Edge>,
}

/// Part of the grammar with its states, as the parser walks it.
pub(super) enum Piece {
    Token(State, Kinds),
    Call(State, Rule, u8),
    Sequence(Vec<Piece>),
    Optional(State, Box<Piece>),
    /// A loop. The decision on another repetition is at `entry`, or at `back` if at least one is required.
    Repeated {
        entry: State,
        back: State,
        once: bool,
        predicted: bool,
        body: Box<Piece>,
    },
    Choice(State, Vec<Piece>),
    Nothing,
}

pub(super) struct Network {
    pub(super) nodes: Vec<Node>,
    pub(super) starts: [State; RULES],
    stops: [State; RULES],
    pub(super) pieces: Vec<Piece>,
    first: [Kinds; RULES],
    /// Token kinds that may come next, by state.
    next: Vec<Kinds>,
}

pub(super) static NETWORK: LazyLock<Network> = LazyLock::new(Network::build);

#[expect(
    clippy::indexing_slicing,
    reason = "states are numbered as they are made, and rules from zero"
)]
impl Network {
    fn build() -> Self {
        let mut network = Self {
            nodes: Vec::new(),
            starts: [0; RULES],
            stops: [0; RULES],
            pieces: Vec::new(),
            first: [0; RULES],
            next: Vec::new(),
        };
        for rule in ALL {
            network.starts[rule as usize] = network.state(rule);
            network.stops[rule as usize] = network.state(rule);
        }
        for rule in ALL {
            let (piece, start, end) = network.compile(&grammar(rule), rule);
            network.pieces.push(piece);
            let (first, last) = (network.starts[rule as usize], network.stops[rule as usize]);
            network.edge(first, Edge::Epsilon(start));
            network.edge(end, Edge::Epsilon(last));
        }
        for at in 0..network.nodes.len() {
            for edge in network.nodes[at].edges.clone() {
                if let Edge::Call {
                    rule,
                    precedence,
                    follow,
                } = edge
                {
                    let outermost = is_recursive(rule) && precedence == 0;
                    network.edge(network.stops[rule as usize], Edge::Return { follow, outermost });
                }
            }
        }
        // No rule is empty, so its first tokens do not depend on what follows it. Called rules come later in the list
        // than their callers.
        for _ in 0..RULES {
            for rule in ALL {
                network.first[rule as usize] = network.look(network.starts[rule as usize]);
            }
        }
        network.next = (0..network.nodes.len()).map(|state| network.look(state)).collect();
        network
    }

    fn state(&mut self, rule: Rule) -> State {
        self.nodes.push(Node {
            rule,
            edges: Vec::new(),
        });
        self.nodes.len() - 1
    }

    fn edge(&mut self, from: State, edge: Edge) {
        self.nodes[from].edges.push(edge);
    }

    pub(super) fn is_stop(&self, state: State) -> bool {
        self.stops[self.nodes[state].rule as usize] == state
    }

    fn compile(&mut self, shape: &Shape, rule: Rule) -> (Piece, State, State) {
        let start = self.state(rule);
        match shape {
            Shape::Token(kinds) => {
                let end = self.state(rule);
                self.edge(start, Edge::Token(*kinds, end));
                (Piece::Token(start, *kinds), start, end)
            }
            Shape::Call(called, precedence) => {
                let end = self.state(rule);
                self.edge(
                    start,
                    Edge::Call {
                        rule: *called,
                        precedence: *precedence,
                        follow: end,
                    },
                );
                (Piece::Call(start, *called, *precedence), start, end)
            }
            Shape::Precedence(strength) => {
                let end = self.state(rule);
                self.edge(start, Edge::Precedence(*strength, end));
                (Piece::Nothing, start, end)
            }
            Shape::Sequence(parts) => {
                let (mut pieces, mut last) = (Vec::new(), start);
                for part in parts {
                    let (piece, first, end) = self.compile(part, rule);
                    self.edge(last, Edge::Epsilon(first));
                    pieces.push(piece);
                    last = end;
                }
                (Piece::Sequence(pieces), start, last)
            }
            Shape::Optional(body) => {
                let (piece, first, last) = self.compile(body, rule);
                let end = self.state(rule);
                self.edge(start, Edge::Epsilon(first));
                self.edge(start, Edge::Epsilon(end));
                self.edge(last, Edge::Epsilon(end));
                (Piece::Optional(start, Box::new(piece)), start, end)
            }
            Shape::Choice(shapes) => {
                let (mut pieces, end) = (Vec::new(), self.state(rule));
                for shape in shapes {
                    let (piece, first, last) = self.compile(shape, rule);
                    self.edge(start, Edge::Epsilon(first));
                    self.edge(last, Edge::Epsilon(end));
                    pieces.push(piece);
                }
                (Piece::Choice(start, pieces), start, end)
            }
            Shape::Repeated { body, once, predicted } => {
                let (piece, first, last) = self.compile(body, rule);
                let (back, end) = (self.state(rule), self.state(rule));
                self.edge(start, Edge::Epsilon(first));
                self.edge(last, Edge::Epsilon(back));
                self.edge(back, Edge::Epsilon(start));
                self.edge(if *once { back } else { start }, Edge::Epsilon(end));
                let piece = Piece::Repeated {
                    entry: start,
                    back,
                    once: *once,
                    predicted: *predicted,
                    body: Box::new(piece),
                };
                (piece, start, end)
            }
        }
    }

    /// Returns the token kinds that may come next at a state, within its rule.
    pub(super) fn next(&self, state: State) -> Kinds {
        self.next[state]
    }

    fn look(&self, state: State) -> Kinds {
        let (mut kinds, mut seen, mut open) = (0, HashSet::new(), vec![state]);
        while let Some(state) = open.pop() {
            if self.is_stop(state) {
                kinds |= END_OF_RULE;
                continue;
            }
            if !seen.insert(state) {
                continue;
            }
            for edge in &self.nodes[state].edges {
                match edge {
                    Edge::Epsilon(next) | Edge::Precedence(_, next) => open.push(*next),
                    Edge::Token(of, _) => kinds |= of,
                    Edge::Call { rule, .. } => kinds |= self.first[*rule as usize],
                    Edge::Return { .. } => {}
                }
            }
        }
        kinds
    }

    /// Returns the state after the rule that is called at a state.
    pub(super) fn follow(&self, state: State) -> State {
        match self.nodes[state].edges.first() {
            Some(Edge::Call { follow, .. }) => *follow,
            _ => state,
        }
    }
}
