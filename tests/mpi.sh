#!/bin/bash
# Runs scenarios on 1, 2 and 4 processes and compares their reports. Needs a build with `--features mpi`.
# Usage: tests/mpi.sh CXLAB
set -euo pipefail
cxlab=$1
here=$(cd "$(dirname "$0")/.." && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

launch() {
    local ranks=$1
    shift
    # Open MPI refuses root and more ranks than cores unless it is told.
    mpirun --allow-run-as-root --oversubscribe -np "$ranks" "$@"
}

# All of a report but what depends on the machine.
numbers() {
    grep -vE '"(wall_seconds|events_per_second|per_wall_second)"' "$1/report.json"
}

compare() {
    local name=$1
    shift
    local run=("$cxlab" run "$here/scenarios/$name.toml" --set "measure={ requests = 3000 }" --quiet)
    "${run[@]}" --out "$out/$name"
    for ranks in "$@"; do
        launch "$ranks" "${run[@]}" --out "$out/$name-$ranks"
        cmp <(numbers "$out/$name") <(numbers "$out/$name-$ranks")
        echo "$name on $ranks ranks: the same report"
    done
}

compare spine-leaf-16 2 4
compare torus-16 2 4
compare device-coherent 2 4
compare core-stream 2
compare cluster-stream 2 4

# What two ranks saved, four take up.
run=("$cxlab" run "$here/scenarios/spine-leaf-16.toml" --set "measure={ requests = 3000 }" --quiet)
launch 2 "${run[@]}" --out "$out/saved" --checkpoint "$out/state" --checkpoint-every "2 us"
launch 4 "${run[@]}" --out "$out/restored" --restore "$out/state"
cmp <(numbers "$out/spine-leaf-16") <(numbers "$out/saved")
cmp <(numbers "$out/spine-leaf-16") <(numbers "$out/restored")
echo "spine-leaf-16 saved on 2 ranks and taken up on 4: the same report"

if launch 3 "$cxlab" run "$here/scenarios/direct.toml" --quiet --out "$out/direct" 2>"$out/refused"; then
    echo "error: direct.toml ran on 3 ranks" >&2
    exit 1
fi
grep -q "found 3 ranks; allowed: 1 to" "$out/refused"
echo "more ranks than parts: refused"
