//! PIPE_WAIT, PIPE_PEEK, and the request for DFS referrals, which clients also send on IPC$.

use crate::Utf16;
use crate::fscc::{BadBuffer, Full, text};
use wire::{Cursor, Writer};

/// MS-FSCC 2.3.49 PIPE_WAIT: waits until a pipe can be connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PipeWait<'a> {
    /// The time limit as the client sent it, or `None` for no limit.
    ///
    /// MS-FSCC counts in 100 ms. Windows counts a negative number in 100 ns.
    pub timeout: Option<i64>,
    /// The pipe, without `\pipe\`.
    pub name: Utf16<'a>,
}

impl<'a> PipeWait<'a> {
    /// Reads the buffer.
    ///
    /// # Errors
    /// [`BadBuffer`] if it ends early, or the name is empty or has an odd length (STATUS_INVALID_PARAMETER).
    pub fn parse(data: &'a [u8]) -> Result<Self, BadBuffer> {
        let mut c = Cursor::new(data);
        let timeout = c.i64_le()?;
        let length = c.u32_le()? as usize;
        let is_specified = c.u8()? != 0;
        c.skip(1)?;
        let name = text::parse(c.bytes(length)?)?;
        if name.is_empty() {
            return Err(BadBuffer::Value);
        }
        Ok(PipeWait { timeout: is_specified.then_some(timeout), name })
    }

    /// Appends the buffer, for a client.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.i64_le(self.timeout.unwrap_or(0));
        w.u32_le(self.name.as_bytes().len() as u32);
        w.u8(u8::from(self.timeout.is_some()));
        w.u8(0);
        w.bytes(self.name.as_bytes());
    }
}

/// MS-FSCC 2.3.46 the reply to PIPE_PEEK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PipePeek<'a> {
    /// 3 for connected, 4 for closing.
    pub named_pipe_state: u32,
    /// Messages that can be read.
    pub number_of_messages: u32,
    /// Bytes of the first one.
    pub message_length: u32,
    /// The data that can be read.
    pub data: &'a [u8],
}

impl PipePeek<'_> {
    /// Appends the reply with as much data as fits in `limit` bytes. Returns whether all of it fits (else
    /// STATUS_BUFFER_OVERFLOW).
    ///
    /// # Errors
    /// [`Full`] if the head does not fit (STATUS_BUFFER_TOO_SMALL).
    pub fn write(&self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Full> {
        let room = limit.checked_sub(16).ok_or(Full)?;
        let told = &self.data[..self.data.len().min(room)];
        let mut w = Writer::new(out);
        w.u32_le(self.named_pipe_state);
        w.u32_le(self.data.len() as u32);
        w.u32_le(self.number_of_messages);
        w.u32_le(self.message_length);
        w.bytes(told);
        Ok(told.len() == self.data.len())
    }
}

/// MS-DFSC 2.2.2 REQ_GET_DFS_REFERRAL and 2.2.3 its Ex form: asks for the target of a DFS path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DfsReferralRequest<'a> {
    /// The newest referral version that the client supports.
    pub max_referral_level: u16,
    /// The path, `\server\share\...`, without the final zero.
    pub request_file_name: Utf16<'a>,
}

impl<'a> DfsReferralRequest<'a> {
    /// Reads the buffer of DFS_GET_REFERRALS.
    ///
    /// # Errors
    /// [`BadBuffer`] if it ends early or has an odd length (STATUS_INVALID_PARAMETER).
    pub fn parse(data: &'a [u8]) -> Result<Self, BadBuffer> {
        let mut c = Cursor::new(data);
        let max_referral_level = c.array::<2>().map(u16::from_le_bytes)?;
        let request_file_name = text::parse(c.rest())?.until_nul();
        Ok(DfsReferralRequest { max_referral_level, request_file_name })
    }

    /// Reads the buffer of DFS_GET_REFERRALS_EX. Only the path is used here.
    ///
    /// # Errors
    /// As [`DfsReferralRequest::parse`].
    pub fn parse_ex(data: &'a [u8]) -> Result<Self, BadBuffer> {
        let mut c = Cursor::new(data);
        let max_referral_level = c.array::<2>().map(u16::from_le_bytes)?;
        c.skip(2)?;
        let length = c.u32_le()? as usize;
        let mut request = c.sub(length)?;
        let name_len = usize::from(request.array::<2>().map(u16::from_le_bytes)?);
        let request_file_name = text::parse(request.bytes(name_len)?)?.until_nul();
        Ok(DfsReferralRequest { max_referral_level, request_file_name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fscc::testing::hex;
    use crate::utf16;
    use proptest::prelude::*;

    #[test]
    fn a_wait_is_read_as_it_was_written() {
        let name = utf16::encode("srvsvc");
        for timeout in [None, Some(-500_000)] {
            let wait = PipeWait { timeout, name: Utf16::new(&name).unwrap() };
            let mut out = Vec::new();
            wait.write(&mut out);
            assert_eq!(out.len(), 14 + 12);
            assert_eq!(PipeWait::parse(&out), Ok(wait));
        }
        assert_eq!(PipeWait::parse(&[0; 14]), Err(BadBuffer::Value));
    }

    #[test]
    fn a_peek_tells_what_it_leaves_out() {
        let peek = PipePeek { named_pipe_state: 3, number_of_messages: 1, message_length: 4, data: b"abcd" };
        let mut out = Vec::new();
        assert_eq!(peek.write(18, &mut out), Ok(false));
        assert_eq!(out, hex("03000000 04000000 01000000 04000000 6162"));
        assert_eq!(peek.write(20, &mut Vec::new()), Ok(true));
        assert_eq!(peek.write(15, &mut out), Err(Full));
    }

    #[test]
    fn referral_requests_are_read_in_both_forms() {
        let mut data = hex("0400");
        utf16::push("\\s\\share\0", &mut data);
        let request = DfsReferralRequest::parse(&data).unwrap();
        assert_eq!(
            (request.max_referral_level, request.request_file_name.to_string_lossy()),
            (4, "\\s\\share".into())
        );
        let path = utf16::encode("\\s\\share");
        let mut ex = hex("0400 0000 12000000 1000");
        ex.extend_from_slice(&path);
        assert_eq!(DfsReferralRequest::parse_ex(&ex).unwrap(), request);
        assert_eq!(DfsReferralRequest::parse_ex(&ex[..20]), Err(BadBuffer::Length));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(data in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = PipeWait::parse(&data);
            let _ = (DfsReferralRequest::parse(&data), DfsReferralRequest::parse_ex(&data));
        }
    }
}
