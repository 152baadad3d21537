//! The reply to a COMPOUND: its results, one after the other.

use std::ops::Range;

use nfs_wire::op::Res;
use nfs_wire::op::sequence::StatusFlags;
use nfs_wire::rpc::{Accepted, Message as RpcMessage};
use nfs_wire::{NfsStat, compound, op};

use crate::Error;
use crate::error::Result;
use crate::transport::Message;

/// A reply, and the results that have not been read.
#[derive(Debug)]
pub(crate) struct CompoundReply {
    message: Message,
    pub(crate) status: NfsStat,
    /// The flags of SEQUENCE, if there was one.
    pub(crate) flags: StatusFlags,
    /// The instance of the server whose session it belongs to.
    pub(crate) instance: u64,
    count: u32,
    results: Range<usize>,
}

/// The outcome of a call with SEQUENCE.
pub(crate) enum Sequenced {
    /// SEQUENCE was accepted. The results of the other operations follow.
    Done(op::sequence::ResOk, CompoundReply),
    /// SEQUENCE was refused, and nothing was carried out.
    Refused(NfsStat),
}

/// The bytes of an accepted SEQUENCE result: number, status, session and five words.
const SEQUENCE: usize = 8 + 16 + 5 * 4;

impl CompoundReply {
    /// Parses the reply to a call without SEQUENCE.
    ///
    /// # Errors
    /// [`Error::Call`] when the call was not carried out, [`Error::NotOffered`] when the server does not
    /// support our minor version, [`Error::Malformed`].
    pub(crate) fn read(message: Message) -> Result<CompoundReply> {
        let reply = compound_of(message.bytes())?;
        // RFC 8881 16.2.3: the server looked at nothing, so no result reports the status.
        if reply.status == NfsStat::MinorVersMismatch {
            return Err(Error::NotOffered("this minor version of NFSv4"));
        }
        let (status, count, results) = (reply.status, reply.count, message.range_of(reply.resarray));
        Ok(CompoundReply { message, status, flags: StatusFlags::empty(), instance: 0, count, results })
    }

    /// Parses the reply to a call that begins with SEQUENCE.
    ///
    /// # Errors
    /// The same as [`CompoundReply::read`].
    pub(crate) fn read_sequenced(message: Message) -> Result<Sequenced> {
        let mut answer = CompoundReply::read(message)?;
        match answer.results().next()? {
            Res::Sequence(Ok(sequence)) => {
                answer.results.start += SEQUENCE;
                answer.count -= 1;
                Ok(Sequenced::Done(sequence, answer))
            }
            Res::Sequence(Err(status)) => Ok(Sequenced::Refused(status)),
            _ => Err(Error::Protocol("a first result that is not of SEQUENCE")),
        }
    }

    /// The results from the first unread one on.
    pub(crate) fn results(&self) -> Results<'_> {
        let resarray = &self.message.bytes()[self.results.clone()];
        let reply = compound::Reply { status: self.status, tag: b"", count: self.count, resarray };
        Results(reply.results())
    }

    /// The number of results.
    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }

    /// The message, and the range of a part of a result in it.
    pub(crate) fn into_part(self, range: Range<usize>) -> (Message, Range<usize>) {
        (self.message, range)
    }

    /// The range of `part`, a part of a result, in the message.
    pub(crate) fn range_of(&self, part: &[u8]) -> Range<usize> {
        self.message.range_of(part)
    }
}

/// An iterator over results.
#[derive(Debug)]
pub(crate) struct Results<'a>(compound::Results<'a, Res<'a>>);

impl<'a> Results<'a> {
    /// The next result.
    pub(crate) fn next(&mut self) -> Result<Res<'a>> {
        Ok(self.0.next().ok_or(Error::Protocol("fewer results than operations"))??)
    }
}

/// Takes the next result, which must be of operation `$operation`, out of `$results`.
macro_rules! result_of {
    ($results:expr, $operation:ident) => {
        match $results.next()? {
            nfs_wire::op::Res::$operation(result) => result.map_err(|status| $crate::Error::Refused {
                operation: nfs_wire::op::OpNum::$operation,
                status,
            }),
            other if !other.status().is_ok() => {
                Err($crate::Error::Refused { operation: other.number(), status: other.status() })
            }
            _ => Err($crate::Error::Protocol("a result of another operation than was asked for")),
        }
    };
}

pub(crate) use result_of;

/// Parses the COMPOUND in a reply.
fn compound_of(message: &[u8]) -> Result<compound::Reply<'_>> {
    let RpcMessage::Reply(reply) = RpcMessage::parse(message)? else {
        return Err(Error::Protocol("a call where a reply was expected"));
    };
    match reply.outcome {
        Ok(Accepted::Success(body)) => Ok(compound::Reply::parse(body)?),
        Ok(other) => Err(Error::Call(format!("{other:?}"))),
        Err(rejected) => Err(Error::Call(format!("{rejected:?}"))),
    }
}
