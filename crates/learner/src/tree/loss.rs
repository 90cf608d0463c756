//! A path with two states: its link drops packets at random, or it does not.
//!
//! A busy hour, a microwave link in rain or a wireless client that walks away bring losses without a queue, and they come
//! again. The best algorithm of one state says little of the other's, and the change of reward alone shows late: it may as well be
//! load. But bouts of loss without a queue are seen at once (`bpf/core/rescue.h`). So a path has evidence of its own for
//! each state, and a turn exchanges the two: the first time the new state begins without evidence, later with its own.
//!
//! The turn is found by Page's cumulative sum (Biometrika 41, 1954) of the likelihood ratio of two Poisson processes: bouts
//! in a calm state, and bouts in a lossy one. In a calm state only the default's connections count. Other arms
//! cause losses in other ways: where a queue is so short that it cannot be seen, bbr loses without it.

use super::{PathId, Tree};
use crate::linalg::NotPositive;
use crate::path::Evidence;
use crate::sharing::Bouts;

/// Segments for each bout without a queue while the link drops at random: half of what 1 % of loss gives, since
/// some losses share a bout, and some come while the queue is filled by the connection itself.
const LOSSY: f64 = 200.0;

/// And while it does not. Between the two, one bout in 670 segments says nothing.
const CALM: f64 = 5000.0;

/// The sum at which the path has turned, in nats: three bouts close to each other, or 1700 segments without one.
const ALARM: f64 = 8.0;

/// The kernel's watch begins after so many segments of a connection.
const UNWATCHED: f64 = 64.0;

/// With less evidence than these samples there is no former state: the path was lossy from the beginning.
const YOUNG: f64 = 6.0;

/// The bit of the lossy state in its byte of a saved row; the others have the sum, up to this number.
const LOSSY_BIT: u8 = 128;
const SUM_MAX: f64 = 127.0;

/// A path's state, kept once a bout was seen without a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Loss {
    /// Whether its link drops packets at random now.
    pub is_lossy: bool,
    /// What speaks for a turn, in nats.
    pub sum: f64,
    /// The evidence of the other state, and when it was stored.
    pub other: Option<(Box<[f32]>, f64)>,
}

impl Loss {
    /// Takes in the bouts without a queue of these segments; says whether the path has turned.
    fn observe(&mut self, clear: f64, segments: f64) -> bool {
        let lossy = clear * (CALM / LOSSY).ln() - segments * (1.0 / LOSSY - 1.0 / CALM);
        let towards = if self.is_lossy { -lossy } else { lossy };
        self.sum = (self.sum + towards).clamp(0.0, ALARM);
        let turns = self.sum >= ALARM;
        if turns {
            self.is_lossy = !self.is_lossy;
            self.sum = 0.0;
        }
        turns
    }

    fn is_plain(&self) -> bool {
        !self.is_lossy && self.sum == 0.0 && self.other.is_none()
    }
}

fn packed<const C: usize>(evidence: &Evidence<C>) -> Box<[f32]> {
    let mut packed = vec![0.0; Evidence::<C>::PACKED];
    evidence.pack(&mut packed);
    packed.into()
}

impl<const C: usize> Tree<C> {
    /// Notes the losses of a path's connection; says whether its link began or ceased to drop packets at
    /// random. `segments` are those sent since the connection's last sample; `is_first` if there was none.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::update`].
    pub(crate) fn note_loss(
        &mut self,
        id: PathId,
        arm: usize,
        seen: Bouts,
        segments: f64,
        is_first: bool,
        now_s: f64,
    ) -> Result<bool, NotPositive> {
        let clear = f64::from(seen.clear).max(0.0);
        let known = self.losses.get(&id.0);
        let is_lossy = known.is_some_and(|loss| loss.is_lossy);
        if !is_lossy && (arm != 0 || (clear == 0.0 && known.is_none())) {
            return Ok(false);
        }
        let watched = (segments - if is_first { UNWATCHED } else { 0.0 }).max(0.0);
        let loss = self.losses.entry(id.0).or_default();
        let turns = loss.observe(clear, watched);
        if loss.is_plain() {
            self.losses.remove(&id.0);
        }
        if !turns {
            return Ok(false);
        }
        self.turn(id, now_s)?;
        if let Some((other, _)) = self.relative(id) {
            // A client with two paths turns as one.
            let is_lossy = self.is_lossy(id);
            if self.is_lossy(other) != is_lossy {
                let loss = self.losses.entry(other.0).or_default();
                (loss.is_lossy, loss.sum) = (is_lossy, 0.0);
                self.turn(other, now_s)?;
            }
        }
        Ok(true)
    }

    /// Whether a path's link drops packets at random.
    pub(crate) fn is_lossy(&self, id: PathId) -> bool {
        self.losses.get(&id.0).is_some_and(|loss| loss.is_lossy)
    }

    /// A path's state and its sum in a byte, for its row.
    pub(super) fn loss_byte(&self, id: PathId) -> u8 {
        let Some(loss) = self.losses.get(&id.0) else {
            return 0;
        };
        let sum = (loss.sum / ALARM * SUM_MAX).round() as u8;
        sum | if loss.is_lossy { LOSSY_BIT } else { 0 }
    }

    /// Restores a path's state from its saved row. `byte` is of [`Tree::loss_byte`].
    pub(super) fn restore_loss(&mut self, id: PathId, byte: u8, other: Option<(f64, Evidence<C>)>) {
        let loss = Loss {
            is_lossy: byte & LOSSY_BIT != 0,
            sum: f64::from(byte & !LOSSY_BIT) / SUM_MAX * ALARM,
            other: other.map(|(at_s, evidence)| (packed(&evidence), at_s)),
        };
        if !loss.is_plain() {
            self.losses.insert(id.0, loss);
        }
    }

    /// Exchanges the evidence of a path's two states.
    fn turn(&mut self, id: PathId, now_s: f64) -> Result<(), NotPositive> {
        let now = self.evidence_at(id, now_s);
        let other = self.losses.get_mut(&id.0).and_then(|l| l.other.take());
        if other.is_none() && now.weight < YOUNG {
            return Ok(());
        }
        self.losses.entry(id.0).or_default().other = Some((packed(&now), now_s));
        let then = other.map_or(Evidence::NONE, |(packed, at_s)| {
            let mut then = Evidence::unpack(&packed);
            self.let_pass(&mut then, now_s - at_s);
            then
        });
        self.paths[id.0 as usize].sums = Default::default();
        self.update(id, now_s, |evidence| *evidence = then)
    }
}
