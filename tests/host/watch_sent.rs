//! What `tcpilot watch` writes into packets, and sends itself: marks and IPFIX.

use std::{collections::HashMap, net::UdpSocket, time::Duration};

use tcpilot_tests::{
    FAR, Lab, PORT, Place, Running, Tap, Watching, in_netns, is_loaded, programs_of, until,
};

fn near(lab: &Lab) -> Place<'_> {
    Place::outside(&lab.net.near)
}

/// Programs at a device's egress by links, which are gone with their process: kernel 6.6.
pub fn has_tcx() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|n| n.parse().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(6))
}

const EVERY_GROUP: [&str; 7] = [
    "ant",
    "mouse",
    "loss",
    "delay",
    "loss-delay",
    "model",
    "unknown",
];

fn marks(of: &str) -> String {
    EVERY_GROUP.map(|group| format!("{group}={of}")).join(",")
}

/// A kernel without these links refuses marks, with a remedy.
fn assert_refused(lab: &Lab) {
    let mut command = near(lab).command("tcpilot");
    let output = command
        .args(["watch", "eth0", "--mark", "loss=3"])
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(error.contains("--mark needs kernel 6.6"), "{error}");
}

/// Waits until more than a hundred packets have passed.
fn pass(tap: &Tap, what: &str) {
    let mut packets = 0;
    until(what, || {
        packets += tap.drain();
        (packets > 100).then_some(())
    });
}

#[test]
fn marking_ends_with_the_process() {
    let lab = Lab::new();
    if !has_tcx() {
        return assert_refused(&lab);
    }
    let to = format!("{FAR}:{PORT}");
    let _flow = lab.start(&format!("bulk --to {to} --seconds 600"));
    let (marked, all) = (
        Tap::of_mark(&lab.net.near, "eth0", 0x31),
        Tap::of_mark(&lab.net.near, "eth0", 0),
    );
    let mut watching = Watching::start(near(&lab), "eth0", &["--mark", &marks("0x31/0xff")]);
    pass(&marked, "packets of the flow are marked");
    let programs = programs_of(watching.child.0.id());
    watching.child.signal(libc::SIGKILL);
    watching.child.wait();
    until("its programs are gone", || {
        (!programs.iter().any(|id| is_loaded(*id))).then_some(())
    });
    // Packets marked before may still leave the queue.
    until("the queue has emptied", || {
        all.drain();
        (marked.drain() == 0 && all.next_within(Duration::from_secs(1)).is_some()).then_some(())
    });
    pass(&all, "packets go on");
    assert_eq!(marked.drain(), 0, "and none is marked");
}

#[test]
fn groups_without_a_mark_are_left_alone() {
    let lab = Lab::new();
    if !has_tcx() {
        return assert_refused(&lab);
    }
    let to = format!("{FAR}:{PORT}");
    let _flow = lab.start(&format!("bulk --to {to} --seconds 600"));
    let watching = Watching::start(near(&lab), "eth0", &["--mark", "udp=5"]);
    let (marked, all) = (
        Tap::of_mark(&lab.net.near, "eth0", 5),
        Tap::of_mark(&lab.net.near, "eth0", 0),
    );
    watching.until("it is shown", |look| look.to(&to).map(|_| ()));
    pass(&all, "packets pass");
    assert_eq!(marked.drain(), 0);
}

/// The DSCP of a packet of TCP from the near end, from its link header on.
fn dscp(packet: &[u8]) -> Option<u8> {
    match packet.get(12..14)? {
        [0x08, 0x00] => Some(packet.get(15)? >> 2),
        [0x86, 0xdd] => Some((packet.get(14)? & 0xf) << 2 | packet.get(15)? >> 6),
        _ => None,
    }
}

/// The sum of the 16-bit words of an IPv4 header is all ones if its checksum is right (RFC 791).
fn has_right_checksum(packet: &[u8]) -> bool {
    let words = packet[14..34].chunks(2);
    let sum: u32 = words.map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    (sum & 0xffff) + (sum >> 16) == 0xffff
}

#[test]
fn dscp_arrives_with_correct_checksums() {
    let lab = Lab::new();
    if !has_tcx() {
        return assert_refused(&lab);
    }
    let _watching = Watching::start(near(&lab), "eth0", &["--mark", &marks("dscp:af11")]);
    for to in [format!("{FAR}:{PORT}"), format!("[fd77::2]:{PORT}")] {
        let tap = Tap::new(&lab.net.far, "eth0");
        let _flow = lab.start(&format!("bulk --to {to} --seconds 600"));
        let mut found = 0;
        until("its data has the DSCP", || {
            while let Some(packet) = tap.next_within(Duration::ZERO) {
                if packet.len() > 500 && dscp(&packet) == Some(10) {
                    assert!(packet[12..14] != [8, 0] || has_right_checksum(&packet));
                    found += 1;
                }
            }
            (found > 50).then_some(())
        });
    }
}

/// The fields of a record, by enterprise and number.
type Record = HashMap<(u32, u16), Vec<u8>>;

/// Numbers, big-endian, from the start of what is left.
fn take(bytes: &mut &[u8], count: usize) -> Vec<u8> {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken.to_vec()
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// A collector as RFC 7011 describes it: it knows only the templates it receives.
#[derive(Default)]
struct Collector {
    templates: HashMap<u64, Vec<(u32, u16, u16)>>,
    records: Vec<Record>,
}

impl Collector {
    fn message(&mut self, mut bytes: &[u8]) {
        assert_eq!(number(&take(&mut bytes, 2)), 10, "the version");
        assert_eq!(number(&take(&mut bytes, 2)) as usize, bytes.len() + 4);
        take(&mut bytes, 4);
        assert_eq!(
            number(&take(&mut bytes, 4)) as usize,
            self.records.len(),
            "records before"
        );
        take(&mut bytes, 4);
        while !bytes.is_empty() {
            let id = number(&take(&mut bytes, 2));
            let length = number(&take(&mut bytes, 2)) as usize;
            let body = take(&mut bytes, length - 4);
            match id {
                2 => self.templates_of(&body),
                id => self.records_of(id, &body),
            }
        }
    }

    fn templates_of(&mut self, mut body: &[u8]) {
        while !body.is_empty() {
            let id = number(&take(&mut body, 2));
            let count = number(&take(&mut body, 2));
            let field = |_| {
                let name = number(&take(&mut body, 2)) as u16;
                let length = number(&take(&mut body, 2)) as u16;
                let enterprise = match name & 0x8000 {
                    0 => 0,
                    _ => number(&take(&mut body, 4)) as u32,
                };
                (enterprise, name & 0x7fff, length)
            };
            let fields = (0..count).map(field).collect();
            self.templates.insert(id, fields);
        }
    }

    fn records_of(&mut self, id: u64, mut body: &[u8]) {
        let fields = &self.templates[&id];
        while !body.is_empty() {
            let mut record = Record::new();
            for (enterprise, name, length) in fields {
                let length = match length {
                    0xffff => number(&take(&mut body, 1)) as usize,
                    fixed => usize::from(*fixed),
                };
                record.insert((*enterprise, *name), take(&mut body, length));
            }
            self.records.push(record);
        }
    }
}

#[test]
fn collectors_get_flows_with_bytes_and_group() {
    const OURS: u32 = 32473;
    let lab = Lab::new();
    lab.net.near.ip("link set lo up");
    let socket = in_netns(&lab.net.near, || UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = socket.local_addr().unwrap().to_string();
    let _flows: Vec<Running> = [format!("{FAR}:{PORT}"), format!("[fd77::2]:{PORT}")]
        .map(|to| lab.start(&format!("bulk --to {to} --seconds 600")))
        .into();
    let mut command = near(&lab).command("tcpilot");
    command.args([
        "watch", "eth0", "--ipfix", &address, "--once", "--json", "--for", "6",
    ]);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let shown = text
        .lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
    let shown: Vec<_> = shown.filter(|line| line["type"] == "flow").collect();
    assert!(shown.len() >= 2, "{text}");
    let mut collector = Collector::default();
    socket.set_nonblocking(true).unwrap();
    let mut bytes = [0; 65_536];
    while let Ok(count) = socket.recv(&mut bytes) {
        assert!(count <= 1232, "it is no fragment");
        collector.message(&bytes[..count]);
    }
    assert_eq!(collector.records.len(), shown.len());
    for flow in shown {
        let id = flow["id"].as_u64().unwrap();
        let of_flow = |r: &&Record| number(&r[&(0, 148)]) == id;
        let record = collector.records.iter().find(of_flow).unwrap();
        assert_eq!(number(&record[&(0, 1)]), flow["bytes"].as_u64().unwrap());
        assert_eq!(number(&record[&(0, 2)]), flow["packets"].as_u64().unwrap());
        assert_eq!(record[&(0, 82)], b"eth0");
        assert_eq!(
            record[&(OURS, 1)],
            flow["group"].as_str().unwrap().as_bytes()
        );
        let name = flow["algorithm"].as_str().unwrap_or_default();
        assert_eq!(record[&(OURS, 2)], name.as_bytes());
        let port = number(&record[&(0, 11)]);
        assert_eq!((port, number(&record[&(0, 4)])), (u64::from(PORT), 6));
        let (start, end) = (number(&record[&(0, 152)]), number(&record[&(0, 153)]));
        assert!(start <= end && end - start < 60_000, "{start} to {end}");
        let is_ipv4 = flow["flow"].as_str().unwrap().starts_with("10.77.0.1:");
        assert_eq!(is_ipv4, record.contains_key(&(0, 8)));
        assert_eq!(!is_ipv4, record.contains_key(&(0, 27)));
    }
}
