#!/bin/bash
# Behaviour tests of the two binaries, on this kernel and under others.
#
#   tests/run.sh here            on this one; as root, or with sudo
#   tests/run.sh mpquic          the same for multipath QUIC, with a flowgen that speaks it
#   tests/run.sh 6.1 7.2         in machines of each: python -m tcplab.vm list
#
# $TESTS names those that are wanted (default: all), $REPEAT is how often each of them runs (default: once).
# $TCPILOT_LEARNER is the learner of each test that is about none (default: the daemon's own; epsilon-greedy).
# $PROFILE is cargo's (default: dev). $JOBS is how many run at once here (default: six for each processor: most
# of a test is waiting). $MACHINES is how many run at once (default: one for each processor). $PYTHON is an
# interpreter that has the lab's package (default: python3). Exits 1 when a test failed; the log of its machine is
# printed then.
#
# A machine runs in virtual time: its clock counts instructions and skips what is idle. So nothing in it depends
# on how busy this host is, and waiting takes no time. Each kernel has one machine, because each boots, and the
# emulator translates all code anew for it. If there are fewer kernels than machines, a kernel has several: one that is
# free takes the next test of a common list, so they end together. Their logs stay in target/host-tests.
set -euo pipefail
cd "$(dirname "$0")/.."
tests=tests
python=${PYTHON:-python3}
profile=${PROFILE:-dev}

# What tests make the kernel load on first use. Loaded before they begin, because the module's file comes from
# the host: see guest.sh.
modules=(veth sch_tbf sch_htb sch_prio sch_netem sch_ingress cls_bpf cls_matchall cls_u32 act_police act_mirred 8021q ip_gre ipip
	vxlan vrf esp4 esp6 gcm seqiv sch_fq sch_fq_codel sch_codel sch_sfq sch_pie tcp_bbr tcp_dctcp tcp_diag)

build() {
	local made
	cargo build --locked --quiet --profile "$profile" --workspace --bins
	made=$(cargo test --locked --workspace --profile "$profile" --no-run --test host --test vm \
		--features tcpilot-tests/host,tcpilot-tests/vm 2>&1) || {
		echo "$made" >&2
		exit 1
	}
	host=$(sed -n 's|.*Executable host/main.rs (\(.*\))|\1|p' <<<"$made")
	vm=$(sed -n 's|.*Executable vm/main.rs (\(.*\))|\1|p' <<<"$made")
	folder=${host%/deps/*}
}

# A flowgen of another name, so that the usual one stays.
build_mpquic() {
	local made
	cargo build --locked --quiet --profile "$profile" -p flowgen --features mpquic
	cargo build --locked --quiet --profile "$profile" -p tcpilot-tests -p tcpilot -p pathrelay --bins
	made=$(cargo test --locked -p tcpilot-tests --profile "$profile" --no-run --test mpquic \
		--features mpquic 2>&1) || {
		echo "$made" >&2
		exit 1
	}
	mpquic=$(sed -n 's|.*Executable mpquic/main.rs (\(.*\))|\1|p' <<<"$made")
	folder=${mpquic%/deps/*}
	cp "$folder/flowgen" "$folder/flowgen-mpquic"
}

wanted=()
for word in ${TESTS-}; do wanted+=(--only "$word"); done
wanted+=(--repeat "${REPEAT:-1}")

here() {
	scripts/as-root "$folder/suite" --jobs "${JOBS:-$((6 * $(nproc)))}" --times "$folder/../host-tests/times" \
		"${wanted[@]}" "$1"
}

end() {
	[ ${#machines[@]} = 0 ] || kill "${!machines[@]}" || true
	wait
	rm -rf "$copies"
}

# The libraries that a program of the host is linked to, below the machines' root.
put_libraries() { # program
	local library
	for library in $(ldd "$1" | grep -o '/[^ )]*'); do
		mkdir -p "$root${library%/*}"
		cp -Lu "$library" "$root$library"
	done
}

# Makes the root of the machines, of copies, because a machine must not see its files change. Copies whose maker was
# killed are removed here.
copy() {
	local old name program
	logs=$(realpath "$folder/../host-tests")
	for old in "$folder"/../host-tests/copies-*; do
		if [ ! -d "/proc/${old##*-}" ]; then rm -rf "$old"; fi
	done
	copies=$logs/copies-$$
	root=$copies/root
	trap end EXIT
	mkdir -p "$root"/{proc,sys,dev,tmp,run,etc,claims,suite/deps,usr/bin,usr/lib,usr/lib64,lib/modules}
	ln -s usr/bin "$root/bin"
	ln -s usr/bin "$root/sbin"
	ln -s bin "$root/usr/sbin"
	ln -s usr/lib64 "$root/lib64"
	for name in sh ip tc ss mount umount cat modprobe; do
		program=$(PATH=$PATH:/usr/sbin:/sbin command -v $name) || {
			echo "run.sh: no $name, which the tests in machines call: apt-get install iproute2 kmod mount" >&2
			exit 1
		}
		cp -L "$program" "$root/usr/bin"
		put_libraries "$program"
	done
	put_libraries "$folder/tcpilot"
	strip -g -o "$root/suite/deps/host" "$host"
	strip -g -o "$root/suite/deps/vm" "$vm"
	for name in actor flowgen suite tcpilot; do strip -g -o "$root/suite/$name" "$folder/$name"; done
	cp $tests/native-only.txt "$root/suite"
	cp $tests/guest.sh "$copies"
}

# The machine dies with this script, however that ends.
start() { # kernel number
	mkdir -p "$copies/claims-$1"
	setpriv --pdeathsig KILL "$python" -m tcplab.vm run --kernel "$1" --virtual-time --memory 1G \
		--timeout 4200 --env RUST_BACKTRACE=0 --env "TCPILOT_LEARNER=${TCPILOT_LEARNER-}" "${modules[@]/#/--module=}" --rw "$copies/claims-$1" -- \
		sh "$copies/guest.sh" "$root" "$copies/claims-$1" /suite/suite --except /suite/native-only.txt \
		--claims /claims "${wanted[@]}" /suite/deps/host /suite/deps/vm >"$logs/$1-$2.log" 2>&1 &
	machines[$!]=$1-$2 began[$!]=$SECONDS
}

# Waits for one of the machines.
finish() {
	local status=0 ended name log
	wait -n -p ended "${!machines[@]}" || status=$?
	name=${machines[$ended]} log=$logs/${machines[$ended]}.log
	unset "machines[$ended]"
	[ $status = 0 ] || sed '/^slowest/,$d' "$log" >&2
	echo "kernel ${name%-*}, machine ${name##*-}: status $status after $((SECONDS - began[ended])) s"
	sed -n '/^slowest/,$p' "$log"
	return $status
}

in_machines() { # kernel…
	local most=${MACHINES:-$(nproc)} each kernel number failed=0
	declare -gA machines=() began=()
	each=$((most / $# > 1 ? most / $# : 1))
	copy
	for kernel; do
		for number in $(seq "$each"); do
			if [ ${#machines[@]} -ge "$most" ]; then finish || failed=1; fi
			start "$kernel" "$number"
		done
	done
	while [ ${#machines[@]} -gt 0 ]; do finish || failed=1; done
	return $failed
}

if [ "${1-}" = mpquic ]; then
	build_mpquic
	mkdir -p "$folder/../host-tests"
	export FLOWGEN_BIN=$folder/flowgen-mpquic
	here "$mpquic"
	exit
fi
build
mkdir -p "$folder/../host-tests"
if [ "${1-}" = here ]; then here "$host"; else in_machines "$@"; fi
