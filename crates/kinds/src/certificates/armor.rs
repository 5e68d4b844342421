//! PEM blocks, parsed as Go's `encoding/pem` does: blocks may have headers, and other text is skipped.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";

/// Limit of malformed blocks before the parser gives up. The search for the end of each may scan the rest of the text.
const MAX_BROKEN: usize = 100;

/// A PEM block.
pub(super) struct Block {
    /// Label of the block, such as `CERTIFICATE`.
    pub(super) label: String,
    /// True if lines of the form `name: value` precede the contents.
    pub(super) has_headers: bool,
    /// Decoded contents.
    pub(super) contents: Vec<u8>,
}

/// Returns the blocks of `text` in their order.
pub(super) fn blocks(text: &[u8]) -> impl Iterator<Item = Block> {
    let (mut rest, mut broken) = (text, 0);
    std::iter::from_fn(move || {
        let (block, behind) = next_block(rest, &mut broken)?;
        rest = behind;
        Some(block)
    })
}

/// Returns the first block of `text` and the text after it. Adds the malformed blocks before it to `broken`.
fn next_block<'t>(text: &'t [u8], broken: &mut usize) -> Option<(Block, &'t [u8])> {
    let mut rest = text;
    while *broken < MAX_BROKEN {
        // The block begins at the last `BEGIN` line before the first `END` line.
        let end = line_start(rest, END)?;
        let begin = last_line_start(rest.get(..end)?, BEGIN);
        let behind = rest.get(end + END.len()..)?;
        if let Some(begin) = begin {
            match block_at(rest.get(begin + BEGIN.len()..)?) {
                Some(found) => return Some(found),
                None => *broken += 1,
            }
        }
        rest = behind;
    }
    None
}

/// Returns the block whose label starts `text`, and the text after the block.
fn block_at(text: &[u8]) -> Option<(Block, &[u8])> {
    let (first, mut rest) = line(text);
    let label = first.strip_suffix(DASHES)?;
    let mut has_headers = false;
    while !rest.is_empty() {
        let (header, next) = line(rest);
        if !header.contains(&b':') {
            break;
        }
        (has_headers, rest) = (true, next);
    }
    // A block without headers may be empty.
    let end = match !has_headers && rest.starts_with(END) {
        true => 0,
        false => find(rest, &[b"\n", END].concat())? + 1,
    };
    let trailer = rest.get(end + END.len()..)?;
    let (last, behind) = line(trailer);
    if last != [label, DASHES].concat() {
        return None;
    }
    let blank = |byte: &u8| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let encoded: Vec<u8> = rest.get(..end)?.iter().copied().filter(blank).collect();
    let block = Block {
        label: String::from_utf8_lossy(label).into_owned(),
        has_headers,
        contents: STANDARD.decode(encoded).ok()?,
    };
    Some((block, behind))
}

/// Returns the first line without trailing whitespace, and the text after it.
fn line(text: &[u8]) -> (&[u8], &[u8]) {
    let (line, rest) = match text.iter().position(|byte| *byte == b'\n') {
        Some(end) => (text.get(..end), text.get(end + 1..)),
        None => (Some(text), None),
    };
    (line.unwrap_or_default().trim_ascii_end(), rest.unwrap_or_default())
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// Returns the position of the first line, after line one, that begins with `wanted`.
fn line_start(text: &[u8], wanted: &[u8]) -> Option<usize> {
    find(text, &[b"\n", wanted].concat()).map(|at| at + 1)
}

/// Returns the position of the last occurrence of `wanted` if a line begins there. Line one counts.
fn last_line_start(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let at = text.windows(wanted.len()).rposition(|window| window == wanted)?;
    let is_start = at == 0 || text.get(at - 1) == Some(&b'\n');
    is_start.then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let shown = |block: Block| format!("{} {} {:?}", block.label, block.has_headers, block.contents);
        blocks(text.as_bytes()).map(shown).collect()
    }

    #[test]
    fn blocks_have_headers_or_not_and_stand_among_other_text() {
        let plain = "-----BEGIN A B-----\nAQI=\n-----END A B-----\n";
        assert_eq!(shown(plain), ["A B false [1, 2]"]);
        assert_eq!(shown(&format!("text\n{plain}more\n{plain}rest")).len(), 2);
        assert_eq!(
            shown("-----BEGIN A-----\nName: value\n\nAQI=\n-----END A-----"),
            ["A true [1, 2]"]
        );
        assert_eq!(shown("-----BEGIN A-----\n-----END A-----\n"), ["A false []"]);
    }

    #[test]
    fn many_broken_blocks_take_no_longer_than_few() {
        let text = "-----BEGIN :-----\n-----END :\n".repeat(100_000);
        assert_eq!(blocks(text.as_bytes()).count(), 0);
    }

    #[test]
    fn malformed_blocks_are_skipped() {
        let plain = "-----BEGIN A-----\nAQI=\n-----END A-----\n";
        for broken in [
            "-----BEGIN A-----\n!!!!\n-----END A-----\n",
            "-----BEGIN A-----\nAQI=\n-----END B-----\n",
            "-----BEGIN A----\nAQI=\n-----END A-----\n",
            "x -----BEGIN A-----\nAQI=\n-----END A-----\n",
            "-----BEGIN A-----\nAQI=\n",
        ] {
            assert_eq!(shown(broken), Vec::<String>::new(), "{broken}");
        }
        assert_eq!(
            shown(&format!("-----BEGIN A-----\n!!!!\n-----END A-----\n{plain}")).len(),
            1
        );
    }
}
