//! The method CONNECT of HTTP.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::dialer::{DialError, ProxiedStream};

/// Maximum size of the head of a response in bytes, as in Go.
const MAX_HEAD_BYTES: usize = 1 << 20;

const HEAD_END: &[u8] = b"\r\n\r\n";

/// Connects to `address` through the proxy on the other side of `stream`.
///
/// upstream: k8s.io/apiserver/pkg/server/egressselector#tunnelHTTPConnect
pub(crate) async fn tunnel(mut stream: ProxiedStream, proxy: &str, address: &str) -> Result<ProxiedStream, DialError> {
    let request = format!("CONNECT {address} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let unread = |why: &str| {
        DialError(format!(
            "reading HTTP response from CONNECT to {address} via proxy {proxy} failed: {why}"
        ))
    };
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut head = Vec::new();
    // Bytes before this place are searched already. The end may lie across two reads.
    let mut searched: usize = 0;
    let end = loop {
        let start = searched.saturating_sub(HEAD_END.len() - 1);
        let rest = head.get(start..).unwrap_or_default();
        if let Some(at) = rest.windows(HEAD_END.len()).position(|window| window == HEAD_END) {
            break start + at + HEAD_END.len();
        }
        searched = head.len();
        if head.len() >= MAX_HEAD_BYTES {
            return Err(unread("the head is too large"));
        }
        let read = stream
            .read_buf(&mut head)
            .await
            .map_err(|error| unread(&error.to_string()))?;
        if read == 0 {
            return Err(unread("unexpected EOF"));
        }
    };
    let status = status_of(&head).ok_or_else(|| unread("malformed HTTP response"))?;
    if status.code != 200 {
        let (code, text) = (status.code, status.text);
        return Err(DialError(format!(
            "proxy error from {proxy} while dialing {address}, code {code}: {text}"
        )));
    }
    // Either the client speaks first, or these bytes would be lost.
    match head.len() - end {
        0 => Ok(stream),
        rest => Err(DialError(format!(
            "unexpected {rest} bytes of buffered data from CONNECT proxy {proxy:?}"
        ))),
    }
}

/// Status of a response.
struct Status {
    code: u16,
    /// Code and reason.
    text: String,
}

fn status_of(head: &[u8]) -> Option<Status> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let text = std::str::from_utf8(line).ok()?.strip_prefix("HTTP/1.")?;
    let (_, text) = text.split_once(' ')?;
    let code = text.split(' ').next()?.parse().ok()?;
    Some(Status {
        code,
        text: text.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    async fn answer(response: &'static [u8]) -> Result<ProxiedStream, DialError> {
        let (own, mut proxy) = duplex(1024);
        let served = tokio::spawn(async move {
            let mut request = vec![0; 60];
            let read = proxy.read(&mut request).await.unwrap();
            proxy.write_all(response).await.unwrap();
            String::from_utf8_lossy(&request[..read]).into_owned()
        });
        let outcome = tunnel(Box::new(own), "/run/p", "node:10250").await;
        let request = served.await.unwrap();
        assert_eq!(request, "CONNECT node:10250 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        outcome
    }

    #[tokio::test]
    async fn response_of_proxy_decides_about_the_tunnel() {
        assert!(answer(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_ok());
        for (response, why) in [
            (
                &b"HTTP/1.1 403 Forbidden\r\nA: b\r\n\r\n"[..],
                "proxy error from /run/p while dialing node:10250, code 403: 403 Forbidden",
            ),
            (
                b"HTTP/1.1 200 OK\r\n\r\nmore",
                "unexpected 4 bytes of buffered data from CONNECT proxy \"/run/p\"",
            ),
            (
                b"SSH-2.0\r\n\r\n",
                "reading HTTP response from CONNECT to node:10250 via proxy /run/p failed: malformed HTTP response",
            ),
            (
                b"HTTP/1.1 200",
                "reading HTTP response from CONNECT to node:10250 via proxy /run/p failed: unexpected EOF",
            ),
        ] {
            let error = answer(response).await.map(drop).unwrap_err();
            assert_eq!(error.to_string(), why);
        }
    }
}
