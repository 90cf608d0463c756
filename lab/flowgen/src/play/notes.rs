//! Notes of a run: samples while it goes on, the rest when it is over, and the report.

use super::probe::Running;
use super::record::{FlowRow, QueueRow, SampleRow};
use super::{PlayReport, Player};
use crate::error::Result;
use std::path::Path;
use std::time::{Duration, Instant};

/// Interval between checks for sockets not ended yet.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

impl<'a> Player<'a> {
    pub(super) fn sample(&mut self, t_s: f64) -> Result<()> {
        for (queue, reader) in self.queues.iter_mut().enumerate() {
            if let Some(stats) = reader.read()? {
                self.record.queues.push(QueueRow { t_s, queue, stats });
            }
        }
        self.sample_programs()?;
        for server in &mut self.ended {
            server.look()?;
        }
        for slot in 0..self.slots.len() {
            let Some(flow) = &self.slots[slot].flow else {
                continue;
            };
            if !self.plan.flows[self.slots[slot].group].sample || !flow.is_established() {
                continue;
            }
            let number = flow.row().flow;
            let cc = self.record.name(&flow.congestion_control());
            flow.each_subflow(|address, info| {
                let known = self.links.iter().find(|(link, _)| Some(*link) == address);
                self.record.samples.push(SampleRow {
                    t_s,
                    flow: number,
                    link: known.map(|(_, name)| *name),
                    info: *info,
                    cc,
                });
            });
        }
        Ok(())
    }

    /// Records the actual time, not the due time: connections may have started since.
    pub(super) fn sample_programs(&mut self) -> Result<()> {
        if let Some(programs) = &self.programs {
            let now_s = self.now_s();
            self.record.programs.extend(programs.read(now_s)?);
        }
        Ok(())
    }

    /// After the end: waits for the reports of cut connections, and notes the rest.
    pub(super) fn drain(&mut self) -> Result<()> {
        let last_s = self.record.queues.last().map_or(0.0, |row| row.t_s);
        if self.seconds - last_s > self.plan.sample_ms as f64 / 2e3 {
            self.sample(self.seconds)?;
        } else {
            self.sample_programs()?;
        }
        let now_s = self.now_s();
        for slot in 0..self.slots.len() {
            // Cuts at the very end.
            if let Some(flow) = &mut self.slots[slot].flow {
                let cut = flow.cut(now_s);
                self.handle(slot, cut)?;
            }
        }
        let until = Instant::now() + Duration::from_secs_f64(self.plan.drain_s);
        let mut ready = Vec::new();
        while self.running > 0 && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            ready.clear();
            ready.extend_from_slice(self.poller.wait(Some(left))?);
            for event in &ready {
                self.advance(event.token)?;
            }
        }
        let now_s = self.now_s();
        for slot in &mut self.slots {
            if let Some(mut flow) = slot.flow.take() {
                flow.abandon(now_s);
                if flow.owes_row() {
                    self.record.flows.push(flow.into_row(None));
                }
            }
        }
        self.charge_downloads(until)
    }

    /// Downloads get the counters of the server's sockets; the last may still be ending.
    fn charge_downloads(&mut self, until: Instant) -> Result<()> {
        let groups = &self.plan.flows;
        let is_download = |row: &FlowRow| groups[row.group].fetch && row.error.is_none();
        let rows = self.record.flows.iter_mut();
        let mut owed: Vec<&mut FlowRow> = rows.filter(|row| is_download(row)).collect();
        loop {
            for server in &mut self.ended {
                server.look()?;
                owed.retain_mut(|row| match server.take(row.local_port) {
                    Some(info) => {
                        row.set_info(&info);
                        false
                    }
                    None => true,
                });
            }
            if owed.is_empty() || Instant::now() >= until {
                break;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        for row in owed {
            row.error = Some("the end of the server's socket was not seen".to_owned());
        }
        Ok(())
    }

    pub(super) fn finish(mut self, out: &Path) -> Result<PlayReport> {
        self.changers.finish()?;
        let names = |text: &'a str| text;
        let groups: Vec<&str> = self.plan.flows.iter().map(|g| names(&g.name)).collect();
        let links: Vec<&str> = self.plan.queues.iter().map(|q| names(&q.link)).collect();
        self.record.flows.sort_by_key(|row| row.flow);
        self.record.write(out, &groups, &links)?;
        if self.programs.is_some() {
            self.record.write_programs(out)?;
        }
        self.record
            .write_probes(out, self.probes.drain(..).map(Running::finish))?;
        self.late_ns.sort_unstable();
        let at = self.late_ns.len().saturating_sub(1) * 99 / 100;
        let errors = self
            .record
            .flows
            .iter()
            .filter_map(|row| row.error.as_ref());
        Ok(PlayReport {
            start_ns: self.start_ns,
            seconds: self.seconds,
            rows: self.record.flows.len(),
            errors: errors.clone().count(),
            first_error: errors.clone().next().cloned(),
            sample_late_ms_p99: self.late_ns.get(at).map_or(0.0, |&ns| ns as f64 / 1e6),
            sample_late_ms_max: self.late_ns.last().map_or(0.0, |&ns| ns as f64 / 1e6),
        })
    }
}
