//! The amount a group of paths may lose by exploring.
//!
//! Each group has a balance in nats times connections. It earns a little with each connection and half
//! of the expected win of choices, and pays their expected loss. If a choice costs more than the
//! balance, its shares are drawn towards the default. This follows Wu et al., *Conservative Bandits*
//! (ICML 2016), and Kazerouni et al., *Conservative Contextual Linear Bandits* (NeurIPS 2017), but with
//! expectations under the belief instead of confidence bounds: a bound per choice kept a lone lossy
//! path on the default for three times as long.

use crate::settings::Choice;

/// A group's balance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ledger {
    pub(crate) balance: f32,
    pub(crate) spent: f32,
}

impl Ledger {
    /// The balance of a new group.
    #[must_use]
    pub fn new(settings: &Choice) -> Self {
        Self {
            balance: settings.ledger_start as f32,
            spent: 0.0,
        }
    }

    /// The rest, in nats times connections.
    #[must_use]
    pub fn balance(&self) -> f64 {
        f64::from(self.balance)
    }

    /// The expected loss of choices so far, in nats times connections; wins are not subtracted.
    #[must_use]
    pub fn spent(&self) -> f64 {
        f64::from(self.spent)
    }

    /// The part κ (0 to 1) of the learner's own shares allowed by the balance; the default gets the rest.
    #[must_use]
    pub fn allows(&self, loss: f64, settings: &Choice) -> f64 {
        if self.balance() >= loss {
            return 1.0;
        }
        (self.balance().max(settings.ledger_income) / loss).clamp(settings.ledger_least, 1.0)
    }

    /// Books one connection. `loss` and `win` are its expected ones against the default at κ = 1, in nats.
    pub fn book(&mut self, allowed: f64, loss: f64, win: f64, settings: &Choice) {
        let change = settings.ledger_income + allowed * (settings.ledger_win * win - loss);
        self.balance = (self.balance() + change).clamp(0.0, settings.ledger_max) as f32;
        self.spent += (allowed * loss) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn empty_balance_leaves_one_per_cent() {
        let settings = Choice::default();
        let mut ledger = Ledger::new(&settings);
        let lost: f64 = (0..1000)
            .map(|_| {
                let allowed = ledger.allows(0.2, &settings);
                ledger.book(allowed, 0.2, 0.0, &settings);
                allowed * 0.2
            })
            .sum();
        // 1 at the start, then about 0.01 per connection: never the 200 that free exploring would cost.
        assert!(lost < 1.0 + 0.01 * 1000.0 + 1.0, "{lost}");
    }

    proptest! {
        #[test]
        fn the_balance_stays_in_its_bounds(
            steps in prop::collection::vec((0.0f64..3.0, 0.0f64..3.0), 0..200)
        ) {
            let settings = Choice::default();
            let mut ledger = Ledger::new(&settings);
            for (loss, win) in steps {
                let allowed = ledger.allows(loss, &settings);
                prop_assert!((0.0..=1.0).contains(&allowed));
                ledger.book(allowed, loss, win, &settings);
                prop_assert!((0.0..=settings.ledger_max).contains(&ledger.balance()));
            }
        }
    }
}
