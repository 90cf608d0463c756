//! One client of the control socket. Its question comes in and its answer goes out as fast as the client
//! reads and writes; the daemon never waits for it.

use std::{
    fs::File,
    io::{self, BufWriter, ErrorKind, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::{fs::FileExt, net::UnixStream},
    },
    time::{Duration, Instant},
};

use rustix::{
    event::PollFlags,
    fs::{MemfdFlags, memfd_create},
};

use super::access::{self, User};
use crate::protocol::{REQUEST_BYTES_MAX, Reply, Request, serve};

/// A client's time to ask, and its time to read a short answer. The daemon's own time does not count: if it
/// is busy for longer, nobody loses an answer.
pub const QUESTION_TIME: Duration = Duration::from_secs(10);
/// A client of a long answer has a second more for so many bytes.
const BYTES_PER_S: u64 = 1 << 20;
/// Longest question of a guest, in bytes: guests import nothing.
const GUEST_REQUEST_BYTES_MAX: usize = 4096;
/// Bytes to read or write at once.
const CHUNK: usize = 1 << 16;

/// A client of the control socket.
pub struct Client {
    stream: UnixStream,
    user: User,
    /// The end of its time to ask or to read.
    until: Instant,
    phase: Phase,
}

enum Phase {
    /// The client is asking; this part of the question has come.
    Asks(Vec<u8>),
    /// The client waits for an answer; the question has come.
    Waits(Vec<u8>),
    /// The client reads the answer.
    Hears(Answer),
    /// There is nothing more to do.
    Done,
}

/// An answer in a file in memory. The kernel frees the file at once, so the daemon's own memory does not grow
/// with a long answer.
struct Answer {
    file: File,
    bytes: u64,
    sent: u64,
}

impl Client {
    /// A newly connected client.
    ///
    /// # Errors
    /// The socket cannot be set to non-blocking.
    pub fn new(stream: UnixStream) -> io::Result<Client> {
        stream.set_nonblocking(true)?;
        Ok(Client {
            user: access::user(&stream),
            stream,
            until: Instant::now() + QUESTION_TIME,
            phase: Phase::Asks(Vec::new()),
        })
    }

    /// Its user.
    pub fn user(&self) -> User {
        self.user
    }

    /// The length of its answer while it reads, in bytes: the whole stays in memory until it has read the end.
    pub fn unread_bytes(&self) -> u64 {
        match &self.phase {
            Phase::Hears(answer) => answer.bytes,
            _ => 0,
        }
    }

    /// The descriptor to poll, and the events to poll for.
    pub fn awaits(&self) -> (BorrowedFd<'_>, PollFlags) {
        let flags = match self.phase {
            Phase::Asks(_) => PollFlags::IN,
            Phase::Hears(_) => PollFlags::OUT,
            Phase::Waits(_) | Phase::Done => PollFlags::empty(),
        };
        (self.stream.as_fd(), flags)
    }

    /// Whether there is a question to answer.
    pub fn has_asked(&self) -> bool {
        matches!(self.phase, Phase::Waits(_))
    }

    /// Whether its question has not come yet.
    pub fn is_asking(&self) -> bool {
        matches!(self.phase, Phase::Asks(_))
    }

    /// Whether it has its answer, or went away.
    pub fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    /// Whether it took too long to ask or to read. Ask this only after [`Client::go_on`]: while the daemon was
    /// busy the client may have done its part.
    pub fn is_late(&self) -> bool {
        !self.has_asked() && Instant::now() >= self.until
    }

    /// Gives it another user.
    #[cfg(test)]
    pub fn become_user(&mut self, user: User) {
        self.user = user;
    }

    /// Lets its time end, as if the daemon had been busy for so long.
    #[cfg(test)]
    pub fn run_out_of_time(&mut self) {
        self.until = Instant::now();
    }

    /// Reads and writes as much as is possible without waiting.
    pub fn go_on(&mut self) {
        let result = match &mut self.phase {
            Phase::Asks(line) => read(&self.stream, line, longest_question(self.user)),
            Phase::Hears(answer) => write(&self.stream, answer),
            Phase::Waits(_) | Phase::Done => Ok(false),
        };
        let phase = std::mem::replace(&mut self.phase, Phase::Done);
        self.phase = match (result, phase) {
            (Ok(true), Phase::Asks(line)) => Phase::Waits(line),
            (Ok(false), unfinished) => unfinished,
            (Ok(true), _) => Phase::Done,
            (Err(error), _) => {
                tracing::debug!(%error, "a client of the control socket went away");
                Phase::Done
            }
        };
    }

    /// Answers the question, if there is one.
    pub fn answer(&mut self, answer: impl FnOnce(Request, &mut dyn Write) -> io::Result<()>) {
        if let Phase::Waits(line) = std::mem::replace(&mut self.phase, Phase::Done) {
            let user = self.user;
            let answer = |request: Request, out: &mut dyn Write| match request.changes() {
                true if user != User::Owner => {
                    Reply::NotPermitted("only root may change something".to_owned()).write(out)
                }
                _ => answer(request, out),
            };
            let file = written(&line, longest_question(user), answer).or_else(|error| {
                tracing::warn!(%error, "a question could not be answered");
                let why = format!("the answer could not be written: {error}");
                refusal(why)
            });
            if let Ok(file) = file {
                let bytes = file.metadata().map_or(0, |meta| meta.len());
                let seconds = Duration::from_secs(bytes / BYTES_PER_S);
                self.until = Instant::now() + QUESTION_TIME + seconds;
                let sent = 0;
                self.phase = Phase::Hears(Answer { file, bytes, sent });
            }
            self.go_on();
        }
    }
}

fn longest_question(user: User) -> usize {
    match user {
        User::Owner => REQUEST_BYTES_MAX,
        User::Guest(_) => GUEST_REQUEST_BYTES_MAX,
    }
}

fn memory() -> io::Result<BufWriter<File>> {
    let file = memfd_create("tcpilot answer", MemfdFlags::CLOEXEC)?;
    Ok(BufWriter::new(file.into()))
}

/// The answer to a refused question, with the reason.
fn refusal(why: String) -> io::Result<File> {
    let mut out = memory()?;
    Reply::Error(why).write(&mut out)?;
    out.write_all(b"\n")?;
    out.into_inner().map_err(io::IntoInnerError::into_error)
}

fn written(
    line: &[u8],
    bytes_max: usize,
    answer: impl FnOnce(Request, &mut dyn Write) -> io::Result<()>,
) -> io::Result<File> {
    let mut out = memory()?;
    if line.len() > bytes_max {
        Reply::Error(format!("a question has at most {bytes_max} bytes")).write(&mut out)?;
        out.write_all(b"\n")?;
    } else {
        serve(line, &mut out, answer)?;
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)
}

/// Reads on; true if the line is complete, or longer than it may be.
fn read(mut stream: &UnixStream, line: &mut Vec<u8>, bytes_max: usize) -> io::Result<bool> {
    let mut chunk = [0; CHUNK];
    loop {
        let got = match stream.read(&mut chunk) {
            Ok(got) => chunk.get(..got).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = got.iter().position(|byte| *byte == b'\n');
        line.extend(got.get(..end.unwrap_or(got.len())).unwrap_or_default());
        match end {
            // The rest of an overlong line is discarded with the connection.
            None if got.is_empty() || line.len() > bytes_max => return Ok(true),
            Some(_) => return Ok(true),
            None => {}
        }
    }
}

/// Writes on; true if all of the answer has gone.
fn write(mut stream: &UnixStream, answer: &mut Answer) -> io::Result<bool> {
    let mut chunk = [0; CHUNK];
    loop {
        let got = answer.file.read_at(&mut chunk, answer.sent)?;
        if got == 0 {
            return Ok(true);
        }
        match stream.write(chunk.get(..got).unwrap_or_default()) {
            Ok(gone) => answer.sent += gone as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Client, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Client::new(ours).unwrap(), theirs)
    }

    #[test]
    fn a_question_may_come_in_parts() {
        let (mut client, mut theirs) = pair();
        for part in ["\"sta", "tus\"", "\n"] {
            client.go_on();
            assert!(client.is_asking());
            theirs.write_all(part.as_bytes()).unwrap();
        }
        client.go_on();
        assert!(client.has_asked());
        client.answer(|request, out| {
            assert!(matches!(request, Request::Status));
            Reply::Ok(1.into()).write(out)
        });
        assert!(client.is_done());
        drop(client);
        let mut text = String::new();
        theirs.read_to_string(&mut text).unwrap();
        assert_eq!(text, "{\"ok\":1}\n");
    }

    #[test]
    fn a_long_answer_waits_for_its_reader() {
        let (mut client, mut theirs) = pair();
        theirs.write_all(b"\"status\"\n").unwrap();
        client.go_on();
        let long = "x".repeat(5_000_000);
        client.answer(|_, out| Reply::Ok(long.clone().into()).write(out));
        assert!(!client.is_done());
        theirs.set_nonblocking(true).unwrap();
        let mut got = Vec::new();
        while !client.is_done() {
            client.go_on();
            let _ = theirs.read_to_end(&mut got);
        }
        drop(client);
        theirs.set_nonblocking(false).unwrap();
        theirs.read_to_end(&mut got).unwrap();
        assert_eq!(got.len(), long.len() + "{\"ok\":\"\"}\n".len());
    }

    #[test]
    fn client_is_late_by_its_own_time() {
        let (mut client, mut theirs) = pair();
        client.until = Instant::now();
        assert!(client.is_late());
        theirs.write_all(b"\"status\"\n").unwrap();
        client.go_on();
        assert!(client.has_asked() && !client.is_late());
        client.answer(|_, out| Reply::Ok("x".repeat(5_000_000).into()).write(out));
        assert!(!client.is_done() && !client.is_late());
        let left = client.until - Instant::now();
        assert!(left > QUESTION_TIME + Duration::from_secs(3), "{left:?}");
        client.until = Instant::now();
        assert!(client.is_late());
    }

    #[test]
    fn failed_answer_is_an_error_not_a_part() {
        let (mut client, mut theirs) = pair();
        theirs.write_all(b"\"paths\"\n").unwrap();
        client.go_on();
        client.answer(|_, out| {
            out.write_all(b"{\"ok\":[1,")?;
            Err(io::Error::other("the learner does not answer"))
        });
        drop(client);
        let mut text = String::new();
        theirs.read_to_string(&mut text).unwrap();
        let says = "{\"error\":\"the answer could not be written: the learner does not answer\"}\n";
        assert_eq!(text, says);
    }

    #[test]
    fn too_long_question_is_refused_at_once() {
        for (user, bytes_max) in [(User::Owner, 4 << 20), (User::Guest(1), 4096)] {
            let (mut client, mut theirs) = pair();
            client.user = user;
            theirs.set_nonblocking(true).unwrap();
            let mut told = 0;
            while client.is_asking() {
                told += theirs.write(&[b' '; CHUNK]).unwrap_or_default();
                client.go_on();
            }
            assert!(told > bytes_max && told <= bytes_max + 4 * CHUNK, "{told}");
            client.answer(|_, _| unreachable!("it is no question"));
            drop(client);
            let mut start = [0; 9];
            theirs.read_exact(&mut start).unwrap();
            assert_eq!(&start, b"{\"error\":");
        }
    }
}
