//! Forgets the paths of network namespaces that have ended, such as those of containers: nobody can use them again.
//!
//! The kernel reports each end to a program, unless the host does not allow such programs. With the privileges for it, the
//! daemon also compares the known namespaces with those of processes and names now and then: this finds ends that
//! nobody reported, such as those during a restart. Without either, paths stay until their knowledge fades.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use tcpilot_kernel::{NetnsEnds, host, living_netns};

use super::Daemon;

/// The least time between two times that paths are forgotten, since each rebuilds the index of all paths.
const EVERY: Duration = Duration::from_secs(10);
/// Interval of looks at the living namespaces.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Looks for living namespaces.
struct Looks {
    at: Instant,
    /// Those not found at the last look. Two looks must agree, since a namespace may be without a process for a moment.
    missing: HashSet<u64>,
}

/// The namespaces that have ended.
#[derive(Default)]
pub(super) struct Ended {
    /// The kernel's reports; `None` if there are none.
    reports: Option<NetnsEnds>,
    /// `None` without the privileges.
    looks: Option<Looks>,
    /// The cookies of those whose paths are still to be forgotten.
    cookies: HashSet<u64>,
    forgot: Option<Instant>,
}

impl Daemon {
    /// Begins to notice the ends of namespaces.
    pub(super) fn watch_netns(&mut self) {
        self.ended.looks = host::sees_all_netns().then(|| Looks {
            at: Instant::now(),
            missing: HashSet::new(),
        });
        match self.pilot.netns_ends() {
            Ok(reports) => self.ended.reports = Some(reports),
            Err(error) if self.ended.looks.is_some() => {
                tracing::debug!(%error, "only looking for living network namespaces");
            }
            Err(error) => tracing::info!(
                %error,
                "paths of network namespaces that end are kept until their knowledge has faded"
            ),
        }
    }

    /// Forgets the paths of ended namespaces; called once a second.
    pub(super) fn forget_ended_netns(&mut self) {
        let Some(learning) = &self.learning else {
            return;
        };
        let ended = &mut self.ended;
        let reported = ended.reports.iter().flat_map(NetnsEnds::take);
        ended.cookies.extend(reported);
        let is_due = |looks: &&mut Looks| looks.at.elapsed() >= LOOK_EVERY;
        if let Some(looks) = ended.looks.as_mut().filter(is_due) {
            looks.at = Instant::now();
            // Without an answer nothing is missing.
            let known = learning.known_netns().unwrap_or_default();
            let living = living_netns().unwrap_or_else(|| known.clone());
            let gone = gone(known, &living, &mut looks.missing);
            ended.cookies.extend(gone);
        }
        if ended.cookies.is_empty() || ended.forgot.is_some_and(|last| last.elapsed() < EVERY) {
            return;
        }
        ended.forgot = Some(Instant::now());
        // Without an answer they are tried again.
        if let Some(paths) = learning.forget_netns(ended.cookies.clone()) {
            let namespaces = ended.cookies.len();
            tracing::debug!(
                paths,
                namespaces,
                "forgot the paths of namespaces that have ended"
            );
            ended.cookies.clear();
        }
    }
}

/// The known namespaces that were missing at the last look and are missing now; notes those that are missing now. Of a
/// known one perhaps only half of the cookie is known.
fn gone(known: HashSet<u64>, living: &HashSet<u64>, missing: &mut HashSet<u64>) -> Vec<u64> {
    let halves: HashSet<u32> = living.iter().map(|cookie| *cookie as u32).collect();
    let is_missing = |cookie: &u64| !halves.contains(&(*cookie as u32));
    let now: HashSet<u64> = known.into_iter().filter(is_missing).collect();
    let before = std::mem::replace(missing, now);
    missing.intersection(&before).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_missing_twice_has_ended() {
        let long = 1 << 32 | 7;
        let known = || HashSet::from([5, 6, 7, 8]);
        let (all, some) = (HashSet::from([5, 6, long, 8, 9]), HashSet::from([5, long]));
        let mut missing = HashSet::new();
        let mut look = |living: &HashSet<u64>| {
            let mut gone = gone(known(), living, &mut missing);
            gone.sort_unstable();
            gone
        };
        assert_eq!(look(&all), [0; 0]);
        assert_eq!(look(&some), [0; 0], "for the first time");
        assert_eq!(look(&all), [0; 0], "it was between two processes");
        assert_eq!(look(&some), [0; 0]);
        assert_eq!(look(&some), [6, 8]);
    }
}
