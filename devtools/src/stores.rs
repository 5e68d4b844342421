//! Storage backends of the servers that commands start.

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use test_support::etcd::Etcd;

/// The engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// A file in the data directory.
    #[default]
    Embedded,
    /// An etcd cluster, for the duration of the command.
    Etcd,
}

/// A store for servers.
pub(crate) struct Backing {
    etcd: Option<Etcd>,
    flags: Vec<String>,
}

impl Backing {
    /// Starts a store of that kind; if it is etcd, with this number of members.
    pub(crate) fn start(kind: StoreKind, members: usize) -> Result<Self> {
        let etcd = match kind {
            StoreKind::Embedded => None,
            StoreKind::Etcd => Some(start_etcd(members).context("cannot start etcd")?),
        };
        let flags = etcd.iter().map(|etcd| format!("--etcd-servers={}", etcd.endpoints()));
        Ok(Self {
            flags: flags.collect(),
            etcd,
        })
    }

    /// Returns the flags of a server on it, with these.
    pub(crate) fn flags<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let own = self.flags.iter().map(String::as_str);
        own.chain(more.iter().copied()).collect()
    }

    /// Returns the etcd, if it is one.
    pub(crate) fn etcd(&mut self) -> Option<&mut Etcd> {
        self.etcd.as_mut()
    }
}

fn start_etcd(members: usize) -> std::io::Result<Etcd> {
    Etcd::start(test_support::etcd::Settings {
        members,
        ..Default::default()
    })
}
