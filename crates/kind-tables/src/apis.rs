//! Built-in APIs that are served: `--runtime-config`, as kube-apiserver 1.36 parses it.
//!
//! Stable APIs are enabled and alpha and beta APIs are disabled by default. Flags may change this for all versions of a
//! stage, for one version of a group, and for one resource of it; the more specific setting wins.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use holdfast_schema::GroupVersion;
use holdfast_value::SmolStr;

use crate::features::truth;
use crate::group_versions::all_group_versions;

/// Groups and versions of the reference's scheme in which nothing is served any more, or never was.
const EMPTY: [&str; 24] = [
    "admission.k8s.io/v1",
    "admission.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1beta1",
    "apiregistration.k8s.io/v1beta1",
    "apps/v1beta1",
    "apps/v1beta2",
    "authentication.k8s.io/v1alpha1",
    "authentication.k8s.io/v1beta1",
    "authorization.k8s.io/v1beta1",
    "batch/v1beta1",
    "discovery.k8s.io/v1beta1",
    "events.k8s.io/v1beta1",
    "extensions/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta2",
    "flowcontrol.apiserver.k8s.io/v1beta3",
    "imagepolicy.k8s.io/v1alpha1",
    "node.k8s.io/v1alpha1",
    "node.k8s.io/v1beta1",
    "policy/v1beta1",
    "rbac.authorization.k8s.io/v1alpha1",
    "rbac.authorization.k8s.io/v1beta1",
    "scheduling.k8s.io/v1beta1",
    "storage.k8s.io/v1alpha1",
];

/// Error of `--runtime-config`, in the words of the reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApiError(String);

/// Stability level of a version, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Stable,
    Beta,
    Alpha,
}

impl Level {
    /// Returns the level of `v1`, `v1beta1` and `v1alpha1`, or `None` for other names.
    fn from_version(version: &str) -> Option<Self> {
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let rest = version.strip_prefix('v')?;
        if number(rest) {
            return Some(Self::Stable);
        }
        [("beta", Self::Beta), ("alpha", Self::Alpha)]
            .into_iter()
            .find(|(name, _)| {
                rest.split_once(name)
                    .is_some_and(|(major, minor)| number(major) && number(minor))
            })
            .map(|(_, level)| level)
    }
}

/// Keys that match many versions, in the order of their precedence.
const MATCHERS: [(&str, Option<Level>); 4] = [
    ("api/all", None),
    ("api/ga", Some(Level::Stable)),
    ("api/beta", Some(Level::Beta)),
    ("api/alpha", Some(Level::Alpha)),
];

/// Built-in APIs that are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apis {
    /// Each version of the reference's configuration; true if it is enabled.
    versions: Arc<HashMap<GroupVersion, bool>>,
    /// Resources that were enabled or disabled individually.
    resources: Arc<HashMap<(GroupVersion, SmolStr), bool>>,
}

impl Default for Apis {
    /// Returns the APIs that are served without flags.
    fn default() -> Self {
        let known = all_group_versions().into_iter().map(|known| {
            let on = Level::from_version(&known.version) == Some(Level::Stable);
            (known, on)
        });
        Self {
            versions: Arc::new(known.collect()),
            resources: Arc::default(),
        }
    }
}

impl Apis {
    /// Returns the APIs for these values of `--runtime-config`, each a list of `KEY=true`.
    ///
    /// # Errors
    /// If a key names no API, or a value is not a boolean.
    pub fn set(flags: &[String]) -> Result<Self, ApiError> {
        let settings = read(flags);
        check(&settings)?;
        let mut apis = Self::default();
        for (key, level) in MATCHERS {
            let Some(value) = settings.get(key) else { continue };
            let on = match value.as_str() {
                "true" => true,
                "false" => false,
                _ => return Err(ApiError(format!("invalid value {key}={value}"))),
            };
            let of_level = Arc::make_mut(&mut apis.versions).iter_mut();
            of_level
                .filter(|(known, _)| level.is_none() || Level::from_version(&known.version) == level)
                .for_each(|(_, switch)| *switch = on);
        }
        for (key, value) in &settings {
            apis.switch(key, value)?;
        }
        Ok(apis)
    }

    /// Enables or disables a version or a resource by its key.
    ///
    /// upstream: k8s.io/apiserver/pkg/server/resourceconfig#applyVersionAndResourcePreferences
    fn switch(&mut self, key: &str, value: &str) -> Result<(), ApiError> {
        let Some((group_version, resource)) = parts(key) else {
            return Ok(());
        };
        if !self.versions.contains_key(&group_version) && !EMPTY.contains(&group_version.api_version().as_str()) {
            let text = format!("group version {group_version} that has not been registered");
            return Err(ApiError(text));
        }
        let on = match value {
            "" => true,
            value => truth(value).map_err(|why| ApiError(format!("invalid value of {key}: {value}, err: {why}")))?,
        };
        match resource {
            Some(resource) if resource.to_lowercase() != resource => {
                return Err(ApiError(format!(
                    "invalid key {key}: group/version/resource and resource is always lowercase plural, not {resource:?}"
                )));
            }
            Some(resource) => {
                Arc::make_mut(&mut self.resources).insert((group_version, resource.into()), on);
            }
            None => {
                Arc::make_mut(&mut self.versions).insert(group_version, on);
            }
        }
        Ok(())
    }

    /// Returns true if the resource `plural` is served in that version.
    pub fn serves(&self, group_version: &GroupVersion, plural: &str) -> bool {
        let resource = match self.resources.is_empty() {
            true => None,
            false => self.resources.get(&(group_version.clone(), plural.into())),
        };
        resource
            .or_else(|| self.versions.get(group_version))
            .is_some_and(|on| *on)
    }

    /// Returns true if any resource may be served in that version.
    pub fn serves_any(&self, group_version: &GroupVersion) -> bool {
        self.versions.get(group_version).is_some_and(|on| *on)
            || self.resources.iter().any(|((of, _), on)| *on && of == group_version)
    }

    /// Returns true if `group` may serve anything that is disabled by default.
    pub fn has_more(&self, group: &str) -> bool {
        let more = |of: &GroupVersion| of.group == group && Level::from_version(&of.version) != Some(Level::Stable);
        self.versions.iter().any(|(of, on)| *on && more(of))
            || self.resources.iter().any(|((of, _), on)| *on && more(of))
    }
}

/// Returns the keys and values of flags, each key with its last value.
fn read(flags: &[String]) -> BTreeMap<String, String> {
    let pairs = flags.iter().flat_map(|flag| flag.split(','));
    pairs
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key.trim().to_owned(), value.trim().to_owned())
        })
        .collect()
}

/// Parses the key of a version or of a resource; `None` for other keys.
fn parts(key: &str) -> Option<(GroupVersion, Option<&str>)> {
    if MATCHERS.iter().any(|(matcher, _)| *matcher == key) {
        return None;
    }
    let mut tokens = key.split('/');
    let (group, version, resource) = (tokens.next()?, tokens.next()?, tokens.next());
    let named = GroupVersion::new(group, version);
    tokens.next().is_none().then_some((named, resource))
}

/// Makes the checks of the reference that precede the parsing of values.
///
/// upstream: k8s.io/apiserver/pkg/server/options#APIEnablementOptions.Validate
fn check(settings: &BTreeMap<String, String>) -> Result<(), ApiError> {
    if settings.len() == 1 && settings.get("api/all").is_some_and(|value| value == "false") {
        return Err(ApiError("invalid runtime-config with only api/all=false".to_owned()));
    }
    let matches = |key: &&String| MATCHERS.iter().any(|(matcher, _)| matcher == key);
    let named: Vec<&String> = settings.keys().filter(|key| !matches(key)).collect();
    if let Some(odd) = named.iter().find(|key| parts(key).is_none()) {
        return Err(ApiError(format!("runtime-config invalid key {odd}")));
    }
    let known = all_group_versions();
    let is_known = |group: &str| {
        known.iter().any(|known| known.group == group)
            || EMPTY.iter().any(|empty| empty.split('/').next() == Some(group))
    };
    let unknown: BTreeSet<String> = named
        .iter()
        .filter_map(|key| parts(key))
        .map(|(named, _)| named)
        .filter(|named| !is_known(&named.group))
        .map(|named| named.to_string())
        .collect();
    if !unknown.is_empty() {
        let unknown: Vec<String> = unknown.into_iter().collect();
        return Err(ApiError(format!("unknown api groups {}", unknown.join(","))));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn set(flags: &[&str]) -> Result<Apis, String> {
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        Apis::set(&flags).map_err(|error| error.to_string())
    }

    fn serves(apis: &Apis, path: &str) -> bool {
        let (group_version, resource) = parts(path).unwrap();
        apis.serves(&group_version, resource.unwrap())
    }

    #[test]
    fn stable_versions_are_served_and_others_are_not() {
        let apis = set(&[]).unwrap();
        assert_eq!(apis, Apis::default());
        assert!(serves(&apis, "apps/v1/deployments") && serves(&apis, "/v1/pods"));
        assert!(serves(&apis, "autoscaling/v2/horizontalpodautoscalers"));
        assert!(!serves(&apis, "resource.k8s.io/v1beta1/resourceclaims"));
        assert!(!apis.has_more("resource.k8s.io"));
    }

    #[test]
    fn more_specific_setting_wins() {
        let apis = set(&[
            "api/all=false,api/ga=true",
            "apps/v1/deployments=false,batch/v1=0,batch/v1/jobs",
        ])
        .unwrap();
        assert!(serves(&apis, "apps/v1/statefulsets") && !serves(&apis, "apps/v1/deployments"));
        assert!(serves(&apis, "batch/v1/jobs") && !serves(&apis, "batch/v1/cronjobs"));
        assert!(!serves(&apis, "storage.k8s.io/v1beta1/volumeattributesclasses"));
        let apis = set(&["api/beta=true,resource.k8s.io/v1beta1=false"]).unwrap();
        assert!(serves(&apis, "resource.k8s.io/v1beta2/resourceclaims"));
        assert!(!serves(&apis, "resource.k8s.io/v1beta1/resourceclaims"));
        assert!(apis.has_more("resource.k8s.io") && !apis.has_more("scheduling.k8s.io"));
    }

    #[test]
    fn refusals_are_in_the_words_of_the_reference() {
        for (flag, error) in [
            ("api/all=false", "invalid runtime-config with only api/all=false"),
            ("v1=false", "runtime-config invalid key v1"),
            ("a/b/c/d", "runtime-config invalid key a/b/c/d"),
            ("z.io/v1,a.io/v1=false,apps/v1", "unknown api groups a.io/v1,z.io/v1"),
            ("api/legacy=true", "unknown api groups api/legacy"),
            ("apps/v9=true", "group version apps/v9 that has not been registered"),
            ("api/beta=yes", "invalid value api/beta=yes"),
            (
                "apps/v1=maybe",
                "invalid value of apps/v1: maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            (
                "apps/v1/Deployments=true",
                "invalid key apps/v1/Deployments: group/version/resource and resource is always lowercase plural, not \"Deployments\"",
            ),
        ] {
            assert_eq!(set(&[flag]).unwrap_err(), error, "{flag}");
        }
        assert!(set(&["apps/v1beta1=true,extensions/v1beta1=true"]).is_ok());
    }
}
