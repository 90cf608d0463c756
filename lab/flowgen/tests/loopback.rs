//! Every mode against one server over loopback, with bytes and counts checked exactly.

// Clippy takes only the test functions themselves for tests, not their helpers.
#![allow(clippy::unwrap_used)]

use flowgen::abort::{self, AbortOptions, How};
use flowgen::bulk::{self, BulkOptions, ConnectionReport};
use flowgen::hold::{self, HoldOptions};
use flowgen::protocol::{Limit, REQUEST_BYTES, ReceiverReport};
use flowgen::server::{ServeOptions, Server};
use flowgen::short::{self, ShortOptions, Until};
use flowgen::spread::{self, SpreadOptions};
use flowgen::stats::mean;
use flowgen::transport::Transport;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_secs(10);

/// Starts a server that lives as long as the test's process.
fn serve(listen: &str) -> SocketAddr {
    let options = ServeOptions {
        listen: listen.parse().unwrap(),
        once: false,
        short_bytes: 128,
        mptcp: false,
        quic_paths: None,
        cc: None,
    };
    let mut server = Server::bind(options).unwrap();
    let address = server.local_address().unwrap();
    std::thread::spawn(move || server.run());
    address
}

fn bulk_options(to: SocketAddr, limit: Limit) -> BulkOptions {
    BulkOptions {
        to,
        transport: Transport::Tcp,
        paths: Vec::new(),
        limit,
        reverse: false,
        count: 1,
        parallel: 1,
        cc: None,
        bind: None,
        gap: Duration::ZERO,
        wait: WAIT,
    }
}

fn run_bulk(options: &BulkOptions) -> (Vec<ConnectionReport>, bulk::Summary) {
    let mut reports = Vec::new();
    let summary = bulk::run(options, |report| reports.push(report.clone()));
    (reports, summary)
}

#[test]
fn bulk_delivers_exactly_the_bytes_asked_for() {
    let to = serve("127.0.0.1:0");
    for reverse in [false, true] {
        for bytes in [0, 1, 131_072, 10_000_019] {
            let options = BulkOptions {
                reverse,
                ..bulk_options(to, Limit::Bytes(bytes))
            };
            let (reports, _) = run_bulk(&options);
            assert_eq!(reports.len(), 1);
            assert_eq!(reports[0].error, None);
            assert_eq!(reports[0].bytes, bytes);
            assert!(reports[0].cc_start.is_some());
            assert_eq!(reports[0].cc_start, reports[0].cc_end);
            assert_eq!(reports[0].remote, to);
        }
    }
}

#[test]
fn time_limit_is_kept_in_both_directions() {
    let to = serve("127.0.0.1:0");
    for reverse in [false, true] {
        let options = BulkOptions {
            reverse,
            ..bulk_options(to, Limit::Time(SECOND / 4))
        };
        let (reports, _) = run_bulk(&options);
        assert_eq!(reports[0].error, None);
        assert!(reports[0].bytes > 0 && reports[0].goodput_bits_per_s.is_some());
        let seconds = reports[0].elapsed_seconds;
        assert!((0.25..3.0).contains(&seconds), "{seconds}");
    }
}

#[test]
fn applications_own_congestion_control_is_used_and_reported() {
    let to = serve("127.0.0.1:0");
    let options = BulkOptions {
        cc: Some("reno".into()),
        ..bulk_options(to, Limit::Bytes(5000))
    };
    let (reports, _) = run_bulk(&options);
    assert_eq!(reports[0].error, None);
    assert_eq!(reports[0].cc_start.as_deref(), Some("reno"));
    assert_eq!(reports[0].cc_end.as_deref(), Some("reno"));
}

#[test]
fn unknown_congestion_control_fails_with_its_name() {
    let options = BulkOptions {
        cc: Some("no_such_cc".into()),
        ..bulk_options("127.0.0.1:1".parse().unwrap(), Limit::Bytes(1))
    };
    let (reports, summary) = run_bulk(&options);
    assert!(reports[0].error.as_ref().unwrap().contains("no_such_cc"));
    assert_eq!(summary.errors, 1);
}

#[test]
fn every_connection_in_series_is_reported_and_summed() {
    let to = serve("[::]:0");
    let to = SocketAddr::new("127.0.0.1".parse().unwrap(), to.port());
    let options = BulkOptions {
        count: 30,
        parallel: 3,
        ..bulk_options(to, Limit::Bytes(2_000_000))
    };
    let (reports, summary) = run_bulk(&options);
    let mut indices: Vec<u64> = reports.iter().map(|report| report.index).collect();
    indices.sort_unstable();
    assert_eq!(indices, (1..=30).collect::<Vec<_>>());
    assert!(reports.iter().all(|report| report.bytes == 2_000_000));
    assert_eq!((summary.count, summary.errors), (30, 0));
    assert_eq!(summary.by_cc.values().sum::<u64>(), 30);
    let late = reports.iter().filter(|report| report.index >= 26);
    let goodputs: Vec<f64> = late
        .filter_map(|report| report.goodput_bits_per_s)
        .collect();
    assert_eq!(summary.mean_from_26, mean(&goodputs));
}

#[test]
fn silent_peer_is_given_up_after_the_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = BulkOptions {
        wait: SECOND / 5,
        ..bulk_options(listener.local_addr().unwrap(), Limit::Bytes(1000))
    };
    let (reports, _) = run_bulk(&options);
    assert!(reports[0].error.as_ref().unwrap().contains("report"));
    assert_eq!(reports[0].bytes, 1000, "acknowledged by the peer's kernel");
    assert_eq!(reports[0].goodput_bits_per_s, None);
}

#[test]
fn sending_stops_at_deadline_if_peer_stalls() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let peer = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        std::thread::sleep(SECOND);
        let mut all = Vec::new();
        peer.read_to_end(&mut all).unwrap();
        let seen = ReceiverReport {
            bytes: (all.len() - REQUEST_BYTES) as u64,
            first_to_last: SECOND,
            standstill: Duration::ZERO,
        };
        peer.write_all(&seen.encode()).unwrap();
        seen.bytes
    });
    let (reports, _) = run_bulk(&bulk_options(to, Limit::Time(SECOND / 5)));
    assert_eq!(reports[0].error, None);
    let bytes = peer.join().unwrap();
    assert_eq!(reports[0].bytes, bytes);
    assert_eq!(reports[0].goodput_bits_per_s, Some(bytes as f64 * 8.0));
    // What the buffers held when the deadline came, not what a second more would have brought.
    assert!(bytes < 64_000_000, "{bytes}");
}

#[test]
fn short_makes_exactly_the_connections_asked_for() {
    let to = serve("127.0.0.1:0");
    let mut options = ShortOptions {
        to,
        until: Until::Count(500),
        answer_bytes: 128,
        concurrency: 7,
        wait: WAIT,
    };
    let report = short::run(&options).unwrap();
    assert_eq!((report.connections, report.errors), (500, 0));
    assert_eq!(report.first_error, None);
    options.answer_bytes = 100;
    let report = short::run(&options).unwrap();
    assert_eq!((report.connections, report.errors), (0, 500));
    assert!(
        report
            .first_error
            .unwrap()
            .starts_with("128 bytes answered, 100 expected")
    );
}

#[test]
fn server_answers_one_byte_request_and_closes_first() {
    let mut client = TcpStream::connect(serve("127.0.0.1:0")).unwrap();
    client.write_all(b"S").unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, [0; 128]);
}

#[test]
fn foreign_clients_are_closed_others_still_served() {
    let to = serve("127.0.0.1:0");
    for foreign in [&b"GET / HTTP/1.1\r\n"[..], b"FLWG\x09", b"X"] {
        let mut client = TcpStream::connect(to).unwrap();
        client.write_all(foreign).unwrap();
        // A header that stops half way is waited for, so this side ends it.
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = client.read_to_end(&mut Vec::new());
    }
    let (reports, _) = run_bulk(&bulk_options(to, Limit::Bytes(10)));
    assert_eq!((reports[0].bytes, &reports[0].error), (10, &None));
}

#[test]
fn nobody_there_is_an_error_soon() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let options = ShortOptions {
        to: closed,
        until: Until::Time(WAIT * 60),
        answer_bytes: 128,
        concurrency: 4,
        wait: WAIT,
    };
    let report = short::run(&options).unwrap();
    assert_eq!(report.connections, 0);
    assert!(report.first_error.unwrap().contains("refused"));
}

#[test]
fn spread_visits_cold_and_hot_in_their_shares() {
    let port = serve("0.0.0.0:0").port();
    for bytes in [1, 200_000] {
        let options = SpreadOptions {
            prefix: "127.64.0.0/16".parse().unwrap(),
            port,
            distinct: 100,
            count: Some(400),
            hot: 2,
            hot_share: 0.75,
            concurrency: 8,
            bytes,
            seed: 3,
            wait: WAIT,
        };
        let report = spread::run(&options).unwrap();
        assert_eq!(report.outcome.first_error, None);
        assert_eq!(
            (report.outcome.connections, report.outcome.errors),
            (400, 0)
        );
        assert_eq!(
            (report.hot_connections, report.cold_connections),
            (300, 100)
        );
        assert_eq!(report.bytes, 400 * bytes);
        assert_eq!(report.hot.len(), 2);
    }
}

#[test]
fn held_connections_return_every_byte() {
    let to = serve("127.0.0.1:0");
    let mut options = HoldOptions {
        to,
        connections: 300,
        time: SECOND / 2,
        rate_bytes_per_s: 20.0,
        wait: WAIT,
    };
    let report = hold::run(&options).unwrap();
    assert_eq!(report.first_error, None);
    assert_eq!(
        (report.opened, report.alive_at_end, report.errors),
        (300, 300, 0)
    );
    // One byte to open, 20 bytes/s for half a second, one byte to take stock.
    assert_eq!(report.bytes, 300 * (1 + 10 + 1));
    options.rate_bytes_per_s = 0.0;
    assert_eq!(hold::run(&options).unwrap().bytes, 300 * 2);
}

#[test]
fn a_broken_held_connection_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut peers: Vec<TcpStream> = listener.incoming().take(3).map(Result::unwrap).collect();
        for peer in &mut peers {
            let mut byte = [0];
            peer.read_exact(&mut byte).unwrap();
            peer.write_all(&byte).unwrap();
        }
        peers.pop();
        std::thread::sleep(WAIT);
    });
    let options = HoldOptions {
        to,
        connections: 3,
        time: SECOND / 2,
        rate_bytes_per_s: 0.0,
        wait: SECOND / 2,
    };
    let report = hold::run(&options).unwrap();
    // One was closed; the other two no longer echo.
    assert_eq!(
        (report.opened, report.alive_at_end, report.errors),
        (3, 0, 3)
    );
    assert!(report.first_error.unwrap().contains("closed by the peer"));
}

#[test]
fn reset_reaches_the_peer_as_a_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let peer = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        peer.read_to_end(&mut Vec::new()).unwrap_err().kind()
    });
    let options = AbortOptions {
        to,
        bytes: 10_000_000,
        how: How::Reset,
        stall: Duration::ZERO,
        wait: WAIT,
    };
    assert_eq!(abort::run(&options).unwrap().bytes, 10_000_000);
    assert_eq!(peer.join().unwrap(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn server_survives_aborted_connections() {
    let to = serve("127.0.0.1:0");
    for how in [How::Reset, How::Vanish] {
        let options = AbortOptions {
            to,
            bytes: 3_000_000,
            how,
            stall: SECOND / 10,
            wait: WAIT,
        };
        assert_eq!(abort::run(&options).unwrap().bytes, 3_000_000);
    }
    let (reports, _) = run_bulk(&bulk_options(to, Limit::Bytes(10)));
    assert_eq!((reports[0].bytes, &reports[0].error), (10, &None));
}
