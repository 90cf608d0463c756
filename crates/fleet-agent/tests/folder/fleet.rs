//! The fixture: a folder that agents share.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tcpilot_fleet_agent::agent::Agent;
use tcpilot_fleet_agent::settings::Settings;
use tcpilot_fleet_agent::store::dir::DirStore;

use crate::support::{settings, state_dir};

pub const TIMEOUT: Duration = Duration::from_secs(5);

/// A fleet's folder, and the agents' folders.
pub struct Fleet {
    pub root: tempfile::TempDir,
}

impl Fleet {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("fleet")).unwrap();
        Self { root }
    }

    pub fn store(&self) -> DirStore {
        DirStore::new(&self.root.path().join("fleet"), TIMEOUT).unwrap()
    }

    /// Settings of a host, and where its states are.
    pub fn host(&self, host: &str) -> (PathBuf, Settings) {
        let folder = state_dir(self.root.path(), host);
        settings(&folder, &self.text(host))
    }

    pub fn text(&self, host: &str) -> String {
        let fleet = self.root.path().join("fleet");
        format!(
            "store = \"dir:{}\"\nplace = \"fra1\"\nhost = \"{host}\"\ninsecure = true\nsay_every_s = 0.1\nhear_every_s = 0.1\npublish_bytes_per_s = 1e9\n",
            fleet.display()
        )
    }

    pub fn agent(&self, host: &str) -> Agent<DirStore> {
        Agent::new(self.host(host).1, self.store()).unwrap()
    }

    pub fn folder(&self, host: &str) -> PathBuf {
        state_dir(self.root.path(), host)
    }
}
