//! Named pipes of IPC$: the server's RPC services (MS-SMB2 3.3.5.9, 3.3.5.12, 3.3.5.13, 3.3.5.15.3).
//!
//! [`smb_wire::rpc`] has the RPC itself. This module gives it the values of this server ([`RpcHost`]). It
//! also opens, reads, writes and queries pipes. On a server in a domain `lsarpc` runs on the blocking pool,
//! since names may have to be asked for.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use share::engine::{AccountKind, AccountQuery};
use smb_wire::create::{self, CreateAction, FileInfo, OplockLevel, ResponseFlags};
use smb_wire::create_context::Contexts;
use smb_wire::rpc::{Account, Host, NameUse, Pipe, PipeError, PipeName, Resolved, ServerFacts, ShareType};
use smb_wire::{NtStatus, ioctl, read, rpc, write};
use volume::security::Sid;
use wire::Cursor;

use crate::config::{ShareConfig, same_name};
use crate::connection::Connection;
use crate::exchange::{Handled, Request, Stop};
use crate::state::open::pending::RequestOpen;
use crate::state::{Object, Open, Server, Session, Tree};

/// FILE_ATTRIBUTE_NORMAL, the only attribute of a pipe.
const NORMAL: u32 = 0x0000_0080;
/// The allocation size of a pipe.
const ALLOCATION: u64 = 4096;

/// Opens a pipe.
pub fn create(
    connection: &mut Connection,
    request: &mut Request<'_>,
    tree: &Arc<Tree>,
    parsed: &create::Request<'_>,
) -> Handled {
    let session = Arc::clone(connection.session(request)?);
    let name = PipeName::from_name(parsed.name).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
    let open = connection.server.new_open(&session, tree, request.header.channel_sequence(), request.now);
    let open = open.ok_or(NtStatus::INSUFFICIENT_RESOURCES)?;
    open.settle(Object::Pipe(Mutex::new(Pipe::new(name))));
    connection.server.join_session(&session, &open, request.cause())?;
    request.related.file_id = Some(open.id);
    create::Response {
        oplock_level: OplockLevel::None,
        flags: ResponseFlags::empty(),
        create_action: CreateAction::Opened,
        info: FileInfo { allocation_size: ALLOCATION, file_attributes: NORMAL, ..FileInfo::default() },
        file_id: open.id,
        contexts: Contexts::EMPTY,
    }
    .write(request.body);
    Ok(NtStatus::SUCCESS)
}

/// Answers a READ with the next reply.
// MS-SMB2 3.3.5.12 (exception: a pipe without a reply answers PIPE_EMPTY at once instead of waiting, since
// replies come only after a write of this client)
pub fn read(pipe: &mut Pipe, length: usize, body: &mut Vec<u8>) -> Handled {
    let at = body.len();
    body.resize(at + read::RESPONSE_FIXED, 0);
    let more = pipe.read(length, body)?;
    let count = (body.len() - at - read::RESPONSE_FIXED) as u32;
    if let Some(fixed) = body[at..].first_chunk_mut() {
        read::Response::write_fixed(fixed, count);
    }
    Ok(if more { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS })
}

/// Answers a WRITE to a pipe.
pub fn write(connection: &Connection, request: &mut Request<'_>, open: RequestOpen, data: &[u8]) -> Handled {
    let host = RpcHost::new(connection, request)?;
    if host.may_ask(&*held(&open)?) {
        let (host, open, data) = (host.on_pool(), open.continue_read(), data.to_vec());
        return Err(Stop::work(move |body| {
            held(&open)?.write(&data, &host).map_err(status_of)?;
            write::Response { count: data.len() as u32 }.write(body);
            Ok(NtStatus::SUCCESS)
        }));
    }
    held(&open)?.write(data, &host)?;
    write::Response { count: data.len() as u32 }.write(request.body);
    Ok(NtStatus::SUCCESS)
}

/// The pipe of an Open.
///
/// # Errors
/// FILE_CLOSED, and PIPE_BUSY while another request for it runs, which may take long.
pub fn held(open: &Open) -> Result<MutexGuard<'_, Pipe>, NtStatus> {
    let Some(Object::Pipe(pipe)) = open.object() else { return Err(NtStatus::FILE_CLOSED) };
    pipe.try_lock().ok_or(NtStatus::PIPE_BUSY)
}

/// FSCTL_PIPE_WAIT: whether the pipe exists. A pipe always takes one more Open.
pub fn wait(connection: &mut Connection, request: &mut Request<'_>, parsed: &ioctl::Request<'_>) -> Handled {
    connection.tree(request)?;
    let wait = smb_wire::fscc::fsctl::PipeWait::parse(parsed.input);
    let wait = wait.map_err(|_| NtStatus::INVALID_PARAMETER)?;
    let known = PipeName::from_name(wait.name);
    known.map(|_| NtStatus::SUCCESS).ok_or(Stop::Fail(NtStatus::OBJECT_NAME_NOT_FOUND))
}

/// The control codes of pipes.
pub fn control(
    connection: &Connection,
    request: &Request<'_>,
    open: RequestOpen,
    parsed: &ioctl::Request<'_>,
    output: &mut Vec<u8>,
) -> Handled {
    let limit = parsed.max_output_response as usize;
    let pipe = held(&open)?;
    match parsed.ctl_code {
        // MS-SMB2 3.3.5.15.3
        ioctl::CtlCode::PipeTransceive => {
            let host = RpcHost::new(connection, request)?;
            if host.may_ask(&pipe) {
                drop(pipe);
                return Err(transact_on_pool(host.on_pool(), open, parsed));
            }
            let mut pipe = pipe;
            let more = pipe.transact(parsed.input, &host, limit, output)?;
            Ok(if more { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS })
        }
        ioctl::CtlCode::PipePeek => peek(&pipe, limit, output),
        _ => Err(Stop::Fail(NtStatus::INVALID_DEVICE_REQUEST)),
    }
}

/// Continues FSCTL_PIPE_TRANSCEIVE on the blocking pool.
fn transact_on_pool(host: RpcHost, open: RequestOpen, parsed: &ioctl::Request<'_>) -> Stop {
    let (open, input) = (open.continue_read(), parsed.input.to_vec());
    let (ctl_code, limit) = (parsed.ctl_code, parsed.max_output_response as usize);
    Stop::work(move |body| {
        let mut output = Vec::new();
        let more = held(&open)?.transact(&input, &host, limit, &mut output).map_err(status_of)?;
        ioctl::Response { ctl_code, file_id: open.id, input: &[], output: &output }.write(body);
        Ok(if more { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS })
    })
}

fn status_of(error: PipeError) -> NtStatus {
    match error {
        PipeError::Busy => NtStatus::PIPE_BUSY,
        PipeError::Empty => NtStatus::PIPE_EMPTY,
        PipeError::Disconnected => NtStatus::PIPE_DISCONNECTED,
    }
}

impl From<PipeError> for Stop {
    fn from(error: PipeError) -> Stop {
        Stop::Fail(status_of(error))
    }
}

// MS-FSCC 2.3.48 (exception: the response has no data of the pipe, as the structure allows)
fn peek(pipe: &Pipe, limit: usize, output: &mut Vec<u8>) -> Handled {
    const CONNECTED: u32 = 3;
    Stop::when(limit < 16, NtStatus::BUFFER_TOO_SMALL)?;
    let (messages, first) = pipe.messages();
    for value in [CONNECTED, pipe.available() as u32, messages as u32, first as u32] {
        output.extend_from_slice(&value.to_le_bytes());
    }
    Ok(NtStatus::SUCCESS)
}

/// The values of this server and its caller for RPC.
struct RpcHost {
    server: Arc<Server>,
    session: Arc<Session>,
    wall_ns: i64,
    /// Whether names may be asked for, which may take long.
    asks: bool,
}

impl RpcHost {
    fn new(connection: &Connection, request: &Request<'_>) -> Result<RpcHost, Stop> {
        let (server, session) = (Arc::clone(&connection.server), Arc::clone(connection.session(request)?));
        Ok(RpcHost { server, session, wall_ns: request.now.wall_ns, asks: false })
    }

    /// Whether the directory may have to be asked for what `pipe` tells.
    fn may_ask(&self, pipe: &Pipe) -> bool {
        pipe.name() == PipeName::Lsarpc && !self.server.accounts().domains().is_empty()
    }

    fn on_pool(self) -> RpcHost {
        RpcHost { asks: true, ..self }
    }

    fn look_up(&self, query: AccountQuery<'_>) {
        if self.asks {
            self.server.accounts().look_up(&[query]);
        }
    }

    fn named(&self, name: &str, kind: NameUse) -> Account {
        Account { domain: self.server.config().name.clone(), name: name.to_owned(), kind }
    }

    /// An account of a domain, or a domain itself, which is a name alone or a domain without a name.
    fn of_domain(&self, domain: Option<&str>, name: &str) -> Option<Resolved> {
        let accounts = self.server.accounts();
        let domains = accounts.domains();
        let known = |text: &str| {
            domains.iter().find(|one| same_name(&one.name, text) || same_name(&one.dns_name, text))
        };
        let whole = match domain {
            Some(domain) => known(domain).filter(|_| name.is_empty()),
            None => known(name),
        };
        if let Some(one) = whole {
            let (sid, domain) = (sid_bytes(&one.sid), one.name.clone());
            return Some(Resolved { sid, domain, kind: NameUse::Domain });
        }
        self.look_up(AccountQuery::Name(domain, name));
        let (sid, kind) = accounts.account_named(domain, name)?;
        let domain = accounts.account_name(&sid)?.domain;
        Some(Resolved { sid: sid_bytes(&sid), domain, kind: name_use(kind) })
    }
}

fn sid_bytes(sid: &Sid) -> Vec<u8> {
    let mut out = Vec::new();
    sid.encode(&mut wire::Writer::new(&mut out));
    out
}

impl Host for RpcHost {
    fn facts(&self) -> ServerFacts {
        let config = self.server.config();
        ServerFacts {
            name: config.name.clone(),
            comment: "Trunkline".to_owned(),
            domain: config.name.clone(),
            account_domain_sid: sid_bytes(&config.machine_sid),
            version_major: 10,
            version_minor: 0,
            users: self.server.sessions().len() as u32,
        }
    }

    fn wall_ns(&self) -> i64 {
        self.wall_ns
    }

    fn shares(&self) -> Vec<rpc::Share> {
        let share = |name: &str, remark: &str, kind| rpc::Share {
            name: name.to_owned(),
            remark: remark.to_owned(),
            kind,
            max_uses: u32::MAX,
            current_uses: 0,
            path: String::new(),
            flags: 0,
            security_descriptor: None,
        };
        let mut shares: Vec<rpc::Share> = Vec::new();
        let settings = self.session.session_settings();
        let is_near = |share: &Arc<ShareConfig>| {
            settings.is_none_or(|settings| {
                let why = settings.refusal_for_account(share.account.as_deref());
                why.or_else(|| settings.refusal_for_share(&share.name)).is_none()
            })
        };
        for config in self.server.shares().into_iter().filter(is_near) {
            let kind = if config.hidden { ShareType::DISK_SPECIAL } else { ShareType::DISK };
            let mut entry = share(config.name_for(self.session.user_name()), &config.comment, kind);
            entry.path = format!(
                "C:{}",
                String::from_utf8_lossy(&config.engine.config().host_path).replace('/', "\\")
            );
            shares.push(entry);
        }
        shares.sort_by(|a, b| a.name.cmp(&b.name));
        shares.push(share("IPC$", "Remote IPC", ShareType::IPC));
        shares
    }

    fn caller_is_admin(&self) -> bool {
        // An account's key gives no right over the server.
        let by_key = self.session.session_settings().is_some_and(|settings| settings.by_key);
        !by_key
            && self.session.authenticated().is_some_and(|authenticated| authenticated.identity.administrator)
    }

    fn caller(&self) -> Account {
        match self.session.user_name().split_once('\\') {
            Some((domain, name)) => {
                Account { domain: domain.to_owned(), name: name.to_owned(), kind: NameUse::User }
            }
            None => self.named(self.session.user_name(), NameUse::User),
        }
    }

    fn account_of_sid(&self, sid: &[u8]) -> Option<Account> {
        let sid = Sid::parse(&mut Cursor::new(sid)).ok()?;
        let host = self.server.host_names();
        if let Some(uid) = sid.as_unix_user() {
            let name = name_of(&host.users, uid);
            return Some(Account { domain: UNIX_USER.to_owned(), name, kind: NameUse::User });
        }
        if let Some(gid) = sid.as_unix_group() {
            let name = name_of(&host.groups, gid);
            return Some(Account { domain: UNIX_GROUP.to_owned(), name, kind: NameUse::Group });
        }
        let users = self.server.users();
        if let Some(found) = users.iter().find(|user| user.identity.sid == sid) {
            return Some(self.named(&found.identity.name, NameUse::User));
        }
        let accounts = self.server.accounts();
        if let Some(domain) = accounts.domains().into_iter().find(|domain| domain.sid == sid) {
            return Some(Account { domain: domain.name.clone(), name: domain.name, kind: NameUse::Domain });
        }
        self.look_up(AccountQuery::Sid(sid));
        let found = accounts.account_name(&sid)?;
        Some(Account { domain: found.domain, name: found.name, kind: name_use(found.kind) })
    }

    fn sid_of_account(&self, domain: Option<&str>, name: &str) -> Option<Resolved> {
        let own = self.server.config().name.clone();
        let is = |wanted: &str| domain.is_some_and(|domain| domain.eq_ignore_ascii_case(wanted));
        let host = self.server.host_names();
        let group = |gid| Resolved {
            sid: sid_bytes(&Sid::unix_group(gid)),
            domain: UNIX_GROUP.to_owned(),
            kind: NameUse::Group,
        };
        if is(UNIX_GROUP) {
            return id_of(&host.groups, name).or_else(|| name.parse().ok()).map(group);
        }
        if is(UNIX_USER) {
            let uid = id_of(&host.users, name).or_else(|| name.parse().ok())?;
            let sid = sid_bytes(&Sid::unix_user(uid));
            return Some(Resolved { sid, domain: UNIX_USER.to_owned(), kind: NameUse::User });
        }
        if domain.is_some() && !is(&own) {
            return self.of_domain(domain, name);
        }
        let user = self.server.user(name).map(|user| Resolved {
            sid: sid_bytes(&user.identity.sid),
            domain: own,
            kind: NameUse::User,
        });
        // A name that is not a user of the server may be a group of the host, whose files it serves.
        let own = user.or_else(|| id_of(&host.groups, name).map(group));
        own.or_else(|| if domain.is_none() { self.of_domain(None, name) } else { None })
    }
}

/// The type of an account on the wire.
fn name_use(kind: AccountKind) -> NameUse {
    match kind {
        AccountKind::User => NameUse::User,
        AccountKind::Group => NameUse::Group,
        AccountKind::Alias => NameUse::Alias,
        AccountKind::Computer => NameUse::Computer,
    }
}

/// The domains of users and groups of the host, as Samba names them.
const UNIX_USER: &str = "Unix User";
const UNIX_GROUP: &str = "Unix Group";

/// The name of a number, or the number itself.
fn name_of(all: &[(String, u32)], id: u32) -> String {
    all.iter().find(|&&(_, known)| known == id).map_or_else(|| id.to_string(), |(name, _)| name.clone())
}

/// The number of a name. The host's names are case-sensitive and the clients' are not, so an exact match
/// goes first.
fn id_of(all: &[(String, u32)], name: &str) -> Option<u32> {
    let exact = all.iter().find(|(known, _)| known == name);
    exact.or_else(|| all.iter().find(|(known, _)| same_name(known, name))).map(|&(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HostNames;
    use crate::keys::Protection;
    use auth::SigningAlgorithm;
    use share::ClientKey;
    use share::engine::{AccountDomain, AccountMapping, AccountName};
    use smb_wire::Guid;
    use smb_wire::negotiate::Dialect;
    use wire::Now;

    /// Two domains with a group and a user.
    struct Corp;

    const CORP: Sid = Sid::new(5, &[21, 1, 1, 1]);
    const PARTNER: Sid = Sid::new(5, &[21, 2, 2, 2]);

    impl AccountMapping for Corp {
        fn account_name(&self, sid: &Sid) -> Option<AccountName> {
            let (domain, dns, name, kind) = match (sid.rid_in(&CORP), sid.rid_in(&PARTNER)) {
                (Some(1200), _) => ("CORP", "corp.example", "staff", AccountKind::Group),
                (_, Some(1104)) => ("PARTNER", "partner.example", "eve", AccountKind::User),
                _ => return None,
            };
            let (domain, name) = (domain.to_owned(), name.to_owned());
            Some(AccountName { kind, domain, dns_domain: Some(dns.to_owned()), name })
        }
        fn account_named(&self, domain: Option<&str>, name: &str) -> Option<(Sid, AccountKind)> {
            match (domain.map(str::to_lowercase).as_deref(), name) {
                (None | Some("corp" | "corp.example"), "staff") => {
                    Some((CORP.child(1200)?, AccountKind::Group))
                }
                (Some("partner" | "partner.example"), "eve") => {
                    Some((PARTNER.child(1104)?, AccountKind::User))
                }
                _ => None,
            }
        }
        fn domains(&self) -> Vec<AccountDomain> {
            [("CORP", "corp.example", CORP), ("PARTNER", "partner.example", PARTNER)]
                .map(|(name, dns, sid)| AccountDomain { name: name.into(), dns_name: dns.into(), sid })
                .into()
        }
    }

    #[test]
    fn accounts_of_several_domains_and_the_domains_themselves_have_names() {
        let config = crate::config::account::tests::server(true, Vec::new());
        let server = Server::new(crate::ServerConfig { name: "BOX".to_owned(), ..config }, Now::default());
        server.set_accounts(Arc::new(Corp));
        let protection =
            Protection { dialect: Dialect::Smb210, signing: SigningAlgorithm::HmacSha256, cipher: None };
        let session = server.new_session(Guid::ZERO, ClientKey(1), protection, Now::default());
        let host =
            RpcHost { server: Arc::clone(&server), session: Arc::clone(&session), wall_ns: 0, asks: false };
        let (staff, eve) = (CORP.child(1200).unwrap(), PARTNER.child(1104).unwrap());
        for (sid, forms, domain, kind) in [
            (
                staff,
                [(None, "staff"), (Some("CORP"), "staff"), (Some("corp.example"), "staff")],
                "CORP",
                NameUse::Group,
            ),
            (
                eve,
                [(Some("partner"), "eve"), (Some("PARTNER"), "eve"), (Some("partner.example"), "eve")],
                "PARTNER",
                NameUse::User,
            ),
            (
                PARTNER,
                [(None, "partner"), (Some("PARTNER"), ""), (None, "partner.example")],
                "PARTNER",
                NameUse::Domain,
            ),
        ] {
            for (of, name) in forms {
                let found = host.sid_of_account(of, name).expect(name);
                assert_eq!((found.sid, found.domain.as_str(), found.kind), (sid_bytes(&sid), domain, kind));
            }
            let back = host.account_of_sid(&sid_bytes(&sid)).unwrap();
            assert_eq!((back.domain.as_str(), back.kind), (domain, kind));
        }
        assert_eq!(host.sid_of_account(Some("BOX"), "staff"), None, "that is no group of this server");
        assert_eq!(host.sid_of_account(Some("elsewhere"), "staff"), None);
        assert_eq!(host.account_of_sid(&sid_bytes(&CORP.child(9).unwrap())), None);
    }

    #[test]
    fn groups_and_users_of_the_host_have_names_that_lead_back() {
        let config = crate::config::account::tests::server(true, Vec::new());
        let server = Server::new(crate::ServerConfig { name: "BOX".to_owned(), ..config }, Now::default());
        let named = |name: &str, id| (name.to_owned(), id);
        server.set_host_names(HostNames {
            users: vec![named("root", 0), named("ann", 1000)],
            groups: vec![named("Staff", 7), named("staff", 50)],
        });
        let protection =
            Protection { dialect: Dialect::Smb210, signing: SigningAlgorithm::HmacSha256, cipher: None };
        let session = server.new_session(Guid::ZERO, ClientKey(1), protection, Now::default());
        let host =
            RpcHost { server: Arc::clone(&server), session: Arc::clone(&session), wall_ns: 0, asks: false };
        let sid = |domain, name: &str| host.sid_of_account(domain, name).map(|found| found.sid);
        let [group, user] = [Sid::unix_group(50), Sid::unix_user(1000)].map(|sid| sid_bytes(&sid));
        for domain in [None, Some("box"), Some("unix group")] {
            assert_eq!(sid(domain, "staff"), Some(group.clone()), "{domain:?}");
            assert_eq!(sid(domain, "STAFF"), Some(sid_bytes(&Sid::unix_group(7))), "the first of them");
        }
        assert_eq!(sid(Some("Unix Group"), "50"), Some(group.clone()));
        assert_eq!(sid(Some("Unix User"), "ann"), Some(user.clone()));
        for (domain, name) in
            [(None, "nobody"), (None, "50"), (Some("other"), "staff"), (Some("Unix Group"), "ann")]
        {
            assert_eq!(sid(domain, name), None, "{domain:?} {name}");
        }
        for (sid, domain, name) in [
            (&group, "Unix Group", "staff"),
            (&user, "Unix User", "ann"),
            (&sid_bytes(&Sid::unix_group(9)), "Unix Group", "9"),
        ] {
            let found = host.account_of_sid(sid).expect("an account");
            assert_eq!((found.domain.as_str(), found.name.as_str()), (domain, name));
            assert_eq!(host.sid_of_account(Some(domain), name).map(|found| found.sid).as_ref(), Some(sid));
        }
    }
}
