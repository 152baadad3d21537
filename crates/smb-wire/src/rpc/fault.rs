//! The faults of RPC calls.

use super::ndr::BadStub;

/// The status in a fault packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the call fails with {0:#010x}")]
pub struct Fault(pub u32);

impl Fault {
    /// nca_op_rng_error: the interface has no such operation.
    pub const OP_RNG_ERROR: Fault = Fault(0x1C01_0002);
    /// nca_unk_if: the call's context has no interface.
    pub const UNK_IF: Fault = Fault(0x1C01_0003);
    /// nca_proto_error: the packets violate the protocol.
    pub const PROTO_ERROR: Fault = Fault(0x1C01_000B);
    /// nca_out_args_too_big: the results are too large.
    pub const OUT_ARGS_TOO_BIG: Fault = Fault(0x1C01_0013);
    /// nca_s_fault_context_mismatch: the handle did not come from this server.
    pub const CONTEXT_MISMATCH: Fault = Fault(0x1C00_001A);
    /// nca_s_fault_remote_no_memory: the call is too large.
    pub const REMOTE_NO_MEMORY: Fault = Fault(0x1C00_001B);
    /// RPC_X_BAD_STUB_DATA: the arguments cannot be parsed.
    pub const BAD_STUB_DATA: Fault = Fault(0x0000_06F7);
    /// ERROR_ACCESS_DENIED.
    pub const ACCESS_DENIED: Fault = Fault(0x0000_0005);
}

impl From<BadStub> for Fault {
    fn from(_: BadStub) -> Self {
        Fault::BAD_STUB_DATA
    }
}
