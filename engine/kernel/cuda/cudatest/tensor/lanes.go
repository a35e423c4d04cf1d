package tensor

// Place is an element of a matrix: its row and its column.
type Place struct{ Row, Column int }

// AtA is where element i of register r of a lane lies in A of mma.sync
// (m16 x k). bytes is the size of an element; a register has 4/bytes of them.
func AtA(lane, r, i, bytes int) Place {
	per := 4 / bytes
	return Place{lane/4 + 8*(r&1), per*(lane%4) + 4*per*(r>>1) + i}
}

// AtB is where element i of register r of a lane lies in B (k x n8).
func AtB(lane, r, i, bytes int) Place {
	per := 4 / bytes
	return Place{per*(lane%4) + 4*per*r + i, lane / 4}
}

// AtC is where value i of a lane lies in C and D (m16 x n8). Two f16 values
// share a register in the same order.
func AtC(lane, i int) Place {
	return Place{lane/4 + 8*(i>>1), 2*(lane%4) + i&1}
}

// AtWideA is where element i of register r lies in A of wgmma (m64 x k) when A
// comes from registers. thread counts the 128 threads of a warpgroup.
func AtWideA(thread, r, i, bytes int) Place {
	p := AtA(thread%32, r, i, bytes)
	p.Row += 16 * (thread / 32)
	return p
}

// AtWideD is where value i of a thread lies in D of wgmma (m64 x n).
func AtWideD(thread, i int) Place {
	p := AtC(thread%32, i%4)
	return Place{p.Row + 16*(thread/32), p.Column + 8*(i/4)}
}

// AtMatrix is where element i of a lane's register lies in the 8 x 8 matrix of
// 16-bit elements that ldmatrix or stmatrix moves, with and without .trans.
func AtMatrix(lane, i int, transposed bool) Place {
	if transposed {
		return Place{2*(lane%4) + i, lane / 4}
	}
	return Place{lane / 4, 2*(lane%4) + i}
}
