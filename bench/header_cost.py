#!/usr/bin/env python3
"""What each public header adds to a translation unit: CPU seconds of `CXX -std=c++20 -O2 -c`, least of three,
above an empty file's.

    header_cost.py [--compiler g++] [--include DIR]...
"""
import argparse
import pathlib
import resource
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def seconds(compiler, includes, text):
    with tempfile.TemporaryDirectory() as name:
        source = pathlib.Path(name) / "unit.cpp"
        source.write_text(text)
        spent = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([compiler, "-std=c++20", "-O2", *includes, "-c", source, "-o", pathlib.Path(name) / "unit.o"],
                           check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(spent)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--include", action="append", default=[], help="where GSL is, if not in the usual place")
    parser.add_argument("headers", nargs="*", help="default: all of include/kvpage/*.hpp")
    options = parser.parse_args()
    includes = [f"-I{path}" for path in [ROOT / "include", *options.include]]
    headers = options.headers or sorted(path.name for path in (ROOT / "include" / "kvpage").glob("*.hpp"))
    empty = seconds(options.compiler, includes, "")
    print("| header | CPU seconds above an empty file |\n|---|---|")
    for header in headers:
        print(f"| {header} | {seconds(options.compiler, includes, f'#include <kvpage/{header}>') - empty:.2f} |", flush=True)


if __name__ == "__main__":
    main()
