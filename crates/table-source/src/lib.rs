#![forbid(unsafe_code)]
//! Tables of facts in TOML, read by build scripts.
//!
//! People and generators write the tables in TOML, which editors know and which quotes texts. The server reads lines, which it parses
//! faster at each start. The functions of this crate make these lines in the build, and report an error with its file and line:
//! `crates/kind-tables/tables/types.toml:12: unknown key …`.
//!
//! ```
//! use holdfast_table_source::{Source, type_lines};
//!
//! let text = r#"
//! [packages]
//! "a.v1" = "io.example.a.v1"
//!
//! ["a.v1.Port"]
//! fields = [{ name = "number", type = "int32", proto = 1, required = true }]
//! "#;
//! let lines = type_lines(&Source::new("types.toml", text))?;
//! assert_eq!(lines, "package a.v1 io.example.a.v1\n\ntype a.v1.Port struct\n  number int32 1 required\n");
//! # Ok::<(), String>(())
//! ```

mod go_types;
mod resources;
mod roles;
mod source;
mod types;

pub use go_types::go_type_lines;
pub use resources::resource_lines;
pub use roles::role_lines;
pub use source::{Source, Table, Value};
pub use types::type_lines;
