//! The Gregorian calendar in UTC, without a clock.

/// Year, month and day, `days` after 1970-01-01.
#[must_use]
pub fn date(days: i64) -> (i64, i64, i64) {
    // The algorithm counts in eras of 400 years that begin on the first of March, so that a leap day ends its
    // year.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}
