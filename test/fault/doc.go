// Package fault runs the real palyrad under faults: a full, slow or failing disk, a damaged store,
// exhausted file descriptors, SIGKILL. After each fault it compares the effects, the responses to
// clients, and the journal.
package fault
