//! `/livez`, `/readyz` and `/healthz`: the liveness and readiness of the server, as a whole and for each check
//! (<https://kubernetes.io/docs/reference/using-api/health-checks/>).

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;

use crate::http::query::Query;
use crate::http::response::{self, Response};
use crate::metrics::ServiceLevel;
use crate::runtime::background::Background;

/// The checks of the server.
#[derive(Default)]
pub struct Health {
    checks: Vec<Check>,
}

/// A check that passes or fails.
struct Check {
    name: Cow<'static, str>,
    endpoints: &'static [Endpoint],
    outcome: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    listing: Listing,
    /// The number of failed and of successful runs by each endpoint as a whole.
    runs: [[AtomicU64; 2]; Endpoint::ALL.len()],
}

/// Places that list a check. Every check has a path and can be excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    /// Every verbose report, and the list of paths.
    Always,
    /// Reports of failures, and the list of paths.
    Failures,
    /// Reports of failures. The check is another name of a listed check.
    Alias,
}

impl Check {
    /// Runs the check for an endpoint as a whole.
    fn run(&self, endpoint: Endpoint) -> Result<(), String> {
        let outcome = (self.outcome)();
        let runs = self.runs.get(endpoint as usize);
        if let Some(runs) = runs.and_then(|runs| runs.get(usize::from(outcome.is_ok()))) {
            runs.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }
}

/// The endpoints that run checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The older form, which combines the other two.
    Healthz,
    /// The liveness endpoint: the server should be restarted if it fails.
    Livez,
    /// The readiness endpoint: clients should not be sent here while it fails.
    Readyz,
}

impl Endpoint {
    /// All endpoints, for checks that are part of each.
    pub const ALL: &'static [Endpoint] = &[Self::Healthz, Self::Livez, Self::Readyz];

    fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

/// A task that has to be completed once after the start. Until then its check fails, except for `/livez` within the
/// grace period of a start.
#[derive(Clone, Debug, Default)]
pub struct Hook(Arc<AtomicBool>);

impl Hook {
    /// Marks the task as completed.
    pub fn finish(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn outcome(&self) -> Result<(), String> {
        if self.0.load(Ordering::Acquire) {
            Ok(())
        } else {
            Err("not finished".to_owned())
        }
    }
}

impl Health {
    /// Creates the checks of every server, which is only `ping`: it passes whenever the server answers.
    pub fn new() -> Self {
        Self::default().with("ping", Endpoint::ALL, || Ok(()))
    }

    /// Adds a check to `endpoints`; `outcome` returns the reason of a failure, which only the log reports.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<Cow<'static, str>>,
        endpoints: &'static [Endpoint],
        outcome: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.checks.push(Check {
            name: name.into(),
            endpoints,
            outcome: Box::new(outcome),
            listing: Listing::Always,
            runs: Default::default(),
        });
        self
    }

    /// Adds a check of the name that passes once `hook` is finished. For `/livez` it also passes during `grace` from
    /// now on: a server that starts slowly should not be restarted for it. It fails if a task of the name has ended.
    #[must_use]
    pub fn with_hook(self, name: &'static str, hook: &Hook, tasks: &Background, grace: Duration) -> Self {
        let patience = Instant::now() + grace;
        let (ready, lived) = (hook.clone(), hook.clone());
        let (tasks, also) = (tasks.clone(), tasks.clone());
        self.with(name, &[Endpoint::Healthz, Endpoint::Readyz], move || {
            ready.outcome().and_then(|()| tasks.outcome(name))
        })
        .with(name, &[Endpoint::Livez], move || {
            also.outcome(name)?;
            if Instant::now() < patience {
                return Ok(());
            }
            lived.outcome()
        })
    }

    /// Adds a check for each of the names that passes as long as the task of that name runs. A report only lists it if
    /// it fails, because the reference runs these tasks elsewhere.
    #[must_use]
    pub fn with_tasks(self, names: impl IntoIterator<Item = &'static str>, tasks: &Background) -> Self {
        names.into_iter().fold(self, |health, name| {
            let tasks = tasks.clone();
            let mut health = health.with(name, Endpoint::ALL, move || tasks.outcome(name));
            if let Some(check) = health.checks.last_mut() {
                check.listing = Listing::Failures;
            }
            health
        })
    }

    /// Adds another name of a check, for clients that know the check by that name. A report lists it only if it fails.
    #[must_use]
    pub fn with_alias(
        self,
        name: &'static str,
        endpoints: &'static [Endpoint],
        outcome: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        let mut health = self.with(name, endpoints, outcome);
        if let Some(check) = health.checks.last_mut() {
            check.listing = Listing::Alias;
        }
        health
    }

    /// Returns the paths of all checks, as the list of paths at `/` contains them.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        for endpoint in Endpoint::ALL {
            paths.push(format!("/{}", endpoint.name()));
            let checks = self
                .checks_of(*endpoint)
                .filter(|check| check.listing != Listing::Alias);
            paths.extend(checks.map(|check| format!("/{}/{}", endpoint.name(), check.name)));
        }
        paths
    }

    /// Returns the answer for `path`, if it is a health check.
    pub fn respond(&self, path: &str, query: &Query) -> Option<Response> {
        let path = path.strip_prefix('/')?;
        let (root, name) = match path.split_once('/') {
            Some((root, name)) => (root, Some(name)),
            None => (path, None),
        };
        let endpoint = *Endpoint::ALL.iter().find(|endpoint| endpoint.name() == root)?;
        match name {
            None => Some(self.all(endpoint, query)),
            Some(name) => {
                let check = self.checks_of(endpoint).find(|check| check.name == name)?;
                Some(match (check.outcome)() {
                    Ok(()) => response::text(StatusCode::OK, "ok"),
                    Err(why) => {
                        let message = format!("internal server error: {why}\n");
                        response::text(StatusCode::INTERNAL_SERVER_ERROR, message)
                    }
                })
            }
        }
    }

    /// Returns the current outcome of each check.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = ServiceLevel<'_>> {
        let levels = |endpoint: &Endpoint| {
            let endpoint = *endpoint;
            let runs = move |check: &Check, at: usize| {
                let runs = check.runs.get(endpoint as usize).and_then(|runs| runs.get(at));
                runs.map_or(0, |runs| runs.load(Ordering::Relaxed))
            };
            self.checks_of(endpoint).map(move |check| ServiceLevel {
                endpoint: endpoint.name(),
                check: &check.name,
                well: (check.outcome)().is_ok(),
                failures: runs(check, 0),
                successes: runs(check, 1),
            })
        };
        Endpoint::ALL.iter().flat_map(levels)
    }

    fn checks_of(&self, endpoint: Endpoint) -> impl Iterator<Item = &Check> {
        self.checks
            .iter()
            .filter(move |check| check.endpoints.contains(&endpoint))
    }

    fn all(&self, endpoint: Endpoint, query: &Query) -> Response {
        let mut excluded: Vec<&str> = query.all("exclude").collect();
        excluded.sort_unstable();
        excluded.dedup();
        let (mut report, mut failed) = (String::new(), Vec::new());
        for check in self.checks_of(endpoint) {
            let name = &check.name;
            if excluded.contains(&&**name) {
                excluded.retain(|other| other != name);
                report.push_str(&format!("[+]{name} excluded: ok\n"));
            } else if let Err(why) = check.run(endpoint) {
                tracing::warn!(endpoint = endpoint.name(), check = &**name, why, "health check failed");
                report.push_str(&format!("[-]{name} failed: reason withheld\n"));
                failed.push(&**name);
            } else if check.listing == Listing::Always {
                report.push_str(&format!("[+]{name} ok\n"));
            }
        }
        if !excluded.is_empty() {
            let quoted: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
            let names = quoted.join(",");
            report.push_str(&format!(
                "warn: some health checks cannot be excluded: no matches for {names}\n"
            ));
        }
        let endpoint = endpoint.name();
        if !failed.is_empty() {
            report.push_str(&format!("{endpoint} check failed\n"));
            return response::text(StatusCode::INTERNAL_SERVER_ERROR, report);
        }
        if query.get("verbose").is_none() {
            return response::text(StatusCode::OK, "ok");
        }
        report.push_str(&format!("{endpoint} check passed\n"));
        response::text(StatusCode::OK, report)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::runtime::shutdown::ShutdownTrigger;

    async fn ask(health: &Health, path: &str, query: &str) -> Option<(u16, String)> {
        let response = health.respond(path, &Query::parse(query))?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Some((code, String::from_utf8(bytes.to_vec()).unwrap()))
    }

    fn ok(text: &str) -> Option<(u16, String)> {
        Some((200, text.to_owned()))
    }

    #[tokio::test]
    async fn verbose_lists_checks_and_exclude_leaves_some_out() {
        let health = Health::new().with("etcd", &[Endpoint::Readyz], || Ok(()));
        assert_eq!(ask(&health, "/readyz", "").await, ok("ok"));
        assert_eq!(
            ask(&health, "/readyz", "verbose").await,
            ok("[+]ping ok\n[+]etcd ok\nreadyz check passed\n")
        );
        assert_eq!(
            ask(&health, "/readyz", "verbose&exclude=ping&exclude=none").await,
            ok(
                "[+]ping excluded: ok\n[+]etcd ok\nwarn: some health checks cannot be excluded: no matches for \"none\"\nreadyz check passed\n"
            )
        );
        assert_eq!(
            ask(&health, "/livez", "verbose=false").await,
            ok("[+]ping ok\nlivez check passed\n")
        );
    }

    #[tokio::test]
    async fn alias_has_a_path_and_is_listed_only_if_it_fails() {
        let health = |works: bool| {
            Health::new().with_alias("etcd", &[Endpoint::Readyz], move || match works {
                true => Ok(()),
                false => Err("no disk".to_owned()),
            })
        };
        let works = health(true);
        assert_eq!(ask(&works, "/readyz/etcd", "").await, ok("ok"));
        assert_eq!(ask(&works, "/readyz", "exclude=etcd").await, ok("ok"));
        assert_eq!(
            ask(&works, "/readyz", "verbose").await,
            ok("[+]ping ok\nreadyz check passed\n")
        );
        assert!(!works.paths().contains(&"/readyz/etcd".to_owned()));
        let (code, report) = ask(&health(false), "/readyz", "").await.unwrap();
        assert_eq!(code, 500);
        assert!(report.contains("[-]etcd failed: reason withheld\n"), "{report}");
        assert_eq!(ask(&health(false), "/readyz", "exclude=etcd").await, ok("ok"));
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_hook_is_live_during_grace_but_not_ready() {
        let hook = Hook::default();
        let name = "poststarthook/rbac/bootstrap-roles";
        let health = Health::new().with_hook(name, &hook, &Background::default(), Duration::from_secs(10));
        let failed = "[+]ping ok\n[-]poststarthook/rbac/bootstrap-roles failed: reason withheld\n";
        assert_eq!(ask(&health, "/livez", "").await, ok("ok"));
        assert_eq!(
            ask(&health, "/readyz", "").await,
            Some((500, format!("{failed}readyz check failed\n")))
        );
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(
            ask(&health, "/livez", "").await,
            Some((500, format!("{failed}livez check failed\n")))
        );
        hook.finish();
        assert_eq!(ask(&health, "/livez", "").await, ok("ok"));
        assert_eq!(ask(&health, &format!("/healthz/{name}"), "").await, ok("ok"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ended_fails_the_checks_of_its_name() {
        let (hook, tasks, trigger) = (Hook::default(), Background::default(), ShutdownTrigger::new());
        hook.finish();
        let health = Health::new()
            .with_hook("poststarthook/one", &hook, &tasks, Duration::from_secs(10))
            .with_tasks(["two"], &tasks);
        assert_eq!(ask(&health, "/livez", "").await, ok("ok"));
        assert_eq!(
            ask(&health, "/livez", "verbose").await,
            ok("[+]ping ok\n[+]poststarthook/one ok\nlivez check passed\n")
        );
        assert_eq!(ask(&health, "/livez/two", "").await, ok("ok"));
        for (check, failed) in [("poststarthook/one", "[-]poststarthook/one"), ("two", "[-]two")] {
            tasks.spawn(check, "task", &trigger.shutdown(), async {});
            tokio::time::sleep(Duration::from_millis(1)).await;
            for endpoint in ["livez", "readyz", "healthz"] {
                let (code, report) = ask(&health, &format!("/{endpoint}"), "").await.unwrap();
                assert_eq!(code, 500);
                assert!(report.contains(failed), "{report}");
            }
        }
    }

    #[tokio::test]
    async fn checks_run_by_a_whole_endpoint_are_counted() {
        let health = Health::new().with("etcd", &[Endpoint::Readyz], || Err("no disk".to_owned()));
        ask(&health, "/readyz", "").await;
        ask(&health, "/readyz", "exclude=etcd").await;
        ask(&health, "/readyz/etcd", "").await;
        let counted: Vec<_> = health
            .outcomes()
            .map(|level| (level.endpoint, level.check, level.failures, level.successes))
            .collect();
        assert!(counted.contains(&("readyz", "etcd", 1, 0)), "{counted:?}");
        assert!(counted.contains(&("readyz", "ping", 0, 2)), "{counted:?}");
        assert!(counted.contains(&("livez", "ping", 0, 0)), "{counted:?}");
    }

    #[tokio::test]
    async fn each_check_has_a_path_under_its_endpoints_alone() {
        let health = Health::new().with("etcd", &[Endpoint::Readyz], || Err("no disk".to_owned()));
        assert_eq!(ask(&health, "/livez/ping", "").await, ok("ok"));
        assert_eq!(ask(&health, "/livez/etcd", "").await, None);
        assert_eq!(ask(&health, "/livez/", "").await, None);
        let (code, text) = ask(&health, "/readyz/etcd", "").await.unwrap();
        assert_eq!((code, text.as_str()), (500, "internal server error: no disk\n"));
    }

    #[tokio::test]
    async fn a_failing_check_fails_its_endpoint_and_withholds_why() {
        let health = Health::new().with("etcd", Endpoint::ALL, || Err("no disk".to_owned()));
        let (code, text) = ask(&health, "/livez", "").await.unwrap();
        assert_eq!(code, 500);
        assert_eq!(
            text,
            "[+]ping ok\n[-]etcd failed: reason withheld\nlivez check failed\n"
        );
        assert_eq!(ask(&health, "/livez", "exclude=etcd").await, ok("ok"));
    }
}
