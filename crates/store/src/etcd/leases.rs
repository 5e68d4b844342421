//! Leases: values that expire, such as events, are attached to a lease that many keys share.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::client::{CallError, Client};

/// Maximum extension of a lease beyond the requested time, in percent of that time, so that keys can share it.
const REUSE_PERCENT: u32 = 5;
/// Maximum number of keys of one lease.
const MAX_LEASE_KEYS: usize = 1000;
const GRANT_TIMEOUT: Duration = Duration::from_secs(10);

/// The time to live of leased keys, and the most recently granted lease.
pub(crate) struct Leases {
    life: Duration,
    reuse: Duration,
    last: Mutex<Option<Lease>>,
}

#[derive(Clone, Debug)]
struct Lease {
    id: i64,
    end: Instant,
    keys: usize,
}

impl Leases {
    /// Creates leases for keys with the time to live `life`; unlimited if it is zero.
    pub(crate) fn new(life: Duration, reuse: Duration) -> Self {
        Self {
            life,
            reuse,
            last: Mutex::new(None),
        }
    }

    /// Returns the lease for another key; 0 if it does not expire.
    pub(crate) async fn next(&self, client: &Client) -> Result<i64, CallError> {
        if self.life.is_zero() {
            return Ok(0);
        }
        let mut last = self.last.lock().await;
        let now = Instant::now();
        let (life, longer) = (self.life, self.longer());
        if let Some(lease) = last.as_mut().filter(|lease| lease.serves(now, life, longer)) {
            lease.keys += 1;
            return Ok(lease.id);
        }
        let seconds = i64::try_from((life + longer).as_secs()).unwrap_or(i64::MAX).max(1);
        if let Some(full) = &*last {
            client.observer().leased(full.keys);
        }
        let granted = client.grant(seconds, GRANT_TIMEOUT).await?;
        *last = Some(Lease {
            id: granted.id,
            end: now + life + longer,
            keys: 1,
        });
        Ok(granted.id)
    }

    /// Returns the extension of a lease beyond the requested time.
    fn longer(&self) -> Duration {
        Duration::from_secs((self.life * REUSE_PERCENT / 100).as_secs()).min(self.reuse)
    }
}

impl Lease {
    /// Returns true if another key with the time to live `life` can be attached to this lease.
    fn serves(&self, now: Instant, life: Duration, longer: Duration) -> bool {
        now + life < self.end && now + life + longer > self.end && self.keys < MAX_LEASE_KEYS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_is_shared_only_within_its_time_limits() {
        let second = Duration::from_secs(1);
        let life = 3600 * second;
        let longer = Leases::new(life, 60 * second).longer();
        assert_eq!(longer, 60 * second);
        assert_eq!(Leases::new(100 * second, 60 * second).longer(), 5 * second);
        let now = Instant::now();
        let mut lease = Lease {
            id: 1,
            end: now + life + longer,
            keys: 1,
        };
        assert!(lease.serves(now + second, life, longer));
        assert!(!lease.serves(now + longer, life, longer));
        // A lease for longer times to live is not used for short ones.
        assert!(!lease.serves(now + second, 100 * second, 5 * second));
        lease.keys = MAX_LEASE_KEYS;
        assert!(!lease.serves(now + second, life, longer));
    }
}
