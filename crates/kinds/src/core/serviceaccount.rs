//! ServiceAccounts: <https://kubernetes.io/docs/concepts/security/service-accounts/>.

use holdfast_kind_tables::Kind;
use holdfast_resource::{Rejection, Strategy, WriteContext};
use holdfast_value::Value;

use crate::config::Config;
use crate::defaults::change_items;
use crate::kind::kind;

const MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// Rules of ServiceAccounts only.
pub(crate) struct ServiceAccount;

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(ServiceAccount)
        .review(
            "token",
            super::token_request::TokenRequest {
                features: config.features,
            },
        )
        .ends_tokens("serviceaccount", "service account")
        .done()
}

impl Strategy for ServiceAccount {
    /// upstream: pkg/registry/core/serviceaccount#strategy.PrepareForCreate
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        keep_names_of_secrets(object);
        Ok(())
    }

    /// upstream: pkg/registry/core/serviceaccount#strategy.PrepareForUpdate
    fn prepare_for_update(
        &self,
        _context: &WriteContext<'_>,
        object: &mut Value,
        _old: &Value,
    ) -> Result<(), Rejection> {
        keep_names_of_secrets(object);
        Ok(())
    }

    /// upstream: pkg/registry/core/serviceaccount#strategy.WarningsOnCreate
    /// upstream: pkg/registry/core/serviceaccount#strategy.WarningsOnUpdate
    fn warnings(&self, _context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        let annotation = |object: &Value| object.at(&["metadata", "annotations", MOUNTABLE_SECRETS]).is_some();
        if annotation(object) && !old.is_some_and(annotation) {
            return vec![format!(
                "metadata.annotations[{MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to isolate \
                 access to mounted secrets"
            )];
        }
        Vec::new()
    }
}

/// Keeps only the names of references to secrets.
fn keep_names_of_secrets(object: &mut Value) {
    let holds_more = |secret: &Value| {
        secret
            .as_map()
            .is_some_and(|secret| secret.iter().any(|(key, _)| key != "name"))
    };
    change_items(object, "secrets", holds_more, |secret| {
        if let Some(map) = secret.as_map_mut() {
            map.retain(|key, _| key == "name");
        }
    });
}
