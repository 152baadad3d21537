//! Follows links of the source, without going round for ever.
//!
//! The target of a link is found by its path. On this host it is the path without any link in it, as the host
//! resolves it. On a server it comes from the text of the link, and stays in SRC. A directory on the way to
//! the link is not copied into itself again.

use std::sync::Arc;

use client::remote::{Attributes, Kind};

use crate::context::CopyContext;
use crate::error::{Fault, FileResult};
use crate::job::{Directory, Trail};
use crate::name::{join, split};
use crate::tree::Tree;

/// The most links followed one after the other, as many as Linux follows (path_resolution(7)).
const MOST: usize = 40;

/// The object that a name of the source stands for.
#[derive(Debug)]
pub(crate) struct Followed {
    /// Its path in the source.
    pub(crate) from: String,
    pub(crate) attributes: Attributes,
    /// The links that led to it.
    pub(crate) trail: Option<Arc<Trail>>,
}

/// Follows the link `link` in `directory`.
pub(crate) async fn follow(shared: &CopyContext, directory: &Directory, link: &str) -> FileResult<Followed> {
    let (from, attributes) = match &shared.source {
        Tree::Local(side) => side.follow(link).await?,
        Tree::Smb(_) | Tree::Nfs(_) => by_text(shared, link).await?,
    };
    spare_target(shared, &from).await?;
    if attributes.kind != Kind::Directory {
        return Ok(Followed { from, attributes, trail: directory.trail.clone() });
    }
    let here = match &shared.source {
        Tree::Local(side) => side.real(&directory.from).await?,
        Tree::Smb(_) | Tree::Nfs(_) => directory.from.clone(),
    };
    let root = match &shared.source {
        Tree::Local(side) => side.real("").await?,
        Tree::Smb(_) | Tree::Nfs(_) => String::new(),
    };
    if goes_round(&from, &here, &root, directory.trail.as_deref()) {
        let why = "it leads to a directory that it is in itself; copy it as a link, or leave it out";
        return Err(Fault::Said(why.to_owned()));
    }
    let trail = Trail { entry: from.clone(), above: directory.trail.clone(), before: here };
    Ok(Followed { from, attributes, trail: Some(Arc::new(trail)) })
}

/// Fails if a link leads to the copy itself, which would be copied into itself without end, or over itself.
async fn spare_target(shared: &CopyContext, from: &str) -> FileResult<()> {
    let (Tree::Local(source), Tree::Local(target)) = (&shared.source, &shared.target) else { return Ok(()) };
    let (source, target) = (source.real("").await?, target.real_root().await?);
    // A source within the target is copied anyway.
    let is_in_target = is_within(from, &target) && !is_within(from, &source);
    if is_in_target || is_within(&target, from) {
        let why = "it leads into DST, or to a directory that DST is in, and the copy would be copied into \
                   itself; copy it as a link, or leave it out";
        return Err(Fault::Said(why.to_owned()));
    }
    Ok(())
}

/// Whether `path` is on the way from `root` to the directory `here`.
fn goes_round(path: &str, here: &str, root: &str, trail: Option<&Trail>) -> bool {
    let (mut here, mut trail) = (here, trail);
    loop {
        let entry = trail.map_or(root, |trail| &trail.entry);
        if is_within(path, entry) && is_within(here, path) {
            return true;
        }
        let Some(above) = trail else { return false };
        (here, trail) = (&above.before, above.above.as_deref());
    }
}

/// Whether `path` is `other` or lies below it.
fn is_within(path: &str, other: &str) -> bool {
    let below = path.strip_prefix(other);
    other.is_empty() || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || other == "/")
}

/// Follows the link `link` of a server, link by link.
async fn by_text(shared: &CopyContext, link: &str) -> FileResult<(String, Attributes)> {
    let mut at = link.to_owned();
    for _ in 0..MOST {
        let Some(read) = shared.source.read_link(&at).await? else {
            let gone = || Fault::Said("it leads to nothing; remove it, or copy it as a link".to_owned());
            let attributes = shared.source.stat(&at).await?.ok_or_else(gone)?;
            return Ok((at, attributes));
        };
        let out = || {
            let why = "it leads out of SRC, where only its server can follow it; copy it as a link, or leave \
                       it out";
            Fault::Said(why.to_owned())
        };
        at = std::str::from_utf8(&read.text).ok().and_then(|text| beside(&at, text)).ok_or_else(out)?;
    }
    Err(Fault::Said(format!("it leads over more than {MOST} links; remove it, or copy it as a link")))
}

/// The path of `text` relative to the directory of `link`, if it stays in the copy.
fn beside(link: &str, text: &str) -> Option<String> {
    if text.starts_with('/') {
        return None;
    }
    let mut at = split(link).0.to_owned();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." if at.is_empty() => return None,
            ".." => at = split(&at).0.to_owned(),
            name => at = join(&at, name),
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_link_leads_on_from_its_directory_and_not_out_of_the_copy() {
        assert_eq!(beside("a/b/link", "../c/./d").as_deref(), Some("a/c/d"));
        assert_eq!(beside("link", ".").as_deref(), Some(""));
        assert_eq!((beside("a/link", "../../x"), beside("link", "/etc")), (None, None));
    }

    #[test]
    fn a_directory_on_the_way_is_known_also_over_several_links() {
        let trail = Trail { entry: "/elsewhere".into(), above: None, before: "/root/a".into() };
        let goes = |path| goes_round(path, "/elsewhere/deep", "/root", Some(&trail));
        assert!(["/elsewhere", "/elsewhere/deep", "/root", "/root/a"].map(goes).iter().all(|round| *round));
        assert!(!["/else", "/root/b", "/elsewhere/deep/er", "/"].map(goes).iter().any(|round| *round));
    }
}
