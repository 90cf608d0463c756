"""Scale-out: the same jobs on a dask cluster (dask.distributed), local by default.

Workers need this package, its programs and a shared file system that has the campaign's folder at
the same path, as clusters of Slurm have, or a volume of Kubernetes.  A worker runs one batch at a
time: what a machine can bear is the number of workers on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from distributed import Client, LocalCluster, as_completed

from tcplab.engine.errors import EngineError
from tcplab.engine.job import Job, Settings
from tcplab.run import campaign, local
from tcplab.run.local import Done
from tcplab.scenario import Scenario

LOCAL = "local"
_CONNECT_S = 20


def run(
    address: str,
    workers: int,
    scenario: Scenario,
    settings: Settings,
    folder: Path,
    batch: int,
) -> campaign.Outcome:
    """Runs a campaign on the cluster at `address`, or on a local one of `workers` processes.

    Raises EngineError when there is no scheduler.
    """
    if address == LOCAL:
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            return campaign.run(
                scenario, settings, folder, lambda batches: _submit(client, batches), batch
            )
    try:
        client = Client(address, timeout=_CONNECT_S)
    except (OSError, ValueError) as problem:
        raise EngineError(f"{address}: there is no dask scheduler: {problem}") from None
    with client:
        return campaign.run(
            scenario, settings, folder, lambda batches: _submit(client, batches), batch
        )


def _submit(client: Client, batches: list[list[Job]]) -> Iterator[Done]:
    """Yields jobs as their batches end; the rest is cancelled when the iterator is closed."""
    futures = [client.submit(local.run_batch, jobs, pure=False, retries=0) for jobs in batches]
    known = {future.key: jobs for future, jobs in zip(futures, batches, strict=True)}
    try:
        for future in as_completed(futures):
            error = future.exception()
            if error is None:
                yield from future.result()
                continue
            for job in known[future.key]:
                yield Done(job, 0.0, f"the worker failed: {error}")
    finally:
        client.cancel(futures, force=True)
