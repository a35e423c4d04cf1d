#!/bin/sh
# clock.sh FACTOR OUT [START] builds a node whose clock runs FACTOR times as fast, from the time START on, or four hours before this month
# ends: hours of what happens by the clock, and the ends of days and months, pass in minutes. Go's runtime is built anew for it, with other clocks and
# waits as much shorter (go build -overlay). What asks the kernel for the time itself, such as the leases of nodes that share a database,
# has the usual one. Linux on amd64.
set -eu
factor=$1 out=$2
start=$(date -u -d "${3:-$(date -u +%Y-%m-01) +1 month -4 hours}" +%s)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
runtime=$(go env GOROOT)/src/runtime
[ "$(go env GOOS)/$(go env GOARCH)" = linux/amd64 ] || { echo "clock.sh: only for linux/amd64" >&2; exit 1; }

# The kernel's time since the machine began, in nanoseconds, is where both clocks are the same.
began=$(awk '{printf "%.0f", $1 * 1e9}' /proc/uptime)
cat >"$work/timeasm.go" <<END
package runtime

import _ "unsafe"

const (
	clockFactor = $factor
	clockBegan  = $began
	clockStart  = ${start}000000000
)

//go:linkname time_now time.now
//go:nosplit
func time_now() (sec int64, nsec int32, mono int64) {
	mono = nanotime()
	wall := clockStart + mono - clockBegan
	return wall / 1e9, int32(wall % 1e9), mono
}
END
: >"$work/time_linux_amd64.s"

# edit changes a file of the runtime, and fails where it finds nothing to change.
edit() {
	sed "$2" "$runtime/$1" >"$work/$1"
	! cmp -s "$runtime/$1" "$work/$1" || { echo "clock.sh: $1 of this Go is another" >&2; exit 1; }
}
edit time_nofake.go 's/^\treturn nanotime1()/\treturn clockBegan + (nanotime1()-clockBegan)*clockFactor/'
edit os_linux.go '/^func futexsleep/,/^}/s|^\tts.setNsec(ns)|\tts.setNsec(max(ns/clockFactor, 1))|'
edit netpoll_epoll.go '/^func netpoll(delay/,/^}/s|^\tvar waitms int32|\tif delay > 0 {\n\t\tdelay = max(delay/clockFactor, 1)\n\t}\n&|'

replaced=
for file in timeasm.go time_linux_amd64.s time_nofake.go os_linux.go netpoll_epoll.go; do
	replaced="$replaced${replaced:+,}\"$runtime/$file\":\"$work/$file\""
done
echo "{\"Replace\":{$replaced}}" >"$work/overlay.json"
CGO_ENABLED=0 go build -overlay "$work/overlay.json" -o "$out" ./node
