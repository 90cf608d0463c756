#!/bin/sh
# Runs a command of a machine on a root of its own that lies in memory.
#
#   tests/guest.sh ROOT CLAIMS COMMAND…    what the root shall hold, and a folder that the command sees as /claims
#
# The machine's own root is the host's over 9p. While a file comes from there the machine is idle, and in
# virtual time an idle machine's clock leaps to its next timer: seconds would pass for each first use of a
# program. Hence everything that the tests use is copied first.
set -eu
holds=$1
claims=$2
shift 2

root=/tmp/root
mkdir $root
mount -t tmpfs root $root
cp -a "$holds/." $root
cd $root
for name in proc sys dev; do mount --rbind /$name $name; done
mount -t tmpfs tmp tmp
mount -t tmpfs run run
mount --rbind "/lib/modules" lib/modules
mount --bind "$claims" claims # of the host: other machines see it too
export TCPILOT_EMULATED=1 # see is_emulated() of the tests
exec chroot . "$@"
