//! The programs of `tcpilot watch`: loaded, attached, their maps read.
//!
//! The links belong to this process, so nothing is left when it ends, for any reason. The device may vanish and
//! return, see [`Watch::set_device`].

use std::{
    hash::{BuildHasher, RandomState},
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use libbpf_rs::{RingBuffer, RingBufferBuilder, skel::OpenSkel};
use tcpilot_abi::{
    TP_GROUP_COUNT, TP_WATCH_ABI_VERSION, from_bytes, tp_mark, tp_model, tp_watch_config,
    tp_watch_flow, tp_watch_link, tp_watch_totals,
};

use crate::{
    Error,
    object::{
        bytes_of, map_error, no_section, open_object, program_info, skeleton_module, write_plain,
    },
};

skeleton_module!("watch.skel.rs");
use skeleton::{WatchSkel, WatchSkelBuilder};

mod attach;
mod fair;
mod flows;
mod qdisc;

use attach::Hooks;
use flows::Table;
pub use flows::{FlowSlot, left_bytes};
use qdisc::Qdisc;
pub use qdisc::{Registration, has_bpf_qdiscs};

/// The options of a watch.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `TP_CLASSIFIER_…`
    pub classifier: u32,
    /// Send rounds and intervals to [`Watch::records`].
    pub record: bool,
    /// Measure settled flows in some of their rounds only.
    pub light_tracking: bool,
    /// Also watch flows whose acknowledgements take another way.
    pub one_way: bool,
    /// Also watch other UDP than QUIC.
    pub udp: bool,
    /// The link's rate in bytes per second; 0: not known.
    pub link_rate: u64,
    /// Room for so many flows.
    pub flows_max: u32,
    /// The inode number of the device's network namespace.
    pub netns_inum: u32,
    /// Load the classifiers of `--fair`, too.
    pub fair: bool,
    /// With `fair`: load the BPF qdisc, too, with room for so many packets; `None`: do not.
    pub qdisc_packets: Option<u32>,
    /// By group; `None`: do not load the marking program.
    pub marks: Option<[tp_mark; TP_GROUP_COUNT as usize]>,
}

/// The forests.
#[derive(Clone, Copy, Debug)]
pub struct Models<'a> {
    /// The model of TCP.
    pub tcp: &'a tp_model,
    /// The extrapolation model of TCP, for paths beyond the range of the first; without trees none is used.
    pub extrapolation: &'a tp_model,
    /// The model of QUIC, whose packets show less.
    pub quic: &'a tp_model,
}

/// The cost of a program; zeros unless kernel.bpf_stats_enabled is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramCost {
    /// Its name.
    pub name: &'static str,
    /// Calls.
    pub runs: u64,
    /// Time in it, nanoseconds.
    pub nanoseconds: u64,
    /// Missed events: it was already running on that CPU.
    pub missed: u64,
}

impl ProgramCost {
    /// Adds what another program with this name costs.
    fn add(&mut self, other: &ProgramCost) {
        self.runs += other.runs;
        self.nanoseconds += other.nanoseconds;
        self.missed += other.missed;
    }
}

/// The loaded programs. Dropping it detaches and unloads everything.
pub struct Watch {
    skel: WatchSkel<'static>,
    fair: bool,
    marks: bool,
    qdisc: Option<Qdisc>,
    table: Table,
    hooks: Hooks,
}

impl Watch {
    /// Loads the programs, gives them the models, and attaches them.
    ///
    /// # Errors
    /// [`Error::Load`] if the kernel refuses them, [`Error::Map`] if they cannot be attached.
    pub fn start(options: &Options, models: Models<'_>) -> Result<Watch, Error> {
        let config = configuration(options);
        let support = attach::hook_support();
        let mut open = open_object::<WatchSkelBuilder>()?;
        let rodata = open
            .maps
            .rodata_data
            .as_deref_mut()
            .ok_or_else(no_section)?;
        write_plain(&raw mut rodata.cfg, &config);
        for (place, mark) in rodata.marks.iter_mut().zip(options.marks.iter().flatten()) {
            write_plain(std::ptr::from_mut(place), mark);
        }
        let maps = &mut open.maps;
        for (map, entries) in [
            (&mut maps.flows, config.flows),
            (&mut maps.flow_buckets, config.buckets),
            (&mut maps.sojourns, config.sojourns),
        ] {
            map.set_max_entries(entries).map_err(Error::Load)?;
        }
        for table in [&mut open.maps.fair_orders, &mut open.maps.fair_states] {
            table
                .set_max_entries(options.flows_max)
                .map_err(Error::Load)?;
        }
        for program in [&mut open.progs.fair_class, &mut open.progs.fair_window] {
            program.set_autoload(options.fair);
        }
        open.progs.fair_mark.set_autoload(options.marks.is_some());
        support.choose(&mut open);
        let mut skel = open.load().map_err(Error::of_load)?;
        let bss = skel.maps.bss_data.as_deref_mut().ok_or_else(no_section)?;
        write_plain(&raw mut bss.model, models.tcp);
        write_plain(&raw mut bss.extrapolation_model, models.extrapolation);
        write_plain(&raw mut bss.quic_model, models.quic);
        let qdisc = options
            .qdisc_packets
            .map(|packets| Qdisc::load(&skel, &config, packets))
            .transpose()?;
        let hooks = Hooks::attach(&mut skel, support)?;
        Ok(Watch {
            table: Table::new(skel.maps.flows.as_fd(), config.flows)?,
            skel,
            fair: options.fair,
            marks: options.marks.is_some(),
            qdisc,
            hooks,
        })
    }

    /// Sets the device's index, 0 while it does not exist; known flows stay.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel refuses to attach the programs to the device.
    pub fn set_device(&mut self, ifindex: u32) -> Result<(), Error> {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            if bss.link.ifindex != ifindex {
                bss.link.ifindex = ifindex;
                bss.link.device = 0;
                (bss.link.busy_rate, bss.link.busy_bytes, bss.link.busy_us) = (0, 0, 0);
                bss.link.run_ns = 0;
            }
            // The next super-packet sets it again.
            bss.link.is_split = 0;
        }
        if let Some(qdisc) = &mut self.qdisc {
            qdisc.set_device(ifindex);
        }
        self.hooks.follow(&self.skel, ifindex)
    }

    /// Attaches the program for incoming packets to another device, in both directions there, as long as the returned
    /// values live; needs kernel 6.6.
    ///
    /// # Errors
    /// The kernel's; `Unsupported` if it does not have these links.
    pub fn link_acks(&self, ifindex: u32) -> io::Result<[OwnedFd; 2]> {
        self.hooks.link_acks(&self.skel, ifindex)
    }

    /// Says whether the device queues packets, as long as that does not change.
    ///
    /// # Errors
    /// [`Error::Map`] if the program that sees packets leave cannot be attached.
    pub fn set_queue(&mut self, has_queue: bool) -> Result<(), Error> {
        self.hooks.leave(&mut self.skel, has_queue)
    }

    /// Gives the programs the number of flows on the link.
    pub fn set_long_flows(&mut self, count: u32) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.link.long_flows = count;
        }
    }

    /// Gives the programs the highest recent rate of the link, its mean rate over about a second, and the highest of
    /// these in the last seconds; bytes per second.
    pub fn set_link_rate(&mut self, most: u64, mean: u64, recent: u64) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.link.rate = most;
            bss.link.rate_mean = mean;
            bss.link.rate_recent = recent;
        }
    }

    /// The state of the link.
    pub fn link(&self) -> tp_watch_link {
        let bss = self.skel.maps.bss_data.as_deref();
        bss.and_then(|bss| from_bytes(bytes_of(&bss.link)))
            .unwrap_or_default()
    }

    /// The counts, over all processors.
    pub fn totals(&self) -> tp_watch_totals {
        let bss = self.skel.maps.bss_data.as_deref();
        let mut sum = [0u64; size_of::<tp_watch_totals>() / size_of::<u64>()];
        for one in bss.iter().flat_map(|bss| &bss.totals) {
            for (to, count) in sum
                .iter_mut()
                .zip(bytes_of(one).chunks_exact(size_of::<u64>()))
            {
                *to = to.wrapping_add(from_bytes::<u64>(count).unwrap_or_default());
            }
        }
        let bytes: Vec<u8> = sum.into_iter().flat_map(u64::to_ne_bytes).collect();
        from_bytes(&bytes).unwrap_or_default()
    }

    /// Every flow in the table, with its slot.
    pub fn flows(&self) -> impl Iterator<Item = (FlowSlot, tp_watch_flow)> + '_ {
        self.table.flows(self.link().taken)
    }

    /// Forgets a flow, unless another one has taken its slot.
    pub fn forget(&self, slot: FlowSlot) {
        self.table.forget(slot);
    }

    /// The ring of rounds and intervals; `each` is called with the bytes of a structure of `abi.h`.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn records<'a>(&'a self, mut each: impl FnMut(&[u8]) + 'a) -> Result<Records<'a>, Error> {
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&self.skel.maps.records, move |bytes| {
                each(bytes);
                0
            })
            .map_err(map_error("open the ring of records"))?;
        let ring = builder
            .build()
            .map_err(map_error("open the ring of records"))?;
        Ok(Records { ring })
    }

    /// The cost of each program so far.
    pub fn cost(&self) -> Vec<ProgramCost> {
        let progs = &self.skel.progs;
        let mut all = self.hooks.programs(progs);
        all.push(("drop", &progs.watch_drop));
        if self.fair {
            all.extend([("class", &progs.fair_class), ("window", &progs.fair_window)]);
        }
        if self.marks {
            all.push(("mark", &progs.fair_mark));
        }
        if let Some(qdisc) = &self.qdisc {
            all.extend(qdisc.programs());
        }
        let mut costs: Vec<ProgramCost> = Vec::new();
        for (name, program) in all {
            let info = program_info(program.as_fd().as_raw_fd()).unwrap_or_default();
            let cost = ProgramCost {
                name,
                runs: info.run_cnt,
                nanoseconds: info.run_time_ns,
                missed: info.recursion_misses,
            };
            match costs.iter_mut().find(|other| other.name == name) {
                Some(other) => other.add(&cost),
                None => costs.push(cost),
            }
        }
        costs
    }
}

fn configuration(options: &Options) -> tp_watch_config {
    let random = RandomState::new(); // keyed from the system's random source
    tp_watch_config {
        abi_version: TP_WATCH_ABI_VERSION,
        netns_inum: options.netns_inum,
        classifier: options.classifier,
        record: options.record.into(),
        one_way: options.one_way.into(),
        udp: options.udp.into(),
        link_rate: options.link_rate,
        sojourns: options.flows_max.next_power_of_two(),
        flows: options.flows_max,
        // A bucket has eight ways: at least four for each flow.
        buckets: options.flows_max.div_ceil(2).next_power_of_two(),
        light_tracking: options.light_tracking.into(),
        processors: libbpf_rs::num_possible_cpus().map_or(u32::MAX, |count| count as u32),
        pad: 0,
        secrets: std::array::from_fn(|number| random.hash_one(number)),
    }
}

/// The open ring.
pub struct Records<'a> {
    ring: RingBuffer<'a>,
}

impl Records<'_> {
    /// Hands over the records in the ring.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn poll(&self) -> Result<(), Error> {
        match self.ring.consume() {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                Err(map_error("read the ring of records")(error))
            }
            _ => Ok(()),
        }
    }
}
