//! One learner in one world with one seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anyhow::Result;

use crate::learners::{Learner, Lone, Who, make};
use crate::learners_lasts_s;
use crate::random::stream;
use crate::scene::{Arrival, Scene, Transfer};
use crate::score::{Met, Score};
use crate::world::World;

/// A connection that has ended, or will have.
struct Ended {
    at_s: f64,
    order: usize,
    arm: usize,
    transfer: Transfer,
}

/// Time and number of an ended connection, so that a heap gives the first.
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
        lineage: path.lineage,
        number: arrival.number,
    }
}

/// Runs a learner; `hostile`: with the world's hostile peers.
pub fn run(world: &World, learner: &str, seed: u64, hostile: bool) -> Result<Score> {
    let mut scene = Scene::new(world, seed, hostile);
    let mut learner: Box<dyn Learner> = match world.tree.lone {
        true => Box::new(Lone::new(learner, &world.arms, &world.settings, seed)?),
        false => make(learner, &world.arms, &world.settings, seed)?,
    };
    let arrivals = scene.arrivals();
    let mut score = Score::new(world);
    let mut draws = stream(&[seed, 6]);
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
        let means = scene.means(arrival.path, arrival.at_s);
        score.add(&Met::new(&scene, arrival, arm, means));
        let transfer = scene.transfer(arrival, arm);
        let at_s = arrival.at_s + learners_lasts_s(&transfer);
        // What ends between two publications is taken in at the next.
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
