# In a machine whose first process is systemd: installs both packages, runs the fleet's agent, upgrades, removes, purges.
# Called by test_fleet_vm.py, which reads what it prints: a line each, a name and what was seen.
#
#   sh fleet_guest.sh PACKAGE FLEET_PACKAGE NEWER_FLEET_PACKAGE MANUAL    MANUAL: docs/use/fleet.md
package=$1 fleet=$2 newer=$3 manual=$4
unit=tcpilot-fleet.service

see() { # name: what was seen
	echo "$1 $2"
}
property() { # name
	systemctl show -P "$1" $unit
}
until_true() { # command…: for a minute
	local tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 300 ] || return 1
		sleep 0.2
	done
}
of_process() { # key of /proc/PID/status
	sed -n "s/^$1:\t//p" "/proc/$(property MainPID)/status" | tr '\t' ' '
}
says() { # words of its status
	tcpilot-fleet status 2>/dev/null | grep -q "$1"
}

# --- Install: nothing starts unasked.
dpkg -i "$package" "$fleet" >/run/dpkg.log 2>&1 || cat /run/dpkg.log >&2
see installed "$(dpkg-query -W -f '${db:Status-Status}' tcpilot-fleet)"
see started_unasked "$(property ActiveState) $(systemctl show -P ActiveState tcpilot-fleet-merge.service)"
see user "$(getent passwd tcpilot-fleet | cut -d: -f1,6,7)"

# --- Without settings it says so, and what to write.
systemctl start tcpilot-fleet
until_true sh -c "journalctl -u $unit -o cat | grep -q fleet.toml"
see without_settings "$(journalctl -u $unit -o cat | grep -c 'cannot read /etc/tcpilot/fleet.toml')"
systemctl stop tcpilot-fleet
systemctl reset-failed tcpilot-fleet 2>/dev/null

# --- A folder as the engine.
mkdir -p /etc/tcpilot /srv/tcpilot-fleet
chown tcpilot-fleet:tcpilot-fleet /srv/tcpilot-fleet
printf '%s\n' 'store = "dir:/srv/tcpilot-fleet"' 'place = "fra1"' 'host = "a"' 'insecure = true' 'say_every_s = 1' 'hear_every_s = 1' >/etc/tcpilot/fleet.toml
systemctl start tcpilot-fleet
see start_status $?
until_true says 'reached'
see running "$(property ActiveState) $(property SubState)"
see says "$(tcpilot-fleet status | head -n 1)"
see process_user "$(stat -c %U "/proc/$(property MainPID)")"
see capabilities "$(of_process CapBnd) $(of_process CapPrm) $(of_process CapEff) $(of_process CapAmb)"
see no_new_privileges "$(of_process NoNewPrivs)"
see groups "$(of_process Groups)"
see state_folder "$(stat -c '%a %U' /var/lib/tcpilot-fleet) $(stat -c '%a %U' /var/lib/tcpilot-fleet/own)"
see exposure "$(systemd-analyze security --threshold=25 $unit >/run/security; echo $?)"
sed -n 's/^→ Overall exposure level[^:]*: \([0-9.]*\).*/exposure_level \1/p' /run/security

# --- The daemon uses the agent's folder, by the manual's drop-in.
sed -n '/# mkdir -p .*tcpilot.service.d/,/# systemctl daemon-reload/p' "$manual" | sed 's/^   //; s/^# //' >/run/drop-in.sh
see drop_in_lines "$(wc -l </run/drop-in.sh)"
sh /run/drop-in.sh
printf '[fleet]\n' >/etc/tcpilot/tcpilot.toml
systemctl start tcpilot
see daemon "$(systemctl is-active tcpilot)"
see daemon_says "$(tcpilot status --verbose | grep '^fleet ')"
see degraded "$(tcpilot status --json | tr '\n' ' ' | sed 's/.*"degraded": *\[\([^]]*\)\].*/\1/; s/  */ /g')"
# As root without capabilities, but in the agent's group.
see own_is_writable "$(systemd-run -qP -p User=root -p CapabilityBoundingSet= -p SupplementaryGroups=tcpilot-fleet touch /var/lib/tcpilot-fleet/own/probe; echo $?)"
rm -f /var/lib/tcpilot-fleet/own/probe

# --- A second host of the place, by hand.
mkdir -p /run/b
sed 's/host = "a"/host = "b"/' /etc/tcpilot/fleet.toml >/run/b.toml
echo 'state_dir = "/run/b"' >>/run/b.toml
tcpilot-fleet --config /run/b.toml run 2>/dev/null &
second=$!
until_true says '^b '
see hears "$(tcpilot-fleet status | sed -n 's/^\(b\) .* \(no: .*\)/\1 \2/p')"
kill $second

# --- Upgrade: the agent that runs becomes the new version.
pid=$(property MainPID)
dpkg -i "$newer" >/run/dpkg.log 2>&1
see upgrade_status $?
until_true says 'reached'
see upgraded "$(property ActiveState) $([ "$(property MainPID)" != "$pid" ] && echo another)"
see program "$(readlink "/proc/$(property MainPID)/exe")"
see merger_after_upgrade "$(systemctl show -P ActiveState tcpilot-fleet-merge.service)"

# --- Remove and purge, while it runs.
systemctl enable tcpilot-fleet >/dev/null 2>&1
pid=$(property MainPID)
dpkg --remove tcpilot-fleet >/run/dpkg.log 2>&1
see removed "$? $([ -e "/proc/$pid" ] && echo running) $([ -e /var/lib/tcpilot-fleet/status.json ] && echo kept)"
see daemon_goes_on "$(systemctl is-active tcpilot)"
dpkg --purge tcpilot-fleet >/run/dpkg.log 2>&1
see purged "$? $(ls -d /var/lib/tcpilot-fleet /var/lib/tcpilot-fleet-merge /usr/share/doc/tcpilot-fleet /usr/bin/tcpilot-fleet 2>/dev/null | wc -l)"
see units_gone "$(systemctl cat $unit tcpilot-fleet-merge.service >/dev/null 2>&1; echo $?) $(find /etc/systemd -name 'tcpilot-fleet*' | wc -l)"
see settings_stay "$(ls /etc/tcpilot | tr '\n' ' ')"
