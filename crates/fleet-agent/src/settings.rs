//! The settings, a TOML file.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use tcpilot_fleet::Name;
use tcpilot_fleet::format::ROWS_MAX;

use crate::key::Host;

/// The settings as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    store: String,
    place: String,
    #[serde(default)]
    host: String,
    #[serde(default = "bucket")]
    bucket: String,
    ca_file: Option<PathBuf>,
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    #[serde(default)]
    insecure: bool,
    #[serde(default = "state_dir")]
    state_dir: PathBuf,
    #[serde(default = "hosts_max")]
    hosts_max: usize,
    #[serde(default = "rows_max")]
    prefixes_max: u32,
    #[serde(default = "say_every_s")]
    say_every_s: f64,
    #[serde(default = "hear_every_s")]
    hear_every_s: f64,
    #[serde(default = "timeout_s")]
    timeout_s: f64,
    #[serde(default = "publish_bytes_per_s")]
    publish_bytes_per_s: f64,
}

fn bucket() -> String {
    "tcpilot".to_owned()
}

fn state_dir() -> PathBuf {
    "/var/lib/tcpilot-fleet".into()
}

fn hosts_max() -> usize {
    16
}

fn rows_max() -> u32 {
    ROWS_MAX
}

fn say_every_s() -> f64 {
    60.0
}

fn hear_every_s() -> f64 {
    600.0
}

fn timeout_s() -> f64 {
    5.0
}

fn publish_bytes_per_s() -> f64 {
    64_000.0
}

/// The files that prove who a host is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Certificates of the authority that signed the server's.
    pub ca_file: PathBuf,
    /// This host's certificate.
    pub cert_file: PathBuf,
    /// Its key.
    pub key_file: PathBuf,
}

/// Where the fleet's values are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    /// A folder.
    Folder(PathBuf),
    /// Servers of NATS, and a bucket of theirs; without an identity only if the settings allow it.
    Nats {
        /// Addresses, each `nats://NAME:PORT`.
        servers: Vec<String>,
        /// The bucket.
        bucket: String,
        /// Who this host is.
        identity: Option<Identity>,
    },
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "dir:{}", folder.display()),
            Self::Nats {
                servers, bucket, ..
            } => write!(f, "{}, bucket {bucket}", servers.join(",")),
        }
    }
}

/// The settings, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where the fleet's values are.
    pub engine: Engine,
    /// This host.
    pub host: Host,
    /// Whether an engine is accepted that gives each host the rights of all.
    pub is_insecure: bool,
    /// The folder for everything of this process.
    pub state_dir: PathBuf,
    /// So many other hosts are heard themselves; in a larger place mergers are.
    pub hosts_max: usize,
    /// So many groups of a host are heard under one policy.
    pub rows_max: u32,
    /// Seconds between two times of saying.
    pub say_every_s: f64,
    /// Seconds between two times of hearing.
    pub hear_every_s: f64,
    /// The engine must answer within it.
    pub timeout: Duration,
    /// Bytes said per second, as a mean over the time between two times of saying.
    pub publish_bytes_per_s: f64,
}

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or a setting is not valid; the message says which.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| {
            format!(
                "cannot read {}; write it as `tcpilot-fleet --help` shows, or name another with --config",
                path.display()
            )
        })?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// Reads text.
    ///
    /// # Errors
    /// A setting is not valid; the message says which.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let written: Written = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.unwrap_or_default().lines().count().max(1);
            anyhow::anyhow!("line {line}: {}", error.message())
        })?;
        let engine = engine(&written)?;
        let host = match written.host.as_str() {
            "" => own_name(),
            name => name.to_owned(),
        };
        let name = |key: &str, name: &str| {
            Name::new(name).with_context(|| {
                format!("{key} = \"{name}\": use 1 to 64 lower-case letters, digits and hyphens")
            })
        };
        let range = |key: &str, value: f64, least: f64, most: f64| {
            ensure!(
                (least..=most).contains(&value),
                "{key} = {value}: use {least} to {most}"
            );
            Ok(value)
        };
        ensure!(
            (1..=16).contains(&written.hosts_max),
            "hosts_max = {}: use 1 to 16; of more hosts of a place mergers tell",
            written.hosts_max
        );
        ensure!(
            (1..=ROWS_MAX).contains(&written.prefixes_max),
            "prefixes_max = {}: use 1 to {ROWS_MAX}",
            written.prefixes_max
        );
        Ok(Self {
            engine,
            host: Host {
                place: name("place", &written.place)?,
                name: name("host", &host)?,
            },
            is_insecure: written.insecure,
            state_dir: written.state_dir,
            hosts_max: written.hosts_max,
            rows_max: written.prefixes_max,
            say_every_s: range("say_every_s", written.say_every_s, 0.1, 3600.0)?,
            hear_every_s: range("hear_every_s", written.hear_every_s, 0.1, 7200.0)?,
            timeout: Duration::from_secs_f64(range("timeout_s", written.timeout_s, 0.1, 60.0)?),
            publish_bytes_per_s: range(
                "publish_bytes_per_s",
                written.publish_bytes_per_s,
                1000.0,
                1e9,
            )?,
        })
    }
}

fn engine(written: &Written) -> anyhow::Result<Engine> {
    if let Some(folder) = written.store.strip_prefix("dir:") {
        ensure!(
            folder.starts_with('/'),
            "store = \"{}\": write the whole path, such as dir:/srv/tcpilot-fleet",
            written.store
        );
        return Ok(Engine::Folder(folder.into()));
    }
    let servers: Vec<String> = written
        .store
        .split(',')
        .map(|s| s.trim().to_owned())
        .collect();
    for server in &servers {
        ensure!(
            server.starts_with("nats://") || server.starts_with("tls://"),
            "store = \"{}\": use nats://NAME:PORT or dir:/PATH",
            written.store
        );
    }
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    ensure!(
        !written.bucket.is_empty() && written.bucket.bytes().all(is_plain),
        "bucket = \"{}\": use letters, digits, hyphens and underscores",
        written.bucket
    );
    Ok(Engine::Nats {
        servers,
        bucket: written.bucket.clone(),
        identity: identity(written)?,
    })
}

fn identity(written: &Written) -> anyhow::Result<Option<Identity>> {
    match (&written.ca_file, &written.cert_file, &written.key_file) {
        (Some(ca_file), Some(cert_file), Some(key_file)) => Ok(Some(Identity {
            ca_file: ca_file.clone(),
            cert_file: cert_file.clone(),
            key_file: key_file.clone(),
        })),
        (None, None, None) if written.insecure => Ok(None),
        (None, None, None) => bail!(
            "without a certificate the server cannot tell hosts apart; set ca_file, cert_file and key_file, or insecure = true to trust everybody who can reach it"
        ),
        _ => bail!("ca_file, cert_file and key_file belong together; set all three"),
    }
}

/// The host's name as a [`Name`]: dots become hyphens.
fn own_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().to_lowercase();
    name.replace('.', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_needs_two_lines() {
        let settings = Settings::parse("store = \"dir:/srv/x\"\nplace = \"fra1\"").unwrap();
        assert_eq!(settings.engine, Engine::Folder("/srv/x".into()));
        assert_eq!((settings.hosts_max, settings.say_every_s), (16, 60.0));
    }

    #[test]
    fn mistakes_are_named_with_a_remedy() {
        let tls = "ca_file = \"/a\"\ncert_file = \"/b\"\nkey_file = \"/c\"\n";
        let all = format!("store = \"nats://n:4222\"\nplace = \"fra1\"\nhost = \"web-07\"\n{tls}");
        Settings::parse(&all).unwrap();
        let wrong = |from: &str, to: &str, word: &str| {
            let text = format!("{:#}", Settings::parse(&all.replace(from, to)).unwrap_err());
            assert!(text.contains(word), "{text}");
        };
        wrong("fra1", "Fra 1", "lower-case");
        wrong("web-07", "web.example", "lower-case");
        wrong("nats://n:4222", "n:4222", "nats://NAME:PORT");
        wrong("nats://n:4222", "dir:srv", "whole path");
        wrong("key_file = \"/c\"\n", "", "belong together");
        wrong(tls, "", "insecure = true");
        wrong("place", "where", "unknown field");
        wrong(tls, "hosts_max = 17\ninsecure = true\n", "use 1 to 16");
        wrong(tls, "timeout_s = 0\ninsecure = true\n", "use 0.1 to 60");
    }
}
