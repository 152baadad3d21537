//! The table of settings for readers and programs: `docs/configuration.md`, a JSON schema for editors, and
//! the schemas of the admin API.
//!
//! Start with [`page`], [`schema`] and [`settings`]. All are generated from the keys in `config/tables.rs`.

use std::fmt::Write;

use admin::objects::Kind;
use serde_json::{Map, Value, json};

use crate::config::foreign::{ELSEWHERE, NOT_THERE};
use crate::config::format::Shape;
use crate::config::table::{Fallback, KeyDescription};
use crate::config::{Account, Admin, Audit, Domain, Node, Server, Share, Testing, User};

/// Each table with its title, its purpose and its keys.
pub fn tables() -> [(&'static str, &'static str, Vec<KeyDescription>); 9] {
    [
        ("[server]", Server::ABOUT, Server::keys().into()),
        ("[server.testing]", Testing::ABOUT, Testing::keys().into()),
        ("[admin]", Admin::ABOUT, Admin::keys().into()),
        ("[audit]", Audit::ABOUT, Audit::keys().into()),
        ("[domain]", Domain::ABOUT, Domain::keys().into()),
        ("[node]", Node::ABOUT, Node::keys().into()),
        ("[[user]]", User::ABOUT, User::keys().into()),
        ("[account.NAME]", Account::ABOUT, Account::keys().into()),
        ("[share.NAME]", Share::ABOUT, Share::keys().into()),
    ]
}

const INTRODUCTION: &str = "\
# Configuration

All keys of the configuration file. `trunkline config keys` prints this page, and a test keeps the two equal.

The file is TOML; [Configuring](configuring.md) has an example. Relative paths refer to its \
directory.
A list of one string may be written as the string. An unknown key is refused with its line and the most \
similar
known name. `trunkline config show` prints each value with its origin, and `trunkline config schema` prints \
a JSON
schema for editors. Keys of accounts and shares can also be set by command and over the admin API
([provision](provision.md)).

*Applies*: changes of `live` keys apply when the configuration is read again (`trunkline reload`), the \
others at the
next start.
";

/// `docs/configuration.md`.
pub fn page() -> String {
    let mut out = INTRODUCTION.to_owned();
    for (title, about, keys) in tables() {
        let _ = write!(out, "\n## `{title}`\n\n{}\n\n", linked(about.trim()));
        out += "| key | values | default | applies | purpose |\n|---|---|---|---|---|\n";
        for key in keys {
            let applies = if key.is_live { "live" } else { "start" };
            let (values, default) = (values(&key), default(&key).replace('|', "\\|"));
            let _ =
                writeln!(out, "| `{}` | {values} | {default} | {applies} | {} |", key.name, linked(key.help));
        }
    }
    out += "\n## Keys with another name\n\nKeys of other servers, and their names here.\n\n| there | here |\n\
            |---|---|\n";
    for (words, keys) in ELSEWHERE {
        let _ = writeln!(out, "| {} | {} |", code(words), code(keys));
    }
    out += "\n## Keys without a counterpart\n\nKeys of other servers that do not exist here, and the \
            reason.\n\n| there | here |\n|---|---|\n";
    for (words, why) in NOT_THERE {
        let _ = writeln!(out, "| {} | {why} |", code(words));
    }
    out
}

fn code(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Turns `(docs/page.md)` in a text into links to the other pages of the documents.
fn linked(text: &str) -> String {
    let mut parts = text.split("(docs/");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| match part.split_once(".md)") {
        Some((page, after)) => format!("{before}([{page}]({page}.md)){after}"),
        None => format!("{before}(docs/{part}"),
    })
}

/// The possible values of a key, in words.
pub fn values(key: &KeyDescription) -> String {
    let unit = UNITS.iter().find(|(end, _)| key.name.ends_with(end)).map_or("", |(_, unit)| unit);
    words(&key.shape) + unit
}

/// The units of keys, by the end of their name.
const UNITS: [(&str, &str); 6] =
    [("_gib", " GiB"), ("_mib", " MiB"), ("_mib_s", " MiB/s"), ("_ms", " ms"), ("_us", " µs"), ("_s", " s")];

fn words(shape: &Shape) -> String {
    match shape {
        Shape::Flag => "`true`, `false`".to_owned(),
        Shape::Number(min, max) => format!("{min} to {max}"),
        Shape::Text => "text".to_owned(),
        Shape::Path => "path".to_owned(),
        Shape::OneOf(names) => {
            names.iter().map(|name| format!("`\"{name}\"`")).collect::<Vec<_>>().join(", ")
        }
        Shape::FlagOr(names) => {
            let name = |name: &&str| match *name {
                "true" | "false" => format!("`{name}`"),
                _ => format!("`\"{name}\"`"),
            };
            names.iter().map(name).collect::<Vec<_>>().join(", ")
        }
        Shape::List(item) => format!("list of {}", words(item)),
        Shape::Users(access) => {
            format!("`{{ NAME = ACCESS }}` with {}", words(&Shape::OneOf(access.clone())))
        }
    }
}

/// The value that applies if a key is not set, in words.
pub fn default(key: &KeyDescription) -> String {
    let own = match &key.fallback {
        Fallback::Required => Some("must be set".to_owned()),
        Fallback::Value(value) => Some(format!("`{value}`")),
        Fallback::Found(words) | Fallback::Unset(words, _) => Some((*words).to_owned()),
        Fallback::Above => None,
    };
    let above = key.above.iter().map(|table| format!("from its {table}"));
    let above = above.map(|from| from.replace("its server", "`[server]`"));
    above.chain(own).collect::<Vec<_>>().join(", else ")
}

/// A JSON schema of the whole file.
pub fn schema() -> Value {
    let [server, testing, admin, audit, domain, node, user, account, share] =
        tables().map(|(_, about, keys)| object(about, &keys, in_file));
    let mut server = server;
    server["properties"]["testing"] = testing;
    let named = |table: Value| json!({ "type": "object", "additionalProperties": table });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The configuration of Trunkline",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "server": server,
            "admin": admin,
            "audit": audit,
            "domain": domain,
            "node": node,
            "user": { "type": "array", "items": user },
            "account": named(account),
            "share": named(share),
        },
    })
}

/// The JSON schema of the settings of an account or a share in the admin API.
pub fn settings(kind: Kind) -> Value {
    let keys: Vec<KeyDescription> = match kind {
        Kind::Account => Account::keys().into(),
        Kind::Share => Share::keys().into(),
    };
    let mut settings = object("null drops the change of a key", &keys, or_null);
    if let Some(settings) = settings.as_object_mut() {
        settings.remove("required");
    }
    settings
}

fn object(about: &str, keys: &[KeyDescription], value: fn(&Shape) -> Value) -> Value {
    let property = |key: &KeyDescription| {
        let mut property = value(&key.shape);
        property["description"] = key.help.into();
        // A value that is inherited from the table above overrides the key's own default.
        if let (Fallback::Value(text), true) = (&key.fallback, key.above.is_empty()) {
            let parsed = format!("x = {text}").parse::<toml::Table>().ok();
            let default = parsed.and_then(|table| serde_json::to_value(&table["x"]).ok());
            property["default"] = default.unwrap_or_default();
        }
        (key.name.to_owned(), property)
    };
    let properties: Map<String, Value> = keys.iter().map(property).collect();
    let required = keys.iter().filter(|key| key.fallback == Fallback::Required).map(|key| key.name);
    let mut object = json!({
        "type": "object",
        "description": about.trim(),
        "additionalProperties": false,
        "properties": properties,
    });
    let required: Vec<&str> = required.collect();
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

/// A shape as JSON schema.
fn value(shape: &Shape) -> Value {
    match shape {
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Number(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Text | Shape::Path => json!({ "type": "string" }),
        Shape::OneOf(names) => json!({ "enum": names }),
        Shape::FlagOr(names) => {
            let name = |name: &&str| name.parse::<bool>().map_or_else(|_| json!(name), |flag| json!(flag));
            json!({ "enum": names.iter().map(name).collect::<Vec<_>>() })
        }
        Shape::List(item) => json!({ "type": "array", "items": value(item) }),
        Shape::Users(access) => json!({ "type": "object", "additionalProperties": { "enum": access } }),
    }
}

/// The JSON schema of a shape in the file, where one string stands for a list of it.
fn in_file(shape: &Shape) -> Value {
    match shape {
        Shape::List(item) if !matches!(**item, Shape::Number(..)) => {
            json!({ "anyOf": [value(shape), value(item)] })
        }
        _ => value(shape),
    }
}

/// The JSON schema of a shape in the admin API, which also accepts null.
fn or_null(shape: &Shape) -> Value {
    let mut value = value(shape);
    match value.get_mut("enum").and_then(Value::as_array_mut) {
        Some(names) => names.push(Value::Null),
        None => value["type"] = json!([value["type"], "null"]),
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use std::path::Path;

    #[test]
    fn the_page_in_the_documents_is_that_of_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        let written = std::fs::read_to_string(path).unwrap_or_default();
        let how = "run: cargo run -p trunkline -- config keys > docs/configuration.md";
        assert!(written == page(), "docs/configuration.md is old; {how}");
    }

    #[test]
    fn every_key_has_one_line_of_help_and_a_row_of_its_own() {
        let page = page();
        for (title, _, keys) in tables() {
            let table = page.split(&format!("## `{title}`")).nth(1).unwrap().split("\n## ").next().unwrap();
            for key in &keys {
                assert!(key.help.ends_with('.') && !key.help.contains('\n'), "{}", key.name);
                assert_eq!(
                    table.matches(&format!("\n| `{}` | ", key.name)).count(),
                    1,
                    "{title} {}",
                    key.name
                );
            }
            assert!(
                table
                    .lines()
                    .filter(|line| line.starts_with("| "))
                    .all(|line| line.matches(" | ").count() == 4)
            );
        }
        for (words, _) in NOT_THERE {
            assert!(page.contains(&format!("| `{}`", words[0])), "{words:?}");
        }
    }

    #[test]
    fn what_is_written_elsewhere_is_no_key_here_and_leads_to_one() {
        let names: Vec<&str> =
            tables().iter().flat_map(|(_, _, keys)| keys.iter().map(|key| key.name)).collect();
        for (words, keys) in ELSEWHERE {
            assert!(
                keys.iter().all(|key| names.contains(key) || ["server", "share"].contains(key)),
                "{keys:?}"
            );
            assert!(words.iter().all(|word| !keys.contains(word)), "{words:?}");
        }
        let not_there = NOT_THERE.iter().flat_map(|(words, _)| words.iter());
        let mut all: Vec<_> = not_there.chain(ELSEWHERE.iter().flat_map(|(words, _)| words.iter())).collect();
        assert!(all.iter().all(|word| !names.contains(&word.replace(' ', "_").as_str())));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "a word stands twice");
    }

    #[test]
    fn the_schema_has_every_key_with_its_bounds_and_default() {
        let schema = schema();
        let server = &schema["properties"]["server"]["properties"];
        let slots = json!({"type": "integer", "minimum": 1, "maximum": 1024, "default": 64,
            "description": "Concurrent requests of an NFS session."});
        assert_eq!(server["nfs_slots"], slots);
        assert_eq!(server["testing"]["properties"]["max_credits"]["maximum"], 8192);
        assert_eq!(schema["properties"]["user"]["items"]["required"], json!(["name"]));
        let share = &schema["properties"]["share"]["additionalProperties"];
        assert_eq!(share["properties"]["send_file"]["enum"], json!(["auto", true, false]));
        assert_eq!(share["required"], json!(["path"]));
        assert_eq!(
            settings(Kind::Share)["properties"]["send_file"]["enum"],
            json!(["auto", true, false, null])
        );
        assert_eq!(settings(Kind::Share)["properties"]["comment"]["type"], json!(["string", "null"]));
        assert!(settings(Kind::Share)["required"].is_null());
    }

    #[test]
    fn a_list_of_strings_may_be_one_string_in_the_file() {
        let schema = schema();
        let server = &schema["properties"]["server"]["properties"];
        let forms = json!([{"type": "array", "items": {"type": "string"}}, {"type": "string"}]);
        assert_eq!((&server["listen"]["anyOf"], &server["listen"]["type"]), (&forms, &Value::Null));
        for listen in ["\"127.0.0.1\"", "[\"127.0.0.1\"]"] {
            let text = format!("[server]\nlisten = {listen}\n");
            let config = read::parse("t", &text, Path::new("/")).unwrap();
            assert_eq!(config.server.listen.value, ["127.0.0.1".parse::<std::net::IpAddr>().unwrap()]);
        }
        let groups = &schema["properties"]["user"]["items"]["properties"]["groups"];
        assert_eq!((&groups["type"], &groups["anyOf"]), (&json!("array"), &Value::Null));
        let share = settings(Kind::Share);
        assert_eq!(share["properties"]["protocols"]["type"], json!(["array", "null"]));
    }

    #[test]
    fn what_an_account_may_say_has_no_default() {
        let share = settings(Kind::Share);
        let caching = share["properties"]["metadata_caching"].as_object().unwrap();
        assert!(caching["type"] == json!(["boolean", "null"]) && !caching.contains_key("default"));
        assert_eq!(share["properties"]["read_only"]["default"], false);
    }
}
