//! The hash of a path's key: nobody can aim at a place in the table.

use std::array::from_fn;

use tcpilot_core::hash;

/// The buckets of the default `paths_max`.
const BUCKETS: u32 = 2048;

/// A key's words, as the table sees them.
type Key = [u32; 8];

/// Keys and secrets, the same in each run.
struct Random(tcpilot_random::Random);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.bits()
    }

    fn secrets(&mut self) -> [u64; 9] {
        from_fn(|_| self.next())
    }

    fn key(&mut self) -> Key {
        from_fn(|_| self.next() as u32)
    }

    /// A difference of so many bits.
    fn bits(&mut self, count: u32) -> Key {
        let mut key = Key::default();
        while key.iter().map(|word| word.count_ones()).sum::<u32>() < count {
            flip(&mut key, (self.next() % 256) as usize);
        }
        key
    }
}

fn flip(key: &mut Key, bit: usize) {
    key[bit / 32] ^= 1 << (bit % 32);
}

fn differing(key: &Key, difference: &Key) -> Key {
    from_fn(|i| key[i] ^ difference[i])
}

/// Each single bit; the tops of any 64-bit words, because they may cancel in a product of the word with the
/// next one's key (of an address: bit 7 of bytes 7, 11 and 15); 2 to 4 bits at random.
fn differences(random: &mut Random) -> Vec<Key> {
    let single = (0..256).map(|bit| {
        let mut key = Key::default();
        flip(&mut key, bit);
        key
    });
    let mut all: Vec<Key> = single.collect();
    for words in 1..256u32 {
        all.push(from_fn(|i| (words >> i & 1) << 31));
    }
    for count in 2..=4 {
        all.extend((0..100).map(|_| random.bits(count)));
    }
    all
}

/// Two keys share any 8 bits of their hashes by chance with probability 1/256: of 4096 pairs 16 do. By
/// Chernoff's bound 50 or more do with probability e^-(50 ln(50/16) - 34) < 1.1e-10; with the 4 bytes of 811
/// differences the sum is below 4e-7. Bucket and tag both agree with probability 2^-32: in the
/// 3.3 million pairs of this test, with probability 0.1 %.
#[test]
fn key_differences_collide_no_more_than_chance() {
    let mut random = Random(tcpilot_random::Random(1));
    for difference in differences(&mut random) {
        let (mut equal, mut same_place) = ([0; 4], 0);
        for _ in 0..4096 {
            let (secrets, key) = (random.secrets(), random.key());
            let a = hash(&secrets, &key);
            let b = hash(&secrets, &differing(&key, &difference));
            for (equal, (a, b)) in equal
                .iter_mut()
                .zip(a.to_ne_bytes().iter().zip(b.to_ne_bytes()))
            {
                *equal += u32::from(*a == b);
            }
            let place = |h: u32| (h % BUCKETS, h | 1);
            same_place += u32::from(place(a) == place(b));
        }
        assert!(equal.iter().all(|n| *n < 50), "{difference:x?}: {equal:?}");
        assert_eq!(same_place, 0, "{difference:x?}");
    }
}

/// A flipped bit of the key flips each bit of the hash in half of the cases. For 4096 keys it is 2048 with
/// a standard deviation of 32: six of them are exceeded by one of the 8192 pairs of bits with probability 2e-5.
#[test]
fn each_key_bit_flips_half_the_hash_bits() {
    let mut random = Random(tcpilot_random::Random(2));
    for bit in 0..256 {
        let mut flips = [0u32; 32];
        for _ in 0..4096 {
            let (secrets, mut key) = (random.secrets(), random.key());
            let before = hash(&secrets, &key);
            flip(&mut key, bit);
            let changed = before ^ hash(&secrets, &key);
            for (i, flips) in flips.iter_mut().enumerate() {
                *flips += changed >> i & 1;
            }
        }
        let is_half = |n: &u32| n.abs_diff(2048) <= 6 * 32;
        assert!(flips.iter().all(is_half), "bit {bit}: {flips:?}");
    }
}

/// Hosts are numbered in rows. By chance a bucket gets 8 of 16,384 paths, and 40 or more with probability
/// 1e-15 (Poisson).
#[test]
fn equally_spaced_addresses_spread_evenly_over_buckets() {
    let mut random = Random(tcpilot_random::Random(3));
    for round in 0..120 {
        let (secrets, mut key) = (random.secrets(), random.key());
        let step = [1, 2, 3, 256, 65_536, random.next() as u32][round % 6];
        let word = 2 + round / 6 % 4;
        let mut load = vec![0u32; BUCKETS as usize];
        for _ in 0..8 * BUCKETS {
            load[(hash(&secrets, &key) % BUCKETS) as usize] += 1;
            key[word] = key[word].wrapping_add(step);
        }
        let most = load.iter().max().copied();
        assert!(most < Some(40), "step {step} of word {word}: {most:?}");
    }
}
