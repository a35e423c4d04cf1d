package eager

import (
	"testing"

	"corenode/engine/kernel/cuda/devicetest"
)

func TestKernelsAreWhatWasCompiled(t *testing.T) { devicetest.WantCompiled(t, "kernels") }

func TestKernelsUseNoStack(t *testing.T) { devicetest.WantNoStack(t, "kernels", images(), 128, 2) }
