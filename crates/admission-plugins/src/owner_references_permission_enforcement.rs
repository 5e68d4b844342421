use std::collections::HashMap;

use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget};
use holdfast_resource::table::items;
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::{GroupKind, GroupVersion};
use holdfast_value::Value;

/// Plugin that requires the right to delete an object to change its owners, and the right to update the finalizers of
/// an owner to block the owner's deletion:
/// <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#ownerreferencespermissionenforcement>.
pub(super) struct OwnerReferencesPermissionEnforcement;

impl AdmissionPlugin for OwnerReferencesPermissionEnforcement {
    fn name(&self) -> &'static str {
        "OwnerReferencesPermissionEnforcement"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Create, Operation::Update])
    }

    fn on_by_default(&self) -> bool {
        false
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[Interest {
                operations: &[Operation::Create, Operation::Update],
                ..Interest::EVERYTHING
            }]
        }
    }

    /// upstream: plugin/pkg/admission/gc#gcPermissionsEnforcement.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        // Nodes write the status of Pods, but may not delete Pods of others.
        let of_status = context.resource.group.is_empty()
            && context.resource.plural == "pods"
            && context.subresource == Some("status");
        let (new, before) = (owners(object), owners(old));
        if of_status || new == before {
            return Ok(());
        }
        if context.operation != Operation::Create {
            check_may_delete(context)?;
        }
        let held_up = newly_held_up(new, before);
        if held_up.is_empty() || may(context, &EVERY_FINALIZER).is_ok() {
            return Ok(());
        }
        held_up
            .into_iter()
            .try_for_each(|owner| check_may_hold_up(context, owner))
    }
}

/// Permission to block the deletion of any owner.
const EVERY_FINALIZER: Attributes<'static> = Attributes {
    verb: "update",
    target: AccessTarget::Resource(ResourceTarget {
        group: "*",
        version: "*",
        resource: "*",
        subresource: "finalizers",
        namespace: "",
        name: "*",
        field_selector: &[],
        label_selector: "",
    }),
};

fn owners(object: Option<&Value>) -> &[Value] {
    object.map_or(&[], |object| items(object, &["metadata", "ownerReferences"]))
}

fn is_blocking(owner: &Value) -> bool {
    owner.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true)
}

/// Returns the owners whose deletion the write newly blocks.
fn newly_held_up<'v>(new: &'v [Value], before: &[Value]) -> Vec<&'v Value> {
    // Among references with the same uid, the last one counts.
    let before: HashMap<&str, bool> = before
        .iter()
        .map(|owner| (owner.str_at(&["uid"]).unwrap_or_default(), is_blocking(owner)))
        .collect();
    let blocked = |owner: &Value| before.get(owner.str_at(&["uid"]).unwrap_or_default()) == Some(&true);
    new.iter()
        .filter(|owner| is_blocking(owner) && !blocked(owner))
        .collect()
}

/// Checks a permission. The error has the reason of the authorizer and `<nil>` for the reference's error value.
fn may(context: &WriteContext<'_>, attributes: &Attributes<'_>) -> Result<(), String> {
    let answer = context.access.authorizer.authorize(context.user, attributes);
    match answer.allows() {
        true => Ok(()),
        false => Err(format!("{}, <nil>", answer.reason())),
    }
}

/// upstream: plugin/pkg/admission/gc#gcPermissionsEnforcement.Validate
fn check_may_delete(context: &WriteContext<'_>) -> Result<(), Rejection> {
    let attributes = Attributes {
        verb: "delete",
        target: AccessTarget::Resource(ResourceTarget {
            group: &context.resource.group,
            version: context.api_version.rsplit('/').next().unwrap_or_default(),
            resource: &context.resource.plural,
            subresource: context.subresource.unwrap_or_default(),
            namespace: context.namespace,
            name: context.name,
            field_selector: &[],
            label_selector: "",
        }),
    };
    may(context, &attributes)
        .map_err(|why| Rejection::forbidden(format!("cannot set an ownerRef on a resource you can't delete: {why}")))
}

/// upstream: plugin/pkg/admission/gc#gcPermissionsEnforcement.Validate
fn check_may_hold_up(context: &WriteContext<'_>, owner: &Value) -> Result<(), Rejection> {
    let text = |field: &str| owner.str_at(&[field]).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let unknown = |why: String| {
        Rejection::forbidden(format!(
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} Kind {kind}: \
             {why}"
        ))
    };
    let parsed = GroupVersion::parse(api_version)
        .ok_or_else(|| unknown(format!("unexpected GroupVersion string: {api_version}")))?;
    let resource = context
        .lookup
        .resource_of(&GroupKind {
            group: parsed.group.clone(),
            kind: kind.into(),
        })
        .filter(|resource| resource.version(&parsed.version).is_some())
        .ok_or_else(|| unknown(format!("no matches for kind {kind:?} in version {api_version:?}")))?;
    let attributes = Attributes {
        verb: "update",
        target: AccessTarget::Resource(ResourceTarget {
            group: &resource.group,
            version: &parsed.version,
            resource: &resource.plural,
            subresource: "finalizers",
            namespace: if resource.namespaced() { context.namespace } else { "" },
            name: text("name"),
            field_selector: &[],
            label_selector: "",
        }),
    };
    may(context, &attributes).map_err(|why| {
        Rejection::forbidden(format!(
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: {why}"
        ))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::harness::Harness;

    const PLUGIN: &str = "OwnerReferencesPermissionEnforcement";

    fn config(owners: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c, namespace: default, ownerReferences: [{owners}]}}}}"
        )
    }

    fn owner(version: &str, kind: &str, blocks: bool) -> String {
        format!("{{apiVersion: {version}, kind: {kind}, name: o, uid: u, blockOwnerDeletion: {blocks}}}")
    }

    fn update(rights: &[&str], from: &str, to: &str) -> Result<(), String> {
        Harness::new()
            .allowing(rights)
            .admit_update(PLUGIN, None, &config(from), &config(to))
    }

    #[test]
    fn changing_owners_requires_delete() {
        let plain = owner("v1", "Pod", false);
        assert_eq!(
            update(&[], "", &plain).unwrap_err(),
            "cannot set an ownerRef on a resource you can't delete: , <nil>"
        );
        assert_eq!(update(&["delete configmaps/"], "", &plain), Ok(()));
        assert_eq!(update(&[], &plain, &plain), Ok(()));
        assert!(update(&[], &plain, "").is_err());
        let new = Harness::new().allowing(&[]).admit(PLUGIN, &config(&plain));
        assert!(new.is_ok(), "who makes an object says whose it is");
    }

    #[test]
    fn blocking_owner_deletion_requires_finalizer_update() {
        let create =
            |rights: &[&str], owners: &str| Harness::new().allowing(rights).admit(PLUGIN, &config(owners)).map(drop);
        let blocks = owner("apps/v1", "Deployment", true);
        assert_eq!(
            create(&["update pods/finalizers"], &blocks).unwrap_err(),
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>"
        );
        assert_eq!(create(&["update deployments/finalizers"], &blocks), Ok(()));
        assert_eq!(create(&["update */finalizers"], &blocks), Ok(()));
        assert_eq!(
            create(&[], &owner("apps/v9", "Deployment", true)).unwrap_err(),
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion apps/v9 Kind Deployment: \
             no matches for kind \"Deployment\" in version \"apps/v9\""
        );
        let delete = ["delete configmaps/"];
        let other = blocks.replace("name: o", "name: p");
        assert_eq!(update(&delete, &blocks, &other), Ok(()), "it was held up before");
        assert!(update(&delete, &blocks.replace("true", "false"), &blocks).is_err());
    }

    #[test]
    fn statuses_of_pods_are_not_checked() {
        let pod = |owners: &str| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: p, ownerReferences: [{owners}]}}, spec: {{containers: [{{name: c, \
                 image: i}}]}}}}"
            )
        };
        let (from, to) = (pod(""), pod(&owner("v1", "Node", true)));
        let update = |subresource| {
            Harness::new()
                .allowing(&[])
                .admit_update(PLUGIN, subresource, &from, &to)
        };
        assert_eq!(update(Some("status")), Ok(()));
        assert!(update(None).is_err());
    }
}
