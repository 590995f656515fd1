// Package facts changes the workspace during calls. A gateway of real parts (the pipeline,
// policy, the desk, dispatch, the daemon's own tools, a store, a notary, the sandbox if
// available) receives calls of every tool. Between every two stages of a call its workspace is
// changed. Links are redirected and form cycles. Files and directories change places, also
// allowed ones with forbidden ones. Names change their case, and hard links are created and
// removed.
//
// A judge that does not use the gateway's own checks inspects the result of each call. Every
// file names itself in its first line, and forbidden content is only below forbidden paths.
// Each of these is a violation: a result with forbidden content; content that was never at the
// journaled path; an approval of another path; a program that is not the attested one.
//
// `make fuzz-facts TIME=1h` runs the package for an hour, and `make test` for ten seconds. SEED
// repeats a run: each worker has a separate workspace and generator of calls and changes, so
// that everything except the pace repeats. In the control, dispatch receives the judged facts
// instead of the current ones; a violation is then found within a minute. A third test shows
// that the judge detects each kind of violation.
package facts
