use super::*;
use crate::state::Own;
use proptest::prelude::*;
use tcpilot_learner::gaussian::Information;

/// A positive definite knowledge of `C` contrasts with means within ±1.
fn known<const C: usize>(root: &[f64], means: &[f64]) -> Information<C> {
    let mut known = Information::NONE;
    for i in 0..C {
        for j in 0..C {
            let dot: f64 = (0..C).map(|k| root[i * C + k] * root[j * C + k]).sum();
            known.precision[i][j] = dot + if i == j { 0.5 } else { 0.0 };
        }
    }
    for i in 0..C {
        known.shift[i] = (0..C).map(|j| known.precision[i][j] * means[j]).sum();
    }
    known
}

fn names(count: usize) -> Vec<String> {
    let all = ["cubic", "bbr", "bbr3@2", "reno"];
    all[..count].iter().map(|name| (*name).to_owned()).collect()
}

fn example() -> State {
    let mut state = State::new(0x0102_0304_0506_0708, names(2)).unwrap();
    (state.boot, state.sequence, state.age_s) = (9, 3, 60);
    let mut own = Own::<1>::default();
    own.add_path(&Information::isotropic(0.25, 0.5), 4);
    let v4 = Group::new(0xffff_cb00_7100, 13).unwrap();
    let v6 = Group::new(0x2001_0db8_0001 << 80, 13).unwrap();
    let losses = crate::Losses {
        queued: 0x12,
        clear: 4,
    };
    let row = own.row(v4, 2, 1000.0).unwrap();
    state.push(Row { losses, ..row }).unwrap();
    state.push(own.row(v6, 0, 0.0).unwrap()).unwrap();
    state
}

/// The check sum of a changed body made right again.
fn resealed(mut bytes: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    bytes.truncate(bytes.len() - 8);
    change(&mut bytes);
    let sum = check_sum(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Bytes of the example's head and of its IPv4 row.
const HEAD: usize = 1 + 24 + 4 + 1 + 6 + 4 + 4;
const ROW_V4: usize = 1 + 3 + 2 + 5 + 8;

#[test]
fn bytes_are_those_of_version_2() {
    let expected = [
        "02 0807060504030201 0900000000000000 0300000000000000 3c000000",
        "02 05 6375626963 03 626272 02000000",
        "04 cb0071 0d00 00 02 01 1204 00008040 0000803f",
        "06 20010db80001 0d00 00 00 00 0000 00008040 0000803f",
        "bd6e9e9aabcd4ffc",
    ];
    let hex: String = encode(&example())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(hex, expected.concat().replace(' ', ""));
}

#[test]
fn flipped_bits_and_cuts_are_refused() {
    let bytes = encode(&example());
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let refusal = decode(&damaged, ROWS_MAX).unwrap_err();
        assert!(matches!(refusal, Refusal::Damaged | Refusal::Version(_)));
    }
    for len in 0..bytes.len() - 8 {
        assert!(decode(&bytes[..len], ROWS_MAX).is_err());
        let cut = resealed(bytes.clone(), |body| body.truncate(len));
        assert!(decode(&cut, ROWS_MAX).is_err(), "{len}");
    }
}

#[test]
fn each_malformed_state_has_its_reason() {
    let bytes = encode(&example());
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        decode(&resealed(bytes.clone(), change), ROWS_MAX).unwrap_err()
    };
    let put = |at: usize, with: &'static [u8]| {
        refused(&move |body| body[at..at + with.len()].copy_from_slice(with))
    };
    let number = HEAD + ROW_V4 - 8;
    assert_eq!(put(0, &[1]), Refusal::Version(1));
    assert_eq!(refused(&|body| body.push(0)), Refusal::TooLong);
    assert_eq!(put(HEAD, &[5]), Refusal::Group);
    assert_eq!(put(HEAD + 1, &[10, 0, 0]), Refusal::Private);
    assert_eq!(put(number, &[0, 0, 0xc0, 0x7f]), Refusal::NotFinite);
    assert_eq!(put(number, &[0, 0, 0x80, 0xc0]), Refusal::NotKnowledge);
    assert_eq!(put(number + 4, &[0, 0, 0, 0x43]), Refusal::Implausible);
    assert_eq!(put(31, b"CUBIC"), Refusal::Algorithms);
    assert_eq!(put(HEAD - 4, &[0, 0, 0, 1]), Refusal::Rows(1 << 24));
    let swapped = refused(&|body| {
        let (first, second) = (
            body[HEAD..HEAD + ROW_V4].to_vec(),
            body.split_off(HEAD + ROW_V4),
        );
        body.truncate(HEAD);
        body.extend(second);
        body.extend(first);
    });
    assert_eq!(swapped, Refusal::Unordered);
    assert_eq!(decode(&bytes, 1), Err(Refusal::Rows(2)));
    assert_eq!(decode(&[], ROWS_MAX), Err(Refusal::CutOff));
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(
        numbers in any::<[u64; 3]>(),
        age_s in any::<u32>(),
        rows in prop::collection::btree_map(
            (any::<bool>(), 0u32..1 << 16, any::<u16>()),
            (prop::array::uniform9(-9.0f64..9.0), prop::array::uniform3(-1.0f64..1.0), any::<[u8; 2]>()),
            0..20,
        ),
    ) {
        let mut state = State::new(numbers[0], names(4)).unwrap();
        (state.boot, state.sequence, state.age_s) = (numbers[1], numbers[2], age_s);
        for ((v6, bits, class), (root, means, [doubt, age])) in &rows {
            // From 1.0.0.0 and 2001:: upwards.
            let bits = u128::from(*bits);
            let prefix = if *v6 { (0x2001 << 112) | (bits << 80) } else { MAPPED | 0x0100_0000 | (bits << 8) };
            let Ok(group) = Group::new(prefix, *class) else { continue };
            let mut own = Own::<3>::default();
            own.add_path(&known(root, means), 1);
            state.push(own.row(group, *doubt, f64::from(*age) * 900.0).unwrap()).unwrap();
        }
        prop_assert_eq!(decode(&encode(&state), ROWS_MAX), Ok(state));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let body = [vec![VERSION], bytes].concat();
        let sealed = resealed([body, vec![0; 8]].concat(), |_| ());
        if let Ok(state) = decode(&sealed, ROWS_MAX) {
            prop_assert_eq!(encode(&state), sealed);
        }
    }

    #[test]
    fn changed_rows_are_read_or_refused(at in 0usize..74, value in any::<u8>()) {
        let changed = resealed(encode(&example()), |body| {
            let at = at % body.len();
            body[at] = value;
        });
        if let Ok(state) = decode(&changed, ROWS_MAX) {
            prop_assert_eq!(encode(&state), changed);
        }
    }
}
