#!/bin/sh
# CPU a message under a flood, beside the floor (a relay that copies frames and routes nothing), in the same run.
#
# usage: perf/flood.sh [ROUNDS] [key=value ...]     keys as the load client takes them (pairs=1 count=200000 body=100)
# env:   LOAD_CLIENT  the load client's binary      ROUTER  the router's binary (target/release/ringway)
#
# The router is pinned to core 0 and the client to core 1: unpinned, figures of a closed loop flip with placement.
set -eu
rounds=${1:-5}; [ $# -gt 0 ] && shift
load_client=${LOAD_CLIENT:?the load client}
router=${ROUTER:-$(dirname "$0")/../target/release/ringway}
port=${PORT:-5699}
config=$(mktemp)
trap 'rm -f "$config"' EXIT
printf 'router {\n    mode: standalone\n    id: bench\n}\nlistener {\n    host: 127.0.0.1\n    port: %s\n    saslMechanisms: ANONYMOUS\n}\n' "$port" > "$config"

run() { # NAME COMMAND...: prints the client's cpu figure of one flood against a freshly started COMMAND
    name=$1; shift
    taskset -c 0 "$@" >/dev/null 2>&1 &
    pid=$!
    sleep 0.5
    printf '%s ' "$name"
    taskset -c 1 "$load_client" flood 127.0.0.1:"$port" a pid=$pid $keys || true
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
}

keys="$* pairs=1 count=200000"
uname -sr
for round in $(seq "$rounds"); do
    run router "$router" -c "$config"
    run relay "$load_client" relay 127.0.0.1:"$port" x
done
