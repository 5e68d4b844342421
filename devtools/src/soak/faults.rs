//! Injected faults of the etcd below the servers.

use std::time::Duration;

use anyhow::{Context as _, Result};
use conformance::Server;
use serde_json::Value;
use test_support::Link;
use test_support::etcd::Etcd;

use super::random::Random;

/// All faults.
const ALL: [Fault; 10] = [
    Fault::None,
    Fault::LeaderKilled,
    Fault::MemberKilled,
    Fault::LeaderPaused,
    Fault::Cut,
    Fault::Stalled,
    Fault::Delayed,
    Fault::Compacted,
    Fault::CompactedUnseen,
    Fault::NoSpace,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    None,
    /// The leader is killed immediately, and started again.
    LeaderKilled,
    /// Another member is killed immediately, and started again.
    MemberKilled,
    /// The leader does not respond for a while.
    LeaderPaused,
    /// The connections of one server to all members break, and new ones fail.
    Cut,
    /// The connections of one server to all members transfer nothing.
    Stalled,
    /// The connections of one server to all members delay everything.
    Delayed,
    /// The whole history is compacted.
    Compacted,
    /// The history is compacted while one server is cut off, before it received the events in between.
    CompactedUnseen,
    /// The members report full disks and reject writes.
    NoSpace,
}

impl Fault {
    pub(super) fn choose(random: &mut Random) -> Self {
        random.one_of(&ALL).copied().unwrap_or(Self::None)
    }

    /// Causes the fault. Returns the affected member for [`Fault::mend`].
    pub(super) fn begin(self, etcd: &mut Etcd, links: &[Link], random: &mut Random) -> Result<usize> {
        let leader = etcd.leader().unwrap_or_default();
        let other = (leader + 1 + random.below(2) as usize) % etcd.size();
        match self {
            Self::None => {}
            Self::LeaderKilled => etcd.kill(leader)?,
            Self::MemberKilled => {
                etcd.kill(other)?;
                return Ok(other);
            }
            Self::LeaderPaused => etcd.pause(leader)?,
            Self::Cut => links.iter().for_each(Link::cut),
            Self::Stalled | Self::CompactedUnseen => links.iter().for_each(Link::stall),
            Self::Delayed => links.iter().for_each(|link| link.delay(Duration::from_millis(40))),
            Self::Compacted => compact(etcd)?,
            Self::NoSpace => alarm(etcd, "ACTIVATE")?,
        }
        Ok(leader)
    }

    /// Removes the fault.
    pub(super) fn mend(self, member: usize, etcd: &mut Etcd, links: &[Link]) -> Result<()> {
        match self {
            Self::LeaderKilled | Self::MemberKilled => etcd.revive(member)?,
            Self::LeaderPaused => etcd.resume(member)?,
            Self::Cut | Self::Stalled | Self::Delayed => links.iter().for_each(Link::mend),
            Self::CompactedUnseen => {
                compact(etcd)?;
                // Bytes queued in the link are lost: the server has to request the compacted history again.
                links.iter().for_each(Link::cut);
                links.iter().for_each(Link::mend);
            }
            Self::NoSpace => alarm(etcd, "DEACTIVATE")?,
            Self::None | Self::Compacted => {}
        }
        Ok(())
    }
}

/// Compacts all that came before now.
fn compact(etcd: &Etcd) -> Result<()> {
    let body = etcd.ask(0, "/v3/kv/range", r#"{"key": "YQ=="}"#)?;
    let read: Value = serde_json::from_str(&body)?;
    let revision: i64 = read
        .pointer("/header/revision")
        .and_then(Value::as_str)
        .context("etcd has no revision")?
        .parse()?;
    etcd.ask(0, "/v3/kv/compaction", &format!(r#"{{"revision": {revision}}}"#))?;
    Ok(())
}

/// Raises or ends the alarm that a member raises when its disk is full.
fn alarm(etcd: &Etcd, action: &str) -> Result<()> {
    let status: Value = serde_json::from_str(&etcd.ask(0, "/v3/maintenance/status", "{}")?)?;
    let member = status
        .pointer("/header/member_id")
        .and_then(Value::as_str)
        .context("etcd does not say who it is")?;
    let request = format!(r#"{{"action": "{action}", "memberID": "{member}", "alarm": "NOSPACE"}}"#);
    etcd.ask(0, "/v3/maintenance/alarm", &request)?;
    Ok(())
}

/// Second server on the same etcd, with connections of its own.
pub(super) struct SecondServer {
    pub(super) server: Server,
    /// The connections of the first server.
    pub(super) links: Vec<Link>,
}
