//! A connection to etcd for a single query: etcd's current revision, confirmed by a quorum.
//!
//! Every read without a version sends this query, so there is no layer between the reader and the socket: the reader
//! itself writes and reads, and a query costs one write, one wake-up and one read. The connection is idle between
//! queries. If etcd has closed it meanwhile, the next query fails on it and is sent by the regular client instead.

use std::io::{Error, Result};
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::Uri;
use prost::Message as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::dial::{DialEtcd, EtcdStream, port, target};
use super::frames::Exchange;
use super::proto::{RangeRequest, RangeResponse};
#[cfg(feature = "testing")]
use super::simulated::SimulatedMember;
use super::transport::Connection as Settings;
use crate::key::Revision;

const PATH: &str = "/etcdserverpb.KV/Range";
/// Length of the header of a message: a compression flag and the message length.
const FRAME: usize = 5;
/// Number of bytes that one read requests.
const READ: usize = 4096;

/// A connection without a waiting reader.
#[cfg_attr(
    feature = "testing",
    expect(
        clippy::large_enum_variant,
        reason = "the large variant is the one of every real server"
    )
)]
pub(super) enum Line {
    /// A connection to a member.
    Socket(SocketLine),
    /// A simulated member.
    #[cfg(feature = "testing")]
    Simulated(SimulatedMember),
}

/// A connection to a member, and the state of its exchange.
pub(super) struct SocketLine {
    stream: EtcdStream,
    exchange: Exchange,
    out: BytesMut,
    came: BytesMut,
}

impl Line {
    /// Connects to a member, through `socket` if it listens on a Unix socket.
    pub(super) async fn open(
        member: &Uri,
        socket: Option<&Path>,
        tls: Option<&Arc<ClientConfig>>,
        dialer: Option<&dyn DialEtcd>,
    ) -> Result<Self> {
        let host = member
            .host()
            .unwrap_or_default()
            .trim_start_matches('[')
            .trim_end_matches(']');
        let plain: EtcdStream = match (socket, dialer) {
            (Some(path), _) => Box::new(UnixStream::connect(path).await?),
            (None, Some(dialer)) => dialer.dial(target(member)).await?,
            (None, None) => {
                let stream = TcpStream::connect((host, port(member))).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        let stream: EtcdStream = match tls {
            None => plain,
            Some(config) => {
                let name = ServerName::try_from(host.to_owned()).map_err(Error::other)?;
                Box::new(TlsConnector::from(Arc::clone(config)).connect(name, plain).await?)
            }
        };
        let authority = member.authority().map_or(host, |authority| authority.as_str());
        Ok(Self::Socket(SocketLine {
            stream,
            exchange: Exchange::new(tls.is_some(), authority, PATH),
            out: BytesMut::new(),
            came: BytesMut::new(),
        }))
    }

    /// Sends the query, which [`question`] encoded, and returns etcd's revision.
    pub(super) async fn ask(&mut self, question: &Bytes) -> Result<Revision> {
        match self {
            Self::Socket(line) => line.ask(question).await,
            #[cfg(feature = "testing")]
            Self::Simulated(member) => member.ask(question).await,
        }
    }
}

impl SocketLine {
    async fn ask(&mut self, question: &Bytes) -> Result<Revision> {
        // The previous reader may have been cancelled in the middle of a query.
        if !self.out.is_empty() {
            return Err(Error::other("a question was not sent in full"));
        }
        self.exchange.begin(question, Instant::now(), &mut self.out)?;
        while !self.out.is_empty() {
            if self.stream.write_buf(&mut self.out).await? == 0 {
                return Err(std::io::ErrorKind::WriteZero.into());
            }
        }
        self.stream.flush().await?;
        loop {
            if let Some(message) = self.exchange.take(&mut self.came, is_whole)? {
                // A rejection by etcd has no message.
                return revision_of(message);
            }
            self.came.reserve(READ);
            if self.stream.read_buf(&mut self.came).await? == 0 {
                return Err(Error::other("etcd closed the connection"));
            }
        }
    }
}

/// Returns true if these bytes are a complete message, so that the reader need not wait for the bytes after it.
fn is_whole(mut message: &[u8]) -> bool {
    if message.len() < FRAME {
        return false;
    }
    message.advance(1);
    message.get_u32() as usize <= message.len()
}

/// Encodes a query as a gRPC message.
pub(super) fn question(request: &RangeRequest) -> Bytes {
    let mut bytes = BytesMut::with_capacity(FRAME + request.encoded_len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(request.encoded_len()).unwrap_or(u32::MAX));
    // A buffer that grows has room.
    let _ = request.encode(&mut bytes);
    bytes.freeze()
}

/// Returns the revision in a gRPC message.
fn revision_of(mut message: Bytes) -> Result<Revision> {
    if message.len() < FRAME {
        return Err(Error::other("etcd gave no answer"));
    }
    let (compressed, length) = (message.get_u8() != 0, message.get_u32() as usize);
    if compressed || length != message.len() {
        return Err(Error::other("etcd's answer cannot be read"));
    }
    let answer = RangeResponse::decode(message).map_err(Error::other)?;
    let revision = answer.header.map_or(0, |header| header.revision.unsigned_abs());
    match revision {
        0 => Err(Error::other("etcd's answer has no revision")),
        revision => Ok(revision),
    }
}

/// Creates the TLS configuration of `settings`.
///
/// # Errors
/// If a certificate or key cannot be read; the error is a description.
pub(super) fn tls(settings: &Settings) -> std::result::Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match &settings.authorities {
        Some(pem) => {
            for authority in CertificateDer::pem_slice_iter(pem) {
                let authority = authority.map_err(|error| format!("the authorities: {error}"))?;
                roots
                    .add(authority)
                    .map_err(|error| format!("the authorities: {error}"))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some((certificates, key)) => {
            let parsed: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
            let chain = parsed.map_err(|error| format!("the certificate: {error}"))?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the key: {error}"))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| format!("the certificate: {error}"))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::super::proto::Header;
    use super::*;

    fn framed(message: &RangeResponse) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_u8(0);
        bytes.put_u32(message.encoded_len() as u32);
        message.encode(&mut bytes).unwrap();
        bytes.freeze()
    }

    #[test]
    fn only_a_whole_answer_has_a_revision() {
        let answer = RangeResponse {
            header: Some(Header {
                member_id: 1,
                revision: 77,
            }),
            ..RangeResponse::default()
        };
        let whole = framed(&answer);
        assert_eq!(revision_of(whole.clone()).unwrap(), 77);
        for cut in 0..whole.len() {
            assert!(revision_of(whole.slice(..cut)).is_err(), "{cut}");
        }
        assert!(revision_of(framed(&RangeResponse::default())).is_err());
        let compressed = [&[1], &whole[1..]].concat();
        assert!(revision_of(compressed.into()).is_err());
    }

    #[test]
    fn a_message_is_whole_when_its_last_byte_is_there() {
        let whole = framed(&RangeResponse {
            count: 3,
            ..RangeResponse::default()
        });
        assert!(is_whole(&whole));
        assert!((0..whole.len()).all(|cut| !is_whole(&whole[..cut])));
    }
}
