// Package tune knows how the kernels are launched on a GPU, where more than one way is right and which is fastest depends
// on the device. The tables are in its folder tables, a file for each kind of device that was measured, and
// default.json for all others. corebench gpu --tune writes such a file.
package tune

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

//go:embed tables/*.json
var tables embed.FS

const (
	folder      = "tables"
	defaultFile = "default.json"
	blocksMax   = 1 << 12
)

// RowsAtOnce are the numbers of rows that products are compiled for.
var RowsAtOnce = []int{1, 4, 8}

// Shapes is how the kernels of one kind of device are launched.
type Shapes struct {
	// Device is the name that the driver gives it, "" in the table of all others.
	Device string `json:"device"`
	// AttentionBlocks is how many blocks attention of a step that decodes is cut into, if it can. The order in which parts of
	// a row are summed depends on it, and so do bits.
	AttentionBlocks int `json:"attention_blocks"`
	// GroupBlocks is how many blocks share the tiles of a product by groups of warps.
	GroupBlocks int `json:"group_blocks"`
	// RowsAtOnce are the numbers of rows that a block of a product takes in steps that decode, rising: the smallest that a step fits
	// in, else the largest.
	RowsAtOnce []int `json:"rows_at_once"`
}

// Validate names everything that no kernel can do.
func (s Shapes) Validate() error {
	var errs []error
	for name, n := range map[string]int{"attention_blocks": s.AttentionBlocks, "group_blocks": s.GroupBlocks} {
		if n < 1 || n > blocksMax {
			errs = append(errs, fmt.Errorf("%s is %d, want 1 to %d", name, n, blocksMax))
		}
	}
	known := func(n int) bool { return slices.Contains(RowsAtOnce, n) }
	if len(s.RowsAtOnce) == 0 || slices.ContainsFunc(s.RowsAtOnce, func(n int) bool { return !known(n) }) ||
		!slices.IsSorted(s.RowsAtOnce) || len(slices.Compact(slices.Clone(s.RowsAtOnce))) != len(s.RowsAtOnce) {
		errs = append(errs, fmt.Errorf("rows_at_once is %v, want some of %v, rising", s.RowsAtOnce, RowsAtOnce))
	}
	return errors.Join(errs...)
}

// For is the table of a device, by the name that the driver gives it.
func For(device string) Shapes {
	all, err := read()
	if err != nil {
		panic(err) // they are part of the program, and a test reads them
	}
	other := Shapes{}
	for _, s := range all {
		if s.Device == "" {
			other = s
		} else if strings.EqualFold(s.Device, device) {
			return s
		}
	}
	return other
}

// read returns all tables.
func read() (all []Shapes, err error) {
	files, err := tables.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := tables.ReadFile(folder + "/" + f.Name())
		if err != nil {
			return nil, err
		}
		s, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		if (s.Device == "") != (f.Name() == defaultFile) {
			return nil, fmt.Errorf("%s: device is %q, want none in %s and one in all others", f.Name(), s.Device, defaultFile)
		}
		all = append(all, s)
	}
	return all, nil
}

// Parse reads a table.
func Parse(text []byte) (s Shapes, err error) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, err
	}
	return s, s.Validate()
}
