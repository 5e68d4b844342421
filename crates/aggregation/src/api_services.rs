//! The parsed APIServices: the group versions, their order in discovery, and the servers of those that are served
//! elsewhere.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_resource::version_order;
use holdfast_schema::GroupVersion;
use holdfast_value::{SmolStr, Value};

/// The position of a group version in discovery: higher ones come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priority {
    /// The priority among groups. The highest of a group's versions applies.
    pub group: i64,
    /// The priority among the versions of a group.
    pub version: i64,
}

/// An APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiService {
    /// Its name: `VERSION.GROUP`.
    pub name: SmolStr,
    /// Its group.
    pub group: SmolStr,
    /// Its version.
    pub version: SmolStr,
    /// Its position in discovery.
    pub priority: Priority,
    /// The server that serves it; `None` for this server.
    pub remote: Option<Remote>,
    /// True if its condition `Available` is true.
    pub available: bool,
}

/// A server of an APIService that is not this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The namespace of its service.
    pub namespace: SmolStr,
    /// The name of its service.
    pub service: SmolStr,
    /// The port of the service.
    pub port: u16,
    /// The certificate authorities that it trusts, in PEM; `None` for those of the system.
    pub authorities: Option<Vec<u8>>,
    /// True if any certificate is accepted.
    pub insecure: bool,
}

/// The default port of a service.
const PORT: u16 = 443;

/// The name of the core group's APIService. Its paths differ from those of other groups.
const CORE: &str = "v1.";

impl ApiService {
    /// Returns its group version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.clone(), self.version.clone())
    }

    /// Returns the path at which its server reports its group version.
    pub fn path(&self) -> String {
        let Self { group, version, .. } = self;
        if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        }
    }

    /// Parses an APIService; `None` if the object is not one.
    pub fn read(object: &Value) -> Option<Self> {
        let text = |field: &str| SmolStr::new(object.str_at(&["spec", field]).unwrap_or_default());
        let number = |field: &str| object.at(&["spec", field]).and_then(Value::as_i64).unwrap_or_default();
        let conditions = object.at(&["status", "conditions"]).and_then(Value::as_list);
        let available = conditions.is_some_and(|conditions| {
            let stated = |condition: &Value, field, wanted| condition.str_at(&[field]) == Some(wanted);
            let mut conditions = conditions.iter();
            conditions.any(|condition| stated(condition, "type", "Available") && stated(condition, "status", "True"))
        });
        Some(Self {
            name: SmolStr::new(object.str_at(&["metadata", "name"])?),
            group: text("group"),
            version: text("version"),
            priority: Priority {
                group: number("groupPriorityMinimum"),
                version: number("versionPriority"),
            },
            remote: Remote::read(object),
            available,
        })
    }
}

impl Remote {
    fn read(object: &Value) -> Option<Self> {
        let service = object.at(&["spec", "service"]).filter(|service| !service.is_null())?;
        let text = |field: &str| SmolStr::new(service.str_at(&[field]).unwrap_or_default());
        let port = service.get("port").and_then(Value::as_i64);
        let bundle = object.str_at(&["spec", "caBundle"]).filter(|bundle| !bundle.is_empty());
        let insecure = object.at(&["spec", "insecureSkipTLSVerify"]).and_then(Value::as_bool);
        Some(Self {
            namespace: text("namespace"),
            service: text("name"),
            port: port.and_then(|port| u16::try_from(port).ok()).unwrap_or(PORT),
            // Invalid base64 is treated as an empty bundle, which trusts no certificate.
            authorities: bundle.map(|bundle| STANDARD.decode(bundle).unwrap_or_default()),
            insecure: insecure == Some(true),
        })
    }

    /// Returns the name for which its certificate must be valid.
    pub fn server_name(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }
}

/// An APIService that is served elsewhere.
pub struct Proxied<B> {
    /// The APIService.
    pub service: Arc<ApiService>,
    /// The connections to it, or the reason why there can be none.
    pub backend: Result<B, String>,
}

/// The APIServices at one moment.
pub struct ApiServices<B> {
    all: BTreeMap<SmolStr, Arc<ApiService>>,
    remote: BTreeMap<SmolStr, Arc<Proxied<B>>>,
    remote_paths: HashMap<GroupVersion, Arc<Proxied<B>>>,
}

impl<B> Default for ApiServices<B> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            remote: BTreeMap::new(),
            remote_paths: HashMap::new(),
        }
    }
}

impl<B> ApiServices<B> {
    /// Adds an APIService, with its server if it is served elsewhere.
    pub fn insert(&mut self, service: Arc<ApiService>, proxied: Option<Arc<Proxied<B>>>) {
        if let Some(proxied) = proxied {
            let path = service.group_version();
            self.remote_paths.insert(path, Arc::clone(&proxied));
            self.remote.insert(service.name.clone(), proxied);
        }
        self.all.insert(service.name.clone(), service);
    }

    /// Returns all of them, by name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<ApiService>> {
        self.all.values()
    }

    /// Returns the APIServices that are served elsewhere, by name.
    pub fn proxied_all(&self) -> impl Iterator<Item = &Arc<Proxied<B>>> {
        self.remote.values()
    }

    /// Returns true if any of them is served elsewhere.
    pub fn any_remote(&self) -> bool {
        !self.remote.is_empty()
    }

    /// Returns the APIService of that name, if it is served elsewhere.
    pub fn proxied(&self, name: &str) -> Option<&Arc<Proxied<B>>> {
        self.remote.get(name)
    }

    /// Returns the APIService that serves the path, if it is served elsewhere.
    pub fn remote(&self, path: &str) -> Option<&Arc<Proxied<B>>> {
        if path == "/api" || path.starts_with("/api/") {
            return self.remote.get(CORE);
        }
        let mut parts = path.strip_prefix("/apis/")?.splitn(3, '/');
        let (group, version) = (parts.next()?, parts.next()?);
        self.remote_paths.get(&GroupVersion::new(group, version))
    }
}

/// Sorts group versions into the order in which `/apis` reports them: groups by the first of their versions by priority
/// and name of its APIService, versions of a group by priority and stability.
pub fn by_group_and_version(mut versions: Vec<(GroupVersion, Priority)>) -> Vec<(SmolStr, Vec<SmolStr>)> {
    let name = |GroupVersion { group, version }: &GroupVersion| format!("{version}.{group}");
    versions.sort_by(|(a, of_a), (b, of_b)| of_b.group.cmp(&of_a.group).then_with(|| name(a).cmp(&name(b))));
    let mut groups: Vec<(SmolStr, Vec<(SmolStr, i64)>)> = Vec::new();
    for (GroupVersion { group, version }, priority) in versions {
        let version = (version, priority.version);
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, versions)) => versions.push(version),
            None => groups.push((group, vec![version])),
        }
    }
    groups
        .into_iter()
        .map(|(group, versions)| (group, by_version(versions)))
        .collect()
}

/// Sorts group versions into the order of aggregated discovery: groups by the highest priority of their versions and by
/// name.
pub fn by_highest_priority(versions: Vec<(GroupVersion, Priority)>) -> Vec<(SmolStr, Vec<SmolStr>)> {
    let mut groups: BTreeMap<SmolStr, (i64, Vec<(SmolStr, i64)>)> = BTreeMap::new();
    for (GroupVersion { group, version }, priority) in versions {
        let (highest, versions) = groups.entry(group).or_insert((priority.group, Vec::new()));
        *highest = priority.group.max(*highest);
        versions.push((version, priority.version));
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (priority, _))| std::cmp::Reverse(*priority));
    groups
        .into_iter()
        .map(|(group, (_, versions))| (group, by_version(versions)))
        .collect()
}

fn by_version(mut versions: Vec<(SmolStr, i64)>) -> Vec<SmolStr> {
    versions.sort_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| version_order::compare(a, b)));
    versions.into_iter().map(|(version, _)| version).collect()
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    fn listed(versions: &[(&str, &str, i64, i64)]) -> Vec<(GroupVersion, Priority)> {
        let key = |&(group, version, of_group, of_version): &(&str, &str, i64, i64)| {
            let priority = Priority {
                group: of_group,
                version: of_version,
            };
            (GroupVersion::new(group, version), priority)
        };
        versions.iter().map(key).collect()
    }

    fn as_text(groups: &[(SmolStr, Vec<SmolStr>)]) -> Vec<String> {
        let as_text = |(group, versions): &(SmolStr, Vec<SmolStr>)| format!("{group}: {}", versions.join(" "));
        groups.iter().map(as_text).collect()
    }

    #[test]
    fn groups_and_versions_sort_by_priority_then_stability() {
        let versions = [
            ("b.example", "v1", 1000, 100),
            ("a.example", "v1beta1", 1000, 100),
            ("a.example", "v2", 1000, 100),
            ("apps", "v1", 17800, 15),
            ("low.example", "v1", 10, 1),
            ("low.example", "v1alpha1", 2000, 30),
        ];
        let by_name_of_api_service = [
            "apps: v1",
            "low.example: v1alpha1 v1",
            "b.example: v1",
            "a.example: v2 v1beta1",
        ];
        assert_eq!(
            as_text(&by_group_and_version(listed(&versions))),
            by_name_of_api_service
        );
        let by_name = [
            "apps: v1",
            "low.example: v1alpha1 v1",
            "a.example: v2 v1beta1",
            "b.example: v1",
        ];
        assert_eq!(as_text(&by_highest_priority(listed(&versions))), by_name);
    }

    #[test]
    fn api_service_reports_its_server_and_availability() {
        let read = |text: &str| ApiService::read(&yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()).unwrap();
        let remote = read(
            "{metadata: {name: v1.a.example}, spec: {group: a.example, version: v1, groupPriorityMinimum: 7, \
             versionPriority: 3, caBundle: UEVN, service: {namespace: ns, name: s}}, status: {conditions: [{type: \
             Available, status: 'True'}]}}",
        );
        let place = remote.remote.clone().unwrap();
        assert_eq!((place.server_name().as_str(), place.port), ("s.ns.svc", 443));
        assert_eq!(place.authorities.as_deref(), Some(&b"PEM"[..]));
        assert!(remote.available && !place.insecure);
        let local = read("{metadata: {name: v1.}, spec: {version: v1}}");
        assert!(local.remote.is_none() && !local.available);
        let mut known = ApiServices::<()>::default();
        let service = Arc::new(remote);
        let proxied = Proxied {
            service: Arc::clone(&service),
            backend: Err(String::new()),
        };
        known.insert(Arc::new(local), None);
        known.insert(service, Some(Arc::new(proxied)));
        for (path, elsewhere) in [
            ("/apis/a.example/v1", true),
            ("/apis/a.example/v1/things/a", true),
            ("/apis/a.example/v2/things", false),
            ("/apis/a.example", false),
            ("/api/v1/pods", false),
        ] {
            assert_eq!(known.remote(path).is_some(), elsewhere, "{path}");
        }
    }
}
