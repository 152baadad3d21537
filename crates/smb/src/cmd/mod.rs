//! The commands of MS-SMB2, one module for each, in the order of 2.2. Each handler takes the same steps: it
//! parses the request, looks up its objects, calls the engine and writes the body.

pub mod cancel;
pub mod change_notify;
pub mod close;
pub mod create;
pub mod echo;
pub mod flush;
pub mod ioctl;
pub mod lock;
pub mod logoff;
pub mod negotiate;
pub mod oplock_break;
mod pipe;
pub mod query_directory;
pub mod query_info;
pub mod read;
pub mod session_setup;
pub mod set_info;
pub mod tree_connect;
pub mod tree_disconnect;
pub mod write;

use smb_wire::output;

use crate::exchange::Handled;

/// Appends a response with the output that `write` appends.
// MS-SMB2 2.2.34
// MS-SMB2 2.2.36
// MS-SMB2 2.2.38
fn with_output(body: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Handled) -> Handled {
    let at = body.len();
    body.resize(at + output::RESPONSE_FIXED, 0);
    let status = write(body)?;
    let length = (body.len() - at - output::RESPONSE_FIXED) as u32;
    if let Some(fixed) = body[at..].first_chunk_mut() {
        output::Response::write_fixed(fixed, length);
    }
    Ok(status)
}
