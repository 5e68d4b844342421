//! What an apply costs in ownership alone: entries read, configuration merged, entries written.

fn main() {}
