//! Configuration keys of other servers: those that have another name here, and those that have no
//! counterpart.

/// Keys of other servers and their names here. The first name that exists in the table at hand is suggested.
pub const ELSEWHERE: &[(&[&str], &[&str])] = &[
    (&["address", "bind", "bind addr", "interfaces"], &["listen", "smb_listen"]),
    (&["anon uid"], &["anonymous_uid"]),
    (&["anon gid"], &["anonymous_gid"]),
    (&["client", "clients", "hosts allow", "allow hosts"], &["nfs_clients"]),
    (&["directory", "dir"], &["path"]),
    (&["export"], &["share"]),
    (&["global"], &["server"]),
    (&["hide dot files"], &["hide_files"]),
    (&["lease lifetime"], &["nfs_lease_time_s"]),
    (&["kerberos method", "dedicated keytab file"], &["keytab"]),
    (&["max smbd processes"], &["max_connections"]),
    (&["ntlm auth"], &["ntlm"]),
    (&["min protocol", "server min protocol"], &["min_dialect"]),
    (&["netbios aliases"], &["spn_names"]),
    (&["nfs", "smb"], &["protocols"]),
    (&["password"], &["password_file"]),
    (&["port", "smb ports"], &["smb_port", "nfs_port"]),
    (&["privileged port", "secure"], &["nfs_secure_port"]),
    (&["server multi channel support"], &["multichannel"]),
    (&["server signing"], &["signing"]),
    (&["server smb encrypt", "smb encrypt"], &["encryption"]),
    (&["squash"], &["root_squash"]),
    (&["valid users", "read list", "write list", "access"], &["users"]),
    (&["writable", "writeable", "write ok", "access type"], &["read_only"]),
];

/// Keys of other servers that have no counterpart here, and the reason.
pub const NOT_THERE: &[(&[&str], &str)] = &[
    (
        &[
            "acl",
            "ea support",
            "nt acl support",
            "store dos attributes",
            "unix extensions",
            "smb3 unix extensions",
        ],
        "access lists, attributes and POSIX extensions are always offered",
    ),
    (
        &["browseable", "browsable"],
        "a share whose name ends with `$` is listed as special, and clients do not show it",
    ),
    (&["compression"], "compression is not offered"),
    (
        &[
            "create mask",
            "create mode",
            "directory mask",
            "directory mode",
            "inherit acls",
            "inherit permissions",
        ],
        "modes come from the client and are inherited from the directory",
    ),
    (&["dfs", "host msdfs", "msdfs root"], "DFS is not offered"),
    (
        &["force user", "force group", "admin users"],
        "each user acts as that user of the host; see `uid`, `gid` and `admin` in `[[user]]`, and \
         `root_squash` for NFS",
    ),
    (&["fruit", "catia", "vfs objects"], "there are no modules; the server supports macOS without one"),
    (&["full audit"], "`audit` of a share names the events, `[audit]` the file or syslog"),
    (&["guest ok", "guest only", "guest account", "map to guest", "public"], "guests are not admitted"),
    (&["homes"], "a share whose `path` ends with `/{user}` gives each user their own directory"),
    (
        &["hosts deny", "deny hosts"],
        "`nfs_clients` admits NFS clients; SMB clients are admitted only by their users",
    ),
    (&["include"], "there is one file, besides `changes.toml` for changes by command"),
    (&["invalid users"], "only the users in `users` are admitted"),
    (
        &["sec", "sec type", "security", "idmap", "ldap", "passdb backend", "winbind"],
        "`[domain]` has the realm; users are defined in `[[user]]` or by `trunkline user add`",
    ),
    (
        &["lanman auth", "encrypt passwords"],
        "over SMB users log on by NTLMv2 or with Kerberos tickets, and nothing weaker is accepted",
    ),
    (
        &["max protocol", "server max protocol"],
        "the server uses the newest dialect of the client, up to 3.1.1",
    ),
    (&["nfs3", "nfsv3", "nfs vers", "pnfs"], "NFS is 4.1 and 4.2, without pNFS"),
    (
        &[
            "oplocks",
            "kernel oplocks",
            "level2 oplocks",
            "leases",
            "smb2 leases",
            "delegations",
            "posix locking",
            "strict locking",
        ],
        "caching rights and locks always apply, to SMB, NFS and the host together",
    ),
    (&["printable", "printers", "printing", "load printers"], "printers are not served"),
    (&["pseudo"], "NFS clients find a share at /NAME"),
    (&["quota", "quotas", "user quota"], "users have no quotas; the size of a share is `provisioned_gib`"),
    (&["rdma", "smb direct", "quic"], "the only transport is TCP"),
    (&["shadow", "shadow copy", "snapshot", "snapshots", "previous versions"], "snapshots are not offered"),
    (&["socket options"], "the server sets the options of each connection itself"),
    (&["time machine"], "the server is not announced as a target for Time Machine"),
    (&["wide links"], "links are followed only inside the share; see `follow_symlinks`"),
    (&["veto files"], "`hide_files` shows files as hidden, but users who may read them still can"),
];

/// The entry of a table for a key, in any spelling: `guest ok`, `guest_ok`, `GuestOk`, `guest:x`.
pub fn find<T: Copy>(table: &[(&[&str], T)], given: &str) -> Option<T> {
    let plain = |text: &str| -> String {
        let name = text.split(':').next().unwrap_or_default();
        name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let given = plain(given);
    let found = table.iter().find(|(words, _)| words.iter().any(|word| plain(word) == given));
    found.map(|(_, of)| *of)
}
