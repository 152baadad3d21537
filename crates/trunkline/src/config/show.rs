//! Prints each value of the configuration and where it came from.

use std::collections::BTreeMap;
use std::fmt::Display;

use wire::SendFile;

use super::values::Choice;
use crate::config::model::{Account, Config, LEAST_PER_ADDRESS, Share};
use crate::config::setting::Setting;

/// What one account or share is set to, with all that it takes over.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// The values under their keys.
    pub values: toml::Table,
    /// Where each came from; of a user's access under `users.NAME`.
    pub origins: BTreeMap<String, String>,
}

/// An account's settings.
pub fn account(config: &Config, account: &Account) -> Settings {
    let mut page = Page { config, lines: Vec::new() };
    page.account(account);
    page.settings()
}

/// A share's settings.
pub fn share(config: &Config, share: &Share) -> Settings {
    let mut page = Page { config, lines: Vec::new() };
    page.share(share);
    page.settings()
}

/// The whole configuration as TOML, each value with its origin as a comment.
pub fn show(config: &Config) -> String {
    let mut page = Page { config, lines: Vec::new() };
    page.server();
    page.admin();
    page.users();
    page.accounts();
    page.shares();
    page.print()
}

struct Page<'c> {
    config: &'c Config,
    /// Text and the comment behind it.
    lines: Vec<(String, Option<String>)>,
}

impl Page<'_> {
    fn title(&mut self, title: &str) {
        if !self.lines.is_empty() {
            self.lines.push((String::new(), None));
        }
        self.lines.push((title.to_owned(), None));
    }

    fn line<T>(&mut self, key: &str, setting: &Setting<T>, text: impl Display) {
        self.lines.push((format!("{key} = {text}"), Some(self.config.place(&setting.origin))));
    }

    fn plain<T: Display>(&mut self, key: &str, setting: &Setting<T>) {
        self.line(key, setting, &setting.value);
    }

    fn text(&mut self, key: &str, setting: &Setting<String>) {
        self.line(key, setting, quoted(&setting.value));
    }

    fn path(&mut self, key: &str, setting: &Setting<std::path::PathBuf>) {
        self.line(key, setting, quoted(&setting.value.display().to_string()));
    }

    fn choice<T: Choice>(&mut self, key: &str, setting: &Setting<T>) {
        self.line(key, setting, quoted(setting.value.name()));
    }

    fn list<T: ToString>(&mut self, key: &str, setting: &Setting<Vec<T>>) {
        let items: Vec<String> = setting.value.iter().map(|item| quoted(&item.to_string())).collect();
        self.line(key, setting, format!("[{}]", items.join(", ")));
    }

    fn server(&mut self) {
        let server = &self.config.server;
        self.title("[server]");
        self.list("listen", &server.listen);
        let port =
            server.smb_port.value.map_or_else(|| "445 # else 4450".to_owned(), |port| port.to_string());
        self.line("smb_port", &server.smb_port, port);
        let port =
            server.nfs_port.value.map_or_else(|| "2049 # else 24490".to_owned(), |port| port.to_string());
        self.line("nfs_port", &server.nfs_port, port);
        self.plain("nfs_lease_time_s", &server.nfs_lease_time_s);
        self.plain("nfs_slots", &server.nfs_slots);
        self.plain("nfs_max_connections", &server.nfs_max_connections);
        self.path("state_dir", &server.state_dir);
        self.text("name", &server.name);
        self.text("netbios_name", &server.netbios_name);
        self.text("workgroup", &server.workgroup);
        self.plain("max_connections", &server.max_connections);
        let most = server.connections_per_address();
        let shown = match server.max_connections_per_address.value {
            Some(_) => most.to_string(),
            None => format!("{most} # a quarter of max_connections, at least {LEAST_PER_ADDRESS}"),
        };
        self.line("max_connections_per_address", &server.max_connections_per_address, shown);
        self.plain("workers", &server.workers);
        self.choice("log_format", &server.log_format);
        self.choice("log_level", &server.log_level);
        self.plain("discovery", &server.discovery);
        self.plain("anonymous", &server.anonymous);
        self.choice("signing", &server.signing);
        self.choice("spn", &server.spn);
        match &server.spn_names {
            Some(names) => self.list("spn_names", names),
            None => self.lines.push(("# spn_names = []".to_owned(), Some("default: none".to_owned()))),
        }
        self.plain("guess_delay_s", &server.guess_delay_s);
        self.choice("encryption", &server.encryption);
        self.choice("min_dialect", &server.min_dialect);
        self.plain("multichannel", &server.multichannel);
        self.plain("max_channels", &server.max_channels);
        self.list("advertise", &server.advertise);
        self.choice("rss", &server.rss);
        self.plain("testing.break_timeout_ms", &server.break_timeout_ms);
        self.plain("testing.smbtorture_controls", &server.smbtorture_controls);
        self.plain("testing.metadata_delay_us", &server.metadata_delay_us);
        self.plain("testing.max_credits", &server.max_credits);
    }

    fn admin(&mut self) {
        self.title("[admin]");
        let admin = &self.config.admin;
        for (key, at, usual) in
            [("metrics", &admin.metrics, "127.0.0.1:9445"), ("listen", &admin.listen, "127.0.0.1:9446")]
        {
            match at.value {
                Some(address) => self.line(key, at, quoted(&address.to_string())),
                None => {
                    let line = format!("# {key} = {}", quoted(usual));
                    self.lines.push((line, Some("default: none".to_owned())));
                }
            }
        }
        for (key, file) in [("tls_certificate", &admin.tls_certificate), ("tls_key", &admin.tls_key)] {
            if let Some(path) = &file.value {
                self.line(key, file, quoted(&path.display().to_string()));
            }
        }
        let records = &self.config.admin.records;
        match &records.path.value {
            Some(path) => self.line("records", &records.path, quoted(&path.display().to_string())),
            None => self
                .lines
                .push(("# records = \"requests.jsonl\"".to_owned(), Some("default: none".to_owned()))),
        }
        self.plain("records_sample", &records.sample);
        self.plain("records_max_mib", &records.max_mib);
        self.plain("records_paths", &records.paths);
    }

    fn users(&mut self) {
        for user in self.config.users.values() {
            self.title("[[user]]");
            self.text("name", &user.name);
            if let Some(file) = &user.password_file {
                self.path("password_file", file);
            }
            if let Some(sid) = &user.sid {
                self.text("sid", sid);
            }
            for (key, id) in [("uid", &user.uid), ("gid", &user.gid)] {
                if let Some(id) = id {
                    self.plain(key, id);
                }
            }
            if let Some(groups) = &user.groups {
                self.line("groups", groups, format!("{:?}", groups.value));
            }
            self.plain("admin", &user.admin);
        }
    }

    fn accounts(&mut self) {
        for account in self.config.accounts.values() {
            self.title(&format!("[account.{}]", key(&account.name.value)));
            self.account(account);
        }
    }

    fn account(&mut self, account: &Account) {
        self.choice("kind", &account.kind);
        if let Some(formula) = &account.formula {
            self.choice("formula", formula);
        }
        for (user, access) in &account.users {
            self.choice(&format!("users.{}", key(user)), access);
        }
        if let Some(encryption) = &account.encryption {
            self.choice("encryption", encryption);
        }
        if let Some(signing) = &account.signing {
            self.choice("signing", signing);
        }
        if let Some(dialect) = &account.min_dialect {
            self.choice("min_dialect", dialect);
        }
        if let Some(ciphers) = &account.ciphers {
            self.list("ciphers", ciphers);
        }
        if let Some(authentication) = &account.authentication {
            self.list("authentication", authentication);
        }
        if let Some(caching) = &account.metadata_caching {
            self.plain("metadata_caching", caching);
        }
        self.plain("multichannel", &account.multichannel);
        self.plain("max_channels", &account.max_channels);
        if let Some(listen) = &account.smb_listen {
            self.list("smb_listen", listen);
        }
        self.endpoint(&account.nfs);
    }

    fn endpoint(&mut self, own: &super::endpoints::OwnEndpoint) {
        if let Some(listen) = &own.listen {
            self.list("nfs_listen", listen);
        }
        for (key, setting) in [("nfs_port", &own.port), ("nfs_max_connections", &own.max_connections)] {
            if let Some(setting) = setting {
                self.plain(key, setting);
            }
        }
    }

    fn shares(&mut self) {
        for share in self.config.shares.values() {
            self.title(&format!("[share.{}]", key(&share.name.value)));
            self.share(share);
        }
    }

    fn share(&mut self, share: &Share) {
        self.path("path", &share.path);
        if let Some(account) = &share.account {
            self.text("account", account);
        }
        self.text("comment", &share.comment);
        self.plain("read_only", &share.read_only);
        for (user, access) in &share.users {
            self.choice(&format!("users.{}", key(user)), access);
        }
        self.choice("encryption", &share.encryption);
        self.choice("signing", &share.signing);
        self.choice("min_dialect", &share.min_dialect);
        self.plain("case_sensitive", &share.case_sensitive);
        self.plain("hide_unreadable", &share.hide_unreadable);
        let send_file = match share.send_file.value {
            SendFile::Auto => "\"auto\"",
            SendFile::Always => "true",
            SendFile::Never => "false",
        };
        self.line("send_file", &share.send_file, send_file);
        self.plain("metadata_caching", &share.metadata_caching);
        self.list("hide_files", &share.hide_files);
        self.choice("symlinks", &share.symlinks);
        self.plain("follow_symlinks", &share.follow_symlinks);
        self.plain("delete_through_symlinks", &share.delete_through_symlinks);
        self.plain("streams", &share.streams);
        self.plain("streams_max_gib", &share.streams_max_gib);
        self.plain("change_notify", &share.change_notify);
        self.plain("continuously_available", &share.continuously_available);
        for (key, setting) in share.provisioned.set() {
            self.plain(key, setting);
        }
        self.list("protocols", &share.nfs.protocols);
        self.choice("root_squash", &share.nfs.root_squash);
        self.plain("anonymous_uid", &share.nfs.anonymous_uid);
        self.plain("anonymous_gid", &share.nfs.anonymous_gid);
        self.list("nfs_clients", &share.nfs.clients);
        self.plain("nfs_secure_port", &share.nfs.secure_port);
        if let Some(listen) = &share.smb_listen {
            self.list("smb_listen", listen);
        }
        self.endpoint(&share.nfs.endpoint);
    }

    /// The lines as values. They are made here, so that each can be read again.
    fn settings(self) -> Settings {
        let mut settings = Settings::default();
        let text: String = self.lines.iter().map(|(line, _)| format!("{line}\n")).collect();
        settings.values = text.parse().unwrap_or_default();
        for (line, origin) in self.lines {
            let key = line.split(" = ").next().unwrap_or_default().replace(['"', '\''], "");
            settings.origins.extend(origin.map(|origin| (key, origin)));
        }
        settings
    }

    fn print(&self) -> String {
        let width = self.lines.iter().map(|(text, _)| text.chars().count()).max().unwrap_or(0).min(56);
        let lines = self.lines.iter().map(|(text, origin)| match origin {
            Some(origin) => format!("{text:width$}  # {origin}\n"),
            None => format!("{text}\n"),
        });
        lines.collect()
    }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A TOML key, quoted where it must be.
fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if bare { name.to_owned() } else { quoted(name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use std::path::Path;

    #[test]
    fn a_share_alone_is_shown_with_its_values_and_their_origins() {
        let text = "[account.lab]\nkind = \"premium\"\nusers = { ann = \"read\" }\nnfs_listen = [\"::1\"]\n\
                    [share.docs]\npath = \"/srv\"\naccount = \"lab\"\nprovisioned_gib = 100\nusers = { '*' = \"full\" }\n";
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
                    kind = \"premium\"\nformula = \"v2\"\n[share.'my docs']\npath = \"/srv\"\naccount = \"t\"\n\
                    provisioned_gib = 64\nprovisioned_mib_s = 200\nusers = { '*' = \"read\" }\n\
                    [admin]\nmetrics = \"[::1]:9445\"\nlisten = \"127.0.0.1:0\"\nrecords = \"/r\"\nrecords_sample = 9\n\
                    tls_key = \"/k\"\ntls_certificate = \"/c\"\n";
        let mut config = read::parse("t.toml", text, Path::new("/")).unwrap();
        let shown = show(&config);
        let again = read::parse("shown", &shown, Path::new("/")).unwrap();
        assert_eq!(again.shares["my docs"].signing.value, config.shares["my docs"].signing.value);
        assert_eq!(again.shares["my docs"].users.keys().next().unwrap(), "*");
        assert_eq!(again.server.name.value, "fi\"les");
        assert_eq!(again.admin.metrics.value, config.admin.metrics.value);
        assert_eq!(again.admin.listen.value, config.admin.listen.value);
        let tls = |config: &Config| {
            (config.admin.tls_certificate.value.clone(), config.admin.tls_key.value.clone())
        };
        assert_eq!(tls(&again), tls(&config));
        let records =
            |config: &Config| (config.admin.records.path.value.clone(), config.admin.records.sample.value);
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
