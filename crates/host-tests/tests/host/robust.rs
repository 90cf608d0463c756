//! What must not stop the daemon, nor make it lose what it learned.

use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    thread,
    time::{Duration, Instant},
};

use tcpilot_host_tests::{Daemon, Lab, until};

use crate::ALWAYS_BBR;

/// Longer than an answer takes on a slow machine, shorter than a client may take.
const SOON: Duration = Duration::from_secs(6);

fn answers_soon(pilot: &Daemon) {
    let asked = Instant::now();
    assert_eq!(pilot.status()["attached"], true);
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
}

#[test]
fn a_client_that_asks_slowly_holds_nobody_up_and_a_signal_is_obeyed() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let slow = UnixStream::connect(pilot.socket()).unwrap();
    let dribble = |mut slow: UnixStream| {
        thread::spawn(move || {
            for _ in 0..200 {
                if slow.write_all(b" ").is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(100));
            }
        })
    };
    let writer = dribble(slow.try_clone().unwrap());
    let _silent: Vec<_> = (0..200)
        .map(|_| UnixStream::connect(pilot.socket()).unwrap())
        .collect();
    answers_soon(&pilot);
    let told = Instant::now();
    assert_eq!(pilot.end(libc::SIGTERM).status, Some(0));
    assert!(told.elapsed() < SOON, "{:?}", told.elapsed());
    writer.join().unwrap();
}

#[test]
fn a_client_that_reads_slowly_holds_nobody_up() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    lab.run("spread --to-prefix 10.64.0.0/14 --port 5201 --distinct 1000");
    let mut slow: Vec<UnixStream> = (0..5)
        .map(|_| {
            let mut stream = UnixStream::connect(pilot.socket()).unwrap();
            stream.write_all(b"\"paths\"\n").unwrap();
            stream
        })
        .collect();
    answers_soon(&pilot);
    // Who reads in time gets all of it.
    let mut answer = String::new();
    slow[0].read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("{\"ok\":[") && answer.ends_with("]}\n"));
    assert!(answer.len() > 300_000, "{}", answer.len());
}

#[test]
fn a_question_that_is_too_long_is_refused_at_once() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let mut stream = UnixStream::connect(pilot.socket()).unwrap();
    let part = vec![b' '; 1 << 20];
    let asked = Instant::now();
    for _ in 0..64 {
        if stream.write_all(&part).is_err() {
            break;
        }
    }
    let mut answer = [0; 9];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"{\"error\":");
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
    let resident = pilot.status()["resident_bytes"].as_u64().unwrap();
    assert!(resident < 32_000_000, "{resident}");
}

/// User and system time, in clock ticks, proc(5).
fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split(' ').collect();
    [12, 13]
        .map(|field: usize| fields[field].parse::<u64>().unwrap())
        .iter()
        .sum()
}

fn limit_files(pilot: &Daemon, most: u64) {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: 1000,
    };
    let pid = pilot.pid() as i32;
    let null = std::ptr::null_mut();
    // SAFETY: the limit is readable, and the old one is not asked for.
    let result = unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const limit, null) };
    assert_eq!(result, 0);
}

#[test]
fn without_a_free_descriptor_it_waits_and_says_so_once() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let open = fs::read_dir(format!("/proc/{}/fd", pilot.pid()))
        .unwrap()
        .count();
    limit_files(&pilot, open as u64);
    let waiting = UnixStream::connect(pilot.socket()).unwrap();
    until("it notices", || {
        pilot.log().contains("could not be taken").then_some(())
    });
    let before = cpu_ticks(pilot.pid());
    thread::sleep(Duration::from_secs(3));
    let spent = cpu_ticks(pilot.pid()) - before;
    assert!(spent < 100, "{spent} ticks in 3 s");
    assert_eq!(pilot.log().matches("could not be taken").count(), 1);
    drop(waiting);
    limit_files(&pilot, 1000);
    answers_soon(&pilot);
}
