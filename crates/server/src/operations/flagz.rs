//! `/flagz`: the flags that the server was started with, as text for people or as an object of `config.k8s.io`
//! (<https://kubernetes.io/docs/reference/instrumentation/zpages/>).

use std::collections::BTreeMap;

use serde::Serialize;

use super::zpage::Page;

/// The content of the page: each flag with its value.
#[derive(Serialize)]
pub(super) struct Flagz<'a> {
    pub(super) flags: &'a BTreeMap<String, String>,
}

impl Page for Flagz<'_> {
    const KIND: &'static str = "Flagz";

    fn content(&self) -> impl Serialize {
        self
    }

    fn text(&self) -> String {
        self.flags
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
        let pairs = [("v", "0"), ("audit-log-path", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let flags = pairs.into_iter().collect();
        assert_eq!(Flagz { flags: &flags }.text(), "audit-log-path: \nv: 0\n");
    }
}
