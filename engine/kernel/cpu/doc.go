// Package cpu is the kernel.Backend for CPUs: portable Go, and assembly for
// amd64 at three levels (avx2, avx512vnni and amx) and for arm64 at two (neon and
// dotprod), chosen once when a Backend is made. All levels read the same packed
// weights. Level amx is avx512vnni with matrix tiles for many rows; their results
// are bit-equal, and so are those of dotprod and neon.
//
// # Weights
//
// A matrix is cut into panels of 32 output rows (the last one padded with
// zeros), so that one vector register holds one input column of 16 or 8 rows
// and no kernel ever adds across lanes.
//
// Quantized panels are a run of steps of 64 input columns:
//
//	[scales: f16 x 32 rows, per group][codes]
//
// except that those of the K-quants come in superblocks of four steps, with the
// scales and minima of all four first, packed as in the file (superblock.go draws
// them). So a panel takes as many bytes as its rows take in the file.
//
// The codes of four adjacent columns of a row are adjacent bytes: 32 rows x 4
// bytes make one 128-byte line of a column group. Nibbles of rows r and r+16
// share a byte, in lines of 64: both meet the same activation, so that a product
// of one row takes the upper ones from the products with whole bytes.
// A code c means scale·(c-offset) - min:
//
//	layout  from   group  offset  bytes per step
//	code8   Q8_0   32     128     2176
//	code6   Q6_K   16     32      1680, a quarter of a superblock
//	code5m  Q5_K   32     0, min  1408, the same
//	code4   Q4_0   32     8       1152
//	code4m  Q4_K   32     0, min  1152, the same
//
// The bits of 5- and 6-bit codes above the nibble follow in a plane of their
// own: the bits of column groups 0, 1, ... of a block, from the low end of a
// byte on, in one line (5 bits) or two (6 bits).
//
// F32, F16 and BF16 panels are [column][32 rows] in the type of the file.
//
// # Activations
//
// Rows of x are taken in tiles of 8; the last tile is padded to 1, 2, 4 or 8.
// For quantized weights each row is quantized in blocks of 32 and stored as
// [step][row of the tile] records of 128 bytes: 64 int8 codes, then per block
// the scale d, -128·Σcodes, -8·Σcodes and d·Σcodes, then per half block
// -32·Σcodes, so that the offsets and minima of weights cost one instruction.
// For float weights a tile is [column][row of the tile] float32.
//
// Level amx takes 9 to 16 rows in one tile of 16, padded. Matrix tiles read the
// codes of code8 as they lie in memory, first those of 16 outputs of a panel, then
// of the others, so that 16 x 16 sums stay in vector registers; other layouts
// compute the two halves of the tile one after the other.
//
// Level avx512vnni computes 128 and more rows in bands of 6, from panels that are
// taken apart as below. Codes of activations are 128 more than their number, and
// integer sums begin at -128·Σ of the weights' codes, which unpacking finds.
//
// Level amx computes 17 and more rows in bands of 12, the last of which may be
// partly empty; with fewer, reading takes most of the time and the kernels that
// need no panel taken apart are faster. A band is, per step, [row] 64 codes,
// then [row] 16 bytes: the two scales d and the two d·Σcodes. For each panel, a
// block of bands that fits in the second cache passes through up to 512 columns
// of it at a time, which are taken apart once into signed codes and float32
// scales. A matrix tile then makes the integer products of a group of columns, a
// band x 16 outputs. They pass through memory in the nearest cache on their way
// to the sums, which stay in vector registers: tiles cannot scale. While tile
// instructions run, one of the two ports for wide floating-point instructions
// adds and does nothing else. So the integers are made to look like float32 of
// 1.5·2^23 more, and become float32 by a subtraction there, exactly; the bound is
// what is left on the other port, two multiplications for 16 outputs of a group.
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
// [16][headDim], headDim rounded up to 32, in float16, float32 or as int8 codes.
// Codes of K, and of V, are followed by their float16 scales, [headDim/32][16
// positions]: a position's codes and scales depend on nothing but its values, so
// pages fill position by position. Where V is K, the tile is V alone (latent.go).
//
// A score is the sum over headDim, in order; with codes, of blocks of 32, each
// summed in order and then multiplied by its scale. Values are summed over
// positions, in order, each times its probability (times its scale, with codes).
// Attention runs over ranges of 512 positions; the ranges' results are folded in
// order, whoever computed them. Few queries read tiles as they lie, and ask memory
// for those they will read next; from 24 queries of a span and KV head on, a range
// is converted to float32 once for all of them. Both sum alike, to the last bit.
//
// At level avx512vnni a row of a prompt takes ranges with at least eight between them and its
// own from integers of 16 bits (attention_words.go); with quantized weights and heads of 64 or
// more columns all ranges before its own, and within that the blocks of 64 positions before its
// block. Of these the error is at most 2^-11 of the sum of weights times sizes of V.
//
// # Recurrent state
//
// A slot is the convolution's last inputs, [layer][ConvKernel-1][ConvDim],
// oldest first, and the matrices [layer][V head][Dim/16][dk][16]. A span that
// saves states copies each piece of them while it is in the nearest cache.
//
// A span is cut at absolute positions that are multiples of 64. A piece of at
// least 16 rows is computed as one chunk: within it the changes of the state solve a
// triangular system, and the rest is products of small float32 matrices. A
// shorter piece is computed row by row, and so is every row of a span that
// saves states or of heads whose dimension is no multiple of 32. Position and
// length of the span alone decide; the two forms differ by rounding (about 1e-6
// of the largest output). So a prefill that is cut at multiples of 64 gives
// the bits of one that is not cut, and a chunk's rows are the same wherever it
// ends.
//
// Decays within a chunk are e to differences of running sums of logarithms, never
// quotients. On amd64 numbers below the normal ones count as zero in these kernels; neon and
// portable keep them.
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
// others or for what runs between two products, prefetches what it will begin
// the next product with: the first piece of every product is kept for it, and
// which product follows which is learned from the step before.
package cpu
