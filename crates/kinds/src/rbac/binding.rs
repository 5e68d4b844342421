//! RoleBindings and ClusterRoleBindings.

use std::sync::Arc;

use holdfast_authorization::rbac::RuleIndex;
use holdfast_authorization::rbac::rule::rules_of;
use holdfast_gotext::quote::quote;
use holdfast_resource::table::{NamedCell, items};
use holdfast_resource::{Followed, InitialObjects, Rejection, Scope, Strategy, WriteContext};
use holdfast_schema::metadata::formats::{check_key, dns_subdomain};
use holdfast_schema::{AnyRules, Check, Field, FieldError, GroupResource, Part, Rules};
use holdfast_value::{Map, SmolStr, Value};

use super::{GROUP, bootstrap, escalation, place};
use crate::defaults::{change_items, is_zero};
use crate::rules::RoleBindingRule;
use crate::validation::{Errors, report, same};

const SUBJECTS: [&str; 3] = ["ServiceAccount", "User", "Group"];

/// Strategy of RoleBindings or ClusterRoleBindings.
pub(crate) struct Binding {
    pub(crate) scope: Scope,
    pub(crate) policy: Arc<RuleIndex>,
}

impl Strategy for Binding {
    /// upstream: pkg/apis/rbac/v1#SetDefaults_RoleBinding
    /// upstream: pkg/apis/rbac/v1#SetDefaults_ClusterRoleBinding
    fn default_fields(&self, _version: &str, object: &mut Value) {
        if is_zero(object.at(&["roleRef", "apiGroup"])) && object.get("roleRef").is_some() {
            object.set_at(&["roleRef", "apiGroup"], GROUP.into());
        }
        let lacks = |subject: &Value| {
            matches!(subject.str_at(&["kind"]), Some("User" | "Group")) && is_zero(subject.get("apiGroup"))
        };
        change_items(object, "subjects", lacks, |subject| {
            subject.set_at(&["apiGroup"], GROUP.into())
        });
    }

    /// upstream: pkg/registry/rbac/rolebinding/policybased#Storage.Create
    /// upstream: pkg/registry/rbac/clusterrolebinding/policybased#Storage.Create
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        self.check_binding(context, object)
    }

    /// upstream: pkg/registry/rbac/rolebinding/policybased#Storage.Update
    /// upstream: pkg/registry/rbac/clusterrolebinding/policybased#Storage.Update
    fn authorize_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Result<(), Rejection> {
        if escalation::changes_ownership_alone(object, old) {
            return Ok(());
        }
        self.check_binding(context, object)
    }

    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    /// upstream: pkg/apis/rbac/validation#ValidateRoleBindingUpdate
    /// upstream: pkg/apis/rbac/validation#ValidateClusterRoleBindingUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(context, object);
        errors.extend(context.rest_of_metadata(object, old));
        let root = Field::root(object);
        let role = root.child("roleRef");
        if !same(role.value(), old.get("roleRef")) {
            // The reference shows the Go names of the fields.
            let shown: Map = [("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name")]
                .iter()
                .map(|(shown, field)| ((*shown).into(), role.child(field).text().into()))
                .collect();
            errors.push(role.invalid_as(shown, "cannot change roleRef"));
        }
        errors
    }
}

impl Followed for Binding {
    fn observe(&self, old: Option<&Value>, new: Option<&Value>) {
        if let Some(binding) = new.or(old) {
            let (namespace, name) = place(binding);
            self.policy.set_binding(namespace, name, new);
        }
    }
}

impl InitialObjects for Binding {
    fn initial_objects(&self) -> Vec<Value> {
        bootstrap::bindings(self.scope == Scope::Cluster)
    }

    fn reconcile(&self, stored: &Value, initial: &Value) -> Option<Value> {
        bootstrap::reconcile_binding(stored, initial)
    }
}

impl<'v> Rules<'v> for Binding {
    type Rule = RoleBindingRule;

    fn rule(&self, rule: RoleBindingRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            RoleBindingRule::Role => self.validate_role(part, &mut check.errors),
            RoleBindingRule::Subject => self.validate_subject(part, &mut check.errors),
        }
    }
}

impl Binding {
    /// Requires that the user holds all permissions of the bound role, or may bind it.
    ///
    /// upstream: pkg/registry/rbac/rolebinding/policybased#Storage.Create
    /// upstream: pkg/registry/rbac/clusterrolebinding/policybased#Storage.Create
    fn check_binding(&self, context: &WriteContext<'_>, object: &Value) -> Result<(), Rejection> {
        let root = Field::root(object);
        let role = root.child("roleRef");
        if escalation::may_do_everything(context) {
            return Ok(());
        }
        let (kind, name) = (role.child("kind").text(), role.child("name").text());
        let resource = match kind {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            other => {
                let why = format!("unsupported role reference kind: {}", quote(other));
                return Err(Rejection::Failed(why));
            }
        };
        let namespace = if kind == "Role" { context.namespace } else { "" };
        if escalation::is_exempt(context, "bind", role.child("apiGroup").text(), resource, name) {
            return Ok(());
        }
        check_key(kind == "Role", namespace, name).map_err(Rejection::BadRequest)?;
        let named = |resource: &'static str| GroupResource {
            group: SmolStr::new_static(GROUP),
            resource: SmolStr::new_static(resource),
        };
        let Some(role) = context.lookup.get(&named(resource), namespace, name) else {
            // The reference names the resource of the binding here.
            let resource = match self.scope {
                Scope::Cluster => "clusterrolebindings",
                Scope::Namespaced => "rolebindings",
            };
            return Err(Rejection::NotFound {
                resource: named(resource),
                name: name.to_owned(),
            });
        };
        escalation::check(context, &rules_of(&role))
    }

    /// Validates the role reference without its name.
    ///
    /// upstream: pkg/apis/rbac/validation#ValidateRoleBinding
    /// upstream: pkg/apis/rbac/validation#ValidateClusterRoleBinding
    fn validate_role(&self, role: &Field<'_, '_>, errors: &mut Errors) {
        let (group, kind) = (role.child("apiGroup"), role.child("kind"));
        if group.text() != GROUP {
            errors.push(group.not_supported(&[GROUP]));
        }
        let kinds: &[&str] = match self.scope {
            Scope::Namespaced => &["Role", "ClusterRole"],
            Scope::Cluster => &["ClusterRole"],
        };
        if !kinds.contains(&kind.text()) {
            errors.push(kind.not_supported(kinds));
        }
    }

    /// Validates a subject, except for its name.
    ///
    /// upstream: pkg/apis/rbac/validation#ValidateRoleBindingSubject
    fn validate_subject(&self, subject: &Field<'_, '_>, errors: &mut Errors) {
        let (kind, name) = (subject.child("kind"), subject.child("name"));
        let (group, namespace) = (subject.child("apiGroup"), subject.child("namespace"));
        match kind.text() {
            "ServiceAccount" => {
                if !name.text().is_empty() {
                    report(&name, dns_subdomain(name.text()), errors);
                }
                if !group.text().is_empty() {
                    errors.push(group.not_supported(&[""]));
                }
                if self.scope == Scope::Cluster && namespace.text().is_empty() {
                    errors.push(namespace.required(""));
                }
            }
            "User" | "Group" => {
                if group.text() != GROUP {
                    errors.push(group.not_supported(&[GROUP]));
                }
            }
            _ => errors.push(kind.not_supported(&SUBJECTS)),
        }
    }
}

/// Table cells that are not just the value at a path.
pub(super) const CELLS: &[NamedCell] = &[
    ("subject-groups", |object, _| subjects(object, "Group", ", ")),
    ("subject-service-accounts", |object, _| {
        subjects(object, "ServiceAccount", ", ")
    }),
    ("subject-users", |object, _| subjects(object, "User", ", ")),
];

/// Returns the subjects of one kind in a binding, with namespaces for service accounts.
fn subjects(binding: &Value, kind: &str, separator: &str) -> Value {
    let subjects = items(binding, &["subjects"]).iter();
    let names = subjects
        .filter(|subject| subject.str_at(&["kind"]) == Some(kind))
        .map(|subject| {
            let text = |field| subject.str_at(&[field]).unwrap_or_default();
            match kind {
                "ServiceAccount" => format!("{}/{}", text("namespace"), text("name")),
                _ => text("name").to_owned(),
            }
        });
    names.collect::<Vec<_>>().join(separator).into()
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    const BINDING: &str = "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b}, \
                           roleRef: {kind: Role, name: r}, subjects: [{kind: User, name: ann}]}";

    #[test]
    fn users_and_roles_are_of_the_group() {
        let read = Harness::new().read(BINDING);
        assert_eq!(at(&read, "roleRef.apiGroup"), r#""rbac.authorization.k8s.io""#);
        assert_eq!(at(&read, "subjects.0.apiGroup"), r#""rbac.authorization.k8s.io""#);
        let account = Harness::new().read(&BINDING.replace("kind: User", "kind: ServiceAccount"));
        assert_eq!(at(&account, "subjects.0.apiGroup"), "nothing");
    }

    #[test]
    fn service_account_with_empty_namespace_shows_the_slash() {
        let binding = Harness::new().read(&BINDING.replace("kind: User", "kind: ServiceAccount"));
        assert_eq!(super::subjects(&binding, "ServiceAccount", ", "), "/ann".into());
    }

    #[test]
    fn the_role_stays() {
        assert_eq!(
            Harness::new().update_errors(BINDING, &BINDING.replace("name: r}", "name: other}")),
            [
                r#"roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"other"}: cannot change roleRef"#
            ]
        );
    }

    #[test]
    fn binding_errors_precede_errors_of_its_change() {
        let wrong = BINDING
            .replace("name: b}", "name: b, labels: {a: '-'}}")
            .replace("name: r}", "name: ..}");
        let errors = Harness::new().update_errors(BINDING, &wrong);
        let fields: Vec<&str> = errors.iter().filter_map(|error| error.split(": ").next()).collect();
        let (label, role) = ("metadata.labels", "roleRef.name");
        // The common checks validate metadata twice.
        assert_eq!(fields, [label, label, label, role, label, "roleRef"]);
    }

    #[test]
    fn cluster_roles_are_bound_to_accounts_with_namespaces() {
        let cluster = BINDING
            .replace("RoleBinding", "ClusterRoleBinding")
            .replace("kind: User", "kind: ServiceAccount");
        assert_eq!(
            Harness::new().errors(&cluster),
            [
                r#"roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole""#,
                "subjects[0].namespace: Required value",
            ]
        );
    }
}
