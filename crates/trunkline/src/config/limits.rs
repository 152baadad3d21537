//! The provisioned limits of an account and its shares.
//!
//! An account's `kind` and `formula` say how a share's size determines its operations and bytes a second
//! (`share::limits::formula`). A share's settings say how much it has. [`check`] refuses impossible
//! combinations.

use share::limits::formula::{METADATA_CACHED, ProvisionField};
use share::limits::{AccountProvision, Formula, Provision, ProvisionError, ProvisionRequest, Throughput};

use super::setting::{ConfigError, Origin, Setting};
use super::tables::{Account, Config, Share};
use super::values::{AccountKind, Choice, ShareProtocol};

impl Account {
    /// The formula that derives limits from sizes. None if nothing is limited.
    ///
    /// # Errors
    /// The mistake in `formula`, without its position.
    pub fn formula(&self) -> Result<Option<Formula>, String> {
        let wanted = self.formula.as_ref().map(|formula| formula.value);
        let choose = |default, fitting: &[Formula]| match wanted {
            None => Ok(Some(default)),
            Some(formula) if fitting.contains(&formula) => Ok(Some(formula)),
            Some(_) => {
                let names: Vec<_> = fitting.iter().map(|one| format!("\"{}\"", one.name())).collect();
                Err(format!("`kind = \"{}\"` has only {}", self.kind.value.name(), names.join(", ")))
            }
        };
        match self.kind.value {
            AccountKind::Unlimited if wanted.is_some() => {
                Err("is valid only with `kind = \"premium\"` or \"standard\"".to_owned())
            }
            AccountKind::Unlimited => Ok(None),
            AccountKind::Premium => {
                choose(Formula::V1, &[Formula::V1, Formula::V1Of2021, Formula::V1Of2020, Formula::V2])
            }
            AccountKind::Standard => {
                let chosen = choose(Formula::Large, &[Formula::Large, Formula::Small, Formula::V2])?;
                Ok(chosen.map(|formula| if formula == Formula::V2 { Formula::V2Standard } else { formula }))
            }
        }
    }
}

impl Share {
    /// The account's name in lower case, its formula, and the limits of the share. None if the share is not
    /// limited.
    ///
    /// # Errors
    /// The value that is not possible, with its position.
    pub fn limits(&self, config: &Config) -> Result<Option<(String, Formula, Provision)>, ConfigError> {
        let name = self.account.as_ref().map(|account| account.value.to_lowercase());
        let account = name.as_ref().and_then(|name| config.accounts.get(name));
        let formula = match account {
            Some(account) => account.formula().map_err(|why| {
                let origin = account.formula.as_ref().map_or(&account.name.origin, |formula| &formula.origin);
                refused(config, origin, format!("`formula` in [account.{}]: {why}", account.name.value))
            })?,
            None => None,
        };
        let Some(formula) = formula else {
            return match self.bought().into_iter().find_map(|(key, setting)| Some((key, setting.as_ref()?))) {
                None => Ok(None),
                Some((key, setting)) => Err(refused(
                    config,
                    &setting.origin,
                    format!(
                        "`{key}` in [share.{}] is valid only in an account with `kind = \"premium\"` or \
                         \"standard\"; set `account`",
                        self.name.value
                    ),
                )),
            };
        };
        let [gib, operations, mib_s] = self.bought().map(|(_, own)| own.as_ref().map(|own| own.value));
        let wanted = ProvisionRequest { gib, operations, mib_s };
        let mut provision = formula.provision(wanted).map_err(|why| self.not_provided(config, &why))?;
        if matches!(formula, Formula::V1 | Formula::V1Of2021 | Formula::V1Of2020 | Formula::V2)
            && (self.offers(ShareProtocol::Nfs) || self.metadata_caching.value)
        {
            provision.metadata = METADATA_CACHED;
        }
        Ok(Some((name.unwrap_or_default(), formula, provision)))
    }

    /// The provisioned GiB, operations and MiB a second, by their keys.
    fn bought(&self) -> [(&'static str, &Option<Setting<u64>>); 3] {
        [
            ("provisioned_gib", &self.provisioned_gib),
            ("provisioned_iops", &self.provisioned_iops),
            ("provisioned_mib_s", &self.provisioned_mib_s),
        ]
    }

    fn not_provided(&self, config: &Config, why: &ProvisionError) -> ConfigError {
        let [gib, operations, mib_s] = self.bought();
        let (key, setting) = match why {
            ProvisionError::NoSize => gib,
            ProvisionError::Fixed | ProvisionError::BySize if operations.1.is_some() => operations,
            ProvisionError::Fixed | ProvisionError::BySize => mib_s,
            ProvisionError::OutOfRange { number: ProvisionField::Gib, .. } => gib,
            ProvisionError::OutOfRange { number: ProvisionField::Operations, .. } => operations,
            ProvisionError::OutOfRange { number: ProvisionField::MibS, .. } => mib_s,
        };
        let origin = setting.as_ref().map_or(&self.name.origin, |setting| &setting.origin);
        refused(config, origin, format!("`{key}` in [share.{}]: {why}", self.name.value))
    }
}

fn refused(config: &Config, origin: &Origin, message: String) -> ConfigError {
    ConfigError(format!("{}: {message}", config.location(origin)))
}

/// Checks the limits of all accounts and shares.
///
/// # Errors
/// The first impossible value, with the setting to change.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    for account in config.accounts.values() {
        let formula = account.formula().map_err(|why| {
            let origin = account.formula.as_ref().map_or(&account.name.origin, |formula| &formula.origin);
            refused(config, origin, format!("`formula` in [account.{}]: {why}", account.name.value))
        })?;
        if let Some(formula) = formula {
            count(config, account, formula)?;
            together(config, account, formula)?;
        }
    }
    config.shares.values().try_for_each(|share| share.limits(config).map(|_| ()))
}

/// Refuses more shares than the account may have.
fn count(config: &Config, account: &Account, formula: Formula) -> Result<(), ConfigError> {
    let Some(most) = formula.most_shares() else { return Ok(()) };
    let name = account.name.value.to_lowercase();
    let is_of_it = |share: &&Share| share.account.as_ref().is_some_and(|of| of.value.to_lowercase() == name);
    let Some(share) = config.shares.values().filter(is_of_it).nth(most) else { return Ok(()) };
    let text = format!(
        "share `{}` exceeds the {most} shares that [account.{}] can have; put it into another account",
        share.name.value, account.name.value
    );
    let origin = share.account.as_ref().map_or(&share.name.origin, |of| &of.origin);
    Err(refused(config, origin, text))
}

/// Refuses shares whose limits together exceed those of their account, if the formula does not allow that.
fn together(config: &Config, account: &Account, formula: Formula) -> Result<(), ConfigError> {
    let AccountProvision { operations: most, throughput } = formula.account();
    let Throughput::Together(most_bytes) = throughput else { return Ok(()) };
    if formula.may_overprovision() {
        return Ok(());
    }
    let (mut operations, mut bytes) = (0, 0);
    for share in config.shares.values() {
        let Some((of, _, provision)) = share.limits(config)? else { continue };
        if of != account.name.value.to_lowercase() {
            continue;
        }
        operations += provision.operations;
        bytes += match provision.throughput {
            Throughput::Together(rate) => rate,
            Throughput::Apart { ingress, egress } => ingress + egress,
        };
    }
    let mib = 1 << 20;
    let too_much = if operations > most {
        Some((operations, "operations", most))
    } else if bytes > most_bytes {
        Some((bytes / mib, "MiB", most_bytes / mib))
    } else {
        None
    };
    let Some((sum, unit, most)) = too_much else { return Ok(()) };
    let text = format!(
        "the shares of [account.{}] together have {sum} {unit} a second, more than the {most} of an account; \
         provision less, or put some into another account",
        account.name.value
    );
    Err(refused(config, &account.name.origin, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use std::path::Path;

    fn config(text: &str) -> Config {
        let mut config = read::parse("t.toml", text, Path::new("/")).unwrap();
        config.file = Some("t.toml".into());
        config
    }

    fn refusal(text: &str) -> String {
        check(&config(text)).unwrap_err().0
    }

    #[test]
    fn a_share_has_what_its_account_and_its_size_give() {
        let of = |text: &str| {
            let config = config(text);
            check(&config).unwrap();
            config.shares["d"].limits(&config).unwrap().map(|(_, formula, provision)| (formula, provision))
        };
        assert_eq!(of("[share.d]\npath = \"/d\"\n"), None);
        assert_eq!(of("[account.t]\n[share.d]\npath = \"/d\"\naccount = \"t\"\n"), None);
        let (formula, v1) = of("[account.t]\nkind = \"premium\"\n\
             [share.d]\npath = \"/d\"\naccount = \"T\"\nprovisioned_gib = 1024\n")
        .unwrap();
        assert_eq!((formula, v1.operations, v1.metadata), (Formula::V1, 4024, 35_000));
        // Without metadata caching the limit is lower, whether the share or its account turns it off.
        for (account, share) in [("metadata_caching = false\n", ""), ("", "metadata_caching = false\n")] {
            let (_, slow) = of(&format!(
                "[account.t]\nkind = \"premium\"\n{account}[share.d]\npath = \"/d\"\naccount = \"t\"\n\
                 {share}provisioned_gib = 100\n"
            ))
            .unwrap();
            assert_eq!(slow.metadata, 12_000, "{account}{share}");
        }
        let (formula, v2) =
            of("[account.t]\nkind = \"standard\"\nformula = \"v2\"\n[share.d]\npath = \"/d\"\n\
             account = \"t\"\nprovisioned_gib = 1024\nprovisioned_iops = 700\nprotocols = [\"nfs\"]\n")
            .unwrap();
        assert_eq!((formula, v2.operations, v2.metadata), (Formula::V2Standard, 700, 12_000));
        let (_, nfs) =
            of("[account.t]\nkind = \"premium\"\nformula = \"v1-2020\"\n[share.d]\npath = \"/d\"\n\
             account = \"t\"\nprovisioned_gib = 100\nprotocols = [\"nfs\"]\nmetadata_caching = false\n")
            .unwrap();
        assert_eq!((nfs.operations, nfs.metadata), (500, 35_000));
        let (formula, fixed) =
            of("[account.t]\nkind = \"standard\"\n[share.d]\npath = \"/d\"\naccount = \"t\"\n").unwrap();
        assert_eq!((formula, fixed.operations), (Formula::Large, 20_000));
    }

    #[test]
    fn what_cannot_be_bought_is_refused_with_its_line_and_the_reason() {
        let share = |account: &str, rest: &str| {
            format!("[account.t]\n{account}[share.d]\npath = \"/d\"\naccount = \"t\"\n{rest}")
        };
        let premium = "kind = \"premium\"\n";
        let cases = [
            (
                share(premium, "provisioned_gib = 99\n"),
                "t.toml:6: `provisioned_gib` in [share.d]: the size in GiB must be from 100 to 102400",
            ),
            (
                share(premium, ""),
                "t.toml:3: `provisioned_gib` in [share.d]: the size decides what the share may do; set it",
            ),
            (
                share(premium, "provisioned_gib = 100\nprovisioned_iops = 9000\n"),
                "t.toml:7: `provisioned_iops` in [share.d]: the size alone decides it by this formula; \
                 leave it out, or take provisioned v2",
            ),
            (
                share(
                    "kind = \"premium\"\nformula = \"v2\"\n",
                    "provisioned_gib = 100\nprovisioned_mib_s = 99\n",
                ),
                "t.toml:8: `provisioned_mib_s` in [share.d]: MiB a second must be from 100 to 10340",
            ),
            (
                share("kind = \"standard\"\n", "provisioned_gib = 100\nprovisioned_iops = 100\n"),
                "t.toml:7: `provisioned_iops` in [share.d]: the limits of this kind are fixed; leave it out",
            ),
            (
                share("kind = \"standard\"\nformula = \"small\"\n", "provisioned_gib = 5121\n"),
                "t.toml:7: `provisioned_gib` in [share.d]: the size in GiB must be from 1 to 5120",
            ),
            (
                share("kind = \"premium\"\nformula = \"large\"\n", "provisioned_gib = 100\n"),
                "t.toml:3: `formula` in [account.t]: `kind = \"premium\"` has only \"v1\", \"v1-2021\", \
                 \"v1-2020\", \"v2\"",
            ),
            (
                share("formula = \"v1\"\n", ""),
                "t.toml:2: `formula` in [account.t]: is valid only with `kind = \"premium\"` or \"standard\"",
            ),
            (
                "[share.d]\npath = \"/d\"\nprovisioned_gib = 100\n".to_owned(),
                "t.toml:3: `provisioned_gib` in [share.d] is valid only in an account with `kind = \
                 \"premium\"` or \"standard\"; set `account`",
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(refusal(&text), wanted, "{text}");
        }
    }

    #[test]
    fn shares_bought_apart_may_not_have_more_than_their_account() {
        let two = |formula: &str, gib: u64| {
            format!(
                "[account.t]\nkind = \"premium\"\nformula = \"{formula}\"\n\
                 [share.a]\npath = \"/a\"\naccount = \"t\"\nprovisioned_gib = {gib}\n\
                 [share.b]\npath = \"/b\"\naccount = \"t\"\nprovisioned_gib = {gib}\n"
            )
        };
        assert_eq!(
            refusal(&two("v2", 60_000)),
            "t.toml:1: the shares of [account.t] together have 126000 operations a second, more than the \
             102400 of an account; provision less, or put some into another account"
        );
        assert!(
            check(&config(&two("v1", 60_000))).is_ok(),
            "of these each may be bought, and the account holds them"
        );
    }

    #[test]
    fn an_account_has_so_many_shares_and_a_standard_one_a_size_that_bounds_what_lies_there() {
        use std::fmt::Write;
        let many = |formula: &str, count: usize| {
            let mut text = format!("[account.t]\nkind = \"premium\"\nformula = \"{formula}\"\n");
            for at in 0..count {
                let size = if formula == "v2" {
                    "32\nprovisioned_iops = 3000\nprovisioned_mib_s = 100"
                } else {
                    "100"
                };
                writeln!(
                    text,
                    "[share.s{at:04}]\npath = \"/{at}\"\naccount = \"T\"\nprovisioned_gib = {size}"
                )
                .unwrap();
            }
            config(&text)
        };
        let why = check(&many("v2", 51)).unwrap_err().0;
        assert!(
            why.ends_with(
                "share `s0050` exceeds the 50 shares that [account.t] can have; put it into another account"
            ),
            "{why}"
        );
        assert!(check(&many("v1", 60)).is_ok());
        assert!(check(&many("v1", 1025)).unwrap_err().0.contains("exceeds the 1024 shares"));
        let standard = config(
            "[account.t]\nkind = \"standard\"\n[share.d]\npath = \"/d\"\naccount = \"t\"\nprovisioned_gib = \
             7\n",
        );
        assert!(check(&standard).is_ok());
    }

    #[test]
    fn a_formula_that_nobody_knows_is_refused_with_those_that_there_are() {
        let text = "[account.t]\nkind = \"premium\"\nformula = \"v3\"\n";
        let why = read::parse("t.toml", text, Path::new("/")).unwrap_err().0;
        assert!(why.starts_with("t.toml:3: `formula`") && why.contains("`v3` is not one of \"v1\""), "{why}");
    }
}
