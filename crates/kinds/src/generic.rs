//! The strategy of kinds that have no behaviour of their own.

use holdfast_resource::Strategy;

/// Does what the descriptor says, and nothing else.
pub(crate) struct Generic;

impl Strategy for Generic {}
