//! The memory of epsilon-greedy: the costs charged by its BPF program, a place for each choice distribution
//! (`bpf/pilot/greedy.h`).

use std::{
    collections::HashSet,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use libbpf_rs::{
    MapCore, MapFlags, MapHandle, MapMut, ProgramMut,
    libbpf_sys::{bpf_prog_test_run_opts, bpf_test_run_opts},
};
use tcpilot_abi::{TP_CHOICE_DIST_WAYS, from_bytes, to_bytes, tp_costs, tp_node_key};

use super::LearnerKeys;
use crate::{Error, object::map_error};

/// Places per batch of a read, to bound the daemon's memory.
const BATCH: u32 = 256;

/// The costs of paths. It outlives the pilot, but is not written any more then.
pub struct Costs {
    map: MapHandle,
    put: OwnedFd,
    keys: LearnerKeys,
}

impl Costs {
    pub(super) fn new(
        map: &MapMut<'_>,
        put: &ProgramMut<'_>,
        keys: &LearnerKeys,
    ) -> Result<Costs, Error> {
        let action = "share the costs of paths";
        let put = put.as_fd().try_clone_to_owned();
        Ok(Costs {
            map: MapHandle::try_from(map).map_err(map_error(action))?,
            put: put.map_err(|source| Error::System { action, source })?,
            keys: *keys,
        })
    }

    /// The costs of a path, or of its group of neighbours.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn get(&self, key: &tp_node_key) -> Result<Option<tp_costs>, Error> {
        let tag = tcpilot_core::choice_dist::tag(&self.keys.secrets, key);
        let first =
            tcpilot_core::choice_dist::bucket(tag, self.keys.choice_dists) * TP_CHOICE_DIST_WAYS;
        for place in first..first + TP_CHOICE_DIST_WAYS {
            let found = self.map.lookup(&place.to_ne_bytes(), MapFlags::ANY);
            let bytes = found.map_err(map_error("read the costs of a path"))?;
            let costs = bytes.as_deref().and_then(from_bytes::<tp_costs>);
            if let Some(costs) = costs.filter(|costs| costs.tag == tag) {
                return Ok(Some(costs));
            }
        }
        Ok(None)
    }

    /// Calls `each` with the costs of every path.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn for_each(&self, mut each: impl FnMut(&tp_costs)) -> Result<(), Error> {
        self.for_each_place(|_, costs| each(costs))
    }

    /// Forgets the costs of these domains, and calls `each` with their keys. The caller removes the choice distributions.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn forget(
        &self,
        domains: &HashSet<u32>,
        mut each: impl FnMut(tp_node_key),
    ) -> Result<(), Error> {
        let mut places = Vec::new();
        self.for_each_place(|place, costs| {
            if domains.contains(&costs.key.domain) {
                places.push(place.to_vec());
                each(costs.key);
            }
        })?;
        let empty = to_bytes(&tp_costs::default()).to_vec();
        for place in places {
            self.map
                .update(&place, &empty, MapFlags::ANY)
                .map_err(map_error("clear the costs of paths"))?;
        }
        Ok(())
    }

    fn for_each_place(&self, mut each: impl FnMut(&[u8], &tp_costs)) -> Result<(), Error> {
        let places = self.keys.choice_dists * TP_CHOICE_DIST_WAYS;
        let batches = self
            .map
            .lookup_batch(BATCH.min(places), MapFlags::ANY, MapFlags::ANY)
            .map_err(map_error("read the costs of paths"))?;
        for (place, bytes) in batches {
            if let Some(costs) = from_bytes::<tp_costs>(&bytes).filter(|costs| costs.tag != 0) {
                each(&place, &costs);
            }
        }
        Ok(())
    }

    /// Stores the costs of a path from the state file, and writes its choice distribution. One of our programs does
    /// it, by the learner's own rules: the path may take the place of the one unused for longest.
    ///
    /// # Errors
    /// [`Error::System`], among others if another processor has the place.
    pub fn put(&self, costs: &tp_costs) -> Result<(), Error> {
        let fail = |source| Error::System {
            action: "store the costs of a path",
            source,
        };
        let mut context = to_bytes(costs).to_vec();
        let mut run = bpf_test_run_opts {
            sz: size_of::<bpf_test_run_opts>() as _,
            ctx_in: context.as_mut_ptr().cast(),
            ctx_size_in: context.len() as u32,
            ..Default::default()
        };
        // SAFETY: the descriptor is open, and the kernel reads no more of the context than its size says.
        let result = unsafe { bpf_prog_test_run_opts(self.put.as_raw_fd(), &raw mut run) };
        match (result, run.retval) {
            (0, 0) => Ok(()),
            (0, _) => Err(fail(io::ErrorKind::WouldBlock.into())),
            _ => Err(fail(io::Error::from_raw_os_error(-result))),
        }
    }

    /// Forgets every path. The caller removes the choice distributions.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn clear(&self) -> Result<(), Error> {
        let empty = to_bytes(&tp_costs::default()).to_vec();
        for place in 0..self.keys.choice_dists * TP_CHOICE_DIST_WAYS {
            self.map
                .update(&place.to_ne_bytes(), &empty, MapFlags::ANY)
                .map_err(map_error("clear the costs of paths"))?;
        }
        Ok(())
    }
}
