"""One rank of PyTorch's DistributedDataParallel (gloo) under mpirun, timed as benchmarks/exchange/training.cpp times ours.

usage: mpirun ... torch_ddp.py NET BATCH SECONDS MASTER PORT INTERFACE LAYOUT [--alone]

Rank 0 prints one JSON line: ranks, steps, best and median seconds of a step, CPU seconds of a rank and step.
"""
import json
import os
import resource
import statistics
import sys
import time

WARM_UP = 3


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def first_set(*names):
    return int(next(os.environ[name] for name in names if name in os.environ))


def main():
    net, batch, seconds, master, port, interface, layout = sys.argv[1:8]
    alone = "--alone" in sys.argv
    rank = first_set("OMPI_COMM_WORLD_RANK", "PMI_RANK")
    ranks = first_set("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
    os.environ.update(OMP_NUM_THREADS="1", MASTER_ADDR=master, MASTER_PORT=port, GLOO_SOCKET_IFNAME=interface)
    import torch
    import torch.distributed as dist
    from torch_subject import Subject
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    subject = Subject(net, "train", int(batch), 1, layout)
    if not alone:
        subject.model = torch.nn.parallel.DistributedDataParallel(subject.model)
    start = time.perf_counter()
    subject.run(WARM_UP)
    steps = torch.tensor([max(5, min(1000, int(float(seconds) / (time.perf_counter() - start) * WARM_UP)))])
    dist.broadcast(steps, 0)
    dist.barrier()
    before = cpu_seconds()
    times = subject.run(int(steps))
    cpu = torch.tensor([(cpu_seconds() - before) / int(steps) / ranks])
    dist.all_reduce(cpu)
    if rank == 0:
        print(json.dumps({"ranks": ranks, "steps": int(steps), "best": min(times), "median": statistics.median(times),
                          "cpu": cpu.item()}), flush=True)
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # without PyTorch's teardown, which aborts now and then: a thread of its own still runs


if __name__ == "__main__":
    main()
