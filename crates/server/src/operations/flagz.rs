//! `/flagz`: the flags that the server was started with, as text for people or as an object of `config.k8s.io`
//! (<https://kubernetes.io/docs/reference/instrumentation/zpages/>).

use std::collections::BTreeMap;

use serde::Serialize;

use super::zpage::Page;

/// What the page tells: each flag with its value.
pub(super) struct Flagz<'a>(pub(super) &'a BTreeMap<String, String>);

/// The flags as an object holds them.
#[derive(Serialize)]
pub(super) struct Flags<'a> {
    flags: &'a BTreeMap<String, String>,
}

impl Page for Flagz<'_> {
    const KIND: &'static str = "Flagz";

    type Content<'a>
        = Flags<'a>
    where
        Self: 'a;

    fn content(&self) -> Flags<'_> {
        Flags { flags: self.0 }
    }

    fn text(&self) -> String {
        self.0
            .iter()
            .map(|(name, value)| format!("{name}: {value}\n"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_has_a_line() {
        let flags = [("v", "0"), ("audit-log-path", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(Flagz(&flags.into_iter().collect()).text(), "audit-log-path: \nv: 0\n");
    }
}
