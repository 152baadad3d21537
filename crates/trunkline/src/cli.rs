//! The command line. The doc comment of an option is also its text in `--help`.

// Brackets in the text of --help are no links.
#![allow(rustdoc::broken_intra_doc_links)]

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use admin::KeyName;
use admin::access::Role;
use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use crate::config::environment::Environment;
use crate::config::{Origin, Overrides, Setting};

/// File server for SMB 2 and 3 and NFSv4.1/4.2 that serves many clients, each over many connections at once.
#[derive(Debug, Parser)]
#[command(name = "trunkline", version, max_term_width = 100)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// The command line of a server. A server that reads this one never loads the code of the other commands,
/// and needs less memory.
#[derive(Debug, Parser)]
#[command(name = "trunkline", version, max_term_width = 100)]
pub struct ServerCli {
    /// The command to run.
    #[command(subcommand)]
    pub command: ServerCommand,
}

/// The commands that serve.
#[derive(Debug, Subcommand)]
pub enum ServerCommand {
    /// Serve directories over SMB 2 and 3 and NFSv4.1/4.2
    Serve(ServeArgs),
    /// Serve as one node of a virtual server that moves between machines
    Node {
        /// The action on the node.
        #[command(subcommand)]
        command: NodeCommand,
    },
}

/// The commands of the program.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Serve.
    #[command(flatten)]
    Server(ServerCommand),
    /// Add, list, change and remove the users who may log on
    User {
        /// The action on users.
        #[command(subcommand)]
        command: UserCommand,
    },
    /// Make, list and revoke the tokens of administrators and programs
    Token {
        /// The action on tokens.
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Create, list, show, change and remove accounts, which hold settings that several shares have in common
    Account {
        /// The action on accounts.
        #[command(subcommand)]
        command: AccountCommand,
    },
    /// Create, list, show, change and remove shares; sessions stay
    Share {
        /// The action on shares.
        #[command(subcommand)]
        command: ObjectCommand,
    },
    /// Join, leave and examine an Active Directory domain or a Kerberos realm
    Domain {
        /// The action on the membership.
        #[command(subcommand)]
        command: DomainCommand,
    },
    /// Check or show the configuration, or list its keys
    Config {
        /// The action on the configuration.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Show sessions, connections, opens and locks of the running server
    Status {
        /// A report on one subject.
        #[command(subcommand)]
        of: Option<StatusCommand>,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
        /// Print JSON, with the field names of smbstatus or Get-SmbMultichannelConnection
        #[arg(long, global = true)]
        json: bool,
    },
    /// Say whether the running server is ready for clients: one line, exit status 0 or 1
    Health(HealthArgs),
    /// Make the running server read its configuration again; sessions stay
    Reload(LocationArgs),
    /// Stop the running server; no acknowledged write is lost
    Stop(LocationArgs),
    /// Write the state directory as of one moment to a file, while the server runs or not
    Backup(BackupArgs),
    /// Restore a backup into the state directory; no server may run on it
    Restore(RestoreArgs),
    /// Work on the state directory itself
    State {
        /// The action on the state directory.
        #[command(subcommand)]
        command: StateCommand,
    },
    /// Load an SMB or NFS server, or a mounted directory, and report rates and latencies
    Load(Box<load::Args>),
    /// Copy files between this host, SMB shares and NFS exports, over several connections
    Copy(Box<copy::Args>),
    /// Examine an SMB or NFS server layer by layer, and say why it is slow and how to make it faster
    Doctor(Box<doctor::Args>),
    /// Recommend a number of connections, a queue depth and caches for a workload
    Advise(Box<doctor::AdviseArgs>),
    /// Send a file to every client without a protocol, to show the limit of the machine
    #[command(hide = true)]
    NullServer(load::null::ServerArgs),
    /// Request data from a null server as fast as possible
    #[command(hide = true)]
    NullLoop(load::null::LoopArgs),
    /// Run a command behind a long, narrow or lossy path to this machine (needs root, but not with --proxy)
    Link(Box<load::link::LinkArgs>),
}

/// Options of `backup`.
#[derive(Debug, Clone, Args)]
pub struct BackupArgs {
    /// File to write, for its owner only: it holds password hashes and keys; `-` is standard output
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only check that FILE is a complete backup
    #[arg(long)]
    pub verify: bool,
    /// Leave out named streams and other sidecar data of the shares' files
    #[arg(long, conflicts_with = "verify")]
    pub no_sidecar: bool,
    /// The state directory.
    #[command(flatten)]
    pub location: LocationArgs,
}

/// Options of `restore`.
#[derive(Debug, Clone, Args)]
pub struct RestoreArgs {
    /// The backup
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Replace the state that is there; its files are kept in a folder `replaced-TIME` of the directory
    #[arg(long)]
    pub replace: bool,
    /// Only attach named streams and other sidecar data to files that came back after the restore
    #[arg(long, conflicts_with = "replace")]
    pub sidecar_only: bool,
    /// Only check that FILE is a complete backup that this program can restore
    #[arg(long, conflicts_with_all = ["replace", "sidecar_only"])]
    pub check: bool,
    /// The state directory.
    #[command(flatten)]
    pub location: LocationArgs,
}

/// `trunkline state …`
#[derive(Debug, Clone, Subcommand)]
pub enum StateCommand {
    /// Bring the state to an earlier version, before an older program is installed; no server may run
    Downgrade {
        /// The version to reach [default: the one before]
        #[arg(long, value_name = "VERSION")]
        to: Option<u32>,
        /// The state directory.
        #[command(flatten)]
        location: LocationArgs,
    },
}

/// `trunkline status …`
#[derive(Debug, Clone, Subcommand)]
pub enum StatusCommand {
    /// Show the connections of each session, and why there are no others
    Channels,
    /// Show the requests to each share, their results and their latencies
    Transactions(TransactionsArgs),
    /// Show the load of each client (data or metadata, sizes, concurrency) and recommendations for it
    Workload,
}

/// Options of `status transactions`.
#[derive(Debug, Clone, Args)]
pub struct TransactionsArgs {
    /// Show this share only
    #[arg(long, value_name = "NAME")]
    pub share: Option<String>,
    /// Print a new report again and again, each for an interval of this many seconds [2 if no number is
    /// given]
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    pub watch: Option<u64>,
}

/// Options of `health`.
#[derive(Debug, Clone, Args)]
pub struct HealthArgs {
    /// Only ask whether the server answers, also while it stops or has no share that works
    #[arg(long)]
    pub live: bool,
    /// Seconds within which the server must have answered
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    pub timeout: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The server or the state directory to work on.
    #[command(flatten)]
    pub location: LocationArgs,
}

/// Reads a path. An empty one counts as not given: an empty variable is not set.
fn path_or_nothing() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// Reads a value that is one of these words. Shells complete them.
fn one_of<T>(words: &[&'static str]) -> impl TypedValueParser<Value = T> + use<T>
where
    T: std::str::FromStr<Err = String> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words.iter().copied()).try_map(|word| word.parse::<T>())
}

/// Options that select a server or its state.
#[derive(Debug, Clone, Args)]
pub struct LocationArgs {
    /// Configuration file (TOML)
    #[arg(long, global = true, value_name = "FILE", env = "TRUNKLINE_CONFIG")]
    #[arg(value_parser = path_or_nothing())]
    pub config: Option<PathBuf>,
    /// Directory for users, identity and the control socket [default: /var/lib/trunkline as root]
    #[arg(long, global = true, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

impl LocationArgs {
    /// The configuration file, if one is given.
    pub fn config_file(&self) -> Option<PathBuf> {
        self.config.clone().filter(|file| !file.as_os_str().is_empty())
    }

    /// These options as settings that override the configuration file.
    pub fn overrides(&self) -> Overrides {
        let given = self.state_dir.clone().map(|dir| (dir, Origin::CommandLine("--state-dir")));
        let environment = || {
            let set = std::env::var_os("TRUNKLINE_STATE_DIR").filter(|dir| !dir.is_empty())?;
            Some((PathBuf::from(set), Origin::Environment("TRUNKLINE_STATE_DIR".to_owned())))
        };
        let state_dir = given.or_else(environment).map(|(value, origin)| Setting { value, origin });
        let environment = Environment::of_process();
        Overrides { environment, config: self.config_file(), state_dir, ..Overrides::default() }
    }
}

/// Options of `serve`.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Directories to serve, each as a share named after it
    #[arg(value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// The configuration and the state of the server.
    #[command(flatten)]
    pub location: LocationArgs,
    /// Address to listen on; may be repeated [default: all]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<IpAddr>,
    /// TCP port for SMB; 0 takes any that is free [default: 445 where allowed, else 4450]
    #[arg(long, value_name = "PORT")]
    pub smb_port: Option<u16>,
    /// Serve the directories to NFSv4.1 and 4.2 clients too
    #[arg(long)]
    pub nfs: bool,
    /// TCP port for NFS; implies --nfs [default: 2049 where allowed, else 24490]
    #[arg(long, value_name = "PORT")]
    pub nfs_port: Option<u16>,
    /// Name of a user who may use the directories; may be repeated [default: all users]
    #[arg(long, value_name = "NAME")]
    pub user: Vec<String>,
    /// Do not announce the server by mDNS and WS-Discovery
    #[arg(long)]
    pub no_discovery: bool,
    /// Address of the admin page: 127.0.0.1:9446 or [::1]:9446; other addresses need TLS in the configuration
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::config::values::socket_address)]
    pub admin: Option<SocketAddr>,
    /// Serve a demo share from ./.trunkline on port 4450, with a user created for it
    #[arg(long, conflicts_with = "config")]
    pub demo: bool,
}

impl ServeArgs {
    /// These options as settings that override the configuration file.
    pub fn overrides(&self) -> Overrides {
        Overrides {
            dirs: self.dirs.clone(),
            listen: self.listen.clone(),
            smb_port: self.smb_port,
            nfs: self.nfs,
            nfs_port: self.nfs_port,
            users: self.user.clone(),
            no_discovery: self.no_discovery,
            admin: self.admin,
            ..self.location.overrides()
        }
    }
}

/// `trunkline node …`
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Wait for the tenure of the virtual server of [node], fence its former owner, and serve
    Serve(Box<ServeArgs>),
    /// Show which node owns the virtual server, and what this node does. The exit status is 0 if it serves
    /// here, 3 if the node waits, 4 if it does not run, and 1 if it cannot be asked
    Status {
        /// The configuration of the node.
        #[command(flatten)]
        location: LocationArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Give the virtual server to another node; clients go on there
    Move {
        /// The configuration of the node.
        #[command(flatten)]
        location: LocationArgs,
        /// Name of the node that takes over [default: any that waits]
        #[arg(long, value_name = "NODE")]
        to: Option<String>,
    },
    /// Give the tenure to this node (for a program that decides: tenure = "external")
    Take {
        /// The configuration of the node.
        #[command(flatten)]
        location: LocationArgs,
        /// Seconds after which the tenure ends unless `hold` extends it [default: no end]
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..86_400))]
        hold_s: Option<u64>,
    },
    /// Extend the tenure of this node (for a program that decides)
    Hold {
        /// The configuration of the node.
        #[command(flatten)]
        location: LocationArgs,
        /// Seconds from now on
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..86_400))]
        hold_s: u64,
    },
    /// Say that a former owner is off, so that this node serves though its fence failed
    Fenced {
        /// The configuration of the node.
        #[command(flatten)]
        location: LocationArgs,
        /// Name of the node that is off. If it is not, its files may be damaged
        node: String,
    },
    /// Take the tenure away from this node, which gives it back (for a program that decides)
    Release(LocationArgs),
}

/// `trunkline user …`
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Add a user
    Add {
        /// Name to log on with
        name: String,
        /// The user's ids on the host.
        #[command(flatten)]
        host: HostUser,
        /// The password.
        #[command(flatten)]
        password: PasswordArgs,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// List the users
    List(ListArgs),
    /// Remove a user; their sessions end
    Remove {
        /// Name of the user
        name: String,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// Change a user's ids on the host, for requests from now on
    #[command(group(clap::ArgGroup::new("ids").required(true).multiple(true)))]
    Set {
        /// Name of the user
        name: String,
        /// User id on the host, or `host` for that of the host's user of this name
        #[arg(long, value_name = "UID", group = "ids")]
        uid: Option<HostId>,
        /// Group id on the host, or `host` for that of the host's user of this name
        #[arg(long, value_name = "GID", group = "ids")]
        gid: Option<HostId>,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// Change a user's password
    Passwd {
        /// Name of the user
        name: String,
        /// The password.
        #[command(flatten)]
        password: PasswordArgs,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
}

/// The options of a list of users, tokens or shares.
#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The server or the state directory to work on.
    #[command(flatten)]
    pub location: LocationArgs,
}

/// `trunkline domain …`
#[derive(Debug, Subcommand)]
pub enum DomainCommand {
    /// Join Active Directory by `adcli`, or take over a keytab of a realm; a second
    /// join adds names and makes new keys
    Join(Box<JoinArgs>),
    /// Remove the machine account, the keytab and the settings
    Leave {
        /// The administrator of the domain.
        #[command(flatten)]
        logon: DomainLogonArgs,
        /// Leave the machine account in the domain
        #[arg(long)]
        keep_account: bool,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// Try each step from the DNS to a ticket, and say what is wrong and how to mend it; exit status 1 for a
    /// fault
    Test {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// Show the realm, the machine account, the keys and the controllers
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// Show the SID, the ids and the groups of a user or a group as the server sees them; exit status 1 if
    /// there is none, 2 if a source cannot be asked
    Lookup {
        /// Name such as `CORP\\bob` or `bob@corp.example`, SID or uid
        #[arg(value_name = "ACCOUNT")]
        account: String,
        /// Look for a group, so that a number is a gid
        #[arg(long)]
        group: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// Give the machine account a new password and add its keys; sessions and tickets stay
    Renew {
        /// Do so only if the password is older than this; 0 is always
        #[arg(long, value_name = "DAYS", default_value_t = 0)]
        older_than_days: u32,
        /// Do so also for an account whose keytab was brought. Another program, such as winbindd or sssd, may
        /// need its password
        #[arg(long)]
        force: bool,
        /// Do nothing, and end with 0, unless the server uses the keytab of a machine account that `domain
        /// join` made. It is for timers
        #[arg(long, conflicts_with = "force")]
        if_own: bool,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
}

/// Options that name an administrator of a domain.
#[derive(Debug, Clone, Args)]
pub struct DomainLogonArgs {
    /// User of the domain who may join machines: NAME, DOMAIN\\NAME or NAME@REALM
    #[arg(long, value_name = "NAME", default_value = "Administrator")]
    pub user: String,
    /// The password.
    #[command(flatten)]
    pub password: PasswordArgs,
}

/// Options of `domain join`.
#[derive(Debug, Clone, Args)]
pub struct JoinArgs {
    /// Realm: for Active Directory the DNS name of the domain
    #[arg(value_name = "REALM")]
    pub realm: String,
    /// The administrator of the domain.
    #[command(flatten)]
    pub logon: DomainLogonArgs,
    /// Use this keytab and join nothing: for a plain realm, or a host that is joined already
    #[arg(long, value_name = "FILE")]
    pub keytab: Option<PathBuf>,
    /// Further name of the server for clients; may be repeated
    #[arg(long, value_name = "NAME")]
    pub name: Vec<String>,
    /// Name of an earlier join that the server loses; may be repeated
    #[arg(long, value_name = "NAME")]
    pub remove_name: Vec<String>,
    /// Name of the machine account [default: that of an earlier join, or `netbios_name` of the server]
    #[arg(long, value_name = "NAME", conflicts_with = "keytab")]
    pub computer_name: Option<String>,
    /// Replace the password of an account that is there already and that this server did not make
    #[arg(long, conflicts_with = "keytab")]
    pub take_over: bool,
    /// Full host name of the server [default: the host's, or its short name with the realm behind it]
    #[arg(long, value_name = "NAME", conflicts_with = "keytab")]
    pub host: Option<String>,
    /// Organizational unit for the account, such as OU=Servers,DC=corp,DC=example
    #[arg(long, value_name = "DN", conflicts_with = "keytab")]
    pub organizational_unit: Option<String>,
    /// Domain controller to use [default: the first that answers]
    #[arg(long, value_name = "HOST", conflicts_with = "keytab")]
    pub controller: Option<String>,
    /// Short name of the domain, as the CORP of CORP\\bob [default: as the domain says]
    #[arg(long, value_name = "NAME")]
    pub netbios_name: Option<String>,
    /// The server or the state directory to work on.
    #[command(flatten)]
    pub location: LocationArgs,
}

/// `trunkline token …`
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and print it, this once
    Add {
        /// Name of the token, for the log and the list
        name: String,
        /// Rights of the token
        #[arg(long, value_parser = one_of::<Role>(&Role::ALL.map(Role::word)))]
        role: Role,
        /// Time for which it is valid, such as 90d, 12h or 30m [default: until it is revoked]
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// List the tokens, without their texts
    List(ListArgs),
    /// Revoke a token; the next request with it is refused
    Revoke {
        /// Name of the token
        name: String,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
}

/// `trunkline account …`
#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// The actions that accounts and shares have in common.
    #[command(flatten)]
    Object(ObjectCommand),
    /// Show and renew the keys with which the account's name logs on
    Keys {
        /// The action on keys.
        #[command(subcommand)]
        command: KeysCommand,
    },
}

/// `trunkline account keys …`
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Print both keys of an account
    List {
        /// Name of the account
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// Replace a key by a new one and print it; sessions stay
    Renew {
        /// Name of the account
        name: String,
        /// Key to replace [default: the first that does not exist yet]
        #[arg(value_parser = one_of::<KeyName>(&KeyName::ALL.map(KeyName::word)))]
        key: Option<KeyName>,
        /// File whose first line is the key, 64 bytes in base64; - is standard input [default: make one]
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
}

/// `trunkline account …` and `trunkline share …`
#[derive(Debug, Subcommand)]
pub enum ObjectCommand {
    /// Create a new one
    Create {
        /// Name
        name: String,
        /// Keys as in the configuration: path=/srv/docs protocols=smb,nfs users=ann=write,*=read
        #[arg(value_name = "KEY=VALUE")]
        settings: Vec<String>,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// List all
    List(ListArgs),
    /// Show the version and every value, with its origin
    Show {
        /// Name
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// Change settings; limits apply at once, all other settings to clients that connect from now on
    Set {
        /// Name
        name: String,
        /// Keys as in the configuration: provisioned_gib=1024 comment=Plans multichannel=off;
        /// users+=ann=write and users-=bob change single users
        #[arg(value_name = "KEY=VALUE")]
        settings: Vec<String>,
        /// Drop the change of this key, so that the configuration file applies again; may be repeated
        #[arg(long, value_name = "KEY")]
        reset: Vec<String>,
        /// Only if it has not been changed since `show` or `list` printed this version
        #[arg(long, value_name = "VERSION")]
        if_version: Option<String>,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// Remove it; its files stay
    Delete {
        /// Name
        name: String,
        /// Remove it even if it is in use, and disconnect its clients
        #[arg(long)]
        force: bool,
        /// Only if it has not been changed since `show` or `list` printed this version
        #[arg(long, value_name = "VERSION")]
        if_version: Option<String>,
        /// The server or the state directory to work on.
        #[command(flatten)]
        location: LocationArgs,
    },
}

/// An id on the host, or that of the host's user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostId {
    /// A number.
    Number(u32),
    /// That of the host's user of the name.
    OfHost,
}

impl std::str::FromStr for HostId {
    type Err = String;

    fn from_str(text: &str) -> Result<HostId, String> {
        match text.parse() {
            _ if text == "host" => Ok(HostId::OfHost),
            // The largest number means none.
            Ok(number) if number < u32::MAX => Ok(HostId::Number(number)),
            _ => Err(format!("it is `host` or a number from 0 to {}", u32::MAX - 1)),
        }
    }
}

/// The largest number, which means none (chown(2)).
const LARGEST_ID: i64 = u32::MAX as i64;

/// The ids of a user on the host.
#[derive(Debug, Clone, Args)]
pub struct HostUser {
    /// User id on the host [default: the host's user of that name; as root there must be one]
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..LARGEST_ID))]
    pub uid: Option<u32>,
    /// Group id on the host
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..LARGEST_ID))]
    pub gid: Option<u32>,
    /// Make the user an administrator of the server, who may take ownership but is still bound by a file's
    /// permissions
    #[arg(long)]
    pub admin: bool,
}

/// The source of a password. It is never the command line itself.
#[derive(Debug, Clone, Args)]
pub struct PasswordArgs {
    /// File whose first line is the password; - is standard input [default: ask]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

/// `trunkline config …`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Report mistakes, and change nothing
    Check(ServeArgs),
    /// Print each value and its origin
    Show(ServeArgs),
    /// Print all keys: docs/configuration.md
    Keys,
    /// Print a JSON schema of the file, for editors
    Schema,
}
