//! XSalsa20 and Poly1305, as NaCl's `crypto_secretbox` combines them. The path of the value is not authenticated.

use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit;
use salsa20::XSalsa20;
use salsa20::cipher::{KeyIvInit as _, StreamCipher as _};
use subtle::ConstantTimeEq as _;

use super::aes::{TOO_SHORT, random};
use super::cipher::Cipher;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// Cipher of the provider `secretbox`.
///
/// upstream: k8s.io/apiserver/pkg/storage/value/encrypt/secretbox#NewSecretboxTransformer
pub(super) struct Secretbox([u8; KEY_BYTES]);

impl Secretbox {
    pub(super) fn new(key: &[u8]) -> Result<Self, String> {
        let length = key.len();
        let key = key.try_into().ok();
        key.map(Self)
            .ok_or_else(|| format!("expected key size 32 for secretbox provider, got {length}"))
    }

    /// Returns the key stream after its first bytes, which are the key of the authentication.
    fn streams(&self, nonce: &[u8; NONCE_BYTES]) -> (XSalsa20, Poly1305) {
        let mut stream = XSalsa20::new(&self.0.into(), &(*nonce).into());
        let mut key = [0; KEY_BYTES];
        stream.apply_keystream(&mut key);
        (stream, Poly1305::new(&key.into()))
    }
}

impl Cipher for Secretbox {
    fn decrypt(&self, _path: &[u8], data: &[u8]) -> Result<Vec<u8>, String> {
        let (nonce, boxed) = data.split_first_chunk::<NONCE_BYTES>().ok_or(TOO_SHORT)?;
        let (tag, sealed) = boxed.split_first_chunk::<TAG_BYTES>().ok_or(TOO_SHORT)?;
        let (mut stream, authenticator) = self.streams(nonce);
        let expected = authenticator.compute_unpadded(sealed);
        if !bool::from(expected[..].ct_eq(&tag[..])) {
            // The reference's message for any failure.
            return Err("output array was not large enough for encryption".to_owned());
        }
        let mut bytes = sealed.to_vec();
        stream.apply_keystream(&mut bytes);
        Ok(bytes)
    }

    fn encrypt(&self, _path: &[u8], plain: &[u8]) -> Result<Vec<u8>, String> {
        let nonce = random::<NONCE_BYTES>()?;
        let (mut stream, authenticator) = self.streams(&nonce);
        let mut sealed = plain.to_vec();
        stream.apply_keystream(&mut sealed);
        let tag = authenticator.compute_unpadded(&sealed);
        Ok([&nonce[..], &tag[..], &sealed].concat())
    }
}
