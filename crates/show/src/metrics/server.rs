//! `--listen`: a thread to answer HTTP with metrics and health. A [`Source`] has the content.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, poll};

use super::{
    CONTENT_TYPE,
    http::{self, HttpRequest, HttpResponse},
    places::{Place, Places},
};
use crate::failure::{Failure, Kind};

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

/// Time without accepting if no client can come in: most likely no descriptor is left.
const DEAF_FOR: Duration = Duration::from_millis(20);

/// A listener; it answers as long as the process lives.
#[derive(Debug)]
pub struct Server {
    /// The address, with the kernel's choice of port if 0 was asked for.
    pub address: SocketAddr,
    door: Arc<Door>,
}

/// The way in for clients.
#[derive(Debug)]
struct Door {
    listener: TcpListener,
    is_closed: Mutex<bool>,
    /// Each client that came in has a copy.
    inside: Arc<()>,
    /// Each client that has asked has a copy.
    asked: Arc<()>,
}

/// The content of the pages. An error gives the reason why a page has no content.
pub trait Source: Send + Sync {
    /// The metrics as OpenMetrics.
    fn metrics(&self) -> Result<String, String>;
    /// Whether the process works.
    fn alive(&self) -> Result<&'static str, String>;
    /// Whether it does its job.
    fn ready(&self) -> Result<&'static str, String>;
    /// Another page; `None` if the source has no others.
    fn page(&self, _request: &HttpRequest) -> Option<HttpResponse> {
        None
    }
}

impl Server {
    /// Listens, and answers in a thread of its own.
    ///
    /// # Errors
    /// The address is taken, or is not this host's.
    pub fn open(address: SocketAddr, source: Arc<dyn Source>) -> Result<Server, Failure> {
        let listener = TcpListener::bind(address);
        listener
            .and_then(|listener| Server::resume(listener, source))
            .map_err(|error| {
                let message = format!("cannot listen at {address} for metrics: {error}");
                Failure::new(
                    Kind::Failed,
                    message,
                    "give --listen another address or port",
                )
            })
    }

    /// Answers at a socket that listens already.
    ///
    /// # Errors
    /// It is no socket of TCP, or the thread cannot be started.
    pub fn resume(listener: TcpListener, source: Arc<dyn Source>) -> io::Result<Server> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let door = Arc::new(Door {
            listener,
            is_closed: Mutex::new(false),
            inside: Arc::new(()),
            asked: Arc::new(()),
        });
        let passed = Arc::clone(&door);
        let answer = move |stream, place: &Place| {
            let _ = answer(stream, place, &passed.asked, &*source); // an error means a lost client
        };
        let opened = Arc::clone(&door);
        let serve = move || serve(&opened, answer);
        let builder = thread::Builder::new().name("metrics".to_owned());
        builder.spawn(serve)?;
        Ok(Server { address, door })
    }

    /// The listening socket.
    pub fn listener(&self) -> &TcpListener {
        &self.door.listener
    }

    /// Leaves new clients waiting at the socket, or lets them in again.
    pub fn close(&self, is_closed: bool) {
        *self.door.lock() = is_closed;
    }

    /// Whether no client is being answered. `silent_count`: clients that have not asked count, too.
    pub fn is_idle(&self, silent_count: bool) -> bool {
        let clients = match silent_count {
            true => &self.door.inside,
            false => &self.door.asked,
        };
        Arc::strong_count(clients) == 1
    }
}

impl Door {
    fn lock(&self) -> std::sync::MutexGuard<'_, bool> {
        self.is_closed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a client, and lets it in.
    fn let_in(&self) -> (TcpStream, SocketAddr, Arc<()>) {
        loop {
            let _ = poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], None);
            let is_closed = self.lock();
            if !*is_closed {
                if let Ok((stream, from)) = self.listener.accept() {
                    return (stream, from, Arc::clone(&self.inside));
                }
            }
            drop(is_closed);
            thread::sleep(DEAF_FOR);
        }
    }
}

fn serve(door: &Door, answer: impl Fn(TcpStream, &Place) + Clone + Send + 'static) {
    let places = Places::default();
    for number in 0.. {
        let (stream, from, inside) = door.let_in();
        let Ok(other) = stream.try_clone() else {
            thread::sleep(DEAF_FOR);
            continue;
        };
        let place = places.take(number, other, from.ip());
        let answer = answer.clone();
        // Without a thread the connection is closed.
        let _ = thread::Builder::new().spawn(move || {
            answer(stream, &place);
            drop((place, inside));
        });
    }
}

fn answer(
    mut stream: TcpStream,
    place: &Place,
    askers: &Arc<()>,
    source: &dyn Source,
) -> io::Result<()> {
    let asked = http::read(&mut stream)?;
    let _asker = Arc::clone(askers);
    place.note_answer();
    match asked {
        Ok(request) => respond(&request, source).write(&mut stream, request.is_head),
        Err(refusal) => refusal.write(&mut stream, false),
    }
}

fn respond(request: &HttpRequest, source: &dyn Source) -> HttpResponse {
    let path = request.target.split('?').next().unwrap_or_default();
    match path {
        "/metrics" => match source.metrics() {
            Ok(text) => HttpResponse::page(CONTENT_TYPE, text),
            Err(error) => unwell(&error),
        },
        "/healthz" => health(source.alive()),
        "/readyz" => health(source.ready()),
        _ => source.page(request).unwrap_or_else(|| {
            let known = "there are /metrics, /healthz and /readyz";
            HttpResponse::line("404 Not Found", known)
        }),
    }
}

fn health(state: Result<&str, String>) -> HttpResponse {
    match state {
        Ok(word) => HttpResponse::line("200 OK", word),
        Err(why) => unwell(&why),
    }
}

fn unwell(why: &str) -> HttpResponse {
    HttpResponse::line("503 Service Unavailable", why)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, Read, Write},
        sync::atomic::{AtomicUsize, Ordering},
        time::Instant,
    };

    use super::*;
    use crate::metrics::{
        http::{HEAD_BYTES_MAX, HEAD_TIME},
        places::CLIENTS_MAX,
    };

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
        let door = Door {
            listener,
            is_closed: Mutex::new(false),
            inside: Arc::new(()),
            asked: Arc::new(()),
        };
        let number = Arc::new(AtomicUsize::new(0));
        let answer = move |mut stream: TcpStream, _: &Place| {
            let number = number.fetch_add(1, Ordering::Relaxed);
            assert!(number >= 2 * CLIENTS_MAX, "one of the first requests");
            stream.write_all(b"yes").unwrap();
        };
        thread::spawn(move || serve(&door, answer));
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
    fn clients_of_a_closed_server_wait() {
        let server = Server::open(listen_address("0").unwrap(), Arc::new(Unwell)).unwrap();
        let connect = || TcpStream::connect(server.address).unwrap();
        let mut inside = connect();
        while server.is_idle(true) {
            thread::yield_now();
        }
        server.close(true);
        let mut waits = connect();
        for stream in [&mut inside, &mut waits] {
            stream.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
        }
        let mut answer = String::new();
        inside.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        while !server.is_idle(true) {
            thread::yield_now();
        }
        waits.set_nonblocking(true).unwrap();
        thread::sleep(3 * DEAF_FOR);
        assert!(server.is_idle(true) && waits.read(&mut [0]).is_err());
        server.close(false);
        waits.set_nonblocking(false).unwrap();
        waits.read_to_string(&mut answer).unwrap();
    }

    /// A source that waits for the test.
    struct Slow(Mutex<std::sync::mpsc::Receiver<()>>);

    impl Source for Slow {
        fn metrics(&self) -> Result<String, String> {
            self.alive().map(str::to_owned)
        }
        fn alive(&self) -> Result<&'static str, String> {
            self.0.lock().unwrap().recv().unwrap();
            Ok("alive")
        }
        fn ready(&self) -> Result<&'static str, String> {
            self.alive()
        }
    }

    #[test]
    fn silent_clients_are_told_from_askers() {
        let (go_on, waits) = std::sync::mpsc::channel();
        let source = Arc::new(Slow(Mutex::new(waits)));
        let server = Server::open(listen_address("0").unwrap(), source).unwrap();
        let mut client = TcpStream::connect(server.address).unwrap();
        while server.is_idle(true) {
            thread::yield_now();
        }
        assert!(server.is_idle(false), "it has not asked");
        client.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
        while server.is_idle(false) {
            thread::yield_now();
        }
        go_on.send(()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("alive\n"), "{answer}");
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
    fn head_has_fields_of_get_without_content() {
        for path in ["/healthz", "/metrics", "/other"] {
            let ask = |method| asked(&format!("{method} {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
            let ((status, whole), (of_head, head)) = (ask("GET"), ask("HEAD"));
            assert_eq!(status, of_head);
            let (fields, content) = whole.split_once("\r\n\r\n").unwrap();
            assert_eq!(head, format!("{fields}\r\n\r\n"));
            assert!(fields.contains(&format!("Content-Length: {}", content.len())));
        }
        let (_, refusal) = asked("POST /metrics HTTP/1.1\r\n\r\n");
        assert!(refusal.contains("Allow: GET, HEAD\r\n"), "{refusal}");
    }

    /// Clients that say a byte each, again as soon as they are turned away.
    #[test]
    fn silent_crowd_costs_no_probe() {
        for crowd in [20, 100] {
            let server = Server::open(listen_address("0").unwrap(), Arc::new(Unwell)).unwrap();
            let address = server.address;
            let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
            let hostile = |_| {
                let is_over = Arc::clone(&is_over);
                thread::spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let Ok(mut stream) = TcpStream::connect(address) else {
                            continue;
                        };
                        let _ = stream.write_all(b"G");
                        let _ = stream.read(&mut [0; 100]);
                    }
                })
            };
            let crowd: Vec<_> = (0..crowd).map(hostile).collect();
            thread::sleep(Duration::from_millis(200));
            for probe in 0..10 {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
                let mut answer = String::new();
                let read = stream.read_to_string(&mut answer);
                assert!(
                    answer.starts_with("HTTP/1.1 503"),
                    "{probe}: {read:?} {answer}"
                );
            }
            is_over.store(true, Ordering::Relaxed);
            crowd.into_iter().for_each(|one| one.join().unwrap());
        }
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
