# In a machine that stands for a node: runs the pod of the manifest by runc or crun, with traffic of another pod
# beside it.  Called by test_container_vm.py, which reads what it prints: a line each, a name and what was seen.
#
#   sh container_guest.sh BUNDLES FLOWGEN    BUNDLES: a folder with rootfs, node.json and private.json
bundles=$1 flowgen=$2
runtime=$(command -v runc || command -v crun)

see() { # name: what was seen
	echo "$1 $2"
}
until_true() { # command…: for a minute
	local tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 150 ] || return 1
		sleep 0.2
	done
}
bundle() { # name: made from its config
	mkdir -p "/run/bundles/$1"
	cp "$bundles/$1.json" "/run/bundles/$1/config.json"
	cp -r "$bundles/rootfs" "/run/bundles/$1/"
}
inside() { # arguments of tcpilot
	$runtime exec pod /usr/bin/tcpilot "$@"
}
http() { # path: the status line
	bash -c "exec 3<>/dev/tcp/127.0.0.1/9464 && printf 'GET $1 HTTP/1.0\r\n\r\n' >&3 && head -n 1 <&3" 2>/dev/null |
		tr -d '\r' | cut -d' ' -f2
}
ready() { [ "$(http /readyz)" = 200 ]; }
start() {
	$runtime run --detach --bundle /run/bundles/node pod >>/run/pod.log 2>&1 </dev/null &&
		until_true ready && return
	cat /run/pod.log >&2
	exit 1
}
gone() { ! $runtime state pod >/dev/null 2>&1 || $runtime state pod | grep -q '"stopped"'; }
stop() { # signal
	$runtime kill pod "$1"
	until_true gone
	$runtime delete pod
}
# Becomes a command in the other pod's cgroup.
in_pod='echo $$ >/sys/fs/cgroup/kubepods/other/cgroup.procs; exec "$@"'
algorithm() { # of a new connection of the other pod
	sh -c "$in_pod" sh "$flowgen" hold --to 10.9.0.2:5201 --connections 1 --seconds 30 >/dev/null &
	until_true sh -c 'ss -Htn state established dport = :5201 | grep -q .'
	ss -Htni state established dport = :5201 | grep -ow 'bbr\|cubic' | head -n 1
	kill $! && wait $! 2>/dev/null
	until_true sh -c '! ss -Htn state established dport = :5201 | grep -q .'
}

# The kubelet's part: hostPath folders, the config map, cgroups, an image that was unpacked.
mkdir -p /var/lib/tcpilot /run/tcpilot /run/maps/tcpilot /sys/fs/cgroup/kubepods/other
printf 'algorithms = ["bbr"]\n[effect]\nhold_out_percent = 0\n' >/run/maps/tcpilot/tcpilot.toml
bundle node
bundle private
ip netns add far
ip link add t0 type veth peer name t1 netns far
ip addr add 10.9.0.1/24 dev t0 && ip link set t0 up
ip -n far addr add 10.9.0.2/24 dev t1 && ip -n far link set t1 up
ip netns exec far "$flowgen" serve --listen 10.9.0.2:5201 >/run/serve.log 2>&1 &
until_true sh -c 'ip netns exec far ss -Hltn | grep -q :5201'

see before "$(algorithm)"
start
see ready "$(http /readyz) $(http /healthz)"
pid=$($runtime state pod | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p')
see capabilities "$(sed -n 's/^CapBnd:\t//p' "/proc/$pid/status")"
see own_cgroup "$(cut -d: -f3 "/proc/$pid/cgroup")"
see steered "$(algorithm)"
see read_only "$(inside state export /x.json 2>&1 | grep -c 'Read-only file system')"
sh -c "$in_pod" sh "$flowgen" bulk --to 10.9.0.2:5201 --bytes 200000 >/run/bulk.json 2>&1
see paths "$(inside paths --json | grep -c '"prefix": *"10.9.0.2"')"

# An upgrade of the DaemonSet: the old pod is asked to end, and a new one begins with its state.
stop TERM
see after_stop "$(algorithm)"
start
see paths_kept "$(inside paths --json | grep -c '"prefix": *"10.9.0.2"')"
see steered_again "$(algorithm)"

# Killed: the host is as before at once.
stop KILL
see after_kill "$(algorithm)"
start
see started_after_kill "$(http /readyz)"
stop TERM

# Without the host's cgroups it is refused.
$runtime run --bundle /run/bundles/private pod >/run/private.log 2>&1 </dev/null
see private_status $?
see private_reason "$(tail -n 1 /run/private.log)"
[ -s /run/pod.log ] && sed 's/^/pod.log: /' /run/pod.log >&2
exit 0
