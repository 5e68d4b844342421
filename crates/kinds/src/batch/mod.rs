//! The kinds of the group `batch`.

mod cronjob;
mod job;
mod schedule;

use holdfast_resource::{DeletionRules, SelectorWords};

use crate::config::Config;
use crate::kind::{Kind, kind};

/// The kinds of the group, each with its capabilities, by the plural names of their resources.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    let config = config.clone();
    Some(match plural {
        "cronjobs" => kind(cronjob::CronJob { config }).cells(cronjob::CELLS).done(),
        "jobs" => kind(job::Job { config })
            .cells(job::CELLS)
            .deletion(DeletionRules {
                warning: Some(job::DELETION_WARNING),
                ..DeletionRules::default()
            })
            .selector_words(SelectorWords::NamesKind)
            .done(),
        _ => return None,
    })
}
