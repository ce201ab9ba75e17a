#!/usr/bin/env python3
"""Proves that `untagged` costs nothing on the device: the PTX of a unit without kvpage, line by line.

    compare_ptx.py --library DIR [--include DIRS] [--nvcc nvcc] [--plant instruction | kernel]

Compiles decode_step.cu three times:
  untagged against by_hand    must be the same PTX, so that no kernel of the verifier or the update is in it
  tagged against by_hand      must have those kernels, and another one where it reads handles; `attention`, which
                              reads the exported tables, is the same in all three
--plant works on a copy of the headers in which reading an untagged handle takes one instruction more, or an untagged
unit has a kernel more; the proof must fail then.  Exit status 0: proven.
"""
import argparse
import pathlib
import re
import sys
import tempfile

from compare import HERE, planted, run

PLANTS = {
    "instruction": ("kvpage/page_handle.hpp", "return id_; }", "if (id_ > 0x7fffffff) return 0; "),
    "kernel": ("kvpage/cuda/verifier.cuh", "// Untagged: nothing is stored", "__global__ void planted() {}\n"),
}
OF_THE_ENGINE = ["attention", "clear_granted"]


def kernels(ptx):
    """{name: its lines}"""
    found, lines = {}, None
    for line in ptx:
        entry = re.match(r"(?:\.\w+ )*\.entry (\w+)\(", line)
        if entry:
            lines = found[entry[1]] = []
        if lines is not None:
            lines.append(line)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="the library's folder of headers")
    parser.add_argument("--include", default="", help="further folders, separated by semicolons")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--plant", choices=PLANTS)
    options = parser.parse_args()

    units = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        library = planted(options.library, PLANTS[options.plant], folder) if options.plant else options.library
        includes = [f"-I{path}" for path in [library, *options.include.split(";")] if path]
        for subject in ["by_hand", "untagged", "tagged"]:
            target = folder / f"{subject}.ptx"
            run(options.nvcc, "-std=c++20", "-O3", "-arch=compute_90", "-ptx", *includes, f"-DKVPAGE_SUBJECT={subject}",
                f"-DKVPAGE_IS_LIBRARY={int(subject != 'by_hand')}", HERE / "decode_step.cu", "-o", target)
            code = (line.split("//")[0].strip() for line in target.read_text().splitlines())
            units[subject] = [line for line in code if line]

    by_hand, untagged, tagged = (kernels(units[subject]) for subject in units)
    failures = []
    if sorted(by_hand) != OF_THE_ENGINE:
        failures.append(f"the unit written by hand has other kernels than its own: {sorted(by_hand)}")
    for kernel in untagged.keys() - set(OF_THE_ENGINE):
        failures.append(f"a kernel in an untagged unit: {kernel}")
    for kernel in OF_THE_ENGINE:
        if untagged.get(kernel) != by_hand.get(kernel):
            failures.append(f"{kernel}: untagged is not the code written by hand")
    if not failures and units["untagged"] != units["by_hand"]:
        failures.append("outside of the kernels, untagged is not the code written by hand")
    if tagged["attention"] != by_hand["attention"]:
        failures.append("attention: tagged is not the code written by hand")
    for kernel in ["verify_rows", "update_tables"]:
        if not any(kernel in name for name in tagged):
            failures.append(f"tagged has no {kernel}; the comparison is blind")
    if tagged["clear_granted"] == by_hand["clear_granted"]:
        failures.append("clear_granted: tagged does not differ; the comparison is blind")

    for subject, lines in units.items():
        print(f"{subject:9}{len(lines):6} lines of PTX, kernels: {', '.join(sorted(kernels(lines)))}")
    for failure in failures:
        print("not proven:", failure)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
