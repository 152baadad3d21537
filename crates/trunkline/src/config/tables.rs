//! The table of settings: every key of the configuration, described once.
//!
//! Each line gives a key's name, type, format and default, whether a reload applies it, and the table from
//! which it is inherited. Its doc comment says what the key does. [`super::table`] describes the syntax of a
//! line. The reader of the configuration, `config show`, `set KEY=VALUE`, the admin API's schema and the
//! documents (`reference.rs`) are generated from these lines. A new key needs a line here and the code that
//! uses it.
//!
//! [`Config`] contains all tables.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use identity::mapping::IdRange;
use net::floating_address::FloatingAddress;
use smb::limits::{DEFAULT_CHANNELS, MAX_CHANNELS, MAX_CREDITS};

use super::audit::{AuditWord, Daemon, Facility, daemon};
use super::environment::Password;
use super::format::{AccessList, File, Flag, FlagOr, Format, ListFormat, Number, OneOf, Text, Users};
use super::node::{self, Fence, TenureKind, endpoint, server_name};
use super::section::Section;
use super::setting::{ConfigError, Setting};
use super::table::{Fallback, Field, KeyDescription, ShownSetting, settings};
use super::trusted::{TrustedDomain, trusted_domain};
use super::values::{
    self, Access, AccountKind, Advertised, Authentication, Cipher, Dialect, Encryption, EncryptionType,
    Formula, IdmapBackend, LogFormat, LogLevel, Network, Ntlm, Rss, SendFile, ShareProtocol, Signing, Spn,
    Squash, Symlinks, address, filled, netbios, netbios_of, network, pattern, socket_address, spn_name,
};

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The file from which it was read, as the user named it.
    pub file: Option<PathBuf>,
    /// `[server]`
    pub server: Server,
    /// `[admin]`
    pub admin: Admin,
    /// `[audit]`
    pub audit: Audit,
    /// `[domain]`
    pub domain: Domain,
    /// `[node]`
    pub node: Node,
    /// Each `[[user]]`, by its name in lower case.
    pub users: BTreeMap<String, User>,
    /// The passwords of the environment, by the names of the users in lower case.
    pub passwords: BTreeMap<String, Password>,
    /// Each `[account.NAME]`, by its name in lower case.
    pub accounts: BTreeMap<String, Account>,
    /// Each `[share.NAME]`, by its name in lower case.
    pub shares: BTreeMap<String, Share>,
}

/// The tables from which an account or a share takes values over.
#[derive(Debug, Clone, Copy)]
pub struct Above<'a> {
    /// `[server]`
    pub server: &'a Server,
    /// The account of a share.
    pub account: Option<&'a Account>,
}

impl Above<'_> {
    /// The account's own value.
    fn own<T: Clone>(&self, of: impl Fn(&Account) -> Option<&Setting<T>>) -> Option<Setting<T>> {
        let account = self.account?;
        Some(of(account)?.inherited(&account.title()))
    }

    /// The account's users.
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

/// The smallest default for the connections of one address: a client with the largest possible number of
/// channels.
const LEAST_PER_ADDRESS: u64 = MAX_CHANNELS as u64;
/// A port. 0 selects any free port.
const PORT: Number = Number(0, u16::MAX as u64);
/// A user or a group of the host. The largest number of the type means none.
const HOST_ID: Number = Number(0, u32::MAX as u64 - 1);
/// The user id of an anonymous user on most hosts.
const NOBODY: u32 = 65_534;
const CHANNELS: Number = Number(1, MAX_CHANNELS as u64);
/// The number of connections of one NFS client.
const CONNECTIONS: Number = Number(1, 1024);
/// A provisioned limit of a share. The account's formula determines the allowed range.
const PROVISIONED: Number = Number(1, 1 << 32);

settings! {
    /// Settings of the process as a whole.
    pub struct Server(above: (), /** `[server.testing]` */ testing: Testing) {
        /// Addresses to listen on, not names. `0.0.0.0` is every IPv4 address, `::` every IPv6 address.
        listen: Vec<IpAddr> {
            ListFormat::some(Text(address)), start,
            or vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]
        }
        /// TCP port for SMB. 0 selects any free port.
        smb_port: u16 { PORT, start, unset "445 where allowed, else 4450", "445" }
        /// TCP port for NFS, opened when a share is offered over NFS. 0 selects any free port.
        nfs_port: u16 { PORT, start, unset "2049 where allowed, else 24490", "2049" }
        /// Time for which the server keeps the state of a silent NFS client (the lease of RFC 8881).
        nfs_lease_time_s: u64 { Number(10, 3600), start, or 90 }
        /// Concurrent requests of an NFS session.
        nfs_slots: u64 { Number(1, 1024), start, or 64 }
        /// Concurrent connections of an NFS client (docs/nconnect.md).
        nfs_max_connections: u64 { CONNECTIONS, start, or 32 }
        /// Whether groups of NFS users come from the host's user database instead of the client, which sends
        /// 16 at most (docs/identity.md). Option `--manage-gids` of rpc.mountd is the same.
        manage_gids: bool { Flag, live, or false }
        /// Directory of the users, the identity, the control socket and the shares' sidecar data.
        state_dir: PathBuf {
            File, start,
            or values::default_state_dir() => "as root `/var/lib/trunkline`, else \
                                               `$XDG_STATE_HOME/trunkline` or `~/.local/state/trunkline`"
        }
        /// Name of the server for clients.
        name: String { Text(filled), start, or values::host_name() => "the host's name" }
        /// Name of the server for NTLM, with at most 15 characters.
        netbios_name: String { Text(netbios), start, or netbios_of(&name.value) => "made from `name`" }
        /// Name of the workgroup for clients.
        workgroup: String { Text(netbios), start, or "WORKGROUP".to_owned() }
        /// Concurrent transport connections.
        max_connections: u64 { Number(1, 1_000_000), start, or 16_384 }
        /// Concurrent connections of one client address. Users behind one NAT share an address.
        max_connections_per_address: u64 {
            Number(1, 1_000_000), start,
            or (max_connections.value / 4).max(LEAST_PER_ADDRESS).min(max_connections.value)
                => "a quarter of `max_connections`, at least 32"
        }
        /// Threads that serve connections, besides one more for clients with few requests. 0 means one for
        /// each core.
        workers: u64 { Number(0, 1024), start, or 0 }
        /// Time for which a connection polls for the next request before it sleeps. It applies to clients
        /// that send one request at a time, where measurements show a benefit. 0 turns polling off.
        busy_poll_us: u64 { Number(0, 1_000), start, or 50 }
        /// Time that the received requests have to finish when the server stops. Docker kills a container
        /// 10 s after it has told it to stop, and systemd a service after `TimeoutStopSec=`, 30 s.
        drain_s: u64 { Number(1, 600), start, or 8 }
        /// Format of the log: text lines, or a JSON object for each line.
        log_format: LogFormat { OneOf, start, or LogFormat::Text }
        /// Least severe messages that are logged.
        log_level: LogLevel { OneOf, start, or LogLevel::Info }
        /// Whether the server announces itself by mDNS and WS-Discovery.
        discovery: bool { Flag, start, or true }
        /// Whether a log-on without a name is accepted. It gets the identity of nobody and access to IPC$
        /// only.
        anonymous: bool { Flag, start, or false }
        /// Whether every session must sign or encrypt. `auto` leaves it to the client.
        signing: Signing { OneOf, start, or Signing::Offered }
        /// Whether a log-on must name this server as its target: if it names a target (`accepted`), or always
        /// (`required`). rclone and smbprotocol name none.
        spn: Spn { OneOf, start, or Spn::Accepted }
        /// Names of the server that it cannot find out itself. If set, only these and its own names are
        /// accepted (docs/security.md).
        spn_names: Vec<String> {
            ListFormat::any(Text(spn_name)), start,
            unset "unknown names are accepted, with a line in the log", "[\"nas.example.net\"]"
        }
        /// Time after a wrong password before the same address may try the same user again.
        guess_delay_s: u64 { Number(0, 60), start, or 2 }
        /// Encryption on the wire: not offered, offered, or required of all clients.
        encryption: Encryption { OneOf, start, or Encryption::Enabled }
        /// Oldest dialect of a connection.
        min_dialect: Dialect { OneOf, start, or Dialect::Smb202 }
        /// Whether a session may have several connections (docs/multichannel.md).
        multichannel: bool { Flag, live, or true }
        /// Maximum connections of one session.
        max_channels: u64 { CHANNELS, live, or DEFAULT_CHANNELS as u64 }
        /// Further addresses of the server that are outside of a container or a NAT, such as `203.0.113.8
        /// speed=10G`.
        advertise: Vec<Advertised> { ListFormat::any(Text(values::advertised)), live, or Vec::new() }
        /// Whether clients are told that interfaces spread their work over processors (RSS). `auto` says so
        /// for interfaces with several receive queues. With `never`, clients open one channel for each
        /// address.
        rss: Rss { OneOf, live, or Rss::Always }
    }

    /// Settings for foreign test suites and for measurements, not for production.
    pub struct Testing(above: ()) {
        /// Time that a client has to give a caching right back.
        break_timeout_ms: u64 { Number(100, 600_000), start, or 35_000 }
        /// Whether the server answers smbtorture's control codes, which break connections and delay requests.
        smbtorture_controls: bool { Flag, start, or false }
        /// Delay of each call on a share's directory that concerns names or attributes, for shares that are
        /// opened from now on.
        metadata_delay_us: u64 { Number(0, 1_000_000), live, or 0 }
        /// Maximum of the credits of an SMB connection, to test clients with few credits.
        max_credits: u16 { Number(1, MAX_CREDITS.into()), start, or MAX_CREDITS }
    }

    /// Access for administrators and monitoring.
    pub struct Admin(above: ()) {
        /// Address of the metrics over HTTP. Other hosts can reach it only over TLS and with a token or a
        /// client certificate (docs/metrics.md).
        metrics: SocketAddr { Text(socket_address), start, unset "nowhere", "\"127.0.0.1:9445\"" }
        /// Address of the admin page and its API. Other hosts can reach it only over TLS (docs/admin.md).
        listen: SocketAddr { Text(socket_address), start, unset "nowhere", "\"127.0.0.1:9446\"" }
        /// Certificate chain of the admin page and of the metrics for other hosts, in PEM.
        tls_certificate: PathBuf { File, start, unset "no TLS", "\"page.pem\"" }
        /// Private key of the certificate in PEM.
        tls_key: PathBuf { File, start, unset "no TLS", "\"page.key\"" }
        /// Authorities of client certificates in PEM. A client with such a certificate needs no token and has
        /// the role `read`.
        tls_client_ca: PathBuf { File, start, unset "no client certificates", "\"clients.pem\"" }
        /// DNS names of client certificates with the role `operate`.
        tls_client_operate: Vec<String> { ListFormat::any(Text(values::dns_name)), start, or Vec::new() }
        /// DNS names of client certificates with the role `administer`.
        tls_client_administer: Vec<String> { ListFormat::any(Text(values::dns_name)), start, or Vec::new() }
        /// Whether the token in the file `admin-token` of the state directory is valid. It has the role
        /// `administer`.
        file_token: bool { Flag, live, or true }
        /// File that receives a line of JSON for each request (docs/metrics.md).
        records: PathBuf { File, start, unset "nothing is recorded", "\"requests.jsonl\"" }
        /// One of this many requests of each connection is recorded.
        records_sample: u64 { Number(1, 1 << 32), start, or 1 }
        /// Size at which the file is rotated.
        records_max_mib: u64 { Number(1, 1 << 20), start, or 64 }
        /// Whether the records contain paths and names.
        records_paths: bool { Flag, start, or true }
    }

    /// The place that the events of audited shares go to (docs/audit.md).
    pub struct Audit(above: ()) {
        /// File that receives a line of JSON for each event.
        file: PathBuf { File, live, unset "nowhere", "\"audit.jsonl\"" }
        /// Size at which the file is rotated.
        max_mib: u64 { Number(1, 1 << 20), live, or 64 }
        /// Age at which the file is rotated.
        max_age_hours: u64 { Number(1, 24 * 3660), live, unset "the age does not count", "24" }
        /// Number of rotated files that are kept.
        keep: u64 { Number(0, 10_000), live, or 10 }
        /// Syslog daemon that receives the events in place of a file: the path of the host's socket, or
        /// `udp://HOST:PORT` or `tcp://HOST:PORT`.
        syslog: Daemon { Text(daemon), live, unset "nowhere", "\"/dev/log\"" }
        /// Facility of messages to syslog.
        syslog_facility: Facility { OneOf, live, or Facility(21) }
        /// Memory for events that the file or daemon has not taken yet. Events that find no room are lost and
        /// counted.
        buffer_mib: u64 { Number(1, 4096), live, or 16 }
        /// Whether log-ons, refused log-ons and the ends of sessions are events too.
        logons: bool { Flag, live, or false }
    }

    /// The Kerberos realm or the Active Directory domain that the server belongs to (docs/identity.md). The
    /// command `trunkline domain join` sets its names and its keytab.
    pub struct Domain(above: ()) {
        /// Realm of the server. With it, users of the realm log on with Kerberos tickets.
        realm: String { Text(values::realm), live, unset "no Kerberos", "\"EXAMPLE.NET\"" }
        /// Short name of an Active Directory domain: the `CORP` of `CORP\bob`.
        netbios_name: String { Text(netbios), live, unset "none", "\"CORP\"" }
        /// SID of an Active Directory domain. `trunkline domain join` sets it.
        domain_sid: String { Text(values::domain_sid), live, unset "none", "\"S-1-5-21-1-2-3\"" }
        /// Way from SIDs of the domain to uids and gids. With it, users of the domain who are no local users
        /// log on too. `rid` is the formula of Samba's `idmap_rid`: the last number of the SID plus the first
        /// id of `id_range`. `rfc2307` takes `uidNumber` and `gidNumber` of the directory within `id_range`.
        /// `table` and `autorid` take `id_file`.
        id_mapping: IdmapBackend { OneOf, live, unset "only local users log on" }
        /// Uids and gids for users and groups of the domain. No user or group of the host may have one of
        /// them. A changed range makes files belong to others.
        id_range: IdRange { Text(values::id_range), live, unset "none", "\"100000-199999\"" }
        /// File of the mapping. For `table` it has lines like `user S-1-5-21-1-2-3-1104 5000` and
        /// `group S-1-5-21-1-2-3-513 6000`. For `autorid` it is a copy of Samba's `autorid.tdb`, or the
        /// output of `tdbdump` or `net idmap dump` for it.
        id_file: PathBuf { File, live, unset "none" }
        /// Authorities of the domain controllers' certificates in PEM. With it, the directory is asked over
        /// TLS (StartTLS); without, Kerberos signs and encrypts.
        ldap_ca: PathBuf { File, live, unset "no TLS", "\"controllers.pem\"" }
        /// Domains that the server's domain trusts and whose users may log on with tickets, each as `REALM
        /// NAME SID LOW-HIGH`. It needs `id_mapping = "rid"`, and LOW-HIGH is the range of ids of the domain.
        trusted: Vec<TrustedDomain> { ListFormat::any(Text(trusted_domain)), live, or Vec::new() }
        /// Names by which clients reach the server. Each needs a service principal `cifs/NAME` in the realm,
        /// which `trunkline domain test` examines.
        names: Vec<String> { ListFormat::any(Text(spn_name)), live, or Vec::new() }
        /// File with the keys of the server's service principals.
        keytab: PathBuf { File, live, or PathBuf::from("/etc/krb5.keytab") }
        /// Encryption types that tickets and their keys may have. `rc4-hmac` is deprecated.
        encryption_types: Vec<EncryptionType> {
            ListFormat::some(OneOf), live, or EncryptionType::AES.to_vec()
        }
        /// Log-ons with NTLM: allowed, allowed for local users only, or refused.
        ntlm: Ntlm { OneOf, live, or Ntlm::On }
    }

    /// This machine as one node of a virtual server that moves between machines (docs/two-nodes.md).
    /// `trunkline node serve` uses it.
    pub struct Node(above: ()) {
        /// Store that gives the virtual server to one node at a time. `flock` is a lock on the storage of the
        /// state directory. With `external`, another program decides, and tells by `trunkline node take`.
        tenure: TenureKind { OneOf, start, unset "no node of a virtual server" }
        /// Name of the virtual server in the tenure store, equal on all nodes.
        server: String { Text(server_name), start, or "trunkline".to_owned() }
        /// Name of this node. Each machine needs another one.
        name: String { Text(filled), start, or values::host_name() => "the host's name" }
        /// Endpoints of etcd's members, such as `http://10.0.0.7:2379`.
        etcd: Vec<String> { ListFormat::any(Text(endpoint)), start, or Vec::new() }
        /// Authorities of the certificates of etcd's members in PEM, for `https`.
        etcd_ca: PathBuf { File, start, unset "none" }
        /// Certificate of this node for etcd in PEM.
        etcd_certificate: PathBuf { File, start, unset "none" }
        /// Private key of the certificate in PEM.
        etcd_key: PathBuf { File, start, unset "none" }
        /// User of etcd, if it has users. The password is in `etcd_password_file`.
        etcd_user: String { Text(filled), start, unset "none" }
        /// File whose first line is the password for etcd.
        etcd_password_file: PathBuf { File, start, unset "none" }
        /// Length of a term. A node that cannot renew its term for so long ends, and another one takes over.
        term_s: u64 { Number(2, 600), start, or 5 }
        /// Addresses that move with the virtual server, such as `10.0.0.50/24`, `10.0.0.50/24%eth0` or
        /// `fd00::50/64`. Without an interface, the one that has an address of the same network gets it. An
        /// address that the machine has for itself is refused.
        addresses: Vec<FloatingAddress> {
            ListFormat::any(Text(node::floating_address)), start, or Vec::new()
        }
        /// Way to cut a former owner off from the storage before its files are read. `cephfs` blocks its
        /// clients of Ceph. `none` is right where the tenure store itself does it.
        fence: Fence { OneOf, start, or Fence::None }
        /// Command for `fence = "command"`, with its arguments. It must end with status 0 once the former
        /// owner cannot write any more (docs/cluster.md).
        fence_command: Vec<String> { ListFormat::any(Text(filled)), start, or Vec::new() }
        /// Directory of the admin sockets of ceph-fuse, by which a node learns its own clients' addresses.
        ceph_sockets: PathBuf { File, start, or PathBuf::from("/var/run/ceph") }
        /// Time that a fence may take.
        fence_timeout_s: u64 { Number(1, 3600), start, or 60 }
        /// Time that the start of the server may take once this node has the tenure. A node whose start takes
        /// longer ends, and another one goes on. Under Pacemaker, keep it below the timeout of the start
        /// operation.
        start_timeout_s: u64 { Number(1, 3600), start, or 50 }
        /// Time for which the storage of the state directory may be silent. A node whose storage is silent
        /// for longer ends, and another one goes on. Ceph is silent for 13 s when a storage daemon dies.
        storage_timeout_s: u64 { Number(5, 3600), start, or 60 }
        /// Directory of this node's lock and socket, on the node itself.
        run_dir: PathBuf { File, start, or PathBuf::from("/run/trunkline") }
    }

    /// Users who may log on, besides those of `trunkline user add`; one table for each.
    pub struct User(above: ()) {
        /// Name to log on with.
        name: String { Text(values::named_user), live, required }
        /// File whose first line is the password.
        password_file: PathBuf { File, live, unset "the password in the state directory" }
        /// Security identifier.
        sid: String { Text(values::sid), live, unset "made from the server's own, and kept" }
        /// User id on the host.
        uid: u32 {
            HOST_ID, live,
            unset "as root that of the host's user of that name (without one the user may not log on), else \
                   the server's own"
        }
        /// Group id on the host.
        gid: u32 { HOST_ID, live, unset "that user's group" }
        /// Further group ids on the host.
        groups: Vec<u32> {
            ListFormat::any(Number(0, u32::MAX as u64)), live,
            unset "those of that user on the host"
        }
        /// Whether the user may take ownership and request higher rights, still within a file's permissions.
        admin: bool { Flag, live, or false }
    }

    /// Settings that several shares have in common (docs/provision.md).
    pub struct Account(
        above: Above<'_>,
        /** The name, in the spelling of the file. */
        name: Setting<String>
    ) {
        /// Whether and how the shares are limited, as in Azure Files (docs/limits.md).
        kind: AccountKind { OneOf, live, or AccountKind::Unlimited }
        /// Formula that derives limits from the sizes of shares.
        formula: Formula { OneOf, live, unset "`v1` for premium, `large` for standard" }
        /// Users and groups who may use the shares. `*` is every user who can log on, `@NAME` a group.
        users: Users { AccessList, live, entries }
        /// Encryption that the shares require. Sessions without it are refused.
        encryption: Encryption { OneOf, live, unset "from `[server]`" }
        /// Signing that the shares require. Sessions without it are refused.
        signing: Signing { OneOf, live, unset "from `[server]`" }
        /// Oldest dialect with access to the shares.
        min_dialect: Dialect { OneOf, live, unset "from `[server]`" }
        /// Ciphers of sessions with access to the shares. SMB 3.0 has AES-128-CCM only.
        ciphers: Vec<Cipher> { ListFormat::some(OneOf), live, unset "all" }
        /// Log-on that the shares require: as a user with a password, or as the account with one of its keys.
        authentication: Vec<Authentication> { ListFormat::some(OneOf), live, unset "both" }
        /// Log-ons with NTLM that the shares accept, where `[domain]` allows them: all, those of local users,
        /// or none. Keys of the account are passwords of NTLM.
        ntlm: Ntlm { OneOf, live, or Ntlm::On }
        /// Events that the shares report.
        audit: Vec<AuditWord> { ListFormat::any(OneOf), live, unset "none" }
        /// Whether the shares cache names, attributes and descriptors.
        metadata_caching: bool { Flag, live, unset "`true`" }
        /// Whether a session of the account's users may have several connections.
        multichannel: bool { Flag, live, from server }
        /// Maximum connections of one session of the account's users.
        max_channels: u64 { CHANNELS, live, from server }
        /// Addresses of the server on which SMB connections belong to the account.
        smb_listen: Vec<IpAddr> { ListFormat::some(Text(address)), live, unset "none of its own" }
        /// Addresses of the account's own NFS endpoint, whose mounts have their own nconnect
        /// (docs/nconnect.md).
        nfs_listen: Vec<IpAddr> { ListFormat::some(Text(address)), start, unset "the server's" }
        /// TCP port of the account's own NFS endpoint.
        nfs_port: u16 { PORT, start, unset "the server's" }
        /// Connections of one client at the account's own NFS endpoint.
        nfs_max_connections: u64 { CONNECTIONS, start, unset "from `[server]`" }
    }

    /// A directory that clients can use.
    pub struct Share(above: Above<'_>, /** The name, in the spelling of the file. */ name: Setting<String>) {
        /// Directory of the share. Over the API it must be an absolute path. After a change, connected
        /// clients keep their open files in the old directory until they close them. `{user}` as its last
        /// part gives each user their own directory (docs/home-shares.md).
        path: PathBuf { File, live, required }
        /// Whether a user who has no directory on a home share gets one at the first connection.
        create_home: bool { Flag, live, or false }
        /// Account of the share, from which it takes values over.
        account: String { Text(filled), live, unset "none" }
        /// Description that clients show next to the name.
        comment: String { Text(values::comment), live, or String::new() }
        /// Whether clients cannot change anything, whatever `users` allows.
        read_only: bool { Flag, live, or false }
        /// Users and groups who may use the share. `*` is every user who can log on, `@NAME` a group.
        users: Users { AccessList, live, entries from account }
        /// Encryption on the wire. A requirement of the account applies too.
        encryption: Encryption { OneOf, live, from account or server }
        /// Signing on the wire. `required` cannot be negotiated for a single share, so a client that does not
        /// sign gets ACCESS_DENIED.
        signing: Signing { OneOf, live, from account or server }
        /// Oldest dialect with access to the share.
        min_dialect: Dialect { OneOf, live, from account or server }
        /// Whether names that differ only in case are different files.
        case_sensitive: bool { Flag, live, or false }
        /// Whether listings omit files that the user may not read.
        hide_unreadable: bool { Flag, live, or false }
        /// How large plain reads are sent: `true` sends them from the page cache, `false` copies them.
        /// `"auto"` uses the cheaper way on each connection (docs/large-reads.md).
        send_file: SendFile { FlagOr, live, or SendFile::Auto }
        /// Whether names, attributes and descriptors are cached where the host reports changes
        /// (docs/metadata-caching.md).
        metadata_caching: bool { Flag, live, from account or true }
        /// Events that the share reports to the target of `[audit]`. `changes` stands for `write`, `create`,
        /// `change`, `rename`, `delete`, `security` and `refused` (docs/audit.md).
        audit: Vec<AuditWord> { ListFormat::any(OneOf), live, from account or Vec::new() }
        /// Patterns of names that get the hidden attribute. `*` and `?` are wildcards.
        hide_files: Vec<String> { ListFormat::any(Text(pattern)), live, or vec![".*".to_owned()] }
        /// Symbolic links that clients may create. `inside` allows those that stay in the share. Absolute
        /// links of Windows are not affected.
        symlinks: Symlinks { OneOf, live, or Symlinks::All }
        /// Whether symbolic links appear as their targets. With `false`, clients without POSIX extensions see
        /// them as links.
        follow_symlinks: bool { Flag, live, or true }
        /// Whether a path through a symbolic link can delete files at its target, also in a recursive delete.
        delete_through_symlinks: bool { Flag, live, or false }
        /// Whether named streams are offered.
        streams: bool { Flag, live, or true }
        /// Maximum size of named streams and large access lists on the state directory's file system, if the
        /// share has no size.
        streams_max_gib: u64 { Number(1, 1 << 20), live, or 16 }
        /// Whether files that clients remove move into a folder of the share, from which their user gets them
        /// back (docs/recycle.md).
        recycle: bool { Flag, live, or false }
        /// Name of that folder, at the root of the share.
        recycle_folder: String { Text(values::folder), live, or ".recycle".to_owned() }
        /// Days after which a removed file goes for good. 0 keeps it until its room is needed.
        recycle_days: u64 { Number(0, 36_500), live, or 30 }
        /// Most storage that removed files take. The oldest go for good above it.
        recycle_gib: u64 { PROVISIONED, live, or 10 }
        /// Largest file that is kept, by its storage.
        recycle_max_file_mib: u64 { PROVISIONED, live, unset "`recycle_gib`" }
        /// Patterns of names that are removed for good at once. `*` and `?` are wildcards. Names that NFS
        /// clients give to removed files that they have open (`.nfs...`) always are.
        recycle_exclude: Vec<String> {
            ListFormat::any(Text(pattern)), live,
            or vec!["*.tmp".to_owned(), "~$*".to_owned(), ".~lock.*#".to_owned()]
        }
        /// Whether clients may watch directories for changes.
        change_notify: bool { Flag, live, or true }
        /// Whether persistent handles survive a restart. They are recorded in the state directory, and their
        /// writes wait for the disk. Turning it on takes effect at the next start.
        continuously_available: bool { Flag, start, or false }
        /// Size of the share: the maximum of stored bytes. In a limited account it also determines the limits
        /// (docs/limits.md).
        provisioned_gib: u64 { PROVISIONED, live, unset "no size" }
        /// Operations a second, for formula `v2`.
        provisioned_iops: u64 { PROVISIONED, live, unset "by the size" }
        /// Throughput, for formula `v2`.
        provisioned_mib_s: u64 { PROVISIONED, live, unset "by the size" }
        /// Protocols of the share. `nfs` is NFSv4.1 and 4.2.
        protocols: Vec<ShareProtocol> { ListFormat::some(OneOf), live, or vec![ShareProtocol::Smb] }
        /// NFS users and groups that are replaced by the anonymous ones: none, root, or all.
        root_squash: Squash { OneOf, live, or Squash::Root }
        /// User id of anonymous users over NFS.
        anonymous_uid: u32 { HOST_ID, live, or NOBODY }
        /// Group id of anonymous users over NFS.
        anonymous_gid: u32 { HOST_ID, live, or NOBODY }
        /// Networks or addresses, such as `10.0.0.0/8`, of NFS clients with access to the share. An empty
        /// list allows all.
        nfs_clients: Vec<Network> { ListFormat::any(Text(network)), live, or Vec::new() }
        /// Whether NFS clients must use ports below 1024, which on most hosts only root can use.
        nfs_secure_port: bool { Flag, live, or true }
        /// Whether groups of NFS users come from the host's user database instead of the client.
        manage_gids: bool { Flag, live, from server }
        /// Addresses of the server at which SMB clients find only this share (docs/provision.md).
        smb_listen: Vec<IpAddr> { ListFormat::some(Text(address)), live, unset "none of its own" }
        /// Addresses of the share's own NFS endpoint, whose mounts have their own nconnect
        /// (docs/nconnect.md).
        nfs_listen: Vec<IpAddr> {
            ListFormat::some(Text(address)), start,
            unset "with an `nfs_port` of its own the server's, else those of the account's endpoint, \
                   else the server's"
        }
        /// TCP port of the share's own NFS endpoint.
        nfs_port: u16 {
            PORT, start,
            unset "with an `nfs_listen` of its own the server's, else that of the account's endpoint, \
                   else the server's"
        }
        /// Connections of one client at the share's own NFS endpoint.
        nfs_max_connections: u64 { CONNECTIONS, start, unset "from `[server]`" }
    }
}

impl Server {
    /// The number of connections that one address may have.
    pub fn connections_per_address(&self) -> u64 {
        self.max_connections_per_address.value.min(self.max_connections.value)
    }
}

impl Share {
    /// Whether clients can use the share by a protocol.
    pub fn offers(&self, protocol: ShareProtocol) -> bool {
        self.protocols.value.contains(&protocol)
    }
}
