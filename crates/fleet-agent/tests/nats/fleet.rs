//! The fixture: a server, its users, and the agents of a fleet.

use std::path::PathBuf;

use tcpilot_fleet_agent::agent::Agent;
use tcpilot_fleet_agent::key::Key;
use tcpilot_fleet_agent::settings::{Engine, Settings};
use tcpilot_fleet_agent::store::nats::NatsStore;

use crate::server::{Server, rights};
use crate::support::{
    Process, heard, host, know, knowledge, name, output, settings, state_dir, wait_until,
};

/// A fleet with a server that knows `a`, `b` and `reader`, and has its bucket.
pub struct Fleet {
    pub root: tempfile::TempDir,
    pub server: Server,
}

pub fn store(settings: &Settings) -> NatsStore {
    let Engine::Nats {
        servers,
        bucket,
        identity,
    } = &settings.engine
    else {
        panic!("no server in the settings");
    };
    let identity = identity.as_ref();
    NatsStore::new(servers, bucket, identity, &settings.host, settings.timeout)
}

impl Fleet {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let server = Server::start(root.path(), &["a", "b", "reader"]);
        Self { root, server }.with_bucket()
    }

    pub fn on_disk(size: &'static str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let users = [rights("a"), rights("reader")];
        let server = Server::start_with(root.path(), &users, Some(size));
        Self { root, server }.with_bucket()
    }

    pub fn with_bucket(self) -> Self {
        let (path, _) = self.host("admin");
        let (is_good, text) = output(&path, "init");
        assert!(is_good, "{text}");
        self
    }

    pub fn folder(&self, host: &str) -> PathBuf {
        state_dir(self.root.path(), host)
    }

    pub fn host(&self, host: &str) -> (PathBuf, Settings) {
        settings(&self.folder(host), &self.server.settings(host))
    }

    pub fn store(&self, host: &str) -> NatsStore {
        store(&self.host(host).1)
    }

    pub fn agent(&self, host: &str) -> Agent<NatsStore> {
        Agent::new(self.host(host).1, self.store(host)).unwrap()
    }
}

pub fn key(of: &str, number: u16) -> Key {
    Key::shard(&host(of), &name("bulk"), number)
}

/// Agents `a` and `reader` as processes; `a` knows ten groups, and `reader` has heard them.
pub fn two_processes(fleet: &Fleet) -> (Process, Process) {
    know(&fleet.folder("a"), &knowledge((0..10).map(|i| i << 8), 0.3));
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    let both = (
        Process::start(&fleet.host("a").0),
        Process::start(&fleet.host("reader").0),
    );
    wait_until("the reader hears", || {
        heard(&fleet.folder("reader")).len() == 10
    });
    both
}

pub fn hears(fleet: &Fleet, mean: f64) {
    know(
        &fleet.folder("a"),
        &knowledge((0..10).map(|i| i << 8), mean),
    );
    wait_until("the reader hears the new state", || {
        let means = heard(&fleet.folder("reader"));
        means.len() == 10 && means.values().all(|found| (found - mean).abs() < 0.02)
    });
}
