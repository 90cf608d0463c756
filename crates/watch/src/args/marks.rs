//! The value of `watch --mark`.

use crate::link::Group;

/// The mark of a group's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMark {
    /// The group.
    pub group: Group,
    /// The packet's mark: the value, and the bits that are written.
    pub mark: Option<(u32, u32)>,
    /// The DSCP.
    pub dscp: Option<u8>,
}

/// Parses `GROUP=MARK`, `GROUP=MARK/MASK`, or `GROUP=dscp:DSCP`.
///
/// # Errors
/// The text has another form; the error shows the right one.
pub fn group_mark(text: &str) -> Result<GroupMark, String> {
    let form = || {
        "write GROUP=MARK, GROUP=MARK/MASK or GROUP=dscp:DSCP: model=0x10, udp=dscp:cs1".to_owned()
    };
    let (word, value) = text.split_once('=').ok_or_else(form)?;
    let known = Group::ALL.into_iter().find(|group| group.word() == word);
    let group = known.ok_or_else(|| {
        let words = Group::ALL.map(Group::word).join(", ");
        format!("there is no group {word}; there are {words}")
    })?;
    if let Some(word) = value.strip_prefix("dscp:") {
        let dscp = dscp(word).ok_or("a DSCP is 0 to 63, cs0 to cs7, af11 to af43, ef or le")?;
        return Ok(GroupMark {
            group,
            mark: None,
            dscp: Some(dscp),
        });
    }
    let (value, mask) = match value.split_once('/') {
        Some((value, mask)) => (number(value), number(mask)),
        None => (number(value), Some(u32::MAX)),
    };
    let (value, mask) = value.zip(mask).ok_or_else(form)?;
    if mask == 0 || value & !mask != 0 {
        return Err("the mark must be within its mask, and the mask not 0".to_owned());
    }
    Ok(GroupMark {
        group,
        mark: Some((value, mask)),
        dscp: None,
    })
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The names of RFC 2474 (CS), RFC 2597 (AF), RFC 3246 (EF) and RFC 8622 (LE), or a number.
fn dscp(word: &str) -> Option<u8> {
    let digits: Vec<u8> = word.bytes().skip(2).map(|b| b.wrapping_sub(b'0')).collect();
    match (word.get(..2), digits.as_slice()) {
        (Some("ef"), []) => Some(46),
        (Some("le"), []) => Some(1),
        (Some("cs"), [class @ 0..=7]) => Some(class * 8),
        (Some("af"), [class @ 1..=4, drop @ 1..=3]) => Some(class * 8 + drop * 2),
        _ => number(word)
            .and_then(|n| u8::try_from(n).ok())
            .filter(|n| *n < 64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_names_are_read() {
        let read = |text: &str| group_mark(text).map(|m| (m.group, m.mark, m.dscp));
        let all = u32::MAX;
        assert_eq!(read("loss=7"), Ok((Group::Loss, Some((7, all)), None)));
        assert_eq!(
            read("loss-delay=0x10/0xf0"),
            Ok((Group::LossDelay, Some((16, 240)), None))
        );
        for (word, number) in [
            ("cs1", 8),
            ("af11", 10),
            ("af43", 38),
            ("ef", 46),
            ("le", 1),
            ("63", 63),
        ] {
            assert_eq!(
                read(&format!("udp=dscp:{word}")),
                Ok((Group::Udp, None, Some(number)))
            );
        }
        for wrong in [
            "loss",
            "loss=",
            "tcp=1",
            "loss=0x100/0xff",
            "loss=0/0",
            "loss=dscp:64",
            "loss=dscp:cs8",
            "loss=dscp:af44",
            "loss=dscp:",
            "loss=x",
            "loss=1/x",
            "loss=dscp:efx",
        ] {
            assert!(group_mark(wrong).is_err(), "{wrong}");
        }
    }
}
