//! Whole frames of requests and responses.

use smb_wire::header::{Chain, Flags, Packet, smb1, transform};
use smb_wire::*;

/// Parses a message, writes it, parses the result and compares both.
macro_rules! again {
    ($type:ty, $message:expr $(, $more:expr)*) => {
        if let Ok(parsed) = <$type>::parse($message $(, $more)*) {
            let mut out = $message[..header::SIZE].to_vec();
            parsed.write(&mut out);
            let read = <$type>::parse(&out $(, $more)*);
            assert_eq!(read.as_ref(), Ok(&parsed), "written as {out:02x?}");
        }
    };
}

/// A frame from a client.
pub fn request(frame: &[u8]) {
    let _ = Packet::classify(frame);
    let _ = transform::TransformHeader::parse(frame);
    let _ = transform::CompressionHeader::parse(frame);
    if let Ok(negotiate) = smb1::Negotiate::parse(frame) {
        negotiate.dialects().for_each(drop);
    }
    for (header, message) in Chain::new(frame).flatten() {
        request_body(header.command(), message);
    }
}

fn request_body(command: SmbCommand, message: &[u8]) {
    match command {
        SmbCommand::Negotiate => {
            if let Ok(request) = negotiate::Request::parse(message) {
                request.dialects.iter().for_each(drop);
                request.contexts.iter().for_each(drop);
            }
        }
        SmbCommand::SessionSetup => again!(session_setup::Request, message),
        SmbCommand::Logoff => again!(logoff::Request, message),
        SmbCommand::TreeConnect => {
            for is_311 in [false, true] {
                if let Ok(request) = tree_connect::Request::parse(message, is_311) {
                    request.contexts.iter().for_each(drop);
                    let _ = request.share().to_string_lossy();
                }
            }
        }
        SmbCommand::TreeDisconnect => again!(tree_disconnect::Request, message),
        SmbCommand::Create => {
            if let Ok(request) = create::Request::parse(message) {
                request.contexts.requests().for_each(drop);
            }
        }
        SmbCommand::Close => again!(close::Request, message),
        SmbCommand::Flush => again!(flush::Request, message),
        SmbCommand::Read => {
            let _ = read::Request::parse(message).map(|request| request.payload_len());
        }
        SmbCommand::Write => {
            let _ = write::Request::parse(message).map(|request| request.payload_len());
        }
        SmbCommand::Lock => again!(lock::Request, message),
        SmbCommand::Ioctl => {
            let _ = ioctl::Request::parse(message).map(|request| request.payload_len());
        }
        SmbCommand::Cancel => again!(cancel::Request, message),
        SmbCommand::Echo => again!(echo::Request, message),
        SmbCommand::QueryDirectory => again!(query_directory::Request, message),
        SmbCommand::ChangeNotify => again!(change_notify::Request, message),
        SmbCommand::QueryInfo => {
            if let Ok(request) = query_info::Request::parse(message) {
                let _ = query_info::QueryQuotaInfo::parse(request.input_buffer);
            }
        }
        SmbCommand::SetInfo => again!(set_info::Request, message),
        SmbCommand::OplockBreak => again!(oplock_break::Request, message),
        SmbCommand::ServerToClientNotification | SmbCommand::Unknown(_) => {}
    }
}

/// A frame from a server.
pub fn response(frame: &[u8]) {
    for (header, message) in Chain::new(frame).flatten() {
        if error::stands_in(message).is_ok_and(|is_error| is_error)
            && let Ok(response) = error::Response::parse(message)
        {
            for (_, data) in response.errors().flatten() {
                let _ = error::SymbolicLink::parse(data);
            }
        }
        assert_eq!(header.is_response(), header.flags().contains(Flags::SERVER_TO_REDIR));
        response_body(header.command(), message);
    }
}

fn response_body(command: SmbCommand, message: &[u8]) {
    match command {
        SmbCommand::Negotiate => {
            if let Ok(response) = negotiate::Response::parse(message) {
                response.contexts.iter().for_each(drop);
            }
        }
        SmbCommand::SessionSetup => again!(session_setup::Response, message),
        SmbCommand::Logoff => again!(logoff::Response, message),
        SmbCommand::TreeConnect => again!(tree_connect::Response, message),
        SmbCommand::TreeDisconnect => again!(tree_disconnect::Response, message),
        SmbCommand::Create => {
            if let Ok(response) = create::Response::parse(message) {
                response.contexts.responses().for_each(drop);
            }
        }
        SmbCommand::Close => again!(close::Response, message),
        SmbCommand::Flush => again!(flush::Response, message),
        SmbCommand::Read => again!(read::Response, message),
        SmbCommand::Write => again!(write::Response, message),
        SmbCommand::Lock => again!(lock::Response, message),
        SmbCommand::Ioctl => again!(ioctl::Response, message),
        SmbCommand::Echo => again!(echo::Response, message),
        SmbCommand::QueryDirectory | SmbCommand::ChangeNotify | SmbCommand::QueryInfo => {
            again!(output::Response, message);
        }
        SmbCommand::SetInfo => again!(set_info::Response, message),
        SmbCommand::OplockBreak => {
            let _ = oplock_break::Notification::parse(message);
            let _ = oplock_break::Response::parse(message);
        }
        SmbCommand::ServerToClientNotification => {
            let _ = notification::Notification::parse(message);
        }
        SmbCommand::Cancel | SmbCommand::Unknown(_) => {}
    }
}
