//! The programs of `tcpilot watch`: loaded, attached to tracepoints, their maps read.
//!
//! The links belong to this process, so nothing is left when it ends, for any reason. The device is no
//! part of the attachment: it may vanish and return, see [`Watch::set_device`].

use std::{
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd},
};

use libbpf_rs::{
    Link, MapCore, MapFlags, OpenObject, ProgramMut, ProgramType, RingBuffer, RingBufferBuilder,
    libbpf_sys::bpf_map_lookup_batch,
    skel::{OpenSkel, Skel, SkelBuilder},
};
use tcpilot_abi::{
    TP_GROUP_COUNT, TP_WATCH_ABI_VERSION, from_bytes, to_bytes, tp_mark, tp_model, tp_watch_config,
    tp_watch_flow, tp_watch_key, tp_watch_link, tp_watch_totals,
};

use crate::{
    Error,
    object::{bytes_of, map_error, no_section, program_info, skeleton_module, write_plain},
};

skeleton_module!("watch.skel.rs");
use skeleton::{WatchSkel, WatchSkelBuilder};

mod fair;
mod qdisc;

use qdisc::Qdisc;
pub use qdisc::{Registration, has_bpf_qdiscs};

/// Flows per batch of a read.
const BATCH: u32 = 1024;

/// The options of a watch.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `TP_CLASSIFIER_…`
    pub classifier: u32,
    /// Send rounds and intervals to [`Watch::records`].
    pub record: bool,
    /// Also watch flows with acknowledgements that do not pass here.
    pub one_way: bool,
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
    /// By group; `None`: do not load the program that marks packets.
    pub marks: Option<[tp_mark; TP_GROUP_COUNT as usize]>,
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
    /// Events that it missed because it was running on that CPU already.
    pub missed: u64,
}

/// The loaded programs. Dropping it detaches and unloads everything.
pub struct Watch {
    skel: WatchSkel<'static>,
    fair: bool,
    marks: bool,
    qdisc: Option<Qdisc>,
    _links: Vec<Link>,
}

impl Watch {
    /// Loads the programs, gives them the model, and attaches them.
    ///
    /// # Errors
    /// [`Error::Load`] if the kernel refuses them, [`Error::Map`] if they cannot be attached.
    pub fn start(options: &Options, model: &tp_model) -> Result<Watch, Error> {
        let config = tp_watch_config {
            abi_version: TP_WATCH_ABI_VERSION,
            netns_inum: options.netns_inum,
            classifier: options.classifier,
            record: options.record.into(),
            one_way: options.one_way.into(),
            pad: 0,
            link_rate: options.link_rate,
            sojourns: options.flows_max.next_power_of_two(),
            pad_end: 0,
        };
        // Leaked like the pilot's: it lives as long as the process.
        let object: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = WatchSkelBuilder::default()
            .open(object)
            .map_err(Error::Load)?;
        let rodata = open
            .maps
            .rodata_data
            .as_deref_mut()
            .ok_or_else(no_section)?;
        write_plain(&raw mut rodata.cfg, &config);
        for (place, mark) in rodata.marks.iter_mut().zip(options.marks.iter().flatten()) {
            write_plain(std::ptr::from_mut(place), mark);
        }
        open.maps
            .flows
            .set_max_entries(options.flows_max)
            .map_err(Error::Load)?;
        open.maps
            .sojourns
            .set_max_entries(config.sojourns)
            .map_err(Error::Load)?;
        for table in [&mut open.maps.fair_orders, &mut open.maps.fair_states] {
            table
                .set_max_entries(options.flows_max)
                .map_err(Error::Load)?;
        }
        for program in [&mut open.progs.fair_class, &mut open.progs.fair_window] {
            program.set_autoload(options.fair);
        }
        open.progs.fair_mark.set_autoload(options.marks.is_some());
        let mut skel = open.load().map_err(Error::Load)?;
        let bss = skel.maps.bss_data.as_deref_mut().ok_or_else(no_section)?;
        write_plain(&raw mut bss.model, model);
        let qdisc = options
            .qdisc_packets
            .map(|packets| Qdisc::load(&skel, &config, packets))
            .transpose()?;
        let mut links = Vec::new();
        let all = skel.object_mut().progs_mut();
        for program in all.filter(|p| p.prog_type() == ProgramType::Tracing) {
            links.push(program.attach().map_err(map_error("attach a tracepoint"))?);
        }
        Ok(Watch {
            skel,
            fair: options.fair,
            marks: options.marks.is_some(),
            qdisc,
            _links: links,
        })
    }

    /// Sets the device's index, 0 while it does not exist; known flows stay.
    pub fn set_device(&mut self, ifindex: u32) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.link.ifindex = ifindex;
        }
        if let Some(qdisc) = &mut self.qdisc {
            qdisc.set_device(ifindex);
        }
    }

    /// Gives the programs the number of flows that share the link.
    pub fn set_long_flows(&mut self, count: u32) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.link.long_flows = count;
        }
    }

    /// Gives the programs the rate of the link, bytes per second.
    pub fn set_link_rate(&mut self, rate: u64) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.link.rate = rate;
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
        let totals = &self.skel.maps.totals;
        let each = totals.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let mut sum = vec![0u64; size_of::<tp_watch_totals>() / size_of::<u64>()];
        for one in each.ok().flatten().unwrap_or_default() {
            for (to, count) in sum.iter_mut().zip(one.chunks_exact(size_of::<u64>())) {
                *to += from_bytes::<u64>(count).unwrap_or_default();
            }
        }
        let bytes: Vec<u8> = sum.into_iter().flat_map(u64::to_ne_bytes).collect();
        from_bytes(&bytes).unwrap_or_default()
    }

    /// Every flow in the table.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn flows(&self) -> Result<Vec<(tp_watch_key, tp_watch_flow)>, Error> {
        let fd = self.skel.maps.flows.as_fd().as_raw_fd();
        let mut batch = Batch::new();
        let mut found = Vec::new();
        while batch.read(fd)? {
            found.extend(batch.entries());
        }
        found.extend(batch.entries());
        Ok(found)
    }

    /// One flow, if it is in the table.
    pub fn flow(&self, key: &tp_watch_key) -> Option<tp_watch_flow> {
        let found = self.skel.maps.flows.lookup(to_bytes(key), MapFlags::ANY);
        from_bytes(&found.ok()??)
    }

    /// Forgets a flow.
    pub fn forget(&self, key: &tp_watch_key) {
        // The flow may have gone by itself.
        let _ = self.skel.maps.flows.delete(to_bytes(key));
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
        let mut all = vec![
            ("in", &progs.watch_in),
            ("out", &progs.watch_out),
            ("drop", &progs.watch_drop),
            ("back", &progs.watch_back),
        ];
        if self.fair {
            all.extend([("class", &progs.fair_class), ("window", &progs.fair_window)]);
        }
        if self.marks {
            all.push(("mark", &progs.fair_mark));
        }
        if let Some(qdisc) = &self.qdisc {
            all.extend(qdisc.programs());
        }
        let cost = |(name, program): (&'static str, &ProgramMut<'_>)| {
            let info = program_info(program.as_fd().as_raw_fd()).unwrap_or_default();
            ProgramCost {
                name,
                runs: info.run_cnt,
                nanoseconds: info.run_time_ns,
                missed: info.recursion_misses,
            }
        };
        all.into_iter().map(cost).collect()
    }
}

/// Bytes of a flow that have left the queue, or still wait in it; dropped bytes do not count.
pub fn left_bytes(flow: &tp_watch_flow) -> u64 {
    flow.bytes.saturating_sub(flow.dropped_bytes)
}

/// A part of the table of flows. libbpf-rs takes a part that is not full for the last one, which is
/// wrong for hash tables: they give only whole buckets.
struct Batch {
    keys: Vec<u8>,
    flows: Vec<u8>,
    count: u32,
    next: Option<u32>,
}

impl Batch {
    fn new() -> Batch {
        Batch {
            keys: vec![0; BATCH as usize * size_of::<tp_watch_key>()],
            flows: vec![0; BATCH as usize * size_of::<tp_watch_flow>()],
            count: 0,
            next: None,
        }
    }

    /// Reads the next part; says whether there is another after it.
    fn read(&mut self, fd: i32) -> Result<bool, Error> {
        let mut from = self.next;
        let mut to = 0u32;
        self.count = BATCH;
        let start = from
            .as_mut()
            .map_or(std::ptr::null_mut(), std::ptr::from_mut);
        // SAFETY: keys and flows have room for BATCH entries of the table's sizes, which is what count
        // says; a hash table's places are four bytes; without options the pointer may be null.
        let result = unsafe {
            bpf_map_lookup_batch(
                fd,
                start.cast(),
                (&raw mut to).cast(),
                self.keys.as_mut_ptr().cast(),
                self.flows.as_mut_ptr().cast(),
                &raw mut self.count,
                std::ptr::null(),
            )
        };
        self.next = Some(to);
        match -result {
            0 => Ok(true),
            libc::ENOENT => Ok(false),
            code => Err(Error::System {
                action: "read the flows",
                source: std::io::Error::from_raw_os_error(code),
            }),
        }
    }

    fn entries(&self) -> impl Iterator<Item = (tp_watch_key, tp_watch_flow)> {
        let keys = self.keys.chunks_exact(size_of::<tp_watch_key>());
        let flows = self.flows.chunks_exact(size_of::<tp_watch_flow>());
        keys.zip(flows)
            .take(self.count as usize)
            .filter_map(|(key, flow)| Some((from_bytes(key)?, from_bytes(flow)?)))
    }
}

/// The open ring.
pub struct Records<'a> {
    ring: RingBuffer<'a>,
}

impl Records<'_> {
    /// Hands over the records that are in the ring.
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
