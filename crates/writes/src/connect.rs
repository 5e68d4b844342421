//! Requests that connect to a node, a pod or a service. Admission runs before the target is looked up.

use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget};
use holdfast_resource::{Connecter, Connection, Operation, Verb};
use holdfast_value::Value;

use crate::attributes::{self, Options};
use crate::error::Error;
use crate::stage::Stage;

impl Stage<'_> {
    /// Admits a request with `verb` and `options`, and connects it through `connecter`. Also returns the warnings for
    /// the client.
    ///
    /// # Errors
    /// If admission rejects the request.
    pub async fn connect(
        &self,
        verb: Verb,
        connecter: &dyn Connecter,
        mut options: Value,
    ) -> Result<(Connection, Vec<String>), Error> {
        let target = self.target;
        let call = self.call(Operation::Connect, &target.name);
        if connecter.connects() {
            let attributes = attributes::Attributes::new("CONNECT", &target.name, Options::Nothing);
            let refuse = |rejection| self.rejection(rejection, &target.name);
            let admitted = async {
                self.mutate(&call, &attributes, Some(&mut options), None, Some(&refuse))
                    .await?;
                self.validate(&call, &attributes, Some(&options), None, &refuse).await
            };
            admitted.await.map_err(|error| call.refused(error))?;
        }
        self.check_verb(verb, connecter).map_err(|error| call.refused(error))?;
        target.check_key().map_err(|error| call.refused(error))?;
        let connection = connecter.connect(&call, &options);
        let warnings = call.warnings();
        call.after_commit().stored();
        Ok((connection, warnings))
    }

    /// Rejects a request with `verb` if its user lacks the additional permission that the connection needs.
    ///
    /// upstream: pkg/registry/core/pod/rest#ensureAuthorizedForVerb
    fn check_verb(&self, verb: Verb, connecter: &dyn Connecter) -> Result<(), Error> {
        let Some(needed) = connecter.also_needs().filter(|needed| *needed != verb.name()) else {
            return Ok(());
        };
        let (target, resource) = (self.target, self.resource());
        let version = self.address_version().version;
        let attributes = Attributes {
            verb: needed,
            target: AccessTarget::Resource(ResourceTarget {
                group: &resource.group,
                version: &version,
                resource: &resource.plural,
                subresource: &target.subresource,
                namespace: &target.namespace,
                name: &target.name,
                field_selector: &[],
                label_selector: "",
            }),
        };
        let decision = self
            .environment
            .authorizer()
            .authorize(&target.writer.user, &attributes);
        if decision.allows() {
            return Ok(());
        }
        Err(Error::forbidden(
            &resource.group_resource(),
            &target.name,
            decision.reason(),
        ))
    }
}
