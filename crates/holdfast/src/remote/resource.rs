//! Resolution of resource names such as `deploy`, `Deployment` or `deployments.v1.apps` through the server's discovery.

use anyhow::{Context as _, Result};
use holdfast_value::Value;

use super::client::Client;

/// Location of the objects of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    /// The path of its group version: `/api/v1`, `/apis/apps/v1`.
    root: String,
    plural: String,
    namespaced: bool,
}

/// Discovery in the newer form, one document for many groups.
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

impl Resource {
    /// Finds the resource for `name` in the discovery of `client`'s server.
    pub(crate) async fn find(client: &mut Client, name: &str) -> Result<Self> {
        let wanted = Wanted::parse(name);
        for root in ["/api", "/apis"] {
            let groups = client.get(root, AGGREGATED).await?;
            if let Some(found) = wanted.find(root, &groups) {
                return Ok(found);
            }
        }
        Err(anyhow::anyhow!("the server doesn't have a resource type {name:?}"))
    }

    /// Finds the resource of a kind in a discovery document of `root`, which is `/api` or `/apis`.
    pub(crate) fn find_kind(root: &str, groups: &Value, group: &str, version: &str, kind: &str) -> Option<Self> {
        let name = format!("{kind}.{version}.{group}");
        Wanted::parse(&name).find(root, groups)
    }

    /// Returns the path of the object `name`.
    pub(crate) fn path(&self, namespace: &str, name: &str) -> Result<String> {
        let shown = || format!("there can be no object {name:?} in {namespace:?}");
        is_segment(name).then_some(()).with_context(shown)?;
        Ok(format!("{}/{name}", self.collection(namespace).with_context(shown)?))
    }

    /// Returns the path of the objects in a namespace.
    pub(crate) fn collection(&self, namespace: &str) -> Result<String> {
        let Self { root, plural, .. } = self;
        if !self.namespaced {
            return Ok(format!("{root}/{plural}"));
        }
        let shown = || format!("there can be no namespace {namespace:?}");
        is_segment(namespace).then_some(()).with_context(shown)?;
        Ok(format!("{root}/namespaces/{namespace}/{plural}"))
    }
}

/// Returns true if the text can be a segment of a path.
fn is_segment(text: &str) -> bool {
    let has_other_meaning =
        |character: char| matches!(character, '/' | '%' | '?' | '#' | ' ') || character.is_control();
    !matches!(text, "" | "." | "..") && !text.contains(has_other_meaning)
}

/// The name that the user typed, in lower case.
struct Wanted {
    /// Before the first dot.
    resource: String,
    /// Behind it.
    rest: Option<String>,
}

impl Wanted {
    fn parse(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        match name.split_once('.') {
            Some((resource, rest)) => Self {
                resource: resource.to_owned(),
                rest: Some(rest.to_owned()),
            },
            None => Self {
                resource: name,
                rest: None,
            },
        }
    }

    /// Returns the first matching resource in the order of discovery.
    fn find(&self, root: &str, groups: &Value) -> Option<Resource> {
        for group in list(groups, "items") {
            let group_name = group.str_at(&["metadata", "name"]).unwrap_or_default();
            for version in list(group, "versions") {
                let version_name = version.str_at(&["version"]).unwrap_or_default();
                if !self.fits_group(group_name, version_name) {
                    continue;
                }
                for resource in list(version, "resources") {
                    if self.fits(resource) {
                        let below = if group_name.is_empty() {
                            String::new()
                        } else {
                            format!("/{group_name}")
                        };
                        return Some(Resource {
                            root: format!("{root}{below}/{version_name}"),
                            plural: resource.str_at(&["resource"])?.to_owned(),
                            namespaced: resource.str_at(&["scope"]) == Some("Namespaced"),
                        });
                    }
                }
            }
        }
        None
    }

    /// Returns true if this is the `GROUP` or `VERSION.GROUP` that the user typed, if any.
    fn fits_group(&self, group: &str, version: &str) -> bool {
        let Some(rest) = &self.rest else { return true };
        rest == group || rest.strip_prefix(version).and_then(|rest| rest.strip_prefix('.')) == Some(group)
    }

    fn fits(&self, resource: &Value) -> bool {
        let paths = [&["resource"][..], &["singularResource"], &["responseKind", "kind"]];
        let mut names = paths.iter().filter_map(|path| resource.str_at(path));
        let short = list(resource, "shortNames").filter_map(Value::as_str);
        names.any(|name| name.eq_ignore_ascii_case(&self.resource))
            || short.into_iter().any(|name| name == self.resource)
    }
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value
        .get(key)
        .and_then(Value::as_list)
        .into_iter()
        .flat_map(|list| list.iter())
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    const GROUPS: &str = r#"{"items":[
        {"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[
            {"resource":"deployments","singularResource":"deployment","responseKind":{"kind":"Deployment"},
             "scope":"Namespaced","shortNames":["deploy"]}]}]},
        {"metadata":{"name":"storage.k8s.io"},"versions":[
            {"version":"v2","resources":[{"resource":"things","responseKind":{"kind":"Thing"},"scope":"Cluster"}]},
            {"version":"v1","resources":[{"resource":"things","responseKind":{"kind":"Thing"},"scope":"Cluster"}]}]}]}"#;

    fn path(name: &str) -> Option<String> {
        let groups = json::parse(GROUPS.as_bytes(), &Limits::REQUEST).unwrap();
        let resource = Wanted::parse(name).find("/apis", &groups)?;
        Some(resource.path("shop", "web").unwrap())
    }

    #[test]
    fn resources_go_by_many_names() {
        let deployment = Some("/apis/apps/v1/namespaces/shop/deployments/web".to_owned());
        for name in [
            "deploy",
            "deployment",
            "deployments",
            "Deployment",
            "deploy.apps",
            "deployments.v1.apps",
        ] {
            assert_eq!(path(name), deployment, "{name}");
        }
        assert_eq!(path("thing").as_deref(), Some("/apis/storage.k8s.io/v2/things/web"));
        assert_eq!(
            path("things.v1.storage.k8s.io").as_deref(),
            Some("/apis/storage.k8s.io/v1/things/web")
        );
        for name in ["gadget", "deploy.batch", "deploy.v2.apps", ""] {
            assert_eq!(path(name), None, "{name}");
        }
    }

    #[test]
    fn names_that_would_lead_elsewhere_are_refused() {
        let groups = json::parse(GROUPS.as_bytes(), &Limits::REQUEST).unwrap();
        let resource = Wanted::parse("deploy").find("/apis", &groups).unwrap();
        for (namespace, name) in [("", "web"), ("shop", ""), ("shop", "a/b"), ("a?b", "web")] {
            assert!(resource.path(namespace, name).is_err(), "{namespace} {name}");
        }
    }
}
