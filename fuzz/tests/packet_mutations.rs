//! The watch's parsers, with changed bytes of packets of many kinds: TCP and QUIC over IPv4 and IPv6, behind tags and
//! tunnels. No packet may end the program, nor give a flow more than its bytes can.
//!
//!     COUNT=100000000 cargo test -p tcpilot-fuzz --test packet_mutations -- --nocapture
//!
//! Not with `--release`: only a debug build of the C ends at undefined behaviour.
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::{env, fs, path::Path};

use tcpilot_fuzz::{
    mutate::mutate,
    watch::{Device, LINK_TYPES, each_packet},
};
use tcpilot_random::Random;

const SEED: u64 = 8301;
const ETHERNET: i32 = 1;
const MACS: usize = 12;
/// An Ethernet header, and an IPv4 header without options.
const LINK: usize = 14;
const IPV4: usize = 20;
const LONGEST: usize = 512;
/// Packets of one device, before another takes its place: its flows stay few, so that changed packets meet them.
const OF_A_DEVICE: usize = 10_000;

/// The packets of an upload over IPv4, from the inputs of the fuzz target `packets`.
fn upload() -> Vec<Vec<u8>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/packets/upload");
    let mut packets = Vec::new();
    each_packet(
        &fs::read(file).expect("it is in the tree"),
        |_, _, _, bytes| {
            packets.push(bytes.to_vec());
        },
    );
    packets
}

/// With something between the addresses of Ethernet and the type.
fn tagged(packet: &[u8], tag: &[u8]) -> Vec<u8> {
    [&packet[..MACS], tag, &packet[MACS..]].concat()
}

/// With something else in place of the type of Ethernet.
fn typed(packet: &[u8], head: &[u8]) -> Vec<u8> {
    [&packet[..MACS], head, &packet[LINK..]].concat()
}

fn ipv6(packet: &[u8], next: u8, before: &[u8]) -> Vec<u8> {
    let payload = &packet[LINK + IPV4..];
    let length = (before.len() + payload.len()) as u16;
    let address = |last| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let head = [0x86, 0xdd, 0x60, 0, 0, 0];
    let (from, to) = match packet[LINK + 12..LINK + IPV4] {
        [.., one, _, _, _, other] => (address(one), address(other)),
        _ => (address(1), address(2)),
    };
    let parts: [&[u8]; 7] = [
        &head,
        &length.to_be_bytes(),
        &[next, 64],
        &from,
        &to,
        before,
        payload,
    ];
    [&packet[..MACS], &parts.concat()].concat()
}

/// With another protocol, and other bytes behind the IPv4 header.
fn ipv4(packet: &[u8], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut head = packet[..LINK + IPV4].to_vec();
    head[LINK + 9] = protocol;
    let length = (IPV4 + payload.len()) as u16;
    head[LINK + 2..LINK + 4].copy_from_slice(&length.to_be_bytes());
    [&head, payload].concat()
}

/// UDP to or from port 443, as the packet's direction is.
fn udp(packet: &[u8], payload: &[u8]) -> Vec<u8> {
    let is_up = packet[LINK + 15] < packet[LINK + 19];
    let ports: [u8; 4] = if is_up {
        [0xc3, 0x50, 1, 0xbb]
    } else {
        [1, 0xbb, 0xc3, 0x50]
    };
    let length = (8 + payload.len()) as u16;
    ipv4(
        packet,
        17,
        &[&ports, &length.to_be_bytes()[..], &[0, 0], payload].concat(),
    )
}

/// The packets of all kinds.
fn known() -> Vec<Vec<u8>> {
    let long = [
        &[0xc0, 0, 0, 0, 1, 8],
        &[7; 8][..],
        &[8],
        &[9; 8],
        &[0, 0x41, 0, 1],
        &[3; 200],
    ]
    .concat();
    let short = [&[0x60], &[7; 8][..], &[5; 60]].concat();
    let hop_by_hop = [6, 0, 1, 4, 0, 0, 0, 0];
    let fragment = [6, 0, 0, 8, 0, 0, 0, 1];
    let mut known = Vec::new();
    for packet in upload() {
        let inner = &packet[LINK..];
        known.extend([
            tagged(&packet, &[0x81, 0, 0, 5]),
            tagged(&packet, &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]),
            typed(&packet, &[0x88, 0x64, 0x11, 0, 0, 1, 0, 54, 0, 0x21]),
            typed(&packet, &[0x88, 0x47, 0, 1, 1, 64]),
            ipv6(&packet, 6, &[]),
            ipv6(&packet, 0, &hop_by_hop),
            ipv6(&packet, 44, &fragment),
            ipv4(&packet, 47, &[&[0, 0, 8, 0], inner].concat()),
            ipv4(&packet, 4, inner),
            ipv4(
                &packet,
                17,
                &[
                    &[0x12, 0x34, 0x12, 0xb5, 0, 70, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0],
                    &packet[..],
                ]
                .concat(),
            ),
            udp(&packet, &long),
            udp(&packet, &short),
            packet,
        ]);
    }
    known
}

#[test]
fn no_packets_end_the_watch() {
    let count: usize = env::var("COUNT").map_or(100_000, |count| count.parse().expect("a number"));
    let known = known();
    let mut random = Random::of(&[SEED]);
    let mut packet = Vec::new();
    let (mut devices, mut taken) = (0_u64, 0);
    for _ in 0..count.div_ceil(OF_A_DEVICE) {
        let mut device = Device::default();
        for _ in 0..OF_A_DEVICE {
            packet.clone_from(&known[random.below(known.len())]);
            // Packets as they are keep the flows alive.
            if random.below(4) > 0 {
                mutate(&mut random, &known, LONGEST, &mut packet);
            }
            let link = if random.below(16) > 0 {
                ETHERNET
            } else {
                LINK_TYPES[random.below(LINK_TYPES.len())]
            };
            let length = if random.below(8) > 0 {
                0
            } else {
                1 << random.below(17)
            };
            device.take(1 << random.below(26), link, length, &packet);
        }
        device.check();
        devices += 1;
        taken += device.taken();
    }
    let all = devices * OF_A_DEVICE as u64;
    println!("{all} packets, {taken} of them of flows");
    assert!(
        taken * 4 > all,
        "mutations are refused at once: {taken} of {all}"
    );
}
