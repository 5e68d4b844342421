#![allow(clippy::unwrap_used, reason = "an error fails the test")]

use super::*;

const ORDER: [&str; 4] = ["http", "objects", "read", "api"];

/// A `lib.rs` with re-exports in every form.
const ROOT: &str = "
//! pub use http::Commented;
mod http;
pub mod objects;
mod read { pub use other::Inner; }
mod api;
pub use api::{Handler, router::{self, Route as ApiRoute}};
pub use crate::http::ApiError;
pub use self::objects::Entry;
use api::context::Context;
pub use smol_str::SmolStr;
#[macro_export]
macro_rules! verify { () => { use api::Inside; } }
pub fn start() {}
";

fn layers() -> Layers<'static> {
    Layers::new("", &ORDER).macros(&[("verify_signatures", "http")])
}

fn violations_of(file: &str, source: &str) -> Vec<String> {
    layers().file_violations(file, source, &root_origins(&tokens(ROOT)))
}

#[test]
fn upward_import_is_found_in_every_form() {
    for source in [
        "use crate::api::context::Context;",
        "use crate::{objects::{self, Entry}, api};",
        "use crate::{\n    objects, // crate::write\n    api::context,\n};",
        "fn f() { let _ = crate::api::handle(); }",
        "use super::super::api::handle;",
        "const TEXT: &str = \"\\\"\"; use crate::api::handle;",
        "fn f<'a>(a: &'a str) -> char { '\\'' } use crate::api::handle;",
        "const TEXT: &str = r#\"\"a\"#; use crate::api::handle;",
        "mod tests { use super::*; fn f() { super::super::super::api::handle(); } }",
        "mod tests { } use super::super::api::handle;",
    ] {
        assert_eq!(
            violations_of("read/list.rs", source),
            ["read/list.rs imports api, which comes after read"],
            "{source}"
        );
    }
}

#[test]
fn reexported_name_counts_as_import_of_its_module() {
    for name in ["Handler", "router", "ApiRoute", "Context"] {
        let expected = format!("read.rs imports crate::{name} of api, which comes after read");
        for path in [format!("crate::{name}"), format!("super::{name}")] {
            assert_eq!(violations_of("read.rs", &format!("use {path};")), [&*expected]);
            assert_eq!(
                violations_of("read.rs", &format!("fn f() {{ {path}::g() }}")),
                [&*expected]
            );
        }
        assert_eq!(violations_of("api.rs", &format!("use crate::{name};")), [""; 0]);
    }
    assert_eq!(
        violations_of("read.rs", "use crate::{ApiError, Entry, SmolStr};"),
        [""; 0]
    );
}

#[test]
fn name_that_no_module_defines_is_a_violation() {
    for name in ["start", "Route", "Commented", "Inner", "Inside", "*"] {
        assert_eq!(
            violations_of("read.rs", &format!("use crate::{{http, {name}}}; use crate::{name};")),
            [format!("read.rs imports crate::{name}, which is in no layer")]
        );
    }
}

#[test]
fn downward_import_or_text_is_no_violation() {
    for source in [
        "use crate::{http::ApiError, objects, read::items::Items};",
        "use super::items::Items; use super::super::objects::Entry;",
        "// use crate::api;\n/* crate::api */ /// [`crate::api`]",
        "const TEXT: &str = \"crate::api\"; const RAW: &str = r\"crate::api\";",
        "mod tests { use super::super::items; fn f() { { } super::super::api(); } }",
        "use other_crate::api; crate::verify_signatures!();",
        "pub(crate) fn api() {}",
    ] {
        assert_eq!(violations_of("read/list.rs", source), [""; 0], "{source}");
    }
}

#[test]
fn allowed_import_must_still_exist() {
    let allowed = [("read/list.rs", "api"), ("read/items.rs", "api")];
    let layers = layers().allow(&allowed);
    let violations = |source| layers.file_violations("read/list.rs", source, &root_origins(&tokens(ROOT)));
    assert_eq!(violations("use crate::api;"), [""; 0]);
    assert_eq!(violations("use crate::Handler;"), [""; 0]);
    assert_eq!(
        violations("use crate::http;"),
        ["read/list.rs no longer imports api: allow it no longer"]
    );
}

#[test]
fn module_for_tests_may_be_imported_by_all() {
    let layers = layers().for_tests(&["api"]);
    let violations = |file, source| layers.file_violations(file, source, &root_origins(&tokens(ROOT)));
    assert_eq!(violations("http.rs", "use crate::api;"), [""; 0]);
    assert_eq!(
        violations("http.rs", "use crate::read;"),
        ["http.rs imports read, which comes after http"]
    );
}

#[test]
fn whole_crate_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let sources = folder.path().join("src");
    fs::create_dir_all(sources.join("read/list")).unwrap();
    for (file, source) in [
        ("lib.rs", ROOT),
        ("http.rs", "use crate::objects;"),
        ("objects.rs", "use crate::http::ApiError;"),
        ("read/mod.rs", "use crate::Handler;"),
        (
            "read/list/pages.rs",
            "use super::super::super::objects; use crate::api;",
        ),
        ("read/tables.txt", "use crate::api;"),
        ("extra.rs", ""),
    ] {
        fs::write(sources.join(file), source).unwrap();
    }
    assert_eq!(
        Layers::new(folder.path(), &ORDER).violations().unwrap(),
        [
            "api has no module",
            "extra.rs is in no layer",
            "http.rs imports objects, which comes after http",
            "read/list/pages.rs imports api, which comes after read",
            "read/mod.rs imports crate::Handler of api, which comes after read",
        ]
    );
}

#[test]
#[should_panic = "a.rs is in no layer"]
fn check_panics_with_the_violations() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("src/lib.rs"), "mod a;").unwrap();
    fs::write(folder.path().join("src/a.rs"), "").unwrap();
    Layers::new(folder.path(), &[]).check();
}
