//! What the watch reads: captures, packets, models.

use std::sync::OnceLock;

use tcpilot_abi::{
    TP_CLASSIFIER_TCPILOT, TP_FEATURES, TP_NO_CLASS, from_bytes, tp_model, tp_round, tp_shape,
    tp_verdict,
};
use tcpilot_capture::{Frame, Judge, Options, read};
use tcpilot_core::{model::Model, watch};

const OPTIONS: Options = Options {
    classifier: TP_CLASSIFIER_TCPILOT,
    one_way: false,
    udp: true,
    flows_max: 64,
};
/// Most bytes of a packet in `packets`, and of a super-packet's payload.
const FRAME_MOST: usize = 512;
const PAYLOAD_MOST: u32 = 1 << 24;

fn judge() -> Judge {
    static NONE: OnceLock<Model> = OnceLock::new();
    let none = NONE.get_or_init(Model::without_trees);
    Judge::start(&OPTIONS, none, none, none).expect("memory for the tables")
}

/// No flow can have more than its packets had.
fn check(judge: &Judge, packets: u64) {
    assert!(judge.counts().packets <= packets);
    for flow in judge.flows() {
        let (payload, segment) = (flow.last_payload, flow.segment_bytes);
        assert!(payload < PAYLOAD_MOST, "a payload of {payload} bytes");
        assert!(segment < PAYLOAD_MOST, "segments of {segment} bytes");
    }
}

/// A file of `watch --read`.
pub fn capture(data: &[u8]) {
    let mut judge = judge();
    let mut packets = 0;
    let _ = read(data, |frame| {
        packets += 1;
        judge.take(frame);
        true
    });
    check(&judge, packets);
}

/// A watched device.
pub struct Device {
    judge: Judge,
    at_ns: u64,
    packets: u64,
}

impl Default for Device {
    fn default() -> Device {
        Device {
            judge: judge(),
            at_ns: 1_000_000_000,
            packets: 0,
        }
    }
}

impl Device {
    /// A packet, so long after the last one. `length`: on the wire.
    pub fn take(&mut self, wait_ns: u64, link_type: i32, length: usize, data: &[u8]) {
        self.at_ns += wait_ns;
        self.packets += 1;
        self.judge.take(&Frame {
            at_ns: Some(self.at_ns),
            length: data.len().max(length),
            data,
            link_type,
            device: 1,
        });
    }

    /// # Panics
    /// If a flow has what its packets cannot have given it.
    pub fn check(&self) {
        check(&self.judge, self.packets);
    }

    /// Packets of flows, as far as they could be parsed.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.judge.counts().taken
    }
}

/// Link types: Ethernet, raw IP, both of Linux's cooked captures, and an unknown one.
pub const LINK_TYPES: [i32; 5] = [1, 101, 113, 276, 0];

/// Packets at a device, without a file's format: the link type, then for each its delay in 16 microseconds, its
/// length on the wire, its captured length, and its bytes.
pub fn packets(data: &[u8]) {
    let mut device = Device::default();
    each_packet(data, |wait_ns, link_type, length, bytes| {
        device.take(wait_ns, link_type, length, bytes);
    });
    device.check();
}

/// The packets of such an input: time since the last one in ns, link type, length on the wire, and bytes.
pub fn each_packet(data: &[u8], mut take: impl FnMut(u64, i32, usize, &[u8])) {
    let Some((link_type, mut rest)) = data.split_first() else {
        return;
    };
    let link_type = LINK_TYPES[usize::from(*link_type) % LINK_TYPES.len()];
    while let [wait, length, captured, more @ ..] = rest {
        let bytes = usize::from(*captured).min(more.len()).min(FRAME_MOST);
        let (data, after) = more.split_at(bytes);
        let length = usize::from(*length) * 8;
        take(u64::from(*wait) * 16_000, link_type, length, data);
        rest = after;
    }
}

/// A model's file. An accepted one must judge any features within its own tables.
pub fn model(data: &[u8]) {
    let Ok(model) = Model::read(data) else {
        return;
    };
    let (shape, mut verdict) = (tp_shape::default(), tp_verdict::default());
    for seed in 0..4_u32 {
        let mut round = tp_round::default();
        (round.rtt_us, round.min_rtt_us) = (seed * 50_000 + 1, 50_000);
        watch::classify(&mut verdict, &shape, &round, &model.in_kernel);
        check_verdict(&verdict, &model.in_kernel);
    }
}

fn check_verdict(verdict: &tp_verdict, model: &tp_model) {
    let name = u32::from(verdict.name);
    assert!(
        name < model.classes || name == TP_NO_CLASS,
        "class {name} of {}",
        model.classes
    );
}

fn shipped() -> &'static tp_model {
    static SHIPPED: OnceLock<Box<tp_model>> = OnceLock::new();
    SHIPPED.get_or_init(|| {
        let file = include_bytes!("../../bpf/watch/model.json.gz");
        Model::read(file).expect("the model of this tree").in_kernel
    })
}

/// Measures of rounds, any bits: the arithmetic of the features and the forest.
pub fn rounds(data: &[u8]) {
    let (mut shape, mut verdict) = (tp_shape::default(), tp_verdict::default());
    let mut features = [0; TP_FEATURES as usize];
    let bytes = size_of::<tp_round>();
    for chunk in data.chunks(bytes).take(64) {
        let mut whole = vec![0; bytes];
        whole[..chunk.len()].copy_from_slice(chunk);
        let Some(round) = from_bytes::<tp_round>(&whole) else {
            return;
        };
        watch::shape_round(&mut shape, &round);
        watch::features(&shape, &round, &mut features);
        watch::classify(&mut verdict, &shape, &round, shipped());
        let _ = watch::may_track_lightly(&verdict, &shape, &round);
        let _ = watch::light_us(&shape, &round);
        check_verdict(&verdict, shipped());
    }
}
