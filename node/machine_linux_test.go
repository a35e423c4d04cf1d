package main

import (
	"os"
	"testing"
)

// TestMachineTime reads what Linux says of the processors.
func TestMachineTime(t *testing.T) {
	busy, stolen := parseMachineTime("cpu  10 20 30 400 50 6 7 8 0 0\ncpu0 1 2 3\n")
	if busy.Milliseconds() != 730 || stolen.Milliseconds() != 80 {
		t.Errorf("busy %v, stolen %v", busy, stolen)
	}
	for _, text := range []string{"", "cpu 1 2", "intr 1 2 3 4 5 6 7 8 9", "cpu a b c d e f g h i"} {
		if busy, stolen := parseMachineTime(text); busy != 0 || stolen != 0 {
			t.Errorf("of %q: %v, %v", text, busy, stolen)
		}
	}
	if busy, _ := machineTime(os.DirFS("/")); busy == 0 || processTime() == 0 {
		t.Errorf("this machine: %v, this process %v", busy, processTime())
	}
}
