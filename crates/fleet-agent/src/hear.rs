//! Hearing: reads the changed shards of the other hosts of this place, and refuses bad ones by reason.
//!
//! A host's update counts as a whole or not at all: if one shard is refused, what the host said before goes on to age. In a
//! place of more hosts than `hosts_max`, what mergers say of it takes the hosts' place ([`crate::merger`]).

use std::collections::BTreeMap;

use tcpilot_fleet::age::OLDEST_S;
use tcpilot_fleet::manifest::{self, Mark, Policy};
use tcpilot_fleet::{Name, format, shard};
use tcpilot_random::mix;

use crate::boots::Boots;
use crate::clock::EngineClock;
use crate::key::{Host, Key, Writer};
use crate::merger;
use crate::settings::Settings;
use crate::store::{HOSTS_MAX, Store, StoreError};

/// A shard that was heard, in its bytes: decoded it takes ten times the room.
#[derive(Clone, Debug, PartialEq)]
pub struct Shard {
    /// Its number.
    pub number: u16,
    /// Its state's sequence.
    pub sequence: u64,
    /// The bytes of a valid state.
    pub bytes: Vec<u8>,
    /// Its rows.
    pub rows: u32,
    /// The engine's time up to which the rows are aged, in seconds since 1970; 0 if it comes from a file.
    pub as_of_s: f64,
    /// Its age when it was heard, in seconds.
    pub age_s: f64,
    /// When that was, by this host's boot clock.
    pub at_s: f64,
}

impl Shard {
    /// Its age now, in seconds.
    #[must_use]
    pub fn age_s(&self, now_s: f64) -> f64 {
        self.age_s + (now_s - self.at_s).max(0.0)
    }
}

/// What a host says under one policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heard {
    /// Number of shards of its state; only those with rows are here.
    pub count: u16,
    /// The shards in order.
    pub shards: Vec<Shard>,
}

/// A host that was heard.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Member {
    /// The sender's boot, of all its shards.
    pub boot: u64,
    /// Version of its software.
    pub software: String,
    /// Age of its manifest when it was read, and when that was.
    pub said: Option<(f64, f64)>,
    /// What it says.
    pub policies: BTreeMap<Name, Heard>,
    /// Why its last update was refused; the word for counters, and the text.
    pub refused: Option<(String, String)>,
    /// Whether its update is to be saved.
    pub is_new: bool,
    /// The boot that an administrator has forgotten.
    pub forgotten: Option<u64>,
    pub(crate) boots: Boots,
}

impl Member {
    /// Whether two hosts have this name: then neither is heard.
    #[must_use]
    pub fn are_two(&self, now_s: f64) -> bool {
        self.boots.are_two(now_s)
    }

    /// Rows under all policies.
    #[must_use]
    pub fn rows(&self) -> u64 {
        let shards = self.policies.values().flat_map(|heard| &heard.shards);
        shards.map(|shard| u64::from(shard.rows)).sum()
    }
}

/// Why an update was not taken.
enum No {
    /// The engine failed. Nothing more can be read now.
    Store(StoreError),
    /// The update is bad: a word, and a text.
    Refused(String, String),
    /// The host is writing at this moment.
    Torn,
}

impl From<StoreError> for No {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::TooLarge(_) => Self::Refused(error.reason().to_owned(), error.to_string()),
            _ => Self::Store(error),
        }
    }
}

impl From<tcpilot_fleet::Refusal> for No {
    fn from(refusal: tcpilot_fleet::Refusal) -> Self {
        Self::Refused(refusal.reason().to_owned(), refusal.to_string())
    }
}

/// Figures of hearing.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Values read from the engine.
    pub gets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Updates of hosts taken.
    pub taken: u64,
    /// Updates put off, since the host was writing at that moment.
    pub torn: u64,
    /// Updates refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Hosts of this place beyond `hosts_max`, which are not heard since no merger says what they know.
    pub left_out: u64,
}

/// Policies that are of use.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// Those of this host.
    These(&'a [Name]),
    /// All: a merger's.
    All,
}

impl Wanted<'_> {
    fn has(self, policy: &Name) -> bool {
        match self {
            Self::These(policies) => policies.contains(policy),
            Self::All => true,
        }
    }
}

/// What this host has heard.
pub struct Hearer {
    host: Host,
    hosts_max: usize,
    rows_max: u32,
    /// The hosts.
    pub members: BTreeMap<Host, Member>,
    /// What mergers say of this place. Then there are no members.
    pub merged: Option<Member>,
    /// What people see.
    pub counts: Counts,
}

impl Hearer {
    /// Continues with what was heard before.
    #[must_use]
    pub fn new(
        settings: &Settings,
        members: BTreeMap<Host, Member>,
        merged: Option<Member>,
    ) -> Self {
        Self {
            host: settings.host.clone(),
            hosts_max: settings.hosts_max,
            rows_max: settings.rows_max,
            members,
            merged,
            counts: Counts::default(),
        }
    }

    /// Reads what all hosts of the place say, for a merger.
    #[must_use]
    pub fn of_all(settings: &Settings) -> Self {
        Self {
            hosts_max: HOSTS_MAX,
            ..Self::new(settings, BTreeMap::new(), None)
        }
    }

    /// Reads what has changed under these policies.
    ///
    /// # Errors
    /// The engine's. What was read before it failed is kept.
    pub async fn hear(
        &mut self,
        store: &impl Store,
        clock: &EngineClock,
        wanted: Wanted<'_>,
        now_s: f64,
    ) -> Result<(), StoreError> {
        let hosts = store.hosts(&self.host.place).await?;
        let others = hosts.iter().filter(|host| **host != self.host).count();
        if others > self.hosts_max && self.hear_mergers(store, clock, wanted, now_s).await? {
            return Ok(());
        }
        self.merged = None;
        for host in self.chosen(hosts) {
            let mut member = self.members.remove(&host).unwrap_or_default();
            let writer = Writer::from(&host);
            let mut fetch = Fetch::new(store, clock, &writer, self.rows_max, now_s);
            let heard = self.update(&mut fetch, &host, wanted, &mut member).await;
            self.counts.gets += fetch.gets;
            self.counts.bytes += fetch.bytes;
            match &heard {
                Ok(()) => {
                    self.counts.taken += u64::from(member.is_new);
                    member.refused = None;
                }
                Err(No::Torn) => self.counts.torn += 1,
                Err(No::Refused(reason, text)) => {
                    *self.counts.refused.entry(reason.clone()).or_default() += 1;
                    member.refused = Some((reason.clone(), text.clone()));
                }
                Err(No::Store(_)) => {}
            }
            self.members.insert(host, member);
            if let Err(No::Store(error)) = heard {
                return Err(error);
            }
        }
        // By this host's monotonic clock: nothing of it counts any more.
        let is_used = |member: &Member| {
            let mut shards = member.policies.values().flat_map(|heard| &heard.shards);
            let ago_s = member
                .said
                .map_or(0.0, |(age_s, at_s)| age_s + now_s - at_s);
            ago_s <= OLDEST_S || shards.any(|shard| shard.age_s(now_s) <= OLDEST_S)
        };
        self.members.retain(|_, member| is_used(member));
        Ok(())
    }

    /// Reads what mergers say of this place. False if there is nothing of use: then the hosts themselves are heard.
    async fn hear_mergers(
        &mut self,
        store: &impl Store,
        clock: &EngineClock,
        wanted: Wanted<'_>,
        now_s: f64,
    ) -> Result<bool, StoreError> {
        let set = merger::set_of(self.host.name.as_str());
        let writer = Writer::Mergers(self.host.place.clone(), set);
        let mut fetch = Fetch::new(store, clock, &writer, merger::ROWS_MAX, now_s);
        let mut member = self.merged.take().unwrap_or_default();
        let read = Self::update_merged(&mut fetch, wanted, &mut member).await;
        self.counts.gets += fetch.gets;
        self.counts.bytes += fetch.bytes;
        match &read {
            Ok(()) => self.counts.taken += u64::from(member.is_new),
            Err(No::Torn) => self.counts.torn += 1,
            Err(No::Refused(reason, text)) => {
                *self.counts.refused.entry(reason.clone()).or_default() += 1;
                tracing::warn!("what mergers say is refused: {text}");
            }
            Err(No::Store(error)) => {
                let error = error.clone();
                self.merged = (!member.policies.is_empty()).then_some(member);
                return Err(error);
            }
        }
        // Mergers that have stopped say nothing new: their place's hosts do.
        let ago_s = member.said.map(|(age_s, at_s)| age_s + now_s - at_s);
        let is_young = ago_s.is_some_and(|ago_s| ago_s <= merger::OLDEST_S);
        let is_used = is_young && !member.policies.is_empty();
        self.merged = is_used.then_some(member);
        if is_used {
            self.members.clear();
            self.counts.left_out = 0;
        }
        Ok(is_used)
    }

    async fn update_merged<S: Store>(
        fetch: &mut Fetch<'_, S>,
        wanted: Wanted<'_>,
        member: &mut Member,
    ) -> Result<(), No> {
        let Some((bytes, written_s)) = fetch.get(&Key::manifest(fetch.writer)).await? else {
            return Ok(());
        };
        let manifest = manifest::decode(&bytes)?;
        let mut new = BTreeMap::new();
        for policy in manifest.policies.iter().filter(|of| wanted.has(&of.name)) {
            let former = member.policies.get(&policy.name);
            let heard = fetch.policy(manifest.boot, policy, former).await?;
            new.insert(policy.name.clone(), heard);
        }
        member.is_new |= new != member.policies;
        member.software = manifest.software;
        member.said = Some((fetch.clock.age_s(fetch.now_s, written_s, 0.0), fetch.now_s));
        member.policies = new;
        Ok(())
    }

    /// The hosts to hear: at most `hosts_max`, drawn by a hash that is this host's own, so that others hear others.
    fn chosen(&mut self, hosts: Vec<Host>) -> Vec<Host> {
        let mut hosts: Vec<Host> = hosts
            .into_iter()
            .filter(|host| *host != self.host)
            .collect();
        let own = hash(&self.host.name);
        hosts.sort_by_key(|host| mix(own ^ hash(&host.name)));
        self.counts.left_out = hosts.len().saturating_sub(self.hosts_max) as u64;
        hosts.truncate(self.hosts_max);
        hosts
    }

    async fn update<S: Store>(
        &self,
        fetch: &mut Fetch<'_, S>,
        host: &Host,
        wanted: Wanted<'_>,
        member: &mut Member,
    ) -> Result<(), No> {
        let now_s = fetch.now_s;
        let Some((bytes, written_s)) = fetch.get(&Key::manifest(fetch.writer)).await? else {
            return Ok(()); // Gone since the list was made: what it said goes on to age.
        };
        let manifest = manifest::decode(&bytes)?;
        member.boots.see(manifest.boot, now_s);
        if member.are_two(now_s) {
            let text = "two hosts have this name".to_owned();
            return Err(No::Refused("two_hosts".to_owned(), text));
        }
        if let Some((mark, _)) = fetch.get(&Key::Forgotten(host.clone())).await? {
            member.forgotten = Some(crate::forget::decode(&mark)?);
        }
        if member.forgotten == Some(manifest.boot) {
            member.is_new |= !member.policies.is_empty();
            member.policies.clear();
            let text = "forgotten by an administrator until its agent is started again".to_owned();
            return Err(No::Refused("forgotten".to_owned(), text));
        }
        let mut new = BTreeMap::new();
        for policy in manifest.policies.iter().filter(|of| wanted.has(&of.name)) {
            let former = member.policies.get(&policy.name);
            let former = former.filter(|_| member.boot == manifest.boot);
            let heard = fetch.policy(manifest.boot, policy, former).await?;
            new.insert(policy.name.clone(), heard);
        }
        member.is_new |= new != member.policies;
        member.boot = manifest.boot;
        member.software = manifest.software;
        member.said = Some((fetch.clock.age_s(now_s, written_s, 0.0), now_s));
        member.policies = new;
        Ok(())
    }
}

/// The reading of one writer's update.
struct Fetch<'a, S> {
    store: &'a S,
    clock: &'a EngineClock,
    writer: &'a Writer,
    rows_max: u32,
    now_s: f64,
    gets: u64,
    bytes: u64,
}

impl<'a, S: Store> Fetch<'a, S> {
    fn new(
        store: &'a S,
        clock: &'a EngineClock,
        writer: &'a Writer,
        rows_max: u32,
        now_s: f64,
    ) -> Self {
        Self {
            store,
            clock,
            writer,
            rows_max,
            now_s,
            gets: 0,
            bytes: 0,
        }
    }

    /// A policy's shards: those of the former update that have not changed, and the others from the engine.
    async fn policy(
        &mut self,
        boot: u64,
        policy: &Policy,
        former: Option<&Heard>,
    ) -> Result<Heard, No> {
        let count = policy.marks.len() as u16;
        let former = former.filter(|known| known.count == count);
        let mut heard = Heard {
            count,
            shards: Vec::new(),
        };
        let mut rows = 0;
        for (number, mark) in (0u16..).zip(&policy.marks) {
            if mark.bytes == 0 {
                continue;
            }
            let mut known = former.into_iter().flat_map(|heard| &heard.shards);
            let known = known.find(|known| {
                known.number == number && self.is_as_promised(known.sequence, mark.sequence)
            });
            let shard = match known {
                Some(known) => known.clone(),
                None => {
                    let key = Key::shard(self.writer, &policy.name, number);
                    self.shard(&key, boot, (number, count), mark).await?
                }
            };
            rows += shard.rows;
            if rows > self.rows_max {
                return Err(tcpilot_fleet::Refusal::Rows(rows).into());
            }
            heard.shards.push(shard);
        }
        Ok(heard)
    }

    /// Whether a shard is the one of a manifest. A host's manifest comes after its shards, so a shard may be newer, but not
    /// older. A merger's sequence is a check sum.
    fn is_as_promised(&self, sequence: u64, promised: u64) -> bool {
        match self.writer {
            Writer::Host(_) => sequence >= promised,
            Writer::Mergers(..) => sequence == promised,
        }
    }

    async fn shard(
        &mut self,
        key: &Key,
        boot: u64,
        (number, count): (u16, u16),
        mark: &Mark,
    ) -> Result<Shard, No> {
        let Some((bytes, written_s)) = self.get(key).await? else {
            let text = format!("{key} is missing");
            return Err(No::Refused("missing".to_owned(), text));
        };
        let state = format::decode(&bytes, self.rows_max)?;
        let (as_of_s, is_of_boot) = match self.writer {
            Writer::Host(_) => (written_s - f64::from(state.age_s), state.boot == boot),
            Writer::Mergers(..) => (merger::as_of_s(&state), true),
        };
        if !is_of_boot || !self.is_as_promised(state.sequence, mark.sequence) {
            return Err(No::Torn);
        }
        shard::check(&state, number, count)?;
        let age_s = match self.writer {
            Writer::Host(_) => self.clock.age_s(self.now_s, written_s, state.age_s.into()),
            Writer::Mergers(..) => self.clock.age_s(self.now_s, as_of_s, 0.0),
        };
        Ok(Shard {
            number,
            sequence: state.sequence,
            rows: state.rows().len() as u32,
            as_of_s,
            age_s,
            at_s: self.now_s,
            bytes,
        })
    }

    async fn get(&mut self, key: &Key) -> Result<Option<(Vec<u8>, f64)>, No> {
        let Some(entry) = self.store.get(key).await? else {
            return Ok(None);
        };
        self.gets += 1;
        self.bytes += entry.value.len() as u64;
        Ok(Some((entry.value, entry.written_s)))
    }
}

fn hash(name: &Name) -> u64 {
    mix(format::check_sum(name.as_str().as_bytes()))
}
