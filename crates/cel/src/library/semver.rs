//! Semantic versions.

use std::cmp::Ordering;

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::functions::{Context, Cost, Function};
use crate::value::{CelValue, Outcome};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "semver",
        call: |_, args| {
            let version = read(args)?.map_err(EvaluationError::failed)?;
            Ok(CelValue::Semver(version.into()))
        },
        cost: Cost::Traverse,
        signatures: &["(string) semver", "(string, bool) semver"],
    },
    Function {
        name: "isSemver",
        call: |_, args| Ok(CelValue::Bool(read(args)?.is_ok())),
        cost: Cost::Traverse,
        signatures: &["(string) bool", "(string, bool) bool"],
    },
    Function {
        name: "major",
        call: |context, args| number(context, args, 0),
        cost: Cost::Fixed(1),
        signatures: &["semver.() int"],
    },
    Function {
        name: "minor",
        call: |context, args| number(context, args, 1),
        cost: Cost::Fixed(1),
        signatures: &["semver.() int"],
    },
    Function {
        name: "patch",
        call: |context, args| number(context, args, 2),
        cost: Cost::Fixed(1),
        signatures: &["semver.() int"],
    },
];

/// A version: three numbers, what precedes the release, and the build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    numbers: [u64; 3],
    prerelease: Vec<String>,
    build: Vec<String>,
}

fn read(args: &[CelValue]) -> Outcome<Result<Version, String>> {
    match args {
        [CelValue::String(text)] => Ok(Version::parse(text)),
        [CelValue::String(text), CelValue::Bool(false)] => Ok(Version::parse(text)),
        [CelValue::String(text), CelValue::Bool(true)] => Ok(Version::parse(&normalized(text))),
        _ => Err(NoSuchOverload),
    }
}

fn number(_: &Context<'_>, args: &[CelValue], at: usize) -> Outcome {
    match &args[0] {
        CelValue::Semver(version) => Ok(CelValue::Int(version.numbers[at] as i64)),
        _ => Err(NoSuchOverload),
    }
}

/// Without a leading `v`, with all three numbers, without leading zeros.
fn normalized(text: &str) -> String {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let mut numbers: Vec<&str> = numbers
        .split('.')
        .map(|number| match number.trim_start_matches('0') {
            "" if !number.is_empty() => "0",
            stripped => stripped,
        })
        .collect();
    while numbers.len() < 3 {
        numbers.push("0");
    }
    format!("{}{rest}", numbers.join("."))
}

impl Version {
    /// Reads `1.2.3-rc.1+build`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let (text, build) = text
            .split_once('+')
            .map_or((text, None), |(text, build)| (text, Some(build)));
        let (text, prerelease) = text
            .split_once('-')
            .map_or((text, None), |(text, pre)| (text, Some(pre)));
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(patch)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let number = |what: &str, part: &str| {
            if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(format!("Invalid character(s) found in {what} number {part:?}"));
            }
            if part.len() > 1 && part.starts_with('0') {
                return Err(format!(
                    "{} number must not contain leading zeroes {part:?}",
                    capital(what)
                ));
            }
            part.parse::<u64>().map_err(|error| error.to_string())
        };
        let numbers = [
            number("major", major)?,
            number("minor", minor)?,
            number("patch", patch)?,
        ];
        let identifiers = |what: &str, text: Option<&str>| -> Result<Vec<String>, String> {
            let Some(text) = text else { return Ok(Vec::new()) };
            let each = text.split('.').map(|part| {
                let valid = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
                if part.is_empty() {
                    Err(format!("{what} is empty"))
                } else if valid {
                    Ok(part.to_owned())
                } else {
                    Err(format!(
                        "Invalid character(s) found in {} {part:?}",
                        what.to_lowercase()
                    ))
                }
            });
            each.collect()
        };
        let prerelease = identifiers("Prerelease", prerelease)?;
        let zeroes =
            |part: &&String| part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit());
        if let Some(part) = prerelease.iter().find(zeroes) {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {part:?}"
            ));
        }
        Ok(Self {
            numbers,
            prerelease,
            build: identifiers("Build meta data", build)?,
        })
    }

    /// By precedence, in which builds have no part.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let release = |version: &Self| version.prerelease.is_empty();
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| match (release(self), release(other)) {
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                _ => {
                    let pairs = self.prerelease.iter().zip(&other.prerelease);
                    let differing = pairs
                        .map(|(a, b)| compare_identifiers(a, b))
                        .find(|order| order.is_ne());
                    differing.unwrap_or_else(|| self.prerelease.len().cmp(&other.prerelease.len()))
                }
            })
    }
}

fn capital(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map_or_else(String::new, |first| {
        format!("{}{}", first.to_uppercase(), characters.as_str())
    })
}

/// Numbers before words, numbers by value.
fn compare_identifiers(a: &str, b: &str) -> Ordering {
    let number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    match (number(a), number(b)) {
        (true, true) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_order_by_precedence() {
        let order = [
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0",
            "1.2.0",
            "1.10.0",
        ];
        let read: Vec<Version> = order.iter().flat_map(|text| Version::parse(text)).collect();
        assert_eq!(read.len(), order.len());
        assert!(read.windows(2).all(|pair| pair[0].compare(&pair[1]) == Ordering::Less));
    }

    #[test]
    fn loose_versions_are_made_strict_on_request_alone() {
        assert!(Version::parse("v1.2").is_err());
        assert_eq!(normalized("v01.2"), "1.2.0");
        assert!(Version::parse("1.02.0").is_err());
        assert!(Version::parse("1.2.3-01").is_err());
    }
}
