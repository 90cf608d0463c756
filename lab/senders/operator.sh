#!/bin/sh
# What an operator sees: a home router that shapes by an ifb, a bridge, a WireGuard server.
#
#   python -m tcplab.vm run --kernel 7.2 --virtual-time --timeout 1800 $(operator.sh modules) -- \
#       lab/senders/operator.sh BINARIES PLACE...     PLACE: home, bridge, wireguard
#
# A host 20 ms away sends over the place: a CUBIC and a BBR that always have data, and 0.5 Mbit/s of
# iperf3.
set -eu
if [ "$1" = modules ]; then
	for name in veth sch_netem sch_cake sch_tbf sch_fq_codel sch_ingress cls_matchall act_mirred ifb bridge \
		wireguard tcp_bbr; do
		printf -- '--module %s ' "$name"
	done
	exit
fi
bin=$1
shift
in_ns() { ip netns exec "$@"; }
pair() { # NETNS DEVICE NETNS DEVICE
	ip link add "$2" netns "$1" type veth peer name "$4" netns "$3"
	for end in "$1 $2" "$3 $4"; do
		ip -n ${end% *} link set ${end#* } gso_max_segs 1 up
	done
}
traffic() { # FROM TO ADDRESS SECONDS: in the background
	in_ns "$2" "$bin/flowgen" serve --listen 0.0.0.0:5201 >/dev/null &
	in_ns "$2" iperf3 -s -p 5202 >/dev/null &
	sleep 2
	for cc in cubic bbr; do
		in_ns "$1" "$bin/flowgen" bulk --to "$3:5201" --seconds "$4" --cc $cc >/dev/null &
	done
	in_ns "$1" iperf3 -c "$3" -p 5202 -t "$4" -b 500k >/dev/null &
}
show() { # COMMAND...
	printf '\n# %s\n' "$(echo "$*" | sed "s#ip netns exec [a-z]* ##; s#$bin/##g")"
	"$@" 2>&1 || echo "(status $?)"
}
net() { # NAMES
	for name in "$@"; do
		ip netns add "$name"
		ip -n "$name" link set lo up
		in_ns "$name" sysctl -qw net.ipv4.ip_forward=1
	done
}
addr() { ip -n "$1" addr add "$3" dev "$2"; }

home() {
	net isp router lan
	pair isp isp0 router wan0
	pair router lan0 lan host0
	addr isp isp0 203.0.113.1/24
	addr router wan0 203.0.113.2/24
	addr router lan0 192.168.1.1/24
	addr lan host0 192.168.1.10/24
	ip -n isp route add 192.168.1.0/24 via 203.0.113.2
	ip -n lan route add default via 192.168.1.1
	tc -n isp qdisc add dev isp0 root netem delay 20ms limit 10000
	# As sqm-scripts do: the download is redirected to an ifb, and shaped there.
	ip -n router link add ifb4wan0 type ifb
	ip -n router link set ifb4wan0 up
	tc -n router qdisc add dev wan0 root cake bandwidth 2mbit
	tc -n router qdisc add dev wan0 handle ffff: ingress
	tc -n router filter add dev wan0 parent ffff: protocol all matchall \
		action mirred egress redirect dev ifb4wan0
	tc -n router qdisc add dev ifb4wan0 root cake bandwidth 6mbit besteffort ingress
	traffic isp lan 192.168.1.10 300
	sleep 5
	show in_ns router "$bin/tcpilot" watch wan0 --once --for 3
	show in_ns router "$bin/tcpilot" watch ifb4wan0 --once --for 3
	show in_ns router "$bin/tcpilot" watch ifb4wan0 --acks-at wan0 --once --for 30
}

bridge() {
	net one two switch
	pair one one0 switch p1
	pair two two0 switch p2
	ip -n switch link add br0 type bridge
	for port in p1 p2; do ip -n switch link set $port master br0; done
	ip -n switch link set br0 up
	addr one one0 10.9.0.1/24
	addr two two0 10.9.0.2/24
	tc -n one qdisc add dev one0 root netem delay 20ms limit 10000
	tc -n switch qdisc add dev p2 root tbf rate 6mbit burst 5kb latency 60ms
	traffic one two 10.9.0.2 300
	sleep 5
	show in_ns switch "$bin/tcpilot" watch br0 --once --for 3
	show in_ns switch "$bin/tcpilot" watch p1 p2 --once --for 30
}

wireguard() {
	net far server client
	pair far far0 server eth0
	pair server eth1 client wan0
	addr far far0 10.8.0.1/24
	addr server eth0 10.8.0.2/24
	addr server eth1 203.0.113.1/24
	addr client wan0 203.0.113.2/24
	tc -n far qdisc add dev far0 root netem delay 20ms limit 10000
	for name in server client; do
		ip -n $name link add wg0 type wireguard
		wg genkey >/tmp/$name.key
	done
	in_ns server wg set wg0 listen-port 51820 private-key /tmp/server.key \
		peer "$(wg pubkey </tmp/client.key)" allowed-ips 10.10.0.2/32
	in_ns client wg set wg0 private-key /tmp/client.key peer "$(wg pubkey </tmp/server.key)" \
		allowed-ips 0.0.0.0/0 endpoint 203.0.113.1:51820 persistent-keepalive 25
	addr server wg0 10.10.0.1/24
	addr client wg0 10.10.0.2/24
	ip -n server link set wg0 up
	ip -n client link set wg0 up
	ip -n client route add 10.8.0.0/24 dev wg0
	ip -n far route add 10.10.0.0/24 via 10.8.0.2
	tc -n server qdisc add dev eth1 root tbf rate 6mbit burst 5kb latency 60ms
	traffic far client 10.10.0.2 300
	sleep 5
	show in_ns server "$bin/tcpilot" watch eth1 --once --for 3
	show in_ns server "$bin/tcpilot" watch eth1 --udp --once --for 3
	show in_ns server "$bin/tcpilot" watch wg0 --once --for 30
	# The queue moved to the tunnel's device, a little below the link's rate.
	tc -n server qdisc add dev wg0 root cake bandwidth 5500kbit
	show in_ns server "$bin/tcpilot" watch wg0 --once --for 30
}

for place in "$@"; do
	printf '\n== %s\n' "$place"
	$place
done
