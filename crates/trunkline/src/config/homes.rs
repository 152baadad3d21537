//! Home shares: `path = "/home/{user}"` gives each user their own directory. The share serves the directory
//! above, and a user reaches only what is below the own name there.

use std::path::{Component, Path};

use super::check::fail;
use super::setting::ConfigError;
use super::tables::{Config, Share};
use super::values::ShareProtocol;
pub use super::values::{NO_FOLDER, USER};

impl Share {
    /// Whether each user has their own directory.
    pub fn has_homes(&self) -> bool {
        self.path.value.file_name().is_some_and(|last| last == USER)
    }

    /// The directory of the host that the share serves. It contains the homes, if the share has them.
    pub fn directory(&self) -> &Path {
        match self.path.value.parent() {
            Some(above) if self.has_homes() => above,
            _ => &self.path.value,
        }
    }
}

/// Checks the settings of a share that concern homes.
///
/// # Errors
/// The setting to change.
pub fn check(config: &Config, share: &Share) -> Result<(), ConfigError> {
    let (name, path) = (&share.name.value, &share.path);
    let wrong = |why: String| fail(config, &path.origin, format!("`path` of share `{name}`: {why}"));
    let parts = path.value.components().filter_map(|part| match part {
        Component::Normal(part) => part.to_str(),
        _ => None,
    });
    let parts: Vec<&str> = parts.collect();
    let holds_user = |part: &&&str| part.contains(USER);
    if parts.iter().any(|part| part.contains(USER) && *part != USER) {
        return Err(wrong(format!("`{USER}` must be a whole part of the path, as in /home/{USER}")));
    }
    let count = parts.iter().filter(holds_user).count();
    if count > 1 || (count == 1 && !share.has_homes()) {
        return Err(wrong(format!("`{USER}` must be the last part of the path, as in /home/{USER}")));
    }
    if share.has_homes() && share.directory() == Path::new("/") {
        return Err(wrong(format!(
            "`{USER}` would stand for the folders of this host's root; name the folder that has the homes, \
             as in /home/{USER}"
        )));
    }
    let is_placeholder = |part: &&&str| part.starts_with('{') && part.ends_with('}') && **part != USER;
    if let Some(unknown) = parts.iter().find(is_placeholder).filter(|_| !path.value.exists()) {
        return Err(wrong(format!("`{unknown}` stands for nothing; the only placeholder is `{USER}`")));
    }
    if share.create_home.value && !share.has_homes() {
        let text = format!(
            "share `{name}` has `create_home = true`, but its `path` gives no user a directory; end it with \
             `/{USER}`, or remove `create_home`"
        );
        return Err(fail(config, &share.create_home.origin, text));
    }
    if share.recycle.value && share.has_homes() {
        let text = format!(
            "share `{name}` has `recycle = true`, but a share of homes keeps no removed files: its recycle \
             folder would lie outside of the homes; remove `recycle`"
        );
        return Err(fail(config, &share.recycle.origin, text));
    }
    named_by_user(config, share)
}

/// Refuses a share named `{user}` that has no homes, or that NFS clients would have to find by its name.
fn named_by_user(config: &Config, share: &Share) -> Result<(), ConfigError> {
    if share.name.value != USER {
        return Ok(());
    }
    let why = if !share.has_homes() {
        format!("needs a `path` that ends with `/{USER}`")
    } else if share.offers(ShareProtocol::Nfs) {
        "cannot be offered over NFS, where no user is known by name; give the share another name".to_owned()
    } else {
        return Ok(());
    };
    Err(fail(config, &share.name.origin, format!("share `{USER}` {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;

    fn checked(text: &str) -> Result<(), String> {
        let config = read::parse("t", &format!("[share.{text}"), Path::new("/")).map_err(|why| why.0)?;
        config.shares.values().try_for_each(|share| check(&config, share)).map_err(|why| why.0)
    }

    #[test]
    fn the_directory_above_the_homes_is_served() {
        let config =
            read::parse("t", "[share.h]\npath = \"/home/{user}\"\n[share.d]\npath = \"/d\"\n", "/".as_ref());
        let shares = config.unwrap().shares;
        assert_eq!((shares["h"].directory(), shares["h"].has_homes()), (Path::new("/home"), true));
        assert_eq!((shares["d"].directory(), shares["d"].has_homes()), (Path::new("/d"), false));
    }

    #[test]
    fn a_placeholder_is_one_whole_last_part_of_the_path() {
        for fine in [
            "h]\npath = \"/home/{user}\"\ncreate_home = true\n",
            "\"{user}\"]\npath = \"/home/{user}\"\n",
            "h]\npath = \"/home/{user}\"\nprotocols = [\"smb\", \"nfs\"]\n",
            "h]\npath = \"/home/a{b}\"\n",
        ] {
            assert_eq!(checked(fine), Ok(()), "{fine}");
        }
        for (text, why) in [
            (
                "h]\npath = \"/home/x{user}\"\n",
                "line 2: `path` of share `h`: `{user}` must be a whole part of",
            ),
            (
                "h]\npath = \"/home/{user}/a\"\n",
                "line 2: `path` of share `h`: `{user}` must be the last part",
            ),
            ("h]\npath = \"{user}\"\n", "t:2: `path` in [share.h]: must have a folder above `{user}`: "),
            ("h]\npath = \"/{user}\"\n", "line 2: `path` of share `h`: `{user}` would stand for the "),
            (
                "h]\npath = \"/{user}/{user}\"\n",
                "line 2: `path` of share `h`: `{user}` must be the last part",
            ),
            (
                "h]\npath = \"/home/{usr}\"\n",
                "line 2: `path` of share `h`: `{usr}` stands for nothing; the only",
            ),
            (
                "h]\npath = \"/home\"\ncreate_home = true\n",
                "line 3: share `h` has `create_home = true`, but its",
            ),
            (
                "h]\npath = \"/home/{user}\"\nrecycle = true\n",
                "line 3: share `h` has `recycle = true`, but a share of homes",
            ),
            (
                "\"{user}\"]\npath = \"/home\"\n",
                "line 1: share `{user}` needs a `path` that ends with `/{user}`",
            ),
            (
                "\"{user}\"]\npath = \"/h/{user}\"\nprotocols = [\"nfs\"]\n",
                "line 1: share `{user}` cannot be offered over NFS",
            ),
        ] {
            let refusal = checked(text).unwrap_err();
            assert!(refusal.starts_with(why), "{refusal}");
        }
    }
}
