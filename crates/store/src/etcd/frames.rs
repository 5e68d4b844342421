//! The part of HTTP/2 (RFC 9113) that one query at a time requires: encoding queries, and finding their responses in
//! the received bytes.
//!
//! A general client does too much for this purpose: it wakes for each frame, decodes headers that are not read, and
//! responds to pings at once. A gRPC server sends a ping with most queries, to measure the connection, and none while
//! one of them is not acknowledged. So acknowledgements are sent with later queries, at most one a second, and most
//! queries cost one write and one read.

use std::io::{Error, Result};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio::time::Instant;

/// First bytes that a client sends; they disable server push.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x02\0\0\0\0";

/// Length of a frame's header, and maximum length of its payload.
const HEAD: usize = 9;
const MOST_PAYLOAD: usize = 16_384;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const ACKNOWLEDGED: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// Identifier of the HTTP/2 setting for the size of the peer's header table, and the required size in bytes.
const TABLE_SIZE: u16 = 1;
const TABLE: u32 = 1024;

/// Bytes that both sides may send before the other's first window update.
const WINDOW: u32 = 65_535;
/// Initial increase of the server's send window. The client grants as much again when half of it has been received.
const MORE: u32 = 1 << 30;

/// Minimum interval between two acknowledgements of pings.
const BETWEEN_PINGS: Duration = Duration::from_secs(1);

/// State of one side of a connection, including the frames that it must still send.
pub(super) struct Exchange {
    /// Headers of the first query, and those of the others, which refer to the entries of the server's header table.
    head: Bytes,
    remembered: Bytes,
    stream: u32,
    /// Bytes that may be sent.
    window: u32,
    /// Bytes received since the last window update to the server.
    received: u32,
    /// The frames to send along with the next query.
    owed: BytesMut,
    ping: Option<[u8; 8]>,
    acknowledged: Option<Instant>,
    /// Payload of the response that was received so far.
    answer: BytesMut,
}

impl Exchange {
    /// Creates the first frames of a connection that calls `path` of `authority`.
    pub(super) fn new(secure: bool, authority: &str, path: &str) -> Self {
        let mut owed = BytesMut::from(PREFACE);
        put_window_update(&mut owed, MORE);
        // `:method POST` and `:scheme` are in the static table.
        let fixed = [0x83, if secure { 0x87 } else { 0x86 }];
        let mut head = BytesMut::from(&fixed[..]);
        // The server inserts each of these before the existing dynamic entries, which begin at 62.
        for (known, name, value) in [
            (4, "", path),
            (1, "", authority),
            (31, "", "application/grpc"),
            (0, "te", "trailers"),
        ] {
            head.put_u8(0x40 | known);
            if known == 0 {
                put_text(&mut head, name);
            }
            put_text(&mut head, value);
        }
        Self {
            head: head.freeze(),
            remembered: [&fixed[..], &[0xc1, 0xc0, 0xbf, 0xbe][..]].concat().into(),
            stream: 0,
            window: WINDOW,
            received: 0,
            owed,
            ping: None,
            acknowledged: None,
            answer: BytesMut::new(),
        }
    }

    /// Writes a query to `out`, together with the pending frames.
    ///
    /// # Errors
    /// If the connection is exhausted.
    pub(super) fn begin(&mut self, message: &[u8], now: Instant, out: &mut BytesMut) -> Result<()> {
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let window = self.window.checked_sub(length);
        self.window = window.ok_or_else(|| Error::other("etcd does not say that more may be sent"))?;
        let (head, stream) = match self.stream {
            0 => (&self.head, 1),
            last if last > i32::MAX as u32 - 2 => return Err(Error::other("the connection has had its questions")),
            last => (&self.remembered, last + 2),
        };
        self.stream = stream;
        self.answer.clear();
        out.put_slice(&self.owed);
        self.owed.clear();
        put_head(out, head.len(), HEADERS, END_HEADERS, self.stream);
        out.put_slice(head);
        put_head(out, message.len(), DATA, END_STREAM, self.stream);
        out.put_slice(message);
        if self
            .acknowledged
            .is_none_or(|last| now.duration_since(last) >= BETWEEN_PINGS)
            && let Some(ping) = self.ping.take()
        {
            self.acknowledged = Some(now);
            put_head(out, ping.len(), PING, ACKNOWLEDGED, 0);
            out.put_slice(&ping);
        }
        Ok(())
    }

    /// Consumes the complete frames of the received bytes, and returns the response when `is_whole` confirms that it is
    /// complete.
    ///
    /// # Errors
    /// If the query was rejected or the connection ends.
    pub(super) fn take(&mut self, came: &mut BytesMut, is_whole: impl Fn(&[u8]) -> bool) -> Result<Option<Bytes>> {
        while let Some(frame) = Frame::next(came)? {
            let ended = self.frame(frame)?;
            if is_whole(&self.answer) || ended {
                return Ok(Some(self.answer.split().freeze()));
            }
        }
        Ok(None)
    }

    /// Processes a frame. Returns true if it ends the response.
    fn frame(&mut self, frame: Frame) -> Result<bool> {
        let own = frame.stream == self.stream;
        let ends = own && frame.flags & END_STREAM != 0;
        match frame.kind {
            DATA => {
                self.receive(frame.payload.len());
                if own {
                    self.answer.put(frame.content()?);
                }
                if self.answer.len() > MOST_PAYLOAD {
                    return Err(Error::other("the answer is too long"));
                }
                Ok(ends)
            }
            HEADERS => Ok(ends),
            RESET if own => Err(Error::other("etcd refuses the question")),
            SETTINGS => self.settings(&frame),
            PING if frame.flags & ACKNOWLEDGED == 0 => {
                self.ping = <[u8; 8]>::try_from(&frame.payload[..]).ok();
                Ok(false)
            }
            GO_AWAY => Err(Error::other("etcd closes the connection")),
            WINDOW_UPDATE if frame.stream == 0 => {
                let mut payload = frame.payload;
                let more = payload.try_get_u32().map_err(Error::other)?;
                self.window = self.window.saturating_add(more);
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// Lets the server send as many bytes again when it has sent many.
    fn receive(&mut self, bytes: usize) {
        self.received += u32::try_from(bytes).unwrap_or(u32::MAX);
        if self.received >= MORE / 2 {
            put_window_update(&mut self.owed, self.received);
            self.received = 0;
        }
    }

    fn settings(&mut self, frame: &Frame) -> Result<bool> {
        if frame.flags & ACKNOWLEDGED != 0 {
            return Ok(false);
        }
        for setting in frame.payload.chunks_exact(6) {
            let mut setting = setting;
            let (name, value) = (setting.get_u16(), setting.get_u32());
            if name == TABLE_SIZE && value < TABLE {
                return Err(Error::other("etcd remembers no headers"));
            }
        }
        put_head(&mut self.owed, 0, SETTINGS, ACKNOWLEDGED, 0);
        Ok(false)
    }
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Bytes,
}

impl Frame {
    /// Returns the first received frame, if it is complete.
    fn next(came: &mut BytesMut) -> Result<Option<Self>> {
        let Some(mut head) = came.get(..HEAD) else {
            return Ok(None);
        };
        let length = usize::try_from(head.get_uint(3)).unwrap_or(usize::MAX);
        let (kind, flags, stream) = (head.get_u8(), head.get_u8(), head.get_u32() & 0x7fff_ffff);
        if length > MOST_PAYLOAD {
            return Err(Error::other("a frame is too long"));
        }
        if came.len() < HEAD + length {
            return Ok(None);
        }
        came.advance(HEAD);
        let payload = came.split_to(length).freeze();
        Ok(Some(Self {
            kind,
            flags,
            stream,
            payload,
        }))
    }

    /// Returns the payload without padding.
    fn content(self) -> Result<Bytes> {
        let mut payload = self.payload;
        if self.flags & PADDED == 0 {
            return Ok(payload);
        }
        let padding = usize::from(payload.try_get_u8().map_err(Error::other)?);
        let content = payload
            .len()
            .checked_sub(padding)
            .ok_or_else(|| Error::other("a frame is padded with more than it has"))?;
        payload.truncate(content);
        Ok(payload)
    }
}

fn put_head(out: &mut BytesMut, length: usize, kind: u8, flags: u8, stream: u32) {
    out.put_uint(length as u64, 3);
    out.put_u8(kind);
    out.put_u8(flags);
    out.put_u32(stream);
}

fn put_window_update(out: &mut BytesMut, more: u32) {
    put_head(out, 4, WINDOW_UPDATE, 0, 0);
    out.put_u32(more);
}

/// Encodes an HPACK string literal (RFC 7541) without compression.
fn put_text(out: &mut BytesMut, text: &str) {
    const MAX_SHORT_LENGTH: usize = 0x7f;
    let length = text.len();
    if length < MAX_SHORT_LENGTH {
        out.put_u8(length as u8);
    } else {
        out.put_u8(MAX_SHORT_LENGTH as u8);
        let mut rest = length - MAX_SHORT_LENGTH;
        while rest >= 0x80 {
            out.put_u8((rest % 0x80) as u8 | 0x80);
            rest /= 0x80;
        }
        out.put_u8(rest as u8);
    }
    out.put_slice(text.as_bytes());
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    fn exchange() -> Exchange {
        Exchange::new(false, "127.0.0.1:2379", "/a/b")
    }

    fn sent(exchange: &mut Exchange, now: Instant) -> Vec<(u8, u8, u32, Bytes)> {
        let mut out = BytesMut::new();
        exchange.begin(b"question", now, &mut out).unwrap();
        if out.starts_with(b"PRI") {
            out.advance(24);
        }
        let mut frames = Vec::new();
        while let Some(frame) = Frame::next(&mut out).unwrap() {
            frames.push((frame.kind, frame.flags, frame.stream, frame.payload));
        }
        assert!(out.is_empty());
        frames
    }

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = BytesMut::new();
        put_head(&mut out, payload.len(), kind, flags, stream);
        out.put_slice(payload);
        out.to_vec()
    }

    fn take(exchange: &mut Exchange, frames: &[Vec<u8>]) -> Result<Option<Bytes>> {
        let mut came = BytesMut::from(&frames.concat()[..]);
        exchange.take(&mut came, |answer| answer.len() == 6)
    }

    #[test]
    fn headers_are_said_in_full_once() {
        let (mut exchange, now) = (exchange(), Instant::now());
        let first = sent(&mut exchange, now);
        let kinds: Vec<u8> = first.iter().map(|frame| frame.0).collect();
        assert_eq!(kinds, [SETTINGS, WINDOW_UPDATE, HEADERS, DATA]);
        assert!(first[2].3.ends_with(b"\x40\x02te\x08trailers"), "{:?}", first[2].3);
        let second = sent(&mut exchange, now);
        assert_eq!(second.len(), 2);
        let (kind, flags, stream, head) = &second[0];
        assert_eq!((*kind, *flags, *stream), (HEADERS, END_HEADERS, 3));
        assert_eq!(head[..], [0x83, 0x86, 0xc1, 0xc0, 0xbf, 0xbe]);
        assert_eq!(second[1], (DATA, END_STREAM, 3, Bytes::from_static(b"question")));
    }

    #[test]
    fn an_answer_is_found_among_what_else_comes_however_it_is_cut() {
        let frames = [
            frame(SETTINGS, 0, 0, &[0, 5, 0, 0, 0x40, 0]),
            frame(WINDOW_UPDATE, 0, 0, &[0, 0, 1, 0]),
            frame(PING, 0, 0, b"12345678"),
            frame(HEADERS, END_HEADERS, 1, b"whatever"),
            frame(DATA, 0, 7, b"another"),
            frame(DATA, PADDED, 1, b"\x02ans\0\0"),
            frame(DATA, 0, 1, b"wer"),
        ]
        .concat();
        for cut in 1..frames.len() {
            let mut exchange = exchange();
            sent(&mut exchange, Instant::now());
            let (mut came, mut answer) = (BytesMut::new(), None);
            for part in frames.chunks(cut) {
                came.extend_from_slice(part);
                if let Some(whole) = exchange.take(&mut came, |answer| answer.len() == 6).unwrap() {
                    answer = Some(whole);
                }
            }
            assert_eq!(answer.as_deref(), Some(&b"answer"[..]), "cut {cut}");
        }
    }

    #[test]
    fn pending_frames_are_sent_with_next_query_and_pings_wait() {
        let (mut exchange, now) = (exchange(), Instant::now());
        sent(&mut exchange, now);
        let ping = frame(PING, 0, 0, b"12345678");
        take(&mut exchange, &[frame(SETTINGS, 0, 0, &[]), ping.clone()]).unwrap();
        let acknowledged = |frames: Vec<(u8, u8, u32, Bytes)>| -> Vec<u8> {
            let own = frames
                .into_iter()
                .filter(|frame| frame.1 & ACKNOWLEDGED != 0 && frame.0 != DATA);
            own.map(|frame| frame.0).collect()
        };
        assert_eq!(acknowledged(sent(&mut exchange, now)), [SETTINGS, PING]);
        take(&mut exchange, &[ping]).unwrap();
        assert!(acknowledged(sent(&mut exchange, now)).is_empty());
        assert_eq!(acknowledged(sent(&mut exchange, now + BETWEEN_PINGS)), [PING]);
    }

    #[test]
    fn refusals_and_ends_are_errors() {
        for wrong in [
            frame(RESET, 0, 1, &[0, 0, 0, 7]),
            frame(GO_AWAY, 0, 0, &[0; 8]),
            frame(SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0]),
            frame(DATA, PADDED, 1, b"\x09ans"),
            frame(DATA, PADDED, 1, b""),
            frame(WINDOW_UPDATE, 0, 0, b"1"),
            vec![0xff; HEAD],
        ] {
            let mut exchange = exchange();
            sent(&mut exchange, Instant::now());
            assert!(take(&mut exchange, std::slice::from_ref(&wrong)).is_err(), "{wrong:?}");
        }
        // A response without a message ends without one.
        let mut exchange = exchange();
        sent(&mut exchange, Instant::now());
        let refused = [frame(HEADERS, END_HEADERS | END_STREAM, 1, b"grpc-status")];
        assert_eq!(take(&mut exchange, &refused).unwrap().as_deref(), Some(&b""[..]));
    }

    #[test]
    fn no_more_is_sent_than_the_server_lets() {
        let (mut exchange, mut out) = (exchange(), BytesMut::new());
        let message = vec![0; 60_000];
        exchange.begin(&message, Instant::now(), &mut out).unwrap();
        assert!(exchange.begin(&message, Instant::now(), &mut out).is_err());
        take(&mut exchange, &[frame(WINDOW_UPDATE, 0, 0, &[0, 1, 0, 0])]).unwrap();
        exchange.begin(&message, Instant::now(), &mut out).unwrap();
    }

    #[test]
    fn long_names_have_their_length_before_them() {
        let mut out = BytesMut::new();
        put_text(&mut out, &"a".repeat(300));
        assert_eq!(out[..3], [0x7f, 0xad, 0x01]);
        assert_eq!(out.len(), 303);
    }
}
