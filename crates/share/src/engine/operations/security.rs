//! Descriptors, and their other forms: permission bits and host owners.

use std::sync::Arc;

use volume::security::{self, Descriptor, Parts, Rights};
use volume::{Failure, Node, NodeKind};

use crate::caching::grants::Need;
use crate::engine::Share;
use crate::engine::parts::file::SET_GROUP;
use crate::engine::services::audit::AuditedStep;
use crate::engine::values::host_lists::{HostIdMap, shown_now, write_access_list, write_lists};
use crate::engine::values::protection::Security;
use crate::engine::values::record::Record;
use crate::{
    AuditDetail, AuditedOperation, CallResult, Caller, ChangeFilter, ChangeKind, Open, Options, Refusal,
};

impl Share {
    /// The whole descriptor. The caller must check which parts the opener may see.
    ///
    /// # Errors
    /// The volume's error.
    // MS-FSA 2.1.5.14
    pub fn descriptor(&self, open: &Open) -> Result<Descriptor, Refusal> {
        Ok(self.security_of(open)?.descriptor.clone())
    }

    /// The most rights that the opener could have got on this file.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`] if there are none; the volume's error.
    // MS-FSA 2.1.5.1.2.1
    pub fn maximal(&self, open: &Open) -> Result<Rights, Refusal> {
        let identity = &open.identity();
        let caller = Caller {
            identity,
            client: open.client(),
            waiter: None,
            now: wire::Now::default(),
            origin: None,
            details: None,
        };
        self.maximal_for(&caller, open)
    }

    /// The most rights that a caller could get on the file of an open, which may belong to another client.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`] if there are none; the volume's error.
    pub fn maximal_for(&self, caller: &Caller<'_>, open: &Open) -> Result<Rights, Refusal> {
        let security = self.security_of(open)?;
        let parent = open.link.as_ref().map(|link| link.parent_and_name().0);
        self.rights_on(caller, &security, parent.as_ref(), Rights::MAXIMUM_ALLOWED, open.options)
    }

    fn security_of(&self, open: &Open) -> Result<Arc<Security>, Refusal> {
        Ok(self.properties(&open.file, open.node.as_ref(), None, None)?.security)
    }

    /// Changes parts of the descriptor. Holders that only keep the file open are asked first to close it,
    /// because they may no longer be able to open it again.
    // MS-FSA 2.1.5.17
    pub fn set_descriptor(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        parts: Parts,
        given: &Descriptor,
    ) -> CallResult<()> {
        let set = match self.check_descriptor(caller, open, parts, given) {
            Err(why) => CallResult::Refused(why),
            Ok(()) => match self.require_for(caller, open, Need::CloseKept) {
                CallResult::Done(()) => self.amend_descriptor(open, parts, given).into(),
                other => other,
            },
        };
        self.audited(caller, open, AuditedStep::of(AuditedOperation::SetDescriptor), set)
    }

    /// Whether the caller may set these parts to these values.
    fn check_descriptor(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        parts: Parts,
        given: &Descriptor,
    ) -> Result<(), Refusal> {
        self.check_writable()?;
        check_parts(open, parts)?;
        let token = self.token(caller, open.options);
        if parts.contains(Parts::OWNER) {
            let owner = given.owner.ok_or(Refusal::BadOwner)?;
            let may_give_away = caller.identity.administrator && open.options.contains(Options::BACKUP);
            let is_possible = token.has(&owner) || may_give_away;
            let stays = self.security_of(open)?.descriptor.owner == Some(owner);
            if !is_possible && !stays {
                return Err(Refusal::BadOwner);
            }
        }
        Ok(())
    }

    fn amend_descriptor(&self, open: &Arc<Open>, parts: Parts, given: &Descriptor) -> Result<(), Refusal> {
        let beside = open.file.beside.lock();
        let earlier = self.security_of(open)?;
        let mut descriptor = earlier.descriptor.clone();
        security::amend(&mut descriptor, given, parts);
        let is_same_list = descriptor.dacl == earlier.descriptor.dacl;
        let bytes = descriptor.encode().map_err(|_| Refusal::Invalid)?;
        let record = self.record_of(open)?;
        self.put_descriptor(open.node.as_ref(), Some(&bytes))?;
        // It is valid from here on, whatever happens to the host's part.
        self.store_record(open, Record { has_descriptor: true, shown: None, ..record })?;
        let shown = self.show_on_host(open, &descriptor, is_same_list, parts, record);
        self.forget_security(open);
        drop(beside);
        shown?;
        if let Some(link) = &open.link {
            self.report(link, None, ChangeKind::Modified, ChangeFilter::SECURITY);
        }
        Ok(())
    }

    /// Sets the host's permission bits, lists and owner to the values of the descriptor, as far as possible.
    /// `before` is the record without it.
    // RFC 8881 6.3.2, 6.4.1.2
    fn show_on_host(
        &self,
        open: &Open,
        descriptor: &Descriptor,
        is_same_list: bool,
        parts: Parts,
        before: Record,
    ) -> Result<(), Refusal> {
        let node = open.node.as_ref();
        let stat = node.stat()?;
        let is_directory = open.file.is_directory;
        let mut mode = security::computed_mode(descriptor);
        let is_same_owner = !parts.intersects(Parts::OWNER | Parts::GROUP);
        if !is_directory && is_same_list && (is_same_owner || !before.has_descriptor) {
            // A list that was made from the host's mode lets readers run a file, even one that the host runs
            // for nobody.
            mode &= 0o666 | before.mode(&stat) & 0o111;
        }
        let kept = if is_directory { 0o700 } else { stat.mode & 0o200 | 0o400 };
        let on_host = stat.mode & 0o7000 | mode | kept;
        let mut record = Record { has_descriptor: true, ..before };
        let numbers = HostIdMap(self.settings().accounts.clone());
        let listed = write_lists(node, &mut record, descriptor, is_directory, on_host, &numbers);
        let on_host = *listed.as_ref().unwrap_or(&on_host);
        allowed_to_fail(listed.map(|_| ()))?;
        if on_host != node.stat()?.mode {
            allowed_to_fail(node.set_mode(on_host))?;
        }
        if parts.intersects(Parts::OWNER | Parts::GROUP) {
            let accounts = &self.settings().accounts;
            let uid = descriptor.owner.and_then(|sid| accounts.uid(&sid)).filter(|uid| *uid != stat.uid);
            let gid = descriptor.group.and_then(|sid| accounts.gid(&sid)).filter(|gid| *gid != stat.gid);
            if uid.is_some() || gid.is_some() {
                allowed_to_fail(open.node.set_owner(uid, gid))?;
            }
        }
        record.shown = Some(shown_now(node, &node.stat()?, &record, mode)?);
        self.store_record(open, record)
    }

    fn forget_security(&self, open: &Open) {
        open.file.forget_security();
        self.own_changed(&open.file);
    }

    /// Sets the permission bits. A stored descriptor is changed to say the same, and the parts that the mode
    /// does not cover stay. Waits for holders that cache the mode.
    // RFC 8881 6.4.1.1
    pub fn set_mode(&self, caller: &Caller<'_>, open: &Arc<Open>, mode: u32) -> CallResult<()> {
        let may = self.check_writable().and_then(|()| self.check_owner(caller, open, Rights::WRITE_DAC));
        // The bits of a symbolic link say nothing, and hosts keep none. symlink(7)
        if open.file.kind == NodeKind::Link {
            return may.into();
        }
        let set = self.after_attributes(caller, open, may, || {
            let mode = self.mode_to_set(caller, open, mode & 0o7777)?;
            let amends = |descriptor: &mut Descriptor| security::apply_mode(descriptor, mode);
            self.change_host(open, amends, |node| {
                node.set_mode(mode)?;
                open.file.note_mode(mode);
                Ok(Some(mode))
            })
        });
        let detail = AuditDetail::Mode(mode & 0o7777);
        self.audited(caller, open, AuditedStep::with(AuditedOperation::SetMode, detail), set)
    }

    /// The permission bits to set for a caller. Only a member of the group may set the bit that lets the file
    /// run with the group's rights.
    // chmod(2)
    fn mode_to_set(&self, caller: &Caller<'_>, open: &Open, mode: u32) -> Result<u32, Refusal> {
        let who = caller.identity;
        if mode & SET_GROUP == 0 || who.actor.is_none() || who.administrator || who.unbound {
            return Ok(mode);
        }
        let gid = open.node.stat()?.gid;
        let is_member = gid == who.gid || who.host_groups.contains(&gid);
        Ok(if is_member { mode } else { mode & !SET_GROUP })
    }

    /// Sets the host's owner and group; `None` leaves one as it is. Waits for holders that cache them.
    pub fn set_owner(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> CallResult<()> {
        let may = self.check_new_owner(caller, open, uid, gid);
        let set = self.after_attributes(caller, open, may, || {
            let accounts = self.settings().accounts.clone();
            let new = (uid.map(|uid| accounts.user_sid(uid)), gid.map(|gid| accounts.group_sid(gid)));
            let amends = |descriptor: &mut Descriptor| security::give_to(descriptor, new.0, new.1);
            self.change_host(open, amends, |node| {
                node.set_owner(uid, gid)?;
                Ok(None)
            })
        });
        let detail = AuditDetail::Owner(uid, gid);
        self.audited(caller, open, AuditedStep::with(AuditedOperation::SetOwner, detail), set)
    }

    fn check_new_owner(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<(), Refusal> {
        self.check_writable()?;
        self.check_owner(caller, open, Rights::WRITE_OWNER)?;
        let stat = open.node.stat()?;
        let who = caller.identity;
        let gives_away = uid.is_some_and(|uid| uid != stat.uid && uid != who.uid)
            || gid.is_some_and(|gid| gid != stat.gid && gid != who.gid && !who.host_groups.contains(&gid));
        if gives_away && !who.administrator {
            return Err(Refusal::AccessDenied);
        }
        Ok(())
    }

    /// Whether the open has a right, or the caller has it on the file now.
    pub(crate) fn check_owner(&self, caller: &Caller<'_>, open: &Open, right: Rights) -> Result<(), Refusal> {
        if open.granted.contains(right) {
            return Ok(());
        }
        let security = self.security_of(open)?;
        self.rights_on(caller, &security, None, right, open.options).map(|_| ())
    }

    /// Changes the host's owner or mode, and a stored descriptor with it. `change` returns the resulting
    /// permission bits, if it sets them.
    fn change_host(
        &self,
        open: &Arc<Open>,
        amend: impl FnOnce(&mut Descriptor),
        change: impl FnOnce(&dyn Node) -> Result<Option<u32>, Refusal>,
    ) -> Result<(), Refusal> {
        let node = open.node.as_ref();
        let beside = open.file.beside.lock();
        let record = self.record_of(open)?;
        if record.has_descriptor {
            let mut descriptor = self.security_of(open)?.descriptor.clone();
            let before = record.mode(&node.stat()?);
            amend(&mut descriptor);
            let bytes = descriptor.encode().map_err(|_| Refusal::Invalid)?;
            let set = change(node)?;
            self.put_descriptor(node, Some(&bytes))?;
            let mut record = record;
            if let Some(mode) = set {
                // The mode takes rights from a named user or group. The host's list must not give them back
                // with the next mode.
                let numbers = HostIdMap(self.settings().accounts.clone());
                let is_directory = open.file.is_directory;
                let listed = write_access_list(node, &mut record, &descriptor, is_directory, mode, &numbers);
                allowed_to_fail(listed.map(|_| ()))?;
            }
            record.shown = Some(shown_now(node, &node.stat()?, &record, set.unwrap_or(before))?);
            self.store_record(open, record)?;
        } else {
            change(node)?;
        }
        self.forget_security(open);
        drop(beside);
        if let Some(link) = &open.link {
            self.report(link, None, ChangeKind::Modified, ChangeFilter::SECURITY | ChangeFilter::ATTRIBUTES);
        }
        Ok(())
    }
}

/// Whether the open may change these parts.
// MS-FSA 2.1.5.17
fn check_parts(open: &Open, parts: Parts) -> Result<(), Refusal> {
    let label = Parts::LABEL | Parts::OWNER | Parts::GROUP;
    let lists = Parts::DACL | Parts::PROTECTED_DACL | Parts::UNPROTECTED_DACL;
    let audit =
        Parts::SACL | Parts::PROTECTED_SACL | Parts::UNPROTECTED_SACL | Parts::ATTRIBUTE | Parts::SCOPE;
    for (meant, right) in
        [(label, Rights::WRITE_OWNER), (lists, Rights::WRITE_DAC), (audit, Rights::ACCESS_SYSTEM_SECURITY)]
    {
        if parts.intersects(meant) && !open.granted.contains(right) {
            return Err(Refusal::AccessDenied);
        }
    }
    Ok(())
}

/// The stored descriptor decides. A host that does not permit showing it is no failure.
fn allowed_to_fail(result: volume::Result<()>) -> Result<(), Refusal> {
    match result {
        Ok(()) | Err(Failure::Denied | Failure::NotSupported) => Ok(()),
        Err(failure) => Err(failure.into()),
    }
}
