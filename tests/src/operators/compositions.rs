//! Resources that are composed of others, and one that represents an external resource of a cloud: in the shape of
//! Crossplane and its providers.

use serde_json::{Value, json};

use super::{Types, Version, conditions, crd, list_map, object, text};

const GROUP: &str = "compositions.example.com";

/// Returns CRDs of compositions, in two versions, and of a managed resource with a spec of hundreds of fields.
pub fn compositions(types: &Types) -> Vec<Value> {
    let names = |plural: &str, singular: &str, kind: &str, short: &str| json!({"plural": plural, "singular": singular, "kind": kind, "shortNames": [short], "categories": ["composed"]});
    vec![
        crd(
            GROUP,
            "Cluster",
            &names("compositions", "composition", "Composition", "comp"),
            vec![composition("v1"), composition("v1beta1")],
        ),
        crd(
            GROUP,
            "Cluster",
            &names("composites", "composite", "Composite", "xrd"),
            vec![composite()],
        ),
        crd(
            GROUP,
            "Cluster",
            &names("instances", "instance", "Instance", "inst"),
            vec![managed(types)],
        ),
    ]
}

fn composition(version: &'static str) -> Version {
    let mut kind = object(
        "Of which kind the composites are.",
        &["apiVersion", "kind"],
        json!({"apiVersion": {"type": "string"}, "kind": {"type": "string"}}),
    );
    kind["x-kubernetes-validations"] = json!([{"rule": "self == oldSelf", "message": "compositeTypeRef stays"}]);
    let step = object(
        "One function of the pipeline.",
        &["step", "functionRef"],
        json!({
            "step": {"type": "string", "maxLength": 63},
            "functionRef": object("Which function.", &["name"], json!({"name": {"type": "string"}})),
            "input": {
                "type": "object", "description": "What it is given.",
                "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            },
            "credentials": list_map(&["name"], object("What it is let in by.", &["name", "source"], json!({
                "name": {"type": "string"},
                "source": {"type": "string", "enum": ["None", "Secret"]},
                "secretRef": object("Where it is.", &["name", "namespace"], json!({
                    "name": {"type": "string"}, "namespace": {"type": "string"},
                })),
            }))),
        }),
    );
    let mut pipeline = list_map(&["step"], step);
    pipeline["minItems"] = 1.into();
    pipeline["maxItems"] = 99.into();
    let mut spec = object(
        "What a composite is made of.",
        &["compositeTypeRef"],
        json!({
            "compositeTypeRef": kind,
            "mode": {"type": "string", "enum": ["Pipeline", "Resources"], "default": "Pipeline"},
            "pipeline": pipeline,
            "writeConnectionSecretsToNamespace": {"type": "string"},
        }),
    );
    spec["x-kubernetes-validations"] =
        json!([{"rule": "self.mode != 'Pipeline' || has(self.pipeline)", "message": "a pipeline has steps"}]);
    Version {
        name: version,
        spec,
        status: object("Nothing yet.", &[], json!({"conditions": conditions()})),
        columns: json!([
            {"name": "XR-KIND", "type": "string", "jsonPath": ".spec.compositeTypeRef.kind"},
            {"name": "XR-APIVERSION", "type": "string", "jsonPath": ".spec.compositeTypeRef.apiVersion"},
            {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]),
        scale: Value::Null,
    }
}

fn composite() -> Version {
    let names = |required: &[&str]| {
        object(
            "The names of the resource.",
            required,
            json!({
                "plural": {"type": "string"}, "singular": {"type": "string"}, "kind": {"type": "string"}, "listKind": {"type": "string"},
                "shortNames": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
                "categories": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
            }),
        )
    };
    let version = object(
        "One version.",
        &["name", "referenceable", "served"],
        json!({
            "name": {"type": "string"}, "served": {"type": "boolean"}, "referenceable": {"type": "boolean"},
            "deprecated": {"type": "boolean"}, "deprecationWarning": {"type": "string", "maxLength": 256},
            "schema": object("Its schema.", &[], json!({
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            })),
            "additionalPrinterColumns": {"type": "array", "items": object("A column.", &["name", "type", "jsonPath"], json!({
                "name": {"type": "string"}, "type": {"type": "string"}, "jsonPath": {"type": "string"},
                "format": {"type": "string"}, "description": {"type": "string"}, "priority": {"type": "integer", "format": "int32"},
            }))},
        }),
    );
    let mut group = text("The group of the resource.");
    group["x-kubernetes-validations"] = json!([{"rule": "self == oldSelf", "message": "group stays"}]);
    let mut spec = object(
        "The resource that is to be.",
        &["group", "names", "versions"],
        json!({
            "group": group,
            "names": names(&["kind", "plural"]),
            "claimNames": names(&["kind", "plural"]),
            "scope": {"type": "string", "enum": ["Namespaced", "Cluster", "LegacyCluster"], "default": "LegacyCluster"},
            "connectionSecretKeys": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "defaultCompositionRef": object("What it is made by.", &["name"], json!({"name": {"type": "string"}})),
            "defaultCompositeDeletePolicy": {"type": "string", "enum": ["Background", "Foreground"], "default": "Background"},
            "versions": {"type": "array", "items": version},
            "conversion": object("Between its versions.", &["strategy"], json!({
                "strategy": {"type": "string", "enum": ["None", "Webhook"]},
                "webhook": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            })),
        }),
    );
    spec["x-kubernetes-validations"] = json!([{
        "rule": "!has(self.claimNames) || self.scope == 'LegacyCluster'", "message": "claims are of the old scope",
    }]);
    Version {
        name: "v1",
        spec,
        status: object(
            "What became of it.",
            &[],
            json!({
                "conditions": conditions(),
                "controllers": object("Who keeps it.", &[], json!({
                    "compositeResourceType": object("What is kept.", &["apiVersion", "kind"], json!({
                        "apiVersion": {"type": "string"}, "kind": {"type": "string"},
                    })),
                })),
            }),
        ),
        columns: json!([
            {"name": "ESTABLISHED", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Established')].status"},
            {"name": "OFFERED", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Offered')].status"},
            {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]),
        scale: Value::Null,
    }
}

/// Returns a managed resource has its wishes twice, for good and for the beginning, and once more as they were seen.
fn managed(types: &Types) -> Version {
    let fields = || {
        let mut fields = types.core("Volume")["properties"].take();
        let reference = object(
            "Another resource that the value comes from.",
            &["name"],
            json!({
                "name": {"type": "string"},
                "policy": object("When.", &[], json!({
                    "resolution": {"type": "string", "enum": ["Required", "Optional"], "default": "Required"},
                    "resolve": {"type": "string", "enum": ["Always", "IfNotPresent"]},
                })),
            }),
        );
        fields["region"] = text("Where it is.");
        fields["zone"] = text("Where in the region it is.");
        fields["networkRef"] = reference;
        fields["tags"] =
            json!({"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "granular"});
        fields
    };
    let mut spec = object(
        "What it is to be.",
        &["forProvider"],
        json!({
            "deletionPolicy": {"type": "string", "enum": ["Orphan", "Delete"], "default": "Delete"},
            "managementPolicies": {
                "type": "array", "default": ["*"], "x-kubernetes-list-type": "set", "maxItems": 6,
                "items": {"type": "string", "enum": ["Observe", "Create", "Update", "Delete", "LateInitialize", "*"]},
            },
            "providerConfigRef": {
                "type": "object", "default": {"name": "default"}, "required": ["name"],
                "properties": {"name": {"type": "string"}},
            },
            "forProvider": object("For good.", &[], fields()),
            "initProvider": object("At the beginning.", &[], fields()),
        }),
    );
    let wanted = |field: &str| {
        json!({
            "rule": format!("!('*' in self.managementPolicies || 'Create' in self.managementPolicies || 'Update' in self.managementPolicies) || has(self.forProvider.{field}) || (has(self.initProvider) && has(self.initProvider.{field}))"),
            "message": format!("spec.forProvider.{field} is a required parameter"),
        })
    };
    spec["x-kubernetes-validations"] = json!([wanted("region"), wanted("zone")]);
    Version {
        name: "v1beta1",
        spec,
        status: object(
            "What it is.",
            &[],
            json!({
                "atProvider": object("As it was seen.", &[], fields()),
                "conditions": conditions(),
                "observedGeneration": {"type": "integer", "format": "int64"},
            }),
        ),
        columns: json!([
            {"name": "SYNCED", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Synced')].status"},
            {"name": "READY", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"},
            {"name": "EXTERNAL-NAME", "type": "string", "jsonPath": ".metadata.annotations.example\\.com/external-name"},
            {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]),
        scale: Value::Null,
    }
}
