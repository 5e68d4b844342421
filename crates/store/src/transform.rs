//! Transformation of stored bytes, such as encryption.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use crate::codec::CodecError;
use crate::entry::StoredForm;

/// Beginning of all bytes that a transformer of kube-apiserver has encrypted. Objects never begin with it.
pub const ENCRYPTED: &[u8] = b"k8s:enc:";

/// Result of a transformation: bytes in one form, and the form of the stored ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transformed {
    /// Bytes: the stored ones after a transformation to storage, the plain ones after one from storage.
    pub bytes: Vec<u8>,
    /// Form of the stored bytes.
    pub form: StoredForm,
}

/// Transforms the bytes of values between memory and storage. An engine stores only transformed bytes; the state in
/// memory holds plain ones, so reads do not call the transformer.
pub trait Transformer: Send + Sync + 'static {
    /// Returns the bytes to store instead of `plain`, the value of `key`; `None` if it is stored unchanged.
    ///
    /// # Errors
    /// If the value should be transformed and cannot be, for example because an external service is unavailable.
    fn transform_to_storage(&self, key: &[u8], plain: &[u8]) -> Result<Option<Transformed>, CodecError>;

    /// Returns the plain bytes of `stored`, the value of `key`; `None` if `stored` is plain.
    ///
    /// # Errors
    /// If no known form fits.
    fn transform_from_storage(&self, key: &[u8], stored: &[u8]) -> Result<Option<Transformed>, CodecError>;

    /// Returns the form in which a value of `key` would be stored now.
    fn form_of(&self, key: &[u8]) -> StoredForm;
}

/// Returns true if a transformer has encrypted these bytes.
pub fn is_encrypted(stored: &[u8]) -> bool {
    stored.starts_with(ENCRYPTED)
}

/// Plain bytes of a stored value, and the form in which they are stored.
pub(crate) struct Plain<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) form: StoredForm,
}

/// Returns the plain bytes of a stored value. Without a transformer, encrypted bytes are an error.
pub(crate) fn plain<'a>(
    transformer: Option<&Arc<dyn Transformer>>,
    key: &[u8],
    stored: &'a [u8],
) -> Result<Plain<'a>, CodecError> {
    let opened = match transformer {
        Some(transformer) => transformer.transform_from_storage(key, stored)?,
        None if is_encrypted(stored) => return Err(CodecError::untransformable(key, ENCRYPTED_WITHOUT_PROVIDER)),
        None => None,
    };
    Ok(match opened {
        Some(Transformed { bytes, form }) => Plain {
            bytes: Cow::Owned(bytes),
            form,
        },
        None => Plain {
            bytes: Cow::Borrowed(stored),
            form: StoredForm::PLAIN,
        },
    })
}

/// Error of encrypted bytes that are read without a provider that decrypts them.
///
/// upstream: k8s.io/apiserver/pkg/storage/value/encrypt/identity#NewEncryptCheckTransformer
pub const ENCRYPTED_WITHOUT_PROVIDER: &str = "identity transformer tried to read encrypted data";

/// Returns the bytes to store for a value; `None` if they are the value's own.
pub(crate) fn to_store(
    transformer: &dyn Transformer,
    key: &[u8],
    plain: &[u8],
) -> Result<Option<(Bytes, StoredForm)>, CodecError> {
    let transformed = transformer.transform_to_storage(key, plain)?;
    Ok(transformed.map(|Transformed { bytes, form }| (bytes.into(), form)))
}
