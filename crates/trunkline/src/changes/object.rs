//! Accounts and shares of a configuration, in the form in which clients see them.

use admin::objects::{Kind, Object};
use serde_json::{Map, Value};

use crate::config::show::{self, Settings};
use crate::config::{Config, Origin};

/// All accounts or all shares, sorted by name.
pub fn all(config: &Config, kind: Kind) -> Vec<Object> {
    match kind {
        Kind::Account => config
            .accounts
            .values()
            .map(|account| object(kind, &account.name.value, show::account(config, account)))
            .collect(),
        Kind::Share => config
            .shares
            .values()
            .map(|share| object(kind, &share.name.value, show::share(config, share)))
            .collect(),
    }
}

/// An account or a share by its name, without regard to case.
pub fn find(config: &Config, kind: Kind, name: &str) -> Option<Object> {
    let key = name.to_lowercase();
    Some(match kind {
        Kind::Account => {
            let account = config.accounts.get(&key)?;
            object(kind, &account.name.value, show::account(config, account))
        }
        Kind::Share => {
            let share = config.shares.get(&key)?;
            object(kind, &share.name.value, show::share(config, share))
        }
    })
}

/// The origin of an account's or a share's table: a file or the command line.
pub fn origin(config: &Config, kind: Kind, name: &str) -> Option<Origin> {
    let key = name.to_lowercase();
    match kind {
        Kind::Account => Some(config.accounts.get(&key)?.name.origin.clone()),
        Kind::Share => Some(config.shares.get(&key)?.name.origin.clone()),
    }
}

/// The names of all accounts or of all shares.
pub fn names(config: &Config, kind: Kind) -> Vec<&str> {
    match kind {
        Kind::Account => config.accounts.values().map(|account| account.name.value.as_str()).collect(),
        Kind::Share => config.shares.values().map(|share| share.name.value.as_str()).collect(),
    }
}

fn object(kind: Kind, name: &str, shown: Settings) -> Object {
    let settings = match serde_json::to_value(shown.values) {
        Ok(Value::Object(settings)) => settings,
        _ => Map::new(),
    };
    let version = version(name, &settings);
    Object { kind, name: name.to_owned(), version, settings, origins: shown.origins }
}

/// A digest of the values (FNV-1a). The same values have the same version, also after a restart.
fn version(name: &str, settings: &Map<String, Value>) -> String {
    let text = format!("{name}\n{}", Value::Object(settings.clone()));
    let step = |digest: u64, byte: u8| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use std::path::Path;

    #[test]
    fn a_version_is_another_one_with_each_value_and_only_then() {
        let of = |text: &str| {
            let config = read::parse("t", text, Path::new("/")).unwrap();
            find(&config, Kind::Share, "DOCS").unwrap()
        };
        let plain = of("[share.Docs]\npath = \"/srv\"\n");
        assert_eq!((plain.name.as_str(), plain.settings["read_only"].as_bool()), ("Docs", Some(false)));
        assert_eq!(
            plain.version,
            of("# a comment\n[share.Docs]\nread_only = false\npath = '/srv'\n").version
        );
        assert_ne!(plain.version, of("[share.Docs]\npath = \"/srv\"\nread_only = true\n").version);
        // An inherited value counts too.
        let above = "[server]\nsigning = \"required\"\n[share.Docs]\npath = \"/srv\"\n";
        assert_ne!(plain.version, of(above).version);
    }
}
