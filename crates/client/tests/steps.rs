//! A server hangs in one step on the way to a share, while its host accepts every byte and it still answers
//! that it is alive. The error names the step.

mod support {
    pub mod peer;
}

use std::net::SocketAddr;
use std::time::Duration;

use client::Error;
use client::smb::{Connection, Credentials, Options, Session, Tree};
use smb_wire::{Header, SmbCommand};
use support::peer::{ChannelPeer, Server};
use testkit::samba::USER;

/// The time limit of a step here.
const TIME: Duration = Duration::from_millis(400);

/// Goes the whole way to a share. A server that is silent for `silence` is lost, and is asked before.
async fn connect(address: SocketAddr, silence: Duration) -> client::Result<Tree> {
    let options = Options { connect_timeout: TIME, silence, ..Options::default() };
    let connection = Connection::connect(address, "peer", &options).await?;
    let session = Session::log_on(&connection, &Credentials::new(USER.0, USER.1), false).await?;
    session.connect("files").await
}

/// Answers every ECHO, and nothing else. Returns the other requests.
async fn hang(mut peer: ChannelPeer) -> Vec<SmbCommand> {
    let mut asked = Vec::new();
    while let Some(message) = peer.next_if_any().await {
        match Header::parse(&message).unwrap().command() {
            SmbCommand::Echo => peer.echo(&message).await,
            command => asked.push(command),
        }
    }
    asked
}

/// Connects the client to a server that hangs after so many steps.
async fn hanging_after(steps: usize) -> (Error, Vec<SmbCommand>) {
    let mut server = Server::start().await;
    let address = server.address;
    let playing = async {
        let mut peer = if steps == 0 { server.accept_silently().await } else { server.accept().await };
        if steps == 2 {
            server.log_on(&mut peer).await;
        }
        hang(peer).await
    };
    // Before its first answer there is no credit to ask with.
    let silence = if steps == 0 { 2 * TIME } else { TIME / 2 };
    // Its connection ends when nobody holds it any more.
    let connecting = async { connect(address, silence).await.map(drop).unwrap_err() };
    let both = async { tokio::join!(connecting, playing) };
    tokio::time::timeout(Duration::from_secs(20), both).await.expect("an end")
}

#[tokio::test]
async fn a_step_that_is_not_answered_is_named_although_the_server_is_there() {
    let steps = [
        ("NEGOTIATE", SmbCommand::Negotiate),
        ("SESSION_SETUP", SmbCommand::SessionSetup),
        ("TREE_CONNECT", SmbCommand::TreeConnect),
    ];
    for (done, (name, command)) in steps.into_iter().enumerate() {
        let (error, asked) = hanging_after(done).await;
        assert!(matches!(error, Error::Late { step, after } if (step, after) == (name, TIME)), "{error}");
        assert!(error.is_loss() && error.to_string().contains("look there for the cause"), "{error}");
        assert_eq!(asked.first(), Some(&command));
    }
}
