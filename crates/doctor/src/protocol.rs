//! Layer 3: the first messages with a server, step by step, so that the unanswered step is known; and the
//! negotiated options.

use std::future::Future;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use auth::{Cipher, GmacNonce, Sealer, Signer};
use client::Url;
use client::nfs::{self, NfsStat};
use client::remote::{self, MountOptions, unix_ns};
use client::smb::{Connection, Credentials, Secret, Session};
use smb_wire::NtStatus;
use smb_wire::negotiate::{Capabilities, SecurityMode};
use tokio::net::TcpStream;

use crate::measurements::{Cause, NfsProperties, Protocol, SmbProperties, Stage, Stopped};

/// The connection options of a server.
#[derive(Debug, Clone)]
pub(crate) enum ClientOptions {
    Smb { options: client::smb::Options, who: Credentials },
    Nfs(nfs::Options),
}

/// No other user may access the test files.
pub(crate) const MOUNT_OPTIONS: MountOptions =
    MountOptions { direct: false, sync: false, file_mode: 0o600, dir_mode: 0o700 };

/// A time of SMB as milliseconds since 1970.
pub(crate) fn unix_ms(filetime: u64) -> i64 {
    i64::try_from(filetime).map_or(i64::MAX, |time| (unix_ns(time) / 1_000_000) as i64)
}

pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Waits for a step for at most the time that a server may take.
async fn step<T>(
    stage: Stage,
    patience: Duration,
    work: impl Future<Output = client::Result<T>>,
) -> Result<T, Stopped> {
    match tokio::time::timeout(patience, work).await {
        Ok(done) => done.map_err(|why| stopped(stage, &why)),
        Err(_) => Err(Stopped {
            stage,
            why: format!("no answer within {} s", patience.as_secs_f64()),
            stalled: true,
            cause: Cause::Silent,
        }),
    }
}

/// The meaning of an error for the examination.
pub(crate) fn stopped(stage: Stage, why: &client::Error) -> Stopped {
    let kind = match why {
        client::Error::Io(io) => Some(io.kind()),
        client::Error::Late { .. } => Some(std::io::ErrorKind::TimedOut),
        _ => None,
    };
    let cause = match (why.status(), why.nfs_status(), stage) {
        (Some(NtStatus::DISK_FULL | NtStatus::QUOTA_EXCEEDED), ..)
        | (_, Some(NfsStat::NoSpc | NfsStat::DQuot), _) => Cause::Full,
        (_, _, Stage::LogOn) if matches!(why, client::Error::LogOn(auth::Refusal::NoTicket(_))) => {
            Cause::Ticket
        }
        (_, _, Stage::LogOn) if !why.is_loss() => Cause::LogOn,
        (Some(_), ..) | (_, Some(_), _) if stage == Stage::Share => Cause::Share,
        (_, _, Stage::Share) if matches!(why, client::Error::NotOffered(_)) => Cause::Share,
        _ if kind == Some(std::io::ErrorKind::ConnectionRefused) => Cause::Closed,
        _ if kind == Some(std::io::ErrorKind::TimedOut) => Cause::Silent,
        (_, _, Stage::Negotiate) => Cause::Protocol,
        _ => Cause::Other,
    };
    Stopped { stage, why: why.to_string(), stalled: cause == Cause::Silent, cause }
}

/// The meaning of an error of a log-on.
fn log_on_refused(who: &Credentials, why: &client::Error) -> Stopped {
    let stopped = stopped(Stage::LogOn, why);
    match (&who.secret, stopped.cause) {
        (Secret::Tickets(_), Cause::LogOn) => Stopped { cause: Cause::TicketRefused, ..stopped },
        _ => stopped,
    }
}

/// Opens a session to `address` and the share in it. Returns the negotiated options too.
pub(crate) async fn open(
    how: &ClientOptions,
    target: &Url,
    address: SocketAddr,
    patience: Duration,
) -> Result<(remote::RemoteSession, Protocol), Stopped> {
    match how {
        ClientOptions::Smb { options, who } => {
            let connecting = async { Ok(TcpStream::connect(address).await?) };
            let stream = step(Stage::Connect, patience, connecting).await?;
            let begun = Instant::now();
            let connection =
                step(Stage::Negotiate, patience, Connection::over(stream, &target.host, options)).await?;
            let clock_ahead_ms = unix_ms(connection.negotiated().system_time) - now_ms();
            // The connection has the limit for the server, and another one for the KDC.
            let session = Session::log_on(&connection, who, false).await;
            let session = session.map_err(|why| log_on_refused(who, &why))?;
            let tree = step(Stage::Share, patience, session.connect(&target.share)).await?;
            let log_on_ms = begun.elapsed().as_secs_f64() * 1000.0;
            let seals = session.seals() || tree.demands_encryption();
            let properties =
                SmbProperties { clock_ahead_ms, log_on_ms, seals, ..smb(&connection, &session, options) };
            Ok((remote::RemoteSession::Smb { connection, session, tree }, Protocol::Smb(properties)))
        }
        ClientOptions::Nfs(options) => {
            let connecting = async { Ok(TcpStream::connect(address).await?) };
            drop(step(Stage::Connect, patience, connecting).await?);
            let begun = Instant::now();
            let (client, minor_version) = connect_nfs(options, address, patience).await?;
            let export = step(Stage::Share, patience, client.directory(&target.share)).await?;
            let about = client.about();
            let properties = NfsProperties {
                minor_version,
                owner: format!("{} / {}", printable(&about.owner), about.minor_owner),
                scope: printable(&about.scope),
                software: about.software,
                slots: client.slots() as u32,
                slots_asked: options.slots,
                max_io: client.max_io(),
                lease_s: client.lease_time_s(),
                log_on_ms: begun.elapsed().as_secs_f64() * 1000.0,
                ..NfsProperties::default()
            };
            Ok((remote::RemoteSession::Nfs { client, export }, Protocol::Nfs(properties)))
        }
    }
}

/// The highest minor version that both support.
async fn connect_nfs(
    options: &nfs::Options,
    address: SocketAddr,
    patience: Duration,
) -> Result<(nfs::Client, u32), Stopped> {
    let with = |minor_version| nfs::Options { minor_version, ..options.clone() };
    let first = step(Stage::Negotiate, patience, nfs::Client::connect(address, with(2))).await;
    match first {
        Ok(client) => Ok((client, 2)),
        Err(stopped) if stopped.stalled || stopped.cause == Cause::Closed => Err(stopped),
        Err(_) => {
            let client = step(Stage::Negotiate, patience, nfs::Client::connect(address, with(1))).await?;
            Ok((client, 1))
        }
    }
}

/// Whether a client that creates and writes a file in the directory `scratch` gets a delegation. A
/// separate client asks for it. `None` if this cannot be determined.
pub(crate) async fn is_given_delegations(
    how: &ClientOptions,
    target: &Url,
    address: SocketAddr,
    scratch: &str,
) -> Option<bool> {
    let ClientOptions::Nfs(options) = how else { return None };
    let client =
        nfs::Client::connect(address, nfs::Options { delegations: true, ..options.clone() }).await.ok()?;
    let path = [target.share.as_str(), &target.path, scratch].join("/");
    let directory = client.directory(&path).await.ok()?;
    let file = directory.open("own", &nfs::OpenOptions::write(nfs::Creation::Always(0o600))).await.ok()?;
    let given = client.delegations() > 0;
    file.close().await.ok()?;
    // Its state ends with it.
    client.close().await.ok();
    Some(given)
}

/// Bytes as text if they are printable, or else as hexadecimal.
fn printable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && text.chars().all(|c| !c.is_control()) => text.to_owned(),
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn smb(connection: &Connection, session: &Session, options: &client::smb::Options) -> SmbProperties {
    let negotiated = connection.negotiated();
    let (dialect, guid) = (negotiated.dialect, negotiated.server_guid.0);
    let demands = negotiated.security_mode.contains(SecurityMode::SIGNING_REQUIRED);
    let names = [
        (Capabilities::DFS, "DFS"),
        (Capabilities::LEASING, "leases"),
        (Capabilities::LARGE_MTU, "large MTU"),
        (Capabilities::MULTI_CHANNEL, "Multichannel"),
        (Capabilities::PERSISTENT_HANDLES, "persistent handles"),
        (Capabilities::DIRECTORY_LEASING, "directory leases"),
        (Capabilities::ENCRYPTION, "encryption"),
    ];
    SmbProperties {
        dialect: dialect.name().map_or_else(|| format!("{:#06x}", dialect.get()), str::to_owned),
        signing: format!("{:?}", negotiated.signing),
        signs: session.signs() || (demands && !session.seals()),
        cipher: negotiated.cipher.map(|cipher| format!("{cipher:?}")),
        seals: session.seals(),
        max_read: negotiated.max_read_size,
        max_write: negotiated.max_write_size,
        max_transact: negotiated.max_transact_size,
        credits_asked: options.credits.into(),
        capabilities: names
            .into_iter()
            .filter(|(capability, _)| negotiated.capabilities.contains(*capability))
            .map(|(_, name)| name)
            .collect(),
        server_guid: guid.iter().map(|byte| format!("{byte:02x}")).collect(),
        ..SmbProperties::default()
    }
}

/// Nanoseconds that this host needs to sign or encrypt a MiB as the session does it. `None` if it does
/// neither.
pub(crate) fn protection_ns(connection: &Connection, smb: &SmbProperties) -> Option<f64> {
    const SIZE: usize = 1 << 20;
    const ROUNDS: u32 = 8;
    let negotiated = connection.negotiated();
    let mut data = vec![0x5a; SIZE];
    let mut once: Box<dyn FnMut()> = if smb.seals {
        let cipher = negotiated.cipher?;
        let length = if matches!(cipher, Cipher::Aes256Ccm | Cipher::Aes256Gcm) { 32 } else { 16 };
        let sealer = Sealer::new(cipher, &[7; 32][..length]).ok()?;
        Box::new(move || {
            std::hint::black_box(sealer.seal(&[1; auth::crypto::NONCE_FIELD_LEN], &[], &mut data));
        })
    } else if smb.signs {
        let signer = Signer::new(negotiated.signing, &[7; 16]);
        Box::new(move || {
            std::hint::black_box(signer.sign(&data, GmacNonce::request(1, false)));
        })
    } else {
        return None;
    };
    once();
    let begun = Instant::now();
    (0..ROUNDS).for_each(|_| once());
    Some(begun.elapsed().as_nanos() as f64 / f64::from(ROUNDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_smb_are_turned_into_those_of_unix() {
        assert_eq!(unix_ms(116_444_736_000_000_000), 0);
        assert_eq!(unix_ms(116_444_736_010_000_000), 1000);
    }

    #[test]
    fn what_a_server_answers_says_what_kind_of_end_it_is() {
        let io = |kind: std::io::ErrorKind| client::Error::from(std::io::Error::from(kind));
        let status = |status| client::Error::Status { command: smb_wire::SmbCommand::Create, status };
        for (stage, why, cause) in [
            (Stage::Connect, io(std::io::ErrorKind::ConnectionRefused), Cause::Closed),
            (Stage::Negotiate, client::Error::Closed, Cause::Protocol),
            (Stage::LogOn, status(NtStatus::LOGON_FAILURE), Cause::LogOn),
            (Stage::Share, status(NtStatus::BAD_NETWORK_NAME), Cause::Share),
            (Stage::Data, status(NtStatus::DISK_FULL), Cause::Full),
            (Stage::Data, client::Error::Closed, Cause::Other),
        ] {
            assert_eq!(stopped(stage, &why).cause, cause, "{stage:?} {why}");
        }
    }

    /// Tickets that nobody asks for.
    #[derive(Debug)]
    struct NoTickets;

    impl auth::Tickets for NoTickets {
        fn context(&self, _: &str) -> Result<Box<dyn auth::TicketContext>, auth::TicketFailure> {
            unreachable!("no log-on is made")
        }
    }

    #[test]
    fn a_log_on_with_a_ticket_ends_with_a_word_about_tickets() {
        let who = Credentials::of_tickets(std::sync::Arc::new(NoTickets));
        let verdict = |who: &Credentials, why: &client::Error| {
            let stopped = log_on_refused(who, why);
            let measurements = crate::measurements::TargetMeasurements {
                stopped: Some(stopped.clone()),
                ..crate::measurements::TargetMeasurements::default()
            };
            (stopped.cause, crate::verdict::verdict(&measurements, &[]).paragraph)
        };
        let kinds = [
            auth::TicketFailureKind::NoKdc,
            auth::TicketFailureKind::NotOffered,
            auth::TicketFailureKind::Required,
        ];
        for kind in kinds {
            let why = format!("the reason of {kind:?}");
            let failure = auth::TicketFailure { kind, why: why.clone() };
            let (cause, said) = verdict(&who, &client::Error::LogOn(auth::Refusal::NoTicket(failure)));
            assert_eq!(cause, Cause::Ticket);
            assert!(said.contains(&why) && said.contains("no password was tried"), "{said}");
        }
        let command = smb_wire::SmbCommand::SessionSetup;
        let refused = client::Error::Status { command, status: NtStatus::LOGON_FAILURE };
        let (cause, said) = verdict(&who, &refused);
        assert_eq!(cause, Cause::TicketRefused);
        assert!(said.contains("refused the ticket") && !said.contains("the password is wrong"), "{said}");
        let (cause, said) = verdict(&Credentials::new("ann", "pw"), &refused);
        assert_eq!(cause, Cause::LogOn);
        assert!(said.contains("the password is wrong") && !said.contains("ticket"), "{said}");
        // The server's silence accuses no ticket.
        let late = client::Error::Late { step: "SESSION_SETUP", after: Duration::from_secs(1) };
        assert_eq!(verdict(&who, &late).0, Cause::Silent);
    }

    #[test]
    fn names_of_servers_are_shown_as_text_where_they_are() {
        assert_eq!(printable(b"files.example"), "files.example");
        assert_eq!(printable(&[0, 255]), "00ff");
    }
}
