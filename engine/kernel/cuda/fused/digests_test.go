package fused

import (
	"testing"

	"corenode/engine/kernel/cuda/devicetest"
)

func TestKernelsAreWhatWasCompiled(t *testing.T) { devicetest.WantCompiled(t, "kernels", images()) }

func TestTheArchiveHoldsWhatTheSourcesName(t *testing.T) {
	devicetest.WantImages(t, "kernels", images())
}

func TestKernelsUseNoStack(t *testing.T) { devicetest.WantNoStack(t, "kernels", 128) }
