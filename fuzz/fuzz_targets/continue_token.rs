#![no_main]

// The same module as in the server, with the two names that it imports from there.
#[allow(dead_code)]
#[path = "../../crates/server/src/read/continue_token.rs"]
mod continue_token;

use base64::Engine as _;
use continue_token::ContinueToken;

mod http {
    pub(crate) struct ApiError;

    impl ApiError {
        pub(crate) fn bad_request(_why: impl Into<String>) -> Self {
            Self
        }
    }

    pub(crate) mod options {
        pub(crate) struct ListOptions {
            pub(crate) continue_token: String,
            pub(crate) resource_version: String,
        }
    }
}

fn read(continue_token: String) -> Option<ContinueToken> {
    let options = http::options::ListOptions {
        continue_token,
        resource_version: String::new(),
    };
    ContinueToken::read(&options).unwrap_or_default()
}

// A token that can be read stays below the prefix of its list and is read from its own text as the same.
fn check(text: String) {
    let Some(token) = read(text) else { return };
    let start = std::str::from_utf8(token.start()).unwrap();
    assert!(start.split('/').all(|segment| !matches!(segment, "" | "." | "..")));
    let newest = read(token.inconsistent()).unwrap();
    assert_eq!((newest.revision(), newest.start()), (None, token.start()));
    assert_eq!(read(token.text()).unwrap(), token);
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check(text.to_owned());
    }
    check(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes));
});
