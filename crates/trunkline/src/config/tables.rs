//! The table of settings: every key of the configuration, once.
//!
//! A line says its name, type, form, default, whether a reload takes it into force, from where it is taken
//! over, and in a comment what it does; [`super::table`] says how to read one. From here come reading,
//! `config show`, `set KEY=VALUE`, the admin API's schema and the documents (`reference.rs`). A new key is a
//! line here and its use.
//!
//! [`Config`] is all of it together.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use smb::limits::{DEFAULT_CHANNELS, MAX_CHANNELS, MAX_CREDITS};

use super::format::{AccessList, File, Flag, FlagOr, Format, ListFormat, Number, OneOf, Text, Users};
use super::section::Section;
use super::setting::{ConfigError, Setting};
use super::table::{Fallback, Field, KeyDescription, ShownSetting, settings};
use super::values::{
    self, Access, Advertised, Authentication, Cipher, Dialect, Encryption, Formula, AccountKind, LogFormat,
    LogLevel, Network, ShareProtocol, Rss, SendFile, Signing, Spn, Squash, Symlinks, address, filled,
    metrics_address, netbios, netbios_of, network, pattern, socket_address, spn_name,
};

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The file it was read from, as the user named it.
    pub file: Option<PathBuf>,
    /// `[server]`
    pub server: Server,
    /// `[admin]`
    pub admin: Admin,
    /// Each `[[user]]`, by its name in lower case.
    pub users: BTreeMap<String, User>,
    /// Each `[account.NAME]`, by its name in lower case.
    pub accounts: BTreeMap<String, Account>,
    /// Each `[share.NAME]`, by its name in lower case.
    pub shares: BTreeMap<String, Share>,
}

/// The tables that stand above an account or a share.
#[derive(Debug, Clone, Copy)]
pub struct Above<'a> {
    /// `[server]`
    pub server: &'a Server,
    /// The account of a share.
    pub account: Option<&'a Account>,
}

impl Above<'_> {
    /// What the account says itself.
    fn own<T: Clone>(&self, of: impl Fn(&Account) -> Option<&Setting<T>>) -> Option<Setting<T>> {
        let account = self.account?;
        Some(of(account)?.inherited(&account.title()))
    }

    /// Its users.
    fn entries(&self, of: impl Fn(&Account) -> &Users) -> Users {
        let Some(account) = self.account else { return Users::new() };
        let one =
            |(user, access): (&String, &Setting<Access>)| (user.clone(), access.inherited(&account.title()));
        of(account).iter().map(one).collect()
    }
}

impl Account {
    fn title(&self) -> String {
        format!("[account.{}]", self.name.value)
    }
}

/// The least that one address may have of all connections, where that is not set: a client with as many
/// channels as there can be.
const LEAST_PER_ADDRESS: u64 = MAX_CHANNELS as u64;
/// A port; 0 takes any that is free.
const PORT: Number = Number(0, u16::MAX as u64);
/// A user or a group of the host; the last number stands for none.
const HOST_ID: Number = Number(0, u32::MAX as u64 - 1);
/// Who an anonymous user is on most hosts.
const NOBODY: u32 = 65_534;
const CHANNELS: Number = Number(1, MAX_CHANNELS as u64);
/// Connections of one NFS client.
const CONNECTIONS: Number = Number(1, 1024);
/// What is bought for a share; what it may be depends on the account's formula.
const PROVISIONED: Number = Number(1, 1 << 32);

settings! {
    /// The process as a whole.
    pub struct Server(above: (), /** `[server.testing]` */ testing: Testing) {
        /// Addresses to listen on, not names.
        listen: Vec<IpAddr> { ListFormat::some(Text(address)), start, or vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()] }
        /// TCP port for SMB; 0 takes any that is free.
        smb_port: u16 { PORT, start, unset "445 where allowed, else 4450", "445" }
        /// TCP port for NFS, opened when a share is for NFS clients; 0 takes any that is free.
        nfs_port: u16 { PORT, start, unset "2049 where allowed, else 24490", "2049" }
        /// How long an NFS client keeps what it has without being heard.
        nfs_lease_time_s: u64 { Number(10, 3600), start, or 90 }
        /// Requests that an NFS session may have under way at one time.
        nfs_slots: u64 { Number(1, 1024), start, or 64 }
        /// Connections that an NFS client may have at one time (docs/nconnect.md).
        nfs_max_connections: u64 { CONNECTIONS, start, or 32 }
        /// Where users, identity, the control socket and what lies beside the shares are.
        state_dir: PathBuf { File, start, or values::default_state_dir() => "as root `/var/lib/trunkline`, else `$XDG_STATE_HOME/trunkline` or `~/.local/state/trunkline`" }
        /// The server's name, as clients see it.
        name: String { Text(filled), start, or values::host_name() => "the host's name" }
        /// The same in at most 15 characters, for NTLM.
        netbios_name: String { Text(netbios), start, or netbios_of(&name.value) => "made from `name`" }
        /// The workgroup that clients are told.
        workgroup: String { Text(netbios), start, or "WORKGROUP".to_owned() }
        /// Transport connections at one time.
        max_connections: u64 { Number(1, 1_000_000), start, or 16_384 }
        /// Of these, connections of one address; users behind one NAT share it.
        max_connections_per_address: u64 { Number(1, 1_000_000), start, or (max_connections.value / 4).max(LEAST_PER_ADDRESS).min(max_connections.value) => "a quarter of `max_connections`, at least 32" }
        /// Threads that serve connections, and one more for clients that want little; 0 is one for each core.
        workers: u64 { Number(0, 1024), start, or 0 }
        /// How long a connection asks for the next request of a client that sends one at a time before it
        /// sleeps, where that is seen to pay; 0: never.
        busy_poll_us: u64 { Number(0, 1_000), start, or 50 }
        /// Form of the log: a line for people, or a JSON object for each line.
        log_format: LogFormat { OneOf, start, or LogFormat::Text }
        /// What is logged.
        log_level: LogLevel { OneOf, start, or LogLevel::Info }
        /// Whether mDNS and WS-Discovery announce the server.
        discovery: bool { Flag, start, or true }
        /// Whether a log-on without a name is let in, as nobody, to IPC$ alone.
        anonymous: bool { Flag, start, or false }
        /// Whether every session signs or seals; `auto`: as the client asks.
        signing: Signing { OneOf, start, or Signing::Offered }
        /// Whether a log-on must be meant for this server: where it names one (`accepted`), or always
        /// (`required`: rclone and smbprotocol name none).
        spn: Spn { OneOf, start, or Spn::Accepted }
        /// Names of the server that it cannot know of itself; set, these and its own are all
        /// (docs/security.md).
        spn_names: Vec<String> { ListFormat::any(Text(spn_name)), start, unset "unknown names are let in, with a line in the log", "[\"nas.example.net\"]" }
        /// How long after a wrong password the next try for that user from that address waits.
        guess_delay_s: u64 { Number(0, 60), start, or 2 }
        /// Sealing on the wire: not offered, for clients that ask for it, or clients that cannot are refused.
        encryption: Encryption { OneOf, start, or Encryption::Enabled }
        /// Oldest dialect that a connection may speak.
        min_dialect: Dialect { OneOf, start, or Dialect::Smb202 }
        /// Whether a session may have several connections (docs/multichannel.md).
        multichannel: bool { Flag, live, or true }
        /// Connections of one session.
        max_channels: u64 { CHANNELS, live, or DEFAULT_CHANNELS as u64 }
        /// Addresses outside of a container or behind NAT, such as `203.0.113.8 speed=10G`, at which clients
        /// find the server too.
        advertise: Vec<Advertised> { ListFormat::any(Text(values::advertised)), live, or Vec::new() }
        /// Whether clients are told that interfaces spread their work over processors; `auto`: those with
        /// several receive queues do; `never`: one channel for each address.
        rss: Rss { OneOf, live, or Rss::Always }
    }

    /// For foreign test suites and measurements; never where anybody is served.
    pub struct Testing(above: ()) {
        /// How long a client may take to give a caching right back.
        break_timeout_ms: u64 { Number(100, 600_000), start, or 35_000 }
        /// Whether smbtorture's control codes are answered, by which it makes connections fail and requests
        /// take long.
        smbtorture_controls: bool { Flag, start, or false }
        /// How much longer each call on a share's directory takes that is about names or attributes, for
        /// shares that are opened from now on.
        metadata_delay_us: u64 { Number(0, 1_000_000), live, or 0 }
        /// The credits that an SMB connection may hold, to see what a client does with few.
        max_credits: u16 { Number(1, MAX_CREDITS.into()), start, or MAX_CREDITS }
    }

    /// What is open to those who look after the server.
    pub struct Admin(above: ()) {
        /// Where metrics can be read over HTTP, on this host alone (docs/metrics.md).
        metrics: SocketAddr { Text(metrics_address), start, unset "nowhere", "\"127.0.0.1:9445\"" }
        /// Where the admin page and its API are; elsewhere than on this host with TLS alone (docs/admin.md).
        listen: SocketAddr { Text(socket_address), start, unset "nowhere", "\"127.0.0.1:9446\"" }
        /// The certificate of the admin page in PEM, with what leads to it.
        tls_certificate: PathBuf { File, start, unset "no TLS", "\"page.pem\"" }
        /// The certificate's key in PEM.
        tls_key: PathBuf { File, start, unset "no TLS", "\"page.key\"" }
        /// The file that gets a line of JSON for each request (docs/metrics.md).
        records: PathBuf { File, start, unset "nothing is recorded", "\"requests.jsonl\"" }
        /// One of so many requests of each connection is recorded.
        records_sample: u64 { Number(1, 1 << 32), start, or 1 }
        /// Size at which the file is put aside.
        records_max_mib: u64 { Number(1, 1 << 20), start, or 64 }
        /// Whether paths and names are recorded.
        records_paths: bool { Flag, start, or true }
    }

    /// Who may log on, besides those of `trunkline user add`; one table for each.
    pub struct User(above: ()) {
        /// The name to log on with.
        name: String { Text(values::named_user), live, required }
        /// The file whose first line is the password.
        password_file: PathBuf { File, live, unset "the password in the state directory" }
        /// Security identifier.
        sid: String { Text(values::sid), live, unset "made from the server's own, and kept" }
        /// User id on the host.
        uid: u32 { HOST_ID, live, unset "as root that of the host's user of that name, else the server's own" }
        /// Group id on the host.
        gid: u32 { HOST_ID, live, unset "that user's group" }
        /// Further group ids on the host.
        groups: Vec<u32> { ListFormat::any(Number(0, u32::MAX as u64)), live, unset "those of that user in `/etc/group`" }
        /// Whether the user may take ownership and ask for more, still bound by a file's permissions.
        admin: bool { Flag, live, or false }
    }

    /// What several shares have in common (docs/provision.md).
    pub struct Account(above: Above<'_>, /** The name as it is written. */ name: Setting<String>) {
        /// Whether its shares are limited as Azure Files does (docs/limits.md).
        kind: AccountKind { OneOf, live, or AccountKind::Unlimited }
        /// How sizes of shares are turned into limits.
        formula: Formula { OneOf, live, unset "`v1` for premium, `large` for standard" }
        /// Who may use its shares; `*` is everyone who can log on.
        users: Users { AccessList, live, entries }
        /// What its shares say about sealing; sessions that do not meet it are refused.
        encryption: Encryption { OneOf, live, unset "from `[server]`" }
        /// What its shares say about signing; sessions that do not meet it are refused.
        signing: Signing { OneOf, live, unset "from `[server]`" }
        /// Oldest dialect that reaches its shares.
        min_dialect: Dialect { OneOf, live, unset "from `[server]`" }
        /// Ciphers by which sessions that reach its shares may be sealed; AES-128-CCM is all that 3.0 knows.
        ciphers: Vec<Cipher> { ListFormat::some(OneOf), live, unset "all" }
        /// How whoever reaches its shares has logged on: as a user, or as the account with one of its keys.
        authentication: Vec<Authentication> { ListFormat::some(OneOf), live, unset "both" }
        /// Whether names, attributes and descriptors are remembered for its shares.
        metadata_caching: bool { Flag, live, unset "`true`" }
        /// Whether a session of its users may have several connections.
        multichannel: bool { Flag, live, from server }
        /// Connections of one session of its users.
        max_channels: u64 { CHANNELS, live, from server }
        /// Addresses among the server's at which SMB connections are the account's.
        smb_listen: Vec<IpAddr> { ListFormat::some(Text(address)), live, unset "none of its own" }
        /// Addresses of an NFS endpoint of its own, whose mounts have their own nconnect (docs/nconnect.md).
        nfs_listen: Vec<IpAddr> { ListFormat::some(Text(address)), start, unset "the server's" }
        /// TCP port of an NFS endpoint of its own.
        nfs_port: u16 { PORT, start, unset "the server's" }
        /// Connections of one client at such an endpoint.
        nfs_max_connections: u64 { CONNECTIONS, start, unset "from `[server]`" }
    }

    /// A directory on offer.
    pub struct Share(above: Above<'_>, /** The name as it is written. */ name: Setting<String>) {
        /// The directory; over the API a whole path. Who is connected when it changes keeps what is open in
        /// the old one until it is closed.
        path: PathBuf { File, live, required }
        /// The account that it belongs to, and takes over from.
        account: String { Text(filled), live, unset "none" }
        /// What clients show beside the name.
        comment: String { Text(values::comment), live, or String::new() }
        /// Whether nothing can be changed through it, whatever `users` says.
        read_only: bool { Flag, live, or false }
        /// Who may use it; `*` is everyone who can log on.
        users: Users { AccessList, live, entries from account }
        /// Sealing on the wire; what the account requires counts all the same.
        encryption: Encryption { OneOf, live, from account or server }
        /// Signing on the wire; `required` cannot be told to clients here: one that does not sign gets
        /// ACCESS_DENIED.
        signing: Signing { OneOf, live, from account or server }
        /// Oldest dialect that reaches the share.
        min_dialect: Dialect { OneOf, live, from account or server }
        /// Whether names that differ only in case are different files.
        case_sensitive: bool { Flag, live, or false }
        /// Whether listings leave out what the user may not read.
        hide_unreadable: bool { Flag, live, or false }
        /// Large plain reads: copied, or sent from the page cache, what costs each connection less; `true`:
        /// sent; `false`: copied (docs/large-reads.md).
        send_file: SendFile { FlagOr, live, or SendFile::Auto }
        /// Whether names, attributes and descriptors are remembered where the host tells of changes
        /// (docs/metadata-caching.md).
        metadata_caching: bool { Flag, live, from account or true }
        /// Names that are shown with the hidden attribute; `*` and `?` stand for any.
        hide_files: Vec<String> { ListFormat::any(Text(pattern)), live, or vec![".*".to_owned()] }
        /// Symbolic links that clients may make; `inside`: those that stay in the share. Absolute links of
        /// Windows are not meant.
        symlinks: Symlinks { OneOf, live, or Symlinks::All }
        /// Whether links are listed and opened as what they lead to; `false`: clients without POSIX
        /// extensions get them as links.
        follow_symlinks: bool { Flag, live, or true }
        /// Whether a path through a link removes what stands behind it, also by a recursive delete.
        delete_through_symlinks: bool { Flag, live, or false }
        /// Whether named streams are offered.
        streams: bool { Flag, live, or true }
        /// What they, and large access lists, may take of the state directory's file system, where the share
        /// has no size.
        streams_max_gib: u64 { Number(1, 1 << 20), live, or 16 }
        /// Whether clients may watch directories for changes.
        change_notify: bool { Flag, live, or true }
        /// Whether persistent handles outlive the server: recorded in the state directory, and their writes
        /// wait for the disk. Turned on, it counts from the next start.
        continuously_available: bool { Flag, start, or false }
        /// Size: the most that lies there; in a limited account also what the share may do (docs/limits.md).
        provisioned_gib: u64 { PROVISIONED, live, unset "no size" }
        /// Operations a second, by formula `v2`.
        provisioned_iops: u64 { PROVISIONED, live, unset "by the size" }
        /// Throughput, by formula `v2`.
        provisioned_mib_s: u64 { PROVISIONED, live, unset "by the size" }
        /// What it is served with; `nfs` is NFSv4.1 and 4.2.
        protocols: Vec<ShareProtocol> { ListFormat::some(OneOf), live, or vec![ShareProtocol::Smb] }
        /// Whose user and group numbers do not count over NFS: nobody's, root's, or everybody's.
        root_squash: Squash { OneOf, live, or Squash::Root }
        /// User id of those whose numbers do not count.
        anonymous_uid: u32 { HOST_ID, live, or NOBODY }
        /// Group id of those whose numbers do not count.
        anonymous_gid: u32 { HOST_ID, live, or NOBODY }
        /// Networks or addresses, such as `10.0.0.0/8`, from which NFS clients may use it; empty: from
        /// everywhere.
        nfs_clients: Vec<Network> { ListFormat::any(Text(network)), live, or Vec::new() }
        /// Whether NFS clients must come from ports below 1024, which on most hosts only root may use.
        nfs_secure_port: bool { Flag, live, or true }
        /// Addresses among the server's at which SMB clients find this share alone (docs/provision.md).
        smb_listen: Vec<IpAddr> { ListFormat::some(Text(address)), live, unset "none of its own" }
        /// Addresses of an NFS endpoint of its own, whose mounts have their own nconnect (docs/nconnect.md).
        nfs_listen: Vec<IpAddr> { ListFormat::some(Text(address)), start, unset "with an `nfs_port` of its own the server's, else those of the account's endpoint, else the server's" }
        /// TCP port of an NFS endpoint of its own.
        nfs_port: u16 { PORT, start, unset "with an `nfs_listen` of its own the server's, else that of the account's endpoint, else the server's" }
        /// Connections of one client at such an endpoint.
        nfs_max_connections: u64 { CONNECTIONS, start, unset "from `[server]`" }
    }
}

impl Server {
    /// Connections that one address may have.
    pub fn connections_per_address(&self) -> u64 {
        self.max_connections_per_address.value.min(self.max_connections.value)
    }
}

impl Share {
    /// Whether its clients may use the share by a protocol.
    pub fn offers(&self, protocol: ShareProtocol) -> bool {
        self.protocols.value.contains(&protocol)
    }
}
