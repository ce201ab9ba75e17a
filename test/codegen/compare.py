#!/usr/bin/env python3
"""Proves that the `untagged` policy costs nothing: same instructions as code written by hand.

    compare.py --library DIR [--include DIRS] [--compiler g++] [--plant byte | instruction | symbol]
               [--show]

Compiles subject.cpp three times at -O2 and at -O3, disassembles the op_* functions, replaces addresses by
offsets in the function and names of callees by their place, and compares:
  untagged against by_hand    must be the same, instruction by instruction
  tagged against by_hand      must differ, or the comparison sees nothing
Nor must an `untagged` program.cpp contain a symbol of the verifier, and a `tagged` one must.  Sizes are compared
by static_assert in subject.cpp.  --plant works on a copy of the headers in which the untagged path has been given
one byte, one instruction or one symbol more; the proof must fail then.  Exit status 0: proven.
"""
import argparse
import difflib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
OPERATIONS = ["op_allocate", "op_retain", "op_release", "op_append", "op_export_padded", "op_decode_step"]

OF_THE_VERIFIER = r".*(?:verif|verdict|describe|entry_holds|tag_journal|journal_list|table_history).*"

# file, the text before which something is planted, what is planted
PLANTS = {
    "byte": ("kvpage/page_handle.hpp", "  page_id id_ = null_page;", "  std::uint8_t planted_ = 0;\n"),
    "instruction": ("kvpage/page_pool.hpp", "  page_id* const freed = free_.back();", '  asm volatile("nop");\n'),
    "symbol": ("kvpage/verify.hpp", "  if constexpr (Pool::policy::is_tagged) {",
               "  static volatile int planted; planted = 1;\n"),
}


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"not proven: {' '.join(str(part) for part in command)}\n{done.stderr}")
    return done.stdout


def planted(include, plant, folder):
    """A copy of the headers with the plant in them: its text in a file, before an anchor."""
    copy = folder / "include"
    shutil.copytree(include, copy)
    name, anchor, text = plant
    header = copy / name
    original = header.read_text()
    if anchor not in original:
        sys.exit(f"{name} has no line to plant at: {anchor}")
    header.write_text(original.replace(anchor, text + anchor, 1))
    return copy


def functions(object_file):
    """{operation: [normalised instruction]}"""
    listing = run("objdump", "-dr", "--no-show-raw-insn", "-Mintel", object_file)
    found = {}
    for block in re.split(r"\n(?=[0-9a-f]+ <)", listing):
        head = re.match(r"([0-9a-f]+) <(\w+)>:\n", block)
        if not head or head[2] not in OPERATIONS:
            continue
        start, name = int(head[1], 16), head[2]
        callees = {}
        code = []
        for line in block.splitlines()[1:]:
            relocation = re.match(r"\s+[0-9a-f]+: R_\w+\s+(\S+)", line)
            if relocation:  # whom the previous instruction calls or loads: by order of appearance
                code[-1] = re.sub(r"[0-9a-f]+ <[^>]*>", "", code[-1]).strip()
                target = relocation[1]
                code[-1] += f" symbol {callees.setdefault(target, len(callees))}"
                continue
            instruction = re.match(r"\s*[0-9a-f]+:\s+(.*)", line)
            if instruction and not re.match(r"(data16 )*(cs )?nop|xchg +ax,ax", instruction[1]):
                text = re.sub(r"\s+", " ", instruction[1].split("#")[0].strip())
                code.append(text)
        # Jumps inside the function: which instruction they lead to, counted, as padding may lie between.
        found[name] = renumber(block, start, code)
    return found


def renumber(block, start, code):
    """Replaces the absolute targets of jumps by the index of the instruction they lead to."""
    addresses = []
    for line in block.splitlines()[1:]:
        instruction = re.match(r"\s*([0-9a-f]+):\s+(?!R_)(.*)", line)
        if instruction:
            padding = re.match(r"(data16 )*(cs )?nop|xchg +ax,ax", instruction[2])
            addresses.append((int(instruction[1], 16), bool(padding)))
    index_of, index = {}, 0
    for address, padding in addresses:
        index_of[address] = index
        index += not padding
    def local(match):
        return f"to {index_of.get(int(match[1], 16), 'elsewhere')}"
    return [re.sub(r"\b([0-9a-f]+) <op_\w+(?:\+0x[0-9a-f]+)?>", local, text) for text in code]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="the library's folder of headers")
    parser.add_argument("--include", default="", help="further folders, separated by semicolons")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--plant", choices=PLANTS)
    parser.add_argument("--show", action="store_true", help="print what differs")
    options = parser.parse_args()

    # clang reads [[gnu::flatten]] as one level deep.
    inline_all = ["-mllvm", "-inline-threshold=100000"] if "clang" in options.compiler else []

    failures = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        library = planted(options.library, PLANTS[options.plant], folder) if options.plant else options.library
        includes = [f"-I{path}" for path in [library, *options.include.split(";")] if path]
        print(f"{'':5}{'':18}{'by hand':>9}{'untagged':>10}{'tagged':>9}   instructions, {options.compiler}")
        for level in ["-O2", "-O3"]:
            code = {}
            for subject in ["by_hand", "untagged", "tagged"]:
                target = folder / f"{subject}{level}.o"
                run(options.compiler, "-std=c++20", level, *inline_all, *includes, f"-DKVPAGE_SUBJECT={subject}",
                    f"-DKVPAGE_IS_LIBRARY={int(subject != 'by_hand')}", "-c", HERE / "subject.cpp", "-o", target)
                code[subject] = functions(target)
            for operation in OPERATIONS:
                by_hand, untagged, tagged = (code[subject][operation] for subject in code)
                same = untagged == by_hand
                print(f"{level:5}{operation:18}{len(by_hand):9}{len(untagged):10}{len(tagged):9}"
                      f"   {'same' if same else 'DIFFERENT'}")
                if not same:
                    failures.append(f"{operation} at {level}: untagged is not the code written by hand")
                    if options.show:
                        print("\n".join(difflib.unified_diff(by_hand, untagged, "by_hand", "untagged", lineterm="")))
                if tagged == by_hand and operation != "op_export_padded":  # which never sees a tag
                    failures.append(f"{operation} at {level}: tagged does not differ; the comparison is blind")
            for subject in ["untagged", "tagged"]:
                program = folder / f"program_{subject}"
                run(options.compiler, "-std=c++20", level, *includes, f"-DKVPAGE_SUBJECT={subject}",
                    HERE / "program.cpp", "-o", program)
                symbols = re.findall(OF_THE_VERIFIER, run("nm", "-C", program))
                if subject == "untagged":
                    failures += [f"a symbol of the verifier in an untagged program: {name}" for name in symbols]
                elif not symbols:
                    failures.append("no symbol of the verifier in a tagged program; the search is blind")
    for failure in failures:
        print("not proven:", failure)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
