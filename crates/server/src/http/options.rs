//! Options of the API's verbs, from query parameters
//! (<https://kubernetes.io/docs/reference/kubernetes-api/common-parameters/common-parameters/>).
//!
//! Numbers that cannot be parsed are rejected; booleans never are: every text but `false` and `0` counts as true, as in
//! the reference. Options that parse but are invalid are rejected with a 422 that names the options' kind.

use holdfast_gotext::number::parse_int;
use holdfast_resource::FieldSelector;
use holdfast_resource::selector::{LabelSelector, SelectorError};
use holdfast_schema::metadata::validate_field_manager;
use holdfast_schema::{FieldError, FieldPath};
use holdfast_writes::{ApplyOptions, DeleteOptions, FieldValidation, PathText, WriteOptions, dry_run, named};

use crate::http::ApiError;
use crate::http::negotiation::PatchType;
use crate::http::query::Query;

/// Returns true if the text of a boolean parameter counts as true.
pub fn reads_as_true(text: &str) -> bool {
    !(text.eq_ignore_ascii_case("false") || text == "0")
}

/// Returns true if a list or watch requests the objects that its user may read, instead of a denial (`authorizedOnly`).
/// The reference does not have this option.
pub(crate) fn authorized_only(query: &Query) -> bool {
    query.get("authorizedOnly").is_some_and(reads_as_true)
}

/// The options of a POST.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateOptions {
    /// Options of all writes.
    pub write: WriteOptions,
}

/// The options of a PUT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateOptions {
    /// Options of all writes.
    pub write: WriteOptions,
}

/// The options of a PATCH.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchOptions {
    /// Options of all writes.
    pub write: WriteOptions,
    /// Options of an apply about the fields of other managers (`force`, and Holdfast's `forceFields`, `unset` and
    /// `conflictDetails`).
    pub apply: ApplyOptions,
}

/// The options of a GET of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetOptions {
    /// Oldest resource version that the response may have; empty for the newest.
    pub resource_version: String,
}

/// Meaning of the `resourceVersion` of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    /// The list at exactly this version.
    Exact,
    /// The list at this version or a later one.
    NotOlderThan,
}

/// Options of a list and of a watch, and those that select the objects of a DELETE of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// The text of the label selector.
    pub label_selector: String,
    /// The text of the field selector.
    pub field_selector: String,
    /// True if the request is a watch.
    pub watch: bool,
    /// True if the watch requests bookmarks.
    pub allow_watch_bookmarks: bool,
    /// The version to read at or to watch from; may be empty.
    pub resource_version: String,
    /// Meaning of `resource_version`.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// Maximum duration of the call in seconds.
    pub timeout_seconds: Option<i64>,
    /// Maximum number of objects in a response; 0 or less for all.
    pub limit: i64,
    /// Token of the next chunk.
    pub continue_token: String,
    /// True if a watch begins with the existing objects.
    pub send_initial_events: Option<bool>,
    /// Text of the shard selector; empty for all objects.
    pub shard_selector: String,
}

/// Options that lists and watches may request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListRules {
    /// True if watches may begin with the existing objects.
    pub watch_list: bool,
    /// True if they may request the objects of a shard.
    pub shards: bool,
}

impl Default for ListRules {
    /// Returns the default rules.
    fn default() -> Self {
        Self {
            watch_list: true,
            shards: false,
        }
    }
}

impl CreateOptions {
    /// Parses the options of a POST.
    ///
    /// # Errors
    /// If a value is invalid (422).
    pub fn parse(query: &Query) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let write = write_options(query, &mut errors);
        reject("CreateOptions", errors)?;
        Ok(Self { write })
    }
}

impl UpdateOptions {
    /// Parses the options of a PUT.
    ///
    /// # Errors
    /// If a value is invalid (422).
    pub fn parse(query: &Query) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let write = write_options(query, &mut errors);
        reject("UpdateOptions", errors)?;
        Ok(Self { write })
    }
}

impl PatchOptions {
    /// Parses the options of a PATCH of that type.
    ///
    /// # Errors
    /// If a value is invalid, an apply has no field manager, or a patch of another type is forced (422).
    pub fn parse(query: &Query, patch_type: PatchType) -> Result<Self, ApiError> {
        let force = query.get("force").map(reads_as_true);
        let mut errors = Vec::new();
        if patch_type.applies() {
            if query.get("fieldManager").unwrap_or_default().is_empty() {
                let field = FieldPath::new("fieldManager");
                errors.push(FieldError::required(&field, "is required for apply patch"));
            }
        } else if force.is_some() {
            let field = FieldPath::new("force");
            errors.push(FieldError::forbidden(
                &field,
                "may not be specified for non-apply patch",
            ));
        }
        let write = write_options(query, &mut errors);
        reject("PatchOptions", errors)?;
        let apply = apply_options(query, patch_type, force.unwrap_or_default())?;
        Ok(Self { write, apply })
    }
}

/// Parses the options of an apply that the reference does not have.
///
/// # Errors
/// If a text is not the path of a field, or options conflict (400).
fn apply_options(query: &Query, patch_type: PatchType, force: bool) -> Result<ApplyOptions, ApiError> {
    let fields = |name| {
        let mut fields = Vec::new();
        for text in query.all(name) {
            fields
                .extend(PathText::parse_list(text).map_err(|error| ApiError::bad_request(format!("{name}: {error}")))?);
        }
        match fields.is_empty() || patch_type.applies() {
            true => Ok(fields),
            false => Err(ApiError::bad_request(format!(
                "{name} may not be specified for non-apply patch"
            ))),
        }
    };
    // The search for each of them reads the whole object.
    let bounded = |fields: Vec<PathText>| match fields.len() > PathText::MAX_PATHS {
        true => Err(ApiError::bad_request(format!(
            "unset: at most {} paths are allowed",
            PathText::MAX_PATHS
        ))),
        false => Ok(fields),
    };
    let options = ApplyOptions {
        force,
        force_fields: fields("forceFields")?,
        unset: fields("unset").and_then(bounded)?,
        conflict_details: query.get("conflictDetails").is_some_and(reads_as_true),
    };
    if force && !options.force_fields.is_empty() {
        return Err(ApiError::bad_request(
            "force and forceFields may not be specified together",
        ));
    }
    Ok(options)
}

fn write_options(query: &Query, errors: &mut Vec<FieldError>) -> WriteOptions {
    let field_manager = query.get("fieldManager").unwrap_or_default().to_owned();
    validate_field_manager(|| FieldPath::new("fieldManager"), &field_manager, errors);
    let dry_run = dry_run(query.all("dryRun"), errors);
    let text = query.get("fieldValidation").unwrap_or_default();
    let names = FieldValidation::NAMES;
    let field_validation = named(&names, "fieldValidation", text, &names.map(|(name, _)| name), errors);
    WriteOptions {
        dry_run,
        field_manager,
        field_validation: field_validation.unwrap_or_default(),
    }
}

/// Parses the options of a DELETE without a body.
///
/// # Errors
/// If a number cannot be parsed (400), or a value is invalid (422).
pub fn delete_options(query: &Query) -> Result<DeleteOptions, ApiError> {
    let grace_period_seconds = integer(query, "gracePeriodSeconds")?;
    let orphan_dependents = query.get("orphanDependents").map(reads_as_true);
    let policy = query.get("propagationPolicy");
    let precondition = |name| query.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
    Ok(DeleteOptions {
        uid: precondition("uid"),
        resource_version: precondition("resourceVersion"),
        ignores_read_error: query
            .get("ignoreStoreReadErrorWithClusterBreakingPotential")
            .is_some_and(reads_as_true),
        ..DeleteOptions::check(query.all("dryRun"), grace_period_seconds, orphan_dependents, policy)?
    })
}

impl GetOptions {
    /// Parses the options of a GET of one object.
    ///
    /// # Errors
    /// If it requests an export, which the API no longer supports (400).
    pub fn parse(query: &Query) -> Result<Self, ApiError> {
        if query.get("export").is_some_and(reads_as_true) {
            const WHY: &str = "the export parameter, deprecated since v1.14, is no longer supported";
            return Err(ApiError::bad_request(WHY));
        }
        Ok(Self {
            resource_version: query.get("resourceVersion").unwrap_or_default().to_owned(),
        })
    }
}

impl ListOptions {
    /// Parses the options of a list or a watch.
    ///
    /// # Errors
    /// If a number cannot be parsed (400), or options conflict (422).
    pub fn parse(query: &Query, rules: ListRules) -> Result<Self, ApiError> {
        let watch_list = rules.watch_list;
        let text = |name| query.get(name).unwrap_or_default().to_owned();
        let flag = |name| query.get(name).map(reads_as_true);
        let mut options = Self {
            label_selector: text("labelSelector"),
            field_selector: text("fieldSelector"),
            watch: flag("watch").unwrap_or_default(),
            allow_watch_bookmarks: flag("allowWatchBookmarks").unwrap_or_default(),
            resource_version: text("resourceVersion"),
            resource_version_match: None,
            timeout_seconds: integer(query, "timeoutSeconds")?,
            limit: integer(query, "limit")?.unwrap_or_default(),
            continue_token: text("continue"),
            send_initial_events: flag("sendInitialEvents"),
            shard_selector: match rules.shards {
                true => text("shardSelector"),
                false => String::new(),
            },
        };
        let rule = query.get("resourceVersionMatch").unwrap_or_default();
        options.resource_version_match = match rule {
            "Exact" => Some(ResourceVersionMatch::Exact),
            "NotOlderThan" => Some(ResourceVersionMatch::NotOlderThan),
            _ => None,
        };
        if options.watch && rule.is_empty() && watch_list {
            options.begin_with_initial_events();
        }
        let errors = if options.watch {
            options.check_watch(rule, watch_list)
        } else {
            options.check_list(rule)
        };
        if !errors.is_empty() {
            options.check_selectors()?;
        }
        reject("ListOptions", errors)?;
        Ok(options)
    }

    /// Turns a watch from any version, or from none, that does not state how it begins, into one that requests the
    /// existing objects: it begins with the newest state, followed by a bookmark if the watch requests bookmarks.
    fn begin_with_initial_events(&mut self) {
        let from_any_version = matches!(self.resource_version.as_str(), "" | "0");
        if from_any_version && self.send_initial_events.is_none() {
            self.send_initial_events = Some(true);
            self.resource_version_match = Some(ResourceVersionMatch::NotOlderThan);
        }
    }

    fn check_list(&self, rule: &str) -> Vec<FieldError> {
        let field = FieldPath::new("resourceVersionMatch");
        let mut errors = Vec::new();
        let mut forbid = |detail: &str| errors.push(FieldError::forbidden(&field, detail));
        if !rule.is_empty() {
            if self.resource_version.is_empty() {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if rule == "Exact" && self.resource_version == "0" {
                forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
            if self.resource_version_match.is_none() {
                errors.push(FieldError::not_supported(&field, rule, &["Exact", "NotOlderThan", ""]));
            }
        }
        if self.send_initial_events.is_some() {
            let field = FieldPath::new("sendInitialEvents");
            errors.push(FieldError::forbidden(&field, "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn check_watch(&self, rule: &str, watch_list: bool) -> Vec<FieldError> {
        let field = FieldPath::new("resourceVersionMatch");
        let not_older = self.resource_version_match == Some(ResourceVersionMatch::NotOlderThan);
        let mut errors = Vec::new();
        let mut forbid = |detail: &str| errors.push(FieldError::forbidden(&field, detail));
        if self.send_initial_events.is_some() && !not_older {
            forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        if self.send_initial_events.is_some() && !watch_list {
            let detail = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            errors.push(FieldError::forbidden(&FieldPath::new("sendInitialEvents"), detail));
        }
        let mut forbid = |detail: &str| errors.push(FieldError::forbidden(&field, detail));
        if !rule.is_empty() {
            if self.send_initial_events.is_none() {
                forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
            }
            if !not_older {
                errors.push(FieldError::not_supported(&field, rule, &["NotOlderThan"]));
            }
        }
        if self.resource_version_match.is_some() && !self.continue_token.is_empty() {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(&field, detail));
        }
        errors
    }

    /// Rejects selectors that cannot be parsed; this check precedes those of options that conflict.
    fn check_selectors(&self) -> Result<(), ApiError> {
        let reject = |error: SelectorError| ApiError::bad_request(error.to_string());
        LabelSelector::parse(&self.label_selector).map_err(reject)?;
        FieldSelector::parse(&self.field_selector).map_err(reject)?;
        Ok(())
    }

    /// Returns true if the options in a query can be parsed.
    pub(crate) fn are_readable(query: &Query) -> bool {
        let number = |name| integer(query, name).is_ok();
        let labels = query.get("labelSelector").unwrap_or_default();
        number("timeoutSeconds") && number("limit") && LabelSelector::parse(labels).is_ok()
    }
}

fn reject(options: &'static str, errors: Vec<FieldError>) -> Result<(), ApiError> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid_options(options, &errors))
    }
}

/// Returns the integer in the parameter `name`.
fn integer(query: &Query, name: &str) -> Result<Option<i64>, ApiError> {
    query.get(name).map(whole_number).transpose()
}

/// Parses `text` as an integer.
///
/// # Errors
/// If it is no integer (400).
pub(crate) fn whole_number(text: &str) -> Result<i64, ApiError> {
    parse_int(text).map_err(ApiError::bad_request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(query: &str) -> Result<ListOptions, String> {
        ListOptions::parse(&Query::parse(query), ListRules::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn booleans_are_true_unless_they_say_false() {
        for (text, expected) in [
            ("true", true),
            ("", true),
            ("perhaps", true),
            ("False", false),
            ("0", false),
        ] {
            assert_eq!(reads_as_true(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_that_cannot_be_read_are_refused() {
        assert_eq!(
            list("limit=many").unwrap_err(),
            "strconv.ParseInt: parsing \"many\": invalid syntax"
        );
        let long = "99999999999999999999";
        let text = format!("strconv.ParseInt: parsing \"{long}\": value out of range");
        assert_eq!(list(&format!("timeoutSeconds={long}")).unwrap_err(), text);
        assert_eq!(list("limit=-1").unwrap().limit, -1);
        for query in ["limit=", "limit", "timeoutSeconds="] {
            let text = "strconv.ParseInt: parsing \"\": invalid syntax";
            assert_eq!(list(query).unwrap_err(), text, "{query}");
        }
    }

    #[test]
    fn selectors_are_read_before_options_are_compared() {
        let error = list("resourceVersionMatch=Exact&labelSelector=((").unwrap_err();
        assert!(error.starts_with("found '('"), "{error}");
        assert!(list("watch=1&resourceVersion=5&continue=abc").is_ok());
        let begun = list("watch=1&continue=abc").unwrap_err();
        assert!(begun.contains("forbidden when continue is provided"), "{begun}");
    }

    #[test]
    fn a_delete_may_state_in_its_query_what_the_object_must_be() {
        let parse = |query| delete_options(&Query::parse(query)).unwrap();
        let options = parse("resourceVersion=7&resourceVersion=8&uid=x");
        assert_eq!(
            (options.resource_version.as_deref(), options.uid.as_deref()),
            (Some("7"), Some("x"))
        );
        let options = parse("resourceVersion=&uid=");
        assert_eq!((options.resource_version, options.uid), (None, None));
    }

    #[test]
    fn list_options_that_do_not_go_together_are_refused() {
        let cases = [
            (
                "resourceVersionMatch=Exact",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ),
            (
                "resourceVersionMatch=Nearly&resourceVersion=5",
                "resourceVersionMatch: Unsupported value: \"Nearly\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
            ),
            (
                "sendInitialEvents=true",
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
            ),
            (
                "watch=1&sendInitialEvents=true",
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
        ];
        for (query, error) in cases {
            let text = format!("ListOptions.meta.k8s.io \"\" is invalid: {error}");
            assert_eq!(list(query).unwrap_err(), text, "{query}");
        }
        assert!(list("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan").is_ok());
    }

    #[test]
    fn patch_options_know_apply_from_other_patches() {
        let parse = |query, patch_type| {
            PatchOptions::parse(&Query::parse(query), patch_type).map_err(|error| error.to_string())
        };
        assert_eq!(
            parse("", PatchType::Apply).unwrap_err(),
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
        );
        assert_eq!(
            parse("force=true", PatchType::Merge).unwrap_err(),
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch"
        );
        assert!(
            parse("fieldManager=a&force=perhaps", PatchType::Apply)
                .unwrap()
                .apply
                .force
        );
        assert_eq!(
            parse("fieldValidation=strict", PatchType::Merge).unwrap_err(),
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"strict\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
        );
    }

    #[test]
    fn apply_options_name_fields() {
        let parse = |query: &str, patch_type| {
            PatchOptions::parse(&Query::parse(query), patch_type).map_err(|error| error.to_string())
        };
        let apply = |query: &str| parse(&format!("fieldManager=a&{query}"), PatchType::Apply);
        let parsed = apply("forceFields=.a,.b%5Bn=%22x%22%5D&forceFields=.c&unset=.d&conflictDetails=true");
        let options = parsed.unwrap().apply;
        let texts = |paths: &[PathText]| paths.iter().map(PathText::as_str).collect::<Vec<_>>().join(" ");
        assert_eq!(texts(&options.force_fields), ".a .b[n=\"x\"] .c");
        assert_eq!(texts(&options.unset), ".d");
        assert!(options.conflict_details && !options.force && !options.is_plain());
        assert!(apply("conflictDetails=false").unwrap().apply.is_plain());
        for (query, error) in [
            (
                "forceFields=a",
                "forceFields: \"a\" is not the path of a field: expected a dot at byte 0",
            ),
            (
                "unset=.a%5B",
                "unset: \".a[\" is not the path of a field: expected a key field and its value at byte 3",
            ),
            (
                format!("unset=.a{}", "&unset=.a".repeat(64)).as_str(),
                "unset: at most 64 paths are allowed",
            ),
            (
                "force=true&forceFields=.a",
                "force and forceFields may not be specified together",
            ),
        ] {
            assert_eq!(apply(query).unwrap_err(), error);
        }
        let error = parse("unset=.a", PatchType::Merge).unwrap_err();
        assert_eq!(error, "unset may not be specified for non-apply patch");
        assert!(parse("conflictDetails=true", PatchType::Merge).is_ok());
    }

    #[test]
    fn field_managers_and_dry_runs_are_checked() {
        let parse = |query: &str| CreateOptions::parse(&Query::parse(query)).map_err(|error| error.to_string());
        assert_eq!(
            parse("fieldManager=bad%0Aname").unwrap_err(),
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \"bad\\nname\": invalid character U+000A (at position 3)"
        );
        for (name, character) in [
            ("a%E2%80%8Bb", "U+200B"),
            ("a%C2%ADb", "U+00AD"),
            ("a%EE%80%80b", "U+E000"),
        ] {
            let error = parse(&format!("fieldManager={name}")).unwrap_err();
            assert!(
                error.ends_with(&format!("invalid character {character} (at position 1)")),
                "{error}"
            );
        }
        assert_eq!(
            parse("fieldManager=e%CC%81%20%E8%AA%9E"),
            parse("fieldManager=e%CC%81+%E8%AA%9E")
        );
        assert_eq!(
            parse("dryRun=Some").unwrap_err(),
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""
        );
        assert!(parse("dryRun=All").unwrap().write.dry_run);
    }

    #[test]
    fn delete_options_come_from_a_body_as_well() {
        let body = |text: &str| {
            let object = holdfast_value::json::parse(text.as_bytes(), &holdfast_value::Limits::REQUEST).unwrap();
            DeleteOptions::from_object(&object).map_err(|error| ApiError::from(error).to_string())
        };
        let options = body(r#"{"propagationPolicy":"Orphan","preconditions":{"uid":"x"},"dryRun":["All"]}"#).unwrap();
        assert_eq!(
            options.propagation_policy,
            Some(holdfast_writes::PropagationPolicy::Orphan)
        );
        assert_eq!((options.uid.as_deref(), options.dry_run), (Some("x"), true));
        assert_eq!(
            body(r#"{"propagationPolicy":"Sideways"}"#).unwrap_err(),
            "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Sideways\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
        );
    }
}
