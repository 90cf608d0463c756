/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * abi.h - every structure shared by the BPF programs and the daemon.
 *
 * Such layouts stand only here, a header per owner.  BPF programs include it,
 * crates/abi generates Rust types from all of them, and the size of each
 * structure is asserted on both sides.
 *
 * Units are in the names.  Rates are bytes per second, RTTs microseconds,
 * times nanoseconds of CLOCK_MONOTONIC (coarse), costs fixed point with
 * TP_COST_SCALE.  An RTT or a rate of 0 means "no sample".
 */
#ifndef TCPILOT_ABI_H
#define TCPILOT_ABI_H

#include "base.h"
#include "config.h"
#include "conn.h"
#include "counters.h"
#include "fair.h"
#include "learner.h"
#include "measures.h"
#include "path.h"
#include "rescue.h"
#include "choices.h"
#include "tune.h"
#include "verdict.h"
#include "watch.h"

#endif
