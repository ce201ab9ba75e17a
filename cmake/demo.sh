#!/usr/bin/env bash
# Installs what is missing (and says so), builds kvpage-replay into build/release and replays serving traffic
# with injected faults twice: without tags, where foreign reads reach requests, and with tags, where none does.
# The traffic is generated, or read from a Mooncake-format file: cmake/demo.sh [FILE], or KVPAGE_TRACE=FILE.
set -euo pipefail
trace=${1-${KVPAGE_TRACE-}}
if [[ -n $trace || $# -gt 0 ]]; then
  if [[ ! -r $trace || -d $trace ]]; then
    echo "\"$trace\" cannot be read: it must be a Mooncake-format JSONL file" >&2
    exit 2
  fi
  trace=$(realpath "$trace")
fi
cd "$(dirname "$0")/.."

cmake/bootstrap.sh
cmake --workflow --preset replay

faults=stale_table=200,early_free=200,wrong_page=200,out_of_range=200,short_row=200,double_free=200
for policy in untagged tagged; do
  echo
  echo "== $policy"
  build/release/examples/replay/kvpage-replay --policy "$policy" --faults "$faults" ${trace:+--trace "$trace"}
done
