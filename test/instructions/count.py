#!/usr/bin/env python3
"""Counts instructions of the hot operations under callgrind and compares them with recorded bounds.

    count.py PROGRAM [--compiler "GNU 12"] [--record]

A guard that a busy machine cannot disturb.  bounds.json holds instructions an item, as one compiler made them;
more than 2 % above one is a regression (exit status 1), and for other compilers there is nothing to compare
with.  --record writes the counts of this run.  Without valgrind: exit status 77, skipped.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BOUNDS = pathlib.Path(__file__).resolve().parent / "bounds.json"
OPERATIONS = ["grant_and_release", "one_page", "retain_and_release", "append", "export", "verify", "convert"]
ONCE = ["verify", "convert"]  # untagged, there is nothing to verify; and values have no tags
TOLERANCE = 1.02


def instructions_an_item(program, operation, policy):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*count_*",
             f"--callgrind-out-file={folder}/out", program, operation, policy],
            capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1]) / int(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--compiler", default="GNU 12")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()

    if not shutil.which("valgrind"):
        print("skipped: valgrind is not installed")
        sys.exit(77)
    recorded = json.loads(BOUNDS.read_text()) if BOUNDS.exists() else {}
    if not options.record and recorded.get("compiler") != options.compiler:
        print(f"skipped: the bounds are those of {recorded.get('compiler')}, this is {options.compiler}")
        sys.exit(77)

    counts, failed = {}, False
    for policy in ["untagged", "tagged"]:
        for operation in OPERATIONS:
            if operation in ONCE and policy == "untagged":
                continue
            name = f"{operation}/{policy}"
            counts[name] = round(instructions_an_item(options.program, operation, policy), 2)
            bound = recorded.get("instructions", {}).get(name)
            verdict = ""
            if not options.record:
                over = bound is None or counts[name] > bound * TOLERANCE
                failed |= over
                verdict = f"recorded {bound}" + (": MORE" if over else "")
            print(f"{name:28}{counts[name]:8.2f}  {verdict}", flush=True)
    if options.record:
        BOUNDS.write_text(json.dumps({"compiler": options.compiler, "instructions": counts}, indent=2) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
