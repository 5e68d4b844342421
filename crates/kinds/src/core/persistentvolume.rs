//! PersistentVolumes: <https://kubernetes.io/docs/concepts/storage/persistent-volumes/>.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::features::{Feature, Features};
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::table::NamedCell;
use holdfast_resource::{Rejection, Strategy, WriteContext};
use holdfast_schema::metadata::formats::dns_subdomain;
use holdfast_schema::metadata::validate_metadata_whole;
use holdfast_schema::{Check, Field, FieldError, FieldPath, Part, Rules};
use holdfast_value::Value;

use crate::cells::{access_modes, phase_or_terminating, storage_class};
use crate::claim_spec::validate_access_modes;
use crate::config::Config;
use crate::defaults::is_zero;
use crate::kind::kind;
use crate::pod_spec::{node_selector_warnings, validate_node_selector};
use crate::rules::PersistentVolumeRule;
use crate::time::time_text;
use crate::validation::resources::quantity;
use crate::validation::{Errors, report, same};
use crate::volume_sources::{Source, SourceRules, named_source, source, validate_one_source};

/// Rules of PersistentVolumes only.
pub(crate) struct PersistentVolume {
    /// Features that are enabled.
    pub(crate) features: Features,
}

/// Volume sources, in the order in which the reference validates them.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// Sources with the names under which the reference reports them.
const REPORTED: [Source; 22] = [
    source("hostPath"),
    named_source("gcePersistentDisk", "gcePersistentDisk", "persistentDisk"),
    source("awsElasticBlockStore"),
    source("glusterfs"),
    source("flocker"),
    source("nfs"),
    source("rbd"),
    source("quobyte"),
    named_source("cephfs", "cephFS", "cephfs"),
    source("iscsi"),
    source("cinder"),
    source("fc"),
    named_source("flexVolume", "", "flexVolume"),
    source("azureFile"),
    source("vsphereVolume"),
    source("photonPersistentDisk"),
    source("portworxVolume"),
    source("azureDisk"),
    source("scaleIO"),
    source("local"),
    source("storageos"),
    source("csi"),
];

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(PersistentVolume {
        features: config.features,
    })
    .cells(CELLS)
    .metadata_checks(of_core(1, 0))
    .done()
}

impl Strategy for PersistentVolume {
    /// upstream: pkg/registry/core/persistentvolume#persistentvolumeStrategy.PrepareForCreate
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        let mut status = Value::empty_map();
        status.set_at(&["phase"], "Pending".into());
        status.set_at(&["lastPhaseTransitionTime"], time_text(context.now()));
        object.set_at(&["status"], status);
        Ok(())
    }

    /// upstream: pkg/registry/core/persistentvolume#persistentvolumeStrategy.PrepareForUpdate
    /// upstream: pkg/registry/core/persistentvolume#persistentvolumeStatusStrategy.PrepareForUpdate
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Rejection> {
        const PHASE: [&str; 2] = ["status", "phase"];
        const CHANGED: [&str; 2] = ["status", "lastPhaseTransitionTime"];
        if context.subresource != Some("status") {
            return Ok(());
        }
        let (sent, before) = (object.at(&CHANGED), old.at(&CHANGED));
        if object.str_at(&PHASE) == old.str_at(&PHASE) {
            // The phase and the time of its change stay unless the client sends another phase.
            if let (None, Some(before)) = (sent, before) {
                object.set_at(&CHANGED, before.clone());
            }
        } else if is_zero(sent) || sent == before {
            object.set_at(&CHANGED, time_text(context.now()));
        }
        Ok(())
    }

    /// upstream: pkg/registry/core/persistentvolume#persistentvolumeStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = context.check(object, &VolumeRules::new(object));
        validate_mount_options(&Field::root(object), &mut errors);
        errors
    }

    /// upstream: pkg/registry/core/persistentvolume#persistentvolumeStrategy.ValidateUpdate
    /// upstream: pkg/registry/core/persistentvolume#persistentvolumeStatusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        if context.subresource == Some("status") {
            return Errors::new();
        }
        // Both the reference's strategy and its update validation validate the whole volume.
        let mut errors = self.validate(context, object);
        errors.extend(validate_metadata_whole(&context.resource.metadata_rules(), object));
        errors.extend(context.check(object, &VolumeRules::new(object)));
        let (root, old_root) = (Field::root(object), Field::root(old));
        let (spec, old_spec) = (root.child("spec"), old_root.child("spec"));
        // An empty source differs from a missing one.
        let changed = |part: &&str| {
            let (now, before) = (spec.child(part), old_spec.child(part));
            now.is_set() != before.is_set() || !same(now.value(), before.value())
        };
        if SOURCES.iter().any(changed) {
            // The reference builds this name from the Go name of the field.
            let place = FieldPath::new("spec.persistentvolumesource");
            let detail = "spec.persistentvolumesource is immutable after creation";
            errors.push(FieldError::forbidden(&place, detail));
        }
        let mode = spec.child("volumeMode");
        crate::validation::immutable(
            &Field::placed(mode.value(), "volumeMode"),
            &old_spec.child("volumeMode"),
            &mut errors,
        );
        if !self.features.has(Feature::MutablePVNodeAffinity) {
            validate_kept_affinity(&spec, &old_spec, &mut errors);
        }
        let class = spec.child("volumeAttributesClassName");
        if old_spec.child("volumeAttributesClassName").is_set() && !class.is_set() {
            errors.push(class.forbidden("update from non-nil value to nil is forbidden"));
        }
        errors
    }

    /// upstream: pkg/registry/core/persistentvolume#persistentvolumeStrategy.WarningsOnCreate
    /// upstream: pkg/registry/core/persistentvolume#persistentvolumeStrategy.WarningsOnUpdate
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, _old: Option<&Value>) -> Vec<String> {
        if context.subresource.is_some() {
            return Vec::new();
        }
        volume_warnings(&Field::root(object))
    }
}

/// Node labels that were renamed: the old name, then the current one.
const RENAMED_LABELS: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
];

/// Validates that a volume keeps its nodes; their labels may change to the renamed ones. The error path omits the
/// parent of the field.
///
/// upstream: pkg/apis/core/validation#validatePvNodeAffinity
fn validate_kept_affinity(spec: &Field<'_, '_>, old_spec: &Field<'_, '_>, errors: &mut Errors) {
    let (affinity, before) = (spec.child("nodeAffinity"), old_spec.child("nodeAffinity"));
    let Some(old) = before.value() else {
        return;
    };
    let mut renamed = old.clone();
    if let Some(new) = affinity.value() {
        rename_labels(&mut renamed, new);
    }
    if !same(affinity.value(), Some(&renamed)) {
        errors.push(
            Field::placed(affinity.value(), "nodeAffinity")
                .invalid("field is immutable, except for updating from beta label to GA"),
        );
    }
}

/// Renames the labels of `old` that `new` names differently to their current names. A label that was never renamed
/// becomes the empty name, so that removing a name does not count as a change.
fn rename_labels(old: &mut Value, new: &Value) {
    let terms = ["required", "nodeSelectorTerms"];
    let (Some(olds), Some(news)) = (
        old.at_mut(&terms).and_then(Value::as_list_mut),
        new.at(&terms).and_then(Value::as_list),
    ) else {
        return;
    };
    for (old, new) in olds.make_mut().iter_mut().zip(news) {
        for part in ["matchExpressions", "matchFields"] {
            let (Some(olds), Some(news)) = (
                old.at_mut(&[part]).and_then(Value::as_list_mut),
                new.at(&[part]).and_then(Value::as_list),
            ) else {
                continue;
            };
            for (old, new) in olds.make_mut().iter_mut().zip(news) {
                let (key, wanted) = (old.str_at(&["key"]).unwrap_or_default(), new.str_at(&["key"]));
                if wanted.unwrap_or_default() == key {
                    continue;
                }
                let renamed = RENAMED_LABELS
                    .iter()
                    .find(|(beta, _)| *beta == key)
                    .map_or("", |(_, now)| now);
                old.set_at(&["key"], renamed.into());
            }
        }
    }
}

/// Annotation that named the class of volumes and claims before a field did, and its warning.
pub(super) const BETA_CLASS: (&str, &str) = (
    "volume.beta.kubernetes.io/storage-class",
    "deprecated since v1.8; use \"storageClassName\" attribute instead",
);

/// Returns warnings about annotations that fields have replaced.
pub(super) fn deprecated_annotations(
    annotations: &Field<'_, '_>,
    deprecated: &[(&str, &str)],
    warnings: &mut Vec<String>,
) {
    for (name, text) in deprecated {
        let annotation = annotations.entry(name);
        if annotation.is_set() {
            warnings.push(format!("{}: {text}", annotation.path()));
        }
    }
}

/// Returns the warnings about a volume.
///
/// upstream: pkg/api/persistentvolume#GetWarningsForPersistentVolume
fn volume_warnings(volume: &Field<'_, '_>) -> Vec<String> {
    const ANNOTATIONS: [(&str, &str); 2] = [
        BETA_CLASS,
        (
            MOUNT_OPTIONS,
            "deprecated since v1.31; use \"mountOptions\" attribute instead",
        ),
    ];
    const REMOVED: [(&str, &str, &str); 6] = [
        ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        (
            "photonPersistentDisk",
            "photonPersistentDisk",
            "deprecated in v1.11, non-functional in v1.16+",
        ),
        ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        (
            "storageos",
            "storageOS",
            "deprecated in v1.22, non-functional in v1.25+",
        ),
        (
            "glusterfs",
            "glusterfs",
            "deprecated in v1.25, non-functional in v1.26+",
        ),
        ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    let mut warnings = Vec::new();
    let (metadata, spec) = (volume.child("metadata"), volume.child("spec"));
    let annotations = metadata.child("annotations");
    deprecated_annotations(&annotations, &ANNOTATIONS, &mut warnings);
    if spec.child("persistentVolumeReclaimPolicy").text() == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach \
             is to use dynamic provisioning."
                .to_owned(),
        );
    }
    let affinity = spec.child("nodeAffinity");
    node_selector_warnings(&affinity.child("required"), &mut warnings);
    for (source, shown, text) in REMOVED {
        if spec.child(source).is_set() {
            warnings.push(format!("spec.{shown}: {text}"));
        }
    }
    warnings
}

/// Checks of `ValidatePersistentVolumeSpec` in code, for a volume of this name.
struct VolumeRules<'v> {
    name: &'v str,
}

impl<'v> VolumeRules<'v> {
    fn new(volume: &'v Value) -> Self {
        let name = volume.str_at(&["metadata", "name"]).unwrap_or_default();
        Self { name }
    }
}

impl<'v> Rules<'v> for VolumeRules<'_> {
    type Rule = PersistentVolumeRule;

    fn rule(&self, rule: PersistentVolumeRule, spec: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            PersistentVolumeRule::AccessModes => validate_access_modes(&spec.child("accessModes"), &mut check.errors),
            PersistentVolumeRule::Capacity => validate_capacity(&spec.child("capacity"), &mut check.errors),
            PersistentVolumeRule::Affinity => validate_affinity(&spec.child("nodeAffinity"), &mut check.errors),
            PersistentVolumeRule::Sources => {
                validate_sources(spec, self.name, check);
                validate_recycled(spec, &mut check.errors);
            }
            PersistentVolumeRule::AttributesClass => validate_attributes_class(spec, &mut check.errors),
        }
    }
}

/// Validates that the capacity is an amount of storage and nothing else.
///
/// upstream: pkg/apis/core/validation#ValidatePersistentVolumeSpec
fn validate_capacity(capacity: &Field<'_, '_>, errors: &mut Errors) {
    let only_storage = capacity.len() == 1 && capacity.entry("storage").is_set();
    if !only_storage {
        errors.push(FieldError::not_supported(
            &capacity.path(),
            capacity.value().cloned().unwrap_or_default(),
            &["storage"],
        ));
    }
    for (_, amount) in capacity.entries() {
        match quantity(&amount) {
            Some(size) if size.is_negative() => {
                errors.push(amount.invalid_as(size.units(), "must be a valid resource quantity"));
                errors.push(amount.invalid("must be greater than zero"));
            }
            Some(size) if !size.is_positive() => errors.push(amount.invalid("must be greater than zero")),
            _ => {}
        }
    }
}

/// Validates the node affinity of a volume.
///
/// upstream: pkg/apis/core/validation#validateVolumeNodeAffinity
fn validate_affinity(affinity: &Field<'_, '_>, errors: &mut Errors) {
    if !affinity.is_set() {
        return;
    }
    let required = affinity.child("required");
    if required.is_set() {
        validate_node_selector(&required, errors);
    } else {
        errors.push(required.required("must specify required node constraints"));
    }
}

/// Rejects recycling of the host's root directory, which would empty the host.
///
/// upstream: pkg/apis/core/validation#ValidatePersistentVolumeSpec
fn validate_recycled(spec: &Field<'_, '_>, errors: &mut Errors) {
    let reclaim = spec.child("persistentVolumeReclaimPolicy");
    if is_root(spec.child("hostPath").child("path").text()) && reclaim.text() == "Recycle" {
        errors.push(reclaim.forbidden("may not be 'recycle' for a hostPath mount of '/'"));
    }
}

/// upstream: pkg/apis/core/validation#ValidatePersistentVolumeSpec
fn validate_attributes_class(spec: &Field<'_, '_>, errors: &mut Errors) {
    let class = spec.child("volumeAttributesClassName");
    if !class.is_set() {
        return;
    }
    if class.text().is_empty() {
        errors.push(class.required("an empty string is disallowed"));
    } else {
        report(&class, dns_subdomain(class.text()), errors);
    }
    let driver = spec.child("csi");
    if !driver.is_set() {
        errors.push(driver.required("has to be specified when using volumeAttributesClassName"));
    }
}

/// Validates an inline volume, as described in a VolumeAttachment (`ValidatePersistentVolumeSpec` in the context of
/// inline volumes).
///
/// upstream: pkg/apis/core/validation#ValidatePersistentVolumeSpec
pub(crate) fn validate_inline_volume(spec: &Field<'_, '_>, check: &mut Check<'_>) {
    let errors = &mut check.errors;
    const NOT_INLINE: &str = "may not be specified in the context of inline volumes";
    let (claim, capacity) = (spec.child("claimRef"), spec.child("capacity"));
    if claim.is_set() {
        errors.push(claim.forbidden(NOT_INLINE));
    }
    if !capacity.is_empty() {
        errors.push(capacity.forbidden(NOT_INLINE));
    }
    let driver = spec.child("csi");
    if !driver.is_set() {
        errors.push(driver.required("has to be specified in the context of inline volumes"));
    }
    let modes = spec.child("accessModes");
    if modes.is_empty() {
        errors.push(modes.required(""));
    }
    validate_access_modes(&modes, errors);
    let reclaim = spec.child("persistentVolumeReclaimPolicy");
    if !matches!(reclaim.text(), "" | "Retain") {
        errors.push(reclaim.forbidden("may only be Retain in the context of inline volumes"));
    }
    let affinity = spec.child("nodeAffinity");
    if affinity.is_set() {
        errors.push(affinity.forbidden(NOT_INLINE));
    }
    if let Some(spec) = check.part("io.k8s.api.core.v1.PersistentVolumeSpec", *spec) {
        validate_sources(&spec, "", check);
    }
    let errors = &mut check.errors;
    let class = spec.child("storageClassName");
    if !class.text().is_empty() {
        errors.push(class.forbidden(NOT_INLINE));
    }
    let mode = spec.child("volumeMode");
    if mode.is_set() && mode.text() != "Filesystem" {
        errors
            .push(mode.forbidden("may not specify volumeMode other than Filesystem in the context of inline volumes"));
    }
    let class = spec.child("volumeAttributesClassName");
    if class.is_set() {
        errors.push(class.forbidden(NOT_INLINE));
    }
}

/// upstream: pkg/apis/core/validation#ValidatePersistentVolumeSpec
fn validate_sources(spec: &Part<'_, '_>, name: &str, check: &mut Check<'_>) {
    validate_one_source(spec, &REPORTED, &SourceRules { name }, check, &|found, errors| {
        let affinity = spec.child("nodeAffinity");
        if found == "local" && !affinity.is_set() {
            errors.push(affinity.required("Local volume requires node affinity"));
        }
    });
}

/// Returns true if a path resolves to `/` once its dots are removed.
fn is_root(path: &str) -> bool {
    let mut depth = 0usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

/// Annotation for mount options from before the field.
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// Sources that support mount options.
const TAKES_OPTIONS: [&str; 14] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "nfs",
    "storageos",
    "csi",
];

/// Validates mount options, which only some sources support (`ValidatePersistentVolume` of the volume plugins).
///
/// upstream: pkg/apis/core/validation#ValidatePersistentVolume
fn validate_mount_options(volume: &Field<'_, '_>, errors: &mut Errors) {
    let (metadata, spec) = (volume.child("metadata"), volume.child("spec"));
    let annotations = metadata.child("annotations");
    let annotation = annotations.entry(MOUNT_OPTIONS);
    let takes = TAKES_OPTIONS.iter().any(|source| spec.child(source).is_set());
    if !annotation.text().is_empty() && !takes {
        // The path prints the annotation like a field.
        let place = metadata.path().child("annotations").child(MOUNT_OPTIONS);
        errors.push(FieldError::forbidden(
            &place,
            "may not specify mount options for this volume type",
        ));
    }
}

/// Table cells that show more than the value at one path.
pub(super) const CELLS: &[NamedCell] = &[
    ("access-modes", |object, _| {
        access_modes(object, &["spec", "accessModes"])
    }),
    ("claim-reference", |object, _| claim_reference(object)),
    ("phase-or-terminating", phase_or_terminating),
    ("storage-class", storage_class),
];

fn claim_reference(volume: &Value) -> Value {
    let text = |field| volume.str_at(&["spec", "claimRef", field]).unwrap_or_default();
    match text("name") {
        "" => "".into(),
        name => format!("{}/{name}", text("namespace")).into(),
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    fn volume(spec: &str) -> String {
        format!("{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: v}}, spec: {{{spec}}}}}")
    }

    const DISK: &str = "capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /data}";

    #[test]
    fn a_volume_is_made_of_one_thing() {
        let harness = Harness::new();
        assert!(harness.errors(&volume(DISK)).is_empty());
        assert_eq!(
            harness.errors(&volume(&format!("{DISK}, nfs: {{server: s, path: /p}}"))),
            ["spec.nfs: Forbidden: may not specify more than 1 volume type"]
        );
        assert_eq!(
            harness.update_errors(&volume(DISK), &volume(&DISK.replace("/data", "/other"))),
            ["spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"]
        );
    }

    #[test]
    fn a_local_volume_says_where_it_is() {
        let local = |more: &str| volume(&format!("{}{more}", DISK.replace("hostPath", "local")));
        let harness = Harness::new();
        assert_eq!(
            harness.errors(&local("")),
            ["spec.nodeAffinity: Required value: Local volume requires node affinity"]
        );
        assert_eq!(
            harness.errors(&local(", nodeAffinity: {}")),
            ["spec.nodeAffinity.required: Required value: must specify required node constraints"]
        );
    }

    #[test]
    fn a_volume_stays_on_its_nodes_whatever_their_labels_are_called() {
        let on = |key: &str| {
            volume(&format!(
                "{DISK}, nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [{{key: {key}, operator: In, \
                 values: [a]}}]}}]}}}}"
            ))
        };
        let harness = Harness::new();
        let beta = on("failure-domain.beta.kubernetes.io/zone");
        assert!(
            harness
                .update_errors(&beta, &on("topology.kubernetes.io/zone"))
                .is_empty()
        );
        let messages = harness.update_errors(&beta, &on("topology.kubernetes.io/region"));
        assert!(messages[0].starts_with("nodeAffinity: Invalid value: "), "{messages:?}");
        assert!(messages[0].ends_with(": field is immutable, except for updating from beta label to GA"));
        assert_eq!(
            harness.update_errors(&beta, &volume(DISK)),
            ["nodeAffinity: Invalid value: null: field is immutable, except for updating from beta label to GA"]
        );
        let source = "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation";
        let errors = harness.update_errors(&volume(DISK), &volume(&format!("{DISK}, flocker: {{}}")));
        assert_eq!(errors.last().map(String::as_str), Some(source));
    }

    #[test]
    fn a_new_volume_is_pending_since_now() {
        let created = Harness::new().create(&volume(DISK));
        assert_eq!(
            at(&created, "status"),
            r#"{"lastPhaseTransitionTime":"2001-09-09T01:46:40Z","phase":"Pending"}"#
        );
    }

    #[test]
    fn the_time_of_the_last_change_stays_with_the_phase() {
        let mut old = Harness::new().create(&volume(DISK));
        let changed = ["status", "lastPhaseTransitionTime"];
        old.set_at(&changed, "2001-01-01T00:00:00Z".into());
        let mut new = old.clone();
        new.remove_at(&changed);
        let kept = Harness::new().shaped(Some("status"), &old, new.clone());
        assert_eq!(at(&kept, "status.lastPhaseTransitionTime"), r#""2001-01-01T00:00:00Z""#);
        new.set_at(&["status", "phase"], "Bound".into());
        let moved = Harness::new().shaped(Some("status"), &old, new);
        assert_eq!(
            at(&moved, "status.lastPhaseTransitionTime"),
            r#""2001-09-09T01:46:40Z""#
        );
    }
}
