//! The steps of schedules.

use tcpilot_random::{Random, first};

use crate::state::simulated_disk::Crash;

/// The fewest steps of a schedule, and how many more it can have.
const STEPS: (usize, usize) = (6, 15);

/// One step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Act {
    /// Connections end.
    Records(usize),
    /// Time passes, in milliseconds.
    Pass(u64),
    /// The learner's thread hangs, or goes on.
    Hang(bool),
    BeginSave,
    GoOn,
    Save,
    /// A crash, and the seconds until the next start.
    Crash(Crash, u64),
    /// The host stops after so many changes of the disk.
    CrashIn(u32, Crash),
    /// A successor takes over, if it can be started.
    TakeOver(bool),
    Question,
    /// The wall clock is set, by seconds.
    Jump(i64),
    /// The disk has so many bytes left; `None` without a limit.
    Room(Option<usize>),
    Slow(bool),
    /// After so many changes of the disk, so many fail.
    Errors(u32, u32),
    /// Somebody removes the state file.
    Vanish,
}

/// A step with the seed of its details.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step(pub Act, pub u64);

impl Step {
    fn draw(random: &mut Random) -> Step {
        let crash = [Crash::Kill, Crash::PowerCut][random.below(2)];
        let away_s = [0, 1, 30, 900][random.below(4)];
        let weights = [
            22.0, 12.0, 3.0, 8.0, 6.0, 12.0, 6.0, 12.0, 6.0, 8.0, 3.0, 4.0, 2.0, 3.0, 1.0,
        ];
        let act = match random.weighted(weights.iter().copied()) {
            0 => Act::Records(1 + random.below(12)),
            1 => Act::Pass([20, 60, 1000, 12_000, 60_000, 900_000][random.below(6)]),
            2 => Act::Hang(random.below(2) == 0),
            3 => Act::BeginSave,
            4 => Act::GoOn,
            5 => Act::Save,
            6 => Act::Crash(crash, away_s),
            7 => Act::CrashIn(random.below(40) as u32, crash),
            8 => Act::TakeOver(random.below(4) > 0),
            9 => Act::Question,
            10 => {
                let by_s = [1, 59, 3600, 86_400, 31_536_000, 60 * 31_536_000][random.below(6)];
                Act::Jump(by_s * [1, -1][random.below(2)])
            }
            11 => {
                let room = [0, 600, 5000, 20_000][random.below(4)];
                Act::Room((random.below(3) > 0).then_some(room))
            }
            12 => Act::Slow(random.below(2) == 0),
            13 => Act::Errors(random.below(40) as u32, 1 + random.below(3) as u32),
            _ => Act::Vanish,
        };
        Step(act, random.bits())
    }
}

pub(super) fn schedule(seed: u64) -> Vec<Step> {
    let mut random = Random(first(seed));
    let count = STEPS.0 + random.below(STEPS.1);
    (0..count).map(|_| Step::draw(&mut random)).collect()
}

/// A fault planted to show that schedules find it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Planted {
    /// No sync does anything.
    NoSync,
    /// The folder is not synced after a transaction, as with `synchronous = FULL`.
    NoFolderSync,
    /// A save is acknowledged although it failed.
    EarlyAcknowledgement,
    /// Knowledge ages by the wall clock.
    WallClock,
    /// A successor takes over although the save failed.
    HastySuccessor,
}
