#!/bin/sh
# Measures everything on the host and prints the tables of bench/README.md: run.sh BUILD_FOLDER [RESULTS_FOLDER]
# Repetitions of all benchmarks of a program are interleaved at random, so that a machine that drifts drifts
# for all of them; every ratio is one of medians within one run.
set -eu
build=$1
results=${2:-$build/bench/results}
here=$(dirname "$0")
mkdir -p "$results"

measure() {  # PROGRAM FLAGS...
  program=$1
  shift
  "$build/bench/$program" --benchmark_enable_random_interleaving=true --benchmark_repetitions="${REPETITIONS:-15}" \
    --benchmark_min_time=0.02 --benchmark_out="$results/$program.json" --benchmark_out_format=json "$@" \
    >"$results/$program.txt" 2>&1
}

measure pool_bench --benchmark_filter="${POOLS:-/65536}"
python3 "$here/ratios.py" "$results/pool_bench.json" --against floor --against plain_floor
measure alternatives_bench
python3 "$here/ratios.py" "$results/alternatives_bench.json" --against floor --against kvpage_tagged
measure threads_bench
python3 "$here/ratios.py" "$results/threads_bench.json" --against page_pool_1_threads
measure host_verify_bench
python3 "$here/ratios.py" "$results/host_verify_bench.json" --against plain_gather
measure table_bench
python3 "$here/ratios.py" "$results/table_bench.json" --against untagged
measure prefix_bench
python3 "$here/ratios.py" "$results/prefix_bench.json"
measure storage_bench
python3 "$here/ratios.py" "$results/storage_bench.json" --against memcpy
