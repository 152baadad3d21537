//! Accounts: what a group of shares and its users have in common, what it demands of who comes, and how many
//! channels their sessions may have.
//!
//! Nothing in SMB names an account. At NEGOTIATE a connection may have come to an address that is an account's own, or
//! the client may say by which name it found the server, which may be an account's ([`Known`]); who logs on is only known at
//! SESSION_SETUP. So [`ServerConfig::offers_multichannel`], [`ServerConfig::of_account`] and [`ServerConfig::ciphers`] answer
//! NEGOTIATE by what is known then, and [`ServerConfig::standing`] decides for the session.

mod demands;
mod endpoint;

use std::net::IpAddr;

use auth::crypto::Cipher;

pub use demands::Demands;
pub use endpoint::{Endpoint, ShareEndpoint};

use crate::config::{Encryption, ServerConfig, Signing, same_name};
use crate::keys::Protection;
use crate::limits::MAX_CHANNELS;

/// Ciphers in the order in which we like them.
const CIPHERS: [Cipher; 4] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::Aes128Ccm, Cipher::Aes256Ccm];

/// One account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountConfig {
    /// Its name, as shown.
    pub name: String,
    /// The users of its shares; `*` is everyone who can log on.
    pub users: Vec<String>,
    /// Whether a session of its users may have more than one connection.
    pub multichannel: bool,
    /// Channels that such a session may have.
    pub max_channels: usize,
    /// What a session must bring along to reach its shares.
    pub demands: Demands,
    /// Addresses of this server that are its own.
    pub endpoint: Vec<IpAddr>,
}

/// What is known of a connection before anybody has logged on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The account, by name; none: the address is one of a share of none.
    pub account: Option<String>,
    /// Whose own address the connection came to; none: the client named the account.
    pub endpoint: Option<Endpoint>,
}

/// How somebody comes who has proved who they are.
#[derive(Debug, Clone, Copy)]
pub struct Comes<'a> {
    /// How the connection is protected.
    pub protection: Protection,
    /// Whether the client has said that it signs, or was told to.
    pub signs: bool,
    /// The account with whose key they have logged on; none: with a password of their own.
    pub key_of: Option<&'a str>,
}

/// What is settled about a session by its account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// How many connections it may have.
    pub channels: ChannelRule,
    /// The account whose shares it is held to; none: it may go wherever its user may.
    pub account: Option<String>,
    /// Whether it was logged on with the account's key: then all of its shares are in reach, and nothing else.
    pub by_key: bool,
    /// Whose own address its first connection came to.
    pub endpoint: Option<Endpoint>,
    /// Whether it must sign or seal, since all that it can reach demands that.
    pub signs: bool,
    /// Whether it must seal, likewise.
    pub seals: bool,
}

impl Standing {
    /// Why shares of `account`, or of none, are out of its reach whatever they demand, if they are.
    #[must_use]
    pub fn holds_off(&self, account: Option<&str>) -> Option<String> {
        let own = self.account.as_deref()?;
        match account {
            Some(account) if same_name(own, account) => None,
            Some(account) => {
                Some(format!("the share is of account `{account}`, the session of account `{own}`"))
            }
            None if self.by_key => Some(format!(
                "the share is of no account, and the key of account `{own}` opens its own shares alone"
            )),
            None => None,
        }
    }
}

impl AccountConfig {
    fn lists(&self, user: &str) -> bool {
        lists(&self.users, user)
    }

    fn admits(&self, user: &str) -> bool {
        self.lists(user) || self.lists("*")
    }

    /// Why who comes so does not meet its demands, if they do not.
    fn unmet(&self, comes: Comes<'_>) -> Option<String> {
        let why = self.demands.unmet(comes)?;
        Some(format!("account `{}` {why}", self.name))
    }

    fn check(&self, comes: Comes<'_>) -> Result<(), String> {
        self.unmet(comes).map_or(Ok(()), Err)
    }
}

fn lists(users: &[String], user: &str) -> bool {
    users.iter().any(|name| same_name(name, user))
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
    /// `team.example.net` for the account `team`. An account of just that name goes before one of its first label.
    #[must_use]
    pub fn account_of(&self, server_name: &str) -> Option<&AccountConfig> {
        let label = server_name.split('.').next().unwrap_or_default();
        self.account(server_name).or_else(|| self.account(label))
    }

    /// The account under this name.
    #[must_use]
    pub fn account(&self, name: &str) -> Option<&AccountConfig> {
        self.accounts.iter().find(|account| same_name(&account.name, name))
    }

    fn known_account(&self, known: Option<&Known>) -> Option<&AccountConfig> {
        self.account(known?.account.as_deref()?)
    }

    /// The settings for a connection of a known account: the server's, and what the account demands besides.
    #[must_use]
    pub fn of_account(&self, known: &Known) -> ServerConfig {
        let mut config = self.clone();
        let Some(account) = self.known_account(Some(known)) else { return config };
        let demands = &account.demands;
        if let Some(dialect) = demands.min_dialect.filter(|own| own.get() > config.min_dialect.get()) {
            config.min_dialect = dialect;
        }
        if demands.signs() {
            config.signing = Signing::Required;
        }
        match demands.encryption {
            Some(stricter @ (Encryption::Required | Encryption::Off))
                if config.encryption == Encryption::Enabled =>
            {
                config.encryption = stricter;
            }
            _ => {}
        }
        config
    }

    /// Ciphers in the order in which one that the client has is taken: those of a known account, else first those that the
    /// most accounts take.
    #[must_use]
    pub fn ciphers(&self, known: Option<&Known>) -> Vec<Cipher> {
        let mut ciphers = CIPHERS.to_vec();
        match self.known_account(known) {
            Some(account) => ciphers.retain(|&cipher| account.demands.takes(cipher)),
            // The order among equals stays.
            None => ciphers.sort_by_key(|&cipher| {
                self.accounts.iter().filter(|account| !account.demands.takes(cipher)).count()
            }),
        }
        ciphers
    }

    /// What counts for a session of `user`, who comes so. Its account is the one of the connection's address, else the one
    /// that the client named, if that is one of the user's; it is held to that. Else it is any that has the user, and it is
    /// enough when one of them can be reached. Who has logged on with an account's key is held to that account, and may have
    /// come to no other.
    ///
    /// # Errors
    /// Which demand is not met, in words for the log.
    pub fn standing(&self, known: Option<&Known>, user: &str, comes: Comes<'_>) -> Result<Standing, String> {
        let own = self.own_account(known, user, comes.key_of)?;
        let endpoint = known.and_then(|known| known.endpoint.clone());
        let (signs, seals) = match (own, &endpoint) {
            (Some(account), _) => {
                account.check(comes)?;
                (account.demands.signs(), account.demands.seals())
            }
            // What it can reach is one share, of no account.
            (None, Some(Endpoint::Share(_))) => (false, false),
            (None, _) => self.demanded_by_all(user, comes)?,
        };
        Ok(Standing {
            channels: self.channel_rule(own, user),
            account: own.map(|account| account.name.clone()),
            by_key: comes.key_of.is_some(),
            endpoint,
            signs,
            seals,
        })
    }

    /// The one account that a session is held to, if there is one.
    fn own_account(
        &self,
        known: Option<&Known>,
        user: &str,
        key_of: Option<&str>,
    ) -> Result<Option<&AccountConfig>, String> {
        let endpoint = known.and_then(|known| known.endpoint.as_ref());
        let here = self.known_account(known);
        let Some(key) = key_of else {
            return Ok(here.filter(|account| endpoint.is_some() || account.admits(user)));
        };
        let Some(own) = self.account(key) else {
            return Err(format!("the key is of account `{key}`, which is not there any more"));
        };
        match (endpoint, here) {
            (Some(_), Some(other)) if other.name != own.name => {
                Err(format!("the key is of account `{}`, the address of account `{}`", own.name, other.name))
            }
            (Some(Endpoint::Share(share)), None) => Err(format!(
                "the key is of account `{}`, the address of share `{share}`, which is of no account",
                own.name
            )),
            _ => Ok(Some(own)),
        }
    }

    /// Whether a session of `user` that is held to no account must sign, and seal: where all that it can reach demands it.
    fn demanded_by_all(&self, user: &str, comes: Comes<'_>) -> Result<(bool, bool), String> {
        let all: Vec<&AccountConfig> = self.accounts.iter().filter(|account| account.admits(user)).collect();
        if all.is_empty() || lists(&self.free_users, user) || lists(&self.free_users, "*") {
            return Ok((false, false));
        }
        let unmet: Vec<String> = all.iter().filter_map(|account| account.unmet(comes)).collect();
        if unmet.len() == all.len() {
            return Err(unmet.join(", and "));
        }
        let each = |demand: fn(&Demands) -> bool| {
            let mut within = all.iter().filter(|account| account.unmet(comes).is_none());
            within.all(|account| demand(&account.demands))
        };
        Ok((each(Demands::signs), each(Demands::seals)))
    }

    /// What the account of a share demands of a session of this standing that is to reach the share, if it may.
    ///
    /// # Errors
    /// Why it may not, in words for the log.
    pub fn reach(
        &self,
        standing: &Standing,
        account: Option<&str>,
        protection: Protection,
    ) -> Result<Demands, String> {
        standing.holds_off(account).map_or(Ok(()), Err)?;
        let Some(name) = account else { return Ok(Demands::default()) };
        // What is demanded is not known then, so that nobody can meet it.
        let Some(account) = self.account(name) else {
            return Err(format!("the share is of account `{name}`, which is not there any more"));
        };
        // Whether it signs is seen with each request.
        let key_of = standing.account.as_deref().filter(|_| standing.by_key);
        account.check(Comes { protection, signs: true, key_of })?;
        Ok(account.demands.clone())
    }

    /// Whether a client is told that it may open several connections to one session. As long as nobody knows
    /// whose session it will be, one account that allows it is enough.
    #[must_use]
    pub fn offers_multichannel(&self, known: Option<&Known>) -> bool {
        match self.known_account(known) {
            Some(account) => account.multichannel,
            None => self.multichannel || self.accounts.iter().any(|account| account.multichannel),
        }
    }

    /// What counts for a session of `user` that is held to `own`. One that is held to none goes by the account that is named
    /// like the user, else by those that list the user, else by those that are open to everyone, else by the server's own
    /// settings. Where several accounts fit, the widest rule counts.
    fn channel_rule(&self, own: Option<&AccountConfig>, user: &str) -> ChannelRule {
        let mut deciding: Vec<&AccountConfig> = own.or_else(|| self.account(user)).into_iter().collect();
        if deciding.is_empty() {
            deciding = self.accounts.iter().filter(|account| account.lists(user)).collect();
        }
        if deciding.is_empty() {
            deciding = self.accounts.iter().filter(|account| account.lists("*")).collect();
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
pub(crate) mod tests {
    use super::*;
    use crate::config::target::TargetRule;
    use auth::crypto::SigningAlgorithm;
    use smb_wire::Guid;
    use smb_wire::negotiate::Dialect;
    use volume::security::Sid;

    fn account(name: &str, users: &[&str], max_channels: Option<usize>) -> AccountConfig {
        AccountConfig {
            name: name.to_owned(),
            users: users.iter().map(|user| (*user).to_owned()).collect(),
            multichannel: max_channels.is_some(),
            max_channels: max_channels.unwrap_or(32),
            ..AccountConfig::default()
        }
    }

    pub(crate) fn server(multichannel: bool, accounts: Vec<AccountConfig>) -> ServerConfig {
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
            max_credits: crate::limits::MAX_CREDITS,
            multichannel,
            max_channels: 4,
            accounts,
            free_users: Vec::new(),
            share_endpoints: Vec::new(),
            target: TargetRule::default(),
            guess_delay_ns: 0,
            session_memory: share::ClientMemory::bounded(usize::MAX),
        }
    }

    #[test]
    fn negotiate_offers_what_the_account_allows_or_any_while_it_is_not_known() {
        let mixed = server(false, vec![account("fast", &["ann"], Some(8)), account("slow", &["bob"], None)]);
        let offers = |name: &str| mixed.offers_multichannel(meant(&mixed, name).as_ref());
        assert!(mixed.offers_multichannel(None) && offers("192.0.2.1") && offers("FAST.example.net"));
        assert!(!offers("slow.example.net") && !offers("Slow"));
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
        let of = |config: &ServerConfig, name: Option<&str>, user: &str| {
            let known = name.and_then(|name| meant(config, name));
            config.standing(known.as_ref(), user, by(SMB3)).unwrap().channels
        };
        let rule = |name: Option<&str>, user: &str| {
            let rule = of(&config, name, user);
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
        assert_eq!(of(&open, None, "zoe").accounts, ["all"]);
        assert!(!of(&open, None, "zoe").multichannel);
        assert_eq!(of(&open, None, "ann").max_channels, MAX_CHANNELS);
    }

    const SMB2: Protection =
        Protection { dialect: Dialect::Smb210, signing: SigningAlgorithm::HmacSha256, cipher: None };
    const SMB3: Protection = Protection {
        dialect: Dialect::Smb311,
        signing: SigningAlgorithm::AesGmac,
        cipher: Some(Cipher::Aes128Gcm),
    };

    fn demanding(name: &str, users: &[&str], demands: Demands) -> AccountConfig {
        AccountConfig { demands, ..account(name, users, Some(4)) }
    }

    fn by(protection: Protection) -> Comes<'static> {
        Comes { protection, signs: false, key_of: None }
    }

    #[test]
    fn a_key_opens_the_shares_of_its_account_alone() {
        let mut config = server(
            true,
            vec![demanding("lab", &["ann", "*"], from_3_0()), demanding("team", &["*"], Demands::default())],
        );
        config.free_users = vec!["*".to_owned()];
        let key = |protection| Comes { protection, signs: false, key_of: Some("LAB") };
        let lab = config.standing(None, "lab", key(SMB3)).unwrap();
        assert_eq!((lab.account.as_deref(), lab.by_key), (Some("lab"), true));
        // Neither the name that the client gives the server nor shares of no account widen or narrow that.
        assert_eq!(config.standing(Some(&named("team")), "lab", key(SMB3)).unwrap().account, lab.account);
        assert!(config.standing(None, "lab", key(SMB2)).unwrap_err().contains("demands SMB 3.0"));
        assert!(config.reach(&lab, Some("lab"), SMB3).is_ok());
        for other in [Some("team"), None] {
            assert!(config.reach(&lab, other, SMB3).is_err(), "{other:?}");
        }
        let here = at("team");
        let why = config.standing(Some(&here), "lab", key(SMB3)).unwrap_err();
        assert_eq!(why, "the key is of account `lab`, the address of account `team`");
        assert!(config.standing(Some(&at("lab")), "lab", key(SMB3)).is_ok());
        // Between a reload's new accounts and its new users: the shares of `*` are not hers who has a key.
        config.accounts.remove(0);
        let why = config.standing(None, "lab", key(SMB3)).unwrap_err();
        assert_eq!(why, "the key is of account `LAB`, which is not there any more");
    }

    #[test]
    fn a_key_decides_over_the_channels_whatever_the_client_names() {
        let lab = account("lab", &["ann"], None);
        let config = server(true, vec![lab, account("team", &["*"], Some(32))]);
        let channels = |key_of| {
            let comes = Comes { key_of, ..by(SMB3) };
            config.standing(Some(&named("team")), "lab", comes).unwrap().channels
        };
        assert_eq!((channels(Some("lab")).most(), channels(None).most()), (1, 32));
    }

    #[test]
    fn an_account_of_the_whole_name_goes_before_one_of_its_first_label() {
        let fin = account("fin", &["ann"], None);
        let config = server(true, vec![fin, account("fin.eu", &["ann"], Some(8))]);
        for (name, wanted) in [
            ("FIN.eu", Some("fin.eu")),
            ("fin", Some("fin")),
            ("fin.us", Some("fin")),
            ("fins.eu", None),
            ("", None),
        ] {
            assert_eq!(meant(&config, name).and_then(|known| known.account).as_deref(), wanted, "{name}");
        }
        let known = meant(&config, "fin.eu");
        assert!(config.offers_multichannel(known.as_ref()));
        let ann = config.standing(known.as_ref(), "ann", by(SMB3)).unwrap();
        assert_eq!((ann.account.as_deref(), ann.channels.most()), (Some("fin.eu"), 8));
    }

    #[test]
    fn names_are_the_same_whatever_their_case_in_any_script() {
        let keys_alone = Demands { refuses_passwords: true, ..Demands::default() };
        let mut config = server(true, vec![demanding("Übung", &["østen"], keys_alone)]);
        assert!(config.standing(None, "Østen", by(SMB3)).unwrap_err().contains("takes its keys alone"));
        config.free_users = vec!["ØSTEN".to_owned()];
        let free = config.standing(None, "Østen", by(SMB3)).unwrap();
        let why = config.reach(&free, Some("übung"), SMB3).unwrap_err();
        assert_eq!(why, "account `Übung` takes its keys alone, and this is a user's password");
        let key = Comes { key_of: Some("übung"), ..by(SMB3) };
        let own = config.standing(None, "übung", key).unwrap();
        assert!(config.reach(&own, Some("ÜBUNG"), SMB3).is_ok());
    }

    #[test]
    fn a_share_of_an_account_that_is_not_there_is_out_of_reach() {
        let config = server(true, Vec::new());
        let ann = config.standing(None, "ann", by(SMB3)).unwrap();
        let why = config.reach(&ann, Some("old"), SMB3).unwrap_err();
        assert_eq!(why, "the share is of account `old`, which is not there any more");
        assert_eq!(config.reach(&ann, None, SMB3), Ok(Demands::default()));
    }

    #[test]
    fn an_account_takes_keys_or_passwords_as_it_says() {
        let one = |demands| server(true, vec![demanding("lab", &["ann"], demands)]);
        let keys_alone = one(Demands { refuses_passwords: true, ..Demands::default() });
        let none = one(Demands { refuses_keys: true, ..Demands::default() });
        let key = Comes { key_of: Some("lab"), ..by(SMB3) };
        assert!(
            keys_alone.standing(None, "lab", key).is_ok() && none.standing(None, "ann", by(SMB3)).is_ok()
        );
        let why = keys_alone.standing(None, "ann", by(SMB3)).unwrap_err();
        assert_eq!(why, "account `lab` takes its keys alone, and this is a user's password");
        let why = none.standing(None, "lab", key).unwrap_err();
        assert_eq!(why, "account `lab` takes no keys");
    }

    fn from_3_0() -> Demands {
        Demands { min_dialect: Some(Dialect::Smb300), ..Demands::default() }
    }

    fn named(account: &str) -> Known {
        Known { account: Some(account.to_owned()), endpoint: None }
    }

    /// Of a connection to an address of the account.
    fn at(account: &str) -> Known {
        Known { endpoint: Some(Endpoint::Account(account.to_owned())), ..named(account) }
    }

    /// What NEGOTIATE knows by the name that a client gives the server.
    fn meant(config: &ServerConfig, name: &str) -> Option<Known> {
        config.account_of(name).map(|account| named(&account.name))
    }

    #[test]
    fn a_login_is_refused_when_nothing_that_it_may_use_takes_its_connection() {
        let mut config =
            server(true, vec![demanding("new", &["ann", "bob"], from_3_0()), account("old", &["bob"], None)]);
        let standing = |config: &ServerConfig, user: &str| config.standing(None, user, by(SMB2));
        let why = standing(&config, "ANN").unwrap_err();
        assert_eq!(why, "account `new` demands SMB 3.0 or later, and this connection speaks SMB 2.1");
        let bob = standing(&config, "bob").unwrap();
        assert_eq!((bob.account.clone(), bob.signs, bob.seals), (None, false, false));
        // What bob reaches is the old account alone.
        assert!(config.reach(&bob, Some("old"), SMB2).is_ok());
        assert!(config.reach(&bob, Some("NEW"), SMB2).unwrap_err().contains("demands SMB 3.0"));
        assert!(config.reach(&bob, None, SMB2).is_ok() && config.reach(&bob, Some("new"), SMB3).is_ok());
        assert!(config.standing(None, "ann", by(SMB3)).is_ok() && standing(&config, "zoe").is_ok());
        config.free_users = vec!["*".to_owned()];
        assert!(standing(&config, "ann").is_ok(), "there are shares of no account");
    }

    #[test]
    fn a_session_is_held_to_the_account_of_its_address_or_name() {
        let mut new = demanding("new", &["ann"], from_3_0());
        new.endpoint = vec!["192.0.2.9".parse().unwrap()];
        let config = server(true, vec![new, account("old", &["ann", "bob"], None)]);
        let known = |text: &str| config.known_at(text.parse().unwrap());
        assert_eq!((known("::ffff:192.0.2.9"), known("192.0.2.1")), (Some(at("new")), None));
        let ann = config.standing(Some(&named("old")), "ann", by(SMB2)).unwrap();
        assert_eq!((ann.account.as_deref(), ann.endpoint.clone()), (Some("old"), None));
        assert_eq!(
            config.reach(&ann, Some("new"), SMB3).unwrap_err(),
            "the share is of account `new`, the session of account `old`"
        );
        assert!(config.reach(&ann, Some("OLD"), SMB3).is_ok() && config.reach(&ann, None, SMB3).is_ok());
        assert!(config.standing(Some(&named("new")), "ann", by(SMB2)).is_err());
        // A name that is not bob's to use; an address that decides whoever comes.
        let bob = config.standing(Some(&named("new")), "bob", by(SMB3)).unwrap();
        assert_eq!(bob.account, None);
        let here = at("new");
        let bob = config.standing(Some(&here), "bob", by(SMB3)).unwrap();
        assert_eq!((bob.account.as_deref(), bob.endpoint), (Some("new"), here.endpoint.clone()));
        assert!(config.standing(Some(&here), "bob", by(SMB2)).is_err());
    }

    #[test]
    fn an_address_of_a_share_is_its_accounts_and_leads_to_it_alone() {
        let mut config =
            server(true, vec![demanding("new", &["ann"], from_3_0()), account("old", &["ann"], None)]);
        let own = |share: &str, account: Option<&str>, address: &str| ShareEndpoint {
            share: share.to_owned(),
            account: account.map(str::to_owned),
            addresses: vec![address.parse().unwrap()],
        };
        config.share_endpoints = vec![own("Docs", Some("new"), "192.0.2.1"), own("free", None, "192.0.2.2")];
        let known = |text: &str| config.known_at(text.parse().unwrap());
        let (docs, free) = (known("::ffff:192.0.2.1"), known("192.0.2.2"));
        assert_eq!(known("192.0.2.3"), None);
        // Held to the account, whoever it is, and to the one share.
        assert!(config.standing(docs.as_ref(), "bob", by(SMB2)).unwrap_err().contains("demands SMB 3.0"));
        let bob = config.standing(docs.as_ref(), "bob", by(SMB3)).unwrap();
        assert_eq!((bob.account.as_deref(), bob.is_kept_from("DOCS")), (Some("new"), None));
        let why = bob.is_kept_from("more").unwrap();
        assert_eq!(why, "the session came to an address of share `Docs`, where there is no other");
        // A share of no account is in reach of whoever meets no account's demands, and of no key.
        let ann = config.standing(free.as_ref(), "ann", by(SMB2)).unwrap();
        assert_eq!((ann.account, ann.signs, ann.seals), (None, false, false));
        let key = Comes { key_of: Some("old"), ..by(SMB3) };
        for (known, wanted) in [
            (&docs, "the key is of account `old`, the address of account `new`"),
            (&free, "the key is of account `old`, the address of share `free`, which is of no account"),
        ] {
            assert_eq!(config.standing(known.as_ref(), "old", key).unwrap_err(), wanted);
        }
        let is_one =
            |one: &str, other: &str| config.is_one_endpoint(one.parse().unwrap(), other.parse().unwrap());
        assert!(is_one("192.0.2.1", "192.0.2.1") && is_one("192.0.2.3", "192.0.2.4"));
        assert!(!is_one("192.0.2.1", "192.0.2.2") && !is_one("192.0.2.2", "192.0.2.3"));
    }

    #[test]
    fn negotiate_goes_by_the_demands_of_a_known_account_and_by_what_most_take_else() {
        let strict = Demands {
            min_dialect: Some(Dialect::Smb302),
            encryption: Some(Encryption::Required),
            signing: Some(Signing::Required),
            ciphers: Some(vec![Cipher::Aes256Gcm]),
            ..Demands::default()
        };
        let off = Demands { encryption: Some(Encryption::Off), ..Demands::default() };
        let config = server(
            true,
            vec![demanding("strict", &[], strict), demanding("plain", &[], off), account("any", &[], None)],
        );
        let told = config.of_account(&named("strict"));
        assert_eq!(
            (told.min_dialect, told.signing, told.encryption),
            (Dialect::Smb302, Signing::Required, Encryption::Required)
        );
        assert_eq!(config.of_account(&named("plain")).encryption, Encryption::Off);
        let mut sealed = config.clone();
        (sealed.encryption, sealed.min_dialect) = (Encryption::Required, Dialect::Smb311);
        let told = sealed.of_account(&named("plain"));
        assert_eq!(
            (told.encryption, told.min_dialect),
            (Encryption::Required, Dialect::Smb311),
            "the server's too"
        );
        assert_eq!(config.ciphers(Some(&named("strict"))), [Cipher::Aes256Gcm]);
        assert_eq!(config.ciphers(Some(&named("any"))), CIPHERS);
        let first = [Cipher::Aes256Gcm, Cipher::Aes128Gcm, Cipher::Aes128Ccm, Cipher::Aes256Ccm];
        assert_eq!(config.ciphers(None), first);
    }

    #[test]
    fn a_session_signs_and_seals_where_all_that_it_reaches_demands_it() {
        let demand = |signing| Demands {
            signing: Some(signing),
            encryption: Some(Encryption::Required),
            ..Demands::default()
        };
        let config = server(
            true,
            vec![
                demanding("a", &["ann", "bob"], demand(Signing::Required)),
                demanding("b", &["bob"], demand(Signing::Offered)),
            ],
        );
        let of = |user: &str| config.standing(None, user, by(SMB3)).map(|it| (it.signs, it.seals)).unwrap();
        assert_eq!((of("ann"), of("bob"), of("zoe")), ((true, true), (false, true), (false, false)));
    }
}
