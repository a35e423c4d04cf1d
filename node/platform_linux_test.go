package main

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestControlGroupLimit(t *testing.T) {
	const none = math.MaxInt64
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no control groups", nil, none},
		{"v2, root of a container", map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000\n"}, 1000},
		{"no proc", map[string]string{"sys/fs/cgroup/memory.max": "1000\n"}, 1000},
		{"v2, a unit with MemoryMax", map[string]string{
			"proc/self/cgroup":                                       "0::/system.slice/corenode.service\n",
			"sys/fs/cgroup/system.slice/memory.max":                  "max\n",
			"sys/fs/cgroup/system.slice/corenode.service/memory.max": "2000\n"}, 2000},
		{"v2, its slice has less", map[string]string{
			"proc/self/cgroup":                                            "0::/a.slice/a-b.slice/corenode.service\n",
			"sys/fs/cgroup/a.slice/memory.max":                            "1500\n",
			"sys/fs/cgroup/a.slice/a-b.slice/memory.max":                  "3000\n",
			"sys/fs/cgroup/a.slice/a-b.slice/corenode.service/memory.max": "2000\n"}, 1500},
		{"v2, another unit's limit", map[string]string{
			"proc/self/cgroup":                       "0::/corenode.service\n",
			"sys/fs/cgroup/other.service/memory.max": "10\n"}, none},
		{"v2, no limit", map[string]string{
			"proc/self/cgroup":           "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "max\n"}, none},
		{"v2, a name with a colon", map[string]string{
			"proc/self/cgroup":             "0::/a:b\n",
			"sys/fs/cgroup/a:b/memory.max": "7\n"}, 7},
		{"v2, beside the root of the namespace", map[string]string{
			"proc/self/cgroup":         "0::/../b\n",
			"sys/fs/cgroup/memory.max": "8\n"}, 8},
		{"v1", map[string]string{
			"proc/self/cgroup":                                                         "12:pids:/p\n5:memory:/system.slice/corenode.service\n1:name=systemd:/s\n0::/system.slice/corenode.service\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":                               "9223372036854771712\n",
			"sys/fs/cgroup/memory/system.slice/memory.limit_in_bytes":                  "5000\n",
			"sys/fs/cgroup/memory/system.slice/corenode.service/memory.limit_in_bytes": "6000\n"}, 5000},
		{"v1, with another controller", map[string]string{
			"proc/self/cgroup": "5:cpu,memory:/a\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "5\n"}, 5},
		{"v1, a container that sees the host's path", map[string]string{
			"proc/self/cgroup":                           "5:memory:/docker/0123\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "4000\n"}, 4000},
		{"v1, another controller's path", map[string]string{
			"proc/self/cgroup": "5:memory2:/a\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "5\n"}, none},
		{"not a number", map[string]string{
			"proc/self/cgroup":           "0::/a\nnonsense\n",
			"sys/fs/cgroup/memory.max":   "9\n",
			"sys/fs/cgroup/a/memory.max": "0\n"}, 9},
	} {
		system := fstest.MapFS{}
		for name, text := range c.files {
			system[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := controlGroupLimit(system); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
