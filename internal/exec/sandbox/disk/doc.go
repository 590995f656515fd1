// Package disk limits the writes of a run to the layer over its workspace, reserves space on the
// daemon's own disk, and removes trees that programs created. Such a tree is hostile: names of
// any bytes, modes that exclude its owner, paths beyond the length limit of system calls, links
// to any target. All functions go from directory to directory by descriptors, follow no link and
// never enter another file system.
package disk
