package modelfile

import (
	"fmt"
	"regexp"
)

// splitName is how the parts of a split model are named: stem, number from 1, count.
var splitName = regexp.MustCompile(`^(.*-)(\d{5})(-of-\d{5}\.gguf)$`)

// partsMax bounds the files of one model.
const partsMax = 4096

// splits is how many parts the model has, as this file says.
func (f *File) splits() uint64 {
	n, err := f.Uint("split.count")
	if err != nil {
		return 1
	}
	return n
}

// join adds the other parts of a split model to the one at path. The metadata is that
// of the first part.
func (f *File) join(path string) error {
	n := f.splits()
	if n <= 1 {
		return nil
	}
	name := splitName.FindStringSubmatch(path)
	want := fmt.Sprintf("-of-%05d.gguf", n)
	if n > partsMax || name == nil || name[3] != want {
		return fmt.Errorf("it is one of %d parts of a split model, whose names must end in -00001%s", n, want)
	}
	if no, err := f.Uint("split.no"); err != nil || no != 0 || name[2] != "00001" {
		return fmt.Errorf("it is not the first part of a split model, which is %s00001%s", name[1], want)
	}
	for i := uint64(1); i < n; i++ {
		if err := f.joinPart(fmt.Sprintf("%s%05d%s", name[1], i+1, want), i, n); err != nil {
			return err
		}
	}
	if count, err := f.Uint("split.tensors.count"); err == nil && count != uint64(len(f.tensors)) {
		return fmt.Errorf("its %d parts have %d tensors, split.tensors.count is %d", n, len(f.tensors), count)
	}
	return nil
}

func (f *File) joinPart(path string, i, n uint64) error {
	m, err := mapFile(path)
	if err != nil {
		return err
	}
	f.parts = append(f.parts, &part{mapping: m}) // Close gives it back, whatever comes
	g, err := parse(path, m.data)
	if err != nil {
		return fmt.Errorf("part %s: %w", path, err)
	}
	no, err := g.Uint("split.no")
	if err != nil || no != i || g.splits() != n {
		return fmt.Errorf("part %s says that it is number %d of %d, counted from 0", path, no, g.splits())
	}
	p := f.parts[len(f.parts)-1]
	p.body, p.stored = g.parts[0].body, g.parts[0].stored
	for _, t := range g.tensors {
		if f.byName[t.Name] != nil {
			return fmt.Errorf("part %s: tensor %q appears twice", path, t.Name)
		}
		f.byName[t.Name] = t
		f.tensors = append(f.tensors, t)
	}
	return nil
}
