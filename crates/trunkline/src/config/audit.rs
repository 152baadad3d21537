//! `[audit]` and `audit` of shares: the words for classes of events, and the places that events go to.

use std::fmt::{Display, Formatter};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use share::AuditClasses;

use super::setting::{ConfigError, Setting};
use super::tables::{Audit, Config, Share};
use super::values::Choice;
use super::{file_error, os_error};

/// A class of events, or a level that stands for several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditWord(pub AuditClasses);

impl Choice for AuditWord {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("open", AuditWord(AuditClasses::OPEN)),
        ("look", AuditWord(AuditClasses::LOOK)),
        ("read", AuditWord(AuditClasses::READ)),
        ("write", AuditWord(AuditClasses::WRITE)),
        ("create", AuditWord(AuditClasses::CREATE)),
        ("change", AuditWord(AuditClasses::CHANGE)),
        ("rename", AuditWord(AuditClasses::RENAME)),
        ("delete", AuditWord(AuditClasses::DELETE)),
        ("security", AuditWord(AuditClasses::SECURITY)),
        ("refused", AuditWord(AuditClasses::REFUSED)),
        ("connect", AuditWord(AuditClasses::CONNECT)),
        ("changes", AuditWord(CHANGES)),
        ("all", AuditWord(AuditClasses::all())),
    ];
}

/// All that changes a share, and all that was refused.
const CHANGES: AuditClasses = AuditClasses::WRITE
    .union(AuditClasses::CREATE)
    .union(AuditClasses::CHANGE)
    .union(AuditClasses::RENAME)
    .union(AuditClasses::DELETE)
    .union(AuditClasses::SECURITY)
    .union(AuditClasses::REFUSED);

/// The classes that words stand for.
pub fn classes(words: &[AuditWord]) -> AuditClasses {
    words.iter().fold(AuditClasses::empty(), |all, word| all | word.0)
}

/// A facility of syslog, by its number.
// RFC 5424 table 1
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facility(pub u8);

impl Choice for Facility {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("user", Facility(1)),
        ("daemon", Facility(3)),
        ("auth", Facility(4)),
        ("authpriv", Facility(10)),
        ("local0", Facility(16)),
        ("local1", Facility(17)),
        ("local2", Facility(18)),
        ("local3", Facility(19)),
        ("local4", Facility(20)),
        ("local5", Facility(21)),
        ("local6", Facility(22)),
        ("local7", Facility(23)),
    ];
}

/// A syslog daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Daemon {
    /// The host's own, at its socket.
    Local(PathBuf),
    /// One that takes datagrams.
    Udp(String),
    /// One that takes connections.
    Tcp(String),
}

impl Display for Daemon {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Daemon::Local(path) => write!(f, "{}", path.display()),
            Daemon::Udp(at) => write!(f, "udp://{at}"),
            Daemon::Tcp(at) => write!(f, "tcp://{at}"),
        }
    }
}

/// Reads `/dev/log`, `udp://HOST:PORT` or `tcp://HOST:PORT`.
pub fn daemon(text: &str) -> Result<Daemon, String> {
    let with_port = |at: &str| {
        let port = at.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        let port = port.and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port > 0);
        port.map(|_| at.to_owned()).ok_or_else(|| format!("`{at}` is not a host with a port"))
    };
    match text.split_once("://") {
        Some(("udp", at)) => Ok(Daemon::Udp(with_port(at)?)),
        Some(("tcp", at)) => Ok(Daemon::Tcp(with_port(at)?)),
        None if text.starts_with('/') => Ok(Daemon::Local(text.into())),
        _ => Err(format!("`{text}` is none of /dev/log, udp://HOST:PORT and tcp://HOST:PORT")),
    }
}

impl Audit {
    /// Whether events have a place to go to.
    pub fn has_target(&self) -> bool {
        self.file.is_some() || self.syslog.is_some()
    }

    /// The greatest age of a file.
    pub fn max_age(&self) -> Option<Duration> {
        self.max_age_hours.as_ref().map(|hours| Duration::from_secs(hours.value * 3600))
    }
}

/// The files to which the server writes lines, each with its setting.
fn line_files(config: &Config) -> impl Iterator<Item = (&'static str, &Setting<PathBuf>)> {
    let audit = config.audit.file.as_ref().map(|file| ("`file` in [audit]", file));
    audit.into_iter().chain(config.admin.records.as_ref().map(|file| ("`records` in [admin]", file)))
}

/// The directory of a file.
fn directory_of(file: &Path) -> &Path {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    // A name alone, or the root.
    parent.unwrap_or(if file.is_absolute() { Path::new("/") } else { Path::new(".") })
}

/// Checks that no such file lies in the real directory of a share. Clients could read, change and remove it,
/// and each event would make another.
///
/// # Errors
/// The setting to change.
pub fn lines_apart(config: &Config, real: &Path, share: &Share) -> Result<(), ConfigError> {
    for (setting, file) in line_files(config) {
        let path = &file.value;
        let parent = std::fs::canonicalize(directory_of(path));
        if parent.is_ok_and(|parent| parent.starts_with(real)) {
            let (path, name) = (path.display(), &share.name.value);
            let text = format!(
                "{setting}: {path} lies in share `{name}`, where clients reach it; give another path"
            );
            return Err(ConfigError(format!("{}: {text}", config.location(&file.origin))));
        }
    }
    Ok(())
}

/// Checks that the directories of these files exist, and that nothing else has the file's name.
fn check_files(config: &Config) -> Result<(), ConfigError> {
    for (setting, file) in line_files(config) {
        let refused = |text: String| {
            let text = format!("{setting}: {text}");
            Err(ConfigError(format!("{}: {text}", config.location(&file.origin))))
        };
        let parent = directory_of(&file.value);
        let why = match std::fs::metadata(parent) {
            Ok(found) if found.is_dir() => None,
            Ok(_) => Some("it is not a directory".to_owned()),
            Err(error) => Some(file_error(parent, &error)),
        };
        if let Some(why) = why {
            let parent = parent.display();
            return refused(format!("{parent}: {why}; give another path, or make this directory"));
        }
        if let Some(why) = not_a_file(&file.value) {
            return refused(format!("{}: {why}; give another path", file.value.display()));
        }
    }
    Ok(())
}

/// The reason why lines cannot go to this path, whose directory exists. The open of a FIFO would wait for a
/// reader.
fn not_a_file(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() || found.file_type().is_char_device() => None,
        Ok(_) => Some("it is no regular file".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            path.is_symlink().then(|| "it is a link to a file that does not exist".to_owned())
        }
        Err(error) => Some(os_error(&error)),
    }
}

/// Checks that audited shares have one place for their events.
///
/// # Errors
/// The setting to change.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    check_files(config)?;
    let audit = &config.audit;
    if let (Some(_), Some(syslog)) = (&audit.file, &audit.syslog) {
        let location = config.location(&syslog.origin);
        return Err(ConfigError(format!(
            "{location}: `syslog` in [audit]: there is `file` already; keep one"
        )));
    }
    if audit.has_target() {
        return Ok(());
    }
    let missing = "nothing says where events go to; set `file` or `syslog` in [audit]";
    if audit.logons.value {
        let location = config.location(&audit.logons.origin);
        return Err(ConfigError(format!("{location}: `logons` in [audit]: {missing}")));
    }
    match config.shares.values().find(|share| !share.audit.value.is_empty()) {
        Some(share) => {
            let (location, name) = (config.location(&share.audit.origin), &share.name.value);
            Err(ConfigError(format!("{location}: `audit` in [share.{name}]: {missing}")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;

    #[test]
    fn words_are_classes_or_stand_for_several() {
        let of = |words: &str| {
            let text = format!("[audit]\nfile = \"a\"\n[share.d]\npath = \"/d\"\naudit = {words}\n");
            read::parse("t", &text, Path::new("/etc")).map(|config| classes(&config.shares["d"].audit.value))
        };
        assert_eq!(of("\"all\"").unwrap(), AuditClasses::all());
        assert_eq!(of("[\"open\", \"delete\"]").unwrap(), AuditClasses::OPEN | AuditClasses::DELETE);
        assert_eq!(of("[\"changes\"]").unwrap() & AuditClasses::OPEN, AuditClasses::empty());
        assert!(of("[]").unwrap().is_empty());
        let why = of("[\"opens\"]").unwrap_err().0;
        assert!(why.starts_with("t:5: `audit` in [share.d]: `opens` is not one of \"open\", "), "{why}");
    }

    #[test]
    fn an_audited_share_needs_one_place_for_its_events() {
        let of = |text: &str| {
            let config = read::parse("t", text, Path::new("/etc")).map_err(|e| e.0)?;
            check(&config).map_err(|e| e.0)
        };
        let share = "[share.d]\npath = \"/d\"\naudit = \"all\"\n";
        assert_eq!(
            of(share).unwrap_err(),
            "line 3: `audit` in [share.d]: nothing says where events go to; set \
                                            `file` or `syslog` in [audit]"
        );
        assert_eq!(of(&format!("[audit]\nfile = \"a\"\n{share}")), Ok(()));
        let both = of("[audit]\nfile = \"a\"\nsyslog = \"/dev/log\"\n").unwrap_err();
        assert_eq!(both, "line 3: `syslog` in [audit]: there is `file` already; keep one");
        let why = of("[audit]\nlogons = true\n").unwrap_err();
        assert!(why.starts_with("line 2: `logons` in [audit]: nothing says where"), "{why}");
        let why = of("[audit]\nsyslog = \"log\"\n").unwrap_err();
        assert!(why.starts_with("t:2: `syslog` in [audit]: `log` is none of /dev/log, "), "{why}");
    }

    #[test]
    fn lines_go_to_a_regular_file() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("away"), at("dangling")).unwrap();
        std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for good in ["file", "link", "new"] {
            assert_eq!(not_a_file(&at(good)), None, "{good}");
        }
        for (bad, why) in [("dangling", "a link"), ("socket", "no regular"), (".", "no regular")] {
            assert!(not_a_file(&at(bad)).unwrap().contains(why), "{bad}");
        }
        assert!(not_a_file(&at(&"x".repeat(300))).unwrap().contains("too long"));
    }

    #[test]
    fn a_name_alone_is_in_the_working_directory() {
        let of = |file: &'static str| directory_of(Path::new(file)).to_str().unwrap();
        assert_eq!([of("a"), of("/a"), of("/"), of("d/a"), of("/d/a")], [".", "/", "/", "d", "/d"]);
    }

    #[test]
    fn a_file_of_lines_lies_in_a_directory_and_in_no_share() {
        let dir = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir_all(root.join("docs/deep")).unwrap();
        std::os::unix::fs::symlink(root.join("docs/deep"), root.join("link")).unwrap();
        let of = |setting: &str, file: &str| {
            let root = root.display();
            let text = format!("{setting} = \"{root}/{file}\"\n[share.d]\npath = \"{root}/docs\"\n");
            let config = read::parse("t", &text, Path::new("/etc")).unwrap();
            let apart = lines_apart(&config, &config.shares["d"].path.value, &config.shares["d"]);
            apart.and_then(|()| check(&config)).map_err(|why| why.0.replace(&root.to_string(), ""))
        };
        for (table, key) in [("[audit]", "file"), ("[admin]", "records")] {
            let setting = format!("{table}\n{key}");
            assert_eq!(of(&setting, "a.jsonl"), Ok(()));
            for inside in ["docs/a.jsonl", "docs/deep/a.jsonl", "link/a.jsonl", "docs/deep/../a.jsonl"] {
                let wanted = format!(
                    "line 2: `{key}` in {table}: /{inside} lies in share `d`, where clients reach it; give \
                     another path"
                );
                assert_eq!(of(&setting, inside), Err(wanted));
            }
            let wanted = format!(
                "line 2: `{key}` in {table}: /none: no such file or directory; give another path, or make \
                 this directory"
            );
            assert_eq!(of(&setting, "none/a.jsonl"), Err(wanted));
        }
    }

    #[test]
    fn daemons_are_written_as_they_are_read() {
        for text in ["/dev/log", "udp://log.example.net:514", "tcp://[::1]:601"] {
            assert_eq!(daemon(text).unwrap().to_string(), text);
        }
        for text in ["log", "udp://log", "tcp://:601", "tls://log:6514", "udp://log:0"] {
            assert!(daemon(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_takes_its_accounts_audit_over() {
        let text = "[audit]\nfile = \"a\"\n[account.t]\naudit = \"changes\"\n\
                    [share.d]\npath = \"/d\"\naccount = \"t\"\n[share.e]\npath = \"/e\"\naccount = \"t\"\n\
                    audit = []\n";
        let config = read::parse("t", text, Path::new("/etc")).unwrap();
        let of = |name: &str| classes(&config.shares[name].audit.value);
        assert_eq!((of("d"), of("e")), (CHANGES, AuditClasses::empty()));
    }

    #[test]
    fn the_page_lists_each_operation_with_its_words() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/audit.md");
        let page = std::fs::read_to_string(path).unwrap();
        let table = page.split("## Operations").nth(1).unwrap().split("\n\n").nth(1).unwrap();
        let cells = |row: &str| -> Vec<String> {
            row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
        };
        let names =
            |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
        let rows: Vec<_> = table.lines().skip(2).map(cells).collect();
        let told: Vec<_> = rows.iter().flat_map(|row| names(&row[0])).collect();
        let all = share::AuditedOperation::ALL.iter().map(|operation| operation.word().to_owned());
        let wanted: Vec<_> = all.chain(["lost".to_owned()]).collect();
        assert_eq!(told, wanted);
        for (row, operation) in rows.iter().zip(share::AuditedOperation::ALL) {
            let words = names(&row[1]);
            let mut of_page = AuditClasses::empty();
            for (name, word) in AuditWord::NAMES {
                if words.iter().any(|one| one == name) {
                    of_page |= word.0;
                }
            }
            // Looks and refusals come beside the class of an operation.
            let beside = AuditClasses::LOOK | AuditClasses::REFUSED;
            assert_eq!(of_page - beside, operation.classes() - beside, "{}", operation.word());
        }
    }

    #[test]
    fn the_page_lists_each_word() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/audit.md");
        let page = std::fs::read_to_string(path).unwrap();
        let table = page.split("## Choosing events").nth(1).unwrap().split("\n\n").nth(2).unwrap();
        let words: Vec<_> = table.lines().skip(2).filter_map(|row| row.split('`').nth(1)).collect();
        assert_eq!(words, AuditWord::names());
    }
}
