//! The settings of accounts for the sessions of their users and for their shares, and the shares' own
//! addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use share::engine::AccountMapping;
use smb::account::{Demands, ShareEndpoint};
use smb::{AccountConfig, Grantee};

use crate::config::{Account, Authentication, Config, Setting, Share};

/// The accounts in the form of the SMB server.
pub fn of(config: &Config, accounts: &Arc<dyn AccountMapping>) -> Vec<AccountConfig> {
    config.accounts.values().map(|account| one(config, account, accounts)).collect()
}

/// Copies the settings about channels, which a reload may change, to a running server.
pub fn apply(config: &Config, accounts: &Arc<dyn AccountMapping>, settings: &mut smb::ServerConfig) {
    settings.multichannel = config.server.multichannel.value;
    settings.max_channels = channels(&config.server.max_channels);
    settings.accounts = of(config, accounts);
    settings.free_users = free_users(config, accounts);
    settings.share_endpoints = share_endpoints(config);
}

/// The users and groups of shares that belong to no account.
pub fn free_users(config: &Config, accounts: &Arc<dyn AccountMapping>) -> Vec<Grantee> {
    let free = config.shares.values().filter(|share| share.account.is_none());
    let users: BTreeSet<&String> = free.flat_map(|share| share.users.keys()).collect();
    users.into_iter().map(|user| Grantee::new(user, Arc::clone(accounts))).collect()
}

/// The shares that have their own addresses.
pub fn share_endpoints(config: &Config) -> Vec<ShareEndpoint> {
    let one = |share: &Share| {
        Some(ShareEndpoint {
            share: share.name.value.clone(),
            account: share.account.as_ref().map(|account| account.value.clone()),
            addresses: addresses(share.smb_listen.as_ref()?),
        })
    };
    config.shares.values().filter_map(one).collect()
}

fn addresses(own: &Setting<Vec<IpAddr>>) -> Vec<IpAddr> {
    own.value.iter().map(IpAddr::to_canonical).collect()
}

/// A number of channels. Its range was checked when it was read.
pub fn channels(setting: &Setting<u64>) -> usize {
    usize::try_from(setting.value).unwrap_or(smb::limits::MAX_CHANNELS)
}

fn one(config: &Config, account: &Account, accounts: &Arc<dyn AccountMapping>) -> AccountConfig {
    let name = account.name.value.to_lowercase();
    let shares = config.shares.values();
    let of_it =
        shares.filter(|share| share.account.as_ref().is_some_and(|on| on.value.to_lowercase() == name));
    // A share inherits the account's users and may add more.
    let users: BTreeSet<&String> =
        account.users.keys().chain(of_it.flat_map(|share| share.users.keys())).collect();
    AccountConfig {
        name: account.name.value.clone(),
        users: users.into_iter().map(|user| Grantee::new(user, Arc::clone(accounts))).collect(),
        multichannel: account.multichannel.value,
        max_channels: channels(&account.max_channels),
        demands: demands(account),
        endpoint: account.smb_listen.as_ref().map(addresses).unwrap_or_default(),
    }
}

/// The account's requirements for sessions with access to its shares.
fn demands(account: &Account) -> Demands {
    let refuses = |how| account.authentication.as_ref().is_some_and(|own| !own.value.contains(&how));
    Demands {
        min_dialect: account.min_dialect.as_ref().map(|own| own.value),
        encryption: account.encryption.as_ref().map(|own| own.value),
        signing: account.signing.as_ref().map(|own| own.value),
        ciphers: account.ciphers.as_ref().map(|own| own.value.clone()),
        refuses_passwords: refuses(Authentication::Password),
        refuses_keys: refuses(Authentication::Key),
        ntlm: account.ntlm.value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use std::path::Path;

    #[test]
    fn an_account_has_the_users_of_all_its_shares() {
        let config = read::parse(
            "t",
            "[account.Team]\nusers = { ann = \"read\" }\nmax_channels = 8\nsmb_listen = \"::ffff:10.0.0.2\"\n\
             min_dialect = \"3.0\"\nencryption = \"required\"\nsigning = \"required\"\n\
             ciphers = [\"AES-256-GCM\", \"AES-128-CCM\"]\nauthentication = [\"key\"]\n\
             ntlm = \"local\"\n\
             [share.a]\npath = \"/a\"\naccount = \"team\"\nusers = { bob = \"read\" }\n\
             smb_listen = \"::ffff:10.0.0.3\"\n\
             [share.b]\npath = \"/b\"\nusers = { eve = \"read\" }\n",
            Path::new("/"),
        )
        .unwrap();
        let none: Arc<dyn AccountMapping> = Arc::new(share::engine::NoAccounts);
        let told = of(&config, &none);
        let users = vec!["ann".into(), "bob".into()];
        let demands = Demands {
            min_dialect: Some(smb_wire::negotiate::Dialect::Smb300),
            encryption: Some(smb::Encryption::Required),
            signing: Some(smb::Signing::Required),
            ciphers: Some(vec![auth::Cipher::Aes256Gcm, auth::Cipher::Aes128Ccm]),
            refuses_passwords: true,
            refuses_keys: false,
            ntlm: smb::Ntlm::Local,
        };
        let endpoint = vec!["10.0.0.2".parse().unwrap()];
        let name = "Team".to_owned();
        let wanted = AccountConfig { name, users, multichannel: true, max_channels: 8, demands, endpoint };
        assert_eq!(told, [wanted]);
        assert_eq!(free_users(&config, &none), [Grantee::from("eve")]);
        let (share, account) = ("a".to_owned(), Some("team".to_owned()));
        let addresses = vec!["10.0.0.3".parse().unwrap()];
        assert_eq!(share_endpoints(&config), [ShareEndpoint { share, account, addresses }]);
    }

    #[test]
    fn the_bounds_of_the_configuration_are_those_of_the_server() {
        let channels = |text: &str| {
            let config = read::parse("t", text, Path::new("/")).ok()?;
            Some(config.server.max_channels.value)
        };
        let most = smb::limits::MAX_CHANNELS as u64;
        let with = |number: u64| channels(&format!("[server]\nmax_channels = {number}\n"));
        assert_eq!((with(most), with(most + 1)), (Some(most), None));
        assert_eq!(channels(""), Some(smb::limits::DEFAULT_CHANNELS as u64));
    }
}
