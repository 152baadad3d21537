//! The crate `smb2` as a client: PORT SHARE USER PASSWORD. It sends whole files as compounds and keeps many
//! requests in flight.

use std::process::ExitCode;

use cases::{Arguments, CaseReport, CaseResult, SIZES, content, same};
use smb2::{SmbClient, Tree};

const BASE: &str = "rust-smb2";
/// The number of bytes that the crate reads with one compound of CREATE, READ and CLOSE.
const ONE_COMPOUND: usize = 1 << 23;

fn path(name: &str) -> String {
    format!("{BASE}/{name}")
}

async fn round_trip(client: &mut SmbClient, tree: &mut Tree, size: usize) -> CaseResult {
    let (data, name) = (content(size), path(&format!("size-{size}")));
    client.write_file(tree, &name, &data).await?;
    if size <= ONE_COMPOUND {
        same(client.read_file(tree, &name).await? == data, true, "content")?;
    }
    client.write_file_pipelined(tree, &name, &data).await?;
    same(client.read_file_pipelined(tree, &name).await? == data, true, "content of the pipelined file")?;
    same(client.stat(tree, &name).await?.size, size as u64, "size")
}

async fn listing(client: &mut SmbClient, tree: &mut Tree) -> CaseResult {
    let entries = client.list_directory(tree, BASE).await?;
    let mut found: Vec<_> = entries
        .into_iter()
        .filter(|entry| entry.name != "." && entry.name != "..")
        .map(|entry| (entry.name, entry.size))
        .collect();
    let mut wanted: Vec<_> = SIZES.iter().map(|size| (format!("size-{size}"), *size as u64)).collect();
    found.sort();
    wanted.sort();
    same(found, wanted, "names and sizes")
}

async fn rename(client: &mut SmbClient, tree: &mut Tree) -> CaseResult {
    client.rename(tree, &path("size-1"), &path("renamed")).await?;
    same(client.stat(tree, &path("size-1")).await.is_err(), true, "the old name is gone")?;
    same(client.read_file(tree, &path("renamed")).await?, content(1), "content")
}

async fn server_side_copy(client: &mut SmbClient, tree: &mut Tree) -> CaseResult {
    client.server_side_copy_file(tree, &path("size-1048579"), &path("copied")).await?;
    same(client.read_file(tree, &path("copied")).await? == content(1_048_579), true, "content")
}

async fn stream(client: &mut SmbClient, tree: &mut Tree, size: usize) -> CaseResult {
    let (name, data) = (path("renamed"), content(size));
    client.write_stream(tree, &name, "named", &data).await?;
    same(client.read_stream(tree, &name, "named").await? == data, true, "the stream's content")?;
    same(client.read_file(tree, &name).await?, content(1), "the file's own content")
}

async fn watch(client: &mut SmbClient, tree: &mut Tree) -> CaseResult {
    let mut watcher = client.watch(tree, BASE, false).await?;
    let name = path("watched");
    let later = async {
        // The crate sends CHANGE_NOTIFY when events are requested, so the file is created a little later.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        client.write_file(tree, &name, b"x").await
    };
    let (events, written) = tokio::join!(watcher.next_events(), later);
    let events = events?;
    written?;
    same(events.iter().any(|event| event.filename.ends_with("watched")), true, "the new file is told")?;
    watcher.close().await?;
    Ok(())
}

async fn many_files(client: &mut SmbClient, tree: &mut Tree) -> CaseResult {
    client.create_directory(tree, &path("many")).await?;
    let names: Vec<String> = (0..200).map(|number| path(&format!("many/file-{number}"))).collect();
    for name in &names {
        client.write_file(tree, name, name.as_bytes()).await?;
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let stats = client.stat_files(tree, &names).await;
    same(stats.iter().filter(|stat| stat.is_ok()).count(), 200, "files found by a batch of compounds")?;
    let deleted = client.delete_files(tree, &names).await;
    same(deleted.iter().filter(|end| end.is_ok()).count(), 200, "files deleted by a batch of compounds")?;
    client.delete_directory(tree, &path("many")).await?;
    Ok(())
}

async fn remove(client: &mut SmbClient, tree: &mut Tree) -> CaseResult {
    same(client.delete_directory(tree, BASE).await.is_err(), true, "a directory with content stays")?;
    for entry in client.list_directory(tree, BASE).await? {
        if !entry.is_directory {
            client.delete_file(tree, &path(&entry.name)).await?;
        }
    }
    client.delete_directory(tree, BASE).await?;
    same(client.list_directory(tree, BASE).await.is_err(), true, "the directory is gone")
}

async fn share_names(client: &mut SmbClient) -> CaseResult {
    let names: Vec<String> = client.list_shares().await?.into_iter().map(|share| share.name).collect();
    let missing: Vec<_> =
        ["files", "sealed"].into_iter().filter(|want| !names.iter().any(|n| n == want)).collect();
    same(missing, Vec::new(), "shares that are not listed")
}

#[tokio::main]
async fn main() -> ExitCode {
    let Some(arguments) = Arguments::read() else {
        eprintln!("usage: PORT SHARE USER PASSWORD");
        return ExitCode::from(2);
    };
    let mut report = CaseReport::default();
    let address = format!("127.0.0.1:{}", arguments.port);
    let (mut client, mut tree) = match connect(&address, &arguments).await {
        Ok(both) => both,
        Err(why) => {
            println!("FAIL connect: {why}");
            return ExitCode::FAILURE;
        }
    };
    let (client, tree) = (&mut client, &mut tree);
    report.case("list the shares", share_names(client)).await;
    report.case("make a directory", async { Ok(client.create_directory(tree, BASE).await?) }).await;
    for size in SIZES {
        report.case(format!("{size} bytes there and back"), round_trip(client, tree, size)).await;
    }
    report.case("list", listing(client, tree)).await;
    report.case("rename", rename(client, tree)).await;
    report.case("server-side copy", server_side_copy(client, tree)).await;
    report.case("a named stream", stream(client, tree, 2_000)).await;
    report.case("a large named stream", stream(client, tree, 300_000)).await;
    report.case("watch a directory", watch(client, tree)).await;
    report.case("many files by compounds", many_files(client, tree)).await;
    report.case("remove", remove(client, tree)).await;
    report.case("disconnect", async { Ok(client.disconnect_share(tree).await?) }).await;
    report.close()
}

async fn connect(address: &str, arguments: &Arguments) -> smb2::Result<(SmbClient, Tree)> {
    let mut client = smb2::connect(address, &arguments.user, &arguments.password).await?;
    let tree = client.connect_share(&arguments.share).await?;
    Ok((client, tree))
}
