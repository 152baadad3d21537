//! The text that `serve` prints: the shares, their users, and the exact commands to mount them from each
//! client.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr, TcpListener};

use admin::listener::is_reached_from_elsewhere;

use super::listen::{AdminBound, BoundEndpoint, BoundListeners, NfsBound};
use super::plan::ServePlan;
use crate::config::endpoints::{EndpointOwner, STANDARD_PORT as STANDARD_NFS_PORT};
use crate::config::values::{self, Choice};
use crate::config::{Config, Share, ShareProtocol, homes};
use crate::host::UserDatabase;
use crate::host_ids::ShareOwner;
use crate::state::store::StoredUser;
use crate::state::{FIRST_PASSWORD, StateDir};
use crate::{host, password, principals};

/// The user that was created at the first start because there was none.
pub struct Credentials {
    name: String,
    /// The password. Only known right after it was generated.
    password: Option<String>,
    /// The file that contains the password.
    file: String,
    /// The owner of a share that the user acts as on the host, if the host does not know the user. Only known
    /// right after the user was created.
    acts_as: Option<ShareOwner>,
}

impl Credentials {
    /// Creates the first user, named `name` or after the program, and stores the password in the state
    /// directory. If the server runs as root and the host has no user of that name, the user acts as the
    /// owner of the first share that admits it.
    ///
    /// # Errors
    /// One line for the user.
    pub fn make(state: &StateDir, name: Option<&str>, config: &Config) -> anyhow::Result<Credentials> {
        let name = name.unwrap_or("trunkline").to_owned();
        values::user_name(&name).map_err(|why| anyhow::anyhow!("--user: {why}"))?;
        let is_known = UserDatabase::of_host()?.ids(&name, None, None)?.is_some();
        let acts_as = if is_known { None } else { ShareOwner::of(config, &name) };
        let password = password::make()?;
        let file = state.write_file(FIRST_PASSWORD, format!("{password}\n{name}\n").as_bytes())?;
        let nt_hash = principals::nt_hash(&password);
        state.store().put_user(&StoredUser {
            name: name.clone(),
            nt_hash,
            uid: acts_as.as_ref().map(|owner| owner.uid),
            gid: acts_as.as_ref().map(|owner| owner.gid),
            admin: false,
        })?;
        Ok(Credentials { name, password: Some(password), file: file.display().to_string(), acts_as })
    }

    /// One line for the user that was just created. It does not have the password.
    pub fn note(&self) -> String {
        let acts_as = self.acts_as.as_ref();
        let acts_as = acts_as.map_or_else(String::new, |owner| format!("; on this host it acts as {owner}"));
        format!(
            "there was no user yet, so `{}` was created; the first line of {} is the password{acts_as}",
            self.name, self.file
        )
    }

    /// The user that was created at an earlier start, if the stored password is still valid.
    pub fn kept(state: &StateDir) -> Option<Credentials> {
        let file = state.path().join(FIRST_PASSWORD);
        let text = std::fs::read_to_string(&file).ok()?;
        let mut lines = text.lines();
        let (password, name) = (lines.next()?, lines.next()?);
        let user = state.store().user(name).ok()??;
        let same = user.nt_hash == principals::nt_hash(password);
        let file = file.display().to_string();
        same.then_some(Credentials { name: user.name, password: None, file, acts_as: None })
    }
}

/// The text for the current configuration.
pub fn page(
    plan: &ServePlan,
    bound: &BoundListeners,
    nfs: Option<&NfsBound>,
    user: Option<&Credentials>,
) -> String {
    let mut out =
        format!("Trunkline {} serves on {}\n", env!("CARGO_PKG_VERSION"), address_list(&bound.addresses));
    for endpoint in nfs.iter().flat_map(|nfs| &nfs.endpoints) {
        let whose = match &endpoint.owner {
            EndpointOwner::Server => String::new(),
            owner => format!(" ({owner})"),
        };
        let _ = writeln!(out, "and to NFS clients on {}{whose}", address_list(&endpoint.addresses));
    }
    let notes = [bound.note.as_ref(), nfs.and_then(|nfs| nfs.note.as_ref())];
    for note in notes.into_iter().flatten() {
        let _ = writeln!(out, "({note})");
    }
    out.push('\n');
    let width = plan.share_names().iter().map(|name| name.chars().count()).max().unwrap_or(0);
    for share in plan.config.shares.values() {
        let path = share.path.value.display();
        let _ = write!(out, "  {:width$}  {path}  ", share.name.value);
        let users = share.users.iter().map(|(user, access)| {
            let who = if user == "*" { "every user" } else { as_written(plan, user) };
            let access = if share.read_only.value { "read" } else { access.value.name() };
            format!("{who}: {access}")
        });
        let _ = writeln!(out, "({})", users.collect::<Vec<_>>().join(", "));
    }
    if plan.config.shares.is_empty() {
        out.push_str("  no share yet; create one: trunkline share create NAME path=DIR users=USER=write\n");
    }
    if let Some(user) = user {
        let Credentials { name, password, file, acts_as } = user;
        match password {
            Some(password) => {
                let _ = write!(
                    out,
                    "\n  user      {name}\n  password  {password}   (new, shown only once, stored in \
                     {file})\n"
                );
            }
            None => {
                let _ = write!(out, "\n  user      {name}\n  password  the first line of {file}\n");
            }
        }
        if let Some(owner) = acts_as {
            let _ = writeln!(out, "  acts as   {owner}; `trunkline user set {name} --uid N` changes that");
        }
        let _ = writeln!(
            out,
            "  (change it with: trunkline user passwd {name} --state-dir {})",
            shell(&state_dir(plan))
        );
    }
    mounts(plan, bound, user.map(|user| user.name.as_str()), &mut out);
    for endpoint in nfs.iter().flat_map(|nfs| &nfs.endpoints) {
        nfs_mount(plan, endpoint, &mut out);
    }
    out
}

/// The command to mount the first share that NFS clients find at an endpoint.
fn nfs_mount(plan: &ServePlan, endpoint: &BoundEndpoint, out: &mut String) {
    let offered = plan.config.shares.values().filter(|share| share.offers(ShareProtocol::Nfs));
    let here = offered.filter(|share| share.endpoint(&plan.config) == endpoint.owner);
    let Some(share) = example(here, None) else { return };
    let standard = endpoint.port() == STANDARD_NFS_PORT;
    let port = if standard { String::new() } else { format!("port={},", endpoint.port()) };
    let host = reached_by(plan, &endpoint.addresses);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let _ = writeln!(
        out,
        "  NFS        sudo mount -t nfs4 -o vers=4.2,{port}nconnect=4 {} /mnt",
        shell(&format!("{host}:/{}", share.name.value))
    );
}

fn state_dir(plan: &ServePlan) -> String {
    plan.config.server.state_dir.value.display().to_string()
}

fn address_list(addresses: &[SocketAddr]) -> String {
    let port = addresses.first().map_or(0, SocketAddr::port);
    if addresses.iter().any(|address| address.ip().is_unspecified()) {
        return format!("port {port} of every address");
    }
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The address at which clients reach this host.
fn reached_by(plan: &ServePlan, addresses: &[SocketAddr]) -> String {
    let fixed = addresses.iter().map(SocketAddr::ip).find(|address| !address.is_unspecified());
    let address = fixed.or_else(host::main_address);
    match address {
        Some(address) => address.to_string(),
        None => plan.config.server.name.value.clone(),
    }
}

/// The name of a user in its original spelling. `user` is a key of a share's table, in lower case.
fn as_written<'p>(plan: &'p ServePlan, user: &'p str) -> &'p str {
    let mut principals = plan.principals.iter().map(|principal| principal.name.as_str());
    principals.find(|name| name.to_lowercase() == user).unwrap_or(user)
}

/// The share for the examples: the first one that is not hidden and that `user` may use, if there is one.
fn example<'p>(shares: impl Iterator<Item = &'p Share> + Clone, user: Option<&str>) -> Option<&'p Share> {
    let is_shown = |share: &&Share| !share.name.value.ends_with('$');
    let admits = |share: &&Share| {
        user.is_none_or(|user| {
            share.users.contains_key("*") || share.users.contains_key(&user.to_lowercase())
        })
    };
    let first = |wanted: &dyn Fn(&&Share) -> bool| shares.clone().find(wanted);
    first(&|share| is_shown(share) && admits(share)).or_else(|| first(&is_shown)).or_else(|| first(&|_| true))
}

/// The commands to mount one share. Those of the other shares differ only in the name.
fn mounts(plan: &ServePlan, bound: &BoundListeners, user: Option<&str>, out: &mut String) {
    let Some(share) = example(plan.config.shares.values(), user) else { return };
    let named = share
        .users
        .keys()
        .find(|user| *user != "*" && !smb::Grantee::from(user.as_str()).needs_sid())
        .map(|user| as_written(plan, user));
    let admitted =
        user.filter(|user| share.users.contains_key("*") || share.users.contains_key(&user.to_lowercase()));
    let mut users = plan.principals.iter().filter(|principal| principal.key_of.is_none());
    let first = || users.next().map(|principal| principal.name.as_str());
    let user = admitted.or(named).or_else(first).unwrap_or("USER");
    let mount = MountCommand {
        host: &reached_by(plan, &bound.addresses),
        port: bound.port(),
        share: if share.name.value == homes::USER { user } else { &share.name.value },
        user,
    };
    let _ = write!(out, "\nMount it ({}):\n{}", share.name.value, mount.lines());
}

/// A share as seen from a client.
struct MountCommand<'m> {
    host: &'m str,
    port: u16,
    share: &'m str,
    user: &'m str,
}

impl MountCommand<'_> {
    fn lines(&self) -> String {
        let MountCommand { host, port, share, user } = self;
        let standard = *port == 445;
        // An IPv6 address in a UNC path: colons become dashes (MS-DTYP 2.2.57).
        let v6 = host.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6());
        let unc_host =
            if v6 { format!("{}.ipv6-literal.net", host.replace(':', "-")) } else { (*host).to_owned() };
        let url_host = if v6 { format!("[{host}]") } else { (*host).to_owned() };
        let mut out = String::new();
        let quoted = |text: String| if text.contains(' ') { format!("\"{text}\"") } else { text };
        let unc = quoted(format!("\\\\{unc_host}\\{share}"));
        let windows_user = quoted(format!("/user:{user}"));
        let (tcp, needs) = if standard {
            (String::new(), "")
        } else {
            (
                format!(" /TCPPORT:{port}"),
                "   (Windows 11 24H2, Windows Server 2025 or later; older ones know port 445 only)",
            )
        };
        let _ = writeln!(out, "  Windows    net use Z: {unc} {windows_user}{tcp}{needs}");
        let url_port = if standard { String::new() } else { format!(":{port}") };
        let url = format!("smb://{}@{url_host}{url_port}/{}", percent(user), percent(share));
        let _ = writeln!(out, "  macOS      open {}", shell(&url));
        let options = if standard { String::new() } else { format!(",port={port}") };
        let options = shell(&format!("vers=3.1.1,username={user}{options}"));
        let service = shell(&format!("//{host}/{share}"));
        let _ = writeln!(out, "  Linux      sudo mount -t cifs {service} /mnt -o {options}");
        let options = if standard { String::new() } else { format!(" -p {port}") };
        let _ = writeln!(out, "  smbclient  smbclient {service} -U {}{options}", shell(user));
        out
    }
}

/// `text` as one word for a shell.
fn shell(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@,=[]%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// `text` as a part of a URL (RFC 3986 2.1).
fn percent(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~$".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The addresses for administrators. Empty if there are none.
pub fn admin(plan: &ServePlan, bound: &AdminBound, state: &StateDir) -> String {
    let at =
        |listener: &Option<TcpListener>| listener.as_ref().and_then(|listener| listener.local_addr().ok());
    // For a wildcard address, one by which the host is reached.
    let authority = |at: SocketAddr| {
        let host = reached_by(plan, &[at]);
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        format!("{host}:{}", at.port())
    };
    let mut out = String::new();
    if let Some(at) = at(&bound.metrics) {
        let scheme = if is_reached_from_elsewhere(at) { "https" } else { "http" };
        out += &format!("\n  metrics    {scheme}://{}/metrics\n", authority(at));
    }
    if let Some(at) = at(&bound.page) {
        let scheme = if plan.config.admin.tls_certificate.is_some() { "https" } else { "http" };
        let token = match plan.config.admin.file_token.value {
            true => state.path().join(super::ADMIN_TOKEN).display().to_string(),
            false => "trunkline token add NAME --role administer".to_owned(),
        };
        out += &format!("\n  admin      {scheme}://{}/   (token: {token})\n", authority(at));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_gets_its_own_line() {
        let mount = MountCommand { host: "192.0.2.7", port: 4450, share: "my docs", user: "ann" };
        let lines = mount.lines();
        assert!(
            lines
                .contains("net use Z: \"\\\\192.0.2.7\\my docs\" /user:ann /TCPPORT:4450   (Windows 11 24H2"),
            "{lines}"
        );
        assert!(lines.contains("open smb://ann@192.0.2.7:4450/my%20docs\n"), "{lines}");
        assert!(
            lines.contains("mount -t cifs '//192.0.2.7/my docs' /mnt -o vers=3.1.1,username=ann,port=4450\n")
        );
        assert!(lines.contains("smbclient '//192.0.2.7/my docs' -U ann -p 4450\n"));
    }

    #[test]
    fn the_standard_port_is_not_mentioned() {
        let lines = MountCommand { host: "fd00::2", port: 445, share: "d", user: "o'neil" }.lines();
        assert!(!lines.contains("445") && !lines.contains("24H2"), "{lines}");
        assert!(lines.contains("\\\\fd00--2.ipv6-literal.net\\d /user:o'neil\n"), "{lines}");
        assert!(
            lines.contains("smb://o%27neil@[fd00::2]/d\n") && lines.contains("-U 'o'\\''neil'\n"),
            "{lines}"
        );
    }

    #[test]
    fn the_example_is_a_share_that_is_found_and_its_user_as_written() {
        use crate::config::read;
        use crate::state::store::Identity;
        let text = "[[user]]\nname = \"Ann\"\n[share.'ADMIN$']\npath = \"/a\"\nusers = { '*' = \"full\" }\n\
                    [share.b]\npath = \"/b\"\nusers = { Bob = \"read\" }\n[share.docs]\npath = \"/c\"\nusers \
                    = { Ann = \"write\" }\n";
        let config = read::parse("t", text, std::path::Path::new("/")).unwrap();
        let example = |user| example(config.shares.values(), user).map(|share| share.name.value.as_str());
        assert_eq!(
            (example(None), example(Some("ANN")), example(Some("zoe"))),
            (Some("b"), Some("docs"), Some("b"))
        );
        let hidden = config.shares.values().filter(|share| share.name.value.ends_with('$'));
        assert_eq!(super::example(hidden, None).map(|share| share.name.value.as_str()), Some("ADMIN$"));
        let principal = |name: &str| crate::principals::LogonPrincipal {
            name: name.to_owned(),
            nt_hash: principals::nt_hash("x"),
            sid: String::new(),
            ids: None,
            admin: false,
            password_from: crate::principals::PasswordFrom::State,
            second_hash: None,
            key_of: None,
        };
        let identity = Identity { guid: [0; 16], machine_sid: [0; 3] };
        let plan = ServePlan {
            config: config.clone(),
            principals: vec![principal("Ann"), principal("Bob")],
            identity,
        };
        assert_eq!((as_written(&plan, "ann"), as_written(&plan, "zoe")), ("Ann", "zoe"));
        let addresses = vec!["192.0.2.1:445".parse().unwrap()];
        let mut out = String::new();
        mounts(
            &plan,
            &BoundListeners { listeners: net::Listeners::bind(&[]).unwrap(), addresses, note: None },
            None,
            &mut out,
        );
        assert!(out.contains("Mount it (b)") && out.contains("/user:Bob\n") && !out.contains("bob"), "{out}");
    }

    #[test]
    fn the_first_password_is_shown_once_and_found_again_until_it_is_changed() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("s")).unwrap();
        assert!(Credentials::kept(&state).is_none());
        let config = crate::config::read::parse("t", "", dir.path()).unwrap();
        let made = Credentials::make(&state, Some("ann"), &config).unwrap();
        assert!(made.password.is_some());
        let kept = Credentials::kept(&state).unwrap();
        assert_eq!((kept.name.as_str(), kept.password, kept.file), ("ann", None, made.file));
        let mut ann = state.store().user("ann").unwrap().unwrap();
        ann.nt_hash = principals::nt_hash("another");
        state.store().put_user(&ann).unwrap();
        assert!(Credentials::kept(&state).is_none());
        assert!(Credentials::make(&state, Some("a/b"), &config).is_err());
    }
}
