//! `--listen`: a thread to answer HTTP with metrics and health. A [`Source`] has the content.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::CONTENT_TYPE;
use crate::failure::{Failure, Kind};

/// Maximum number of simultaneous requests; further connections are closed.
const CLIENTS_MAX: usize = 16;
/// Longest head of a request, and the time limit for it.
const HEAD_BYTES_MAX: usize = 8192;
const HEAD_TIME: Duration = Duration::from_secs(2);
const WRITE_TIME: Duration = Duration::from_secs(5);

/// Parses the address to listen on: `9464` is a port of the loopback address, `0.0.0.0:9464` of all.
///
/// # Errors
/// The text has another form; the error shows the right one.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok((IpAddr::from(Ipv4Addr::LOCALHOST), port).into());
    }
    text.parse().map_err(|_| {
        "write a port, or an address and a port: 9464, 0.0.0.0:9464, [::1]:9464".to_owned()
    })
}

/// A listener; it answers as long as the process lives.
#[derive(Debug)]
pub struct Server {
    /// The address, with the kernel's choice of port if 0 was asked for.
    pub address: SocketAddr,
}

/// The content of the pages. An error gives the reason why a page has no content.
pub trait Source: Send + Sync {
    /// The metrics as OpenMetrics.
    fn metrics(&self) -> Result<String, String>;
    /// Whether the process works.
    fn alive(&self) -> Result<&'static str, String>;
    /// Whether it does its job.
    fn ready(&self) -> Result<&'static str, String>;
}

impl Server {
    /// Listens, and answers in a thread of its own.
    ///
    /// # Errors
    /// The address is taken, or is not this host's.
    pub fn open(address: SocketAddr, source: Arc<dyn Source>) -> Result<Server, Failure> {
        let cannot = |error: io::Error| {
            let message = format!("cannot listen at {address} for metrics: {error}");
            Failure::new(
                Kind::Failed,
                message,
                "give --listen another address or port",
            )
        };
        let listener = TcpListener::bind(address).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let answer = move |stream| {
            let _ = answer(stream, &*source); // an error means a lost client
        };
        let serve = move || serve(&listener, answer);
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(serve)
            .map_err(cannot)?;
        Ok(Server { address })
    }
}

/// One of the places for requests, given back when it is dropped: also if answering panics.
struct ClientSlot(Arc<AtomicUsize>);

impl ClientSlot {
    /// A place, if one is free.
    fn take(busy: &Arc<AtomicUsize>) -> Option<ClientSlot> {
        let place = ClientSlot(Arc::clone(busy));
        (busy.fetch_add(1, Ordering::Relaxed) < CLIENTS_MAX).then_some(place)
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(listener: &TcpListener, answer: impl Fn(TcpStream) + Clone + Send + 'static) {
    let busy = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(Duration::from_millis(100)); // most likely no file descriptor is left
            continue;
        };
        let Some(place) = ClientSlot::take(&busy) else {
            continue;
        };
        let answer = answer.clone();
        // Without a thread the connection is closed.
        let _ = thread::Builder::new().spawn(move || {
            let _place = place;
            answer(stream);
        });
    }
}

/// A status line, the type of the body, and the body.
type Response = (&'static str, &'static str, String);

const PLAIN: &str = "text/plain; charset=utf-8";

fn answer(mut stream: TcpStream, source: &dyn Source) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE_TIME))?;
    let (status, content_type, body) = match read_target(&mut stream)? {
        Ok(target) => respond(&target, source),
        Err(refused) => refused,
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

/// Reads a request's head: the requested page, or the refusal.
fn read_target(stream: &mut TcpStream) -> io::Result<Result<String, Response>> {
    let begun = Instant::now();
    let mut head = Vec::new();
    let bad = |what: &str| Ok(Err(("400 Bad Request", PLAIN, format!("{what}\n"))));
    loop {
        let left = HEAD_TIME.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return bad("the request took too long");
        }
        stream.set_read_timeout(Some(left))?;
        let mut part = [0; 1024];
        let count = stream.read(&mut part)?;
        head.extend_from_slice(&part[..count]);
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&head) {
            Ok(httparse::Status::Complete(_)) if request.method == Some("GET") => {
                return Ok(Ok(request.path.unwrap_or_default().to_owned()));
            }
            Ok(httparse::Status::Complete(_)) => {
                return Ok(Err((
                    "405 Method Not Allowed",
                    PLAIN,
                    "ask with GET\n".to_owned(),
                )));
            }
            Ok(httparse::Status::Partial) if count > 0 && head.len() < HEAD_BYTES_MAX => {}
            _ => return bad("not understood"),
        }
    }
}

fn respond(target: &str, source: &dyn Source) -> Response {
    let path = target.split('?').next().unwrap_or_default();
    match path {
        "/metrics" => match source.metrics() {
            Ok(text) => ("200 OK", CONTENT_TYPE, text),
            Err(error) => unwell(&error),
        },
        "/healthz" => health(source.alive()),
        "/readyz" => health(source.ready()),
        _ => {
            let known = "there are /metrics, /healthz and /readyz\n";
            ("404 Not Found", PLAIN, known.to_owned())
        }
    }
}

fn health(state: Result<&str, String>) -> Response {
    match state {
        Ok(word) => ("200 OK", PLAIN, format!("{word}\n")),
        Err(why) => unwell(&why),
    }
}

fn unwell(why: &str) -> Response {
    ("503 Service Unavailable", PLAIN, format!("{why}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;

    #[test]
    fn a_port_alone_is_the_loopbacks() {
        assert_eq!(
            listen_address("9464").unwrap().to_string(),
            "127.0.0.1:9464"
        );
        assert_eq!(listen_address("[::]:1").unwrap().to_string(), "[::]:1");
        for wrong in ["", "localhost", "1.2.3.4", "99999", "1.2.3.4:99999"] {
            assert!(listen_address(wrong).is_err(), "{wrong}");
        }
    }

    /// A source without content.
    struct Unwell;

    impl Source for Unwell {
        fn metrics(&self) -> Result<String, String> {
            Err("not today".to_owned())
        }
        fn alive(&self) -> Result<&'static str, String> {
            Err("not today".to_owned())
        }
        fn ready(&self) -> Result<&'static str, String> {
            Err("not today".to_owned())
        }
    }

    /// The status line and the body of a server's answer.
    fn asked(request: &str) -> (String, String) {
        let server = Server::open(listen_address("0").unwrap(), Arc::new(Unwell)).unwrap();
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = io::BufReader::new(stream);
        let (mut line, mut rest) = (String::new(), String::new());
        answer.read_line(&mut line).unwrap();
        answer.read_to_string(&mut rest).unwrap();
        (line.trim_end().to_owned(), rest)
    }

    #[test]
    fn panicking_request_frees_its_slot() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let number = Arc::new(AtomicUsize::new(0));
        let answer = move |mut stream: TcpStream| {
            let number = number.fetch_add(1, Ordering::Relaxed);
            assert!(number >= 2 * CLIENTS_MAX, "one of the first requests");
            stream.write_all(b"yes").unwrap();
        };
        thread::spawn(move || serve(&listener, answer));
        let begun = Instant::now();
        let mut text = String::new();
        while text != "yes" {
            assert!(begun.elapsed() < HEAD_TIME * 10, "no place is left");
            let mut stream = TcpStream::connect(address).unwrap();
            text.clear();
            let _ = stream.read_to_string(&mut text); // a request that panics sends no answer
        }
    }

    #[test]
    fn other_requests_get_a_hint() {
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found"),
            (
                "POST /metrics HTTP/1.1\r\n\r\n",
                "HTTP/1.1 405 Method Not Allowed",
            ),
            ("\0\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        ] {
            assert_eq!(asked(request).0, status, "{request:?}");
        }
        // Exactly as long as the server reads: unread data would reset the connection.
        let long = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(HEAD_BYTES_MAX - 19));
        assert_eq!(asked(&long).0, "HTTP/1.1 400 Bad Request");
    }

    #[test]
    fn an_unwell_source_gives_503_and_its_reason() {
        for path in ["/metrics", "/healthz", "/readyz?verbose=1"] {
            let (status, body) = asked(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
            assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
            assert_eq!(body.lines().last(), Some("not today"));
        }
    }
}
