//! Values of options: how they are read, and the errors for wrong ones.

use flowgen::protocol::CC_NAME_BYTES;
use std::time::Duration;

/// on or off.
pub fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("give on or off".into()),
    }
}

/// A time.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    // A century is enough, and keeps every sum with the clock in range.
    if !(0.0..3.2e9).contains(&value) {
        return Err("give seconds from 0 up, such as 0.5".into());
    }
    Ok(Duration::from_secs_f64(value))
}

/// An amount with its unit.
pub fn byte_count(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'M')) => (&text[..at], 1_000_000),
        Some((at, 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let count = digits
        .parse::<u64>()
        .ok()
        .and_then(|value| value.checked_mul(factor));
    count.ok_or_else(|| "give a number of bytes such as 65536, 500k or 10M".into())
}

/// The same, and not nothing.
pub fn some_bytes(text: &str) -> Result<u64, String> {
    byte_count(text).and_then(|bytes| match bytes {
        0 => Err("give at least 1".into()),
        bytes => Ok(bytes),
    })
}

/// How many at once.
pub fn parallelism(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(value @ 1..=100_000) => Ok(value),
        _ => Err("give a number from 1 to 100000".into()),
    }
}

/// Something per second.
pub fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1e6).contains(&value) => Ok(value),
        _ => Err("give a rate from 0 to 1000000".into()),
    }
}

/// A congestion control's name.
pub fn cc_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() >= CC_NAME_BYTES {
        return Err(format!("a name has 1 to {} bytes", CC_NAME_BYTES - 1));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_units() {
        assert_eq!(byte_count("65536"), Ok(65_536));
        assert_eq!(byte_count("10M"), Ok(10_000_000));
        for bad in ["", "M", "1.5M", "-1", "1T", "99999999999G"] {
            assert!(byte_count(bad).is_err(), "{bad}");
        }
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        for bad in ["-1", "nan", "inf", "x"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
