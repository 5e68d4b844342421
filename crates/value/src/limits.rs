use crate::Error;

/// Bounds on an input. Whatever goes beyond is refused before it costs more memory than the bounds allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of input text.
    pub max_bytes: usize,
    /// The deepest nesting of lists and maps. Walks over trees are recursive throughout, so this also bounds the stack.
    pub max_depth: usize,
    /// The most values in the tree: scalars, lists and maps, at any level.
    pub max_nodes: usize,
}

impl Limits {
    /// Depth alone is bounded: for what this server wrote itself, such as stored objects. These are deeper than what a
    /// request may send, since their managed fields mirror their own depth from some levels down.
    pub const TRUSTED: Limits = Limits {
        max_bytes: usize::MAX,
        max_depth: 2 * Limits::REQUEST.max_depth,
        max_nodes: usize::MAX,
    };

    /// The bounds for the body of a request: 3 MiB as in kube-apiserver, 512 levels, half a million values.
    pub const REQUEST: Limits = Limits {
        max_bytes: 3 << 20,
        max_depth: 512,
        max_nodes: 500_000,
    };

    /// Refuses an input of more bytes than these.
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
    /// [`Limits::REQUEST`].
    fn default() -> Self {
        Self::REQUEST
    }
}
