#!/bin/busybox sh
# First process of a machine: mounts the host's files read-only under an overlay, so that
# everything may be written and nothing is kept, then hands over to run.sh as process 1, or to
# the root's systemd, which runs it as a service.
# Comes in the initramfs; /tcplab/config (written by machine.py) names the mounts.

bb=/bin/busybox
$bb mount -t proc proc /proc
$bb mount -t sysfs sys /sys
$bb mount -t devtmpfs dev /dev 2>/dev/null

fail() {
    echo "tcplab-boot-error: $*" >/dev/console
    $bb reboot -f
    while :; do $bb sleep 3600; done
}

for module in /modules/*.ko; do
    [ -e "$module" ] || continue
    $bb insmod "$module" || fail "cannot load $module"
done

make() { # folder
    $bb mkdir -p "$1" || fail "cannot make the folder $1"
}

share() { # tag, folder, access, cache
    make "$2"
    $bb mount -t 9p -o "version=9p2000.L,trans=virtio,access=client,msize=512000,cache=$4,$3" "$1" "$2" ||
        fail "cannot mount share $1 at $2"
}

. /tcplab/config

# The host's files do not change under the guest's eyes, so the cache may trust itself.
share root /lower ro loose
$bb mount -t tmpfs -o mode=0755 upper /upper
$bb mkdir /upper/files /upper/work
$bb mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work root /newroot ||
    fail "cannot lay a writable layer over the root"

cd /newroot
$bb mkdir -p proc sys dev run tmp
for kept in proc sys dev; do
    $bb mount --move /$kept $kept
done
$bb mount -t tmpfs -o mode=0755 run run
$bb mount -t tmpfs -o mode=1777 tmp tmp
$bb mkdir -p dev/pts dev/shm
$bb mount -t devpts -o mode=0620,ptmxmode=0666 devpts dev/pts
$bb mount -t tmpfs -o mode=1777 shm dev/shm
for link in fd: stdin:/0 stdout:/1 stderr:/2; do
    [ -e "dev/${link%%:*}" ] || $bb ln -s "/proc/self/fd${link#*:}" "dev/${link%%:*}"
done
$bb mount -t cgroup2 cgroup2 sys/fs/cgroup
$bb mount -t bpf bpf sys/fs/bpf
$bb mount -t debugfs debugfs sys/kernel/debug
$bb mount -t tracefs tracefs sys/kernel/tracing
$bb mount -t securityfs securityfs sys/kernel/security

mount_shares

$bb cp -r /tcplab run/tcplab
loader=$($bb cat /tcplab/loader)
if [ -n "$systemd" ]; then
    # The unit files of a machine's own; the others are the root's.
    units=run/systemd/system
    make $units/multi-user.target.wants
    # Nobody logs in, and nothing makes the device that a login waits for.
    $bb ln -s /dev/null $units/getty.target
    $bb ln -s ../tcplab.service $units/multi-user.target.wants/tcplab.service
    $bb cp /tcplab/tcplab.service $units/tcplab.service
    [ -s etc/machine-id ] || $bb tr -d - </proc/sys/kernel/random/uuid >etc/machine-id
    $bb mount --move . /
    exec $bb chroot . /lib/systemd/systemd
fi
$bb mount --move . /
exec $bb chroot . ${loader:+/run/tcplab/lib/$loader --library-path /run/tcplab/lib} \
    /run/tcplab/busybox sh /run/tcplab/run.sh
