//! Validation of the indexes of indexed Jobs.

use holdfast_schema::{AnyRules, Check, Field, Part};

use crate::validation::Errors;

const PARALLELISM: i64 = 100_000;
const FAILED_INDEXES: i64 = 100_000;
/// Number of completions with stricter limits on parallelism and failures above it. They keep the lists of indexes
/// short.
const MANY_COMPLETIONS: i64 = 100_000;
const PARALLELISM_OF_MANY: i64 = 10_000;
const FAILED_INDEXES_OF_MANY: i64 = 10_000;

/// Validates the parallelism, completions and failure limits of an indexed Job.
///
/// upstream: pkg/apis/batch/validation#validateJobSpec
pub(super) fn validate_index_limits(spec: &Field<'_, '_>, errors: &mut Errors) {
    let (completions, parallelism) = (spec.child("completions"), spec.child("parallelism"));
    let most_failed = spec.child("maxFailedIndexes");
    if !completions.is_set() {
        errors.push(completions.required("when completion mode is Indexed"));
    }
    at_most(&parallelism, PARALLELISM, "when completion mode is Indexed", errors);
    if completions.number().is_some_and(|all| most_failed.number() > Some(all)) {
        errors.push(most_failed.invalid("must be less than or equal to completions"));
    }
    at_most(&most_failed, FAILED_INDEXES, "", errors);
    if completions.number() > Some(MANY_COMPLETIONS) && spec.child("backoffLimitPerIndex").is_set() {
        if !most_failed.is_set() {
            let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
            errors.push(most_failed.required(detail));
        }
        let when = format!("when completions are above {MANY_COMPLETIONS} and used with backoff limit per index");
        at_most(&parallelism, PARALLELISM_OF_MANY, &when, errors);
        at_most(&most_failed, FAILED_INDEXES_OF_MANY, &when, errors);
    }
}

fn at_most(field: &Field<'_, '_>, most: i64, when: &str, errors: &mut Errors) {
    if field.number() > Some(most) {
        let detail = format!("must be less than or equal to {most} {when}");
        errors.push(field.invalid(detail.trim_end()));
    }
}

/// Validates that a success rule has a criterion.
///
/// upstream: pkg/apis/batch/validation#validateSuccessPolicyRule
pub(super) fn validate_success_rule(rule: &Field<'_, '_>, errors: &mut Errors) {
    if !rule.child("succeededIndexes").is_set() && !rule.child("succeededCount").is_set() {
        errors.push(rule.required("at least one of succeededCount or succeededIndexes must be specified"));
    }
}

/// Validates the indexes and the count of a success rule. Without `completions` in the Job there is no limit to compare
/// them with.
///
/// upstream: pkg/apis/batch/validation#validateSuccessPolicyRule
pub(super) fn validate_succeeded_counts<'v>(
    rule: &Part<'v, '_>,
    completions: Option<i64>,
    rules: &dyn AnyRules<'v>,
    check: &mut Check<'_>,
) {
    let Some(completions) = completions else {
        return;
    };
    let (indexes, count) = (rule.child("succeededIndexes"), rule.child("succeededCount"));
    let named = validate_indexes(&indexes, "succeededIndexes", completions, &mut check.errors);
    check.field(rule, "succeededCount", rules);
    let errors = &mut check.errors;
    for (most, of) in [
        (Some(completions), "the number of specified completions"),
        (named, "the number of indexes in the specified succeededIndexes field"),
    ] {
        if let Some(most) = most
            && count.number() > Some(most)
        {
            errors.push(count.invalid(format!("must be less than or equal to {most} ({of})")));
        }
    }
}

/// Reports an invalid list of indexes. Returns the number of indexes if the field is set.
///
/// upstream: pkg/apis/batch/validation#validateIndexesFormat
pub(super) fn validate_indexes(
    indexes: &Field<'_, '_>,
    name: &str,
    completions: i64,
    errors: &mut Errors,
) -> Option<i64> {
    if !indexes.is_set() {
        return None;
    }
    let counted = count_indexes(indexes.text(), completions);
    Some(counted.unwrap_or_else(|message| {
        errors.push(indexes.invalid(format!("error parsing {name}: {message}")));
        0
    }))
}

/// Returns the first index that both lists contain. Invalid parts of the lists are ignored.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let mut completed = intervals(completed, completions).filter_map(Result::ok);
    let mut failed = intervals(failed, completions).filter_map(Result::ok);
    let (mut one, mut other) = (completed.next(), failed.next());
    while let (Some((first, last)), Some((failed_first, failed_last))) = (one, other) {
        if first <= failed_last && failed_first <= last {
            return Some(first.max(failed_first));
        }
        if first <= failed_first {
            one = completed.next();
        } else {
            other = failed.next();
        }
    }
    None
}

/// Returns the number of indexes in a list such as `0-2,4`.
fn count_indexes(list: &str, completions: i64) -> Result<i64, String> {
    let (mut count, mut before) = (0, None);
    for interval in intervals(list, completions) {
        let (first, last) = interval?;
        increasing(before, first)?;
        count += last - first + 1;
        before = Some(last);
    }
    Ok(count)
}

/// Returns the intervals of a list as first and last index. An empty list has none.
fn intervals(list: &str, completions: i64) -> impl Iterator<Item = Result<(i64, i64), String>> {
    list.split(',')
        .filter(move |_| !list.is_empty())
        .map(move |text| read_interval(text, completions))
}

/// upstream: pkg/apis/batch/validation#parseIndexInterval
fn read_interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let Some((first, last)) = text.split_once('-') else {
        let index = read_index(text, completions)?;
        return Ok((index, index));
    };
    if last.contains('-') {
        return Err(format!(
            "the fragment {text:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        ));
    }
    let (first, last) = (read_index(first, completions)?, read_index(last, completions)?);
    increasing(Some(first), last)?;
    Ok((first, last))
}

/// upstream: pkg/apis/batch/validation#parseIndexInterval
fn read_index(text: &str, completions: i64) -> Result<i64, String> {
    match text.parse::<i64>() {
        Ok(index) if index < completions => Ok(index),
        Ok(_) => Err(format!("too large index: {text:?}")),
        Err(_) => Err(format!("cannot convert string to integer for index: {text:?}")),
    }
}

fn increasing(before: Option<i64>, index: i64) -> Result<(), String> {
    match before {
        Some(before) if before >= index => Err(format!("non-increasing order, previous: {before}, current: {index}")),
        _ => Ok(()),
    }
}

/// Warns of an Indexed Job that is too large to track.
///
/// upstream: pkg/api/job#WarningsForJobSpec
pub(in crate::batch) fn indexed_warning(spec: &Field<'_, '_>) -> Option<String> {
    let count = |name: &str| spec.child(name).number().unwrap_or_default();
    let is_large = spec.child("completionMode").text() == "Indexed"
        && count("completions") > MANY_COMPLETIONS
        && count("parallelism") > PARALLELISM_OF_MANY;
    is_large.then(|| {
        format!(
            "{}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes \
             might not be able to track completedIndexes when a big number of indexes fail",
            spec.path()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{count_indexes, overlap};
    use crate::harness::Harness;

    fn indexed(fields: &str) -> Vec<String> {
        Harness::new().errors(&format!(
            "{{apiVersion: batch/v1, kind: Job, metadata: {{name: j}}, spec: {{completionMode: Indexed, {fields}, template: \
             {{spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}}}}}"
        ))
    }

    #[test]
    fn failed_indexes_are_limited() {
        let many = "when completions are above 100000 and used with backoff limit per index";
        assert_eq!(
            indexed("completions: 3, backoffLimitPerIndex: 1, maxFailedIndexes: 4"),
            ["spec.maxFailedIndexes: Invalid value: 4: must be less than or equal to completions"]
        );
        assert_eq!(
            indexed("completions: 3, maxFailedIndexes: -1"),
            [
                "spec.maxFailedIndexes: Invalid value: -1: must be greater than or equal to 0",
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
            ]
        );
        assert_eq!(
            indexed("completions: 100001, parallelism: 10001, backoffLimitPerIndex: 1"),
            [
                "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000".to_owned(),
                format!("spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 {many}"),
            ]
        );
        assert_eq!(
            indexed("completions: 200000, backoffLimitPerIndex: 1, maxFailedIndexes: 100001"),
            [
                "spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000".to_owned(),
                format!("spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 10000 {many}"),
            ]
        );
        assert!(indexed("completions: 100001, backoffLimitPerIndex: 1, maxFailedIndexes: 10000").is_empty());
    }

    #[test]
    fn success_is_measured_by_the_completions() {
        let rule = |rule: &str| indexed(&format!("completions: 3, successPolicy: {{rules: [{{{rule}}}]}}"));
        let place = "spec.successPolicy.rules[0]";
        assert_eq!(
            rule(""),
            [format!(
                "{place}: Required value: at least one of succeededCount or succeededIndexes must be specified"
            )]
        );
        assert_eq!(
            rule("succeededIndexes: '0-1', succeededCount: 4"),
            [
                format!(
                    "{place}.succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of specified \
                     completions)"
                ),
                format!(
                    "{place}.succeededCount: Invalid value: 4: must be less than or equal to 2 (the number of indexes in the \
                     specified succeededIndexes field)"
                ),
            ]
        );
        assert_eq!(
            rule("succeededIndexes: '5'"),
            [format!(
                "{place}.succeededIndexes: Invalid value: \"5\": error parsing succeededIndexes: too large index: \"5\""
            )]
        );
        assert!(rule("succeededIndexes: '0,2', succeededCount: 2").is_empty());
    }

    #[test]
    fn lists_of_indexes_increase() {
        assert_eq!(count_indexes("0-2,4", 5), Ok(4));
        assert_eq!(count_indexes("", 5), Ok(0));
        for (list, message) in [
            ("3-1", "non-increasing order, previous: 3, current: 1"),
            ("0,0", "non-increasing order, previous: 0, current: 0"),
            ("0-9", "too large index: \"9\""),
            ("1,", "cannot convert string to integer for index: \"\""),
            (" 1", "cannot convert string to integer for index: \" 1\""),
        ] {
            assert_eq!(count_indexes(list, 5), Err(message.to_owned()), "{list}");
        }
        assert_eq!(overlap("0-2,4", "3", 5), None);
        assert_eq!(overlap("0,a,2-3", "1,3-4", 5), Some(3));
        assert_eq!(overlap("", "0", 5), None);
    }

    #[test]
    fn names_of_hosts_fit_the_greatest_index() {
        let job = |completions: u32| {
            Harness::new().errors(&format!(
                "{{apiVersion: batch/v1, kind: Job, metadata: {{name: {}}}, spec: {{completionMode: Indexed, completions: \
                 {completions}, template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}}}}}",
                "a".repeat(61)
            ))
        };
        assert!(job(10).is_empty());
        let name = "a".repeat(61);
        assert_eq!(
            job(11),
            [format!(
                "metadata.name: Invalid value: \"{name}\": will not able to create pod with invalid DNS label: {name}-10"
            )]
        );
    }
}
