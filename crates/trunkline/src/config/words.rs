//! Reads the value of a key from one word: from `KEY=VALUE` of a command line, or from a variable.

use serde_json::Value;

use super::format::Shape;

/// Reads the value of the key `key` from `text` by its shape: lists as `a,b`, users as `ann=write,*=read`,
/// and switches also as `on` and `off`. Blanks around the parts of a list do not count.
///
/// # Errors
/// The mistake, in words that name the key.
pub fn value(shape: &Shape, key: &str, text: &str) -> Result<Value, String> {
    let items = || text.split(',').map(str::trim).filter(|item| !item.is_empty());
    Ok(match shape {
        Shape::Number(..) => number(key, text)?,
        Shape::Flag => flag(text).ok_or_else(|| format!("`{key}` must be on or off, not `{text}`"))?.into(),
        Shape::FlagOr(_) => flag(text).map_or_else(|| text.into(), Value::from),
        Shape::List(item) => match **item {
            Shape::Number(..) => items().map(|item| number(key, item)).collect::<Result<_, _>>()?,
            _ => items().map(Value::from).collect(),
        },
        Shape::Users(_) => {
            let user = |item: &str| {
                let parts = item.split_once(['=', ':']).map(|(name, access)| (name.trim(), access.trim()));
                match parts.filter(|(name, access)| !name.is_empty() && !access.is_empty()) {
                    Some((name, access)) => Ok((name.to_owned(), access.into())),
                    None => Err(format!("`{item}` in `{key}` is not NAME=ACCESS, such as ann=write")),
                }
            };
            Value::Object(items().map(user).collect::<Result<_, _>>()?)
        }
        Shape::Text | Shape::Path | Shape::OneOf(_) => text.into(),
    })
}

fn number(key: &str, text: &str) -> Result<Value, String> {
    let number: Result<u64, _> = text.parse();
    number.map(Value::from).map_err(|_| format!("`{key}` must be a whole number, not `{text}`"))
}

fn flag(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "true" | "on" | "yes" => Some(true),
        "false" | "off" | "no" => Some(false),
        _ => None,
    }
}

/// A value as TOML on one line. The strings of JSON are strings of TOML.
pub fn toml(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Value::Object(entries) => {
            let entry =
                |(key, value): (&String, &Value)| format!("{} = {}", Value::from(key.as_str()), toml(value));
            format!("{{ {} }}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
