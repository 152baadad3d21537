//! Symbolic links of a share, which are reparse points (MS-FSCC 2.1.2.4), and further names of files.

use client::remote::LINKS;
use client::smb::{OpenOptions, Tree};
use smb_wire::create::{Access as Rights, CreateOptions, Disposition, FileInfo};
use smb_wire::fscc::reparse::{MAX_REPARSE, NfsFile, Reparse};
use smb_wire::fscc::{FileAttributes, ReparseTag};
use smb_wire::{NtStatus, Utf16, utf16};

use super::{Smb, moving, remove, settings};
use crate::error::{Fault, FileResult};
use crate::name::check_for_smb;
use crate::tree::links::{Link, LinkMade};
use crate::tree::target_attributes::TargetAttributes;

/// The bytes of a reparse point around its names.
const HEAD: usize = 20;

/// The POSIX text of a link, or none if the reparse point is not a link.
fn text_of(reparse: &Reparse<'_>) -> Option<Vec<u8>> {
    let name = match reparse {
        Reparse::Symlink { substitute_name, .. } => substitute_name.to_string_exact()?.replace('\\', "/"),
        Reparse::Nfs(NfsFile::Link(target)) => target.to_string_exact()?,
        Reparse::LxSymlink(target) => return Some(target.to_vec()),
        _ => return None,
    };
    Some(name.into_bytes())
}

/// Encodes a link as a reparse point. Returns none if a share cannot hold a name in it.
fn reparse_of(link: &Link) -> Option<Vec<u8>> {
    if let Some(reparse) = &link.reparse {
        return Some(reparse.clone());
    }
    let text = std::str::from_utf8(&link.text).ok()?;
    let is_name = |part: &&str| !["", ".", ".."].contains(part);
    if text.split('/').filter(is_name).any(|part| check_for_smb(part).is_err()) {
        return None;
    }
    let name = utf16::encode(&text.replace('/', "\\"));
    let name = Utf16::new(&name)?;
    // A client cannot use a path from the root of a host. It is stored for a copy that reads it back.
    let relative = !text.starts_with('/');
    let mut buffer = Vec::new();
    Reparse::Symlink { substitute_name: name, print_name: name, relative }.write(&mut buffer);
    (name.as_bytes().len() * 2 + HEAD <= MAX_REPARSE).then_some(buffer)
}

/// Whether the refusal to create a link means that the share holds no such link. It supports none, lets
/// nobody create any (MS-FSCC 2.3.82), or none that leads out of it.
fn holds_none(refused: &client::Error) -> bool {
    let by_status = [
        NtStatus::ACCESS_DENIED,
        NtStatus::PRIVILEGE_NOT_HELD,
        // The answer of Samba 4.17.
        NtStatus::NOT_A_REPARSE_POINT,
        NtStatus::INVALID_PARAMETER,
        NtStatus::IO_REPARSE_TAG_INVALID,
        NtStatus::IO_REPARSE_DATA_INVALID,
        NtStatus::IO_REPARSE_TAG_NOT_HANDLED,
    ];
    let is_unsupported = Fault::from(refused.clone()).is_unsupported();
    is_unsupported || refused.status().is_some_and(|status| by_status.contains(&status))
}

/// The reparse point `path`, or none if it is something else, does not exist, or the share has no reparse
/// points.
async fn reparse_point(tree: &Tree, path: &str) -> FileResult<Option<(FileInfo, Vec<u8>)>> {
    match tree.reparse_point(path).await.map_err(Fault::from) {
        Err(fault) if fault.is_missing() || has_none(&fault) => Ok(None),
        found => found,
    }
}

/// Whether the fault means that a share has no reparse points. The refusal of a name does not mean that.
fn has_none(fault: &Fault) -> bool {
    let is_of_name =
        matches!(fault, Fault::Remote(error) if error.status() == Some(NtStatus::OBJECT_NAME_INVALID));
    fault.is_unsupported() && !is_of_name
}

/// Parses a reparse point.
fn parse(buffer: &[u8]) -> FileResult<Reparse<'_>> {
    let why = "it is a reparse point that cannot be read; look at it on its server";
    Reparse::parse(buffer).map_err(|_| Fault::Said(why.to_owned()))
}

/// Whether a reparse point leads to another object, whatever its text.
fn leads_away(buffer: &[u8]) -> FileResult<bool> {
    let tag = match buffer.first_chunk() {
        Some(tag) => ReparseTag(u32::from_le_bytes(*tag)),
        None => return parse(buffer).map(|_| true),
    };
    // MS-FSCC 2.1.2.1
    Ok(tag.is_name_surrogate() || LINKS.contains(&tag))
}

impl Smb {
    /// Whether the object that the share shows as `path` is the target of a link or a junction.
    pub(in crate::tree) async fn is_link(&self, path: &str) -> FileResult<bool> {
        match reparse_point(&self.tree(), &self.path(path)).await? {
            Some((_, buffer)) => leads_away(&buffer),
            None => Ok(false),
        }
    }

    pub(in crate::tree) async fn read_link(&self, path: &str) -> FileResult<Option<Link>> {
        let found = reparse_point(&self.tree(), &self.path(path)).await?;
        let Some((info, buffer)) = found else { return Ok(None) };
        let Some(text) = text_of(&parse(&buffer)?) else { return Ok(None) };
        let bits = FileAttributes::from_bits_retain(info.file_attributes);
        Ok(Some(Link {
            text,
            is_directory: bits.contains(FileAttributes::DIRECTORY),
            owner: None,
            reparse: Some(buffer),
        }))
    }

    pub(in crate::tree) async fn put_link(
        &self,
        path: &str,
        part: &str,
        link: &Link,
        like: &TargetAttributes,
    ) -> FileResult<LinkMade> {
        let Some(buffer) = reparse_of(link) else { return Ok(LinkMade::No) };
        let (tree, path, part) = (self.tree(), self.path(path), self.path(part));
        let kind = match link.is_directory {
            true => CreateOptions::DIRECTORY_FILE,
            false => CreateOptions::NON_DIRECTORY_FILE,
        };
        let access = Rights::WRITE_ATTRIBUTES | Rights::READ_ATTRIBUTES | Rights::SYNCHRONIZE;
        let how = OpenOptions { access, options: kind, ..OpenOptions::file(Disposition::Create) }.of_link();
        let file = match tree.open(&part, &how).await {
            Err(error) if error.status() == Some(NtStatus::OBJECT_NAME_COLLISION) => {
                // A broken copy has left it.
                remove(&tree, &part, false).await?;
                tree.open(&part, &how).await?
            }
            opened => opened?,
        };
        let set = file.set_reparse_point(&buffer).await;
        let closed = file.close().await;
        let is_held = !set.as_ref().is_err_and(holds_none);
        let made = match set.and(closed) {
            Ok(()) => self.name_link(&part, &path, like).await,
            Err(error) => Err(error.into()),
        };
        if made.is_err() {
            // There may be none to remove. The caller gets the first error.
            let _ = tree.touch(&part, &OpenOptions::delete().of_link()).await;
        }
        if is_held { made.map(|()| LinkMade::Yes) } else { Ok(LinkMade::No) }
    }

    /// Sets the time of the link `part` and renames it to `path`.
    async fn name_link(&self, part: &str, path: &str, like: &TargetAttributes) -> FileResult<()> {
        let tree = self.tree();
        let how = moving();
        let how = OpenOptions { access: how.access | Rights::WRITE_ATTRIBUTES, ..how };
        let how = OpenOptions { options: CreateOptions::empty(), ..how }.of_link();
        if reparse_point(&tree, path).await?.is_some() {
            // On a share that follows links, a rename would follow the existing link.
            remove(&tree, path, false).await?;
        }
        let file = tree.open(part, &how).await?;
        let time = TargetAttributes { attributes: None, ..*like };
        if let Err(error) = file.settle(settings(&time)).await {
            // The caller gets the first error.
            let _ = file.close().await;
            return Err(error.into());
        }
        Ok(file.close_as(path).await?)
    }

    pub(in crate::tree) async fn link(&self, path: &str, new_path: &str) -> FileResult<()> {
        Ok(self.tree().link(&self.path(path), &self.path(new_path), true).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(text: &str) -> Link {
        Link { text: text.into(), is_directory: false, owner: None, reparse: None }
    }

    #[test]
    fn links_come_back_from_a_share_as_they_went() {
        for text in ["a", "../b/./c", "/etc/passwd", "größer/x", "dir/"] {
            let buffer = reparse_of(&link(text)).unwrap();
            let back = text_of(&Reparse::parse(&buffer).unwrap()).unwrap();
            assert_eq!(back, text.as_bytes(), "{text}");
        }
    }

    #[test]
    fn what_leads_away_is_told_by_its_tag_whatever_its_text() {
        // A lone surrogate, and a buffer that is cut short.
        let name = [0xD800_u16.to_le_bytes(), [b'x', 0]].concat();
        let name = Utf16::new(&name).unwrap();
        let mut buffer = Vec::new();
        Reparse::Symlink { substitute_name: name, print_name: name, relative: true }.write(&mut buffer);
        assert!(text_of(&parse(&buffer).unwrap()).is_none() && leads_away(&buffer).unwrap());
        let cut = &buffer[..10];
        assert!(parse(cut).is_err() && leads_away(cut).unwrap() && leads_away(&buffer[..3]).is_err());
        for (tag, leads) in [
            (ReparseTag::MOUNT_POINT, true),
            (ReparseTag::NFS, true),
            (ReparseTag::LX_SYMLINK, true),
            // Deduplication.
            (ReparseTag(0x8000_0013), false),
        ] {
            assert_eq!(leads_away(&tag.0.to_le_bytes()).unwrap(), leads, "{tag:?}");
        }
    }

    #[test]
    fn a_refused_name_does_not_say_that_there_are_no_links() {
        let refused =
            |status| Fault::from(client::Error::Status { command: smb_wire::SmbCommand::Create, status });
        assert!(
            has_none(&refused(NtStatus::NOT_SUPPORTED))
                && has_none(&refused(NtStatus::INVALID_DEVICE_REQUEST))
        );
        assert!(![NtStatus::OBJECT_NAME_INVALID, NtStatus::ACCESS_DENIED].map(refused).iter().any(has_none));
    }

    #[test]
    fn what_is_no_name_of_a_share_is_no_link_of_one() {
        for text in ["a:b", "a\\b", "x/y*", "dot."] {
            assert!(reparse_of(&link(text)).is_none(), "{text}");
        }
        let long = link(&"x/".repeat(6000));
        assert!(reparse_of(&long).is_none());
    }
}
