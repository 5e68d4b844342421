//! Files that are reloaded when they change. An invalid file is logged, and its previous content stays in effect.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_server::operations::service::Service;
use holdfast_server::runtime::background;
use holdfast_server::runtime::shutdown::Shutdown;
use holdfast_server::wire::connection::CurrentTls;
use holdfast_server::wire::pem_source::PemSource;
use holdfast_server::wire::tls::TlsFiles;

/// Health check that fails if files are no longer watched.
pub(crate) const CHECK: &str = background::API_SERVICES;

/// Interval between checks of the files.
const PERIOD: Duration = Duration::from_secs(1);

/// Calls `reload` when a file has changed. What it cannot read is logged, and tried again with the next change.
pub(crate) fn watch<E: std::fmt::Display>(
    service: &Service,
    paths: Vec<PathBuf>,
    mut reload: impl FnMut() -> Result<(), E> + Send + 'static,
) {
    let context = &service.context;
    let files = paths.clone();
    let mut changes = Changes::new(&context.shutdown, move || {
        files.iter().map(|path| state(path)).collect::<Vec<_>>()
    });
    let work = async move {
        while changes.next().await {
            match reload() {
                Ok(()) => tracing::info!(?paths, "files have changed and were read again"),
                Err(error) => tracing::error!(%error, "files have changed and cannot be used; the old ones stay"),
            }
        }
    };
    context.background.spawn(CHECK, "files", &context.shutdown, work);
}

/// Reloads the server certificate and the trusted authorities whenever their files change.
pub(crate) fn follow_tls(service: &Service, files: TlsFiles, current: Arc<CurrentTls>) {
    let own = [&files.certificate, &files.key];
    let authorities = files.client_authorities.iter().chain(&files.other_authorities);
    let sources = own.into_iter().chain(authorities).filter_map(PemSource::file);
    let named = files.named.iter().flat_map(|files| [&*files.certificate, &*files.key]);
    let paths: Vec<PathBuf> = sources.chain(named).map(Path::to_owned).collect();
    if paths.is_empty() {
        return;
    }
    watch(service, paths, move || files.load().map(|tls| current.replace(tls)));
}

/// Changes of the state that `look` finds, from the first look on.
pub(crate) struct Changes<S> {
    look: Box<dyn Fn() -> S + Send>,
    seen: S,
    shutdown: Shutdown,
}

impl<S: PartialEq> Changes<S> {
    pub(crate) fn new(shutdown: &Shutdown, look: impl Fn() -> S + Send + 'static) -> Self {
        Self {
            seen: look(),
            look: Box::new(look),
            shutdown: shutdown.clone(),
        }
    }

    /// Waits for the next change; `false` when the server ends.
    pub(crate) async fn next(&mut self) -> bool {
        loop {
            tokio::select! {
                () = tokio::time::sleep(PERIOD) => {}
                () = self.shutdown.closing() => return false,
            }
            let now = (self.look)();
            if now != self.seen {
                self.seen = now;
                return true;
            }
        }
    }
}

/// Modification time and length of a file, which show that it has changed.
pub(crate) type FileState = (SystemTime, u64);

/// Returns the state of a file; `None` if it does not exist.
pub(crate) fn state(path: &Path) -> Option<FileState> {
    let file = fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.len()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use holdfast_server::runtime::shutdown::ShutdownTrigger;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn changes_are_seen_until_the_server_ends() {
        let (trigger, state) = (ShutdownTrigger::new(), Arc::new(AtomicUsize::new(0)));
        let looked_at = Arc::clone(&state);
        let mut changes = Changes::new(&trigger.shutdown(), move || looked_at.load(Ordering::Relaxed));
        state.store(1, Ordering::Relaxed);
        assert!(changes.next().await);
        trigger.close();
        assert!(!changes.next().await);
    }
}
