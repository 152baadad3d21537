//! The information that a client gets about further channels: whether NEGOTIATE offers any, their addresses,
//! and the limit of its account.

use std::sync::atomic::Ordering;

use smb::AccountConfig;
use smb::account::ShareEndpoint;
use smb::interfaces::NetworkAddress;
use smb_wire::ioctl::{self, CtlCode, interfaces};
use smb_wire::negotiate::{Capabilities, Dialect};
use smb_wire::session_setup::{self, RequestFlags};
use smb_wire::{FileId, NtStatus, SmbCommand, negotiate};
use testkit::smb::{Dial, Peer, SHARE, SmbTestServer};

/// The address of a connection, and two more.
fn addresses() -> Vec<NetworkAddress> {
    let at = |if_index, address: &str, offered| NetworkAddress {
        if_index,
        address: address.parse().unwrap(),
        link_speed_bps: Some(10_000_000_000),
        rss: true,
        offered,
    };
    vec![at(1, "127.0.0.1", false), at(2, "192.0.2.1", true), at(3, "2001:db8::1", true)]
}

fn account(name: &str, users: &[&str], most: Option<usize>) -> AccountConfig {
    AccountConfig {
        name: name.into(),
        users: users.iter().map(|user| (*user).into()).collect(),
        multichannel: most.is_some(),
        max_channels: most.unwrap_or(1),
        ..AccountConfig::default()
    }
}

fn told(world: &SmbTestServer, dial: &Dial) -> bool {
    let answer = world.peer().negotiate(dial);
    let chosen = negotiate::Response::parse(&answer.message).expect("a NEGOTIATE response");
    chosen.capabilities.contains(Capabilities::MULTI_CHANNEL)
}

/// Queries the server's other addresses, with space for `limit` bytes.
fn ask(client: &mut Peer, limit: u32) -> Result<Vec<(u32, String)>, NtStatus> {
    let asked = ioctl::Request::fsctl(CtlCode::QueryNetworkInterfaceInfo, FileId::RELATED, &[], limit);
    let answer = client.call(SmbCommand::Ioctl, |out| asked.write(out));
    if answer.status() != NtStatus::SUCCESS {
        return Err(answer.status());
    }
    let response = ioctl::Response::parse(&answer.message).expect("an IOCTL response");
    assert_eq!(response.file_id, FileId::RELATED);
    let list = interfaces::parse(response.output).map(|entry| entry.expect("a whole entry"));
    Ok(list.map(|entry| (entry.if_index, entry.address.to_string())).collect())
}

// MS-SMB2 3.3.5.4
#[test]
fn several_channels_are_offered_to_who_announces_them_where_somebody_may_have_them() {
    let world = SmbTestServer::in_memory();
    assert!(told(&world, &Dial::default()) && told(&world, &Dial::with(Dialect::Smb300)));
    assert!(!told(&world, &Dial::with(Dialect::Smb210)));
    assert!(!told(&world, &Dial { announces_multichannel: false, ..Dial::default() }));
    world.configure_server(|config| config.multichannel = false);
    assert!(!told(&world, &Dial::default()));
    world.configure_server(|config| {
        config.multichannel = false;
        config.accounts = vec![account("team", &["anna"], Some(8)), account("lab", &["ben"], None)];
    });
    let by = |name: &str| Dial { server_name: Some(name.into()), ..Dial::default() };
    assert!(told(&world, &Dial::default()) && told(&world, &by("192.0.2.1")));
    assert!(told(&world, &by("TEAM.example.net")) && !told(&world, &by("lab.example.net")));
}

// MS-SMB2 3.3.5.2.11
#[test]
fn who_asks_under_a_tree_that_is_none_is_told_so() {
    let world = SmbTestServer::in_memory();
    world.server.set_interfaces(addresses());
    let mut client = world.client();
    client.tree_id ^= 0x1000;
    assert_eq!(ask(&mut client, 65536), Err(NtStatus::NETWORK_NAME_DELETED));
}

// MS-SMB2 3.3.5.15.11
#[test]
fn a_client_is_told_its_own_address_and_the_offered_ones() {
    let world = SmbTestServer::in_memory();
    world.server.set_interfaces(addresses());
    let mut client = world.client();
    let session = world.server.sessions().remove(0);
    assert!(!session.asked_interfaces.load(Ordering::Relaxed));
    let list = [(1, "127.0.0.1"), (2, "192.0.2.1"), (3, "2001:db8::1")].map(|(at, ip)| (at, ip.into()));
    assert_eq!(ask(&mut client, 64 * 1024), Ok(list.to_vec()));
    assert!(session.asked_interfaces.load(Ordering::Relaxed));
    let size = 3 * interfaces::SIZE as u32;
    assert_eq!(ask(&mut client, size), Ok(list.to_vec()));
    assert_eq!(ask(&mut client, size - 1), Err(NtStatus::BUFFER_TOO_SMALL));
    // A change of the addresses shows in the next query.
    world.server.set_interfaces(addresses()[..1].to_vec());
    assert_eq!(ask(&mut client, 64 * 1024), Ok(list[..1].to_vec()));
}

// MS-SMB2 3.3.5.15.11
#[test]
fn a_client_is_told_of_addresses_of_its_own_endpoint_alone() {
    let world = SmbTestServer::in_memory();
    world.server.set_interfaces(addresses());
    let own = |share: &str, addresses: &[&str]| ShareEndpoint {
        share: share.into(),
        account: None,
        addresses: addresses.iter().map(|address| address.parse().expect("an address")).collect(),
    };
    let told = |endpoints: Vec<ShareEndpoint>| {
        world.configure_server(|config| config.share_endpoints = endpoints);
        ask(&mut world.client(), 64 * 1024)
    };
    let list = [(1, "127.0.0.1"), (2, "192.0.2.1"), (3, "2001:db8::1")].map(|(at, ip)| (at, ip.into()));
    assert_eq!(told(vec![own(SHARE, &["127.0.0.1", "192.0.2.1"])]), Ok(list[..2].to_vec()));
    assert_eq!(told(vec![own("other", &["192.0.2.1"])]), Ok(vec![list[0].clone(), list[2].clone()]));
}

// MS-SMB2 3.3.5.15.11
#[test]
fn a_client_that_cannot_have_several_channels_is_told_of_none() {
    let world = SmbTestServer::in_memory();
    world.server.set_interfaces(addresses());
    let refused = Err(NtStatus::NOT_SUPPORTED);
    assert_eq!(ask(&mut world.dial(&Dial::with(Dialect::Smb210)), 64 * 1024), refused);
    let silent = Dial { announces_multichannel: false, ..Dial::default() };
    assert_eq!(ask(&mut world.dial(&silent), 64 * 1024), refused);
    world.configure_server(|config| config.accounts = vec![account("team", &["anna"], None)]);
    // NEGOTIATE did not know the user.
    assert!(told(&world, &Dial::default()));
    assert_eq!(ask(&mut world.client(), 64 * 1024), refused);
}

// MS-SMB2 3.3.5.5
#[test]
fn the_account_of_the_session_decides_over_its_channels() {
    let world = SmbTestServer::in_memory();
    let rule = |world: &SmbTestServer| {
        let mut client = world.peer();
        client.log_on(&Dial::default());
        client.connect_tree(SHARE);
        let session = world.server.session(client.session_id).expect("it is there");
        let rule = session.channel_rule().cloned().expect("its user is proved");
        // It is unsigned, and that is the next check to fail.
        let mut other = world.peer();
        other.negotiate(&Dial::default());
        other.session_id = session.id;
        let status = other.status(SmbCommand::SessionSetup, |out| {
            session_setup::Request {
                flags: RequestFlags::BINDING,
                security_mode: negotiate::SecurityMode::SIGNING_ENABLED,
                capabilities: Capabilities::empty(),
                previous_session_id: 0,
                security_buffer: &[],
            }
            .write(out);
        });
        (rule.accounts.join(","), rule.most(), status)
    };
    assert_eq!(rule(&world), (String::new(), 4, NtStatus::INVALID_PARAMETER));
    world.configure_server(|config| config.accounts = vec![account("team", &["anna"], Some(8))]);
    assert_eq!(rule(&world), ("team".into(), 8, NtStatus::INVALID_PARAMETER));
    world.configure_server(|config| config.accounts = vec![account("team", &["anna"], None)]);
    assert_eq!(rule(&world), ("team".into(), 1, NtStatus::REQUEST_NOT_ACCEPTED));
}

#[test]
fn what_a_connection_has_done_is_counted() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let handle = world.server.connections().remove(0);
    let before = handle.counters.read();
    // NEGOTIATE, two SESSION_SETUPs and TREE_CONNECT.
    assert_eq!(before.requests, 4);
    assert!(handle.announced_multichannel.load(Ordering::Relaxed));
    client.make("hello", &[7; 5000]);
    let id = client.open("hello");
    assert_eq!(client.read(id, 0, 5000).data().len(), 5000);
    let after = handle.counters.read();
    assert!(after.requests >= before.requests + 4);
    let (received, sent) = (after.bytes_in - before.bytes_in, after.bytes_out - before.bytes_out);
    assert!((5000..7000).contains(&received) && (5000..7000).contains(&sent), "{received} {sent}");
}
