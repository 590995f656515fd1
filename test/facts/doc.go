// Package facts changes the world under calls. A gateway of real parts (the
// pipeline, policy, the desk, dispatch, the daemon's own tools, a store, a
// notary, the sandbox where there is one) takes calls of every tool, and
// between every two stages of a call its workspace is changed: links are turned
// and led in circles, files and directories change places, allowed ones with
// forbidden ones, names change their case, hard links come and go.
//
// A judge who knows nothing of the gateway's own checks looks at what came of
// each call. Every file says in its first line which one it is, and content
// that policy forbids stands under forbidden paths alone, whatever else moves.
// So it is a violation when a result holds forbidden content; when what was
// read, or written, was never at the path that the journal says was judged; when
// an answer of people was about another path; and when a program ran that is not
// the one that is attested.
//
// `make fuzz-facts TIME=1h` runs it for an hour, `make test` for half a minute.
// SEED repeats a run: each worker has a workspace of its own and takes its calls
// and changes from a generator of its own, so that all but the pace repeats. The
// control shows dispatch the facts that were judged, whatever is there when a
// call is to run; then a violation is found within a minute. A third test shows that the judge sees each kind of
// violation.
package facts
