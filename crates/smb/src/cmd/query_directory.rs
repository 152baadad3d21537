//! QUERY_DIRECTORY: lists a directory (MS-SMB2 3.3.5.18 and MS-FSA 2.1.5.6.3).
//!
//! [`handle`] checks the request. [`NamePattern`] matches names with the pattern. [`sink`] puts entries
//! straight into the reply. [`Listing`] keeps the position for the next request.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

use share::engine::ListedEntry;
use share::{Caller, Info, Refusal, Share};
use smb_wire::NtStatus;
use smb_wire::query_directory::{QueryDirectoryFlags, Request as QueryRequest};
use volume::security::Rights;

use super::with_output;
use crate::connection::{Connection, Negotiated};
use crate::exchange::{Handled, Request, Stop};
use crate::info::names;
use crate::state::OnDisk;
use crate::state::open::listing::{Listing, NamePattern};

mod sink;

use sink::{EntryForm, Sink};

/// The most names that a request examines before its connection may handle another message, such as its
/// CANCEL.
const SLICE: usize = 4096;

const DOTS: [&[u8]; 2] = [b".", b".."];

/// Answers a QUERY_DIRECTORY.
pub fn handle(connection: &mut Connection, negotiated: &Negotiated, request: &mut Request<'_>) -> Handled {
    let parsed = QueryRequest::parse(request.message)?;
    let open = connection.open(request, parsed.file_id)?;
    // MS-SMB2 3.3.5.18
    let directory = open.on_disk().filter(|disk| disk.file.is_directory());
    let OnDisk { engine, file, identity, .. } = directory.ok_or(NtStatus::INVALID_PARAMETER)?;
    let limit = parsed.output_buffer_length as usize;
    negotiated.check_size(request, limit, parsed.payload_len())?;
    Stop::when(!file.granted().contains(Rights::LIST_DIRECTORY), NtStatus::ACCESS_DENIED)?;
    let form =
        EntryForm::of(parsed.file_information_class, negotiated.posix).ok_or(NtStatus::INVALID_INFO_CLASS)?;
    // MS-FSA 2.1.5.6.3
    Stop::when(limit < form.fixed_len(), NtStatus::INFO_LENGTH_MISMATCH)?;
    let waiter = connection.waiter_for(request);
    let caller = request.caller(identity, open.client, Some(&waiter));
    let single = parsed.flags.contains(QueryDirectoryFlags::RETURN_SINGLE_ENTRY);
    let scan = Scan { engine, file, caller: &caller, single, number: (connection.handle.id, waiter.token) };
    with_output(request.body, |body| {
        let sink = Sink::new(body, form, limit, engine, names::syntax(file));
        list(&scan, &mut open.listing.lock(), &parsed, sink)
    })
}

/// The parameters of one scan.
struct Scan<'a> {
    engine: &'a Arc<Share>,
    file: &'a Arc<share::Open>,
    caller: &'a Caller<'a>,
    single: bool,
    /// The number of the request.
    number: (u64, u64),
}

/// The reason why no more entries go into this reply.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// There are no more entries.
    Nothing,
    /// The reply is full, or one entry was requested.
    Full,
    /// The first entry did not fit and was cut.
    Cut,
    /// The request has looked at as many names as it may at once.
    Slice,
}

fn list(scan: &Scan<'_>, listing: &mut Listing, parsed: &QueryRequest<'_>, mut sink: Sink<'_>) -> Handled {
    // SMB2_INDEX_SPECIFIED is ignored, as Windows does (MS-SMB2 3.3.5.18, note 410).
    let before = listing.under_way.take().filter(|(number, _)| *number == scan.number);
    let restarts = before.is_none()
        && parsed.flags.intersects(QueryDirectoryFlags::RESTART_SCANS | QueryDirectoryFlags::REOPEN);
    let is_first = match before {
        Some((_, was_first)) => was_first,
        None => listing.pattern.is_none() || parsed.flags.contains(QueryDirectoryFlags::REOPEN),
    };
    if listing.pattern.is_none() || (restarts && !parsed.file_name.is_empty()) {
        let folds = !scan.engine.config().case_sensitive;
        listing.pattern = Some(NamePattern::new(parsed.file_name, names::syntax(scan.file), folds)?);
    }
    if restarts {
        (listing.dots, listing.cookie, listing.is_done) = (0, 0, false);
    }
    let end = scan.fill(listing, &mut sink)?;
    if !sink.is_empty() {
        return Ok(if end == End::Cut { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS });
    }
    // MS-FSA 2.1.5.6.3
    Stop::when(end == End::Full, NtStatus::INFO_LENGTH_MISMATCH)?;
    if end == End::Slice {
        listing.under_way = Some((scan.number, is_first));
        return Err(scan.put_aside());
    }
    Err(Stop::Fail(if is_first { NtStatus::NO_SUCH_FILE } else { NtStatus::NO_MORE_FILES }))
}

impl Scan<'_> {
    fn fill(&self, listing: &mut Listing, sink: &mut Sink<'_>) -> Result<End, Refusal> {
        if listing.is_done {
            return Ok(End::Nothing);
        }
        if let Some(end) = self.dots(listing, sink)? {
            return Ok(end);
        }
        match listing.pattern.as_ref().and_then(NamePattern::exact) {
            Some(name) => {
                let end = self.one(name, sink);
                listing.is_done = matches!(end, Ok(End::Nothing | End::Cut));
                end
            }
            None => self.entries(listing, sink),
        }
    }

    /// Puts the request aside until its connection has handled the messages that came meanwhile.
    fn put_aside(&self) -> Stop {
        let Some(waiter) = self.caller.waiter else { return Stop::Fail(NtStatus::INSUFFICIENT_RESOURCES) };
        let ticket = self.engine.wait_until(waiter, self.caller.now.mono_ns);
        self.engine.wake(ticket);
        Stop::wait(self.engine, ticket)
    }

    /// Adds `.` and `..`, the first two entries, if the pattern matches them.
    fn dots(&self, listing: &mut Listing, sink: &mut Sink<'_>) -> Result<Option<End>, Refusal> {
        while let Some(name) = DOTS.get(listing.dots) {
            if !listing.pattern.as_mut().is_some_and(|pattern| pattern.selects_dots(name)) {
                listing.dots += 1;
                continue;
            }
            let info = match (sink.needs_info(), listing.dots) {
                (false, _) => None,
                (true, 0) => Some(self.engine.info(self.file)?),
                (true, _) => Some(self.engine.parent_info(self.file)?),
            };
            let end = add_name(name, info.as_ref(), sink);
            listing.dots += usize::from(end != Some(End::Full));
            if end.is_some() || self.single {
                return Ok(end.or(Some(End::Full)));
            }
        }
        Ok(None)
    }

    /// Adds the one entry that a pattern without wildcards can match. It is a lookup, regardless of the
    /// directory's size.
    fn one(&self, name: &volume::Name, sink: &mut Sink<'_>) -> Result<End, Refusal> {
        let mut end = Ok(End::Nothing);
        self.engine.find(self.caller, self.file, name, &mut |entry| {
            if let Some(stopped) = put(entry, sink) {
                end = stopped;
            }
        })?;
        end
    }

    /// Adds the entries after the last sent one.
    fn entries(&self, listing: &mut Listing, sink: &mut Sink<'_>) -> Result<End, Refusal> {
        let Listing { pattern, cookie, is_done, .. } = listing;
        let Some(pattern) = pattern else { return Ok(End::Nothing) };
        let from = *cookie;
        let mut end = Ok(End::Nothing);
        let mut broken = false;
        // The last name of a slice is returned even without a match, so that the next slice begins after it.
        let (mut looked, is_selected) = (0, Cell::new(false));
        self.engine.scan(
            self.caller,
            self.file,
            from,
            &mut |name| {
                looked += 1;
                is_selected.set(pattern.selects(name.as_bytes()));
                is_selected.get() || looked >= SLICE
            },
            &mut |entry| {
                if !is_selected.get() {
                    (*cookie, end, broken) = (entry.cookie(), Ok(End::Slice), true);
                    return ControlFlow::Break(());
                }
                let put = put(entry, sink);
                let goes_on = match put {
                    None => !self.single || sink.is_empty(),
                    Some(stopped) => {
                        end = stopped;
                        false
                    }
                };
                if !matches!(end, Ok(End::Full) | Err(_)) {
                    *cookie = entry.cookie();
                }
                broken = !goes_on;
                if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            },
        )?;
        *is_done = !broken;
        end
    }
}

/// Adds one entry to the reply. `None` means that it was added, or has been removed meanwhile.
fn put(entry: &ListedEntry<'_>, sink: &mut Sink<'_>) -> Option<Result<End, Refusal>> {
    let info = if sink.needs_info() {
        match entry.info() {
            Ok(info) => Some(info),
            Err(Refusal::NotFound) => return None,
            Err(Refusal::Gone | Refusal::AccessDenied) => Some(entry.listed_info()?),
            // The entries in the reply go out first. The next request meets the failure again.
            Err(_) if !sink.is_empty() => return Some(Ok(End::Full)),
            Err(refusal) => return Some(Err(refusal)),
        }
    } else {
        None
    };
    add_name(entry.name().as_bytes(), info.as_ref(), sink).map(Ok)
}

/// Adds a name to the reply. The first name is cut if it is too long.
fn add_name(name: &[u8], info: Option<&Info>, sink: &mut Sink<'_>) -> Option<End> {
    if sink.push(name, info).is_ok() {
        return None;
    }
    let is_cut = sink.is_empty() && sink.push_cut(name, info).is_ok();
    Some(if is_cut { End::Cut } else { End::Full })
}
