#!/bin/sh
# Draws bench/pool.svg from pool_bench.json: plot.sh RESULTS_FOLDER [OUTPUT.svg].  Needs gnuplot.
set -eu
here=$(dirname "$0")
data=$(mktemp)
trap 'rm -f "$data"' EXIT
python3 - "$here" "$1/pool_bench.json" >"$data" <<'PYTHON'
import statistics
import sys

sys.path.insert(0, sys.argv[1])
from ratios import times_per_item

who = ["plain_floor", "untagged_lifo", "floor", "tagged_lifo"]
print("workload", *who)
times = times_per_item(sys.argv[2])
for workload in ["single", "batch", "churn", "shared"]:
    print(workload, *(statistics.median(times[workload, "65536"][name]) for name in who))
PYTHON
gnuplot -e "data='$data'; out='${2:-$here/pool.svg}'" - <<'GNUPLOT'
set terminal svg size 720,360 font "sans-serif,13" background "white"
set output out
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.9 noborder
set ylabel "ns a page (median)"
set yrange [0:*]
set grid ytics
set key top right noenhanced
plot for [i=2:5] data using i:xtic(1) title columnheader(i)
GNUPLOT
