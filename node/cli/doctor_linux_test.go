package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"corenode/node/admin"
	"corenode/node/doctor"
)

// TestTouched: who may not ask the kernel goes by a file that says of one synchronization only that it was.
func TestTouched(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "synchronized"), time.Now()
	if touched(path, now) {
		t.Error("a file that is not there was touched")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for age, want := range map[time.Duration]bool{time.Minute: true, keptTrue + time.Minute: false} {
		if err := os.Chtimes(path, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
		if got := touched(path, now); got != want {
			t.Errorf("touched %v ago: %v", age, got)
		}
	}
}

// TestRights: who may read and write what is told apart, for the files that are the node's alone and for their folder.
func TestRights(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, admin.TokenName)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	own := os.Getegid()
	both := []string{dir, path}
	contained := false
	check := func(name string, folder, file os.FileMode, group int, want doctor.Facts) {
		t.Helper()
		err := errors.Join(os.Chown(path, -1, group), os.Chown(dir, -1, group), os.Chmod(path, file), os.Chmod(dir, folder))
		if err != nil {
			t.Fatal(err)
		}
		var got doctor.Facts
		if measureRights(&got, dir, contained); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: open %v, to the group %v, listed %q, lent %q (to all: %v)", name, got.Open, got.OpenToGroup, got.Listed, got.Lent,
				got.LentToAll)
		}
	}
	check("private", 0o700, 0o600, own, doctor.Facts{})
	check("as of fsGroup", os.ModeSetgid|0o770, 0o660, own, doctor.Facts{OpenToGroup: both})
	check("to all", 0o764, 0o664, own, doctor.Facts{Open: both})
	check("a file to all", 0o755, 0o644, own, doctor.Facts{Open: both})
	check("a folder with names to all", 0o755, 0o600, own, doctor.Facts{Listed: dir})
	check("a folder that all may change", 0o777, 0o600, own, doctor.Facts{Open: both[:1]})
	if os.Geteuid() != 0 {
		t.Skip("files of others cannot be made: the test is not run by root")
	}
	check("to another group", 0o760, 0o660, 65534, doctor.Facts{Open: both})
	if err := os.Chown(path, 65532, -1); err != nil { // the node's in a pod, where the volume's folder is root's
		t.Fatal(err)
	}
	check("a volume that fsGroup opens once", os.ModeSetgid|0o775, 0o600, own, doctor.Facts{Lent: dir})
	check("a folder that all of the machine may change", 0o777, 0o600, own, doctor.Facts{Lent: dir, LentToAll: true})
	check("a folder of files that are their owners'", os.ModeSticky|0o777, 0o600, own, doctor.Facts{Lent: dir})
	contained = true
	check("an emptyDir", os.ModeSetgid|0o777, 0o600, own, doctor.Facts{Lent: dir})
	check("a folder of the container that all may change", 0o777, 0o644, 65532, doctor.Facts{Lent: dir, Open: both[1:]})
	check("a volume of the group alone", os.ModeSetgid|0o770, 0o660, own, doctor.Facts{Lent: dir, OpenToGroup: both[1:]})
}

// TestInContainer: a process that is the first of its own processes is one of a container.
func TestInContainer(t *testing.T) {
	const within = "CORENODE_TEST_CONTAINED"
	if os.Getenv(within) != "" {
		if !inContainer() {
			t.Error("it takes its processes for those of the machine")
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("processes of its own are made by root: the test is not run by root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(self, "-test.run=^TestInContainer$")
	run.Env = append(os.Environ(), within+"=1")
	run.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if out, err := run.CombinedOutput(); errors.Is(err, syscall.EPERM) {
		t.Skipf("processes of its own cannot be made here: %v", err)
	} else if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
