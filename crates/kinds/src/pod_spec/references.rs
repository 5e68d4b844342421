//! References of a Pod to other objects.

use holdfast_schema::Field;

use super::CONTAINERS;

/// Paths at which volumes name secrets.
const SECRETS: [[&str; 3]; 10] = [
    ["azureFile", "secretName", ""],
    ["cephfs", "secretRef", "name"],
    ["cinder", "secretRef", "name"],
    ["flexVolume", "secretRef", "name"],
    ["rbd", "secretRef", "name"],
    ["secret", "secretName", ""],
    ["scaleIO", "secretRef", "name"],
    ["iscsi", "secretRef", "name"],
    ["storageos", "secretRef", "name"],
    ["csi", "nodePublishSecretRef", "name"],
];

/// Returns true if a Pod references a secret: for its images, in the environment of a container, or in a volume.
pub fn names_secret(spec: &Field<'_, '_>) -> bool {
    let named = |field: &Field<'_, '_>| !field.text().is_empty();
    spec.child("imagePullSecrets")
        .items()
        .any(|secret| named(&secret.child("name")))
        || containers_name(spec, "secretRef", "secretKeyRef")
        || spec.child("volumes").items().any(|volume| {
            SECRETS.iter().any(|[source, field, name]| {
                let source = volume.child(source);
                let field = source.child(field);
                if name.is_empty() {
                    named(&field)
                } else {
                    named(&field.child(name))
                }
            })
        })
        || volumes_name(spec, "secret", "name")
}

/// Returns true if a Pod references a ConfigMap: in the environment of a container, or in a volume.
pub fn names_config_map(spec: &Field<'_, '_>) -> bool {
    containers_name(spec, "configMapRef", "configMapKeyRef") || volumes_name(spec, "configMap", "name")
}

/// Returns true if the environment of a container comes from such an object, as a whole or in part.
fn containers_name(spec: &Field<'_, '_>, whole: &str, part: &str) -> bool {
    CONTAINERS.into_iter().any(|list| {
        spec.child(list).items().any(|container| {
            let whole = |from: Field<'_, '_>| !from.child(whole).child("name").text().is_empty();
            let part =
                |variable: Field<'_, '_>| !variable.child("valueFrom").child(part).child("name").text().is_empty();
            container.child("envFrom").items().any(whole) || container.child("env").items().any(part)
        })
    })
}

/// Returns true if a volume, or a source of a projected volume, references such an object.
fn volumes_name(spec: &Field<'_, '_>, source: &str, name: &str) -> bool {
    spec.child("volumes").items().any(|volume| {
        let projected = volume.child("projected");
        let parts = projected.child("sources");
        let in_part = parts
            .items()
            .any(|part| !part.child(source).child(name).text().is_empty());
        in_part || !volume.child(source).child(name).text().is_empty()
    })
}
