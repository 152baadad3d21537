//! Symbolic links and further names of files of an export.

use client::nfs::{NfsStat, Security, has_no_links};

use super::{Nfs, time};
use crate::error::FileResult;
use crate::name::split;
use crate::tree::links::{Link, LinkMade};
use crate::tree::target_attributes::TargetAttributes;

impl Nfs {
    pub(in crate::tree) async fn read_link(&self, path: &str) -> FileResult<Option<Link>> {
        let (directory, name) = self.parent(path).await?;
        let read = directory.read_link(name).await?;
        Ok(read.map(|(text, _)| Link { text, is_directory: false, owner: None, reparse: None }))
    }

    pub(in crate::tree) async fn put_link(
        &self,
        path: &str,
        part: &str,
        link: &Link,
        like: &TargetAttributes,
    ) -> FileResult<LinkMade> {
        let (directory, name) = self.parent(path).await?;
        let part = split(part).1;
        let named = link.owner.as_ref().map(|it| (it.user.name(false), it.group.name(true)));
        let (user, group) = named.map_or((None, None), |(user, group)| (Some(user), Some(group)));
        let owner = Security { owner: user, group, list: None };
        let (nobody, modified) = (Security::default(), like.modified.map(time));
        let mut made = LinkMade::Yes;
        // The second attempt is made after a removal, or without the owner, the third with both.
        for attempt in 0..3 {
            let given = if made == LinkMade::Yes { &owner } else { &nobody };
            match directory.make_link(part, &link.text, modified, given).await {
                Err(error) if error.nfs_status() == Some(NfsStat::BadOwner) && attempt < 2 => {
                    made = LinkMade::WithoutOwner;
                }
                Err(error) if error.nfs_status() == Some(NfsStat::Exist) && attempt < 2 => {}
                Err(error) => {
                    // There may be none to remove. The caller gets the first error.
                    let _ = directory.remove(part).await;
                    return match error.nfs_status().is_some_and(has_no_links) {
                        true => Ok(LinkMade::No),
                        false => Err(error.into()),
                    };
                }
                Ok(true) => break,
                Ok(false) => {
                    made = if made == LinkMade::Yes { LinkMade::WithoutTime } else { made };
                    break;
                }
            }
            // The existing link has another target or owner.
            let _ = directory.remove(part).await;
        }
        if let Err(error) = directory.rename(part, name).await {
            // The caller gets the first error.
            let _ = directory.remove(part).await;
            return Err(error.into());
        }
        Ok(made)
    }

    pub(in crate::tree) async fn link(&self, path: &str, new_path: &str, part: &str) -> FileResult<()> {
        let ((from, name), (to, new_name)) = (self.parent(path).await?, self.parent(new_path).await?);
        let part = split(part).1;
        match from.link(name, &to, part).await {
            Err(error) if error.nfs_status() == Some(NfsStat::Exist) => {
                // A broken copy has left it.
                to.remove(part).await?;
                from.link(name, &to, part).await?;
            }
            linked => linked?,
        }
        let renamed = to.rename(part, new_name).await;
        // RFC 8881 18.26.3: the old name stays where both are names of one file.
        let _ = to.remove(part).await;
        Ok(renamed?)
    }
}
