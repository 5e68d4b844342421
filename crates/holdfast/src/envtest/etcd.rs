//! Stub of etcd: it is healthy and returns the directory that it was given. It stores nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use holdfast_value::{Limits, Map, Value, json};
use http::Uri;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

/// Path under which the stub describes its store. A real etcd has nothing there.
const STORE: &str = "/holdfast/store";
/// Fields of that response.
const DIRECTORY: &str = "directory";
const SYNC: &str = "sync";

/// Time limit for which the two programs wait for each other.
const PEER_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of bytes of a request or a response.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Release of etcd with these flags and responses.
const VERSION: &str = "3.6.0";

/// The flags that have a meaning, as `etcd --help` lists flags.
const HELP: &str = "\
Usage:

  etcd [flags]
    Stand for etcd beside a kube-apiserver that is Holdfast. Objects are kept in its embedded store.

Member:
  --data-dir 'default.etcd'
    Path to the directory that the objects are kept in.
  --listen-client-urls 'http://localhost:2379'
    List of URLs to listen on for client traffic.

Unsafe feature:
  --unsafe-no-fsync 'false'
    Do not sync: a crash of the machine may lose what was written.

All other flags are taken and change nothing.
";

/// Serves until a termination signal.
///
/// # Errors
/// If a URL cannot be listened on, or JSON cannot represent the name of the directory.
pub(crate) fn run(words: &[OsString]) -> Result<()> {
    let flags = Flags::read(words)?;
    if flags.help {
        std::io::stdout().write_all(HELP.as_bytes())?;
        return Ok(());
    }
    if flags.version {
        writeln!(std::io::stdout(), "etcd Version: {VERSION}")?;
        return Ok(());
    }
    std::fs::create_dir_all(&flags.directory).with_context(|| format!("cannot make {}", flags.directory.display()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start")?.block_on(serve(flags))
}

async fn serve(flags: Flags) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for signals")?;
    let answers: &'static Answers = Box::leak(Box::new(Answers::new(&flags)?));
    let mut listening = JoinSet::new();
    for address in flags.addresses()? {
        let bound = TcpListener::bind(address).await;
        let listener = bound.with_context(|| format!("cannot listen on {address}"))?;
        listening.spawn(accept(listener, answers));
    }
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = listening.join_next() => bail!("the listener ended"),
    }
    Ok(())
}

async fn accept(listener: TcpListener, answers: &'static Answers) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            // Out of files, perhaps, which passes.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        tokio::spawn(tokio::time::timeout(PEER_TIMEOUT, async move {
            let mut request = Vec::new();
            let mut piece = [0; 1024];
            while !request.windows(4).any(|four| four == b"\r\n\r\n") && request.len() < MAX_MESSAGE_BYTES {
                match stream.read(&mut piece).await {
                    Ok(0) | Err(_) => return,
                    Ok(length) => request.extend(piece.iter().take(length)),
                }
            }
            let _ = stream.write_all(&answers.to(&request)).await;
            let _ = stream.shutdown().await;
        }));
    }
}

/// Responses of the stub.
#[derive(Debug)]
struct Answers {
    store: String,
}

impl Answers {
    fn new(flags: &Flags) -> Result<Self> {
        let directory = std::path::absolute(&flags.directory).context("cannot tell where the directory is")?;
        let name = directory
            .to_str()
            .context("the directory has a name that is not UTF-8")?;
        let mut store = Map::new();
        store.insert(DIRECTORY, name);
        store.insert(SYNC, !flags.no_sync);
        Ok(Self {
            store: json::to_string(&Value::Map(store)),
        })
    }

    fn to(&self, request: &[u8]) -> Vec<u8> {
        let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let mut words = line.split(|byte| *byte == b' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
        let (status, body) = match (method, path) {
            (b"GET" | b"HEAD", b"/health" | b"/livez" | b"/readyz") => {
                ("200 OK", r#"{"health":"true","reason":""}"#.to_owned())
            }
            (b"GET" | b"HEAD", b"/version") => (
                "200 OK",
                format!(r#"{{"etcdserver":"{VERSION}","etcdcluster":"{VERSION}","storage":"{VERSION}"}}"#),
            ),
            (b"GET", path) if path == STORE.as_bytes() => ("200 OK", self.store.clone()),
            _ => (
                "404 Not Found",
                r#"{"message":"nothing is kept here: Holdfast stands for etcd"}"#.to_owned(),
            ),
        };
        let shown = if method == b"HEAD" { "" } else { body.as_str() };
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{shown}",
            body.len()
        )
        .into_bytes()
    }
}

/// The flags that have a meaning.
#[derive(Debug, PartialEq, Eq)]
struct Flags {
    directory: PathBuf,
    urls: Vec<String>,
    no_sync: bool,
    help: bool,
    version: bool,
}

impl Flags {
    /// Parses a command line as Go's package `flag` does: `-flag`, `--flag`, `--flag=value`, `--flag value`. The last
    /// of several occurrences applies.
    fn read(words: &[OsString]) -> Result<Self> {
        let mut set: BTreeMap<String, String> = BTreeMap::new();
        let mut words = words.iter().skip(1).peekable();
        while let Some(word) = words.next() {
            let word = word.to_str().context("a flag is not UTF-8")?;
            let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
                bail!("{word:?} is no flag");
            };
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None => {
                    let argument = words.next_if(|next| !next.as_encoded_bytes().starts_with(b"-"));
                    let following = argument.map_or("true", |value| value.to_str().unwrap_or_default());
                    (flag, following.to_owned())
                }
            };
            set.insert(name.to_owned(), value);
        }
        let is_on = |name: &str| set.get(name).is_some_and(|value| value == "true" || value == "1");
        let text = |name: &str, usual: &str| set.get(name).map_or(usual, String::as_str).to_owned();
        Ok(Self {
            directory: text("data-dir", "default.etcd").into(),
            urls: text("listen-client-urls", "http://localhost:2379")
                .split(',')
                .map(str::to_owned)
                .collect(),
            no_sync: is_on("unsafe-no-fsync"),
            help: set.contains_key("help") || set.contains_key("h"),
            version: is_on("version"),
        })
    }

    /// Returns the addresses to listen on.
    fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let mut addresses = Vec::new();
        for url in &self.urls {
            let Some(address) = address_of(url)? else {
                bail!("--listen-client-urls: {url} is not http, which is all that is spoken here");
            };
            addresses.push(address);
        }
        Ok(addresses)
    }
}

/// Returns the address of a URL; `None` if it is not HTTP without TLS.
fn address_of(url: &str) -> Result<Option<SocketAddr>> {
    let unreadable = || format!("cannot read the URL {url}");
    let uri: Uri = url.parse().with_context(unreadable)?;
    if uri.scheme_str() != Some("http") {
        return Ok(None);
    }
    let bracketed = uri.host().with_context(unreadable)?;
    let host = bracketed.trim_start_matches('[').trim_end_matches(']');
    let mut found = (host, uri.port_u16().unwrap_or(80))
        .to_socket_addrs()
        .with_context(unreadable)?;
    let first = found.next().with_context(unreadable)?;
    Ok(Some(first))
}

/// Store that a stub represents.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoreOfStub {
    /// Directory of the objects.
    pub(super) directory: PathBuf,
    /// True if writes wait for the disk.
    pub(super) sync: bool,
}

impl StoreOfStub {
    /// Returns the store of the stub at `server`; `None` if another program or nothing listens there.
    ///
    /// # Errors
    /// If the response of a stub cannot be parsed.
    pub(super) fn ask(server: &str) -> Result<Option<Self>> {
        let Ok(Some(address)) = address_of(server) else {
            return Ok(None);
        };
        match question(address) {
            Ok(answer) => Self::read(&answer),
            Err(_) => Ok(None),
        }
    }

    fn read(answer: &[u8]) -> Result<Option<Self>> {
        let Some(body) = answer
            .starts_with(b"HTTP/1.1 200 ")
            .then(|| answer.windows(4).position(|four| four == b"\r\n\r\n"))
            .flatten()
            .and_then(|end| answer.get(end + 4..))
        else {
            return Ok(None);
        };
        let store = json::parse(body, &Limits::TRUSTED).context("cannot read what etcd says of its store")?;
        let directory = store.get(DIRECTORY).and_then(Value::as_str);
        let sync = store.get(SYNC).and_then(Value::as_bool);
        let (Some(directory), Some(sync)) = (directory, sync) else {
            bail!("etcd does not say where its store is");
        };
        let directory = PathBuf::from(directory);
        ensure!(directory.is_absolute(), "etcd names no absolute directory");
        Ok(Some(Self { directory, sync }))
    }
}

fn question(address: SocketAddr) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, PEER_TIMEOUT)?;
    stream.set_read_timeout(Some(PEER_TIMEOUT))?;
    stream.set_write_timeout(Some(PEER_TIMEOUT))?;
    write!(
        stream,
        "GET {STORE} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.take(MAX_MESSAGE_BYTES as u64).read_to_end(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &[&str]) -> Flags {
        let words: Vec<OsString> = ["etcd"].iter().chain(words).map(OsString::from).collect();
        Flags::read(&words).unwrap()
    }

    #[test]
    fn flags_are_read_as_go_reads_them() {
        let read = flags(&[
            "--data-dir=/a",
            "-listen-client-urls",
            "http://127.0.0.1:1,http://[::1]:2",
            "--unsafe-no-fsync",
            "--max-txn-ops=5",
            "--data-dir=/b",
        ]);
        assert_eq!(read.directory, PathBuf::from("/b"));
        assert!(read.no_sync && !read.help);
        let addresses = read.addresses().unwrap();
        assert_eq!(addresses, ["127.0.0.1:1".parse().unwrap(), "[::1]:2".parse().unwrap()]);
        assert!(flags(&["--help"]).help);
        assert!(!flags(&["--unsafe-no-fsync=false"]).no_sync);
        assert!(
            flags(&["--listen-client-urls=https://127.0.0.1:1"])
                .addresses()
                .is_err()
        );
    }

    #[test]
    fn the_help_shows_the_flag_that_envtest_looks_for() {
        assert!(
            HELP.lines()
                .any(|line| line.trim_start().starts_with("--unsafe-no-fsync "))
        );
    }

    #[test]
    fn the_two_ends_understand_each_other() {
        for (no_sync, directory) in [(true, "/tmp/a \"b\""), (false, "/c")] {
            let flags = Flags {
                directory: directory.into(),
                no_sync,
                ..flags(&[])
            };
            let answer = Answers::new(&flags)
                .unwrap()
                .to(b"GET /holdfast/store HTTP/1.1\r\nHost: a\r\n\r\n");
            let expected = StoreOfStub {
                directory: directory.into(),
                sync: !no_sync,
            };
            assert_eq!(StoreOfStub::read(&answer).unwrap(), Some(expected));
        }
    }

    #[test]
    fn it_is_well_and_holds_nothing() {
        let answers = Answers::new(&flags(&[])).unwrap();
        let status = |line: &str| {
            let answer = answers.to(format!("{line} HTTP/1.1\r\n\r\n").as_bytes());
            String::from_utf8(answer).unwrap()
        };
        assert!(
            status("GET /health").starts_with("HTTP/1.1 200 ")
                && status("GET /health").ends_with(r#"{"health":"true","reason":""}"#)
        );
        assert!(status("HEAD /health?serializable").ends_with("\r\n\r\n"));
        assert!(status("GET /v3/kv/range").starts_with("HTTP/1.1 404 "));
        assert!(status("").starts_with("HTTP/1.1 404 "));
    }

    #[test]
    fn real_etcd_has_no_store_and_broken_stub_is_an_error() {
        assert_eq!(StoreOfStub::read(b"HTTP/1.1 404 Not Found\r\n\r\n{}").unwrap(), None);
        assert_eq!(StoreOfStub::read(b"anything").unwrap(), None);
        assert_eq!(StoreOfStub::ask("https://127.0.0.1:9").unwrap(), None);
        for body in [
            "",
            "{",
            "{}",
            r#"{"directory":"a","sync":true}"#,
            r#"{"directory":"/a","sync":1}"#,
        ] {
            let answer = format!("HTTP/1.1 200 OK\r\n\r\n{body}");
            assert!(StoreOfStub::read(answer.as_bytes()).is_err(), "{body}");
        }
    }
}
