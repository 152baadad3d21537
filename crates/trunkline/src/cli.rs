//! The command line. What an option does is said here once, for `--help` and for readers.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use admin::KeyName;
use clap::{Args, Parser, Subcommand};

use crate::config::{Origin, Overrides, Setting};

/// Serves directories to many clients, each over many connections at once.
#[derive(Debug, Parser)]
#[command(name = "trunkline", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Serve directories over SMB 3.1.1
    Serve(ServeArgs),
    /// Add, list, change and remove the users that may log on
    User {
        /// What to do with users.
        #[command(subcommand)]
        command: UserCommand,
    },
    /// Make, list, show, change and remove accounts: what several shares have in common
    Account {
        /// What to do with accounts.
        #[command(subcommand)]
        command: AccountCommand,
    },
    /// Make, list, show, change and remove shares; sessions stay
    Share {
        /// What to do with shares.
        #[command(subcommand)]
        command: ObjectCommand,
    },
    /// Check or show the configuration, and what can stand in it
    Config {
        /// What to do with the configuration.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Show sessions, connections, opens and locks of the running server
    Status {
        /// Something in particular.
        #[command(subcommand)]
        of: Option<StatusCommand>,
        /// Which server.
        #[command(flatten)]
        location: LocationArgs,
        /// As JSON, with the field names of smbstatus or Get-SmbMultichannelConnection
        #[arg(long, global = true)]
        json: bool,
    },
    /// Make the running server read its configuration again; sessions stay
    Reload(LocationArgs),
    /// End the running server; no acknowledged write is lost
    Stop(LocationArgs),
    /// Load an SMB or NFS server, or a mounted directory, and report rates and latencies
    Load(Box<load::Args>),
    /// Copy files between this host, SMB shares and NFS exports, over several connections
    Copy(Box<copy::Args>),
    /// Examine an SMB or NFS server layer by layer, say why it is slow and what to change
    Doctor(Box<doctor::Args>),
    /// Say how many connections, which depth and which caches suit a workload
    Advise(Box<doctor::AdviseArgs>),
    /// Send a file to whoever asks, without a protocol: what the machine itself can do
    #[command(hide = true)]
    NullServer(load::null::ServerArgs),
    /// Ask such a server as quickly as can be
    #[command(hide = true)]
    NullLoop(load::null::LoopArgs),
    /// Run a command behind a long, narrow or lossy path to this machine (needs root, with --proxy not)
    Link(Box<load::link::LinkArgs>),
}

/// `trunkline status …`
#[derive(Debug, Clone, Subcommand)]
pub enum StatusCommand {
    /// Show the connections of each session, and why there are no others
    Channels,
    /// Show what was asked of each share, how that went and how long it took
    Transactions(TransactionsArgs),
    /// Show what clients do: data or metadata, in pieces of what size, how much at once; and what would help
    Workload,
}

/// Options of `status transactions`.
#[derive(Debug, Clone, Args)]
pub struct TransactionsArgs {
    /// Only of this share
    #[arg(long, value_name = "NAME")]
    pub share: Option<String>,
    /// Show what comes, again and again, each time of so many seconds [2 if not said]
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

/// Which server, or which state.
#[derive(Debug, Clone, Args)]
pub struct LocationArgs {
    /// Configuration file (TOML)
    #[arg(long, global = true, value_name = "FILE", env = "TRUNKLINE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Directory for users, identity and the control socket [default: /var/lib/trunkline as root]
    #[arg(long, global = true, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

impl LocationArgs {
    /// As settings laid over the file.
    pub fn overrides(&self) -> Overrides {
        let given = self.state_dir.clone().map(|dir| (dir, Origin::CommandLine("--state-dir")));
        let environment = || {
            let set = std::env::var_os("TRUNKLINE_STATE_DIR").filter(|dir| !dir.is_empty())?;
            Some((PathBuf::from(set), Origin::Environment("TRUNKLINE_STATE_DIR")))
        };
        let state_dir = given.or_else(environment).map(|(value, origin)| Setting { value, origin });
        Overrides { config: self.config.clone(), state_dir, ..Overrides::default() }
    }
}

/// Options of `serve`.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Directories to serve, each as a share named after it
    #[arg(value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Where configuration and state are.
    #[command(flatten)]
    pub location: LocationArgs,
    /// Address to listen on; may be repeated [default: all]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<IpAddr>,
    /// TCP port; 0 takes any that is free [default: 445 where allowed, else 4450]
    #[arg(long, value_name = "PORT")]
    pub smb_port: Option<u16>,
    /// Serve the directories to NFSv4.1 clients too
    #[arg(long)]
    pub nfs: bool,
    /// TCP port for NFS, which --nfs follows from [default: 2049 where allowed, else 24490]
    #[arg(long, value_name = "PORT")]
    pub nfs_port: Option<u16>,
    /// Who may use the directories; may be repeated [default: everyone who can log on]
    #[arg(long, value_name = "NAME")]
    pub user: Vec<String>,
    /// Do not announce the server by mDNS and WS-Discovery
    #[arg(long)]
    pub no_discovery: bool,
    /// Serve the admin page there: 127.0.0.1:9446 or [::1]:9446; elsewhere needs TLS in the configuration
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::config::values::socket_address)]
    pub admin: Option<SocketAddr>,
    /// Serve a demo share from ./.trunkline on port 4450, with a user made for it
    #[arg(long, conflicts_with = "config")]
    pub demo: bool,
}

impl ServeArgs {
    /// As settings laid over the file.
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

/// `trunkline user …`
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Add a user
    Add {
        /// Name to log on with
        name: String,
        /// How the user is known on the host.
        #[command(flatten)]
        host: HostUser,
        /// The password.
        #[command(flatten)]
        password: PasswordArgs,
        /// Which server.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// List the users
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
        /// Which server.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// Remove a user; their sessions end
    Remove {
        /// Name of the user
        name: String,
        /// Which server.
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
        /// Which server.
        #[command(flatten)]
        location: LocationArgs,
    },
}

/// `trunkline account …`
#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// What is done with accounts and shares alike.
    #[command(flatten)]
    Object(ObjectCommand),
    /// Show and renew the keys with which an account's name logs on
    Keys {
        /// What to do with keys.
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
        /// As JSON
        #[arg(long)]
        json: bool,
        /// Which server.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// Make a new key in the location of one, and print it; sessions stay
    Renew {
        /// Name of the account
        name: String,
        /// key1 or key2 [default: the first that was never made]
        key: Option<KeyName>,
        /// File whose first line is the key, 64 bytes in base64; - is standard input [default: make one]
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
        /// Which server.
        #[command(flatten)]
        location: LocationArgs,
    },
}

/// `trunkline account …` and `trunkline share …`
#[derive(Debug, Subcommand)]
pub enum ObjectCommand {
    /// Make one
    Create {
        /// Its name
        name: String,
        /// Keys as in the configuration: path=/srv/docs protocols=smb,nfs users=ann=write,*=read
        #[arg(value_name = "KEY=VALUE")]
        settings: Vec<String>,
        /// Which server.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// List them
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
        /// Which server.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// Show every value of one, where it came from, and its version
    Show {
        /// Its name
        name: String,
        /// As JSON
        #[arg(long)]
        json: bool,
        /// Which server.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// Change it; limits bind at once, all else whoever connects from now on
    Set {
        /// Its name
        name: String,
        /// Keys as in the configuration: provisioned_gib=1024 comment=Plans multichannel=off;
        /// users+=ann=write and users-=bob change single users
        #[arg(value_name = "KEY=VALUE")]
        settings: Vec<String>,
        /// Take back what was changed of this key: the configuration counts again; may be repeated
        #[arg(long, value_name = "KEY")]
        reset: Vec<String>,
        /// Only if nobody has changed it since `show` or `list` gave this version
        #[arg(long, value_name = "VERSION")]
        if_version: Option<String>,
        /// Which server.
        #[command(flatten)]
        location: LocationArgs,
    },
    /// Remove it; its files stay
    Delete {
        /// Its name
        name: String,
        /// Also when it is in use: whoever uses it is disconnected
        #[arg(long)]
        force: bool,
        /// Only if nobody has changed it since `show` or `list` gave this version
        #[arg(long, value_name = "VERSION")]
        if_version: Option<String>,
        /// Which server.
        #[command(flatten)]
        location: LocationArgs,
    },
}

/// How a user is known on the host.
#[derive(Debug, Clone, Args)]
pub struct HostUser {
    /// User id on the host [default: the host's user of that name]
    #[arg(long)]
    pub uid: Option<u32>,
    /// Group id on the host
    #[arg(long)]
    pub gid: Option<u32>,
    /// Make the user one of the server's administrators, who may take ownership but are still bound by a
    /// file's permissions
    #[arg(long)]
    pub admin: bool,
}

/// Where a password comes from; never the command line itself.
#[derive(Debug, Clone, Args)]
pub struct PasswordArgs {
    /// File whose first line is the password; - is standard input [default: ask]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

/// `trunkline config …`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Say what is wrong, and change nothing
    Check(ServeArgs),
    /// Print each value and where it came from
    Show(ServeArgs),
    /// Print every key there is: docs/configuration.md
    Keys,
    /// Print a JSON schema of the file, for editors
    Schema,
}
