//! The kinds of the group `batch`.

mod cronjob;
mod job;
mod schedule;

use std::sync::Arc;

use holdfast_resource::Strategy;

use crate::config::Config;

/// What the kind behind a resource of this group does beyond the generic behaviour.
pub(crate) fn strategy(resource: &str, config: &Config) -> Option<Arc<dyn Strategy>> {
    let config = config.clone();
    Some(match resource {
        "cronjobs" => Arc::new(cronjob::CronJob { config }),
        "jobs" => Arc::new(job::Job { config }),
        _ => return None,
    })
}
