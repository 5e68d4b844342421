use crate::error::Error;

/// Limits on an input. Larger input is rejected before it uses more memory than the limits allow.
///
/// ```
/// use holdfast_value::{Error, Limits, yaml};
///
/// // An alias counts the values of its anchor again, so that a small text cannot become a large tree.
/// let text = b"a: &a [1, 2, 3]\nb: [*a, *a, *a]\n";
/// let limits = Limits { max_nodes: 10, ..Limits::REQUEST };
/// assert!(matches!(yaml::parse(text, &limits), Err(Error::TooManyNodes { .. })));
/// assert!(yaml::parse(text, &Limits::REQUEST).is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of bytes of input text.
    pub max_bytes: usize,
    /// Maximum nesting of lists and maps. All walks over trees are recursive, so this also bounds the stack.
    pub max_depth: usize,
    /// Maximum number of values in the tree: scalars, lists and maps at any level.
    pub max_nodes: usize,
}

impl Limits {
    /// Limits for trusted input that this server wrote itself, such as stored objects: only the depth is bounded.
    /// Stored objects are deeper than a request may be, because their managed fields repeat their nesting below some
    /// extra levels.
    pub const TRUSTED: Limits = Limits {
        max_bytes: usize::MAX,
        max_depth: 2 * Limits::REQUEST.max_depth,
        max_nodes: usize::MAX,
    };

    /// Limits for a request body: 3 MiB as in kube-apiserver, 512 levels, half a million values.
    pub const REQUEST: Limits = Limits {
        max_bytes: 3 << 20,
        max_depth: 512,
        max_nodes: 500_000,
    };

    /// Rejects an input of more than `max_bytes` bytes.
    pub(crate) fn check_bytes(&self, size: usize) -> Result<(), Error> {
        match size <= self.max_bytes {
            true => Ok(()),
            false => Err(Error::TooLarge {
                size,
                limit: self.max_bytes,
            }),
        }
    }
}

impl Default for Limits {
    /// Returns [`Limits::REQUEST`].
    fn default() -> Self {
        Self::REQUEST
    }
}
