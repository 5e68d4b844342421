//! Overlapping paths of files of one volume.

use std::collections::BTreeMap;
use std::ops::Bound;

use holdfast_gotext::quote::quote;
use holdfast_schema::Field;
use holdfast_value::Value;

/// Paths so far, each with the number of paths before it.
type EarlierPaths<'v> = BTreeMap<&'v str, usize>;

/// Maximum number of warnings: clients receive only some kilobytes of them.
const MAX_WARNINGS: usize = 100;

/// Adds warnings about volumes whose files overlap.
///
/// upstream: pkg/api/pod#warningsForOverlappingVirtualPaths
pub(super) fn warnings(volumes: &Field<'_, '_>, warnings: &mut Vec<String>) {
    for volume in volumes.items() {
        let called = volume.child("name").text();
        for (source, kind, name) in [
            ("configMap", "ConfigMap", Some("name")),
            ("secret", "Secret", Some("secretName")),
            ("downwardAPI", "DownwardAPI", None),
        ] {
            let source = volume.child(source);
            if source.child("items").is_empty() {
                continue;
            }
            let what = source_text(kind, name.map(|name| source.child(name).text()));
            warn(called, &what, item_paths(&source), &mut EarlierPaths::new(), warnings);
        }
        let projected = volume.child("projected");
        let mut all = EarlierPaths::new();
        for projection in projected.child("sources").items() {
            projection_warnings(called, &projection, &mut all, warnings);
        }
    }
}

/// Adds warnings about overlaps within a source, then with the sources before it, or about an empty source.
///
/// upstream: pkg/api/pod#warningsForOverlappingVirtualPaths
fn projection_warnings<'v>(
    volume: &str,
    projection: &Field<'v, '_>,
    all: &mut EarlierPaths<'v>,
    warnings: &mut Vec<String>,
) {
    if projection
        .value()
        .and_then(Value::as_map)
        .is_none_or(|parts| parts.is_empty())
    {
        warnings.push(format!("volume {} (Projected) has no sources provided", quote(volume)));
        return;
    }
    let (token, bundle) = (
        projection.child("serviceAccountToken"),
        projection.child("clusterTrustBundle"),
    );
    for (part, kind, named) in [
        ("configMap", "ConfigMap", true),
        ("secret", "Secret", true),
        ("downwardAPI", "DownwardAPI", false),
    ] {
        let source = projection.child(part);
        if source.child("items").is_set() {
            let what = source_text(kind, named.then(|| source.child("name").text()));
            return warn_of_projected(volume, &what, item_paths(&source), all, warnings);
        }
    }
    if token.is_set() {
        warn_of_projected(
            volume,
            "ServiceAccountToken",
            vec![token.child("path").text()],
            all,
            warnings,
        );
    } else if bundle.is_set() {
        let own_name = bundle.child("name");
        let name = if own_name.is_set() {
            own_name
        } else {
            bundle.child("signerName")
        };
        let what = source_text("ClusterTrustBundle", Some(name.text()));
        warn_of_projected(volume, &what, vec![bundle.child("path").text()], all, warnings);
    }
}

/// upstream: pkg/api/pod#warningsForOverlappingVirtualPaths
fn warn_of_projected<'v>(
    volume: &str,
    what: &str,
    mut paths: Vec<&'v str>,
    all: &mut EarlierPaths<'v>,
    warnings: &mut Vec<String>,
) {
    let what = format!("Projected {what}");
    warn(volume, &what, paths.clone(), &mut EarlierPaths::new(), warnings);
    paths.sort_unstable();
    paths.dedup();
    warn(volume, &what, paths, all, warnings);
}

/// Returns the kind of a source, with its name if it has one.
fn source_text(kind: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{kind} {name:?}"),
        None => kind.to_owned(),
    }
}

fn item_paths<'v>(source: &Field<'v, '_>) -> Vec<&'v str> {
    let items = source.child("items");
    let paths = items.slice().iter().filter_map(|item| item.str_at(&["path"]));
    paths.collect()
}

/// Adds warnings about paths that overlap with `seen` or with each other, and adds the paths to `seen`.
///
/// upstream: pkg/api/pod#warningsForOverlappingVirtualPaths
fn warn<'v>(volume: &str, what: &str, paths: Vec<&'v str>, seen: &mut EarlierPaths<'v>, warnings: &mut Vec<String>) {
    for path in paths {
        let path = path.trim_end_matches('/');
        for other in overlaps(seen, path) {
            if warnings.len() >= MAX_WARNINGS {
                return;
            }
            warnings.push(format!(
                "volume {volume:?} ({what}): overlapping paths: {path:?} with {other:?}"
            ));
        }
        let order = seen.len();
        seen.entry(path).or_insert(order);
    }
}

/// Returns the members of `paths` that equal `path`, contain it or are below it, in the order in which they were seen.
fn overlaps<'v>(paths: &EarlierPaths<'v>, path: &str) -> Vec<&'v str> {
    if path.is_empty() {
        return Vec::new();
    }
    let directory = format!("{path}/");
    let above = path.match_indices('/').filter_map(|(end, _)| path.get(..end));
    let at_or_above = above.chain([path]).filter_map(|path| paths.get_key_value(path));
    let within = paths
        .range::<str, _>((Bound::Included(directory.as_str()), Bound::Unbounded))
        .take_while(|(path, _)| path.starts_with(&directory))
        .take(MAX_WARNINGS);
    let mut found: Vec<_> = at_or_above.filter(|(path, _)| !path.is_empty()).chain(within).collect();
    found.sort_unstable_by_key(|(_, order)| **order);
    found.into_iter().map(|(path, _)| *path).collect()
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn warnings(volume: &str) -> Vec<String> {
        Harness::new().warnings(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{{name: c, image: i}}], volumes: \
             [{{name: v, {volume}}}]}}}}"
        ))
    }

    #[test]
    fn files_of_a_volume_that_overlap_are_reported() {
        let items = "items: [{key: a, path: p}, {key: b, path: p/q/}, {key: c, path: o}]";
        assert_eq!(
            warnings(&format!("configMap: {{name: c, {items}}}")),
            [r#"volume "v" (ConfigMap "c"): overlapping paths: "p/q" with "p""#]
        );
        assert_eq!(
            warnings(&format!("secret: {{secretName: s, {items}}}")),
            [r#"volume "v" (Secret "s"): overlapping paths: "p/q" with "p""#]
        );
        let files = "items: [{path: a/b, fieldRef: {fieldPath: metadata.name}}, {path: a, fieldRef: {fieldPath: metadata.name}}]";
        assert_eq!(
            warnings(&format!("downwardAPI: {{{files}}}")),
            [r#"volume "v" (DownwardAPI): overlapping paths: "a" with "a/b""#]
        );
        // A path between the two in sort order hides neither.
        let items = "items: [{key: a, path: a}, {key: b, path: a/a}, {key: c, path: a/b}, {key: d, path: b}]";
        assert_eq!(warnings(&format!("configMap: {{name: c, {items}}}")).len(), 2);
    }

    #[test]
    fn a_name_that_begins_with_another_is_not_within_it() {
        let items = "items: [{key: a, path: p}, {key: b, path: p2}, {key: c, path: p2/x/}, {key: d, path: p2/x/y}]";
        assert_eq!(
            warnings(&format!("configMap: {{name: c, {items}}}")),
            [
                r#"volume "v" (ConfigMap "c"): overlapping paths: "p2/x" with "p2""#,
                r#"volume "v" (ConfigMap "c"): overlapping paths: "p2/x/y" with "p2""#,
                r#"volume "v" (ConfigMap "c"): overlapping paths: "p2/x/y" with "p2/x""#,
            ]
        );
    }

    #[test]
    fn a_source_of_a_projected_volume_names_something() {
        assert_eq!(
            warnings("projected: {sources: [{}, {configMap: {name: d}}]}"),
            [r#"volume "v" (Projected) has no sources provided"#]
        );
    }

    #[test]
    fn sources_of_a_projected_volume_overlap_with_those_before_them() {
        assert_eq!(
            warnings(
                "projected: {sources: [{configMap: {name: c, items: [{key: a, path: p/q}]}}, {secret: {name: s, items: [{key: \
                 a, path: x}, {key: b, path: p/q/r}]}}, {configMap: {name: d}}, {serviceAccountToken: {path: x/token}}, \
                 {clusterTrustBundle: {signerName: e.com/s, path: x}}]}"
            ),
            [
                r#"volume "v" (Projected Secret "s"): overlapping paths: "p/q/r" with "p/q""#,
                r#"volume "v" (Projected ServiceAccountToken): overlapping paths: "x/token" with "x""#,
                r#"volume "v" (Projected ClusterTrustBundle "e.com/s"): overlapping paths: "x" with "x""#,
                r#"volume "v" (Projected ClusterTrustBundle "e.com/s"): overlapping paths: "x" with "x/token""#,
            ]
        );
    }
}
