//! The rules in code that validation tags name: an enum for each set, generated from the tags.
//!
//! A rule that the tags name and the code lacks does not compile, since the code matches all variants. A rule of the code
//! that no tag names does not compile either, since it has no variant, and a set without code is an enum that is never
//! used.

#![deny(dead_code)]

use holdfast_schema::{RuleId, RuleSet};

include!(env!("RULE_ENUMS"));
