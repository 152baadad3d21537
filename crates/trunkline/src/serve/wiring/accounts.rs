//! What accounts say of the sessions of their users.

use std::collections::BTreeSet;

use smb::AccountConfig;

use crate::config::{Account, Config, Setting};

/// The accounts as the server wants them.
pub fn of(config: &Config) -> Vec<AccountConfig> {
    config.accounts.values().map(|account| one(config, account)).collect()
}

/// Puts what a reload may change of channels into the settings of a running server.
pub fn apply(config: &Config, settings: &mut smb::ServerConfig) {
    settings.multichannel = config.server.multichannel.value;
    settings.max_channels = channels(&config.server.max_channels);
    settings.accounts = of(config);
}

/// A number of channels, which was read within its bounds.
pub fn channels(setting: &Setting<u64>) -> usize {
    usize::try_from(setting.value).unwrap_or(smb::limits::MAX_CHANNELS)
}

fn one(config: &Config, account: &Account) -> AccountConfig {
    let name = account.name.value.to_lowercase();
    let shares = config.shares.values();
    let of_it =
        shares.filter(|share| share.account.as_ref().is_some_and(|on| on.value.to_lowercase() == name));
    // A share takes over the account's users and may name more.
    let users: BTreeSet<&String> =
        account.users.keys().chain(of_it.flat_map(|share| share.users.keys())).collect();
    AccountConfig {
        name: account.name.value.clone(),
        users: users.into_iter().cloned().collect(),
        multichannel: account.multichannel.value,
        max_channels: channels(&account.max_channels),
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
            "[account.Team]\nusers = { ann = \"read\" }\nmax_channels = 8\n\
             [share.a]\npath = \"/a\"\naccount = \"team\"\nusers = { bob = \"read\" }\n\
             [share.b]\npath = \"/b\"\nusers = { eve = \"read\" }\n",
            Path::new("/"),
        )
        .unwrap();
        let told = of(&config);
        let users = vec!["ann".to_owned(), "bob".to_owned()];
        assert_eq!(
            told,
            [AccountConfig { name: "Team".to_owned(), users, multichannel: true, max_channels: 8 }]
        );
    }

    #[test]
    fn the_bounds_of_the_configuration_are_those_of_the_server() {
        assert_eq!(read::MAX_CHANNELS, smb::limits::MAX_CHANNELS as u64);
        assert_eq!(read::DEFAULT_CHANNELS, smb::limits::DEFAULT_CHANNELS as u64);
    }
}
