# Runs a script ($1) on this host as in a machine of its own: network, mounts (so /run, where ip
# keeps the names of namespaces), processes and cgroup are private, and gone when it ends.
# On stdin: nothing.  Needs root and a kernel with BTF.

set -eu
root=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)
cgroup=$root/tcplab-pilot-$$
mkdir "$cgroup"
trap 'rmdir "$cgroup"' EXIT
status=0
(
    # In the subshell: the one that removes the cgroup must not be in it.
    echo 0 >"$cgroup/cgroup.procs"
    # shellcheck disable=SC2016
    exec env cgroup="$cgroup" unshare --mount --net --pid --fork --kill-child --mount-proc \
        bash -c 'mount -t tmpfs tmpfs /run && ip link set lo up && exec bash -c "$0"' "$1"
) || status=$?
for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ -s "$cgroup/cgroup.procs" ] || break
    sleep 0.2
done
exit "$status"
