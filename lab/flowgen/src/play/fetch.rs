//! A download by curl: a connection of real programs, from which only its own words and, at the server's end,
//! the kernel's are known.

use super::flow::After;
use super::record::FlowRow;
use crate::error::{Error, Result};
use crate::tcp_info::TcpInfo;
use rustix::io::ioctl_fionbio;
use std::io::{ErrorKind, Read as _};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStdout, Command, Stdio};

const PROGRAM: &str = "curl";
/// Its last line, printed after success and after failure.
const WORDS: &str =
    "%{exitcode} %{http_code} %{size_download} %{time_total} %{local_port} %{errormsg}\\n";

/// A curl under way.
#[derive(Debug)]
pub struct Fetch {
    child: Child,
    output: ChildStdout,
    said: Vec<u8>,
    /// The row of the report.
    pub row: FlowRow,
}

impl Fetch {
    /// Starts a curl in the calling thread's namespace: so many bytes are a file of that name.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no curl.
    pub fn start(bind: Option<IpAddr>, row: FlowRow) -> Result<Self> {
        let url = format!("http://{}/{}", row.to, row.wanted_bytes);
        // The user's settings and proxies are not part of an experiment.
        let mut command = Command::new(PROGRAM);
        command
            .args(["--disable", "--silent", "--globoff", "--noproxy", "*"])
            .args(["--output", "/dev/null", "--write-out", WORDS, &url]);
        if let Some(address) = bind {
            command.args(["--interface", &address.to_string()]);
        }
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let started = command.stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(Error::io("starting curl"))?;
        let Some(output) = child.stdout.take() else {
            return Err(Error::Closed {
                action: "starting curl",
            });
        };
        ioctl_fionbio(&output, true).map_err(Error::io("starting curl"))?;
        Ok(Self {
            child,
            output,
            said: Vec::new(),
            row,
        })
    }

    /// Its words come here.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// Reads its output, to the end.
    ///
    /// # Errors
    /// The error that curl reports.
    pub fn advance(&mut self, now_s: f64) -> Result<After> {
        match self.output.read_to_end(&mut self.said) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(After::Wait),
            Err(error) => return Err(Error::io("reading from curl")(error)),
        }
        self.child.wait().map_err(Error::io("waiting for curl"))?;
        self.row.end_s = Some(now_s);
        let said = String::from_utf8_lossy(&self.said).into_owned();
        take(&mut self.row, &said, now_s)?;
        Ok(After::Over)
    }

    /// A download has its size: the end of the run does not cut it.
    ///
    /// # Errors
    /// None.
    pub fn cut(&mut self, _now_s: f64) -> Result<After> {
        Ok(After::Wait)
    }

    /// Notes when it ended; the counters come from the server's end.
    pub fn note_end(&mut self, now_s: f64) {
        self.row.end_s = Some(now_s);
    }

    /// Its socket is not ours to look at.
    pub fn each_subflow(&self, _visit: impl FnMut(Option<IpAddr>, &TcpInfo)) {}

    /// There is nothing to sample.
    pub fn is_established(&self) -> bool {
        false
    }

    /// The server's is the system's.
    pub fn congestion_control(&self) -> String {
        String::new()
    }

    /// Ends it, when the run is over first. It does not say how far it came.
    pub fn abandon(&mut self, _now_s: f64) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let text = "curl had not finished when the run was over";
        self.row.error.get_or_insert_with(|| text.to_owned());
    }
}

/// Puts curl's report into its row. The network is not charged with curl's start.
fn take(row: &mut FlowRow, said: &str, now_s: f64) -> Result<()> {
    let mut words = said.trim_end().splitn(6, ' ');
    let mut next = || words.next().unwrap_or_default();
    let (status, answer) = (next(), next());
    let (bytes, seconds, port): (Option<u64>, Option<f64>, Option<u16>) = (
        next().parse().ok(),
        next().parse().ok(),
        next().parse().ok(),
    );
    let why = next();
    if let (Some(bytes), Some(seconds), Some(port)) = (bytes, seconds, port) {
        row.bytes = bytes;
        row.start_s = now_s - seconds;
        row.local_port = port;
        row.fct_s = Some(seconds);
    }
    match (status, answer) {
        ("0", "200") if row.bytes == row.wanted_bytes => Ok(()),
        ("0", _) => Err(Error::Protocol(format!(
            "the server answered {answer} and {} bytes",
            row.bytes
        ))),
        _ => Err(Error::Protocol(format!("curl ended with {status}: {why}"))),
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(wanted_bytes: u64) -> FlowRow {
        FlowRow {
            wanted_bytes,
            ..FlowRow::begun(0, 0, "10.0.0.1:8080".parse().unwrap(), 1.0)
        }
    }

    #[test]
    fn curls_words_become_a_row() {
        let mut done = row(1000);
        take(&mut done, "0 200 1000 0.250000 41234 \n", 2.0).unwrap();
        assert_eq!((done.bytes, done.local_port), (1000, 41_234));
        assert_eq!((done.start_s, done.fct_s), (1.75, Some(0.25)));
    }

    #[test]
    fn fetch_failure_reports_its_cause() {
        for (said, expected) in [
            ("0 404 153 0.02 41234 \n", "answered 404"),
            ("0 200 999 0.02 41234 \n", "999 bytes"),
            (
                "7 000 0 0.01 0 Failed to connect to 10.0.0.1\n",
                "ended with 7: Failed to connect",
            ),
            ("", "ended with"),
        ] {
            let error = take(&mut row(1000), said, 2.0).unwrap_err().to_string();
            assert!(error.contains(expected), "{said:?}: {error}");
        }
    }
}
