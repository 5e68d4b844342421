#![forbid(unsafe_code)]
//! Generates the compressed table of descriptions of types and fields from the texts of the crate `k8s-openapi`, and
//! adds descriptions to the columns of tables. It also adds the validation tags to the tables of types, and generates an enum
//! of the rules in code that the tags of each set name, for the crate `holdfast-kinds`.
//!
//! The texts are not in the repository, and the crate is not linked into the server: each build reads it here. Each
//! line of the table is a definition name, a tab, and the text with `\` and line breaks escaped; or a tab, the name of
//! a field of the last definition, a tab, and the text.

#[path = "build/columns.rs"]
mod columns;
#[path = "build/facts.rs"]
mod facts;
#[path = "build/rules.rs"]
mod rules;
#[path = "build/tags.rs"]
mod tags;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::DeflateEncoder;
use holdfast_table_source::{Source, go_type_lines, resource_lines, type_lines};
use k8s_openapi::api;
use k8s_openapi::api::{
    admissionregistration::v1 as admissionregistration, apps::v1 as apps, authentication::v1 as authentication,
    authorization::v1 as authorization, autoscaling::v1 as autoscaling_v1, autoscaling::v2 as autoscaling_v2,
    batch::v1 as batch, certificates::v1 as certificates, coordination::v1 as coordination, core::v1 as core,
    discovery::v1 as discovery, events::v1 as events, flowcontrol::v1 as flowcontrol, networking::v1 as networking,
    node::v1 as node, policy::v1 as policy, rbac::v1 as rbac, resource::v1 as resource, scheduling::v1 as scheduling,
    storage::v1 as storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::apimachinery::pkg::version;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration;
use k8s_openapi::schemars::SchemaGenerator;
use k8s_openapi::schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use rules::RuleSets;

/// Requests each type from the generator, which adds the nested types.
macro_rules! gather {
    ($generator:expr, $($kind:ty),+ $(,)?) => { $( $generator.subschema_for::<$kind>(); )+ };
}

fn main() -> Result<(), Box<dyn Error>> {
    for path in [
        "build.rs",
        "build/columns.rs",
        "build/facts.rs",
        "build/tags.rs",
        "build/rules.rs",
        "tables",
    ] {
        writeln!(std::io::stdout(), "cargo::rerun-if-changed={path}")?;
    }
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    write_types(&out)?;
    let tables = Path::new("tables");
    let resources = resource_lines(&read(tables, "resources.toml")?)?;
    let more_resources = resource_lines(&read(tables, "more_resources.toml")?)?;
    std::fs::write(out.join("resources.txt"), &resources)?;
    std::fs::write(out.join("more_resources.txt"), &more_resources)?;
    std::fs::write(
        out.join("older_types.txt"),
        type_lines(&read(tables, "older_types.toml")?)?,
    )?;
    std::fs::write(
        out.join("go_types.txt"),
        go_type_lines(&read(tables, "go_types.toml")?)?,
    )?;
    std::fs::write(out.join("features.txt"), facts::features(tables)?)?;
    std::fs::write(out.join("older_kinds.txt"), facts::older_kinds(tables)?)?;
    std::fs::write(out.join("unserved.txt"), facts::unserved(tables)?)?;
    let mut generator = SchemaSettings::openapi3().into_generator();
    gather_kinds(&mut generator);
    gather_more_kinds(&mut generator);
    let mut definitions: BTreeMap<String, Value> = generator.take_definitions(true).into_iter().collect();
    move_words_of_watch_events(&mut definitions);
    add_lists(&mut definitions);
    let mut table = String::new();
    for (name, schema) in &definitions {
        writeln!(table, "{name}\t{}", words(schema))?;
        for (field, property) in schema["properties"].as_object().into_iter().flatten() {
            writeln!(table, "\t{field}\t{}", words(property))?;
        }
    }
    std::fs::write(
        out.join("columns.txt"),
        columns::described(&definitions, &(resources + &more_resources))?,
    )?;
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(table.as_bytes())?;
    std::fs::write(out.join("descriptions.deflate"), encoder.finish()?)?;
    Ok(())
}

/// Name of this crate, for errors.
const CRATE: &str = "kind-tables";

/// Reads a table in the folder of tables.
fn read(tables: &Path, name: &str) -> Result<Source, String> {
    Source::read(CRATE, &tables.join(name))
}

/// Writes the tables of types with their validation tags, and the rules in code that the tags name.
fn write_types(out: &Path) -> Result<(), Box<dyn Error>> {
    let tables = Path::new("tables");
    let (tags, more_tags) = (tags::read(tables, "tags.toml")?, tags::read(tables, "more_tags.toml")?);
    let types = type_lines(&read(tables, "types.toml")?)?;
    std::fs::write(out.join("types.txt"), tags.joined(&types))?;
    let mut all_types = types.clone();
    std::fs::create_dir_all(out.join("more"))?;
    for entry in std::fs::read_dir(tables.join("more"))? {
        let name = entry?.file_name();
        let more = type_lines(&Source::read(CRATE, &tables.join("more").join(&name))?)?;
        let file = out.join("more").join(name).with_extension("txt");
        std::fs::write(file, more_tags.joined(&more))?;
        all_types += &more;
    }
    let mut rules = RuleSets::default();
    rules.add(&tags, &types)?;
    rules.add(&more_tags, &all_types)?;
    std::fs::write(out.join("rules.rs"), rules.names())?;
    let enums = out.join("rule_enums.rs");
    std::fs::write(&enums, rules.enums()?)?;
    writeln!(std::io::stdout(), "cargo::metadata=rule_enums={}", enums.display())?;
    Ok(())
}

/// Sets the description of the field `object` of watch events, which the crate appends to that of the type.
fn move_words_of_watch_events(definitions: &mut BTreeMap<String, Value>) {
    let Some(event) = definitions.get_mut("io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent") else {
        return;
    };
    let whole = event["description"].as_str().unwrap_or_default();
    if let Some((of_type, of_object)) = whole.split_once("\n\nObject is:") {
        let (of_type, of_object) = (of_type.to_owned(), format!("Object is:{}", of_object.trim_end()));
        event["description"] = of_type.into();
        event["properties"]["object"]["description"] = of_object.into();
    }
}

/// Adds the lists of all kinds. The crate has one generic type for them, so their descriptions are generated.
fn add_lists(definitions: &mut BTreeMap<String, Value>) {
    const LIST_METADATA: &str = "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
    let has_field = |schema: &Value, field: &str| schema["properties"].get(field).is_some();
    let kinds = definitions
        .iter()
        .filter(|(_, schema)| has_field(schema, "apiVersion") && has_field(schema, "metadata"));
    let lists: Vec<(String, Value)> = kinds
        .map(|(name, schema)| {
            let kind = name.rsplit('.').next().unwrap_or_default();
            let list = json!({
                "description": format!("{kind}List is a list of {kind} objects."),
                "properties": {
                    "apiVersion": {"description": schema["properties"]["apiVersion"]["description"]},
                    "items": {"description": format!("List of {kind} objects.")},
                    "kind": {"description": schema["properties"]["kind"]["description"]},
                    "metadata": {"description": LIST_METADATA},
                },
            });
            (format!("{name}List"), list)
        })
        .collect();
    for (name, list) in lists {
        definitions.entry(name).or_insert(list);
    }
}

fn words(schema: &Value) -> String {
    escape(schema["description"].as_str().unwrap_or_default())
}

fn escape(words: &str) -> String {
    words.replace('\\', "\\\\").replace('\n', "\\n")
}

fn gather_kinds(generator: &mut SchemaGenerator) {
    gather!(
        generator,
        admissionregistration::MutatingWebhookConfiguration,
        admissionregistration::MutatingAdmissionPolicy,
        admissionregistration::MutatingAdmissionPolicyBinding,
        admissionregistration::ValidatingAdmissionPolicy,
        admissionregistration::ValidatingAdmissionPolicyBinding,
        admissionregistration::ValidatingWebhookConfiguration,
        apiextensions::CustomResourceDefinition,
        apiregistration::APIService,
        apps::ControllerRevision,
        apps::DaemonSet,
        apps::Deployment,
        apps::ReplicaSet,
        apps::StatefulSet,
        authentication::SelfSubjectReview,
        authentication::TokenRequest,
        authentication::TokenReview,
        authorization::LocalSubjectAccessReview,
        authorization::SelfSubjectAccessReview,
        authorization::SelfSubjectRulesReview,
        authorization::SubjectAccessReview,
        autoscaling_v1::HorizontalPodAutoscaler,
        autoscaling_v1::Scale,
        autoscaling_v2::HorizontalPodAutoscaler,
        batch::CronJob,
        batch::Job,
        certificates::CertificateSigningRequest,
        coordination::Lease,
    );
    gather!(
        generator,
        core::Binding,
        core::ComponentStatus,
        core::ConfigMap,
        core::Endpoints,
        core::Event,
        core::LimitRange,
        core::Namespace,
        core::Node,
        core::PersistentVolume,
        core::PersistentVolumeClaim,
        core::Pod,
        core::PodTemplate,
        core::ReplicationController,
        core::ResourceQuota,
        core::Secret,
        core::Service,
        core::ServiceAccount,
        discovery::EndpointSlice,
        events::Event,
        flowcontrol::FlowSchema,
        flowcontrol::PriorityLevelConfiguration,
        meta::APIGroup,
        meta::APIGroupList,
        meta::APIResourceList,
        meta::APIVersions,
        meta::DeleteOptions,
        meta::ListMeta,
        meta::Patch,
        meta::Status,
        meta::WatchEvent<core::Pod>,
        networking::Ingress,
        networking::IngressClass,
        networking::IPAddress,
        networking::NetworkPolicy,
        networking::ServiceCIDR,
        node::RuntimeClass,
        policy::Eviction,
        policy::PodDisruptionBudget,
        rbac::ClusterRole,
        rbac::ClusterRoleBinding,
        rbac::Role,
        rbac::RoleBinding,
        resource::DeviceClass,
        resource::ResourceClaim,
        resource::ResourceClaimTemplate,
        resource::ResourceSlice,
        scheduling::PriorityClass,
        storage::CSIDriver,
        storage::CSINode,
        storage::CSIStorageCapacity,
        storage::StorageClass,
        storage::VolumeAttachment,
        storage::VolumeAttributesClass,
        version::Info,
    );
}

/// Requests the kinds of versions that are only served if flags enable them.
fn gather_more_kinds(generator: &mut SchemaGenerator) {
    gather!(
        generator,
        api::admissionregistration::v1alpha1::MutatingAdmissionPolicy,
        api::admissionregistration::v1alpha1::MutatingAdmissionPolicyBinding,
        api::admissionregistration::v1beta1::MutatingAdmissionPolicy,
        api::admissionregistration::v1beta1::MutatingAdmissionPolicyBinding,
        api::apiserverinternal::v1alpha1::StorageVersion,
        api::certificates::v1alpha1::ClusterTrustBundle,
        api::certificates::v1beta1::ClusterTrustBundle,
        api::certificates::v1beta1::PodCertificateRequest,
        api::coordination::v1alpha2::LeaseCandidate,
        api::coordination::v1beta1::LeaseCandidate,
        api::networking::v1beta1::IPAddress,
        api::networking::v1beta1::ServiceCIDR,
        api::resource::v1alpha3::DeviceTaintRule,
        api::resource::v1alpha3::ResourcePoolStatusRequest,
        api::resource::v1beta1::DeviceClass,
        api::resource::v1beta1::ResourceClaim,
        api::resource::v1beta1::ResourceClaimTemplate,
        api::resource::v1beta1::ResourceSlice,
        api::resource::v1beta2::DeviceClass,
        api::resource::v1beta2::DeviceTaintRule,
        api::resource::v1beta2::ResourceClaim,
        api::resource::v1beta2::ResourceClaimTemplate,
        api::resource::v1beta2::ResourceSlice,
        api::scheduling::v1alpha2::PodGroup,
        api::scheduling::v1alpha2::Workload,
        api::storage::v1beta1::VolumeAttributesClass,
        api::storagemigration::v1beta1::StorageVersionMigration,
    );
}
