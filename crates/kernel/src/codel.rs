//! CoDel's times: the kernel reports them in another form than it takes them.

/// Attributes with times in microseconds, by the kind of the qdisc (`linux/pkt_sched.h`).
const TIMES: [(&str, &[u16]); 2] = [
    ("codel", &[1, 3, 5]),    // TCA_CODEL_TARGET, _INTERVAL, _CE_THRESHOLD
    ("fq_codel", &[1, 3, 7]), // TCA_FQ_CODEL_TARGET, _INTERVAL, _CE_THRESHOLD
];

/// The options that restore a qdisc to its state when it reported `told`.
///
/// The kernel keeps a time in units of 1.024 microseconds. It rounds down both when it takes microseconds
/// and when it reports them: 7000 is reported as 6999, and 6999 becomes 6998. One microsecond more than
/// the reported time always becomes the old time. Options of other kinds stay as they are.
pub fn as_given(kind: &str, told: &[u8]) -> Vec<u8> {
    let mut given = told.to_vec();
    let times = TIMES
        .iter()
        .find(|(k, _)| *k == kind)
        .map_or(&[][..], |t| t.1);
    let mut rest = given.as_mut_slice();
    while let Some((length, number)) = header(rest) {
        let Some((attribute, behind)) = rest.split_at_mut_checked(length.next_multiple_of(4))
        else {
            break;
        };
        let value = attribute.get_mut(4..).and_then(<[u8]>::first_chunk_mut);
        if let Some(value) = value.filter(|_| times.contains(&number)) {
            *value = u32::from_ne_bytes(*value).saturating_add(1).to_ne_bytes();
        }
        rest = behind;
    }
    given
}

/// Length and number of the attribute at the start.
fn header(bytes: &[u8]) -> Option<(usize, u16)> {
    let [a, b, c, d] = *bytes.first_chunk()?;
    let length = usize::from(u16::from_ne_bytes([a, b]));
    (length >= 4).then_some((length, u16::from_ne_bytes([c, d])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(number: u16, value: u32) -> Vec<u8> {
        let head = [8u16.to_ne_bytes(), number.to_ne_bytes()].concat();
        [head, value.to_ne_bytes().to_vec()].concat()
    }

    #[test]
    fn reported_time_plus_one_restores_kernel_value() {
        for taken in 1..100_000u64 {
            let kept = (taken * 1000) >> 10;
            let told = (kept << 10) / 1000;
            assert_eq!(((told + 1) * 1000) >> 10, kept);
        }
    }

    #[test]
    fn times_alone_change() {
        let told = [attribute(1, 6999), attribute(2, 500), attribute(3, 79_999)].concat();
        let given = [attribute(1, 7000), attribute(2, 500), attribute(3, 80_000)].concat();
        assert_eq!(as_given("codel", &told), given);
        assert_eq!(as_given("pie", &told), told);
    }

    #[test]
    fn truncated_attributes_stay_unchanged() {
        let told = attribute(1, 6999);
        for end in 0..told.len() {
            let cut = told.get(..end).unwrap();
            assert_eq!(as_given("codel", cut), cut);
        }
    }
}
