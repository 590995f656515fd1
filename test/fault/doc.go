// Package fault runs the real palyrad while something goes wrong under it: a
// full disk, a slow one, one that fails, a damaged store, no more file
// descriptors, SIGKILL. After each fault it holds three things against each
// other: what had an effect, what clients were told, and what the journal says.
package fault
