//! The agent: says, hears, merges, and writes what people see.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tcpilot_fleet::Name;
use tcpilot_random::Random;

use crate::clock::{EngineClock, boot_s};
use crate::hear::{Hearer, Member, Wanted};
use crate::key::Host;
use crate::memory::Memory;
use crate::merging::{self, Input};
use crate::own::OwnStates;
use crate::say::{Own, Sayer};
use crate::settings::Settings;
use crate::status::{EngineLog, MemberStatus, MergedStatus, OwnStatus, Status, WRITTEN_EVERY_S};
use crate::store::{Store, StoreError};

/// After a failure the agent waits this long, in seconds, then twice as long each time.
pub(crate) const PAUSE_S: f64 = 1.0;

/// The longest pause, in seconds.
pub(crate) const PAUSE_MAX_S: f64 = 600.0;

/// The part by which times are drawn around their mean, so that a fleet's hosts do not meet.
const JITTER: f64 = 0.1;

/// Draws times around their mean.
pub(crate) struct Jitter(Random);

impl Jitter {
    pub(crate) fn new() -> Self {
        Self(Random(random().unwrap_or(1)))
    }

    pub(crate) fn around(&mut self, mean_s: f64) -> f64 {
        mean_s * (1.0 + JITTER * (2.0 * self.0.uniform() - 1.0))
    }
}

/// The files of an agent.
#[derive(Clone, Debug)]
pub struct Files {
    folder: PathBuf,
}

impl Files {
    /// Those below a folder.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let folder = folder.to_owned();
        Self { folder }
    }

    /// Own states, `POLICY.state`.
    #[must_use]
    pub fn own(&self) -> PathBuf {
        self.folder.join("own")
    }

    /// What the fleet says, `POLICY.state`.
    #[must_use]
    pub fn heard(&self) -> PathBuf {
        self.folder.join("heard")
    }

    /// What each host said.
    #[must_use]
    pub fn hosts(&self) -> PathBuf {
        self.folder.join("hosts")
    }

    /// What people see.
    #[must_use]
    pub fn status(&self) -> PathBuf {
        self.folder.join("status.json")
    }

    /// Makes the folder of own states. The daemon writes there as a member of this user's group.
    fn make_own(&self) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        match fs::create_dir(self.own()) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
            // Whatever the umask is.
            Ok(()) => fs::set_permissions(self.own(), Permissions::from_mode(0o770)),
        }
    }

    /// Makes the folders, and takes the lock that only one agent can have. Removes files that a killed agent left
    /// half-written.
    ///
    /// # Errors
    /// Another agent has them, or they cannot be used.
    pub fn take(&self) -> anyhow::Result<tcpilot_file::Held> {
        self.make_own()
            .with_context(|| format!("cannot make {}", self.own().display()))?;
        for folder in [self.heard(), self.hosts()] {
            let made = DirBuilder::new()
                .recursive(true)
                .mode(0o750)
                .create(&folder);
            made.with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let path = self.folder.join("lock");
        let lock = tcpilot_file::try_take(&path).with_context(|| path.display().to_string())?;
        let Some(lock) = lock else {
            bail!(
                "another tcpilot-fleet has {}: stop it, or set another state_dir",
                self.folder.display()
            );
        };
        for folder in [self.folder.clone(), self.heard(), self.hosts()] {
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                let is_half = entry
                    .file_name()
                    .as_encoded_bytes()
                    .starts_with(b".tcpilot-");
                if is_half && entry.file_type()?.is_file() {
                    fs::remove_file(entry.path())?;
                }
            }
        }
        Ok(lock)
    }
}

/// An agent with its engine.
pub struct Agent<S> {
    store: S,
    settings: Settings,
    files: Files,
    memory: Memory,
    own: OwnStates,
    sayer: Sayer,
    hearer: Hearer,
    /// Policies of the last hearing.
    heard_policies: Vec<Name>,
    clock: EngineClock,
    trust: BTreeMap<Host, Option<f64>>,
    merged: Vec<MergedStatus>,
    engine: EngineLog,
    file_error: Option<String>,
    started_s: f64,
    _lock: tcpilot_file::Held,
}

impl<S: Store> Agent<S> {
    /// Takes the files of `settings.state_dir`, and remembers what was heard before.
    ///
    /// # Errors
    /// Another agent has them, or they cannot be used.
    pub fn new(settings: Settings, store: S) -> anyhow::Result<Self> {
        let files = Files::new(&settings.state_dir);
        let lock = files.take()?;
        let memory = Memory::new(files.hosts());
        let members = memory.load().context("cannot read what was heard before")?;
        let merged = memory.load_merged(&settings.host.place);
        let boot = random()?;
        Ok(Self {
            own: OwnStates::new(files.own()),
            sayer: Sayer::new(&settings, boot),
            hearer: Hearer::new(&settings, members, merged),
            heard_policies: Vec::new(),
            clock: EngineClock::default(),
            trust: BTreeMap::new(),
            merged: Vec::new(),
            engine: EngineLog::new(&settings.engine),
            file_error: None,
            started_s: boot_s(),
            store,
            settings,
            files,
            memory,
            _lock: lock,
        })
    }

    /// Works until the process ends. Ending it at any moment does no harm, so no signal is handled.
    pub async fn run(mut self) {
        let mut jitter = Jitter::new();
        let (mut say_s, mut hear_s) = (0.0, 0.0);
        let mut pause_s = PAUSE_S;
        self.merge(boot_s());
        // The engine may not answer for seconds.
        self.write_status(boot_s());
        loop {
            let now_s = boot_s();
            let mut done = Ok(());
            if now_s >= say_s {
                done = self.say(now_s).await;
                say_s = boot_s() + jitter.around(self.settings.say_every_s);
                if self.has_new_policies() {
                    hear_s = now_s;
                }
            }
            if done.is_ok() && now_s >= hear_s {
                done = self.hear(now_s).await;
                hear_s = boot_s() + jitter.around(self.settings.hear_every_s);
            }
            self.engine.note(&done);
            if done.is_ok() {
                pause_s = PAUSE_S;
            } else {
                // Both are due then: nobody knows which of them was done in part.
                say_s = boot_s() + jitter.around(pause_s);
                hear_s = say_s;
                pause_s = (2.0 * pause_s).min(PAUSE_MAX_S);
            }
            self.write_status(boot_s());
            let next_s = say_s.min(hear_s) - boot_s();
            let next_s = next_s.clamp(0.01, WRITTEN_EVERY_S);
            tokio::time::sleep(Duration::from_secs_f64(next_s)).await;
        }
    }

    /// This host's own knowledge as it is now.
    fn own_states(&mut self, now_s: f64) -> BTreeMap<Name, Own> {
        let read = self.own.read(now_s);
        self.note_file("own states", &read);
        self.own.states(now_s)
    }

    /// Says what has changed.
    ///
    /// # Errors
    /// The engine's.
    pub async fn say(&mut self, now_s: f64) -> Result<(), StoreError> {
        let own = self.own_states(now_s);
        self.sayer
            .say(&self.store, &mut self.clock, &own, now_s)
            .await
    }

    /// Whether there are own states of policies that were not heard yet: the daemon was started after this agent.
    fn has_new_policies(&self) -> bool {
        let is_new = |policy: &Name| !self.heard_policies.contains(policy);
        self.own.policies().any(is_new)
    }

    /// Hears the others, and merges.
    ///
    /// # Errors
    /// The engine's. What was heard before it failed is merged.
    pub async fn hear(&mut self, now_s: f64) -> Result<(), StoreError> {
        let policies: Vec<Name> = self.own_states(now_s).into_keys().collect();
        self.heard_policies.clone_from(&policies);
        let heard = self
            .hearer
            .hear(&self.store, &self.clock, Wanted::These(&policies), now_s)
            .await;
        self.save();
        self.merge(now_s);
        heard
    }

    /// Saves new updates of hosts, and forgets the files of those that are gone.
    fn save(&mut self) {
        let mut saved = Ok(());
        for (host, member) in &mut self.hearer.members {
            if member.is_new {
                let done = self.memory.save(host, member);
                member.is_new = done.is_err();
                saved = saved.and(done);
            }
        }
        let merged = self.hearer.merged.as_ref();
        let place = &self.settings.host.place;
        let saved = saved.and(self.memory.save_merged(place, merged));
        if let Some(merged) = self.hearer.merged.as_mut().filter(|_| saved.is_ok()) {
            merged.is_new = false;
        }
        let saved = saved.and(self.memory.keep_only(&self.hearer.members));
        self.note_file("hosts", &saved);
    }

    /// Merges what was heard, and writes it for the daemon.
    fn merge(&mut self, now_s: f64) {
        self.trust.clear();
        self.merged.clear();
        for (policy, own) in self.own_states(now_s) {
            let written = self.merge_policy(&policy, &own, now_s);
            self.note_file("heard states", &written);
        }
    }

    fn merge_policy(&mut self, policy: &Name, own: &Own, now_s: f64) -> std::io::Result<()> {
        let merged = merging::merged(&Input {
            reader: &self.settings.host,
            own,
            policy,
            members: &self.hearer.members,
            merged: self.hearer.merged.as_ref(),
            now_s,
        });
        // Own states have at least two algorithms.
        let Ok(merged) = merged else { return Ok(()) };
        for (host, refusal) in &merged.refused {
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
        let hosts = merged.trust.values().flatten().count() as u64;
        self.trust.extend(merged.trust);
        self.merged.push(MergedStatus {
            policy: policy.to_string(),
            rows: merged.rows,
            hosts,
            by_mergers: self.hearer.merged.is_some(),
        });
        let path = self.files.heard().join(format!("{policy}.state"));
        tcpilot_file::replace(&path, tcpilot_file::GROUP, &merged.bytes)
    }

    fn note_file(&mut self, what: &str, done: &std::io::Result<()>) {
        let prefix = format!("{what}: ");
        match done {
            Ok(()) => self.file_error = self.file_error.take().filter(|e| !e.starts_with(&prefix)),
            Err(error) => {
                let text = format!("{prefix}{error}");
                if self.file_error.as_ref() != Some(&text) {
                    tracing::warn!("{text}");
                }
                self.file_error = Some(text);
            }
        }
    }

    fn write_status(&mut self, now_s: f64) {
        let written = write_status(&self.files, &self.status(now_s));
        self.note_file("status", &written);
    }

    /// What people see.
    #[must_use]
    pub fn status(&self, now_s: f64) -> Status {
        let own = |(policy, own): (Name, Own)| OwnStatus {
            policy: policy.to_string(),
            rows: own.state.rows().len() as u64,
            age_s: own.age_s,
        };
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: self.settings.host.name.to_string(),
            place: self.settings.host.place.to_string(),
            pid: std::process::id(),
            at_s: now_s,
            uptime_s: now_s - self.started_s,
            merger: false,
            engine: self.engine.status(now_s, self.clock.jumps),
            own: self.own.states(now_s).into_iter().map(own).collect(),
            own_refused: self.own.refused.clone().into_iter().collect(),
            said_rows: self.sayer.rows(),
            said_ago_s: self.sayer.said_ago_s(now_s),
            said: self.sayer.counts.clone(),
            heard: self.hearer.counts.clone(),
            members: members(&self.hearer, &self.trust, now_s),
            merged: self.merged.clone(),
            file_error: self.file_error.clone(),
        }
    }
}

/// The hosts that were heard, for people.
pub(crate) fn members(
    hearer: &Hearer,
    trust: &BTreeMap<Host, Option<f64>>,
    now_s: f64,
) -> Vec<MemberStatus> {
    let status = |(host, member): (&Host, &Member)| MemberStatus {
        host: host.name.to_string(),
        place: host.place.to_string(),
        version: member.software.clone(),
        said_ago_s: member.said.map(|(age_s, at_s)| age_s + now_s - at_s),
        rows: member.rows(),
        merged: trust.contains_key(host),
        trust: trust.get(host).copied().flatten(),
        refused: member.refused.as_ref().map(|(_, text)| text.clone()),
    };
    hearer.members.iter().map(status).collect()
}

/// Writes what people see.
pub(crate) fn write_status(files: &Files, status: &Status) -> std::io::Result<()> {
    let bytes = serde_json::to_vec_pretty(status)?;
    tcpilot_file::replace(&files.status(), tcpilot_file::GROUP, &bytes)
}

/// A random number of the kernel's.
pub(crate) fn random() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    let mut file = fs::File::open("/dev/urandom").context("cannot open /dev/urandom")?;
    file.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
