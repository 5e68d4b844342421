//! The part of SPDY/3.1 that kubelets speak: the frames of streams that this server opens. There is no flow control of
//! streams; that of the connection applies.
//!
//! Headers are compressed by one zlib stream for each direction. Those that this server sends are stored blocks, and
//! those that it receives contain nothing that it needs, so nothing is compressed or decompressed.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// First two bytes of a control frame of version 3.
const CONTROL: u16 = 0x8003;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;

/// Flag of the last frame of a stream.
const FIN: u8 = 1;

/// Begin of a zlib stream with the dictionary of SPDY/3, which has this checksum.
const ZLIB_HEADER: [u8; 6] = [0x78, 0xBB, 0xE3, 0xC6, 0xA7, 0xC2];

/// Empty stored block, with which a zlib stream is flushed.
const ZLIB_FLUSH: [u8; 5] = [0, 0, 0, 0xFF, 0xFF];

/// Maximum length of a control frame.
const MAX_CONTROL_BYTES: usize = 64 * 1024;

/// Maximum length of a piece of data.
pub(super) const MAX_PIECE_BYTES: usize = 32 * 1024;

/// Sending half of a connection.
pub(super) struct SpdyWriter<W> {
    io: W,
    /// True if the zlib stream of the headers has begun.
    has_begun: bool,
}

impl<W: AsyncWrite + Unpin> SpdyWriter<W> {
    pub(super) fn new(io: W) -> Self {
        Self { io, has_begun: false }
    }

    /// Opens the stream `id`, an odd number, with one header.
    pub(super) async fn open(&mut self, id: u32, name: &str, value: &str) -> io::Result<()> {
        let mut content = Vec::new();
        content.extend(1_u32.to_be_bytes());
        for text in [name, value] {
            content.extend(length_of(text.len())?.to_be_bytes());
            content.extend(text.as_bytes());
        }
        let length = u16::try_from(content.len()).map_err(io::Error::other)?;
        let mut payload = Vec::new();
        payload.extend(id.to_be_bytes());
        // No associated stream, and the highest priority.
        payload.extend([0; 6]);
        if !self.has_begun {
            payload.extend(ZLIB_HEADER);
            self.has_begun = true;
        }
        payload.push(0);
        payload.extend(length.to_le_bytes());
        payload.extend((!length).to_le_bytes());
        payload.extend(content);
        payload.extend(ZLIB_FLUSH);
        self.control(SYN_STREAM, &payload).await
    }

    /// Sends data on a stream; `is_last` ends this side of it.
    pub(super) async fn data(&mut self, id: u32, data: &[u8], is_last: bool) -> io::Result<()> {
        let mut head = Vec::with_capacity(8 + data.len());
        head.extend(id.to_be_bytes());
        head.extend(flags_and_length(if is_last { FIN } else { 0 }, data.len())?);
        head.extend(data);
        self.io.write_all(&head).await?;
        self.io.flush().await
    }

    /// Sends a ping or the reply to one.
    pub(super) async fn ping(&mut self, id: u32) -> io::Result<()> {
        self.control(PING, &id.to_be_bytes()).await
    }

    async fn control(&mut self, kind: u16, payload: &[u8]) -> io::Result<()> {
        let mut frame = Vec::with_capacity(8 + payload.len());
        frame.extend(CONTROL.to_be_bytes());
        frame.extend(kind.to_be_bytes());
        frame.extend(flags_and_length(0, payload.len())?);
        frame.extend(payload);
        self.io.write_all(&frame).await?;
        self.io.flush().await
    }
}

fn length_of(length: usize) -> io::Result<u32> {
    let length = u32::try_from(length).ok().filter(|length| *length < 1 << 24);
    length.ok_or_else(|| io::Error::other("a frame is too long"))
}

fn flags_and_length(flags: u8, length: usize) -> io::Result<[u8; 4]> {
    Ok((u32::from(flags) << 24 | length_of(length)?).to_be_bytes())
}

/// Frame that the other side sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A stream is accepted. The flag is true if the other side sends nothing on it.
    Reply(u32, bool),
    /// Data of a stream, which [`SpdyReader::piece`] reads. The flag is true if the stream ends with it.
    Data(u32, bool),
    /// A stream is broken off.
    Reset(u32),
    /// A ping, or the reply to one.
    Ping(u32),
    /// The connection ends.
    End,
}

/// Receiving half of a connection.
pub(super) struct SpdyReader<R> {
    io: R,
    /// Number of bytes of the current data frame that are not read yet.
    unread: usize,
}

impl<R: AsyncRead + Unpin> SpdyReader<R> {
    pub(super) fn new(io: R) -> Self {
        Self { io, unread: 0 }
    }

    /// Returns the next frame that concerns a stream or the connection. Unread data of the one before is skipped.
    ///
    /// # Errors
    /// If the connection breaks within a frame, or a frame is invalid.
    pub(super) async fn frame(&mut self) -> io::Result<Frame> {
        loop {
            while self.piece(0).await?.is_some() {}
            let first = match self.io.read_u32().await {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Frame::End),
                first => first?,
            };
            let second = self.io.read_u32().await?;
            let is_last = second >> 24 & u32::from(FIN) != 0;
            let length = usize::try_from(second & 0xFF_FFFF).map_err(io::Error::other)?;
            if first >> 31 == 0 {
                self.unread = length;
                return Ok(Frame::Data(first, is_last));
            }
            if let Some(frame) = self.control(first, is_last, length).await? {
                return Ok(frame);
            }
        }
    }

    /// Reads a control frame after its head; `None` if it has no meaning here.
    async fn control(&mut self, first: u32, is_last: bool, length: usize) -> io::Result<Option<Frame>> {
        let invalid = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        if first >> 16 != u32::from(CONTROL) {
            return invalid("the version of a frame is unknown");
        }
        if length > MAX_CONTROL_BYTES {
            return invalid("a control frame is too long");
        }
        let kind = u16::try_from(first & 0xFFFF).unwrap_or_default();
        let has_id = matches!(kind, SYN_REPLY | RST_STREAM | PING);
        if has_id && length < 4 {
            return invalid("a control frame is too short");
        }
        self.unread = length;
        if !has_id {
            return Ok((kind == GO_AWAY).then_some(Frame::End));
        }
        let id = self.io.read_u32().await?;
        self.unread = length - 4;
        Ok(Some(match kind {
            SYN_REPLY => Frame::Reply(id, is_last),
            RST_STREAM => Frame::Reset(id),
            _ => Frame::Ping(id),
        }))
    }

    /// Returns the next piece of the current data frame after the byte `first`; `None` at its end.
    ///
    /// # Errors
    /// If the connection breaks.
    pub(super) async fn piece(&mut self, first: u8) -> io::Result<Option<Vec<u8>>> {
        let length = self.unread.min(MAX_PIECE_BYTES);
        if length == 0 {
            return Ok(None);
        }
        let mut piece = Vec::with_capacity(length + 1);
        piece.push(first);
        let read = (&mut self.io).take(length as u64).read_to_end(&mut piece).await?;
        if read < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.unread -= length;
        Ok(Some(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn headers_are_stored_blocks_of_one_zlib_stream() {
        let mut sent = Vec::new();
        let mut writer = SpdyWriter::new(&mut sent);
        writer.open(1, "streamtype", "error").await.unwrap();
        let first = sent.len();
        assert_eq!(sent[..8], [0x80, 3, 0, 1, 0, 0, 0, (first - 8) as u8]);
        assert_eq!(sent[18..24], ZLIB_HEADER);
        assert!(sent.windows(10).any(|name| name == b"streamtype") && sent.ends_with(&ZLIB_FLUSH));
        let mut writer = SpdyWriter {
            io: &mut sent,
            has_begun: true,
        };
        writer.open(3, "streamtype", "stdin").await.unwrap();
        assert!(!sent[first..].windows(6).any(|begin| begin == ZLIB_HEADER));
    }

    #[tokio::test]
    async fn frames_are_read_and_unknown_ones_skipped() {
        let mut sent = vec![0x80, 3, 0, 4, 0, 0, 0, 2, 9, 9];
        sent.extend([0x80, 3, 0, 2, 1, 0, 0, 6, 0, 0, 0, 5, 1, 1]);
        let mut writer = SpdyWriter::new(&mut sent);
        writer.data(5, &[7; MAX_PIECE_BYTES + 1], true).await.unwrap();
        writer.ping(2).await.unwrap();
        writer.control(RST_STREAM, &[0, 0, 0, 5, 0, 0, 0, 1]).await.unwrap();
        writer.data(7, b"unread", false).await.unwrap();
        writer.control(GO_AWAY, &[0; 8]).await.unwrap();
        let mut reader = SpdyReader::new(sent.as_slice());
        assert_eq!(reader.frame().await.unwrap(), Frame::Reply(5, true));
        assert_eq!(reader.frame().await.unwrap(), Frame::Data(5, true));
        assert_eq!(reader.piece(1).await.unwrap().unwrap().len(), MAX_PIECE_BYTES + 1);
        assert_eq!(reader.piece(1).await.unwrap().unwrap(), [1, 7]);
        assert_eq!(reader.piece(1).await.unwrap(), None);
        assert_eq!(reader.frame().await.unwrap(), Frame::Ping(2));
        assert_eq!(reader.frame().await.unwrap(), Frame::Reset(5));
        assert_eq!(reader.frame().await.unwrap(), Frame::Data(7, false));
        assert_eq!(reader.frame().await.unwrap(), Frame::End);
    }

    #[tokio::test]
    async fn invalid_and_cut_frames_are_errors() {
        for (bytes, kind) in [
            (&[0x80, 2, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1][..], io::ErrorKind::InvalidData),
            (&[0x80, 3, 0, 2, 0, 0xFF, 0, 0], io::ErrorKind::InvalidData),
            (&[0x80, 3, 0, 6, 0, 0, 0, 1, 0], io::ErrorKind::InvalidData),
            (&[0x80, 3, 0, 6, 0, 0], io::ErrorKind::UnexpectedEof),
            (&[0x80, 3, 0, 6, 0, 0, 0, 4, 0], io::ErrorKind::UnexpectedEof),
        ] {
            let error = SpdyReader::new(bytes).frame().await.unwrap_err();
            assert_eq!(error.kind(), kind, "{bytes:?}");
        }
        let mut cut = SpdyReader::new(&[0, 0, 0, 1, 0, 0, 0, 9, 1, 2][..]);
        assert_eq!(cut.frame().await.unwrap(), Frame::Data(1, false));
        assert_eq!(cut.piece(0).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let mut empty = SpdyReader::new(&[][..]);
        assert_eq!(empty.frame().await.unwrap(), Frame::End);
    }
}
