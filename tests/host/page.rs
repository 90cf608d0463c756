//! `run --listen ADDR --page`: the page of a daemon with real traffic.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use serde_json::Value;
use tcpilot_tests::{FAR, Lab, Place, until};

use crate::{
    ALWAYS_BBR,
    metrics::{address, get},
};

/// The fields and the body of an answer to a client of this host.
fn of_page(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost:9464\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (fields, body) = answer.split_once("\r\n\r\n").unwrap();
    (fields.to_owned(), body.to_owned())
}

fn json(address: &str, path: &str) -> Option<Value> {
    let (fields, body) = of_page(address, path);
    fields
        .starts_with("HTTP/1.1 200 OK")
        .then(|| serde_json::from_str(&body).unwrap())
}

#[test]
fn page_tells_the_story_of_real_uploads() {
    let lab = Lab::new();
    let pilot = lab
        .spawn_pilot(Place::here(), ALWAYS_BBR, &["--listen", "0", "--page"])
        .ready();
    lab.upload(FAR, 3, 200_000);
    pilot.wait_closed(3);
    let at = address(&pilot);
    let (fields, page) = of_page(&at, "/");
    assert!(
        fields.contains("Content-Security-Policy: default-src 'none'"),
        "{fields}"
    );
    assert!(page.contains("<title>tcpilot on "), "{page}");
    let name = until("its uploads are shown", || {
        let paths = json(&at, "/data/paths")?;
        let first = paths["addresses"].get(0)?;
        (first["connections"].as_u64()? >= 3).then(|| first["path"].as_str().unwrap().to_owned())
    });
    let status = json(&at, "/data/status").unwrap();
    assert_eq!(status["lines"].as_array().unwrap().len(), 5);
    assert_eq!(
        (&status["schema"], &status["closed"]),
        (&1.into(), &3.into())
    );
    let query: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let story = until("its story is told", || {
        json(&at, &format!("/data/path?name={query}"))
    });
    let decisions = story["paths"][0]["decisions"].as_array().unwrap();
    assert!(!decisions.is_empty(), "{story}");
    let (_, plot) = until("its plot is drawn", || {
        let answer = of_page(&at, &format!("/data/path.svg?name={query}"));
        answer.0.contains("image/svg+xml").then_some(answer)
    });
    assert!(plot.contains("<circle"), "{plot}");
    let (_, report) = of_page(&at, "/report");
    assert!(report.contains("Does tcpilot help?"), "{report}");
    // A website with a name of its own, as after DNS rebinding.
    assert!(get(&at, "/data/paths").starts_with("HTTP/1.1 403"));
    pilot.take_over();
    assert!(
        of_page(&address(&pilot), "/").1.contains("<title>"),
        "an upgrade keeps the page"
    );
}

#[test]
fn without_the_option_there_is_no_page() {
    let lab = Lab::new();
    let pilot = lab
        .spawn_pilot(Place::here(), ALWAYS_BBR, &["--listen", "0"])
        .ready();
    let at = address(&pilot);
    for path in ["/", "/report", "/data/status", "/data/paths"] {
        assert!(
            of_page(&at, path).0.starts_with("HTTP/1.1 404"),
            "{path} shows addresses"
        );
    }
    let threads = std::fs::read_dir(format!("/proc/{}/task", pilot.pid())).unwrap();
    let names = threads.map(|one| std::fs::read_to_string(one.unwrap().path().join("comm")));
    assert!(
        !names.flatten().any(|name| name.trim_end() == "page"),
        "nobody keeps a history"
    );
}
