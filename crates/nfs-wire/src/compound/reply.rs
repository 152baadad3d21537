//! Writes COMPOUND4res and CB_COMPOUND4res result by result, and reads them.

use std::marker::PhantomData;

use crate::Malformed;
use crate::limits::MAX_TAG;
use crate::op::Outcome;
use crate::op::{OpNum, Res};
use crate::rpc::record::{MARK, RecordMark};
use crate::rpc::{self, Accepted};
use crate::status::NfsStat;
use crate::xdr::{Decode, Encode, opaque, pad, padding, put_opaque};
use wire::{Cursor, FileRange, Frame};

/// A reply that is being written, from the record mark on. Results are appended one by one.
/// [`ReplyWriter::finish`] fills in the status and the number of results.
#[derive(Debug)]
pub struct ReplyWriter {
    frame: Frame,
    /// The position of the status.
    status_at: usize,
    /// The position of the number of results.
    count_at: usize,
    count: u32,
}

/// A position in a reply to which it can be truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    len: usize,
    count: u32,
}

/// The position of a READ whose data is being appended.
#[derive(Debug)]
#[must_use = "the result is not whole without `finish_read`"]
pub struct ReadPlace {
    /// The position of the length.
    len_at: usize,
}

impl ReplyWriter {
    /// Bytes of memory that the reply uses so far.
    #[must_use]
    pub fn held(&self) -> usize {
        self.frame.held()
    }

    /// Begins a reply to call `xid` at the start of `frame`, which is empty.
    #[must_use]
    pub fn begin(mut frame: Frame, xid: u32, tag: &[u8]) -> Self {
        debug_assert!(frame.is_empty());
        let out = frame.tail();
        out.extend_from_slice(&[0; MARK]);
        rpc::RpcReply::accepted(xid, Accepted::Success(&[])).write(out);
        0u32.encode(out);
        put_opaque(tag, out);
        0u32.encode(out);
        let count_at = frame.bytes().len() - 4;
        ReplyWriter { frame, status_at: MARK + rpc::SUCCESS_HEADER, count_at, count: 0 }
    }

    /// Bytes of the reply so far, with the RPC header and without the record mark. The limits of a channel
    /// count these.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.frame.len() - MARK
    }

    /// Whether there is no result yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of results.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The present end, for [`ReplyWriter::truncate`].
    #[inline]
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { len: self.frame.bytes().len(), count: self.count }
    }

    /// Removes everything after `mark`, including a piece of a file.
    pub fn truncate(&mut self, mark: Mark) {
        self.frame.truncate(mark.len);
        self.count = mark.count;
    }

    /// Appends the result of operation `number`.
    #[inline]
    pub fn put<'d>(&mut self, number: impl Into<u32>, outcome: &impl Outcome<'d>) {
        let out = self.begin_result(number, outcome.status());
        outcome.encode_rest(out);
    }

    /// Appends the result of operation `number`, if it consists of the status only: the operation failed, or
    /// has no result. For SETATTR it says that nothing was set.
    pub fn put_status(&mut self, number: impl Into<u32>, status: NfsStat) {
        let number = number.into();
        let out = self.begin_result(number, status);
        if number == OpNum::SetAttr.get() {
            0u32.encode(out);
        }
    }

    /// Appends the result of an operation that does not exist.
    pub fn put_illegal(&mut self) {
        self.begin_result(crate::op::ILLEGAL, NfsStat::OpIllegal);
    }

    /// Appends the number and the status of a result. The caller appends the rest to the returned buffer.
    pub fn begin_result(&mut self, number: impl Into<u32>, status: NfsStat) -> &mut Vec<u8> {
        self.count += 1;
        let out = self.frame.tail();
        number.into().encode(out);
        status.encode(out);
        out
    }

    /// The buffer for the rest of a result that [`ReplyWriter::begin_result`] has begun.
    #[inline]
    pub fn tail(&mut self) -> &mut Vec<u8> {
        self.frame.tail()
    }

    /// Begins the result of READ. The data is appended to [`ReplyWriter::tail`], followed by
    /// [`ReplyWriter::finish_read`].
    pub fn begin_read(&mut self) -> ReadPlace {
        let out = self.begin_result(OpNum::Read, NfsStat::Ok);
        out.extend_from_slice(&[0; 8]);
        ReadPlace { len_at: self.frame.bytes().len() - 4 }
    }

    /// Ends the result of READ. The bytes that were appended since are its data.
    pub fn finish_read(&mut self, read_place: ReadPlace, eof: bool) {
        let len = self.frame.bytes().len() - read_place.len_at - 4;
        pad(len, self.frame.tail());
        let fixed = &mut self.frame.bytes_mut()[read_place.len_at - 4..read_place.len_at + 4];
        fixed[..4].copy_from_slice(&u32::from(eof).to_be_bytes());
        fixed[4..].copy_from_slice(&(len as u32).to_be_bytes());
    }

    /// Appends the result of READ whose data is a piece of a file that the transport sends. It must be the
    /// last result. The transport sends the padding from beyond the end of the file, so a piece that does not
    /// fill whole words is accepted only if it reaches the end.
    ///
    /// # Errors
    /// Returns the piece, and leaves the reply unchanged, if the padding would be bytes of the file.
    pub fn attach_read(&mut self, mut range: FileRange, eof: bool) -> Result<(), FileRange> {
        let padding = padding(range.len);
        if padding != 0 && !eof {
            return Err(range);
        }
        let out = self.begin_result(OpNum::Read, NfsStat::Ok);
        eof.encode(out);
        (range.len as u32).encode(out);
        range.len += padding;
        self.frame.attach(range);
        Ok(())
    }

    /// The whole message with its record mark.
    #[must_use]
    pub fn finish(mut self, status: NfsStat) -> Frame {
        let mark = RecordMark::whole(self.len());
        let bytes = self.frame.bytes_mut();
        let mut fill = |at: usize, word: [u8; 4]| bytes[at..at + 4].copy_from_slice(&word);
        fill(0, mark);
        fill(self.status_at, status.get().to_be_bytes());
        fill(self.count_at, self.count.to_be_bytes());
        self.frame
    }
}

/// COMPOUND4res. Its results are not parsed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Status of the last operation that ran.
    pub status: NfsStat,
    /// The tag of the call.
    pub tag: &'a [u8],
    /// The announced number of results.
    pub count: u32,
    /// The encoded results.
    pub resarray: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Reads the results of the procedure COMPOUND or CB_COMPOUND, up to the first operation's.
    ///
    /// # Errors
    /// [`Malformed`] for a reply that is cut short.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Cursor::new(body);
        let at = |field| move |e: Malformed| e.within("COMPOUND4res", field);
        Ok(Reply {
            status: NfsStat::decode(&mut r).map_err(at("status"))?,
            tag: opaque(&mut r, MAX_TAG).map_err(at("tag"))?,
            count: u32::decode(&mut r).map_err(at("resarray"))?,
            resarray: r.rest(),
        })
    }

    /// The results of a server's operations.
    #[must_use]
    pub fn results(&self) -> Results<'a, Res<'a>> {
        Results::new(self.resarray, self.count)
    }

    /// The results of a client's operations.
    #[must_use]
    pub fn callback_results(&self) -> Results<'a, crate::callback::Res<'a>> {
        Results::new(self.resarray, self.count)
    }
}

/// The results of a reply, one after the other. An error ends the iteration.
#[derive(Debug, Clone)]
pub struct Results<'a, T> {
    resarray: Cursor<'a>,
    left: u32,
    result: PhantomData<T>,
}

impl<'a, T: Decode<'a>> Results<'a, T> {
    fn new(resarray: &'a [u8], count: u32) -> Self {
        Results { resarray: Cursor::new(resarray), left: count, result: PhantomData }
    }
}

impl<'a, T: Decode<'a>> Iterator for Results<'a, T> {
    type Item = Result<T, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let found = T::decode(&mut self.resarray);
        if found.is_err() {
            self.left = 0;
        }
        Some(found)
    }
}
