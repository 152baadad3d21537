//! Attributes of shares besides permission bits: read-only files are created, replaced and deleted like
//! others.

use client::smb::Settings;
use smb_wire::fscc::FileAttributes;

use super::*;
use crate::lost_connections::tree;

const READONLY: u32 = FileAttributes::READONLY.bits();
const HIDDEN: u32 = FileAttributes::HIDDEN.bits();

#[test]
fn what_is_read_only_is_made_replaced_and_deleted_and_attributes_go_from_share_to_share() {
    let server = CopyTestServer::start();
    server.program.write("files/from/small", "data");
    server.program.write("files/from/large", &"0123456789abcdef".repeat(200_000));
    server.program.write("files/from/dir/below", "data");
    fs::create_dir(server.path("nothing")).unwrap();
    let [from, to] = ["from", "to"].map(|name| server.smb(name));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let share = runtime.block_on(tree(&from));
    let set = |path: &str, attributes: u32, last_write_time: i64| {
        runtime.block_on(share.settle(path, Settings { last_write_time, attributes })).unwrap();
    };
    let known = |path: &str| {
        let info = runtime.block_on(share.stat(path)).unwrap();
        (info.file_attributes & (READONLY | HIDDEN), info.last_write_time)
    };
    set("from/dir", FileAttributes::DIRECTORY.bits() | HIDDEN, 0);
    for (round, time) in [0, 130_000_000_000_000_000, 130_000_000_010_000_000].into_iter().enumerate() {
        for name in ["small", "large"] {
            set(&format!("from/{name}"), READONLY, time);
        }
        let (status, report, said) = server.copy(&format!("{from} {to}"));
        assert_eq!((status, said.as_str()), (1, ""), "{round}: {report:#}");
        for name in ["small", "large"] {
            let [from, to] = ["from", "to"].map(|root| format!("{root}/{name}"));
            assert_eq!(known(&from), known(&to), "{round}: {name}");
            assert_eq!(known(&to).0, READONLY);
            let [from, to] = [from, to].map(|path| fs::read(server.path("files").join(path)).unwrap());
            assert!(from == to, "{round}: {name}");
        }
        assert_eq!(known("to/dir").0, HIDDEN);
        assert_eq!(names(&server.path("files/to")), ["dir", "large", "small"]);
        assert_eq!(server.copy(&format!("{from} {to}")).0, 0);
    }
    let (status, report, said) = server.copy(&format!("nothing {to} --mirror"));
    assert_eq!((status, said.as_str()), (2, ""), "{report:#}");
    assert!(names(&server.path("files/to")).is_empty());
}
