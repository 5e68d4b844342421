//! Parameters (`params`) of a policy: objects of a kind that the policy names, selected by the binding
//! (<https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/#parameter-resources>).

use std::ops::ControlFlow;
use std::sync::Arc;

use holdfast_resource::selector::LabelSelector;
use holdfast_resource::{Registry, Resource};
use holdfast_schema::{Field, GroupKind, GroupVersion};
use holdfast_value::{SmolStr, Value};

use super::request::Request;

/// Kind of a policy's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterKind {
    api_version: SmolStr,
    kind: GroupKind,
}

/// A binding's selection of objects of that kind.
#[derive(Debug)]
pub struct ParameterReference {
    name: SmolStr,
    namespace: SmolStr,
    selector: Option<LabelSelector>,
    /// True if it is an error that there is none.
    required: bool,
}

impl ParameterKind {
    /// Reads `ParamKind`.
    pub fn from_field(kind: &Field<'_, '_>) -> Self {
        let api_version = kind.child("apiVersion").text();
        Self {
            api_version: api_version.into(),
            kind: GroupKind {
                group: GroupVersion::parse(api_version)
                    .map(|version| version.group)
                    .unwrap_or_default(),
                kind: kind.child("kind").text().into(),
            },
        }
    }

    /// Returns the resource whose objects are of this kind, in this version.
    pub fn find<'r>(&self, registry: &'r Registry) -> Option<&'r Arc<Resource>> {
        let serves = |resource: &&Arc<Resource>| {
            let mut versions = resource.versions.iter();
            versions.any(|version| version.api_version == self.api_version)
        };
        registry.kind(&self.kind).filter(serves)
    }

    /// Returns the same resource for policies.
    ///
    /// upstream: k8s.io/apiserver/pkg/admission/plugin/policy/generic#policySource.ensureParamsForPolicyLocked
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn resource<'r>(&self, registry: &'r Registry) -> Result<&'r Arc<Resource>, String> {
        let slash = if self.api_version.contains('/') { "" } else { "/" };
        self.find(registry).ok_or_else(|| {
            format!(
                "failed to find resource referenced by paramKind: '{slash}{}, Kind={}'",
                self.api_version, self.kind.kind
            )
        })
    }
}

impl ParameterReference {
    /// Reads `ParamRef`, which was validated.
    pub fn from_field(reference: &Field<'_, '_>) -> Self {
        let selector = reference.child("selector");
        Self {
            name: reference.child("name").text().into(),
            namespace: reference.child("namespace").text().into(),
            selector: selector.value().map(LabelSelector::from_object),
            required: reference.child("parameterNotFoundAction").text() == "Deny",
        }
    }

    /// Returns the parameters for a write, in the version of `kind`. `None` if there is none and none is required.
    ///
    /// upstream: k8s.io/apiserver/pkg/admission/plugin/policy/generic#CollectParams
    ///
    /// # Errors
    /// If the parameters cannot be determined, or required ones are missing.
    pub(super) fn collect(
        &self,
        kind: &ParameterKind,
        resource: &Resource,
        request: &Request<'_>,
    ) -> Result<Vec<Value>, String> {
        let namespace = self.namespace_for(resource, request)?;
        let (of, lookup) = (resource.group_resource(), request.lookup);
        let mut found = Vec::new();
        match &self.selector {
            None => found.extend(lookup.get(&of, namespace, &self.name)),
            Some(selector) => lookup.list(&of, namespace, &mut |object| {
                if selector.matches(|key| object.str_at(&["metadata", "labels", key])) {
                    found.push(object.clone());
                }
                ControlFlow::Continue(())
            }),
        }
        if found.is_empty() && self.required {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        let in_version = |object: Value| {
            if object.str_at(&["apiVersion"]) == Some(&kind.api_version) {
                return Ok(object);
            }
            let converted = resource.convert(object, &kind.api_version);
            converted.map_err(|error| error.to_string())
        };
        found.into_iter().map(in_version).collect()
    }

    /// upstream: k8s.io/apiserver/pkg/admission/plugin/policy/generic#CollectParams
    fn namespace_for<'a>(&'a self, resource: &Resource, request: &Request<'a>) -> Result<&'a str, String> {
        match (resource.namespaced(), self.namespace.as_str()) {
            (false, "") => Ok(""),
            (false, _) => Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned()),
            (true, "") if request.namespace.is_empty() => {
                Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned())
            }
            (true, "") => Ok(request.namespace),
            (true, namespace) => Ok(namespace),
        }
    }
}
