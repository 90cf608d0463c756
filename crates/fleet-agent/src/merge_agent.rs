//! The process of a merger: hears all hosts of its place, merges, says, and writes what people see. [`crate::merger`] has
//! the rule.

use std::collections::BTreeMap;
use std::time::Duration;

use tcpilot_fleet::Name;

use crate::agent::{Files, Jitter, PAUSE_MAX_S, PAUSE_S, members, write_status};
use crate::clock::{EngineClock, boot_s};
use crate::hear::{Hearer, Wanted};
use crate::key::Host;
use crate::merger::{self, Said};
use crate::say;
use crate::settings::Settings;
use crate::status::{EngineLog, MergedStatus, Status, WRITTEN_EVERY_S};
use crate::store::{Store, StoreError};

/// A merger with its engine.
pub struct MergeAgent<S> {
    store: S,
    settings: Settings,
    files: Files,
    hearer: Hearer,
    clock: EngineClock,
    counts: merger::Counts,
    said: BTreeMap<Name, Said>,
    said_at_s: Option<f64>,
    engine: EngineLog,
    started_s: f64,
    _lock: tcpilot_file::Held,
}

impl<S: Store> MergeAgent<S> {
    /// Takes the files of `settings.state_dir`. It remembers nothing: all that counts is in the engine.
    ///
    /// # Errors
    /// Another process has them, or they cannot be used.
    pub fn new(settings: Settings, store: S) -> anyhow::Result<Self> {
        let files = Files::new(&settings.state_dir);
        let lock = files.take()?;
        Ok(Self {
            hearer: Hearer::of_all(&settings),
            clock: EngineClock::default(),
            counts: merger::Counts::default(),
            said: BTreeMap::new(),
            said_at_s: None,
            engine: EngineLog::new(&settings.engine),
            started_s: boot_s(),
            store,
            settings,
            files,
            _lock: lock,
        })
    }

    /// Works until the process ends, which may be at any moment.
    pub async fn run(mut self) {
        let mut jitter = Jitter::new();
        let (mut next_s, mut pause_s) = (0.0, PAUSE_S);
        loop {
            if boot_s() >= next_s {
                let done = self.round(boot_s()).await;
                self.engine.note(&done);
                let wait_s = match done {
                    Ok(()) => self.settings.hear_every_s,
                    Err(_) => pause_s,
                };
                pause_s = match done {
                    Ok(()) => PAUSE_S,
                    Err(_) => (2.0 * pause_s).min(PAUSE_MAX_S),
                };
                next_s = boot_s() + jitter.around(wait_s);
            }
            if let Err(error) = write_status(&self.files, &self.status(boot_s())) {
                tracing::warn!("status: {error}");
            }
            let wait_s = (next_s - boot_s()).clamp(0.01, WRITTEN_EVERY_S);
            tokio::time::sleep(Duration::from_secs_f64(wait_s)).await;
        }
    }

    /// Hears all hosts, and says what they know.
    ///
    /// # Errors
    /// The engine's.
    pub async fn round(&mut self, now_s: f64) -> Result<(), StoreError> {
        let clock = self.clock;
        self.hearer
            .hear(&self.store, &clock, Wanted::All, now_s)
            .await?;
        let place = &self.settings.host.place;
        let (members, counts) = (&self.hearer.members, &mut self.counts);
        let said = merger::say(&self.store, &mut self.clock, place, members, now_s, counts);
        self.said = said.await?;
        for (host, refusal) in self.said.values().flat_map(|said| &said.refused) {
            let reason = refusal.reason().to_owned();
            *self
                .hearer
                .counts
                .refused
                .entry(reason.clone())
                .or_default() += 1;
            if let Some(member) = self.hearer.members.get_mut(host) {
                member.refused = Some((reason, refusal.to_string()));
            }
        }
        self.said_at_s = Some(now_s);
        Ok(())
    }

    /// What people see.
    #[must_use]
    pub fn status(&self, now_s: f64) -> Status {
        let mut trust: BTreeMap<Host, Option<f64>> = BTreeMap::new();
        for said in self.said.values() {
            trust.extend(said.trust.clone());
        }
        let merged = |(policy, said): (&Name, &Said)| MergedStatus {
            policy: policy.to_string(),
            rows: said.rows,
            hosts: said.hosts,
            by_mergers: false,
        };
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: self.settings.host.name.to_string(),
            place: self.settings.host.place.to_string(),
            pid: std::process::id(),
            at_s: now_s,
            uptime_s: now_s - self.started_s,
            merger: true,
            engine: self.engine.status(now_s, self.clock.jumps),
            said_rows: self.said.values().map(|said| said.rows).sum(),
            said_ago_s: self.said_at_s.map(|at_s| now_s - at_s),
            said: say::Counts {
                puts: self.counts.puts,
                bytes: self.counts.bytes,
                ..say::Counts::default()
            },
            heard: self.hearer.counts.clone(),
            members: members(&self.hearer, &trust, now_s),
            merged: self.said.iter().map(merged).collect(),
            ..Status::default()
        }
    }
}
