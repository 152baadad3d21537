//! Buffers inside messages: contexts, information classes, control codes, security descriptors.

use smb_wire::create_context::{Contexts, aapl};
use smb_wire::fscc::directory::{self, DirectoryClass};
use smb_wire::fscc::file::{self, RenameLayout, RenameRequest};
use smb_wire::fscc::{FileInfoClass, ea, fs, fsctl, notify, quota, reparse};
use smb_wire::{ioctl, negotiate, posix, query_info};
use volume::security::Descriptor;

/// A chain of create contexts of requests and responses.
pub fn create_contexts(data: &[u8]) {
    Contexts::Wire(data).requests().for_each(drop);
    Contexts::Wire(data).responses().for_each(drop);
    let _ = aapl::Request::parse(data);
    let _ = aapl::Response::parse(data);
    let _ = posix::CreateResponse::parse(data);
}

/// The data of one negotiate context, with its type in front.
pub fn negotiate_contexts(data: &[u8]) {
    let Some((context_type, data)) = data.split_first_chunk() else { return };
    let _ = negotiate::Context::parse(u16::from_le_bytes(*context_type).into(), data);
}

/// The data of an information class or a control code.
pub fn fscc(data: &[u8]) {
    file_classes(data);
    lists(data);
    control_codes(data);
    let _ = reparse::RawReparse::parse(data);
    let _ = reparse::Reparse::parse(data);
    let _ = fs::Volume::parse(data);
    let _ = fs::Attribute::parse(data);
    let _ = fs::parse_label(data);
    let _ = fs::Control::parse(data);
    let _ = fs::ObjectId::parse(data);
    let _ = posix::FileInfo::parse(data);
    let _ = posix::DirectoryEntry::parse(data);
    let _ = posix::FilesystemInfo::parse(data);
    let _ = query_info::QueryQuotaInfo::parse(data);
}

fn file_classes(data: &[u8]) {
    if let Ok(basic) = file::Basic::parse(data) {
        let mut out = Vec::new();
        basic.write(&mut out);
        assert_eq!(file::Basic::parse(&out), Ok(basic));
    }
    let _ = file::fixed::All::parse(data);
    let _ = file::Pipe::parse(data);
    let _ = file::read_name(data);
    for layout in [RenameLayout::Type1, RenameLayout::Type2, RenameLayout::Ex] {
        let _ = RenameRequest::parse(data, layout);
    }
}

fn lists(data: &[u8]) {
    file::read_streams(data).for_each(drop);
    if let Ok(links) = file::read_hard_links(data) {
        links.for_each(drop);
    }
    for number in 0..=u8::MAX {
        if let Some(class) = DirectoryClass::from_class(FileInfoClass(number)) {
            directory::read(data, class).for_each(drop);
        }
    }
    notify::read(data).for_each(drop);
    ea::read_list(data).for_each(drop);
    ea::read_names(data).for_each(drop);
    quota::read_list(data).for_each(drop);
    quota::read_sids(data).for_each(drop);
}

fn control_codes(data: &[u8]) {
    let _ = fsctl::parse_set_sparse(data);
    let _ = fsctl::ZeroData::parse(data);
    let _ = fsctl::DuplicateExtents::parse(data);
    let _ = fsctl::DuplicateExtentsEx::parse(data);
    let _ = fsctl::QueryRegions::parse(data);
    let _ = fsctl::UsnRange::parse(data);
    let _ = fsctl::PipeWait::parse(data);
    let _ = fsctl::DfsReferralRequest::parse(data);
    let _ = fsctl::DfsReferralRequest::parse_ex(data);
    let _ = fsctl::lists::Trim::parse(data);
    fsctl::lists::read_ranges(data).for_each(drop);
    if let Ok(regions) = fsctl::lists::read_regions(data) {
        regions.for_each(drop);
    }
    ioctl::interfaces::parse(data).for_each(drop);
    if let Ok(copy) = ioctl::body::SrvCopychunkCopy::parse(data) {
        copy.chunks.iter().for_each(drop);
    }
    let _ = ioctl::body::SrvCopychunkResponse::parse(data);
    let _ = ioctl::body::SrvRequestResumeKey::parse(data);
    let _ = ioctl::body::NetworkResiliencyRequest::parse(data);
    let _ = ioctl::body::ValidateNegotiateInfoRequest::parse(data);
    let _ = ioctl::body::ValidateNegotiateInfoResponse::parse(data);
}

/// A self-relative security descriptor.
pub fn security_descriptor(data: &[u8]) {
    let Ok(descriptor) = Descriptor::parse(data) else { return };
    let Ok(written) = descriptor.encode() else { return };
    assert_eq!(written.len(), descriptor.encoded_len());
    assert_eq!(Descriptor::parse(&written).as_ref(), Ok(&descriptor), "written as {written:02x?}");
}
