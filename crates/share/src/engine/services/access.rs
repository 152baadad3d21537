//! Access checks: a file's descriptor, and the rights that a caller gets by it.

use std::sync::Arc;

use volume::security::posix::{self, IdMap};
use volume::security::{self, Descriptor, Privileges, Rights, Sid, Token, well_known};
use volume::{Node, NodeKind, Note, Stat};

use crate::engine::Share;
use crate::engine::parts::names::directory::Directory;
use crate::engine::values::host_lists::{HostIdMap, lists_of};
use crate::engine::values::protection::Security;
use crate::engine::values::record::Record;
use crate::{Caller, ClientKey, Identity, Options, Refusal};

/// Bits that no client may ask for.
// MS-FSA 2.1.5.1
const NO_RIGHTS: Rights = Rights::from_bits_retain(0x0ce0_fe00);

/// The rights that a read-only share leaves.
const READING: Rights = Rights::FOR_READ.union(Rights::FOR_EXECUTE);

/// The rights that a caller asks for.
struct RequestedRights {
    /// The rights that are named.
    named: Rights,
    /// Whether all available rights are asked for.
    maximum: bool,
    /// The most that the share gives the caller.
    ceiling: Rights,
}

impl Share {
    /// Reads a file's descriptor, or makes it from the host's permission bits.
    ///
    /// # Errors
    /// The volume's error.
    pub(crate) fn load_security(
        &self,
        node: &dyn Node,
        stat: &Stat,
        record: &Record,
    ) -> Result<Arc<Security>, Refusal> {
        let known = self.cache().known(stat).and_then(|known| known.security.clone());
        if let Some(security) = known.filter(|security| security.fits(stat)) {
            return Ok(security);
        }
        let epoch = self.cache().epoch();
        let security = Arc::new(self.read_security(node, stat, record)?);
        self.cache().add(stat, epoch, |known| known.security = Some(Arc::clone(&security)));
        Ok(security)
    }

    fn read_security(&self, node: &dyn Node, stat: &Stat, record: &Record) -> Result<Security, Refusal> {
        let says = (stat.mode, stat.uid, stat.gid);
        if record.has_descriptor
            && let Some(bytes) = node.note(Note::Descriptor)?
        {
            // A descriptor that cannot be read gives no permission.
            let mut descriptor = Descriptor::parse(&bytes).map_err(|_| Refusal::Io)?;
            if record.has_other_mode(stat) {
                // A program of the host has set the mode since.
                security::apply_mode(&mut descriptor, stat.mode);
            }
            let (is_stored, is_open_to_all, hands_list_down) = (true, false, record.default_list);
            return Ok(Security {
                descriptor,
                is_stored,
                is_open_to_all,
                list: Vec::new(),
                hands_list_down,
                says,
                is_fixed: stat.fixed,
                is_overtaken: record.is_overtaken(stat),
            });
        }
        let acl = lists_of(node, stat, record)?;
        let numbers = HostIdMap(self.settings().accounts.clone());
        let (owner, group) = (numbers.user(stat.uid), numbers.group(stat.gid));
        let is_directory = stat.kind == NodeKind::Directory;
        Ok(Security {
            descriptor: posix::from_posix(&acl, owner, group, is_directory, &numbers),
            is_stored: false,
            is_open_to_all: acl.access.is_empty() && stat.mode & 0o111 == 0o111,
            list: acl.access,
            hands_list_down: record.default_list,
            says,
            is_fixed: stat.fixed,
            is_overtaken: record.is_overtaken(stat),
        })
    }

    /// A directory's descriptor, from the cache if that can be trusted.
    ///
    /// # Errors
    /// The volume's error.
    pub(crate) fn directory_security(&self, directory: &Arc<Directory>) -> Result<Arc<Security>, Refusal> {
        if let Some(known) = directory.known_security() {
            return Ok(known);
        }
        let own_changes = directory.own_changes();
        let node = directory.node.as_ref();
        let stat = node.stat()?;
        let record = self.load_record(node, &stat)?;
        let security = self.load_security(node, &stat, &record)?;
        directory.note_security(Arc::clone(&security), own_changes);
        Ok(security)
    }

    /// The caller as descriptors see it.
    pub(crate) fn token(&self, caller: &Caller<'_>, options: Options) -> Token {
        let who = caller.identity;
        let accounts = &self.settings().accounts;
        let group = accounts.group_sid(who.gid);
        let mut token = Token::authenticated(who.sid, group, &who.groups);
        let hosts = [Sid::unix_user(who.uid), Sid::unix_group(who.gid)];
        let own_user = accounts.user_sid(who.uid);
        token.groups.extend(hosts.into_iter().chain([own_user]).filter(|sid| *sid != who.sid));
        token.groups.extend(who.host_groups.iter().map(|gid| accounts.group_sid(*gid)));
        if who.groups.contains(&well_known::ANONYMOUS) {
            token.groups.retain(|sid| *sid != well_known::AUTHENTICATED_USERS);
        }
        if who.administrator {
            token.privileges |= Privileges::TAKE_OWNERSHIP | Privileges::SECURITY;
            if !token.groups.contains(&well_known::ADMINISTRATORS) {
                token.groups.push(well_known::ADMINISTRATORS);
            }
            if options.contains(Options::BACKUP) {
                token.privileges |= Privileges::BACKUP | Privileges::RESTORE;
            }
        }
        if who.unbound {
            token.privileges |= Privileges::TAKE_OWNERSHIP | Privileges::BACKUP | Privileges::RESTORE;
        }
        token
    }

    /// The most rights that the share gives this caller, whatever descriptors say.
    pub(crate) fn ceiling(&self, caller: &Caller<'_>) -> Rights {
        let config = self.settings();
        let limit = caller.identity.limit.mapped();
        let limit =
            if caller.identity.administrator { limit | Rights::ACCESS_SYSTEM_SECURITY } else { limit };
        if config.read_only { limit & READING } else { limit }
    }

    /// Whether a descriptor and the share give the caller these rights.
    pub(crate) fn may(&self, caller: &Caller<'_>, security: &Security, rights: Rights) -> bool {
        if rights == Rights::TRAVERSE && security.is_open_to_all {
            return true;
        }
        let is_within = rights == Rights::TRAVERSE || self.ceiling(caller).contains(rights);
        is_within
            && (!self.settings().enforce
                || security::granted(&security.descriptor, &self.token(caller, Options::empty()), rights)
                    .is_ok())
    }

    /// Whether a stored descriptor lets a user pass.
    pub(crate) fn may_pass(&self, identity: &Arc<Identity>, security: &Security) -> bool {
        let now = wire::Now { mono_ns: 0, wall_ns: 0 };
        let client = ClientKey(0);
        let caller = Caller { identity, client, waiter: None, now, origin: None, details: None };
        self.may(&caller, security, Rights::TRAVERSE)
    }

    /// Splits the rights that a caller asks for, and refuses those that the share never gives to such a
    /// caller.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::PrivilegeNotHeld`].
    fn requested_rights(&self, caller: &Caller<'_>, access: Rights) -> Result<RequestedRights, Refusal> {
        let access = check_asked(access)?;
        let named = access - Rights::MAXIMUM_ALLOWED;
        if named.contains(Rights::ACCESS_SYSTEM_SECURITY) && !caller.identity.administrator {
            return Err(Refusal::PrivilegeNotHeld);
        }
        let ceiling = self.ceiling(caller);
        if !ceiling.contains(named) {
            return Err(Refusal::AccessDenied);
        }
        Ok(RequestedRights { named, maximum: access.contains(Rights::MAXIMUM_ALLOWED), ceiling })
    }

    /// The rights that the caller gets on an existing file.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::PrivilegeNotHeld`].
    // MS-FSA 2.1.5.1.2.1
    pub(crate) fn rights_on(
        &self,
        caller: &Caller<'_>,
        security: &Security,
        parent: Option<&Arc<Directory>>,
        access: Rights,
        options: Options,
    ) -> Result<Rights, Refusal> {
        let RequestedRights { named, maximum: wants_maximum, ceiling } =
            self.requested_rights(caller, access)?;
        let mut has = if self.settings().enforce {
            let token = self.token(caller, options);
            let ask = Rights::MAXIMUM_ALLOWED | (named & Rights::ACCESS_SYSTEM_SECURITY);
            security::granted(&security.descriptor, &token, ask).unwrap_or_default()
        } else {
            Rights::ALL | named
        };
        if options.contains(Options::ATTRIBUTES_FOR_ALL) {
            has |= Rights::READ_ATTRIBUTES;
        }
        let by_parent = Rights::READ_ATTRIBUTES | Rights::DELETE;
        if (wants_maximum || (named - has).intersects(by_parent))
            && let Some(parent) = parent
        {
            has |= self.rights_by_parent(caller, parent)?;
        }
        if !has.contains(named) {
            return Err(Refusal::AccessDenied);
        }
        if !wants_maximum {
            return Ok(named);
        }
        let maximum = (has & ceiling) | named;
        if maximum.is_empty() { Err(Refusal::AccessDenied) } else { Ok(maximum) }
    }

    fn rights_by_parent(&self, caller: &Caller<'_>, parent: &Arc<Directory>) -> Result<Rights, Refusal> {
        let security = self.directory_security(parent)?;
        let token = self.token(caller, Options::empty());
        let has =
            security::granted(&security.descriptor, &token, Rights::MAXIMUM_ALLOWED).unwrap_or_default();
        Ok(security::from_parent(has))
    }

    /// The rights on a file that the caller creates: all that were asked for, within the ceiling of the
    /// share.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::PrivilegeNotHeld`].
    // MS-FSA 2.1.5.1.1
    pub(crate) fn rights_on_new(&self, caller: &Caller<'_>, access: Rights) -> Result<Rights, Refusal> {
        let RequestedRights { named, maximum, ceiling } = self.requested_rights(caller, access)?;
        if maximum {
            return Ok((Rights::ALL & ceiling) | named);
        }
        Ok(named)
    }

    /// Refuses a change that the share or the volume does not allow at all.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::ReadOnly`].
    pub(crate) fn check_writable(&self) -> Result<(), Refusal> {
        if self.volume().properties().read_only {
            return Err(Refusal::ReadOnly);
        }
        if self.settings().read_only { Err(Refusal::AccessDenied) } else { Ok(()) }
    }
}

/// The requested rights, with generic ones replaced.
// MS-FSA 2.1.5.1
fn check_asked(access: Rights) -> Result<Rights, Refusal> {
    if access.is_empty() || access.intersects(NO_RIGHTS) {
        return Err(Refusal::AccessDenied);
    }
    Ok(access.mapped())
}
