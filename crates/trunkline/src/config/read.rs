//! Turns the tables of the file into a [`Config`].
//!
//! A table takes missing values over from the table above it, so that the rest of the program sees only
//! complete values ([`super::tables`]).

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;

use super::document::{Document, DocumentKind};
use super::environment::EnvironmentSettings;
use super::section::{Layer, Section};
use super::setting::{ConfigError, Origin, Setting};
use super::tables::{Above, Account, Admin, Audit, Config, Domain, Node, Server, Share, Testing, User};
use super::{endpoints, nearest, values};

const TOP: &[&str] = &["server", "admin", "audit", "domain", "node", "user", "account", "share"];
/// The tables that can be changed by command.
const CHANGED: &[&str] = &["domain", "account", "share"];
/// The table inside `[server]`.
const TESTING: &str = "testing";

/// The texts of a configuration.
#[derive(Debug, Clone, Copy)]
pub struct Texts<'a> {
    /// Name of the configuration file for messages.
    pub name: &'a str,
    /// Content of the configuration file.
    pub file: &'a str,
    /// The directory to which relative paths in the file refer.
    pub base: &'a Path,
    /// The settings of the environment, which override the file.
    pub environment: &'a EnvironmentSettings,
    /// Name and content of the file of changes by command, which overrides the domain, the accounts and
    /// the shares of both.
    pub change: Option<(&'a str, &'a str)>,
}

impl<'a> Texts<'a> {
    fn file(&self) -> Document<'a> {
        let Texts { name, file: text, base, .. } = *self;
        Document { name, text, base, kind: DocumentKind::File }
    }

    /// The paths of the environment refer to the current directory.
    fn environment(&self) -> Document<'a> {
        let kind = DocumentKind::Environment(&self.environment.variables);
        Document { name: "the environment", text: &self.environment.text, base: Path::new(""), kind }
    }
}

/// Reads `text`. `name` is its name for messages, and relative paths refer to `base`.
///
/// # Errors
/// [`ConfigError`] with the line to change.
#[allow(dead_code, reason = "tests and fuzz targets use it")]
pub fn parse(name: &str, text: &str, base: &Path) -> Result<Config, ConfigError> {
    all(Texts { name, file: text, base, environment: &EnvironmentSettings::default(), change: None })
}

/// Like [`parse`], with a name and a text for the changes by command, which override the accounts and shares.
///
/// # Errors
/// [`ConfigError`] with the line to change.
#[cfg(test)]
pub fn changed(name: &str, text: &str, base: &Path, change: (&str, &str)) -> Result<Config, ConfigError> {
    let environment = &EnvironmentSettings::default();
    all(Texts { name, file: text, base, environment, change: Some(change) })
}

/// Reads all texts.
///
/// # Errors
/// [`ConfigError`] with the line or the variable to change.
pub fn all(texts: Texts<'_>) -> Result<Config, ConfigError> {
    let (document, around) = (texts.file(), texts.environment());
    let (file_tree, around_tree) = (tree(document)?, tree(around)?);
    let file = Layer { document, at: 0, table: file_tree.get_ref() };
    let around = Layer { document: around, at: 0, table: around_tree.get_ref() };
    let over =
        texts.change.map(|(name, text)| Document { name, text, kind: DocumentKind::Changes, ..document });
    let over_tree = over.map(tree).transpose()?;
    let over = over.zip(over_tree.as_ref());
    let over = over.map(|(document, tree)| Layer { document, at: 0, table: tree.get_ref() });
    if let Some(over) = over {
        Section::new(title(), vec![over], CHANGED)?;
    }
    let top = Section::new(title(), over.into_iter().chain([around, file]).collect(), TOP)?;
    let server = server_of(&top)?;
    let users = users(&Section::new(title(), vec![file], TOP)?, &Section::new(title(), vec![around], TOP)?)?;
    let accounts = accounts(&top, &server)?;
    let shares = shares(&top, &server, &accounts)?;
    let admin = Admin::read(&top.section("admin", Admin::NAMES)?, ())?;
    let audit = Audit::read(&top.section("audit", Audit::NAMES)?, ())?;
    let domain = Domain::read(&top.section("domain", Domain::NAMES)?, ())?;
    let node = Node::read(&top.section("node", Node::NAMES)?, ())?;
    let passwords = texts.environment.passwords.clone();
    Ok(Config { file: None, server, admin, audit, domain, node, users, passwords, accounts, shares })
}

/// Reads only the table `[server]`.
///
/// # Errors
/// [`ConfigError`] with the line or the variable to change.
pub fn server(texts: Texts<'_>) -> Result<Server, ConfigError> {
    let (document, around) = (texts.file(), texts.environment());
    let (file_tree, around_tree) = (tree(document)?, tree(around)?);
    let file = Layer { document, at: 0, table: file_tree.get_ref() };
    let around = Layer { document: around, at: 0, table: around_tree.get_ref() };
    server_of(&Section::new(title(), vec![around, file], TOP)?)
}

fn title() -> String {
    "the configuration".to_owned()
}

fn server_of(top: &Section<'_>) -> Result<Server, ConfigError> {
    let table = top.section("server", &[Server::NAMES, &[TESTING]].concat())?;
    let testing = Testing::read(&table.section(TESTING, Testing::NAMES)?, ())?;
    Server::read(&table, (), testing)
}

/// The advice for a file of changes that is not as the server wrote it.
pub(super) const MEND: &str =
    "; restore or correct the file, or remove it together with all changes by command";

fn tree<'a>(document: Document<'a>) -> Result<Spanned<DeTable<'a>>, ConfigError> {
    DeTable::parse(document.text).map_err(|e| {
        let mut message = e.message().lines().collect::<Vec<_>>().join(", ");
        if document.is_change() {
            message += MEND;
        }
        document.error(e.span().map_or(0, |span| span.start), message)
    })
}

/// The users of the file, and those of the environment, whose settings override the file's.
fn users(file: &Section<'_>, environment: &Section<'_>) -> Result<BTreeMap<String, User>, ConfigError> {
    let mut sections = BTreeMap::new();
    for table in file.each("user", User::NAMES)? {
        let user = User::read(&table, ())?;
        if user.name.origin == Origin::Default {
            return Err(table.error("a [[user]] without `name`"));
        }
        if sections.insert(user.name.value.to_lowercase(), table.clone()).is_some() {
            return Err(
                table.error(format!("a second [[user]] `{}`; give each user one table", user.name.value))
            );
        }
    }
    for (_, table) in environment.named("user", User::NAMES)? {
        let name = User::read(&table, ())?.name.value.to_lowercase();
        let both = match sections.remove(&name) {
            Some(below) => table.over(below),
            None => table,
        };
        sections.insert(name, both);
    }
    sections.into_iter().map(|(name, table)| Ok((name, User::read(&table, ())?))).collect()
}

fn accounts(top: &Section<'_>, server: &Server) -> Result<BTreeMap<String, Account>, ConfigError> {
    let mut accounts = BTreeMap::new();
    for (name, table) in top.named("account", Account::NAMES)? {
        let above = Above { server, account: None };
        let account = Account::read(&table, above, Setting { value: name.clone(), origin: table.origin() })?;
        endpoints::whole(&table, account.own_endpoint())?;
        if accounts.insert(name.to_lowercase(), account).is_some() {
            return Err(table
                .error(format!("a second account `{name}`; names that differ only in case are the same")));
        }
    }
    Ok(accounts)
}

fn shares(
    top: &Section<'_>,
    server: &Server,
    accounts: &BTreeMap<String, Account>,
) -> Result<BTreeMap<String, Share>, ConfigError> {
    let mut shares = BTreeMap::new();
    for (name, table) in top.named("share", Share::NAMES)? {
        values::share_name(&name).map_err(|why| table.error(why))?;
        let read = |account| {
            let own = Setting { value: name.clone(), origin: table.origin() };
            Share::read(&table, Above { server, account }, own)
        };
        let mut share = read(None)?;
        // Only now is the account known from which the share takes values over.
        if let Some(named) = &share.account {
            share = read(Some(account_of(&table, &named.value, accounts)?))?;
        }
        if share.path.origin == Origin::Default {
            return Err(table.error(format!("{} without `path`", table.title())));
        }
        endpoints::whole(&table, share.own_endpoint())?;
        if shares.insert(name.to_lowercase(), share).is_some() {
            return Err(
                table.error(format!("a second share `{name}`; names that differ only in case are the same"))
            );
        }
    }
    Ok(shares)
}

/// The account that a share names.
fn account_of<'a>(
    table: &Section<'_>,
    named: &str,
    accounts: &'a BTreeMap<String, Account>,
) -> Result<&'a Account, ConfigError> {
    accounts.get(&named.to_lowercase()).ok_or_else(|| {
        let names: Vec<&str> = accounts.values().map(|account| account.name.value.as_str()).collect();
        let hint = nearest::hint(named, &names);
        table.error(format!("`account` in {}: there is no [account.{named}]{hint}", table.title()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::environment::Environment;
    use crate::config::values::{Access, AccountKind, Dialect, SendFile, netbios_of};
    use smb::limits::DEFAULT_CHANNELS;

    fn read(text: &str) -> Result<Config, String> {
        parse("t.toml", text, Path::new("/etc/trunkline")).map_err(|e| e.0)
    }

    #[test]
    fn a_whole_file_is_read_with_the_line_of_each_value() {
        let config = read(
            "[server]\nlisten = [\"127.0.0.1\", \"::1\"]\nsmb_port = 4450\nmin_dialect = \"3.0\"\n\
             [server.testing]\nbreak_timeout_ms = 1000\nsmbtorture_controls = true\nmetadata_delay_us = 9\n\
             max_credits = 3\n\
             [[user]]\nname = \"Ann\"\npassword_file = \"ann.pw\"\nuid = 1000\n\
             [account.team]\nusers = { ann = \"read\" }\nencryption = \"required\"\nmetadata_caching = \
             false\n\
             [share.docs]\npath = \"/srv/docs\"\naccount = \"team\"\nusers = { Bob = \"full\" }\n",
        )
        .unwrap();
        assert_eq!(config.server.smb_port, Some(Setting { value: 4450, origin: Origin::File { line: 3 } }));
        let testing = &config.server.testing;
        assert_eq!(testing.break_timeout_ms.value, 1000);
        assert!(testing.smbtorture_controls.value);
        assert_eq!(testing.metadata_delay_us.value, 9);
        assert_eq!(testing.max_credits.value, 3);
        let ann = &config.users["ann"];
        assert_eq!(ann.name.value, "Ann");
        assert_eq!(ann.password_file.as_ref().unwrap().value, Path::new("/etc/trunkline/ann.pw"));
        let docs = &config.shares["docs"];
        assert_eq!(docs.encryption.origin, Origin::Inherited("[account.team]".to_owned()));
        let team = Origin::Inherited("[account.team]".to_owned());
        assert_eq!(docs.metadata_caching, Setting { value: false, origin: team });
        assert_eq!(docs.min_dialect.origin, Origin::Inherited("[server]".to_owned()));
        assert_eq!(docs.min_dialect.value, Dialect::Smb300);
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
                "t.toml:2: unknown key `x` in [server.testing]; known: break_timeout_ms, \
                 smbtorture_controls, metadata_delay_us, max_credits",
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
                "t.toml:3: a second share `D`; names that differ only in case are the same",
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
                "t.toml:1: `share` in the configuration must be a table for each name: [share.NAME], not a \
                 whole number",
            ),
            (
                "[share.d]\npath=\"/x\"\nusers = { guest = \"read\" }\n",
                "t.toml:1: `users` in [share.d]: `guest` is refused: guests and anonymous users are not \
                 served",
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
        assert_eq!(lab.max_channels, Setting::default_of(DEFAULT_CHANNELS as u64));
    }

    #[test]
    fn what_was_changed_goes_before_the_file_key_by_key_or_as_a_whole() {
        let file = "[account.Team]\nkind = \"premium\"\nmultichannel = false\n\
                    [share.Docs]\npath = \"/srv/docs\"\naccount = \"team\"\ncomment = \"old\"\n\
                    provisioned_gib = 100\n\
                    [share.gone]\npath = \"/srv/gone\"\n[share.other]\npath = \"/srv/other\"\ncomment = \
                    \"old\"\n";
        let change = "[account.team]\nmultichannel = true\n[share.docs]\nprovisioned_gib = 200\n\
                      [share.gone]\nremoved = true\n[share.other]\nwhole = true\npath = \"/srv/new\"\n\
                      [share.made]\nwhole = true\npath = \"/srv/made\"\n[share.stale]\ncomment = \"x\"\n";
        let read = |change| changed("t.toml", file, Path::new("/"), ("changes.toml", change));
        let config = read(change).unwrap();
        let team = &config.accounts["team"];
        assert_eq!(team.multichannel, Setting { value: true, origin: Origin::Change { line: 2 } });
        assert_eq!(team.kind.value, AccountKind::Premium);
        assert_eq!(config.shares.keys().collect::<Vec<_>>(), ["docs", "made", "other"]);
        let docs = &config.shares["docs"];
        assert_eq!((docs.name.value.as_str(), &docs.name.origin), ("Docs", &Origin::File { line: 4 }));
        assert_eq!(docs.provisioned_gib.as_ref().unwrap().value, 200);
        assert_eq!(docs.comment, Setting { value: "old".to_owned(), origin: Origin::File { line: 7 } });
        assert_eq!(config.shares["other"].comment.value, "");
        assert_eq!(config.shares["made"].name.origin, Origin::Change { line: 10 });
        for (change, wanted) in [
            (
                "[server]\n",
                "changes.toml:1: unknown key `server` in the configuration; known: domain, account, share",
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
    fn the_environment_goes_before_the_file_key_by_key_and_changes_go_before_both() {
        let variables = [
            ("TRUNKLINE_SERVER_SMB_PORT", "4450"),
            ("TRUNKLINE_SERVER_TESTING_MAX_CREDITS", "3"),
            ("TRUNKLINE_SHARE_DOCS_COMMENT", "from outside"),
            ("TRUNKLINE_SHARE_NEW_PATH", "/srv/new"),
            ("TRUNKLINE_USER_ANN_UID", "7"),
            ("TRUNKLINE_USER_BOB_PASSWORD", "hunter2"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.into()));
        let environment = &Environment::of(variables).settings().unwrap();
        let file = "[server]\nsmb_port = 445\nname = \"a\"\n[server.testing]\nbreak_timeout_ms = 1000\n\
                    [[user]]\nname = \"Ann\"\npassword_file = \"pw\"\nuid = 4\n\
                    [share.Docs]\npath = \"docs\"\ncomment = \"old\"\nread_only = true\n";
        let texts = |change| Texts { name: "t.toml", file, base: Path::new("/srv"), environment, change };
        let config = all(texts(Some(("changes.toml", "[share.new]\ncomment = \"changed\"\n")))).unwrap();
        let from = |name: &str| Origin::Environment(name.to_owned());
        let port = Setting { value: 4450, origin: from("TRUNKLINE_SERVER_SMB_PORT") };
        assert_eq!(config.server.smb_port, Some(port));
        assert_eq!(config.server.name, Setting { value: "a".to_owned(), origin: Origin::File { line: 3 } });
        assert_eq!(config.server.testing.max_credits.value, 3);
        assert_eq!(config.server.testing.break_timeout_ms.value, 1000);
        let docs = &config.shares["docs"];
        assert_eq!((docs.name.value.as_str(), docs.path.value.to_str()), ("Docs", Some("/srv/docs")));
        assert_eq!(docs.comment.origin, from("TRUNKLINE_SHARE_DOCS_COMMENT"));
        assert!(docs.read_only.value);
        let new = &config.shares["new"];
        assert_eq!(new.path.origin, from("TRUNKLINE_SHARE_NEW_PATH"));
        assert_eq!(new.comment, Setting { value: "changed".to_owned(), origin: Origin::Change { line: 2 } });
        let ann = &config.users["ann"];
        assert_eq!(ann.uid, Some(Setting { value: 7, origin: from("TRUNKLINE_USER_ANN_UID") }));
        assert_eq!(ann.password_file.as_ref().unwrap().value, Path::new("/srv/pw"));
        assert_eq!(config.users["bob"].name.origin, from("TRUNKLINE_USER_BOB_PASSWORD"));
        assert_eq!(config.passwords["bob"].text, "hunter2");
        assert_eq!(server(texts(None)).unwrap().smb_port.unwrap().value, 4450);
        let removed = all(texts(Some(("changes.toml", "[share.new]\nremoved = true\n")))).unwrap();
        assert_eq!(removed.shares.keys().collect::<Vec<_>>(), ["docs"]);
    }

    #[test]
    fn a_slip_in_the_environment_names_the_variable() {
        let guest = "`name` in [user.guest]: `guest` is refused: guests and anonymous users are not served";
        let access = "`users` in [share.docs]: `all` is not one of \"read\", \"write\", \"full\"";
        for (name, value, wanted) in [
            ("SERVER_SMB_PORT", "70000", "`smb_port` in [server]: must be from 0 to 65535"),
            ("SHARE_DOCS_USERS", "ann=all", access),
            ("SHARE_DOCS_COMMENT", "x", "[share.docs] without `path`"),
            ("USER_GUEST_UID", "7", guest),
        ] {
            let variable = format!("TRUNKLINE_{name}");
            let environment = Environment::of([(variable.clone(), value.into())]).settings().unwrap();
            let (environment, base) = (&environment, Path::new("/"));
            let why = all(Texts { name: "t", file: "", base, environment, change: None }).unwrap_err();
            assert_eq!(why.0, format!("${variable}: {wanted}"));
        }
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
