//! `serve --demo`: a share that needs no configuration. All of its files are in `./.trunkline`.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::config::{Origin, Overrides, Setting, os_error};

/// The directory of all files of the demo.
const BASE: &str = ".trunkline";
/// An unprivileged port, also for root, so that the demo works in the same way for all users.
const PORT: u16 = 4450;
/// The same for NFS: an unprivileged port.
const NFS_PORT: u16 = 24_490;
/// The mode of the demo's directory. NFS clients choose their user ids themselves.
const MODE: u32 = 0o1777;
/// The user of the demo.
const USER: &str = "demo";

const WELCOME: &str = "This is a file of a Trunkline demo share.\n\n\
    Change it, add others beside it, or open it from a second client: what one client does,\n\
    the other sees. The directory on the server is .trunkline/demo.\n";

/// Fills in the options that the command line does not give.
///
/// # Errors
/// The share's directory cannot be created.
pub fn lay_over(overrides: &mut Overrides) -> anyhow::Result<()> {
    let base = std::env::current_dir()?.join(BASE);
    // The user's own directories are not served over NFS, since NFS asks for no password.
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
    // Any free port: the demo prints it.
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
