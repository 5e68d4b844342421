//! Blocks of PEM as Go's `encoding/pem` reads them: with headers, and passing over what is no block.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";

/// How many broken blocks are passed over before nothing is looked for any more: the lines of each may reach to the end of the
/// text.
const MAX_BROKEN: usize = 100;

/// A block.
pub(super) struct Block {
    /// What it says that it holds.
    pub(super) label: String,
    /// Whether lines of the form `name: value` stand before what it holds.
    pub(super) has_headers: bool,
    /// What it holds.
    pub(super) contents: Vec<u8>,
}

/// The blocks of `text`, one behind the other.
pub(super) fn blocks(text: &[u8]) -> impl Iterator<Item = Block> {
    let (mut rest, mut broken) = (text, 0);
    std::iter::from_fn(move || {
        let (block, behind) = next_block(rest, &mut broken)?;
        rest = behind;
        Some(block)
    })
}

/// The first block of `text`, and what follows it. Counts those that are `broken`.
fn next_block<'t>(text: &'t [u8], broken: &mut usize) -> Option<(Block, &'t [u8])> {
    let mut rest = text;
    while *broken < MAX_BROKEN {
        // The last line that begins a block before the first that ends one.
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

/// The block whose label `text` begins with.
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
    // What has no headers may hold nothing.
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

/// The first line without blanks at its end, and what follows it.
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

/// Where the first line behind the first begins with `wanted`.
fn line_start(text: &[u8], wanted: &[u8]) -> Option<usize> {
    find(text, &[b"\n", wanted].concat()).map(|at| at + 1)
}

/// Where the last line begins that does so with `wanted`, the first one included.
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
    fn what_is_no_block_is_passed_over() {
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
