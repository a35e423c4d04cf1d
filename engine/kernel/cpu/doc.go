// Package cpu is the kernel.Backend for CPUs: portable Go, and assembly for
// amd64 at two levels (avx2 and avx512vnni), chosen once when a Backend is
// made. All levels read the same packed weights.
//
// # Weights
//
// A matrix is cut into panels of 32 output rows (the last one padded with
// zeros), so that one vector register holds one input column of 16 or 8 rows
// and no kernel ever adds across lanes.
//
// Quantized panels are a run of steps of 64 input columns:
//
//	[scales: f16 x 32 rows, per group][mins: f16 x 32 rows, per group][codes]
//
// The codes of four adjacent columns of a row are adjacent bytes: 32 rows x 4
// bytes make one 128-byte line of a column group. 4-bit codes put column
// groups j and j+4 of a 32-column block in the low and high half of a byte.
// A code c means scale·(c-offset) - min:
//
//	layout  from   group  offset  bytes per step
//	code8   Q8_0   32     128     2176
//	code6   Q6_K   16     32      1792
//	code5m  Q5_K   32     0, min  1536
//	code4   Q4_0   32     8       1152
//	code4m  Q4_K   32     0, min  1280
//
// The bits of 5- and 6-bit codes above the nibble follow in a plane of their
// own: the bits of column groups 0, 1, ... of a block, from the low end of a
// byte on, in one line (5 bits) or two (6 bits).
//
// F32, F16 and BF16 panels are [column][32 rows] in the type of the file.
//
// # Activations
//
// Rows of x are taken in tiles of 6; the last tile is padded to 1, 2, 4 or 6.
// For quantized weights each row is quantized in blocks of 32 and stored as
// [step][row of the tile] records of 128 bytes: 64 int8 codes, then per block
// the scale d, -128·Σcodes, -8·Σcodes and d·Σcodes, then per half block
// -32·Σcodes, so that the offsets and minima of weights cost one instruction.
// For float weights a tile is [column][row of the tile] float32.
//
// # Order of summation
//
// An output is the sum over blocks, in order, of an exact integer times the
// two scales; over columns, in order, for float weights. Nothing depends on
// the tile a row is in, so results are bit-equal for any number of rows and
// threads. They may differ between levels.
//
// # Attention pages
//
// A page is [layer][KV head][tile of 16 positions] of K [headDim][16] then V
// [headDim/16][16 positions][16], in float16 or float32, headDim rounded up to
// 16. Attention runs over ranges of 512 positions; the ranges' results are
// folded in order, whoever computed them.
//
// # Recurrent state
//
// A slot is the convolution's last inputs, [layer][ConvKernel-1][ConvDim],
// oldest first, and the matrices [layer][V head][Dim/16][dk][16].
//
// # Threads
//
// A Backend owns Threads-1 locked OS threads that claim pieces of each
// operation together with the caller, spin a fraction of a millisecond for the
// next one, then park. Close stops them.
//
// # Decode
//
// A step of one row is limited by reading the weights once. Four panels are
// read at a time (one stream per thread does not keep enough lines on their
// way), from huge pages where the system has them. A thread that waits, for the
// others or for what runs between two products, reads ahead what it will begin
// the next product with: the first piece of every product is kept for it, and
// which product follows which is learned from the step before.
package cpu
