#!/usr/bin/env bash
# Everything that only a GPU can show: builds, measures, runs the CUDA tests, and runs them again under
# compute-sanitizer.  Needs an NVIDIA GPU, nvcc, CMake, Ninja and Python.  Meant to take under 6 minutes on an H200 with
# 16 cores, which has yet to be seen; what a caller's limit may cut off comes last.
#
#   bench/gpu.sh [RESULTS]         results go to the folder RESULTS (build/gpu)
#   bench/gpu.sh --fetch FOLDER    on a Debian or Ubuntu machine with a network: unpacks GSL, GoogleTest, Google
#                                  Benchmark, CLI11 and nlohmann-json into FOLDER
#
# A machine without a network takes these from the folder that KVPAGE_DEPS names.  KVPAGE_GPU_ARCH is the GPU's
# architecture (90).
set -uo pipefail

if [[ ${1-} == --fetch ]]; then
  # The library that libbenchmark-dev links to is called differently from release to release.
  benchmark=$(apt-cache depends libbenchmark-dev | sed -n 's/.*Depends: \(libbenchmark[^ ]*\)$/\1/p')
  mkdir -p "${2:?a folder}" && cd "$2" &&
    apt-get download libmsgsl-dev libgtest-dev libbenchmark-dev "$benchmark" libcli11-dev nlohmann-json3-dev &&
    for package in *.deb; do dpkg -x "$package" . && rm "$package"; done
  exit
fi

root=$(realpath "$(dirname "$0")/..")
results=$(realpath -m "${1:-$root/build/gpu}")
prefixes=${KVPAGE_DEPS:+$(realpath "$KVPAGE_DEPS")/usr:}${CMAKE_PREFIX_PATH-}
cd "$root" || exit
mkdir -p "$results"
failed=()
step() {
  local name=$1 begin=$SECONDS
  shift
  echo "=== $name"
  "$@" || failed+=("$name")
  echo "=== $name: $((SECONDS - begin)) s"
}

build() {
  CMAKE_PREFIX_PATH=$prefixes \
    cmake --preset cuda -B build/cuda -DCMAKE_CUDA_ARCHITECTURES="${KVPAGE_GPU_ARCH:-90}-real" &&
    cmake --build build/cuda -j "$(nproc)" --target cuda_tests verify_bench storage_cuda_bench step_bench
}
tests() { ctest --test-dir build/cuda -L cuda --output-on-failure -j 4; }

# Not the longest tests, since the tools slow kernels down a lot, and none that end a process on purpose.
sanitize() {
  local program
  for program in build/cuda/test/cuda_*_test; do
    compute-sanitizer --tool "$1" --error-exitcode 1 "$program" --gtest_filter='-*random*:*million*:*overlaps*:*so_does*:*death*' || return 1
  done
}
measure() {
  build/cuda/bench/verify_bench --benchmark_repetitions=5 --benchmark_min_time=0.002 \
    --benchmark_enable_random_interleaving=true --benchmark_out="$results/verify.json" --benchmark_out_format=json &&
    bench/verify_table.py "$results/verify.json" | tee "$results/verify.md"
}

measure_steps() {
  build/cuda/bench/step_bench --benchmark_repetitions=15 --benchmark_min_time=0.02 \
    --benchmark_enable_random_interleaving=true --benchmark_out="$results/step.json" --benchmark_out_format=json \
    >/dev/null && bench/ratios.py "$results/step.json" --against anew | tee "$results/step.md"
}

measure_storage() {
  build/cuda/bench/storage_cuda_bench --benchmark_repetitions=3 --benchmark_min_time=0.02 \
    --benchmark_enable_random_interleaving=true --benchmark_report_aggregates_only=true \
    --benchmark_out="$results/storage.json" --benchmark_out_format=json | tee "$results/storage.txt"
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$results/gpu.txt"
step "build" build
step "measurements" measure
step "the host's part of a step" measure_steps
step "measurements of storage" measure_storage
step "tests" tests
if command -v compute-sanitizer >/dev/null; then
  step "memcheck" sanitize memcheck
  step "racecheck" sanitize racecheck
else
  echo "=== no compute-sanitizer on this machine"
fi

for name in "${failed[@]}"; do echo "FAILED: $name"; done
((${#failed[@]} == 0))
