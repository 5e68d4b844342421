//! Choice between alternatives like ANTLR: all alternatives are followed through the network in parallel, token by
//! token. The first pass ignores the enclosing rules (ANTLR's SLL), the second considers them (full context
//! LL).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::grammar::{END_OF_RULE, Rule, is_recursive, set};
use super::network::{Edge, State};
use super::{Left, MAX_STEPS, Walk};
use crate::lexer::Kind;

/// Enclosing rules of a state: an entry of [`Contexts`].
pub(super) type Context = usize;
pub(super) const NO_CONTEXT: Context = 0;

/// Interned chains of return states.
pub(super) struct Contexts {
    links: Vec<(State, Context)>,
    known: HashMap<(State, Context), Context>,
}

#[expect(clippy::indexing_slicing, reason = "contexts are numbered as they are made")]
impl Contexts {
    pub(super) fn new() -> Self {
        Self {
            links: vec![(0, NO_CONTEXT)],
            known: HashMap::new(),
        }
    }

    fn enter(&mut self, follow: State, above: Context) -> Context {
        let links = &mut self.links;
        *self.known.entry((follow, above)).or_insert_with(|| {
            links.push((follow, above));
            links.len() - 1
        })
    }

    /// True if `a` equals `b` up to the point at which the context of `a` is unknown.
    fn covers(&self, mut a: Context, mut b: Context) -> bool {
        while a != NO_CONTEXT {
            if b == NO_CONTEXT || self.links[a].0 != self.links[b].0 {
                return false;
            }
            (a, b) = (self.links[a].1, self.links[b].1);
        }
        true
    }
}

/// Possible position of one alternative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Config {
    state: State,
    alternative: usize,
    context: Context,
    /// True if it has left the rule of the decision.
    outside: bool,
    /// True if [`filtered`] keeps it (ANTLR's `precedenceFilterSuppressed`).
    kept: bool,
}

/// Parameters of a decision.
struct Decision {
    rule: Rule,
    precedence: u8,
    /// True if it is the loop of a left-recursive rule.
    by_precedence: bool,
    /// True if the enclosing rules are considered.
    full: bool,
    /// True if no token has been consumed yet, so that the precedence of the rule applies.
    collect: bool,
    /// True at the end of the text, which can be consumed any number of times.
    at_end: bool,
}

#[expect(
    clippy::indexing_slicing,
    reason = "the last token is never consumed, and states and contexts are numbered as they are made"
)]
impl Walk<'_> {
    /// Returns the number of the alternative, from one, that matches the next tokens.
    pub(super) fn predict(&mut self, state: State) -> Result<usize, Left> {
        let Some(frame) = self.frames.last() else { return Ok(1) };
        let mut decision = Decision {
            rule: frame.rule,
            precedence: frame.precedence,
            // The loop of a left-recursive rule, not a choice within it.
            by_precedence: is_recursive(frame.rule)
                && matches!(self.network.nodes[state].edges.as_slice(), [_, Edge::Epsilon(end)]
                    if self.network.next(*end) == END_OF_RULE),
            full: false,
            collect: true,
            at_end: false,
        };
        let mut before = self.beginning(state, &decision, NO_CONTEXT);
        if decision.by_precedence {
            before = filtered(before);
        }
        decision.collect = false;
        let mut at = self.at;
        loop {
            let kind = self.tokens[at.min(self.tokens.len() - 1)].kind;
            let reached = self.reached(&before, kind, &mut decision);
            if self.steps > MAX_STEPS {
                return Err(Left::Overrun);
            }
            if reached.is_empty() {
                return self.over(&before).ok_or(Left::NoAlternative {
                    start: self.at,
                    offending: at,
                });
            }
            if let Some(alternative) = unique(&reached) {
                return Ok(alternative);
            }
            let (ambiguous, decided) = (
                ambiguities(&reached),
                reached.iter().all(|config| self.network.is_stop(config.state)),
            );
            if !decision.full && (decided || ambiguous.values().any(|of| of.len() > 1) && !has_lone_state(&reached)) {
                decision.full = true;
                decision.collect = true;
                let context = self.context();
                before = self.beginning(state, &decision, context);
                decision.collect = false;
                at = self.at;
                continue;
            }
            if decision.full {
                let mut least = ambiguous.values().filter_map(|of| of.first().copied());
                if let Some(first) = least.next()
                    && least.all(|other| other == first)
                {
                    return Ok(first);
                }
            }
            if kind == Kind::End {
                return Ok(reached.iter().map(|config| config.alternative).min().unwrap_or(1));
            }
            before = reached;
            at += 1;
        }
    }

    /// Returns the alternative with which the rule of the decision may end.
    fn over(&self, configs: &[Config]) -> Option<usize> {
        let over = configs
            .iter()
            .filter(|config| config.outside || self.network.is_stop(config.state) && config.context == NO_CONTEXT);
        over.map(|config| config.alternative).min()
    }

    /// Returns the enclosing rules as a context.
    fn context(&mut self) -> Context {
        let contexts = &mut self.contexts;
        let frames = self.frames.iter().skip(1);
        frames.fold(NO_CONTEXT, |above, frame| contexts.enter(frame.follow, above))
    }

    fn beginning(&mut self, state: State, decision: &Decision, context: Context) -> Vec<Config> {
        let network = self.network;
        let (mut all, mut seen) = (Vec::new(), HashSet::new());
        for (at, edge) in network.nodes[state].edges.iter().enumerate() {
            if let Edge::Epsilon(first) = edge {
                let config = Config {
                    state: *first,
                    alternative: at + 1,
                    context,
                    outside: false,
                    kept: false,
                };
                self.close(config, &mut all, &mut seen, decision, 0);
            }
        }
        all
    }

    fn reached(&mut self, before: &[Config], kind: Kind, decision: &mut Decision) -> Vec<Config> {
        let network = self.network;
        let ends = kind == Kind::End;
        let mut moved = Vec::new();
        let mut stopped = Vec::new();
        for config in before {
            if network.is_stop(config.state) {
                if decision.full || ends {
                    stopped.push(*config);
                }
                continue;
            }
            for edge in &network.nodes[config.state].edges {
                if let Edge::Token(kinds, next) = edge
                    && kinds & set(&[kind]) != 0
                {
                    moved.push(Config {
                        state: *next,
                        ..*config
                    });
                }
            }
        }
        if stopped.is_empty() && !ends && unique(&moved).is_some() {
            return moved;
        }
        decision.at_end = ends;
        let (mut all, mut seen) = (Vec::new(), HashSet::new());
        for config in moved {
            self.close(config, &mut all, &mut seen, decision, 0);
        }
        if ends {
            all.retain(|config| network.is_stop(config.state));
        }
        if !decision.full || !all.iter().any(|config| network.is_stop(config.state)) {
            all.extend(stopped);
        }
        all
    }

    /// Adds the positions that can be reached without a token.
    fn close(
        &mut self,
        config: Config,
        all: &mut Vec<Config>,
        seen: &mut HashSet<Config>,
        decision: &Decision,
        depth: i32,
    ) {
        self.steps += 1;
        if self.steps > MAX_STEPS || !seen.insert(config) {
            return;
        }
        let network = self.network;
        if network.is_stop(config.state) {
            if config.context != NO_CONTEXT {
                let (state, context) = self.contexts.links[config.context];
                return self.close(
                    Config {
                        state,
                        context,
                        ..config
                    },
                    all,
                    seen,
                    decision,
                    depth - 1,
                );
            }
            if decision.full {
                return self.add(config, all, decision);
            }
        }
        let node = &network.nodes[config.state];
        if node.edges.is_empty() || node.edges.iter().any(|edge| matches!(edge, Edge::Token(..))) {
            self.add(config, all, decision);
        }
        for edge in &node.edges {
            let (next, depth) = match *edge {
                Edge::Epsilon(state) => (Config { state, ..config }, depth),
                Edge::Precedence(strength, _) if decision.collect && depth == 0 && strength < decision.precedence => {
                    continue;
                }
                Edge::Precedence(_, state) => (Config { state, ..config }, depth),
                Edge::Token(kinds, state) if decision.at_end && kinds & set(&[Kind::End]) != 0 => {
                    (Config { state, ..config }, depth)
                }
                Edge::Token(..) => continue,
                Edge::Call { rule, follow, .. } => {
                    let context = self.contexts.enter(follow, config.context);
                    let state = network.starts[rule as usize];
                    (
                        Config {
                            state,
                            context,
                            ..config
                        },
                        if depth >= 0 { depth + 1 } else { depth },
                    )
                }
                Edge::Return { follow, outermost } => {
                    let kept = config.kept || decision.by_precedence && outermost && node.rule == decision.rule;
                    let next = Config {
                        state: follow,
                        outside: true,
                        kept,
                        ..config
                    };
                    (next, depth - 1)
                }
            };
            self.close(next, all, seen, decision, depth);
        }
    }

    fn add(&self, config: Config, all: &mut Vec<Config>, decision: &Decision) {
        let same = |other: &Config| other.state == config.state && other.alternative == config.alternative;
        if decision.full {
            if !all.iter().any(|other| same(other) && other.context == config.context) {
                all.push(config);
            }
            return;
        }
        // An unknown context covers all others.
        if let Some(other) = all
            .iter_mut()
            .find(|other| same(other) && self.contexts.covers(other.context, config.context))
        {
            other.outside |= config.outside;
            other.kept |= config.kept;
            return;
        }
        all.retain(|other| !(same(other) && self.contexts.covers(config.context, other.context)));
        all.push(config);
    }
}

/// Removes positions that only an outer rule could reach again and that the loop itself continues.
fn filtered(configs: Vec<Config>) -> Vec<Config> {
    let within: HashSet<(State, Context)> = configs
        .iter()
        .filter(|config| config.alternative == 1)
        .map(|config| (config.state, config.context))
        .collect();
    let stays =
        |config: &Config| config.alternative == 1 || config.kept || !within.contains(&(config.state, config.context));
    configs.into_iter().filter(stays).collect()
}

fn unique(configs: &[Config]) -> Option<usize> {
    let first = configs.first()?.alternative;
    configs
        .iter()
        .all(|config| config.alternative == first)
        .then_some(first)
}

/// Contexts of an alternative at a state.
type Standing = (State, BTreeSet<Context>);

/// Groups the alternatives at the same states in the same contexts.
fn ambiguities(configs: &[Config]) -> BTreeMap<Standing, BTreeSet<usize>> {
    let mut contexts: BTreeMap<(State, usize), BTreeSet<Context>> = BTreeMap::new();
    for config in configs {
        let seen = contexts.entry((config.state, config.alternative)).or_default();
        seen.insert(config.context);
    }
    let mut alternatives: BTreeMap<Standing, BTreeSet<usize>> = BTreeMap::new();
    for ((state, alternative), contexts) in contexts {
        alternatives.entry((state, contexts)).or_default().insert(alternative);
    }
    alternatives
}

/// True if some state has only one alternative.
fn has_lone_state(configs: &[Config]) -> bool {
    let mut alternatives: BTreeMap<State, BTreeSet<usize>> = BTreeMap::new();
    for config in configs {
        alternatives.entry(config.state).or_default().insert(config.alternative);
    }
    alternatives.values().any(|of| of.len() == 1)
}
