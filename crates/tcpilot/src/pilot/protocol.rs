//! What goes over the control socket: one JSON line as a question, one as the answer.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use std::{
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    net::IpAddr,
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

/// A question to the daemon.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// [`crate::show::views::Status`]
    Status,
    /// A list of [`crate::show::views::PathView`]
    Paths,
    /// A list of [`crate::show::views::FlowView`]
    Flows,
    /// [`crate::show::views::Explanation`]
    Explain(IpAddr),
    /// The state as a document for export
    StateExport,
    /// The document to add; answers the number of paths
    StateImport(serde_json::Value),
    /// Forget everything; answers the number of paths
    StateReset,
}

/// The daemon's answer: `{"ok": …}` or `{"error": "…"}`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The value asked for.
    Ok(serde_json::Value),
    /// One line: what, where, what to do.
    Error(String),
}

/// No question is longer; an import of 16384 paths is about 10 MB.
pub const REQUEST_BYTES_MAX: u64 = 64 << 20;
/// A silent peer must not hold the daemon up.
pub const SERVER_TIMEOUT: Duration = Duration::from_secs(2);
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a question was not answered.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens.
    #[error("no tcpilot answers at {0}")]
    NotRunning(String),
    /// Only root may ask.
    #[error("no permission to use {0}")]
    NotPermitted(String),
    /// The daemon answered with an error.
    #[error("{0}")]
    Refused(String),
    /// The connection broke, or the answer was not understood.
    #[error("the daemon's answer was cut off or not understood: {0}")]
    Broken(#[from] io::Error),
}

/// Asks the daemon at `socket`.
///
/// # Errors
/// See [`AskError`].
pub fn ask<T: DeserializeOwned>(socket: &Path, request: &Request) -> Result<T, AskError> {
    let name = socket.display().to_string();
    let mut stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => AskError::NotPermitted(name),
        _ => AskError::NotRunning(name),
    })?;
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    let mut line = serde_json::to_vec(request).map_err(io::Error::from)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    match serde_json::from_str(&answer).map_err(io::Error::from)? {
        Reply::Ok(value) => Ok(serde_json::from_value(value).map_err(io::Error::from)?),
        Reply::Error(message) => Err(AskError::Refused(message)),
    }
}

/// Reads one question from an accepted connection, lets `answer` write a [`Reply`], and closes.
///
/// # Errors
/// Where the peer went away or was silent for [`SERVER_TIMEOUT`]; a question that is not understood is
/// answered with an error.
pub fn serve(
    stream: UnixStream,
    answer: impl FnOnce(Request, &mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(SERVER_TIMEOUT))?;
    stream.set_write_timeout(Some(SERVER_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new((&stream).take(REQUEST_BYTES_MAX)).read_line(&mut line)?;
    let mut out = BufWriter::new(&stream);
    match serde_json::from_str(&line) {
        Ok(request) => answer(request, &mut out)?,
        Err(error) => Reply::Error(format!("question not understood: {error}")).write(&mut out)?,
    }
    out.write_all(b"\n")?;
    out.flush()
}

impl Reply {
    /// Writes it as JSON.
    ///
    /// # Errors
    /// Where the peer went away.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(out, self).map_err(io::Error::from)
    }

    /// Writes `{"ok":[…]}` item by item, so that a long list is never held whole. `items` calls its
    /// argument for each.
    ///
    /// # Errors
    /// Where the peer went away.
    pub fn write_list<T: Serialize>(
        out: &mut dyn Write,
        items: impl FnOnce(&mut dyn FnMut(&T)),
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
        });
        result?;
        out.write_all(b"]}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_listening_is_told_apart() {
        let asked: Result<(), _> = ask(Path::new("/nonexistent/tcpilot.sock"), &Request::Status);
        assert!(matches!(asked, Err(AskError::NotRunning(_))));
    }

    #[test]
    fn a_question_is_answered_and_nonsense_is_refused() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&theirs).write_all(b"\"nonsense\"\n").unwrap();
        serve(ours, |_, out| Reply::Ok(1.into()).write(out)).unwrap();
        let mut text = String::new();
        (&theirs).read_to_string(&mut text).unwrap();
        assert!(
            text.starts_with("{\"error\":\"question not understood"),
            "{text}"
        );
    }

    #[test]
    fn a_list_written_item_by_item_is_the_list() {
        let mut bytes = Vec::new();
        Reply::write_list(&mut bytes, |each| [1, 2, 3].iter().for_each(each)).unwrap();
        let reply: Reply = serde_json::from_slice(&bytes).unwrap();
        assert!(matches!(reply, Reply::Ok(value) if value == serde_json::json!([1, 2, 3])));
    }
}
