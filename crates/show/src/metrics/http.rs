//! Requests and responses of HTTP/1.1, as far as the server of metrics needs them.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

/// Longest head of a request, and the time limit for it.
pub(super) const HEAD_BYTES_MAX: usize = 8192;
pub(super) const HEAD_TIME: Duration = Duration::from_secs(2);
/// Time for the whole answer.
const WRITE_TIME: Duration = Duration::from_secs(5);

const PLAIN: &str = "text/plain; charset=utf-8";
const NOT_ALLOWED: &str = "405 Method Not Allowed";

/// A request for a page.
#[derive(Debug)]
pub struct HttpRequest {
    /// Whether only the head of the answer is wanted.
    pub is_head: bool,
    /// The requested page, and its query.
    pub target: String,
    /// The field `Host`; `None` if it is missing, or there are several.
    pub host: Option<String>,
    /// The client's address.
    pub from: IpAddr,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// Code and phrase.
    pub status: &'static str,
    /// Type of the body.
    pub content_type: &'static str,
    /// Further fields; a line each, with its line end.
    pub fields: String,
    /// The body.
    pub body: Arc<str>,
}

impl HttpResponse {
    /// A page of this type.
    pub fn page(content_type: &'static str, body: impl Into<Arc<str>>) -> HttpResponse {
        HttpResponse {
            status: "200 OK",
            content_type,
            fields: String::new(),
            body: body.into(),
        }
    }

    /// A line of text.
    pub fn line(status: &'static str, text: &str) -> HttpResponse {
        HttpResponse {
            status,
            ..HttpResponse::page(PLAIN, format!("{text}\n"))
        }
    }

    fn not_allowed() -> HttpResponse {
        HttpResponse {
            fields: "Allow: GET, HEAD\r\n".to_owned(),
            ..HttpResponse::line(NOT_ALLOWED, "ask with GET or HEAD")
        }
    }

    /// Writes the answer. That to HEAD has the fields of that to GET, and no content (RFC 9110, 9.3.2).
    pub(super) fn write(&self, stream: &mut TcpStream, is_head: bool) -> io::Result<()> {
        let (status, fields, length) = (self.status, &self.fields, self.body.len());
        let content_type = self.content_type;
        let mut text = format!(
            "HTTP/1.1 {status}\r\n{fields}Content-Type: {content_type}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        );
        if !is_head {
            text += &self.body;
        }
        write_within(stream, text.as_bytes(), WRITE_TIME)
    }
}

/// Writes all, however slowly the client reads, unless that takes too long.
fn write_within(stream: &mut TcpStream, mut left: &[u8], time: Duration) -> io::Result<()> {
    let begun = Instant::now();
    while !left.is_empty() {
        let rest = time.saturating_sub(begun.elapsed());
        if rest.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(rest))?;
        match stream.write(left)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => left = left.get(count..).unwrap_or_default(),
        }
    }
    Ok(())
}

/// Reads a request's head: the request, or its refusal.
pub(super) fn read(stream: &mut TcpStream) -> io::Result<Result<HttpRequest, HttpResponse>> {
    let begun = Instant::now();
    let from = stream.peer_addr()?.ip();
    let mut head = Vec::new();
    let bad = |what: &str| Ok(Err(HttpResponse::line("400 Bad Request", what)));
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
            Ok(httparse::Status::Complete(_)) => {
                let is_head = match request.method {
                    Some("GET") => false,
                    Some("HEAD") => true,
                    _ => return Ok(Err(HttpResponse::not_allowed())),
                };
                return Ok(Ok(HttpRequest {
                    is_head,
                    target: request.path.unwrap_or_default().to_owned(),
                    host: host(request.headers),
                    from,
                }));
            }
            Ok(httparse::Status::Partial) if count > 0 && head.len() < HEAD_BYTES_MAX => {}
            _ => return bad("not understood"),
        }
    }
}

/// The only field `Host` (RFC 9112, 3.2).
fn host(headers: &[httparse::Header<'_>]) -> Option<String> {
    let mut hosts = headers
        .iter()
        .filter(|field| field.name.eq_ignore_ascii_case("host"));
    let value = std::str::from_utf8(hosts.next()?.value).ok()?;
    hosts.next().is_none().then(|| value.trim().to_owned())
}
