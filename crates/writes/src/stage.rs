//! One run of a write over one state of the other objects: shared parts of its steps. The runs themselves are in
//! `create.rs`, `update.rs`, `delete.rs`, `answer.rs` and `connect.rs`.

use std::time::SystemTime;

use holdfast_gotext::number::parse_uint;
use holdfast_resource::{Encoding, Operation, Rejection, Resource, WriteContext, WriteRun, convert};
use holdfast_schema::{FieldError, FieldPath, GroupKind, GroupVersion, KindType, Parts, StoredFacts};
use holdfast_value::{SmolStr, Value};

use crate::attributes::{Attributes, Options};
use crate::call::Call;
use crate::environment::Environment;
use crate::error::{Error, ErrorKind};
use crate::metadata;
use crate::staged::StoredObject;
use crate::target::Target;

/// One run of a write.
pub struct Stage<'a> {
    pub(crate) environment: Environment<'a>,
    pub(crate) target: &'a Target,
}

impl<'a> Stage<'a> {
    /// Creates a run of a write to `target`.
    pub fn new(environment: Environment<'a>, target: &'a Target) -> Self {
        Self { environment, target }
    }

    /// Returns the type of the bodies of the target.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`](crate::ErrorKind::Internal) if there is none.
    pub(crate) fn kind_type(&self) -> Result<&'a dyn KindType, Error> {
        let body = &self.target.body;
        let missing = || Error::internal(format!("{} in {} has no type", body.kind, body.api_version));
        body.kind_type.as_deref().ok_or_else(missing)
    }

    /// Returns the resource that is written.
    pub fn resource(&self) -> &'a Resource {
        &self.target.resource
    }

    /// Returns the context of the steps of this run.
    pub fn call<'b>(&'b self, operation: Operation, name: &'b str) -> Call<'b> {
        Call::new(WriteContext {
            operation,
            subresource: Some(self.target.subresource.as_str()).filter(|name| !name.is_empty()),
            namespace: &self.target.namespace,
            name,
            api_version: &self.target.api_version,
            user: &self.target.writer.user,
            access: self.environment.access(),
            patches: self.target.request.patches,
            dry_run: self.target.request.dry_run,
            run: self,
            resource: &self.target.resource,
            kinds: self.environment.field_managers().types(),
            types: self.environment.field_managers().types().table(),
            provenance: self.target.body.provenance(),
            parts: self.parts(),
            raw_rewritten: false,
            lookup: self.environment.lookup(),
            audit: self.target.audit(),
            outcome: Default::default(),
            beside: Default::default(),
        })
    }

    /// Returns the parts with known properties, for objects that are validated in their stored form.
    fn parts(&self) -> Parts<'a> {
        match self.checks_as_sent() {
            true => Parts::default(),
            false => Parts::at(&self.target.resource.capabilities.parts),
        }
    }

    /// Returns the facts about `updated` that this run found and that hold once it is stored.
    pub(crate) fn facts_of_stored(&self, call: &Call<'_>, updated: &Value) -> StoredFacts {
        let facts = call.parts.of_stored(updated);
        match self.stores_form_of_type() {
            true => facts.in_form_of_type(),
            false => facts,
        }
    }

    /// Returns true if the stored object has the form of the target's type: it is neither converted nor of another
    /// kind.
    fn stores_form_of_type(&self) -> bool {
        let (resource, body) = (self.resource(), &self.target.body);
        let storage = resource.storage.as_ref();
        !resource.conventions.form_changes
            && body.kind == resource.kind
            && storage.is_some_and(|storage| storage.api_version == body.api_version)
    }

    /// Returns the admission attributes of a creation or an update.
    pub(crate) fn attributes<'b>(&'b self, operation: &'static str, name: &'b str) -> Attributes<'b> {
        let kind = if operation == "CREATE" {
            "CreateOptions"
        } else {
            "UpdateOptions"
        };
        Attributes::new(operation, name, Options::Write(&self.target.request.options, kind))
    }

    /// Returns the error for a client whose write is rejected by a kind or a plugin.
    pub fn rejection(&self, rejection: Rejection, name: &str) -> Error {
        let resource = self.resource();
        ErrorKind::Rejection {
            rejection,
            resource: resource.group_resource(),
            kind: resource.stored_kind(),
            name: name.to_owned(),
        }
        .into()
    }

    /// Returns the error for a client whose request is rejected by a kind that is answered and not stored. For an
    /// invalid object, it names the kind `named` rather than that of the object.
    pub fn rejection_of_answer(&self, rejection: Rejection, named: Option<&'static str>) -> Error {
        let (resource, body) = (self.resource(), &self.target.body.kind);
        let group = GroupVersion::parse(&self.target.body.api_version).map(|version| version.group);
        let kind = GroupKind {
            group: group.unwrap_or_default(),
            kind: named.map_or_else(|| body.clone(), SmolStr::new_static),
        };
        ErrorKind::Rejection {
            rejection,
            resource: resource.group_resource(),
            kind,
            name: self.target.name.to_string(),
        }
        .into()
    }

    /// Rejects an object of another kind than that of the CRD before all other errors, with an error about that kind.
    /// Built-in objects have their kind once they are decoded.
    pub(crate) fn refuse_unidentified(&self, name: &str, object: &Value) -> Result<(), Error> {
        let resource = self.resource();
        let found = object.str_at(&["kind"]).unwrap_or_default();
        if !resource.conventions.states_identity || found == resource.kind {
            return Ok(());
        }
        let why = format!("must be {}", resource.kind);
        let errors = vec![FieldError::invalid(&FieldPath::new("kind"), found, why)];
        let kind = GroupKind {
            kind: object.str_at(&["kind"]).map(SmolStr::new).unwrap_or_default(),
            ..self.resource().stored_kind()
        };
        Err(Error::invalid(&kind, name, errors))
    }

    pub(crate) fn refuse_invalid(&self, name: &str, errors: Vec<FieldError>) -> Result<(), Error> {
        if errors.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(&self.resource().stored_kind(), name, errors))
    }

    /// Returns true if objects are validated in the requested version and converted to the storage version after that.
    /// If false, they are validated in the storage version.
    pub(crate) fn checks_as_sent(&self) -> bool {
        self.resource().conventions.checked_as_sent
    }

    /// Converts an updated object from the requested version to the version in which it is validated.
    pub(crate) async fn to_be_checked(&self, updated: Value) -> Result<Value, Error> {
        match self.checks_as_sent() {
            true => Ok(updated),
            false => self.to_storage_version(updated).await,
        }
    }

    /// Converts a validated object to its storage version, as the store will return it: most built-in kinds are stored
    /// in protobuf, which has no empty lists. Dry runs of the reference do the same.
    pub(crate) async fn to_be_stored(&self, updated: Value) -> Result<Value, Error> {
        let stored = match self.checks_as_sent() {
            true => self.to_storage_version(updated).await?,
            false => updated,
        };
        let resource = self.resource();
        let storage = resource.storage.as_ref();
        let protobuf = storage.filter(|storage| storage.at_rest.encoding == Encoding::Protobuf);
        let kind_type = protobuf.and_then(|storage| resource.kind_type(&storage.api_version));
        let without = kind_type.and_then(|of| of.without_empty_lists(&stored));
        Ok(without.unwrap_or(stored))
    }

    async fn to_storage_version(&self, object: Value) -> Result<Value, Error> {
        let (resource, callers) = (self.resource(), self.environment.callers());
        let other = resource
            .storage
            .as_ref()
            .filter(|storage| storage.api_version != self.target.api_version);
        match other {
            Some(storage) => Ok(convert::convert_written(callers, resource, object, &storage.api_version).await?),
            None => Ok(object),
        }
    }

    /// Returns the existing object in the version in which objects are validated.
    pub(crate) fn checked_version<'v>(&self, stored: &'v StoredObject, requested: &'v Value) -> &'v Value {
        match self.checks_as_sent() {
            true => requested,
            false => &stored.object,
        }
    }

    /// Converts the existing object to the requested version, as clients see it.
    pub(crate) async fn requested(&self, stored: &StoredObject) -> Result<Value, Error> {
        if stored.provenance.is_in_requested_form() {
            return Ok(stored.object.clone());
        }
        let (callers, version) = (self.environment.callers(), &self.target.api_version);
        Ok(convert::to_requested(callers, self.resource(), stored.object.clone(), version).await?)
    }

    /// Returns the existing object in the current form of its version. It stays in that version, which may be an older
    /// storage version, so that this calls no webhook.
    pub(crate) fn in_current_form(&self, stored: &StoredObject) -> Value {
        if !self.resource().conventions.form_changes {
            return stored.object.clone();
        }
        convert::in_current_form(self.resource(), stored.object.clone()).unwrap_or_else(|_| stored.object.clone())
    }
}

impl WriteRun for Stage<'_> {
    fn now(&self) -> SystemTime {
        self.environment.now(self.target)
    }

    fn record_shared_state(&self) {
        self.environment.record_shared_state();
    }
}

/// Checks that `object` is the one that the address names, and fills in the namespace.
///
/// upstream: k8s.io/apiserver/pkg/endpoints/handlers#checkName
///
/// # Errors
/// [`ErrorKind::BadRequest`](crate::ErrorKind::BadRequest).
pub fn check_place(object: &mut Value, name: &str, namespace: &str) -> Result<(), Error> {
    check_namespace(object, namespace)?;
    match metadata::name(object) {
        "" => Err(nameless(name)),
        other if other != name => Err(Error::bad_request(format!(
            "the name of the object ({other}) does not match the name on the URL ({name})"
        ))),
        _ => Ok(()),
    }
}

/// Returns the error for an object without a name at the path of `name`.
pub(crate) fn nameless(name: &str) -> Error {
    Error::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// Parses the resource version of `object`; 0 if it has none.
///
/// # Errors
/// [`ErrorKind::Unclassified`](crate::ErrorKind::Unclassified) if it is not a number.
pub(crate) fn version_number(object: &Value) -> Result<u64, Error> {
    let version = object.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
    if version.is_empty() {
        return Ok(0);
    }
    parse_uint(version).map_err(Error::unclassified)
}

/// Checks that a new object has no resource version. Ignores one that is not a number.
///
/// upstream: k8s.io/apiserver/pkg/storage/etcd3#store.Create
///
/// # Errors
/// [`ErrorKind::Unclassified`](crate::ErrorKind::Unclassified) if it has one.
pub fn check_has_no_version(object: &Value) -> Result<(), Error> {
    let version = object.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
    let is_number = version.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = is_number && version.parse::<u64>().is_ok_and(|version| version != 0);
    if is_version {
        return Err(Error::unclassified(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    Ok(())
}

/// Checks that `object` is in the namespace of the request path, if it has one.
///
/// upstream: k8s.io/apiserver/pkg/registry/rest#EnsureObjectNamespaceMatchesRequestNamespace
///
/// # Errors
/// [`ErrorKind::BadRequest`](crate::ErrorKind::BadRequest) if it is in another one.
pub fn check_namespace(object: &mut Value, namespace: &str) -> Result<(), Error> {
    let found = object.str_at(&["metadata", "namespace"]).unwrap_or_default();
    if !found.is_empty() && !namespace.is_empty() && found != namespace {
        return Err(Error::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    metadata::set_namespace(object, namespace);
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    fn object(metadata: &str) -> Value {
        yaml::parse(format!("metadata: {{{metadata}}}").as_bytes(), &Limits::TRUSTED).unwrap()
    }

    fn why(result: Result<impl Sized, Error>) -> String {
        match result.map(drop).map_err(|error| error.into_parts().0) {
            Err(ErrorKind::BadRequest(why) | ErrorKind::Unclassified(why)) => why,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn an_object_is_the_one_that_the_address_names() {
        let mut fine = object("name: a");
        assert!(check_place(&mut fine, "a", "n").is_ok());
        assert_eq!(fine.str_at(&["metadata", "namespace"]), Some("n"), "it is filled in");
        assert_eq!(
            why(check_place(&mut object(""), "a", "n")),
            "the name of the object (a based on URL) was undeterminable: name must be provided"
        );
        assert_eq!(
            why(check_place(&mut object("name: b"), "a", "n")),
            "the name of the object (b) does not match the name on the URL (a)"
        );
        assert_eq!(
            why(check_place(&mut object("name: a, namespace: m"), "a", "n")),
            "the namespace of the provided object does not match the namespace sent on the request"
        );
        let mut of_cluster = object("name: a, namespace: m");
        assert!(check_place(&mut of_cluster, "a", "").is_ok());
        assert!(of_cluster.at(&["metadata", "namespace"]).is_none());
    }

    #[test]
    fn a_new_object_has_no_version_that_is_one() {
        for version in ["", "0", "x", "-1"] {
            assert!(
                check_has_no_version(&object(&format!("resourceVersion: '{version}'"))).is_ok(),
                "{version}"
            );
        }
        assert_eq!(
            why(check_has_no_version(&object("resourceVersion: '7'"))),
            "resourceVersion should not be set on objects to be created"
        );
    }

    #[test]
    fn a_version_is_a_number_of_64_bits() {
        let number = |version: &str| version_number(&object(&format!("resourceVersion: '{version}'")));
        assert_eq!(number("7").ok(), Some(7));
        assert_eq!(number("").ok(), Some(0));
        assert_eq!(why(number("+7")), "strconv.ParseUint: parsing \"+7\": invalid syntax");
        assert_eq!(
            why(number("18446744073709551616")),
            "strconv.ParseUint: parsing \"18446744073709551616\": value out of range"
        );
    }
}
