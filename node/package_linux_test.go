package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"corenode/node/cli"
	"corenode/node/config"
)

// TestPackage installs each package in a folder, runs what it installed and removes it.
func TestPackage(t *testing.T) {
	debs := os.Getenv("CORENODE_DEB")
	if debs == "" {
		t.Skip("CORENODE_DEB names no folder of packages: make test-deb builds them and tries them, in a few minutes")
	}
	if _, err := exec.LookPath("dpkg"); err != nil || os.Getuid() != 0 {
		t.Skip("dpkg --root needs dpkg, and to be root: the packages are not tried")
	}
	for arch, emulator := range map[string]string{"amd64": "qemu-x86_64", "arm64": "qemu-aarch64"} {
		t.Run(arch, func(t *testing.T) {
			var by []string // what runs programs of that processor here
			if arch != runtime.GOARCH {
				if _, err := exec.LookPath(emulator); err != nil {
					t.Skipf("there is no %s (Debian: qemu-user): the package of %s is not run", emulator, arch)
				}
				by = []string{emulator}
			}
			installsAndRuns(t, filepath.Join(debs, "corenode_"+arch+".deb"), by)
		})
	}
}

func installsAndRuns(t *testing.T, deb string, by []string) {
	root := t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/log"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"status", "available"} {
		if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg", name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command(t, "dpkg", "--root="+root, "--log=", "--force-architecture", "-i", deb)
	installed := filepath.Join(root, "usr/bin/corenode")
	for _, file := range []string{"usr/lib/systemd/system/corenode.service", "etc/corenode/corenode.yaml",
		"usr/share/doc/corenode/corenode.yaml", "usr/share/bash-completion/completions/corenode"} {
		if info, err := os.Stat(filepath.Join(root, file)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
	runsAndStops(t, append(by, installed), filepath.Join(root, "etc/corenode/corenode.yaml"))
	packedAgain(t, deb, installed)
	upgrades(t, root, deb, installed)
	name := command(t, "dpkg-query", "--admindir="+filepath.Join(root, "var/lib/dpkg"), "-W", "-f", "${binary:Package}")
	command(t, "dpkg", "--root="+root, "--log=", "--purge", strings.TrimSpace(name))
	if left, _ := filepath.Glob(filepath.Join(root, "*", "*", "corenode*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

// runsAndStops starts an installed program, waits until it is healthy and stops it.
func runsAndStops(t *testing.T, program []string, file string) {
	t.Helper()
	address := freeAddress(t)
	var log bytes.Buffer
	run := func(args ...string) *exec.Cmd {
		args = append(slices.Clone(program), args...)
		return exec.Command(args[0], args[1:]...)
	}
	serve := run("serve", "--config", file, "--listen", address, "--data-dir", filepath.Join(t.TempDir(), "data"))
	serve.Stderr = &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	healthy := false
	for end := time.Now().Add(10 * time.Minute); !healthy && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		healthy = run("health", "--config", file, "--listen", address).Run() == nil
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := serve.Wait(); err != nil || !healthy {
		t.Errorf("healthy: %v, its end: %v; its log:\n%s", healthy, err, &log)
	}
}

// packedAgain shows that the same program gives the same package, whatever folders take on the disk on which it is packed.
func packedAgain(t *testing.T, deb, program string) {
	t.Helper()
	version := strings.TrimSpace(command(t, "dpkg-deb", "-f", deb, "Version"))
	dated := command(t, "dpkg-deb", "--fsys-tarfile", deb)
	if command(t, "dpkg-deb", "--fsys-tarfile", pack(t, deb, program, version, hostProgram(deb))) != dated {
		t.Error("the same program and date give another package")
	}
	var size int64
	for files := tar.NewReader(strings.NewReader(dated)); ; {
		file, err := files.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if file.Typeflag == tar.TypeReg {
			size += file.Size
		}
	}
	if said := strings.TrimSpace(command(t, "dpkg-deb", "-f", deb, "Installed-Size")); said != fmt.Sprint((size+1023)/1024) {
		t.Errorf("it says that it takes %s KiB, and its files have %d bytes", said, size)
	}
}

// hostProgram is the program of a package for this machine: the package may be another processor's.
func hostProgram(deb string) string { return filepath.Join(filepath.Dir(deb), "corenode") }

// pack packs a program as another version of deb, with what host prints.
func pack(t *testing.T, deb, program, version, host string) (packed string) {
	t.Helper()
	packed = filepath.Join(t.TempDir(), "packed.deb")
	arch := strings.TrimSpace(command(t, "dpkg-deb", "-f", deb, "Architecture"))
	run := exec.Command("deploy/deb.sh", program, arch, version, packed)
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	run.Env = append(os.Environ(), fmt.Sprint("SOURCE_DATE_EPOCH=", info.ModTime().Unix()), "DEB_LEVEL=0", // what is in it counts
		"HOST_PROGRAM="+host)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return packed
}

// upgrades installs a release that knows one key more, with nobody to ask, over a configuration that the operator has changed; then over
// a package whose configuration was the whole reference. The node keeps its folder.
func upgrades(t *testing.T, root, deb, program string) {
	t.Helper()
	host := filepath.Join(t.TempDir(), "host")
	script := "#!/bin/sh\n'" + hostProgram(deb) + "' \"$@\" && echo '# a key more'\n"
	if err := os.WriteFile(host, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	version := strings.TrimSpace(command(t, "dpkg-deb", "-f", deb, "Version"))
	// Asked about a configuration that both sides changed, an operator keeps the own one.
	install := func(deb string, answers ...string) {
		command(t, "dpkg", append(answers, "--root="+root, "--log=", "--force-architecture", "-i", deb)...)
	}
	file := filepath.Join(root, "etc/corenode/corenode.yaml")
	over := func(answers ...string) {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, "# the operator's\n"...)
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		install(pack(t, deb, program, version+".1", host), answers...)
		if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, text) {
			t.Errorf("%v, the configuration after an upgrade:\n%s", err, after)
		}
		cfg := loadedByUnit(t, filepath.Join(root, "usr/lib/systemd/system/corenode.service"), file)
		if cfg.DataDir != "/var/lib/corenode" {
			t.Errorf("after an upgrade the node has the folder %s", cfg.DataDir)
		}
	}
	over()
	name := strings.TrimSpace(command(t, "dpkg-query", "--admindir="+filepath.Join(root, "var/lib/dpkg"), "-W", "-f", "${binary:Package}"))
	command(t, "dpkg", "--root="+root, "--log=", "--purge", name)
	install(withReference(t, deb))
	over("--force-confold")
}

// withReference is a package whose configuration has every key.
func withReference(t *testing.T, deb string) (packed string) {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "tree")
	command(t, "dpkg-deb", "-R", deb, tree)
	if err := os.WriteFile(filepath.Join(tree, "etc/corenode/corenode.yaml"), config.Reference(), 0o644); err != nil {
		t.Fatal(err)
	}
	packed = tree + ".deb"
	command(t, "dpkg-deb", "--root-owner-group", "-Zgzip", "-z0", "--build", tree, packed)
	return packed
}

// TestPackagedConfiguration: the configuration of the package says which folder the unit gives to the node, so commands that read it look
// at that node. The unit says so too, for a file that names no folder, or that of the reference: of a package before, dpkg keeps what the
// operator changed. A folder that the operator chose counts more, in a reload as at the start.
func TestPackagedConfiguration(t *testing.T) {
	unit, err := os.ReadFile("deploy/corenode.service")
	if err != nil {
		t.Fatal(err)
	}
	state := regexp.MustCompile(`(?m)^StateDirectory=(.+)$`).FindSubmatch(unit)
	if state == nil {
		t.Fatal("the unit makes no folder")
	}
	made := "/var/lib/" + string(state[1])
	packaged, err := os.ReadFile("deploy/corenode.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "corenode.yaml")
	for text, want := range map[string]string{string(packaged): made, string(config.Reference()): made,
		"listen: 127.0.0.1:9\n": made, "data_dir: /srv/corenode\n": "/srv/corenode"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if cfg := loadedByUnit(t, "deploy/corenode.service", file); cfg.DataDir != want {
			t.Errorf("with %.40q the node has the folder %s, want %s", text, cfg.DataDir, want)
		}
	}
	if cfg, _, err := config.Load(config.Sources{File: "deploy/corenode.yaml"}); err != nil || cfg.DataDir != made {
		t.Errorf("commands that read the configuration look into %s, %v; want %s", cfg.DataDir, err, made)
	}
	if !bytes.Contains(unit, []byte("\nExecReload=/usr/bin/corenode reload --config /etc/corenode/corenode.yaml\n")) {
		t.Error("a reload does not look where the configuration says")
	}
}

// loadedByUnit is the configuration that a unit's command loads, of which file is the one in /etc.
func loadedByUnit(t *testing.T, unit, file string) *config.Config {
	t.Helper()
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ExecStart=(.+)$`).FindSubmatch(text)
	if line == nil {
		t.Fatalf("%s starts nothing", unit)
	}
	var cfg *config.Config
	root := cli.Root(version, func(from config.Sources, _, _ io.Writer) (err error) {
		if from.File != "/etc/corenode/corenode.yaml" {
			t.Errorf("the unit's node reads %s", from.File)
		}
		from.File, from.Environment = file, nil
		for _, variable := range regexp.MustCompile(`(?m)^Environment=(.+)$`).FindAllSubmatch(text, -1) {
			from.Environment = append(from.Environment, string(variable[1]))
		}
		cfg, _, err = config.Load(from)
		return err
	})
	root.SetArgs(strings.Fields(string(line[1]))[1:])
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestContainerfile: the image runs as nobody in particular, and its health check asks whether the node is alive: who kills what
// is unhealthy would kill all nodes of a database that does not answer. Whatever the command, a node in it is reached from
// outside, unless a file that is mounted says otherwise.
func TestContainerfile(t *testing.T) {
	text, err := os.ReadFile("deploy/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`(?m)^FROM scratch$`, `(?m)^USER [1-9]\d*:[1-9]\d*$`,
		`(?m)^HEALTHCHECK .*CMD \["/corenode", "health", "--live"\]$`,
		`(?m)^ENTRYPOINT \["/corenode"\]$`, `(?m)^CMD \["serve"\]$`} {
		if !regexp.MustCompile(want).Match(text) {
			t.Errorf("the Containerfile has no line %s", want)
		}
	}
	var environment []string
	for _, line := range regexp.MustCompile(`(?m)^ENV (.*)$`).FindAllStringSubmatch(string(text), -1) {
		environment = append(environment, strings.Fields(line[1])...)
	}
	file := filepath.Join(t.TempDir(), "corenode.yaml")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, from := range map[string]config.Sources{
		":8080":       {Models: []string{"q=/models/q.gguf"}},
		"127.0.0.1:9": {File: file},
		"127.0.0.1:7": {Flags: map[string]string{"listen": "127.0.0.1:7"}},
	} {
		from.Environment = environment
		c, _, err := config.Load(from)
		if err != nil {
			t.Fatal(err)
		}
		if c.Listen != want || c.DataDir != "/data" {
			t.Errorf("%+v: listens at %s, with its data in %s; want %s, /data", from, c.Listen, c.DataDir, want)
		}
	}
	grace := int((config.Default().Limits.DrainTimeout + 30*time.Second).Seconds())
	for _, run := range regexp.MustCompile(`(?m)^.*podman run .*$`).FindAllString(string(text), -1) {
		if !strings.Contains(run, fmt.Sprint(" --stop-timeout ", grace, " ")) {
			t.Errorf("%s: it is killed before it has drained, want --stop-timeout %d", run, grace)
		}
	}
	page, err := os.ReadFile("OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--stop-timeout", "terminationGracePeriodSeconds:"} {
		if !strings.Contains(string(page), fmt.Sprint("`", want, " ", grace, "`")) {
			t.Errorf("the page does not say %s %d", want, grace)
		}
	}
}
