//! The configuration: the shares, their users, and the settings of the server.
//!
//! Start with `tables.rs`, which describes every key once. [`table`] turns each line there into a field, the
//! code to read it and the text to show. [`Config::load`] reads the file, and overrides it by the environment
//! ([`environment`]), by the changes by command (`changes`) and by the command line. [`read`] turns tables
//! into values. [`section`] reads one table, [`mod@format`] one value, [`words`] one value of a
//! variable. [`check`] checks the values against each other and against the host, and `mounts` knows what
//! systemd hides of it. [`show`] prints each value with its origin. [`foreign`] lists the keys of other
//! servers.
//!
//! Every value is a [`Setting`] that remembers its [`Origin`], so that a message can name the setting to
//! change.

pub mod admin;
pub mod audit;
pub mod check;
mod document;
pub mod endpoints;
pub mod environment;
pub mod foreign;
pub mod format;
pub mod homes;
pub mod limits;
mod mounts;
pub mod nearest;
pub mod node;
pub mod read;
pub mod section;
mod setting;
pub mod shadowed;
pub mod show;
pub mod table;
mod tables;
mod trusted;
pub mod values;
pub mod words;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use environment::Environment;
use read::Texts;
use section::Section;

pub use mounts::{Mounts, file_error};
pub use setting::{ConfigError, Origin, Setting, os_error, own_error};
pub use tables::{Above, Account, Admin, Audit, Config, Domain, Node, Server, Share, Testing, User};
pub use values::{Access, Advertised, Authentication, Rss, ShareProtocol};

/// File in the state directory with the changes of the domain, accounts and shares by command.
pub const CHANGES: &str = "changes.toml";

/// Settings of the command line and the environment, which override the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The variables that set keys.
    pub environment: Environment,
    /// `--config`
    pub config: Option<PathBuf>,
    /// Directories to serve, each as a share of its own name.
    pub dirs: Vec<PathBuf>,
    /// `--listen`
    pub listen: Vec<IpAddr>,
    /// `--smb-port`
    pub smb_port: Option<u16>,
    /// `--nfs`: NFS clients may use the directories of the command line too.
    pub nfs: bool,
    /// `--nfs-port`, which implies `--nfs`.
    pub nfs_port: Option<u16>,
    /// `--state-dir` or `TRUNKLINE_STATE_DIR`
    pub state_dir: Option<Setting<PathBuf>>,
    /// `--user`: the users who may use the directories of the command line.
    pub users: Vec<String>,
    /// `--no-discovery`
    pub no_discovery: bool,
    /// `--admin`
    pub admin: Option<SocketAddr>,
}

impl Overrides {
    /// The configuration file's name for messages, and the directory to which its relative paths refer.
    fn file(&self) -> (String, &Path) {
        let path = self.config.as_deref();
        let shown = path.map_or_else(String::new, |path| path.display().to_string());
        (shown, path.and_then(Path::parent).unwrap_or(Path::new("")))
    }
}

/// The texts of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// The configuration file.
    pub file: Option<String>,
    /// The file of changes by command.
    pub changes: Option<String>,
}

impl Sources {
    /// Reads both files. The configuration file says where the file of changes is.
    ///
    /// # Errors
    /// The error of the host, or the mistake in the configuration file.
    pub fn read(overrides: &Overrides) -> Result<Sources, ConfigError> {
        let file = Sources::read_file(overrides)?;
        let changes = Config::state_dir_of(overrides, file.as_deref())?.join(CHANGES);
        Ok(Sources { file, changes: Sources::read_changes(&changes)? })
    }

    fn read_file(overrides: &Overrides) -> Result<Option<String>, ConfigError> {
        let Some(path) = &overrides.config else { return Ok(None) };
        let text = std::fs::read_to_string(path);
        text.map(Some)
            .map_err(|e| ConfigError(format!("{}: {}; see --config", path.display(), file_error(path, &e))))
    }

    /// Reads the file of changes by command. None if there is no such file.
    ///
    /// # Errors
    /// The error of the host.
    pub fn read_changes(path: &Path) -> Result<Option<String>, ConfigError> {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                Err(ConfigError(format!("{}: it is not text{}", path.display(), read::MEND)))
            }
            Err(error) => Err(ConfigError(format!("{}: {}", path.display(), own_error(&error)))),
        }
    }
}

impl Config {
    /// Reads the file that `overrides` names, if any. The environment overrides it, the changes by command
    /// override both, and the command line overrides all of them.
    ///
    /// # Errors
    /// [`ConfigError`] with the line or option to change. Nothing on the host is touched.
    pub fn load(overrides: &Overrides) -> Result<Config, ConfigError> {
        Config::of(overrides, &Sources::read(overrides)?)
    }

    /// Reads the configuration without the changes by command, whose storage may belong to another node now.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn of_file(overrides: &Overrides) -> Result<Config, ConfigError> {
        let sources = Sources { file: Sources::read_file(overrides)?, changes: None };
        let config = Config::of(overrides, &sources)?;
        node::check(&config)?;
        Ok(config)
    }

    /// The path of the state directory, for commands that need nothing else.
    ///
    /// # Errors
    /// A mistake in the parts of the file that determine the path.
    pub fn state_dir(overrides: &Overrides) -> Result<PathBuf, ConfigError> {
        // A mistake in the file must not keep anybody from a running server.
        if let Some(given) = &overrides.state_dir {
            overrides.environment.settings()?;
            return Ok(given.value.clone());
        }
        Config::state_dir_of(overrides, Sources::read_file(overrides)?.as_deref())
    }

    fn state_dir_of(overrides: &Overrides, file: Option<&str>) -> Result<PathBuf, ConfigError> {
        let (shown, base) = overrides.file();
        let environment = &overrides.environment.settings()?;
        let file = file.unwrap_or("");
        let server = read::server(Texts { name: &shown, file, base, environment, change: None })?;
        Ok(overrides.state_dir.as_ref().unwrap_or(&server.state_dir).value.clone())
    }

    /// The configuration of these texts and of the command line.
    ///
    /// # Errors
    /// As for [`Config::load`].
    pub fn of(overrides: &Overrides, sources: &Sources) -> Result<Config, ConfigError> {
        let (shown, base) = overrides.file();
        let text = sources.file.as_deref().unwrap_or("");
        let environment = &overrides.environment.settings()?;
        let changes_file = Config::state_dir_of(overrides, Some(text))?.join(CHANGES).display().to_string();
        let change = sources.changes.as_ref().map(|change| (&changes_file[..], &change[..]));
        let mut config = read::all(Texts { name: &shown, file: text, base, environment, change })?;
        config.file.clone_from(&overrides.config);
        config.lay_over(overrides)?;
        Ok(config)
    }

    /// The path of the file of changes by command.
    pub fn changes(&self) -> PathBuf {
        self.server.state_dir.value.join(CHANGES)
    }

    /// The position of `origin`, for a message.
    pub fn location(&self, origin: &Origin) -> String {
        match (origin, &self.file) {
            (Origin::File { line }, Some(file)) => format!("{}:{line}", file.display()),
            (Origin::File { line }, None) => format!("line {line}"),
            (Origin::Change { line }, _) => format!("{}:{line}", self.changes().display()),
            (Origin::Default, _) => "default".to_owned(),
            (Origin::CommandLine(option), _) => (*option).to_owned(),
            (Origin::Environment(name), _) => format!("${name}"),
            (Origin::Inherited(table), _) => format!("from {table}"),
        }
    }

    fn lay_over(&mut self, overrides: &Overrides) -> Result<(), ConfigError> {
        let server = &mut self.server;
        if !overrides.listen.is_empty() {
            let origin = Origin::CommandLine("--listen");
            server.listen = Setting { value: overrides.listen.clone(), origin };
        }
        if let Some(port) = overrides.smb_port {
            server.smb_port = Some(Setting { value: port, origin: Origin::CommandLine("--smb-port") });
        }
        if let Some(port) = overrides.nfs_port {
            server.nfs_port = Some(Setting { value: port, origin: Origin::CommandLine("--nfs-port") });
        }
        if let Some(dir) = &overrides.state_dir {
            server.state_dir = dir.clone();
        }
        if overrides.no_discovery {
            server.discovery = Setting { value: false, origin: Origin::CommandLine("--no-discovery") };
        }
        if let Some(at) = overrides.admin {
            self.admin.listen = Some(Setting { value: at, origin: Origin::CommandLine("--admin") });
        }
        for dir in &overrides.dirs {
            self.add_directory(dir, overrides)?;
        }
        Ok(())
    }

    /// Adds a share for a directory of the command line, named after it.
    fn add_directory(&mut self, dir: &Path, overrides: &Overrides) -> Result<(), ConfigError> {
        let origin = Origin::CommandLine("DIR");
        let full = std::fs::canonicalize(dir).map_err(|e| {
            ConfigError(format!("{}: {}; give a directory that exists", dir.display(), file_error(dir, &e)))
        })?;
        let name =
            full.file_name().map_or_else(|| "root".to_owned(), |name| name.to_string_lossy().into_owned());
        values::share_name(&name).map_err(|why| {
            ConfigError(format!(
                "{}: {why}; give it a name in the configuration as [share.NAME]",
                dir.display()
            ))
        })?;
        let access = Setting { value: Access::Full, origin: Origin::CommandLine("--user") };
        let users = match &overrides.users[..] {
            [] => BTreeMap::from([("*".to_owned(), Setting { origin: origin.clone(), ..access })]),
            named => named.iter().map(|user| (user.to_lowercase(), access.clone())).collect(),
        };
        let name = Setting { value: name, origin: origin.clone() };
        let path = Setting { value: full, origin };
        let table = Section::new(format!("[share.{}]", name.value), Vec::new(), &[])?;
        let above = Above { server: &self.server, account: None };
        let mut share = Share { path, users, ..Share::read(&table, above, name)? };
        if overrides.nfs || overrides.nfs_port.is_some() {
            let option = if overrides.nfs { "--nfs" } else { "--nfs-port" };
            let value = vec![ShareProtocol::Smb, ShareProtocol::Nfs];
            share.protocols = Setting { value, origin: Origin::CommandLine(option) };
        }
        if let Some(other) = self.shares.insert(share.name.value.to_lowercase(), share) {
            let location = self.location(&other.name.origin);
            let name = &other.name.value;
            return Err(ConfigError(format!(
                "{}: there is already a share `{name}` ({location}); give it another name as [share.NAME]",
                dir.display()
            )));
        }
        Ok(())
    }
}
