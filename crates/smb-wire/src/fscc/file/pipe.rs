//! The information classes of named pipes.

use crate::fscc::BadBuffer;
use crate::fscc::layout::layout;

layout! {
    /// MS-FSCC 2.4.37 FilePipeInformation
    #[derive(Default)]
    pub struct Pipe {
        /// The form of the data for reads: [`Pipe::BYTE_STREAM`] or [`Pipe::MESSAGE`].
        read_mode: u32,
        /// 0 if operations wait, 1 if they complete at once.
        completion_mode: u32,
    }

    /// MS-FSCC 2.4.38 FilePipeLocalInformation
    #[derive(Default)]
    pub struct PipeLocal {
        /// [`Pipe::BYTE_STREAM`] or [`Pipe::MESSAGE`].
        named_pipe_type: u32,
        /// 0 in, 1 out, 2 both ways.
        named_pipe_configuration: u32,
        /// The most instances, or 0xFFFFFFFF for no limit.
        maximum_instances: u32,
        /// The current number of instances.
        current_instances: u32,
        /// Bytes of the buffer for data from the client.
        inbound_quota: u32,
        /// Bytes that can be read.
        read_data_available: u32,
        /// Bytes of the buffer for data to the client.
        outbound_quota: u32,
        /// Bytes that can be written.
        write_quota_available: u32,
        /// A state such as [`PipeLocal::CONNECTED`].
        named_pipe_state: u32,
        /// 0 for the client's end, 1 for the server's.
        named_pipe_end: u32,
    }

    /// MS-FSCC 2.4.39 FilePipeRemoteInformation
    #[derive(Default)]
    pub struct PipeRemote {
        /// How long the client may collect data before it sends it, in 100 ns.
        collect_data_time: i64,
        /// How many bytes the client may collect before it sends them.
        maximum_collection_count: u32,
    }
}

impl Pipe {
    /// Data is a stream of bytes.
    pub const BYTE_STREAM: u32 = 0;
    /// Data is a sequence of messages.
    pub const MESSAGE: u32 = 1;

    /// The values after a check.
    ///
    /// # Errors
    /// [`BadBuffer::Value`] for another mode (STATUS_INVALID_PARAMETER).
    pub fn checked(self) -> Result<Pipe, BadBuffer> {
        if self.read_mode <= 1 && self.completion_mode <= 1 { Ok(self) } else { Err(BadBuffer::Value) }
    }
}

impl PipeLocal {
    /// NamedPipeState: the other end is closed.
    pub const DISCONNECTED: u32 = 1;
    /// NamedPipeState: the server waits for a client.
    pub const LISTENING: u32 = 2;
    /// NamedPipeState: both ends are open.
    pub const CONNECTED: u32 = 3;
    /// NamedPipeState: one end is closing.
    pub const CLOSING: u32 = 4;
}
