//! An etcd for a test: one member, or a cluster, on loopback ports, with its data in memory if the system has such a
//! file system.
//!
//! Members are killed and restarted on their data and their ports; the cluster is removed with the value.

mod disk;
mod program;

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::free_address;

use disk::Disk;
pub use program::{Origin, program, program_of};

/// The folder of data below that of the cluster.
const DATA: &str = "data";
/// Time limit for a cluster to elect a leader.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Number of attempts with other ports if another program uses the free ones first.
const TRIES: usize = 5;
/// Time limit of one response of a member.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Settings of a cluster.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of members.
    pub members: usize,
    /// Additional flags of each member, such as `--quota-backend-bytes=33554432`.
    pub flags: Vec<String>,
    /// True if clients use TLS; the certificate is among the flags.
    pub tls: bool,
    /// Size in bytes of the disk for the data of all members, if they have one of their own.
    pub disk: Option<u64>,
    /// True if data is on a disk and survives a loss of power, as in a real cluster. If false, it is in memory.
    pub durable: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            members: 1,
            flags: Vec::new(),
            tls: false,
            disk: None,
            durable: false,
        }
    }
}

/// A running cluster.
pub struct Etcd {
    settings: Settings,
    members: Vec<Member>,
    /// Disk with their data, if they have one of their own.
    disk: Option<Disk>,
    /// The data of the members.
    folder: TempDir,
}

struct Member {
    name: String,
    client: SocketAddr,
    peer: SocketAddr,
    /// Address that serves metrics and health, without TLS.
    monitor: SocketAddr,
    process: Option<Child>,
}

impl Etcd {
    /// Starts a single member and waits until it responds.
    ///
    /// # Errors
    /// If there is no etcd, or it does not start.
    pub fn one() -> io::Result<Self> {
        Self::start(Settings::default())
    }

    /// Returns a cluster of three that has a leader.
    ///
    /// # Errors
    /// The same as [`Etcd::one`].
    pub fn three() -> io::Result<Self> {
        Self::start(Settings {
            members: 3,
            ..Settings::default()
        })
    }

    /// Returns a cluster that has a leader.
    ///
    /// # Errors
    /// The same as [`Etcd::one`].
    pub fn start(settings: Settings) -> io::Result<Self> {
        let mut tried = 0;
        loop {
            tried += 1;
            let folder = if settings.durable {
                TempDir::new()?
            } else {
                in_memory()?
            };
            let data = folder.path().join(DATA);
            std::fs::create_dir(&data)?;
            let mut etcd = Self {
                disk: settings.disk.map(|bytes| Disk::new(&data, bytes)).transpose()?,
                members: (0..settings.members).map(Member::new).collect::<io::Result<_>>()?,
                settings: settings.clone(),
                folder,
            };
            let begun = (0..etcd.members.len()).try_for_each(|member| etcd.spawn(member));
            match begun.and_then(|()| etcd.wait_until_served()) {
                Err(error) if tried == TRIES => return Err(error),
                // A free port may go to another process before it is used.
                Err(error) if !error.to_string().contains("address already in use") => return Err(error),
                Err(_) => {}
                Ok(()) => return Ok(etcd),
            }
        }
    }

    /// Returns the client URLs in the format of `--etcd-servers`.
    pub fn endpoints(&self) -> String {
        let all = (0..self.members.len()).map(|member| self.endpoint(member));
        all.collect::<Vec<_>>().join(",")
    }

    /// Returns the address of one member for clients, as a URL.
    pub fn endpoint(&self, member: usize) -> String {
        let scheme = if self.settings.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.client(member))
    }

    /// Returns the address of one member for clients.
    pub fn client(&self, member: usize) -> SocketAddr {
        self.members[member].client
    }

    /// Returns the number of members of the cluster, running or not.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Returns the member that reports itself as the leader.
    pub fn leader(&self) -> Option<usize> {
        let leads = |member: &Member| {
            let metrics = ask(member.monitor, "GET", "/metrics", "").unwrap_or_default();
            metrics.lines().any(|line| line == "etcd_server_is_leader 1")
        };
        self.members
            .iter()
            .position(|member| member.process.is_some() && leads(member))
    }

    /// Kills a member immediately. Its data stays.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn kill(&mut self, member: usize) -> io::Result<()> {
        let Some(mut process) = self.members[member].process.take() else {
            return Ok(());
        };
        process.kill()?;
        process.wait()?;
        Ok(())
    }

    /// Starts a member that was killed on its data, and waits until it serves.
    ///
    /// # Errors
    /// The same as [`Etcd::one`].
    pub fn revive(&mut self, member: usize) -> io::Result<()> {
        self.kill(member)?;
        self.spawn(member)?;
        self.wait_until_served()
    }

    /// Pauses a member without ending it: its connections stay open and it does not respond.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn pause(&self, member: usize) -> io::Result<()> {
        self.signal(member, "-STOP")
    }

    /// Resumes a paused member.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn resume(&self, member: usize) -> io::Result<()> {
        self.signal(member, "-CONT")
    }

    /// Fills all remaining space on the disk of the members.
    ///
    /// # Errors
    /// If they have no disk of their own, or the system call fails.
    pub fn fill_disk(&self) -> io::Result<()> {
        self.own_disk()?.fill()
    }

    /// Frees the space that [`Etcd::fill_disk`] filled.
    ///
    /// # Errors
    /// The same as [`Etcd::fill_disk`].
    pub fn clear_disk(&self) -> io::Result<()> {
        self.own_disk()?.clear()
    }

    fn own_disk(&self) -> io::Result<&Disk> {
        let none = || io::Error::other("the members have no disk of their own");
        self.disk.as_ref().ok_or_else(none)
    }

    /// Returns true if a member runs and did not exit by itself.
    ///
    /// # Errors
    /// If the system cannot report its state.
    pub fn runs(&mut self, member: usize) -> io::Result<bool> {
        match &mut self.members[member].process {
            Some(process) => Ok(process.try_wait()?.is_none()),
            None => Ok(false),
        }
    }

    /// Sends a request to a member's JSON gateway, such as `/v3/kv/compaction` with `{"revision": 5}`; not over TLS.
    ///
    /// # Errors
    /// If it does not respond or responds with an error, whose text is the message.
    pub fn ask(&self, member: usize, path: &str, body: &str) -> io::Result<String> {
        ask(self.members[member].client, "POST", path, body)
    }

    /// Returns the number of a member's process, if it runs.
    pub fn process(&self, member: usize) -> Option<u32> {
        self.members[member].process.as_ref().map(Child::id)
    }

    /// Returns the last lines of a member's log.
    pub fn log_tail(&self, member: usize) -> String {
        let bytes = std::fs::read(self.log_of(member)).unwrap_or_default();
        let log = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn log_of(&self, member: usize) -> std::path::PathBuf {
        self.folder.path().join(format!("{}.log", self.members[member].name))
    }

    fn signal(&self, member: usize, signal: &str) -> io::Result<()> {
        let Some(process) = &self.members[member].process else {
            return Err(io::Error::other("the member does not run"));
        };
        let status = Command::new("kill")
            .args([signal, &process.id().to_string()])
            .status()?;
        match status.success() {
            true => Ok(()),
            false => Err(io::Error::other("the member cannot be signalled")),
        }
    }

    fn spawn(&mut self, member: usize) -> io::Result<()> {
        let cluster: Vec<String> = self
            .members
            .iter()
            .map(|member| format!("{}=http://{}", member.name, member.peer))
            .collect();
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_of(member))?;
        let (endpoint, data) = (self.endpoint(member), self.folder.path().join(DATA));
        let Member {
            name, peer, monitor, ..
        } = &self.members[member];
        let mut command = match &self.disk {
            Some(disk) => disk.command(&program()?),
            None => Command::new(program()?),
        };
        let process = command
            .arg(format!("--name={name}"))
            .arg(format!("--data-dir={}", data.join(name).display()))
            .arg(format!("--listen-client-urls={endpoint}"))
            .arg(format!("--advertise-client-urls={endpoint}"))
            .arg(format!("--listen-peer-urls=http://{peer}"))
            .arg(format!("--initial-advertise-peer-urls=http://{peer}"))
            .arg(format!("--listen-metrics-urls=http://{monitor}"))
            .arg(format!("--initial-cluster={}", cluster.join(",")))
            .args(["--initial-cluster-token=tests", "--log-level=warn"])
            .args((!self.settings.durable).then_some("--unsafe-no-fsync"))
            // A leader that a busy machine delays for a second stays the leader.
            .args(["--heartbeat-interval=100", "--election-timeout=1500"])
            .args(&self.settings.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        self.members[member].process = Some(process);
        Ok(())
    }

    /// Waits until every running member reports that it serves.
    fn wait_until_served(&mut self) -> io::Result<()> {
        let end = Instant::now() + START_LIMIT;
        for member in 0..self.members.len() {
            loop {
                let Member { process, monitor, .. } = &mut self.members[member];
                let Some(process) = process else { break };
                if let Some(status) = process.try_wait()? {
                    let log = self.log_tail(member);
                    return Err(io::Error::other(format!("etcd ended with {status}:\n{log}")));
                }
                let healthy = ask(*monitor, "GET", "/health", "");
                if healthy.is_ok_and(|answer| answer.contains("\"true\"")) {
                    break;
                }
                if Instant::now() > end {
                    let log = self.log_tail(member);
                    return Err(io::Error::other(format!("etcd does not serve:\n{log}")));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in 0..self.members.len() {
            // The member may have exited already.
            let _ = self.kill(member);
        }
    }
}

impl Member {
    fn new(number: usize) -> io::Result<Self> {
        Ok(Self {
            name: format!("m{number}"),
            client: free_address()?,
            peer: free_address()?,
            monitor: free_address()?,
            process: None,
        })
    }
}

/// Creates a folder in memory, if the system has such a file system.
fn in_memory() -> io::Result<TempDir> {
    let shared_memory = Path::new("/dev/shm");
    let there = shared_memory.is_dir().then(|| TempDir::new_in(shared_memory));
    match there {
        Some(Ok(folder)) => Ok(folder),
        _ => TempDir::new(),
    }
}

/// Sends one HTTP/1.0 request, so that the response ends with the connection and has no chunks.
fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_LIMIT)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    match head.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => Err(io::Error::other(format!("{path}: {answer}"))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use crate::needs;

    use super::*;

    #[needs(etcd)]
    #[test]
    fn a_cluster_chooses_another_leader_when_its_leader_is_killed() {
        let mut etcd = Etcd::three().unwrap();
        // `a`, `b`
        etcd.ask(0, "/v3/kv/put", r#"{"key": "YQ==", "value": "Yg=="}"#)
            .unwrap();
        let leader = etcd.leader().unwrap();
        etcd.kill(leader).unwrap();
        let other = (leader + 1) % etcd.size();
        let end = Instant::now() + START_LIMIT;
        // It responds as soon as there is a leader again.
        let found = loop {
            match etcd.ask(other, "/v3/kv/range", r#"{"key": "YQ=="}"#) {
                Err(error) => assert!(Instant::now() < end, "{error}"),
                Ok(found) => break found,
            }
        };
        assert!(found.contains(r#""value":"Yg==""#), "{found}");
        while etcd.leader().is_none_or(|next| next == leader) {
            assert!(Instant::now() < end, "there is no leader");
        }
        etcd.revive(leader).unwrap();
        let found = etcd.ask(leader, "/v3/kv/range", r#"{"key": "YQ=="}"#).unwrap();
        assert!(found.contains(r#""value":"Yg==""#), "{found}");
    }
}
