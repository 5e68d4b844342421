//! Addresses of etcd members: URLs of TCP ports and of Unix sockets.

use std::future::Future;
use std::io::Result;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tower_service::Service;

/// Address of an etcd member.
///
/// upstream: go.etcd.io/etcd/client/v3/internal/endpoint#Interpret
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// `http://` or `https://` and the authority that requests name.
    pub(super) url: String,
    /// True if the member speaks TLS.
    pub(super) secure: bool,
    /// The socket file, unless the member listens on a TCP port.
    pub(super) socket: Option<PathBuf>,
}

/// Authority of requests through a socket whose file name is not one.
const DEFAULT_AUTHORITY: &str = "localhost";

impl Address {
    /// Parses `http://HOST:PORT`, `https://HOST:PORT`, `unix:///PATH`, `unixs:///PATH` or a relative path after
    /// `unix:`, `unixs:`, `unix://` or `unixs://`.
    ///
    /// # Errors
    /// If the address has another form; the error is a description.
    pub(super) fn parse(text: &str) -> std::result::Result<Self, String> {
        let unknown = || "a server begins with http://, https://, unix:// or unixs://".to_owned();
        let (scheme, rest) = text.split_once(':').ok_or_else(unknown)?;
        let secure = match scheme {
            "http" | "unix" => false,
            "https" | "unixs" => true,
            _ => return Err(unknown()),
        };
        if scheme.starts_with("http") {
            return match rest.starts_with("//") {
                true => Ok(Self {
                    url: text.to_owned(),
                    secure,
                    socket: None,
                }),
                false => Err(unknown()),
            };
        }
        let path = rest.strip_prefix("//").unwrap_or(rest);
        if path.is_empty() {
            return Err("the server has no path".to_owned());
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        let scheme = if secure { "https" } else { "http" };
        let url = format!("{scheme}://{name}");
        let is_authority = url
            .parse::<Uri>()
            .is_ok_and(|uri| uri.host().is_some_and(|host| !host.is_empty()));
        Ok(Self {
            url: if is_authority {
                url
            } else {
                format!("{scheme}://{DEFAULT_AUTHORITY}")
            },
            secure,
            socket: Some(path.into()),
        })
    }
}

/// Connects the transport of gRPC to a Unix socket.
#[derive(Clone, Debug)]
pub(super) struct SocketConnector(pub(super) PathBuf);

impl Service<Uri> for SocketConnector {
    type Response = TokioIo<UnixStream>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let path = self.0.clone();
        Box::pin(async move { UnixStream::connect(path).await.map(TokioIo::new) })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_urls_of_ports_or_sockets() {
        for (text, url, socket) in [
            ("http://127.0.0.1:2379", "http://127.0.0.1:2379", None),
            ("https://etcd:2379", "https://etcd:2379", None),
            ("unix:///run/etcd.sock", "http://etcd.sock", Some("/run/etcd.sock")),
            (
                "unixs:///run/etcd.sock:2379",
                "https://etcd.sock:2379",
                Some("/run/etcd.sock:2379"),
            ),
            ("unix://localhost:2379", "http://localhost:2379", Some("localhost:2379")),
            ("unix:etcd.sock", "http://etcd.sock", Some("etcd.sock")),
            ("unixs:/run/a b", "https://localhost", Some("/run/a b")),
        ] {
            let expected = Address {
                url: url.to_owned(),
                secure: url.starts_with("https"),
                socket: socket.map(PathBuf::from),
            };
            assert_eq!(Address::parse(text), Ok(expected), "{text}");
        }
        for wrong in ["127.0.0.1:2379", "ftp://a", "http:a", "unix://", "unixs:", ""] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }
}
