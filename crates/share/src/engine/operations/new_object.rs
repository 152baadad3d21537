//! Creates objects that do not exist yet.

use std::sync::{Arc, Weak};

use volume::security::posix::{self, IdMap};
use volume::security::{self, Descriptor, Rights};
use volume::{Failure, Name, Node, NodeKind, Stat};

use crate::engine::Share;
use crate::engine::operations::extended;
use crate::engine::operations::reservation::{Attempt, Ready, Reserved, settable};
use crate::engine::parts::file::{Deletion, File, Member, counted, only_looks};
use crate::engine::parts::names::cache::NewFile;
use crate::engine::parts::names::directory::{Directory, KnownName};
use crate::engine::parts::open_files::FileRef;
use crate::engine::values::host_lists::{HostIdMap, lists_of, shown_now};
use crate::engine::values::protection::Security;
use crate::engine::values::record::Record;
use crate::info::extended_size;
use crate::{
    Attributes, Caller, ChangeFilter, ChangeKind, Disposition, OpenRequest, Options, Outcome, Refusal,
};

/// Permission bits of a new object if the client does not set them.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// A new node, and its entry in the cache of new files.
type NewNode = (Arc<dyn Node>, Option<Arc<NewFile>>);

impl Share {
    /// Creates a file or directory and opens it.
    // MS-FSA 2.1.5.1.1
    pub(crate) fn open_new(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        parent: &Arc<Directory>,
        name: &Name,
    ) -> Result<Attempt, Refusal> {
        check_attributes(request)?;
        self.check_writable()?;
        self.check_not_recycle_name(parent, name)?;
        let is_directory = request.options.contains(Options::DIRECTORY);
        let adds = if is_directory { Rights::ADD_SUBDIRECTORY } else { Rights::ADD_FILE };
        let above = self.directory_security(parent)?;
        if !self.may(caller, &above, adds) {
            return Err(Refusal::AccessDenied);
        }
        if self.open_files().is_going(parent.id) {
            return Err(Refusal::DeletePending);
        }
        if let Some(caching) = &request.caching {
            self.check_key(caller.client, caching, None)?;
        }
        let granted = self.rights_on_new(caller, request.access)?;
        let descriptor = self.descriptor_for_new(
            caller,
            request,
            above.is_stored.then_some(&above.descriptor),
            is_directory,
        )?;
        let mode = new_mode(request, is_directory, descriptor.as_ref(), above.hands_list_down);
        let stays_plain = descriptor.is_none() && !above.hands_list_down && is_plain(request, is_directory);
        // Lookups of the name wait until the open is entered in the file.
        let changing = parent.change(&[name]);
        let Some((node, made)) = self.make(caller, request, parent, name, mode, stays_plain)? else {
            return Ok(Attempt::Again);
        };
        let reserved = self.reserve_new(caller, request, parent, name, &node, granted);
        drop(changing);
        let reserved = match reserved {
            Ok(reserved) => reserved,
            Err(file) => return self.overtaken_by_open(caller, request, &node, descriptor, &above, file),
        };
        let id = reserved.id;
        let file = Arc::clone(&reserved.file);
        let furnished = self.set_first_properties(caller, request, &node, descriptor, &above, &file);
        let seen = furnished.and_then(|(record, data)| {
            let is_as_made = !record.has_descriptor && stays_plain;
            let stat = if is_as_made { self.first_stat_of(node.as_ref())? } else { node.stat()? };
            let of_stream = reserved.stream.figures(data.as_ref())?;
            Ok((record, data, stat, of_stream))
        });
        let (record, data, stat, of_stream) = match seen {
            Ok(seen) => seen,
            Err(why) => {
                undo_create(caller, parent, name, is_directory);
                self.abandon(&file, id);
                return Err(why);
            }
        };
        self.report_created(caller, parent, &reserved);
        file.note_mode(stat.mode);
        file.note_new_file(made);
        let info = self.info_of(&file, reserved.link.as_ref(), &stat, &record, of_stream);
        Ok(self.complete_open(
            caller,
            request,
            reserved,
            Ready { node, data, outcome: Outcome::Created, info },
        ))
    }

    /// Notifies watches and holders of a new object.
    fn report_created(&self, caller: &Caller<'_>, parent: &Arc<Directory>, reserved: &Reserved) {
        let is_directory = reserved.file.is_directory;
        let what = if is_directory { ChangeFilter::DIR_NAME } else { ChangeFilter::FILE_NAME };
        self.entries_changed(parent, &reserved.requester, caller.cause());
        if let Some(link) = &reserved.link {
            self.report(link, None, ChangeKind::Added, what);
        }
        if reserved.stream.is_named {
            self.report_stream(reserved, ChangeKind::StreamAdded, ChangeFilter::STREAM_NAME);
        }
    }

    /// The stat of an object that was created just now.
    fn first_stat_of(&self, node: &dyn Node) -> Result<Stat, Refusal> {
        match node.first_stat().filter(|_| self.cache().is_on()) {
            Some(first) => Ok(first),
            None => Ok(node.stat()?),
        }
    }

    /// The descriptor to be stored with a new object; none if the host's permission bits say enough.
    fn descriptor_for_new(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        parent: Option<&Descriptor>,
        is_directory: bool,
    ) -> Result<Option<Descriptor>, Refusal> {
        if parent.is_none() && request.descriptor.is_none() {
            return Ok(None);
        }
        let token = self.token(caller, request.options);
        if let Some(explicit) = request.descriptor {
            if explicit.sacl.is_some() && !caller.identity.administrator {
                return Err(Refusal::PrivilegeNotHeld);
            }
            let is_own = explicit.owner.is_none_or(|owner| token.has(&owner));
            if !is_own && !caller.identity.administrator {
                return Err(Refusal::BadOwner);
            }
        }
        let mut made = security::inherit(parent, &token, is_directory, request.descriptor);
        // RFC 8881 6.4.3: the mode is applied to what is inherited.
        if let (Some(mode), None) = (request.mode, request.descriptor) {
            match request.options.contains(Options::MODE_LIMITS) {
                true => security::limit_to_mode(&mut made, mode),
                false => security::apply_mode(&mut made, mode),
            }
        }
        Ok(Some(made))
    }

    /// The descriptor of a new object that the host did not give to its creator. It records who that was.
    fn descriptor_for_owner(
        &self,
        caller: &Caller<'_>,
        node: &Arc<dyn Node>,
        record: &Record,
    ) -> Result<Option<Descriptor>, Refusal> {
        let who = caller.identity;
        if who.actor.is_some() {
            return Ok(None);
        }
        let stat = self.first_stat_of(node.as_ref())?;
        if stat.uid == who.uid {
            return Ok(None);
        }
        let numbers = HostIdMap(self.settings().accounts.clone());
        let is_directory = stat.kind == NodeKind::Directory;
        let acl = lists_of(node.as_ref(), &stat, record)?;
        Ok(Some(posix::from_posix(&acl, who.sid, numbers.group(who.gid), is_directory, &numbers)))
    }

    /// Another request has found the new object and opened it in the moment between, and it conflicts. This
    /// request then meets the object like any other. It still sets the properties, because no other request
    /// will.
    fn overtaken_by_open(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        node: &Arc<dyn Node>,
        descriptor: Option<Descriptor>,
        above: &Security,
        file: FileRef<'_>,
    ) -> Result<Attempt, Refusal> {
        self.set_first_properties(caller, request, node, descriptor, above, &file)?;
        drop(file);
        match request.disposition {
            Disposition::Create => Err(Refusal::SharingConflict),
            _ => Ok(Attempt::Again),
        }
    }

    /// Creates the name, which the caller has locked; none if another request was quicker. The new file is
    /// cached if it gets no sidecar data.
    fn make(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        parent: &Arc<Directory>,
        name: &Name,
        mode: u32,
        stays_plain: bool,
    ) -> Result<Option<NewNode>, Refusal> {
        // Between the search and this lock another spelling may have been created.
        if !self.is_exact(request.options)
            && let KnownName::Names(names) = self.directories().known(parent, name)?
            && !names.is_empty()
        {
            return Ok(None);
        }
        let actor = caller.identity.actor.as_ref();
        let (generation, stores) = (parent.generation(), self.cache().stores());
        let made = if request.options.contains(Options::DIRECTORY) {
            parent.node.create_directory(name, mode, actor)
        } else {
            parent.node.create_file(name, mode, actor)
        };
        match made {
            Ok(node) => {
                parent.added(name);
                let first = node.first_stat().filter(|first| stays_plain && first.kind == NodeKind::File);
                let made = first.and_then(|first| self.cache().new_file_now(&first, stores));
                if let Some(made) = &made {
                    parent.note_new_file(name, generation, made);
                }
                Ok(Some((node, made)))
            }
            Err(Failure::Exists) => {
                parent.added(name);
                Ok(None)
            }
            Err(Failure::NotFound | Failure::Stale) => Err(Refusal::PathNotFound),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Enters the open of a new object.
    ///
    /// # Errors
    /// The file, if another request was quicker to open it and conflicts.
    fn reserve_new(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        parent: &Arc<Directory>,
        name: &Name,
        node: &Arc<dyn Node>,
        granted: Rights,
    ) -> Result<Reserved, FileRef<'_>> {
        let file = self.open_files().enter(node.id(), node.kind());
        let mut state = file.state.lock();
        let link = state.enter_link(parent, name);
        let stream = state.enter_stream(request.stream);
        let may_hold = request.disposition == Disposition::Create;
        let is_free = !state.is_deleted(Some(&link))
            && (may_hold || state.stream(&stream).grants.is_empty())
            && state.shares(&stream, granted, request.deny);
        if !is_free {
            drop(state);
            return Err(file);
        }
        let (requester, caching) = self.asking(caller, request, &stream);
        state.share_node(Arc::clone(node));
        let id = self.open_files().next_id();
        state.members.push(Member {
            id,
            stream: Arc::clone(&stream),
            link: Some(Arc::clone(&link)),
            access: counted(granted, request.options),
            looks: only_looks(granted, request.options),
            deny: request.deny,
            requester,
            delete_on_close: Deletion::on_close(id, request.options),
            open: Weak::new(),
        });
        let grant = caching.map(|caching| self.grant(&file, &mut state, &stream, &requester, caching, 0));
        self.note_goes(&requester, &stream, request.options);
        drop(state);
        let given = stream.given();
        let file = file.into_open();
        Ok(Reserved { id, file, stream, link: Some(link), requester, granted, grant, given })
    }

    /// Gives a new object its descriptor, attributes, extended attributes, stream and storage.
    fn set_first_properties(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        node: &Arc<dyn Node>,
        descriptor: Option<Descriptor>,
        above: &Security,
        file: &Arc<File>,
    ) -> Result<(Record, Arc<dyn Node>), Refusal> {
        let _beside = file.beside.lock();
        // The host may have given it a list of its own.
        let mut record = if above.hands_list_down { Record::load(node.as_ref())? } else { Record::default() };
        let (descriptor, mode) = match descriptor {
            Some(descriptor) => {
                let is_set = request.mode.filter(|_| sets_mode(request));
                let mode = is_set.unwrap_or_else(|| security::computed_mode(&descriptor));
                (Some(descriptor), mode)
            }
            None => match self.descriptor_for_owner(caller, node, &record)? {
                Some(descriptor) => (Some(descriptor), self.first_stat_of(node.as_ref())?.mode),
                None => (None, 0),
            },
        };
        if let Some(descriptor) = descriptor {
            let bytes = descriptor.encode().map_err(|_| Refusal::Invalid)?;
            self.put_descriptor(node.as_ref(), Some(&bytes))?;
            record.has_descriptor = true;
            record.shown =
                Some(shown_now(node.as_ref(), &self.first_stat_of(node.as_ref())?, &record, mode)?);
        }
        let is_directory = file.is_directory;
        let by_itself = if is_directory { Attributes::empty() } else { Attributes::ARCHIVE };
        let attributes = settable(request.attributes) | by_itself;
        if attributes != by_itself {
            record.attributes = Some(attributes);
        }
        for (name, value) in request.extended {
            extended::set(node.as_ref(), name, value)?;
        }
        record.extended_size = extended_size(request.extended);
        if !record.is_nothing() {
            self.put_record(node.as_ref(), &record)?;
        }
        let data = match request.stream {
            Some(stream) => node.open_stream(stream, true, false)?,
            None => Arc::clone(node),
        };
        if request.allocation > 0 && !is_directory {
            data.allocate(0..request.allocation)?;
        }
        let mut state = file.state.lock();
        state.record = Some(record);
        state.security = None;
        drop(state);
        Ok((record, data))
    }
}

/// Removes a name that was just created: no client shall find half of what was requested.
fn undo_create(caller: &Caller<'_>, parent: &Arc<Directory>, name: &Name, is_directory: bool) {
    let _changing = parent.change(&[name]);
    let _already_gone = parent.node.remove(name, is_directory, caller.identity.actor.as_ref());
    parent.removed(name);
}

/// Whether a new object is not changed after its creation, so that its first stat stays true.
fn is_plain(request: &OpenRequest<'_>, is_directory: bool) -> bool {
    let by_itself = if is_directory { Attributes::empty() } else { Attributes::ARCHIVE };
    let attributes = settable(request.attributes) | by_itself;
    attributes == by_itself
        && request.extended.is_empty()
        && request.stream.is_none()
        && request.allocation == 0
}

/// Whether a new object may begin with these attribute bits.
// MS-FSA 2.1.5.1.1
fn check_attributes(request: &OpenRequest<'_>) -> Result<(), Refusal> {
    let (options, attributes) = (request.options, request.attributes);
    if options.contains(Options::DIRECTORY) && attributes.contains(Attributes::TEMPORARY) {
        return Err(Refusal::Invalid);
    }
    if options.contains(Options::DELETE_ON_CLOSE) && attributes.contains(Attributes::READ_ONLY) {
        return Err(Refusal::CannotDelete);
    }
    Ok(())
}

/// Whether the requested mode is the mode of the new object, whatever it inherits.
// RFC 8881 6.4.3
fn sets_mode(request: &OpenRequest<'_>) -> bool {
    request.descriptor.is_none() && !request.options.contains(Options::MODE_LIMITS)
}

/// Permission bits of a new object. The host's owner keeps the right to read and write. Otherwise a server
/// that runs as that user could not serve the other users. The descriptor decides.
fn new_mode(
    request: &OpenRequest<'_>,
    is_directory: bool,
    descriptor: Option<&Descriptor>,
    hands_list_down: bool,
) -> u32 {
    match (request.mode, descriptor) {
        (Some(mode), None) => mode & 0o7777,
        (Some(mode), _) if sets_mode(request) => mode & 0o7777,
        (mode, Some(descriptor)) => {
            let kept = if is_directory { 0o700 } else { 0o600 };
            mode.unwrap_or_default() & 0o7000 | security::computed_mode(descriptor) | kept
        }
        // acl(5): the host's list gives the rights, and no mask does.
        (None, None) if hands_list_down => {
            if is_directory {
                0o777
            } else {
                0o666
            }
        }
        (None, None) => {
            if is_directory {
                DIRECTORY_MODE
            } else {
                FILE_MODE
            }
        }
    }
}
