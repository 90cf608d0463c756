# In a machine whose first process is systemd: installs the package, runs the service, upgrades, purges.
# Called by test_service_vm.py, which reads what it prints: a line each, a name and what was seen.
#
#   sh service_guest.sh PACKAGE NEWER_PACKAGE DOCUMENTS FLOWGEN
package=$1 newer=$2 documents=$3 flowgen=$4
drop_in=/etc/systemd/system/tcpilot.service.d/namespaces.conf

see() { # name: what was seen
	echo "$1 $2"
}
property() { # name
	systemctl show -P "$1" tcpilot.service
}
until_true() { # command…: for a minute
	local tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 300 ] || return 1
		sleep 0.2
	done
}
status() { # key, of `tcpilot status --json`
	tcpilot status --json | tr -d ' "' | sed -n "s/^$1:\([^,]*\),\{0,1\}$/\1/p" | head -n 1
}
degraded() {
	tcpilot status --json | tr '\n' ' ' | sed 's/.*"degraded": *\[\([^]]*\)\].*/\1/; s/  */ /g'
}
answers() { tcpilot status >/dev/null 2>&1; }
is() { # property, value
	[ "$(property "$1")" = "$2" ]
}

# --- Install: nothing starts unasked.
dpkg -i "$package" >/run/dpkg.log 2>&1 || cat /run/dpkg.log >&2
see installed "$(dpkg-query -W -f '${db:Status-Status}' tcpilot)"
see started_unasked "$(property ActiveState)"
see manual "$(ls /usr/share/man/man1/tcpilot-run.1.gz /usr/share/man/man5/tcpilot.toml.5.gz | wc -l)"

# --- Start: `systemctl start` returns once it is attached.
systemctl start tcpilot
see start_status $?
see attached_at_once "$(status attached)"
see active "$(property ActiveState) $(property SubState)"
see status_text "$(property StatusText)"
pid=$(property MainPID)
see capabilities "$(sed -n 's/^CapBnd:\t//p' "/proc/$pid/status")"
see degraded "$(degraded)"
see exposure "$(systemd-analyze security --threshold=25 tcpilot.service >/run/security; echo $?)"
sed -n 's/^→ Overall exposure level[^:]*: \([0-9.]*\).*/exposure_level \1/p' /run/security

# --- The watchdog: renewed while it serves, and a daemon that hangs is replaced.
mkdir -p /run/systemd/system/tcpilot.service.d
printf '[Service]\nWatchdogSec=8\nRestartSec=1\n' >/run/systemd/system/tcpilot.service.d/test.conf
systemctl daemon-reload
systemctl restart tcpilot
pid=$(property MainPID)
sleep 20
see alive_after_twenty_seconds "$([ "$(property MainPID)" = "$pid" ] && echo yes) $(property NRestarts)"
kill -STOP "$pid"
until_true is NRestarts 1
until_true answers
see replaced_when_it_hangs "$(property NRestarts) $(property ActiveState)"
see told_why "$(journalctl -u tcpilot -o cat | grep -c 'Watchdog timeout')"
rm -r /run/systemd/system/tcpilot.service.d
systemctl daemon-reload
systemctl restart tcpilot
pid=$(property MainPID)

# --- Reload.
echo 'algorithms = ["reno", "cubic"]' >/etc/tcpilot/tcpilot.toml
systemctl reload tcpilot
see reload_status "$? $(property ActiveState)"
see reloaded "$(status done) $([ "$(property MainPID)" = "$pid" ] && echo same)"
see reloaded_text "$(property StatusText)"
echo 'algorithms = 7' >/etc/tcpilot/tcpilot.toml
systemctl reload tcpilot 2>/dev/null
see refused_status "$? $(property ActiveState) $(status refused)"
see refused_reason "$(journalctl -u tcpilot -o cat | grep -c '^tcpilot: .*tcpilot.toml:1: ')"
echo 'algorithms = ["cubic", "reno"]' >/etc/tcpilot/tcpilot.toml
kill -HUP "$pid"
until_true is ActiveState reloading
see reloading "$(property ActiveState)"
until_true is ActiveState active
see reloaded_by_signal "$(status done) $(property ActiveState)"

# --- Queues for acknowledgements: needs AF_NETLINK.
ip link add t0 type veth peer name t1
ip link set t0 up && ip link set t1 up
printf '[tuning]\nack_priority = true\nack_priority_devices = ["t0"]\n' >/etc/tcpilot/tcpilot.toml
systemctl restart tcpilot
see queue "$(tc qdisc show dev t0 | head -n 1 | cut -d' ' -f2)"
see queue_degraded "$(degraded)"
systemctl stop tcpilot
see queue_after "$(tc qdisc show dev t0 | head -n 1 | cut -d' ' -f2)"
rm /etc/tcpilot/tcpilot.toml

# --- Upgrade under load.
ip netns add far
ip link set t1 netns far
ip addr add 10.9.0.1/24 dev t0
ip -n far addr add 10.9.0.2/24 dev t1
ip -n far link set t1 up
systemctl start tcpilot
ip netns exec far "$flowgen" serve --listen 10.9.0.2:5201 >/run/serve.log 2>&1 &
server=$!
until_true sh -c 'ip netns exec far ss -Hltn | grep -q :5201'
"$flowgen" hold --to 10.9.0.2:5201 --connections 50 --rate-bytes-per-s 200 --seconds 40 >/run/hold.json &
hold=$!
until_true sh -c '[ "$(ss -Htn state established dport = :5201 | wc -l)" = 50 ]'
pid=$(property MainPID)
begun=$(cut -d' ' -f1 /proc/uptime)
dpkg -i "$newer" >/run/dpkg.log 2>&1
see upgrade_status $?
see upgraded "$(status done) $([ "$(property MainPID)" = "$pid" ] && echo same) $(property ActiveState)"
see upgrade_seconds "$begun $(cut -d' ' -f1 /proc/uptime)"
see program "$(readlink "/proc/$pid/exe")"
wait $hold
see load "$(tr -d ' \n' </run/hold.json | grep -o '"alive_at_end":[0-9]*\|"errors":[0-9]*' | tr '\n' ' ')"
kill $server

# --- As the manual says: with CAP_SYS_ADMIN, connections of other namespaces are listed.
namespaces() { tcpilot flows --json | grep -o '"netns": *"[a-z0-9]*"' | sort -u | tr -d ' \n'; }
ip netns exec far "$flowgen" serve --listen 10.9.0.2:5202 >/run/serve.log 2>&1 &
server=$!
until_true sh -c 'ip netns exec far ss -Hltn | grep -q :5202'
"$flowgen" hold --to 10.9.0.2:5202 --connections 5 --rate-bytes-per-s 200 --seconds 120 >/dev/null &
hold=$!
until_true sh -c '[ "$(ss -Htn state established dport = :5202 | wc -l)" = 5 ]'
see namespaces "$(namespaces)"
dpkg -i "$documents" >/run/dpkg.log 2>&1 || cat /run/dpkg.log >&2
mkdir -p "${drop_in%/*}"
sed -n '/^```ini/,/^```$/p' /usr/share/doc/tcpilot/docs/use/install.md | sed -n '2,/^```$/p' | grep -v '^```' >$drop_in
see drop_in "$(head -n 2 $drop_in | tr '\n' ' ')"
systemctl daemon-reload
systemctl restart tcpilot
see namespaces_entered "$(namespaces)"
kill $hold $server
rm -r "${drop_in%/*}"
systemctl daemon-reload
systemctl restart tcpilot
pid=$(property MainPID)

# --- Remove and purge, while it runs.
dpkg --remove tcpilot >/run/dpkg.log 2>&1
see removed "$? $([ -e "/proc/$pid" ] && echo running) $(ls /var/lib/tcpilot)"
dpkg --purge tcpilot tcpilot-doc >/run/dpkg.log 2>&1
see purged "$? $(ls -d /etc/tcpilot /var/lib/tcpilot /run/tcpilot /usr/share/tcpilot /usr/share/doc/tcpilot 2>/dev/null | wc -l)"
see unit_gone "$(systemctl cat tcpilot.service >/dev/null 2>&1; echo $?)"
