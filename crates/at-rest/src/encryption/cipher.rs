//! Interface of the ciphers of providers.

/// Encrypts values under one key.
pub(super) trait Cipher: Send + Sync {
    /// Decrypts `data`, the value at `path`.
    ///
    /// # Errors
    /// A description, in the reference's words, if another key or path encrypted it, or if it was changed.
    fn decrypt(&self, path: &[u8], data: &[u8]) -> Result<Vec<u8>, String>;

    /// Encrypts `plain`, the value at `path`.
    ///
    /// # Errors
    /// A description, such as of a lack of random bytes.
    fn encrypt(&self, path: &[u8], plain: &[u8]) -> Result<Vec<u8>, String>;
}
