//! `tcpilot watch` and QUIC: packets with QUIC's headers, made by the tests for any kernel.
//! `tests/mpquic/watch.rs` has those of a real implementation.

use std::{
    net::{SocketAddr, UdpSocket},
    os::fd::AsRawFd,
    thread,
    time::Duration,
};

use crate::watch::qdisc_drops;
use tcpilot_tests::{FAR, Lab, NEAR, Place, Shape, Watching, in_netns};

const SHALLOW: &str = "tbf rate 20mbit burst 3kb limit 30000";
const V1: u32 = 1;
const V2: u32 = 0x6b33_43cf;
const SEGMENT: usize = 1200;

fn watch(lab: &Lab, more: &[&str]) -> Watching {
    Watching::start(Place::outside(&lab.net.near), "eth0", more)
}

/// A datagram that begins with a long header.
fn long(version: u32) -> Vec<u8> {
    let initial = if version == V2 { 0xd0 } else { 0xc0 };
    let mut packet = vec![initial];
    packet.extend(version.to_be_bytes());
    packet.push(8); // bytes of the connection ID
    packet.resize(SEGMENT, 7);
    packet
}

/// One with a short header.
fn short(spin: bool, bytes: usize) -> Vec<u8> {
    let mut packet = vec![0x40 | u8::from(spin) << 5];
    packet.resize(bytes, 9);
    packet
}

/// Two ends.
struct Ends {
    near: UdpSocket,
    far: UdpSocket,
    to: String,
}

impl Ends {
    fn new(lab: &Lab, port: u16) -> Ends {
        let bound = |netns, address: String| in_netns(netns, || UdpSocket::bind(address).unwrap());
        let ends = Ends {
            near: bound(&lab.net.near, format!("{NEAR}:0")),
            far: bound(&lab.net.far, format!("{FAR}:{port}")),
            to: format!("{FAR}:{port}"),
        };
        ends.near.connect(&ends.to).unwrap();
        ends.far
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        ends
    }

    fn client(&self) -> SocketAddr {
        self.near.local_addr().unwrap()
    }

    /// The far end gets what there is.
    fn take(&self) {
        let mut bytes = [0; 2000];
        self.far.set_nonblocking(true).unwrap();
        while self.far.recv(&mut bytes).is_ok() {}
        self.far.set_nonblocking(false).unwrap();
    }

    fn answer(&self, packet: &[u8]) {
        self.far.send_to(packet, self.client()).unwrap();
    }

    fn handshake(&self, version: u32) {
        self.near.send(&long(version)).unwrap();
        let mut bytes = [0; 2000];
        self.far.recv(&mut bytes).unwrap();
        self.answer(&long(version));
        thread::sleep(Duration::from_millis(5));
        self.near.send(&short(false, 60)).unwrap();
        self.answer(&short(false, 40));
    }

    /// So many bursts of data, each answered.
    fn send(&self, bursts: usize, packets: usize) {
        for burst in 0..bursts {
            for _ in 0..packets {
                // A full queue of the device says so.
                let _ = self.near.send(&short(false, SEGMENT));
            }
            thread::sleep(Duration::from_millis(10));
            self.take();
            self.answer(&short(burst % 2 == 0, 40));
        }
    }
}

#[test]
fn quic_is_found_on_any_port() {
    let lab = Lab::new();
    lab.net.shape(Shape::Of(SHALLOW));
    let watching = watch(&lab, &[]);
    for (port, version) in [(4711, V1), (8443, V2)] {
        let ends = Ends::new(&lab, port);
        ends.handshake(version);
        ends.send(1, 12); // proved, and nothing is dropped before
        ends.send(1, 1);
        let before = qdisc_drops(&lab);
        ends.send(80, 60);
        let dropped = qdisc_drops(&lab) - before;
        let flow = watching.until(&ends.to, |look| {
            let flow = look.to(&ends.to)?;
            (flow["rate"] == 0).then(|| flow.clone())
        });
        assert_eq!(
            (&flow["protocol"], &flow["handshake"]),
            (&"quic".into(), &true.into())
        );
        assert!(flow["rounds"].as_u64().unwrap() > 10, "{flow}");
        assert!(flow["queue_us"].is_null() || flow["queue_us"].as_u64().unwrap() < 1_000_000);
        let drops = flow["drops"].as_u64().unwrap();
        assert!(dropped > 500, "{dropped}");
        // A busy host skips programs at some events.
        assert!(
            drops.abs_diff(dropped) <= 2 + dropped / 50,
            "{drops} of {dropped}: {flow}"
        );
        let least = flow["min_rtt_us"].as_u64().unwrap();
        assert!(
            (1000..1_000_000).contains(&least),
            "the pause of the handshake: {least}"
        );
    }
}

#[test]
fn other_udp_takes_no_table_entry() {
    let lab = Lab::new();
    let watching = watch(&lab, &[]);
    let others = [
        short(false, SEGMENT),
        long(0x0a0a_0a0a),
        long(V1)[..1199].to_vec(),
        vec![1; 500],
    ];
    let ends: Vec<Ends> = (0..others.len() as u16)
        .map(|i| Ends::new(&lab, 6000 + i))
        .collect();
    for _ in 0..50 {
        for (one, packet) in ends.iter().zip(&others) {
            one.near.send(packet).unwrap();
            one.answer(packet);
        }
        thread::sleep(Duration::from_millis(2));
    }
    let quic = Ends::new(&lab, 6100);
    quic.handshake(V1);
    quic.send(20, 4);
    let look = watching.until("QUIC is there", |look| {
        look.to(&quic.to).map(|_| look.clone())
    });
    assert_eq!(look.flows.len(), 1, "{look:?}");
    assert!(look.total("unproved_packets") >= 200);
}

#[test]
fn initial_packet_floods_evict_no_flow_or_handshake() {
    let lab = Lab::new();
    // The flood takes a second: a handshake without an answer for three has no place for itself.
    lab.net
        .shape(Shape::Of("tbf rate 200mbit burst 64kb latency 50ms"));
    let watching = watch(&lab, &["--flows", "64"]);
    let (old, young) = (Ends::new(&lab, 6200), Ends::new(&lab, 6201));
    old.handshake(V1);
    old.send(20, 4);
    watching.until("it is there", |look| look.to(&old.to).map(|_| ()));
    young.handshake(V1);
    let flood = in_netns(&lab.net.near, || {
        UdpSocket::bind(format!("{NEAR}:0")).unwrap()
    });
    for port in 10_000..22_000 {
        let _ = flood.send_to(&long(V1), (FAR, port));
    }
    young.send(20, 4);
    old.send(4, 4);
    let look = watching.until("both are there", |look| {
        look.to(&young.to)
            .and(look.to(&old.to))
            .map(|_| look.clone())
    });
    assert_eq!(look.flows.len(), 2, "{look:?}");
}

#[test]
fn udp_super_packets_count_as_their_segments() {
    const UDP_SEGMENT: libc::c_int = 103;
    let lab = Lab::new();
    let watching = watch(&lab, &[]);
    let ends = Ends::new(&lab, 6300);
    ends.handshake(V1);
    ends.send(10, 4);
    let before = watching.until("it is there", |look| {
        look.to(&ends.to).map(|_| look.clone())
    });
    let size = SEGMENT as libc::c_int;
    // SAFETY: a plain system call; the value outlives it.
    let result = unsafe {
        libc::setsockopt(
            ends.near.as_raw_fd(),
            libc::IPPROTO_UDP,
            UDP_SEGMENT,
            std::ptr::from_ref(&size).cast(),
            size_of_val(&size) as u32,
        )
    };
    assert_eq!(result, 0);
    for _ in 0..50 {
        ends.near.send(&short(false, SEGMENT * 10)).unwrap();
        ends.take();
        ends.answer(&short(false, 40));
    }
    let sent = |look: &tcpilot_tests::Look| look.total("in_packets") - before.total("in_packets");
    let look = watching.until("500 packets more", |look| {
        (sent(look) >= 490).then(|| look.clone())
    });
    assert!(sent(&look) <= 510, "{}", sent(&look));
    let bytes = |look: &tcpilot_tests::Look| look.to(&ends.to).unwrap()["bytes"].as_u64().unwrap();
    let each = (bytes(&look) - bytes(&before)) / sent(&look);
    assert!((1200..1260).contains(&each), "{each}");
}
