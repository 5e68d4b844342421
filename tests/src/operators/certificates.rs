//! Certificates and who issues them, with solvers that run pods: in the shape of cert-manager.

use serde_json::{Value, json};

use super::{Types, Version, conditions, crd, embedded_metadata, label_selector, list_map, object, secret_key, text};

const GROUP: &str = "certificates.example.com";

/// Returns the CRDs of certificates, issuers of a namespace and of the cluster, and the challenges between them.
pub fn certificates(types: &Types) -> Vec<Value> {
    let names = |plural: &str, singular: &str, kind: &str, short: &[&str]| json!({"plural": plural, "singular": singular, "kind": kind, "shortNames": short, "categories": ["certificates"]});
    vec![
        crd(
            GROUP,
            "Namespaced",
            &names("certificates", "certificate", "Certificate", &["cert", "certs"]),
            vec![certificate()],
        ),
        crd(
            GROUP,
            "Namespaced",
            &names("issuers", "issuer", "Issuer", &[]),
            vec![issuer(types)],
        ),
        crd(
            GROUP,
            "Cluster",
            &names("clusterissuers", "clusterissuer", "ClusterIssuer", &[]),
            vec![issuer(types)],
        ),
        crd(
            GROUP,
            "Namespaced",
            &names("challenges", "challenge", "Challenge", &[]),
            vec![challenge(types)],
        ),
    ]
}

fn certificate() -> Version {
    let key = object(
        "How the private key is made.",
        &[],
        json!({
            "algorithm": {"type": "string", "enum": ["RSA", "ECDSA", "Ed25519"]},
            "encoding": {"type": "string", "enum": ["PKCS1", "PKCS8"]},
            "rotationPolicy": {"type": "string", "enum": ["Never", "Always"], "default": "Always"},
            "size": {"type": "integer", "minimum": 256, "maximum": 8192},
        }),
    );
    let output = object(
        "A form of the key pair beside the usual one.",
        &["type"],
        json!({"type": {"type": "string", "enum": ["DER", "CombinedPEM"]}}),
    );
    let mut names = object(
        "Parts of the subject.",
        &[],
        json!({
            "organizations": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
            "countries": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
            "serialNumber": {"type": "string"},
        }),
    );
    names["nullable"] = true.into();
    let mut spec = object(
        "The certificate that is wanted.",
        &["issuerRef", "secretName"],
        json!({
            "commonName": {"type": "string", "maxLength": 64, "description": "At most 64 characters, as X.509 has it."},
            "dnsNames": {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 253}, "x-kubernetes-list-type": "atomic"},
            "ipAddresses": {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 45}, "x-kubernetes-list-type": "atomic"},
            "duration": {"type": "string", "description": "How long it is valid, such as 2160h."},
            "renewBeforePercentage": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 99},
            "renewBefore": {"type": "string"},
            "isCA": {"type": "boolean", "default": false},
            "subject": names,
            "privateKey": key,
            "additionalOutputFormats": list_map(&["type"], output),
            "secretName": {"type": "string", "minLength": 1, "maxLength": 253, "description": "Where the key pair is put."},
            "secretTemplate": embedded_metadata(),
            "issuerRef": object("Who issues it.", &["name"], json!({
                "name": {"type": "string", "maxLength": 253},
                "kind": {"type": "string", "enum": ["Issuer", "ClusterIssuer"], "default": "Issuer"},
                "group": {"type": "string", "default": GROUP},
            })),
            "usages": {
                "type": "array", "x-kubernetes-list-type": "set", "default": ["digital signature", "key encipherment"],
                "items": {"type": "string", "enum": ["digital signature", "key encipherment", "server auth", "client auth", "cert sign"]},
            },
            "revisionHistoryLimit": {"type": "integer", "format": "int32", "minimum": 1},
        }),
    );
    spec["x-kubernetes-validations"] = json!([
        {
            "rule": "has(self.commonName) || (has(self.dnsNames) && size(self.dnsNames) > 0) || (has(self.ipAddresses) && size(self.ipAddresses) > 0)",
            "message": "a certificate needs a name",
        },
        {
            "rule": "!(has(self.renewBefore) && has(self.renewBeforePercentage))",
            "message": "renewBefore and renewBeforePercentage exclude each other", "fieldPath": ".renewBefore",
        },
        {
            "rule": "!has(self.ipAddresses) || self.ipAddresses.all(address, isIP(address))",
            "messageExpression": "'not an address: ' + self.ipAddresses.filter(address, !isIP(address))[0]",
            "reason": "FieldValueInvalid", "fieldPath": ".ipAddresses",
        },
        {"rule": "self.secretName == oldSelf.secretName", "message": "secretName stays", "reason": "FieldValueForbidden"},
    ]);
    Version {
        name: "v1",
        spec,
        status: object(
            "What became of it.",
            &[],
            json!({
                "conditions": conditions(),
                "notBefore": {"type": "string", "format": "date-time"},
                "notAfter": {"type": "string", "format": "date-time"},
                "renewalTime": {"type": "string", "format": "date-time"},
                "revision": {"type": "integer"},
                "failedIssuanceAttempts": {"type": "integer"},
            }),
        ),
        columns: json!([
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type == \"Ready\")].status"},
            {"name": "Secret", "type": "string", "jsonPath": ".spec.secretName"},
            {"name": "Issuer", "type": "string", "jsonPath": ".spec.issuerRef.name", "priority": 1},
            {"name": "Status", "type": "string", "jsonPath": ".status.conditions[?(@.type == \"Ready\")].message", "priority": 1},
            {"name": "Expires", "type": "date", "jsonPath": ".status.notAfter", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]),
        scale: Value::Null,
    }
}

fn issuer(types: &Types) -> Version {
    let mut spec = object(
        "How it issues: one of these.",
        &[],
        json!({
            "acme": object("By an ACME server.", &["server", "privateKeySecretRef"], json!({
                "email": text("Who gets mails of certificates that end."),
                "server": {"type": "string", "pattern": "^https?://.+$"},
                "preferredChain": {"type": "string", "maxLength": 64},
                "caBundle": {"type": "string", "format": "byte"},
                "skipTLSVerify": {"type": "boolean"},
                "privateKeySecretRef": secret_key(),
                "externalAccountBinding": object("An account that is known already.", &["keyID", "keySecretRef"], json!({
                    "keyID": {"type": "string"}, "keySecretRef": secret_key(),
                })),
                "solvers": {"type": "array", "items": solver(types), "x-kubernetes-list-type": "atomic"},
            })),
            "ca": object("By a key pair of its own.", &["secretName"], json!({
                "secretName": {"type": "string"},
                "crlDistributionPoints": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
            })),
            "selfSigned": object("By each certificate itself.", &[], json!({})),
            "vault": object("By a Vault.", &["server", "path", "auth"], json!({
                "server": {"type": "string"}, "path": {"type": "string"}, "namespace": {"type": "string"},
                "auth": object("How it is let in.", &[], json!({
                    "tokenSecretRef": secret_key(),
                    "appRole": object("By a role.", &["path", "roleId", "secretRef"], json!({
                        "path": {"type": "string"}, "roleId": {"type": "string"}, "secretRef": secret_key(),
                    })),
                })),
            })),
        }),
    );
    spec["oneOf"] = json!([
        {"required": ["acme"]}, {"required": ["ca"]}, {"required": ["selfSigned"]}, {"required": ["vault"]},
    ]);
    Version {
        name: "v1",
        spec,
        status: object(
            "What became of it.",
            &[],
            json!({"conditions": conditions(), "acme": {"type": "object", "properties": {"uri": {"type": "string"}}}}),
        ),
        columns: json!([
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type == \"Ready\")].status"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]),
        scale: Value::Null,
    }
}

/// Schema of the method that proves a name: by a DNS record or by a Pod that responds.
fn solver(types: &Types) -> Value {
    let pod = object(
        "The pod that answers.",
        &[],
        json!({
            "metadata": embedded_metadata(),
            "spec": object("What may be said of it.", &[], json!({
                "affinity": types.core("Affinity"),
                "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
                "tolerations": {"type": "array", "items": types.core("Toleration"), "x-kubernetes-list-type": "atomic"},
                "imagePullSecrets": list_map(&["name"], json!({"type": "object", "properties": {"name": {"type": "string", "default": ""}}})),
                "securityContext": types.core("PodSecurityContext"),
                "resources": types.core("ResourceRequirements"),
                "serviceAccountName": {"type": "string"},
            })),
        }),
    );
    let of_provider = |fields: &[&str]| {
        let properties: serde_json::Map<_, _> = fields
            .iter()
            .map(|field| match field.strip_suffix("SecretRef") {
                Some(_) => ((*field).to_owned(), secret_key()),
                None => ((*field).to_owned(), json!({"type": "string"})),
            })
            .collect();
        object("A provider of DNS.", &[], Value::Object(properties))
    };
    object(
        "Which names are proved how.",
        &[],
        json!({
            "selector": object("Which names.", &[], json!({
                "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
                "dnsNames": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
                "dnsZones": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
            })),
            "dns01": object("By a record.", &[], json!({
                "cnameStrategy": {"type": "string", "enum": ["None", "Follow"]},
                "cloudDNS": of_provider(&["project", "hostedZoneName", "serviceAccountSecretRef"]),
                "route53": of_provider(&["region", "hostedZoneID", "role", "secretAccessKeySecretRef"]),
                "digitalocean": of_provider(&["tokenSecretRef"]),
                "webhook": object("Anything else.", &["groupName", "solverName"], json!({
                    "groupName": {"type": "string"}, "solverName": {"type": "string"},
                    "config": {"x-kubernetes-preserve-unknown-fields": true},
                })),
            })),
            "http01": object("By a pod.", &[], json!({
                "ingress": object("Through an Ingress.", &[], json!({
                    "ingressClassName": {"type": "string"}, "serviceType": {"type": "string"}, "podTemplate": pod.clone(),
                    "ingressTemplate": object("What the Ingress bears.", &[], json!({"metadata": embedded_metadata()})),
                })),
                "gatewayHTTPRoute": object("Through a Gateway.", &[], json!({
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "parentSelector": label_selector(), "podTemplate": pod,
                })),
            })),
        }),
    )
}

fn challenge(types: &Types) -> Version {
    let mut spec = object(
        "What is to be proved.",
        &["dnsName", "key", "solver", "token", "type", "url"],
        json!({
            "dnsName": {"type": "string"}, "key": {"type": "string"}, "token": {"type": "string"}, "url": {"type": "string"},
            "wildcard": {"type": "boolean"}, "type": {"type": "string", "enum": ["HTTP-01", "DNS-01"]},
            "solver": solver(types),
        }),
    );
    spec["x-kubernetes-validations"] = json!([{"rule": "self == oldSelf", "message": "a challenge stays as it is"}]);
    Version {
        name: "v1",
        spec,
        status: object(
            "How far it is.",
            &[],
            json!({
                "presented": {"type": "boolean"}, "processing": {"type": "boolean"}, "reason": {"type": "string"},
                "state": {"type": "string", "enum": ["", "valid", "ready", "pending", "processing", "invalid", "expired", "errored"]},
            }),
        ),
        columns: json!([
            {"name": "State", "type": "string", "jsonPath": ".status.state"},
            {"name": "Domain", "type": "string", "jsonPath": ".spec.dnsName"},
        ]),
        scale: Value::Null,
    }
}
