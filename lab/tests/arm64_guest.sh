# In a machine of arm64: loads tcpilot, has it steer uploads over a link that loses packets, and stops it.
# Called by test_arm64_vm.py, which reads what it prints: a line each, a name and what was seen.
#
#   sh arm64_guest.sh TCPILOT FLOWGEN
tcpilot=$1 flowgen=$2
server=10.9.0.2

see() { # name: what was seen
	echo "$1 $2"
}
until_true() { # command…: for a minute
	local tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 300 ] || return 1
		sleep 0.2
	done
}
answers() { $tcpilot status >/dev/null 2>&1; }
line() { tr -d '\n'; }
uploads() { # count: one after the other
	$flowgen bulk --to $server:5201 --bytes 300k --count "$1" | line
}
# Held for long: a machine whose host is busy sees reading `ss` take long. It is killed when it was seen.
algorithm() { # of a new connection
	$flowgen hold --to $server:5201 --connections 1 --seconds 600 >/dev/null &
	until_true sh -c 'ss -Htn state established dport = :5201 | grep -q .'
	ss -Htni state established dport = :5201 | grep -ow 'bbr\|cubic' | head -n 1
	kill $! && wait $! 2>/dev/null
}

see machine "$(uname -m)"
see kernel "$(uname -r)"
echo cubic >/proc/sys/net/ipv4/tcp_congestion_control

ip netns add far
ip link add t0 type veth peer name t1 netns far
ip addr add 10.9.0.1/24 dev t0 && ip link set t0 up
ip -n far addr add $server/24 dev t1 && ip -n far link set t1 up
tc qdisc add dev t0 root netem delay 20ms loss 4% rate 20mbit limit 200
ip netns exec far "$flowgen" serve --listen $server:5201 >/run/serve.log 2>&1 &
until_true sh -c 'ip netns exec far ss -Hltn | grep -q :5201'

see before "$(algorithm)"
see uploads_before "$(uploads 30)"

# Without a hold-out: one that falls into this minute would leave nothing to choose.
printf '[effect]\nhold_out_percent = 0\n' >/run/tcpilot.toml
$tcpilot run --config /run/tcpilot.toml --state /run/state.db >/run/log 2>&1 &
daemon=$!
until_true answers
see log "$(line </run/log)"
see uploads "$(uploads 120)"
until_true sh -c "[ \"\$($tcpilot paths --json | grep -c 10.9.0.2)\" -gt 0 ]"
sleep 5
see uploads_after "$(uploads 30)"
see status "$($tcpilot status --json | line)"
see paths "$($tcpilot paths --json | line)"

kill $daemon
wait $daemon
see end_status $?
see after "$(algorithm)"

# Every congestion control of tcpilot's: verified, compiled, and tried over the loopback.
$tcpilot cc load all >/run/cc 2>&1
see cc_status $?
see cc_loaded "$(grep -c 'carried data over loopback' /run/cc)"
see cc "$(tr '\n' ';' </run/cc)"
