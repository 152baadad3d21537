//! IOCTL: control codes for files, pipes and the server (MS-SMB2 2.2.31 and 2.2.32).
//!
//! [`body`] has the buffers that MS-SMB2 defines, and [`interfaces`] the list of interfaces. Those of
//! MS-FSCC are in [`crate::fscc`].

use crate::id::FileId;
use crate::macros::{wire_enum, wire_flags};
use crate::malformed::Malformed;
use crate::reader::{FieldReader, HEADER};
use wire::Writer;

pub mod body;
pub mod interfaces;

wire_enum! {
    /// A control code (MS-SMB2 2.2.31 and MS-FSCC 2.3), in the order of the numbers.
    pub enum CtlCode: u32 {
        DfsGetReferrals = 0x0006_0194,
        DfsGetReferralsEx = 0x0006_01b0,
        RequestOplockLevel1 = 0x0009_0000,
        LockVolume = 0x0009_0018,
        UnlockVolume = 0x0009_001c,
        DismountVolume = 0x0009_0020,
        IsPathnameValid = 0x0009_002c,
        GetCompression = 0x0009_003c,
        QueryFatBpb = 0x0009_0058,
        FilesystemGetStatistics = 0x0009_0060,
        GetNtfsVolumeData = 0x0009_0064,
        GetRetrievalPointers = 0x0009_0073,
        IsVolumeDirty = 0x0009_0078,
        AllowExtendedDasdIo = 0x0009_0083,
        FindFilesBySid = 0x0009_008f,
        SetObjectId = 0x0009_0098,
        GetObjectId = 0x0009_009c,
        DeleteObjectId = 0x0009_00a0,
        SetReparsePoint = 0x0009_00a4,
        GetReparsePoint = 0x0009_00a8,
        DeleteReparsePoint = 0x0009_00ac,
        SetObjectIdExtended = 0x0009_00bc,
        CreateOrGetObjectId = 0x0009_00c0,
        SetSparse = 0x0009_00c4,
        SetEncryption = 0x0009_00d7,
        ReadFileUsnData = 0x0009_00eb,
        WriteUsnCloseRecord = 0x0009_00ef,
        ExtendVolume = 0x0009_00f0,
        QueryUsnJournal = 0x0009_00f4,
        MarkHandle = 0x0009_00fc,
        SisCopyfile = 0x0009_0100,
        RecallFile = 0x0009_0117,
        FilePrefetch = 0x0009_0120,
        QuerySparingInfo = 0x0009_0138,
        QueryOnDiskVolumeInfo = 0x0009_013c,
        SetZeroOnDeallocation = 0x0009_0194,
        ShrinkVolume = 0x0009_01b0,
        SdGlobalChange = 0x0009_01f4,
        LookupStreamFromCluster = 0x0009_01fc,
        GetBootAreaInfo = 0x0009_0230,
        GetRetrievalPointerBase = 0x0009_0234,
        SetPersistentVolumeState = 0x0009_0238,
        QueryPersistentVolumeState = 0x0009_023c,
        GetIntegrityInformation = 0x0009_027c,
        QueryFileRegions = 0x0009_0284,
        GetRefsVolumeData = 0x0009_02d8,
        QuerySharedVirtualDiskSupport = 0x0009_0300,
        SvhdxSyncTunnelRequest = 0x0009_0304,
        SvhdxAsyncTunnelRequest = 0x0009_0364,
        SetIntegrityInformationEx = 0x0009_0380,
        GetRetrievalPointersAndRefcount = 0x0009_03d3,
        GetRetrievalPointerCount = 0x0009_042b,
        RefsStreamSnapshotManagement = 0x0009_0440,
        QueryAllocatedRanges = 0x0009_40cf,
        OffloadRead = 0x0009_4264,
        SetZeroData = 0x0009_80c8,
        SetDefectManagement = 0x0009_8134,
        FileLevelTrim = 0x0009_8208,
        OffloadWrite = 0x0009_8268,
        DuplicateExtentsToFile = 0x0009_8344,
        DuplicateExtentsToFileEx = 0x0009_83e8,
        SetCompression = 0x0009_c040,
        SetIntegrityInformation = 0x0009_c280,
        PipeWait = 0x0011_0018,
        PipePeek = 0x0011_400c,
        PipeTransceive = 0x0011_c017,
        SrvRequestResumeKey = 0x0014_0078,
        LmrSetLinkTrackingInformation = 0x0014_00ec,
        LmrRequestResiliency = 0x0014_01d4,
        QueryNetworkInterfaceInfo = 0x0014_01fc,
        ValidateNegotiateInfo = 0x0014_0204,
        SrvEnumerateSnapshots = 0x0014_4064,
        SrvCopychunk = 0x0014_40f2,
        SrvReadHash = 0x0014_41bb,
        SrvCopychunkWrite = 0x0014_80f2,
    }
}

wire_flags! {
    /// Flags of a request (MS-SMB2 2.2.31).
    pub struct IoctlFlags: u32 {
        /// An FSCTL. Without it the request is an IOCTL, which no server supports.
        IS_FSCTL = 0x0000_0001,
    }
}

/// IOCTL request (MS-SMB2 2.2.31).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The control code.
    pub ctl_code: CtlCode,
    /// The Open, or all bits set for a code of the server.
    pub file_id: FileId,
    /// The most bytes of input in the response.
    pub max_input_response: u32,
    /// The most bytes of output in the response.
    pub max_output_response: u32,
    /// Whether this is an FSCTL.
    pub flags: IoctlFlags,
    /// The input.
    pub input: &'a [u8],
    /// The stated output length of the request. It is used for the credit charge only.
    pub output_count: u32,
}

impl<'a> Request<'a> {
    /// An FSCTL.
    #[must_use]
    pub fn fsctl(ctl_code: CtlCode, file_id: FileId, input: &'a [u8], max_output_response: u32) -> Self {
        Request {
            ctl_code,
            file_id,
            max_input_response: 0,
            max_output_response,
            flags: IoctlFlags::IS_FSCTL,
            input,
            output_count: 0,
        }
    }

    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "IOCTL request", 57)?;
        r.skip(2, "Reserved")?;
        let ctl_code = CtlCode::new(r.u32("CtlCode")?);
        let file_id = r.file_id("FileId")?;
        let input_offset = r.u32("InputOffset")? as usize;
        let input_count = r.u32("InputCount")? as usize;
        let max_input_response = r.u32("MaxInputResponse")?;
        r.skip(4, "OutputOffset")?;
        let output_count = r.u32("OutputCount")?;
        let max_output_response = r.u32("MaxOutputResponse")?;
        let flags = IoctlFlags::from_bits_retain(r.u32("Flags")?);
        // MS-SMB2 3.3.5.15
        if input_count > 0 && !input_offset.is_multiple_of(8) {
            return Err(r.wrong("InputOffset"));
        }
        let input = r.window(input_offset, input_count, "InputOffset")?;
        Ok(Request { ctl_code, file_id, max_input_response, max_output_response, flags, input, output_count })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(57);
        w.u16_le(0);
        w.u32_le(self.ctl_code.get());
        self.file_id.write(&mut w);
        w.u32_le(HEADER as u32 + 56);
        w.u32_le(self.input.len() as u32);
        w.u32_le(self.max_input_response);
        w.u32_le(0);
        w.u32_le(self.output_count);
        w.u32_le(self.max_output_response);
        w.u32_le(self.flags.bits());
        w.u32_le(0);
        w.bytes(self.input);
    }

    /// The bytes that count for the credit charge: the larger of both inputs and both outputs (MS-SMB2
    /// 3.3.5.15).
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        let sent = (self.input.len() as u32).saturating_add(self.output_count);
        sent.max(self.max_input_response.saturating_add(self.max_output_response))
    }
}

/// IOCTL response (MS-SMB2 2.2.32).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response<'a> {
    /// The control code.
    pub ctl_code: CtlCode,
    /// The Open.
    pub file_id: FileId,
    /// Input that is returned. Only pass-through operations have it.
    pub input: &'a [u8],
    /// The output.
    pub output: &'a [u8],
}

impl<'a> Response<'a> {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "IOCTL response", 49)?;
        r.skip(2, "Reserved")?;
        let ctl_code = CtlCode::new(r.u32("CtlCode")?);
        let file_id = r.file_id("FileId")?;
        let input_offset = r.u32("InputOffset")? as usize;
        let input_count = r.u32("InputCount")? as usize;
        let output_offset = r.u32("OutputOffset")? as usize;
        let output_count = r.u32("OutputCount")? as usize;
        let input = r.window(input_offset, input_count, "InputOffset")?;
        let output = r.window(output_offset, output_count, "OutputOffset")?;
        Ok(Response { ctl_code, file_id, input, output })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_padded(0, out);
    }

    /// Appends the body with `padding` extra bytes before the output.
    pub fn write_padded(&self, padding: usize, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(49);
        w.u16_le(0);
        w.u32_le(self.ctl_code.get());
        self.file_id.write(&mut w);
        w.u32_le(HEADER as u32 + 48);
        w.u32_le(self.input.len() as u32);
        w.u32_le(0);
        w.u32_le(self.output.len() as u32);
        w.u64_le(0);
        w.bytes(self.input);
        if !self.input.is_empty() {
            w.align(8);
        }
        w.zeros(padding);
        // MS-SMB2 2.2.32
        let offset = if self.output.is_empty() { 0 } else { HEADER + w.position() };
        w.patch_u32_le(32, offset as u32);
        w.bytes(self.output);
    }
}
