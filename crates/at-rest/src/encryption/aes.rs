//! AES-GCM, AES-CBC, and AES-GCM with a derived key for each value.

use aws_lc_rs::aead::{AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk};
use aws_lc_rs::rand;

use super::cipher::Cipher;

/// Length of the nonce of AES-GCM in bytes.
const NONCE_BYTES: usize = 12;
/// Length of a block of AES in bytes.
const BLOCK_BYTES: usize = 16;
/// Length of a seed, of the random bytes that derive a key from it, and of that key.
pub(super) const SEED_BYTES: usize = 32;
/// Length of a block of SHA-256 in bytes. HMAC uses the digest of a longer key.
const SHA256_BLOCK_BYTES: usize = 64;

pub(super) const TOO_SHORT: &str = "the stored data was shorter than the required size";
const NO_RANDOM: &str = "unable to read sufficient random bytes";
const UNAUTHENTIC: &str = "cipher: message authentication failed";
const KEY_LENGTH: &str = "crypto/aes: invalid key size";

/// AES-GCM with random nonces. The path of the value is authenticated.
///
/// upstream: k8s.io/apiserver/pkg/storage/value/encrypt/aes#NewGCMTransformer
pub(super) struct Gcm(LessSafeKey);

impl Gcm {
    pub(super) fn new(key: &[u8]) -> Result<Self, String> {
        let algorithm = match key.len() {
            16 => &AES_128_GCM,
            24 => &AES_192_GCM,
            32 => &AES_256_GCM,
            _ => return Err(KEY_LENGTH.to_owned()),
        };
        let key = UnboundKey::new(algorithm, key).map_err(|_| KEY_LENGTH)?;
        Ok(Self(LessSafeKey::new(key)))
    }
}

impl Cipher for Gcm {
    fn decrypt(&self, path: &[u8], data: &[u8]) -> Result<Vec<u8>, String> {
        let (nonce, sealed) = data.split_first_chunk::<NONCE_BYTES>().ok_or(TOO_SHORT)?;
        let mut bytes = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.0.open_in_place(nonce, Aad::from(path), &mut bytes);
        let length = opened.map_err(|_| UNAUTHENTIC)?.len();
        bytes.truncate(length);
        Ok(bytes)
    }

    fn encrypt(&self, path: &[u8], plain: &[u8]) -> Result<Vec<u8>, String> {
        let nonce = random::<NONCE_BYTES>()?;
        let mut sealed = plain.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        let outcome = self.0.seal_in_place_append_tag(unique, Aad::from(path), &mut sealed);
        outcome.map_err(|_| "failed to encrypt with AES-GCM")?;
        Ok([&nonce[..], &sealed].concat())
    }
}

/// AES-CBC with random initialization vectors and PKCS#7 padding. Nothing is authenticated.
///
/// upstream: k8s.io/apiserver/pkg/storage/value/encrypt/aes#NewCBCTransformer
pub(super) struct Cbc {
    encrypting: EncryptingKey,
    decrypting: DecryptingKey,
}

impl Cbc {
    pub(super) fn new(key: &[u8]) -> Result<Self, String> {
        let algorithm = match key.len() {
            16 => &AES_128,
            24 => &AES_192,
            32 => &AES_256,
            _ => return Err(KEY_LENGTH.to_owned()),
        };
        let unbound = || UnboundCipherKey::new(algorithm, key).map_err(|_| KEY_LENGTH);
        Ok(Self {
            encrypting: EncryptingKey::cbc(unbound()?).map_err(|_| KEY_LENGTH)?,
            decrypting: DecryptingKey::cbc(unbound()?).map_err(|_| KEY_LENGTH)?,
        })
    }
}

impl Cipher for Cbc {
    fn decrypt(&self, _path: &[u8], data: &[u8]) -> Result<Vec<u8>, String> {
        let (vector, sealed) = data.split_first_chunk::<BLOCK_BYTES>().ok_or(TOO_SHORT)?;
        if sealed.len() % BLOCK_BYTES != 0 {
            return Err("the stored data is not a multiple of the block size".to_owned());
        }
        let mut bytes = sealed.to_vec();
        if !bytes.is_empty() {
            let context = DecryptionContext::Iv128(vector.into());
            let opened = self.decrypting.decrypt(&mut bytes, context);
            opened.map_err(|_| "failed to decrypt with AES-CBC")?;
        }
        let padding = usize::from(bytes.last().copied().unwrap_or_default());
        let unpadded = bytes.len().checked_sub(padding).filter(|_| padding != 0);
        let length = unpadded.ok_or("invalid PKCS7 data (empty or not padded)")?;
        let mut padded = bytes.iter().skip(length);
        if padded.any(|byte| usize::from(*byte) != padding) {
            return Err("invalid padding on input".to_owned());
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    fn encrypt(&self, _path: &[u8], plain: &[u8]) -> Result<Vec<u8>, String> {
        let vector = random::<BLOCK_BYTES>()?;
        let padding = BLOCK_BYTES - plain.len() % BLOCK_BYTES;
        let mut sealed = plain.to_vec();
        sealed.resize(plain.len() + padding, u8::try_from(padding).unwrap_or_default());
        let context = EncryptionContext::Iv128((&vector).into());
        let outcome = self.encrypting.less_safe_encrypt(&mut sealed, context);
        outcome.map_err(|_| "failed to encrypt with AES-CBC")?;
        Ok([&vector[..], &sealed].concat())
    }
}

/// AES-GCM with a key for each value, which is derived from a seed and random bytes. The random bytes precede the value.
///
/// upstream: k8s.io/apiserver/pkg/storage/value/encrypt/aes#NewHKDFExtendedNonceGCMTransformer
pub(super) struct ExtendedNonceGcm(Prk);

impl ExtendedNonceGcm {
    pub(super) fn new(seed: &[u8]) -> Result<Self, String> {
        if seed.len() < SEED_BYTES {
            return Err(format!("invalid seed length {} used for key generation", seed.len()));
        }
        if seed.len() > SHA256_BLOCK_BYTES {
            // The library panics for a longer seed.
            let short = digest(&SHA256, seed);
            return Ok(Self(Prk::new_less_safe(HKDF_SHA256, short.as_ref())));
        }
        Ok(Self(Prk::new_less_safe(HKDF_SHA256, seed)))
    }

    fn derived(&self, info: &[u8]) -> Result<Gcm, String> {
        let mut key = [0; SEED_BYTES];
        let info = [info];
        let derived = self.0.expand(&info, HKDF_SHA256).and_then(|okm| okm.fill(&mut key));
        derived.map_err(|_| "failed to read a derived key from KDF")?;
        Gcm::new(&key)
    }
}

impl Cipher for ExtendedNonceGcm {
    fn decrypt(&self, path: &[u8], data: &[u8]) -> Result<Vec<u8>, String> {
        let (info, sealed) = data.split_first_chunk::<SEED_BYTES>().ok_or(TOO_SHORT)?;
        self.derived(info)?.decrypt(path, sealed)
    }

    fn encrypt(&self, path: &[u8], plain: &[u8]) -> Result<Vec<u8>, String> {
        let info = random::<SEED_BYTES>()?;
        let sealed = self.derived(&info)?.encrypt(path, plain)?;
        Ok([&info[..], &sealed].concat())
    }
}

/// Returns random bytes.
pub(super) fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| NO_RANDOM)?;
    Ok(bytes)
}
