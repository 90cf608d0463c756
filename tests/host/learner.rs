//! The programs with the learner's maps, but without a daemon.

use std::time::Duration;

use tcpilot_abi::{
    TP_ABI_VERSION, TP_LEARNER_THOMPSON, TP_LEVEL_GLOBAL, tp_config, tp_policy_config, tp_record,
};
use tcpilot_core::choice_dist::{DistPlace, Entries, node_key};
use tcpilot_kernel::{Ends, Pilot, Put};
use tcpilot_tests::{Actor, Lab, until};

/// The default of every namespace of these tests.
pub const RENO: u8 = 0;
/// The other algorithm.
pub const BBR: u8 = 1;
/// The probability of a certain choice.
pub const CERTAIN: u16 = 0xffff;

/// A choice distribution with reno for everybody.
pub const ALL_RENO: Entries = [0xffff; 8];
/// A choice distribution with bbr for everybody.
pub const ALL_BBR: Entries = bbr(0xffff);

/// A choice distribution of bbr with this probability, in parts of 0xffff, and reno otherwise.
pub const fn bbr(share: u16) -> Entries {
    let mut entries = [0xffff; 8];
    entries[0] = 0xffff - share;
    entries
}

/// A name in the kernel side's form.
pub fn name(text: &str) -> [std::ffi::c_char; 16] {
    let mut name = [0; 16];
    for (to, from) in name.iter_mut().zip(text.bytes()) {
        *to = from as std::ffi::c_char;
    }
    name
}

pub fn config() -> tp_config {
    let mut config = tp_config {
        abi_version: TP_ABI_VERSION,
        loss_shift: 6,
        loss_min_segments: 64,
        window_ns: 3_600_000_000_000,
        ssthresh_window_ns: 3_600_000_000_000,
        min_flow_bytes: 16_384,
        arms: 2,
        policies: 1,
        defaults: 1,
        // Each place has a choice distribution for every octave of RTTs, and no distribution may be pushed out.
        choice_dists: 1 << 16,
        ..tp_config::default()
    };
    config.learner.kind = TP_LEARNER_THOMPSON;
    config.replace_defaults[0] = name("reno");
    config.arm[usize::from(RENO)] = name("reno");
    config.arm[usize::from(BBR)] = name("bbr");
    config.policy[0] = tp_policy_config {
        arms: 3,
        prefix_len_ipv4_private: 32,
        prefix_len_ipv4_public: 24,
        prefix_len_ipv6_private: 128,
        prefix_len_ipv6_public: 48,
        ..tp_policy_config::default()
    };
    config
}

/// The programs, and the other ends of choice distributions and records.
pub struct Learner {
    pub pilot: Pilot,
    pub ends: Ends,
    told: Vec<tp_record>,
}

impl Learner {
    pub fn new(lab: &Lab, config: &tp_config) -> Self {
        tcpilot_kernel::load_algorithm("bbr").unwrap();
        let mut pilot = Pilot::load(config, 64).unwrap();
        let ends = pilot.learner_ends().unwrap();
        ends.heartbeat.renew();
        // Otherwise connections of other tests count as open ones of paths here.
        let cgroup = tcpilot_kernel::host::cgroup_id(lab.cgroup.path()).unwrap();
        pilot.set_cgroup(cgroup);
        pilot.attach(lab.cgroup.path()).unwrap();
        Self {
            pilot,
            ends,
            told: Vec::new(),
        }
    }

    /// The next record.
    pub fn record(&mut self) -> tp_record {
        let Self { ends, told, .. } = self;
        until("a record came", || {
            let poll = ends
                .records
                .poll(Duration::ZERO, |record| told.push(*record));
            poll.unwrap();
            (!told.is_empty()).then(|| told.remove(0))
        })
    }

    /// Writes choice distributions for a place for every RTT of a handshake: the RTT differs from one
    /// connection to the next.
    pub fn put(&mut self, level: u32, place: &DistPlace, entries: Entries, generation: u32) {
        assert!(self.rewrite(level, place, entries, generation), "{level}");
    }

    /// The same; says whether anything changed.
    pub fn rewrite(
        &mut self,
        level: u32,
        place: &DistPlace,
        entries: Entries,
        generation: u32,
    ) -> bool {
        self.ends.heartbeat.renew();
        let octaves = if level == TP_LEVEL_GLOBAL { 1 } else { 32 };
        let puts = (0..octaves).map(|octave| {
            let class = place.class & !31 | octave;
            let key = node_key(level, &DistPlace { class, ..*place });
            self.ends.choice_dists.put(&key, entries, generation)
        });
        let puts: Vec<Put> = puts.collect();
        puts.iter()
            .all(|put| matches!(put, Put::New | Put::Changed | Put::Replaced))
    }
}

pub fn place_of(record: &tp_record) -> DistPlace {
    DistPlace {
        remote: record.remote,
        domain: record.domain,
        class: record.class,
        policy: record.policy,
    }
}

/// Makes one connection, large enough for a record; returns its algorithm.
pub fn connect(application: &mut Actor, to: &str) -> String {
    application.tell(&format!("connect {to}"));
    application.tell("send 100000");
    let algorithm = application.tell("cc");
    application.tell("close");
    algorithm
}
