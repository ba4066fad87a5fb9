#!/usr/bin/env bash
# The service, and beside it a node of the cluster that offers nothing: Ray lets only processes on a node drive a
# cluster. Either's end is the other's, so that whoever restarts the container gets both anew. Without RAY_ADDRESS the
# service is alone, and starts a Ray of its own when there is something to run.
set -u

if [[ -z "${RAY_ADDRESS:-}" ]]; then
    exec slotsweep serve "$@"
fi

ray start --address="$RAY_ADDRESS" --num-cpus=0 --num-gpus=0 --block &
node=$!
slotsweep serve "$@" &
service=$!
trap 'kill -TERM "$service" 2>/dev/null' TERM INT

wait -n "$node" "$service"
code=$?
trap '' TERM INT
kill -TERM "$service" 2>/dev/null
wait "$service"
kill -TERM "$node" 2>/dev/null
wait "$node"
exit "$code"
