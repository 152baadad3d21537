//! Making what does not exist.

use std::sync::{Arc, Weak};

use volume::security::posix::{self, Numbers};
use volume::security::{self, Descriptor, Rights};
use volume::{Failure, Name, Node, NodeKind, Stat};

use crate::engine::Share;
use crate::engine::operations::extended;
use crate::engine::operations::reserved::{Attempt, Ready, Reserved, settable};
use crate::engine::parts::file::{Deletion, File, Member, counted, only_looks};
use crate::engine::parts::names::cache::Made;
use crate::engine::parts::names::directory::{Directory, Known};
use crate::engine::parts::open_files::FileRef;
use crate::engine::values::host_lists::{HostNumbers, lists_of, shown_now};
use crate::engine::values::protection::Security;
use crate::engine::values::record::Record;
use crate::info::extended_size;
use crate::{
    Attributes, Caller, ChangeFilter, ChangeKind, Disposition, OpenRequest, Options, Outcome, Refusal,
};

/// Permission bits of what is made when the client does not set them.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// What was made, and what is remembered of that.
type JustMade = (Arc<dyn Node>, Option<Arc<Made>>);

impl Share {
    /// Makes a file or directory and opens it.
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
        // Until the open is among those of the file, who looks for the name waits.
        let changing = parent.change(&[name]);
        let Some((node, made)) = self.make(caller, request, parent, name, mode, stays_plain)? else {
            return Ok(Attempt::Again);
        };
        let reserved = self.reserve_new(caller, request, parent, name, &node, granted);
        drop(changing);
        let reserved = match reserved {
            Ok(reserved) => reserved,
            Err(file) => return self.outrun(caller, request, &node, descriptor, &above, file),
        };
        let id = reserved.id;
        let file = Arc::clone(&reserved.file);
        let furnished = self.furnish(caller, request, &node, descriptor, &above, &file);
        let seen = furnished.and_then(|(record, data)| {
            let is_as_made = !record.has_descriptor && stays_plain;
            let stat = if is_as_made { self.just_seen(node.as_ref())? } else { node.stat()? };
            let of_stream = reserved.stream.figures(data.as_ref())?;
            Ok((record, data, stat, of_stream))
        });
        let (record, data, stat, of_stream) = match seen {
            Ok(seen) => seen,
            Err(why) => {
                unmake(caller, parent, name, is_directory);
                self.abandon(&file, id);
                return Err(why);
            }
        };
        self.tell_made(caller, parent, &reserved);
        file.note_mode(stat.mode);
        file.note_made(made);
        let info = self.info_of(&file, reserved.link.as_ref(), &stat, &record, of_stream);
        Ok(self.hand_out(caller, request, reserved, Ready { node, data, outcome: Outcome::Created, info }))
    }

    /// Tells whoever is concerned of something that was made.
    fn tell_made(&self, caller: &Caller<'_>, parent: &Arc<Directory>, reserved: &Reserved) {
        let is_directory = reserved.file.is_directory;
        let what = if is_directory { ChangeFilter::DIR_NAME } else { ChangeFilter::FILE_NAME };
        self.entries_changed(parent, &reserved.asker, caller.cause());
        if let Some(link) = &reserved.link {
            self.tell(link, None, ChangeKind::Added, what);
        }
        if reserved.stream.is_named {
            self.tell_stream(reserved, ChangeKind::StreamAdded, ChangeFilter::STREAM_NAME);
        }
    }

    /// What is known of something that was made just now.
    fn just_seen(&self, node: &dyn Node) -> Result<Stat, Refusal> {
        match node.first_stat().filter(|_| self.cache().is_on()) {
            Some(first) => Ok(first),
            None => Ok(node.stat()?),
        }
    }

    /// The descriptor to be stored with something new; none when the host's permission bits say enough.
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

    /// The descriptor of something new that the host did not give to its maker: it says who that was.
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
        let stat = self.just_seen(node.as_ref())?;
        if stat.uid == who.uid {
            return Ok(None);
        }
        let numbers = HostNumbers(self.settings().accounts.clone());
        let is_directory = stat.kind == NodeKind::Directory;
        let acl = lists_of(node.as_ref(), &stat, record)?;
        Ok(Some(posix::from_posix(&acl, who.sid, numbers.group(who.gid), is_directory, &numbers)))
    }

    /// Somebody has found what was made and opened it in the moment between, and that stands in the way: the request meets it
    /// like anybody else's. Nobody else will give it what it was to have.
    fn outrun(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        node: &Arc<dyn Node>,
        descriptor: Option<Descriptor>,
        above: &Security,
        file: FileRef<'_>,
    ) -> Result<Attempt, Refusal> {
        self.furnish(caller, request, node, descriptor, above, &file)?;
        drop(file);
        match request.disposition {
            Disposition::Create => Err(Refusal::SharingConflict),
            _ => Ok(Attempt::Again),
        }
    }

    /// Makes the name, which the caller has locked; none when somebody else was quicker. That a file was made is remembered
    /// when nothing is to lie beside it.
    fn make(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        parent: &Arc<Directory>,
        name: &Name,
        mode: u32,
        stays_plain: bool,
    ) -> Result<Option<JustMade>, Refusal> {
        // Between the search and this lock another spelling may have been made.
        if !self.is_exact(request.options)
            && let Known::Names(names) = self.directories().known(parent, name)?
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
                let made = first.and_then(|first| self.cache().made_now(&first, stores));
                if let Some(made) = &made {
                    parent.note_made(name, generation, made);
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

    /// Enters the open of something new.
    ///
    /// # Errors
    /// The file, when somebody else was quicker to open it and is in the way.
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
        let (asker, caching) = self.asking(caller, request, &stream);
        state.share_node(Arc::clone(node));
        let id = self.open_files().next_id();
        state.members.push(Member {
            id,
            stream: Arc::clone(&stream),
            link: Some(Arc::clone(&link)),
            access: counted(granted, request.options),
            looks: only_looks(granted, request.options),
            deny: request.deny,
            asker,
            delete_on_close: Deletion::on_close(id, request.options),
            open: Weak::new(),
        });
        let grant = caching.map(|caching| self.grant(&file, &mut state, &stream, &asker, caching, 0));
        self.note_goes(&asker, &stream, request.options);
        drop(state);
        let given = stream.given();
        let file = file.into_open();
        Ok(Reserved { id, file, stream, link: Some(link), asker, granted, grant, given })
    }

    /// Gives something new its descriptor, attributes, extended attributes, stream and storage.
    fn furnish(
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
                Some(descriptor) => (Some(descriptor), self.just_seen(node.as_ref())?.mode),
                None => (None, 0),
            },
        };
        if let Some(descriptor) = descriptor {
            let bytes = descriptor.encode().map_err(|_| Refusal::Invalid)?;
            self.put_descriptor(node.as_ref(), Some(&bytes))?;
            record.has_descriptor = true;
            record.shown = Some(shown_now(node.as_ref(), &self.just_seen(node.as_ref())?, &record, mode)?);
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

/// Takes a name back that was just made: nobody shall find half of what was asked for.
fn unmake(caller: &Caller<'_>, parent: &Arc<Directory>, name: &Name, is_directory: bool) {
    let _changing = parent.change(&[name]);
    let _already_gone = parent.node.remove(name, is_directory, caller.identity.actor.as_ref());
    parent.removed(name);
}

/// Whether nothing is done to something new once it is made, so that its maker saw it as it is.
fn is_plain(request: &OpenRequest<'_>, is_directory: bool) -> bool {
    let by_itself = if is_directory { Attributes::empty() } else { Attributes::ARCHIVE };
    let attributes = settable(request.attributes) | by_itself;
    attributes == by_itself
        && request.extended.is_empty()
        && request.stream.is_none()
        && request.allocation == 0
}

/// Whether something new may begin with these attribute bits.
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

/// Whether the mode that is asked for is the one that something new has, whatever it inherits.
// RFC 8881 6.4.3
fn sets_mode(request: &OpenRequest<'_>) -> bool {
    request.descriptor.is_none() && !request.options.contains(Options::MODE_LIMITS)
}

/// Permission bits of something new. The host's owner keeps the right to read and write, since a server
/// that runs as that user could not serve the others otherwise; the descriptor is what decides.
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
        // acl(5): the host's list says what is given, and no mask.
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
