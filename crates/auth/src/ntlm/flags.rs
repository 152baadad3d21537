//! The flags with which both sides agree on the features of an exchange (MS-NLMP 2.2.2.5).

bitflags::bitflags! {
    /// NEGOTIATE flags. Bits without a name are kept.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct NegotiateFlags: u32 {
        /// Strings are UTF-16LE.
        const UNICODE = 0x0000_0001;
        /// Strings may be in the OEM character set.
        const OEM = 0x0000_0002;
        /// The server must name itself in the CHALLENGE.
        const REQUEST_TARGET = 0x0000_0004;
        /// Message signatures are requested.
        const SIGN = 0x0000_0010;
        /// Message encryption is requested.
        const SEAL = 0x0000_0020;
        /// Datagrams, without a connection.
        const DATAGRAM = 0x0000_0040;
        /// The session key of LM is requested.
        const LM_KEY = 0x0000_0080;
        /// NTLM. It is always set.
        const NTLM = 0x0000_0200;
        /// The connection is anonymous.
        const ANONYMOUS = 0x0000_0800;
        /// The NEGOTIATE has the client's domain.
        const OEM_DOMAIN_SUPPLIED = 0x0000_1000;
        /// The NEGOTIATE has the client's machine.
        const OEM_WORKSTATION_SUPPLIED = 0x0000_2000;
        /// A session key is made even without signing and sealing.
        const ALWAYS_SIGN = 0x0000_8000;
        /// The target name is a domain.
        const TARGET_TYPE_DOMAIN = 0x0001_0000;
        /// The target name is a server.
        const TARGET_TYPE_SERVER = 0x0002_0000;
        /// The signatures of [`super::signature`].
        const EXTENDED_SESSIONSECURITY = 0x0008_0000;
        /// An identify-level token is enough.
        const IDENTIFY = 0x0010_0000;
        /// The session key should use the LM hash.
        const REQUEST_NON_NT_SESSION_KEY = 0x0040_0000;
        /// The CHALLENGE has AV pairs.
        const TARGET_INFO = 0x0080_0000;
        /// The VERSION structure is filled in.
        const VERSION = 0x0200_0000;
        /// 128-bit keys.
        const KEY_128 = 0x2000_0000;
        /// The client chooses the session key and sends it encrypted.
        const KEY_EXCH = 0x4000_0000;
        /// 56-bit keys.
        const KEY_56 = 0x8000_0000;

        const _ = !0;
    }
}
