//! Configurations that are rejected, in the words of the reference.

use super::*;

fn rejected(text: &str, reload: bool) -> String {
    let error = encryption().prepare(text.as_bytes(), reload).map(drop);
    error.unwrap_err().to_string()
}

const PARSING: &str = "error while parsing file: ";
const DECODING: &str = "error while parsing file: error decoding encryption provider configuration file: ";
const IDENTITY: &str = "  providers: [{identity: {}}]\n";

#[test]
fn text_that_is_no_configuration_is_rejected() {
    let rules = format!("- resources: [secrets]\n{IDENTITY}");
    let read = |text: &str| rejected(text, false).replace(DECODING, "");
    assert_eq!(
        rejected("", false),
        "error while parsing file: error while loading file: encryption provider configuration file is empty"
    );
    assert_eq!(read("resources: []\n"), "Object 'Kind' is missing");
    assert_eq!(
        read("kind: Foo\napiVersion: apiserver.config.k8s.io/v1\n"),
        "no kind \"Foo\" is registered for version \"apiserver.config.k8s.io/v1\""
    );
    assert!(read("- a\n").starts_with("couldn't get version/kind"));
    assert!(rejected("a: [", false).starts_with(DECODING));
    let unknown = format!(
        "{}bar: 2\n",
        configuration("- resources: [secrets]\n  foo: 1\n  providers: []\n")
    );
    assert_eq!(
        read(&unknown),
        "strict decoding error: unknown field \"bar\", unknown field \"resources[0].foo\""
    );
    assert!(read(&configuration(&format!("{rules}  resources: [pods]\n"))).starts_with("strict decoding error: "));
    for (rules, why) in [
        (
            format!("- resources: secrets\n{IDENTITY}"),
            "string into Go struct field ResourceConfiguration.resources.resources of type []string",
        ),
        (
            secrets("  - aesgcm: {keys: [{name: 1, secret: a}]}\n"),
            "number into Go struct field Key.resources.providers.aesgcm.keys.name of type string",
        ),
        (
            secrets("  - kms: {name: a, endpoint: 'unix:///a', timeout: 3, apiVersion: v2}\n"),
            "number into Go struct field KMSConfiguration.resources.providers.kms.timeout of type string",
        ),
    ] {
        assert_eq!(read(&configuration(&rules)), format!("json: cannot unmarshal {why}"));
    }
    let duration = secrets("  - kms: {name: a, endpoint: 'unix:///a', timeout: 3x, apiVersion: v2}\n");
    assert_eq!(
        read(&configuration(&duration)),
        "time: unknown unit \"x\" in duration \"3x\""
    );
}

#[test]
fn invalid_resources_are_rejected_all_at_once() {
    let error_of = |rules: &str| rejected(&configuration(rules), false).replace(PARSING, "");
    let overlap = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they \
                   will be masked";
    assert_eq!(
        rejected(
            "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\n",
            false
        ),
        format!("{PARSING}resources: Required value: at least one resources is required")
    );
    assert_eq!(
        error_of("- {}\n"),
        "[resources[0].resources: Required value: at least one resources[0].resources is required, \
         resources[0].providers: Required value: at least one resources[0].providers is required]"
    );
    assert_eq!(
        error_of(&format!("- resources: [secrets, '*.', secrets]\n{IDENTITY}")),
        format!(
            "[resources[0].resources: Invalid value: [\"secrets\",\"*.\",\"secrets\"]: the same resource cannot be \
             specified multiple times, resources[0].resources: Invalid value: [\"secrets\",\"*.\",\"secrets\"]: {overlap}]"
        )
    );
    assert_eq!(
        error_of(&format!(
            "- resources: [Secrets, '*', apiserveripinfo, a.events.k8s.io, b.extensions, 'secrets.*']\n{IDENTITY}"
        )),
        format!(
            "[resources[0].resources: Invalid value: [\"Secrets\",\"*\",\"apiserveripinfo\",\"a.events.k8s.io\",\
             \"b.extensions\",\"secrets.*\"]: {overlap}, resources[0].resources[0]: Invalid value: \"Secrets\": resource \
             name should not contain capital letters, resources[0].resources[1]: Invalid value: \"*\": use '*.' to encrypt \
             all the resources from core API group or *.* to encrypt all resources, resources[0].resources[2]: Invalid \
             value: \"apiserveripinfo\": resources which do not have REST API/s cannot be encrypted, \
             resources[0].resources[3]: Invalid value: \"a.events.k8s.io\": '*.events.k8s.io' objects are stored using the \
             'events' API group in etcd. Use 'events' instead in the config file, resources[0].resources[4]: Invalid value: \
             \"b.extensions\": 'extensions' group has been removed and cannot be used for encryption, \
             resources[0].resources[5]: Invalid value: \"secrets.*\": encrypting the same resource across groups is not \
             supported]"
        )
    );
    for (first, second, why) in [
        ("*.", "secrets", "\"secrets\" is masked by earlier rule \"*.\""),
        ("*.*", "*.apps", "\"*.apps\" is masked by earlier rule \"*.*\""),
        ("*.", "*.", "\"*.\" is masked by earlier rule \"*.\""),
    ] {
        let rules = format!("- resources: ['{first}']\n{IDENTITY}- resources: ['{second}']\n{IDENTITY}");
        let expected = format!("error while building transformers: resource {why}");
        assert_eq!(rejected(&configuration(&rules), false), expected);
    }
}

#[test]
fn invalid_providers_are_rejected_without_secrets() {
    let error_of = |providers: &str, reload| {
        rejected(&configuration(&secrets(providers)), reload).replace(&format!("{PARSING}resources[0].providers"), "")
    };
    let none = "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity";
    assert_eq!(
        error_of("  - {}\n", false),
        format!("[0]: Invalid value: \"REDACTED\": {none}")
    );
    let two = format!("  - {{identity: {{}}, aesgcm: {{keys: [{{name: a, secret: {KEY_ONE}}}]}}}}\n");
    let error = error_of(&two, false);
    assert!(
        error.ends_with(
            "more than one provider specified in a single element, should split into different list elements"
        )
    );
    assert!(!error.contains(KEY_ONE), "{error}");
    assert_eq!(
        error_of("  - aesgcm: {keys: [{name: a, secret: 'x!'}]}\n", false),
        "[0].aesgcm.keys[0].secret: Invalid value: \"REDACTED\": secrets must be base64 encoded"
    );
    assert_eq!(
        error_of(
            "  - secretbox: {keys: [{name: a, secret: AQIDBAUGBwgJCgsMDQ4PEA==}]}\n",
            false
        ),
        "[0].secretbox.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 16, expected \
         one of [32]"
    );
    assert_eq!(
        error_of("  - aescbc: {keys: [{secret: AQIDBAUGBwgJCgsMDQ4PEA==}]}\n", false),
        "[0].aescbc.keys[0].name: Required value: name is a mandatory field for a key"
    );
    assert_eq!(
        error_of("  - aescbc: {}\n", false),
        "[0].aescbc.keys: Required value: at least one keys is required"
    );
    let plugin = "  - kms: {apiVersion: v2, name: a, endpoint: 'unix:///x', timeout: 10ms}\n";
    assert_eq!(
        error_of(&plugin.repeat(2), false),
        "[1].kms.name: Invalid value: \"a\": duplicate KMS provider name a, names must be unique"
    );
    for (fields, why) in [
        (
            "name: 'a:b'",
            ".name: Invalid value: \"a:b\": invalid KMS provider name a:b, must not contain ':'",
        ),
        (
            "name: a, timeout: 0s",
            ".timeout: Invalid value: \"0s\": timeout should be a positive value",
        ),
        (
            "name: a, timeout: -1s",
            ".timeout: Invalid value: \"-1s\": timeout should be a positive value",
        ),
        (
            "name: a, cachesize: 1",
            ".cachesize: Invalid value: 1: cachesize is not supported in v2",
        ),
    ] {
        let plugin = format!("  - kms: {{apiVersion: v2, endpoint: 'unix:///x', {fields}}}\n");
        assert_eq!(error_of(&plugin, true), format!("[0].kms{why}"));
    }
    for (endpoint, why) in [
        ("", "endpoint is a mandatory field for a kms"),
        (
            "http://x",
            "unsupported scheme \"http\" for KMS provider, only unix is supported",
        ),
        (
            "%zz",
            "invalid endpoint for kms provider, error: parse \"%zz\": invalid URL escape \"%zz\"",
        ),
    ] {
        let plugin = format!("  - kms: {{apiVersion: v2, name: a, endpoint: '{endpoint}'}}\n");
        assert_eq!(
            error_of(&plugin, true),
            format!("[0].kms.endpoint: Invalid value: \"{endpoint}\": {why}")
        );
    }
    let first_version = "  - kms: {name: v, endpoint: 'unix:///x'}\n";
    assert!(error_of(first_version, false).contains("KMSv1 is deprecated"));
}
