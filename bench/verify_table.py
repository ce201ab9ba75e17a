#!/usr/bin/env python3
"""A table from the JSON of verify_bench: verify_table.py RESULTS.json

Microseconds a launch on the device, the median of the repetitions.  "of a step" is the verifier in a graph as a
part of a 10 ms decode step; "of copy" is the bandwidth it reaches, counting 44 bytes a page, as a part of what a
copy of as many bytes reaches in the same run.
"""
import collections
import json
import statistics
import sys

COLUMNS = ["empty", "empty_graph", "eager", "graph", "step_graph", "gather", "copy"]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    with open(sys.argv[1]) as file:
        for run in json.load(file)["benchmarks"]:
            if run["run_type"] == "iteration":
                _, who, rows, pages, *_ = run["run_name"].split("/")
                times[int(rows), int(pages)][who].append(run["real_time"])

    print("| rows x pages |", *[f"{column} |" for column in COLUMNS], "of a step | of copy |")
    print("|---|" + "---|" * (len(COLUMNS) + 2))
    for (rows, pages), by_who in sorted(times.items(), key=lambda entry: entry[0][0] * entry[0][1]):
        medians = {who: statistics.median(samples) for who, samples in by_who.items()}
        cells = [f"{medians[who]:.2f}" if who in medians else "" for who in COLUMNS]
        cells.append(f"{medians['graph'] / 1e4:.3%}" if "graph" in medians else "")
        cells.append(f"{medians['copy'] / medians['graph']:.2f}" if {"graph", "copy"} <= medians.keys() else "")
        print(f"| {rows} x {pages} |", *[f"{cell} |" for cell in cells])


if __name__ == "__main__":
    main()
