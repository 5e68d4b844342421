//! Replacement for the binaries of envtest (<https://book.kubebuilder.io/reference/envtest>).
//!
//! `holdfast envtest` creates a directory of assets: links to this binary with the names `kube-apiserver` and `etcd`,
//! whose roles it then plays. The `etcd` stores nothing. It tells the `kube-apiserver` that connects to it the
//! directory that both were given. Objects are kept there in the embedded store and disappear with the environment.

mod api_server;
mod assets;
mod etcd;

use std::ffi::OsString;
use std::path::Path;

pub(crate) use api_server::{adapt, command_line};
pub(crate) use assets::{EnvtestFlags, run};
pub(crate) use etcd::run as run_etcd;

/// Role of the binary, selected by the name with which it is invoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// `kube-apiserver`: a server with that program's defaults.
    ApiServer,
    /// `etcd`: the stub of etcd.
    Etcd,
}

impl Role {
    /// Returns the role for the name with which the binary was invoked; `None` for its own name.
    pub(crate) fn from_program(program: Option<&OsString>) -> Option<Self> {
        match Path::new(program?).file_name()?.to_str()? {
            "kube-apiserver" => Some(Self::ApiServer),
            "etcd" => Some(Self::Etcd),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::ApiServer => "kube-apiserver",
            Self::Etcd => "etcd",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_the_name_of_the_program() {
        let role = |program: &str| Role::from_program(Some(&program.into()));
        assert_eq!(role("/assets/kube-apiserver"), Some(Role::ApiServer));
        assert_eq!(role("etcd"), Some(Role::Etcd));
        assert_eq!(role("/etcd/holdfast"), None);
        assert_eq!(Role::from_program(None), None);
    }
}
