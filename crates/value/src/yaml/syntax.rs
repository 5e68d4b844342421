//! Differences between the reference's parser and ours: what it rejects in addition, and its error messages.
//!
//! The reference scans with libyaml's rules. There, tabs do not indent, neither before tokens nor in the lines of plain
//! scalars, and of JSON's escapes it knows neither `\/` nor surrogates. Its errors name a line unless it is the first,
//! and errors of grammar count lines from zero.

use granit_parser::{ErrorKind, Event, Marker, ScalarStyle, ScanError, Span, StructureStyle};

use super::read::Failure;
use crate::error::{Error, Position};
use crate::limits::Limits;

/// Checker that follows the events of a text and rejects what only the parser allows.
pub(super) struct Syntax<'a> {
    text: &'a str,
    /// Columns of the tokens of each open collection in block style.
    open: Vec<Option<usize>>,
    /// End of the last token.
    at: usize,
    /// True if the text between `at` and the next token is the blanks after an indicator.
    after_indicator: bool,
}

/// Part of libyaml that an error comes from.
#[derive(Clone, Copy)]
enum Source {
    Scanner,
    Grammar,
}

impl<'a> Syntax<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            open: Vec::new(),
            at: 0,
            after_indicator: true,
        }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// Rejects directives before the first document that the reference does not know.
    pub(super) fn check_directives(&self) -> Result<(), Error> {
        let mut offset = 0;
        for line in self.text.split_inclusive('\n') {
            let Some(directive) = line.strip_prefix('%') else {
                if line.trim().is_empty() || line.starts_with('#') {
                    offset += line.len();
                    continue;
                }
                break;
            };
            let position = Position::at_offset(self.text.as_bytes(), offset);
            let mut words = directive.split_ascii_whitespace();
            match (words.next(), words.next()) {
                (Some("YAML"), Some("1.1")) | (Some("TAG"), _) => {}
                (Some("YAML"), Some(version))
                    if version.split_once('.').is_some_and(|(major, minor)| {
                        [major, minor]
                            .iter()
                            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
                    }) =>
                {
                    let message = worded(Source::Grammar, "found incompatible YAML document", position.line);
                    return Err(Error::Yaml { message, position });
                }
                (Some("YAML"), _) => return Ok(()),
                _ => return Err(self.scanner_error("found unknown directive name", position)),
            }
            offset += line.len();
        }
        Ok(())
    }

    /// Checks the token of `event`, and the blanks before it.
    pub(super) fn check(&mut self, event: &Event<'_>, span: &Span) -> Result<(), Error> {
        let (start, end) = (self.offset(&span.start), self.offset(&span.end));
        match event {
            Event::Scalar(_, style, ..) => {
                self.check_indent(start)?;
                match style {
                    ScalarStyle::Plain => self.check_plain(start, end)?,
                    ScalarStyle::DoubleQuoted => self.check_escapes(start, end)?,
                    _ => {}
                }
                self.pass(end, false);
            }
            Event::Alias(_) => {
                self.check_indent(start)?;
                self.pass(end, false);
            }
            Event::SequenceStart(StructureStyle::Block, ..) | Event::MappingStart(StructureStyle::Block, ..) => {
                self.check_indent(start)?;
                self.pass(start, true);
                self.open.push(Some(span.start.col()));
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                self.check_indent(start)?;
                self.pass(end, false);
                self.open.push(None);
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let was_flow = self.open.pop() == Some(None);
                if was_flow {
                    self.pass(end, false);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn pass(&mut self, to: usize, after_indicator: bool) {
        self.at = self.at.max(to);
        self.after_indicator = after_indicator;
    }

    fn in_flow(&self) -> bool {
        self.open.last() == Some(&None)
    }

    /// Rejects tabs among the blanks at the start of a line before the token at `start`.
    fn check_indent(&self, start: usize) -> Result<(), Error> {
        let Some(gap) = self.text.get(self.at..start) else {
            return Ok(());
        };
        if self.in_flow() || !gap.contains('\t') {
            return Ok(());
        }
        let mut offset = self.at;
        for (number, line) in gap.split_inclusive('\n').enumerate() {
            if number > 0 || self.after_indicator {
                let run = indent_run(line);
                if let Some(tab) = line[..run].find('\t') {
                    let position = Position::at_offset(self.text.as_bytes(), offset + tab);
                    return Err(self.scanner_error("found character that cannot start any token", position));
                }
            }
            offset += line.len();
        }
        Ok(())
    }

    /// Rejects tabs that indent further lines of a plain scalar, including blank lines.
    fn check_plain(&self, start: usize, end: usize) -> Result<(), Error> {
        let bytes = self.text.as_bytes();
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let blanks = bytes
            .get(end..)
            .map_or(0, |rest| rest.iter().take_while(|byte| is_blank(byte)).count());
        let scanned = bytes.get(start..end + blanks).unwrap_or_default();
        if !scanned.contains(&b'\t') {
            return Ok(());
        }
        let indent = self
            .open
            .iter()
            .rev()
            .find_map(|column| *column)
            .map_or(0, |column| column + 1);
        let mut line_start = None;
        for (at, byte) in scanned.iter().enumerate() {
            match (byte, line_start) {
                (b'\n', _) => line_start = Some(at + 1),
                (b'\t', Some(from)) if at - from < indent => {
                    let position = Position::at_offset(bytes, start + at);
                    return Err(self.scanner_error("found a tab character that violates indentation", position));
                }
                (b' ' | b'\t' | b'\r', _) => {}
                _ => line_start = None,
            }
        }
        Ok(())
    }

    /// Rejects escapes that exist in JSON but not in the reference's YAML.
    fn check_escapes(&self, start: usize, end: usize) -> Result<(), Error> {
        let bytes = self.text.as_bytes();
        let mut at = start;
        while let Some(found) = bytes
            .get(at..end)
            .and_then(|rest| rest.iter().position(|byte| *byte == b'\\'))
        {
            at += found;
            let message = match bytes.get(at + 1..) {
                Some([b'/', ..]) => "found unknown escape character",
                Some([b'u', b'd' | b'D', b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F', ..]) => {
                    "found invalid Unicode character escape code"
                }
                _ => {
                    at += 2;
                    continue;
                }
            };
            return Err(self.scanner_error(message, Position::at_offset(bytes, at)));
        }
        Ok(())
    }

    fn scanner_error(&self, message: &str, position: Position) -> Error {
        scanner_error(message, position)
    }

    /// Returns an error about the meaning of the text rather than its syntax: the reference names no line for it.
    pub(super) fn error(&self, message: &str, span: &Span) -> Error {
        Error::Yaml {
            message: format!("yaml: {message}"),
            position: self.position(&span.start),
        }
    }

    /// Returns an error about a value without a JSON form.
    pub(super) fn json_error(&self, message: &str, span: &Span) -> Error {
        Error::Yaml {
            message: message.to_owned(),
            position: self.position(&span.start),
        }
    }

    pub(super) fn too_deep(&self, limits: &Limits, marker: &Marker) -> Error {
        Error::TooDeep {
            limit: limits.max_depth,
            position: self.position(marker),
            message: "yaml: exceeded max depth of 10000".to_owned(),
        }
    }

    pub(super) fn position(&self, marker: &Marker) -> Position {
        Position {
            line: marker.line(),
            column: marker.col() + 1,
        }
    }

    fn offset(&self, marker: &Marker) -> usize {
        marker.byte_offset().unwrap_or_default()
    }

    /// Converts the parser's error, and reports if it may be caused by an escape that the reference knows.
    pub(super) fn failure(&self, error: &ScanError, limits: &Limits) -> Failure {
        let failure = self.translate(error, limits);
        match error.kind() {
            ErrorKind::UnknownQuotedScalarEscape => Failure::Escape(failure, self.offset(error.marker())),
            _ => Failure::Final(failure),
        }
    }

    /// Converts the parser's error to the reference's words.
    fn translate(&self, error: &ScanError, limits: &Limits) -> Error {
        let marker = error.marker();
        let position = self.position(marker);
        let offset = self.offset(marker).min(self.text.len());
        let (source, message) = match error.kind() {
            ErrorKind::RecursionLimitExceeded => return self.too_deep(limits, marker),
            ErrorKind::UnknownAnchor => {
                let name: String = self.text[offset..]
                    .trim_start_matches('*')
                    .chars()
                    .take_while(|character| character.is_alphanumeric() || matches!(character, '_' | '-'))
                    .collect();
                let message = format!("yaml: unknown anchor '{name}' referenced");
                return Error::Yaml { message, position };
            }
            ErrorKind::UnexpectedEofFlowSequence
            | ErrorKind::UnexpectedEofFlowMapping
            | ErrorKind::UnexpectedEofImplicitFlowMapping
            | ErrorKind::UnclosedFlowCollection { .. }
                if self.text.trim_end().ends_with(['[', '{', ',', ':']) =>
            {
                return self.at_end("did not find expected node content");
            }
            ErrorKind::UnexpectedEofFlowSequence | ErrorKind::UnclosedFlowCollection { open: '[' } => {
                return self.at_end("did not find expected ',' or ']'");
            }
            ErrorKind::UnexpectedEofFlowMapping
            | ErrorKind::UnexpectedEofImplicitFlowMapping
            | ErrorKind::UnclosedFlowCollection { .. } => return self.at_end("did not find expected ',' or '}'"),
            ErrorKind::TabInPlainScalar | ErrorKind::TabInIndentation => {
                // The parser points to the start of the scalar; libyaml points to the tab.
                let tab = self.text[offset..].find('\t').map_or(offset, |tab| offset + tab);
                let position = Position::at_offset(self.text.as_bytes(), tab);
                return self.scanner_error("found a tab character that violates indentation", position);
            }
            // libyaml does not check the indentation of a quoted scalar's lines.
            ErrorKind::InvalidQuotedScalarIndent if !self.text[offset..].contains(['"', '\'']) => {
                let position = Position::at_offset(self.text.as_bytes(), self.text.len());
                return self.scanner_error("found unexpected end of stream", position);
            }
            ErrorKind::UnclosedQuotedScalar => (Source::Scanner, "found unexpected end of stream".to_owned()),
            kind => match words(kind) {
                Some((source, message)) => (source, message.to_owned()),
                None => (Source::Scanner, kind.to_string()),
            },
        };
        Error::Yaml {
            message: worded(source, &message, position.line),
            position,
        }
    }

    /// Returns a grammar error at the end of the text, where libyaml counts one more line.
    fn at_end(&self, message: &str) -> Error {
        let position = Position::at_offset(self.text.as_bytes(), self.text.len());
        let line = if position.column > 1 {
            position.line + 1
        } else {
            position.line
        };
        Error::Yaml {
            message: worded(Source::Grammar, message, line),
            position,
        }
    }
}

/// Returns libyaml's error for a character or token that it cannot scan.
pub(super) fn scanner_error(message: &str, position: Position) -> Error {
    Error::Yaml {
        message: worded(Source::Scanner, message, position.line),
        position,
    }
}

/// Returns the text before the bracket that `error` reports as unmatched. At that point libyaml has the whole value and
/// scans only up to the next token.
pub(super) fn without_stray_end<'t>(text: &'t str, error: &Error) -> Option<&'t str> {
    let Error::Json { message, position } = error else {
        return None;
    };
    let is_stray = [
        "invalid character '}' after top-level value",
        "invalid character ']' after top-level value",
    ];
    let lines = text.split_inclusive('\n');
    let before: usize = lines.take(position.line.checked_sub(1)?).map(str::len).sum();
    let (at, _) = text[before..].char_indices().nth(position.column.checked_sub(1)?)?;
    is_stray.contains(&message.as_str()).then(|| &text[..before + at])
}

/// Returns libyaml's error for a text that is JSON except for `error`, if libyaml's message is more exact than the
/// parser's.
pub(super) fn of_json(text: &str, error: &Error) -> Option<Error> {
    let Error::Json { message, position } = error else {
        return None;
    };
    let line = text.lines().nth(position.line.checked_sub(1)?)?;
    let at = line.char_indices().nth(position.column.checked_sub(1)?)?.0;
    let before = line[..at].trim_end().bytes().last();
    let words = if message.ends_with("after object key") {
        let is_none = matches!(line.as_bytes().get(at), Some(b',' | b'}' | b'#'));
        (!is_none).then_some("did not find expected ',' or '}'")
    } else {
        let is_first = message.starts_with("invalid character ',' looking for beginning of") && before != Some(b':');
        (is_first && before.is_some()).then_some("did not find expected node content")
    }?;
    Some(Error::Yaml {
        message: worded(Source::Grammar, words, position.line),
        position: *position,
    })
}

/// Returns the text with the escaped apostrophes of the double-quoted scalar at `start` unescaped: the reference knows
/// that escape, the parser does not. `None` if there are none.
pub(super) fn without_escaped_apostrophes(text: &str, start: usize) -> Option<String> {
    let (before, scalar) = text.split_at_checked(start)?;
    let inside = scalar.strip_prefix('"')?;
    let mut changed = String::with_capacity(text.len());
    changed.push_str(before);
    changed.push('"');
    let mut rest = inside;
    while let Some(at) = rest.find(['"', '\\'])
        && let Some(escaped) = rest[at..].strip_prefix('\\').and_then(|rest| rest.chars().next())
    {
        changed.push_str(&rest[..at]);
        if escaped != '\'' {
            changed.push('\\');
        }
        changed.push(escaped);
        rest = &rest[at + 1 + escaped.len_utf8()..];
    }
    // The end of the scalar, or of the text.
    changed.push_str(rest);
    (changed.len() < text.len()).then_some(changed)
}

/// Returns the number of leading bytes of a line that are blanks, or indicators followed by blanks.
fn indent_run(line: &str) -> usize {
    let bytes = line.as_bytes();
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let in_run = |at: &usize| match bytes.get(*at) {
        Some(b'-' | b'?' | b':') => is_blank(bytes.get(at + 1)),
        byte => is_blank(byte),
    };
    (0..bytes.len()).take_while(in_run).count()
}

/// Returns the message with the line number that the reference gives.
fn worded(source: Source, message: &str, line: usize) -> String {
    match source {
        Source::Scanner if line > 1 => format!("yaml: line {line}: {message}"),
        Source::Grammar if line > 1 => format!("yaml: line {}: {message}", line - 1),
        _ => format!("yaml: {message}"),
    }
}

/// Returns the reference's message for errors that both parsers know.
fn words(kind: &ErrorKind) -> Option<(Source, &'static str)> {
    use Source::{Grammar, Scanner};

    Some(match kind {
        ErrorKind::ExpectedNodeContent => (Grammar, "did not find expected node content"),
        ErrorKind::ExpectedBlockMappingKey => (Grammar, "did not find expected key"),
        ErrorKind::ExpectedFlowMappingSeparator => (Grammar, "did not find expected ',' or '}'"),
        ErrorKind::ExpectedFlowSequenceSeparator => (Grammar, "did not find expected ',' or ']'"),
        ErrorKind::MismatchedFlowCollectionEnd { open: '[', .. } => (Grammar, "did not find expected ',' or ']'"),
        ErrorKind::MismatchedFlowCollectionEnd { .. } => (Grammar, "did not find expected ',' or '}'"),
        ErrorKind::MisplacedFlowCollectionEnd => (Grammar, "did not find expected node content"),
        ErrorKind::ExpectedBlockSequenceEntry => (Grammar, "did not find expected '-' indicator"),
        ErrorKind::ExpectedDocumentStart | ErrorKind::InvalidDocumentEnd => {
            (Grammar, "did not find expected <document start>")
        }
        ErrorKind::UndeclaredTagHandle => (Grammar, "found undefined tag handle"),
        ErrorKind::MappingValueNotAllowed => (Scanner, "mapping values are not allowed in this context"),
        ErrorKind::MappingKeyNotAllowed => (Scanner, "mapping keys are not allowed in this context"),
        ErrorKind::BlockSequenceEntryNotAllowed => (Scanner, "block sequence entries are not allowed in this context"),
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => (Scanner, "could not find expected ':'"),
        ErrorKind::DocumentIndicatorInQuotedScalar => (Scanner, "found unexpected document indicator"),
        ErrorKind::UnexpectedCharacter { .. } | ErrorKind::TabNotAllowed | ErrorKind::TabInBlockIndentation => {
            (Scanner, "found character that cannot start any token")
        }
        ErrorKind::UnknownQuotedScalarEscape => (Scanner, "found unknown escape character"),
        ErrorKind::InvalidUnicodeEscape
        | ErrorKind::InvalidLowSurrogate
        | ErrorKind::MissingLowSurrogate
        | ErrorKind::UnpairedLowSurrogate => (Scanner, "found invalid Unicode character escape code"),
        ErrorKind::InvalidQuotedScalarHexEscape | ErrorKind::InvalidLowSurrogateHexEscape => {
            (Scanner, "did not find expected hexdecimal number")
        }
        ErrorKind::MissingAnchorOrAliasName => (Scanner, "did not find expected alphabetic or numeric character"),
        _ => return None,
    })
}
