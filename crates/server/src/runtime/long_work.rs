//! Work that may take longer than others should wait: large bodies, and changes of large objects.
//!
//! A request says that it comes to such work (`begins`); from then on it runs apart from the workers that serve all
//! others (`LongWork::apart`), and no more of it at a time than leaves a processor free. Ordinary requests pay a flag.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// From how many bytes on reading, changing or writing an object counts as long work: some tenths of a millisecond.
pub(crate) const LARGE: usize = 32 * 1024;

tokio::task_local! {
    /// The request that this task serves.
    static REQUEST: RequestWork;
}

/// The work of one request.
struct RequestWork {
    /// True if the request has begun long work.
    is_long: Cell<bool>,
    /// The places for long work, which its answer needs too.
    places: LongWork,
}

/// Says that what this request does next may take long, if `size` bytes say so.
pub(crate) async fn begins(size: usize) {
    if size < LARGE {
        return;
    }
    // Other requests, such as those of controllers, stay where they are; and where there is one thread there is no apart.
    if has_other_threads() && REQUEST.try_with(|request| !request.is_long.replace(true)) == Ok(true) {
        // The next turn is taken apart.
        tokio::task::yield_now().await;
    }
}

/// True if the runtime has threads that go on while one does long work.
fn has_other_threads() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// The long work that is done at a time.
#[derive(Clone, Debug)]
pub struct LongWork(Arc<Semaphore>);

impl Default for LongWork {
    /// As much as leaves a processor free for everybody else, if there are several.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Semaphore::new(processors.saturating_sub(1).max(1))))
    }
}

impl LongWork {
    /// Runs `work` apart from other requests as soon as it comes to long work.
    pub(crate) async fn apart<T>(&self, work: impl Future<Output = T> + Send + Unpin) -> T {
        let turns = Turns {
            work,
            places: Arc::clone(&self.0),
            waiting: None,
        };
        let request = RequestWork {
            is_long: Cell::new(false),
            places: self.clone(),
        };
        REQUEST.scope(request, turns).await
    }

    /// Returns the places of the request that this task serves, for work that is done after the request: on its answer.
    pub(crate) fn current() -> Option<Self> {
        REQUEST.try_with(|request| request.places.clone()).ok()
    }

    /// Runs `work` on an object of `size` bytes, apart from other requests if that is long.
    pub(crate) async fn run<T>(&self, size: usize, work: impl FnOnce() -> T) -> T {
        if size < LARGE || !has_other_threads() {
            return work();
        }
        let _place = self.0.acquire().await;
        tokio::task::block_in_place(work)
    }
}

type PermitFuture = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// Work that is done a turn at a time.
struct Turns<F> {
    work: F,
    places: Arc<Semaphore>,
    /// The place for the next turn, while it is not there yet.
    waiting: Option<PermitFuture>,
}

impl<F: Future + Unpin> Future for Turns<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if !REQUEST.with(|request| request.is_long.get()) {
            return Pin::new(&mut this.work).poll(context);
        }
        let places = &this.places;
        let waiting = this
            .waiting
            .get_or_insert_with(|| Box::pin(Arc::clone(places).acquire_owned()));
        // The semaphore is never closed, so there always is a place in the end.
        let place = ready!(waiting.as_mut().poll(context)).ok();
        this.waiting = None;
        let outcome = tokio::task::block_in_place(|| Pin::new(&mut this.work).poll(context));
        drop(place);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn long_work_holds_up_no_other_work() {
        let (release, released) = mpsc::channel::<()>();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let long_work = LongWork::default();
        let work = tokio::spawn(async move {
            let work = Box::pin(async move {
                begins(LARGE).await;
                let _ = begun.send(());
                // A thread that is held, as by work.
                released.recv().is_ok()
            });
            long_work.apart(work).await
        });
        has_begun.await.unwrap();
        // There is one worker: this runs only where the work is apart from it.
        tokio::spawn(async move { release.send(()).unwrap() }).await.unwrap();
        assert!(work.await.unwrap());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_more_is_done_at_a_time_than_there_are_places() {
        let long_work = LongWork(Arc::new(Semaphore::new(2)));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let (long_work, now, most) = (long_work.clone(), Arc::clone(&now), Arc::clone(&most));
                tokio::spawn(async move {
                    let work = Box::pin(async move {
                        begins(LARGE).await;
                        for _ in 0..10 {
                            let before = now.fetch_add(1, Ordering::SeqCst);
                            most.fetch_max(before + 1, Ordering::SeqCst);
                            std::thread::yield_now();
                            now.fetch_sub(1, Ordering::SeqCst);
                            tokio::task::yield_now().await;
                        }
                    });
                    long_work.apart(work).await;
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(most.load(Ordering::SeqCst) <= 2);
    }

    #[tokio::test]
    async fn what_is_small_and_what_has_one_thread_stays_where_it_is() {
        let long_work = LongWork::default();
        let work = Box::pin(async {
            begins(LARGE - 1).await;
            begins(LARGE).await;
            REQUEST.with(|request| request.is_long.get())
        });
        assert!(!long_work.apart(work).await);
    }
}
