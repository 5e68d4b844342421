//! Feature gates of the reference with stages and defaults, and the flags that set them.

use std::collections::BTreeMap;
use std::fmt;

use holdfast_gotext::errors::aggregate;

use super::{Feature, Features};

/// Maturity stage of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off by default.
    Alpha,
    /// On or off by default.
    Beta,
    /// On by default. The gate will be removed.
    Stable,
    /// The feature will be removed.
    Deprecated,
}

impl Stage {
    /// Returns the stage's name in the reference's metrics; empty for a stable one.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Stable => "",
            Self::Deprecated => "DEPRECATED",
        }
    }
}

/// A feature gate of the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Name of the gate.
    pub name: &'static str,
    /// Maturity stage of the feature.
    pub stage: Stage,
    /// True if the feature is on.
    pub on: bool,
    locked: bool,
    needs: Vec<&'static str>,
    components: Vec<&'static str>,
    claim: Option<Claim>,
}

/// Statement of the table about the effect of a gate in Holdfast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Behavior of the gate that Holdfast always has.
    Always(&'static str),
    /// Reason why Holdfast does not have the behavior of the gate.
    Absent(&'static str),
    /// Missing part of the gate, which is a [`Feature`].
    Lacks(&'static str),
    /// Reason why the gate has no effect in Holdfast.
    NoEffect(&'static str),
}

impl Claim {
    /// Splits the claim off the end of a line of the table.
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
    /// Returns the table's claim about the gate. Features, and gates of other components, may have none.
    pub fn claim(&self) -> Option<Claim> {
        self.claim
    }

    /// Returns the components that the gate is limited to; none if it is a gate of API servers.
    pub fn components(&self) -> &[&'static str] {
        &self.components
    }

    /// Returns true if it sets all gates of its stage.
    pub fn is_of_stage(&self) -> bool {
        [ALL_ALPHA, ALL_BETA].contains(&self.name)
    }

    /// Returns true if its value cannot be changed.
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// Parses a line of the table.
    fn parse(line: &'static str) -> Option<Self> {
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

/// Error in the values of `--feature-gates`, in the wording of the reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FeatureError(String);

/// All gates of the reference and their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    gates: Vec<Gate>,
    warnings: Vec<String>,
}

impl Default for FeatureGates {
    fn default() -> Self {
        let lines = include_str!(concat!(env!("OUT_DIR"), "/features.txt")).lines();
        Self {
            gates: lines.filter_map(Gate::parse).collect(),
            warnings: Vec::new(),
        }
    }
}

const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

impl FeatureGates {
    /// Returns the gates with the given values of `--feature-gates`, each a list of `Name=true` or `kube:Name=true`.
    ///
    /// upstream: k8s.io/component-base/featuregate#featureGate.unsafeSetFromMap
    ///
    /// # Errors
    /// If a gate is unknown, locked or needs others that are off, or if a value is not a boolean.
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

    /// Returns the log warnings about gates that need not or should not be set.
    ///
    /// upstream: k8s.io/component-base/featuregate#featureGate.unsafeSetFromMap
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns all gates in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Gate> {
        self.gates.iter()
    }

    /// Returns the enabled features that have an effect in Holdfast.
    pub fn features(&self) -> Features {
        let on = Feature::ALL
            .iter()
            .filter(|feature| self.gate(feature.name()).is_some_and(|gate| gate.on));
        Features(on.fold(0, |bits, feature| bits | Features::bit(*feature)))
    }

    fn gate(&self, name: &str) -> Option<&Gate> {
        self.gates.iter().find(|gate| gate.name == name)
    }

    /// Returns an error for each enabled gate that needs a gate that is off.
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

/// Default component of a gate in the flag.
const KUBE: &str = "kube";

/// Parses the gates in the values of flags. The last value of a gate wins.
///
/// upstream: k8s.io/component-base/compatibility#componentGlobalsRegistry.Set
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

/// Parses a boolean as Go does.
///
/// # Errors
/// If `text` is not a boolean, with Go's message.
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
