# What the experiments of tcplab.studies.pilot are made of; experiments.py writes the script that
# calls these functions, inside the machine.  Each result is printed below a line
# "@@ {label}", which sections.py takes apart.  The user land is Debian sid's, so that the
# tools compared run in one boot; it has bpftool but no Python.  Some run on this host instead,
# in namespaces of their own (here.sh).

set -u
runtime=/run/pilot
address=10.200.2.2
port=5201
mkdir -p $runtime

mark() { # label as JSON
    printf '\n@@ %s\n' "$1"
}

fail() {
    echo "tcplab-pilot: $*" >&2
    exit 1
}

in_left() { ip netns exec left "$@"; }
in_right() { ip netns exec right "$@"; }

host_state() {
    mark '{"what": "host"}'
    printf '{"kernel": "%s", "sysctls": {' "$(uname -r)"
    comma=
    for name in tcp_congestion_control tcp_ecn tcp_no_metrics_save tcp_rmem tcp_wmem; do
        printf '%s"net.ipv4.%s": "%s"' "$comma" $name \
            "$(in_left sysctl -n net.ipv4.$name | tr '\t' ' ')"
        comma=', '
    done
    printf ', "net.core.default_qdisc": "%s"}}\n' "$(sysctl -n net.core.default_qdisc 2>/dev/null)"
}

namespace() { # name
    ip netns add "$1" || fail "cannot make the namespace $1"
    ip -n "$1" link set lo up
    in_it="ip netns exec $1 sysctl -qw"
    # A host with another default may not allow cubic here; the host's state is recorded.
    $in_it net.ipv4.tcp_congestion_control=cubic 2>/dev/null
    $in_it net.ipv4.tcp_ecn=1 \
        net.ipv4.tcp_no_metrics_save=1 net.ipv4.ip_forward=1 || fail "sysctl in $1"
}

link() { # namespace, device, namespace, device
    ip link add "$2" netns "$1" type veth peer name "$4" netns "$3" || fail "veth $2 $4"
    ip -n "$1" link set "$2" up
    ip -n "$3" link set "$4" up
}

# left - right: one veth pair, offloads as they come, netem (if any) on the sender's device.
network_direct() { # netem arguments for the way right, or nothing
    namespace left
    namespace right
    link left l0 right r0
    ip -n left address add 10.200.2.1/24 dev l0
    ip -n right address add $address/24 dev r0
    [ -z "${1:-}" ] || tc -n left qdisc add dev l0 root netem $1 || fail "netem $1"
    host_state
}

# left - router - right.  One segment per packet (which is what "offloads off" comes to on
# veth), so that a lost packet is a packet.  The impairment is on the router's way to the right.
network_routed() { # netem arguments for the way right, and for the way back
    for name in left router right; do namespace $name; done
    link left l0 router m1
    link router m2 right r0
    ip -n left address add 10.200.1.1/24 dev l0
    ip -n router address add 10.200.1.2/24 dev m1
    ip -n router address add 10.200.2.1/24 dev m2
    ip -n right address add $address/24 dev r0
    ip -n left route add default via 10.200.1.2
    ip -n right route add default via 10.200.2.1
    for end in 'left l0' 'router m1' 'router m2' 'right r0'; do
        set -- "$1" "$2" $end
        ip -n "$3" link set "$4" gso_max_segs 1 || fail "gso_max_segs of $4"
    done
    [ -z "$1" ] || tc -n router qdisc add dev m2 root netem limit 100000 $1 || fail "netem $1"
    [ -z "$2" ] || tc -n router qdisc add dev m1 root netem limit 100000 $2 || fail "netem $2"
    host_state
}

serve() {
    in_right "$flowgen" serve --listen "[::]:$port" >$runtime/serve &
    server=$!
    until grep -q listening $runtime/serve; do sleep 0.1; done
    in_left "$flowgen" short --to $address:$port --count 20 >/dev/null || fail "no server"
}

flow() { # flowgen's arguments
    mode=$1
    shift
    in_left "$flowgen" "$mode" --to $address:$port "$@" || fail "flowgen $mode $*"
}

tcpilot_start() { # configuration as text
    printf '%s\n' "$1" >$runtime/tcpilot.toml
    # A state file each: a daemon starts knowing nothing.
    starts=$((${starts:-0} + 1))
    "$tcpilot" run ${cgroup:+--cgroup "$cgroup"} --config $runtime/tcpilot.toml \
        --state $runtime/state.$starts.db \
        --socket $runtime/tcpilot.sock >$runtime/tcpilot.log 2>&1 &
    tool=$!
    until "$tcpilot" status --socket $runtime/tcpilot.sock >/dev/null 2>&1; do
        kill -0 $tool 2>/dev/null || fail "tcpilot: $(cat $runtime/tcpilot.log)"
        sleep 0.2
    done
}

ask() { # subcommand and arguments
    "$tcpilot" "$@" --json --socket $runtime/tcpilot.sock
}

bpftune_start() { # bpftune's further options
    bpftune -d -s "$@" >$runtime/bpftune.log 2>&1 &
    tool=$!
    # It attaches and detaches while it finds out what the kernel supports.
    seen=0
    until [ $seen -ge 15 ]; do
        kill -0 $tool 2>/dev/null || fail "bpftune: $(tail -n 3 $runtime/bpftune.log)"
        sleep 1
        seen=$((seen + 1))
        bpftool cgroup show /sys/fs/cgroup | grep -q conn_tuner || seen=0
    done
}

floor_start() { # one of floor.py's programs
    mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf || fail "no bpffs"
    bpftool prog load "$floors/$1.o" /sys/fs/bpf/floor || fail "floor $1 does not load"
    bpftool cgroup attach /sys/fs/cgroup sock_ops pinned /sys/fs/bpf/floor || fail "floor $1"
}

floor_stop() {
    bpftool cgroup detach /sys/fs/cgroup sock_ops pinned /sys/fs/bpf/floor || fail "floor stays"
    rm /sys/fs/bpf/floor
}

tool_stop() {
    kill -INT $tool
    wait $tool
}

programs() {
    bpftool prog show -j
}

resident() { # process: VmRSS and VmHWM in kB
    awk '/^VmRSS/ {r = $2} /^VmHWM/ {h = $2} END {printf "{\"rss_kb\": %d, \"peak_kb\": %d}\n", r, h}' \
        "/proc/$1/status"
}

# The right answers for a whole prefix, so that one server is 260,000 destinations.
network_anyip() {
    network_direct
    ip -n right route add local 10.64.0.0/14 dev lo
    ip -n left route add 10.64.0.0/14 via $address
}

spread() { # flowgen's arguments
    in_left "$flowgen" spread --to-prefix 10.64.0.0/14 --port $port "$@" || fail "spread $*"
}

explain_hot() { # file with spread's report
    grep -o '"hot":\[[^]]*' "$1" | grep -o '[0-9.]\{7,\}' | while read -r hot; do
        ask explain "$hot" | tr -d '\n'
        echo
    done
}
