//! No bytes make a parser panic, and no offset leads out of its message.

mod support;

use proptest::prelude::*;
use smb_wire::header;
use smb_wire::*;
use support::{captured, captured_messages, parse_buffers, parse_everything};

/// The structure sizes of all bodies, so that arbitrary bytes get past the first check.
const SIZES: [u16; 22] = [2, 4, 8, 9, 16, 17, 24, 25, 32, 33, 36, 40, 41, 44, 48, 49, 57, 60, 65, 89, 20, 0];

/// A header and a body of arbitrary bytes, in which numbers are mostly small: they are then offsets and
/// lengths near the message's end, where mistakes are.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => Just(0u8), 3 => 0u8..=160, 1 => any::<u8>()];
    let body = proptest::collection::vec(byte, 0..200);
    (proptest::sample::select(&SIZES[..]), body).prop_map(|(size, body)| {
        let mut message = Vec::new();
        Header::request(SmbCommand::Create, 1).push(&mut message);
        message.extend(size.to_le_bytes());
        message.extend(body);
        message
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn arbitrary_bodies(message in message()) {
        parse_everything(&message);
    }

    #[test]
    fn arbitrary_bytes(data in proptest::collection::vec(any::<u8>(), 0..300)) {
        parse_everything(&data);
        parse_buffers(&data);
    }

    #[test]
    fn small_numbers(data in proptest::collection::vec(0u8..40, 0..120)) {
        parse_buffers(&data);
    }
}

#[test]
fn captured_messages_cut_short_anywhere() {
    for (_, message) in captured_messages() {
        for end in 0..message.len() {
            parse_everything(&message[..end]);
        }
    }
}

#[test]
fn captured_messages_with_one_byte_changed() {
    for (_, mut message) in captured_messages() {
        for at in header::SIZE..message.len().min(header::SIZE + 128) {
            let was = message[at];
            for now in [0x00, 0x01, 0x7f, 0xff, was.wrapping_add(1), was ^ 0x80] {
                message[at] = now;
                parse_everything(&message);
            }
            message[at] = was;
        }
    }
}

#[test]
fn captured_frames_with_any_next_command() {
    for (_, mut frame) in captured() {
        if frame.len() < header::SIZE {
            continue;
        }
        for next in (0..frame.len() as u32 + 16).chain([u32::MAX, u32::MAX - 7, 0x8000_0000]) {
            frame[20..24].copy_from_slice(&next.to_le_bytes());
            let total: usize = header::Chain::new(&frame).flatten().map(|(_, message)| message.len()).sum();
            assert!(total <= frame.len());
        }
    }
}
