//! Reader of policy files.
//!
//! Errors have the reference's messages. It is stricter in one respect: an unknown field is an error at startup here,
//! but a warning in the reference.

use holdfast_schema::metadata::formats::dns_subdomain;
use holdfast_schema::{Aggregate, FieldError, FieldPath, GoField};
use holdfast_value::{Limits, SmolStr, Value, yaml};

use crate::{GroupResources, Level, Policy, Rule, Stage, Stages};

/// The only supported version of policies.
const API_VERSION: &str = "audit.k8s.io/v1";

/// Error of reading a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The text cannot be read.
    #[error("failed decoding: {0}")]
    Unreadable(String),
    /// It has unknown or repeated fields.
    #[error("strict decoding error: {0}")]
    Strict(String),
    /// It is not declared as a policy of a known version.
    #[error("unknown group version field audit.k8s.io/__internal, Kind=Policy in policy")]
    Versionless,
    /// Some of its fields have invalid values.
    #[error("{0}")]
    Invalid(String),
    /// It has no rules.
    #[error("loaded illegal policy with 0 rules")]
    Empty,
}

impl Policy {
    /// Reads YAML or JSON.
    ///
    /// # Errors
    /// Returns the error with its position.
    pub fn read(bytes: &[u8]) -> Result<Self, PolicyError> {
        let unreadable = |why: String| PolicyError::Unreadable(why);
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(PolicyError::Versionless);
        }
        let result = yaml::parse_with_findings(bytes, &Limits::REQUEST);
        let parsed = result.map_err(|error| unreadable(error.to_string()))?;
        check_version(&parsed.value)?;
        let mut reader = Reader::default();
        let root = GoField::root("Policy", &parsed.value);
        let policy = reader.policy(&root).map_err(unreadable)?;
        let repeated = parsed.findings.iter().map(ToString::to_string);
        let strict: Vec<String> = repeated.chain(reader.unknown).collect();
        if !strict.is_empty() {
            return Err(PolicyError::Strict(strict.join(", ")));
        }
        if !reader.errors.is_empty() {
            return Err(PolicyError::Invalid(Aggregate(&reader.errors).to_string()));
        }
        if policy.rules.is_empty() {
            return Err(PolicyError::Empty);
        }
        Ok(policy)
    }
}

/// Rejects objects that are not declared as a policy.
fn check_version(policy: &Value) -> Result<(), PolicyError> {
    let text = |name| policy.str_at(&[name]).unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        (API_VERSION, "" | "Policy") => Ok(()),
        ("", "" | "Policy") => Err(PolicyError::Versionless),
        (API_VERSION, kind @ ("Event" | "EventList" | "PolicyList")) => Err(PolicyError::Unreadable(format!(
            "converting (v1.{kind}) to (audit.Policy): unknown conversion"
        ))),
        (version, kind) => Err(PolicyError::Unreadable(format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"holdfast\""
        ))),
    }
}

/// Fields of metadata, which policies have only formally.
const METADATA: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Collector of the errors in a policy that can be decoded.
#[derive(Default)]
struct Reader {
    unknown: Vec<String>,
    errors: Vec<FieldError>,
}

impl Reader {
    fn policy(&mut self, root: &GoField<'_>) -> Result<Policy, String> {
        let known = [
            "apiVersion",
            "kind",
            "metadata",
            "rules",
            "omitStages",
            "omitManagedFields",
        ];
        root.check_members("v1.Policy", &known, &mut self.unknown)?;
        let child = |name| root.child("Policy", name);
        child("metadata").check_members("v1.ObjectMeta", &METADATA, &mut self.unknown)?;
        let omit_stages = self.stages(&child("omitStages"))?;
        let items = child("rules").items("v1.PolicyRule")?;
        let rules = items.iter().map(|rule| self.rule(rule));
        Ok(Policy {
            rules: rules.collect::<Result<_, _>>()?,
            omit_stages,
            omit_managed_fields: child("omitManagedFields").flag()? == Some(true),
        })
    }

    fn rule(&mut self, place: &GoField<'_>) -> Result<Rule, String> {
        let known = [
            "level",
            "users",
            "userGroups",
            "verbs",
            "resources",
            "namespaces",
            "nonResourceURLs",
            "omitStages",
            "omitManagedFields",
        ];
        place.check_members("v1.PolicyRule", &known, &mut self.unknown)?;
        let child = |name| place.child("PolicyRule", name);
        let level = self.level(&child("level"))?;
        let urls = child("nonResourceURLs");
        let non_resource_urls = urls.texts()?;
        self.check_urls(&urls.path, &non_resource_urls);
        let resources = self.resources(&child("resources"))?;
        let rule = Rule {
            level,
            users: child("users").texts()?,
            user_groups: child("userGroups").texts()?,
            verbs: child("verbs").texts()?,
            resources,
            namespaces: child("namespaces").texts()?,
            non_resource_urls,
            omit_stages: self.stages(&child("omitStages"))?,
            omit_managed_fields: child("omitManagedFields").flag()?,
        };
        let of_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
        if of_resources && !rule.non_resource_urls.is_empty() {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            self.errors.push(invalid_list(&urls.path, &rule.non_resource_urls, why));
        }
        Ok(rule)
    }

    fn level(&mut self, place: &GoField<'_>) -> Result<Level, String> {
        let text = place.text("v1.Level")?;
        if let Some(level) = Level::named(text) {
            return Ok(level);
        }
        self.errors.push(match text {
            "" => FieldError::required(&place.path, ""),
            text => FieldError::not_supported(&place.path, text, &Level::ALL.map(Level::name)),
        });
        Ok(Level::None)
    }

    fn check_urls(&mut self, path: &FieldPath, urls: &[SmolStr]) {
        for (at, url) in urls.iter().enumerate().filter(|(_, url)| *url != "*") {
            let mut reject = |why| {
                let error = FieldError::invalid(&path.index(at), url.as_str(), why);
                self.errors.push(error);
            };
            if !url.starts_with('/') {
                reject("non-resource URL rules must begin with a '/' character");
            }
            let mut characters = url.chars();
            characters.next_back();
            if characters.as_str().contains('*') {
                reject("non-resource URL wildcards '*' must be the final character of the rule");
            }
        }
    }

    fn resources(&mut self, place: &GoField<'_>) -> Result<Vec<GroupResources>, String> {
        let mut all = Vec::new();
        for item in place.items("v1.GroupResources")? {
            item.check_members(
                "v1.GroupResources",
                &["group", "resources", "resourceNames"],
                &mut self.unknown,
            )?;
            let child = |name| item.child("GroupResources", name);
            let resources = GroupResources {
                group: child("group").text("string")?.into(),
                resources: child("resources").texts()?,
                resource_names: child("resourceNames").texts()?,
            };
            // The reference omits the index here.
            if !resources.group.is_empty() && resources.group != "*" {
                let messages = dns_subdomain(&resources.group);
                if !messages.is_empty() {
                    let path = place.path.child("group");
                    let error = FieldError::invalid(&path, resources.group.as_str(), messages.join(","));
                    self.errors.push(error);
                }
            }
            if !resources.resource_names.is_empty() && resources.resources.is_empty() {
                let path = place.path.child("resourceNames");
                let why = "using resourceNames requires at least one resource";
                self.errors.push(invalid_list(&path, &resources.resource_names, why));
            }
            all.push(resources);
        }
        Ok(all)
    }

    fn stages(&mut self, place: &GoField<'_>) -> Result<Stages, String> {
        let mut stages = Stages::default();
        for item in place.items("v1.Stage")? {
            let text = item.text("v1.Stage")?;
            match Stage::named(text) {
                Some(stage) => stages = stages.union(stage.into()),
                None => {
                    let why = format!("allowed stages are {}", Stage::ALL.map(Stage::name).join(","));
                    self.errors.push(FieldError::invalid(&item.path, text, why));
                }
            }
        }
        Ok(stages)
    }
}

fn invalid_list(path: &FieldPath, list: &[SmolStr], why: &str) -> FieldError {
    let list: Vec<Value> = list.iter().map(|text| Value::from(text.as_str())).collect();
    FieldError::invalid(path, Value::from(list), why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(text: &str) -> String {
        Policy::read(text.as_bytes()).unwrap_err().to_string()
    }

    fn with(text: &str) -> String {
        format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{text}")
    }

    #[test]
    fn null_item_counts_as_an_empty_value() {
        let policy = Policy::read(with("rules: [{level: None, users: [null, a]}]\n").as_bytes()).unwrap();
        assert_eq!(policy.rules[0].users, ["", "a"]);
    }

    #[test]
    fn a_policy_is_of_the_one_version() {
        let rules = "rules: [{level: None}]\n";
        assert!(Policy::read(with(rules).as_bytes()).is_ok());
        assert!(Policy::read(format!("apiVersion: audit.k8s.io/v1\n{rules}").as_bytes()).is_ok());
        let versionless = "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy";
        assert_eq!(rejected(""), versionless);
        assert_eq!(rejected(&format!("kind: Policy\n{rules}")), versionless);
        assert_eq!(
            rejected(&format!("apiVersion: audit.k8s.io/v1beta1\nkind: Policy\n{rules}")),
            "failed decoding: no kind \"Policy\" is registered for version \"audit.k8s.io/v1beta1\" in scheme \"holdfast\""
        );
        assert_eq!(
            rejected("apiVersion: audit.k8s.io/v1\nkind: EventList\nitems: []"),
            "failed decoding: converting (v1.EventList) to (audit.Policy): unknown conversion"
        );
        assert!(rejected("a: [").starts_with("failed decoding: "));
    }

    #[test]
    fn unknown_field_is_rejected_with_path() {
        assert_eq!(
            rejected(&with(
                "metadata: {name: x, foo: y}\nrules: [{level: None, resources: [{kind: x}]}]\nRules: []"
            )),
            "strict decoding error: unknown field \"Rules\", unknown field \"metadata.foo\", unknown field \
             \"rules[0].resources[0].kind\""
        );
        assert!(rejected(&with("rules: [{level: None}]\nrules: []")).starts_with("strict decoding error: "));
    }

    #[test]
    fn wrong_type_gives_go_error() {
        for (text, why) in [
            (
                "rules: [{level: 5}]",
                "json: cannot unmarshal number into Go struct field PolicyRule.rules.level of type v1.Level",
            ),
            (
                "rules: [{users: alice}]",
                "json: cannot unmarshal string into Go struct field PolicyRule.rules.users of type []string",
            ),
            (
                "rules: [{omitManagedFields: 'yes'}]",
                "json: cannot unmarshal string into Go struct field PolicyRule.rules.omitManagedFields of type bool",
            ),
            (
                "rules: {a: b}",
                "json: cannot unmarshal object into Go struct field Policy.rules of type []v1.PolicyRule",
            ),
        ] {
            assert_eq!(rejected(&with(text)), format!("failed decoding: {why}"));
        }
    }

    #[test]
    fn faults_of_fields_are_reported_all_at_once() {
        let text = with(
            "rules:\n- level: Meta\n- nonResourceURLs: [a, '/*/b']\n- level: None\n  nonResourceURLs: ['/a']\n  namespaces: \
             [x]\n- level: None\n  resources: [{resourceNames: [x]}]\n  omitStages: [Foo]\nomitStages: [Bar]\n",
        );
        let stages = "allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic";
        assert_eq!(
            rejected(&text),
            format!(
                "[omitStages[0]: Invalid value: \"Bar\": {stages}, rules[0].level: Unsupported value: \"Meta\": supported \
                 values: \"None\", \"Metadata\", \"Request\", \"RequestResponse\", rules[1].level: Required value, \
                 rules[1].nonResourceURLs[0]: Invalid value: \"a\": non-resource URL rules must begin with a '/' character, \
                 rules[1].nonResourceURLs[1]: Invalid value: \"/*/b\": non-resource URL wildcards '*' must be the final \
                 character of the rule, rules[2].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both \
                 regular resources and non-resource URLs, rules[3].resources.resourceNames: Invalid value: [\"x\"]: using \
                 resourceNames requires at least one resource, rules[3].omitStages[0]: Invalid value: \"Foo\": {stages}]"
            )
        );
        let group = rejected(&with("rules: [{level: None, resources: [{group: a/b}]}]"));
        assert!(
            group.starts_with("rules[0].resources.group: Invalid value: \"a/b\": a lowercase RFC 1123 subdomain"),
            "{group}"
        );
    }

    #[test]
    fn a_policy_has_rules() {
        for text in ["", "rules: []\n", "rules: null\n"] {
            assert_eq!(rejected(&with(text)), "loaded illegal policy with 0 rules");
        }
    }
}
