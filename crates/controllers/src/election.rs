//! Leader election: of several servers on one store, one runs the controllers. The lease and its use are those of
//! kube-controller-manager: <https://kubernetes.io/docs/concepts/architecture/leases/>.
//!
//! The leader renews the lease at short intervals. Other servers watch it with their own clocks: one of them acquires
//! it only when it has not changed for its whole duration, by a write that is guarded by the version that this server
//! saw. A leader that cannot renew the lease stops its controllers well before that. A leader that shuts down stops its
//! controllers and releases the lease.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::Resource;
use holdfast_schema::metadata::new_object;
use holdfast_server::operations::loopback::{Client, RequestError, path_of};
use holdfast_value::Value;
use smol_str::SmolStr;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

/// Settings of the leader election.
#[derive(Clone, Debug)]
pub struct Election {
    /// Name of the lease.
    pub name: SmolStr,
    /// Namespace of the lease.
    pub namespace: SmolStr,
    /// Unique identity of this server.
    pub identity: SmolStr,
    /// Time that other servers wait for a lease that is not renewed.
    pub lease: Duration,
    /// Time for which the leader tries to renew before it gives up; shorter than the lease.
    pub renewal: Duration,
    /// Time between two attempts of any server.
    pub retry: Duration,
}

impl Election {
    /// Checks that the durations are consistent, with the messages of kube-controller-manager.
    ///
    /// # Errors
    /// If they are inconsistent; the error is the message.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.lease <= self.renewal {
            return Err("leaseDuration must be greater than renewDeadline");
        }
        // A random part of up to a fifth is added to the time between attempts.
        if self.renewal <= self.retry.mul_f64(1.2) {
            return Err("renewDeadline must be greater than retryPeriod*JitterFactor");
        }
        if self.lease < Duration::from_secs(1) || self.retry.is_zero() {
            return Err("leaseDuration must be at least a second, and retryPeriod greater than zero");
        }
        Ok(())
    }
}

/// Leadership of this server, and the number of tasks that run because of it.
#[derive(Clone, Debug)]
pub(crate) struct Leadership(Arc<watch::Sender<Standing>>);

#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    leads: bool,
    at_work: usize,
}

impl Default for Leadership {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::default()))
    }
}

impl Leadership {
    /// Runs the future of `begin` while this server leads, and drops it when it no longer leads. Returns when that
    /// future ends.
    pub(crate) async fn during<F: Future<Output = ()>>(&self, mut begin: impl FnMut() -> F) {
        let mut standing = self.0.subscribe();
        loop {
            if standing.wait_for(|standing| standing.leads).await.is_err() {
                return;
            }
            // Checked in one step with the entry, so that nothing begins after the end was decided.
            if let Some(_at_work) = self.enter() {
                tokio::select! {
                    biased;
                    _ = standing.wait_for(|standing| !standing.leads) => {}
                    () = begin() => return,
                }
            }
        }
    }

    fn enter(&self) -> Option<AtWork<'_>> {
        let entered = self.0.send_if_modified(|standing| {
            standing.at_work += usize::from(standing.leads);
            standing.leads
        });
        entered.then_some(AtWork(self))
    }

    fn begin(&self) {
        self.0.send_modify(|standing| standing.leads = true);
    }

    /// Prevents new work, and returns when all work has ended.
    async fn end(&self) {
        self.0.send_modify(|standing| standing.leads = false);
        // The channel is never closed, because this value holds it.
        let _ = self.0.subscribe().wait_for(|standing| standing.at_work == 0).await;
    }
}

struct AtWork<'a>(&'a Leadership);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|standing| standing.at_work -= 1);
    }
}

/// Storage of the lease.
pub(crate) trait Lock: Send {
    /// Returns the lease as it was seen last; it may be outdated.
    fn get(&self) -> Option<Value>;

    /// Creates the lease if there is none.
    fn create(&self, lease: &Value) -> impl Future<Output = Result<Value, RequestError>> + Send;

    /// Replaces the lease if its version is still that of `lease`.
    fn update(&self, lease: &Value) -> impl Future<Output = Result<Value, RequestError>> + Send;

    /// Returns the current time in the format of leases.
    fn now(&self) -> SmolStr;
}

/// A lease that is an object of this server's API.
pub(crate) struct LeaseObject {
    client: Client,
    resource: Arc<Resource>,
    election: Election,
    manager: &'static str,
}

impl LeaseObject {
    /// Returns a lease whose fields the field manager `manager` owns; `None` if leases are not served.
    pub(crate) fn new(client: Client, election: Election, manager: &'static str) -> Option<Self> {
        let resource = client.resource("coordination.k8s.io", "leases")?;
        Some(Self {
            client,
            resource,
            election,
            manager,
        })
    }

    fn path(&self, name: &str) -> String {
        let path = path_of(&self.resource, &self.election.namespace, name).unwrap_or_default();
        format!("{path}?fieldManager={}", self.manager)
    }
}

impl Lock for LeaseObject {
    fn get(&self) -> Option<Value> {
        let Election { namespace, name, .. } = &self.election;
        Some(self.client.get(&self.resource, namespace, name)?.tree())
    }

    async fn create(&self, lease: &Value) -> Result<Value, RequestError> {
        self.client.create(&self.path(""), lease).await
    }

    async fn update(&self, lease: &Value) -> Result<Value, RequestError> {
        self.client.update(&self.path(&self.election.name), lease).await
    }

    fn now(&self) -> SmolStr {
        micro_time(&self.client)
    }
}

/// Returns the current time in the format of leases.
pub(crate) fn micro_time(client: &Client) -> SmolStr {
    Timestamp::from(client.time()).text(Precision::Micros)
}

/// Participates in the election until `end` is ready, and then releases the lease.
pub(crate) async fn run<L: Lock>(lock: L, election: Election, leadership: Leadership, end: impl Future<Output = ()>) {
    let mut candidate = Candidate {
        lock,
        election,
        seen: None,
        own: None,
    };
    let part = async {
        loop {
            let renewed = candidate.acquire().await;
            let Election { name, identity, .. } = &candidate.election;
            tracing::info!(lease = %name, %identity, "this server is the leader; starting its controllers");
            leadership.begin();
            candidate.renew(renewed).await;
            tracing::warn!("cannot renew the lease of the controllers; stopping the controllers of this server");
            leadership.end().await;
        }
    };
    tokio::select! {
        () = end => {}
        () = part => {}
    }
    leadership.end().await;
    candidate.release().await;
}

/// A server that wants to lead.
struct Candidate<L> {
    lock: L,
    election: Election,
    /// The lease of another server, and the time when it was first seen in this version.
    seen: Option<(Value, Instant)>,
    /// The lease as this candidate wrote it last.
    own: Option<Value>,
}

impl<L: Lock> Candidate<L> {
    /// Tries until this candidate has acquired the lease. Returns the time before the successful write.
    async fn acquire(&mut self) -> Instant {
        loop {
            let begun = Instant::now();
            match self.attempt().await {
                Ok(true) => return begun,
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "cannot acquire the lease of the controllers"),
            }
            sleep(self.election.retry).await;
        }
    }

    /// Renews the lease until renewal has failed for too long.
    async fn renew(&mut self, mut renewed: Instant) {
        loop {
            sleep(self.election.retry).await;
            let begun = Instant::now();
            // A longer wait could write a lease that others may have acquired.
            match timeout_at(renewed + self.election.renewal, self.attempt()).await {
                Ok(Ok(true)) => renewed = begun,
                // Another process holds it: this one was inactive for too long.
                Ok(Ok(false)) => return,
                Ok(Err(error)) if begun < renewed + self.election.renewal => {
                    tracing::warn!(%error, "cannot renew the lease of the controllers; will retry");
                }
                Ok(Err(_)) | Err(_) => {
                    self.own = None;
                    return;
                }
            }
        }
    }

    /// Acquires or renews the lease if no other server holds it.
    async fn attempt(&mut self) -> Result<bool, RequestError> {
        if let Some(own) = self.own.take() {
            // Usually no other server has written it.
            match self.lock.update(&self.renewed(own)).await {
                Ok(written) => {
                    self.own = Some(written);
                    return Ok(true);
                }
                Err(error) if !error.is_conflict() && !error.is_not_found() => return Err(error),
                Err(_) => {}
            }
        }
        let written = match self.lock.get() {
            None => self.lock.create(&self.first()).await,
            Some(lease) if self.is_held(&lease) => return Ok(false),
            Some(lease) => self.lock.update(&self.renewed(lease)).await,
        };
        match written {
            Ok(lease) => {
                self.own = Some(lease);
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns true if another server holds the lease, by this server's clock.
    fn is_held(&mut self, lease: &Value) -> bool {
        let holder = lease.str_at(&["spec", "holderIdentity"]).unwrap_or_default();
        if holder.is_empty() || holder == self.election.identity {
            return false;
        }
        let spec = lease.at(&["spec"]).cloned().unwrap_or_default();
        let since = match &self.seen {
            Some((seen, since)) if *seen == spec => *since,
            _ => {
                let now = Instant::now();
                self.seen = Some((spec, now));
                now
            }
        };
        let seconds = lease.at(&["spec", "leaseDurationSeconds"]).and_then(Value::as_i64);
        let lasts = Duration::from_secs(seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0));
        since + lasts > Instant::now()
    }

    fn first(&self) -> Value {
        let mut lease = new_object(
            "coordination.k8s.io/v1",
            "Lease",
            &self.election.namespace,
            &self.election.name,
        );
        let now = self.lock.now();
        self.hold(&mut lease, now.as_str(), 0);
        lease
    }

    /// Returns the lease with this candidate as its holder from now on.
    fn renewed(&self, mut lease: Value) -> Value {
        let now = self.lock.now();
        let transitions = lease
            .at(&["spec", "leaseTransitions"])
            .and_then(Value::as_i64)
            .unwrap_or(0);
        if lease.str_at(&["spec", "holderIdentity"]) == Some(&self.election.identity) {
            lease.set_at(&["spec", "renewTime"], now.as_str().into());
        } else {
            self.hold(&mut lease, &now, transitions.saturating_add(1));
        }
        lease
    }

    fn hold(&self, lease: &mut Value, now: &str, transitions: i64) {
        let seconds = i64::try_from(self.election.lease.as_secs()).unwrap_or(i64::MAX);
        for (field, value) in [
            ("holderIdentity", self.election.identity.as_str().into()),
            ("leaseDurationSeconds", seconds.into()),
            ("acquireTime", now.into()),
            ("renewTime", now.into()),
            ("leaseTransitions", transitions.into()),
        ] {
            lease.set_at(&["spec", field], value);
        }
    }

    /// Releases the lease if this candidate holds it.
    async fn release(&mut self) {
        let own = |lease: &Value| lease.str_at(&["spec", "holderIdentity"]) == Some(&self.election.identity);
        // If a renewal was in progress, the state shows its result.
        let Some(mut lease) = self.own.take().or_else(|| self.lock.get().filter(own)) else {
            return;
        };
        let now = self.lock.now();
        lease.set_at(&["spec", "holderIdentity"], "".into());
        lease.set_at(&["spec", "leaseDurationSeconds"], 1.into());
        for time in ["acquireTime", "renewTime"] {
            lease.set_at(&["spec", time], now.as_str().into());
        }
        match self.lock.update(&lease).await {
            Ok(_) => tracing::info!("released the lease of the controllers"),
            Err(error) => tracing::warn!(%error, "cannot release the lease of the controllers"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use parking_lot::Mutex;
    use tokio::sync::oneshot;

    use super::*;

    /// A lease that all candidates of a test share.
    #[derive(Clone)]
    struct Shared {
        lease: Arc<Mutex<Option<Value>>>,
        begun: Instant,
    }

    impl Shared {
        fn new() -> Self {
            Self {
                lease: Arc::default(),
                begun: Instant::now(),
            }
        }
    }

    /// A candidate's access to the lease, which the test may interrupt.
    #[derive(Clone)]
    struct Way {
        shared: Shared,
        open: Arc<watch::Sender<bool>>,
    }

    impl Way {
        fn to(shared: &Shared) -> Self {
            Self {
                shared: shared.clone(),
                open: Arc::new(watch::Sender::new(true)),
            }
        }

        fn write(&self, lease: &Value, expected: Option<i64>) -> Result<Value, RequestError> {
            let mut there = self.shared.lease.lock();
            let version = |lease: &Value| lease.at(&["version"]).and_then(Value::as_i64);
            if there.as_ref().and_then(version) != expected {
                return Err(RequestError {
                    code: 409,
                    reason: "Conflict".into(),
                    message: String::new(),
                });
            }
            let mut lease = lease.clone();
            lease.set_at(&["version"], (expected.unwrap_or(0) + 1).into());
            *there = Some(lease.clone());
            Ok(lease)
        }

        async fn passed(&self) {
            self.open.subscribe().wait_for(|open| *open).await.unwrap();
        }
    }

    impl Lock for Way {
        fn get(&self) -> Option<Value> {
            self.shared.lease.lock().clone()
        }

        async fn create(&self, lease: &Value) -> Result<Value, RequestError> {
            self.passed().await;
            self.write(lease, None)
        }

        async fn update(&self, lease: &Value) -> Result<Value, RequestError> {
            self.passed().await;
            self.write(lease, lease.at(&["version"]).and_then(Value::as_i64))
        }

        fn now(&self) -> SmolStr {
            let time = std::time::UNIX_EPOCH + self.shared.begun.elapsed();
            Timestamp::from(time).text(Precision::Micros)
        }
    }

    fn election(identity: &str) -> Election {
        Election {
            name: "controllers".into(),
            namespace: "kube-system".into(),
            identity: identity.into(),
            lease: Duration::from_secs(15),
            renewal: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }

    /// A running candidate: its leadership, its access to the lease, and the sender that ends it.
    struct Running {
        leadership: Leadership,
        way: Way,
        end: Option<oneshot::Sender<()>>,
        task: tokio::task::JoinHandle<()>,
    }

    impl Running {
        fn begin(shared: &Shared, identity: &str) -> Self {
            let (leadership, way) = (Leadership::default(), Way::to(shared));
            let (end, ended) = oneshot::channel::<()>();
            let part = run(way.clone(), election(identity), leadership.clone(), async {
                let _ = ended.await;
            });
            Self {
                task: tokio::spawn(part),
                leadership,
                way,
                end: Some(end),
            }
        }

        fn leads(&self) -> bool {
            self.leadership.0.borrow().leads
        }

        async fn until(&self, leads: bool) -> Duration {
            let begun = Instant::now();
            let mut standing = self.leadership.0.subscribe();
            standing.wait_for(|standing| standing.leads == leads).await.unwrap();
            begun.elapsed()
        }
    }

    fn number(shared: &Shared, field: &str) -> Option<i64> {
        shared.lease.lock().as_ref()?.at(&["spec", field])?.as_i64()
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_is_cut_off_ends_before_another_begins() {
        let shared = Shared::new();
        let first = Running::begin(&shared, "first");
        first.until(true).await;
        let second = Running::begin(&shared, "second");
        sleep(Duration::from_secs(100)).await;
        assert!(first.leads() && !second.leads());
        first.way.open.send_replace(false);
        let (stopped, began) = tokio::join!(first.until(false), second.until(true));
        assert!(stopped < began, "{stopped:?} and {began:?}");
        assert!(stopped <= Duration::from_secs(10), "{stopped:?}");
        // The duration of the lease and one retry period.
        assert!(began <= Duration::from_secs(17), "{began:?}");
        assert_eq!(number(&shared, "leaseTransitions"), Some(1));
        first.way.open.send_replace(true);
        sleep(Duration::from_secs(100)).await;
        assert!(!first.leads() && second.leads());
    }

    #[tokio::test(start_paused = true)]
    async fn leader_that_ends_stops_work_and_releases_lease() {
        let shared = Shared::new();
        let mut first = Running::begin(&shared, "first");
        first.until(true).await;
        let second = Running::begin(&shared, "second");
        let (working, mut worked) = watch::channel(false);
        let leadership = first.leadership.clone();
        let worker = tokio::spawn(async move {
            let work = || {
                let working = working.clone();
                async move {
                    working.send_replace(true);
                    let _until_dropped = Ended(working);
                    std::future::pending().await
                }
            };
            leadership.during(work).await;
        });
        worked.wait_for(|works| *works).await.unwrap();
        first.end.take().unwrap().send(()).unwrap();
        first.task.await.unwrap();
        assert!(!*worked.borrow(), "it works on after the lease was given away");
        assert_eq!(number(&shared, "leaseDurationSeconds"), Some(1));
        assert!(second.until(true).await <= Duration::from_secs(2));
        worker.abort();
    }

    struct Ended(watch::Sender<bool>);

    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.send_replace(false);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_one_leads() {
        let shared = Shared::new();
        let mut all: Vec<Running> = (0..5)
            .map(|number| Running::begin(&shared, &format!("c{number}")))
            .collect();
        while !all.is_empty() {
            sleep(Duration::from_secs(40)).await;
            let leading: Vec<usize> = (0..all.len()).filter(|number| all[*number].leads()).collect();
            assert_eq!(leading.len(), 1);
            // The candidate is killed without a shutdown.
            let killed = all.swap_remove(leading[0]);
            killed.task.abort();
            killed.leadership.end().await;
        }
        assert_eq!(number(&shared, "leaseTransitions"), Some(4));
    }

    #[test]
    fn times_that_do_not_fit_are_rejected() {
        assert_eq!(election("a").check(), Ok(()));
        for (lease, renewal, retry) in [(10, 10, 2), (15, 2, 2), (0, 0, 0)] {
            let election = Election {
                lease: Duration::from_secs(lease),
                renewal: Duration::from_secs(renewal),
                retry: Duration::from_secs(retry),
                ..election("a")
            };
            assert!(election.check().is_err(), "{lease} {renewal} {retry}");
        }
    }
}
