//! `trunkline status channels` with a session that has several connections.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use client::smb::{ChannelOptions, Connection, Credentials, Options, Session};
use serde_json::Value;
use testkit::program::{PATIENCE, ProgramDir, Server, own_ids};

use crate::running::{json, start};

/// A server with these settings, and its address.
fn serve(settings: &str) -> (ProgramDir, Server, SocketAddr) {
    let program = ProgramDir::new();
    program.write("docs/file", "content");
    program.write("pw", "secret\n");
    let user = format!("[[user]]\nname = \"ann\"\npassword_file = \"pw\"\n{}", own_ids());
    let share = "[share.docs]\npath = \"docs\"\naccount = \"team\"\nusers.ann = \"write\"\n";
    program.write("t.toml", &format!("[server]\nname = \"files\"\n{settings}\n{user}{share}"));
    let running = start(&program, "--config t.toml --no-discovery");
    let listen = json(&program, "status --json")["server"]["listen"][0].as_str().unwrap().parse().unwrap();
    (program, running, listen)
}

/// Logs on. Also returns the stream of the first connection, so that a test can cut it.
pub async fn log_on(listen: SocketAddr) -> (Session, TcpStream) {
    let stream = TcpStream::connect(listen).unwrap();
    let knife = stream.try_clone().unwrap();
    stream.set_nonblocking(true).unwrap();
    let stream = tokio::net::TcpStream::from_std(stream).unwrap();
    let connection = Connection::over(stream, "files", &Options::default()).await.unwrap();
    let session = Session::log_on(&connection, &Credentials::new("ann", "secret"), false).await.unwrap();
    (session, knife)
}

/// The only session, once `wanted` holds for it.
pub fn shown(program: &ProgramDir, wanted: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let page = json(program, "status channels --json");
        if wanted(&page["sessions"][0]) {
            return page["sessions"][0].clone();
        }
        assert!(begun.elapsed() < PATIENCE, "{page:#}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn each_connection_is_shown_and_the_limit_and_losses_are_told() {
    let (program, _running, listen) = serve("max_channels = 2\n[account.team]\nmax_channels = 3\n");
    run(async {
        let (session, knife) = log_on(listen).await;
        let alone = shown(&program, |session| session["current_channels"] == 1);
        assert_eq!((&alone["accounts"][0], &alone["reason"]), (&"team".into(), &"not_asked".into()));
        let opened = session
            .open_channels(&ChannelOptions { channels: 4, ..ChannelOptions::default() })
            .await
            .unwrap();
        assert_eq!(opened.channels, 3);
        session.connect("docs").await.unwrap();
        let full = shown(&program, |session| session["current_channels"] == 3);
        assert_eq!((&full["max_channels"], &full["reason"]), (&3.into(), &"channel_limit".into()));
        assert_eq!((&full["username"], &full["dialect"]), (&"ann".into(), &"SMB3_11".into()));
        let rows = full["connections"].as_array().unwrap();
        let (used, unused): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row["selected"] == true);
        assert_eq!(used.len(), 3);
        for row in used {
            assert_eq!((&row["server_name"], &row["server_ip"]), (&"files".into(), &"127.0.0.1".into()));
            assert_eq!((&row["client_ip"], &row["server_interface_index"]), (&"127.0.0.1".into(), &1.into()));
            assert_eq!((&row["server_rss_capable"], &row["why"]), (&true.into(), &Value::Null));
            let channel = &row["channel"];
            assert!(
                channel["requests"].as_u64() > Some(2) && channel["bytes_out"].as_u64() > Some(200),
                "{row:#}"
            );
        }
        // The server listens on 127.0.0.1 only.
        for row in unused {
            let reason = row["reason"].as_str().unwrap();
            let right = ["loopback", "link_local", "down", "unsettled", "not_listened"];
            assert!(right.contains(&reason) && row["channel"].is_null(), "{row:#}");
        }
        knife.shutdown(Shutdown::Both).unwrap();
        let less = shown(&program, |session| session["failure_count"] == 1);
        assert!(less["current_channels"].as_u64() >= Some(2), "{less:#}");
    });
}

#[test]
fn an_account_without_channels_is_said_to_be_the_reason() {
    let (program, _running, listen) = serve("[account.team]\nmultichannel = false\n");
    run(async {
        let (session, _knife) = log_on(listen).await;
        session.connect("docs").await.unwrap();
        let opened =
            session.open_channels(&ChannelOptions { channels: 2, ..ChannelOptions::default() }).await;
        assert!(opened.is_err(), "{opened:?}");
        let alone = shown(&program, |session| session["current_channels"] == 1);
        assert_eq!((&alone["max_channels"], &alone["reason"]), (&1.into(), &"switched_off".into()));
        let page = program.run("status channels").success();
        let page = String::from_utf8_lossy(&page.get_output().stdout).into_owned();
        assert!(
            page.contains("No further channel: `multichannel` is off for this account or server"),
            "{page}"
        );
    });
}
