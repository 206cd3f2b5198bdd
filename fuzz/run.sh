#!/bin/bash
# Builds the fuzz targets and runs them one after another. `make test-fuzz` calls it.
#
#   FUZZ_SECONDS   seconds for each target (60)
#   FUZZ_SEED      seed of the mutations (today's date)
#   FUZZ_TARGETS   targets to run (all)
#
# Inputs that reach new code are kept in the target folder and used again by the next run.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-60}
seed=${FUZZ_SEED:-$(date +%Y%m%d)}
all=$(sed -n '/^\[\[bin/,$ s/^name = "\(.*\)"/\1/p' fuzz/Cargo.toml)
targets=${FUZZ_TARGETS:-$all}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
host=$(rustc -vV | sed -n 's/^host: //p')

# The flags that cargo-fuzz passes. Sanitizers alone need a nightly compiler. With --target, build
# scripts and procedural macros are not instrumented.
flags="--cfg fuzzing -Cpasses=sancov-module"
for flag in level=4 inline-8bit-counters pc-table trace-compares; do
    flags+=" -Cllvm-args=-sanitizer-coverage-$flag"
done
RUSTFLAGS="${RUSTFLAGS:-} $flags" "${CARGO:-cargo}" build --manifest-path fuzz/Cargo.toml --release --locked \
    --target "$host" --target-dir "$target"

TMPDIR=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

failed=0
printf '%-12s %12s %10s %10s\n' target executions coverage corpus
for name in $targets; do
    found=$target/fuzz/findings/$name
    corpus=$target/fuzz/corpus/$name
    log=$target/fuzz/$name.log
    mkdir -p "$found" "$corpus"
    seeds=()
    [ -d "fuzz/corpus/$name" ] && seeds+=("fuzz/corpus/$name")
    length=4096
    case $name in
    scenario) seeds+=(scenarios) length=8192 ;;
    report) length=65536 ;;
    esac
    status=0
    "$target/$host/release/$name" "$corpus" "${seeds[@]}" -max_total_time="$seconds" -seed="$seed" \
        -max_len="$length" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 -print_final_stats=1 \
        -artifact_prefix="$found/" >"$log" 2>&1 || status=$?
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 || true)
    printf '%-12s %12s %10s %10s\n' "$name" "${executions:-0}" "${coverage#cov: }" "$(find "$corpus" -type f | wc -l)"
    if [ "$status" != 0 ]; then
        failed=1
        input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1 || true)
        {
            echo "error: $name found a fault (seed $seed); its output: $log"
            echo "  the input: ${input:-none was written}"
            [ -z "$input" ] || echo "  run it again: $target/$host/release/$name $input"
        } >&2
    fi
done
exit "$failed"
