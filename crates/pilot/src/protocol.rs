//! The protocol of the control socket: the question is one line of JSON, and so is the answer.

use crate::state::StoredPath;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tcpilot_core::Prefix;

use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

/// A question to the daemon.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// [`crate::figures::Status`]
    Status,
    /// A list of [`crate::figures::PathView`]
    Paths,
    /// [`crate::figures::Busiest`]: at most so many addresses
    Busiest(usize),
    /// A list of [`crate::figures::FlowView`]
    Flows,
    /// [`crate::figures::Explanation`]
    Explain(Prefix),
    /// [`crate::figures::EffectReport`]
    Report,
    /// [`crate::figures::FleetReport`]
    FleetReport,
    /// Compare without pause for this many seconds; 0 ends the trial
    Trial(u64),
    /// The state as a document for export
    StateExport,
    /// Paths to add, at most [`IMPORT_PATHS`]; the answer is their number
    StateImport(Vec<StoredPath>),
    /// Forget everything; the answer is the number of paths
    StateReset,
    /// Become this program, if it can go on in the daemon's place; the answer is
    /// [`crate::figures::Upgrades`] from before, and the counts in a later status show the outcome
    #[serde(rename = "take-over")]
    Upgrade(PathBuf),
}

impl Request {
    /// Whether it changes something; only root may ask for changes.
    pub fn changes(&self) -> bool {
        match self {
            Request::Status
            | Request::Paths
            | Request::Busiest(_)
            | Request::Flows
            | Request::Explain(_)
            | Request::Report
            | Request::FleetReport
            | Request::StateExport => false,
            Request::Trial(_)
            | Request::StateImport(_)
            | Request::StateReset
            | Request::Upgrade(_) => true,
        }
    }
}

/// The daemon's answer: `{"ok": …}`, `{"error": "…"}` or `{"not-permitted": "…"}`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The value asked for.
    Ok(serde_json::Value),
    /// One line: the error, its place, the remedy.
    Error(String),
    /// One line: only root may ask this.
    NotPermitted(String),
}

/// Longest question, in bytes. The longest is an import. The command sends it in parts, see [`IMPORT_PATHS`].
pub const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Paths in one question of an import. With the longest names allowed, each is less than 4 KiB.
pub const IMPORT_PATHS: usize = 1000;
/// Time to wait for an answer: longer than needed by a daemon busy with other clients.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a question was not answered.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens at the socket.
    #[error("no tcpilot answers at {0}")]
    NotRunning(String),
    /// Only root may ask.
    #[error("no permission to use {0}")]
    NotPermitted(String),
    /// This client may read, but not change anything.
    #[error("{0}")]
    ReadOnly(String),
    /// The daemon answered with an error.
    #[error("{0}")]
    Refused(String),
    /// The daemon took the question, and did not answer in time.
    #[error("{0} has not answered within {seconds} s", seconds = CLIENT_TIMEOUT.as_secs())]
    NoAnswer(String),
    /// The daemon closed the connection without a whole answer.
    #[error("{0} was closed before the answer was complete")]
    CutOff(String),
    /// The connection broke, or the answer was not understood.
    #[error("the daemon's answer was not understood: {0}")]
    Broken(#[from] io::Error),
}

/// Asks the daemon at `socket`.
///
/// # Errors
/// See [`AskError`].
pub fn ask<T: DeserializeOwned>(socket: &Path, request: &Request) -> Result<T, AskError> {
    let name = socket.display().to_string();
    let mut stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => AskError::NotPermitted(name.clone()),
        _ => AskError::NotRunning(name.clone()),
    })?;
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut line = serde_json::to_vec(request).map_err(io::Error::from)?;
    line.push(b'\n');
    let no_answer = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => AskError::NoAnswer(name.clone()),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            AskError::CutOff(name.clone())
        }
        _ => AskError::Broken(error),
    };
    stream.write_all(&line).map_err(no_answer)?;
    let mut answer = String::new();
    BufReader::new(stream)
        .read_line(&mut answer)
        .map_err(no_answer)?;
    // Each answer ends with a line feed.
    if !answer.ends_with('\n') {
        return Err(AskError::CutOff(name));
    }
    match serde_json::from_str(&answer).map_err(io::Error::from)? {
        Reply::Ok(value) => Ok(serde_json::from_value(value).map_err(io::Error::from)?),
        Reply::Error(message) => Err(AskError::Refused(message)),
        Reply::NotPermitted(message) => Err(AskError::ReadOnly(message)),
    }
}

/// Lets `answer` write a [`Reply`] to the question on this line. A malformed or unknown question is answered
/// with an error.
///
/// # Errors
/// The answer cannot be written.
pub fn serve(
    line: &[u8],
    out: &mut dyn Write,
    answer: impl FnOnce(Request, &mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    match serde_json::from_slice(line) {
        Ok(request) => answer(request, out)?,
        Err(error) => Reply::Error(format!("question not understood: {error}")).write(out)?,
    }
    out.write_all(b"\n")
}

impl Reply {
    /// Writes the reply as JSON.
    ///
    /// # Errors
    /// The peer went away.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(out, self).map_err(io::Error::from)
    }

    /// Writes `{"ok":[…]}` item by item, so a long list is never in memory as a whole. `items` calls its
    /// argument for each item.
    ///
    /// # Errors
    /// The peer went away, or those of `items`: the list is not complete then.
    pub fn write_list<T: Serialize>(
        out: &mut dyn Write,
        items: impl FnOnce(&mut dyn FnMut(&T)) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut result = out.write_all(b"{\"ok\":[");
        let mut separator: &[u8] = b"";
        items(&mut |item| {
            if result.is_ok() {
                result = out
                    .write_all(separator)
                    .and_then(|()| serde_json::to_writer(&mut *out, item).map_err(io::Error::from));
                separator = b",";
            }
        })?;
        result?;
        out.write_all(b"]}")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::state::StoredAlgorithm;

    #[test]
    fn nobody_listening_is_told_apart() {
        let asked: Result<(), _> = ask(Path::new("/nonexistent/tcpilot.sock"), &Request::Status);
        assert!(matches!(asked, Err(AskError::NotRunning(_))));
    }

    /// Asks a daemon with this behaviour on the connection, and returns the command's line.
    fn line_if(daemon: impl FnOnce(UnixStream) + Send) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.sock");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| daemon(listener.accept().unwrap().0));
            let error = ask::<()>(&path, &Request::Status).unwrap_err();
            let line = tcpilot_show::failure::Failure::from(error).to_string();
            line.replace(&path.display().to_string(), "SOCKET")
        })
    }

    #[test]
    fn cut_off_answer_is_one_clear_line() {
        let cut_off = "SOCKET was closed before the answer was complete; tcpilot ended, or has too many \
                       clients: ask again";
        assert_eq!(line_if(drop), cut_off);
        let half = |mut stream: UnixStream| {
            BufReader::new(&stream)
                .read_line(&mut String::new())
                .unwrap();
            stream.write_all(b"{\"ok\":[").unwrap();
        };
        assert_eq!(line_if(half), cut_off);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [&b"\"nonsense\"\n"[..], b"\xff\xfe\n", b""] {
            let mut text = Vec::new();
            serve(line, &mut text, |_, out| Reply::Ok(1.into()).write(out)).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(
                text.starts_with("{\"error\":\"question not understood"),
                "{text}"
            );
        }
    }

    #[test]
    fn part_of_an_import_fits_a_question() {
        let long = "n".repeat(255);
        let algorithm = StoredAlgorithm {
            name: "n".repeat(15),
            ..Default::default()
        };
        let path = StoredPath {
            netns: long.clone(),
            policy: long,
            prefix: ("ffff:".repeat(7) + "ffff").parse().unwrap(),
            algorithms: vec![algorithm; 8],
            ..Default::default()
        };
        let mut longest = serde_json::to_string(&path).unwrap();
        longest = longest.replace(":0", &format!(":{}", u64::MAX));
        let bytes = longest.len() * IMPORT_PATHS;
        assert!(bytes + 1000 < REQUEST_BYTES_MAX, "{bytes}");
    }

    #[test]
    fn list_written_by_item_is_the_list() {
        let mut bytes = Vec::new();
        let items = |each: &mut dyn FnMut(&i32)| {
            [1, 2, 3].iter().for_each(each);
            Ok(())
        };
        Reply::write_list(&mut bytes, items).unwrap();
        let reply: Reply = serde_json::from_slice(&bytes).unwrap();
        assert!(matches!(reply, Reply::Ok(value) if value == serde_json::json!([1, 2, 3])));
    }
}
