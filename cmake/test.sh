#!/usr/bin/env bash
# Installs what is missing (and says so), builds everything for the host into build/release, passes all tests.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake/bootstrap.sh
cmake --workflow --preset test
