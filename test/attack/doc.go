// Package attack has the attacks that Palyra's sandbox and gateway must withstand. The
// catalogue lists them. Each attack is made against the whole product and must fail without
// effect. If several layers block it, it is also made against each layer alone. As the negative
// control it is made without these layers, where the same probe must succeed. Without this
// control, a failure could mean that the attack never works. A row that cannot run is an error.
//
// The rows of the sandbox run with palyrad as the user of the tests. If that user is root, they
// also run as an ordinary user. The matrix of outcomes is printed at the end of the run.
package attack
