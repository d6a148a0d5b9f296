//! Numbers and times in few letters.

/// A count or a rate in at most five letters: `7`, `3.2`, `980`, `12.3k`, `4.56M`.
pub fn short(number: f64) -> String {
    if number < 0.05 {
        return "0".to_owned();
    }
    if number < 9.95 && number.fract() > 0.05 && number.fract() < 0.95 {
        return format!("{number:.1}");
    }
    let mut scaled = number;
    for unit in ["", "k", "M", "G", "T"] {
        if scaled < 999.5 {
            return match (unit, scaled) {
                ("", _) => format!("{scaled:.0}"),
                (_, scaled) if scaled < 9.995 => format!("{scaled:.2}{unit}"),
                (_, scaled) if scaled < 99.95 => format!("{scaled:.1}{unit}"),
                (_, scaled) => format!("{scaled:.0}{unit}"),
            };
        }
        scaled /= 1000.0;
    }
    format!("{scaled:.0}P")
}

/// A time in at most five letters: `850us`, `1.2ms`, `34ms`, `5.0s`.
pub fn microseconds(number: f64) -> String {
    match number {
        number if number < 999.5 => format!("{number:.0}us"),
        number if number < 9_950.0 => format!("{:.1}ms", number / 1e3),
        number if number < 999_500.0 => format!("{:.0}ms", number / 1e3),
        number if number < 99_950_000.0 => format!("{:.1}s", number / 1e6),
        number => format!("{:.0}s", number / 1e6),
    }
}

/// A while in at most five letters: `42s`, `17m`, `3h05`, `12d04`.
pub fn seconds(number: u64) -> String {
    match number {
        0..60 => format!("{number}s"),
        60..3600 => format!("{}m", number / 60),
        3600..86_400 => format!("{}h{:02}", number / 3600, number / 60 % 60),
        _ => format!("{}d{:02}", number / 86_400, number / 3600 % 24),
    }
}

/// A text in so many letters: what is too long loses its middle, since both ends of a name tell it from others.
pub fn fit(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let Some(kept) = width.checked_sub(1) else { return String::new() };
    let (head, tail) = (kept.div_ceil(2), kept / 2);
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_few_letters() {
        for (number, expected) in [
            (0.0, "0"),
            (0.04, "0"),
            (0.5, "0.5"),
            (3.0, "3"),
            (3.24, "3.2"),
            (42.4, "42"),
            (999.0, "999"),
            (999.6, "1.00k"),
            (12_345.0, "12.3k"),
            (123_456.0, "123k"),
            (4_560_000.0, "4.56M"),
            (7e15, "7P"),
        ] {
            assert_eq!(short(number), expected);
            assert!(short(number).len() <= 5);
        }
    }

    #[test]
    fn times_have_few_letters() {
        for (number, expected) in
            [(0.0, "0us"), (850.0, "850us"), (1_240.0, "1.2ms"), (34_000.0, "34ms"), (5e6, "5.0s"), (250e6, "250s")]
        {
            assert_eq!(microseconds(number), expected);
        }
        for (number, expected) in [(42, "42s"), (1020, "17m"), (11_100, "3h05"), (1_051_200, "12d04")] {
            assert_eq!(seconds(number), expected);
        }
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(fit("orders", 6), "orders");
        assert_eq!(fit("orders.europe", 7), "ord…ope");
        assert_eq!(fit("orders.europe", 8), "orde…ope");
        assert_eq!((fit("ü€x", 2), fit("abc", 1), fit("abc", 0)), ("ü…".into(), "…".into(), String::new()));
    }
}
