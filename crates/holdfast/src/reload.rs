//! Files that are read again when they change. One that cannot be used then is told of, and what was read before stays.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_server::operations::service::Service;
use holdfast_server::runtime::background;
use holdfast_server::wire::connection::CurrentTls;
use holdfast_server::wire::tls::TlsFiles;

/// The health check that fails where nobody looks at files any more.
const CHECK: &str = background::API_SERVICES;

/// How often files are looked at.
const PERIOD: Duration = Duration::from_secs(1);

/// Calls `reload` when a file has changed. What it cannot read is logged, and tried again with the next change.
pub(crate) fn watch<E: std::fmt::Display>(
    service: &Service,
    paths: Vec<PathBuf>,
    mut reload: impl FnMut() -> Result<(), E> + Send + 'static,
) {
    let context = &service.context;
    let ending = context.shutdown.clone();
    let mut seen = states(&paths);
    let work = async move {
        let mut ticks = tokio::time::interval(PERIOD);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = ending.closing() => return,
            }
            let now = states(&paths);
            if now == seen {
                continue;
            }
            seen = now;
            match reload() {
                Ok(()) => tracing::info!(?paths, "files have changed and were read again"),
                Err(error) => tracing::error!(%error, "files have changed and cannot be used; the old ones stay"),
            }
        }
    };
    context.background.spawn(CHECK, "files", &context.shutdown, work);
}

/// Shows clients the certificate that stands in the files, and trusts the authorities that do.
pub(crate) fn follow_tls(service: &Service, files: TlsFiles, current: Arc<CurrentTls>) {
    let paths = [&files.certificate, &files.key];
    let authorities = files.client_authorities.iter().chain(&files.other_authorities);
    let paths = paths.into_iter().chain(authorities).cloned().collect();
    watch(service, paths, move || files.load().map(|tls| current.replace(tls)));
}

/// What tells whether files have changed: their times and lengths.
fn states(paths: &[PathBuf]) -> Vec<Option<(SystemTime, u64)>> {
    let state = |path: &PathBuf| state(path);
    paths.iter().map(state).collect()
}

fn state(path: &Path) -> Option<(SystemTime, u64)> {
    let file = fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.len()))
}
