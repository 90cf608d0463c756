"""Both multipath transports in a real machine.  Needs the emulator, and a flowgen with QUIC:
cargo build --release -p flowgen --features mpquic (or $TCPLAB_BINARIES)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from test_lab_vm import out, run

from tcplab.metrics.cell import cell_metrics
from tcplab.results.read import read_cell

__all__ = ["out"]
pytestmark = pytest.mark.vm

FAILING = """\
title = "a link that fails and comes back"
duration_s = 20
drain_s = 1

[[link]]
name = "one"
rate_mbit = 5
rtt_ms = 20
queue = "40 packets"

[[link]]
name = "two"
rate_mbit = 5
rtt_ms = 20
queue = "40 packets"

[[flow]]
name = "multipath"
bytes = 6_000_000

[[change]]
at_s = 1.5
link = "two"
loss_percent = 100

[[change]]
at_s = 3.5
link = "two"
loss_percent = 0

[sweep.transport]
set = "flow.multipath.transport"
values = ["mptcp", "mpquic"]
"""

SHARED = """\
title = "two paths through one bottleneck, and data that comes down"
duration_s = 4

[[link]]
name = "one"
rate_mbit = 5
rtt_ms = 20
queue = "40 packets"
back_rate_mbit = 8
back_queue = "40 packets"

[[link]]
name = "two"
shares = "one"
rtt_ms = 60

[[flow]]
name = "multipath"
transport = "mpquic"
cc = "tp_olia"

[[flow]]
name = "down"
transport = "quic"
direction = "down"
"""


def test_both_transports_survive_a_temporary_link_failure(out: Path) -> None:
    outcome, answer = run(out, FAILING)
    assert outcome["ok"] == 2, answer.stderr
    for place in sorted((Path(outcome["folder"]) / "cells").iterdir()):
        flows = pd.read_parquet(place / "flows.parquet")
        assert flows["error"].isna().all() and flows["bytes"].tolist() == [6_000_000]
        values = cell_metrics(read_cell(place))["values"]
        assert 0 < values["standstill_s"] < 1, (place.name, values)
        # One link alone would take 1.5 s with both and 8.6 s for the rest.
        assert flows["fct_s"].iloc[0] < 9.5, place.name
        samples = pd.read_parquet(place / "samples.parquet")
        two = samples[samples["link"] == "two"].set_index("t_s")["bytes_acked"]
        last = two.index.max()
        assert two.loc[last] > two.loc[:3.5].iloc[-1] + 200_000, place.name


def test_paths_share_a_bottleneck_and_quic_downloads(out: Path) -> None:
    outcome, answer = run(out, SHARED)
    assert outcome["ok"] == 1, answer.stderr
    place = Path(outcome["folder"]) / "cells" / "0000-cell.0"
    groups = cell_metrics(read_cell(place))["groups"]
    assert 4.0 < groups["multipath"]["goodput_mbit"] < 5.0
    carried = [groups[name]["goodput_mbit"] for name in ("one", "two")]
    assert min(carried) > 0.3 and 4.0 < sum(carried) < 5.0
    assert 5.5 < groups["down"]["goodput_mbit"] < 8.0
