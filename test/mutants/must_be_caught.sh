#!/usr/bin/env bash
# Runs a mutated test under several schedules: must_be_caught.sh RUNNER TEST.  Passes if some test in it fails or
# the emulated runtime finds something; a test that cannot run at all catches nothing.
report=$("$1" -k -n 2 -t 60 -- "$2" --gtest_fail_fast --gtest_filter=-*million* 2>&1)
echo "$report"
grep -qE 'Failure$|^\[  FAILED  \]|^cudaemu: ' <<<"$report"
