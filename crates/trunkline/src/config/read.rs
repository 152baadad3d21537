//! Turns the tables of the file into a [`Config`].
//!
//! The lists of known keys stand here, one for each table; what a table leaves out is filled in from
//! the one above it, so that the rest of the program sees only whole values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::DeTable;

use super::admin::{self, Admin};
use super::section::{Document, Layer, Section, address};
use super::values::{self, Choice};
use super::{
    Access, Authentication, Cipher, Dialect, Encryption, LogFormat, LogLevel, Rss, Signing, Spn, endpoints,
    limits,
};
use crate::config::model::{Account, Config, Server, Share, User};
use crate::config::setting::{ConfigError, Origin, Setting};
use share::engine::Symlinks;
use smb::limits::MAX_CREDITS;
use wire::SendFile;

const TOP: &[&str] = &["server", "admin", "user", "account", "share"];
/// What can be changed by command.
const CHANGED: &[&str] = &["account", "share"];
const SERVER: &[&str] = &[
    "listen",
    "smb_port",
    "nfs_port",
    "nfs_lease_time_s",
    "nfs_slots",
    "nfs_max_connections",
    "state_dir",
    "name",
    "netbios_name",
    "workgroup",
    "max_connections",
    "max_connections_per_address",
    "workers",
    "log_format",
    "log_level",
    "discovery",
    "anonymous",
    "signing",
    "spn",
    "spn_names",
    "guess_delay_s",
    "encryption",
    "min_dialect",
    "multichannel",
    "max_channels",
    "advertise",
    "rss",
    "testing",
];
/// Channels of a session unless the configuration says otherwise, and at most.
pub const DEFAULT_CHANNELS: u64 = 4;
pub const MAX_CHANNELS: u64 = 32;
/// The longest that a try of a password waits for the one before it: a minute.
const MAX_GUESS_DELAY_S: u64 = 60;

const TESTING: &[&str] = &["break_timeout_ms", "smbtorture_controls", "metadata_delay_us", "max_credits"];
const USER: &[&str] = &["name", "password_file", "sid", "uid", "gid", "groups", "admin"];
/// Keys of `[account.NAME]`.
pub const ACCOUNT: &[&str] = &[
    "kind",
    "formula",
    "users",
    "encryption",
    "signing",
    "min_dialect",
    "ciphers",
    "authentication",
    "metadata_caching",
    "multichannel",
    "max_channels",
    "smb_listen",
    "nfs_listen",
    "nfs_port",
    "nfs_max_connections",
];
/// The most that `streams_max_gib` may say.
const MAX_STREAMS_GIB: u64 = 1 << 20;
/// Keys of `[share.NAME]`.
pub const SHARE: &[&str] = &[
    "path",
    "account",
    "comment",
    "read_only",
    "users",
    "encryption",
    "signing",
    "min_dialect",
    "case_sensitive",
    "hide_unreadable",
    "hide_files",
    "symlinks",
    "follow_symlinks",
    "delete_through_symlinks",
    "streams",
    "streams_max_gib",
    "change_notify",
    "send_file",
    "metadata_caching",
    "continuously_available",
    "provisioned_gib",
    "provisioned_iops",
    "provisioned_mib_s",
    "protocols",
    "root_squash",
    "anonymous_uid",
    "anonymous_gid",
    "nfs_clients",
    "nfs_secure_port",
    "smb_listen",
    "nfs_listen",
    "nfs_port",
    "nfs_max_connections",
];

/// Reads `text`, which the user knows as `name`; relative paths count from `base`.
///
/// # Errors
/// [`ConfigError`] with the line to change.
pub fn parse(name: &str, text: &str, base: &Path) -> Result<Config, ConfigError> {
    both(name, text, base, None)
}

/// The same, with what was changed by command, a name for that and its text, laid over the accounts and shares.
///
/// # Errors
/// [`ConfigError`] with the line to change.
pub fn changed(name: &str, text: &str, base: &Path, change: (&str, &str)) -> Result<Config, ConfigError> {
    both(name, text, base, Some(change))
}

fn both(name: &str, text: &str, base: &Path, change: Option<(&str, &str)>) -> Result<Config, ConfigError> {
    let document = Document { name, text, is_change: false };
    let file_tree = tree(document)?;
    let file = Layer { document, at: 0, table: file_tree.get_ref() };
    let over = change.map(|(name, text)| Document { name, text, is_change: true });
    let over_tree = over.map(tree).transpose()?;
    let over = over.zip(over_tree.as_ref());
    let over = over.map(|(document, tree)| Layer { document, at: 0, table: tree.get_ref() });
    let title = || "the configuration".to_owned();
    if let Some(over) = over {
        Section::new(title(), vec![over], CHANGED)?;
    }
    let top = Section::new(title(), over.into_iter().chain([file]).collect(), TOP)?;
    let server = server_of(&top, document, base)?;
    let users = users(&top, base)?;
    let accounts = accounts(&top, &server)?;
    let shares = shares(&top, base, &server, &accounts)?;
    let admin = Admin::read(top.section("admin", admin::KEYS)?.as_ref(), base)?;
    Ok(Config { file: None, server, admin, users, accounts, shares })
}

/// Reads no more of it than `[server]`.
///
/// # Errors
/// [`ConfigError`] with the line to change.
pub fn server(name: &str, text: &str, base: &Path) -> Result<Server, ConfigError> {
    let document = Document { name, text, is_change: false };
    let tree = tree(document)?;
    let layer = Layer { document, at: 0, table: tree.get_ref() };
    server_of(&Section::new("the configuration".to_owned(), vec![layer], TOP)?, document, base)
}

fn server_of(top: &Section<'_>, document: Document<'_>, base: &Path) -> Result<Server, ConfigError> {
    match top.section("server", SERVER)? {
        Some(table) => server_table(&table, base),
        None => {
            let empty = DeTable::new();
            let nothing = Layer { document, at: 0, table: &empty };
            server_table(&Section::new("[server]".to_owned(), vec![nothing], SERVER)?, base)
        }
    }
}

/// What to do with a file of changes that is not what the server wrote.
pub(super) const MEND: &str =
    "; restore the file, mend it, or remove it with all that was changed by command";

fn tree<'a>(document: Document<'a>) -> Result<Spanned<DeTable<'a>>, ConfigError> {
    DeTable::parse(document.text).map_err(|e| {
        let mut message = e.message().lines().collect::<Vec<_>>().join(", ");
        if document.is_change {
            message += MEND;
        }
        document.error(e.span().map_or(0, |span| span.start), message)
    })
}

fn or_default<T>(found: Option<Setting<T>>, default: T) -> Setting<T> {
    found.unwrap_or_else(|| Setting::default_of(default))
}

fn server_table(table: &Section<'_>, base: &Path) -> Result<Server, ConfigError> {
    let all = vec![std::net::Ipv4Addr::UNSPECIFIED.into(), std::net::Ipv6Addr::UNSPECIFIED.into()];
    let listen = or_default(table.list("listen", address)?, all);
    if listen.value.is_empty() {
        return Err(table.error("`listen` in [server] must name at least one address"));
    }
    let name = match table.string("name")? {
        Some(name) => name,
        None => Setting::default_of(host_name()),
    };
    let netbios_name = or_default(table.parsed("netbios_name", netbios)?, netbios_of(&name.value));
    let testing = table.section("testing", TESTING)?;
    let (break_timeout_ms, smbtorture_controls, metadata_delay_us, max_credits) = match testing {
        Some(testing) => (
            testing.number("break_timeout_ms", 100, 600_000)?,
            testing.boolean("smbtorture_controls")?,
            testing.number("metadata_delay_us", 0, 1_000_000)?,
            testing.number("max_credits", 1, MAX_CREDITS.into())?,
        ),
        None => (None, None, None, None),
    };
    Ok(Server {
        listen,
        smb_port: match table.number("smb_port", 0, 65_535)? {
            Some(port) => port.map(|port| u16::try_from(port).ok()),
            None => Setting::default_of(None),
        },
        nfs_port: match table.number("nfs_port", 0, 65_535)? {
            Some(port) => port.map(|port| u16::try_from(port).ok()),
            None => Setting::default_of(None),
        },
        nfs_lease_time_s: or_default(table.number("nfs_lease_time_s", 10, 3600)?, 90),
        nfs_slots: or_default(table.number("nfs_slots", 1, 1024)?, 64),
        nfs_max_connections: or_default(endpoints::connections(table)?, endpoints::DEFAULT_CONNECTIONS),
        state_dir: match table.path("state_dir", base)? {
            Some(dir) => dir,
            None => default_state_dir(),
        },
        name,
        netbios_name,
        workgroup: or_default(table.parsed("workgroup", netbios)?, "WORKGROUP".to_owned()),
        max_connections_per_address: match table.number("max_connections_per_address", 1, 1_000_000)? {
            Some(most) => most.map(Some),
            None => Setting::default_of(None),
        },
        max_connections: or_default(table.number("max_connections", 1, 1_000_000)?, 16_384),
        workers: or_default(table.number("workers", 0, 1024)?, 0),
        log_format: or_default(table.choice("log_format", LogFormat::NAMES)?, LogFormat::Text),
        log_level: or_default(table.choice("log_level", LogLevel::NAMES)?, LogLevel::Info),
        discovery: or_default(table.boolean("discovery")?, true),
        anonymous: or_default(table.boolean("anonymous")?, false),
        signing: or_default(table.choice("signing", Signing::NAMES)?, Signing::Auto),
        spn: or_default(table.choice("spn", Spn::NAMES)?, Spn::Accepted),
        spn_names: table.list("spn_names", values::spn_name)?,
        guess_delay_s: or_default(table.number("guess_delay_s", 0, MAX_GUESS_DELAY_S)?, 2),
        encryption: or_default(table.choice("encryption", Encryption::NAMES)?, Encryption::Enabled),
        min_dialect: or_default(table.choice("min_dialect", Dialect::NAMES)?, Dialect::Smb202),
        multichannel: or_default(table.boolean("multichannel")?, true),
        max_channels: or_default(channels(table)?, DEFAULT_CHANNELS),
        advertise: or_default(table.list("advertise", values::advertised)?, Vec::new()),
        rss: or_default(table.choice("rss", Rss::NAMES)?, Rss::Always),
        break_timeout_ms: or_default(break_timeout_ms, 35_000),
        smbtorture_controls: or_default(smbtorture_controls, false),
        metadata_delay_us: or_default(metadata_delay_us, 0),
        max_credits: or_default(max_credits, MAX_CREDITS.into()),
    })
}

fn channels(table: &Section<'_>) -> Result<Option<Setting<u64>>, ConfigError> {
    table.number("max_channels", 1, MAX_CHANNELS)
}

fn users(top: &Section<'_>, base: &Path) -> Result<BTreeMap<String, User>, ConfigError> {
    let mut users: BTreeMap<String, User> = BTreeMap::new();
    for table in top.each("user", USER)? {
        let check = |name: &str| values::user_name(name).map(|()| name.to_owned());
        let name = table.parsed("name", check)?.ok_or_else(|| table.error("a [[user]] without `name`"))?;
        let user = User {
            password_file: table.path("password_file", base)?,
            sid: table.parsed("sid", values::sid)?,
            uid: table.number("uid", 0, u64::from(u32::MAX) - 1)?,
            gid: table.number("gid", 0, u64::from(u32::MAX) - 1)?,
            groups: table.numbers("groups")?,
            admin: or_default(table.boolean("admin")?, false),
            name,
        };
        if let Some(other) = users.insert(user.name.value.to_lowercase(), user) {
            return Err(
                table.error(format!("a second [[user]] `{}`; give each user one table", other.name.value))
            );
        }
    }
    Ok(users)
}

fn access_list(table: &Section<'_>) -> Result<BTreeMap<String, Setting<Access>>, ConfigError> {
    let mut users = BTreeMap::new();
    for (name, access) in table.map("users", Access::NAMES)? {
        if name != "*" {
            values::user_name(&name)
                .map_err(|why| table.error(format!("`users` in {}: {why}", table.title())))?;
        }
        if users.insert(name.to_lowercase(), access).is_some() {
            return Err(table.error(format!("`users` in {}: `{name}` stands there twice", table.title())));
        }
    }
    Ok(users)
}

fn accounts(top: &Section<'_>, server: &Server) -> Result<BTreeMap<String, Account>, ConfigError> {
    let mut accounts = BTreeMap::new();
    for (name, table) in top.named("account", ACCOUNT)? {
        let account = Account {
            kind: or_default(table.choice("kind", limits::Kind::NAMES)?, limits::Kind::Unlimited),
            formula: table.choice("formula", share::limits::Formula::NAMES)?,
            users: access_list(&table)?,
            encryption: table.choice("encryption", Encryption::NAMES)?,
            signing: table.choice("signing", Signing::NAMES)?,
            min_dialect: table.choice("min_dialect", Dialect::NAMES)?,
            ciphers: some(&table, "ciphers", table.choices("ciphers", Cipher::NAMES)?)?,
            authentication: some(
                &table,
                "authentication",
                table.choices("authentication", Authentication::NAMES)?,
            )?,
            smb_listen: some(&table, "smb_listen", table.list("smb_listen", address)?)?,
            metadata_caching: table.boolean("metadata_caching")?,
            multichannel: table
                .boolean("multichannel")?
                .unwrap_or_else(|| server.multichannel.inherited("[server]")),
            max_channels: channels(&table)?.unwrap_or_else(|| server.max_channels.inherited("[server]")),
            nfs: endpoints::OwnEndpoint::read(&table)?,
            name: Setting { value: name.clone(), origin: table.origin() },
        };
        if accounts.insert(name.to_lowercase(), account).is_some() {
            return Err(table.error(format!("a second account `{name}`; names do not differ by case")));
        }
    }
    Ok(accounts)
}

/// A list that names at least one, where it is there.
fn some<T>(
    table: &Section<'_>,
    key: &str,
    list: Option<Setting<Vec<T>>>,
) -> Result<Option<Setting<Vec<T>>>, ConfigError> {
    match &list {
        Some(list) if list.value.is_empty() => {
            Err(table.error(format!("`{key}` in {} must name at least one, or not be there", table.title())))
        }
        _ => Ok(list),
    }
}

fn shares(
    top: &Section<'_>,
    base: &Path,
    server: &Server,
    accounts: &BTreeMap<String, Account>,
) -> Result<BTreeMap<String, Share>, ConfigError> {
    let mut shares = BTreeMap::new();
    for (name, table) in top.named("share", SHARE)? {
        values::share_name(&name).map_err(|why| table.error(why))?;
        let share = share(&table, name.clone(), base, server, accounts)?;
        if shares.insert(name.to_lowercase(), share).is_some() {
            return Err(table.error(format!("a second share `{name}`; names do not differ by case")));
        }
    }
    Ok(shares)
}

fn share(
    table: &Section<'_>,
    name: String,
    base: &Path,
    server: &Server,
    accounts: &BTreeMap<String, Account>,
) -> Result<Share, ConfigError> {
    let path =
        table.path("path", base)?.ok_or_else(|| table.error(format!("{} without `path`", table.title())))?;
    let mut share = Share::new(Setting { value: name, origin: table.origin() }, path, server);
    if let Some(account) = table.string("account")? {
        let known = accounts.get(&account.value.to_lowercase()).ok_or_else(|| {
            let names: Vec<&str> = accounts.values().map(|account| account.name.value.as_str()).collect();
            let hint = super::nearest::hint(&account.value, &names);
            table.error(format!(
                "`account` in {}: there is no [account.{}]{hint}",
                table.title(),
                account.value
            ))
        })?;
        share.take_over(known);
        share.account = Some(account);
    }
    share.users.extend(access_list(table)?);
    share.comment = table.parsed("comment", comment)?.unwrap_or(share.comment);
    share.read_only = table.boolean("read_only")?.unwrap_or(share.read_only);
    share.encryption = table.choice("encryption", Encryption::NAMES)?.unwrap_or(share.encryption);
    share.signing = table.choice("signing", Signing::NAMES)?.unwrap_or(share.signing);
    share.min_dialect = table.choice("min_dialect", Dialect::NAMES)?.unwrap_or(share.min_dialect);
    share.case_sensitive = table.boolean("case_sensitive")?.unwrap_or(share.case_sensitive);
    share.send_file = table
        .boolean_or("send_file", SendFile::Always, SendFile::Never, SendFile::NAMES)?
        .unwrap_or(share.send_file);
    share.metadata_caching = table.boolean("metadata_caching")?.unwrap_or(share.metadata_caching);
    share.hide_unreadable = table.boolean("hide_unreadable")?.unwrap_or(share.hide_unreadable);
    share.hide_files = table.list("hide_files", pattern)?.unwrap_or(share.hide_files);
    share.symlinks = table.choice("symlinks", Symlinks::NAMES)?.unwrap_or(share.symlinks);
    share.follow_symlinks = table.boolean("follow_symlinks")?.unwrap_or(share.follow_symlinks);
    share.delete_through_symlinks =
        table.boolean("delete_through_symlinks")?.unwrap_or(share.delete_through_symlinks);
    share.streams = table.boolean("streams")?.unwrap_or(share.streams);
    share.streams_max_gib =
        table.number("streams_max_gib", 1, MAX_STREAMS_GIB)?.unwrap_or(share.streams_max_gib);
    share.change_notify = table.boolean("change_notify")?.unwrap_or(share.change_notify);
    share.continuously_available =
        table.boolean("continuously_available")?.unwrap_or(share.continuously_available);
    share.smb_listen = some(table, "smb_listen", table.list("smb_listen", address)?)?;
    share.provisioned = limits::Provisioned::read(table)?;
    share.nfs = super::nfs::ShareNfs::read(table)?;
    Ok(share)
}

impl Share {
    /// Takes over what `account` says.
    fn take_over(&mut self, account: &Account) {
        let table = format!("[account.{}]", account.name.value);
        self.users =
            account.users.iter().map(|(user, access)| (user.clone(), access.inherited(&table))).collect();
        if let Some(encryption) = &account.encryption {
            self.encryption = encryption.inherited(&table);
        }
        if let Some(signing) = &account.signing {
            self.signing = signing.inherited(&table);
        }
        if let Some(dialect) = &account.min_dialect {
            self.min_dialect = dialect.inherited(&table);
        }
        if let Some(caching) = &account.metadata_caching {
            self.metadata_caching = caching.inherited(&table);
        }
    }
}

fn comment(text: &str) -> Result<String, String> {
    match text.chars().count() {
        0..=256 if !text.contains(char::is_control) => Ok(text.to_owned()),
        _ => Err("must be one line of at most 256 characters".to_owned()),
    }
}

fn pattern(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(['/', '\\']) {
        return Err(format!("`{text}` is not a pattern for a file's name"));
    }
    Ok(text.to_owned())
}

fn netbios(name: &str) -> Result<String, String> {
    let fits = (1..=15).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_graphic() && !"\\/:*?\"<>|.".contains(c));
    if fits {
        Ok(name.to_uppercase())
    } else {
        Err(format!("`{name}` must have 1 to 15 letters, digits or dashes"))
    }
}

/// The first label of `name` as a NetBIOS name.
fn netbios_of(name: &str) -> String {
    let label = name.split('.').next().unwrap_or_default();
    let kept: String = label.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(15).collect();
    if kept.is_empty() { "TRUNKLINE".to_owned() } else { kept.to_uppercase() }
}

pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let label = name.split('.').next().unwrap_or_default().to_owned();
    if label.is_empty() || label == "(none)" { "trunkline".to_owned() } else { label }
}

/// `/var/lib/trunkline` as root, else below the user's own state directory.
fn default_state_dir() -> Setting<PathBuf> {
    let set =
        |name: &'static str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if rustix::process::geteuid().is_root() {
        return Setting::default_of(PathBuf::from("/var/lib/trunkline"));
    }
    if let Some(dir) = set("XDG_STATE_HOME") {
        return Setting { value: dir.join("trunkline"), origin: Origin::Environment("XDG_STATE_HOME") };
    }
    match set("HOME") {
        Some(home) => {
            Setting { value: home.join(".local/state/trunkline"), origin: Origin::Environment("HOME") }
        }
        None => Setting::default_of(PathBuf::from("/var/lib/trunkline")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        parse("t.toml", text, Path::new("/etc/trunkline")).map_err(|e| e.0)
    }

    #[test]
    fn a_whole_file_is_read_with_the_line_of_each_value() {
        let config = read(
            "[server]\nlisten = [\"127.0.0.1\", \"::1\"]\nsmb_port = 4450\nmin_dialect = \"3.0\"\n\
             [server.testing]\nbreak_timeout_ms = 1000\nsmbtorture_controls = true\nmetadata_delay_us = 9\nmax_credits = 3\n\
             [[user]]\nname = \"Ann\"\npassword_file = \"ann.pw\"\nuid = 1000\n\
             [account.team]\nusers = { ann = \"read\" }\nencryption = \"required\"\nmetadata_caching = false\n\
             [share.docs]\npath = \"/srv/docs\"\naccount = \"team\"\nusers = { Bob = \"full\" }\n",
        )
        .unwrap();
        assert_eq!(config.server.smb_port, Setting { value: Some(4450), origin: Origin::File { line: 3 } });
        assert_eq!(config.server.break_timeout_ms.value, 1000);
        assert!(config.server.smbtorture_controls.value);
        assert_eq!(config.server.metadata_delay_us.value, 9);
        assert_eq!(config.server.max_credits.value, 3);
        let ann = &config.users["ann"];
        assert_eq!(ann.name.value, "Ann");
        assert_eq!(ann.password_file.as_ref().unwrap().value, Path::new("/etc/trunkline/ann.pw"));
        let docs = &config.shares["docs"];
        assert_eq!(docs.encryption.origin, Origin::Inherited("[account.team]".to_owned()));
        let team = Origin::Inherited("[account.team]".to_owned());
        assert_eq!(docs.metadata_caching, Setting { value: false, origin: team });
        assert_eq!(docs.min_dialect.origin, Origin::Inherited("[server]".to_owned()));
        assert_eq!(docs.min_dialect.value, Dialect::Smb30);
        assert_eq!(docs.users["ann"].value, Access::Read);
        assert_eq!(docs.users["bob"], Setting { value: Access::Full, origin: Origin::File { line: 21 } });
        assert_eq!(docs.signing.origin, Origin::Default);
    }

    #[test]
    fn large_reads_leave_by_a_word_or_a_flag() {
        let with = |value: &str| read(&format!("[share.d]\npath = \"/x\"\nsend_file = {value}\n"));
        for (value, wanted) in
            [("\"auto\"", SendFile::Auto), ("true", SendFile::Always), ("false", SendFile::Never)]
        {
            assert_eq!(with(value).unwrap().shares["d"].send_file.value, wanted);
        }
        let refused = |value| with(value).unwrap_err();
        assert!(
            refused("\"always\"")
                .starts_with("t.toml:3: `send_file` in [share.d]: `always` is not one of \"auto\"")
        );
        assert!(
            refused("1").starts_with("t.toml:3: `send_file` in [share.d] must be true, false or \"auto\"")
        );
    }

    #[test]
    fn each_slip_is_refused_with_its_line_and_what_was_meant() {
        let cases = [
            (
                "[share.docs]\npth = \"/x\"\n",
                "t.toml:2: unknown key `pth` in [share.docs]; did you mean `path`?",
            ),
            ("[sevrer]\n", "t.toml:1: unknown key `sevrer` in the configuration; did you mean `server`?"),
            ("[server]\nsmb_port = 70000\n", "t.toml:2: `smb_port` in [server]: must be from 0 to 65535"),
            (
                "[server]\nsmb_port = \"x\"\n",
                "t.toml:2: `smb_port` in [server] must be a whole number, not a string",
            ),
            (
                "[server]\nlisten = [\"host\"]\n",
                "t.toml:2: `listen` in [server]: `host` is not an IPv4 or IPv6 address",
            ),
            (
                "[server.testing]\nx = 1\n",
                "t.toml:2: unknown key `x` in [server.testing]; known: break_timeout_ms, smbtorture_controls, metadata_delay_us, max_credits",
            ),
            (
                "[share.d]\npath=\"/x\"\nencryption = \"on\"\n",
                "t.toml:3: `encryption` in [share.d]: `on` is not one of \"off\", \"enabled\", \"required\"",
            ),
            ("[share.d]\nread_only = true\n", "t.toml:1: [share.d] without `path`"),
            (
                "[share.d]\npath=\"/x\"\naccount=\"teem\"\n[account.team]\n",
                "t.toml:1: `account` in [share.d]: there is no [account.teem]; did you mean `team`?",
            ),
            (
                "[share.d]\npath=\"/x\"\n[share.D]\npath=\"/y\"\n",
                "t.toml:3: a second share `D`; names do not differ by case",
            ),
            (
                "[share.d]\npath=\"/x\"\ncontinuously_available=1\n",
                "t.toml:3: `continuously_available` in [share.d] must be true or false, not a whole number",
            ),
            ("[[user]]\nuid = 4\n", "t.toml:1: a [[user]] without `name`"),
            (
                "[[user]]\nname = \"a\"\nuid = -4\n",
                "t.toml:3: `uid` in [[user]]: must be from 0 to 4294967294",
            ),
            (
                "[user]\nname = \"a\"\n",
                "t.toml:1: `user` in the configuration must be written as [[user]], not a table",
            ),
            (
                "share = 4\n",
                "t.toml:1: `share` in the configuration must be a table for each name: [share.NAME], not a whole number",
            ),
            (
                "[share.d]\npath=\"/x\"\nusers = { guest = \"read\" }\n",
                "t.toml:1: `users` in [share.d]: `guest` is refused: guests and anonymous users are not served",
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(read(text).unwrap_err(), wanted, "{text}");
        }
    }

    #[test]
    fn slips_about_channels_are_refused_with_the_setting() {
        let cases = [
            ("[server]\nmax_channels = 33\n", "t.toml:2: `max_channels` in [server]: must be from 1 to 32"),
            (
                "[account.team]\nmax_channel = 2\n",
                "t.toml:2: unknown key `max_channel` in [account.team]; did you mean `max_channels`?",
            ),
            (
                "[account.team]\nmultichannel = \"off\"\n",
                "t.toml:2: `multichannel` in [account.team] must be true or false, not a string",
            ),
            (
                "[server]\nadvertise = [\"203.0.113.7\", \"::1\"]\n",
                "t.toml:2: `advertise` in [server]: `::1` cannot be reached from other hosts",
            ),
            ("[server]\nrss = true\n", "t.toml:2: `rss` in [server] must be a string, not true or false"),
        ];
        for (text, wanted) in cases {
            assert_eq!(read(text).unwrap_err(), wanted, "{text}");
        }
    }

    #[test]
    fn an_account_takes_over_what_the_server_says_of_channels() {
        let config = read(
            "[server]\nmultichannel = false\n[account.team]\nmax_channels = 8\n\
             [account.lab]\nmultichannel = true\n",
        )
        .unwrap();
        let (team, lab) = (&config.accounts["team"], &config.accounts["lab"]);
        let inherited = Origin::Inherited("[server]".to_owned());
        assert_eq!(team.multichannel, Setting { value: false, origin: inherited });
        assert_eq!(team.max_channels, Setting { value: 8, origin: Origin::File { line: 4 } });
        assert_eq!(lab.multichannel, Setting { value: true, origin: Origin::File { line: 6 } });
        assert_eq!(lab.max_channels, Setting::default_of(DEFAULT_CHANNELS));
    }

    #[test]
    fn what_was_changed_goes_before_the_file_key_by_key_or_as_a_whole() {
        let file = "[account.Team]\nkind = \"premium\"\nmultichannel = false\n\
                    [share.Docs]\npath = \"/srv/docs\"\naccount = \"team\"\ncomment = \"old\"\nprovisioned_gib = 100\n\
                    [share.gone]\npath = \"/srv/gone\"\n[share.other]\npath = \"/srv/other\"\ncomment = \"old\"\n";
        let change = "[account.team]\nmultichannel = true\n[share.docs]\nprovisioned_gib = 200\n\
                      [share.gone]\nremoved = true\n[share.other]\nwhole = true\npath = \"/srv/new\"\n\
                      [share.made]\nwhole = true\npath = \"/srv/made\"\n[share.stale]\ncomment = \"x\"\n";
        let read = |change| changed("t.toml", file, Path::new("/"), ("changes.toml", change));
        let config = read(change).unwrap();
        let team = &config.accounts["team"];
        assert_eq!(team.multichannel, Setting { value: true, origin: Origin::Change { line: 2 } });
        assert_eq!(team.kind.value, limits::Kind::Premium);
        assert_eq!(config.shares.keys().collect::<Vec<_>>(), ["docs", "made", "other"]);
        let docs = &config.shares["docs"];
        assert_eq!((docs.name.value.as_str(), &docs.name.origin), ("Docs", &Origin::File { line: 4 }));
        assert_eq!(docs.provisioned.gib.as_ref().unwrap().value, 200);
        assert_eq!(docs.comment, Setting { value: "old".to_owned(), origin: Origin::File { line: 7 } });
        assert_eq!(config.shares["other"].comment.value, "");
        assert_eq!(config.shares["made"].name.origin, Origin::Change { line: 10 });
        for (change, wanted) in [
            (
                "[server]\n",
                "changes.toml:1: unknown key `server` in the configuration; known: account, share",
            ),
            ("[share.docs]\nremvoed = true\n", "changes.toml:2: unknown key `remvoed` in [share.Docs]"),
            ("[share.docs]\ncomment = 4\n", "changes.toml:2: `comment` in [share.Docs] must be a string"),
        ] {
            let why = read(change).unwrap_err().0;
            assert!(why.starts_with(wanted), "{why}");
        }
        let why = parse("t.toml", "[share.docs]\nremoved = true\n", Path::new("/")).unwrap_err().0;
        assert!(why.starts_with("t.toml:2: unknown key `removed` in [share.docs]"), "{why}");
    }

    #[test]
    fn broken_toml_is_one_line_with_its_place() {
        let message = read("[server]\nname = \"x\nsmb_port = 4\n").unwrap_err();
        assert!(message.starts_with("t.toml:2: ") && !message.contains('\n'), "{message}");
    }

    #[test]
    fn netbios_names_are_made_from_any_name() {
        assert_eq!(netbios_of("files-of-the-long-house.example.org"), "FILES-OF-THE-LO");
        assert_eq!(netbios_of("…"), "TRUNKLINE");
    }
}
