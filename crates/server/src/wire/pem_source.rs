//! Certificates and keys in PEM, in files or in memory.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::runtime::files;

/// PEM text of certificates or of a key.
///
/// ```
/// use holdfast_server::wire::pem_source::PemSource;
///
/// let source = PemSource::from("-----BEGIN CERTIFICATE-----".to_owned());
/// assert_eq!(&*source.read()?, b"-----BEGIN CERTIFICATE-----");
/// assert_eq!(source.file(), None);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum PemSource {
    /// A file, which may change while the server runs.
    File(PathBuf),
    /// A text in memory, of a server without files.
    Memory(Arc<str>),
}

impl PemSource {
    /// Returns the text.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self) -> io::Result<Cow<'_, [u8]>> {
        match self {
            Self::File(path) => files::read(path).map(Cow::Owned),
            Self::Memory(text) => Ok(Cow::Borrowed(text.as_bytes())),
        }
    }

    /// Returns the path of the file; `None` for a text in memory.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Memory(_) => None,
        }
    }

    /// Returns the path of the file for messages.
    pub(crate) fn path(&self) -> &Path {
        self.file().unwrap_or_else(|| Path::new("(memory)"))
    }
}

impl From<PathBuf> for PemSource {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl From<String> for PemSource {
    fn from(text: String) -> Self {
        Self::Memory(text.into())
    }
}

impl fmt::Display for PemSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().display().fmt(f)
    }
}

/// Shows no text, which may be a private key.
impl fmt::Debug for PemSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.path(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_in_memory_is_not_shown_by_debug() {
        let source = PemSource::from("secret".to_owned());
        assert_eq!(format!("{source:?}"), "\"(memory)\"");
        assert_eq!(&*source.read().unwrap(), b"secret");
    }
}
