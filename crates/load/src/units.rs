//! Sizes and times as fio's options take them.

use std::time::Duration;

/// Bytes: a number with an optional k, m, g or t (1024 each, as fio's default), in either case, an optional
/// `b` or `ib` behind it.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.len() - lower.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = lower.split_at(digits);
    let shift = match unit {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(format!("{text:?} is no size; write for example 4096, 4k or 1m")),
    };
    let number: u64 = number.parse().map_err(|_| format!("{text:?} does not begin with a number"))?;
    match number.checked_mul(1 << shift) {
        Some(0) => Err("a size of nothing".to_owned()),
        Some(bytes) => Ok(bytes),
        None => Err(format!("{text} is too large")),
    }
}

/// A time: a number of seconds, or one with us, ms, s, m or h behind it.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u32 = number.parse().map_err(|_| format!("{text:?} does not begin with a number"))?;
    let unit = match unit {
        "us" => Duration::from_micros(1),
        "ms" => Duration::from_millis(1),
        "" | "s" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        "h" => Duration::from_secs(3600),
        _ => return Err(format!("{text:?} is no time; write for example 10, 500ms or 2m")),
    };
    Ok(unit * number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_fio_reads_them() {
        assert_eq!(
            ["4096", "4k", "4KiB", "1m", "2G"].map(|it| size(it).unwrap()),
            [4096, 4096, 4096, 1 << 20, 2 << 30]
        );
        for wrong in ["", "k", "4x", "0", "99999999999t"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_without_a_unit_is_in_seconds() {
        assert_eq!(time("10").unwrap(), Duration::from_secs(10));
        assert_eq!(time("250ms").unwrap(), Duration::from_millis(250));
        assert_eq!(time("2m").unwrap(), Duration::from_secs(120));
        assert!(time("soon").is_err() && time("1d").is_err());
    }
}
