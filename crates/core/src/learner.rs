//! tmp
#![allow(missing_docs)]
use tcpilot_abi::{tp_costs, tp_learner_config};
unsafe extern "C" { safe fn native_row(cfg: &tp_learner_config, mem: &tp_costs, upto: &mut [u16; 8]) -> i32; }
pub fn row(cfg: &tp_learner_config, mem: &tp_costs) -> Option<[u16; 8]> { let mut u = [0; 8]; (native_row(cfg, mem, &mut u) != 0).then_some(u) }
