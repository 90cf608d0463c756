//! Changed bytes of known inputs.

use tcpilot_random::Random;

/// A whole number that a length, a count or a version may be taken for.
fn extreme(random: &mut Random) -> u64 {
    let exact = 1u64 << random.below(64);
    match random.below(4) {
        0 => exact,
        1 => exact.wrapping_sub(1),
        2 => exact.wrapping_neg(),
        _ => random.bits(),
    }
}

/// One to four changes: of bits, numbers and lengths, and parts of other inputs. The result has at most `longest` bytes.
pub fn mutate(random: &mut Random, known: &[Vec<u8>], longest: usize, input: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        let at = random.below(input.len().max(1));
        let width = 1 << random.below(4);
        let end = (at + width).min(input.len());
        match random.below(6) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 => input[at..end].copy_from_slice(&extreme(random).to_le_bytes()[..end - at]),
            2 => input.truncate(at),
            3 => drop(input.drain(at..end)),
            4 => {
                let other = &known[random.below(known.len())];
                let from = random.below(other.len());
                input.splice(at..end, other[from..].iter().copied());
            }
            _ => {
                let bytes = extreme(random).to_le_bytes();
                input.splice(at..at, bytes[..width].iter().copied());
            }
        }
    }
    input.truncate(longest);
}
