//! A write as policies match it, and the values of their expressions' variables.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use holdfast_authorization::{Authorizer, User};
use holdfast_cel::{Activation, CelValue, ResourceSubject};
use holdfast_resource::selector::LabelSelector;
use holdfast_resource::{Lookup, Registry, Resource};
use holdfast_schema::{GroupVersion, GroupVersionKind};
use holdfast_value::{Map, SmolStr, Value};

use super::Needs;
use super::authorizer::ExpressionAuthorizer;
use super::environment::{AUTHORIZER, NAMESPACE_OBJECT, OBJECT, OLD_OBJECT, PARAMS, REQUEST, REQUEST_RESOURCE};
use crate::webhooks::matching::{Attributes, Invocation};
use crate::webhooks::review::Review;

/// A write.
#[derive(Clone)]
pub struct Request<'a> {
    /// Served resources.
    pub registry: &'a Registry,
    /// Resource of the write.
    pub resource: &'a Resource,
    /// Group and version of the address.
    pub version: GroupVersion,
    /// Kind of the request body.
    pub kind: GroupVersionKind,
    /// Subresource; empty for the object itself.
    pub subresource: &'a str,
    /// Namespace; for namespaces their own name. Empty for other cluster-scoped resources.
    pub namespace: &'a str,
    /// Name of the object; may be empty for a creation.
    pub name: &'a str,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: &'static str,
    /// Old object.
    pub old: Option<&'a Value>,
    /// User who makes the request.
    pub user: &'a Arc<User>,
    /// Authorizer for the checks of expressions.
    pub authorizer: &'a Arc<dyn Authorizer>,
    /// Options of the write.
    pub options: &'a Value,
    /// True if nothing is stored.
    pub dry_run: bool,
    /// Lookup of other objects.
    pub lookup: &'a dyn Lookup,
}

impl Request<'_> {
    pub(super) fn attributes(&self) -> Attributes<'_> {
        Attributes {
            operation: self.operation,
            group: &self.resource.group,
            version: &self.version.version,
            resource: &self.resource.plural,
            subresource: self.subresource,
            namespace: self.namespace,
            is_namespace: self.is_of_namespace(),
        }
    }

    fn is_of_namespace(&self) -> bool {
        self.resource.capabilities.is_namespace
    }
}

/// Evaluation of a write by policies: values that several policies use are computed once.
pub(super) struct Scene<'a> {
    pub(super) request: &'a Request<'a>,
    namespace: OnceCell<Option<Value>>,
    shown: OnceCell<CelValue>,
    asking: OnceCell<Arc<ExpressionAuthorizer>>,
    described: RefCell<Option<(Invocation, CelValue)>>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(request: &'a Request<'a>) -> Self {
        Self {
            request,
            namespace: OnceCell::new(),
            shown: OnceCell::new(),
            asking: OnceCell::new(),
            described: RefCell::default(),
        }
    }

    /// Returns the write unchanged, in the version of the address.
    pub(super) fn invocation(&self) -> Invocation {
        let (request, attributes) = (self.request, self.request.attributes());
        Invocation {
            resource: attributes.resource.into(),
            group: attributes.group.into(),
            version: attributes.version.into(),
            kind: request.kind.clone(),
        }
    }

    fn namespace(&self) -> Option<&Value> {
        let namespace = self.namespace.get_or_init(|| {
            let namespaces = self.request.registry.namespaces()?.group_resource();
            self.request.lookup.get(&namespaces, "", self.request.namespace)
        });
        namespace.as_ref()
    }

    /// Returns true if a selector matches the labels of the namespace of the write. It matches all cluster-scoped
    /// resources.
    pub(super) fn is_in_namespaces(&self, selector: &LabelSelector, object: Option<&Value>) -> Result<bool, String> {
        let request = self.request;
        if selector.is_empty() || request.namespace.is_empty() {
            return Ok(true);
        }
        let matches = |namespace: &Value| selector.matches(|key| namespace.str_at(&["metadata", "labels", key]));
        if let Some(object) = object.filter(|_| request.is_of_namespace() && request.subresource.is_empty()) {
            return Ok(matches(object));
        }
        let missing = || format!("namespaces {:?} not found", request.namespace);
        self.namespace().map(matches).ok_or_else(missing)
    }

    /// Returns the variables for expressions with these needs: `object` is the current object, in the version of
    /// `invocation`.
    pub(super) fn activation(
        &self,
        blank: &Activation,
        needs: Needs,
        invocation: &Invocation,
        object: Option<&Value>,
        parameter: Option<&Value>,
    ) -> Result<Activation, String> {
        let mut activation = blank.clone();
        let value = |object: Option<&Value>| {
            let object = object.map(|object| self.in_version(object, invocation)).transpose()?;
            Ok::<_, String>(object.as_ref().map_or(CelValue::Null, CelValue::untyped))
        };
        activation.set(OBJECT, value(object)?);
        activation.set(OLD_OBJECT, value(self.request.old)?);
        activation.set(PARAMS, parameter.map_or(CelValue::Null, CelValue::untyped));
        if needs.request {
            activation.set(REQUEST, self.described(invocation));
        }
        if needs.namespace {
            activation.set(NAMESPACE_OBJECT, self.namespace_object());
        }
        if needs.authorizer {
            let asking = self.asking();
            activation.set(AUTHORIZER, CelValue::authorizer(asking.clone()));
            activation.set(REQUEST_RESOURCE, CelValue::resource_check(asking, self.subject()));
        }
        Ok(activation)
    }

    fn in_version(&self, object: &Value, invocation: &Invocation) -> Result<Value, String> {
        in_version(self.request.resource, object, &invocation.kind.group_version)
    }

    fn described(&self, invocation: &Invocation) -> CelValue {
        let mut described = self.described.borrow_mut();
        if let Some((of, value)) = described.as_ref()
            && of == invocation
        {
            return value.clone();
        }
        let request = self.request;
        let review = Review {
            uid: "",
            invocation,
            request_kind: &request.kind,
            request_version: &request.version,
            request_resource: &request.resource.plural,
            subresource: request.subresource,
            name: request.name,
            namespace: request.namespace,
            operation: request.operation,
            user: request.user,
            object: None,
            old_object: None,
            dry_run: request.dry_run,
            options: request.options,
        };
        let value = CelValue::untyped(&Value::Map(review.described()));
        *described = Some((invocation.clone(), value.clone()));
        value
    }

    /// A namespace has no namespace.
    fn namespace_object(&self) -> CelValue {
        let shown = self.shown.get_or_init(|| {
            if self.request.namespace.is_empty() || self.request.is_of_namespace() {
                return CelValue::Null;
            }
            self.namespace()
                .map_or(CelValue::Null, |namespace| CelValue::untyped(&shown(namespace)))
        });
        shown.clone()
    }

    fn asking(&self) -> Arc<ExpressionAuthorizer> {
        let (authorizer, user) = (self.request.authorizer, self.request.user);
        let asking = self
            .asking
            .get_or_init(|| Arc::new(ExpressionAuthorizer::new(Arc::clone(authorizer), Arc::clone(user))));
        Arc::clone(asking)
    }

    fn subject(&self) -> ResourceSubject {
        let request = self.request;
        ResourceSubject {
            group: request.resource.group.clone(),
            resource: request.resource.plural.clone(),
            subresource: request.subresource.into(),
            namespace: request.namespace.into(),
            name: request.name.into(),
            ..ResourceSubject::default()
        }
    }
}

/// Converts `object` to another version of its resource.
pub(super) fn in_version(resource: &Resource, object: &Value, version: &GroupVersion) -> Result<Value, String> {
    let wanted = version.api_version();
    let own = object.str_at(&["apiVersion"]);
    // The bodies of subresources with their own kind have only one version.
    if own == Some(&wanted) || object.str_at(&["kind"]) != Some(&resource.kind) {
        return Ok(object.clone());
    }
    let converted = resource.convert(object.clone(), &wanted);
    converted.map_err(|error| format!("failed to convert object version: {error}"))
}

/// Returns the part of a namespace that expressions can use.
fn shown(namespace: &Value) -> Value {
    const METADATA: [&str; 12] = [
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "name",
        "namespace",
        "resourceVersion",
        "uid",
    ];
    let metadata = METADATA.into_iter().filter_map(|field| {
        let value = namespace.at(&["metadata", field])?;
        Some((SmolStr::new_static(field), value.clone()))
    });
    let mut shown = Map::new();
    shown.insert("metadata", Value::Map(Map::from_sorted(metadata.collect())));
    for field in ["spec", "status"] {
        if let Some(value) = namespace.get(field) {
            shown.insert(field, value.clone());
        }
    }
    Value::Map(shown)
}
