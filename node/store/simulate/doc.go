// Package simulate has a discrete simulation of many nodes that share one database: nodes, links,
// clocks and the database fail at random, from a seed, and after each step the promises of the
// protocol are held against what is true. It is all tests; DESIGN.md of the folder above says what they prove.
package simulate
