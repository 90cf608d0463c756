//! `pathrelay`: a long path between two network namespaces, for kernels without netem.
//!
//! ```text
//! namespace A: device ── reads ── delay line ── writes ── device :namespace B
//! ```
//!
//! Both devices are TUN devices made here, with a thread for each direction. Only delay, and loss if asked for,
//! happen here: rate and queue stay with the kernel's own qdiscs, on a device before this one.

mod delay_queue;
mod direction;
mod line;
mod link;
mod loss;
mod trace;
mod tun;

use std::{
    fs,
    io::Write,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use anyhow::{Context, Result, anyhow, bail};
use clap::Parser;
use delay_queue::{DelayQueue, DelayQueues};
use direction::{Direction, Limit, Report, Schedule, twice};
use link::{Change, End, Link, Loss, Own};
use serde::Serialize;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1},
    flag::register,
};
use trace::Trace;

/// Delays packets between network namespaces, on kernels without netem.
///
/// For each --link it makes a TUN device in either namespace and carries packets between them, each as late as
/// asked for. It prints `ready` when the devices are there: addresses and routes are then set with ip(8). It ends
/// with SIGINT or SIGTERM, the devices go with it, and it prints its counters as JSON: how late packets left (the
/// jitter it added) and whether its memory was ever full. Needs root.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    /// near=NAMESPACE/DEVICE,far=NAMESPACE/DEVICE[,delay_ms=D][,back_ms=D][,loss=SHARE][,burst=N][,seed=N][,change=…]…[,destinations=FILE][,trace=FILE][,queue_bytes=N]
    ///
    /// delay_ms is the time from near to far, back_ms the time from far to near. loss is the share of packets
    /// lost from near to far; a super-packet is lost whole. With burst=N they are lost N in a row, in the mean.
    ///
    /// change=S:delay_ms=D:loss=SHARE:burst=N sets new values S seconds after the signal SIGUSR1; omitted
    /// values stay. Packets keep their order if the delay becomes shorter.
    ///
    /// With destinations=FILE packets to some addresses have a delay and a loss of their own. A line of the file is
    /// `ADDRESS DELAY_MS LOSS`; changes do not concern them.
    ///
    /// With trace=FILE,queue_bytes=N the rate from near to far follows a trace in mahimahi's format, from the signal
    /// SIGUSR1 on: 1500 bytes may pass in the millisecond of each line. A packet is dropped if it would make
    /// more than N bytes wait.
    #[arg(long = "link", value_name = "LINK", required = true)]
    links: Vec<Link>,
    /// Memory for packets under way, for each direction of each link. 10 Gbit/s for 40 ms are 50 MB.
    #[arg(long, value_name = "MB", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    memory_mb: u32,
    /// Runs the packet threads on this processor only. Keep the qdiscs that shape the packets off it: a
    /// thread cannot wake up on a processor busy with kernel code that does not yield.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..1024))]
    processor: Option<u16>,
}

/// For the packets under way to destinations with a delay queue of their own: 10 ms of 3 Gbit/s, 300 ms of 100 Mbit/s.
const DELAY_QUEUE_BYTES: usize = 4_000_000;

const EXAMPLES: &str = "\
Example, 40 ms there and nothing back:
  ip netns add a; ip netns add b
  pathrelay --link near=a/t0,far=b/t0,delay_ms=40 &
  ip -n a address add 10.9.0.1/24 dev t0; ip -n a link set t0 up
  ip -n b address add 10.9.0.2/24 dev t0; ip -n b link set t0 up
  ip netns exec a ping 10.9.0.2

Exit status: 0 done, 1 something failed, 2 wrong usage.";

/// A link's counters.
#[derive(Debug, Serialize)]
struct LinkReport {
    near: String,
    far: String,
    there: Report,
    back: Report,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pathrelay: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        register(signal, Arc::clone(&stop))?;
    }
    let begun = Arc::new(AtomicBool::new(false));
    register(SIGUSR1, Arc::clone(&begun))?;
    let mut directions = Vec::new();
    for link in &cli.links {
        directions.push(both(link, cli.memory_mb as usize * 1_000_000, &begun)?);
    }
    say("ready")?;
    let reports = thread::scope(|scope| {
        let running: Vec<_> = directions
            .into_iter()
            .flatten()
            .map(|direction| {
                let (stop, processor) = (&stop, cli.processor);
                scope.spawn(move || on_time(direction, processor, stop))
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
            .collect::<Result<Vec<Report>>>()
    })?;
    for (link, reports) in cli.links.iter().zip(reports.chunks_exact(2)) {
        say(&serde_json::to_string(&LinkReport {
            near: format!("{}/{}", link.near.namespace, link.near.device),
            far: format!("{}/{}", link.far.namespace, link.far.device),
            there: reports[0].clone(),
            back: reports[1].clone(),
        })?)?;
    }
    Ok(())
}

fn both(link: &Link, memory: usize, begun: &Arc<AtomicBool>) -> Result<[Direction; 2]> {
    let trace = link.trace.as_deref().map(Trace::read).transpose()?;
    let limit = trace.map(|trace| Limit {
        trace,
        queue_bytes: link.queue_bytes,
        follower: None,
    });
    let schedule = |changes: &[Change]| Schedule {
        changes: changes.iter().copied().collect(),
        begun: Arc::clone(begun),
        begun_ns: None,
    };
    let lossless = Loss {
        share: 0.0,
        burst: 1.0,
    };
    let made = |end: &End| {
        tun::make(&end.namespace, &end.device)
            .with_context(|| format!("cannot make {}/{}", end.namespace, end.device))
    };
    let (near, far) = (made(&link.near)?.fd, made(&link.far)?.fd);
    Ok([
        Direction {
            from: twice(&near)?,
            to: twice(&far)?,
            queues: delay_queues(link, memory)?,
            limit,
            schedule: schedule(&link.changes),
        },
        Direction {
            from: far,
            to: near,
            queues: DelayQueues::new(DelayQueue::new(link.back, lossless, 0, memory)),
            limit: None,
            schedule: schedule(&[]),
        },
    ])
}

/// The delay queue of the link itself, and one for each kind of destination with its own delay.
fn delay_queues(link: &Link, memory: usize) -> Result<DelayQueues> {
    let mut queues = DelayQueues::new(DelayQueue::new(link.delay, link.loss, link.seed, memory));
    let Some(file) = &link.destinations else {
        return Ok(queues);
    };
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let found = Own::all(&text).with_context(|| file.display().to_string())?;
    for (number, own) in found.into_iter().enumerate() {
        let loss = Loss {
            share: own.loss,
            ..link.loss
        };
        let seed = link.seed.wrapping_add(1_000 + number as u64);
        queues.add(
            DelayQueue::new(own.delay, loss, seed, DELAY_QUEUE_BYTES),
            own.addresses,
        );
    }
    Ok(queues)
}

/// Keeps this thread to one processor.
fn keep_to(processor: u16) -> Result<()> {
    // SAFETY: all zeros is a valid set, and the number is below the 1024 of a set.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(usize::from(processor), &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if done < 0 {
        let why = std::io::Error::last_os_error();
        bail!("cannot run on processor {processor}: {why}");
    }
    Ok(())
}

/// Runs a direction with a timer as exact as the kernel's, before other processes if permitted. If one
/// direction ends early, all end.
fn on_time(direction: Direction, processor: Option<u16>, stop: &AtomicBool) -> Result<Report> {
    // SAFETY: plain system calls; the parameter outlives its call. If they are refused, packets are only later.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
        let parameter = libc::sched_param { sched_priority: 1 };
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter);
    }
    let kept = processor.map_or(Ok(()), keep_to);
    let report = kept.and_then(|()| direction.run(stop));
    stop.store(true, Ordering::Relaxed);
    report
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("stdout")
}
