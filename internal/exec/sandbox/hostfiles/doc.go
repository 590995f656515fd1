// Package hostfiles lists the entries of the host's /etc that every program in a sandbox may see.
package hostfiles
