package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"corenode/engine"
	"corenode/engine/embedded"
	"corenode/engine/kernel"
	"corenode/engine/modelfile"
	"corenode/node/admin"
	"corenode/node/config"
	"corenode/node/doctor"
	"corenode/node/metrics"
	"corenode/node/server"
	"corenode/node/store"
	"corenode/node/store/sqlite"
)

// DoctorCommand makes the command that looks at a node and its machine; memory is what the node may
// use of that, in bytes.
func DoctorCommand(memory func() int64) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look at the machine, the configuration and the node", Args: cobra.NoArgs,
		Long: `Look at what a node needs, beside a running one or before it starts: the
configuration, open files, huge pages, memory, the disk's sync (measured with
small files in the data folder), the clock, certificates, rights, backups, and
what of the alerts holds now. Each line says ok, warn or fail, what was measured,
and what to do. The status is 1 where something fails.`,
		Example: `  corenode doctor --config corenode.yaml
  corenode doctor --data-dir /var/lib/corenode --json`,
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "YAML `file` of the node")
	f.Bool("json", false, "print JSON")
	dir := f.String("data-dir", "", "folder of the node's data (default the configuration's)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SilenceUsage = true
		from := config.Sources{File: file, Environment: os.Environ(), Flags: map[string]string{}}
		if *dir != "" {
			from.Flags["data_dir"] = *dir
		}
		all := doctor.Examine(measure(from, memory))
		if err := show(cmd, result{all, func(w io.Writer) { printFindings(w, all) }}); err != nil {
			return err
		}
		failed := 0
		for _, f := range all {
			if f.State == doctor.Fail {
				failed++
			}
		}
		if failed > 0 {
			return fmt.Errorf("%d of %d checks fail", failed, len(all))
		}
		return nil
	}
	return cmd
}

func printFindings(w io.Writer, all []doctor.Finding) {
	for _, f := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.State, f.Check, f.Measured)
		if f.Do != "" {
			fmt.Fprintf(w, "\t\t-> %s\n", f.Do)
		}
	}
}

// measure takes what a doctor wants to know, of a configuration that may not be valid.
func measure(from config.Sources, memory func() int64) doctor.Facts {
	said := config.LoadPartial(from)
	problems := said.Err()
	if problems == nil {
		f := Measure(said.Config, memory())
		if err := WantServedFolder(said.Config.DataDir, said.OverruledFolder(from)); err != nil {
			f.ConfigProblems = []string{err.Error()}
		}
		return f
	}
	var f doctor.Facts
	if said.Known("data_dir") {
		f = measureNode(said.Config)
	} else {
		f = measureMachine(said.Config)
		f.FolderUnknown = true
	}
	f.ConfigProblems = strings.Split(problems.Error(), "\n")
	return f
}

// Measure takes what a doctor wants to know of a node with a valid configuration: beside the node, or
// within it. memory is what this process may use; a node that answers says what it may itself.
func Measure(cfg *config.Config, memory int64) doctor.Facts {
	f := measureNode(cfg)
	f.Certificates = certificates(cfg)
	own, said := f.Series[memorySeries]
	if said {
		memory = int64(own)
	}
	f.Memory = &doctor.Memory{Bytes: memory, Models: modelBytes(cfg, memory), Elsewhere: !said}
	var byMemory bool
	f.Contexts, byMemory = contexts(cfg, memory)
	f.ContextsElsewhere = byMemory && !said
	return f
}

// The node's own limits, of which a shell beside it may have others: systemd and containers set them for a service.
const filesSeries, memorySeries = "process_max_fds", "corenode_memory_limit_bytes"

// measureMachine takes what needs no data folder.
func measureMachine(cfg *config.Config) doctor.Facts {
	f := doctor.Facts{Now: time.Now(), HugePages: hugePages()}
	var err error
	if f.Clock, err = clock(); err != nil {
		f.ClockProblem = err.Error()
	}
	if limit := filesLimit(); limit > 0 {
		f.Files = &doctor.Files{Limit: limit, Connections: int64(cfg.Limits.ConnectionsMax), Elsewhere: true}
	}
	return f
}

// measureNode is measureMachine with what needs no more of the configuration than the data folder, and asks the
// node there.
func measureNode(cfg *config.Config) doctor.Facts {
	f := measureMachine(cfg)
	info, err := os.Stat(cfg.DataDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f // there is no node yet
	case err != nil:
		f.Unreadable, f.NoFolder = err.Error(), !errors.Is(err, fs.ErrPermission)
		return f
	case !info.IsDir():
		f.Unreadable, f.NoFolder = cfg.DataDir+" is no folder", true
		return f
	}
	c, unheard := admin.Dial(cfg.DataDir)
	if errors.Is(unheard, fs.ErrPermission) {
		f.Unreadable = unheard.Error()
		return f
	}
	if f.Sync, err = syncTimes(cfg.DataDir); err != nil {
		f.SyncError = err.Error()
	}
	f.Database = hasDatabase(cfg.DataDir)
	measureRights(&f, cfg.DataDir, inContainer())
	if unheard == nil {
		f.Running = true
		if f.Database { // PostgreSQL has backups of its own, and its audit may be long
			f.LastBackup = lastBackup(c)
		}
		if text, err := c.Metrics(); err == nil {
			f.Series = map[string]float64{}
			for series, value := range metrics.Samples([]byte(text)) {
				f.Series[string(series)] = value
			}
		}
		if limit, said := f.Series[filesSeries]; said {
			f.Files = &doctor.Files{Limit: int64(min(limit, 1<<40)), Connections: int64(cfg.Limits.ConnectionsMax)}
		}
		return f
	}
	held, err := store.Held(cfg.DataDir)
	if err != nil {
		f.Unreadable = err.Error()
	}
	if held {
		f.Owner = "a process"
		if pid := store.Owner(cfg.DataDir); pid != "" {
			f.Owner = "process " + pid
		}
	}
	if held || err != nil { // it may be about to write what is there
		return f
	}
	if f.Spilled, err = store.SpilledRows(cfg.DataDir); err != nil {
		f.SpillProblem = err.Error()
	}
	if f.Database {
		if f.LastBackup, err = sqlite.LastBackup(cfg.DataDir, backupPath); err != nil {
			f.DatabaseProblem, f.DatabaseUnmerged = err.Error(), errors.Is(err, sqlite.ErrUnmerged)
		}
	}
	return f
}

func certificates(cfg *config.Config) (all []doctor.Certificate) {
	for _, pair := range [][3]string{{"server.tls_certificate", cfg.Server.TLSCertificate, cfg.Server.TLSKey},
		{"admin.tls_certificate", cfg.Admin.TLSCertificate, cfg.Admin.TLSKey}} {
		if pair[1] == "" {
			continue
		}
		found := doctor.Certificate{Key: pair[0]}
		if c, err := server.OpenCertificate(pair[1], pair[2]); err != nil {
			found.Problem = err.Error()
		} else {
			found.Expires = c.Leaf().NotAfter
		}
		all = append(all, found)
	}
	return all
}

// modelBytes is what the models may take: their files, all parts of them, and the memory of their pages and states. The
// automatic size of states counts only where it is set: most models have none. Of a model on a GPU it is
// what is page-locked here.
func modelBytes(cfg *config.Config, memory int64) (total int64) {
	for id, m := range cfg.Models {
		if m.Engine == config.EngineCUDA {
			total += int64(m.KV.HostStateMemoryBytes)
		}
		if m.Engine != config.EngineCPU {
			continue
		}
		pages := m.KV.Pages(memory)
		size, most, err := sizes(id, m)
		if err == nil { // else the node says what is wrong with its file
			pages = min(pages, most)
		}
		total += size + pages + int64(m.KV.StateMemoryBytes)
	}
	return total
}

// sizes are the bytes of a model's file, 0 for one in the binary, and what its pages can take, whatever they may.
func sizes(id string, m config.Model) (file, pages int64, err error) {
	f, context, c, err := openFile(id, m)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	if m.Path != "" {
		file = f.Size()
	}
	pages, err = engine.PageBytesMax(f, context, c)
	return file, pages, err
}

// openFile opens a model's file, or that in the binary. context is what the pages must hold, 0 where they decide it.
func openFile(id string, m config.Model) (f *modelfile.File, context int, c engine.CacheOptions, err error) {
	c.PageTokens, context = m.KV.PageTokens, m.ContextLength
	if c.KV, err = kernel.ParseKVType(m.KV.DType); err != nil {
		return nil, 0, c, err
	}
	if m.Path == "" {
		context = cmp.Or(context, embedded.ContextLength)
		f, err = modelfile.OpenBytes(id, embedded.Model(id))
	} else {
		f, err = modelfile.Open(m.Path)
	}
	return f, context, c, err
}

// contexts says of which models the pages do not hold the context_length: a start fails. What is wrong with a file the node says.
// byMemory: all of them have pages by the size of memory.
func contexts(cfg *config.Config, memory int64) (problems []string, byMemory bool) {
	byMemory = true
	for _, id := range slices.Sorted(maps.Keys(cfg.Models)) {
		m := cfg.Models[id]
		if m.Engine != config.EngineCPU {
			continue
		}
		f, context, c, err := openFile(id, m)
		if err != nil {
			continue
		}
		c.Bytes = m.KV.Pages(memory)
		if err := engine.CheckContext(f, id, context, m.Speculation == config.SpeculationAuto, c); err != nil {
			problems, byMemory = append(problems, err.Error()), byMemory && m.KV.MemoryBytes == 0
		}
		f.Close()
	}
	return problems, byMemory
}

// backupPath is the call of the admin API that makes a backup.
const backupPath = admin.Root + "/backup"

// syncsMeasured is how many small writes are synced to learn what one takes.
const syncsMeasured = 11

// syncTimes writes and syncs a small file in a folder, again and again.
func syncTimes(dir string) (times []time.Duration, err error) {
	file, err := os.CreateTemp(dir, store.TrialName+"*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	block := make([]byte, 4096)
	for range syncsMeasured {
		began := time.Now()
		if _, err = file.Write(block); err == nil {
			err = file.Sync()
		}
		if err != nil {
			return times, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}

// machineProcesses names the processes of a machine as a whole, for Linux: those of a container are others.
const machineProcesses = "pid:[4026531836]"

// inContainer says whether this process sees those of a container only. There a volume that is open to all is so to who is in it.
func inContainer() bool {
	seen, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && seen != machineProcesses
}

// measureRights looks at the files of a data folder that are the node's alone, and at the folder. contained is a container's.
func measureRights(f *doctor.Facts, dir string, contained bool) {
	var users []int
	for _, name := range []string{sqlite.DatabaseName, store.KeyName, admin.TokenName, store.SpillName} {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		users = append(users, userOf(info))
		switch {
		case info.Mode().Perm()&0o077 == 0:
		case onlyToGroup(info):
			f.OpenToGroup = append(f.OpenToGroup, path)
		default:
			f.Open = append(f.Open, path)
		}
	}
	if len(users) == 0 && os.Geteuid() != 0 { // no node was here: it will be this user's
		users = []int{os.Geteuid()}
	}
	info, err := os.Stat(dir)
	if err != nil {
		return
	}
	switch mode := info.Mode().Perm(); {
	case mode&0o077 == 0:
	case len(users) > 0 && !slices.Contains(users, userOf(info)):
		f.Lent = dir
		f.LentToAll = mode&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 && !contained
	case onlyToGroup(info):
		f.OpenToGroup = append([]string{dir}, f.OpenToGroup...)
	case mode&0o022 == 0 && len(f.Open) == 0:
		f.Listed = dir
	default:
		f.Open = append([]string{dir}, f.Open...)
	}
}

// onlyToGroup says that of a file that is open nobody but its owner and a group of this process may read or write it.
func onlyToGroup(info fs.FileInfo) bool { return info.Mode().Perm()&0o007 == 0 && ofOwnGroup(info) }

// lastBackup is when the audit says that one was made; zero is never, or not known. c is the running node.
func lastBackup(c *admin.Client) (at time.Time) {
	query := url.Values{"limit": {"1000"}}
	for {
		page, err := c.Audit(query)
		if err != nil {
			return at
		}
		for _, r := range page.Data {
			if r.Path == backupPath && r.Status == 201 {
				return r.Time
			}
		}
		if page.Next == 0 {
			return at
		}
		query.Set("before", strconv.FormatInt(page.Next, 10))
	}
}

// hugePages is the word in brackets of the system's setting; nil where there is none.
func hugePages() *string {
	text, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(text), "[")
	word, _, found := strings.Cut(rest, "]")
	if !found {
		return nil
	}
	return &word
}
