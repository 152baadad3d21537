//! Times in the form of fio's options, and rates of links in the form of tc's.

use std::time::Duration;

/// Parses a time: a number of seconds, or a number followed by us, ms, s, m or h.
///
/// # Errors
/// A message about the mistake, for the user.
pub fn time(text: &str) -> Result<Duration, String> {
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

/// Splits a number, which may have a fraction, from its unit.
fn measured(text: &str) -> Result<(f64, &str), String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, unit) = text.split_at(digits);
    let number = number.parse().map_err(|_| format!("{text:?} does not begin with a number"))?;
    Ok((number, unit))
}

/// Parses a time with its unit, such as 23ms, 0.5ms or 1s.
///
/// # Errors
/// A message about the mistake, for the user.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = measured(text)?;
    let unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "" if number == 0.0 => 1.0,
        _ => return Err(format!("{text:?} is no time; write for example 23ms, 0.5ms or 1s")),
    };
    Duration::try_from_secs_f64(number * unit).map_err(|why| format!("{text}: {why}"))
}

/// Parses a rate in bits a second, such as 200Mbit or 1Gbit (units of 1,000).
///
/// # Errors
/// A message about the mistake, for the user.
pub fn rate(text: &str) -> Result<u64, String> {
    let (number, unit) = measured(text)?;
    let unit = match unit.to_ascii_lowercase().as_str() {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return Err(format!("{text:?} is no rate; write for example 200Mbit or 1Gbit")),
    };
    let bits = number * unit;
    if (1_000.0..=1e15).contains(&bits) {
        Ok(bits as u64)
    } else {
        Err(format!("{text} is no rate a link has"))
    }
}

/// Parses a percentage, such as 0.1%.
///
/// # Errors
/// A message about the mistake, for the user.
pub fn share(text: &str) -> Result<f64, String> {
    let (percent, unit) = measured(text)?;
    if unit != "%" {
        return Err(format!("{text:?} is no part; write for example 0.1%"));
    }
    if (0.0..=100.0).contains(&percent) {
        Ok(percent / 100.0)
    } else {
        Err(format!("{text} is more than all"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_link_has_comes_with_units() {
        assert_eq!(duration("23ms").unwrap(), Duration::from_millis(23));
        assert_eq!(duration("0.5ms").unwrap(), Duration::from_micros(500));
        assert_eq!(duration("0").unwrap(), Duration::ZERO);
        assert_eq!(rate("200Mbit").unwrap(), 200_000_000);
        assert_eq!(rate("2.5Gbit").unwrap(), 2_500_000_000);
        assert!((share("0.1%").unwrap() - 0.001).abs() < 1e-12);
        assert!(["23", "ms", "1h", "-1ms"].iter().all(|wrong| duration(wrong).is_err()));
        assert!(["200", "1bit", "200MB", "1.2.3Mbit"].iter().all(|wrong| rate(wrong).is_err()));
        assert!(["0.1", "101%", "%"].iter().all(|wrong| share(wrong).is_err()));
    }

    #[test]
    fn a_time_without_a_unit_is_in_seconds() {
        assert_eq!(time("10").unwrap(), Duration::from_secs(10));
        assert_eq!(time("250ms").unwrap(), Duration::from_millis(250));
        assert_eq!(time("2m").unwrap(), Duration::from_secs(120));
        assert!(time("soon").is_err() && time("1d").is_err());
    }
}
