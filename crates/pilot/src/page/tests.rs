use super::*;

/// A page without a daemon.
fn pages(readers: PageReaders) -> Pages {
    Pages::new(Path::new("/nowhere/sock"), readers)
}

fn asked(pages: &Pages, target: &str) -> HttpResponse {
    let request = guard::request(target, "127.0.0.1:9464", [127, 0, 0, 1].into());
    pages.page(&request).unwrap()
}

#[test]
fn page_is_one_small_file_without_network() {
    let page = asked(&pages(PageReaders::Local), "/");
    assert_eq!((page.status, page.content_type), ("200 OK", HTML));
    assert!(page.body.len() < 40_000, "{} bytes", page.body.len());
    for word in [
        "http:",
        "https:",
        "url(",
        "@import",
        "src=",
        "innerHTML",
        "insertAdjacentHTML",
        "eval(",
    ] {
        assert!(!page.body.contains(word), "{word}");
    }
    // An attribute with code or style would not pass the policy.
    for word in [" onclick=", " onload=", " style="] {
        assert!(!page.body.contains(word), "{word}");
    }
}

#[test]
fn policy_names_the_served_script_and_style() {
    let page = asked(&pages(PageReaders::Local), "/");
    for (begin, end, count) in [("<script>", "</script>", 1), ("<style>", "</style>", 2)] {
        let parts: Vec<&str> = page.body.split(begin).skip(1).collect();
        assert_eq!(parts.len(), count);
        for part in parts {
            let source = source::source_of(part.split_once(end).unwrap().0);
            assert!(page.fields.contains(&source), "{source} in {}", page.fields);
        }
    }
}

#[test]
fn every_answer_forbids_scripts_frames_and_caches() {
    let pages = pages(PageReaders::Local);
    for target in [
        "/",
        "/report",
        "/data/status",
        "/data/paths",
        "/data/path?name=x",
        "/data/path.svg",
        "/other",
    ] {
        let fields = asked(&pages, target).fields;
        for field in [
            "Content-Security-Policy: default-src 'none'",
            "X-Content-Type-Options: nosniff",
            "no-store",
            "X-Frame-Options: DENY",
            "Referrer-Policy: no-referrer",
            "Cross-Origin-Resource-Policy: same-origin",
        ] {
            assert!(fields.contains(field), "{target}: {fields}");
        }
        assert!(fields.lines().all(|line| line.contains(": ")), "{fields}");
    }
}

#[test]
fn strangers_get_no_data() {
    let refused = |readers, host: &str, from: [u8; 4]| {
        let pages = pages(readers);
        [
            "/",
            "/report",
            "/data/status",
            "/data/paths",
            "/data/path?name=a",
        ]
        .map(|target| {
            let request = guard::request(target, host, from.into());
            pages.page(&request).unwrap().status
        })
    };
    assert_eq!(
        refused(PageReaders::Local, "127.0.0.1", [192, 0, 2, 1]),
        ["403 Forbidden"; 5]
    );
    assert_eq!(
        refused(PageReaders::Any, "attacker.example", [127, 0, 0, 1]),
        ["403 Forbidden"; 5]
    );
    assert!(!refused(PageReaders::Any, "192.0.2.7", [192, 0, 2, 1]).contains(&"403 Forbidden"));
}

#[test]
fn without_its_daemon_data_say_so() {
    let pages = pages(PageReaders::Local);
    for target in [
        "/report",
        "/data/status",
        "/data/paths",
        "/data/path?name=192.0.2.1",
    ] {
        let answer = asked(&pages, target);
        assert_eq!(answer.status, "503 Service Unavailable", "{target}");
        assert!(
            answer.body.contains("no tcpilot answers at /nowhere/sock"),
            "{}",
            answer.body
        );
    }
    assert_eq!(
        asked(&pages, "/").status,
        "200 OK",
        "the page itself can still say so"
    );
}

/// A daemon that knows these addresses, and counts its questions.
struct Known {
    dir: tempfile::TempDir,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Known {
    fn new(names: &[&str]) -> Known {
        use std::io::{BufRead, BufReader, Write};
        let dir = tempfile::tempdir().unwrap();
        let listener = std::os::unix::net::UnixListener::bind(dir.path().join("sock")).unwrap();
        let view = |name: &&str| AddressView {
            path: (*name).to_owned(),
            ..AddressView::default()
        };
        let busiest = Busiest {
            addresses: names.iter().map(view).collect(),
            paths: names.len() as u64,
        };
        let explanation = Explanation {
            stopped: None,
            address: "192.0.2.1".to_owned(),
            paths: Vec::new(),
            flows: Vec::new(),
        };
        let answers = [
            serde_json::to_value(busiest).unwrap(),
            serde_json::to_value(explanation).unwrap(),
        ];
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut line = String::new();
                let _ = BufReader::new(&stream).read_line(&mut line);
                let number = usize::from(line.contains("explain"));
                noted.lock().unwrap().push(line);
                thread::sleep(Duration::from_millis(5));
                let _ = writeln!(&stream, "{}", serde_json::json!({ "ok": answers[number] }));
            }
        });
        Known { dir, asked }
    }

    fn pages(&self) -> Pages {
        Pages::new(&self.dir.path().join("sock"), PageReaders::Local)
    }

    fn explained(&self) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|line| line.contains("explain")).count()
    }
}

#[test]
fn only_shown_addresses_have_a_story() {
    let daemon = Known::new(&["192.0.2.1", "192.0.2.2 @blue"]);
    let pages = daemon.pages();
    assert_eq!(
        asked(&pages, "/data/path?name=192.0.2.9").status,
        "404 Not Found"
    );
    assert_eq!(asked(&pages, "/data/path?name=%zz").status, "404 Not Found");
    assert_eq!(asked(&pages, "/data/path").status, "404 Not Found");
    assert_eq!(daemon.explained(), 0);
    let story = asked(&pages, "/data/path?name=192.0.2.2%20%40blue");
    assert_eq!((story.status, story.content_type), ("200 OK", JSON));
    assert!(story.body.contains("\"schema\": 1"), "{}", story.body);
    let plot = asked(&pages, "/data/path.svg?name=192.0.2.2%20%40blue");
    assert!(plot.body.starts_with("<svg xmlns="), "{}", plot.body);
    assert_eq!(
        daemon.explained(),
        1,
        "a story and its plot are one question"
    );
}

#[test]
fn flood_of_stories_leaves_the_daemon_time() {
    let names: Vec<String> = (0..200).map(|host| format!("192.0.2.{host}")).collect();
    let daemon = Known::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let pages = daemon.pages();
    let begun = Instant::now();
    let mut busy = 0;
    for name in names.iter().cycle().take(20_000) {
        let answer = asked(&pages, &format!("/data/path?name={name}"));
        busy += usize::from(answer.fields.contains("Retry-After: 1"));
    }
    // A question takes 5 ms and rests for 20.
    let most = begun.elapsed().as_millis() / 25 + 2;
    let explained = daemon.explained();
    assert!(
        explained as u128 <= most && explained > 0,
        "{explained} of at most {most}"
    );
    assert!(busy > 0);
    assert!(pages.stories.lock().unwrap().kept.len() <= STORIES);
}

#[test]
fn percent_signs_are_decoded_strictly() {
    assert_eq!(
        decoded("192.0.2.0%2F24%20%40blue").as_deref(),
        Some("192.0.2.0/24 @blue")
    );
    for wrong in ["%", "%4", "%+1", "%zz", "%ff"] {
        assert_eq!(decoded(wrong), None, "{wrong}");
    }
}
