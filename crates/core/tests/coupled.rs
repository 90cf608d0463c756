//! A connection's coupling over many acknowledgements, compared with the differential equations of the papers.

use std::sync::Arc;

use tcpilot_core::coupled::{CoupledPath, Coupling, Law};

const LAWS: [Law; 3] = [Law::Lia, Law::Olia, Law::Balia];

/// A connection in congestion avoidance, on paths with these windows and RTTs.
struct Connection {
    coupling: Arc<Coupling>,
    paths: Vec<(CoupledPath, u32)>,
    now_us: u64,
}

impl Connection {
    fn new(law: Law, paths: &[(u32, u32)]) -> Self {
        let coupling = Coupling::new(law);
        let join = |&(packets, rtt_us): &(u32, u32)| {
            // A loss at twice the window leaves it in congestion avoidance.
            let mut path = CoupledPath::join(&coupling, 2 * packets);
            path.lose();
            assert_eq!((path.packets(), path.ssthresh()), (packets, Some(packets)));
            (path, rtt_us)
        };
        Self {
            paths: paths.iter().map(join).collect(),
            coupling: Arc::clone(&coupling),
            now_us: 1_000_000,
        }
    }

    /// Runs for `us` with each window acknowledged once per round trip; returns the growth of each path.
    fn run(&mut self, us: u64) -> Vec<f64> {
        let before: Vec<_> = self.paths.iter().map(|(path, _)| path.packets()).collect();
        let end_us = self.now_us + us;
        let mut next: Vec<_> = self.paths.iter().map(|_| self.now_us).collect();
        while let Some((at, &due_us)) = next.iter().enumerate().min_by_key(|(_, due_us)| **due_us) {
            if due_us >= end_us {
                break;
            }
            let (path, rtt_us) = &mut self.paths[at];
            let window = u64::from(path.packets());
            path.acknowledge(due_us, *rtt_us, 1, true);
            next[at] = due_us + (u64::from(*rtt_us) / window).max(1);
        }
        self.now_us = end_us;
        let grown = self.paths.iter().zip(before);
        grown
            .map(|((path, _), before)| f64::from(path.packets()) - f64::from(before))
            .collect()
    }
}

/// The papers' increase for each packet acknowledged on path `at`; OLIA without its alpha, which is 0 on paths
/// without a loss since they were equal.
fn increase(law: Law, paths: &[(f64, f64)], at: usize) -> f64 {
    let sum: f64 = paths.iter().map(|(w, rtt)| w / rtt).sum();
    let (w, rtt) = paths[at];
    match law {
        Law::Lia => {
            let most = paths.iter().map(|(w, r)| w / r / r).fold(0.0, f64::max);
            (most / sum.powi(2)).min(1.0 / w)
        }
        Law::Olia => w / rtt / rtt / sum.powi(2),
        Law::Balia => {
            let most = paths.iter().map(|(w, r)| w / r).fold(0.0, f64::max);
            let alpha = most / (w / rtt);
            w / rtt / rtt / sum.powi(2) * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0
        }
    }
}

/// The same growth by Euler's method in floating point.
fn reference(law: Law, paths: &[(u32, u32)], us: u64) -> Vec<f64> {
    const STEP_US: f64 = 500.0;
    let mut now: Vec<(f64, f64)> = paths
        .iter()
        .map(|&(w, rtt_us)| (f64::from(w), f64::from(rtt_us)))
        .collect();
    for _ in 0..(us as f64 / STEP_US) as usize {
        let rates: Vec<_> = (0..now.len())
            .map(|at| increase(law, &now, at) * now[at].0 / now[at].1)
            .collect();
        for ((w, _), rate) in now.iter_mut().zip(rates) {
            *w += rate * STEP_US;
        }
    }
    let start = paths.iter().map(|&(w, _)| f64::from(w));
    now.iter().zip(start).map(|(&(w, _), s)| w - s).collect()
}

/// OLIA's alpha is left out of the reference, so its paths are equal, or one of them is best and largest.
#[test]
fn paths_grow_as_the_papers_say() {
    for law in LAWS {
        for paths in [
            vec![(40, 40_000)],
            vec![(40, 40_000), (40, 40_000)],
            vec![(60, 20_000), (30, 80_000)],
            vec![(50, 50_000), (50, 50_000), (50, 50_000), (50, 50_000)],
        ] {
            let mut connection = Connection::new(law, &paths);
            let us = 8_000_000;
            let grown = connection.run(us);
            for (ours, exact) in grown.iter().zip(reference(law, &paths, us)) {
                let off = (ours - exact).abs();
                assert!(
                    off <= 0.04 * exact + 2.0,
                    "{law:?} {paths:?}: {ours} packets, {exact} by the paper"
                );
            }
        }
    }
}

/// RFC 6356, goal 2, in windows: two paths of one bottleneck grow together as one TCP of both their windows
/// would, or slower, and far below the two packets each round trip of two TCPs.
#[test]
fn coupled_paths_grow_no_faster_than_one_tcp() {
    for law in LAWS {
        let rtts = 200;
        let grown = Connection::new(law, &[(40, 40_000), (40, 40_000)]).run(rtts * 40_000);
        let both: f64 = grown.iter().sum();
        assert!(both <= 1.03 * rtts as f64, "{law:?}: {grown:?}");
        assert!(both >= 0.4 * rtts as f64, "{law:?}: {grown:?}");
    }
}

#[test]
fn remaining_path_grows_uncoupled_after_other_closes() {
    for law in LAWS {
        let mut connection = Connection::new(law, &[(40, 40_000), (40, 40_000)]);
        assert_eq!(connection.coupling.paths(), 2);
        connection.paths.pop();
        assert_eq!(connection.coupling.paths(), 1);
        let grown = connection.run(50 * 40_000);
        assert!((47.0..=51.0).contains(&grown[0]), "{law:?}: {grown:?}");
    }
}

#[test]
fn connections_are_not_coupled_with_each_other() {
    for law in LAWS {
        let mut first = Connection::new(law, &[(40, 40_000)]);
        let mut second = Connection::new(law, &[(40, 40_000)]);
        let (one, other) = (first.run(50 * 40_000), second.run(50 * 40_000));
        assert_eq!(one, other, "{law:?}");
        assert!((47.0..=51.0).contains(&one[0]), "{law:?}: {one:?}");
    }
}

/// Slow start is each path's own, a packet for a packet, and an application must fill the window for it
/// to grow.
#[test]
fn slow_start_is_per_path_needs_full_window() {
    for law in LAWS {
        let coupling = Coupling::new(law);
        let (mut one, mut idle) = (
            CoupledPath::join(&coupling, 10),
            CoupledPath::join(&coupling, 10),
        );
        for n in 0..10 {
            one.acknowledge(1_000 * n, 40_000, 1, true);
            idle.acknowledge(1_000 * n, 40_000, 1, false);
        }
        assert_eq!((one.packets(), idle.packets()), (20, 10), "{law:?}");
        assert_eq!(one.ssthresh(), None);
    }
}

#[test]
fn a_loss_that_was_none_is_undone() {
    for law in LAWS {
        let mut path = CoupledPath::join(&Coupling::new(law), 40);
        path.lose();
        assert_eq!((path.packets(), path.ssthresh()), (20, Some(20)));
        path.undo();
        assert_eq!((path.packets(), path.ssthresh()), (40, None));
        path.lose();
        path.collapse();
        assert_eq!((path.packets(), path.ssthresh()), (2, Some(20)));
    }
}

/// Peng et al. 2016, section V: the smaller of two paths of equal RTT gives three quarters.
#[test]
fn balia_takes_more_from_the_smaller_path() {
    let coupling = Coupling::new(Law::Balia);
    let (mut small, mut large) = (
        CoupledPath::join(&coupling, 20),
        CoupledPath::join(&coupling, 40),
    );
    small.acknowledge(1_000, 40_000, 1, false);
    large.acknowledge(1_000, 40_000, 1, false);
    small.lose();
    assert_eq!(small.packets(), 5);
    small.undo();
    large.lose();
    assert_eq!(large.packets(), 20);
}

/// A ninth path is coupled to the eight, but they do not see it.
#[test]
fn ninth_path_is_coupled_but_not_counted() {
    let coupling = Coupling::new(Law::Lia);
    let mut paths: Vec<_> = (0..9).map(|_| CoupledPath::join(&coupling, 40)).collect();
    for path in &mut paths {
        path.lose();
        path.acknowledge(1_000_000, 40_000, 0, false);
    }
    assert_eq!(coupling.paths(), 8);
    let ninth = &mut paths[8];
    for _ in 0..200 {
        ninth.acknowledge(1_000_000, 40_000, 1, true);
    }
    assert_eq!(ninth.packets(), 20, "alone it had grown by 9");
    drop(paths);
    assert_eq!(coupling.paths(), 0);
}

#[test]
fn names_are_those_of_the_kernels_too() {
    assert_eq!(Law::from_name("olia"), Some(Law::Olia));
    assert_eq!(Law::from_name("tp_balia"), Some(Law::Balia));
    assert_eq!(Law::from_name("cubic"), None);
}
