//! Semantic versions.

use std::cmp::Ordering;

use holdfast_gotext::number::parse_uint;
use holdfast_gotext::quote::quote;

/// Semantic version: three numbers, the pre-release, and the build.
///
/// ```
/// use holdfast_cel::Version;
///
/// let version = Version::parse("1.36.0-rc.1")?;
/// assert!(version.compare(&Version::parse("1.36.0")?).is_lt());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub(crate) numbers: [u64; 3],
    prerelease: Vec<String>,
    build: Vec<String>,
}

/// Normalizes a version: removes a leading `v` and leading zeros, and adds missing numbers.
pub(crate) fn normalized(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let without_zeros = |part: &str| match part.trim_start_matches('0') {
        _ if part.len() < 2 => part.to_owned(),
        stripped if stripped.starts_with(|first: char| first.is_ascii_digit()) => stripped.to_owned(),
        stripped => format!("0{stripped}"),
    };
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("Short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

fn are_digits(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_digit())
}

fn leads_with_zero(part: &str) -> bool {
    part.len() > 1 && part.starts_with('0')
}

/// Parses one of the numbers, with the error messages of the reference's library.
fn parse_number(what: &str, part: &str) -> Result<u64, String> {
    if !are_digits(part) {
        let what = what.to_lowercase();
        return Err(format!("Invalid character(s) found in {what} number {}", quote(part)));
    }
    if leads_with_zero(part) {
        return Err(format!("{what} number must not contain leading zeroes {}", quote(part)));
    }
    parse_uint(part)
}

fn is_identifier(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn parse_prerelease(part: &str) -> Result<String, String> {
    if part.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if are_digits(part) {
        if leads_with_zero(part) {
            let shown = quote(part);
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {shown}"
            ));
        }
        parse_uint::<u64>(part)?;
    } else if !is_identifier(part) {
        return Err(format!("Invalid character(s) found in prerelease {}", quote(part)));
    }
    Ok(part.to_owned())
}

fn parse_build(part: &str) -> Result<String, String> {
    if part.is_empty() {
        return Err("Build meta data is empty".to_owned());
    }
    if !is_identifier(part) {
        return Err(format!("Invalid character(s) found in build meta data {}", quote(part)));
    }
    Ok(part.to_owned())
}

impl Version {
    /// Parses `1.2.3-rc.1+build`.
    ///
    /// # Errors
    /// Returns the error of an invalid text.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(patch)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (major, minor) = (parse_number("Major", major)?, parse_number("Minor", minor)?);
        let (patch, build) = patch
            .split_once('+')
            .map_or((patch, None), |(patch, build)| (patch, Some(build)));
        let (patch, prerelease) = patch
            .split_once('-')
            .map_or((patch, None), |(patch, pre)| (patch, Some(pre)));
        let numbers = [major, minor, parse_number("Patch", patch)?];
        let each = |text: Option<&str>, parse: fn(&str) -> Result<String, String>| {
            text.into_iter()
                .flat_map(|text| text.split('.'))
                .map(parse)
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            numbers,
            prerelease: each(prerelease, parse_prerelease)?,
            build: each(build, parse_build)?,
        })
    }

    /// Compares by precedence, which ignores builds.
    pub fn compare(&self, other: &Self) -> Ordering {
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

/// Compares identifiers: numbers sort before words, and by value.
fn compare_identifiers(a: &str, b: &str) -> Ordering {
    match (are_digits(a), are_digits(b)) {
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
    fn loose_version_is_normalized_only_on_request() {
        assert!(Version::parse("v1.2").is_err());
        assert_eq!(normalized("v01.2").as_deref(), Ok("1.2.0"));
        assert!(normalized("1.2-rc").is_err());
        assert!(Version::parse("1.02.0").is_err());
        assert!(Version::parse("1.2.3-01").is_err());
        for (text, why) in [
            ("1.2-rc.3", "Invalid character(s) found in minor number \"2-rc\""),
            (".1.2", "strconv.ParseUint: parsing \"\": invalid syntax"),
            ("1.2.3-a_b", "Invalid character(s) found in prerelease \"a_b\""),
        ] {
            assert_eq!(Version::parse(text).err().as_deref(), Some(why));
        }
    }
}
