//! `tcpilot-fleet check`: proves this host's rights, and compares clocks.

use std::fmt;

use tcpilot_fleet::Name;

use crate::clock::unix_s;
use crate::key::{Host, Key, Writer};
use crate::merger;
use crate::settings::{Engine, Settings};
use crate::store::dir::DirStore;
use crate::store::nats::NatsStore;
use crate::store::{Entry, Store, StoreError};

/// The name that stands for another host. No host of a fleet has it, so an engine that accepts it has lost nothing.
const OTHER: &str = "tcpilot-fleet-check";

/// The hosts' clocks should not differ by more, in seconds.
const SKEW_MAX_S: f64 = 30.0;

/// How a part of the check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Good,
    /// It works, but somebody should know.
    Warning,
    /// It does not work, or is not safe.
    Bad,
}

/// A line of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How it ended.
    pub verdict: Verdict,
    /// What was found.
    pub text: String,
    /// What to do about it; empty if nothing.
    pub remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.verdict {
            Verdict::Good => "ok   ",
            Verdict::Warning => "warn ",
            Verdict::Bad => "FAIL ",
        };
        write!(f, "{word} {}", self.text)?;
        match self.remedy.as_str() {
            "" => Ok(()),
            remedy => write!(f, "; {remedy}"),
        }
    }
}

/// What was found so far.
struct Findings {
    all: Vec<Finding>,
    is_insecure: bool,
}

impl Findings {
    fn add(&mut self, verdict: Verdict, text: impl Into<String>, remedy: impl Into<String>) {
        self.all.push(Finding {
            verdict,
            text: text.into(),
            remedy: remedy.into(),
        });
    }

    fn failed(&mut self, what: &str, error: &StoreError) {
        self.add(Verdict::Bad, format!("{what}: {error}"), error.remedy());
    }

    /// A lack of rights, which the settings may allow.
    fn unsafe_engine(&mut self, text: &str, remedy: &str) {
        if self.is_insecure {
            self.add(Verdict::Warning, text, "allowed by insecure = true");
        } else {
            self.add(Verdict::Bad, text, remedy);
        }
    }
}

/// Checks the engine of these settings with its own values. It reads and writes no other host's.
pub async fn check(settings: &Settings) -> Vec<Finding> {
    let mut findings = Findings {
        all: Vec::new(),
        is_insecure: settings.is_insecure,
    };
    match &settings.engine {
        Engine::Folder(folder) => match DirStore::new(folder, settings.timeout) {
            Ok(store) => {
                check_store(settings, &store, &mut findings).await;
                let text =
                    "a folder gives no rights by host: all who write in it can speak for each host";
                findings.unsafe_engine(text, "use nats, or set insecure = true if you trust them");
            }
            Err(error) => findings.failed("the folder", &error),
        },
        Engine::Nats {
            servers,
            bucket,
            identity,
        } => {
            let identity = identity.as_ref();
            let (host, timeout) = (&settings.host, settings.timeout);
            let store = NatsStore::new(servers, bucket, identity, host, timeout);
            check_bucket(settings, &store, &mut findings).await;
        }
    }
    findings.all
}

async fn check_bucket(settings: &Settings, store: &NatsStore, findings: &mut Findings) {
    match store.bucket().await {
        Ok(bucket) => {
            let text = format!("connected to {} as {}", settings.engine, settings.host.name);
            findings.add(Verdict::Good, text, "");
            for fault in bucket.faults() {
                let text = format!("the bucket: {fault}");
                findings.add(Verdict::Bad, text, "run `tcpilot-fleet init` again");
            }
        }
        Err(error) => {
            let host = &settings.host;
            let what = format!("connecting as {} of {}", host.name, host.place);
            return findings.failed(&what, &error);
        }
    }
    if check_store(settings, store, findings).await {
        check_foreign_key(settings, store, findings).await;
    }
}

/// Own values and the clock. False if the rest is without sense.
async fn check_store(settings: &Settings, store: &impl Store, findings: &mut Findings) -> bool {
    let key = Key::Check(settings.host.clone());
    let before_s = unix_s();
    if let Err(error) = store.put(&key, &before_s.to_le_bytes()).await {
        findings.failed(&format!("writing {key}"), &error);
        return false;
    }
    let after_s = unix_s();
    match store.get(&key).await {
        Ok(Some(entry)) if entry.value == before_s.to_le_bytes() => {
            findings.add(Verdict::Good, format!("wrote and read {key}"), "");
            check_clock(&entry, before_s, after_s, findings);
        }
        Ok(_) => {
            let text = format!("read another value of {key} than it wrote");
            findings.add(Verdict::Bad, text, "give each host a name of its own");
        }
        Err(error) => findings.failed(&format!("reading {key}"), &error),
    }
    match store.hosts(&settings.host.place).await {
        Ok(hosts) => {
            let others = hosts.iter().filter(|host| **host != settings.host).count();
            let text = format!("{others} other hosts of {}", settings.host.place);
            findings.add(Verdict::Good, text, "");
            if others > settings.hosts_max {
                check_mergers(settings, store, findings).await;
            }
        }
        Err(error) => findings.failed("listing hosts", &error),
    }
    true
}

/// Beyond `hosts_max` hosts are heard through mergers.
async fn check_mergers(settings: &Settings, store: &impl Store, findings: &mut Findings) {
    let Host { place, name } = &settings.host;
    let mergers = Writer::Mergers(place.clone(), merger::set_of(name.as_str()));
    match store.get(&Key::manifest(&mergers)).await {
        Ok(Some(_)) => findings.add(Verdict::Good, "they are heard through mergers", ""),
        Ok(None) => {
            let text = format!("only {} of them are heard", settings.hosts_max);
            let remedy = "start a merger, as docs/use/fleet.md shows";
            findings.add(Verdict::Warning, text, remedy);
        }
        Err(error) => findings.failed("reading what mergers say", &error),
    }
}

fn check_clock(entry: &Entry, before_s: f64, after_s: f64, findings: &mut Findings) {
    let skew_s = f64::midpoint(before_s, after_s) - entry.written_s;
    let skew_s = skew_s.abs();
    let text = format!("this host's clock differs from the engine's by {skew_s:.1} s");
    if skew_s <= SKEW_MAX_S {
        findings.add(Verdict::Good, text, "");
    } else {
        findings.add(
            Verdict::Warning,
            text,
            "set the wrong one of the two, by NTP",
        );
    }
}

/// Another host's key must be refused.
async fn check_foreign_key(settings: &Settings, store: &NatsStore, findings: &mut Findings) {
    let Ok(name) = Name::new(OTHER) else { return };
    let key = Key::Check(Host {
        place: settings.host.place.clone(),
        name,
    });
    match store.put(&key, b"check").await {
        Err(StoreError::Denied(_)) => {
            findings.add(
                Verdict::Good,
                format!("was refused {key}, another host's"),
                "",
            );
        }
        Ok(()) => findings.unsafe_engine(
            &format!("may write {key}, another host's"),
            "let this host's user publish only below its own keys, as docs/use/fleet.md shows",
        ),
        Err(error) => findings.failed(&format!("writing {key}, which should be refused"), &error),
    }
}
