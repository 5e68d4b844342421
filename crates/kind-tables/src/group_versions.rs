//! Versions of the built-in groups.

use holdfast_schema::GroupVersion;

/// Resources that are served by default.
pub(crate) const RESOURCES: &str = include_str!(concat!(env!("OUT_DIR"), "/resources.txt"));

/// Resources that are served only if flags enable them.
pub(crate) const MORE_RESOURCES: &str = include_str!(concat!(env!("OUT_DIR"), "/more_resources.txt"));

/// Returns the group versions that are served by default, in discovery order with the preferred version of each group
/// first.
pub fn group_versions() -> Vec<GroupVersion> {
    listed(RESOURCES).collect()
}

/// Returns all group versions that can be served, ordered like [`group_versions`].
pub fn all_group_versions() -> Vec<GroupVersion> {
    let mut all = group_versions();
    for more in listed(MORE_RESOURCES) {
        let last = all.iter().rposition(|known| known.group == more.group);
        all.insert(last.map_or(all.len(), |last| last + 1), more);
    }
    all
}

/// Returns the group versions of a table.
pub(crate) fn listed(table: &'static str) -> impl Iterator<Item = GroupVersion> {
    let groups = table
        .lines()
        .filter_map(|line| line.strip_prefix("group ")?.split_once(' '));
    groups.flat_map(|(group, versions)| {
        let group = if group == "core" { "" } else { group };
        versions
            .split(',')
            .map(move |version| GroupVersion::new(group, version))
    })
}
