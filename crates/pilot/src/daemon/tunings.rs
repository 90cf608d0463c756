//! The daemon's part of the tunings: the guard's decisions every few seconds, and the figures for `status`.

use std::{collections::HashSet, time::Duration};

use serde::{Deserialize, Serialize};
use tcpilot_config::tune_word;
use tcpilot_kernel::clock::monotonic_ns;

use crate::daemon::guard::{CohortCounts, TunedPath, TuningVerdict};
use tcpilot_abi::{TP_TUNE_ACK_PRIORITY, TP_TUNE_COUNT, TP_TUNE_IW, tp_order, tp_path, tp_tuned};
use tcpilot_core::Prefix;

use super::Daemon;
use crate::figures::TuningsStatus;

/// Interval of the guard's judgements. Quicker reactions are the pilot's own: after packets lost by an
/// initial window it makes the next windows smaller at once.
pub(super) const GUARD_EVERY: Duration = Duration::from_secs(10);
/// Time until the next try of a tuning after it was switched off, because paths change.
const OFF_FOR: Duration = Duration::from_secs(600);
/// The strongest brake: it leaves an eighth of the excess of an initial window. If the rest still loses more,
/// the tuning is switched off.
const BRAKE_MOST: u8 = 3;

/// A tuning switched off by the guard on a path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Off {
    number: u32,
    born_ns: u64,
    tune: u32,
    since_ns: u64,
    sentence: String,
}

impl Daemon {
    /// Judges every tuning of every path, and switches off harmful ones; an initial window is lowered first.
    pub(super) fn guard(&mut self) {
        if self.abi.tunes == 0 {
            return;
        }
        let (mut judged, mut known) = (Vec::new(), HashSet::new());
        let read = self.pilot.for_each_slot(|number, key, path| {
            known.insert((number, path.born_ns));
            if let Ok(Some(tuned)) = self.pilot.tuned(number, &path) {
                let prefix = Prefix::from_key(&key).map(|prefix| prefix.to_string());
                judged.push((number, prefix.unwrap_or_default(), path, tuned));
            }
        });
        if let Err(error) = read {
            tracing::warn!(%error, "the guard could not read the paths");
            return;
        }
        keep_known(&mut self.off, &known);
        self.guard.keep_known(&known);
        for (number, prefix, path, tuned) in judged {
            self.guard_path(number, &prefix, &path, &tuned);
        }
    }

    fn guard_path(&mut self, number: u32, prefix: &str, path: &tp_path, t: &tp_tuned) {
        let mut order = tp_order {
            slot: number,
            off: t.off & !self.over(number, path.born_ns),
            brake: t.brake,
            born_ns: path.born_ns,
            ..Default::default()
        };
        for tune in 0..TP_TUNE_COUNT.min(t.with.len() as u32) {
            let place = TunedPath {
                slot: number,
                born_ns: path.born_ns,
                tune,
            };
            let seen = CohortCounts {
                opened: path.connections,
                with: t.with[tune as usize],
                without: t.without[tune as usize],
            };
            let Some(harm) = harm(self.guard.look(place, seen)) else {
                continue;
            };
            self.guard.begin_anew(place);
            let word = tune_word(tune);
            if tune == TP_TUNE_IW && t.brake < BRAKE_MOST {
                order.brake = t.brake + 1;
                tracing::warn!(path = prefix, tuning = word, "lowered: {harm}");
                continue;
            }
            if t.off >> tune & 1 == 1 {
                continue;
            }
            order.off |= 1 << tune;
            tracing::warn!(path = prefix, tuning = word, "switched off: {harm}");
            self.off.push(Off {
                number,
                born_ns: path.born_ns,
                tune,
                since_ns: monotonic_ns(),
                sentence: format!("{prefix}: {word} switched off: {harm}"),
            });
        }
        if (order.off, order.brake) == (t.off, t.brake) {
            return;
        }
        if let Err(error) = self.pilot.put_order(&order) {
            tracing::warn!(%error, "the guard's order could not be written");
        }
    }

    /// The tunings of a path whose time off is over, as bits. Forgets that they were off.
    fn over(&mut self, number: u32, born_ns: u64) -> u8 {
        let mut bits = 0;
        self.off.retain(|off| {
            let mine = off.number == number && off.born_ns == born_ns;
            let over =
                mine && monotonic_ns().saturating_sub(off.since_ns) >= OFF_FOR.as_nanos() as u64;
            if over {
                bits |= 1 << off.tune;
            }
            !over
        });
        bits
    }

    /// The figures of the tunings for `status`; `None` if no tuning is on.
    pub(super) fn tunings_status(&self) -> Option<TuningsStatus> {
        if self.abi.tunes == 0 {
            return None;
        }
        let counters = self.pilot.counters();
        let on = (0..TP_TUNE_ACK_PRIORITY).filter(|tune| self.abi.tunes >> tune & 1 == 1);
        let counted = |counts: &[u64]| {
            on.clone()
                .map(|tune| (tune_word(tune).to_owned(), counts[tune as usize]))
                .collect()
        };
        Some(TuningsStatus {
            objective: self.config.tuning.objective.word().to_owned(),
            network: self.config.tuning.network.word().to_owned(),
            set: counted(&counters.tuned),
            refused: counted(&counters.refused),
            retreats: counters.retreats,
            acks_first: counters.acks_first,
            guard: self.off.iter().map(|off| off.sentence.clone()).collect(),
        })
    }
}

/// Forgets tunings of paths evicted from the table. Nothing is off there any more: a returning path restarts.
fn keep_known(off: &mut Vec<Off>, known: &HashSet<(u32, u64)>) {
    off.retain(|off| known.contains(&(off.number, off.born_ns)));
}

fn harm(verdict: TuningVerdict) -> Option<String> {
    let (what, with, without) = match verdict {
        TuningVerdict::TooFew | TuningVerdict::Keep => return None,
        TuningVerdict::Loss { with, without } => ("of its packets are lost", with, without),
        TuningVerdict::Late { with, without } => ("of its connections end late", with, without),
    };
    let percent = |share: f64| share * 100.0;
    Some(format!(
        "{:.1} % {what}, {:.1} % without it",
        percent(with),
        percent(without)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuning_is_forgotten_with_its_path() {
        let of = |number, born_ns| Off {
            number,
            born_ns,
            tune: TP_TUNE_IW,
            since_ns: 1,
            sentence: String::new(),
        };
        // The slot of the second path has another one now, and the third path's slot is free.
        let mut off = vec![of(1, 10), of(2, 20), of(3, 30)];
        keep_known(&mut off, &HashSet::from([(1, 10), (2, 25), (4, 40)]));
        let kept: Vec<_> = off.iter().map(|off| (off.number, off.born_ns)).collect();
        assert_eq!(kept, [(1, 10)]);
    }
}
