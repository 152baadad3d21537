//! Prints each value of the configuration with its origin.

use std::collections::BTreeMap;

use super::format::bare;
use super::setting::Origin;
use super::table::ShownSetting;
use super::tables::{Account, Config, Share};

/// The settings of one account or share, including inherited ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// The values under their keys.
    pub values: toml::Table,
    /// The origin of each value. That of a user's access is under `users.NAME`.
    pub origins: BTreeMap<String, String>,
}

/// An account's settings.
pub fn account(config: &Config, account: &Account) -> Settings {
    settings(config, account.lines())
}

/// A share's settings.
pub fn share(config: &Config, share: &Share) -> Settings {
    settings(config, share.lines())
}

/// The lines as values. The text is parsed here, so that each value is valid TOML.
fn settings(config: &Config, lines: Vec<ShownSetting>) -> Settings {
    let set = || lines.iter().filter_map(|line| Some((line, line.origin.as_ref()?)));
    let text: String = set().map(|(line, _)| format!("{} = {}\n", line.key, line.value)).collect();
    let origin = |(line, origin): (&ShownSetting, &Origin)| {
        (line.key.replace(['"', '\''], ""), config.location(origin))
    };
    Settings { values: text.parse().unwrap_or_default(), origins: set().map(origin).collect() }
}

/// The whole configuration as TOML, each value with its origin as a comment.
pub fn show(config: &Config) -> String {
    let testing = config.server.testing.lines().into_iter();
    let testing = testing.map(|line| ShownSetting { key: format!("testing.{}", line.key), ..line });
    let mut tables = vec![
        ("[server]".to_owned(), config.server.lines().into_iter().chain(testing).collect()),
        ("[admin]".to_owned(), config.admin.lines()),
        ("[audit]".to_owned(), config.audit.lines()),
        ("[domain]".to_owned(), config.domain.lines()),
        ("[node]".to_owned(), config.node.lines()),
    ];
    tables.extend(config.users.values().map(|user| ("[[user]]".to_owned(), user.lines())));
    let accounts = config.accounts.values();
    tables.extend(accounts.map(|it| (format!("[account.{}]", bare(&it.name.value)), it.lines())));
    let shares = config.shares.values();
    tables.extend(shares.map(|it| (format!("[share.{}]", bare(&it.name.value)), it.lines())));
    let tables: Vec<(String, Vec<(String, String)>)> = tables
        .into_iter()
        .map(|(title, lines)| (title, lines.iter().map(|line| texts(config, line)).collect()))
        .collect();
    let all = tables.iter().flat_map(|(_, lines)| lines);
    let width = all.map(|(text, _)| text.chars().count()).max().unwrap_or(0).min(56);
    let table = |(title, lines): &(String, Vec<(String, String)>)| {
        let lines: String = lines.iter().map(|(text, from)| format!("{text:width$}  # {from}\n")).collect();
        format!("{title}\n{lines}")
    };
    tables.iter().map(table).collect::<Vec<_>>().join("\n")
}

/// A line and the comment after it.
fn texts(config: &Config, line: &ShownSetting) -> (String, String) {
    let ShownSetting { key, value, origin, words } = line;
    let default = words.map_or_else(|| "default".to_owned(), |words| format!("default: {words}"));
    match origin {
        None => (format!("# {key} = {value}"), default),
        Some(Origin::Default) => (format!("{key} = {value}"), default),
        Some(origin) => (format!("{key} = {value}"), config.location(origin)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Setting, read};
    use std::path::Path;

    #[test]
    fn a_share_alone_is_shown_with_its_values_and_their_origins() {
        let text = "[account.lab]\nkind = \"premium\"\nusers = { ann = \"read\" }\nnfs_listen = [\"::1\"]\n\
                    [share.docs]\npath = \"/srv\"\naccount = \"lab\"\nprovisioned_gib = 100\nusers = { '*' = \
                    \"full\" }\n";
        let config = read::parse("t", text, Path::new("/")).unwrap();
        let shown = share(&config, &config.shares["docs"]);
        assert_eq!(shown.values["provisioned_gib"].as_integer(), Some(100));
        assert_eq!(shown.values["users"]["*"].as_str(), Some("full"));
        assert_eq!(shown.values["protocols"].as_array().map(Vec::len), Some(1));
        assert_eq!(shown.origins["users.ann"], "from [account.lab]");
        assert_eq!(shown.origins["users.*"], "line 9");
        assert_eq!(shown.origins["read_only"], "default");
        let shown = account(&config, &config.accounts["lab"]);
        assert_eq!(shown.values["kind"].as_str(), Some("premium"));
        assert_eq!(shown.values["nfs_listen"][0].as_str(), Some("::1"));
    }

    #[test]
    fn what_is_shown_is_a_configuration_of_the_same_values() {
        let text = "[server]\nsmb_port = 4450\nname = \"fi\\\"les\"\n[account.t]\nsigning = \"required\"\n\
                    kind = \"premium\"\nformula = \"v2\"\n[share.'my docs']\npath = \"/srv\"\naccount = \
                    \"t\"\n\
                    provisioned_gib = 64\nprovisioned_mib_s = 200\nusers = { '*' = \"read\" }\n\
                    [admin]\nmetrics = \"[::1]:9445\"\nlisten = \"127.0.0.1:0\"\nrecords = \"/r\"\n\
                    records_sample = 9\n\
                    tls_key = \"/k\"\ntls_certificate = \"/c\"\n";
        let mut config = read::parse("t.toml", text, Path::new("/")).unwrap();
        let shown = show(&config);
        let again = read::parse("shown", &shown, Path::new("/")).unwrap();
        assert_eq!(again.shares["my docs"].signing.value, config.shares["my docs"].signing.value);
        assert_eq!(again.shares["my docs"].users.keys().next().unwrap(), "*");
        assert_eq!(again.server.name.value, "fi\"les");
        fn value<T: Clone>(of: &Option<Setting<T>>) -> Option<T> {
            of.as_ref().map(|setting| setting.value.clone())
        }
        assert_eq!(value(&again.admin.metrics), value(&config.admin.metrics));
        assert_eq!(value(&again.admin.listen), value(&config.admin.listen));
        let tls = |config: &Config| (value(&config.admin.tls_certificate), value(&config.admin.tls_key));
        assert_eq!(tls(&again), tls(&config));
        let records = |config: &Config| (value(&config.admin.records), config.admin.records_sample.value);
        assert_eq!(records(&again), records(&config));
        let limits = |config: &Config| config.shares["my docs"].limits(config).unwrap().unwrap();
        assert_eq!(limits(&again), limits(&config));
        config.file = Some("t.toml".into());
        let shown = show(&config);
        assert!(
            shown.lines().any(|l| l.starts_with("smb_port = 4450 ") && l.ends_with("# t.toml:2")),
            "{shown}"
        );
        assert!(
            shown
                .lines()
                .any(|l| l.starts_with("signing = \"required\"") && l.ends_with("# from [account.t]"))
        );
        assert!(shown.lines().any(|l| l.starts_with("workers = 0") && l.ends_with("# default")));
    }
}
