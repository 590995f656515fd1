// Package attack holds the attacks that Palyra's sandbox and gateway have to
// withstand. The catalogue names them; each is tried against the whole product
// and must fail without a trace. Where several walls stand in its way, it is
// tried against each wall alone. As the negative control it is tried once more
// without them, where the very same probe must succeed: an attack that cannot
// succeed proves nothing. A row that cannot be tried is an error.
//
// The sandbox's rows run once with palyrad as whoever runs the tests and, where
// that is root, once more as an ordinary user. The matrix of outcomes is
// printed at the end of the run.
package attack
