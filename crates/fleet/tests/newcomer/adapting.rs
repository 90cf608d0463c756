//! Liars that know the merge rule, and all that honest hosts say. They choose the lie that does the most harm, and when
//! they begin with it. docs/measured/fleet.md has the result.

use crate::PEERS;
use crate::fleet::{Crowd, Ear, Fleet, HOUR_S, Lie, NEWCOMER, Rounds, Said, first_hour, heard};
use crate::host::Host;

/// The worlds in which liars choose. Nothing is judged by them.
const CHOOSE: [u64; 2] = [1, 2];

/// How far they put the worst algorithm above the best, and how sure they say to be.
const NATS: [f64; 6] = [0.1, 0.25, 0.5, 0.75, 1.0, 2.0];
const PRECISIONS: [f64; 3] = [25.0, 100.0, 1000.0];

const CONNECTIONS: usize = 30;

/// Hosts that turn are honest for so long after the newcomer's first connection, which is ten connections to each prefix.
const TURN_S: f64 = 1200.0;

/// The connections behind a turn.
const TURNED: std::ops::Range<usize> = 10..CONNECTIONS;

/// Hears hosts whose words change at [`TURN_S`].
struct Turning {
    before: Vec<Said>,
    after: Vec<Said>,
}

impl Ear for Turning {
    fn hear(&mut self, host: &mut Host, age_s: f64) {
        let states = if age_s < TURN_S {
            &self.before
        } else {
            &self.after
        };
        let own = host.knowledge(HOUR_S + age_s);
        host.hear(&heard(states, &own, age_s), HOUR_S + age_s);
    }
}

fn turning(fleet: &Fleet, before: &Crowd, after: &Crowd) -> Rounds {
    let mut ear = Turning {
        before: fleet.states(before),
        after: fleet.states(after),
    };
    let mut newcomer = Host::new(fleet.seed, NEWCOMER);
    first_hour(&mut newcomer, &fleet.worlds[0], CONNECTIONS, &mut ear)
}

/// Mean regret of these connections to each prefix.
fn regret(of: &[Rounds], connections: std::ops::Range<usize>) -> f64 {
    let count = connections.len() * of.len();
    let costs = of
        .iter()
        .flat_map(|rounds| &rounds.all[connections.clone()]);
    costs.map(|cost| cost.regret).sum::<f64>() / count as f64
}

fn newcomers(fleets: &[Fleet], crowd: &Crowd) -> Vec<Rounds> {
    let of = |fleet: &Fleet| fleet.newcomer(CONNECTIONS, crowd);
    fleets.iter().map(of).collect()
}

fn show(name: &str, of: &[Rounds]) {
    let early = [1, 10, 30].map(|k| format!("K={k} {:.3}", regret(of, 0..k)));
    let late = regret(of, TURNED);
    println!("  {name:44} {}, 11 to 30 {late:.3}", early.join(" "));
}

/// The lie with the highest regret over the newcomer's first connections to each prefix.
fn worst(fleets: &[Fleet], home: usize, liars: usize, first: usize) -> Lie {
    let lies = NATS.iter().flat_map(|nats| {
        PRECISIONS.map(|precision| Lie::Above {
            nats: *nats,
            precision,
        })
    });
    let harm = |lie| {
        let of = newcomers(fleets, &Crowd::with_liars(home, liars, lie));
        (regret(&of, 0..first), lie)
    };
    let all = lies.map(harm);
    all.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap().1
}

/// `cargo test -p tcpilot-fleet --test newcomer -- --ignored --nocapture liars_that_adapt`
#[test]
#[ignore = "a measurement of minutes"]
fn liars_that_adapt() {
    let choosing = CHOOSE.map(|seed| Fleet::new(seed, PEERS));
    let judging = crate::fleets();
    show("alone", &newcomers(judging, &Crowd::default()));
    for (home, liars) in [(30, 1), (30, 3), (30, 9), (10, 1), (10, 3)] {
        println!("{liars} of {home}");
        let honest = Crowd::home(home);
        show("honest", &newcomers(judging, &honest));
        for first in [1, 10] {
            let lie = worst(&choosing, home, liars, first);
            let lying = Crowd::with_liars(home, liars, lie);
            let name = format!("K={first}: {lie:?}");
            show(&name, &newcomers(judging, &lying));
            let turned = judging.iter().map(|one| turning(one, &honest, &lying));
            show("  turned", &turned.collect::<Vec<_>>());
        }
    }
}
