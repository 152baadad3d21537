//! Several channels to a running server: the effects of losing channels, of killing the server
//! ([`persistent`]), and of few credits ([`credits`]).

mod credits;
mod persistent;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use client::Error;
use client::smb::{ChannelOptions, Options};
use smb_wire::NtStatus;
use smb_wire::negotiate::Dialect;
use testkit::channels;
use testkit::program::{ProgramDir, Server, own_ids};
use testkit::samba::USER;

/// A running server with the share `files`; killed when dropped.
struct MultichannelServer {
    server: Server,
    program: ProgramDir,
    address: SocketAddr,
}

impl MultichannelServer {
    /// Starts a server with `settings` for the server as a whole.
    fn start(settings: &str) -> MultichannelServer {
        MultichannelServer::start_with(settings, "")
    }

    /// Starts a server with `of_share` for the share.
    fn start_with(settings: &str, of_share: &str) -> MultichannelServer {
        MultichannelServer::start_at(Ipv4Addr::LOCALHOST.into(), settings, of_share)
    }

    /// Starts a server that listens on this address only.
    fn start_at(listen: IpAddr, settings: &str, of_share: &str) -> MultichannelServer {
        let program = ProgramDir::new();
        let password = program.write("password", USER.1);
        std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::create_dir(program.path().join("files")).unwrap();
        let config = format!(
            "[server]\nlisten = [\"{listen}\"]\nsmb_port = 0\ndiscovery = false\n{settings}\n\
             [[user]]\nname = \"{}\"\npassword_file = \"password\"\n{}\
             [share.files]\npath = \"files\"\nusers = {{ \"*\" = \"full\" }}\n{of_share}\n",
            USER.0,
            own_ids()
        );
        program.write("trunkline.toml", &config);
        let mut running =
            MultichannelServer { server: Server::start(&program), program, address: (listen, 0).into() };
        running.address.set_port(running.port());
        running
    }

    /// Stops the server, in order or by force, and starts it again.
    fn restart(&mut self, in_order: bool) {
        let signal = if in_order { "-TERM" } else { "-KILL" };
        self.server.signal(signal);
        self.begin_again(|| ());
    }

    /// Kills the server, runs `act` on its files, and starts it again.
    fn restart_after(&mut self, act: impl FnOnce()) {
        self.server.signal("-KILL");
        self.begin_again(act);
    }

    fn begin_again(&mut self, act: impl FnOnce()) {
        self.server.wait();
        act();
        self.server = Server::start(&self.program);
        self.address.set_port(self.port());
    }

    /// The port, from the line with the mount commands.
    fn port(&self) -> u16 {
        let text = std::fs::read_to_string(self.program.path().join("output")).unwrap();
        let port = text.split(" -p ").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        port.unwrap_or_else(|| panic!("no port in: {text}"))
    }

    fn files(&self) -> PathBuf {
        self.program.path().join("files")
    }
}

#[tokio::test]
async fn a_session_uses_four_channels_signed_and_sealed_in_every_dialect_that_has_them() {
    let server = MultichannelServer::start("");
    for dialect in [Dialect::Smb300, Dialect::Smb302, Dialect::Smb311] {
        for encrypt in [false, true] {
            let options = Options { dialects: vec![dialect], ..Options::default() };
            let name = format!("{dialect:?}-{encrypt}");
            channels::spread_over_four(server.address, &server.files(), &options, encrypt, &name).await;
        }
    }
}

#[tokio::test]
async fn a_session_uses_four_channels_over_ipv6() {
    let server = MultichannelServer::start_at(Ipv6Addr::LOCALHOST.into(), "", "");
    assert!(server.address.is_ipv6());
    for encrypt in [false, true] {
        let name = format!("ipv6-{encrypt}");
        channels::spread_over_four(server.address, &server.files(), &Options::default(), encrypt, &name)
            .await;
    }
}

#[tokio::test]
async fn no_byte_is_lost_with_a_channel() {
    let server = MultichannelServer::start("");
    channels::no_byte_is_lost(server.address, &server.files(), 24).await;
}

#[tokio::test]
async fn no_name_is_done_twice_when_a_channel_is_lost() {
    let server = MultichannelServer::start("");
    channels::no_name_is_done_twice(server.address, &server.files(), 48).await;
}

#[tokio::test]
async fn a_server_that_takes_no_more_channels_leaves_the_session_with_what_it_has() {
    let server = MultichannelServer::start("max_channels = 2");
    let (session, tree) = channels::log_on(server.address, &Options::default(), false).await;
    let opened = session.open_channels(&ChannelOptions::default()).await.unwrap();
    assert_eq!(opened.channels, 2);
    let status = opened.failure.and_then(|error| error.status());
    assert_eq!(status, Some(NtStatus::INSUFFICIENT_RESOURCES));
    assert!(tree.stat("").await.is_ok());

    let server = MultichannelServer::start("multichannel = false");
    let (session, tree) = channels::log_on(server.address, &Options::default(), false).await;
    let refused = session.open_channels(&ChannelOptions::default()).await.unwrap_err();
    assert!(matches!(refused, Error::NotOffered(_)), "{refused}");
    assert!(tree.stat("").await.is_ok());
}

#[tokio::test]
async fn channels_that_are_given_up_lose_nothing_and_can_be_had_again() {
    let server = MultichannelServer::start("");
    let (session, tree) = channels::log_on(server.address, &Options::default(), false).await;
    let all = ChannelOptions::default();
    assert_eq!(session.open_channels(&all).await.unwrap().channels, 4);
    let under_way: Vec<_> = (0..64)
        .map(|_| {
            let tree = tree.clone();
            tokio::spawn(async move { tree.stat("").await })
        })
        .collect();
    tokio::task::yield_now().await;
    session.narrow(1);
    for stat in under_way {
        stat.await.unwrap().unwrap();
    }
    assert_eq!((session.channels().len(), session.losses()), (1, 0));
    assert_eq!(session.open_channels(&all).await.unwrap().channels, 4);
    assert!(tree.stat("").await.is_ok());
}
