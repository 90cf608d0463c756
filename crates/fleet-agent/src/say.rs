//! Saying: puts this host's changed shards, and its manifest after them.

use std::collections::BTreeMap;

use tcpilot_fleet::manifest::{self, Manifest, Mark, Policy};
use tcpilot_fleet::{Name, State, format, shard};

use crate::changed::is_changed;
use crate::clock::EngineClock;
use crate::key::{Host, Key};
use crate::settings::Settings;
use crate::store::{Store, StoreError, VALUE_BYTES_MAX};

/// The manifest is said again after so many seconds at the latest: readers see that the host lives.
const MANIFEST_EVERY_S: f64 = 300.0;

/// A shard that the engine has acknowledged.
struct Said {
    mark: Mark,
    bytes: Vec<u8>,
    at_s: f64,
}

/// The shards of a policy. A shard without rows that was never said is `None`.
type Shards = Vec<Option<Said>>;

/// What this host has said.
pub struct Sayer {
    host: Host,
    boot: u64,
    sequence: u64,
    rows_max: u32,
    bytes_per_round: f64,
    said: BTreeMap<Name, Shards>,
    rows: BTreeMap<Name, u32>,
    /// Sequence of the last acknowledged manifest, and when that was.
    manifest: Option<(u64, f64)>,
    /// Whether the engine has shards that the last manifest does not know.
    is_manifest_due: bool,
    engine_jumps: u64,
    /// What people see.
    pub counts: Counts,
}

/// Figures of saying.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Values that the engine has acknowledged.
    pub puts: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Shards that wait for the next round, since the bytes of this one were used up.
    pub waiting: u64,
    /// Times that everything had to be said again, since the engine had lost it.
    pub said_again: u64,
    /// Times that another process had written this host's manifest: two hosts have one name.
    pub name_taken: u64,
}

/// A host's own knowledge under one policy, and its age in seconds.
pub struct Own {
    /// The rows.
    pub state: State,
    /// Seconds since the time up to which the rows are aged.
    pub age_s: f64,
}

impl Sayer {
    /// Nothing said yet.
    #[must_use]
    pub fn new(settings: &Settings, boot: u64) -> Self {
        Self {
            host: settings.host.clone(),
            boot,
            sequence: 0,
            rows_max: settings.rows_max,
            bytes_per_round: settings.publish_bytes_per_s * settings.say_every_s,
            said: BTreeMap::new(),
            rows: BTreeMap::new(),
            manifest: None,
            is_manifest_due: true,
            engine_jumps: 0,
            counts: Counts::default(),
        }
    }

    /// Number of rows that the last manifest has.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows.values().map(|rows| u64::from(*rows)).sum()
    }

    /// Seconds since the engine acknowledged the last manifest.
    #[must_use]
    pub fn said_ago_s(&self, now_s: f64) -> Option<f64> {
        self.manifest.map(|(_, at_s)| now_s - at_s)
    }

    /// Says what has changed. `now_s` is of a monotonic clock.
    ///
    /// # Errors
    /// The engine's. What it has acknowledged is not said again.
    pub async fn say(
        &mut self,
        store: &impl Store,
        clock: &mut EngineClock,
        own: &BTreeMap<Name, Own>,
        now_s: f64,
    ) -> Result<(), StoreError> {
        self.look_at_own_manifest(store).await?;
        if self.engine_jumps != clock.jumps {
            // The engine deletes what is old by its clock.
            self.engine_jumps = clock.jumps;
            self.forget();
        }
        self.sequence += 1;
        let mut left = self.bytes_per_round;
        self.is_manifest_due |= self.said.keys().any(|policy| !own.contains_key(policy));
        self.said.retain(|policy, _| own.contains_key(policy));
        self.rows.retain(|policy, _| own.contains_key(policy));
        self.counts.waiting = 0;
        for (policy, own) in own {
            self.say_policy(store, policy, own, now_s, &mut left)
                .await?;
        }
        let ago_s = self.said_ago_s(now_s);
        if self.is_manifest_due || ago_s.is_none_or(|ago_s| ago_s >= MANIFEST_EVERY_S) {
            self.say_manifest(store, clock, now_s).await?;
        }
        Ok(())
    }

    /// Looks whether the engine still has what was said. If not, all is said again.
    async fn look_at_own_manifest(&mut self, store: &impl Store) -> Result<(), StoreError> {
        let found = store.get(&Key::manifest(&self.host)).await?;
        let found = found.and_then(|found| manifest::decode(&found.value).ok());
        let Some((said, _)) = self.manifest else {
            // A former process's, if any.
            self.forget();
            return Ok(());
        };
        match found {
            Some(found) if found.boot == self.boot && found.sequence >= said => return Ok(()),
            Some(found) if found.boot != self.boot => self.counts.name_taken += 1,
            _ => self.counts.said_again += 1,
        }
        self.forget();
        Ok(())
    }

    /// Everything has to be said again.
    fn forget(&mut self) {
        self.said.clear();
        self.is_manifest_due = true;
    }

    /// Says the changed shards of a policy, those that wait for longest first.
    async fn say_policy(
        &mut self,
        store: &impl Store,
        policy: &Name,
        own: &Own,
        now_s: f64,
        left: &mut f64,
    ) -> Result<(), StoreError> {
        let shards = self.parts(own);
        let count = shards.len();
        let said = self.said.entry(policy.clone()).or_default();
        if said.len() != count {
            self.is_manifest_due = true;
            *said = (0..count).map(|_| None).collect();
        }
        let changed = |number: &usize| {
            let former = said.get(*number).and_then(Option::as_ref);
            let age_s = former.map_or(0.0, |said| now_s - said.at_s);
            let former = former.and_then(|said| format::decode(&said.bytes, u32::MAX).ok());
            is_changed(former.as_ref(), &shards[*number], age_s)
        };
        let mut numbers: Vec<usize> = (0..count).filter(changed).collect();
        let at_s = |number: &usize| said[*number].as_ref().map_or(f64::MIN, |said| said.at_s);
        numbers.sort_by(|a, b| at_s(a).total_cmp(&at_s(b)));
        for (done, number) in numbers.iter().enumerate() {
            if *left <= 0.0 {
                self.counts.waiting += (numbers.len() - done) as u64;
                break;
            }
            let bytes = format::encode(&shards[*number]);
            let key = Key::shard(&self.host, policy, *number as u16);
            store.put(&key, &bytes).await?;
            *left -= bytes.len() as f64;
            self.counts.puts += 1;
            self.counts.bytes += bytes.len() as u64;
            let has_rows = !shards[*number].rows().is_empty();
            let mark = Mark {
                sequence: self.sequence,
                bytes: if has_rows { bytes.len() as u32 } else { 0 },
            };
            said[*number] = Some(Said {
                mark,
                bytes,
                at_s: now_s,
            });
            self.is_manifest_due = true;
        }
        let rows = own.state.rows().len().min(self.rows_max as usize);
        self.rows.insert(policy.clone(), rows as u32);
        Ok(())
    }

    /// The shards of a state, with this process's boot and sequence: as few as fit the engine's values.
    fn parts(&self, own: &Own) -> Vec<State> {
        let mut head = own.state.empty();
        (head.boot, head.sequence) = (self.boot, self.sequence);
        head.age_s = own.age_s.clamp(0.0, f64::from(u32::MAX)) as u32;
        for row in own.state.rows().iter().take(self.rows_max as usize) {
            // It comes from a state, in order.
            let _ = head.push(*row);
        }
        let mut count = shard::SHARDS;
        loop {
            let shards = shard::split(&head, count);
            let is_small = |shard: &State| format::encode(shard).len() <= VALUE_BYTES_MAX;
            if count == shard::SHARDS_MAX || shards.iter().all(is_small) {
                return shards;
            }
            count *= 2;
        }
    }

    async fn say_manifest(
        &mut self,
        store: &impl Store,
        clock: &mut EngineClock,
        now_s: f64,
    ) -> Result<(), StoreError> {
        let policy = |(name, shards): (&Name, &Shards)| Policy {
            name: name.clone(),
            rows: self.rows.get(name).copied().unwrap_or(0),
            marks: shards
                .iter()
                .map(|said| said.as_ref().map_or_else(Mark::default, |said| said.mark))
                .collect(),
        };
        let manifest = Manifest {
            boot: self.boot,
            sequence: self.sequence,
            software: env!("CARGO_PKG_VERSION").to_owned(),
            policies: self.said.iter().map(policy).collect(),
        };
        let (key, bytes) = (Key::manifest(&self.host), manifest::encode(&manifest));
        put_manifest(store, clock, &key, &bytes).await?;
        self.counts.puts += 1;
        self.counts.bytes += bytes.len() as u64;
        self.manifest = Some((self.sequence, now_s));
        self.is_manifest_due = false;
        Ok(())
    }
}

/// Puts a manifest, and learns the engine's clock from it.
pub(crate) async fn put_manifest(
    store: &impl Store,
    clock: &mut EngineClock,
    key: &Key,
    bytes: &[u8],
) -> Result<(), StoreError> {
    let before_s = crate::clock::boot_s();
    store.put(key, bytes).await?;
    let after_s = crate::clock::boot_s();
    // The engine's time of this very put is its clock now.
    if let Some(entry) = store.get(key).await? {
        if entry.value == bytes {
            clock.see(entry.written_s, f64::midpoint(before_s, after_s));
        }
    }
    Ok(())
}
