//! Bearer tokens from a file in kube-apiserver's format: lines of `token,user,uid,"group1,group2"` with optional groups
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#static-token-file>).

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use holdfast_authorization::User;
use holdfast_resource::access::{RemoteTokenAuthenticator, TokenAuthenticator, TokenError, TokenUser};
use smol_str::SmolStr;

use super::authenticated;
use crate::runtime::files;

/// Audience of this server unless it is configured, for token reviews.
pub const AUDIENCE: &str = "https://kubernetes.default.svc";

/// The tokens of a file.
pub struct TokenFile {
    /// Audiences of this server, for which the tokens are valid.
    audiences: Vec<SmolStr>,
    /// Tokens by their keyed hash, and compared in constant time: the duration of a look-up reveals nothing about similar
    /// tokens.
    users: HashMap<u64, Vec<TokenEntry>>,
    hasher: RandomState,
}

/// A token and its user.
struct TokenEntry {
    token: Box<str>,
    user: Arc<User>,
}

/// A token file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file cannot be read at all.
    #[error("cannot read the token file")]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// A line is malformed.
    #[error("line {line} of the token file {why}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// Description of the error.
        why: &'static str,
    },
}

impl Default for TokenFile {
    fn default() -> Self {
        Self {
            audiences: vec![SmolStr::new_static(AUDIENCE)],
            users: HashMap::new(),
            hasher: RandomState::new(),
        }
    }
}

impl TokenFile {
    /// Returns the same tokens for `audiences`, those of this server.
    #[must_use]
    pub fn with_audiences(self, audiences: Vec<SmolStr>) -> Self {
        Self { audiences, ..self }
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// If the file cannot be read, or a line of it is malformed.
    pub fn load(path: &Path) -> Result<Self, TokenFileError> {
        let text = files::read_text(path).map_err(|source| TokenFileError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text)
    }

    /// Parses the text of a token file.
    ///
    /// # Errors
    /// If a line of it is malformed.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut file = Self::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim_end_matches('\r');
            if line.trim().is_empty() {
                continue;
            }
            let fail = |why| TokenFileError::Line { line: at + 1, why };
            let fields = split_fields(line).ok_or_else(|| fail("has a quote that does not end"))?;
            let [token, name, uid, groups @ ..] = fields.as_slice() else {
                return Err(fail("needs at least three columns: token, user name and user uid"));
            };
            if token.is_empty() {
                return Err(fail("has an empty token"));
            }
            let column = groups.first().map(String::as_str).unwrap_or_default();
            let groups = column.split(',').map(str::trim).filter(|group| !group.is_empty());
            let user = User {
                name: SmolStr::new(name),
                uid: SmolStr::new(uid),
                groups: groups.map(SmolStr::new).collect(),
                extra: Vec::new(),
            };
            if file.user(token).is_some() {
                return Err(fail("repeats a token"));
            }
            let entry = TokenEntry {
                token: token.as_str().into(),
                user: Arc::new(authenticated(user)),
            };
            file.users.entry(file.hasher.hash_one(token)).or_default().push(entry);
        }
        Ok(file)
    }

    /// Returns the user of a token.
    pub fn user(&self, token: &str) -> Option<&Arc<User>> {
        let entries = self.users.get(&self.hasher.hash_one(token))?;
        let is_equal = |entry: &&TokenEntry| verify_slices_are_equal(entry.token.as_bytes(), token.as_bytes()).is_ok();
        entries.iter().find(is_equal).map(|entry| &entry.user)
    }
}

impl TokenAuthenticator for TokenFile {
    /// Authenticates a token of the file for the requested audiences that are this server's.
    fn authenticate(&self, token: &str, audiences: &[&str]) -> Result<TokenUser, TokenError> {
        let user = self.user(token).ok_or(TokenError::Unknown)?;
        Ok(TokenUser {
            user: Arc::clone(user),
            audiences: valid_audiences(&self.audiences, audiences)?,
            annotations: Vec::new(),
            warning: None,
        })
    }
}

/// Returns the `requested` audiences for which a token for `own`, the audiences of this server, is valid; an audience that
/// is requested twice is returned twice. Empty `requested` means those of this server.
///
/// # Errors
/// If there are none.
pub(super) fn valid_audiences(own: &[SmolStr], requested: &[&str]) -> Result<Vec<SmolStr>, TokenError> {
    if requested.is_empty() {
        return Ok(own.to_vec());
    }
    let is_own = |audience: &&str| own.iter().any(|own| own == *audience);
    let valid: Vec<SmolStr> = requested.iter().copied().filter(is_own).map(SmolStr::new).collect();
    match valid.is_empty() {
        true => Err(TokenError::Unknown),
        false => Ok(valid),
    }
}

/// Authenticators of tokens, called in order until one recognises the token.
#[derive(Default)]
pub struct Tokens {
    local: Vec<Arc<dyn TokenAuthenticator>>,
    remote: Option<Arc<dyn RemoteTokenAuthenticator>>,
}

impl Tokens {
    /// Combines the authenticators in their order.
    pub fn new(authenticators: impl IntoIterator<Item = Arc<dyn TokenAuthenticator>>) -> Self {
        Self {
            local: authenticators.into_iter().collect(),
            remote: None,
        }
    }

    /// Asks `remote` about tokens that no other authenticator accepts.
    #[must_use]
    pub fn with_remote(self, remote: Option<Arc<dyn RemoteTokenAuthenticator>>) -> Self {
        Self { remote, ..self }
    }
}

impl TokenAuthenticator for Tokens {
    fn authenticate(&self, token: &str, audiences: &[&str]) -> Result<TokenUser, TokenError> {
        let mut rejection = TokenError::Unknown;
        for authenticator in &self.local {
            match authenticator.authenticate(token, audiences) {
                Err(TokenError::Unknown) => {}
                Err(rejected) => rejection = rejected,
                known => return known,
            }
        }
        Err(rejection)
    }

    fn remote(&self) -> Option<&dyn RemoteTokenAuthenticator> {
        self.remote.as_deref()
    }
}

/// Splits a line of CSV into its fields. Returns `None` if a quoted field has no end.
fn split_fields(line: &str) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let trimmed = rest.trim_start();
        let (field, behind) = match trimmed.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => match trimmed.split_once(',') {
                Some((field, behind)) => (field.to_owned(), Some(behind)),
                None => (trimmed.to_owned(), None),
            },
        };
        fields.push(field);
        match behind {
            Some(behind) => rest = behind,
            None => return Some(fields),
        }
    }
}

/// Splits `text`, which follows an opening quote, into the quoted field and the text after the next comma.
fn quoted_field(text: &str) -> Option<(String, Option<&str>)> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let (part, behind) = rest.split_once('"')?;
        field.push_str(part);
        match behind.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Some((field, behind.split_once(',').map(|(_, behind)| behind))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_may_be_quoted_and_groups_left_out() {
        let text = "t1,admin,u1,\"system:masters, devs\"\n\n\"t\"\"2\",bob,\n t3,eve,u3,one,ignored\r\n";
        let file = TokenFile::parse(text).unwrap();
        let groups = |token| file.user(token).unwrap().groups.join(" ");
        assert_eq!(groups("t1"), "system:masters devs system:authenticated");
        assert_eq!(groups("t\"2"), "system:authenticated");
        assert_eq!(groups("t3"), "one system:authenticated");
        assert!(file.user("t").is_none());
        assert!(file.user("").is_none());
    }

    #[test]
    fn tokens_of_several_sources_are_tried_in_turn() {
        let file = |text| Arc::new(TokenFile::parse(text).unwrap()) as Arc<dyn TokenAuthenticator>;
        let tokens = Tokens::new([file("a,ann,1"), file("b,bob,2")]);
        let name = |token, audiences: &[&str]| {
            tokens
                .authenticate(token, audiences)
                .map(|known| known.user.name.clone())
        };
        assert_eq!(name("b", &[]).unwrap(), "bob");
        assert_eq!(name("a", &["x", AUDIENCE]).unwrap(), "ann");
        assert_eq!(name("a", &["x"]).unwrap_err(), TokenError::Unknown);
        let twice = tokens.authenticate("a", &[AUDIENCE, "x", AUDIENCE]).unwrap();
        assert_eq!(twice.audiences, [AUDIENCE, AUDIENCE]);
        assert_eq!(name("c", &[]).unwrap_err().to_string(), "invalid bearer token");
    }

    #[test]
    fn mistakes_are_reported_with_their_line() {
        let cases = [
            (
                "a,b,c\nx,y\n",
                "line 2 of the token file needs at least three columns: token, user name and user uid",
            ),
            (",name,uid", "line 1 of the token file has an empty token"),
            ("a,b,c\n\na,d,e", "line 3 of the token file repeats a token"),
            ("a,b,c,\"d", "line 1 of the token file has a quote that does not end"),
        ];
        for (text, message) in cases {
            let error = TokenFile::parse(text).map(|_| ()).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
