//! The page of a running daemon, next to its metrics: `run --listen ADDR --page`. Read-only.
//!
//! It asks through the control socket as commands do, and shows the documents of `status`, `explain` and `report`. All
//! readers share an answer, and each question rests after it ([`paced`]), so a flood of requests costs the daemon no
//! more than a reader. Without `--page` nothing of this runs.

mod guard;
mod history;
mod paced;
mod source;
mod story;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime},
};

use serde::Serialize;
use tcpilot_core::Prefix;
use tcpilot_kernel::host;
use tcpilot_show::{
    document::Document,
    metrics::{HttpRequest, HttpResponse, Source},
};

use crate::{
    args::PageReaders,
    figures::{AddressView, Busiest, Explanation, Status},
    html::{STYLE, escape},
    metrics::{self, Daemon},
    protocol::{Request, ask},
    report, table,
};
use history::History;
use paced::{Paced, rest};
use story::Story;

/// The page's parts: one file is served.
const BODY: &str = include_str!("page.html");
/// The first one is also the report's, whose document the script reads.
const STYLES: [&str; 2] = [STYLE, include_str!("page.css")];
const SCRIPT: &str = include_str!("page.js");

/// How long answers serve all readers.
const STATUS_AGE: Duration = Duration::from_secs(1);
const PATHS_AGE: Duration = Duration::from_secs(2);
const REPORT_AGE: Duration = Duration::from_secs(15);
const STORY_AGE: Duration = Duration::from_secs(2);
/// Stories kept for their readers.
const STORIES: usize = 8;

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json; charset=utf-8";
const SVG: &str = "image/svg+xml; charset=utf-8";

/// Metrics, and the page.
struct Pages {
    daemon: Daemon,
    readers: PageReaders,
    host: String,
    status: Paced<Arc<str>>,
    busiest: Paced<Arc<Busiest>>,
    paths: Paced<Arc<str>>,
    report: Paced<Arc<str>>,
    stories: Mutex<Stories>,
    history: Mutex<History>,
}

/// The last stories, and when the next question may be asked.
#[derive(Default)]
struct Stories {
    kept: Vec<(Instant, String, Told)>,
    rests_until: Option<Instant>,
}

/// A story in JSON, and its plot.
#[derive(Clone)]
struct Told {
    json: Arc<str>,
    plot: Arc<str>,
}

/// The document of `status`, with its five lines.
#[derive(Serialize)]
struct StatusPage {
    #[serde(flatten)]
    status: Status,
    lines: Vec<[String; 2]>,
}

/// The addresses with the most connections; each is an entry as in `status.gains`.
#[derive(Serialize)]
struct PathsPage<'a> {
    addresses: &'a [AddressView],
    /// Known paths that are not behind one of these.
    paths_more: u64,
}

/// Metrics of the daemon at `socket`, and its page for these readers.
pub fn source(socket: &Path, readers: PageReaders) -> Arc<dyn Source> {
    let pages = Arc::new(Pages::new(socket, readers));
    let sampled = Arc::clone(&pages);
    let sample = move || {
        loop {
            thread::sleep(Duration::from_secs(history::STEP_S.into()));
            sampled.sample();
        }
    };
    // Without a thread the page has no history.
    let _ = thread::Builder::new().name("page".to_owned()).spawn(sample);
    pages
}

impl Pages {
    fn new(socket: &Path, readers: PageReaders) -> Pages {
        Pages {
            daemon: metrics::Daemon::at(socket),
            readers,
            host: host::name(),
            status: Paced::new(STATUS_AGE),
            busiest: Paced::new(PATHS_AGE),
            paths: Paced::new(PATHS_AGE),
            report: Paced::new(REPORT_AGE),
            stories: Mutex::default(),
            history: Mutex::default(),
        }
    }

    fn ask<T: serde::de::DeserializeOwned>(&self, request: &Request) -> Result<T, String> {
        ask(self.daemon.socket(), request).map_err(|error| error.to_string())
    }

    fn status(&self) -> Result<Arc<str>, String> {
        self.status.get(|| {
            let status = self.daemon.status()?;
            let lines = table::status_lines(&status).map(|(word, text)| [word.to_owned(), text]);
            document(StatusPage {
                lines: lines.into(),
                status,
            })
        })
    }

    fn busiest(&self) -> Result<Arc<Busiest>, String> {
        let most = history::SHOWN;
        self.busiest
            .get(|| self.ask(&Request::Busiest(most)).map(Arc::new))
    }

    fn paths(&self) -> Result<Arc<str>, String> {
        self.paths.get(|| {
            let (busiest, status) = (self.busiest()?, self.daemon.status()?);
            document(PathsPage {
                addresses: &busiest.addresses,
                paths_more: u64::from(status.paths).saturating_sub(busiest.paths),
            })
        })
    }

    fn report(&self) -> Result<Arc<str>, String> {
        let page = || Ok(report::page(&self.daemon.effect()?).into());
        self.report.get(page)
    }

    /// Notes the present state for the stories.
    fn sample(&self) {
        let Ok(busiest) = self.busiest() else {
            return; // the page says so
        };
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.note(now_unix_s(), &busiest.addresses);
    }

    /// The story of a shown address. Only these are asked for: the daemon looks through all of its paths for each.
    fn story(&self, name: &str) -> Result<Told, HttpResponse> {
        let gone = |why: String| unwell(&why);
        let busiest = self.busiest().map_err(gone)?;
        if !busiest.addresses.iter().any(|view| view.path == name) {
            let text = "this address is not among those with the most connections";
            return Err(HttpResponse::line("404 Not Found", text));
        }
        let mut stories = self.stories.lock().unwrap_or_else(PoisonError::into_inner);
        stories.kept.retain(|(at, _, _)| at.elapsed() < STORY_AGE);
        if let Some((_, _, told)) = stories.kept.iter().find(|(_, of, _)| of == name) {
            return Ok(told.clone());
        }
        if stories
            .rests_until
            .is_some_and(|until| Instant::now() < until)
        {
            return Err(HttpResponse {
                fields: "Retry-After: 1\r\n".to_owned(),
                ..unwell("busy with the stories of other addresses: ask again")
            });
        }
        let begun = Instant::now();
        let told = self.tell(name);
        stories.rests_until = Some(Instant::now() + rest(Duration::ZERO, begun.elapsed()));
        let told = told.map_err(gone)?;
        if stories.kept.len() == STORIES {
            stories.kept.remove(0);
        }
        let entry = (Instant::now(), name.to_owned(), told.clone());
        stories.kept.push(entry);
        Ok(told)
    }

    fn tell(&self, name: &str) -> Result<Told, String> {
        let prefix = name.split(' ').next().unwrap_or_default();
        let prefix: Prefix = prefix.parse().map_err(|_| "no address".to_owned())?;
        let explanation: Explanation = self.ask(&Request::Explain(prefix))?;
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let points = history.of(name);
        drop(history);
        let story = Story::of(name, explanation, points);
        Ok(Told {
            plot: standalone(&story.plot(now_unix_s())).into(),
            json: document(story)?,
        })
    }

    fn respond(&self, request: &HttpRequest) -> Option<HttpResponse> {
        let (path, query) = request
            .target
            .split_once('?')
            .unwrap_or((&request.target, ""));
        let json = |text: Result<Arc<str>, String>| {
            text.map_or_else(|why| unwell(&why), |text| HttpResponse::page(JSON, text))
        };
        Some(match path {
            "/" => HttpResponse {
                fields: guard::fields(&STYLES, &[SCRIPT]),
                ..HttpResponse::page(HTML, self.html())
            },
            "/report" => match self.report() {
                Ok(page) => HttpResponse {
                    fields: guard::fields(&[STYLE], &[]),
                    ..HttpResponse::page(HTML, page)
                },
                Err(why) => unwell(&why),
            },
            "/data/status" => json(self.status()),
            "/data/paths" => json(self.paths()),
            "/data/path" | "/data/path.svg" => {
                let name = query.strip_prefix("name=").and_then(decoded);
                match self.story(&name.unwrap_or_default()) {
                    Ok(told) if path == "/data/path" => HttpResponse::page(JSON, told.json),
                    Ok(told) => HttpResponse::page(SVG, told.plot),
                    Err(refusal) => refusal,
                }
            }
            _ => HttpResponse::line(
                "404 Not Found",
                "there are /, /report, /metrics, /healthz and /readyz",
            ),
        })
    }

    fn html(&self) -> String {
        let title = match self.host.as_str() {
            "" => "tcpilot".to_owned(),
            host => format!("tcpilot on {host}"),
        };
        let head = crate::html::head(&title, &STYLES);
        let body = BODY.replace("{host}", &escape(&self.host));
        format!("{head}{body}<script>{SCRIPT}</script></body></html>\n")
    }
}

impl Source for Pages {
    fn metrics(&self) -> Result<String, String> {
        self.daemon.metrics()
    }

    fn alive(&self) -> Result<&'static str, String> {
        self.daemon.alive()
    }

    fn ready(&self) -> Result<&'static str, String> {
        self.daemon.ready()
    }

    fn page(&self, request: &HttpRequest) -> Option<HttpResponse> {
        let mut response = match guard::refusal(request, self.readers, &self.host) {
            Some(why) => HttpResponse::line("403 Forbidden", &why),
            None => self.respond(request)?,
        };
        if !response.fields.contains("Content-Security-Policy") {
            response.fields += &guard::fields(&[], &[]);
        }
        Some(response)
    }
}

fn unwell(why: &str) -> HttpResponse {
    HttpResponse::line("503 Service Unavailable", why)
}

fn document<T: Serialize>(content: T) -> Result<Arc<str>, String> {
    let text = Document::new(content).pretty();
    text.map(Into::into).map_err(|error| error.to_string())
}

/// A plot as a document of its own.
fn standalone(svg: &str) -> String {
    svg.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1)
}

fn now_unix_s() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// A value of a query without its percent signs (RFC 3986, 2.1); `None` if it is no text.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut left = value.as_bytes();
    while let Some((first, rest)) = left.split_first() {
        left = rest;
        match first {
            b'%' => {
                let (hex, rest) = left.split_at_checked(2)?;
                let is_hex = hex.iter().all(u8::is_ascii_hexdigit);
                let hex = std::str::from_utf8(hex).ok().filter(|_| is_hex)?;
                bytes.push(u8::from_str_radix(hex, 16).ok()?);
                left = rest;
            }
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
