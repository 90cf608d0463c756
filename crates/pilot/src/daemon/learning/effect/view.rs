//! The views of the effect, for people.

use tcpilot_proof::{
    Effects, Pace, Pairs, Sequence, Trial, Verdict,
    outcome::{CLASSES, SIZES},
    verdict::Aim,
};

use super::{ALL, Effect, Stop};
use crate::figures::{
    ChoicesView, EffectReport, GroupView, MeasureView, PointView, PolicyEffect, StopView,
};

/// The most groups in a report.
const GROUPS_MAX: usize = 1000;
/// The least change worth having: 5 % of goodput and times, half a point of the retransmitted share.
const LEAST_EFFECT: f64 = 0.05;
const LEAST_EFFECT_SHARE: f64 = 0.005;

/// A measure, and how a report shows it.
struct Told<'a> {
    name: String,
    pairs: &'a Pairs,
    aim: Aim,
    least_effect: f64,
    /// Converts the unit of the pairs to a change.
    unit: fn(f64) -> f64,
}

/// The measures of a report.
fn told(effects: &Effects) -> Vec<Told<'_>> {
    let nats = |name: String, pairs, aim| Told {
        name,
        pairs,
        aim,
        least_effect: LEAST_EFFECT,
        unit: f64::exp_m1,
    };
    let mut all = vec![nats("goodput".to_owned(), &effects.goodput, Aim::Up)];
    let classes = (0..CLASSES).map(|class| {
        let name = format!("time to complete, {}", class_name(class));
        nats(name, &effects.durations[class], Aim::Down)
    });
    all.extend(classes);
    all.push(Told {
        name: "retransmitted".to_owned(),
        pairs: &effects.retransmitted,
        aim: Aim::Down,
        least_effect: LEAST_EFFECT_SHARE,
        unit: |share| share,
    });
    all.push(nats(
        "RTT inflation".to_owned(),
        &effects.inflation,
        Aim::Down,
    ));
    all
}

fn class_name(class: usize) -> String {
    let size = |bytes: u64| match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mib => format!("{mib} MiB"),
    };
    let least = size(SIZES[class]);
    match SIZES.get(class + 1) {
        Some(most) => format!("{least} to {}", size(*most)),
        None => format!("from {least}"),
    }
}

impl Told<'_> {
    /// The view of a measure. `pace` is the rate of new pairs; `None` if unknown.
    fn view(&self, pace: Option<Pace>) -> MeasureView {
        let sequence = Sequence::default();
        let interval = self.pairs.interval(&sequence).map(|i| i.map(self.unit));
        let verdict = Verdict::of(self.pairs, &sequence, self.aim, self.least_effect);
        let (word, pairs_missing) = match verdict {
            Verdict::Better => ("better", None),
            Verdict::Worse => ("worse", None),
            Verdict::NotShown => ("not shown", None),
            Verdict::Insufficient { pairs_missing } => ("insufficient data", Some(pairs_missing)),
        };
        let first = Sequence::LEAST.checked_sub(self.pairs.count);
        let interval_pairs_missing = first.filter(|missing| *missing > 0);
        let time = |pairs: Option<u64>| pace.zip(pairs)?.0.seconds_for(pairs?);
        MeasureView {
            name: self.name.clone(),
            change: self.pairs.moments().map(|(mean, _)| (self.unit)(mean)),
            low: interval.map(|i| i.low),
            high: interval.map(|i| i.high),
            verdict: word.to_owned(),
            pairs_missing,
            ready_in_s: time(pairs_missing),
            interval_pairs_missing,
            interval_in_s: time(interval_pairs_missing),
            sums: *self.pairs,
        }
    }
}

/// The views of all measures. A class of sizes has fewer pairs than goodput, and they come as much more slowly.
pub(super) fn measures(effects: &Effects, pace: Option<Pace>) -> Vec<MeasureView> {
    let all = effects.goodput.count as f64 + 1.0;
    let told = told(effects);
    let views = told.iter().map(|one| {
        let share = (one.pairs.count as f64 + 1.0) / all;
        one.view(pace.map(|pace| pace.times(share)))
    });
    views.collect()
}

impl Stop {
    /// The stop as a sentence.
    pub(super) fn sentence(&self, now_s: u64) -> String {
        let what = match self.group.as_str() {
            "" => "the whole host",
            group => group,
        };
        if self.fleet {
            let harm = 100.0 * self.harm;
            return format!(
                "{what}: steering cost more than {harm:.1} % of goodput; what the fleet says of it is dropped, \
                 and steering goes on"
            );
        }
        let left_s = self.until_s.saturating_sub(now_s);
        let tried = match left_s {
            0 => "it is tried again since".to_owned(),
            _ => format!("tried again in {} min", left_s.div_ceil(60)),
        };
        let harm = 100.0 * self.harm;
        format!("{what}: steering costs more than {harm:.1} % of goodput; {tried}")
    }
}

impl Effect {
    /// The whole report. `explored` is the expected cost of exploration.
    pub fn report(&mut self, explored: f64) -> EffectReport {
        let now_s = self.now_s();
        let groups_active = self.active.count(now_s) as u64;
        let effects = self.whole.host.effects;
        let pace = self.pace(now_s);
        let counts = self.past.counts;
        let with_pairs = self
            .whole
            .groups()
            .filter(|(_, g)| g.effects.goodput.count > 0);
        let groups = with_pairs.count() as u64;
        let several = self.policies.len() > 1;
        let policies = self.policies.iter().filter(|_| several);
        EffectReport {
            unknown: (!self.is_on()).then(|| {
                "nothing is held out (hold_out_percent in [effect] is 0), so nobody can say"
                    .to_owned()
            }),
            since_unix_s: self.past.since_s,
            now_unix_s: now_s,
            design: self.design.word().to_owned(),
            hold_out_percent: self.keys.hold_out_percent,
            trial_until_unix_s: self.is_trial(now_s).then_some(self.past.trial_until_s),
            groups,
            groups_active,
            pairs: effects.goodput.count,
            connections: effects.connections,
            connections_all: counts.all,
            connections_held_out: counts.held_out,
            hold_out_cost: self.hold_out_cost(),
            explored,
            measures: measures(&effects, pace),
            policies: policies
                .map(|(policy, trial)| PolicyEffect {
                    policy: policy.clone(),
                    connections: trial.host.effects.connections,
                    measures: measures(&trial.host.effects, None),
                })
                .collect(),
            worst: self.worst(&self.whole),
            stops: self.stops(now_s),
            history: self.history(),
            choices: self.choices(),
        }
    }

    /// How fast pairs come; `None` if nothing shows it yet. The schedule of a trial is another than before, so a trial's
    /// pairs are expected from its schedule alone.
    fn pace(&self, now_s: u64) -> Option<Pace> {
        let noted_s = now_s.saturating_sub(self.started_s);
        let rates = self.active.per_s(self.design, noted_s);
        let (pairs, elapsed_s) = match self.is_trial(now_s) {
            true => (0, self.first_pair_s()),
            false => (
                self.whole.host.effects.goodput.count,
                now_s.saturating_sub(self.past.since_s),
            ),
        };
        let least = self.keys.connections_min.into();
        Pace::of(&self.schedule, least, rates, pairs, elapsed_s)
    }

    /// Time after which the first pair of a schedule has surely been counted.
    fn first_pair_s(&self) -> u64 {
        2 * self.schedule.block_s
    }

    /// The cost of holding out, in connections: each held-out one misses the gain in goodput. 0 unless
    /// steering is shown to help.
    fn hold_out_cost(&self) -> f64 {
        let goodput = &self.whole.host.effects.goodput;
        let shown = goodput.interval(&Sequence::default());
        let gain = shown
            .filter(|i| i.low > 0.0)
            .map_or(0.0, |i| i.estimate.exp_m1());
        self.past.counts.held_out as f64 * gain
    }

    fn worst(&self, trial: &Trial) -> Vec<GroupView> {
        let view = |(group, known): (u64, &tcpilot_proof::trial::Group)| {
            let pairs = &known.effects.goodput;
            let change = pairs.total() / pairs.count as f64;
            let interval = pairs.interval(&Sequence::default());
            (pairs.count > 0).then(|| GroupView {
                group: self.name(group).to_owned(),
                pairs: pairs.count,
                change: change.exp_m1(),
                low: interval.map(|i| i.low.exp_m1()),
                high: interval.map(|i| i.high.exp_m1()),
            })
        };
        let mut all: Vec<GroupView> = trial.groups().filter_map(view).collect();
        all.sort_by(|a, b| a.change.total_cmp(&b.change));
        all.truncate(GROUPS_MAX);
        all
    }

    fn stops(&self, now_s: u64) -> Vec<StopView> {
        let view = |stop: &Stop| StopView {
            group: stop.group.clone(),
            harm: stop.harm,
            at_unix_s: stop.at_s,
            until_unix_s: stop.until_s,
            active: stop.until_s > now_s,
            sentence: stop.sentence(now_s),
        };
        self.past.stops.iter().rev().map(view).collect()
    }

    fn history(&self) -> Vec<PointView> {
        let points = self.past.history.points().iter();
        let view = |point: &tcpilot_proof::Point| {
            let interval = point.interval.map(f64::exp_m1);
            PointView {
                at_unix_s: point.at_s,
                pairs: point.pairs,
                change: interval.estimate,
                low: interval.low,
                high: interval.high,
            }
        };
        points.map(view).collect()
    }

    fn choices(&self) -> Vec<ChoicesView> {
        let choices = self.past.choices.iter();
        choices
            .map(|one| ChoicesView {
                at_unix_s: one.hour * 3600,
                connections: one.connections.clone(),
            })
            .collect()
    }

    /// The addresses of a group, for people.
    pub(super) fn name(&self, group: u64) -> &str {
        match self.names.get(&group) {
            Some(name) => name,
            None if group == ALL => "all groups",
            None => "a group whose addresses are not known any more",
        }
    }

    /// The assignment bucket of an address.
    pub fn assignment_bucket(&self, remote: &tcpilot_core::Prefix) -> u32 {
        tcpilot_core::choice_dist::assignment_bucket(&self.secrets, &remote.words())
    }

    /// The sentence of the stop for an address's assignment bucket, if there is one.
    pub fn stopped(&self, bucket: u32) -> Option<String> {
        let now_s = self.now_s();
        let group = super::design::group_of(self.design, bucket);
        let is_stopped = self.whole.stopped(now_s).any(|(one, _)| one == group);
        let name = self.name(group);
        let mut stops = self.past.stops.iter().rev();
        let found = stops.find(|stop| {
            let of_group = is_stopped && stop.group == name;
            let of_host = stop.group.is_empty() && !self.whole.host.guard.allows(now_s);
            of_group || of_host
        });
        found.map(|stop| stop.sentence(now_s))
    }
}
