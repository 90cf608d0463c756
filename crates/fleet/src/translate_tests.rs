//! Translation against dense Gaussians in covariance form: there a change of contrasts is `MΣMᵀ`, and leaving
//! algorithms out is leaving rows out.

use super::*;
use proptest::prelude::*;
use tcpilot_learner::linalg::{cholesky, solve};

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

fn inverse<const N: usize>(a: &[[f64; N]; N]) -> [[f64; N]; N] {
    let mut factor = *a;
    cholesky(factor.as_flattened_mut(), N, N).unwrap();
    let mut out = [[0.0; N]; N];
    for i in 0..N {
        let mut e = [0.0; N];
        e[i] = 1.0;
        solve(factor.as_flattened(), N, N, &mut e);
        out[i] = e;
    }
    out
}

/// Covariance and mean of a message with three contrasts.
fn dense(root: &[f64; 9]) -> ([[f64; 3]; 3], [f64; 3]) {
    let mut covariance = [[0.0; 3]; 3];
    for i in 0..3 {
        for j in 0..3 {
            let dot: f64 = (0..3).map(|k| root[3 * i + k] * root[3 * j + k]).sum();
            covariance[i][j] = dot + if i == j { 0.2 } else { 0.0 };
        }
    }
    (covariance, [0.3, -0.2, 0.5])
}

fn message(covariance: &[[f64; 3]; 3], mean: &[f64; 3]) -> Message {
    let precision = inverse(covariance);
    let shift = precision.map(|row| row.iter().zip(mean).map(|(x, m)| x * m).sum());
    Message::of(&Information { precision, shift }).unwrap()
}

/// Mean and covariance of `Mθ`, where row `i` of `M` is a new contrast; with a flat shift of all of them if `flat`.
fn mapped<const N: usize>(
    m: &[[f64; 3]; N],
    (covariance, mean): &([[f64; 3]; 3], [f64; 3]),
    flat: f64,
) -> Information<N> {
    let mut to = [[0.0; N]; N];
    for i in 0..N {
        for j in 0..N {
            let terms = (0..9).map(|k| m[i][k / 3] * covariance[k / 3][k % 3] * m[j][k % 3]);
            to[i][j] = flat + terms.sum::<f64>();
        }
    }
    let precision = inverse(&to);
    let mean = m.map(|row| row.iter().zip(mean).map(|(x, m)| x * m).sum::<f64>());
    let shift = precision.map(|row| row.iter().zip(mean).map(|(x, m)| x * m).sum());
    Information { precision, shift }
}

fn same<const N: usize>(a: &Information<N>, b: &Information<N>, within: f64) {
    let all = |x: &Information<N>| {
        let precision = x.precision.as_flattened().to_vec();
        [precision, x.shift.to_vec()].concat()
    };
    for (x, y) in all(a).iter().zip(all(b)) {
        assert!((x - y).abs() < within * (1.0 + y.abs()), "{a:?} {b:?}");
    }
}

const SENDER: [&str; 4] = ["cubic", "bbr", "bbr3", "reno"];

fn translated<const C: usize>(root: &[f64; 9], reader: &[&str]) -> Information<C> {
    let (covariance, mean) = dense(root);
    let translation = Translation::between(&names(&SENDER), &names(reader)).unwrap();
    translation.message(&message(&covariance, &mean))
}

/// Limit of differences: a message's numbers are rounded to f32.
const ROUNDED: f64 = 1e-4;

proptest! {
    #[test]
    fn another_order_only_moves_rows(root in prop::array::uniform9(-1.0f64..1.0)) {
        let known = translated::<3>(&root, &["cubic", "reno", "bbr", "bbr3"]);
        let m = [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]];
        same(&known, &mapped(&m, &dense(&root), 0.0), ROUNDED);
    }

    #[test]
    fn algorithms_left_out_are_integrated_out(root in prop::array::uniform9(-1.0f64..1.0)) {
        let known = translated::<2>(&root, &["cubic", "bbr", "reno"]);
        let m = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]];
        same(&known, &mapped(&m, &dense(&root), 0.0), ROUNDED);
    }

    #[test]
    fn another_default_changes_the_contrasts(root in prop::array::uniform9(-1.0f64..1.0)) {
        let known = translated::<3>(&root, &["bbr", "cubic", "bbr3", "reno"]);
        let m = [[-1.0, 0.0, 0.0], [-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]];
        same(&known, &mapped(&m, &dense(&root), 0.0), ROUNDED);
    }

    #[test]
    fn the_senders_default_can_be_lacking(root in prop::array::uniform9(-1.0f64..1.0)) {
        let known = translated::<2>(&root, &["bbr3", "bbr", "reno"]);
        let m = [[1.0, -1.0, 0.0], [0.0, -1.0, 1.0]];
        same(&known, &mapped(&m, &dense(&root), 0.0), ROUNDED);
    }

    #[test]
    fn unknown_default_leaves_differences_only(root in prop::array::uniform9(-1.0f64..1.0)) {
        // The reader's default is nowhere: all differ from it by one more unknown number, nearly flat here.
        let flat = 1e5;
        let known = translated::<3>(&root, &["vegas", "bbr", "bbr3", "reno"]);
        let m = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        same(&known, &mapped(&m, &dense(&root), flat), 1e-3);
        // The same with the sender's default among the reader's other algorithms.
        let known = translated::<3>(&root, &["vegas", "cubic", "bbr", "reno"]);
        let m = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]];
        same(&known, &mapped(&m, &dense(&root), flat), 1e-3);
    }
}

#[test]
fn algorithms_unknown_to_the_sender_get_zeros() {
    let known = translated::<4>(&[0.3; 9], &["cubic", "vegas", "bbr", "bbr3", "reno"]);
    assert_eq!(known.precision[0], [0.0; 4]);
    assert_eq!(known.shift[0], 0.0);
    assert!(known.precision[1][1] > 0.0);
}

#[test]
fn untried_algorithms_stay_unknown_after_translation() {
    let message = Message::new(&[0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0]).unwrap();
    let reader = names(&["bbr3", "cubic", "bbr"]);
    let translation = Translation::<2>::between(&names(&SENDER), &reader).unwrap();
    let known = translation.message(&message);
    assert_eq!(known.precision, [[4.0, 0.0], [0.0, 0.0]]);
    assert_eq!(known.shift, [-2.0, 0.0]);
}

#[test]
fn incomparable_states_are_refused_by_reason() {
    let state = State::new(7, names(&SENDER)).unwrap();
    let new = |reward, reader: &[&str]| Translation::<1>::new(&state, reward, &names(reader));
    assert_eq!(new(8, &["cubic", "bbr"]), Err(Refusal::Reward));
    assert_eq!(new(7, &["cubic", "bbr@2"]), Err(Refusal::NothingInCommon));
    assert_eq!(new(7, &["cubic"]), Err(Refusal::Algorithms));
    assert!(new(7, &["cubic", "bbr"]).is_ok());
}
