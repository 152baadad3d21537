//! `serve --demo`: a share to look at, with nothing to configure. All of it lies in `./.trunkline`.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::config::{Origin, Overrides, Setting, os_error};

/// Everything of the demo is below this directory.
const BASE: &str = ".trunkline";
/// An unprivileged port, also for root, so that the demo is the same for everyone.
const PORT: u16 = 4450;
/// The same for NFS.
const NFS_PORT: u16 = 24_490;
/// What everyone may do in the demo's directory: NFS clients come as whoever they say they are.
const MODE: u32 = 0o1777;
/// Who the demo is made for.
const USER: &str = "demo";

const WELCOME: &str = "This is a file of a Trunkline demo share.\n\n\
    Change it, add others beside it, or open it from a second client: what one client does,\n\
    the other sees. The directory on the server is .trunkline/demo.\n";

/// Fills in what the command line left open.
///
/// # Errors
/// When the share's directory cannot be made.
pub fn lay_over(overrides: &mut Overrides) -> anyhow::Result<()> {
    let base = std::env::current_dir()?.join(BASE);
    // What somebody else has is not handed out to whoever comes: NFS asks for no password.
    let is_own = overrides.dirs.is_empty();
    if is_own {
        let dir = base.join("demo");
        make(&dir).map_err(|e| {
            anyhow::anyhow!("{}: {}; run it in a directory of yours", dir.display(), os_error(&e))
        })?;
        overrides.dirs.push(dir);
    }
    overrides.smb_port.get_or_insert(PORT);
    if is_own {
        overrides.nfs = true;
        overrides.nfs_port.get_or_insert(NFS_PORT);
    }
    // Any port that is free: the demo prints it.
    overrides.admin.get_or_insert(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let origin = Origin::CommandLine("--demo");
    overrides.state_dir.get_or_insert(Setting { value: base.join("state"), origin });
    if overrides.users.is_empty() {
        overrides.users.push(USER.to_owned());
    }
    Ok(())
}

fn make(dir: &Path) -> std::io::Result<()> {
    if !dir.exists() {
        std::fs::create_dir_all(dir)?;
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(MODE))?;
        std::fs::write(dir.join("Welcome.txt"), WELCOME)?;
    }
    Ok(())
}
