package wide

import (
	"regexp"
	"testing"

	"corenode/engine/kernel/cuda/devicetest"
)

// kernelOf is the kernel that a line about an instruction begins with.
func kernelOf(line string) string { return regexp.MustCompile(`^\w+`).FindString(line) }

func TestKernelsAreWhatWasCompiled(t *testing.T) { devicetest.WantCompiled(t, "kernels", images()) }

func TestTheArchiveHoldsWhatTheSourcesName(t *testing.T) {
	devicetest.WantImages(t, "kernels", images())
}

func TestKernelsUseNoStack(t *testing.T) { devicetest.WantNoStack(t, "kernels", 240) }
