//! Shared by the tests: the captured frames, and one function that passes bytes to every parser.

#![allow(dead_code)]

use smb_wire::header::{Chain, Packet, smb1, transform};
use smb_wire::*;

/// The sender of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameSender {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// The frames of `tests/captured/samba.txt`.
pub fn captured() -> Vec<(FrameSender, Vec<u8>)> {
    let text = include_str!("../captured/samba.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (side, hex) = line.split_once(' ').expect("side and bytes");
            let side = if side == "C" { FrameSender::Client } else { FrameSender::Server };
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
            (side, (0..hex.len()).step_by(2).map(byte).collect())
        })
        .collect()
}

/// The messages of the captured plain frames, each from its header on.
pub fn captured_messages() -> Vec<(FrameSender, Vec<u8>)> {
    let mut messages = Vec::new();
    for (side, frame) in captured() {
        if Packet::classify(&frame) == Some(Packet::Smb2) {
            for part in Chain::new(&frame) {
                messages.push((side, part.expect("a captured compound is whole").1.to_vec()));
            }
        }
    }
    messages
}

/// Passes `message` to every parser of whole messages, and reads lazy lists to their end.
pub fn parse_everything(message: &[u8]) {
    for (_, part) in Chain::new(message).flatten() {
        assert!(part.len() <= message.len());
    }
    let _ = transform::TransformHeader::parse(message);
    let _ = transform::CompressionHeader::parse(message);
    if let Ok(negotiate) = smb1::Negotiate::parse(message) {
        negotiate.dialects().for_each(drop);
    }
    parse_requests(message);
    parse_responses(message);
    parse_buffers(message);
}

fn parse_requests(message: &[u8]) {
    if let Ok(request) = negotiate::Request::parse(message) {
        request.dialects.iter().for_each(drop);
        request.contexts.iter().for_each(drop);
    }
    if let Ok(request) = create::Request::parse(message) {
        request.contexts.requests().for_each(drop);
    }
    for is_311 in [false, true] {
        if let Ok(request) = tree_connect::Request::parse(message, is_311) {
            request.contexts.iter().for_each(drop);
            let _ = request.share().to_string_lossy();
        }
    }
    if let Ok(request) = lock::Request::parse(message) {
        request.locks.iter().for_each(drop);
    }
    if let Ok(request) = query_info::Request::parse(message) {
        let _ = query_info::QueryQuotaInfo::parse(request.input_buffer);
    }
    let _ = session_setup::Request::parse(message).map(|r| r.payload_len());
    let _ = close::Request::parse(message);
    let _ = flush::Request::parse(message);
    let _ = read::Request::parse(message).map(|r| r.payload_len());
    let _ = write::Request::parse(message).map(|r| r.payload_len());
    let _ = ioctl::Request::parse(message).map(|r| r.payload_len());
    let _ = oplock_break::Request::parse(message);
    let _ = query_directory::Request::parse(message).map(|r| r.payload_len());
    let _ = change_notify::Request::parse(message);
    let _ = set_info::Request::parse(message).map(|r| r.payload_len());
    let _ = cancel::Request::parse(message);
    let _ = echo::Request::parse(message);
    let _ = logoff::Request::parse(message);
    let _ = tree_disconnect::Request::parse(message);
}

fn parse_responses(message: &[u8]) {
    let _ = error::stands_in(message);
    if let Ok(response) = error::Response::parse(message) {
        response.errors().for_each(drop);
    }
    if let Ok(response) = negotiate::Response::parse(message) {
        response.contexts.iter().for_each(drop);
    }
    if let Ok(response) = create::Response::parse(message) {
        response.contexts.responses().for_each(drop);
    }
    let _ = session_setup::Response::parse(message);
    let _ = tree_connect::Response::parse(message);
    let _ = close::Response::parse(message);
    let _ = flush::Response::parse(message);
    let _ = read::Response::parse(message);
    let _ = write::Response::parse(message);
    let _ = lock::Response::parse(message);
    let _ = ioctl::Response::parse(message);
    let _ = output::Response::parse(message);
    let _ = oplock_break::Notification::parse(message);
    let _ = oplock_break::Response::parse(message);
    let _ = notification::Notification::parse(message);
    let _ = set_info::Response::parse(message);
}

/// Hands `data` to the parsers of buffers inside messages.
pub fn parse_buffers(data: &[u8]) {
    create_context::Contexts::Wire(data).requests().for_each(drop);
    create_context::Contexts::Wire(data).responses().for_each(drop);
    let _ = create_context::aapl::Request::parse(data);
    let _ = create_context::aapl::Response::parse(data);
    let _ = error::SymbolicLink::parse(data);
    let _ = posix::CreateResponse::parse(data);
    let _ = posix::FileInfo::parse(data);
    let _ = posix::DirectoryEntry::parse(data);
    let _ = posix::FilesystemInfo::parse(data);
    let _ = query_info::QueryQuotaInfo::parse(data);
    ioctl::interfaces::parse(data).for_each(drop);
    if let Ok(copy) = ioctl::body::SrvCopychunkCopy::parse(data) {
        copy.chunks.iter().for_each(drop);
    }
    let _ = ioctl::body::SrvCopychunkResponse::parse(data);
    let _ = ioctl::body::SrvRequestResumeKey::parse(data);
    let _ = ioctl::body::NetworkResiliencyRequest::parse(data);
    let _ = ioctl::body::ValidateNegotiateInfoRequest::parse(data);
    let _ = ioctl::body::ValidateNegotiateInfoResponse::parse(data);
    for context_type in (1..9).chain([0x100, 0x1234]) {
        let _ = negotiate::Context::parse(context_type.into(), data);
    }
}
