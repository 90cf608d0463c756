"""Scale-out: the same jobs on a dask cluster (dask.distributed), local by default.  Needs the extra
`tcplab[cluster]`.

Workers need this package, its programs and a shared file system with the campaign's folder at the
same path, as on clusters of Slurm or in a volume of Kubernetes.  A worker runs one batch at a time:
the number of workers on a machine limits its load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tcplab.engine.errors import EngineError
from tcplab.engine.job import Job
from tcplab.run import local
from tcplab.run.local import Done

if TYPE_CHECKING:
    from distributed import Client

LOCAL = "local"
_CONNECT_S = 20


@contextmanager
def connected(address: str, workers: int) -> Iterator[Callable[[list[list[Job]]], Iterator[Done]]]:
    """The runner of batches on the cluster at `address`, or on a local one of `workers` processes.

    Raises EngineError without dask, or if there is no scheduler.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        remedy = "pip install dask distributed (the extra tcplab[cluster])"
        raise EngineError(f"--scheduler needs dask; run: {remedy}") from None
    with ExitStack() as stack:
        if address == LOCAL:
            local_cluster = LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
            )
            client = Client(stack.enter_context(local_cluster))
        else:
            try:
                client = Client(address, timeout=_CONNECT_S)
            except (OSError, ValueError) as problem:
                text = f"{address}: there is no dask scheduler: {problem}"
                raise EngineError(text) from None
        stack.enter_context(client)
        yield lambda batches: _submit(client, batches)


def _submit(client: Client, batches: list[list[Job]]) -> Iterator[Done]:
    """Yields jobs as their batches end; the rest is cancelled when the iterator is closed."""
    from distributed import as_completed

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
