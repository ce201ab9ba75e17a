#!/usr/bin/env bash
# Everything that only a GPU can show: builds, runs the CUDA tests, runs them again under compute-sanitizer, and
# measures.  Needs an NVIDIA GPU, nvcc, CMake, Ninja and Python; under 6 minutes on an H200 with 16 cores.
#
#   bench/gpu.sh [RESULTS]         results go to the folder RESULTS (build/gpu)
#   bench/gpu.sh --fetch FOLDER    on a Debian or Ubuntu machine with a network: unpacks GSL, GoogleTest and Google
#                                  Benchmark into FOLDER
#
# A machine without a network takes these from the folder that KVPAGE_DEPS names.  KVPAGE_GPU_ARCH is the GPU's
# architecture (90).
set -uo pipefail
cd "$(dirname "$0")/.."

if [[ ${1-} == --fetch ]]; then
  mkdir -p "${2:?a folder}" && cd "$2" &&
    apt-get download libmsgsl-dev libgtest-dev libbenchmark-dev libbenchmark1debian &&
    for package in *.deb; do dpkg -x "$package" . && rm "$package"; done
  exit
fi

results=$(realpath -m "${1:-build/gpu}")
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
  CMAKE_PREFIX_PATH=${KVPAGE_DEPS:+$(realpath "$KVPAGE_DEPS")/usr} \
    cmake --preset cuda -B build/cuda -DCMAKE_CUDA_ARCHITECTURES="${KVPAGE_GPU_ARCH:-90}-real" &&
    cmake --build build/cuda -j "$(nproc)" --target cuda_tests verify_bench storage_cuda_bench step_bench
}
tests() { ctest --test-dir build/cuda -L cuda --output-on-failure -j 4; }

# Not the longest tests: the tools slow kernels down a lot.
sanitize() {
  local program
  for program in build/cuda/test/cuda_*_test; do
    compute-sanitizer --tool "$1" --error-exitcode 1 "$program" --gtest_filter='-*random*:*million*' || return 1
  done
}
measure() {
  build/cuda/bench/verify_bench --benchmark_repetitions=5 --benchmark_min_time=0.02 \
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
step "tests" tests
if command -v compute-sanitizer >/dev/null; then
  step "memcheck" sanitize memcheck
  step "racecheck" sanitize racecheck
else
  echo "=== no compute-sanitizer on this machine"
fi
step "measurements" measure
step "the host's part of a step" measure_steps
step "measurements of storage" measure_storage

for name in "${failed[@]}"; do echo "FAILED: $name"; done
((${#failed[@]} == 0))
