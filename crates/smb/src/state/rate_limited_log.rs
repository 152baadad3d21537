//! A rate-limited log of requests that no client should send, or that do harm. Each gets a line, up to a
//! limit for each address. A hostile client may send many such requests, and some clients repeat theirs
//! without pause.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use parking_lot::Mutex;

use crate::limits::{LOG_PERIOD_NS, MAX_LOG_LINES, MAX_LOGGED_ADDRESSES};

/// The logged lines by client address. A limit for each connection would not do, since a client may open one
/// after the other.
#[derive(Debug, Default)]
pub(crate) struct RateLimitedLog(Mutex<HashMap<IpAddr, LoggedLines>>);

/// The lines about one address in the current period.
#[derive(Debug, Clone, Copy)]
struct LoggedLines {
    since_ns: u64,
    lines: u32,
    left_out: u64,
}

impl LoggedLines {
    fn is_over(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.since_ns) >= LOG_PERIOD_NS
    }
}

/// The entry for addresses that find no space in the table.
const ALL_OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

impl RateLimitedLog {
    /// Whether one more line about an address may be written. The value is the number of lines that were
    /// left out before it.
    pub fn admit(&self, from: IpAddr, now_ns: u64) -> Option<u64> {
        let mut all = self.0.lock();
        if all.len() >= MAX_LOGGED_ADDRESSES && !all.contains_key(&from) {
            all.retain(|_, lines| !lines.is_over(now_ns));
        }
        let is_known = all.len() < MAX_LOGGED_ADDRESSES || all.contains_key(&from);
        let fresh = LoggedLines { since_ns: now_ns, lines: 0, left_out: 0 };
        let lines = all.entry(if is_known { from } else { ALL_OTHERS }).or_insert(fresh);
        let mut left_out = 0;
        if lines.is_over(now_ns) {
            left_out = lines.left_out;
            *lines = fresh;
        }
        if lines.lines == MAX_LOG_LINES {
            lines.left_out += 1;
            return None;
        }
        lines.lines += 1;
        Some(left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_bounded_number_of_lines_and_is_told_what_was_left_out() {
        let log = RateLimitedLog::default();
        let [one, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let admit = |from, at| log.admit(from, at);
        assert_eq!((0..50).filter_map(|at| admit(one, at)).collect::<Vec<_>>(), [0; MAX_LOG_LINES as usize]);
        assert_eq!(admit(other, 50), Some(0));
        assert_eq!(admit(one, LOG_PERIOD_NS - 1), None);
        assert_eq!(admit(one, LOG_PERIOD_NS), Some(51 - u64::from(MAX_LOG_LINES)));
        assert_eq!(admit(one, LOG_PERIOD_NS), Some(0));
    }

    #[test]
    fn many_addresses_have_what_is_left_together() {
        let log = RateLimitedLog::default();
        let admit = |n: usize, at| log.admit(IpAddr::from((n as u32 + 1).to_be_bytes()), at).is_some();
        assert!((0..MAX_LOGGED_ADDRESSES).all(|n| admit(n, 0)));
        let more = (0..1000).filter(|n| admit(MAX_LOGGED_ADDRESSES + n, 0)).count();
        assert_eq!(more, MAX_LOG_LINES as usize);
        assert!(log.0.lock().len() <= MAX_LOGGED_ADDRESSES + 1);
        // Entries of long silent addresses are removed for new ones.
        assert!(admit(MAX_LOGGED_ADDRESSES * 2, LOG_PERIOD_NS));
        assert_eq!(log.0.lock().len(), 1);
    }
}
