#!/usr/bin/env bash
# Installs what kvpage is built with, on Debian 12 and Ubuntu 24.04: says what is missing, then fetches just
# that.  With --ci also what only the checks of .ci/run need.
set -euo pipefail

# package:command; without a command the package itself must be installed.
wanted=(cmake:cmake ninja-build:ninja g++:g++ libmsgsl-dev: libgtest-dev: libbenchmark-dev: nlohmann-json3-dev:
  libcli11-dev:)
if [[ ${1-} == --ci ]]; then
  wanted+=(clang:clang++ libclang-rt-dev: clang-format:clang-format clang-tidy:clang-tidy make:make
    python3:python3 valgrind:valgrind)
fi

if ! command -v apt-get >/dev/null; then
  echo "No apt-get here, nothing installed.  kvpage is built with: ${wanted[*]%%:*}"
  exit 0
fi

missing=()
for entry in "${wanted[@]}"; do
  package=${entry%%:*} command=${entry#*:}
  if [[ -n $command ]] && command -v "$command" >/dev/null; then continue; fi
  if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]]; then continue; fi
  missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "Everything that kvpage is built with is here."
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "Missing, and neither root nor sudo to install it: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing with apt-get: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
