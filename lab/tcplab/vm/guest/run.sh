# Process 1 of a machine once its root is there, or a service of systemd: prepares all that the command may rely on, runs
# it, and reports its exit status through the control port.  Messages to the host are one
# line each: "ready SECONDS", "error TEXT", "status NUMBER"; after the last of them the host
# stops the machine.

loader=$(read -r name </run/tcplab/loader; echo "$name")
bb() {
    if [ -n "$loader" ]; then
        "/run/tcplab/lib/$loader" --library-path /run/tcplab/lib /run/tcplab/busybox "$@"
    else
        /run/tcplab/busybox "$@"
    fi
}

port() { # name
    for entry in /sys/class/virtio-ports/*; do
        read -r name <"$entry/name"
        [ "$name" = "$1" ] && echo "/dev/${entry##*/}" && return
    done
}

stop() {
    bb sync
    echo "$*" >&9
    while :; do bb sleep 3600; done
}

set_sysctl() { # dotted name, value
    echo "$2" 2>/run/tcplab/problem >"/proc/sys/$(echo "$1" | bb tr . /)" ||
        stop "error cannot set the sysctl $1 to $2"
}

exec 9>"$(port control)"
. /run/tcplab/config

bb hostname "$hostname"
bb ip link set lo up || stop "error cannot bring up the loopback interface"
for module in $modules; do
    case $module in
    /*) bb insmod "$module" ;; # not the kernel's: extra.py built it, and it needs no other
    *) modprobe "$module" ;;
    esac 2>/run/tcplab/problem ||
        stop "error loading $module: $(bb tail -n 1 /run/tcplab/problem)"
done
set_sysctls

# The command writes into FIFOs, not into the ports: a port has a single opener, so that
# "echo >/dev/stderr" in a script would fail with EBUSY.
bb mkfifo -m 0666 /run/tcplab/out /run/tcplab/err
# With exec, so that $! is the program itself: processes that are not named below are killed at the end, and
# with them would go the output that they have not passed on yet.
pump() {
    if [ -n "$loader" ]; then
        exec "/run/tcplab/lib/$loader" --library-path /run/tcplab/lib /run/tcplab/busybox cat
    fi
    exec /run/tcplab/busybox cat
}
pump </run/tcplab/out >"$(port stdout)" 9>&- &
pumps=$!
pump </run/tcplab/err >"$(port stderr)" 9>&- &
pumps="$pumps $!"

read -r uptime_s _ </proc/uptime
echo "ready $uptime_s" >&9
bb setsid /bin/sh /run/tcplab/command </dev/null >/run/tcplab/out 2>/run/tcplab/err 9>&-
status=$?

# Processes that the command left running would hold the FIFOs open for ever.  Kernel threads ignore
# the signal.
for process in /proc/[0-9]*; do
    case " 1 $$ $pumps " in
    *" ${process#/proc/} "*) ;;
    *) kill -9 "${process#/proc/}" 2>/dev/null ;;
    esac
done
wait $pumps
stop "status $status"
