//! Masks secrets in messages: passwords in an address on the command line. The program refuses such passwords
//! and must not repeat them to people who read its output.

/// The text that replaces a password.
const MASK: &str = "***";

/// The password in `SCHEME://USER:PASSWORD@HOST`, if there is one.
fn password(word: &str) -> Option<&str> {
    let (_, rest) = word.split_once("://")?;
    // A password may hold `/` and `@`.
    let (login, _) = rest.rsplit_once('@')?;
    let (_, password) = login.split_once(':').filter(|(user, _)| !user.contains('@'))?;
    Some(password).filter(|it| !it.is_empty())
}

/// `text` with masked passwords. It may repeat words of the command line as they are or in quotes.
pub fn masked(text: &str, words: impl IntoIterator<Item = String>) -> String {
    let mut text = text.to_owned();
    for word in words {
        let Some(password) = password(&word) else { continue };
        let with = |password: &str| format!(":{password}@");
        let escaped = password.escape_debug().to_string();
        for written in [password, &escaped] {
            text = text.replace(&with(written), &with(MASK));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_places_are_not_repeated() {
        for (word, shown) in [
            ("smb://ann:secret@h:445/x", "smb://ann:***@h:445/x"),
            ("smb://CORP;ann:se@cr/et@h/x", "smb://CORP;ann:***@h/x"),
            ("--place=ftp://ann:secret@h", "--place=ftp://ann:***@h"),
            ("smb://ann@h:445/x", "smb://ann@h:445/x"),
            ("nfs://h:2049/x", "nfs://h:2049/x"),
            ("smb://ann:@h/x", "smb://ann:@h/x"),
            ("/mnt/a:b@c", "/mnt/a:b@c"),
        ] {
            let said = masked(&format!("wrong: '{word}' is wrong"), [word.to_owned()]);
            assert_eq!(said, format!("wrong: '{shown}' is wrong"));
        }
        let odd = "smb://ann:a\"b\\c@h/x";
        assert!(masked(&format!("{odd:?}"), [odd.to_owned()]).contains(":***@h/x"));
    }
}
