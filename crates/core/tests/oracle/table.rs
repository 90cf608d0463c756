//! The published table, compared as a whole with its stored copy.

use std::{env, fmt::Write as _, fs, path::Path};

use super::{Law, Point, loss};

pub struct Row<'a> {
    pub law: &'a Law,
    pub error: f64,
    pub at: Point,
}

const HEAD: &str = "# Congestion controls: the oracle

<!-- written by: TCPILOT_RENEW=1 cargo test -p tcpilot-core --test oracle -->

Each algorithm runs beside its law in floating point: windows of 2 to 100,000 packets, 1 to 64 packets per
acknowledgement, RTTs of 50 µs to 600 ms. The references are written from the RFCs and papers, and share no code
with `bpf/cc`. An error is the largest difference beyond one packet of rounding, in percent of the law's change.

| algorithm | what | law | largest error | there: window, packets per acknowledgement, RTT |
|---|---|---|---|---|
";

const TAIL: &str = "
Errors of 0 are below 0.005 %. The others come from counting in whole packets: a law is asked for the window that the
algorithm has, which is a packet off at times.

## Packets, and not acknowledgements

Offloads let an acknowledgement stand for up to 44 packets. Linux's modules of hstcp and hybla count
acknowledgements, and bic's multiplies by the packets of each. Packets gained in a round at a window of 1,000, here and
counted in the modules' way (bic far below its maximum, hybla at 100 ms):

| packets per acknowledgement | 1 | 2 | 22 | 44 |
|---|---|---|---|---|
";

fn text(rows: &[Row]) -> String {
    let mut text = String::from(HEAD);
    for Row { law, error, at } in rows {
        let percent = format!("{:.2} %", error * 100.0);
        let (error, place) = if percent == "0.00 %" {
            ("0".to_owned(), String::new())
        } else {
            let place = format!("{}, {}, {} ms", at.window, at.acked, at.rtt_s() * 1e3);
            (percent, place)
        };
        writeln!(
            text,
            "| {} | {} | {} | {error} | {place} |",
            law.name, law.what, law.source
        )
        .unwrap();
    }
    text.push_str(TAIL);
    for (name, gained) in loss::by_packets_per_ack() {
        let cells: Vec<String> = gained.iter().map(|g| format!("{g:.1}")).collect();
        writeln!(text, "| {name} | {} |", cells.join(" | ")).unwrap();
    }
    text
}

pub fn compare(rows: &[Row]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/measured/congestion-controls-oracle.md");
    let text = text(rows);
    if env::var_os("TCPILOT_RENEW").is_some() {
        fs::write(&path, text).unwrap();
        return;
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == text,
        "docs/measured/congestion-controls-oracle.md is stale: \
         TCPILOT_RENEW=1 cargo test -p tcpilot-core --test oracle renews it"
    );
}
