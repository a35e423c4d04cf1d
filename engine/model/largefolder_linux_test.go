package model

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corenode/engine/kernel/cpu"
	"corenode/engine/modelfile"

	"golang.org/x/sys/unix"
)

// largeFolder names a folder that the tests of loading write 2.4 GB to, once.
const largeFolder = "CORENODE_LOAD_FOLDER"

// TestMemoryOfLoading: a folder of the shapes of 35B-A3B, cut to 4 layers and 64 experts, loads
// within 1.1 times its size of memory.
func TestMemoryOfLoading(t *testing.T) {
	path, size := openLarge(t)
	f, err := modelfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := resident(t)
	var most atomic.Int64
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			most.Store(max(most.Load(), resident(t)))
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	m := loadOn(t, f, newCPU(t, cpu.Options{}))
	close(stop)
	<-ended
	m.Close()
	took := float64(most.Load() - before)
	t.Logf("%.2f GB took %.2f GB at the most, %.2f times", float64(size)/1e9, took/1e9, took/float64(size))
	if !(took <= 1.1*float64(size)) {
		t.Errorf("loading took %.2f times the size", took/float64(size))
	}
}

// BenchmarkLoad loads the same folder in turns with reading alone what loading reads, which is all but the
// table of embeddings: past the system's memory, with the threads and pieces of loading (direct), and as a program
// copies files (plain). Before each, the system forgets the files, but where the name says warm: then it has them
// all. And memory is taken and given back (memory): a hypervisor may have to find it, which reading does not
// wait for.
func BenchmarkLoad(b *testing.B) {
	path, size := openLarge(b)
	took := map[string][]float64{}
	measure := func(name string, do func()) {
		start := time.Now()
		user, system := processorTime()
		do()
		took[name] = append(took[name], time.Since(start).Seconds())
		userAfter, systemAfter := processorTime()
		took[name+"-user"] = append(took[name+"-user"], userAfter-user)
		took[name+"-system"] = append(took[name+"-system"], systemAfter-system)
	}
	memory := func() { measure("memory", func() { takeMemory(b, int(size)) }) }
	for range b.N {
		for _, do := range []struct {
			name string
			do   func(t testing.TB, path string)
		}{{"plain", readAll}, {"direct", readDirect}, {"loading", loadLarge}} {
			forget(b, path)
			memory()
			measure(do.name, func() { do.do(b, path) })
		}
		readAll(b, path)
		measure("reading-warm", func() { readAll(b, path) })
		memory()
		measure("loading-warm", func() { loadLarge(b, path) })
	}
	for _, name := range slices.Sorted(maps.Keys(took)) {
		b.Logf("%-20s %.2f s", name, took[name])
	}
	for metric, pair := range map[string][2]string{"x-plain": {"loading", "plain"}, "x-direct": {"loading", "direct"},
		"x-reading-warm": {"loading-warm", "reading-warm"}} {
		var list []float64
		for i, of := range took[pair[0]] {
			list = append(list, of/took[pair[1]][i])
		}
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], metric)
	}
	slices.Sort(took["loading"])
	b.ReportMetric(float64(size-largeTable)/took["loading"][b.N/2]/1e9, "GB/s-loading")
}

// loadLarge loads the folder and gives it back.
func loadLarge(b testing.TB, path string) {
	f, err := modelfile.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	loadOn(b, f, newCPU(b, cpu.Options{})).Close()
	f.Close()
}

// takeMemory takes n bytes of new memory in large pages, and gives them back.
func takeMemory(b testing.TB, n int) {
	memory, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Munmap(memory)
	if err := unix.Madvise(memory, unix.MADV_HUGEPAGE); err != nil {
		b.Fatal(err)
	}
	if err := unix.Madvise(memory, unix.MADV_POPULATE_WRITE); err != nil {
		b.Fatal(err)
	}
}

// processorTime is what this process has taken, in seconds.
func processorTime() (user, system float64) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0, 0
	}
	return float64(u.Utime.Nano()) / 1e9, float64(u.Stime.Nano()) / 1e9
}

// openLarge is the folder, written when it is not there, and the size of its tensors.
func openLarge(t testing.TB) (path string, size int64) {
	t.Helper()
	path = os.Getenv(largeFolder)
	if path == "" {
		t.Skip(largeFolder + " names no folder to write 2.4 GB to; takes half a minute")
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, shard := range largeShards {
		name := filepath.Join(path, shard.name)
		info, err := os.Stat(name)
		if err != nil {
			if err := shard.write(name); err != nil {
				t.Fatal(err)
			}
			info, err = os.Stat(name)
		}
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	where := map[string]string{}
	for _, shard := range largeShards {
		for _, x := range shard.tensors {
			where[x.name] = shard.name
		}
	}
	index, _ := json.Marshal(map[string]any{"weight_map": where})
	for name, text := range map[string][]byte{"config.json": []byte(largeConfig), "model.safetensors.index.json": index} {
		if err := os.WriteFile(filepath.Join(path, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path, size
}

const largeConfig = `{"model_type": "qwen3_5_moe_text", "hidden_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 16,
	"num_key_value_heads": 2, "head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
	"linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4, "num_experts": 64, "num_experts_per_tok": 8,
	"moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "vocab_size": 65536, "max_position_embeddings": 262144,
	"rms_norm_eps": 1e-6, "tie_word_embeddings": false,
	"rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10],
	"mrope_interleaved": true}}`

type largeTensor struct {
	name  string
	shape []int
}

// largeShard is a file of BF16 tensors.
type largeShard struct {
	name    string
	tensors []largeTensor
}

// largeTable is the size of the table of embeddings, the first tensor of the first file.
const largeTable = 65536 * 2048 * 2

// largeShards are the ends, and a file for each layer.
var largeShards = func() []largeShard {
	const hidden, vocab, experts, width = 2048, 65536, 64, 512
	all := []largeShard{{"ends.safetensors", []largeTensor{
		{"model.embed_tokens.weight", []int{vocab, hidden}}, {"model.norm.weight", []int{hidden}}, {"lm_head.weight", []int{vocab, hidden}}}}}
	for layer := range 4 {
		p := fmt.Sprintf("model.layers.%d.", layer)
		list := []largeTensor{{"input_layernorm.weight", []int{hidden}}, {"post_attention_layernorm.weight", []int{hidden}},
			{"mlp.gate.weight", []int{experts, hidden}}, {"mlp.shared_expert_gate.weight", []int{1, hidden}},
			{"mlp.shared_expert.gate_proj.weight", []int{width, hidden}}, {"mlp.shared_expert.up_proj.weight", []int{width, hidden}},
			{"mlp.shared_expert.down_proj.weight", []int{hidden, width}},
			{"mlp.experts.gate_up_proj", []int{experts, 2 * width, hidden}}, {"mlp.experts.down_proj", []int{experts, hidden, width}}}
		if layer == 3 {
			list = append(list, largeTensor{"self_attn.q_proj.weight", []int{2 * 16 * 256, hidden}},
				largeTensor{"self_attn.k_proj.weight", []int{512, hidden}}, largeTensor{"self_attn.v_proj.weight", []int{512, hidden}},
				largeTensor{"self_attn.o_proj.weight", []int{hidden, 16 * 256}},
				largeTensor{"self_attn.q_norm.weight", []int{256}}, largeTensor{"self_attn.k_norm.weight", []int{256}})
		} else {
			list = append(list, largeTensor{"linear_attn.in_proj_qkv.weight", []int{8192, hidden}},
				largeTensor{"linear_attn.in_proj_z.weight", []int{4096, hidden}}, largeTensor{"linear_attn.out_proj.weight", []int{hidden, 4096}},
				largeTensor{"linear_attn.in_proj_a.weight", []int{32, hidden}}, largeTensor{"linear_attn.in_proj_b.weight", []int{32, hidden}},
				largeTensor{"linear_attn.conv1d.weight", []int{8192, 1, 4}}, largeTensor{"linear_attn.A_log", []int{32}},
				largeTensor{"linear_attn.dt_bias", []int{32}}, largeTensor{"linear_attn.norm.weight", []int{128}})
		}
		for i := range list {
			list[i].name = p + list[i].name
		}
		all = append(all, largeShard{fmt.Sprintf("layer%d.safetensors", layer), list})
	}
	return all
}()

// write writes the file, of small numbers that repeat after some pages.
func (s largeShard) write(path string) error {
	header, at := map[string]any{}, 0
	for _, x := range s.tensors {
		n := 2
		for _, d := range x.shape {
			n *= d
		}
		header[x.name] = map[string]any{"dtype": "BF16", "shape": x.shape, "data_offsets": []int{at, at + n}}
		at += n
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	part := path + ".part"
	out, err := os.Create(part)
	if err != nil {
		return err
	}
	defer out.Close()
	w := bufio.NewWriterSize(out, 1<<20)
	w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(text))))
	w.Write(text)
	numbers := make([]byte, 1<<20+2)
	for i := 0; i < len(numbers); i += 2 {
		numbers[i], numbers[i+1] = byte(i*7+i>>9), 0x3c|byte(i>>3&1)<<7
	}
	for at > 0 {
		n, err := w.Write(numbers[:min(at, len(numbers))])
		if at -= n; err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// eachFile opens the files of the folder one after the other.
func eachFile(t testing.TB, path string, do func(f *os.File) error) {
	t.Helper()
	for _, shard := range largeShards {
		f, err := os.Open(filepath.Join(path, shard.name))
		if err == nil {
			err = do(f)
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// forget asks the system to keep nothing of the files in memory.
func forget(t testing.TB, path string) {
	eachFile(t, path, func(f *os.File) error {
		if err := f.Sync(); err != nil {
			return err
		}
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}

// beginning is where loading begins to read a file: behind the table of embeddings.
func beginning(f *os.File) int64 {
	if filepath.Base(f.Name()) == largeShards[0].name {
		return largeTable
	}
	return 0
}

// readAll reads the files in large pieces.
func readAll(t testing.TB, path string) {
	buffer := make([]byte, 4<<20)
	eachFile(t, path, func(f *os.File) error {
		if _, err := f.Seek(beginning(f), io.SeekStart); err != nil {
			return err
		}
		for {
			if _, err := f.Read(buffer); err != nil {
				if err == io.EOF {
					return nil
				}
				return err
			}
		}
	})
}

// readDirect reads the files past the system's memory, eight pieces of 2 MiB at a time.
func readDirect(t testing.TB, path string) {
	const piece, readers = 2 << 20, 8 // as engine/kernel/cpu has them
	memory, err := unix.Mmap(-1, 0, readers*piece+piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	if err := unix.Madvise(memory, unix.MADV_HUGEPAGE); err != nil {
		t.Fatal(err)
	}
	eachFile(t, path, func(f *os.File) error {
		direct, err := os.OpenFile(f.Name(), os.O_RDONLY|unix.O_DIRECT, 0)
		if err != nil {
			return err
		}
		defer direct.Close()
		var next atomic.Int64
		next.Store(beginning(f) / piece)
		var all sync.WaitGroup
		for i := range readers {
			all.Go(func() {
				for buffer := memory[i*piece:][:piece]; ; {
					if n, _ := direct.ReadAt(buffer, (next.Add(1)-1)*piece); n < piece {
						return
					}
				}
			})
		}
		all.Wait()
		return nil
	})
}

// resident is the memory of this process.
func resident(t testing.TB) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("the system does not say how much memory a process has")
	}
	pages, err := strconv.ParseInt(string(bytes.Fields(text)[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
