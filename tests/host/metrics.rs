//! `run --listen` and `tcpilot metrics`, with a steering daemon.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::{fd::AsRawFd, unix::process::CommandExt},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use tcpilot_tests::{Child, Daemon, FAR, Lab, Place, Sink, binary, until};

use crate::{ALWAYS_BBR, take_over::of_another_layout};

/// Its address for scrapers, by its log; the last one if there are several.
pub fn address(pilot: &Daemon) -> String {
    until("it listens", || {
        let log = pilot.log();
        let told = log.rsplit("metrics are at http://").next()?;
        let (address, _) = told.split_once("/metrics")?;
        Some(address.to_owned())
    })
}

/// The answer to a request for this page.
pub fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn scrape_shows_daemon_figures_even_after_upgrade() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let config = "algorithms = [\"bbr\"]";
    let pilot = lab
        .spawn_pilot(Place::here(), config, &["--listen", "0"])
        .ready();
    lab.upload(FAR, 1, 1000);
    let closed = |answer: &str| answer.contains("\ntcpilot_closed_total 1.0\n");
    let answer = until("its end is counted", || {
        let answer = get(&address(&pilot), "/metrics");
        closed(&answer).then_some(answer)
    });
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"));
    for line in [
        "\ntcpilot_attached 1.0\n",
        "\ntcpilot_effect_pairs_total 0.0\n",
        "\n# EOF\n",
    ] {
        assert!(answer.contains(line), "{line} is not in {answer}");
    }
    assert!(get(&address(&pilot), "/readyz").ends_with("attached\n"));
    pilot.take_over();
    assert!(closed(&get(&address(&pilot), "/metrics")));
}

#[test]
fn a_hung_learner_is_not_ready() {
    let lab = Lab::new();
    let pilot = lab
        .spawn_pilot(Place::here(), ALWAYS_BBR, &["--listen", "0"])
        .ready();
    let stopped = Stopped::new(thread_of(pilot.pid(), "learner"));
    let answer = until("it is not ready", || {
        let answer = get(&address(&pilot), "/readyz");
        answer.starts_with("HTTP/1.1 503").then_some(answer)
    });
    assert!(
        answer.contains("the learner gives no heartbeat"),
        "{answer}"
    );
    assert!(get(&address(&pilot), "/healthz").starts_with("HTTP/1.1 200"));
    let status = pilot.status();
    let problems = status["degraded"].to_string();
    assert!(
        problems.contains("the learner does not answer"),
        "{problems}"
    );
    drop(stopped);
    until("it is ready again", || {
        get(&address(&pilot), "/readyz")
            .ends_with("attached\n")
            .then_some(())
    });
}

#[test]
fn textfile_is_replaced() {
    let lab = Lab::new();
    let pilot = lab
        .spawn_pilot(Place::here(), ALWAYS_BBR, &["--listen", "0"])
        .ready();
    let file = lab.dir.path().join("tcpilot.prom");
    fs::write(&file, "of before").unwrap();
    let mut command = Place::here().command("tcpilot");
    command.args(["metrics", "--textfile"]).arg(&file);
    assert!(
        command
            .arg("--socket")
            .arg(pilot.socket())
            .status()
            .unwrap()
            .success()
    );
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("# HELP") && text.contains("\ntcpilot_attached 1.0\n"),
        "{text}"
    );
}

#[test]
fn a_taken_port_is_tried_again_while_steering() {
    let squatter = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = squatter.local_addr().unwrap().port().to_string();
    let lab = Lab::new();
    let pilot = lab
        .spawn_pilot(Place::here(), ALWAYS_BBR, &["--listen", &port])
        .ready();
    let problem = || {
        let degraded = pilot.status()["degraded"].to_string();
        degraded.contains("tcpilot tries again each second")
    };
    assert!(problem());
    lab.upload(FAR, 1, 100_000);
    pilot.wait_closed(1);
    pilot.take_over();
    assert!(problem());
    drop(squatter);
    until("it listens", || (!problem()).then_some(()));
    assert!(get(&address(&pilot), "/readyz").ends_with("attached\n"));
    let log = pilot.log();
    let told = log.matches("cannot listen at").count();
    assert_eq!(told, 2, "once by each program: {log}");
}

/// Scrapes until told to end; returns the number of scrapes, and the answers other than metrics.
fn scrape(address: &str, is_over: &AtomicBool) -> (u32, Vec<String>) {
    let (mut count, mut lost) = (0, Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        let answer = TcpStream::connect(address).and_then(|mut stream| {
            write!(stream, "GET /metrics HTTP/1.1\r\nhost: test\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        let answer = answer.unwrap_or_else(|error| error.to_string());
        count += 1;
        if !(answer.starts_with("HTTP/1.1 200") && answer.ends_with("# EOF\n")) {
            lost.push(answer);
        }
    }
    (count, lost)
}

#[test]
fn upgrades_lose_no_scrape() {
    let lab = Lab::new();
    let mut pilot = lab
        .spawn_pilot(Place::here(), ALWAYS_BBR, &["--listen", "0"])
        .ready();
    let (address, is_over) = (address(&pilot), AtomicBool::new(false));
    let results = thread::scope(|scope| {
        let scrapers: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| scrape(&address, &is_over)))
            .collect();
        for _ in 0..3 {
            pilot.take_over();
        }
        // This one starts again from the state file.
        let output = pilot.taken_over_by(&of_another_layout(&lab));
        assert!(output.status.success(), "{output:?}");
        thread::sleep(Duration::from_millis(100));
        is_over.store(true, Ordering::Relaxed);
        let results = scrapers.into_iter().map(|one| one.join().unwrap());
        results.collect::<Vec<_>>()
    });
    for (count, lost) in results {
        assert!(count > 10 && lost.is_empty(), "{count}: {lost:?}");
    }
    pilot.signal(libc::SIGTERM);
    pilot.ended();
}

/// As systemd starts the service of a socket unit, sd_listen_fds(3).
#[test]
fn service_managers_socket_serves_even_after_upgrade() {
    const FIRST: i32 = 3; // SD_LISTEN_FDS_START
    let lab = Lab::new();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let (dir, cgroup) = (lab.dir.path().display(), lab.cgroup.path().display());
    let mut command = Command::new("sh");
    let line = format!(
        "export LISTEN_PID=$$ LISTEN_FDS=1; exec {} run --cgroup {cgroup} --state {dir}/state.db --socket {dir}/control.sock",
        binary("tcpilot").display()
    );
    command.args(["-c", &line]).stdin(Stdio::null());
    let pass_on = move || {
        // SAFETY: plain system calls about this process. exec leaves the copy open.
        match unsafe {
            libc::dup2(socket.as_raw_fd(), FIRST) | libc::fcntl(FIRST, libc::F_SETFD, 0)
        } {
            FIRST => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(pass_on) };
    let mut daemon = Child(command.spawn().unwrap());
    drop(command); // and with it the socket: the daemon's is the only one left
    assert!(get(&address, "/readyz").ends_with("attached\n"));
    let mut upgrade = Place::here().command("tcpilot");
    upgrade.args(["run", "--upgrade", "--socket"]);
    upgrade.arg(lab.dir.path().join("control.sock"));
    assert!(upgrade.status().unwrap().success());
    assert!(get(&address, "/readyz").ends_with("attached\n"));
    daemon.signal(libc::SIGTERM);
    assert!(daemon.wait().success());
    assert!(TcpStream::connect(&address).is_err());
}

/// Bytes carried by the devices of a daemon's namespace, and by steered connections.
fn traffic(pilot: &Daemon) -> Option<[u64; 3]> {
    let traffic = &pilot.status()["traffic"];
    let count = |field: &str| traffic[field].as_u64();
    Some([
        count("sent_bytes")?,
        count("received_bytes")?,
        count("steered_bytes")?,
    ])
}

/// Sends 3 MB until acknowledged, half of them by a connection left open, and receives 2 MB.
#[test]
fn the_status_says_how_much_is_steered() {
    const MB: u64 = 1_000_000;
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    // The daemon counts the devices of its own namespace.
    let place = Place::outside(&lab.net.near);
    let pilot = lab.spawn_pilot(place, ALWAYS_BBR, &[]).ready();
    // The daemon's first look comes before anything is sent, and the second sees the data.
    lab.upload(FAR, 1, 2);
    let before = until("it has looked twice", || traffic(&pilot));
    let mut open = lab.actor();
    open.tell(&format!("connect {FAR}:5300"));
    open.tell("send 1500000");
    lab.upload(FAR, 1, 1_500_000);
    lab.run(&format!(
        "bulk --to {FAR}:5201 --bytes 2M --count 1 --reverse"
    ));
    let [sent, received, steered] = until("all of it is counted", || {
        let now = traffic(&pilot)?;
        let since = [0, 1, 2].map(|i| now[i] - before[i]);
        (since[2] >= 3 * MB && since[1] >= 2 * MB).then_some(since)
    });
    assert!(steered < 3 * MB + MB / 10, "{steered}");
    assert!((3 * MB..5 * MB).contains(&sent), "{sent}");
    assert!((2 * MB..4 * MB).contains(&received), "{received}");
    let status = pilot.status();
    let share = status["traffic"]["share"].as_f64().unwrap();
    assert!((0.3..0.75).contains(&share), "{share}");
    assert_eq!(status["traffic"]["devices"], serde_json::json!(["eth0"]));
}

/// The id of a process's thread with this name.
fn thread_of(pid: u32, name: &str) -> i32 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let ids = tasks.map(|task| task.unwrap().file_name().into_string().unwrap());
    let is_it = |id: &String| {
        let comm = fs::read_to_string(format!("/proc/{pid}/task/{id}/comm"));
        comm.is_ok_and(|comm| comm.trim_end() == name)
    };
    ids.into_iter().find(is_it).unwrap().parse().unwrap()
}

/// Stops one thread of a process as long as this lives. Only ptrace(2) can stop a single thread.
struct Stopped(i32);

impl Stopped {
    fn new(thread: i32) -> Stopped {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: plain system calls about a thread of our child.
        unsafe {
            assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, thread, none, none), 0);
            assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, thread, none, none), 0);
            let mut status = 0;
            assert_eq!(libc::waitpid(thread, &raw mut status, libc::__WALL), thread);
        }
        Stopped(thread)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: as above.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, none, none) };
    }
}

#[test]
fn stale_distributions_are_logged_and_counted_until_heartbeat() {
    let lab = Lab::new();
    let config = "algorithms = [\"bbr\"]";
    let pilot = lab
        .spawn_pilot(Place::here(), config, &["--listen", "0"])
        .ready();
    let dists = || {
        let status = pilot.try_ask("status").ok()?;
        Some((
            status["choice_dists_valid"].as_bool()?,
            status["choice_dists_expired"].as_u64()?,
        ))
    };
    assert_eq!(dists(), Some((true, 0)));
    let stopped = Stopped::new(thread_of(pilot.pid(), "learner"));
    until("they are stale", || (dists()? == (false, 1)).then_some(()));
    until("it is told", || {
        pilot
            .log()
            .contains("choice distributions are stale, and new")
            .then_some(())
    });
    let begun = std::time::Instant::now();
    let answer = get(&address(&pilot), "/metrics");
    assert!(answer.contains("\ntcpilot_rows_valid 0.0\n"), "{answer}");
    assert!(
        begun.elapsed().as_secs() < 3,
        "nobody waits for the learner"
    );
    drop(stopped);
    until("they are valid again", || {
        (dists()? == (true, 1)).then_some(())
    });
    assert!(
        pilot.log().contains("choice distributions are valid again"),
        "{}",
        pilot.log()
    );
    assert_eq!(
        pilot
            .log()
            .matches("choice distributions are stale, and new")
            .count(),
        1
    );
}

#[test]
fn connections_are_counted_by_their_goodput() {
    let lab = Lab::new();
    let config = "algorithms = [\"bbr\"]\n[effect]\nhold_out_percent = 0";
    let pilot = lab
        .spawn_pilot(Place::here(), config, &["--listen", "0"])
        .ready();
    lab.upload(FAR, 5, 1_000_000);
    let sample = |answer: &str, name: &str| -> Option<f64> {
        let line = answer.lines().find(|line| line.starts_with(name))?;
        line.rsplit(' ').next()?.parse().ok()
    };
    let answer = until("five are counted", || {
        let answer = get(&address(&pilot), "/metrics");
        let count = sample(
            &answer,
            "tcpilot_goodput_bytes_per_second_count{policy=\"default\"",
        )?;
        (count >= 5.0).then_some(answer)
    });
    let segments = sample(&answer, "tcpilot_segments_total{").unwrap();
    assert!(segments >= 5.0 * 1e6 / 65536.0, "{segments}");
    assert!(sample(&answer, "tcpilot_learner_turn_seconds_count").unwrap() > 0.0);
    assert!(answer.contains("group=\"treated\"") && !answer.contains("group=\"control\""));
}
