//! The one-time code in the link, and the session that the page gets for it.

use std::time::Duration;

use anyhow::{Result, anyhow};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rand;
use data_encoding::BASE64URL_NOPAD;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Validity of the code.
pub(super) const CODE_LIFE: Duration = Duration::from_secs(60);

/// Number of wrong codes after which the code is not accepted any more.
const MAX_WRONG_CODES: u32 = 10;

/// Number of random bytes of codes and sessions.
const SECRET_BYTES: usize = 32;

/// Gate that only the page passes which has exchanged the code.
pub(super) struct Gate {
    code: String,
    session: String,
    made: Instant,
    state: Mutex<CodeState>,
}

#[derive(Default)]
struct CodeState {
    is_used: bool,
    wrong_codes: u32,
}

impl Gate {
    /// Makes a code, which is valid from `now` on, and the session that it gives.
    pub(super) fn new(now: Instant) -> Result<Self> {
        Ok(Self {
            code: secret()?,
            session: secret()?,
            made: now,
            state: Mutex::default(),
        })
    }

    /// Returns the code for the link.
    pub(super) fn code(&self) -> &str {
        &self.code
    }

    /// Returns the session for the code, once; `None` if the code is wrong, too old or used.
    pub(super) fn exchange(&self, code: &str, now: Instant) -> Option<&str> {
        let mut state = self.state.lock();
        if state.is_used || state.wrong_codes >= MAX_WRONG_CODES || now.duration_since(self.made) > CODE_LIFE {
            return None;
        }
        if !is_equal(code, &self.code) {
            state.wrong_codes += 1;
            return None;
        }
        state.is_used = true;
        Some(&self.session)
    }

    /// Returns true if `session` is the session that was given for the code.
    pub(super) fn admits(&self, session: &str) -> bool {
        self.state.lock().is_used && is_equal(session, &self.session)
    }
}

fn is_equal(left: &str, right: &str) -> bool {
    verify_slices_are_equal(left.as_bytes(), right.as_bytes()).is_ok()
}

fn secret() -> Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    rand::fill(&mut bytes).map_err(|_| anyhow!("the system has no random numbers"))?;
    Ok(BASE64URL_NOPAD.encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_gives_the_session_once() {
        let now = Instant::now();
        let gate = Gate::new(now).unwrap();
        assert!(!gate.admits(&gate.session), "no page has the session yet");
        assert!(gate.exchange("wrong", now).is_none());
        let session = gate.exchange(gate.code(), now).unwrap().to_owned();
        assert!(gate.admits(&session) && !gate.admits("") && !gate.admits(gate.code()));
        assert!(gate.exchange(gate.code(), now).is_none(), "used");
    }

    #[test]
    fn old_code_is_not_accepted() {
        let now = Instant::now();
        let gate = Gate::new(now).unwrap();
        let late = now + CODE_LIFE + Duration::from_millis(1);
        assert!(gate.exchange(gate.code(), late).is_none());
        assert!(gate.exchange(gate.code(), now + CODE_LIFE).is_some());
    }

    #[test]
    fn code_cannot_be_guessed_many_times() {
        let now = Instant::now();
        let gate = Gate::new(now).unwrap();
        for _ in 0..MAX_WRONG_CODES {
            assert!(gate.exchange("guess", now).is_none());
        }
        assert!(gate.exchange(gate.code(), now).is_none());
    }
}
