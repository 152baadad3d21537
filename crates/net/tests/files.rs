//! Replies that end with a piece of a file, over real sockets.

mod common;

use common::{Client, FileResidency, Tricks, ask, file_byte, record, start, workers};
use std::io::Write;

/// Asks for a piece of this many bytes.
fn request(held: FileResidency, len: usize) -> Vec<u8> {
    let mut body = vec![ask::FILE, held as u8];
    body.extend(u32::try_from(len).expect("small enough").to_be_bytes());
    record(&body)
}

fn expected(held: FileResidency, len: usize) -> Vec<u8> {
    let there = if matches!(held, FileResidency::Half) { len / 2 } else { len };
    let data = (0..len).map(|at| if at < there { file_byte(at) } else { 0 });
    std::iter::once(held as u8).chain(data).collect()
}

#[test]
fn pieces_of_files_come_whole_and_in_order_between_other_replies() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(1));
    let mut client = Client::connect(address);
    let mut batch = Vec::new();
    let lens = [1, 100, 4096, 70_000, 1 << 20];
    for len in lens {
        batch.extend(record(b"e-before"));
        batch.extend(request(FileResidency::Whole, len));
        batch.extend(request(FileResidency::Half, len));
    }
    client.0.write_all(&batch).expect("it takes them");
    for len in lens {
        assert_eq!(client.receive().expect("an echo"), b"e-before");
        assert!(client.receive().expect("a piece") == expected(FileResidency::Whole, len), "{len}");
        assert!(client.receive().expect("half a piece") == expected(FileResidency::Half, len), "{len}");
    }
    assert_eq!(server.totals().panics, 0);
}

#[test]
fn what_left_memory_while_the_client_was_slow_is_read_by_the_pool() {
    const LEN: usize = 6 << 20;
    let tricks = Tricks::new();
    let (_server, address) = start(&tricks, workers(1));
    let mut client = Client::connect(address);
    // More than a socket takes, so some of it has to wait.
    for held in [FileResidency::Fading, FileResidency::Whole, FileResidency::Fading, FileResidency::Half] {
        client.0.write_all(&request(held, LEN)).expect("it takes it");
    }
    client.send(b"e-behind");
    for held in [FileResidency::Fading, FileResidency::Whole, FileResidency::Fading, FileResidency::Half] {
        assert!(client.receive().expect("a piece") == expected(held, LEN));
    }
    assert_eq!(client.receive().expect("an echo"), b"e-behind");
}

#[test]
fn a_file_that_gives_nothing_costs_the_connection_and_nobody_else_anything() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(1));
    let mut other = Client::connect(address);
    let mut client = Client::connect(address);
    client.0.write_all(&request(FileResidency::Unreadable, 5000)).expect("it takes it");
    assert!(client.is_closed());
    assert_eq!(other.ask(b"e-still"), b"e-still");
    assert_eq!(server.totals().records, 2);
}
