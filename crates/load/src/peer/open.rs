//! Opens a session as the plan requires, and checks that the negotiated options are the requested ones.

use client::nfs::{self, Client};
use client::remote::{MountOptions, RemoteSession};
use client::smb::{self, ChannelOptions, Connection};

use crate::channel::Security;
use crate::error::ErrorContext;
use crate::plan::SmbTarget;
use crate::{Error, Plan};

/// The next user of the directory must be able to use the new files.
pub(super) fn mount_options(plan: &Plan) -> MountOptions {
    MountOptions { direct: plan.direct, sync: plan.sync, file_mode: 0o666, dir_mode: 0o777 }
}

/// Connects to a share.
pub(super) async fn smb(plan: &Plan, wanted: &SmbTarget) -> Result<RemoteSession, Error> {
    let target = &plan.target;
    let action = || format!("connecting to {} port {}", target.host, target.port);
    let address = (target.host.as_str(), target.port);
    let connection = Connection::connect(address, &target.host, &wanted.options).await.doing(action)?;
    let negotiated = connection.negotiated();
    if wanted.signing.is_some_and(|signing| signing != negotiated.signing) {
        let (dialect, got) = (negotiated.dialect, negotiated.signing);
        let text = format!("--signing: with {dialect:?} this server signs by {got:?}; see --dialect");
        return Err(Error::Wrong(text));
    }
    let session = smb::Session::log_on(&connection, &wanted.credentials, wanted.encrypt)
        .await
        .doing(|| format!("logging on as {}", target.user))?;
    open_channels(plan, &session).await?;
    let tree =
        session.connect(&target.share).await.doing(|| format!("connecting to share {}", target.share))?;
    takes(plan, negotiated.max_io())?;
    Ok(RemoteSession::Smb { connection, session, tree })
}

/// Opens the channels that the plan requires, or fails.
async fn open_channels(plan: &Plan, session: &smb::Session) -> Result<(), Error> {
    if plan.channels > 1 {
        let options = ChannelOptions { channels: plan.channels as usize, ..ChannelOptions::default() };
        let opened = session.open_channels(&options).await.doing(|| "opening channels".to_owned())?;
        if let Some(why) = opened.failure {
            return Err(Error::Wrong(format!("--channels: only {}, since {why}", opened.channels)));
        }
    }
    if let Some(rate) = plan.slow_rate() {
        session.pace(plan.channels as usize - 1, Some(rate));
    }
    Ok(())
}

/// Connects to an export, with the number of connections that the plan requires.
pub(super) async fn nfs(plan: &Plan, options: &nfs::Options) -> Result<RemoteSession, Error> {
    let target = &plan.target;
    let action = || format!("connecting to {} port {}", target.host, target.port);
    let options = nfs::Options { connections: plan.channels as usize, ..options.clone() };
    let client = Client::connect((target.host.as_str(), target.port), options).await.doing(action)?;
    if let Some(rate) = plan.slow_rate() {
        client.pace(plan.channels as usize - 1, Some(rate));
    }
    takes(plan, client.max_io())?;
    let export = client.directory(&target.share).await;
    let export = export.doing(|| format!("looking for the export /{}", target.share))?;
    Ok(RemoteSession::Nfs { client, export })
}

/// Checks that the server accepts the plan's block size.
fn takes(plan: &Plan, most: u32) -> Result<(), Error> {
    match plan.block > most {
        true => Err(Error::Wrong(format!("--bs: this server takes at most {most} bytes at once"))),
        false => Ok(()),
    }
}

/// The negotiated security.
pub(super) fn security(session: &RemoteSession) -> Security {
    let RemoteSession::Smb { connection, session, .. } = session else {
        return match session {
            RemoteSession::Nfs { .. } => Security::none("NFS", "4.1"),
            _ => Security::none("local", "files"),
        };
    };
    let negotiated = connection.negotiated();
    let off = || "off".to_owned();
    let cipher = negotiated.cipher.filter(|_| session.seals());
    Security {
        protocol: "SMB".to_owned(),
        dialect: negotiated.dialect.name().unwrap_or_default().to_owned(),
        signing: if session.signs() { format!("{:?}", negotiated.signing) } else { off() },
        encryption: cipher.map_or_else(off, |cipher| format!("{cipher:?}")),
    }
}
