//! The value of `watch --share`.

use std::str::FromStr;

/// Length of an IPv6 prefix if the user gives none: a subscriber has a /64 or more.
const USUAL_IPV6: u8 = 64;

/// The units that share a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Each flow has a share.
    Flow,
    /// All flows from the same source prefix have one share together.
    Source(Lengths),
    /// All flows to the same destination prefix have one share together.
    Destination(Lengths),
}

/// Lengths of prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Length for IPv4, up to 32.
    pub ipv4: u8,
    /// Length for IPv6, up to 128.
    pub ipv6: u8,
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let form = "write flow, source, destination, destination/24, or destination/24/48";
        let mut parts = text.split('/');
        let word = parts.next().unwrap_or_default();
        let mut length = |usual: u8, most: u8| match parts.next() {
            None => Ok(usual),
            Some(digits) => match digits.parse() {
                Ok(length) if (1..=most).contains(&length) => Ok(length),
                _ => Err(format!("a prefix has 1 to {most} bits; {form}")),
            },
        };
        let lengths = Lengths {
            ipv4: length(32, 32)?,
            ipv6: length(USUAL_IPV6, 128)?,
        };
        match (word, parts.next()) {
            ("flow", None) if text == "flow" => Ok(Share::Flow),
            ("source", None) => Ok(Share::Source(lengths)),
            ("destination", None) => Ok(Share::Destination(lengths)),
            _ => Err(form.to_owned()),
        }
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Share::Flow => write!(f, "flow"),
            Share::Source(of) => write!(f, "source/{}/{}", of.ipv4, of.ipv6),
            Share::Destination(of) => write!(f, "destination/{}/{}", of.ipv4, of.ipv6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_written() {
        for (text, written) in [
            ("flow", "flow"),
            ("source", "source/32/64"),
            ("destination/24", "destination/24/64"),
            ("destination/24/48", "destination/24/48"),
        ] {
            assert_eq!(text.parse::<Share>().unwrap().to_string(), written);
        }
        for wrong in [
            "",
            "flow/24",
            "host",
            "source/",
            "source/33",
            "source/0",
            "source/24/129",
            "source/1/2/3",
        ] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
    }
}
