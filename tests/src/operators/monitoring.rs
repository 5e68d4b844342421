//! CRDs of servers that collect metrics, of their targets and of their rules: in the shape of the Prometheus operator.

use serde_json::{Value, json};

use super::{
    Types, Version, conditions, crd, embedded_metadata, int_or_string, label_selector, list_map, object, secret_key,
    text,
};

const GROUP: &str = "monitoring.example.com";

/// Pattern of a duration.
const DURATION: &str = "^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$";

/// Returns the CRDs of collectors, one of which is larger than 300 KB, with monitors and rules.
pub fn monitoring(types: &Types) -> Vec<Value> {
    let names = |plural: &str, singular: &str, kind: &str, short: &str| json!({"plural": plural, "singular": singular, "kind": kind, "shortNames": [short], "categories": ["monitoring"]});
    vec![
        collectors(types),
        crd(
            GROUP,
            "Namespaced",
            &names("servicemonitors", "servicemonitor", "ServiceMonitor", "smon"),
            vec![monitor()],
        ),
        crd(
            GROUP,
            "Namespaced",
            &names("rulegroups", "rulegroup", "RuleGroup", "rg"),
            vec![rules()],
        ),
    ]
}

/// Returns the largest of them: more than 300 KB, since it lets users configure every field of its Pods.
pub fn collectors(types: &Types) -> Value {
    let names = json!({
        "plural": "collectors", "singular": "collector", "kind": "Collector", "shortNames": ["coll"],
        "categories": ["monitoring"],
    });
    crd(GROUP, "Namespaced", &names, vec![collector(types)])
}

fn duration() -> Value {
    json!({"type": "string", "pattern": DURATION})
}

fn collector(types: &Types) -> Version {
    let atomic = |items: Value| json!({"type": "array", "items": items, "x-kubernetes-list-type": "atomic"});
    let claim = object(
        "A claim for storage, as of a StatefulSet.",
        &[],
        json!({
            "apiVersion": {"type": "string"}, "kind": {"type": "string"},
            "metadata": embedded_metadata(),
            "spec": types.core("PersistentVolumeClaimSpec"),
        }),
    );
    let spec = object(
        "The server that is wanted.",
        &[],
        json!({
            "version": text("Which version runs."),
            "image": text("The image, where it is not that of the version."),
            "imagePullPolicy": {"type": "string", "enum": ["", "Always", "Never", "IfNotPresent"]},
            "imagePullSecrets": list_map(&["name"], json!({"type": "object", "properties": {"name": {"type": "string", "default": ""}}})),
            "replicas": {"type": "integer", "format": "int32", "minimum": 0},
            "shards": {"type": "integer", "format": "int32", "default": 1},
            "paused": {"type": "boolean"},
            "retention": duration(),
            "retentionSize": {"type": "string", "pattern": "(^0|([0-9]*[.])?[0-9]+((K|M|G|T|E|P)i?)?B)$"},
            "scrapeInterval": {"type": "string", "pattern": DURATION, "default": "30s"},
            "scrapeTimeout": duration(),
            "externalLabels": {"type": "object", "additionalProperties": {"type": "string"}},
            "podMetadata": embedded_metadata(),
            "serviceMonitorSelector": label_selector(),
            "ruleSelector": label_selector(),
            "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
            "serviceAccountName": {"type": "string"},
            "secrets": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "resources": types.core("ResourceRequirements"),
            "affinity": types.core("Affinity"),
            "securityContext": types.core("PodSecurityContext"),
            "tolerations": atomic(types.core("Toleration")),
            "topologySpreadConstraints": atomic(types.core("TopologySpreadConstraint")),
            "containers": list_map(&["name"], types.core("Container")),
            "initContainers": list_map(&["name"], types.core("Container")),
            "volumes": list_map(&["name"], types.core("Volume")),
            "volumeMounts": list_map(&["mountPath"], types.core("VolumeMount")),
            "hostAliases": list_map(&["ip"], types.core("HostAlias")),
            "storage": object("Where it is kept.", &[], json!({
                "disableMountSubPath": {"type": "boolean"},
                "emptyDir": types.core("EmptyDirVolumeSource"),
                "volumeClaimTemplate": claim,
            })),
            "ruler": object("What follows the rules, in pods of its own.", &[], json!({
                "replicas": {"type": "integer", "format": "int32", "minimum": 0},
                "evaluationInterval": duration(),
                "affinity": types.core("Affinity"),
                "containers": list_map(&["name"], types.core("Container")),
            })),
            "remoteWrite": atomic(remote_write()),
            "enableFeatures": {"type": "array", "items": {"type": "string", "minLength": 1}, "x-kubernetes-list-type": "set"},
            "query": object("Limits of queries.", &[], json!({
                "lookbackDelta": {"type": "string"},
                "maxConcurrency": {"type": "integer", "format": "int32", "minimum": 1},
                "maxSamples": {"type": "integer", "format": "int32"},
                "timeout": duration(),
            })),
        }),
    );
    let shard = object(
        "How one shard does.",
        &["shardID", "replicas"],
        json!({"shardID": {"type": "string"}, "replicas": {"type": "integer", "format": "int32"}}),
    );
    Version {
        name: "v1",
        spec,
        status: object(
            "How it does.",
            &[],
            json!({
                "paused": {"type": "boolean"},
                "replicas": {"type": "integer", "format": "int32"},
                "availableReplicas": {"type": "integer", "format": "int32"},
                "selector": {"type": "string"},
                "conditions": conditions(),
                "shardStatuses": list_map(&["shardID"], shard),
            }),
        ),
        columns: json!([
            {"name": "Version", "type": "string", "jsonPath": ".spec.version"},
            {"name": "Desired", "type": "integer", "jsonPath": ".spec.replicas"},
            {"name": "Ready", "type": "integer", "jsonPath": ".status.availableReplicas"},
            {"name": "Reconciled", "type": "string", "jsonPath": ".status.conditions[?(@.type == 'Reconciled')].status"},
            {"name": "Paused", "type": "boolean", "jsonPath": ".status.paused", "priority": 1},
        ]),
        scale: json!({
            "specReplicasPath": ".spec.shards", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector",
        }),
    }
}

fn relabelings() -> Value {
    let relabeling = object(
        "How a label is made of others.",
        &[],
        json!({
            "action": {
                "type": "string", "default": "replace",
                "enum": ["replace", "keep", "drop", "hashmod", "labelmap", "labeldrop", "labelkeep", "lowercase", "uppercase"],
            },
            "modulus": {"type": "integer", "format": "int64"},
            "regex": {"type": "string"}, "replacement": {"type": "string"}, "separator": {"type": "string"},
            "sourceLabels": {"type": "array", "items": {"type": "string", "pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"}},
            "targetLabel": {"type": "string"},
        }),
    );
    json!({"type": "array", "minItems": 1, "items": relabeling})
}

fn tls() -> Value {
    object(
        "How connections are made safe.",
        &[],
        json!({
            "ca": object("The authorities to trust.", &[], json!({"secret": secret_key(), "configMap": secret_key()})),
            "cert": object("Who one is.", &[], json!({"secret": secret_key(), "configMap": secret_key()})),
            "keySecret": secret_key(),
            "insecureSkipVerify": {"type": "boolean"},
            "minVersion": {"type": "string", "enum": ["TLS10", "TLS11", "TLS12", "TLS13"]},
            "serverName": {"type": "string"},
        }),
    )
}

fn remote_write() -> Value {
    object(
        "Where measurements are sent.",
        &["url"],
        json!({
            "url": {"type": "string", "minLength": 1, "pattern": "^(http|https)://.+$"},
            "name": {"type": "string"},
            "messageVersion": {"type": "string", "enum": ["V1.0", "V2.0"]},
            "remoteTimeout": duration(),
            "basicAuth": object("By name and password.", &[], json!({"username": secret_key(), "password": secret_key()})),
            "headers": {"type": "object", "additionalProperties": {"type": "string"}},
            "tlsConfig": tls(),
            "writeRelabelConfigs": relabelings(),
            "queueConfig": object("How much waits.", &[], json!({
                "capacity": {"type": "integer"}, "maxShards": {"type": "integer"}, "minBackoff": duration(), "maxBackoff": duration(),
            })),
        }),
    )
}

fn monitor() -> Version {
    let mut endpoint = object(
        "One port of the services.",
        &[],
        json!({
            "port": {"type": "string"}, "targetPort": int_or_string(), "path": {"type": "string"},
            "scheme": {"type": "string", "enum": ["http", "https", "HTTP", "HTTPS"]},
            "params": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
            "interval": duration(), "scrapeTimeout": duration(),
            "honorLabels": {"type": "boolean"}, "honorTimestamps": {"type": "boolean"},
            "basicAuth": object("By name and password.", &[], json!({"username": secret_key(), "password": secret_key()})),
            "tlsConfig": tls(),
            "relabelings": relabelings(), "metricRelabelings": relabelings(),
        }),
    );
    endpoint["x-kubernetes-validations"] = json!([
        {"rule": "has(self.port) != has(self.targetPort)", "message": "a port by its name or by its number"},
    ]);
    let mut names = object(
        "Which namespaces.",
        &[],
        json!({
            "any": {"type": "boolean"},
            "matchNames": {"type": "array", "maxItems": 64, "items": {"type": "string", "maxLength": 63}, "x-kubernetes-list-type": "set"},
        }),
    );
    names["x-kubernetes-validations"] = json!([
        {"rule": "!(has(self.any) && self.any && has(self.matchNames))", "message": "any namespace, or some by name"},
        {"rule": "!has(self.matchNames) || self.matchNames.all(name, name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))"},
    ]);
    Version {
        name: "v1",
        spec: object(
            "What is collected from.",
            &["selector", "endpoints"],
            json!({
                "jobLabel": {"type": "string"},
                "targetLabels": {"type": "array", "items": {"type": "string"}},
                "selector": label_selector(),
                "namespaceSelector": names,
                "endpoints": {"type": "array", "maxItems": 32, "items": endpoint},
                "sampleLimit": {"type": "integer", "format": "int64", "minimum": 0},
                "attachMetadata": object("What else is attached.", &[], json!({"node": {"type": "boolean"}})),
            }),
        ),
        status: object("Who collects.", &[], json!({"conditions": conditions()})),
        columns: json!([{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]),
        scale: Value::Null,
    }
}

fn rules() -> Version {
    let rule = object(
        "What is derived, or when an alert fires.",
        &["expr"],
        json!({
            "alert": {"type": "string"}, "record": {"type": "string"}, "expr": int_or_string(),
            "for": duration(), "keep_firing_for": {"type": "string", "minLength": 1, "pattern": DURATION},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        }),
    );
    let group = object(
        "Rules that are followed one after the other.",
        &["name"],
        json!({
            "name": {"type": "string", "minLength": 1},
            "interval": duration(),
            "limit": {"type": "integer"},
            "partial_response_strategy": {"type": "string", "pattern": "^(?i)(abort|warn)?$"},
            "rules": {"type": "array", "items": rule},
        }),
    );
    Version {
        name: "v1",
        spec: object("The rules.", &[], json!({"groups": list_map(&["name"], group)})),
        status: object("Who follows them.", &[], json!({"conditions": conditions()})),
        columns: json!([{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]),
        scale: Value::Null,
    }
}
