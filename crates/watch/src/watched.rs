//! One device under watch: its programs, its flows, its queues with `--fair`.

use std::time::Instant;

use tcpilot_kernel::{
    host,
    watch::{Options, Watch},
};
use tcpilot_show::failure::{Failure, Kind};

use super::{flows::Flows, model::Models, rate::LinkRate, record::Recorder, unseen, views::View};
use crate::{
    acks::Acks,
    args::{Classifier, WatchArgs},
    fair::{self, Fair, Marker},
    link::Device,
};

/// A device under watch. Each has programs and tables of its own.
pub struct Watched<'a> {
    // Declared before `watch`: the queues go before their programs.
    fair: Option<Fair<'a>>,
    marker: Option<Marker>,
    acks: Option<Acks>,
    watch: Watch,
    device: Device,
    flows: Flows<'a>,
    rate: LinkRate,
    recorder: Option<Recorder>,
}

impl<'a> Watched<'a> {
    /// Loads the programs for a device.
    ///
    /// # Errors
    /// There is no such device, the kernel refuses the programs, or a file cannot be written.
    pub fn load(args: &WatchArgs, name: &str, models: &'a Models) -> Result<Watched<'a>, Failure> {
        let device = Device::find(name)?;
        device.warn_of_ports();
        let acks = args.acks_at.as_deref().map(Acks::find).transpose()?;
        let mut watch = fair::load(args, options(args)?, models.in_kernel())?;
        watch.set_device(device.index())?;
        watch.set_queue(unseen::has_queue(device.index()))?;
        Ok(Watched {
            fair: None,
            marker: None,
            acks,
            flows: Flows::new(args.classifier, models),
            rate: LinkRate::new(Instant::now(), watch.totals().left_bytes),
            recorder: args.record.as_deref().map(Recorder::create).transpose()?,
            device,
            watch,
        })
    }

    /// Makes the device fair and marks its packets, if asked to, and begins to look. `of_life`: for one report
    /// over the flows' whole lives.
    ///
    /// # Errors
    /// The kernel refuses the queues, or the program.
    pub fn begin(&mut self, args: &WatchArgs, of_life: bool) -> Result<(), Failure> {
        self.fair = Fair::start(args, self.flows.models(), &mut self.watch, &self.device)?;
        if !args.mark.is_empty() {
            let mut marker = Marker::default();
            marker.follow(&self.watch, &self.device)?;
            self.marker = Some(marker);
        }
        if let Some(acks) = &mut self.acks {
            acks.follow(&self.watch)?;
        }
        self.flows.begin(of_life);
        Ok(())
    }

    /// The work of every step: the link's rate, records, orders.
    ///
    /// # Errors
    /// A map cannot be read, or a file written.
    pub fn step(&mut self) -> Result<(), Failure> {
        let left_bytes = self.watch.totals().left_bytes;
        self.rate.look(Instant::now(), left_bytes);
        self.watch
            .set_link_rate(self.rate.most(), self.rate.mean(), self.rate.recent());
        if let Some(recorder) = &mut self.recorder {
            recorder.take(&self.watch)?;
        }
        if let Some(fair) = &mut self.fair {
            fair.renew(&mut self.watch)?;
        }
        Ok(())
    }

    /// Looks at the device and its flows.
    ///
    /// # Errors
    /// A map cannot be read, or the kernel refuses the queues of a returned device.
    pub fn look(&mut self) -> Result<View, Failure> {
        self.watch.set_device(self.device.look())?;
        let mut view = self.flows.look(&mut self.watch, &self.device)?;
        if let Some(has_queue) = self.flows.has_queue().filter(|_| view.present) {
            self.watch.set_queue(has_queue)?;
        }
        if let Some(fair) = &mut self.fair {
            fair.follow(&mut self.watch, &self.device)?;
            view.fair = Some(fair.view(&self.watch));
        }
        if let Some(marker) = &mut self.marker {
            marker.follow(&self.watch, &self.device)?;
        }
        if let Some(acks) = &mut self.acks {
            acks.follow(&self.watch)?;
        }
        Ok(view)
    }

    /// Writes the rest of the records.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.recorder.take().map_or(Ok(()), Recorder::finish)
    }

    /// Puts the device's former qdisc back.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn take_down(&mut self) -> Result<(), Failure> {
        self.fair.as_mut().map_or(Ok(()), Fair::take_down)
    }
}

/// Whether settled flows may be tracked lightly: a recording and fair shares want every round, and P4air's rules
/// have rounds of their own.
fn light_tracking(args: &WatchArgs) -> bool {
    let is_ours = matches!(args.classifier, Classifier::Tcpilot);
    is_ours && !args.every_round && args.record.is_none() && !args.fair.fair
}

fn options(args: &WatchArgs) -> Result<Options, Failure> {
    let netns_inum = host::own_netns_inum().ok_or_else(|| {
        Failure::new(
            Kind::Failed,
            "/proc/self/ns/net cannot be read",
            "is /proc mounted?",
        )
    })?;
    Ok(Options {
        classifier: args.classifier.number(),
        record: args.record.is_some(),
        light_tracking: light_tracking(args),
        one_way: args.one_way,
        udp: args.wants_udp(),
        link_rate: (args.rate_mbit.unwrap_or(0.0) * 125_000.0) as u64,
        flows_max: args.flows,
        netns_inum,
        fair: args.fair.fair,
        qdisc_packets: None,
        marks: fair::marks_by_group(&args.mark),
    })
}
