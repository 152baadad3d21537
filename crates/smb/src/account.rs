//! Accounts: what a group of shares and its users have in common, here how many channels their sessions may
//! have.
//!
//! Nothing in SMB names an account. At NEGOTIATE a client may say by which name it found the server, and that
//! name may be an account's; who logs on is only known at SESSION_SETUP. So [`ServerConfig::offers_multichannel`]
//! answers NEGOTIATE by what is known then, and [`ServerConfig::channel_rule`] decides for the session.

use crate::config::ServerConfig;
use crate::limits::MAX_CHANNELS;

/// One account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountConfig {
    /// Its name, as shown.
    pub name: String,
    /// The users of its shares; `*` is everyone who can log on.
    pub users: Vec<String>,
    /// Whether a session of its users may have more than one connection.
    pub multichannel: bool,
    /// Channels that such a session may have.
    pub max_channels: usize,
}

impl AccountConfig {
    fn lists(&self, user: &str) -> bool {
        self.users.iter().any(|name| name.eq_ignore_ascii_case(user))
    }
}

/// How many connections a session may have, and who says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelRule {
    /// The accounts that decided; none when the server's own settings did.
    pub accounts: Vec<String>,
    /// Whether it may have more than one.
    pub multichannel: bool,
    /// How many it may have then.
    pub max_channels: usize,
}

impl ChannelRule {
    /// How many connections that makes.
    #[must_use]
    pub fn most(&self) -> usize {
        if self.multichannel { self.max_channels } else { 1 }
    }
}

impl ServerConfig {
    /// The account that a client means by the name under which it found the server: `team` or
    /// `team.example.net` for the account `team`.
    #[must_use]
    pub fn account_of(&self, server_name: &str) -> Option<&AccountConfig> {
        let label = server_name.split('.').next().unwrap_or_default();
        let named = |account: &&AccountConfig| {
            account.name.eq_ignore_ascii_case(label) || account.name.eq_ignore_ascii_case(server_name)
        };
        self.accounts.iter().find(named)
    }

    /// Whether a client is told that it may open several connections to one session. As long as nobody knows
    /// whose session it will be, one account that allows it is enough.
    #[must_use]
    pub fn offers_multichannel(&self, account: Option<&str>) -> bool {
        match account.and_then(|name| self.account_of(name)) {
            Some(account) => account.multichannel,
            None => self.multichannel || self.accounts.iter().any(|account| account.multichannel),
        }
    }

    /// What counts for a session of `user` that came by the name of `account`, if that is known. Else it is
    /// the account that is named like the user, else those that list the user, else those that are open to
    /// everyone, else the server's own settings. Where several accounts fit, the widest rule counts.
    #[must_use]
    pub fn channel_rule(&self, account: Option<&str>, user: &str) -> ChannelRule {
        let open = |account: &&AccountConfig| account.lists("*");
        let named = account.and_then(|name| self.account_of(name));
        let named = named.filter(|account| account.lists(user) || open(account));
        let own = || self.accounts.iter().find(|account| account.name.eq_ignore_ascii_case(user));
        let mut deciding: Vec<&AccountConfig> = named.or_else(own).into_iter().collect();
        if deciding.is_empty() {
            deciding = self.accounts.iter().filter(|account| account.lists(user)).collect();
        }
        if deciding.is_empty() {
            deciding = self.accounts.iter().filter(open).collect();
        }
        let widest = deciding.iter().filter(|account| account.multichannel);
        let widest = widest.map(|account| account.max_channels).max();
        let (multichannel, max_channels) = match (widest, deciding.is_empty()) {
            (Some(most), _) => (true, most),
            (None, false) => (false, 1),
            (None, true) => (self.multichannel, self.max_channels),
        };
        ChannelRule {
            accounts: deciding.iter().map(|account| account.name.clone()).collect(),
            multichannel,
            max_channels: max_channels.clamp(1, MAX_CHANNELS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Encryption, Signing};
    use smb_wire::Guid;
    use smb_wire::negotiate::Dialect;
    use volume::security::Sid;

    fn account(name: &str, users: &[&str], max_channels: Option<usize>) -> AccountConfig {
        AccountConfig {
            name: name.to_owned(),
            users: users.iter().map(|user| (*user).to_owned()).collect(),
            multichannel: max_channels.is_some(),
            max_channels: max_channels.unwrap_or(32),
        }
    }

    fn server(multichannel: bool, accounts: Vec<AccountConfig>) -> ServerConfig {
        ServerConfig {
            guid: Guid::ZERO,
            name: String::new(),
            dns_name: String::new(),
            machine_sid: Sid::new(5, &[21, 1, 2, 3]),
            min_dialect: Dialect::Smb202,
            max_dialect: Dialect::Smb311,
            signing: Signing::Offered,
            encryption: Encryption::Enabled,
            max_connections: 1,
            anonymous: false,
            smbtorture_controls: false,
            multichannel,
            max_channels: 4,
            accounts,
        }
    }

    #[test]
    fn negotiate_offers_what_the_account_allows_or_any_while_it_is_not_known() {
        let mixed = server(false, vec![account("fast", &["ann"], Some(8)), account("slow", &["bob"], None)]);
        assert!(mixed.offers_multichannel(None) && mixed.offers_multichannel(Some("192.0.2.1")));
        assert!(mixed.offers_multichannel(Some("FAST.example.net")));
        assert!(
            !mixed.offers_multichannel(Some("slow.example.net")) && !mixed.offers_multichannel(Some("Slow"))
        );
        assert!(!server(false, vec![account("slow", &["bob"], None)]).offers_multichannel(None));
        assert!(server(true, Vec::new()).offers_multichannel(None));
    }

    #[test]
    fn the_session_counts_by_its_account_in_the_order_of_what_is_known() {
        let config = server(
            true,
            vec![
                account("fast", &["ann", "bob"], Some(8)),
                account("wide", &["ann"], Some(16)),
                account("slow", &["bob", "eve"], None),
                account("eve", &["ann"], Some(2)),
            ],
        );
        let rule = |name: Option<&str>, user: &str| {
            let rule = config.channel_rule(name, user);
            (rule.accounts.join(","), rule.multichannel.then_some(rule.max_channels))
        };
        let told = |accounts: &str, most: Option<usize>| (accounts.to_owned(), most);
        assert_eq!(rule(Some("slow.example.net"), "Bob"), told("slow", None));
        // The name is not theirs to use.
        assert_eq!(rule(Some("slow"), "ann"), told("fast,wide,eve", Some(16)));
        assert_eq!(rule(None, "EVE"), told("eve", Some(2)));
        assert_eq!(rule(None, "bob"), told("fast,slow", Some(8)));
        assert_eq!(rule(None, "zoe"), told("", Some(4)));
        let open = server(true, vec![account("all", &["*"], None), account("own", &["ann"], Some(99))]);
        assert_eq!(open.channel_rule(None, "zoe").accounts, ["all"]);
        assert!(!open.channel_rule(None, "zoe").multichannel);
        assert_eq!(open.channel_rule(None, "ann").max_channels, MAX_CHANNELS);
    }
}
