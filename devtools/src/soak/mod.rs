//! `cargo xtask soak`: writers, watchers, hostile clients and kills, for any duration.
//!
//! A run consists of rounds. In each round the server is used and abused for some seconds, then killed or sometimes
//! shut down, and started again. After each restart every acknowledged write exists or was overwritten by a later one,
//! revisions have not decreased, and each watcher, which resumes from its last revision, received every acknowledged
//! write, once and in order, and knows the current objects. Each prize of racers belongs to one of them. Throughout,
//! readers see nothing that was overwritten before their request, `/livez` responds, and memory stays below a bound.
//! Choices follow from the seed; timing does not.
//!
//! With `--store etcd` a cluster of three stores the objects, a second server serves them too and is never stopped,
//! writers, readers and watchers use both, and in each round the cluster or the connections of the first server have a
//! fault.

mod faults;
mod hostile;
mod ledger;
mod objects;
mod racers;
mod random;
mod readers;
mod watchers;
mod writers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use conformance::{Binary, Server, Target, USER_TOKEN};
use http::Method;
use parking_lot::Mutex;
use serde_json::json;
use test_support::Link;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use self::faults::{Fault, SecondServer};
use self::hostile::Attempts;
use self::ledger::{Contents, Ledger};
use self::objects::{COLLECTION, MARKER};
use self::racers::{Racer, Races};
use self::random::Random;
use self::readers::Reader;
use self::watchers::Watcher;
use self::writers::Writer;
use crate::commands::say;
use crate::stores::{Backing, StoreKind};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Duration of the run.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Seed of the choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Limit of the server's resident memory, in MiB.
    #[arg(long, default_value_t = 1024)]
    most_memory: u64,
    /// Use a debug build.
    #[arg(long)]
    debug: bool,
    /// Storage backend.
    #[arg(long, value_enum, default_value_t)]
    store: StoreKind,
}

const WRITERS: u64 = 8;
const WATCHERS: usize = 4;
const READERS: u64 = 3;
const RACERS: u64 = 4;
const HOSTILE: u64 = 6;
/// Number of members of an etcd.
const MEMBERS: usize = 3;
/// Interval between checks of memory and `/livez`.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Time limit of `/livez` while hostile clients are active.
const LIVEZ_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let binary = Binary::new(arguments.debug)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut soak = Soak::begin(arguments, &binary).await?;
        let end = Instant::now() + Duration::from_secs(60 * arguments.minutes);
        while Instant::now() < end {
            soak.round().await.with_context(|| soak.state())?;
        }
        say(&soak.state());
        Ok(())
    })
}

/// A run.
struct Soak {
    server: Server,
    /// The flags of the first server.
    flags: Vec<String>,
    second_server: Option<SecondServer>,
    backing: Backing,
    seed: u64,
    most_memory: u64,
    round: u64,
    ledger: Arc<Mutex<Ledger>>,
    races: Arc<Mutex<Races>>,
    watchers: Vec<Watcher>,
    attempts: Arc<Mutex<Attempts>>,
    seen: Maxima,
    /// Last fault of the store.
    fault: Fault,
    /// Number of occurrences of each fault.
    faults: BTreeMap<Fault, u64>,
}

/// Largest memory and longest response time so far.
#[derive(Clone, Copy, Default)]
struct Maxima {
    memory: u64,
    slowest: Duration,
}

impl Maxima {
    fn and(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            slowest: self.slowest.max(other.slowest),
        }
    }
}

impl Soak {
    async fn begin(arguments: &Arguments, binary: &Binary) -> Result<Self> {
        let mut backing = Backing::start(arguments.store, MEMBERS)?;
        let (flags, second_server) = match backing.etcd() {
            None => (Vec::new(), None),
            Some(etcd) => {
                let mut links = Vec::new();
                for member in 0..etcd.size() {
                    links.push(Link::to(etcd.client(member)).await?);
                }
                let endpoints: Vec<String> = links.iter().map(|link| format!("http://{}", link.address())).collect();
                let server = Server::start(binary, &backing.flags(&[]))?;
                let flags = vec![format!("--etcd-servers={}", endpoints.join(","))];
                (flags, Some(SecondServer { server, links }))
            }
        };
        let server = Server::start(binary, &texts(&flags))?;
        let mut connection = Target::new(&server)?.connect().await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "soak"}});
        for (path, object) in [
            ("/api/v1/namespaces", namespace),
            racers::quota(),
            (
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                hostile::crd(),
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                hostile::rights(),
            ),
        ] {
            let body = objects::text(&object);
            connection.send(Method::POST, path, "application/json", body).await?;
        }
        let list = connection.send(Method::GET, COLLECTION, "", Bytes::new()).await?;
        let watchers: Result<Vec<Watcher>> = (0..WATCHERS)
            // Even watchers use the first server, which is stopped in each round.
            .map(|number| Watcher::begin(&list, second_server.is_some() && number % 2 == 0))
            .collect();
        Ok(Self {
            server,
            flags,
            second_server,
            backing,
            seed: arguments.seed,
            most_memory: arguments.most_memory << 20,
            round: 0,
            ledger: Arc::default(),
            races: Arc::default(),
            watchers: watchers?,
            attempts: Arc::default(),
            seen: Maxima::default(),
            fault: Fault::None,
            faults: BTreeMap::new(),
        })
    }

    fn state(&self) -> String {
        let (attempts, ledger, races) = (self.attempts.lock(), self.ledger.lock(), self.races.lock());
        format!(
            "seed {}, {} rounds: {} acknowledged writes, {} reads, {} events, {} races won and {} lost, {} hostile attempts, the last \
             {:?}; at most {} MiB, /livez within {:?}; faults: {:?}, the last {:?}",
            self.seed,
            self.round,
            ledger.total,
            ledger.reads,
            self.watchers.iter().map(|watcher| watcher.events).sum::<u64>(),
            races.won,
            races.lost,
            attempts.done,
            attempts.under_way.values(),
            self.seen.memory >> 20,
            self.seen.slowest,
            self.faults,
            self.fault,
        )
    }

    /// Returns the servers.
    fn targets(&self) -> Result<Vec<Target>> {
        let other = self.second_server.iter().map(|second_server| &second_server.server);
        [&self.server].into_iter().chain(other).map(Target::new).collect()
    }

    async fn round(&mut self) -> Result<()> {
        let mut random = Random::for_part(self.seed, self.round + 1, 0);
        let lasting = Duration::from_millis(3_000 + random.below(9_000));
        let fault = Fault::choose(&mut random);
        self.round_of(fault, lasting, random).await
    }

    /// Runs a round with this fault, if there is an etcd.
    async fn round_of(&mut self, fault: Fault, lasting: Duration, mut random: Random) -> Result<()> {
        self.round += 1;
        self.fault = fault;
        let target = Target::new(&self.server)?;
        let targets = self.targets()?;
        let (stopping, stop) = watch::channel(false);
        let mut clients = self.clients(&targets, &stop);
        let watchers: Vec<_> = std::mem::take(&mut self.watchers)
            .into_iter()
            .zip(targets.iter().cycle())
            .map(|(watcher, target)| tokio::spawn(watcher.run(target.clone(), stop.clone())))
            .collect();
        let mut hostile = self.hostile(&target);

        let looked = self.suffer(&target, lasting, &mut clients, &mut random).await;
        let gracefully = random.below(4) == 0;
        self.end(gracefully)?;
        hostile.shutdown().await;
        stopping.send_replace(true);
        while let Some(ended) = clients.join_next().await {
            ended??;
        }
        self.watchers = joined(watchers).await?;
        self.seen = self.seen.and(looked?);
        self.server.start_anew(&texts(&self.flags))?;
        self.audit().await
    }

    /// Starts writers and readers, distributed over the servers.
    fn clients(&self, targets: &[Target], stop: &watch::Receiver<bool>) -> JoinSet<Result<()>> {
        let mut clients = JoinSet::new();
        // The first server is stopped in each round.
        let server_ends = |number: u64| self.second_server.is_none() || number.is_multiple_of(2);
        for (number, target) in (0..WRITERS).zip(targets.iter().cycle()) {
            let writer = Writer {
                number,
                target: target.clone(),
                ledger: Arc::clone(&self.ledger),
                random: Random::for_part(self.seed, self.round, 100 + number),
                may_be_unsure: self.second_server.is_some(),
                server_ends: server_ends(number),
                stop: stop.clone(),
            };
            clients.spawn(writer.run());
        }
        for (number, target) in (0..READERS).zip(targets.iter().cycle()) {
            let reader = Reader {
                target: target.clone(),
                ledger: Arc::clone(&self.ledger),
                random: Random::for_part(self.seed, self.round, 300 + number),
                writers: WRITERS,
                stop: stop.clone(),
            };
            clients.spawn(reader.run());
        }
        for (number, target) in (0..RACERS).zip(targets.iter().cycle()) {
            let racer = Racer {
                target: target.clone(),
                races: Arc::clone(&self.races),
                random: Random::for_part(self.seed, self.round, 400 + number),
                server_ends: server_ends(number),
                stop: stop.clone(),
            };
            clients.spawn(racer.run());
        }
        clients
    }

    /// Checks the server while its store has a fault, which is removed at the end.
    async fn suffer(
        &mut self,
        target: &Target,
        lasting: Duration,
        clients: &mut JoinSet<Result<()>>,
        random: &mut Random,
    ) -> Result<Maxima> {
        if self.second_server.is_none() {
            return self.look(target, lasting, clients).await;
        }
        let before = self.look(target, lasting / 3, clients).await?;
        *self.faults.entry(self.fault).or_default() += 1;
        let befallen = match (self.backing.etcd(), &self.second_server) {
            (Some(etcd), Some(second_server)) => self.fault.begin(etcd, &second_server.links, random)?,
            _ => 0,
        };
        let during = self.look(target, lasting / 3, clients).await?;
        if let (Some(etcd), Some(second_server)) = (self.backing.etcd(), &self.second_server) {
            self.fault.mend(befallen, etcd, &second_server.links)?;
        }
        let after = self.look(target, lasting / 3, clients).await?;
        Ok(before.and(during).and(after))
    }

    fn hostile(&self, target: &Target) -> JoinSet<()> {
        let mut hostile = JoinSet::new();
        let target = target.clone().with_token(USER_TOKEN);
        for number in 0..HOSTILE {
            let random = Random::for_part(self.seed, self.round, 200 + number);
            let attempts = Arc::clone(&self.attempts);
            hostile.spawn(hostile::run(number, target.clone(), random, attempts));
        }
        hostile
    }

    /// Checks for some time that the server is alive, responds, and stays within its memory limit.
    async fn look(&mut self, target: &Target, lasting: Duration, clients: &mut JoinSet<Result<()>>) -> Result<Maxima> {
        let end = Instant::now() + lasting;
        let mut seen = Maxima::default();
        let mut connection = target.connect().await?;
        while Instant::now() < end {
            ensure!(self.server.running(), "the server ended:\n{}", self.server.log_tail());
            let begin = Instant::now();
            let answer = connection.ask(Method::GET, "/livez", "", Bytes::new());
            let (status, _) = tokio::time::timeout(LIVEZ_TIMEOUT, answer)
                .await
                .context("/livez does not answer")??;
            // A server without its etcd reports that.
            ensure!(
                status.is_success() || self.second_server.is_some(),
                "/livez says {status}"
            );
            seen = seen.and(Maxima {
                memory: self.server.memory()?,
                slowest: begin.elapsed(),
            });
            ensure!(
                seen.memory <= self.most_memory,
                "the server takes {} MiB of memory",
                seen.memory >> 20
            );
            if let Some(ended) = clients.try_join_next() {
                ended??;
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        Ok(seen)
    }

    fn end(&mut self, gracefully: bool) -> Result<()> {
        if !gracefully {
            return self.server.kill();
        }
        self.server.terminate();
        let code = self.server.wait_for_end(Duration::from_secs(120))?;
        ensure!(code == Some(0), "it ended with {code:?}:\n{}", self.server.log_tail());
        Ok(())
    }

    /// Compares the objects after a restart with the acknowledged writes and with the events of watchers.
    async fn audit(&mut self) -> Result<()> {
        let target = Target::new(&self.server)?;
        let mut connection = target.connect().await?;
        let mark = objects::config_map(MARKER, "round", self.round, 0);
        let path = format!("{}?fieldManager=soak&force=true", objects::path(MARKER));
        let apply = "application/apply-patch+yaml";
        let marked = connection
            .send(Method::PATCH, &path, apply, objects::text(&mark))
            .await?;
        let marker = objects::revision(&serde_json::from_slice(&marked)?).context("a marker without a revision")?;
        // A late write may follow the marker. The list and the watchers all end at the marker.
        let exact = format!("{COLLECTION}?resourceVersion={marker}&resourceVersionMatch=Exact");
        let list = connection.send(Method::GET, &exact, "", Bytes::new()).await?;
        let (revision, items) = objects::list(&list)?;
        let there: Contents = items.iter().flat_map(objects::contents).collect();
        let written = self.ledger.lock().audit(&there, revision)?;
        racers::audit(&target, &self.races).await?;
        let targets = self.targets()?;
        for (watcher, target) in self.watchers.iter_mut().zip(targets.iter().cycle()) {
            watcher.catch_up(target, marker).await?;
            watcher.audit(&there, &written)?;
        }
        Ok(())
    }
}

fn texts(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}

async fn joined(watchers: Vec<JoinHandle<Result<Watcher>>>) -> Result<Vec<Watcher>> {
    let mut joined = Vec::new();
    for watcher in watchers {
        joined.push(watcher.await??);
    }
    Ok(joined)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "what fails here is the test")]
mod tests {
    use test_support::needs;

    use super::*;

    #[needs(etcd)]
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_fault_of_etcd_loses_or_doubles_a_write_a_read_or_an_event() {
        let arguments = Arguments {
            minutes: 0,
            seed: 7,
            most_memory: 1024,
            debug: true,
            store: StoreKind::Etcd,
        };
        let binary = Binary::debug().unwrap();
        let mut soak = Soak::begin(&arguments, &binary).await.unwrap();
        let faults = [Fault::LeaderKilled, Fault::Cut, Fault::CompactedUnseen, Fault::NoSpace];
        for (number, fault) in (1..).zip(faults) {
            let round = soak.round_of(fault, Duration::from_millis(900), Random::for_part(7, number, 0));
            if let Err(error) = round.await {
                panic!("{error:?}\n{}", soak.state());
            }
        }
        let seen = soak.ledger.lock().total;
        assert!(seen > 100, "{}", soak.state());
    }
}
