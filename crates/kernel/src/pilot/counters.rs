//! The pilot counts in a set per CPU; the daemon needs their sum.

use tcpilot_abi::{from_bytes, tp_counters};

/// The sum of contiguous sets.
pub(super) fn sum(sets: &[u8]) -> tp_counters {
    const WORD: usize = size_of::<u64>();
    let mut total = [0u64; size_of::<tp_counters>() / WORD];
    for set in sets.chunks_exact(size_of::<tp_counters>()) {
        for (total, word) in total.iter_mut().zip(set.chunks_exact(WORD)) {
            *total = total.wrapping_add(from_bytes(word).unwrap_or(0));
        }
    }
    let bytes: Vec<u8> = total.iter().flat_map(|word| word.to_ne_bytes()).collect();
    from_bytes(&bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tcpilot_abi::to_bytes;

    use super::*;

    #[test]
    fn per_cpu_counts_are_summed() {
        let counted = |closed, last_trouble| {
            let mut set = tp_counters {
                closed,
                ..Default::default()
            };
            *set.trouble.last_mut().unwrap() = last_trouble;
            set
        };
        let sets = [counted(3, 0), counted(0, 0), counted(40, 1)];
        let bytes: Vec<u8> = sets.iter().flat_map(|set| to_bytes(set).to_vec()).collect();
        assert_eq!(sum(&bytes), counted(43, 1));
        assert_eq!(sum(&[]), tp_counters::default());
    }

    #[test]
    fn no_two_cpus_share_a_cache_line() {
        assert_eq!(size_of::<tp_counters>() % 64, 0);
    }
}
