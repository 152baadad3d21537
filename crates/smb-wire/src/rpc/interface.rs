//! Which interfaces there are, on which pipes, and how a call fails.

use super::host::Host;
use super::ndr::{BadStub, Reader, Writer};
use super::pdu::SyntaxId;
use super::{lsarpc, srvsvc, wkssvc};
use crate::Utf16;

/// The status of a fault packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the call fails with {0:#010x}")]
pub struct Fault(pub u32);

impl Fault {
    /// nca_op_rng_error: the interface has no such operation.
    pub const OP_RNG_ERROR: Fault = Fault(0x1C01_0002);
    /// nca_unk_if: the call's context names no interface.
    pub const UNK_IF: Fault = Fault(0x1C01_0003);
    /// nca_proto_error: the packets do not follow the protocol.
    pub const PROTO_ERROR: Fault = Fault(0x1C01_000B);
    /// nca_out_args_too_big: the answer would be too large.
    pub const OUT_ARGS_TOO_BIG: Fault = Fault(0x1C01_0013);
    /// nca_s_fault_context_mismatch: a handle that was not given out here.
    pub const CONTEXT_MISMATCH: Fault = Fault(0x1C00_001A);
    /// nca_s_fault_remote_no_memory: the call is too large.
    pub const REMOTE_NO_MEMORY: Fault = Fault(0x1C00_001B);
    /// RPC_X_BAD_STUB_DATA: the arguments cannot be read.
    pub const BAD_STUB_DATA: Fault = Fault(0x0000_06F7);
    /// ERROR_ACCESS_DENIED.
    pub const ACCESS_DENIED: Fault = Fault(0x0000_0005);
}

impl From<BadStub> for Fault {
    fn from(_: BadStub) -> Self {
        Fault::BAD_STUB_DATA
    }
}

/// An interface that is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interface {
    /// MS-SRVS: shares and the server.
    Srvsvc,
    /// MS-WKST: the machine.
    Wkssvc,
    /// MS-LSAD and MS-LSAT: accounts and their SIDs.
    Lsarpc,
}

impl Interface {
    /// Its UUID and version.
    #[must_use]
    pub const fn syntax(self) -> SyntaxId {
        match self {
            Interface::Srvsvc => SyntaxId::new(0x4B32_4FC8_1670_01D3_1278_5A47_BF6E_E188, 3),
            Interface::Wkssvc => SyntaxId::new(0x6BFF_D098_A112_3610_9833_46C3_F87E_345A, 1),
            Interface::Lsarpc => SyntaxId::new(0x1234_5778_1234_ABCD_EF00_0123_4567_89AB, 0),
        }
    }

    /// Answers one call: reads its arguments from `stub` and writes its results.
    ///
    /// # Errors
    /// The [`Fault`] to answer instead.
    pub(super) fn call(
        self,
        opnum: u16,
        stub: &[u8],
        host: &dyn Host,
        handles: &mut Handles,
    ) -> Result<Vec<u8>, Fault> {
        let mut args = Reader::new(stub);
        let mut out = Writer::default();
        match self {
            Interface::Srvsvc => srvsvc::call(opnum, &mut args, &mut out, host)?,
            Interface::Wkssvc => wkssvc::call(opnum, &mut args, &mut out, host)?,
            Interface::Lsarpc => lsarpc::call(opnum, &mut args, &mut out, host, handles)?,
        }
        Ok(out.into_bytes())
    }
}

/// A pipe that can be opened on IPC$.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PipeName {
    /// `srvsvc`
    Srvsvc,
    /// `wkssvc`
    Wkssvc,
    /// `lsarpc`, also `lsass`
    Lsarpc,
}

impl PipeName {
    /// The pipe of this name, without regard to case, with or without `\` or `\PIPE\` before it; `None` is
    /// STATUS_OBJECT_NAME_NOT_FOUND.
    #[must_use]
    pub fn from_name(name: Utf16<'_>) -> Option<PipeName> {
        let name = name.to_string_exact()?.to_ascii_lowercase();
        let name = name.strip_prefix('\\').unwrap_or(&name);
        match name.strip_prefix("pipe\\").unwrap_or(name) {
            "srvsvc" => Some(PipeName::Srvsvc),
            "wkssvc" => Some(PipeName::Wkssvc),
            "lsarpc" | "lsass" => Some(PipeName::Lsarpc),
            _ => None,
        }
    }

    /// The pipe's own name, as a bind is acknowledged with it.
    #[must_use]
    pub const fn address(self) -> &'static str {
        match self {
            PipeName::Srvsvc => "\\PIPE\\srvsvc",
            PipeName::Wkssvc => "\\PIPE\\wkssvc",
            PipeName::Lsarpc => "\\PIPE\\lsass",
        }
    }

    /// The interface that is answered on it.
    #[must_use]
    pub const fn interface(self) -> Interface {
        match self {
            PipeName::Srvsvc => Interface::Srvsvc,
            PipeName::Wkssvc => Interface::Wkssvc,
            PipeName::Lsarpc => Interface::Lsarpc,
        }
    }
}

/// The most context handles of one pipe.
const MAX_HANDLES: usize = 64;

/// Context handles: 20 bytes that a client keeps and brings back.
#[derive(Debug, Default)]
pub(super) struct Handles {
    open: Vec<u64>,
    last: u64,
}

/// A context handle on the wire.
pub(super) type Handle = [u8; 20];

impl Handles {
    /// A handle that no client has.
    pub(super) const NONE: Handle = [0; 20];

    /// Gives out a new handle; `None` when there are too many.
    pub(super) fn open(&mut self) -> Option<Handle> {
        if self.open.len() >= MAX_HANDLES {
            return None;
        }
        self.last += 1;
        self.open.push(self.last);
        let mut handle = Self::NONE;
        handle[4..12].copy_from_slice(&self.last.to_le_bytes());
        Some(handle)
    }

    /// Checks a handle that came back.
    ///
    /// # Errors
    /// [`Fault::CONTEXT_MISMATCH`] when it is not open.
    pub(super) fn check(&self, handle: &Handle) -> Result<(), Fault> {
        self.place(handle).map(|_| ())
    }

    /// Closes a handle.
    ///
    /// # Errors
    /// [`Fault::CONTEXT_MISMATCH`] when it is not open.
    pub(super) fn close(&mut self, handle: &Handle) -> Result<(), Fault> {
        let place = self.place(handle)?;
        self.open.swap_remove(place);
        Ok(())
    }

    fn place(&self, handle: &Handle) -> Result<usize, Fault> {
        let found = self.open.iter().position(|number| {
            handle[..4] == [0; 4] && handle[4..12] == number.to_le_bytes() && handle[12..] == [0; 8]
        });
        found.ok_or(Fault::CONTEXT_MISMATCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utf16;

    #[test]
    fn pipes_are_found_by_any_of_their_names() {
        let find = |name: &str| PipeName::from_name(Utf16::new(&utf16::encode(name)).unwrap());
        assert_eq!(find("srvsvc"), Some(PipeName::Srvsvc));
        assert_eq!(find("\\PIPE\\LsaRpc"), Some(PipeName::Lsarpc));
        assert_eq!(find("pipe\\wkssvc"), Some(PipeName::Wkssvc));
        assert_eq!((find("samr"), find("")), (None, None));
    }

    #[test]
    fn handles_are_known_until_they_are_closed() {
        let mut handles = Handles::default();
        let all: Vec<Handle> = std::iter::from_fn(|| handles.open()).collect();
        assert_eq!(all.len(), MAX_HANDLES);
        assert_eq!(handles.close(&all[3]), Ok(()));
        assert_eq!(handles.check(&all[3]), Err(Fault::CONTEXT_MISMATCH));
        assert_eq!(handles.close(&Handles::NONE), Err(Fault::CONTEXT_MISMATCH));
        assert!(handles.check(&all[4]).is_ok() && handles.open().is_some());
    }
}
