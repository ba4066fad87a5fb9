#!/usr/bin/env bash
# What only a machine with a device can show, in under six minutes where all is well: tests/device/check.sh [cuda|mps]
#
# 1. every device form, and the evaluation around them, agrees with the float64 references on the device
# 2. a frontier runs on the CPU and on the device, and no cell differs by more than the tolerance
# 3. throughput of the fused device path beside the fused CPU path on one thread and a per-step loop on the same device
#
# PYTHON names the interpreter of the environment slotsweep is installed in (default: python).
set -euo pipefail
cd "$(dirname "$0")/../.."
device=${1:-cuda}
python=${PYTHON:-python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1
failed=()
command -v timeout >/dev/null || timeout() { shift; "$@"; } # macOS has none

step() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }

step "devices here"
timeout 60 "$python" -c "
import sys
from models.devices.device import available_devices, capabilities
for device in available_devices():
    print(*capabilities(device), sep='\n')
sys.exit(None if '$device' in available_devices() else 'there is no $device here')"

step "agreement with the references on $device"
SLOTSWEEP_TEST_DEVICE=$device timeout 200 "$python" -m pytest -q --maxfail=10 -p no:cacheprovider \
    tests/models/test_device_path.py tests/tasks/test_evaluate_device.py || failed+=(agreement)

step "a frontier on cpu and $device"
sed "s/cuda/$device/" tests/device/frontier.yaml > "$work/frontier.yaml"
(
    cd "$work"
    slotsweep() { timeout 120 "$python" -P -c "from orchestrator.cli import main; main()" "$@"; }
    slotsweep run frontier.yaml --json && slotsweep compare last --check
) || failed+=(frontier)

step "throughput on $device"
timeout 100 "$python" tests/device/throughput.py "$device" || failed+=(throughput)

step "done"
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
