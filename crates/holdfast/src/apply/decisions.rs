//! Decisions about conflicts, which a person makes on a terminal.

use std::io::{BufRead, Write};

use anyhow::{Result, bail};

use super::conflicts::Conflict;

/// Resolution of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The applier becomes the owner of the field.
    TakeOver,
    /// The owner keeps the field: the manifest no longer contains it.
    Keep,
    /// Both own the existing value: the manifest contains it.
    Share,
}

/// Questions on a terminal and their answers.
pub(super) struct Answers<R, W> {
    input: R,
    output: W,
}

impl<R: BufRead, W: Write> Answers<R, W> {
    pub(super) fn new(input: R, output: W) -> Self {
        Self { input, output }
    }

    /// Asks about a conflict until the answer is one of those offered.
    ///
    /// # Errors
    /// If the person aborts, or the input ends.
    pub(super) fn ask(&mut self, conflict: &Conflict) -> Result<Decision> {
        writeln!(self.output, "{conflict}")?;
        loop {
            write!(self.output, "(t)ake over, (k)eep theirs, (s)hare theirs, (a)bort? ")?;
            self.output.flush()?;
            let mut line = String::new();
            if self.input.read_line(&mut line)? == 0 {
                bail!("there is no answer");
            }
            match line.trim() {
                "t" => return Ok(Decision::TakeOver),
                "k" => return Ok(Decision::Keep),
                "s" => return Ok(Decision::Share),
                "a" => bail!("aborted; the object is unchanged"),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_is_repeated_until_it_is_answered() {
        let mut shown = Vec::new();
        let mut answers = Answers::new(&b"what\nt\nk\n s \na\nt"[..], &mut shown);
        let conflict = Conflict::default();
        let decisions: Vec<_> = (0..6).map(|_| answers.ask(&conflict).ok()).collect();
        use Decision::{Keep, Share, TakeOver};
        assert_eq!(
            decisions,
            [Some(TakeOver), Some(Keep), Some(Share), None, Some(TakeOver), None]
        );
        assert_eq!(String::from_utf8(shown).unwrap().matches("(a)bort? ").count(), 7);
    }
}
