//! The schedule of changes: one `tc -batch` per namespace, started before the measured time, so
//! that a change then costs a write to its pipe and no new process.

use super::plan::Change;
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Running `tc -batch`es, by namespace.
#[derive(Debug)]
pub struct Changers {
    running: BTreeMap<Option<String>, (Child, ChildStdin)>,
}

impl Changers {
    /// Starts the programs of `changes`, and has each read itself from disk by a harmless command.
    ///
    /// # Errors
    /// [`Error::Io`] when tc cannot be started.
    pub fn start(changes: &[Change]) -> Result<Self> {
        let mut running = BTreeMap::new();
        for change in changes {
            if running.contains_key(&change.netns) {
                continue;
            }
            let mut command = Command::new("tc");
            if let Some(netns) = &change.netns {
                command.args(["-netns", netns]);
            }
            let mut child = command
                .args(["-force", "-batch", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .map_err(Error::io("starting tc"))?;
            let Some(mut pipe) = child.stdin.take() else {
                return Err(Error::Usage("tc has no standard input".into()));
            };
            writeln!(pipe, "qdisc show").map_err(Error::io("writing to tc"))?;
            running.insert(change.netns.clone(), (child, pipe));
        }
        Ok(Self { running })
    }

    /// Makes one change.
    ///
    /// # Errors
    /// [`Error::Io`] when tc is gone.
    pub fn make(&mut self, change: &Change) -> Result<()> {
        let Some((_, pipe)) = self.running.get_mut(&change.netns) else {
            return Err(Error::Usage("a change in a namespace without tc".into()));
        };
        writeln!(pipe, "{}", change.tc).map_err(Error::io("writing to tc"))
    }

    /// Ends all of them.
    ///
    /// # Errors
    /// [`Error::Usage`] when one refused a change; it has said why on stderr.
    pub fn finish(self) -> Result<()> {
        for (netns, (mut child, pipe)) in self.running {
            drop(pipe);
            let status = child.wait().map_err(Error::io("waiting for tc"))?;
            if !status.success() {
                let place = netns.unwrap_or_default();
                return Err(Error::Usage(format!("tc refused a change in {place}")));
            }
        }
        Ok(())
    }
}
