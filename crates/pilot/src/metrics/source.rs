//! The daemon as a source of metrics: a thread of the server asks through the control socket as commands do, so a
//! slow scraper delays nobody. It keeps answers for a moment, so many scrapers cost the daemon no more than one.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tcpilot_show::metrics::Source;

use super::exposition::text;
use crate::{
    figures::{EffectReport, Status},
    protocol::{AskError, Request, ask},
};

/// How long an answer of the daemon serves all scrapers: a report longer, because it walks all groups.
const STATUS_AGE: Duration = Duration::from_secs(1);
const EFFECT_AGE: Duration = Duration::from_secs(15);

/// The daemon's last answers.
pub(crate) struct Daemon {
    socket: PathBuf,
    status: Mutex<Option<(Instant, Status)>>,
    effect: Mutex<Option<(Instant, EffectReport)>>,
}

/// The daemon at `socket`.
pub fn source(socket: &Path) -> Arc<dyn Source> {
    Arc::new(Daemon::at(socket))
}

impl Daemon {
    /// The daemon at `socket`.
    pub(crate) fn at(socket: &Path) -> Daemon {
        Daemon {
            socket: socket.to_path_buf(),
            status: Mutex::default(),
            effect: Mutex::default(),
        }
    }

    /// Its control socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its status, at most a second old.
    pub(crate) fn status(&self) -> Result<Status, String> {
        let asked = recent(&self.status, STATUS_AGE, || {
            ask(&self.socket, &Request::Status)
        });
        asked.map_err(|error| error.to_string())
    }

    /// Its report, at most 15 seconds old.
    pub(crate) fn effect(&self) -> Result<EffectReport, String> {
        let asked = recent(&self.effect, EFFECT_AGE, || {
            ask(&self.socket, &Request::Report)
        });
        asked.map_err(|error| error.to_string())
    }
}

impl Source for Daemon {
    fn metrics(&self) -> Result<String, String> {
        let status = self.status()?;
        let effect = match status.learning {
            Some(_) => Some(self.effect()?),
            None => None,
        };
        text(status, effect).map_err(|error| error.to_string())
    }

    fn alive(&self) -> Result<&'static str, String> {
        self.status().map(|_| "alive")
    }

    fn ready(&self) -> Result<&'static str, String> {
        let status = self.status()?;
        if !status.attached {
            return Err("not attached: its cgroup is gone".to_owned());
        }
        if !status.choice_dists_valid {
            return Err(
                "the learner gives no heartbeat: new connections get the kernel's default"
                    .to_owned(),
            );
        }
        Ok("attached")
    }
}

/// The last answer if it is recent, else the answer to `ask`; later callers wait for it too.
fn recent<T: Clone>(
    kept: &Mutex<Option<(Instant, T)>>,
    age: Duration,
    ask: impl FnOnce() -> Result<T, AskError>,
) -> Result<T, AskError> {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, value)) = kept.as_ref().filter(|(at, _)| at.elapsed() < age) {
        return Ok(value.clone());
    }
    let value = ask()?;
    *kept = Some((Instant::now(), value.clone()));
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_its_daemon_it_is_not_well() {
        let nowhere = Daemon::at(Path::new("/nowhere/sock"));
        for answer in [
            nowhere.metrics(),
            nowhere.alive().map(str::to_owned),
            nowhere.ready().map(str::to_owned),
        ] {
            let why = answer.unwrap_err();
            assert!(why.contains("no tcpilot answers at /nowhere/sock"), "{why}");
        }
    }
}
