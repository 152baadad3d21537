//! Accounts: groups of shares and users with common demands on sessions, and with a limit on the channels of
//! a session.
//!
//! SMB itself does not name an account. At NEGOTIATE a connection may have come to an address of one
//! account, or the client may name the server by the name of an account ([`AccountHint`]). The user is known
//! only at SESSION_SETUP. So [`ServerConfig::offers_multichannel`], [`ServerConfig::of_account`] and
//! [`ServerConfig::ciphers`] answer NEGOTIATE with that hint, and [`ServerConfig::session_settings`] decides
//! for the session.

mod demands;
mod endpoint;

use std::net::IpAddr;

use auth::crypto::Cipher;

pub use demands::Demands;
pub use endpoint::{Endpoint, ShareEndpoint};

use share::Identity;

use crate::config::grantee::Grantee;
use crate::config::{Encryption, ServerConfig, Signing, same_name};
use crate::keys::Protection;
use crate::limits::MAX_CHANNELS;

/// Ciphers in the order of the server's preference.
const CIPHERS: [Cipher; 4] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::Aes128Ccm, Cipher::Aes256Ccm];

/// One account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountConfig {
    /// Its name.
    pub name: String,
    /// The users and groups of its shares. `*` stands for every user that can log on.
    pub users: Vec<Grantee>,
    /// Whether a session of its users may have several connections.
    pub multichannel: bool,
    /// The most channels of such a session.
    pub max_channels: usize,
    /// The demands on a session that uses its shares.
    pub demands: Demands,
    /// Addresses of this server that belong to it.
    pub endpoint: Vec<IpAddr>,
}

/// The account of a connection before a log-on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountHint {
    /// The account's name. `None` for the address of a share without an account.
    pub account: Option<String>,
    /// The endpoint that the connection came to. `None` if the client named the account.
    pub endpoint: Option<Endpoint>,
}

/// The properties of a log-on that demands are checked against.
#[derive(Debug, Clone, Copy)]
pub struct LogonProperties<'a> {
    /// The protection of the connection.
    pub protection: Protection,
    /// Whether messages are signed: the client has announced it, or the server requires it.
    pub signs: bool,
    /// The account whose key was used. `None` for a user's own password.
    pub key_of: Option<&'a str>,
    /// The mechanism.
    pub mechanism: LogonMechanism,
}

/// The mechanism of a log-on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogonMechanism {
    /// NTLM with a password or a key of this server.
    Ntlm,
    /// NTLM that a domain controller has judged.
    NtlmOfDomain,
    /// A Kerberos ticket.
    Kerberos,
}

/// The settings of a session from its account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSettings {
    /// The limit on its connections.
    pub channels: ChannelRule,
    /// The only account whose shares it may use. `None` if it may use every share of its user.
    pub account: Option<String>,
    /// Whether it was logged on with the account's key. It may then use all shares of the account, and no
    /// others.
    pub by_key: bool,
    /// The mechanism of the log-on.
    pub mechanism: LogonMechanism,
    /// The endpoint that its first connection came to.
    pub endpoint: Option<Endpoint>,
    /// Whether it must sign or seal, since all shares that it may use demand that.
    pub signs: bool,
    /// Whether it must seal, since all shares that it may use demand that.
    pub seals: bool,
}

impl SessionSettings {
    /// The reason why the session may not use shares of `account` (or of no account), regardless of demands.
    #[must_use]
    pub fn refusal_for_account(&self, account: Option<&str>) -> Option<String> {
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
    fn lists(&self, user: &Identity) -> bool {
        lists(&self.users, user)
    }

    fn admits(&self, user: &Identity) -> bool {
        self.lists(user) || lists_everyone(&self.users)
    }

    /// The demand that a log-on does not meet, if any.
    fn unmet(&self, logon: LogonProperties<'_>) -> Option<String> {
        let why = self.demands.unmet(logon)?;
        Some(format!("account `{}` {why}", self.name))
    }

    fn check(&self, logon: LogonProperties<'_>) -> Result<(), String> {
        self.unmet(logon).map_or(Ok(()), Err)
    }
}

fn lists(users: &[Grantee], user: &Identity) -> bool {
    users.iter().any(|one| one.names(user))
}

fn lists_everyone(users: &[Grantee]) -> bool {
    users.iter().any(Grantee::is_everyone)
}

/// The limit on the connections of a session, and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelRule {
    /// The accounts that set the limit. It is empty if the server's settings apply.
    pub accounts: Vec<String>,
    /// Whether the session may have several connections.
    pub multichannel: bool,
    /// The most connections in that case.
    pub max_channels: usize,
}

impl ChannelRule {
    /// The most connections of the session.
    #[must_use]
    pub fn most(&self) -> usize {
        if self.multichannel { self.max_channels } else { 1 }
    }
}

impl ServerConfig {
    /// The account that a client means by the name of the server: `team` or `team.example.net` for the
    /// account `team`. The full name goes before the first label.
    #[must_use]
    pub fn account_of(&self, server_name: &str) -> Option<&AccountConfig> {
        let label = server_name.split('.').next().unwrap_or_default();
        self.account(server_name).or_else(|| self.account(label))
    }

    /// The account with this name.
    #[must_use]
    pub fn account(&self, name: &str) -> Option<&AccountConfig> {
        self.accounts.iter().find(|account| same_name(&account.name, name))
    }

    fn hinted_account(&self, hint: Option<&AccountHint>) -> Option<&AccountConfig> {
        self.account(hint?.account.as_deref()?)
    }

    /// The settings for a connection of a known account: the server's settings with the account's demands.
    #[must_use]
    pub fn of_account(&self, hint: &AccountHint) -> ServerConfig {
        let mut config = self.clone();
        let Some(account) = self.hinted_account(Some(hint)) else { return config };
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

    /// Ciphers in the order of preference. For a known account they are those that it allows. Otherwise the
    /// ciphers that most accounts allow come first.
    #[must_use]
    pub fn ciphers(&self, hint: Option<&AccountHint>) -> Vec<Cipher> {
        let mut ciphers = CIPHERS.to_vec();
        match self.hinted_account(hint) {
            Some(account) => ciphers.retain(|&cipher| account.demands.takes(cipher)),
            // The sort keeps the order among equals.
            None => ciphers.sort_by_key(|&cipher| {
                self.accounts.iter().filter(|account| !account.demands.takes(cipher)).count()
            }),
        }
        ciphers
    }

    /// The settings of a session of `user` with this log-on. The account of the connection's address comes
    /// first. Next comes the account that the client named, if it has the user. The session may use only
    /// that account. Otherwise any account with the user will do, and it is enough if one of them allows the
    /// log-on. A log-on with an account's key is bound to that account, and may not have come to another
    /// one.
    ///
    /// # Errors
    /// The demand that is not met, in words for the log.
    pub fn session_settings(
        &self,
        hint: Option<&AccountHint>,
        user: &Identity,
        logon: LogonProperties<'_>,
    ) -> Result<SessionSettings, String> {
        let own = self.own_account(hint, user, logon.key_of)?;
        let endpoint = hint.and_then(|hint| hint.endpoint.clone());
        let (signs, seals) = match (own, &endpoint) {
            (Some(account), _) => {
                account.check(logon)?;
                (account.demands.signs(), account.demands.seals())
            }
            // The session may use one share, which has no account.
            (None, Some(Endpoint::Share(_))) => (false, false),
            (None, _) => self.demanded_by_all(user, logon)?,
        };
        Ok(SessionSettings {
            channels: self.channel_rule(own, user),
            account: own.map(|account| account.name.clone()),
            by_key: logon.key_of.is_some(),
            mechanism: logon.mechanism,
            endpoint,
            signs,
            seals,
        })
    }

    /// The one account that a session is bound to, if any.
    fn own_account(
        &self,
        hint: Option<&AccountHint>,
        user: &Identity,
        key_of: Option<&str>,
    ) -> Result<Option<&AccountConfig>, String> {
        let endpoint = hint.and_then(|hint| hint.endpoint.as_ref());
        let here = self.hinted_account(hint);
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

    /// Whether a session of `user` without an account of its own must sign, and seal. It must if all shares
    /// that it may use demand that.
    fn demanded_by_all(&self, user: &Identity, logon: LogonProperties<'_>) -> Result<(bool, bool), String> {
        let all: Vec<&AccountConfig> = self.accounts.iter().filter(|account| account.admits(user)).collect();
        if all.is_empty() || lists(&self.free_users, user) || lists_everyone(&self.free_users) {
            return Ok((false, false));
        }
        let unmet: Vec<String> = all.iter().filter_map(|account| account.unmet(logon)).collect();
        if unmet.len() == all.len() {
            return Err(unmet.join(", and "));
        }
        let each = |demand: fn(&Demands) -> bool| {
            let mut within = all.iter().filter(|account| account.unmet(logon).is_none());
            within.all(|account| demand(&account.demands))
        };
        Ok((each(Demands::signs), each(Demands::seals)))
    }

    /// The demands of a share's account on a session that wants to use the share.
    ///
    /// # Errors
    /// The reason why the session may not use it, in words for the log.
    pub fn reach(
        &self,
        settings: &SessionSettings,
        account: Option<&str>,
        protection: Protection,
    ) -> Result<Demands, String> {
        settings.refusal_for_account(account).map_or(Ok(()), Err)?;
        let Some(name) = account else { return Ok(Demands::default()) };
        // Its demands are unknown then, so no session can meet them.
        let Some(account) = self.account(name) else {
            return Err(format!("the share is of account `{name}`, which is not there any more"));
        };
        // Signatures are checked on each request.
        let key_of = settings.account.as_deref().filter(|_| settings.by_key);
        let mechanism = settings.mechanism;
        account.check(LogonProperties { protection, signs: true, key_of, mechanism })?;
        Ok(account.demands.clone())
    }

    /// Whether a client is offered several connections for one session. While its account is unknown, one
    /// account that allows it is enough.
    #[must_use]
    pub fn offers_multichannel(&self, hint: Option<&AccountHint>) -> bool {
        match self.hinted_account(hint) {
            Some(account) => account.multichannel,
            None => self.multichannel || self.accounts.iter().any(|account| account.multichannel),
        }
    }

    /// The limit for a session of `user` that is bound to `own`. Without such an account the one with the
    /// user's name counts. Next come the accounts that list the user, then those that are open to all users,
    /// then the server's settings. Among several accounts the widest limit counts.
    fn channel_rule(&self, own: Option<&AccountConfig>, user: &Identity) -> ChannelRule {
        let mut deciding: Vec<&AccountConfig> =
            own.or_else(|| self.account(&user.name)).into_iter().collect();
        if deciding.is_empty() {
            deciding = self.accounts.iter().filter(|account| account.lists(user)).collect();
        }
        if deciding.is_empty() {
            deciding = self.accounts.iter().filter(|account| lists_everyone(&account.users)).collect();
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
            users: users.iter().map(|user| Grantee::from(*user)).collect(),
            multichannel: max_channels.is_some(),
            max_channels: max_channels.unwrap_or(32),
            ..AccountConfig::default()
        }
    }

    fn named_user(name: &str) -> Identity {
        Identity { name: name.to_owned(), ..crate::config::nobody() }
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
            kerberos: None,
            kerberos_off: None,
            domain_member: None,
            ntlm: true,
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
            let hint = name.and_then(|name| meant(config, name));
            config.session_settings(hint.as_ref(), &named_user(user), by(SMB3)).unwrap().channels
        };
        let rule = |name: Option<&str>, user: &str| {
            let rule = of(&config, name, user);
            (rule.accounts.join(","), rule.multichannel.then_some(rule.max_channels))
        };
        let told = |accounts: &str, most: Option<usize>| (accounts.to_owned(), most);
        assert_eq!(rule(Some("slow.example.net"), "Bob"), told("slow", None));
        // Ann may not use the account of that name.
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

    fn by(protection: Protection) -> LogonProperties<'static> {
        LogonProperties { protection, signs: false, key_of: None, mechanism: LogonMechanism::Ntlm }
    }

    #[test]
    fn a_key_opens_the_shares_of_its_account_alone() {
        let mut config = server(
            true,
            vec![demanding("lab", &["ann", "*"], from_3_0()), demanding("team", &["*"], Demands::default())],
        );
        config.free_users = vec!["*".into()];
        let key = |protection| LogonProperties { key_of: Some("LAB"), ..by(protection) };
        let lab = config.session_settings(None, &named_user("lab"), key(SMB3)).unwrap();
        assert_eq!((lab.account.as_deref(), lab.by_key), (Some("lab"), true));
        // Neither the server name from the client nor shares without an account change that.
        assert_eq!(
            config.session_settings(Some(&named("team")), &named_user("lab"), key(SMB3)).unwrap().account,
            lab.account
        );
        assert!(
            config
                .session_settings(None, &named_user("lab"), key(SMB2))
                .unwrap_err()
                .contains("demands SMB 3.0")
        );
        assert!(config.reach(&lab, Some("lab"), SMB3).is_ok());
        for other in [Some("team"), None] {
            assert!(config.reach(&lab, other, SMB3).is_err(), "{other:?}");
        }
        let here = at("team");
        let why = config.session_settings(Some(&here), &named_user("lab"), key(SMB3)).unwrap_err();
        assert_eq!(why, "the key is of account `lab`, the address of account `team`");
        assert!(config.session_settings(Some(&at("lab")), &named_user("lab"), key(SMB3)).is_ok());
        // This is between the new accounts and the new users of a reload: a key does not open the shares of
        // `*`.
        config.accounts.remove(0);
        let why = config.session_settings(None, &named_user("lab"), key(SMB3)).unwrap_err();
        assert_eq!(why, "the key is of account `LAB`, which is not there any more");
    }

    #[test]
    fn a_key_decides_over_the_channels_whatever_the_client_names() {
        let lab = account("lab", &["ann"], None);
        let config = server(true, vec![lab, account("team", &["*"], Some(32))]);
        let channels = |key_of| {
            let logon = LogonProperties { key_of, ..by(SMB3) };
            config.session_settings(Some(&named("team")), &named_user("lab"), logon).unwrap().channels
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
            assert_eq!(meant(&config, name).and_then(|hint| hint.account).as_deref(), wanted, "{name}");
        }
        let hint = meant(&config, "fin.eu");
        assert!(config.offers_multichannel(hint.as_ref()));
        let ann = config.session_settings(hint.as_ref(), &named_user("ann"), by(SMB3)).unwrap();
        assert_eq!((ann.account.as_deref(), ann.channels.most()), (Some("fin.eu"), 8));
    }

    #[test]
    fn names_are_the_same_whatever_their_case_in_any_script() {
        let keys_alone = Demands { refuses_passwords: true, ..Demands::default() };
        let mut config = server(true, vec![demanding("Übung", &["østen"], keys_alone)]);
        assert!(
            config
                .session_settings(None, &named_user("Østen"), by(SMB3))
                .unwrap_err()
                .contains("accepts only its keys")
        );
        config.free_users = vec!["ØSTEN".into()];
        let free = config.session_settings(None, &named_user("Østen"), by(SMB3)).unwrap();
        let why = config.reach(&free, Some("übung"), SMB3).unwrap_err();
        assert_eq!(why, "account `Übung` accepts only its keys, not a user's password");
        let key = LogonProperties { key_of: Some("übung"), ..by(SMB3) };
        let own = config.session_settings(None, &named_user("übung"), key).unwrap();
        assert!(config.reach(&own, Some("ÜBUNG"), SMB3).is_ok());
    }

    #[test]
    fn a_share_of_an_account_that_is_not_there_is_out_of_reach() {
        let config = server(true, Vec::new());
        let ann = config.session_settings(None, &named_user("ann"), by(SMB3)).unwrap();
        let why = config.reach(&ann, Some("old"), SMB3).unwrap_err();
        assert_eq!(why, "the share is of account `old`, which is not there any more");
        assert_eq!(config.reach(&ann, None, SMB3), Ok(Demands::default()));
    }

    #[test]
    fn an_account_takes_keys_or_passwords_as_it_says() {
        let one = |demands| server(true, vec![demanding("lab", &["ann"], demands)]);
        let keys_alone = one(Demands { refuses_passwords: true, ..Demands::default() });
        let none = one(Demands { refuses_keys: true, ..Demands::default() });
        let key = LogonProperties { key_of: Some("lab"), ..by(SMB3) };
        assert!(
            keys_alone.session_settings(None, &named_user("lab"), key).is_ok()
                && none.session_settings(None, &named_user("ann"), by(SMB3)).is_ok()
        );
        let why = keys_alone.session_settings(None, &named_user("ann"), by(SMB3)).unwrap_err();
        assert_eq!(why, "account `lab` accepts only its keys, not a user's password");
        let why = none.session_settings(None, &named_user("lab"), key).unwrap_err();
        assert_eq!(why, "account `lab` takes no keys");
    }

    fn from_3_0() -> Demands {
        Demands { min_dialect: Some(Dialect::Smb300), ..Demands::default() }
    }

    fn named(account: &str) -> AccountHint {
        AccountHint { account: Some(account.to_owned()), endpoint: None }
    }

    /// The hint of a connection to an address of the account.
    fn at(account: &str) -> AccountHint {
        AccountHint { endpoint: Some(Endpoint::Account(account.to_owned())), ..named(account) }
    }

    /// The hint at NEGOTIATE from the client's name for the server.
    fn meant(config: &ServerConfig, name: &str) -> Option<AccountHint> {
        config.account_of(name).map(|account| named(&account.name))
    }

    #[test]
    fn a_login_is_refused_when_nothing_that_it_may_use_takes_its_connection() {
        let mut config =
            server(true, vec![demanding("new", &["ann", "bob"], from_3_0()), account("old", &["bob"], None)]);
        let session_settings =
            |config: &ServerConfig, user: &str| config.session_settings(None, &named_user(user), by(SMB2));
        let why = session_settings(&config, "ANN").unwrap_err();
        assert_eq!(why, "account `new` demands SMB 3.0 or later, and this connection speaks SMB 2.1");
        let bob = session_settings(&config, "bob").unwrap();
        assert_eq!((bob.account.clone(), bob.signs, bob.seals), (None, false, false));
        // Bob can use only the old account.
        assert!(config.reach(&bob, Some("old"), SMB2).is_ok());
        assert!(config.reach(&bob, Some("NEW"), SMB2).unwrap_err().contains("demands SMB 3.0"));
        assert!(config.reach(&bob, None, SMB2).is_ok() && config.reach(&bob, Some("new"), SMB3).is_ok());
        assert!(
            config.session_settings(None, &named_user("ann"), by(SMB3)).is_ok()
                && session_settings(&config, "zoe").is_ok()
        );
        config.free_users = vec!["*".into()];
        assert!(session_settings(&config, "ann").is_ok(), "there are shares of no account");
    }

    #[test]
    fn a_session_is_held_to_the_account_of_its_address_or_name() {
        let mut new = demanding("new", &["ann"], from_3_0());
        new.endpoint = vec!["192.0.2.9".parse().unwrap()];
        let config = server(true, vec![new, account("old", &["ann", "bob"], None)]);
        let hint = |text: &str| config.account_at(text.parse().unwrap());
        assert_eq!((hint("::ffff:192.0.2.9"), hint("192.0.2.1")), (Some(at("new")), None));
        let ann = config.session_settings(Some(&named("old")), &named_user("ann"), by(SMB2)).unwrap();
        assert_eq!((ann.account.as_deref(), ann.endpoint.clone()), (Some("old"), None));
        assert_eq!(
            config.reach(&ann, Some("new"), SMB3).unwrap_err(),
            "the share is of account `new`, the session of account `old`"
        );
        assert!(config.reach(&ann, Some("OLD"), SMB3).is_ok() && config.reach(&ann, None, SMB3).is_ok());
        assert!(config.session_settings(Some(&named("new")), &named_user("ann"), by(SMB2)).is_err());
        // Bob may not use the account of that name. An address decides for every user.
        let bob = config.session_settings(Some(&named("new")), &named_user("bob"), by(SMB3)).unwrap();
        assert_eq!(bob.account, None);
        let here = at("new");
        let bob = config.session_settings(Some(&here), &named_user("bob"), by(SMB3)).unwrap();
        assert_eq!((bob.account.as_deref(), bob.endpoint), (Some("new"), here.endpoint.clone()));
        assert!(config.session_settings(Some(&here), &named_user("bob"), by(SMB2)).is_err());
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
        let hint = |text: &str| config.account_at(text.parse().unwrap());
        let (docs, free) = (hint("::ffff:192.0.2.1"), hint("192.0.2.2"));
        assert_eq!(hint("192.0.2.3"), None);
        // The session is bound to the account and to the one share, for any user.
        assert!(
            config
                .session_settings(docs.as_ref(), &named_user("bob"), by(SMB2))
                .unwrap_err()
                .contains("demands SMB 3.0")
        );
        let bob = config.session_settings(docs.as_ref(), &named_user("bob"), by(SMB3)).unwrap();
        assert_eq!((bob.account.as_deref(), bob.refusal_for_share("DOCS")), (Some("new"), None));
        let why = bob.refusal_for_share("more").unwrap();
        assert_eq!(why, "the session came to an address of share `Docs`, where there is no other");
        // A share without an account is open to sessions that meet no account's demands, and closed to keys.
        let ann = config.session_settings(free.as_ref(), &named_user("ann"), by(SMB2)).unwrap();
        assert_eq!((ann.account, ann.signs, ann.seals), (None, false, false));
        let key = LogonProperties { key_of: Some("old"), ..by(SMB3) };
        for (hint, wanted) in [
            (&docs, "the key is of account `old`, the address of account `new`"),
            (&free, "the key is of account `old`, the address of share `free`, which is of no account"),
        ] {
            assert_eq!(config.session_settings(hint.as_ref(), &named_user("old"), key).unwrap_err(), wanted);
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
        let of = |user: &str| {
            config.session_settings(None, &named_user(user), by(SMB3)).map(|it| (it.signs, it.seals)).unwrap()
        };
        assert_eq!((of("ann"), of("bob"), of("zoe")), ((true, true), (false, true), (false, false)));
    }
}
