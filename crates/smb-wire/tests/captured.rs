//! Reads a captured conversation of Samba's client and server, writes it again and compares.
//!
//! Every captured message must be readable, and the written copy must mean the same. In nearly all messages
//! Samba uses the layout that MS-SMB2 suggests. Such a copy must have the same bytes.

mod support;

use smb_wire::create_context::{LeaseFlags, LeaseState, RequestContext, ResponseContext, aapl};
use smb_wire::header::{Packet, smb1, transform};
use smb_wire::negotiate::{Cipher, Context, Dialect, HashAlgorithm, SigningAlgorithm};
use smb_wire::*;
use std::collections::BTreeSet;
use support::{FrameSender, captured, captured_messages};

/// Parses `message` as `$type`, writes it, checks that it parses the same, and returns the written bytes.
macro_rules! again {
    ($type:ty, $message:expr $(, $more:expr)*) => {{
        let message: &[u8] = $message;
        let parsed = <$type>::parse(message $(, $more)*).unwrap_or_else(|e| panic!("{e}: {message:02x?}"));
        let mut out = message[..header::SIZE].to_vec();
        parsed.write(&mut out);
        assert_eq!(<$type>::parse(&out $(, $more)*).as_ref(), Ok(&parsed), "{message:02x?}");
        out
    }};
}

fn request_again(command: SmbCommand, message: &[u8]) -> Vec<u8> {
    match command {
        SmbCommand::Negotiate => again!(negotiate::Request, message),
        SmbCommand::SessionSetup => again!(session_setup::Request, message),
        SmbCommand::Logoff => again!(logoff::Request, message),
        SmbCommand::TreeConnect => again!(tree_connect::Request, message, true),
        SmbCommand::TreeDisconnect => again!(tree_disconnect::Request, message),
        SmbCommand::Create => again!(create::Request, message),
        SmbCommand::Close => again!(close::Request, message),
        SmbCommand::Flush => again!(flush::Request, message),
        SmbCommand::Read => again!(read::Request, message),
        SmbCommand::Write => again!(write::Request, message),
        SmbCommand::Lock => again!(lock::Request, message),
        SmbCommand::Ioctl => again!(ioctl::Request, message),
        SmbCommand::Cancel => again!(cancel::Request, message),
        SmbCommand::Echo => again!(echo::Request, message),
        SmbCommand::QueryDirectory => again!(query_directory::Request, message),
        SmbCommand::ChangeNotify => again!(change_notify::Request, message),
        SmbCommand::QueryInfo => again!(query_info::Request, message),
        SmbCommand::SetInfo => again!(set_info::Request, message),
        SmbCommand::OplockBreak => again!(oplock_break::Request, message),
        other => panic!("{other:?}"),
    }
}

fn response_again(command: SmbCommand, message: &[u8]) -> Vec<u8> {
    if error::stands_in(message).unwrap() {
        return again!(error::Response, message);
    }
    match command {
        SmbCommand::Negotiate => again!(negotiate::Response, message),
        SmbCommand::SessionSetup => again!(session_setup::Response, message),
        SmbCommand::Logoff => again!(logoff::Response, message),
        SmbCommand::TreeConnect => again!(tree_connect::Response, message),
        SmbCommand::TreeDisconnect => again!(tree_disconnect::Response, message),
        SmbCommand::Create => again!(create::Response, message),
        SmbCommand::Close => again!(close::Response, message),
        SmbCommand::Flush => again!(flush::Response, message),
        SmbCommand::Read => again!(read::Response, message),
        SmbCommand::Write => again!(write::Response, message),
        SmbCommand::Lock => again!(lock::Response, message),
        SmbCommand::Ioctl => again!(ioctl::Response, message),
        SmbCommand::Echo => again!(echo::Response, message),
        SmbCommand::QueryDirectory | SmbCommand::ChangeNotify | SmbCommand::QueryInfo => {
            again!(output::Response, message)
        }
        SmbCommand::SetInfo => again!(set_info::Response, message),
        SmbCommand::OplockBreak if Header::parse(message).unwrap().message_id() == u64::MAX => {
            again!(oplock_break::Notification, message)
        }
        SmbCommand::OplockBreak => again!(oplock_break::Response, message),
        other => panic!("{other:?}"),
    }
}

/// Bytes of a body that MS-SMB2 reserves or lets the receiver ignore. Samba puts other values there.
fn ignored(side: FrameSender, command: SmbCommand, message: &[u8]) -> &'static [(usize, usize)] {
    let empty_error =
        side == FrameSender::Server && error::Response::parse(message).is_ok_and(|e| e.error_data.is_empty());
    match (side, command) {
        // SecurityFlags, SmbCreateFlags and Reserved.
        (FrameSender::Client, SmbCommand::Create) => &[(2, 3), (8, 24)],
        // InputOffset without input, and OutputOffset.
        (FrameSender::Client, SmbCommand::Ioctl) => &[(24, 28), (36, 40)],
        // The byte that fills the variable part.
        _ if empty_error => &[(8, 9)],
        _ => &[],
    }
}

#[test]
fn every_captured_message_is_read_and_written_alike() {
    let mut seen = BTreeSet::new();
    for (side, message) in captured_messages() {
        let header = Header::parse(&message).unwrap();
        let command = header.command();
        let mut header_again = [0; header::SIZE];
        header.write(&mut header_again);
        assert_eq!(header_again, message[..header::SIZE]);
        assert_eq!(header.is_response(), side == FrameSender::Server);
        let mut written = match side {
            FrameSender::Client => request_again(command, &message),
            FrameSender::Server => response_again(command, &message),
        };
        // Samba ends some messages with a terminator or with padding up to eight bytes.
        assert!(written.len() <= message.len() && message.len() - written.len() < 8, "{message:02x?}");
        for (start, end) in ignored(side, command, &message) {
            let range = start + header::SIZE..end + header::SIZE;
            written[range.clone()].copy_from_slice(&message[range]);
        }
        assert_eq!(written, message[..written.len()], "{side:?} {command:?}");
        seen.insert((side == FrameSender::Server, command.get()));
    }
    // All nineteen commands, and a response to each but CANCEL.
    assert_eq!(seen.len(), 19 + 18);
}

/// The first captured request of `command` that `wanted` accepts.
fn find(side: FrameSender, command: SmbCommand, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    captured_messages()
        .into_iter()
        .find(|(s, m)| *s == side && Header::parse(m).unwrap().command() == command && wanted(m))
        .expect("a captured message of this kind")
        .1
}

#[test]
fn a_negotiation_says_what_both_sides_can() {
    let offers_311 = |m: &[u8]| negotiate::Request::parse(m).unwrap().dialects.contains(Dialect::Smb311);
    let message = find(FrameSender::Client, SmbCommand::Negotiate, offers_311);
    let request = negotiate::Request::parse(&message).unwrap();
    assert_eq!(
        request.dialects.iter().map(Dialect::get).collect::<Vec<_>>(),
        [0x202, 0x210, 0x300, 0x302, 0x311]
    );
    let contexts: Vec<_> = request.contexts.iter().collect::<Result<_, _>>().unwrap();
    let [
        Context::PreauthIntegrity { hash_algorithms, salt },
        Context::Encryption(ciphers),
        Context::Signing(algorithms),
        Context::Netname(name),
    ] = &contexts[..]
    else {
        panic!("{contexts:?}")
    };
    assert_eq!((hash_algorithms.iter().next(), salt.len()), (Some(HashAlgorithm::Sha512), 32));
    let ciphers: Vec<_> = ciphers.iter().collect();
    assert_eq!(ciphers, [Cipher::Aes128Gcm, Cipher::Aes128Ccm, Cipher::Aes256Gcm, Cipher::Aes256Ccm]);
    use SigningAlgorithm::{AesCmac, AesGmac, HmacSha256};
    assert_eq!(algorithms.iter().collect::<Vec<_>>(), [AesGmac, AesCmac, HmacSha256]);
    assert_eq!(*name, "127.0.0.1");

    let chose = |m: &[u8]| negotiate::Response::parse(m).unwrap().dialect_revision == Dialect::Smb311;
    let message = find(FrameSender::Server, SmbCommand::Negotiate, chose);
    let response = negotiate::Response::parse(&message).unwrap();
    assert_eq!(response.max_read_size, 8 << 20);
    assert!(response.contexts.iter().any(|c| matches!(c, Ok(Context::Signing(list)) if list.len() == 1)));
}

#[test]
fn a_multi_protocol_negotiate_is_answered_with_the_wildcard() {
    let frames = captured();
    let (_, smb1) = frames.iter().find(|(_, f)| Packet::classify(f) == Some(Packet::Smb1)).unwrap();
    let request = smb1::Negotiate::parse(smb1).unwrap();
    assert!(request.offers(b"NT LM 0.12") && request.offers(smb1::DIALECT_2_002));
    assert!(request.offers(smb1::DIALECT_2_WILDCARD));
    let wildcard = |m: &[u8]| negotiate::Response::parse(m).unwrap().dialect_revision == Dialect::Wildcard;
    find(FrameSender::Server, SmbCommand::Negotiate, wildcard);
}

#[test]
fn a_sealed_frame_is_as_long_as_it_says() {
    let frames = captured();
    let sealed = frames.iter().filter(|(_, f)| Packet::classify(f) == Some(Packet::Transform));
    assert!(sealed.inspect(|(_, f)| assert!(transform::TransformHeader::parse(f).is_ok())).count() > 0);
}

#[test]
fn create_contexts_say_what_the_test_program_meant() {
    let contexts: Vec<_> = captured_messages()
        .into_iter()
        .filter(|(side, _)| *side == FrameSender::Client)
        .filter(|(_, m)| Header::parse(m).unwrap().command() == SmbCommand::Create)
        .collect();
    let all: Vec<_> = contexts
        .iter()
        .flat_map(|(_, m)| create::Request::parse(m).unwrap().contexts.requests().collect::<Vec<_>>())
        .collect::<Result<_, _>>()
        .unwrap();
    let has = |wanted: fn(&RequestContext<'_>) -> bool| all.iter().any(wanted);
    assert!(has(|c| *c == RequestContext::AllocationSize(1 << 20)));
    assert!(has(|c| *c == RequestContext::TimewarpToken(10_000)));
    assert!(has(|c| *c == RequestContext::QueryMaximalAccess(None)));
    assert!(has(|c| *c == RequestContext::DurableHandleRequest));
    assert!(has(|c| matches!(c, RequestContext::DurableHandleReconnect(_))));
    assert!(has(|c| matches!(c, RequestContext::DurableHandleRequestV2 { timeout: u32::MAX, .. })));
    assert!(has(|c| matches!(c, RequestContext::DurableHandleReconnectV2 { .. })));
    assert!(has(|c| matches!(c, RequestContext::AppInstanceId(id) if *id != Guid::ZERO)));
    assert!(has(|c| matches!(c, RequestContext::SdBuffer([1, 0, ..]))));
    assert!(has(
        |c| matches!(c, RequestContext::EaBuffer(list) if list.windows(9).any(|w| w == b"SECONDEA\0"))
    ));
    let lease_key = *b"\x0d\xf0\xdd\xe0\xfe\x0f\xdc\xba\xf2\x0f\x22\x1f\x01\xf0\x23\x45";
    let lease = all.iter().find_map(|c| match c {
        RequestContext::Lease(lease) if lease.v2.is_none() && lease.key.0 == lease_key => Some(lease),
        _ => None,
    });
    assert_eq!(lease.unwrap().state, LeaseState::all() & LeaseState::from_bits_retain(7));
    assert_eq!(lease.unwrap().flags, LeaseFlags::empty());
    assert!(has(
        |c| matches!(c, RequestContext::Lease(lease) if lease.v2.is_some_and(|v2| v2.epoch == 18193))
    ));
}

#[test]
fn a_server_for_macos_tells_its_model() {
    let mac = |m: &[u8]| {
        !error::stands_in(m).unwrap()
            && create::Response::parse(m).unwrap().contexts.responses().any(|c| {
                matches!(
                    c,
                    Ok(ResponseContext::Aapl(aapl::Response::ServerQuery { model: Some(name), .. }))
                        if name == "MacSamba"
                )
            })
    };
    find(FrameSender::Server, SmbCommand::Create, mac);
}

#[test]
fn an_interface_list_names_the_loopback_address() {
    let output = |m: &[u8]| !error::stands_in(m).unwrap();
    let message = find(FrameSender::Server, SmbCommand::Ioctl, |m| {
        output(m) && ioctl::Response::parse(m).unwrap().ctl_code == ioctl::CtlCode::QueryNetworkInterfaceInfo
    });
    let response = ioctl::Response::parse(&message).unwrap();
    let list: Vec<_> = ioctl::interfaces::parse(response.output).collect::<Result<_, _>>().unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].address.to_string(), "127.0.0.1");
    assert_eq!(list[0].link_speed, 1_000_000_000);
    let mut again = Vec::new();
    ioctl::interfaces::write(&list, &mut again);
    assert_eq!(again, response.output);
}

#[test]
fn a_negotiation_is_validated() {
    let message = find(FrameSender::Client, SmbCommand::Ioctl, |m| {
        ioctl::Request::parse(m).unwrap().ctl_code == ioctl::CtlCode::ValidateNegotiateInfo
    });
    let input = ioctl::Request::parse(&message).unwrap().input;
    let info = ioctl::body::ValidateNegotiateInfoRequest::parse(input).unwrap();
    assert_eq!(info.dialects.iter().collect::<Vec<_>>(), [Dialect::Smb202]);
    let mut again = Vec::new();
    info.write(&mut again);
    assert_eq!(again, input);
}
