//! A daemon without a kernel, and what the kernel would have.

use std::{
    collections::VecDeque,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use tcpilot_abi::tp_record;
use tcpilot_kernel::{ASSIGNMENT_BUCKETS, Live};

use crate::{
    daemon::{
        learning::{
            Learning,
            effect::AssignmentTable,
            ends::{LifeSign, OpenConnections, RecordSource},
            learners::tests::ChoiceDists,
        },
        saving::{Saver, Saves},
    },
    state::StoredPath,
};

/// The kernel's side: it outlives a daemon that becomes another program.
#[derive(Clone, Default)]
pub(super) struct Kernel {
    pub(super) dists: ChoiceDists,
    pub(super) ring: Arc<Mutex<VecDeque<tp_record>>>,
    /// Records that a daemon has read.
    pub(super) read: Arc<AtomicU64>,
}

impl RecordSource for Kernel {
    fn poll(&mut self, each: &mut dyn FnMut(&tp_record)) -> std::io::Result<()> {
        for record in self.ring.lock().unwrap().drain(..) {
            self.read.fetch_add(1, Relaxed);
            each(&record);
        }
        Ok(())
    }

    fn dropped(&self) -> u64 {
        0
    }
}

impl LifeSign for Kernel {
    fn renew(&self) {}
    fn stop(&self) {}
}

impl AssignmentTable for Kernel {
    fn set(&mut self, _: &[u8; ASSIGNMENT_BUCKETS]) {}
}

impl OpenConnections for Kernel {
    fn live(&self) -> std::io::Result<Live> {
        Ok(Live::default())
    }
}

/// A running daemon.
pub(super) struct Host {
    pub(super) saves: Saves,
    pub(super) learning: Rc<Learning>,
    /// Number of the present save. A path of the tunings has it in the file.
    pub(super) number: Rc<AtomicU64>,
}

impl Saver for Host {
    fn saves(&mut self) -> &mut Saves {
        &mut self.saves
    }

    fn learning(&self) -> Option<&Learning> {
        Some(&self.learning)
    }

    fn collect(&mut self, _: u64) -> Vec<StoredPath> {
        vec![StoredPath {
            netns: "host".to_owned(),
            prefix: "10.9.0.0/24".parse().unwrap(),
            policy: "web".to_owned(),
            updated_unix_s: self.saves.state_file.clock().now_s() as u64,
            connections: self.number.fetch_add(1, Relaxed) + 1,
            ..StoredPath::default()
        }]
    }

    fn max_age_s(&self) -> u64 {
        7 * 86_400
    }
}
