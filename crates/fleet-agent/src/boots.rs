//! Two hosts of one name, as a reader notices it: their boots alternate.
//!
//! A boot is a random number per start, so one that was replaced never comes back by itself.

/// So many returns make two hosts of one.
const RETURNS_MAX: usize = 3;

/// A return counts for so long, in seconds. A reader looks every ten minutes, and sees a return about every second time.
const COUNTED_S: f64 = 3.0 * 3600.0;

/// Boots remembered.
const FORMER_MAX: usize = 8;

/// The boots seen under one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Boots {
    current: Option<u64>,
    former: Vec<u64>,
    returns_s: Vec<f64>,
}

impl Boots {
    /// A manifest with this boot was read at this time, in seconds by a monotonic clock.
    pub fn see(&mut self, boot: u64, now_s: f64) {
        let Some(current) = self.current.replace(boot) else {
            return;
        };
        if current == boot {
            return;
        }
        if self.former.contains(&boot) {
            self.returns_s.push(now_s);
            self.former.retain(|known| *known != boot);
        }
        self.former.push(current);
        if self.former.len() > FORMER_MAX {
            self.former.remove(0);
        }
        if self.returns_s.len() > RETURNS_MAX {
            self.returns_s.remove(0);
        }
    }

    /// Whether two hosts have this name.
    #[must_use]
    pub fn are_two(&self, now_s: f64) -> bool {
        let counted = self.returns_s.iter().filter(|at| now_s - **at <= COUNTED_S);
        counted.count() >= RETURNS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_one_host() {
        let mut boots = Boots::default();
        for boot in 0..100 {
            boots.see(boot, boot as f64);
            boots.see(boot, boot as f64);
        }
        assert!(!boots.are_two(100.0));
    }

    #[test]
    fn three_returns_are_two_hosts_until_it_is_quiet() {
        let mut boots = Boots::default();
        for (i, boot) in [1, 2, 1, 2].into_iter().enumerate() {
            boots.see(boot, i as f64);
        }
        assert!(!boots.are_two(4.0));
        boots.see(1, 4.0);
        assert!(boots.are_two(4.0));
        assert!(boots.are_two(2.0 + COUNTED_S));
        assert!(!boots.are_two(5.0 + COUNTED_S));
    }
}
