#!/bin/sh
# Behaviour tests under other kernels: builds them, then runs both test binaries in one
# machine for each kernel.
#
#   crates/host-tests/run.sh 6.1 7.2         the kernels' names: see python -m tcplab.vm list
#
# $TESTS names those of the host tests that are wanted (default: all). $PYTHON is an interpreter
# that has the lab's package (default: python3). Exits 1 when a kernel failed; its log is
# printed then.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}

cargo build --quiet --release -p tcpilot -p flowgen
built=$(cargo test -p tcpilot-host-tests --features host,vm --no-run 2>&1) || {
    echo "$built" >&2
    exit 1
}
binary() { # its source, as cargo prints it
    echo "$built" | sed -n "s|.*Executable $1 (\(.*\))|\1|p"
}
host=$(binary tests/host/main.rs)
vm=$(binary tests/vm/main.rs)

# Copies: a machine must not see its files change, and its /tmp is its own.
debug=$(dirname "$(dirname "$host")")
mkdir -p "$debug/../host-tests"
copies=$(mktemp -d "$debug/../host-tests/XXXXXX")
trap 'rm -r "$copies"' EXIT
mkdir "$copies/deps"
cp "$host" "$copies/deps/host"
cp "$vm" "$copies/deps/vm"
cp "$debug/actor" "$debug/../release/tcpilot" "$debug/../release/flowgen" "$copies"
failed=0
for kernel in "$@"; do
    log=$copies/$kernel.log
    started=$(date +%s)
    status=0
    "$python" -m tcplab.vm run --kernel "$kernel" --memory 1G --timeout 2700 \
        --module tcp_bbr -- sh -c "
            status=0; export RUST_BACKTRACE=0
            $copies/deps/vm --test-threads=1 --nocapture || status=1
            # Emulated, a hundred thousand flows take longer than an idle one is remembered.
            $copies/deps/host ${TESTS:-} --test-threads=1 --nocapture --skip a_hundred_thousand ||
                status=1
            exit \$status" >"$log" 2>&1 || status=$?
    [ "$status" = 0 ] || { failed=1; cat "$log" >&2; }
    echo "kernel $kernel: status $status after $(($(date +%s) - started)) s"
    grep '^test result' "$log" || true
done
exit $failed
