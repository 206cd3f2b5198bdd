#!/bin/busybox sh
# The guest's first process: loads the CXL drivers, makes one region and one NUMA node of each
# window, waits, runs the program once for each memory, powers off. What it tells cxlab begins with
# "@cxlab ". /cxlab/boot says what the machine has. While it waits, it can be saved and restored; what
# comes then is a run's own: /cxlab/run, and /cxlab/argv, the program and its arguments.
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin HOME=/ TERM=dumb
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t debugfs debug /sys/kernel/debug
mount -t devtmpfs dev /dev
mkdir -p /tmp /run /dev/shm
mount -t tmpfs tmp /tmp
mount -t tmpfs shm /dev/shm
stty -F /dev/ttyS0 -onlcr -echo 2>/dev/null
say() { echo "@cxlab $*"; }
# Also where the output of a function is taken.
fail() { say "failed $*" > /dev/ttyS0; poweroff -f; sleep 60; }
uptime() { cut -d ' ' -f 1 /proc/uptime; }
say up "$(uptime)"

for module in $(cat /cxlab/modules); do
    insmod "/lib/modules/$module" || fail "insmod $module"
done
cd /sys/bus/cxl/devices || fail "the kernel found no CXL"
. /cxlab/boot

memory_of() { # SERIAL: the kernel's name of the device
    for one in mem*; do
        [ "$(($(cat "$one/serial")))" = "$1" ] && echo "$one"
    done
}
endpoint_decoder() { # MEMORY: a decoder of its endpoint
    for one in decoder*; do
        [ -f "$one/dpa_size" ] || continue
        port=$(dirname "$(readlink -f "$one")")
        [ "$(basename "$(readlink -f "$port/uport")")" = "$1" ] && { echo "$one"; return; }
    done
}
region_persistent() { # ROOT GRANULARITY MEMORIES: the region's name
    root=$1 granularity=$2
    shift 2
    made=$(cxl create-region -m -d "$root" -w $# -g "$granularity" -t pmem "$@" 2>&1)
    region=$(echo "$made" | sed -n 's/.*"region":"\([^"]*\)".*/\1/p')
    [ -n "$region" ] || fail "cxl create-region:" $made
    echo "$region"
}
region_volatile() { # ROOT GRANULARITY SIZE MEMORIES: likewise, by sysfs
    root=$1 granularity=$2 size=$3
    shift 3
    region=$(cat "$root/create_ram_region")
    echo "$region" > "$root/create_ram_region" || fail "create_ram_region"
    echo "$granularity" > "$region/interleave_granularity"
    echo $# > "$region/interleave_ways"
    targets=
    for memory in "$@"; do
        decoder=$(endpoint_decoder "$memory")
        echo ram > "$decoder/mode" && echo $((size / $#)) > "$decoder/dpa_size" ||
            fail "the decoder of $memory"
        targets="$targets $decoder"
    done
    echo "$size" > "$region/size" || fail "the size of $region"
    way=0
    for decoder in $targets; do
        echo "$decoder" > "$region/target$way" || fail "target $way of $region"
        way=$((way + 1))
    done
    echo 1 > "$region/commit" || fail "commit of $region"
    echo "$region" > /sys/bus/cxl/drivers/cxl_region/bind 2>/dev/null
    echo "$region"
}
window() { # NUMBER GRANULARITY SIZE SERIALS: a region, and its node or character device
    number=$1 granularity=$2 size=$3
    shift 3
    devdax=$DEVDAX
    # Memory that other guests have too is no node of this one.
    case " $SHARED " in *" $number "*) devdax=1 ;; esac
    memories=
    for serial in "$@"; do
        memories="$memories $(memory_of "$serial")"
    done
    root=decoder0.$number
    if [ "$VOLATILE" = 1 ]; then
        region=$(region_volatile "$root" "$granularity" "$size" $memories)
    else
        region=$(region_persistent "$root" "$granularity" $memories)
    fi
    [ -d "$region" ] || fail "no region in window $number: $region"
    if [ "$PMEM" = 1 ]; then
        block=$(ndctl create-namespace -m fsdax -M mem -r "$region" |
            sed -n 's/.*"blockdev":"\([^"]*\)".*/\1/p')
        [ -b "/dev/$block" ] || fail "no block device of $region"
        eval "NODE$number=none DAX$number= PMEM$number=/dev/$block"
        node=$(cat "/sys/bus/nd/devices/$region/target_node")
        say "window $number $region $(cat "$region/resource") $node"
        return
    fi
    if [ "$VOLATILE" = 1 ]; then
        dax=$(ls "$region"/dax_region*/ | grep '^dax[0-9]*\.' | head -n 1)
    else
        dax=$(ndctl create-namespace -m devdax -M mem -r "$region" |
            sed -n 's/.*"chardev":"\([^"]*\)".*/\1/p')
    fi
    [ -n "$dax" ] || fail "no device of $region"
    node=$(cat "/sys/bus/dax/devices/$dax/target_node")
    if [ "$devdax" = 1 ]; then
        [ "$VOLATILE" = 1 ] && daxctl reconfigure-device -f -m devdax "$dax" >/dev/null 2>&1
        eval "NODE$number=none DAX$number=/dev/$dax PMEM$number="
    else
        [ "$VOLATILE" = 1 ] && [ -d "/sys/devices/system/node/node$node" ] ||
            daxctl reconfigure-device -m system-ram "$dax" >/dev/null 2>&1 ||
            fail "daxctl: $dax does not become memory"
        eval "NODE$number=$node DAX$number= PMEM$number="
    fi
    say "window $number $region $(cat "$region/resource") $node"
}
run() { # NAME WINDOW: the program, bound to a window's node, or to none of them
    name=$1
    eval "node=\${NODE$2:-0} CXLAB_DAX=\${DAX$2:-} CXLAB_PMEM=\${PMEM$2:-} fresh=\${FRESH$2:-}"
    CXLAB_SHARED=
    for shared in $SHARED; do
        eval "CXLAB_SHARED=\"\$CXLAB_SHARED\${CXLAB_SHARED:+ }\$DAX$shared\""
    done
    export CXLAB_DAX CXLAB_PMEM CXLAB_SHARED
    if [ -n "$CXLAB_PMEM" ]; then
        # Only what was made for this run has nothing in it.
        [ "$fresh" = 1 ] && { mke2fs -b 4096 "$CXLAB_PMEM" >/dev/null || fail "mke2fs"; }
        mkdir -p /pmem
        mount -t ext4 -o dax "$CXLAB_PMEM" /pmem ||
            fail "the file system of window $2 cannot be mounted; without its file, a new one is made"
    fi
    cd /tmp
    say "begin $name"
    if [ "$2" = any ] || [ "$node" = none ]; then
        run-marked
    else
        numactl --membind="$node" run-marked
    fi
    code=$?
    [ -z "$CXLAB_PMEM" ] || umount /pmem || fail "/pmem is still in use"
    say "end $name $code"
}

make_windows
say ready "$(uptime)"
cat /sys/devices/system/clocksource/clocksource0/current_clocksource | sed 's/^/@cxlab clock /'
say hold
read -r go < /dev/ttyS0
cd /
arrive | cpio -idu 2>/dev/null
[ -f /cxlab/run ] || fail "the files of the run did not arrive"
. /cxlab/run
make_runs
say done
poweroff -f
