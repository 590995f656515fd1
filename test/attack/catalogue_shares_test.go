//go:build linux

package attack

import "strings"

// shareRows are ISO-01 to ISO-04: what all runs of a machine share, such as blocks of a disk that
// no limit counts, and what the kernel says about the others.
func shareRows() []row {
	const shared = "exhaustion of what runs share"
	var rows []row
	for _, r := range []struct{ id, variant, probe string }{
		{"ISO-01", "fallocate", "allocate plain"},
		{"ISO-01", "fallocate beyond the end", "allocate keep"},
		{"ISO-01", "fallocate of zeros", "allocate zero"},
		{"ISO-01", "FS_IOC_RESVSP", "allocate ioctl"},
		{"ISO-01", "FS_IOC_RESVSP64", "allocate ioctl64"},
		{"ISO-01", "FS_IOC_ZERO_RANGE", "allocate ioctl-zero"},
		{"ISO-02", "io_setup", "asynchronous"},
		{"ISO-03", "a pipe of 1 MiB", "large-pipe"},
		{"ISO-03", "a pipe of 1 MiB, high bits set", "large-pipe high"},
	} {
		rows = append(rows, row{id: r.id, variant: r.variant, source: shared, walls: layers(seccomp), probe: strings.Fields(r.probe)})
	}
	for _, entry := range []string{"/proc/interrupts", "/proc/softirqs", "/proc/schedstat", "/proc/iomem", "/proc/ioports"} {
		rows = append(rows, row{id: "ISO-04", variant: entry, entry: entry, source: "activity of other runs", walls: layers(procMasks), probe: probe("proc-entry", entry)})
	}
	return rows
}
