//! Compression of large responses for clients that accept gzip.
//!
//! A body is compressed in chunks as the client reads it, so that no second full copy is held in memory and no thread
//! is occupied for long: other tasks run between two chunks.

use std::collections::VecDeque;
use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http::header::{self, HeaderMap, HeaderValue};
use http_body_util::BodyExt as _;

use crate::http::headers;
use crate::http::response::Response;
use crate::wire::body::ResponseBody;

/// Size up to which responses are not compressed, as in the reference.
const THRESHOLD: usize = 128 * 1024;

/// Maximum number of bytes that are compressed at once, which needs some tenths of a millisecond.
const RUN: usize = 32 * 1024;

/// Returns true if a client accepts gzip. Weights are not parsed: with one the response is not compressed, as in the
/// reference.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers::text(headers, header::ACCEPT_ENCODING).unwrap_or_default();
    accepted.split(',').any(|encoding| encoding.trim() == "gzip")
}

/// Returns the response, compressed if it is large.
pub(crate) async fn compressed(response: Response) -> Response {
    if response
        .body()
        .length()
        .is_some_and(|length| length <= THRESHOLD as u64)
    {
        return response;
    }
    let (mut head, mut body) = response.into_parts();
    let (mut first, mut size) = (VecDeque::new(), 0);
    while size <= THRESHOLD {
        match next(&mut body).await {
            Some(data) => {
                size += data.len();
                first.push_back(data);
            }
            None => return Response::from_parts(head, ResponseBody::chunks(first.into())),
        }
    }
    head.headers
        .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers
        .append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    let rest = Rest {
        first,
        body,
        encoder: Some(GzEncoder::new(Vec::with_capacity(RUN / 2), Compression::fast())),
    };
    let runs = stream::unfold(rest, |mut rest| async { Some((rest.run().await?, rest)) });
    Response::from_parts(head, ResponseBody::stream(runs))
}

async fn next(body: &mut ResponseBody) -> Option<Bytes> {
    // A body that is compressed is produced by this server, and does not break off.
    body.frame().await?.ok()?.into_data().ok()
}

/// Part of the body that is not compressed yet.
struct Rest {
    /// Bytes that were read already.
    first: VecDeque<Bytes>,
    body: ResponseBody,
    /// `None` when the body is complete.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Rest {
    /// Returns the next compressed bytes; `None` at the end.
    async fn run(&mut self) -> Option<Bytes> {
        loop {
            let encoder = self.encoder.as_mut()?;
            let data = match self.first.pop_front() {
                Some(data) => Some(data),
                None => next(&mut self.body).await,
            };
            let Some(mut data) = data else {
                // Writing to memory does not fail.
                let end = self.encoder.take().and_then(|encoder| encoder.finish().ok());
                return end.filter(|end| !end.is_empty()).map(Bytes::from);
            };
            if data.len() > RUN {
                self.first.push_front(data.split_off(RUN));
            }
            encoder.write_all(&data).ok()?;
            let made = std::mem::take(encoder.get_mut());
            tokio::task::yield_now().await;
            if !made.is_empty() {
                return Some(made.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use http::StatusCode;

    use super::*;
    use crate::http::response;

    fn headers(accepted: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted))])
    }

    async fn sent(body: ResponseBody) -> (HeaderMap, Vec<u8>) {
        let json = HeaderValue::from_static("application/json");
        let response = compressed(response::bytes(StatusCode::OK, json, body)).await;
        let (head, body) = response.into_parts();
        (head.headers, body.collect().await.unwrap().to_bytes().to_vec())
    }

    fn text(size: usize) -> Vec<u8> {
        let words = (0u32..).flat_map(|number| number.to_le_bytes());
        words.take(size).collect()
    }

    #[test]
    fn gzip_must_be_named() {
        for (accepted, wanted) in [
            ("gzip", true),
            ("br, gzip", true),
            ("deflate", false),
            ("gzip;q=1", false),
            ("*", false),
        ] {
            assert_eq!(is_wanted(&headers(accepted)), wanted, "{accepted}");
        }
    }

    #[tokio::test]
    async fn a_small_answer_is_sent_as_it_is_however_it_comes() {
        let small = text(THRESHOLD);
        let pieces: Vec<Bytes> = small.chunks(1000).map(Bytes::copy_from_slice).collect();
        for body in [
            ResponseBody::from(small.clone()),
            ResponseBody::stream(stream::iter(pieces)),
        ] {
            let (headers, body) = sent(body).await;
            assert!(!headers.contains_key(header::CONTENT_ENCODING));
            assert!(!headers.contains_key(header::VARY));
            assert!(body == small);
        }
    }

    #[tokio::test]
    async fn a_large_answer_is_compressed_and_says_so() {
        let large = text(3 * THRESHOLD);
        let pieces: Vec<Bytes> = large.chunks(1000).map(Bytes::copy_from_slice).collect();
        for body in [
            ResponseBody::from(large.clone()),
            ResponseBody::chunks(pieces.clone()),
            ResponseBody::stream(stream::iter(pieces)),
        ] {
            let (headers, body) = sent(body).await;
            assert_eq!(headers[header::CONTENT_ENCODING], "gzip");
            assert_eq!(headers[header::VARY], "Accept-Encoding");
            assert!(body.len() < large.len());
            let mut read = Vec::new();
            flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut read).unwrap();
            assert!(read == large);
        }
    }
}
