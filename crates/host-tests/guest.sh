#!/bin/sh
# Runs a command of a machine on a root of its own that lies in memory.
#
#   crates/host-tests/guest.sh SUITE CLAIMS COMMAND…    two folders that the command sees as /suite and /claims
#
# The machine's own root is the host's over 9p. While a file comes from there the machine is idle, and in
# virtual time an idle machine's clock leaps to its next timer: seconds would pass for each first use of a
# program. Hence everything that the tests use is copied first.
set -eu
suite=$1
claims=$2
shift 2

root=/tmp/root
mkdir $root
mount -t tmpfs root $root
cd $root
mkdir -p proc sys dev tmp run etc suite claims usr/bin usr/lib usr/lib64 lib/modules
for alias in bin sbin; do ln -s usr/bin $alias; done
ln -s bin usr/sbin
ln -s usr/lib64 lib64

put() { # program: what it is linked to
	for library in $(ldd "$1" 2>/dev/null | grep -o '/[^ )]*'); do
		[ -e "$root$library" ] && continue
		mkdir -p "$root${library%/*}"
		cp -L "$library" "$root$library"
	done
}

for name in sh ip tc ss sysctl mount umount cat modprobe; do
	program=$(command -v $name)
	cp -L "$program" usr/bin/$name
	put "$program"
done
cp -r "$suite/." suite
put "$suite/tcpilot"

for name in proc sys dev; do mount --rbind /$name $name; done
mount -t tmpfs tmp tmp
mount -t tmpfs run run
mount --rbind "/lib/modules" lib/modules
mount --bind "$claims" claims # of the host: other machines see it too
export TCPILOT_EMULATED=1 # see is_emulated() of the tests
exec chroot . "$@"
