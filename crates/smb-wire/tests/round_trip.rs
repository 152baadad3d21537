//! Written messages can be read again, with any values in their fields.
//!
//! The captured messages show that the layouts are right. These tests show that no value of a field disturbs
//! its neighbours, that offsets follow lengths, and that earlier bytes in the buffer have no effect.

use proptest::collection::vec;
use proptest::prelude::*;
use smb_wire::create_context::{
    Contexts, DurableFlags, Lease, LeaseFlags, LeaseState, LeaseV2, RequestContext, ResponseContext, aapl,
};
use smb_wire::header::Flags;
use smb_wire::ioctl::body;
use smb_wire::lock::LockElement;
use smb_wire::negotiate::{
    Cipher, CompressionFlags, Context, Dialect, HashAlgorithm, SigningAlgorithm, TransportFlags,
};
use smb_wire::*;

/// Writes `value` behind a header, in a buffer that already holds other bytes, and reads it as `$type`.
macro_rules! round_trip {
    ($type:ty, $value:expr $(, $more:expr)*) => {{
        let value = $value;
        let mut out = vec![0xaa; 3];
        Header::request(SmbCommand::Echo, 0).push(&mut out);
        value.write(&mut out);
        let read = <$type>::parse(&out[3..] $(, $more)*);
        prop_assert_eq!(read, Ok(value));
        prop_assert_eq!(&out[..3], [0xaa; 3]);
    }};
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..60)
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    ".{0,20}".prop_map(|text| utf16::encode(&text))
}

fn file_id() -> impl Strategy<Value = FileId> {
    any::<(u64, u64)>().prop_map(|(persistent, volatile)| FileId { persistent, volatile })
}

fn guid() -> impl Strategy<Value = Guid> {
    any::<[u8; 16]>().prop_map(Guid)
}

fn file_info() -> impl Strategy<Value = create::FileInfo> {
    any::<([u64; 6], u32)>().prop_map(|(n, file_attributes)| create::FileInfo {
        creation_time: n[0],
        last_access_time: n[1],
        last_write_time: n[2],
        change_time: n[3],
        allocation_size: n[4],
        end_of_file: n[5],
        file_attributes,
    })
}

fn lease() -> impl Strategy<Value = Lease> {
    let v2 = any::<Option<([u8; 16], u16)>>();
    (any::<[u8; 16]>(), any::<u32>(), any::<u32>(), v2).prop_map(|(key, state, flags, v2)| Lease {
        key: LeaseKey(key),
        state: LeaseState::from_bits_retain(state),
        flags: LeaseFlags::from_bits_retain(flags),
        v2: v2.map(|(parent, epoch)| LeaseV2 { parent_key: LeaseKey(parent), epoch }),
    })
}

/// A context that holds no borrowed bytes.
fn request_context() -> impl Strategy<Value = RequestContext<'static>> {
    prop_oneof![
        Just(RequestContext::DurableHandleRequest),
        file_id().prop_map(RequestContext::DurableHandleReconnect),
        any::<u64>().prop_map(RequestContext::AllocationSize),
        any::<Option<u64>>().prop_map(RequestContext::QueryMaximalAccess),
        any::<u64>().prop_map(RequestContext::TimewarpToken),
        Just(RequestContext::QueryOnDiskId),
        lease().prop_map(RequestContext::Lease),
        (any::<u32>(), any::<u32>(), guid()).prop_map(|(timeout, flags, create_guid)| {
            let flags = DurableFlags::from_bits_retain(flags);
            RequestContext::DurableHandleRequestV2 { timeout, flags, create_guid }
        }),
        (file_id(), guid(), any::<u32>()).prop_map(|(file_id, create_guid, flags)| {
            let flags = DurableFlags::from_bits_retain(flags);
            RequestContext::DurableHandleReconnectV2 { file_id, create_guid, flags }
        }),
        guid().prop_map(RequestContext::AppInstanceId),
        any::<(u64, u64)>().prop_map(|(high, low)| RequestContext::AppInstanceVersion { high, low }),
        any::<u32>().prop_map(|mode| RequestContext::Posix { mode }),
        any::<u64>().prop_map(|file_id| RequestContext::Aapl(aapl::Request::ResolveId { file_id })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn header_fields_do_not_touch_each_other(
        command in any::<u16>(), message_id in any::<u64>(), session_id in any::<u64>(),
        async_id in any::<u64>(), tree_id in any::<u32>(), process_id in any::<u32>(),
        numbers in any::<[u16; 3]>(), next in any::<u32>(), status in any::<u32>(),
        signature in any::<[u8; 16]>(),
    ) {
        let mut header = Header::request(command.into(), message_id);
        header.set_session_id(session_id);
        header.set_credit_charge(numbers[0]);
        header.set_credits(numbers[1]);
        header.set_next_command(next);
        header.set_status(NtStatus(status));
        header.set_signature(signature);
        header.set_process_id(process_id);
        header.set_tree_id(tree_id);
        let mut buffer = [0; header::SIZE];
        header.write(&mut buffer);
        let read = Header::parse(&buffer).unwrap();
        prop_assert_eq!(read.command().get(), command);
        prop_assert_eq!((read.message_id(), read.session_id()), (message_id, session_id));
        prop_assert_eq!((read.credit_charge(), read.credits()), (numbers[0], numbers[1]));
        prop_assert_eq!(read.next_command(), next);
        prop_assert_eq!((read.tree_id(), read.process_id(), read.is_async()), (tree_id, process_id, false));
        prop_assert_eq!((read.status(), read.signature()), (NtStatus(status), &signature));
        prop_assert_eq!(read.channel_sequence(), status as u16);

        let header = Header::parse_mut(&mut buffer).unwrap();
        header.set_async_id(async_id);
        header.set_channel_sequence(numbers[2]);
        prop_assert!(header.is_async());
        prop_assert_eq!((header.async_id(), header.message_id()), (async_id, message_id));
        prop_assert_eq!(header.status(), NtStatus(u32::from(numbers[2])));
        let response = Header::response_to(header, NtStatus::PENDING);
        prop_assert!(response.is_response() && !response.is_signed());
        prop_assert!(!response.flags().contains(Flags::ASYNC_COMMAND));
        prop_assert_eq!((response.message_id(), response.session_id()), (message_id, session_id));
    }

    #[test]
    fn negotiate(
        dialects in vec(any::<u16>().prop_map(Dialect::new), 1..8), with_311 in any::<bool>(), guid in guid(),
        salt in bytes(), netname in name(), token in bytes(), numbers in any::<[u32; 4]>(),
        times in any::<[u64; 2]>(), mode in any::<u16>(), unknown in bytes(),
    ) {
        let mut dialects = dialects;
        dialects.retain(|d| *d != Dialect::Smb311);
        dialects.push(if with_311 { Dialect::Smb311 } else { Dialect::Smb302 });
        let contexts = [
            Context::PreauthIntegrity {
                hash_algorithms: WireList::Values(&[HashAlgorithm::Sha512]),
                salt: &salt,
            },
            Context::Encryption(WireList::Values(&[Cipher::Aes256Gcm, Cipher::Unknown(0x77)])),
            Context::Netname(Utf16::new(&netname).unwrap()),
            Context::Unknown { context_type: 0x4321, data: &unknown },
            Context::Compression {
                flags: CompressionFlags::CHAINED,
                algorithms: WireList::Values(&[4.into()]),
            },
            Context::RdmaTransform(WireList::Values(&[1.into(), 2.into()])),
            Context::Transport(TransportFlags::ACCEPT_TRANSPORT_LEVEL_SECURITY),
            Context::Signing(WireList::Values(&[SigningAlgorithm::AesGmac])),
            Context::Posix(&negotiate::context::POSIX_GUID),
        ];
        let used = if with_311 { &contexts[..] } else { &[] };
        let security_mode = negotiate::SecurityMode::from_bits_retain(mode);
        let capabilities = negotiate::Capabilities::from_bits_retain(numbers[0]);
        round_trip!(negotiate::Request<'_>, negotiate::Request {
            security_mode,
            capabilities,
            client_guid: guid,
            dialects: WireList::Values(&dialects),
            contexts: negotiate::Contexts::Values(used),
        });
        round_trip!(negotiate::Response<'_>, negotiate::Response {
            security_mode,
            dialect_revision: *dialects.last().unwrap(),
            server_guid: guid,
            capabilities,
            max_transact_size: numbers[1],
            max_read_size: numbers[2],
            max_write_size: numbers[3],
            system_time: times[0],
            server_start_time: times[1],
            security_buffer: &token,
            contexts: negotiate::Contexts::Values(used),
        });
    }

    #[test]
    fn session_setup_and_tree_connect(
        flags in any::<u8>(), mode in any::<u8>(), numbers in any::<[u32; 3]>(), previous in any::<u64>(),
        token in bytes(), path in name(), share_type in any::<u8>(), identity in bytes(),
        extended in any::<bool>(),
    ) {
        round_trip!(session_setup::Request<'_>, session_setup::Request {
            flags: session_setup::RequestFlags::from_bits_retain(flags),
            security_mode: negotiate::SecurityMode::from_bits_retain(mode.into()),
            capabilities: negotiate::Capabilities::from_bits_retain(numbers[0]),
            previous_session_id: previous,
            security_buffer: &token,
        });
        round_trip!(session_setup::Response<'_>, session_setup::Response {
            session_flags: session_setup::SessionFlags::from_bits_retain(numbers[1] as u16),
            security_buffer: &token,
        });
        let mut context = vec![1, 0, identity.len() as u8, 0, 0, 0, 0, 0];
        context.extend(&identity);
        let request = tree_connect::Request {
            flags: match extended {
                true => tree_connect::RequestFlags::EXTENSION_PRESENT,
                false => tree_connect::RequestFlags::empty(),
            },
            path: Utf16::new(&path).unwrap(),
            contexts: if extended {
                tree_connect::Contexts { bytes: &context, count: 1 }
            } else {
                tree_connect::Contexts::EMPTY
            },
        };
        round_trip!(tree_connect::Request<'_>, request, true);
        if extended {
            let found: Vec<_> = request.contexts.iter().collect();
            prop_assert_eq!(found, [Ok((tree_connect::REMOTED_IDENTITY, &identity[..]))]);
        }
        round_trip!(tree_connect::Response, tree_connect::Response {
            share_type: share_type.into(),
            share_flags: tree_connect::ShareFlags::from_bits_retain(numbers[0]),
            capabilities: tree_connect::ShareCapabilities::from_bits_retain(numbers[1]),
            maximal_access: create::Access::from_bits_retain(numbers[2]),
        });
    }

    #[test]
    fn create_with_any_contexts(
        oplock in any::<u8>(), n in any::<[u32; 6]>(), name in name(),
        contexts in vec(request_context(), 0..6), ea in bytes(), info in file_info(),
        file_id in file_id(), granted in lease(), flags in any::<u8>(),
    ) {
        let mut contexts = contexts;
        contexts.push(RequestContext::EaBuffer(&ea));
        contexts.push(RequestContext::Unknown(create_context::Raw { name: b"abcdefg", data: &ea }));
        let request = create::Request {
            requested_oplock_level: oplock.into(),
            impersonation_level: n[0].into(),
            desired_access: create::Access::from_bits_retain(n[1]),
            file_attributes: n[2],
            share_access: create::ShareAccess::from_bits_retain(n[3]),
            create_disposition: n[4].into(),
            create_options: create::CreateOptions::from_bits_retain(n[5]),
            name: Utf16::new(&name).unwrap(),
            contexts: Contexts::Requests(&contexts),
        };
        round_trip!(create::Request<'_>, request);
        let mut out = vec![0; header::SIZE];
        request.write(&mut out);
        let read = create::Request::parse(&out).unwrap().contexts.requests().collect::<Result<Vec<_>, _>>();
        prop_assert_eq!(read, Ok(contexts));

        let sid = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
        let answers = [
            ResponseContext::Lease(granted),
            ResponseContext::DurableHandle,
            ResponseContext::MaximalAccess {
                query_status: NtStatus(n[0]),
                access: create::Access::from_bits_retain(n[1]),
            },
            ResponseContext::OnDiskId { disk_file_id: info.change_time, volume_id: info.end_of_file },
            ResponseContext::DurableHandleV2 { timeout: n[2], flags: DurableFlags::PERSISTENT },
            ResponseContext::Posix(posix::CreateResponse {
                nlink: n[3],
                reparse_tag: n[4],
                mode: n[5],
                owner: &sid,
                group: &sid,
            }),
        ];
        let response = create::Response {
            oplock_level: oplock.into(),
            flags: create::ResponseFlags::from_bits_retain(flags),
            create_action: n[0].into(),
            info,
            file_id,
            contexts: Contexts::Responses(&answers),
        };
        round_trip!(create::Response<'_>, response);
        let mut out = vec![0; header::SIZE];
        response.write(&mut out);
        let read = create::Response::parse(&out).unwrap().contexts.responses().collect::<Result<Vec<_>, _>>();
        prop_assert_eq!(read, Ok(answers.to_vec()));
    }

    #[test]
    fn read_write_close_flush(
        file_id in file_id(), n in any::<[u32; 4]>(), offset in any::<u64>(), small in any::<[u8; 2]>(),
        data in bytes(), channel_info in vec(any::<u8>(), 1..20), rdma in any::<bool>(), info in file_info(),
        reserved1 in any::<u16>(),
    ) {
        let channel = if rdma { read::Channel::RdmaV1 } else { read::Channel::None };
        let channel_info = if rdma { &channel_info[..] } else { &[] };
        round_trip!(read::Request<'_>, read::Request {
            padding: small[0],
            flags: read::RequestFlags::from_bits_retain(small[1]),
            length: n[0],
            offset,
            file_id,
            minimum_count: n[1],
            channel,
            remaining_bytes: n[2],
            channel_info,
        });
        round_trip!(read::Response<'_>, read::Response { data_remaining: n[0], flags: n[1], data: &data });
        round_trip!(write::Request<'_>, write::Request {
            offset,
            file_id,
            channel,
            remaining_bytes: n[2],
            channel_info,
            flags: write::WriteFlags::from_bits_retain(n[3]),
            data: &data,
        });
        round_trip!(write::Response, write::Response { count: n[0] });
        let flags = close::CloseFlags::from_bits_retain(reserved1);
        round_trip!(close::Request, close::Request { flags, file_id });
        round_trip!(close::Response, close::Response { info: Some(info) });
        round_trip!(close::Response, close::Response { info: None });
        round_trip!(flush::Request, flush::Request { reserved1, file_id });
    }

    #[test]
    fn a_read_response_is_filled_in_around_its_data(data in bytes()) {
        let mut frame = vec![0; header::SIZE + read::RESPONSE_FIXED];
        frame.extend(&data);
        let buffer = frame[header::SIZE..].first_chunk_mut().unwrap();
        read::Response::write_fixed(buffer, data.len() as u32);
        let plain = read::Response { data_remaining: 0, flags: 0, data: &data };
        prop_assert_eq!(read::Response::parse(&frame), Ok(plain));
        let mut copied = vec![0; header::SIZE];
        plain.write(&mut copied);
        prop_assert_eq!(copied, frame);
    }

    #[test]
    fn data_and_output_are_found_behind_padding(data in bytes(), padding in 0u8..=64) {
        let mut frame = vec![0; header::SIZE + read::RESPONSE_FIXED + usize::from(padding)];
        frame.extend(&data);
        let buffer = frame[header::SIZE..].first_chunk_mut().unwrap();
        read::Response::write_fixed_padded(buffer, data.len() as u32, padding);
        prop_assert_eq!(read::Response::parse(&frame).unwrap().data, &data);
        let (ctl_code, file_id) = (ioctl::CtlCode::GetCompression, smb_wire::FileId::RELATED);
        let answer = ioctl::Response { ctl_code, file_id, input: &[], output: &data };
        let (mut padded, mut plain) = (vec![0; header::SIZE], vec![0; header::SIZE]);
        answer.write_padded(padding.into(), &mut padded);
        answer.write(&mut plain);
        prop_assert_eq!(padded.len(), plain.len() + usize::from(padding));
        prop_assert_eq!(ioctl::Response::parse(&padded), Ok(answer));
    }

    #[test]
    fn locks_and_breaks(
        file_id in file_id(), index in 0u32..1 << 28, number in 0u8..16, key in any::<[u8; 16]>(),
        locks in vec(any::<(u64, u64, u32)>(), 1..5), n in any::<[u32; 3]>(), epoch in any::<u16>(),
        level in any::<u8>(),
    ) {
        let locks: Vec<_> = locks
            .into_iter()
            .map(|(offset, length, flags)| (offset, length, lock::LockFlags::from_bits_retain(flags)))
            .map(|(offset, length, flags)| LockElement { offset, length, flags })
            .collect();
        round_trip!(lock::Request<'_>, lock::Request {
            lock_sequence_number: number,
            lock_sequence_index: index,
            file_id,
            locks: WireList::Values(&locks),
        });
        let oplock = oplock_break::Oplock { oplock_level: level.into(), file_id };
        let state = LeaseState::from_bits_retain(n[0]);
        let lease = oplock_break::AcknowledgedLease { key: LeaseKey(key), state };
        round_trip!(oplock_break::Notification, oplock_break::Notification::Oplock(oplock));
        round_trip!(oplock_break::Notification, oplock_break::Notification::Lease {
            new_epoch: epoch,
            flags: oplock_break::NotificationFlags::from_bits_retain(n[1]),
            key: LeaseKey(key),
            current_state: state,
            new_state: LeaseState::from_bits_retain(n[2]),
        });
        let notification_type = n[0].into();
        round_trip!(notification::Notification, notification::Notification { notification_type });
        round_trip!(oplock_break::Request, oplock_break::Request::Oplock(oplock));
        round_trip!(oplock_break::Request, oplock_break::Request::Lease(lease));
        round_trip!(oplock_break::Response, oplock_break::Response::Oplock(oplock));
        round_trip!(oplock_break::Response, oplock_break::Response::Lease(lease));
    }

    #[test]
    fn queries(
        file_id in file_id(), n in any::<[u32; 4]>(), small in any::<[u8; 3]>(), data in bytes(),
        name in name(), word in any::<u16>(),
    ) {
        round_trip!(query_directory::Request<'_>, query_directory::Request {
            file_information_class: small[0],
            flags: query_directory::QueryDirectoryFlags::from_bits_retain(small[1]),
            file_index: n[0],
            file_id,
            file_name: Utf16::new(&name).unwrap(),
            output_buffer_length: n[1],
        });
        round_trip!(output::Response<'_>, output::Response { output_buffer: &data });
        round_trip!(change_notify::Request, change_notify::Request {
            flags: change_notify::ChangeNotifyFlags::from_bits_retain(word),
            output_buffer_length: n[0],
            file_id,
            completion_filter: change_notify::CompletionFilter::from_bits_retain(n[1]),
        });
        round_trip!(query_info::Request<'_>, query_info::Request {
            info_type: small[0].into(),
            file_info_class: small[1],
            output_buffer_length: n[0],
            additional_information: n[1],
            flags: query_info::QueryInfoFlags::from_bits_retain(n[2]),
            file_id,
            input_buffer: &data,
        });
        round_trip!(set_info::Request<'_>, set_info::Request {
            info_type: small[0].into(),
            file_info_class: small[1],
            additional_information: n[3],
            file_id,
            buffer: &data,
        });
    }

    #[test]
    fn control_codes(
        file_id in file_id(), n in any::<[u32; 5]>(), input in bytes(), output in bytes(),
        key in any::<[u8; 24]>(), chunks in vec(any::<(u64, u64, u32)>(), 0..4), guid in guid(),
    ) {
        round_trip!(ioctl::Request<'_>, ioctl::Request {
            ctl_code: n[0].into(),
            file_id,
            max_input_response: n[1],
            max_output_response: n[2],
            flags: ioctl::IoctlFlags::from_bits_retain(n[3]),
            input: &input,
            output_count: n[4],
        });
        round_trip!(ioctl::Response<'_>, ioctl::Response {
            ctl_code: n[0].into(),
            file_id,
            input: &input,
            output: &output,
        });
        let chunks: Vec<_> = chunks
            .into_iter()
            .map(|(source_offset, target_offset, length)| {
                body::SrvCopychunk { source_offset, target_offset, length }
            })
            .collect();
        let copy = body::SrvCopychunkCopy { source_key: key, chunks: WireList::Values(&chunks) };
        let mut out = Vec::new();
        copy.write(&mut out);
        prop_assert_eq!(out.len(), 32 + 24 * chunks.len());
        prop_assert_eq!(body::SrvCopychunkCopy::parse(&out), Ok(copy));
        let validated = body::ValidateNegotiateInfoResponse {
            capabilities: negotiate::Capabilities::from_bits_retain(n[0]),
            guid,
            security_mode: negotiate::SecurityMode::from_bits_retain(n[1] as u16),
            dialect: (n[2] as u16).into(),
        };
        let mut out = Vec::new();
        validated.write(&mut out);
        prop_assert_eq!(body::ValidateNegotiateInfoResponse::parse(&out), Ok(validated));
    }

    #[test]
    fn posix_structures(
        n in any::<[u64; 7]>(), small in any::<[u32; 5]>(), name in name(), count in 0u8..=15,
    ) {
        let mut owner = vec![1, count, 0, 0, 0, 0, 0, 5];
        owner.extend(std::iter::repeat_n(7, 4 * usize::from(count)));
        let group = [1, 0, 0, 0, 0, 0, 0, 1];
        let info = posix::FileInfo {
            creation_time: n[0],
            last_access_time: n[1],
            last_write_time: n[2],
            change_time: n[3],
            end_of_file: n[4],
            allocation_size: n[5],
            dos_attributes: small[0],
            inode: n[6],
            device_id: small[1],
            posix: posix::CreateResponse {
                nlink: small[2],
                reparse_tag: small[3],
                mode: small[4],
                owner: &owner,
                group: &group,
            },
        };
        let mut out = Vec::new();
        info.write(&mut out);
        prop_assert_eq!(out.len(), 68 + 12 + owner.len() + group.len());
        prop_assert_eq!(posix::FileInfo::parse(&out), Ok(info));
        let entry = posix::DirectoryEntry { info, name: Utf16::new(&name).unwrap() };
        let mut out = Vec::new();
        entry.write(&mut out);
        prop_assert_eq!(posix::DirectoryEntry::parse(&out), Ok(entry));
        let cut = &out[..out.len() - name.len().min(1)];
        prop_assert!(posix::DirectoryEntry::parse(cut).is_ok() == name.is_empty());
    }

    #[test]
    fn errors(
        unparsed in any::<u16>(), substitute in name(), print in name(), is_relative in any::<bool>(),
        is_311 in any::<bool>(),
    ) {
        let link = error::SymbolicLink {
            unparsed_path_length: unparsed,
            substitute_name: Utf16::new(&substitute).unwrap(),
            print_name: Utf16::new(&print).unwrap(),
            is_relative,
        };
        let mut out = Vec::new();
        Header::request(SmbCommand::Create, 1).push(&mut out);
        error::Response::symbolic_link(&mut out, is_311, &link);
        let response = error::Response::parse(&out).unwrap();
        prop_assert_eq!(response.error_context_count, u8::from(is_311));
        let errors: Vec<_> = response.errors().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(errors.len(), 1);
        prop_assert_eq!(error::SymbolicLink::parse(errors[0].1), Ok(link));
    }
}
