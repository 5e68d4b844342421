//! The documents against those of the reference, and what clients look for in them.

use std::sync::Arc;

use holdfast_value::{Limits, Value, json};

use super::*;
use crate::schema::tests::{builtin, shared};
use crate::{GroupVersion, Registry};
