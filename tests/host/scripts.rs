//! Rules of RFCs that every congestion control has to keep, one by one: a peer of the test's own loses, acknowledges and
//! marks the packets. The kernel's reno and cubic go through the same scripts as ours.

use tcpilot_tests::{
    Bpffs, Place,
    scripted::{Connection, ECE, Scripted, State, With},
};

/// Kept in slow start by a count of acknowledged packets, and by nothing else.
const BY_COUNT: [&str; 14] = [
    "reno",
    "cubic",
    "tp_reno",
    "tp_cubic",
    "tp_hstcp",
    "tp_bic",
    "tp_htcp",
    "tp_hybla",
    "tp_westwood",
    "tp_illinois",
    "tp_yeah",
    "tp_lia",
    "tp_olia",
    "tp_balia",
];
/// Those that the loss of a packet brings from 10 packets to a known window: half of it (RFC 5681, section 3.1; RFC 3649
/// below 38 packets; the papers of bic and illinois below 14 and 15), or 0.7 of it (RFC 9438, section 4.6).
const BY_LOSS: [(&str, u32); 10] = [
    ("reno", 5),
    ("cubic", 7),
    ("tp_reno", 5),
    ("tp_cubic", 7),
    ("tp_hstcp", 5),
    ("tp_bic", 5),
    ("tp_illinois", 5),
    ("tp_lia", 5),
    ("tp_olia", 5),
    ("tp_balia", 5),
];
/// The others that keep their threshold until the next loss: unlike westwood, which sets it anew after each recovery.
const OTHERS: [&str; 6] = [
    "tp_htcp",
    "tp_hybla",
    "tp_yeah",
    "tp_veno",
    "tp_vegas",
    "tp_wvegas",
];
/// The rest. The kernel's bbr may be a module.
const REST: [&str; 6] = [
    "tp_westwood",
    "tp_dctcp",
    "tp_prague",
    "tp_lola",
    "tp_bbr",
    "tp_bbr3",
];
/// Linux's (RFC 6928).
const INITIAL_WINDOW: u32 = 10;
/// A threshold that was never set.
const UNSET: u32 = 0x7fff_ffff;

/// Whatever is not as it should be.
type Outcome = Result<(), String>;

/// Runs a script with each algorithm. A kernel may skip a callback (docs/measured/congestion-controls.md), but not each time,
/// so a script has four attempts.
fn with_each<'a>(
    algorithms: impl IntoIterator<Item = &'a str>,
    script: impl Fn(&Scripted, &str) -> Outcome,
) {
    let bpffs = Bpffs::new();
    let algorithms: Vec<&str> = algorithms.into_iter().collect();
    let ours = algorithms
        .iter()
        .filter_map(|name| name.strip_prefix("tp_"));
    let mut load = Place::here().command("tcpilot");
    load.args(["cc", "load"]).args(ours);
    let loaded = load.arg("--bpffs").arg(bpffs.path()).output().unwrap();
    let error = String::from_utf8_lossy(&loaded.stderr);
    assert!(loaded.status.success(), "{error}");
    let peer = Scripted::new();
    let mut wrong = vec![];
    for name in algorithms {
        let mut outcomes = (0..4).map(|_| script(&peer, name));
        if outcomes.all(|outcome| outcome.is_err()) {
            wrong.push(format!("{name}: {}", script(&peer, name).unwrap_err()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn expect(what: &str, is_so: bool, state: &State) -> Outcome {
    if is_so {
        return Ok(());
    }
    Err(format!("not {what}: {state:?}"))
}

/// A connection with data enough, and its first window under way.
fn begun<'a>(peer: &'a Scripted, name: &str, has_ecn: bool) -> Result<Connection<'a>, String> {
    let mut connection = peer.connect(name, has_ecn);
    connection.write(400);
    let sent = connection.packets(INITIAL_WINDOW);
    let state = connection.state();
    expect("ten packets", sent == (0..10).collect::<Vec<_>>(), &state)?;
    expect("a window of ten", state.cwnd == INITIAL_WINDOW, &state)?;
    Ok(connection)
}

/// Acknowledges what comes behind the first packet, until that is sent again; returns the number of packets sent.
fn lose_the_first(connection: &Connection<'_>) -> Result<u32, String> {
    let mut newest = INITIAL_WINDOW;
    for last in 2..=4 {
        let sack = [(1, last)];
        connection.acknowledge(
            0,
            With {
                sack: &sack,
                flags: 0,
            },
        );
        connection.until("acknowledged selectively", |s| {
            s.sacked + 1 == last || s.phase == 3
        })?;
        loop {
            let packet = connection.next().packet;
            if packet == 0 {
                return Ok(newest);
            }
            newest = packet + 1;
            // Each acknowledgement lets one more leave (RFC 3042).
            if last < 4 {
                break;
            }
        }
    }
    Err("the first packet was not sent again".into())
}

/// RFC 6928: ten packets at the beginning; RFC 5681, section 3.1: slow start adds what is acknowledged.
#[test]
fn slow_start_doubles_the_window_each_round() {
    with_each(BY_COUNT, |peer, name| {
        let connection = begun(peer, name, false)?;
        let (mut window, mut sent) = (INITIAL_WINDOW, INITIAL_WINDOW);
        for _ in 0..3 {
            connection.acknowledge(sent, With::default());
            connection.packets(2 * window);
            (window, sent) = (2 * window, sent + 2 * window);
            connection.until("doubled", |s| s.cwnd == window && s.unacked == window)?;
        }
        Ok(())
    });
}

/// RFC 5681, section 3.2, and RFC 6675: a packet is sent again after three later ones at the latest, the threshold is the
/// multiple of the window, and the window has it once all is acknowledged.
#[test]
fn a_lost_packet_is_sent_again_and_reduces_the_window_once() {
    let known = BY_LOSS.map(|(name, threshold)| (name, threshold..=threshold));
    let others = OTHERS.map(|name| (name, 2..=INITIAL_WINDOW));
    let all: Vec<_> = known.into_iter().chain(others).collect();
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    with_each(names, |peer, name| {
        let threshold = &all.iter().find(|(other, _)| *other == name).unwrap().1;
        let connection = begun(peer, name, false)?;
        let sent = lose_the_first(&connection)?;
        let state = connection.until("in recovery", |s| s.phase == 3)?;
        expect("the threshold", threshold.contains(&state.ssthresh), &state)?;
        connection.acknowledge(sent, With::default());
        let after = connection.until("recovered", |s| s.phase == 0)?;
        expect("one reduction", after.ssthresh == state.ssthresh, &after)?;
        // The last acknowledgement counts for the window again.
        let most = state.ssthresh + 4;
        expect(
            "the threshold's window",
            (2..=most).contains(&after.cwnd),
            &after,
        )
    });
}

/// RFC 5681, equation 4 and below it: a time-out leaves a window of one packet, and the threshold stays if the same packet
/// is lost once more; then slow start.
#[test]
fn a_time_out_leaves_one_packet_and_reduces_the_threshold_once() {
    with_each(BY_LOSS.map(|(name, _)| name), |peer, name| {
        let threshold = BY_LOSS.iter().find(|(other, _)| *other == name).unwrap().1;
        peer.set_least_time_out("200ms");
        let connection = begun(peer, name, false)?;
        for _ in 0..2 {
            let again = connection.next();
            let state = connection.until("after a time-out", |s| s.phase == 4)?;
            expect("the first packet again", again.packet == 0, &state)?;
            expect("one packet", state.cwnd == 1, &state)?;
            expect("the threshold", state.ssthresh == threshold, &state)?;
        }
        connection.acknowledge(1, With::default());
        let two = connection.packets(2);
        let state = connection.until("two packets", |s| s.cwnd == 2)?;
        expect("the next two", two == [1, 2], &state)
    });
}

/// Nothing keeps a connection from going on after a loss and a time-out in a row.
#[test]
fn every_algorithm_goes_on_after_losses() {
    let names = BY_LOSS.map(|(name, _)| name).into_iter();
    with_each(names.chain(OTHERS).chain(REST), |peer, name| {
        peer.set_least_time_out("200ms");
        let connection = begun(peer, name, true)?;
        let mut sent = lose_the_first(&connection)?;
        connection.acknowledge(sent, With::default());
        connection.until("recovered", |s| s.phase < 3)?;
        let state = connection.until("something is under way", |s| s.unacked > 0)?;
        expect("two packets", state.cwnd >= 2, &state)?;
        while connection.next().packet != sent {}
        // Nobody acknowledges it, so it comes again.
        while connection.next().packet != sent {}
        connection.until("after a time-out", |s| s.phase == 4)?;
        for _ in 0..3 {
            sent += 1;
            connection.acknowledge(sent, With::default());
            while connection.next().packet < sent {}
        }
        let state = connection.state();
        expect("a window", (2..1000).contains(&state.cwnd), &state)
    });
}

/// RFC 2883 and RFC 3708: if the receiver has a packet twice, it was not lost, and window and threshold come back.
#[test]
fn a_needless_reduction_is_undone() {
    let names = BY_LOSS.map(|(name, _)| name).into_iter().chain(OTHERS);
    with_each(names, |peer, name| {
        let connection = begun(peer, name, false)?;
        let sent = lose_the_first(&connection)?;
        connection.until("in recovery", |s| s.phase == 3)?;
        let sack = [(0, 1)];
        connection.acknowledge(
            sent,
            With {
                sack: &sack,
                flags: 0,
            },
        );
        let state = connection.until("open again", |s| s.phase == 0)?;
        expect("the former window", state.cwnd >= INITIAL_WINDOW, &state)?;
        expect("no threshold", state.ssthresh >= UNSET, &state)
    });
}

/// RFC 5681, section 3.1, and RFC 7661: an application that does not fill the window proves nothing about a larger one.
#[test]
fn an_application_that_sends_little_does_not_open_the_window() {
    let names = BY_COUNT.into_iter().chain(["tp_veno", "tp_vegas"]);
    with_each(names, |peer, name| {
        let mut connection = peer.connect(name, false);
        for round in 1..=20 {
            connection.write(2);
            connection.packets(2);
            connection.acknowledge(2 * round, With::default());
            connection.until("acknowledged", |s| s.unacked == 0)?;
        }
        let state = connection.state();
        expect("the window as before", state.cwnd == INITIAL_WINDOW, &state)
    });
}

/// RFC 3168, section 6.1.2: a mark counts as a loss, once in a round trip, and the sender says so; RFC 8257, section 3.3:
/// DCTCP begins with all packets marked, so it halves, too. However many marks come, two packets stay.
#[test]
fn marks_reduce_the_window_once_a_round_and_leave_two_packets() {
    let names = BY_LOSS.map(|(name, _)| name).into_iter();
    with_each(names.chain(OTHERS).chain(["tp_dctcp"]), |peer, name| {
        let connection = begun(peer, name, true)?;
        let marked = With {
            sack: &[],
            flags: ECE,
        };
        connection.acknowledge(1, marked);
        let first = connection.until("reduced", |s| s.phase == 2)?;
        if let Some((_, threshold)) = BY_LOSS.iter().find(|(other, _)| *other == name) {
            expect("the threshold", first.ssthresh == *threshold, &first)?;
        }
        expect("half", name != "tp_dctcp" || first.ssthresh == 5, &first)?;
        connection.acknowledge(2, marked);
        let second = connection.until("acknowledged", |s| s.acked == 2)?;
        expect("one reduction", second.ssthresh == first.ssthresh, &second)?;
        let mut newest = INITIAL_WINDOW;
        connection.acknowledge(newest, With::default());
        let told = connection.next();
        expect("the sender says so", told.has_cwr, &connection.state())?;
        newest = newest.max(told.packet + 1);
        for _ in 0..12 {
            connection.acknowledge(newest, marked);
            connection.until("acknowledged", |s| s.acked == newest)?;
            newest = newest.max(connection.next().packet + 1);
            let state = connection.state();
            expect("two packets", state.ssthresh >= 2, &state)?;
        }
        Ok(())
    });
}

/// RFC 5681, section 3.1: above the threshold a window grows by a packet in each round; RFC 9438, section 4.3: cubic
/// by 0.53 of one, as long as its curve is below that. (The kernel's cubic grew by 15 packets in these eight rounds.)
#[test]
fn above_the_threshold_a_window_grows_slowly() {
    let growth = [("reno", 8), ("tp_reno", 8), ("tp_cubic", 4)];
    with_each(growth.map(|(name, _)| name), |peer, name| {
        let packets = growth.iter().find(|(other, _)| *other == name).unwrap().1;
        let connection = begun(peer, name, false)?;
        let mut sent = lose_the_first(&connection)?;
        connection.until("in recovery", |s| s.phase == 3)?;
        connection.acknowledge(sent, With::default());
        let begin = connection.until("recovered", |s| s.phase == 0)?;
        for _ in 0..8 {
            let state = connection.until("a full window", |s| s.unacked == s.cwnd)?;
            sent += state.cwnd;
            connection.packets(state.cwnd);
            connection.acknowledge(sent, With::default());
            connection.until("acknowledged", |s| s.unacked >= s.cwnd)?;
        }
        let end = connection.state();
        let grown = end.cwnd - begin.cwnd;
        let what = format!("{packets} packets in eight rounds, {grown}");
        expect(&what, grown.abs_diff(packets) <= 2, &end)
    });
}
