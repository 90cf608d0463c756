"""Choice under loss and latency: the published table, and the same on a path that is emulated
well.

`veth-…` is the published set-up: two namespaces, a veth pair, netem on the sender's device with
its default limit, offloads on (so that netem loses up to 64 KB at once), the machine the only
limit of the rate.  `path-…` is left - router - right, netem on the router, one segment per
packet, a stated rate.

Each way of choosing has its turn in the same boot: every static arm (set by flowgen as an
application would, so that no tool touches it), tcpilot, bpftune.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass

from tcplab.studies.pilot.experiments import ALL_ARMS, ARMS, BPFTUNE_CONN, Experiment, mark

# Connections that a tool is given: the published 75.
CONNECTIONS = 75
STATIC_CONNECTIONS = 20


@dataclass(frozen=True)
class Condition:
    """One impairment, and the length of each connection: at least 20 round trips, and several
    time-outs where there is loss."""

    name: str
    seconds: float
    loss_percent: float = 0
    delay_ms: float = 0
    """Round trip.  On a routed path it lies on the way back, where acknowledgements queue."""
    rate_mbit: int = 0
    """Of the router's bottleneck; 0: the published set-up, without a router."""

    def network(self) -> str:
        """The line that builds it."""
        loss = f"loss {self.loss_percent:g}%" if self.loss_percent else ""
        delay = f"delay {self.delay_ms:g}ms" if self.delay_ms else ""
        if not self.rate_mbit:
            return f"network_direct '{_words(loss, delay)}'"
        return f"network_routed '{_words(loss, f'rate {self.rate_mbit}mbit')}' '{delay}'"


def _words(*parts: str) -> str:
    return " ".join(filter(None, parts))


CONDITIONS = {
    c.name: c
    for c in (
        Condition("veth-loss10", 1, loss_percent=10),
        Condition("veth-loss5", 1, loss_percent=5),
        Condition("veth-clean", 0.1),
        Condition("veth-delay10", 0.4, delay_ms=10),
        Condition("veth-delay100", 2, delay_ms=100),
        Condition("path-loss10", 1, loss_percent=10, delay_ms=10, rate_mbit=50),
        Condition("path-loss5", 1, loss_percent=5, delay_ms=10, rate_mbit=50),
        Condition("path-delay10", 0.5, delay_ms=10, rate_mbit=50),
        Condition("path-delay100", 3, delay_ms=100, rate_mbit=20),
    )
}


def experiment(condition: Condition, quick: bool) -> Experiment:
    """All ways of choosing, one after the other, under one condition."""
    count, static = (24, 5) if quick else (CONNECTIONS, STATIC_CONNECTIONS)
    flow = f"flow bulk --seconds {condition.seconds:g}"
    script = [condition.network(), "serve"]
    script += [mark(what="flows", tool="cubic"), f"{flow} --count {count} --cc cubic"]
    for arm in ARMS[1:]:
        script += [mark(what="flows", tool=f"static {arm}")]
        script += [f"{flow} --count {static} --cc {arm}"]
    script += [f"tcpilot_start {shlex.quote(ALL_ARMS)}", mark(what="flows", tool="tcpilot")]
    script += [f"{flow} --count {count}"]
    for question in ("paths", f"explain {ADDRESS}", "status"):
        script += [mark(what=question.split()[0], tool="tcpilot"), f"ask {question}"]
    script += ["tool_stop", f"bpftune_start {BPFTUNE_CONN}"]
    script += [mark(what="flows", tool="bpftune"), f"{flow} --count {count}", "tool_stop"]
    script += [mark(what="table", tool="bpftune"), "tail -n 60 $runtime/bpftune.log"]
    parameters = {**asdict(condition), "count": count, "static_count": static}
    return Experiment(f"choice-{condition.name}", script, parameters)


# The receiver, as guest/lib.sh has it.
ADDRESS = "10.200.2.2"
