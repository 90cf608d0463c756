//! One learner in one world with one seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anyhow::Result;

use tcpilot_random::Random;

use crate::learners::{Contender, Lone, Who, make};
use crate::learners_lasts_s;
use crate::scene::{Arrival, Scene, Transfer};
use crate::score::{INTERVALS_AFTER, Met, Score};
use crate::world::World;

/// A connection and the time of its end, possibly in the future.
struct Ended {
    at_s: f64,
    order: usize,
    arm: usize,
    transfer: Transfer,
}

/// Time and number of an ended connection, ordered so that a heap gives the first.
#[derive(PartialEq)]
struct When(f64, usize);

impl Eq for When {}

impl PartialOrd for When {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for When {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

fn who(scene: &Scene, arrival: &Arrival) -> Who {
    let path = &scene.paths[arrival.path];
    Who {
        path: arrival.path,
        group: path.group,
        lineage: path.face(arrival.number).lineage,
        number: arrival.number,
    }
}

/// Runs a learner; `hostile`: with the world's hostile peers.
pub fn run(world: &World, learner: &str, seed: u64, hostile: bool) -> Result<Score> {
    let mut scene = Scene::new(world, seed, hostile);
    let mut learner: Box<dyn Contender> = match world.tree.lone {
        true => Box::new(Lone::new(learner, &world.arms, &world.settings, seed)?),
        false => make(learner, &world.arms, &world.settings, seed)?,
    };
    let arrivals = scene.arrivals();
    let mut score = Score::new(world);
    let mut draws = Random::of(&[seed, 6]);
    let mut waiting = BinaryHeap::new();
    let mut ended: Vec<Option<Ended>> = Vec::with_capacity(arrivals.len());
    for (order, arrival) in arrivals.iter().enumerate() {
        while let Some(Reverse((When(published_s, _), done))) = waiting.peek() {
            if *published_s > arrival.at_s {
                break;
            }
            let done: usize = *done;
            if let Some(e) = ended[done].take() {
                learner.end(&who(&scene, &arrivals[e.order]), e.arm, &e.transfer, e.at_s);
            }
            waiting.pop();
        }
        let arm = learner.choose(&who(&scene, arrival), arrival.at_s, draws.bits() as u32);
        let means = scene.means(arrival);
        if INTERVALS_AFTER.contains(&arrival.number) {
            let covers = learner.covers(&who(&scene, arrival), arrival.at_s, &means);
            score.add_intervals(arrival.number, &covers);
        }
        score.add(&Met::new(&scene, arrival, arm, means));
        let transfer = scene.transfer(arrival, arm);
        let at_s = arrival.at_s + learners_lasts_s(&transfer);
        // Connections ending between two publications are learned from at the next.
        let published_s = (at_s / world.publish_s).ceil() * world.publish_s;
        waiting.push(Reverse((When(published_s, order), order)));
        ended.push(Some(Ended {
            at_s,
            order,
            arm,
            transfer,
        }));
    }
    score.inside = learner.inside();
    Ok(score)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::Metric;
    use crate::verdict::measure;

    /// A tenth of a world with a hostile peer in each of 100 of its 300 prefixes.
    fn tenth(name: &str) -> World {
        let worlds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("worlds");
        let mut world = World::read(&worlds.join(name)).unwrap();
        world.tree.sites /= 10;
        if let Some(hostile) = &mut world.hostile {
            hostile.groups /= 10;
        }
        world
    }

    /// Mean over seeds not used to choose constants: nats below the best arm, and the share of their reward
    /// lost by honest neighbours because of the liars.
    fn among_liars(world: &World, learner: &str) -> (f64, f64) {
        const SEEDS: u64 = 4;
        let kinds: Vec<usize> = (0..world.kind.len()).collect();
        let one = |seed| {
            let with = run(world, learner, seed, true).unwrap();
            let without = run(world, learner, seed, false).unwrap();
            let of = |metric| measure(metric, &kinds, &with, Some(&without));
            (of(Metric::Regret), of(Metric::LostNear))
        };
        let all = (1001..1001 + SEEDS).map(one);
        let sum = all.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (sum.0 / SEEDS as f64, sum.1 / SEEDS as f64)
    }

    /// With the worse arm only, all; with the better arm only, none; with the tree, a few.
    #[test]
    fn paths_stuck_on_worse_arm_are_counted() {
        let worlds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("worlds");
        let world = World::read(&worlds.join("lab-bursts1.toml")).unwrap();
        let stuck = |learner| {
            let score = run(&world, learner, 1001, false).unwrap();
            measure(Metric::Stuck, &[0], &score, None)
        };
        assert_eq!([stuck("cubic"), stuck("bbr")], [0.0, 1.0]);
        assert!(stuck("tree") < 0.05, "{}", stuck("tree"));
    }

    /// Mean regret of the tree in this world.
    fn regret(world: &World) -> f64 {
        let kinds: Vec<usize> = (0..world.kind.len()).collect();
        let of = |seed| {
            let score = run(world, "tree", seed, false).unwrap();
            measure(Metric::Regret, &kinds, &score, None)
        };
        (1001..1031).map(of).sum::<f64>() / 30.0
    }

    #[test]
    fn clients_at_an_octaves_edge_learn_as_fast() {
        let worlds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("worlds");
        let mut world = World::read(&worlds.join("edge.toml")).unwrap();
        let edge = regret(&world);
        world.rtt[0].other = None;
        let within = regret(&world);
        assert!(
            edge < 1.1 * within,
            "{edge} at the edge, {within} within an octave"
        );
    }

    #[test]
    fn liars_cost_tree_under_half_of_epsilon_greedy() {
        for name in [
            "hostile-hundred-against-arms.toml",
            "hostile-hundred-for-arms.toml",
        ] {
            let world = tenth(name);
            let (tree, near) = among_liars(&world, "tree");
            let (epsilon, _) = among_liars(&world, "epsilon");
            let (epsilon24, near24) = among_liars(&world, "epsilon24");
            assert!(
                tree < 0.5 * epsilon.min(epsilon24),
                "{name}: {tree} {epsilon} {epsilon24}"
            );
            assert!(
                near < 0.05,
                "{name}: honest neighbours lose {near}, with epsilon24 {near24}"
            );
        }
    }
}
