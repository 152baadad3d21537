//! Reads COMPOUND4args and CB_COMPOUND4args operation by operation, and writes them.

use std::marker::PhantomData;

use crate::Malformed;
use crate::limits::MAX_TAG;
use crate::op::{Args, OpNum, Operation};
use crate::rpc::record::{MARK, RecordMark};
use crate::rpc::{self, Credential, NFS_PROGRAM, NFS_V4, PROC_COMPOUND};
use crate::types::{StableHow, StateId};
use crate::xdr::{Decode, Encode, opaque, pad, put_opaque};
use wire::{Cursor, Frame};

/// COMPOUND4args. Its operations are not parsed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompoundArgs<'a> {
    /// The tag, which the reply repeats.
    pub tag: &'a [u8],
    /// The minor version of all operations.
    pub minorversion: u32,
    /// The announced number of operations.
    pub count: u32,
    /// The encoded operations.
    pub argarray: &'a [u8],
}

impl<'a> CompoundArgs<'a> {
    /// Reads the arguments of the procedure COMPOUND, up to the first operation.
    ///
    /// # Errors
    /// [`Malformed`] for a call that is cut short or has a tag longer than [`MAX_TAG`]. A server then replies
    /// GARBAGE_ARGS.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Cursor::new(body);
        let at = |field| move |e: Malformed| e.within("COMPOUND4args", field);
        Ok(CompoundArgs {
            tag: opaque(&mut r, MAX_TAG).map_err(at("tag"))?,
            minorversion: u32::decode(&mut r).map_err(at("minorversion"))?,
            count: u32::decode(&mut r).map_err(at("argarray"))?,
            argarray: r.rest(),
        })
    }

    /// The operations, from the first one.
    #[must_use]
    pub fn operations(&self) -> Operations<'a, Args<'a>> {
        Operations::new(self.argarray, self.minorversion, self.count)
    }
}

/// An operation whose arguments cannot be read: NFS4ERR_BADXDR. Nothing after it can be read either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("operation {number}: {malformed}")]
pub struct BadOperation {
    /// The number of the operation. Zero if not even that can be read.
    pub number: u32,
    /// The invalid field.
    pub malformed: Malformed,
}

/// The operations of a call, one after the other. An error or an illegal operation ends the iteration.
#[derive(Debug, Clone)]
pub struct Operations<'a, T> {
    argarray: Cursor<'a>,
    minorversion: u32,
    left: u32,
    operation: PhantomData<T>,
}

impl<'a, T: Operation<'a>> Operations<'a, T> {
    /// The `count` operations in `argarray`.
    #[must_use]
    pub fn new(argarray: &'a [u8], minorversion: u32, count: u32) -> Self {
        Operations { argarray: Cursor::new(argarray), minorversion, left: count, operation: PhantomData }
    }

    /// Number of operations left.
    #[must_use]
    pub fn left(&self) -> u32 {
        self.left
    }

    /// Number of bytes read. Together with [`Operations::left`] it allows continuing later:
    /// `Operations::new(&argarray[position..], minorversion, left)`.
    #[must_use]
    pub fn position(&self) -> usize {
        self.argarray.position()
    }
}

impl<'a, T: Operation<'a>> Iterator for Operations<'a, T> {
    type Item = Result<T, BadOperation>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let Some(number) = self.argarray.rest().first_chunk().map(|word| u32::from_be_bytes(*word)) else {
            self.left = 0;
            return Some(Err(BadOperation { number: 0, malformed: Malformed::new("argop", "number") }));
        };
        if !T::is_known(number, self.minorversion) {
            self.left = 0;
            return Some(Ok(T::illegal(number)));
        }
        let found = T::decode(&mut self.argarray);
        if found.is_err() {
            self.left = 0;
        }
        Some(found.map_err(|malformed| BadOperation { number, malformed }))
    }
}

/// The recipient of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// COMPOUND to a server.
    Server,
    /// CB_COMPOUND to a client.
    Client {
        /// The program number that the client has chosen.
        program: u32,
        /// The identifier of 4.0. Zero in later versions.
        callback_ident: u32,
    },
}

/// A call that is being written.
#[derive(Debug)]
pub struct CallWriter {
    frame: Frame,
    /// The position of the number of operations.
    count_at: usize,
    count: u32,
    /// The position and the length of data that is not in the frame.
    apart: Option<(usize, usize)>,
}

impl CallWriter {
    /// Begins a call at the start of `frame`, which is empty.
    #[must_use]
    pub fn begin(
        mut frame: Frame,
        target: Target,
        xid: u32,
        credential: &Credential<'_>,
        tag: &[u8],
        minorversion: u32,
    ) -> Self {
        debug_assert!(frame.is_empty());
        let out = frame.tail();
        out.extend_from_slice(&[0; MARK]);
        let (program, version) = match target {
            Target::Server => (NFS_PROGRAM, NFS_V4),
            Target::Client { program, .. } => (program, rpc::CALLBACK_VERSION),
        };
        rpc::RpcCall::write_header(xid, program, version, PROC_COMPOUND, credential, out);
        put_opaque(tag, out);
        minorversion.encode(out);
        if let Target::Client { callback_ident, .. } = target {
            callback_ident.encode(out);
        }
        0u32.encode(out);
        let count_at = frame.bytes().len() - 4;
        CallWriter { frame, count_at, count: 0, apart: None }
    }

    /// Appends an operation: [`Args`] to a server, [`crate::callback::Args`] to a client.
    pub fn push(&mut self, operation: &impl Encode) -> &mut Self {
        operation.encode(self.frame.tail());
        self.count += 1;
        self
    }

    /// Appends a WRITE without its data. The sender of the frame inserts the `len` bytes at
    /// [`CallWriter::apart`]. A call has at most one such WRITE.
    pub fn push_write_apart(
        &mut self,
        stateid: StateId,
        offset: u64,
        stable: StableHow,
        len: usize,
    ) -> &mut Self {
        debug_assert!(self.apart.is_none());
        let out = self.frame.tail();
        OpNum::Write.encode(out);
        stateid.encode(out);
        offset.encode(out);
        stable.encode(out);
        (len as u32).encode(out);
        self.apart = Some((self.frame.len(), len));
        pad(len, self.frame.tail());
        self.count += 1;
        self
    }

    /// The position in [`Frame::bytes`] of the data of [`CallWriter::push_write_apart`].
    #[must_use]
    pub fn apart(&self) -> Option<usize> {
        self.apart.map(|(at, _)| at)
    }

    /// The whole message with its record mark, which also counts the data that is not in the frame.
    #[must_use]
    pub fn finish(mut self) -> Frame {
        let apart = self.apart.map_or(0, |(_, len)| len);
        let mark = RecordMark::whole(self.frame.len() - MARK + apart);
        let bytes = self.frame.bytes_mut();
        bytes[..MARK].copy_from_slice(&mark);
        bytes[self.count_at..self.count_at + 4].copy_from_slice(&self.count.to_be_bytes());
        self.frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::write;

    #[test]
    fn a_write_with_its_data_apart_is_the_write_with_its_data_inside() {
        for len in 0..9 {
            let data = vec![7; len];
            let begin =
                || CallWriter::begin(Frame::default(), Target::Server, 3, &Credential::None, b"tag", 1);
            let args = write::Args {
                stateid: StateId::CURRENT,
                offset: 9,
                stable: StableHow::FileSync,
                data: &data,
            };
            let mut whole = begin();
            whole.push(&Args::PutRootFh).push(&Args::Write(args)).push(&Args::GetFh);
            let mut apart = begin();
            apart
                .push(&Args::PutRootFh)
                .push_write_apart(StateId::CURRENT, 9, StableHow::FileSync, len)
                .push(&Args::GetFh);
            let at = apart.apart().expect("a place");
            let frame = apart.finish();
            let (before, behind) = frame.bytes().split_at(at);
            assert_eq!([before, &data, behind].concat(), whole.finish().bytes());
        }
    }
}
