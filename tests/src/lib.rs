#![forbid(unsafe_code)]
//! What the tests that start the real binary share.
