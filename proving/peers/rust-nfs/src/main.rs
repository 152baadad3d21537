//! The crate `nfs-rs` as a client: PORT EXPORT VERSION WORD. VERSION is one of its own (`4.1`, `4.2`, `4.0`),
//! and WORD distinguishes the files of this run from those of others. With 4.0, which the server does not
//! support, the only case is that the server says so.

use std::collections::BTreeSet;
use std::process::ExitCode;

use bytes::Bytes;
use cases::{Arguments, CaseReport, CaseResult, SIZES, content, same};
use futures_util::{StreamExt, stream};
use nfs_rs::{NfsError, OPEN_BOTH, OPEN_READ};
use proving_nfs_peer::{BoxedMount, mount};

/// The number of names in the large directory.
const MANY: usize = 5_000;
/// The kind of a lock for writing (RFC 8881 3.2, nfs_lock_type4).
const WRITE_LOCK: u32 = 2;

async fn read_all(mount: &BoxedMount, path: &str, size: usize) -> nfs_rs::Result<Vec<u8>> {
    let open = mount.open_path_stateful(path, OPEN_READ).await?;
    let mut found = Vec::with_capacity(size);
    loop {
        let left = (size + 1 - found.len()).min(1 << 20) as u32;
        let data = mount.read(open.object.fh.clone(), found.len() as u64, left).await?;
        found.extend_from_slice(&data);
        if data.is_empty() || found.len() > size {
            break;
        }
    }
    mount.close_stateful(open).await?;
    Ok(found)
}

async fn write_new(mount: &BoxedMount, path: &str, data: &[u8]) -> nfs_rs::Result<()> {
    let open = mount.create_path_stateful_with_access(path, Some(0o644), OPEN_BOTH).await?;
    if !data.is_empty() {
        nfs_rs::write_all(&**mount, open.object.fh.clone(), 0, Bytes::copy_from_slice(data)).await?;
    }
    mount.close_stateful(open).await
}

async fn round_trip(mount: &BoxedMount, base: &str, size: usize) -> CaseResult {
    let (path, data) = (format!("{base}/size-{size}"), content(size));
    write_new(mount, &path, &data).await?;
    same(read_all(mount, &path, size).await? == data, true, "content")?;
    same(mount.getattr_path(&path).await?.filesize, size as u64, "size")
}

async fn rename(mount: &BoxedMount, base: &str) -> CaseResult {
    let (from, to) = (format!("{base}/size-1"), format!("{base}/renamed"));
    mount.rename_path(&from, &to).await?;
    same(mount.lookup_path(&from).await.is_err(), true, "the old name is gone")?;
    same(read_all(mount, &to, 1).await?, content(1), "content")
}

async fn many_names(mount: &BoxedMount, base: &str) -> CaseResult {
    let directory = format!("{base}/many");
    let handle = mount.mkdir_path(&directory, 0o755).await?.fh;
    let names: BTreeSet<String> = (0..MANY).map(|number| format!("{number}")).collect();
    let made = stream::iter(&names).map(|name| mount.create(handle.clone(), name, Some(0o600)));
    let made: Vec<_> = made.buffer_unordered(8).collect().await;
    for file in made {
        mount.close(file?.fh).await?;
    }
    let listed: Vec<_> = mount.readdirplus(handle.clone()).await.collect().await;
    let listed: Vec<_> = listed.into_iter().collect::<Result<Vec<_>, _>>()?;
    let count = listed.iter().filter(|entry| names.contains(&entry.file_name)).count();
    same(count, MANY, "names that are listed once each")?;
    // Each handle of the listing belongs to the file with that number.
    for entry in listed.iter().filter(|entry| names.contains(&entry.file_name)).step_by(100) {
        same(
            mount.getattr(entry.handle.clone()).await?.fileid,
            entry.fileid,
            "the number of what is listed",
        )?;
    }
    let gone: Vec<_> = stream::iter(&names)
        .map(|name| mount.remove(handle.clone(), name))
        .buffer_unordered(8)
        .collect()
        .await;
    gone.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(mount.rmdir_path(&directory).await?)
}

async fn locks(arguments: &Arguments, mount: &BoxedMount, base: &str) -> CaseResult {
    let path = format!("{base}/renamed");
    let open = mount.open_path_stateful(&path, OPEN_BOTH).await?;
    let token = mount.lock_open_stateful(&open, WRITE_LOCK, 10, 20).await?;
    let other = self::mount(arguments).await?;
    let theirs = other.open_path_stateful(&path, OPEN_BOTH).await?;
    match other.lock_open_stateful(&theirs, WRITE_LOCK, 15, 1).await {
        Err(NfsError::LockDenied { offset, length, .. }) => {
            same((offset, length), (10, 20), "the range in the way")?
        }
        // This version of the crate has this error for 4.1.
        Err(NfsError::Nfs4(code)) => {
            same(format!("{code:?}").as_str(), "NFS4ERR_DENIED", "why a second client has no lock")?
        }
        found => return Err(format!("a second client's lock: {found:?}").into()),
    }
    let free = other.lock_open_stateful(&theirs, WRITE_LOCK, 30, 1).await?;
    other.unlock_stateful(free).await?;
    mount.unlock_stateful(token).await?;
    let free = other.lock_open_stateful(&theirs, WRITE_LOCK, 15, 1).await?;
    other.unlock_stateful(free).await?;
    other.close_stateful(theirs).await?;
    mount.close_stateful(open).await?;
    Ok(other.umount().await?)
}

async fn links(mount: &BoxedMount, base: &str) -> CaseResult {
    let (target, link) = ("renamed", format!("{base}/symbolic"));
    mount.symlink_path(target, &link).await?;
    same(mount.readlink_path(&link).await?.as_str(), target, "the link's text")?;
    let (file, hard) = (format!("{base}/renamed"), format!("{base}/hard"));
    mount.link_path(&file, &hard).await?;
    let numbers = (mount.getattr_path(&file).await?.fileid, mount.getattr_path(&hard).await?.fileid);
    same(numbers.0, numbers.1, "both names are of one file")?;
    same(mount.getattr_path(&hard).await?.nlink, 2, "links")?;
    mount.remove_path(&file).await?;
    same(read_all(mount, &hard, 1).await?, content(1), "content under the other name")
}

async fn xattrs(mount: &BoxedMount, base: &str) -> CaseResult {
    let path = format!("{base}/hard");
    mount.setxattr_path(&path, "color", Bytes::from_static(b"red")).await?;
    same(mount.getxattr_path(&path, "color").await?.to_vec(), b"red".to_vec(), "the attribute")?;
    same(mount.listxattr_path(&path).await?, vec!["color".to_owned()], "the list")?;
    mount.removexattr_path(&path, "color").await?;
    same(mount.getxattr_path(&path, "color").await.is_err(), true, "it is gone")
}

async fn remove(mount: &BoxedMount, base: &str) -> CaseResult {
    same(mount.rmdir_path(base).await.is_err(), true, "a directory with content stays")?;
    let handle = mount.lookup_path(base).await?.fh;
    let listed: Vec<_> = mount.readdir(handle.clone()).await.collect().await;
    for entry in listed {
        let name = entry?.file_name;
        if name != "." && name != ".." {
            mount.remove(handle.clone(), &name).await?;
        }
    }
    mount.rmdir_path(base).await?;
    same(mount.lookup_path(base).await.is_err(), true, "the directory is gone")
}

#[tokio::main]
async fn main() -> ExitCode {
    let Some(arguments) = Arguments::read() else {
        eprintln!("usage: PORT EXPORT VERSION WORD");
        return ExitCode::from(2);
    };
    let mut report = CaseReport::default();
    let mounted = mount(&arguments).await;
    if arguments.user == "4.0" {
        let refused = async {
            match mounted {
                Err(why) if format!("{why:?} {why}").to_uppercase().contains("MINOR") => Ok(()),
                Err(why) => Err(format!("refused otherwise: {why:?}").into()),
                Ok(_) => Err("mounted".into()),
            }
        };
        report.case("minor version 0 is refused as such", refused).await;
        return report.close();
    }
    let mount = match mounted {
        Ok(mount) => mount,
        Err(why) => {
            println!("FAIL mount: {why:?}");
            return ExitCode::FAILURE;
        }
    };
    let base = format!("/nfs-rs-{}", arguments.password);
    let base = base.as_str();
    report.case("make a directory", async { Ok(mount.mkdir_path(base, 0o755).await.map(|_| ())?) }).await;
    for size in SIZES {
        report.case(format!("{size} bytes there and back"), round_trip(&mount, base, size)).await;
    }
    report.case("rename", rename(&mount, base)).await;
    report.case("a lock between two clients", locks(&arguments, &mount, base)).await;
    report.case("links", links(&mount, base)).await;
    if arguments.user == "4.2" {
        report.case("extended attributes", xattrs(&mount, base)).await;
    }
    report.case("5,000 names made, listed and removed", many_names(&mount, base)).await;
    report.case("remove", remove(&mount, base)).await;
    report.case("unmount", async { Ok(mount.umount().await?) }).await;
    report.close()
}
