//! A bounded number of something for all clients, of which each address has at most a share.

use std::collections::HashMap;
use std::net::IpAddr;

/// The numbers that are taken. `None` stands for the server itself, which has no share.
#[derive(Debug)]
pub(crate) struct Quota {
    limit: usize,
    share: usize,
    taken: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The reason why nothing is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuotaExceeded {
    /// All is taken.
    Limit,
    /// The address has its share.
    Share,
}

impl Quota {
    pub(crate) fn new(limit: usize, share: usize) -> Quota {
        Quota { limit, share, taken: 0, by_address: HashMap::new() }
    }

    pub(crate) fn take(&mut self, from: Option<IpAddr>) -> Result<(), QuotaExceeded> {
        if self.taken >= self.limit {
            return Err(QuotaExceeded::Limit);
        }
        if let Some(from) = from {
            let own = self.by_address.entry(from).or_default();
            if *own >= self.share {
                return Err(QuotaExceeded::Share);
            }
            *own += 1;
        }
        self.taken += 1;
        Ok(())
    }

    pub(crate) fn give_back(&mut self, from: Option<IpAddr>) {
        self.taken = self.taken.saturating_sub(1);
        let Some(from) = from else { return };
        if let Some(own) = self.by_address.get_mut(&from) {
            *own -= 1;
            if *own == 0 {
                self.by_address.remove(&from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_share_and_leaves_the_rest_to_others() {
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|text| Some(text.parse::<IpAddr>().unwrap()));
        let mut quota = Quota::new(5, 2);
        assert_eq!([one, one, one].map(|from| quota.take(from)), [Ok(()), Ok(()), Err(QuotaExceeded::Share)]);
        assert_eq!(quota.take(other), Ok(()));
        assert_eq!(
            [None, None, None].map(|from| quota.take(from)),
            [Ok(()), Ok(()), Err(QuotaExceeded::Limit)]
        );
        quota.give_back(one);
        assert_eq!((quota.take(other), quota.take(other)), (Ok(()), Err(QuotaExceeded::Limit)));
        for from in [one, other, other, None, None] {
            quota.give_back(from);
        }
        assert!(quota.by_address.is_empty() && quota.taken == 0);
    }
}
