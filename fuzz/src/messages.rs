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

fn request_body(command: Command, message: &[u8]) {
    match command {
        Command::Negotiate => {
            if let Ok(request) = negotiate::Request::parse(message) {
                request.dialects.iter().for_each(drop);
                request.contexts.iter().for_each(drop);
            }
        }
        Command::SessionSetup => again!(session_setup::Request, message),
        Command::Logoff => again!(logoff::Request, message),
        Command::TreeConnect => {
            for is_311 in [false, true] {
                if let Ok(request) = tree_connect::Request::parse(message, is_311) {
                    request.contexts.iter().for_each(drop);
                    let _ = request.share().to_string_lossy();
                }
            }
        }
        Command::TreeDisconnect => again!(tree_disconnect::Request, message),
        Command::Create => {
            if let Ok(request) = create::Request::parse(message) {
                request.contexts.requests().for_each(drop);
            }
        }
        Command::Close => again!(close::Request, message),
        Command::Flush => again!(flush::Request, message),
        Command::Read => {
            let _ = read::Request::parse(message).map(|request| request.payload_len());
        }
        Command::Write => {
            let _ = write::Request::parse(message).map(|request| request.payload_len());
        }
        Command::Lock => again!(lock::Request, message),
        Command::Ioctl => {
            let _ = ioctl::Request::parse(message).map(|request| request.payload_len());
        }
        Command::Cancel => again!(cancel::Request, message),
        Command::Echo => again!(echo::Request, message),
        Command::QueryDirectory => again!(query_directory::Request, message),
        Command::ChangeNotify => again!(change_notify::Request, message),
        Command::QueryInfo => {
            if let Ok(request) = query_info::Request::parse(message) {
                let _ = query_info::QueryQuotaInfo::parse(request.input_buffer);
            }
        }
        Command::SetInfo => again!(set_info::Request, message),
        Command::OplockBreak => again!(oplock_break::Request, message),
        Command::ServerToClientNotification | Command::Unknown(_) => {}
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

fn response_body(command: Command, message: &[u8]) {
    match command {
        Command::Negotiate => {
            if let Ok(response) = negotiate::Response::parse(message) {
                response.contexts.iter().for_each(drop);
            }
        }
        Command::SessionSetup => again!(session_setup::Response, message),
        Command::Logoff => again!(logoff::Response, message),
        Command::TreeConnect => again!(tree_connect::Response, message),
        Command::TreeDisconnect => again!(tree_disconnect::Response, message),
        Command::Create => {
            if let Ok(response) = create::Response::parse(message) {
                response.contexts.responses().for_each(drop);
            }
        }
        Command::Close => again!(close::Response, message),
        Command::Flush => again!(flush::Response, message),
        Command::Read => again!(read::Response, message),
        Command::Write => again!(write::Response, message),
        Command::Lock => again!(lock::Response, message),
        Command::Ioctl => again!(ioctl::Response, message),
        Command::Echo => again!(echo::Response, message),
        Command::QueryDirectory | Command::ChangeNotify | Command::QueryInfo => {
            again!(output::Response, message);
        }
        Command::SetInfo => again!(set_info::Response, message),
        Command::OplockBreak => {
            let _ = oplock_break::Notification::parse(message);
            let _ = oplock_break::Response::parse(message);
        }
        Command::ServerToClientNotification => {
            let _ = notification::Notification::parse(message);
        }
        Command::Cancel | Command::Unknown(_) => {}
    }
}
