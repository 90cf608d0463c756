//! A question to the daemon that costs it a bounded part of its time, however often the page asks.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// A question rests for this many times the time that its answer took: the daemon spends at most a fifth on it.
const REST: u32 = 4;
/// Longest rest, so that a page recovers soon after a daemon that hung.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// How long an answer serves everybody.
pub(super) fn rest(age: Duration, took: Duration) -> Duration {
    age.max((took * REST).min(LONGEST_REST))
}

/// The last answer to a question, and how long it serves everybody.
pub(super) struct Paced<T> {
    age: Duration,
    kept: Mutex<Option<(Instant, Result<T, String>)>>,
}

impl<T: Clone> Paced<T> {
    /// An answer serves for `age` at least.
    pub fn new(age: Duration) -> Paced<T> {
        Paced {
            age,
            kept: Mutex::new(None),
        }
    }

    /// The last answer if it still serves, else that of `ask`; later callers wait for it too.
    pub fn get(&self, ask: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, answer)) = kept.as_ref().filter(|(until, _)| Instant::now() < *until) {
            return answer.clone();
        }
        let begun = Instant::now();
        let answer = ask();
        let until = Instant::now() + rest(self.age, begun.elapsed());
        *kept = Some((until, answer.clone()));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_asks_once_per_age() {
        let paced = Paced::new(Duration::from_secs(60));
        let mut asked = 0;
        for _ in 0..1000 {
            let answer = paced.get(|| {
                asked += 1;
                Err::<(), _>(format!("refusal {asked}"))
            });
            assert_eq!(
                answer,
                Err("refusal 1".to_owned()),
                "a refusal is kept, too"
            );
        }
        let short = Paced::new(Duration::ZERO);
        assert_eq!(short.get(|| Ok(1)), Ok(1));
        while short.get(|| Ok(2)) == Ok(1) {}
    }

    #[test]
    fn a_slow_answer_serves_for_longer_up_to_a_limit() {
        let [age, slow] = [2, 3].map(Duration::from_secs);
        assert_eq!(rest(age, Duration::ZERO), age);
        assert_eq!(rest(age, slow), slow * REST);
        assert_eq!(rest(age, slow * 100), LONGEST_REST);
    }
}
