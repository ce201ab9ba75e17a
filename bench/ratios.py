#!/usr/bin/env python3
"""Medians and ratios from the JSON of a benchmark run.

    ratios.py RESULTS.json [--against BASELINE]...

Benchmarks are named WORKLOAD/WHO/SIZE.  For each workload and size, prints the median time an item of
every WHO, and its ratio to the baseline's median in the same run: below 1 is faster than the baseline.
"""
import argparse
import collections
import json
import statistics


def times_per_item(path):
    """{(workload, size): {who: [ns an item, one per repetition]}}"""
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    with open(path) as file:
        report = json.load(file)
    # Interleaved runs end in any order; families are numbered as they were registered.
    for run in sorted(report["benchmarks"], key=lambda run: (run["family_index"], run["per_family_instance_index"])):
        if run["run_type"] != "iteration" or "items_per_second" not in run:
            continue
        workload, who, *size = [
            part for part in run["run_name"].split("/") if part != "real_time" and not part.startswith("threads:")
        ]
        times[workload, "/".join(size)][who].append(1e9 / run["items_per_second"])
    return times


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("results")
    options.add_argument("--against", action="append", default=[], help="baselines, one column each")
    arguments = options.parse_args()
    baselines = arguments.against

    print("| workload | pages | who | ns an item | quartiles |", *[f"/ {b} |" for b in baselines])
    print("|---|---|---|---|---|" + "---|" * len(baselines))
    for (workload, size), by_who in times_per_item(arguments.results).items():
        medians = {who: statistics.median(samples) for who, samples in by_who.items()}
        for who, samples in by_who.items():
            low, _, high = statistics.quantiles(samples, n=4) if len(samples) > 1 else [samples[0]] * 3
            ratios = [f"{medians[who] / medians[b]:.2f} |" if b in medians else "|" for b in baselines]
            print(f"| {workload} | {size} | {who} | {medians[who]:.2f} | {low:.2f}-{high:.2f} |", *ratios)


if __name__ == "__main__":
    main()
