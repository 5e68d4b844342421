//! The feature gates of the reference, with stage and default, and the flags that set them.

use std::collections::BTreeMap;
use std::fmt;

use holdfast_gotext::errors::aggregate;

use super::{Feature, Features};

/// How mature a feature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off by default.
    Alpha,
    /// On or off by default.
    Beta,
    /// On, and soon without a gate.
    Stable,
    /// About to go.
    Deprecated,
}

impl Stage {
    /// The name of the stage as the reference's metrics have it; empty for what is stable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Stable => "",
            Self::Deprecated => "DEPRECATED",
        }
    }
}

/// A gate of the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// How mature the feature is.
    pub stage: Stage,
    /// Whether the feature is on.
    pub on: bool,
    locked: bool,
    needs: Vec<&'static str>,
    components: Vec<&'static str>,
    claim: Option<Claim>,
}

/// Text of the table on what a gate does in Holdfast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Holdfast always behaves as the gate says; the behaviour.
    Always(&'static str),
    /// Holdfast does not have the behaviour of the gate; the reason.
    Absent(&'static str),
    /// The gate is a [`Feature`]; the part of it that is missing.
    Lacks(&'static str),
    /// The gate has no effect in Holdfast; the reason.
    NoEffect(&'static str),
}

impl Claim {
    /// Splits the claim from the end of a line of the table.
    fn split(line: &'static str) -> (&'static str, Option<Self>) {
        // The first of the words begins the claim, whose text may contain others.
        let first = [" always ", " absent ", " lacks ", " because "]
            .into_iter()
            .filter_map(|word| Some((line.find(word)?, word)))
            .min();
        let Some((at, word)) = first else {
            return (line, None);
        };
        let text = line.get(at + word.len()..).unwrap_or_default();
        let claim = match word {
            " always " => Self::Always(text),
            " absent " => Self::Absent(text),
            " lacks " => Self::Lacks(text),
            _ => Self::NoEffect(text),
        };
        (line.get(..at).unwrap_or_default(), Some(claim))
    }
}

impl Gate {
    /// Returns what the table says of the gate in Holdfast. Features, and gates of other components, may have no claim.
    pub fn claim(&self) -> Option<Claim> {
        self.claim
    }

    /// The components in which alone it means something; none where it is one of API servers.
    pub fn components(&self) -> &[&'static str] {
        &self.components
    }

    /// Whether it sets all gates of its stage.
    pub fn is_of_stage(&self) -> bool {
        [ALL_ALPHA, ALL_BETA].contains(&self.name)
    }

    /// Whether it may not be set to another value.
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// The gate that a line of the table describes.
    fn of(line: &'static str) -> Option<Self> {
        let (line, claim) = Claim::split(line);
        let mut words = line.split(' ');
        let (name, stage, on) = (words.next()?, words.next()?, words.next()?);
        let stage = match stage {
            "alpha" => Stage::Alpha,
            "beta" => Stage::Beta,
            "ga" => Stage::Stable,
            "deprecated" => Stage::Deprecated,
            _ => return None,
        };
        let mut gate = Self {
            name,
            stage,
            on: on == "on",
            locked: false,
            needs: Vec::new(),
            components: Vec::new(),
            claim,
        };
        while let Some(word) = words.next() {
            let list = match word {
                "locked" => {
                    gate.locked = true;
                    continue;
                }
                "needs" => &mut gate.needs,
                "in" => &mut gate.components,
                _ => return None,
            };
            list.extend(words.next()?.split(','));
        }
        Some(gate)
    }
}

/// Why gates cannot be set so, in the words of the reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FeatureError(String);

/// All gates of the reference and whether each is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    gates: Vec<Gate>,
    warnings: Vec<String>,
}

impl Default for FeatureGates {
    fn default() -> Self {
        let lines = include_str!("../tables/features.txt").lines();
        Self {
            gates: lines
                .filter(|line| !line.starts_with('#'))
                .filter_map(Gate::of)
                .collect(),
            warnings: Vec::new(),
        }
    }
}

const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

impl FeatureGates {
    /// The gates where `--feature-gates` was given these values, each a list of `Name=true` or `kube:Name=true`.
    ///
    /// # Errors
    /// Where a gate is unknown, locked or needs others that are off, or a value is no truth value.
    pub fn set(flags: &[String]) -> Result<Self, FeatureError> {
        let settings = read(flags)?;
        let mut gates = Self::default();
        if let Some(unknown) = settings.keys().find(|name| gates.gate(name).is_none()) {
            return Err(FeatureError(format!("unrecognized feature gate: {unknown}")));
        }
        let mut errors = Vec::new();
        for (all, stage) in [(ALL_ALPHA, Stage::Alpha), (ALL_BETA, Stage::Beta)] {
            if let Some(on) = settings.get(all) {
                let of_stage = gates.gates.iter_mut().filter(|gate| gate.stage == stage);
                of_stage
                    .filter(|gate| !gate.is_of_stage())
                    .for_each(|gate| gate.on = *on);
            }
        }
        for gate in &mut gates.gates {
            let Some(on) = settings.get(gate.name) else { continue };
            if gate.locked && gate.on != *on {
                errors.push(format!(
                    "cannot set feature gate {} to {on}, feature is locked to {}",
                    gate.name, gate.on
                ));
                continue;
            }
            gate.on = *on;
            let stage_name = match gate.stage {
                Stage::Stable => "GA",
                Stage::Deprecated => "deprecated",
                Stage::Alpha | Stage::Beta => continue,
            };
            gates.warnings.push(format!(
                "setting {stage_name} feature gate {}={on}. It will be removed in a future release.",
                gate.name
            ));
        }
        if errors.is_empty() {
            errors = gates.unmet();
        }
        match errors.is_empty() {
            true => Ok(gates),
            false => Err(FeatureError(aggregate(&errors))),
        }
    }

    /// What the log says of gates that need not or should not be set.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// All gates, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Gate> {
        self.gates.iter()
    }

    /// The features that are on, of those that change something here.
    pub fn features(&self) -> Features {
        let on = Feature::ALL
            .iter()
            .filter(|feature| self.gate(feature.name()).is_some_and(|gate| gate.on));
        Features(on.fold(0, |bits, feature| bits | Features::bit(*feature)))
    }

    fn gate(&self, name: &str) -> Option<&Gate> {
        self.gates.iter().find(|gate| gate.name == name)
    }

    /// The gates that are on while others that they need are off.
    fn unmet(&self) -> Vec<String> {
        let is_off = |name: &&&str| self.gate(name).is_some_and(|gate| !gate.on);
        let unmet = self.gates.iter().filter(|gate| gate.on).filter_map(|gate| {
            let off: Vec<&str> = gate.needs.iter().filter(is_off).copied().collect();
            let sentence = || {
                format!(
                    "{} is enabled, but depends on features that are disabled: [{}]",
                    gate.name,
                    off.join(" ")
                )
            };
            (!off.is_empty()).then(sentence)
        });
        unmet.collect()
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.on)
    }
}

/// The component that gates are of where a flag names none.
const KUBE: &str = "kube";

/// The gates that the values of flags name, each with its last value.
fn read(flags: &[String]) -> Result<BTreeMap<String, bool>, FeatureError> {
    let mut settings = BTreeMap::new();
    let (mut named, mut unnamed) = (false, false);
    for pair in flags
        .iter()
        .flat_map(|flag| flag.split(','))
        .filter(|pair| !pair.is_empty())
    {
        let (component, pair) = match pair.split_once(':') {
            Some((component, pair)) => (component.trim(), pair.trim()),
            None => ("", pair.trim()),
        };
        named |= component == KUBE;
        unnamed |= component.is_empty();
        if !["", KUBE].contains(&component) {
            return Err(FeatureError(format!("component not registered: {component}")));
        }
        if named && unnamed {
            let text = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use";
            return Err(FeatureError(text.to_owned()));
        }
        if pair.is_empty() {
            continue;
        }
        let (name, value) = match pair.split_once('=') {
            Some((name, value)) => (name.trim(), value.trim()),
            None => return Err(FeatureError(format!("missing bool value for {pair}"))),
        };
        let on = truth(value).map_err(|why| FeatureError(format!("invalid value of {name}={value}, err: {why}")))?;
        settings.insert(name.to_owned(), on);
    }
    Ok(settings)
}

/// A truth value as Go reads it.
///
/// # Errors
/// In Go's words, where `text` is none.
pub fn truth(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
