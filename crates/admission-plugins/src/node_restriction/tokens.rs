//! Tokens of the service accounts of Pods.

use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget};
use holdfast_gotext::quote::quote;
use holdfast_resource::table::items;
use holdfast_resource::{Operation, Rejection};
use holdfast_schema::Field;
use holdfast_value::Value;

use super::pods::NODE_NAME;
use super::{Write, reject, text};
use crate::common::group_resource;
use holdfast_kind_tables::features::Feature;

/// CSI drivers that replaced in-tree volume types.
const DRIVERS: [(&str, &str); 7] = [
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
    ("portworxVolume", "pxd.portworx.com"),
];

impl Write<'_> {
    /// Admits a token request of a node for a Pod that runs on it and for an audience that the Pod uses.
    ///
    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitServiceAccount
    pub(super) fn admit_token(&self) -> Result<(), Rejection> {
        if self.context.operation != Operation::Create || self.subresource() != "token" {
            return Ok(());
        }
        let bound = |field| text(self.object, &["spec", "boundObjectRef", field]);
        if bound("apiVersion") != "v1" || bound("kind") != "Pod" || bound("name").is_empty() {
            return reject("node requested token not bound to a pod");
        }
        let uid = bound("uid");
        if uid.is_empty() {
            return reject("node requested token with a pod binding without a uid");
        }
        let pod = self.pod(bound("name"))?;
        if uid != text(Some(&pod), &["metadata", "uid"]) {
            return reject(format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted \
                 and then recreated"
            ));
        }
        if text(Some(&pod), &NODE_NAME) != self.name {
            return reject("node requested token bound to a pod scheduled on a different node");
        }
        match self.features.has(Feature::ServiceAccountNodeAudienceRestriction) {
            true => self.check_audience(&pod).or_else(reject),
            false => Ok(()),
        }
    }

    /// upstream: plugin/pkg/admission/noderestriction#Plugin.validateNodeServiceAccountAudience
    fn check_audience(&self, pod: &Value) -> Result<(), String> {
        let audiences = self
            .object
            .map_or(&[][..], |request| items(request, &["spec", "audiences"]));
        let audience = match audiences {
            [] => "",
            [only] => only.as_str().unwrap_or_default(),
            _ => return Err("node may only request 0 or 1 audiences".to_owned()),
        };
        let shown = quote(audience);
        let named = self.pod_names_audience(pod, audience);
        if named.map_err(|why| format!("error validating audience {shown}: {why}"))? {
            return Ok(());
        }
        let context = self.context;
        let attributes = Attributes {
            verb: "request-serviceaccounts-token-audience",
            target: AccessTarget::Resource(ResourceTarget {
                version: "v1",
                resource: audience,
                namespace: context.namespace,
                name: context.name,
                ..ResourceTarget::default()
            }),
        };
        match context.access.authorizer.authorize(context.user, &attributes).allows() {
            true => Ok(()),
            false => Err(format!(
                "audience {shown} not found in pod spec volume, {} is not authorized to request tokens for this audience",
                context.user.name
            )),
        }
    }

    /// Returns true if a volume of the Pod, or the driver of one, requests tokens for the audience.
    fn pod_names_audience(&self, pod: &Value, audience: &str) -> Result<bool, String> {
        let mut errors: Vec<String> = Vec::new();
        let root = Field::root(pod);
        for volume in root.child("spec").child("volumes").items() {
            let projected = volume.child("projected");
            let sources = projected.child("sources");
            let is_for = |source: Field<'_, '_>| {
                let token = source.child("serviceAccountToken");
                token.is_set() && token.child("audience").text() == audience
            };
            if sources.items().any(is_for) {
                return Ok(true);
            }
            let driver = self.driver_of(pod, &volume);
            let found = driver.and_then(|driver| match driver.as_str() {
                "" => Ok(false),
                driver => self.driver_names_audience(driver, audience),
            });
            match found {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) if errors.contains(&error) => {}
                Err(error) => errors.push(error),
            }
        }
        match errors.as_slice() {
            [] => Ok(false),
            [only] => Err(only.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }

    /// Returns the driver of a volume; empty if it has none.
    fn driver_of(&self, pod: &Value, volume: &Field<'_, '_>) -> Result<String, String> {
        let ephemeral = volume.child("ephemeral");
        if ephemeral.child("volumeClaimTemplate").is_set() {
            let name = text(Some(pod), &["metadata", "name"]);
            return self.driver_of_claim(&format!("{name}-{}", volume.child("name").text()));
        }
        let claim = volume.child("persistentVolumeClaim");
        if claim.is_set() {
            return self.driver_of_claim(claim.child("claimName").text());
        }
        Ok(driver_of_source(volume))
    }

    fn driver_of_claim(&self, name: &str) -> Result<String, String> {
        let get = |resource: &'static str, kind: &str, namespace: &str, name: &str| {
            let found = self.context.lookup.get(&group_resource("", resource), namespace, name);
            found.ok_or_else(|| format!("{kind} {} not found", quote(name)))
        };
        let claim = get(
            "persistentvolumeclaims",
            "persistentvolumeclaim",
            self.context.namespace,
            name,
        )?;
        let volume = get(
            "persistentvolumes",
            "persistentvolume",
            "",
            text(Some(&claim), &["spec", "volumeName"]),
        )?;
        let root = Field::root(&volume);
        Ok(driver_of_source(&root.child("spec")))
    }

    fn driver_names_audience(&self, driver: &str, audience: &str) -> Result<bool, String> {
        let found = self
            .context
            .lookup
            .get(&group_resource("storage.k8s.io", "csidrivers"), "", driver)
            .ok_or_else(|| format!("csidriver.storage.k8s.io {} not found", quote(driver)))?;
        let mut requests = items(&found, &["spec", "tokenRequests"]).iter();
        Ok(requests.any(|request| text(Some(request), &["audience"]) == audience))
    }
}

fn driver_of_source(volume: &Field<'_, '_>) -> String {
    let csi = volume.child("csi");
    if csi.is_set() {
        return csi.child("driver").text().to_owned();
    }
    let taken_over = DRIVERS.iter().find(|(source, _)| volume.child(source).is_set());
    taken_over.map_or_else(String::new, |(_, driver)| (*driver).to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing::{PLUGIN, by_node};
    use crate::harness::Harness;

    fn harness(volumes: &str) -> Harness {
        let pod = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: default, uid: u}}, spec: {{nodeName: n1, volumes: \
             [{volumes}], containers: [{{name: c, image: i}}]}}}}"
        );
        by_node(Harness::new()).allowing(&[]).with(&pod)
    }

    fn ask(harness: &Harness, reference: &str, audiences: &str) -> Result<(), String> {
        let request = format!(
            "{{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, spec: {{boundObjectRef: {{{reference}}}, audiences: \
             [{audiences}]}}}}"
        );
        harness.admit_subresource(PLUGIN, "serviceaccounts", "token", "s", &request)
    }

    const POD: &str = "apiVersion: v1, kind: Pod, name: p, uid: u";

    #[test]
    fn tokens_are_for_pods_that_run_here() {
        let harness = harness("{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}");
        assert_eq!(ask(&harness, POD, ""), Ok(()));
        for (reference, why) in [
            (
                "apiVersion: v1, kind: Secret, name: p, uid: u",
                "node requested token not bound to a pod",
            ),
            (
                "apiVersion: v1, kind: Pod, name: p",
                "node requested token with a pod binding without a uid",
            ),
            (
                "apiVersion: v1, kind: Pod, name: p, uid: v",
                "the UID in the bound object reference (v) does not match the UID in record. The object might have been deleted and \
                 then recreated",
            ),
        ] {
            assert_eq!(ask(&harness, reference, "").unwrap_err(), why);
        }
        let missing = ask(&harness, "apiVersion: v1, kind: Pod, name: q, uid: u", "");
        assert!(missing.unwrap_err().contains("NotFound"));
        let other = Harness::new()
            .written_by("system:node:m", &["system:nodes"])
            .with("{apiVersion: v1, kind: Pod, metadata: {name: p, uid: u}, spec: {nodeName: n1, containers: []}}");
        assert_eq!(
            ask(&other, POD, "").unwrap_err(),
            "node requested token bound to a pod scheduled on a different node"
        );
    }

    #[test]
    fn tokens_are_for_audiences_that_the_pod_or_a_driver_names() {
        let driver = |name: &str| {
            format!(
                "{{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {{name: {name}}}, spec: {{tokenRequests: [{{audience: \
                 a}}]}}}}"
            )
        };
        assert_eq!(
            ask(&harness("{name: v, csi: {driver: d}}").with(&driver("d")), POD, "a"),
            Ok(())
        );
        let disk = harness("{name: v, azureDisk: {diskName: d, diskURI: u}}").with(&driver("disk.csi.azure.com"));
        assert_eq!(ask(&disk, POD, "a"), Ok(()));
        let claimed = harness("{name: v, persistentVolumeClaim: {claimName: c}}")
            .with("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c}, spec: {volumeName: w}}")
            .with("{apiVersion: v1, kind: PersistentVolume, metadata: {name: w}, spec: {csi: {driver: d, volumeHandle: h}}}")
            .with(&driver("d"));
        assert_eq!(ask(&claimed, POD, "a"), Ok(()));
        assert_eq!(
            ask(&claimed, POD, "b").unwrap_err(),
            "audience \"b\" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience"
        );
        assert_eq!(
            ask(&claimed, POD, "a, b").unwrap_err(),
            "node may only request 0 or 1 audiences"
        );
        assert_eq!(
            ask(&harness("{name: v, persistentVolumeClaim: {claimName: c}}"), POD, "a").unwrap_err(),
            "error validating audience \"a\": persistentvolumeclaim \"c\" not found"
        );
        let allowed = harness("").allowing(&["request-serviceaccounts-token-audience b/"]);
        assert_eq!(ask(&allowed, POD, "b"), Ok(()));
    }
}
