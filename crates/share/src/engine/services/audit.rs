//! Makes the events of the audit ([`crate::audit`]). Operations call these functions at their end, when they
//! hold no lock. A path is written into memory of the thread, so an event allocates nothing.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::Rights;
use volume::{Name, NodeId};

use crate::audit::is_denial;
use crate::engine::Share;
use crate::engine::lookup::item::Item;
use crate::engine::parts::file::{HardLinkedName, looks_only};
use crate::engine::parts::names::directory::Directory;
use crate::open::{FirstUse, OpenParty};
use crate::{
    AuditClasses, AuditDetail, AuditEvent, AuditedOperation, CallResult, Caller, ClientDetails, Identity,
    Open, OpenRequest, OpenResult, Options, Outcome, Refusal,
};

thread_local! {
    /// The path and the new path of the event that this thread makes.
    static PATHS: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// A name that an event is about.
#[derive(Clone, Copy)]
pub(crate) enum AuditedPath<'a> {
    /// The current place of a name; none for the root.
    Link(Option<&'a HardLinkedName>),
    /// A name in a directory.
    In(&'a Arc<Directory>, &'a Name),
    /// A path that was made before.
    Bytes(&'a [u8]),
}

impl AuditedPath<'_> {
    fn write(self, out: &mut Vec<u8>) {
        out.clear();
        match self {
            AuditedPath::Link(None) => {}
            AuditedPath::Link(Some(link)) => link.append_path(out),
            AuditedPath::In(parent, name) => parent.append_path(Some(name), out),
            AuditedPath::Bytes(bytes) => out.extend_from_slice(bytes),
        }
    }
}

/// The user and the session of an event.
#[derive(Clone, Copy)]
pub(crate) struct AuditedParty<'a> {
    pub identity: &'a Identity,
    pub details: Option<&'a ClientDetails>,
}

impl<'a> AuditedParty<'a> {
    /// The owner of an open.
    pub fn owner(party: &'a OpenParty) -> AuditedParty<'a> {
        AuditedParty { identity: &party.identity, details: party.details.as_deref() }
    }

    /// The sender of a request on an open of this owner ([`owner_for`]).
    pub fn sender(caller: &'a Caller<'_>, owner: Option<&'a OpenParty>) -> AuditedParty<'a> {
        let details = caller.details.or_else(|| owner?.details.as_ref());
        AuditedParty { identity: caller.identity, details: details.map(|details| &**details) }
    }
}

/// The owner of an open, if the caller's session is not known by the request.
fn owner_for(caller: &Caller<'_>, open: &Open) -> Option<OpenParty> {
    caller.details.is_none().then(|| open.party())
}

/// The operation whose end is told.
#[derive(Clone, Copy)]
pub(crate) struct AuditedStep<'a> {
    pub operation: AuditedOperation,
    pub detail: AuditDetail<'a>,
    /// None: the path of the open.
    pub path: Option<AuditedPath<'a>>,
    pub new_path: Option<AuditedPath<'a>>,
}

impl AuditedStep<'_> {
    pub fn of(operation: AuditedOperation) -> AuditedStep<'static> {
        AuditedStep { operation, detail: AuditDetail::None, path: None, new_path: None }
    }
}

impl<'a> AuditedStep<'a> {
    pub fn with(operation: AuditedOperation, detail: AuditDetail<'a>) -> AuditedStep<'a> {
        AuditedStep { detail, ..AuditedStep::of(operation) }
    }
}

impl Share {
    /// Whether events of one of these classes are wanted.
    #[inline]
    pub(crate) fn audits(&self, classes: AuditClasses) -> bool {
        self.audit_selection().get().intersects(classes)
    }

    /// Sends an event.
    fn tell(&self, event: AuditEvent<'_>) {
        let settings = self.settings();
        if let Some(sink) = &settings.audit {
            sink.on_event(&AuditEvent { share: Some(&settings.name), ..event });
        }
    }

    /// Tells of the end of an operation on an open, and returns its result.
    #[inline]
    pub(crate) fn audited<T>(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        step: AuditedStep<'_>,
        result: CallResult<T>,
    ) -> CallResult<T> {
        if self.audits(step.operation.classes() | AuditClasses::REFUSED) {
            match &result {
                CallResult::Done(_) => self.tell_of(caller, open, step, None),
                CallResult::Refused(why) => self.tell_of(caller, open, step, Some(why)),
                CallResult::Wait(_) => {}
            }
        }
        result
    }

    /// As [`Share::audited`], for an operation that never waits.
    #[inline]
    pub(crate) fn audited_now<T>(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        step: AuditedStep<'_>,
        result: Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        if self.audits(step.operation.classes() | AuditClasses::REFUSED) {
            self.tell_of(caller, open, step, result.as_ref().err());
        }
        result
    }

    #[cold]
    fn tell_of(&self, caller: &Caller<'_>, open: &Open, step: AuditedStep<'_>, refused: Option<&Refusal>) {
        let wanted = match refused {
            None => self.audits(step.operation.classes()),
            Some(why) => self.audits(AuditClasses::REFUSED) && is_denial(why),
        };
        if wanted {
            let owner = owner_for(caller, open);
            self.tell_by(AuditedParty::sender(caller, owner.as_ref()), open, step, refused);
        }
    }

    /// Tells of an operation on an open by a client.
    pub(crate) fn tell_by(
        &self,
        by: AuditedParty<'_>,
        open: &Open,
        step: AuditedStep<'_>,
        refused: Option<&Refusal>,
    ) {
        let stream = open.stream();
        let is_removal =
            matches!(step.operation, AuditedOperation::Remove | AuditedOperation::RemoveDirectory);
        PATHS.with_borrow_mut(|(path, new_path)| {
            step.path.unwrap_or(AuditedPath::Link(open.link.as_deref())).write(path);
            let is_placed = step.path.is_some() || open.link.is_some() || open.file.id == self.root().id;
            if let Some(to) = step.new_path {
                to.write(new_path);
            }
            self.tell(AuditEvent {
                refused,
                client: by.details,
                path: is_placed.then_some(path),
                stream: stream.as_ref().map(Name::as_bytes),
                new_path: step.new_path.is_some().then_some(new_path),
                file: Some(open.file.id),
                // Another open than that of the one who removes a name may be the last to close.
                open: (!is_removal && !open.options.contains(Options::STEP)).then_some(open.id),
                detail: step.detail,
                ..AuditEvent::of(step.operation, Some(by.identity))
            });
        });
    }

    /// Tells of an operation on a name that is not open.
    pub(crate) fn audit_name(
        &self,
        caller: &Caller<'_>,
        step: AuditedStep<'_>,
        file: Option<NodeId>,
        refused: Option<&Refusal>,
    ) {
        let wanted = match refused {
            None => self.audits(step.operation.classes()),
            Some(why) => self.audits(AuditClasses::REFUSED) && is_denial(why),
        };
        if !wanted {
            return;
        }
        PATHS.with_borrow_mut(|(path, _)| {
            if let Some(at) = step.path {
                at.write(path);
            }
            self.tell(AuditEvent {
                refused,
                client: caller.details.map(|details| &**details),
                path: step.path.is_some().then_some(path),
                file,
                detail: step.detail,
                ..AuditEvent::of(step.operation, Some(caller.identity))
            });
        });
    }

    /// Tells that the server removed a file from the recycle folder for good. No user asked for that.
    pub(crate) fn audit_purge(&self, directory: &Arc<Directory>, name: &Name, file: NodeId) {
        if !self.audits(AuditedOperation::Purge.classes()) {
            return;
        }
        PATHS.with_borrow_mut(|(path, _)| {
            AuditedPath::In(directory, name).write(path);
            let event = AuditEvent::of(AuditedOperation::Purge, None);
            self.tell(AuditEvent { path: Some(path), file: Some(file), ..event });
        });
    }

    /// Tells of the end of a request to open.
    #[cold]
    pub(crate) fn audit_create(
        &self,
        caller: &Caller<'_>,
        from: Option<&Item>,
        request: &OpenRequest<'_>,
        result: &CallResult<OpenResult>,
    ) {
        let makes = if request.options.contains(Options::DIRECTORY) {
            AuditedOperation::MakeDirectory
        } else {
            AuditedOperation::Create
        };
        match result {
            CallResult::Wait(_) => {}
            CallResult::Done(OpenResult { open, outcome, .. }) => {
                let (operation, classes) = match outcome {
                    Outcome::Opened if request.step_of.is_some() => return,
                    Outcome::Opened => (AuditedOperation::Open, class_of(open.granted)),
                    Outcome::Created => (makes, makes.classes()),
                    Outcome::Overwritten | Outcome::Superseded => {
                        (AuditedOperation::Overwrite, AuditedOperation::Overwrite.classes())
                    }
                };
                if self.audits(classes) {
                    let rights = AuditDetail::Rights(open.granted);
                    let step = AuditedStep::with(operation, rights);
                    let owner = owner_for(caller, open);
                    self.tell_by(AuditedParty::sender(caller, owner.as_ref()), open, step, None);
                }
            }
            CallResult::Refused(why) => {
                let makes = (request.disposition == crate::Disposition::Create).then_some(makes);
                let operation = request.step_of.or(makes).unwrap_or(AuditedOperation::Open);
                let path = path_below(caller.identity, from, request.path);
                let path = path.as_deref().map(AuditedPath::Bytes);
                let detail = AuditDetail::Rights(request.access);
                let step = AuditedStep { path, detail, ..AuditedStep::of(operation) };
                let file = from.filter(|_| request.path.is_empty()).map(Item::id);
                self.audit_name(caller, step, file, Some(why));
            }
        }
    }

    /// Tells of the end of an open.
    #[inline]
    pub(crate) fn audit_close(&self, open: &Open) {
        if self.audits(class_of(open.granted)) && !open.options.contains(Options::STEP) {
            let (read, written) = (&open.audited.read, &open.audited.written);
            let (read, written) = (read.load(Ordering::Relaxed), written.load(Ordering::Relaxed));
            let step = AuditedStep::with(AuditedOperation::Close, AuditDetail::Moved { read, written });
            self.tell_by(AuditedParty::owner(&open.party()), open, step, None);
        }
    }

    /// Counts bytes that were read, and tells of the first read.
    #[inline]
    pub(crate) fn audit_read(&self, by: Option<(&Identity, &ClientDetails)>, open: &Open, bytes: usize) {
        if self.audits(AuditClasses::OPEN | AuditClasses::READ) {
            open.audited.read.fetch_add(bytes as u64, Ordering::Relaxed);
            self.audit_first_use(by, open, FirstUse::READ, AuditedOperation::Read);
        }
    }

    /// Counts bytes that were written, and tells of the first write.
    #[inline]
    pub(crate) fn audit_write(&self, caller: &Caller<'_>, open: &Open, bytes: u64) {
        if self.audits(AuditClasses::OPEN | AuditClasses::WRITE) {
            open.audited.written.fetch_add(bytes, Ordering::Relaxed);
            self.audit_first_use(caller.audited_as(), open, FirstUse::WRITE, AuditedOperation::Write);
        }
    }

    /// Whether the next read through an open is told ([`ReadSender::audited_as`]).
    ///
    /// [`ReadSender::audited_as`]: crate::ReadSender::audited_as
    #[inline]
    pub fn tells_next_read(&self, open: &Open) -> bool {
        let told = &open.audited.told;
        self.audits(AuditClasses::READ) && told.load(Ordering::Relaxed) & FirstUse::READ.bits() == 0
    }

    /// Tells of the first use of an open, by its owner unless another is given.
    pub(crate) fn audit_first_use(
        &self,
        by: Option<(&Identity, &ClientDetails)>,
        open: &Open,
        what: FirstUse,
        operation: AuditedOperation,
    ) {
        let told = &open.audited.told;
        if !self.audits(operation.classes()) || told.load(Ordering::Relaxed) & what.bits() != 0 {
            return;
        }
        if told.fetch_or(what.bits(), Ordering::Relaxed) & what.bits() == 0 {
            let step = AuditedStep::of(operation);
            match by {
                Some((identity, details)) => {
                    self.tell_by(AuditedParty { identity, details: Some(details) }, open, step, None);
                }
                None => self.tell_by(AuditedParty::owner(&open.party()), open, step, None),
            }
        }
    }

    /// Tells that a client asked for its rights on an item and has none of them. It will not try to use them.
    pub fn note_no_access(&self, caller: &Caller<'_>, item: &Item, asked: Rights) {
        if self.audits(AuditClasses::REFUSED) {
            let path = path_below(caller.identity, Some(item), &[]);
            let path = path.as_deref().map(AuditedPath::Bytes);
            let detail = AuditDetail::Rights(asked);
            let step = AuditedStep { path, detail, ..AuditedStep::of(AuditedOperation::Access) };
            self.audit_name(caller, step, Some(item.id()), Some(&Refusal::AccessDenied));
        }
    }

    /// Tells that a client connected to the share, was refused for this reason, or left it.
    pub fn note_connection(
        &self,
        operation: AuditedOperation,
        identity: &Identity,
        client: Option<&ClientDetails>,
        refused: Option<&str>,
    ) {
        let class = if refused.is_some() { AuditClasses::REFUSED } else { AuditClasses::CONNECT };
        if self.audits(class) {
            let refusal = refused.map(|_| &Refusal::AccessDenied);
            let detail = refused.map_or(AuditDetail::None, AuditDetail::Reason);
            let event = AuditEvent::of(operation, Some(identity));
            self.tell(AuditEvent { refused: refusal, client, detail, ..event });
        }
    }

    /// The path of an open before an operation that changes it, if that operation is audited.
    pub(crate) fn path_before(&self, open: &Open, operation: AuditedOperation) -> Option<Vec<u8>> {
        self.audits(operation.classes() | AuditClasses::REFUSED).then(|| {
            let mut path = Vec::new();
            AuditedPath::Link(open.link.as_deref()).write(&mut path);
            path
        })
    }
}

/// The class of an open with these rights.
fn class_of(granted: Rights) -> AuditClasses {
    if looks_only(granted) { AuditClasses::LOOK } else { AuditClasses::OPEN }
}

/// A path of a user from an item, or from the top of what the user can reach; none if the item's own is not
/// known.
pub(crate) fn path_below(user: &Identity, from: Option<&Item>, names: &[Name]) -> Option<Vec<u8>> {
    let mut path = Vec::new();
    match from {
        None => path.extend_from_slice(user.home.as_ref().map_or(&[], Name::as_bytes)),
        Some(Item { directory: Some(directory), .. }) => directory.append_path(None, &mut path),
        Some(item) => {
            let (parent, name) = item.parent_and_name.as_ref()?;
            parent.append_path(Some(name), &mut path);
        }
    }
    for name in names {
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
    }
    Some(path)
}
