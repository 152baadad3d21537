//! The supported interfaces and their pipes.

use super::fault::Fault;
use super::handles::Handles;
use super::host::Host;
use super::ndr::{StubReader, Writer};
use super::pdu::SyntaxId;
use super::{lsarpc, srvsvc, wkssvc};
use crate::Utf16;

/// A supported interface.
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

    /// Runs one call: reads its arguments from `stub` and writes its results.
    ///
    /// # Errors
    /// The [`Fault`] of the call.
    pub(super) fn call(
        self,
        opnum: u16,
        stub: &[u8],
        host: &dyn Host,
        handles: &mut Handles,
    ) -> Result<Vec<u8>, Fault> {
        let mut args = StubReader::new(stub);
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
    /// The pipe with this name, ignoring case, with or without `\` or `\PIPE\` before it. `None` means
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

    /// The pipe's own name, as in the acknowledgment of a bind.
    #[must_use]
    pub const fn address(self) -> &'static str {
        match self {
            PipeName::Srvsvc => "\\PIPE\\srvsvc",
            PipeName::Wkssvc => "\\PIPE\\wkssvc",
            PipeName::Lsarpc => "\\PIPE\\lsass",
        }
    }

    /// The interface of the pipe.
    #[must_use]
    pub const fn interface(self) -> Interface {
        match self {
            PipeName::Srvsvc => Interface::Srvsvc,
            PipeName::Wkssvc => Interface::Wkssvc,
            PipeName::Lsarpc => Interface::Lsarpc,
        }
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
}
