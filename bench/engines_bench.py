#!/usr/bin/env python3
"""kvpage's churn workload on the page allocators of serving engines: those that Python finds installed.

    engines_bench.py BUILD_FOLDER [--repetitions 5]

vLLM: BlockPool, without prefix caching.  SGLang: TokenToKVPoolAllocator, a page a slot, on CPU tensors and one
thread.  LMDeploy: LogicalAllocator of its PyTorch engine.  Each is driven from Python, by the calls that
its scheduler makes; none needs a GPU (pip install vllm sglang lmdeploy).  A repetition runs every allocator once,
pool_bench's floor and tagged_lifo among them; ratios are of medians.  workloads.hpp says what churn is.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import time

CAPACITY = 65536
REQUESTS, SHORTEST, LONGEST = 64, 128, 144
STEPS = 200


def vllm():
    from vllm.v1.core.block_pool import BlockPool

    pool = BlockPool(num_gpu_blocks=CAPACITY + 1, enable_caching=False, hash_block_size=16)
    return pool.get_new_blocks, pool.free_blocks, lambda parts: [page for part in parts for page in part]


def sglang():
    import torch
    from sglang.srt.mem_cache.allocator import TokenToKVPoolAllocator

    torch.set_num_threads(1)
    pool = TokenToKVPoolAllocator(CAPACITY, torch.bfloat16, "cpu", kvcache=None, need_sort=False)
    return pool.alloc, pool.free, torch.cat


def lmdeploy():
    import numpy
    from lmdeploy.pytorch.paging.block_manager.base_block_manager import LogicalAllocator

    pool = LogicalAllocator(num_cpu_blocks=0, num_gpu_blocks=CAPACITY)
    return pool.allocate, pool.free, numpy.concatenate


def churn(allocate, free, join):
    """ns a page granted.  join makes one list of pages out of several, as the allocator takes them back."""
    shuffled = [allocate(1) for _ in range(CAPACITY // 2)]
    random.Random(1).shuffle(shuffled)
    free(join(shuffled))
    requests = []
    for i in range(REQUESTS):
        used = SHORTEST + i % (LONGEST - SHORTEST)
        requests.append((used, [allocate(used)]))

    def step():
        granted = 0
        for i, (used, parts) in enumerate(requests):
            if used == LONGEST:
                free(join(parts))
                used, parts = SHORTEST, [allocate(SHORTEST)]
                granted += SHORTEST
            parts.append(allocate(1))
            requests[i] = (used + 1, parts)
            granted += 1
        return granted

    for _ in range(STEPS // 10):
        step()
    begin = time.perf_counter_ns()
    granted = sum(step() for _ in range(STEPS))
    return (time.perf_counter_ns() - begin) / granted


def kvpage(build):
    """{allocator: ns a page granted}, from pool_bench."""
    printed = subprocess.run(
        [build / "bench" / "pool_bench", f"--benchmark_filter=^churn/(floor|tagged_lifo)/{CAPACITY}$",
         "--benchmark_format=json", "--benchmark_min_time=0.1"],
        capture_output=True, text=True, check=True).stdout
    return {b["name"].split("/")[1]: 1e9 / b["items_per_second"] for b in json.loads(printed)["benchmarks"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()

    measured = {}
    for _ in range(options.repetitions):
        for name, ns in kvpage(options.build).items():
            measured.setdefault(name, []).append(ns)
        for engine in (vllm, sglang, lmdeploy):
            try:
                allocator = engine()
            except ImportError as missing:
                print(f"{engine.__name__}: left out, {missing}")
                continue
            measured.setdefault(engine.__name__, []).append(churn(*allocator))

    medians = {name: statistics.median(ns) for name, ns in measured.items()}
    print("| who | ns a page | / floor | / tagged_lifo |")
    print("|---|---|---|---|")
    for name, ns in medians.items():
        print(f"| {name} | {ns:.2f} | {ns / medians['floor']:.1f} | {ns / medians['tagged_lifo']:.1f} |")


if __name__ == "__main__":
    main()
